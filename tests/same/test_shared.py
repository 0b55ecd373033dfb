"""The runs of one submission share a kernel, and come out as if each had one of its own."""

import asyncio

import pytest

from course.catalogue import load
from graders.check import draw_plans, shares
from graders.measure import exercise_plans
from graders.program import reference
from graders.run import run
from tests.faults.grading import ROOT

UNITS = [unit.id for unit in load(ROOT).units]


def observed(unit, program, dealt, cache):
    """Plan -> what its probes gave, with the plans of each share in a kernel of their own."""
    limits = unit.meta.limits.model_copy(update={"cell_seconds": 300, "total_seconds": 900})
    found = {}
    for plans in dealt:
        for trace in asyncio.run(run(program, plans, limits, cache)):
            assert trace.lost is None and set(trace.observations) == set(trace.plan.probes)
            found[trace.plan.name, str(trace.plan.parameters)] = {
                (exercise, probe): value
                for exercise, seen in trace.observations.items()
                for probe, value in seen.items()
                if unit.exercise(exercise).probes[probe].name != "ignored"
            }
    return found


def compared(unit, cache):
    base, *variants = exercise_plans(unit.meta.exercises, unit.meta.grading)
    plans = [base, *variants, *draw_plans(unit, 3)]
    program = reference(unit)
    together = observed(unit, program, [plans], cache)
    assert len(together) == len(plans) > 2
    return together, observed(unit, program, shares(plans, 2), cache), observed(unit, program, [[plan] for plan in plans], cache)


def test_runs_in_one_kernel_and_in_separate_ones_give_the_same(tiny, cache):
    together, dealt, apart = compared(tiny, cache)
    assert together == dealt == apart


@pytest.mark.lessons
@pytest.mark.parametrize("unit_id", UNITS)
def test_so_it_is_for_a_lesson(unit_id, cache):
    together, dealt, apart = compared(load(ROOT).unit(unit_id), cache)
    assert together == dealt == apart


def test_plans_are_dealt_to_kernels():
    assert shares([], 2) == [[]] or shares([], 2) == []
    assert shares([1, 2, 3, 4], 1) == [[1, 2, 3, 4]]
    assert shares([1, 2, 3, 4], 2) == [[1, 3], [2, 4]]
    assert shares([1, 2], 3) == [[1], [2]]


def test_a_run_that_leaves_something_behind_would_be_seen(tiny, cache):
    """What outlives a fresh namespace is what the kernel itself holds; then the runs do differ."""
    program = reference(tiny)
    place = program.steps[1]
    marked = f"{place.source}\nimport builtins\nnumbers = numbers + [getattr(builtins, 'left', 0)]\nbuiltins.left = 1"
    spoiled = type(program)(
        tuple(
            type(step)(step.id, marked if step is place else step.source, step.origin, step.position, step.parameters)
            for step in program.steps
        ),
        program.observed_after, given=program.given, plain=program.plain, keeps=program.keeps,
    )  # fmt: skip
    base, *variants = exercise_plans(tiny.meta.exercises, tiny.meta.grading)
    plans = [base, *variants]
    assert observed(tiny, spoiled, [plans], cache) != observed(tiny, spoiled, [[plan] for plan in plans], cache)
