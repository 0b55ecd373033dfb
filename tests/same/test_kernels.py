"""A forked kernel and one that was started anew say the same: of every lesson, every sample submission, every handed fault.

Long, so with `-m lessons`; that cells behave alike in both is in `tests/graders/test_warm.py`.
"""

import asyncio
import re
from dataclasses import replace
from difflib import unified_diff
from itertools import zip_longest

import pytest

from course.catalogue import load
from course.comparison import compare
from course.receipt import Line
from graders.kernels.servers import possible
from graders.kernels.warm import How
from graders.measure import exercise_plans
from graders.program import reference
from graders.run import run
from graders.verify import lines_differ
from tests.faults import grading
from tests.faults.conftest import graded as graded_faults
from tests.faults.conftest import ragged  # noqa: F401 - a fixture
from tests.forgery.forgeries import FORGERIES
from tests.forgery.test_forgery import graded as graded_forgeries

pytestmark = [
    pytest.mark.lessons,
    pytest.mark.skipif(bool(possible()), reason=possible() or "kernels can be forked here"),
]
CATALOGUE = load(grading.ROOT)
UNITS = [unit.id for unit in CATALOGUE.units]
# What a learner's own code draws, measures or is told by the system: it differs from run to run in either kind of kernel.
CHANCE = re.compile(r"0x[0-9a-f]{6,}|\b\d+\.\d+ s\b|ts-\d+[^/'\" ]*|/proc/\d+|pid \d+")
# What a process wrote last to its stderr is read by a thread of its own, which may end with it before that. The status is compared.
LAST_WORDS = re.compile(r"(?<=exited \(status \d): [^)]*")
# They send their own kernel a request, and which run it spoils depends on when the kernel comes to it: that, and the words for it, are not compared.
RACES = {"talks to other kernels"}


def traces(unit, how, cache):
    """Everything that the reference gives: base run and variants, with the recorded facts."""
    base, *variants = exercise_plans(unit.meta.exercises)
    facts = {}
    for fact in unit.meta.facts:
        facts.setdefault(fact.cell, {})[fact.id] = fact.expression
    limits = unit.meta.limits.model_copy(update={"cell_seconds": 300, "total_seconds": 900})
    plans = [replace(base, facts=facts), *variants]
    return asyncio.run(run(reference(unit), plans, limits, cache, how=how))


def lines(unit, trace):
    program = reference(unit)
    return tuple(Line(cell=program.steps[cell.step].id, text=text) for cell in trace.cells for text in cell.stdout.splitlines())


@pytest.mark.parametrize("unit_id", UNITS)
def test_a_lesson(unit_id, cache):
    unit = CATALOGUE.unit(unit_id)
    pairs = list(zip_longest(traces(unit, How.COLD, cache), traces(unit, How.WARM, cache)))
    assert pairs
    for cold, warm in pairs:
        assert cold.plan == warm.plan
        assert [(one.status, one.error) for one in warm.cells] == [("ok", "")] * len(cold.cells)
        assert [(one.status, one.error) for one in cold.cells] == [("ok", "")] * len(cold.cells)
        assert lines(unit, cold), "it prints"
        problems = lines_differ(unit, lines(unit, cold), tuple(line.text for line in lines(unit, warm)), "warm")
        assert list(problems) == []
        for name, seen in cold.observations.items():
            rules = unit.exercise(name).probes
            # To the last digit, whatever the comparator would let pass; but what is ignored is ignored.
            differing = {one for one in seen if rules[one].name != "ignored" and warm.observations[name][one] != seen[one]}
            assert not differing
        for fact in unit.meta.facts if cold.facts or warm.facts else ():
            assert compare(cold.facts[fact.id], warm.facts[fact.id], fact.compare) is None, fact.id


def told(graded):
    """What a grading run says of each submission, but the time that it took."""
    assert graded.code == 0 and graded.left == [], graded.out + graded.err
    assert graded.results["complete"] is True and graded.results["submissions"]
    lines = []
    for one in graded.results["submissions"]:
        head = f"{one['learner']} {one['lesson']}"
        for result in one["exercises"]:
            by_chance = ("message", "mistake", "probe", "runs") if one["learner"] in RACES else ()
            kept = {name: value for name, value in result.items() if name not in by_chance}
            lines.append(CHANCE.sub("*", LAST_WORDS.sub("", f"{head} {kept}")))
        lines += [CHANCE.sub("*", f"{head} notice: {notice}") for notice in one["notices"]]
    return lines


def same(cold, warm):
    differing = list(unified_diff(told(cold), told(warm), "cold", "warm", lineterm="", n=0))
    assert not differing, "\n".join(differing)


@pytest.mark.parametrize("folder", ["class", "projects"])
def test_the_sample_submissions(folder, root, tmp_path):
    first, *others = UNITS
    lessons = [word for unit in others for word in ("--lesson", unit)]
    cold, warm = (
        grading.grade(root, root / "examples" / folder, tmp_path / how, *lessons, "--kernel", how, lesson=first)
        for how in (How.COLD, How.WARM)
    )
    same(cold, warm)


@pytest.mark.parametrize("where", ["class", "slow", "run"])
def test_the_faults(where, ragged, tmp_path):  # noqa: F811 - it is the fixture
    lesson = "ragged-02" if where == "run" else "ragged-01"
    words = ("--jobs", "2", "--total-seconds", "150", "--cell-seconds", "60" if where == "run" else "6")
    cold, warm = (
        graded_faults(where, ragged, tmp_path / how, *words, "--kernel", how, lesson=lesson) for how in (How.COLD, How.WARM)
    )
    same(cold, warm)


def test_the_forgeries(tiny_root, tmp_path):
    cold, warm = (graded_forgeries(tiny_root, tmp_path / how, list(FORGERIES), "--kernel", how) for how in (How.COLD, How.WARM))
    same(cold, warm)
