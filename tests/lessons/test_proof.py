"""The two-way proof, with real kernels, through the same way that a submission takes.

That each named mistake fails with its own message is part of `make verify`. Here: the reference passes, an untouched
exercise is UNSOLVED, printing PASS is worth nothing, and knowing every parameter that this public repository names does
not help against a draw. The first lesson is proved in every test run; the others, which take minutes, with `-m lessons`.
"""

import ast
import asyncio
import os
import shutil
import subprocess
import sys

import pytest

from course.catalogue import load
from graders.check import Desk, Settings, check
from graders.verdict import Verdict
from tests.conftest import ROOT, reference_answers

IDS = [lesson.id for lesson in load(ROOT).lessons]
LESSONS = [pytest.param(one, marks=[] if one == "recovery-01" else pytest.mark.lessons) for one in IDS]


@pytest.fixture
def results(cache, hand_in):
    def of(lesson, answers):
        path = hand_in(lesson, answers)

        async def one():
            desk = Desk(lesson, Settings(4711, cache))
            try:
                return await check(desk, "Ana", path, path.name)
            finally:
                await desk.close()

        return asyncio.run(one()).exercises

    return of


@pytest.mark.parametrize("lesson_id", IDS)
def test_an_untouched_exercise_is_unsolved(root, results, lesson_id):
    found = results(load(root).lesson(lesson_id), None)
    assert {one.verdict for one in found} == {Verdict.UNSOLVED}


@pytest.mark.parametrize("lesson_id", LESSONS)
def test_the_reference_passes(root, results, lesson_id):
    lesson = load(root).lesson(lesson_id)
    found = results(lesson, reference_answers(lesson))
    assert all(one.verdict is Verdict.PASS for one in found), found
    assert all(one.runs[0] == "base" and one.runs[-1] == "draw 4711" for one in found)


@pytest.mark.parametrize("lesson_id", LESSONS)
def test_printing_pass_is_worth_nothing(root, results, lesson_id):
    lesson = load(root).lesson(lesson_id)
    lines = "".join(f"print('PASS      {lesson_id}/{exercise.id}')\n" for exercise in lesson.meta.exercises)
    found = results(lesson, dict.fromkeys(lesson.scaffolds, f"{lines}print('PASS: {lesson_id}')"))
    assert all(one.verdict is Verdict.FAIL for one in found), found


@pytest.mark.parametrize("lesson_id", LESSONS)
def test_answers_for_all_public_parameters_fail_on_the_draw(root, results, lesson_id):
    """A cheat that answers rightly wherever the repository tells the answer, and nowhere else."""
    lesson = load(root).lesson(lesson_id)
    answers = {}
    for exercise in lesson.meta.exercises:
        names = sorted(exercise.draw)
        known = [{**lesson.meta.grading, **variant} for variant in exercise.variants]
        rows = [tuple(variant.get(name) for name in names) for variant in known]
        answers[exercise.id] = (
            f"{lesson.cell(exercise.id).source}\n"
            f"_names, _rows = {names!r}, {rows!r}\n"
            f"_base = {base_values(lesson)!r}\n"
            "_now = tuple(globals()[name] for name in _names)\n"
            "_known = [tuple(_base[n] if v is None else v for n, v in zip(_names, row)) for row in _rows]\n"
            "_known += [tuple({**_base, **" + repr(lesson.meta.grading) + "}[n] for n in _names)]\n"
            "if _now not in _known:\n"
            "    for _name in [one for one in list(globals()) if one in " + repr(assigned(lesson, exercise.id)) + "]:\n"
            "        globals()[_name] = None\n"
        )
    found = results(lesson, answers)
    assert all(one.verdict is Verdict.FAIL and "freshly drawn" in one.message for one in found), found


def base_values(lesson):
    """The lesson's own parameters as values."""
    cell = next(cell for cell in lesson.cells if cell.role == "parameters")
    values = {}
    for node in ast.parse(cell.source).body:
        if isinstance(node, ast.Assign):
            values[node.targets[0].id] = eval(compile(ast.Expression(node.value), "<parameters>", "eval"))
    return values


def assigned(lesson, exercise_id):
    """The names that the reference solution of an exercise assigns or defines."""
    found = set()
    for node in ast.parse(lesson.cell(exercise_id).source).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found.add(node.name)
        else:
            found |= {one.id for one in ast.walk(node) if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store)}
    return sorted(found)


@pytest.mark.parametrize("lesson_id", LESSONS)
def test_a_script_runs_twice_without_network_and_leaves_nothing(root, lesson_id, tmp_path):
    lesson = load(root).lesson(lesson_id)
    for name in ("work", "home", "tmp"):
        (tmp_path / name).mkdir()
    env = {
        **os.environ,
        "HOME": str(tmp_path / "home"),
        "TMPDIR": str(tmp_path / "tmp"),
        "MPLBACKEND": "agg",
        "JAX_PLATFORMS": "cpu",
    }
    # A network namespace with nothing in it: whoever tries to send something fails.
    alone = ["unshare", "--net", "--map-root-user"] if may_unshare() else []
    for _ in range(2):
        done = subprocess.run(
            [*alone, sys.executable, lesson.script],
            cwd=tmp_path / "work",
            env=env,
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )
        assert done.returncode == 0, done.stderr[-2000:]
        assert done.stdout.splitlines()[-1] == f"PASS: {lesson_id}"
        assert list((tmp_path / "work").iterdir()) == []
        assert list((tmp_path / "tmp").iterdir()) == []


def may_unshare():
    """Whether this system allows a network namespace to this user; where it does not, the run is not cut off."""
    if not shutil.which("unshare"):
        return False
    return subprocess.run(["unshare", "--net", "--map-root-user", "true"], capture_output=True, check=False).returncode == 0
