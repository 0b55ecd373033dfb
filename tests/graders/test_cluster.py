"""A class judged by the workers of a real Dask scheduler: the same verdicts, whatever is killed, and none by a worker that differs.

Scheduler and workers are processes of their own on the loopback, with ports that the system chooses.
"""

import asyncio
import importlib.util
import io
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import zipfile
from dataclasses import replace
from pathlib import Path

import nbformat
import psutil
import pytest

from course.catalogue import load
from course.receipt import Environment
from graders import cluster, outpost
from graders.batch import open_terms
from graders.check import Desk, Settings
from graders.errand import COURSE, Answer, Errand, Greeting, differing, myself, parse, read_frame, text, unlike, write_frame
from graders.kernels.isolation import Mode, survey
from graders.kernels.order import RLIMITS
from graders.kernels.warm import How
from graders.measure import environment
from graders.serve import draws_text
from graders.store import Terms
from graders.verdict import Verdict
from graders.version import environment_digest, grader_digest
from tests.conftest import notebook, reference_answers
from tests.graders.test_resume import Grader, plain, rows

SEED = 11
INSTALLED = importlib.util.find_spec("distributed") is not None
# CI has the extra, and demands these tests.
dask = pytest.mark.skipif(
    not (INSTALLED or os.environ.get("CI")),
    reason="Dask distributed is not installed: python -m environment --dev --scale pytest has it",
)
posix = pytest.mark.skipif(os.name == "nt", reason="Windows ends processes in another way: there are no signals to send")


class Processes:
    """Schedulers and workers, each with a log. They end with the fixture that made them."""

    def __init__(self, root, course, folder, temporary):
        self.root, self.course, self.folder, self.temporary = root, course, folder, temporary
        self.running = []

    def _start(self, *words, cwd=None, **more):
        env = {**os.environ, "PYTHONPATH": str(self.root), "TMPDIR": str(self.temporary), **more}
        env["DASK_TEMPORARY_DIRECTORY"] = str(self.folder)
        log = self.folder / f"{len(self.running)}.log"
        with log.open("wb") as out:
            process = subprocess.Popen(
                [sys.executable, "-m", "dask", *map(str, words)], cwd=cwd or self.course, env=env, stdin=subprocess.DEVNULL,
                stdout=out, stderr=out,
            )  # fmt: skip
        self.running.append(process)
        return process, log

    def scheduler(self):
        file = self.folder / f"scheduler-{len(self.running)}.json"
        process, log = self._start("scheduler", "--host", "127.0.0.1", "--port", "0", "--no-dashboard", "--scheduler-file", file)
        await_that(lambda: file.exists() and file.read_text().strip().endswith("}"), process, log)
        return json.loads(file.read_text())["address"], process

    def worker(self, address, *words, **more):
        return self._start(
            "worker", address, "--host", "127.0.0.1", "--no-nanny", "--no-dashboard", "--nthreads", "1", *words, **more,
        )  # fmt: skip

    def workers(self, address, number, *words, **more):
        started = [self.worker(address, *words, **more) for _ in range(number)]
        for process, log in started:
            await_that(lambda log=log: b"Registered to" in log.read_bytes(), process, log)
        return [process for process, _ in started]

    def end(self):
        for process in reversed(self.running):
            process.kill()
            process.wait()


def await_that(condition, process, log=None):
    until = time.monotonic() + 120
    while not condition():
        assert process.poll() is None and time.monotonic() < until, log.read_text() if log else process.args
        time.sleep(0.1)


def benches(worker):
    """The grading processes beside a worker."""
    found = psutil.Process(worker.pid).children()
    return [one for one in found if "graders.serve" in " ".join(one.cmdline())]


@pytest.fixture(scope="module")
def temporary():
    with tempfile.TemporaryDirectory(prefix="t-") as made:
        yield Path(made).resolve()


@pytest.fixture(scope="module")
def processes(root, tiny_root, tmp_path_factory, temporary):
    made = Processes(root, tiny_root, tmp_path_factory.mktemp("cluster"), temporary)
    yield made
    made.end()


@pytest.fixture(scope="module")
def address(processes):
    return processes.scheduler()[0]


@pytest.fixture
def pair(processes, address):
    """Two workers, one of which is told the course by a variable."""
    found = processes.workers(address, 1) + processes.workers(address, 1, cwd=processes.folder, **{COURSE: str(processes.course)})
    yield found
    for process in found:
        process.kill()
        process.wait()


def hand_in(folder, tiny, name, answers=None, **cells):
    path = folder / name / "tiny-01.ipynb"
    path.parent.mkdir(parents=True)
    nbformat.write(notebook(tiny, {**reference_answers(tiny), **(answers or {}), **cells}), path)
    return path


@pytest.fixture
def mixed(tiny, tmp_path):
    """A class with something of each kind, also of what has to be read with care and what runs into a limit, but not of time."""
    made = tmp_path / "class"
    double = tiny.cell("double").source
    for number in range(2):
        hand_in(made, tiny, f"Right {number}")
    hand_in(made, tiny, "Li, Wei", double=double + "\nmean = sum(numbers) / N")
    hand_in(made, tiny, "Flood", function="print('x' * 3_000_000)\nimport time\ntime.sleep(600)")
    hand_in(made, tiny, "Slow", function="import time\ntime.sleep(1)\n" + tiny.cell("function").source)
    packed = hand_in(made, tiny, "Packed").read_bytes()
    shutil.rmtree(made / "Packed")
    for name, inner, content in (("Packed.zip", "a/tiny-01.ipynb", packed), ("Zoë/tiny-01.zip", "x.ipynb", b"{}")):
        (made / name).parent.mkdir(exist_ok=True)
        with zipfile.ZipFile(made / name, "w") as archive:
            archive.writestr(inner, content)
    for name, content in (("Bad", b"no notebook"), ("Half", packed[: len(packed) // 2]), ("None", b"")):
        (made / name).mkdir()
        (made / name / "tiny-01.ipynb").write_bytes(content)
    (made / "Folder" / "tiny-01.ipynb").mkdir(parents=True)
    if os.name == "posix":
        os.mkfifo(made / "Folder" / "x-tiny-01.py")
        os.makedirs(os.fsencode(made) + b"/Lone \xff")
        (made / os.fsdecode(b"Lone \xff") / "tiny-01.ipynb").write_bytes(b"{")
        (made / "Link").mkdir()
        (made / "Link" / "tiny-01.ipynb").symlink_to(made / "Right 0" / "tiny-01.ipynb")
    (made / "Kim").mkdir()
    return made


def learners(out):
    return {json.loads(learner) for _, learner, _ in rows(out)}


LIMITS = ("--seed", SEED, "--cell-seconds", 300, "--total-seconds", 900, "--limit", "output_mb=2")


@pytest.fixture
def grader(root, tiny_copy, temporary, mixed):
    return Grader(root, tiny_copy, mixed, temporary)


@dask
@posix
def test_the_same_verdicts_also_when_a_worker_is_killed_and_when_the_grader_is_interrupted(grader, pair, address, tmp_path):
    done = grader.run(tmp_path / "here", *LIMITS)
    assert done.returncode == 0 and "2 MB" in done.stdout, done.stderr
    expected = plain(tmp_path / "here")
    there = ("--scheduler", address)

    # Interrupted, when something is being judged; gone on with by a grader without a cluster.
    out = tmp_path / "interrupted"
    process = grader.start(out, *LIMITS, *there)
    await_that(lambda: "Flood" in learners(out), process)
    process.send_signal(signal.SIGINT)
    output, errors = process.communicate(timeout=300)
    assert process.returncode == 130 and "interrupted" in output and "Traceback" not in errors, errors
    before = rows(out)
    assert 0 < len(before) < len(rows(tmp_path / "here"))
    await_that(lambda: not any(map(benches, pair)), pair[0])
    assert grader.left() == []
    done = grader.run(out, *LIMITS)
    known = sum(bool(json.loads(row[1])["sha256"]) for row in before.values())
    assert done.returncode == 0 and f"going on: {known} of 13 submissions" in done.stdout
    assert before.items() <= rows(out).items() and plain(out) == expected

    # A worker is killed, when both are at work.
    process = grader.start(tmp_path / "killed", *LIMITS, *there)
    await_that(lambda: "Flood" in learners(tmp_path / "killed"), process)
    await_that(lambda: all(map(benches, pair)), process)
    pair[0].kill()
    output, errors = process.communicate(timeout=300)
    assert process.returncode == 0, errors
    assert re.fullmatch(r"the worker tcp://127\.0\.0\.1:\d+ was lost; what it was judging is judged elsewhere\n", errors), errors
    assert plain(tmp_path / "killed") == expected
    assert len(rows(tmp_path / "killed")) == len(rows(tmp_path / "here")), "one result for each file"
    told = [line for line in output.splitlines() if re.match("(PASS|FAIL|TIMEOUT|SKIP|UNSOLVED) ", line)]
    assert len(told) == len(set(told)) == sum(len(one["exercises"]) for one in expected[0]["submissions"] if one["file"])
    # What lived beside the killed worker ends with it.
    await_that(lambda: grader.left() == [], pair[1])


@pytest.fixture
def few(tiny, tmp_path):
    made = tmp_path / "few"
    hand_in(made, tiny, "Ana")
    hand_in(made, tiny, "Ben", double=tiny.cell("double").source + "\nmean = sum(numbers) / N")
    return made


def verdicts(out):
    data = json.loads((out / "results.json").read_text(encoding="utf-8"))
    return {one["learner"]: [result["verdict"] for result in one["exercises"]] for one in data["submissions"]}


RIGHT = {"Ana": ["PASS", "PASS"], "Ben": ["FAIL", "PASS"]}


@dask
@posix
def test_workers_that_differ_refuse_and_say_what_to_do(grader, processes, few, tiny_root, tmp_path):
    grader.folder = few
    here, scheduler = processes.scheduler()
    copies = {}
    for name in ("lesson", "receipt", "lock"):
        copies[name] = tmp_path / name
        shutil.copytree(tiny_root, copies[name])
    folder = "phases/01-tiny/01-double"
    probes = copies["lesson"] / folder / "lesson.toml"
    probes.write_text(probes.read_text(encoding="utf-8") + "\n# a comment changes nothing\n", encoding="utf-8")
    main = copies["lesson"] / folder / "code/main.py"
    main.write_text(main.read_text(encoding="utf-8") + "\nlast = 1\n", encoding="utf-8")
    receipt = copies["receipt"] / folder / "receipt.json"
    receipt.write_text(receipt.read_text(encoding="utf-8") + "\n", encoding="utf-8")
    lock = copies["lock"] / "requirements-cpu.txt"
    lock.write_text(lock.read_text(encoding="utf-8") + "\nx==1\n", encoding="utf-8")
    fake = tmp_path / "fake" / "msgpack-0.1.dist-info"
    fake.mkdir(parents=True)
    (fake / "METADATA").write_text("Metadata-Version: 2.1\nName: msgpack\nVersion: 0.1\n")
    bad = [processes.worker(here, cwd=copies[name]) for name in copies]
    bad.append(processes.worker(here, PYTHONPATH=os.pathsep.join([str(fake.parent), str(processes.root)])))
    bad.append(processes.worker(here, cwd=tmp_path, PYTHONPATH=""))
    for process, log in bad:
        await_that(lambda log=log: b"Registered to" in log.read_bytes(), process, log)

    done = grader.run(tmp_path / "none", "--seed", SEED, "--scheduler", here)
    assert done.returncode == 3 and rows(tmp_path / "none") == {}
    told = done.stderr[done.stderr.index("no worker of") :].splitlines()
    assert told[0] == f"no worker of {here} may judge tiny-01; what was graded is kept, and the same command goes on"
    assert len(told) == 6 and all(re.match(r"  tcp://127\.0\.0\.1:\d+: ", line) for line in told[1:])
    for words in (
        r"the lesson \(\w{12} there, \w{12} here\)\S* .*bring its checkout to the caller's commit .*lesson\)",
        r"the receipt of the lesson \(\w{12} there, \w{12} here\) differs: bring its checkout .*receipt\)",
        r"the environment \(another requirements-cpu.txt\) differs: make its environment .*--scale --prepare.*lock\)",
        r"its versions differ \(msgpack 0\.1 there, \d+.* here\): make its environment from the same locks",
        r"it cannot import the grader \(.*No module named .*graders.*\): start it with .*dask worker tcp://.* in the course's folder",
    ):
        assert sum(bool(re.search(words, line)) for line in told[1:]) == 1, (words, told)
    assert "Traceback" not in done.stdout + done.stderr

    # One that agrees is enough, and who refuses is told once.
    for process, _ in bad[:1] + bad[2:]:
        process.kill()
    processes.workers(here, 1)
    done = grader.run(tmp_path / "one", "--seed", SEED, "--scheduler", here)
    assert done.returncode == 0 and verdicts(tmp_path / "one") == RIGHT
    assert re.fullmatch(r"the worker \S+ does not judge tiny-01: the receipt of the lesson .*\n", done.stderr), done.stderr
    bad[1][0].kill()

    # The scheduler goes, when something is being judged.
    hand_in(few, grader_lesson(tiny_root), "Slow", double="import time\ntime.sleep(600)")
    process = grader.start(tmp_path / "gone", "--seed", SEED, "--fresh", "--scheduler", here)
    await_that(lambda: len(rows(tmp_path / "gone")) >= 2, process)
    scheduler.kill()
    output, errors = process.communicate(timeout=120)
    assert process.returncode == 3 and len(rows(tmp_path / "gone")) == 2
    assert re.search(
        rf"^the scheduler {here} has gone.*what was graded is kept, and the same command goes on$", errors, re.MULTILINE
    )
    assert "Traceback" not in output + errors


def grader_lesson(course):
    from course.catalogue import load

    return load(course).lesson("tiny-01")


@dask
@posix
def test_what_kills_its_grading_process_is_an_error_and_takes_nobody_along(grader, processes, few, address, tiny, tmp_path):
    grader.folder = few
    # Without isolation a submission can do so: its kernel descends from the grading process.
    code = "import psutil\n[one.kill() for one in psutil.Process().parents() if 'graders.serve' in one.cmdline()]"
    hand_in(few, tiny, "Killer", double=code)
    (worker,) = processes.workers(address, 1, "--nthreads", "3")
    try:
        done = grader.run(tmp_path / "out", "--seed", SEED, "--isolation", "off", "--scheduler", address)
        assert done.returncode == 3, done.stderr
        assert verdicts(tmp_path / "out") == {**RIGHT, "Killer": ["ERROR", "ERROR"]}
        assert re.search(
            r"ERROR .* Killer .*the grading process of the worker ended with SIGKILL \(tcp://\S+\); so it was 3 times", done.stdout
        )
        assert len(rows(tmp_path / "out")) == 2 and worker.poll() is None
    finally:
        worker.kill()
        worker.wait()


@dask
@posix
@pytest.mark.skipif(set(survey().layers) <= {RLIMITS}, reason="nothing keeps the network away on this machine")
def test_a_learners_code_does_not_reach_the_scheduler(grader, processes, address, tiny, tmp_path):
    folder, port = tmp_path / "caller", address.rpartition(":")[2]
    hand_in(folder, tiny, "Ana", double=(
        f"import socket\ntry:\n    socket.create_connection(('127.0.0.1', {port}), timeout=5)\n    reached = True\n"
        f"except OSError:\n    reached = False\n{tiny.cell('double').source}\nif reached:\n    del mean"
    ))  # fmt: skip
    grader.folder = folder
    (worker,) = processes.workers(address, 1)
    try:
        for mode, found in (("auto", ["PASS", "PASS"]), ("off", ["FAIL", "PASS"])):
            out = tmp_path / mode
            done = grader.run(out, "--seed", SEED, "--isolation", mode, "--kernel", "auto", "--scheduler", address)
            assert done.returncode == 0 and verdicts(out) == {"Ana": found}, done.stdout
    finally:
        worker.kill()
        worker.wait()


@dask
def test_a_scheduler_that_is_not_there_is_one_message(grader, few, tmp_path):
    grader.folder = few
    done = grader.run(tmp_path / "out", "--scheduler", "tcp://127.0.0.1:9")
    assert done.returncode == 3 and len(done.stderr.splitlines()) == 1, done.stderr
    assert "tcp://127.0.0.1:9 cannot be reached" in done.stderr and "dask scheduler" in done.stderr


# --- what needs no Dask


@pytest.mark.parametrize("address", ["host", "tcp://host", "http://host:1", "tcp://host:port", "host:1/x", "host :1", ""])
def test_what_is_no_address_is_said_before_anything_is_begun(grader, address, tmp_path):
    assert "tcp://host:8786" in cluster.possible(address)
    if address == "host":
        done = grader.run(tmp_path / "out", "--scheduler", address)
        assert (
            done.returncode == 2
            and done.stderr.startswith("--scheduler host: give the address")
            and not (tmp_path / "out").exists()
        )


@pytest.mark.parametrize("address", ["tcp://host:8786", "tls://10.0.0.1:8786", "host:1", "tcp://[::1]:8786"])
def test_without_the_extra_it_is_said_how_to_get_it(monkeypatch, address):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert "python -m environment --scale graders grade" in cluster.possible(address)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: "there")
    assert cluster.possible(address) == ""


def test_frames():
    pipe = io.BytesIO()
    write_frame(pipe, 7, b"", b"\n{}\n" * 3)
    write_frame(pipe, 8)
    whole = pipe.getvalue()
    pipe.seek(0)
    assert [read_frame(pipe) for _ in range(3)] == [(7, [b"", b"\n{}\n" * 3]), (8, []), None]
    for length in range(len(whole)):
        cut = io.BytesIO(whole[:length])
        read = [read_frame(cut), read_frame(cut)]
        assert None in read and read[0] in (None, (7, [b"", b"\n{}\n" * 3]))
    with pytest.raises(ValueError, match="Expecting value"):
        read_frame(io.BytesIO(b"no frame\n"))


PLACE = Environment(python="3.11.7", implementation="CPython", platform="Linux", machine="x86_64", packages={"numpy": "2.4.6"})
TERMS = Terms("lesson", "receipt", "grader", "environment", "{}", "[]")
ERRAND = Errand(
    run="r", lesson="tiny-01", learner="Ana", shown="Ana/tiny-01.ipynb", name="tiny-01.ipynb", seed=SEED, cell_seconds=None,
    total_seconds=None, more={}, how=How.COLD, mode=Mode.AUTO, terms=TERMS, place=PLACE, draws="[]",
)  # fmt: skip


@pytest.mark.parametrize(
    ("terms", "place", "draws", "lacking", "says"),
    [
        ({}, {}, "[]", (), ""),
        ({"lesson_digest": "other"}, {}, "[1]", (), "the lesson (other there, lesson here) differs: bring"),
        ({"receipt_digest": ""}, {}, "[]", (), "the receipt of the lesson (none there, receipt here) differs"),
        ({"grader": "x"}, {}, "[]", (), "the grader's own sources"),
        ({"limits": "[]"}, {}, "[]", (), "the lesson's limits"),
        ({"environment": "x"}, {"python": "3.12.1"}, "[]", (), "the environment (Python 3.12.1 there, 3.11.7 here) differs"),
        ({"environment": "x"}, {"packages": {"numpy": "2.0"}}, "[]", (), "numpy 2.0 there, 2.4.6 here"),
        ({"environment": "x"}, {}, "[]", (), "another requirements-cpu.txt"),
        ({"isolation": "x"}, {}, "[]", ("landlock (old)",), "the isolation (it lacks landlock (old)) differs: see"),
        ({"isolation": "x"}, {}, "[]", (), "layers that the caller's machine lacks"),
        ({}, {}, "[1]", (), "the draws for the same seed differs"),
        ({"grader": "x", "environment": "x"}, {}, "[]", (), "differ: bring its checkout to the caller's commit, and make its"),
    ],
)  # fmt: skip
def test_what_differs_is_named_with_a_remedy(terms, place, draws, lacking, says):
    found = differing(ERRAND, replace(TERMS, **terms), PLACE.model_copy(update=place), draws, lacking)
    assert says in found and bool(found) == bool(says)


def test_versions_that_have_to_be_the_same():
    mine = Greeting(python="3.11.7", versions={"dask": "1", "distributed": "2"}, grader="g")
    assert unlike(mine, mine) == ""
    newer = mine.model_copy(update={"python": "3.11.9"})
    assert unlike(mine, newer) == "Python 3.11.9 there, 3.11.7 here" and unlike(mine, newer, patch=False) == ""
    assert unlike(mine, mine.model_copy(update={"python": "3.12.7"}), patch=False) == "Python 3.12.7 there, 3.11.7 here"
    assert unlike(mine, mine.model_copy(update={"versions": {"dask": "1"}})) == "distributed none there, 2 here"


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (text(myself("/course")), ""),
        (text(myself()), f"name the folder in {COURSE}"),
        (text(myself("/course").model_copy(update={"grader": "x" * 64})), "sources differ (xxxxxxxxxxxx there"),
        (ModuleNotFoundError("No module named 'graders'"), "cannot import the grader"),
        (Exception("ModuleNotFoundError('graders')"), "cannot import the grader"),
        (Exception("no"), "no greeting"),
        (None, "no greeting"),
        ("{}", "no greeting"),
        ("[", "no greeting"),
        (b"x", "no greeting"),
    ],
)
def test_who_greets_so(given, says):
    found = cluster._unfit(given, "worker tcp://h:1")
    assert says in found and bool(found) == bool(says)


@pytest.fixture
def errand(tiny, cache):
    """An errand for the tiny course that a worker on this machine agrees with."""
    desk = Desk(tiny, Settings(SEED, cache))
    place = environment(("numpy",), devices=False)
    told = survey().told()
    made = {"grader": grader_digest(), "environment": environment_digest(tiny.root, place), "isolation": told}
    terms = open_terms(load(tiny.root), {tiny.id: desk}, desk.settings, **made)[tiny.id]
    made = ERRAND.model_copy(update={"run": os.urandom(4).hex(), "terms": terms, "place": place, "draws": draws_text(tiny, SEED)})
    yield made
    outpost.leave(made.run)


def ask(errand, data):
    return parse(Answer, outpost.judge(text(errand), data))


def test_a_grading_process_answers_refuses_and_is_over(errand, tiny, tmp_path, monkeypatch):
    monkeypatch.setenv(COURSE, str(tiny.root))
    data = hand_in(tmp_path, tiny, "Ana").read_bytes()
    answer = ask(errand, data)
    assert (
        answer.kind == "judged" and answer.result.verdict is Verdict.PASS and answer.result.exercises[0].runs[-1] == f"draw {SEED}"
    )
    other = errand.model_copy(update={"draws": "[]"})
    assert ask(other, data).why.startswith("the draws for the same seed differs")
    missing = ask(errand.model_copy(update={"lesson": "none-01"}), data)
    assert missing.kind == "refused" and "none-01" in missing.why
    for name in ("../x.ipynb", "..", "", "a/b.ipynb", str(tmp_path / "x.ipynb")):
        strange = ask(errand.model_copy(update={"name": name}), data)
        assert strange.result.verdict is Verdict.ERROR and "disk" in strange.result.exercises[0].message
    assert [one.name for one in tmp_path.iterdir()] == ["Ana"]
    outpost.leave(errand.run)
    assert ask(errand, data) == Answer(kind="ended", why="its run is over")
    monkeypatch.setenv(COURSE, str(tmp_path))
    nowhere = ask(errand, data)
    assert nowhere.kind == "refused" and COURSE in nowhere.why


@posix
def test_a_grading_process_that_gives_no_sign_of_life_is_ended(errand, tiny, tmp_path, monkeypatch):
    monkeypatch.setenv(COURSE, str(tiny.root))
    monkeypatch.setattr(outpost, "BEAT_SECONDS", 0.05)
    monkeypatch.setattr(outpost, "SILENT_SECONDS", 0.5)
    started, popen = [], subprocess.Popen

    def stopped(*words, **more):
        started.append(popen(*words, **more))
        started[-1].send_signal(signal.SIGSTOP)
        return started[-1]

    monkeypatch.setattr(outpost.subprocess, "Popen", stopped)
    answer = ask(errand, hand_in(tmp_path, tiny, "Ana").read_bytes())
    assert (answer.kind, answer.why) == ("ended", "the grading process of the worker ended with SIGKILL")
    assert len(started) == 1 and started[0].returncode == -signal.SIGKILL


@pytest.mark.parametrize(
    "head", [b"[]", b"1", b"{}", b'{"number": "1", "sizes": []}', b'{"number": 1, "sizes": [-1]}', b'{"number": 1, "sizes": 1}']
)
def test_what_is_no_frame_is_refused(head):
    with pytest.raises(ValueError, match="no frame begins with"):
        read_frame(io.BytesIO(head + b"\n"))


def test_an_answer_for_something_else_is_no_result(tiny, cache, tmp_path, errand, monkeypatch):
    monkeypatch.setenv(COURSE, str(tiny.root))
    file = hand_in(tmp_path, tiny, "Ana")
    case = cluster._Case(Desk(tiny, Settings(SEED, cache)), "Ana", file, ERRAND.shown, file.read_bytes())
    result = ask(errand, case.data).result
    assert case.fault(result) == ""
    for change in ({"learner": "Ben"}, {"file": "x"}, {"lesson": "x"}, {"exercises": result.exercises[:1]}):
        assert case.fault(result.model_copy(update=change)) == "answered for another submission"
    generous = result.exercises[0].model_copy(update={"out_of": 99.0})
    assert case.fault(result.model_copy(update={"exercises": (generous, *result.exercises[1:])}))
    assert case.fault(result.model_copy(update={"sha256": "0" * 64})) == "judged other bytes than it was sent"
    assert case.fault(None)
    assert case.error("why").verdict is Verdict.ERROR and case.error("why").points is None


class Far:
    """A client of a scheduler as far as looking for workers goes: who is there, and what they say of themselves."""

    status = "running"

    def __init__(self, *looks, greeting):
        self.looks, self.greeting = list(looks), greeting

    async def nthreads(self):
        return dict.fromkeys(self.looks.pop(0) if len(self.looks) > 1 else self.looks[0], 2)

    async def run(self, function, workers, on_error):
        return dict.fromkeys(workers, self.greeting)


@pytest.mark.parametrize("looks", [(["tcp://w:1"],), ([], [], ["tcp://w:1", "tcp://w:2"])])
def test_where_no_worker_is_of_use_the_run_ends_instead_of_waiting(tiny, cache, tmp_path, monkeypatch, looks):
    monkeypatch.setattr(cluster, "LOOK_SECONDS", 0.01)
    said, file = [], hand_in(tmp_path, tiny, "Ana")
    desk = Desk(tiny, Settings(SEED, cache))
    order = cluster.Order(desk.settings, Mode.AUTO, {tiny.id: TERMS}, PLACE)

    async def judged():
        found = cluster.Cluster(Far(*looks, greeting=Exception("ModuleNotFoundError('graders')")), "tcp://h:1", order, said.append)
        watching = asyncio.create_task(found.watch())
        try:
            async with asyncio.timeout(60):
                await asyncio.gather(*(found.judge(desk, name, file, "f") for name in ("Ana", "Ben")))
        finally:
            watching.cancel()

    with pytest.raises(cluster.ClusterFailed, match=r"no worker of tcp://h:1 may judge tiny-01.*\n  tcp://w:1: it cannot import"):
        asyncio.run(judged())
    assert [one for one in said if "has no worker" in one] == said[: len(looks) > 1]
    assert sum("tcp://w:1 is left out" in one for one in said) == 1


# --- docs/scale.md


def blocks(root, language):
    page = (root / "docs/scale.md").read_text(encoding="utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)


def test_the_manifest_starts_the_commands_of_this_page(root):
    yaml = pytest.importorskip("yaml")
    manifest, tls = blocks(root, "yaml")
    parts = {one["kind"]: one for one in yaml.safe_load_all(manifest)}
    assert set(parts) == {"DaskCluster", "Job", "NetworkPolicy"}
    found = parts["DaskCluster"]["spec"]
    pods = {
        "worker": found["worker"]["spec"],
        "scheduler": found["scheduler"]["spec"],
        "grade": parts["Job"]["spec"]["template"]["spec"],
    }
    for name, pod in pods.items():
        (container,) = pod["containers"]
        module, command, *_ = container["args"][2:]
        assert container["args"][:2] == ["python", "-m"] and (module, command) in {("dask", name), ("graders", name)}
        assert container["image"] == "IMAGE" and container["securityContext"]["readOnlyRootFilesystem"] is True
        assert {one["name"] for one in container["volumeMounts"]} <= {one["name"] for one in pod["volumes"]}
    # Caller and workers have the same isolation only if they are run alike.
    assert pods["worker"]["securityContext"] == pods["grade"]["securityContext"]
    named = parts["NetworkPolicy"]["spec"]["podSelector"]["matchLabels"]
    assert named.items() <= found["scheduler"]["service"]["selector"].items()
    assert named.items() <= parts["Job"]["spec"]["template"]["metadata"]["labels"].items()
    assert set(yaml.safe_load(tls)["distributed"]["comm"]["tls"]) == {"ca-file", "scheduler", "worker", "client"}


@dask
def test_the_script_for_slurm_asks_for_workers_of_this_course(root):
    (script,) = blocks(root, "python")
    code = (
        f"import sys\nscript = {script!r}\nnames = {{'__name__': 'slurm', '__file__': {str(root / 'slurm.py')!r}}}\n"
        "exec(compile(script, 'slurm.py', 'exec'), names)\n"
        "from dask_jobqueue.slurm import SLURMJob\n"
        "print(SLURMJob('tls://10.0.0.1:8786', name='w', **names['WORKERS']).job_script())\n"
    )
    env = {**os.environ, "DASK_TEMPORARY_DIRECTORY": tempfile.gettempdir()}
    done = subprocess.run([sys.executable, "-c", code], cwd=root, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert f"\ncd '{root}'\n" in done.stdout and "--nthreads 16" in done.stdout and "#SBATCH -p compute" in done.stdout
    assert f"{root / '.venv/bin/python'} -m distributed.cli.dask_worker tls://10.0.0.1:8786" in done.stdout
    assert "--lifetime 110m" in done.stdout and "#SBATCH -t 02:00:00" in done.stdout
