"""The lab from its command line: what it leaves, what the store says of it to another process, and what it refuses.

The embedded store always; a real tracking server, with SQLite and with PostgreSQL behind it, where lessons are proven.
"""

import contextlib
import hashlib
import importlib.util
import json
import os
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import tempfile
import time
import urllib.request
from fractions import Fraction
from pathlib import Path

import jsonschema
import pytest

from course.starter import starter
from tests.conftest import ROOT

FOLDER = ROOT / "projects" / "engineering-release"
SOLUTION = FOLDER / "solution" / "engineering.py"
SCHEMA = json.loads((FOLDER / "release.schema.json").read_text(encoding="utf-8"))
QUIET = {"MLFLOW_DISABLE_TELEMETRY": "true", "MLFLOW_DISABLE_AGENT_HINT": "1", "JAX_PLATFORMS": "cpu"}
# What differs from run to run and from store to store; everything else is the same.
LOCAL = {"tracking_uri", "experiment_id", "run_ids", "run_id", "trace_id"}


def lab(*words):
    """Run the lab; nothing it prints is lost."""
    return subprocess.run(
        [sys.executable, str(FOLDER / "mlflow_lab.py"), *map(str, words)],
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
        env={**os.environ, **QUIET},
    )


def tree(folder):
    """Every file below a folder with its digest and time."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return [(path.relative_to(folder), hashlib.sha256(path.read_bytes()).hexdigest(), path.stat().st_mtime_ns) for path in files]


@pytest.fixture(scope="module")
def released(tmp_path_factory):
    """One release with the reference, in an embedded store: folder and what was printed."""
    folder = tmp_path_factory.mktemp("lab") / "a release"
    done = lab("--output", folder, "--implementation", "solution")
    assert done.returncode == 0, done.stderr
    return folder, done.stdout


@pytest.fixture(scope="module")
def record(released):
    return json.loads((released[0] / "release.json").read_text(encoding="utf-8"))


# --- the record and what it speaks of


def test_the_record_is_as_the_schema_says(record):
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    jsonschema.validate(record, SCHEMA)


@pytest.mark.parametrize("field", SCHEMA["required"])
def test_a_record_without_a_field_is_no_record(record, field):
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({name: value for name, value in record.items() if name != field}, SCHEMA)


@pytest.mark.parametrize(
    "change",
    [
        {"champion_version": "champion"},
        {"champion_version": "2"},
        {"model_sha256": "model.json"},
        {"data_sha256": None},
        {"span_count": 1},
        {"trace_count": 0},
        {"refused": [{"version": 3, "reasons": []}]},
        {"tracking_uri": "https://user:secret@example.org"},
        {"validation_mse": -1},
        {"scope": []},
        {"verdict": "PASS"},
    ],
    ids=str,
)
def test_a_record_that_says_too_little_is_no_record(record, change):
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**record, **change}, SCHEMA)


def test_the_numbers_are_those_of_the_closed_form(record):
    def by_hand(rate, inputs, updates=30, slope=2, intercept=1):
        """Each update multiplies the errors of weight and bias by fixed factors, because the training inputs are centered."""
        weight, bias = -slope * (1 - 4 * rate) ** updates, -intercept * (1 - 2 * rate) ** updates
        return float(sum((weight * x + bias) ** 2 for x in inputs) / len(inputs))

    slow, fast = Fraction(2, 100), Fraction(15, 100)
    validation = [Fraction(x, 2) for x in (-3, -1, 1, 3)]
    test = [Fraction(x, 4) for x in (-5, -1, 3, 7)]
    assert by_hand(slow, validation) == pytest.approx(0.11994460712951291, rel=1e-12)
    assert record["validation_mse"] == pytest.approx(by_hand(fast, validation), abs=1e-8)
    assert record["test_mse"] == pytest.approx(by_hand(fast, test), abs=1e-8)
    assert (record["champion_version"], record["versions"]) == (2, [1, 2, 3])
    assert record["refused"] == [
        {"version": 3, "reasons": ["fitted to other data", "error above the limit", "not better than the champion"]}
    ]


def test_the_model_is_the_one_that_the_record_names(released, record):
    content = (released[0] / "model.json").read_bytes()
    assert hashlib.sha256(content).hexdigest() == record["model_sha256"]
    model = json.loads(content)
    assert model["weight"] == pytest.approx(2, abs=1e-3)
    assert model["bias"] == pytest.approx(1, abs=1e-3)
    test = [-1.25, -0.25, 0.75, 1.75]
    again = sum((model["weight"] * x + model["bias"] - (2 * x + 1)) ** 2 for x in test) / 4
    assert record["test_mse"] == pytest.approx(again, rel=1e-9)
    assert record["note"] == (
        f"Version 2 of line-fit: validation error {record['validation_mse']}, test error {record['test_mse']}."
    )


def test_what_it_prints_and_leaves(released, record):
    folder, printed = released
    lines = printed.splitlines()
    assert lines[-1] == f"record: {folder / 'release.json'}"
    assert [line for line in lines if line.startswith("version 3")][1].endswith(
        "refused: fitted to other data; error above the limit; not better than the champion"
    )
    assert {path.name for path in folder.iterdir()} == {"runs.db", "artifacts", "model.json", "release.json"}


READ_BACK = """
import json, sys
sys.path.insert(0, sys.argv[3])
import tracking
uri, record = sys.argv[1], json.load(open(sys.argv[2], encoding="utf-8"))
addresses = sys.argv[4:]
import mlflow
mlflow.set_tracking_uri(uri)
client = mlflow.MlflowClient(uri)
name = record["name"]
runs = [client.get_run(run_id) for run_id in record["run_ids"]]
versions = [client.get_model_version(name, str(version)) for version in record["versions"]]
traces = client.search_traces(locations=[record["experiment_id"]])
json.dump({
    "alias": int(client.get_registered_model(name).aliases[record["alias"]]),
    "run of the version": client.get_model_version(name, str(record["champion_version"])).run_id,
    "runs": [[run.info.run_name, run.info.status, run.data.params, run.data.metrics] for run in runs],
    "curves": [[[p.step, p.value] for p in client.get_metric_history(run.info.run_id, "train_mse")] for run in runs],
    "tags": [version.tags for version in versions],
    "bytes": [tracking.fetch(name, version).decode() for version in record["versions"]],
    "predicts": mlflow.pyfunc.load_model(f"models:/{name}@{record['alias']}").predict([0.0, 2.0]),
    "signature": str(mlflow.models.get_model_info(f"models:/{name}/1").signature),
    "traces": [[trace.info.trace_id, sorted(span.name for span in trace.data.spans)] for trace in traces],
    "prompt": client.load_prompt(f"{name}-note", version=record["prompt_version"]).template,
    "addresses": [tracking.without_secrets(one) for one in addresses],
    "pickles": [one.path for one in mlflow.artifacts.list_artifacts(f"models:/{name}/1") if one.path.endswith("pkl")],
}, sys.stdout)
"""


ADDRESSES = {
    "http://me:secret@example.org:5000/x": "http://example.org:5000/x",
    "postgresql://me@db/runs": "postgresql://db/runs",
    "sqlite:////a/b@c.db": "sqlite:////a/b@c.db",
    "http://127.0.0.1:1": "http://127.0.0.1:1",
}


def read_back(uri, record_path):
    """What a new process finds in the store. It also shows how addresses are recorded: without users and passwords."""
    done = subprocess.run(
        [sys.executable, "-c", READ_BACK, uri, str(record_path), str(FOLDER), *ADDRESSES],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
        env={**os.environ, **QUIET},
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def agrees(found, record):
    """The store and the record say the same."""
    assert found["alias"] == record["champion_version"] == 2
    assert found["run of the version"] == record["run_id"] == record["run_ids"][1]
    names, states, params, metrics = zip(*found["runs"], strict=True)
    assert names == ("rate 0.02", "rate 0.15", "lost labels")
    assert set(states) == {"FINISHED"}
    assert [one["rate"] for one in params] == ["0.02", "0.15", "0.02"]
    assert {one["code_sha256"] for one in params} == {record["code_sha256"]}
    # The honest runs saw one data set, the third another.
    assert [one["data_sha256"] == record["data_sha256"] for one in params] == [True, True, False]
    assert metrics[1]["validation_mse"] == record["validation_mse"]
    assert metrics[1]["test_mse"] == record["test_mse"]
    assert [list(one) for one in metrics].count(["train_mse", "validation_mse"]) == 2, "the test split was read for another run"
    assert metrics[2]["train_mse"] == 0
    for curve in found["curves"]:
        assert sorted(step for step, _ in curve) == list(range(1, 31))
    digests = [hashlib.sha256(content.encode()).hexdigest() for content in found["bytes"]]
    assert [tags["model_sha256"] for tags in found["tags"]] == digests
    assert digests[1] == record["model_sha256"]
    assert ["refused" in tags for tags in found["tags"]] == [False, False, True]
    assert found["predicts"] == pytest.approx([1, 5], abs=1e-3)
    assert "double" in found["signature"]
    assert found["traces"] == [[record["trace_id"], ["evaluate", "predict", "score"]]]
    assert "{{version}}" in found["prompt"]
    assert found["pickles"] == []
    assert found["addresses"] == list(ADDRESSES.values())


def test_another_process_finds_the_same_in_the_store(released, record):
    agrees(read_back(record["tracking_uri"], released[0] / "release.json"), record)


def test_the_database_says_the_same_without_mlflow(released, record):
    with contextlib.closing(sqlite3.connect((released[0] / "runs.db").as_uri() + "?mode=ro", uri=True)) as database:
        (alias,) = database.execute("select version from registered_model_aliases where name = 'line-fit'").fetchone()
        rows = database.execute(
            "select step, value from metrics where run_uuid = ? and key = 'train_mse' order by step", [record["run_id"]]
        ).fetchall()
    assert int(alias) == record["champion_version"]
    assert [step for step, _ in rows] == list(range(1, 31))
    # After the first update with rate 0.15: errors of weight and bias times 0.4 and 0.7, the mean of the squared inputs is 2.
    assert rows[0][1] == pytest.approx(2 * (2 * 0.4) ** 2 + 0.7**2, rel=1e-5)


# --- what it refuses


def test_a_folder_that_holds_a_release_is_not_touched(released):
    before = tree(released[0])
    done = lab("--output", released[0], "--implementation", "solution")
    assert (done.returncode, done.stdout) == (2, "")
    assert "holds something already" in done.stderr
    assert tree(released[0]) == before


def test_a_folder_with_one_file_of_somebodys_and_a_file_in_place_of_a_folder(tmp_path):
    (tmp_path / ".note").write_text("mine")
    for place in (tmp_path, tmp_path / ".note"):
        done = lab("--output", place, "--implementation", "solution")
        assert (done.returncode, done.stdout) == (2, "")
    assert (tmp_path / ".note").read_text() == "mine"
    assert [path.name for path in tmp_path.iterdir()] == [".note"]


def test_wrong_arguments_touch_nothing(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as nobody:
        closed = nobody.getsockname()[1]
    for words in (
        ["--tracking-uri", f"http://127.0.0.1:{closed}"],
        ["--implementation", str(tmp_path / "nowhere.py")],
        ["--no-such-option"],
    ):
        done = lab("--output", tmp_path / "out", "--implementation", "solution", *words)
        assert (done.returncode, done.stdout) == (2, ""), words
        assert done.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_python_without_the_libraries_is_told_so(tmp_path):
    # Without site-packages, and in a mode in which a script's folder is not searched: so it is named.
    start = "import sys; sys.path.insert(0, sys.argv[1]); import mlflow_lab; sys.exit(mlflow_lab.main(sys.argv[2:]))"
    words = ["--output", str(tmp_path / "out"), "--implementation", "solution"]
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", start, str(FOLDER), *words], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert "this Python has no" in done.stderr
    assert not (tmp_path / "out").exists()


def test_help_says_what_it_leaves_and_how_it_ends():
    said = lab("--help").stdout
    for word in ("release.json", "model.json", "exit codes", "mlflow server", "service.py"):
        assert word in said


def test_an_unfinished_module_is_named_and_no_record_is_written(tmp_path):
    unfinished = tmp_path / "engineering.py"
    source = starter(SOLUTION.read_text(encoding="utf-8"), "engineering.py", "engineering-release").source
    unfinished.write_text(source, encoding="utf-8")
    done = lab("--output", tmp_path / "out", "--implementation", unfinished)
    assert done.returncode == 1
    assert "mlflow_lab: data_digest: NotImplementedError: hash dtype" in done.stderr
    assert f"({unfinished.name}, line " in done.stderr
    assert not (tmp_path / "out" / "release.json").exists()


WRONG = {
    # The zero model is promoted: the store, asked for the best run on this data, contradicts.
    "a gate that never refuses": ("def refusals(candidate, champion, terms):\n    return ()", "ranks"),
    # Nothing is good enough.
    "a gate that always refuses": ("def refusals(candidate, champion, terms):\n    return (ABOVE_LIMIT,)", "nothing is released"),
    "a curve that is read wrongly": (
        "def read_curve(client, run_id, updates):\n    return [0.0] * updates",
        "not the one that was logged",
    ),
    "a record without the data": (
        "_record = release_record\n\n\ndef release_record(*words):\n    found = _record(*words)\n    del found['data_sha256']\n    return found",
        "gave no data_sha256",
    ),
    "an origin that is another's": (
        "def trace_back(client, name, fetch, content):\n    return {'run_id': client.get_model_version(name, '1').run_id}",
        "lead back to",
    ),
}


@pytest.mark.lessons
@pytest.mark.parametrize("wrong", WRONG)
def test_what_contradicts_itself_is_not_released(tmp_path, wrong):
    code, said = WRONG[wrong]
    module = tmp_path / "engineering.py"
    module.write_text(f"{SOLUTION.read_text(encoding='utf-8')}\n\n{code}\n", encoding="utf-8")
    done = lab("--output", tmp_path / "out", "--implementation", module)
    assert (done.returncode, said in done.stderr) == (1, True), done.stderr
    assert not (tmp_path / "out" / "release.json").exists()


# --- a real tracking server


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def end(process):
    """End a process that we started and all that it started: it leads a group of its own."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGTERM)
    try:
        process.wait(timeout=30)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait(timeout=30)


@contextlib.contextmanager
def tracking_server(folder, backend):
    """`mlflow server` on a free port, with that database and artifacts in a folder: its address."""
    port = free_port()
    command = [
        sys.executable, "-m", "mlflow", "server", "--backend-store-uri", backend, "--artifacts-destination", str(folder / "files"),
        "--host", "127.0.0.1", "--port", str(port), "--workers", "1",
    ]  # fmt: skip
    # Without the processes that it would start for jobs which nobody here asks for.
    env = {**os.environ, **QUIET, "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"}
    with (folder / "server.log").open("wb") as log:
        server = subprocess.Popen(command, cwd=folder, env=env, stdout=log, stderr=log, start_new_session=True)
    try:
        address = f"http://127.0.0.1:{port}"
        for _ in range(600):
            assert server.poll() is None, (folder / "server.log").read_text()
            with contextlib.suppress(OSError), urllib.request.urlopen(f"{address}/health", timeout=5) as answer:
                if answer.read() == b"OK":
                    break
            time.sleep(0.2)
        else:
            pytest.fail((folder / "server.log").read_text())
        yield address
    finally:
        end(server)


def proves_the_same(address, tmp_path, record):
    """The lab against a server gives the same record, and the server says the same to another process."""
    folder = tmp_path / "shared"
    done = lab("--output", folder, "--implementation", "solution", "--tracking-uri", address)
    assert done.returncode == 0, done.stderr
    shared = json.loads((folder / "release.json").read_text(encoding="utf-8"))
    jsonschema.validate(shared, SCHEMA)
    assert {name: value for name, value in shared.items() if name not in LOCAL} == {
        name: value for name, value in record.items() if name not in LOCAL
    }
    assert shared["tracking_uri"] == address
    # The server keeps the store; the folder has what is passed on.
    assert {path.name for path in folder.iterdir()} == {"model.json", "release.json"}
    agrees(read_back(address, folder / "release.json"), shared)
    # A name that is taken belongs to that release.
    again = lab("--output", tmp_path / "again", "--implementation", "solution", "--tracking-uri", address)
    assert (again.returncode, "choose another with --name" in again.stderr) == (2, True)
    assert not (tmp_path / "again").exists()
    other = lab("--output", tmp_path / "again", "--implementation", "solution", "--tracking-uri", address, "--name", "another")
    assert other.returncode == 0, other.stderr
    assert json.loads((tmp_path / "again" / "release.json").read_text())["versions"] == [1, 2, 3]


unix = pytest.mark.skipif(os.name == "nt", reason="processes are ended as a group here, which Windows does not have")


@unix
@pytest.mark.lessons
def test_a_tracking_server_on_sqlite_gives_the_same_record(tmp_path, record):
    with tracking_server(tmp_path, f"sqlite:///{(tmp_path / 'server.db').as_posix()}") as address:
        proves_the_same(address, tmp_path, record)


def postgres_binaries():
    """The folder with the newest PostgreSQL server of this machine, or None."""
    debian = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: int(path.parts[-3].split(".")[0]))
    found = shutil.which("initdb") or (str(debian[-1]) if debian else None)
    return Path(found).parent if found else None


@pytest.fixture
def postgres():
    """An empty PostgreSQL database of our own, on a free port: its URI. Skips where something is missing, and says what."""
    binaries = postgres_binaries()
    if binaries is None:
        pytest.skip("no PostgreSQL server here: neither initdb on the path nor /usr/lib/postgresql/*/bin/initdb")
    if importlib.util.find_spec("psycopg") is None:
        pytest.skip("psycopg, through which SQLAlchemy talks to PostgreSQL, is not installed")
    who = {}
    # Below /tmp and not in pytest's own folder, which belongs to root alone. PostgreSQL refuses to run as root.
    folder = Path(tempfile.mkdtemp(prefix="pg-"))
    if os.geteuid() == 0:
        import pwd

        try:
            account = pwd.getpwnam("postgres")
        except KeyError:
            folder.rmdir()
            pytest.skip("PostgreSQL does not run as root, and there is no user postgres to run it as")
        who = {"user": account.pw_uid, "group": account.pw_gid, "extra_groups": []}
        os.chown(folder, account.pw_uid, account.pw_gid)
    env = {"PATH": os.environ["PATH"], "LC_ALL": "C", "HOME": str(folder)}
    port = free_port()
    server = None
    try:
        make = [str(binaries / "initdb"), "-D", str(folder / "data"), "-U", "mlflow", "-A", "trust", "-E", "UTF8", "--no-sync"]
        subprocess.run(make, check=True, capture_output=True, env=env, cwd=folder, **who)
        command = [
            str(binaries / "postgres"), "-D", str(folder / "data"), "-p", str(port), "-k", str(folder), "-h", "127.0.0.1", "-c", "fsync=off",
        ]  # fmt: skip
        with (folder / "log").open("wb") as log:
            server = subprocess.Popen(command, env=env, cwd=folder, stdout=log, stderr=log, start_new_session=True, **who)
        import psycopg

        for _ in range(300):
            assert server.poll() is None, (folder / "log").read_text()
            with contextlib.suppress(psycopg.OperationalError):
                psycopg.connect(host="127.0.0.1", port=port, user="mlflow", dbname="postgres").close()
                break
            time.sleep(0.1)
        yield f"postgresql+psycopg://mlflow@127.0.0.1:{port}/postgres"
    finally:
        if server is not None:
            end(server)
        shutil.rmtree(folder, ignore_errors=True)


@unix
@pytest.mark.lessons
def test_a_tracking_server_on_postgresql_gives_the_same_record(tmp_path, record, postgres):
    with tracking_server(tmp_path, postgres) as address:
        proves_the_same(address, tmp_path, record)
