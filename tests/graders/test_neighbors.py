"""Runs that share a kernel, and what a result shares with earlier ones: none decides for another, and nothing is counted twice."""

import asyncio
import json
import math
import multiprocessing
import shutil
from types import SimpleNamespace

import nbformat
import pytest

from course.catalogue import load
from course.errors import CourseError
from course.schema import Limits
from course.values import show
from graders import batch
from graders.check import Desk, Settings, check
from graders.collect import search
from graders.kernels.isolation import survey
from graders.program import Program, Step
from graders.run import PATIENCE, Plan, Session, _printed, run
from graders.store import Store
from graders.verdict import Reason, SubmissionResult, Verdict, not_judged
from tests.conftest import notebook, reference_answers

LIMITS = Limits(cell_seconds=30, total_seconds=90)
RIGHT = "doubled = [2 * one for one in numbers]\nmean = sum(doubled) / N\n"

# Answers that are right whatever ran before them in another kernel; in the same one something of it is still there.
HONEST = {
    "a module of their own": "import pathlib\n"
    "pathlib.Path('helper.py').write_text(f'doubled = {[2 * one for one in numbers]}')\n"
    "from helper import doubled\nassert len(doubled) == N\nmean = sum(doubled) / N",
    "a setting that can be made once": f"import multiprocessing as mp\nmp.set_start_method('spawn')\n{RIGHT}",
    "a variable of the environment": f"import os\nassert 'MINE' not in os.environ\nos.environ['MINE'] = '1'\n{RIGHT}",
    "a file in the home": f"import os\nopen(os.path.expanduser('~/mine.txt'), 'x').close()\n{RIGHT}",
}
# Answers that are wrong in any kernel, with what is said of them.
TYPED_IN = {
    "for all": ("doubled = [2, 4, 6]\nmean = 4.0", "wrong for N=5"),
    "for all but one": ("doubled = [2 * one for one in numbers]\nmean = {3: 4.0, 5: 6.0}.get(N, 1.0)", "wrong for N=7"),
    "for all but the draw": ("doubled = [2 * one for one in numbers]\nmean = {3: 4.0, 5: 6.0, 7: 8.0}.get(N, 1.0)", "freshly drawn"),
    "and a file in the home": ("import os\nopen(os.path.expanduser('~/mine.txt'), 'x').close()\ndoubled = [2, 4, 6]\nmean = 4.0", "wrong for N=5"),
}  # fmt: skip
# Answers that spoil what the kernel says of a run; N is 3 in the base run.
GARBLED = """
kernel = get_ipython().kernel
if N {when} 3:
    _send = kernel.session.send

    def garbled(stream, kind, content=None, *more, **named):
        if kind == "execute_reply" and isinstance(content, dict) and not content.get("user_expressions"):
            _send(stream, kind, b"[1]", *more, **named)
            raise RuntimeError
        return _send(stream, kind, content, *more, **named)

    kernel.session.send = garbled
"""
GARBLING = {name: GARBLED.format(when=when) + RIGHT for name, when in {"base": "==", "variant": "!="}.items()}
# A thread that prints as long as a probe takes.
PRINTING = """
import threading, time
begun = threading.Event()

def prints():
    begun.wait()
    while True:
        print("y" * 100_000, flush=True)
        time.sleep(0.01)

threading.Thread(target=prints, daemon=True).start()

def scaled(values, factor):
    begun.set()
    time.sleep(8)
    return [factor * value for value in values]
"""
ANSWERS = {f"honest: {name}": {"double": code} for name, code in HONEST.items()}
ANSWERS |= {f"typed in: {name}": {"double": code} for name, (code, _) in TYPED_IN.items()}
ANSWERS |= {f"garbled: {name}": {"double": code} for name, code in GARBLING.items()}
ANSWERS |= {"printing": {"function": PRINTING}}
AT_ONCE = 2


@pytest.fixture(scope="module")
def outcomes(request, tiny_root, cache, tmp_path_factory):
    """What came of those that are asked for in this session. Without a share of kernels for each: all runs are in one."""
    asked = {item.callspec.params.get("name") for item in request.session.items if hasattr(item, "callspec")}
    lesson = load(tiny_root).lesson("tiny-01")
    folder = tmp_path_factory.mktemp("neighbors")
    places = asyncio.Semaphore(AT_ONCE)

    async def main():
        desk = Desk(lesson, Settings(7, cache, cell_seconds=30, total_seconds=120, more={"output_mb": 2}))

        async def one(number, name):
            file = folder / f"{number}.ipynb"
            nbformat.write(notebook(lesson, {**reference_answers(lesson), **ANSWERS[name]}), file)
            async with places:
                return name, await check(desk, name, file, file.name)

        try:
            wanted = [one(number, name) for number, name in enumerate(ANSWERS) if name in asked]
            return dict(await asyncio.gather(*wanted))
        finally:
            await desk.close()

    return asyncio.run(main())


@pytest.mark.parametrize("name", [one for one in ANSWERS if one.startswith("honest")])
def test_what_an_earlier_run_has_left_decides_against_nobody(outcomes, name):
    found = outcomes[name]
    assert [one.verdict for one in found.exercises] == [Verdict.PASS, Verdict.PASS], found
    assert found.exercises[0].runs == ("base", "N=5", "N=7", "draw 7")


@pytest.mark.parametrize("name", [one for one in ANSWERS if one.startswith("typed in")])
def test_what_is_typed_in_is_still_seen(outcomes, name):
    double, function = outcomes[name].exercises
    assert (double.verdict, double.reason, function.verdict) == (Verdict.FAIL, Reason.WRONG, Verdict.PASS), double
    says = TYPED_IN[name.partition(": ")[2]][1]
    assert says in double.message and "typed in" in double.message


@pytest.mark.parametrize("name", [one for one in ANSWERS if one.startswith("garbled")])
def test_an_answer_that_cannot_be_read_is_the_learners(outcomes, name):
    double = outcomes[name].exercises[0]
    assert (double.verdict, double.reason) == (Verdict.FAIL, Reason.TAMPERED), double


@pytest.mark.parametrize("name", ["printing"])
def test_what_is_printed_while_probes_are_taken_is_bounded(outcomes, name):
    double, function = outcomes[name].exercises
    assert double.verdict is Verdict.PASS
    assert (function.verdict, function.reason) == (Verdict.FAIL, Reason.OUTPUT_LIMIT), function
    assert "printed more than 2 MB, which is the limit" in function.message


def run_cells(cache, *sources, probes=("x",), plans=(), after=0, limits=LIMITS):
    steps = tuple(
        Step(f"c{number}", source, "exercise" if number == after else "own", number + 1, number == 0)
        for number, source in enumerate(sources)
    )
    wanted = [Plan({}, {"e": probes}), *(Plan(one, {"e": probes}, name=str(one), whole=False) for one in plans)]
    return asyncio.run(run(Program(steps, {"e": after}), wanted, limits, cache))


@pytest.mark.parametrize("kind", sorted({"spawn", "forkserver"} & set(multiprocessing.get_all_start_methods())))
def test_processes_can_be_started_in_every_run(cache, kind):
    cell = f"import multiprocessing as mp\nwith mp.get_context({kind!r}).Pool(1) as pool:\n    x = pool.map(abs, [-N])"
    base, variant = run_cells(cache, "N = 1", cell, plans=[{"N": 2}], after=1)
    assert [one.error for one in (*base.cells, *variant.cells)] == [""] * 4
    assert [show(one.observations["e"]["x"]) for one in (base, variant)] == ["[1]", "[2]"]


def test_a_namespace_begins_with_the_same_names_in_every_run(cache):
    names = "sorted(one for one in globals() if one[:2] == one[-2:] == '__' and one.strip('_'))"
    base, variant = run_cells(cache, "N = 1", f"x = {names}", plans=[{"N": 2}], after=1)
    assert "__spec__" in show(base.observations["e"]["x"])
    assert base.observations == variant.observations


COLORED = "\\x1b[32m|\\x1b[0m"  # ten characters; JSON needs twice as many


@pytest.mark.parametrize(
    ("text", "times", "status"),
    [
        (COLORED, 80_000, "ok"),
        (COLORED, 130_000, "output"),
        ('\\"', 800_000, "ok"),
        ("\\n", 800_000, "ok"),
        ("y", 800_000, "ok"),
        ("y", 1_300_000, "output"),
    ],
    ids=["colored", "too much that is colored", "quotes", "lines", "plain", "too much"],
)
def test_what_a_variant_prints_is_counted_as_in_the_base_run(cache, text, times, status):
    # What is too much is interrupted; without the wait it might have ended before.
    wait = "\nimport time\ntime.sleep(25)" if status == "output" else ""
    cell = f'import sys\nx = sys.stdout.write("{text}" * {times})\nsys.stdout.flush(){wait}'
    limits = LIMITS.model_copy(update={"output_mb": 1})
    base, variant = run_cells(cache, "N = 1", cell, plans=[{"N": 2}], after=1, limits=limits)
    assert [one.cells[1].status for one in (base, variant)] == [status, status]


@pytest.mark.parametrize(
    "text",
    ["", "plain", "\x1b[32m|\x1b[0m", '"quoted"', "a\nb\tc", "\\" * 50, "ä日🦊" * 20, "\x00\x01" * 40, "\\u001b", "\\\\u00e4"],
)
@pytest.mark.parametrize("ascii_only", [True, False])
def test_no_more_is_counted_than_was_printed(text, ascii_only):
    around = len(json.dumps({"name": "stdout", "text": ""}))
    content = json.dumps({"name": "stdout", "text": text}, ensure_ascii=ascii_only)
    counted = _printed(content.encode())
    assert len(content) / 6 - 1 <= counted <= len(content)
    if not ascii_only:
        assert counted <= len(text) + around
    if text.isprintable() and not set(text) & set('\\"') and not ascii_only:
        assert counted == len(text) + around


class Waiting:
    """Stands for a watch: a kernel that has waited for a processor for so long at each look."""

    def __init__(self, step):
        self.step, self.total = step, 0.0

    def waited(self):
        self.total += self.step
        return self.total


def given_back(step, total, cells, seconds=0.02):
    """How far a deadline moves when cells run into their limit, and a kernel waits `step` seconds between two looks."""

    async def main():
        kernel = SimpleNamespace(watch=Waiting(step), manager=None, client=None)
        session = Session(kernel, None, LIMITS.model_copy(update={"total_seconds": total}))
        session.deadline = 0.0
        for _ in range(cells):
            never = asyncio.get_running_loop().create_future()
            await session._patiently({never}, seconds)
        return session.deadline

    return asyncio.run(main())


def test_time_is_given_back_for_waiting():
    assert given_back(0.0, 100.0, cells=3) == 0.0
    assert math.isclose(given_back(1.0, 100.0, cells=1), PATIENCE * 0.02)
    assert math.isclose(given_back(1.0, 100.0, cells=4), 4 * PATIENCE * 0.02)


def test_time_that_is_given_back_is_bounded_over_all_cells():
    assert math.isclose(given_back(1.0, 0.03, cells=6), PATIENCE * 0.03)


LESSON = "phases/01-tiny/01-double/lesson.toml"
SCRIPT = "phases/01-tiny/01-double/code/main.py"
PROJECT, MODULE = "projects/tiny-audit/project.toml", "projects/tiny-audit/solution/scale.py"


def key(root, unit="tiny-01"):
    """What submissions of a lesson are remembered by."""
    catalogue = load(root)
    desks = {unit: CourseError()}
    return batch.open_terms(catalogue, desks, Settings(1, root), grader="g", environment="e", isolation=survey().layers)[unit]


@pytest.fixture
def course(tiny_copy, root):
    """A course that a test may change, with a project in it of which nothing is recorded."""
    shutil.copytree(root / "tests" / "fixtures" / "projects", tiny_copy / "projects")
    return tiny_copy


def edit(root, file, old, new):
    text = (root / file).read_text(encoding="utf-8")
    assert text.count(old) == 1, text.count(old)
    (root / file).write_text(text.replace(old, new), encoding="utf-8")


CHANGES = {
    "points": (LESSON, "points = 2", "points = 2.5"),
    "advice of a mistake": (LESSON, "This adds the factor.", "The factor is added here."),
    "code of a mistake": (LESSON, "mean = sum(doubled) / 3", "mean = sum(doubled) / 3.0"),
    "name of a mistake": (LESSON, 'id = "adds"', 'id = "added"'),
    "scaffold": (SCRIPT, "# SOLUTION: each number twice as large", "# SOLUTION: every number, doubled"),
    "reference": (SCRIPT, "numbers = list(range(1, N + 1))", "numbers = list(range(2, N + 2))"),
    "title of a cell": (SCRIPT, "# %% Write a function id=", "# %% Write one function id="),
    "probe": (LESSON, 'mean = "close"', 'mean = "exact"'),
    "variant": (LESSON, "variants = [{ N = 5 }, { N = 7 }]", "variants = [{ N = 5 }, { N = 8 }]"),
    "limit": (LESSON, "cell_seconds = 10", "cell_seconds = 11"),
}
WORDS = {
    "task": (LESSON, "Double every number and take the mean.", "Double all numbers and take the mean."),
    "hint": (LESSON, "A list comprehension does it.", "Try a list comprehension."),
    "guide": (LESSON, "Multiply each value.", "Multiply every value."),
    "reasoning": (LESSON, "The factor is an argument, so the function works for any.", "The factor is an argument."),
    "question": (LESSON, "What is twice a number?", "What is a number, twice?"),
    "minutes": (LESSON, "minutes = 1", "minutes = 2"),
}


PROJECTS = {
    "points": (PROJECT, "points = 2", "points = 3"),
    "needs": (PROJECT, 'needs = ["scaled", "Total"]', 'needs = ["Total"]'),
    "advice of a mistake": (PROJECT, "This is the sum before scaling.", "Scale before you add."),
    "starter": (MODULE, "# BEGIN SOLUTION: multiply", "# BEGIN SOLUTION: take the product"),
}


@pytest.mark.parametrize("part", CHANGES)
def test_what_a_result_depends_on_is_asked_for_anew(course, part):
    before = key(course)
    assert key(course) == before
    edit(course, *CHANGES[part])
    assert key(course) != before


@pytest.mark.parametrize("part", PROJECTS)
def test_what_a_result_of_a_project_depends_on_is_asked_for_anew(course, part):
    before, lesson = key(course, "tiny-audit"), key(course)
    edit(course, *PROJECTS[part])
    assert key(course, "tiny-audit") != before and key(course) == lesson


@pytest.mark.parametrize("part", WORDS)
def test_words_bring_no_submission_back(course, part):
    before = key(course), key(course, "tiny-audit")
    edit(course, *WORDS[part])
    assert (key(course), key(course, "tiny-audit")) == before


@pytest.mark.parametrize(("change", "again"), [(CHANGES["points"], 1), (WORDS["hint"], 0)], ids=["points", "hint"])
def test_other_points_bring_submissions_back_into_the_run(course, hand_in, cache, tmp_path, change, again):
    folder = hand_in(load(course).lesson("tiny-01"), {}).parents[1]

    def ledger(store):
        catalogue = load(course)
        found, settings = search(folder, catalogue), Settings(1, cache)
        desks = batch.open_desks(catalogue, found, settings)
        terms = batch.open_terms(catalogue, desks, settings, grader="g", environment="e", isolation=())
        return batch.open_ledger(store, store.begin(str(folder), (), None, 1, fresh=False), found, terms)

    with Store(tmp_path / "out" / "results.sqlite") as store:
        first = ledger(store)
        file = folder / "Ana" / "tiny-01.ipynb"
        sha256 = batch.fingerprint(file)
        exercises = not_judged((("double", 2.0), ("function", 1.0)), Verdict.UNSOLVED, Reason.NO_ANSWER, "")
        shown = file.relative_to(folder).as_posix()
        result = SubmissionResult(learner="Ana", lesson="tiny-01", file=shown, sha256=sha256, exercises=exercises)
        store.keep(first.run, sha256, first.terms["tiny-01"], result)
        assert len(ledger(store).known) == 1
        edit(course, *change)
        now = ledger(store)
    assert (now.changed, len(now.known)) == (again, 1 - again)
