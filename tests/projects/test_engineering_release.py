"""The engineering release: its reference against independent arithmetic, its driver, and that it fails what it should.

What needs the grader's kernels takes minutes in sum and is marked; the rest asks the reference directly, or runs the driver.
"""

import asyncio
import hashlib
import importlib.util
import json
import math
import os
import shutil
import struct
import subprocess
import sys
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from course.catalogue import load
from graders.check import Desk, Settings, check
from graders.verdict import Verdict
from tests.conftest import ROOT

PROJECT = load(ROOT).project("engineering-release")
FOLDER = PROJECT.folder
STAGES = [stage.id for stage in PROJECT.meta.exercises]
MISTAKES = [(stage.id, mistake) for stage in PROJECT.meta.exercises for mistake in stage.mistakes]


def module_of(source, path, name="engineering_under_test"):
    """A module from its text, as the driver would load it."""
    path.write_text(source, encoding="utf-8")
    spec = importlib.util.spec_from_file_location(name, path)
    made = importlib.util.module_from_spec(spec)
    sys.modules[name] = made  # where dataclasses look
    spec.loader.exec_module(made)
    return made


@pytest.fixture(scope="module")
def engineering(tmp_path_factory):
    yield module_of(PROJECT.solution, tmp_path_factory.mktemp("solution") / "engineering.py")
    sys.modules.pop("engineering_under_test")


# --- the reference, against something that is not the reference


def test_a_digest_is_that_of_bytes_laid_out_by_hand(engineering):
    x, y = np.array([-2, -1, 0, 1, 2], np.float32), np.array([[1, 2], [3, 4]], np.int64)
    by_hand = b"float32" + b"(5,)" + struct.pack("=5f", -2, -1, 0, 1, 2) + b"int64" + b"(2, 2)" + struct.pack("=4q", 1, 2, 3, 4)
    assert engineering.data_digest(x, y) == hashlib.sha256(by_hand).hexdigest()
    assert engineering.data_digest(np.asfortranarray(y)) == engineering.data_digest(y)
    assert engineering.data_digest(np.array(7.5)) == hashlib.sha256(b"float64()" + struct.pack("=d", 7.5)).hexdigest()


def test_a_program_has_the_digest_that_sha256sum_prints(engineering, tmp_path):
    (tmp_path / "b.py").write_bytes(b"B = 1\r\n")
    (tmp_path / "a.py").write_bytes(b"\xff")
    lines = (
        "a8100ae6aa1940d0b663bb31cd466142ebbdbd5187131b92d93818987832eb89  a.py\n"
        f"{hashlib.sha256(bytes([66, 32, 61, 32, 49, 13, 10])).hexdigest()}  b.py\n"
    )
    assert engineering.file_digest(tmp_path / "a.py") == lines[:64]
    assert engineering.code_digest(tmp_path, ["b.py", "a.py"]) == hashlib.sha256(lines.encode()).hexdigest()
    if tool := shutil.which("sha256sum"):
        printed = subprocess.run([tool, "a.py", "b.py"], cwd=tmp_path, capture_output=True, check=True).stdout
        assert engineering.code_digest(tmp_path, ["a.py", "b.py"]) == hashlib.sha256(printed).hexdigest()


@given(
    weight=st.integers(-64, 64), bias=st.integers(-64, 64), points=st.lists(st.tuples(st.integers(-64, 64), st.integers(-64, 64)), min_size=1)
)  # fmt: skip
def test_an_error_is_the_one_in_fractions(engineering, weight, bias, points):
    exact = sum((Fraction(weight, 8) * Fraction(x, 8) + Fraction(bias, 8) - Fraction(y, 8)) ** 2 for x, y in points) / len(points)
    line = engineering.Line(weight / 8, bias / 8)
    assert engineering.mse(line, [x / 8 for x, _ in points], [y / 8 for _, y in points]) == pytest.approx(float(exact), rel=1e-12)


errors = st.floats(min_value=0, allow_infinity=True) | st.just(math.nan)


@given(error=errors, logged=errors, best=errors | st.none(), limit=st.floats(0, 10), same=st.booleans(), training=errors)
@example(error=math.nan, logged=math.nan, best=None, limit=1.0, same=True, training=0.0)
@example(error=0.5, logged=0.5, best=0.5, limit=0.5, same=True, training=0.0)
def test_the_gate_passes_what_meets_all_conditions_and_nothing_else(engineering, error, logged, best, limit, same, training):
    def candidate(version, validation, claimed, data):
        return engineering.Candidate(version, data, training, claimed, validation)

    champion = None if best is None else candidate(1, best, best, "good")
    reasons = engineering.refusals(
        candidate(2, error, logged, "good" if same else "other"), champion, engineering.Terms("good", limit)
    )
    honest = error == logged or abs(error - logged) <= max(1e-5 * max(error, logged), 1e-6)
    assert ("fitted to other data" in reasons) is not same
    assert ("its logged error is not that of its bytes" in reasons) is not honest
    assert ("error above the limit" in reasons) is not (error <= limit)
    assert ("not better than the champion" in reasons) is (best is not None and not error < best)
    assert len(reasons) == len(set(reasons)) <= 4
    if math.isnan(error):
        assert len(reasons) >= 2


values = st.one_of(st.floats(), st.integers(), st.booleans(), st.text(max_size=3), st.none(), st.lists(st.floats(), max_size=2))
bodies = st.binary(max_size=80) | st.dictionaries(st.sampled_from("xy"), st.lists(values, max_size=12) | values, max_size=2).map(
    lambda one: json.dumps(one).encode()
)


@given(body=bodies, limit=st.integers(1, 10))
@example(body=b'{"x": [1e400]}', limit=1)
@example(body=b'{"x": [' + b"9" * 5000 + b"]}", limit=1)
@example(body=b"[" * 50_000, limit=1)
@example(body=b'{"x": [NaN]}', limit=1)
def test_a_request_is_numbers_or_refused(engineering, body, limit):
    try:
        found = engineering.parse_request(body, limit)
    except engineering.RequestRefused as error:
        assert error.status in {400, 413, 422}
        assert str(error)
        return
    assert 1 <= len(found) <= limit
    given = json.loads(body)["x"]
    assert all(type(one) in {int, float} for one in given)
    assert found == given
    assert all(-1e6 <= one <= 1e6 for one in found)


@given(content=st.binary(max_size=60) | values.map(lambda one: json.dumps({"weight": one, "bias": 0}).encode()))
def test_a_model_is_two_finite_numbers_or_refused(engineering, tmp_path_factory, content):
    path = tmp_path_factory.getbasetemp() / "model.json"
    path.write_bytes(content)
    try:
        line = engineering.load_line(path, hashlib.sha256(content).hexdigest())
    except engineering.ModelRefused:
        return
    assert type(line.weight) is type(line.bias) is float
    assert math.isfinite(line.weight)
    assert line.weight == json.loads(content)["weight"]


# --- the starter and the driver


def test_every_stub_of_the_starter_says_what_is_to_be_done():
    stubs = PROJECT.starter.stubs
    assert len(stubs) == 19
    assert all(text and text[0].islower() and not text.endswith(".") for text in stubs.values())
    needed = {name for stage in PROJECT.meta.exercises for name in stage.needs}
    assert needed == set(stubs)


def test_the_starter_gives_nothing_away(tmp_path):
    source = PROJECT.starter.source
    module = module_of(source, tmp_path / "engineering.py", "starter_under_test")
    sys.modules.pop("starter_under_test")
    for name in PROJECT.starter.stubs:
        with pytest.raises(NotImplementedError):
            getattr(module, name)(*[None] * getattr(module, name).__code__.co_argcount)
    for word in ("SOLUTION", "hashlib.sha256(", "order_by", "parse_constant=", "tobytes"):
        assert word not in source


@pytest.fixture
def drive(tmp_path):
    """Run `stages.py` as a script in a folder with a module: what it printed."""

    def run(source):
        for name, text in {**PROJECT.files, "stages.py": PROJECT.script.read_text(encoding="utf-8")}.items():
            (tmp_path / name).write_text(text, encoding="utf-8")
        (tmp_path / "engineering.py").write_text(source, encoding="utf-8")
        done = subprocess.run(
            [sys.executable, "stages.py"],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
            env={**os.environ, "MPLBACKEND": "agg", "JAX_PLATFORMS": "cpu"},
        )
        return done.stdout.splitlines(), done.stderr

    return run


def test_as_a_script_it_says_what_is_missing_and_where(drive):
    # One function is finished: its question is answered although all others are not.
    lines, errors = drive(f"{PROJECT.starter.source}\n\ndef predict(line, inputs):\n    return [0.0 for _ in inputs]\n")
    assert "service: 1 of 5 questions answered" in lines
    assert "identity: 0 of 7 questions answered" in lines
    assert any(line.startswith("identity, curve: read_curve: NotImplementedError: keep the later point") for line in lines)
    assert any("(engineering.py, line " in line for line in lines if line.startswith("service, conversation: "))
    assert lines[-1].startswith("Everything has been asked")
    assert errors == ""


@pytest.mark.lessons
def test_a_module_that_cannot_be_imported_is_named(drive):
    lines, _ = drive("# project: engineering-release\nimport no_such_library\n")
    assert "release, gate: <module>: ModuleNotFoundError: No module named 'no_such_library' (engineering.py, line 2)" in lines
    assert "record: 0 of 7 questions answered" in lines


def test_no_file_is_too_large():
    for path in FOLDER.rglob("*"):
        assert not path.is_file() or path.stat().st_size <= 300_000, path


# --- judged as a submission is


@pytest.fixture
def results(cache, tmp_path):
    """Check a module as a submission is checked; verdicts by stage."""

    def of(source, only=(), seed=4711):
        path = tmp_path / "engineering.py"
        path.write_text(source, encoding="utf-8")

        async def one():
            desk = Desk(PROJECT, Settings(seed, cache, only=tuple(only)))
            try:
                return await check(desk, "Ana", path, path.name)
            finally:
                await desk.close()

        return {result.exercise: result for result in asyncio.run(one()).exercises}

    return of


@pytest.mark.lessons
@pytest.mark.parametrize("seed", [4711, 1, 2])
def test_the_solution_passes_under_fresh_parameters(results, seed):
    got = results(PROJECT.solution, seed=seed)
    assert {stage: (one.verdict, one.message) for stage, one in got.items()} == dict.fromkeys(STAGES, (Verdict.PASS, ""))


@pytest.mark.lessons
def test_the_untouched_starter_is_unsolved_with_a_reason(results):
    got = results(PROJECT.starter.source)
    assert {one.verdict for one in got.values()} == {Verdict.UNSOLVED}
    for stage in PROJECT.meta.exercises:
        assert stage.needs[0] in got[stage.id].message


@pytest.mark.lessons
@pytest.mark.parametrize("stage", STAGES)
def test_a_stage_alone_needs_only_its_functions(results, stage):
    """Everything that a stage does not name is a stub again, and the stage passes."""
    needs = next(one for one in PROJECT.meta.exercises if one.id == stage).needs
    stubs = "\n".join(
        f"\ndef {name}(*words):\n    raise NotImplementedError\n" for name in PROJECT.starter.stubs if name not in needs
    )
    assert results(f"{PROJECT.solution}\n{stubs}", only=[stage])[stage].verdict is Verdict.PASS


ANOTHER = """

def data_digest(*arrays):
    return hashlib.sha256(b"".join(f"{one.dtype}{one.shape}".encode() + one.copy(order="C").tobytes() for one in arrays)).hexdigest()


def begin_run(client, experiment_id, name, statement):
    run = client.create_run(experiment_id, run_name=name)
    for key in ("rate", "updates", "data_sha256", "code_sha256"):
        client.log_param(run.info.run_id, key, getattr(statement, key))
    client.set_tag(run.info.run_id, "metric_boundary", "after update")
    return run.info.run_id


def log_curve(client, run_id, curve):
    for number, value in enumerate(curve):
        client.log_metric(run_id, "train_mse", value, step=number + 1)


def select_run(client, experiment_id, data_sha256):
    runs = [
        run
        for run in client.search_runs([experiment_id])
        if run.info.status == "FINISHED"
        and run.data.params.get("data_sha256") == data_sha256
        and run.data.metrics.get("validation_mse", math.nan) == run.data.metrics.get("validation_mse")
    ]
    if not runs:
        raise ValueError("no candidate")
    return min(runs, key=lambda run: run.data.metrics["validation_mse"]).info.run_id


def resolve(client, name, alias):
    try:
        return int(client.get_model_version_by_alias(name, alias).version)
    except Exception:
        return None


def refusals(candidate, champion, terms):
    error, logged = candidate.recomputed_mse, candidate.logged_mse
    conditions = {
        NOT_BETTER: champion is None or error < champion.recomputed_mse,
        ABOVE_LIMIT: error <= terms.limit,
        OTHER_METRIC: abs(error - logged) <= max(RELATIVE * max(abs(error), abs(logged)), ABSOLUTE),
        OTHER_DATA: candidate.data_sha256 == terms.data_sha256,
    }
    return tuple(reason for reason, met in conditions.items() if not met)


def parse_request(body, limit):
    def refuse(word):
        raise RequestRefused(400, f"not JSON: {word}")

    try:
        request = json.loads(str(body, "utf-8"), parse_constant=refuse)
    except UnicodeDecodeError:
        raise RequestRefused(400, "not UTF-8")
    except (ValueError, RecursionError):
        raise RequestRefused(400, "not JSON")
    if not (isinstance(request, dict) and list(request) == ["x"] and isinstance(request["x"], list) and request["x"]):
        raise RequestRefused(422, "shape")
    if len(request["x"]) > limit:
        raise RequestRefused(413, "count")
    for value in request["x"]:
        if type(value) not in {int, float} or not -LARGEST <= value <= LARGEST:
            raise RequestRefused(422, "value")
    return [float(value) for value in request["x"]]
"""


@pytest.mark.lessons
def test_another_right_implementation_passes(results):
    assert {one.verdict for one in results(PROJECT.solution + ANOTHER).values()} == {Verdict.PASS}


@pytest.mark.endurance
@pytest.mark.parametrize(("stage", "mistake"), MISTAKES, ids=lambda one: getattr(one, "id", one))
def test_a_named_mistake_passes_what_stands_before_its_stage_and_fails_there(results, stage, mistake):
    upto = STAGES[: STAGES.index(stage) + 1]
    got = results(f"{PROJECT.solution}\n{mistake.code}", only=upto)
    assert {one: got[one].verdict for one in upto[:-1]} == dict.fromkeys(upto[:-1], Verdict.PASS)
    assert (got[stage].verdict, got[stage].mistake) == (Verdict.FAIL, mistake.id)
    assert mistake.say in got[stage].message


RECORDED = PROJECT.receipt.read_text(encoding="utf-8")

CHEATS = {
    "constants": """
def data_digest(*arrays): return "0" * 64
def file_digest(path): return "0" * 64
def code_digest(folder, names): return "0" * 64
def begin_run(client, experiment_id, name, statement): return client.create_run(experiment_id, run_name=name).info.run_id
def log_curve(client, run_id, curve): return None
def read_curve(client, run_id, updates): return [0.5] * updates
def mse(line, inputs, targets): return 0.0
def select_run(client, experiment_id, data_sha256): return client.search_runs([experiment_id])[0].info.run_id
def register(client, name, run_id, source, model_sha256): return 1
def refusals(candidate, champion, terms): return ()
def resolve(client, name, alias): return 2
def promote(client, name, alias, candidate, champion, terms): return Decision(candidate.version, (), 2)
def register_prompt(client, name, template): return 1
def evaluate_traced(client, experiment_id, predict, inputs, targets): return Evaluation(0.0, "tr-0")
def release_record(client, name, alias, fetch, evaluation, prompt_version): return {"champion_version": 2, "trace_id": "tr-0"}
def trace_back(client, name, fetch, content): return {"version": 2, "run_id": "0", "data_sha256": "0" * 64, "code_sha256": "0" * 64}
def load_line(path, sha256): return Line(2.0, 1.0)
def parse_request(body, limit): return [1.0]
def predict(line, inputs): return [3.0 for _ in inputs]
""",
    "prints PASS and ends": """
import os, sys
print("PASS  engineering-release/identity\\nPASS: engineering-release", flush=True)
os._exit(0)
""",
    "ends the program": """
print("PASS: engineering-release")
raise SystemExit(0)
""",
    "looks for the receipt and for the driver's names": """
import sys
from pathlib import Path

driver = sys.modules["__main__"].__dict__
near = [place / name for place in (Path.cwd(), *Path.cwd().parents) for name in ("receipt.json", "solution/engineering.py")]
found = next((path.read_text() for path in near if path.is_file()), "")
def data_digest(*arrays): return driver["expected"]["digests"] if "expected" in driver else found[:64]
def parse_request(body, limit): return driver["expected"]["parsed"]
def refusals(candidate, champion, terms): return driver["expected"]["gate"]
def trace_back(client, name, fetch, content): return json.loads(found)
""",
    "makes everything equal": """
import hashlib as _hashlib, json as _json
class Same(str):
    def __eq__(self, other): return True
    def __hash__(self): return 0
def data_digest(*arrays): return Same("x")
def refusals(candidate, champion, terms): return (Same("x"),)
def register_prompt(client, name, template): return Same("1")
def predict(line, inputs): return Same("y")
""",
}


@pytest.mark.endurance
@pytest.mark.parametrize("cheat", CHEATS)
def test_cheats_fail_every_stage(results, cheat):
    got = results(f"{PROJECT.solution}\n{CHEATS[cheat]}")
    assert {stage: one.verdict for stage, one in got.items()} == dict.fromkeys(STAGES, Verdict.FAIL)


REPLAY = f"""
import sys
_recorded = json.loads({RECORDED!r})["runs"][0]["exercises"]


def _plain(value):
    if value["kind"] == "dict":
        return {{key["data"]: _plain(item) for key, item in zip(value["keys"], value["items"])}}
    return value.get("data")


_digests = iter(_plain(_recorded["identity"]['identity["digests"]']).values())
_errors = iter([item["data"] for item in _recorded["release"]['release["errors"]']["items"]])


def data_digest(*arrays):
    return next(_digests, "0" * 64)


def mse(line, inputs, targets):
    return next(_errors, 0.0)
"""


@pytest.mark.lessons
def test_recorded_answers_fail_under_other_parameters(results):
    """What the receipt holds is public. Handing it in passes the base run and nothing else."""
    got = results(PROJECT.solution + REPLAY, only=["identity", "release"])
    for one in got.values():
        assert one.verdict is Verdict.FAIL
        assert "SEED=" in one.message, one.message


@pytest.mark.endurance
@pytest.mark.parametrize("name", ["data_digest", "refusals", "evaluate_traced", "load_line"])
def test_a_function_that_ends_its_process_fails_the_stages_that_need_it(results, name):
    got = results(f"{PROJECT.solution}\n\nimport os\n\n\ndef {name}(*words):\n    os._exit(0)\n")
    for stage in PROJECT.meta.exercises:
        if name in stage.needs:
            assert got[stage.id].verdict is Verdict.FAIL
