"""No forgery passes, every honest solution does, and nothing is left of either. One real grading run of a class each.

What stops a forgery is shown by taking it away: without the layers those that search find a solution, and without a draw
those that type in what the receipt says pass.
"""

import asyncio
import os
import shutil
import sys
from pathlib import Path

import nbformat
import pytest

from course.catalogue import load
from graders.check import Desk, Settings, check
from graders.kernels.isolation import survey
from graders.kernels.order import LANDLOCK, NAMESPACES
from graders.verdict import Verdict
from tests.conftest import notebook
from tests.faults import grading
from tests.forgery import honest
from tests.forgery.forgeries import COMPUTES, DROP, FAST, FORGERIES, REPLAY_FUNCTION, WITHOUT_A_DRAW, WITHOUT_LAYERS

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="forgeries are let loose only where all layers can hold them")
LACKING = {NAMESPACES, LANDLOCK} - set(survey().layers) if sys.platform == "linux" else set()
REST = tuple(name for name in FORGERIES if name not in FAST)


def handed_in(lesson, folder, name, answers, more=(), change=None):
    made = notebook(lesson, answers, more=list(more))
    if change:
        change(made)
    folder.joinpath(name).mkdir(parents=True)
    nbformat.write(made, folder / name / f"{lesson.id}.ipynb")
    return folder / name / f"{lesson.id}.ipynb"


def forged(lesson, folder, name):
    one = FORGERIES[name]
    answers = {} if one.says == "unchanged from the release" else one.answers
    return handed_in(lesson, folder, name, answers, one.more, one.change)


def held(name):
    """Whether this machine has what holds it."""
    return not (FORGERIES[name].loose and LACKING)


def graded(tiny_root, base, names, *words):
    """A class of forgeries with as many honest solutions among them, graded as an instructor does it."""
    course = base / "course"
    shutil.copytree(tiny_root, course, ignore=shutil.ignore_patterns(".cache"))
    if (grading.ROOT / ".cache").is_dir():
        (course / ".cache").symlink_to(grading.ROOT / ".cache")  # the list of fonts takes seconds to make
    lesson = load(course).lesson("tiny-01")
    whole = honest.solutions(len(FORGERIES))
    first = 0 if names and names[0] in FAST else len(FAST)
    for number in range(len(names)):
        handed_in(lesson, base / "class", f"Honest {first + number:02}", whole[first + number])
    if "takes a dead drop" in names:  # somebody has to leave something
        double, function = whole[0].values()
        left = "\n".join((double, function))
        drop = f"ANSWERS = {left!r}\n{DROP}\n{double}"
        handed_in(lesson, base / "class", "Honest accomplice", {"double": drop, "function": function})
    for name in names:
        if held(name):
            forged(lesson, base / "class", name)
    before = grading.fingerprint(course / "phases")
    done = grading.grade(course, base / "class", base / "out", "--jobs", "3", "--cell-seconds", "8", *words, lesson="tiny-01")
    assert grading.fingerprint(course / "phases") == before
    return done


@pytest.fixture(scope="module")
def fast(tiny_root, tmp_path_factory):
    return graded(tiny_root, tmp_path_factory.mktemp("forged"), FAST)


@pytest.fixture(scope="module")
def rest(tiny_root, tmp_path_factory):
    return graded(tiny_root, tmp_path_factory.mktemp("forged"), REST)


def test_there_are_enough_of_them():
    whole = honest.solutions(len(FORGERIES))
    assert len(FORGERIES) >= 25 and len({tuple(one.values()) for one in whole}) == len(whole) == len(FORGERIES)
    assert len({one.tries for one in FORGERIES.values()}) == len(FORGERIES)
    page = (grading.ROOT / "docs" / "security.md").read_text(encoding="utf-8")
    missing = {one.layer for one in FORGERIES.values() if f"| {one.layer} |" not in page}
    assert not missing, "docs/security.md says of every layer what is tried against it"


@pytest.mark.parametrize("name", [*FAST, *(pytest.param(one, marks=pytest.mark.lessons) for one in REST)])
def test_no_forgery_passes(name, request):
    if not held(name):
        pytest.skip(f"this machine lacks {', '.join(sorted(LACKING))}")
    row = request.getfixturevalue("fast" if name in FAST else "rest").row(name)
    verdicts = {one["exercise"]: one["verdict"] for one in row["exercises"]}
    assert set(verdicts.values()) <= {"FAIL", "TIMEOUT", "UNSOLVED"}, row
    assert row["points"] == 0
    assert FORGERIES[name].says in row["exercises"][0]["message"], row


@pytest.mark.parametrize("part", ["fast", pytest.param("rest", marks=pytest.mark.lessons)])
def test_every_honest_solution_passes_and_nothing_is_left(part, request):
    found = request.getfixturevalue(part)
    others = [one for one in found.results["submissions"] if one["learner"].startswith("Honest")]
    assert len(others) == (len(FAST) if part == "fast" else len(REST) + 1)
    wrong = {one["learner"]: one["exercises"] for one in others if one["verdict"] != "PASS"}
    assert not wrong
    assert (found.code, found.left, found.before) == (0, [], found.after), found.err
    assert found.results["complete"] is True and not Path("/dev/shm/forgery-drop").exists()
    # What a forgery printed is in no report, and in no line of the terminal, as a verdict of its own.
    lines = [line for line in found.out.splitlines() if line.startswith("PASS")]
    assert all("Honest" in line for line in lines), lines


def judged(lesson, cache, files, *, draws=True):
    """Verdicts of files, with the draws or as if the lesson had none."""

    async def each():
        desk = Desk(lesson, Settings(3, cache))
        if not draws:
            desk.drawn = ()
        try:
            return [await check(desk, file.parent.name, file, file.name) for file in files]
        finally:
            await desk.close()

    return asyncio.run(each())


@pytest.mark.lessons
@pytest.mark.parametrize("name", WITHOUT_A_DRAW)
def test_without_a_draw_values_that_are_typed_in_pass(tiny, cache, tmp_path, name):
    """So it is the draw that stops them, and a lesson without one is open to them."""
    (found,) = judged(tiny, cache, [forged(tiny, tmp_path, name)], draws=False)
    assert found.verdict is Verdict.PASS, found


def test_who_answers_for_the_probe_has_to_compute_what_is_drawn(tiny, cache, tmp_path):
    """The same patched probe: with typed-in values it fails, and passes where it computes them, which is a solution."""
    typed = forged(tiny, tmp_path, "replaces the probe")
    computed = handed_in(tiny, tmp_path, "computes", {"double": COMPUTES, "function": REPLAY_FUNCTION})
    one, other = judged(tiny, cache, [typed, computed])
    assert [exercise.verdict for exercise in one.exercises] == [Verdict.FAIL, Verdict.FAIL]
    assert all("freshly drawn parameters" in exercise.message for exercise in one.exercises)
    assert other.verdict is Verdict.PASS, other


@pytest.mark.skipif(bool(LACKING), reason="without layers there is nothing to leave out")
@pytest.mark.lessons
def test_without_the_layers_a_search_finds_the_solution(tiny_root, tmp_path):
    """So it is the isolation that stops these, and they are no empty threats."""
    try:
        found = graded(tiny_root, tmp_path, list(WITHOUT_LAYERS), "--isolation", "off")
    finally:
        Path("/dev/shm/forgery-drop").unlink(missing_ok=True)
    assert {name: found.row(name)["verdict"] for name in WITHOUT_LAYERS} == dict.fromkeys(WITHOUT_LAYERS, "PASS")


def test_a_link_to_somebody_elses_work_is_not_handed_in(tiny_root, tmp_path):
    """The reader says so; the other learner's own file counts as ever."""
    if not hasattr(os, "symlink"):
        pytest.skip("no links here")
    lesson = load(tiny_root).lesson("tiny-01")
    own = handed_in(lesson, tmp_path / "class", "Honest", honest.solutions(1)[0])
    for name, target in (("linked", own), ("solution", Path(lesson.receipt).parent / "code" / "main.py")):
        (tmp_path / "class" / name).mkdir()
        (tmp_path / "class" / name / f"tiny-01{target.suffix}").symlink_to(target)
    found = grading.grade(tiny_root, tmp_path / "class", tmp_path / "out", lesson="tiny-01")
    assert found.row("Honest")["verdict"] == "PASS"
    for name in ("linked", "solution"):
        row = found.row(name)
        assert row["points"] == 0 and "link" in row["exercises"][0]["message"], row
