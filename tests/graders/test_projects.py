"""A project's module put to the test: from the file to verdicts, evidence and a class."""

import asyncio
import json
import subprocess
import sys

import jsonschema
import pytest

from course.catalogue import load
from graders.__main__ import evidence_schema
from graders.check import Desk, Settings, check
from graders.collect import search
from graders.verdict import Reason, Verdict


@pytest.fixture
def results(audit, cache, tmp_path):
    def of(source, *, name="scale.py", only=()):
        path = tmp_path / name
        path.write_text(source, encoding="utf-8")

        async def one():
            desk = Desk(audit, Settings(4711, cache, only=only))
            try:
                return await check(desk, "Ana", path, path.name)
            finally:
                await desk.close()

        return {result.exercise: result for result in asyncio.run(one()).exercises}

    return of


def test_the_solution_passes_under_every_parameter(audit, results):
    found = results(audit.solution)
    assert {one.verdict for one in found.values()} == {Verdict.PASS}
    assert all(one.runs == ("base", "FACTOR=4", "draw 4711") for one in found.values())


def test_the_untouched_starter_says_where_to_begin(audit, results):
    found = results(audit.starter.source + "# a note of mine\n")
    assert {one.verdict for one in found.values()} == {Verdict.UNSOLVED}
    assert found["each"].message == "scaled is a stub still in scale.py; begin with scaled: multiply"
    assert "scaled, Total.of are stubs still" in found["all"].message


def test_a_stage_that_is_done_passes_beside_one_that_is_not(audit, results):
    half = audit.starter.source.replace('raise NotImplementedError("multiply")', "return factor * number")
    found = results(half)
    assert (found["each"].verdict, found["all"].verdict) == (Verdict.PASS, Verdict.UNSOLVED)
    assert found["all"].message.startswith("Total.of is a stub still")


def test_a_named_mistake_fails_in_its_stage_with_its_advice(audit, results):
    for stage in audit.meta.exercises:
        for mistake in stage.mistakes:
            found = results(f"{audit.solution}\n{mistake.code}\n")[stage.id]
            assert (found.verdict, found.mistake) == (Verdict.FAIL, mistake.id)
            assert mistake.say in found.message


def test_values_typed_in_fail_on_the_draw(audit, results):
    typed = audit.solution + "def scaled(number, factor):\n    return number * (factor if factor in (3, 4) else 3)\n"
    found = results(typed)["each"]
    assert found.verdict is Verdict.FAIL and "freshly drawn" in found.message


@pytest.mark.parametrize(
    "cheat",
    [
        "print('PASS      tiny-audit/each')\nprint('PASS: tiny-audit')\nimport os\nos._exit(0)\n",
        "import json\njson.dumps = lambda *a, **k: '[3, 6, 9]'\ndef scaled(number, factor): return None\n",
        "raise SystemExit(0)\n",
    ],
)
def test_cheats_do_not_pass(results, cheat):
    found = results(f"# project: tiny-audit\n{cheat}")
    assert all(one.verdict is Verdict.FAIL for one in found.values()), found


def test_what_cannot_be_a_module_is_told_so(results):
    broken = results("# project: tiny-audit\ndef scaled(:\n    pass\n")["each"]
    assert (broken.verdict, broken.reason) == (Verdict.FAIL, Reason.UNREADABLE)
    assert broken.message == "line 2 of scale.py is not valid Python: invalid syntax"
    notebook = results('{"cells": [], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}', name="scale.ipynb")["each"]
    assert "this project is handed in as the file scale.py" in notebook.message


def test_one_stage_alone_runs_nothing_of_the_others(audit, results):
    source = audit.solution + "import pathlib\nclass Total:\n    def of(self, **_): raise RuntimeError('asked')\n"
    found = results(source, only=("each",))
    assert set(found) == {"each"} and found["each"].verdict is Verdict.PASS


def test_an_error_in_the_module_is_told_by_the_probe(audit, results):
    found = results(audit.solution + "def scaled(number, factor):\n    return {}['x']\n")["each"]
    assert found.verdict is Verdict.FAIL and found.reason is Reason.RAISED
    assert "the stage each stopped with RuntimeError: scaled: KeyError: 'x'" in found.message


def graders(root, *words):
    return subprocess.run([sys.executable, "-m", "graders", *words], cwd=root, capture_output=True, text=True, check=False)


@pytest.fixture
def in_course(monkeypatch, root):
    monkeypatch.setenv("PYTHONPATH", str(root))


def test_evidence_holds_to_its_schema_and_is_never_overwritten(audit, audit_copy, tmp_path, in_course):
    solution = audit_copy / "projects" / "tiny-audit" / "solution" / "scale.py"
    folder = tmp_path / "runs" / "one"
    done = graders(audit_copy, "check", "tiny-audit", str(solution), "--evidence-dir", str(folder))
    assert done.returncode == 0, done.stderr
    assert sorted(path.name for path in folder.iterdir()) == ["evidence.json", "look.json", "look.png", "look.svg"]
    data = json.loads((folder / "evidence.json").read_text(encoding="utf-8"))
    jsonschema.validate(data, json.loads(evidence_schema()))
    assert data["observations"]["all"]["total"]["data"] == 18 and data["unit"] == "tiny-audit"
    assert [one["verdict"] for one in data["verdicts"]] == ["PASS", "PASS"]
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    again = graders(audit_copy, "check", "tiny-audit", "--evidence-dir", str(folder))
    assert again.returncode == 2 and "never overwritten" in again.stderr
    assert before == {path.name: path.read_bytes() for path in folder.iterdir()}
    assert [path.name for path in folder.parent.iterdir()] == ["one"]


def test_the_default_file_is_the_learners(audit_copy, in_course):
    done = graders(audit_copy, "check", "tiny-audit")
    assert done.returncode == 1 and done.stdout.count("UNSOLVED") == 2, done.stderr
    assert graders(audit_copy, "check", "tiny-audit", "--only", "nothing").returncode == 2
    assert graders(audit_copy, "check", "tiny-01", "--only", "double").returncode == 2


def test_a_class_hands_in_modules(audit_root, audit, tmp_path):
    folder = tmp_path / "class"
    for learner, path in (("Ana", "scale.py"), ("Bo", "tiny-audit/scale.py"), ("Cy", "work/my_scale.py"), ("Di", "notes.py")):
        file = folder / learner / path
        file.parent.mkdir(parents=True)
        file.write_text(audit.solution if learner != "Di" else "x = 1\n", encoding="utf-8")
    found = search(folder, load(audit_root))
    assert found.lessons == ("tiny-audit",)
    assert {one.learner: len(one.files) for one in found.found} == {"Ana": 1, "Bo": 1, "Cy": 1, "Di": 0}
    assert [path.name for path in found.unknown] == ["notes.py"]
