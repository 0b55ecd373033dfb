"""Whatever a submission does, the grader ends, says the right thing with the limit, and nothing is left behind."""

import asyncio
import os
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

import nbformat
import psutil
import pytest

from course.catalogue import load
from graders.check import Desk, Settings, check
from graders.kernels import warm
from graders.kernels.isolation import survey
from graders.kernels.warm import How
from graders.owner import me
from graders.verdict import Reason, Verdict
from tests.conftest import notebook, reference_answers
from tests.graders.hostile import CASES, FIRST, HUGE_REPR, PICKLED, RIGHT

AT_ONCE = 2
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the cases fork, and meet limits, as Linux has them")


async def judge_all(lesson, cache, files, settings=None):
    """Judge files against one lesson, two at a time, with the draws run once for all."""
    first = Desk(lesson, Settings(7, cache))
    places = asyncio.Semaphore(AT_ONCE)

    async def one(name):
        desk = Desk(lesson, (settings or {}).get(name, first.settings))
        desk._draws = first.draws()
        async with places:
            return await check(desk, name, files[name], files[name].name)

    try:
        return dict(zip(files, await asyncio.gather(*map(one, files)), strict=True))
    finally:
        await first.close()


def written(folder, lesson, answers, tag=""):
    files = {}
    for number, (name, code) in enumerate(answers.items()):
        made = notebook(lesson, {**reference_answers(lesson), "function": code})
        for cell in made.cells:
            cell.metadata["tags"] = ["raises-exception"]
        files[name] = folder / f"{number}{tag}.ipynb"
        nbformat.write(made, files[name])
    return files


def lacking(case):
    """The layers without which a case is another one."""
    return set(case.needs) - set(survey().layers)


def terms(cache):
    return {name: Settings(7, cache, one.seconds, 60, one.limits) for name, one in CASES.items()}


@pytest.fixture(scope="module")
def outcomes(request, tiny_root, cache, tmp_path_factory):
    """What came of those that are asked for in this session, run two at a time."""
    asked = {item.callspec.params.get("name") for item in request.session.items if hasattr(item, "callspec")}
    lesson = load(tiny_root).lesson("tiny-01")
    # One that reaches for others is not let loose where nothing would hold it.
    answers = {name: one.code + RIGHT for name, one in CASES.items() if name in asked and not lacking(one)}
    files = written(tmp_path_factory.mktemp("hostile"), lesson, answers)
    return asyncio.run(judge_all(lesson, cache, files, terms(cache)))


@pytest.mark.parametrize("name", [pytest.param(one, marks=[] if one in FIRST else pytest.mark.lessons) for one in CASES])
def test_a_hostile_submission(outcomes, name):
    case = CASES[name]
    if lacking(case):
        pytest.skip(f"this machine lacks {', '.join(lacking(case))}")
    found = outcomes[name]
    before, here = found.exercises
    assert (before.verdict, here.verdict, here.reason) == (case.before, case.verdict, case.reason), found
    assert case.says in here.message and len(here.message) < 2_500
    assert any(case.notice in one for one in found.notices) or not case.notice, found.notices


@pytest.mark.parametrize(("code", "says"), [(PICKLED, "a Bomb"), (HUGE_REPR, "a Huge")])
def test_objects_are_no_data(tiny, cache, tmp_path, code, says, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (found,) = asyncio.run(judge_all(tiny, cache, written(tmp_path, tiny, {"x": code}))).values()
    assert (found.exercises[1].verdict, found.exercises[1].reason) == (Verdict.FAIL, Reason.WRONG)
    assert says in found.exercises[1].message
    assert not list(tmp_path.rglob("unpickled"))


def test_a_neighbour_is_not_touched(tiny, cache, tmp_path):
    """An honest submission beside a fork bomb and a memory hog."""
    answers = {name: CASES[name].code + RIGHT for name in ("fork bomb without bound", "memory, bit by bit")}
    answers |= {"honest": RIGHT, "honest too": RIGHT}
    settings = {name: one for name, one in terms(cache).items() if name in answers}
    found = asyncio.run(judge_all(tiny, cache, written(tmp_path, tiny, answers), settings))
    assert [found[name].verdict for name in answers] == [Verdict.FAIL, Verdict.FAIL, Verdict.PASS, Verdict.PASS]


def test_limits_of_the_lesson_are_in_force(tiny_copy, cache, tmp_path):
    path = tiny_copy / "phases/01-tiny/01-double/lesson.toml"
    path.write_text(path.read_text(encoding="utf-8").replace("[limits]\n", "[limits]\nfile_mb = 11\n"), encoding="utf-8")
    lesson = load(tiny_copy).lesson("tiny-01")
    (found,) = asyncio.run(judge_all(lesson, cache, written(tmp_path, lesson, {"x": CASES["file"].code + RIGHT}))).values()
    assert "a file of more than 11 MB" in found.exercises[1].message


def left_behind():
    """What may be left of a run: processes, sockets, folders and locks, and the grader's own descriptors."""
    me_now = psutil.Process()
    folders = sorted(one.name for one in Path(tempfile.gettempdir()).glob(f"ts-{me()}-*"))
    shared = sorted(os.listdir("/dev/shm")) if Path("/dev/shm").is_dir() else []
    sockets = len(me_now.net_connections("all"))
    return {"children": len(me_now.children(recursive=True)), "folders": folders, "shared memory": shared, "sockets": sockets}


@pytest.mark.endurance
@pytest.mark.parametrize(("how", "number"), [(How.AUTO, 500), (How.COLD, 100)])
def test_after_hundreds_in_a_row_nothing_is_left(tiny, cache, tmp_path, how, number):
    names = [name for name in CASES if not lacking(CASES[name])]
    limits = {name: replace(one, how=how) for name, one in terms(cache).items()}
    asyncio.run(judge_all(tiny, cache, written(tmp_path, tiny, {"warm": RIGHT}, "-first")))  # what is made once is made now
    warm.close()
    before, descriptors = left_behind(), psutil.Process().num_fds()
    for round_ in range(-(-number // len(names))):
        files = written(tmp_path, tiny, {name: CASES[name].code + RIGHT for name in names}, f"-{round_}")
        found = asyncio.run(judge_all(tiny, cache, files, limits))
        wrong = {name: one for name, one in found.items() if one.exercises[1].verdict is not CASES[name].verdict}
        assert not wrong
    warm.close()
    assert left_behind() == before
    assert psutil.Process().num_fds() <= descriptors + 10
