"""From observations to verdicts. Pure: nothing is run here, and a test can build every input by hand.

The order in which a verdict comes about, for one exercise:

1. its probes agree with what is expected, under every parameter it was run with        -> PASS
2. its cell, the kernel in it, or a probe of it ran out of time                          -> TIMEOUT
3. the kernel ended before the probes could be taken                                     -> FAIL (died)
4. blanks or stubs are as they were handed out, or there is no answer at all             -> UNSOLVED
5. the observations match those of a named mistake                                       -> FAIL, with its advice
6. the first probe that differs says how                                                 -> FAIL
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from course.comparison import Difference, compare
from course.receipt import Observations, Run
from course.schema import Comparator, Parameters, Task
from course.values import Value
from graders.program import Program
from graders.run import CellOutcome, Trace
from graders.verdict import ExerciseResult, Reason, Verdict


@dataclass(frozen=True)
class Judged:
    """One run as the judge needs it.

    Attributes:
        trace: what was observed.
        expected: what the reference gives under the same parameters.
        secret: a draw. Messages then tell neither parameters nor values.
    """

    trace: Trace
    expected: Mapping[str, Value]
    secret: bool = False


def judge(
    exercise: Task,
    program: Program,
    runs: Sequence[Judged],
    mistakes: Mapping[str, Sequence[Run]],
) -> ExerciseResult:
    """The verdict of one exercise.

    Args:
        exercise: what is asked, and its comparators.
        program: what was run.
        runs: the base run first, then variants, then draws. A run after which the exercise is known to be wrong may be
            missing.
        mistakes: by id, what was recorded of each named mistake.
    """
    names = tuple(run.trace.plan.name for run in runs)

    def result(
        verdict: Verdict, reason: Reason | None, message: str, probe: str | None = None, mistake: str | None = None
    ) -> ExerciseResult:
        points = exercise.points if verdict is Verdict.PASS else 0.0
        return ExerciseResult(
            exercise=exercise.id, verdict=verdict, reason=reason, probe=probe, message=message, mistake=mistake,
            points=points, out_of=exercise.points, runs=names,
        )  # fmt: skip

    for number, run in enumerate(runs):
        where = "" if number == 0 else (" (under freshly drawn parameters)" if run.secret else f" (for {run.trace.plan.name})")
        seen = run.trace.observations.get(exercise.id)
        differing = {} if seen is None else differences(exercise.probes, run.expected, seen)
        if seen is not None and not differing:
            continue
        timed_out = next((cell for cell in _cells(exercise, program, run.trace) if cell.status == "timeout"), None)
        if timed_out:
            return result(Verdict.TIMEOUT, Reason.TIMEOUT, _time_text(program, timed_out) + where)
        if number == 0 and (left := program.left.get(exercise.id)):
            return result(Verdict.UNSOLVED, Reason.NO_ANSWER, left)
        if seen is None:
            verdict, reason, message = _not_observed(exercise, program, run.trace)
            return result(verdict, reason, message + where)
        probe, difference = next(iter(differing.items()))
        known = None if run.secret else diagnose(exercise, run.trace.plan.key, dict(run.expected), seen, mistakes)
        advice = next((one.say for one in exercise.mistakes if one.id == known), "")
        if run.secret:
            text = f"{probe}: right for the lesson's own data, wrong for freshly drawn parameters ({difference.blind})"
            return result(Verdict.FAIL, Reason.WRONG, f"{text}: is something typed in that should be computed?", probe, known)
        reason, text = _explain(exercise, program, run.trace, probe, difference, seen[probe])
        if number and reason is Reason.WRONG:
            text = (
                f"{probe}: right for the lesson's data, wrong for {run.trace.plan.name} ({difference.text}): is the value typed in?"
            )
        elif number:
            text += where
        if exercise.id in program.missing and reason is Reason.MISSING:
            text = program.missing[exercise.id]
        return result(Verdict.FAIL, reason, f"{text} — {advice}" if advice else text, probe, known)
    return result(Verdict.PASS, None, "")


def differences(probes: Mapping[str, Comparator], expected: Mapping[str, Value], got: Mapping[str, Value]) -> dict[str, Difference]:
    """The probes that differ, in their order."""
    found: dict[str, Difference] = {}
    for probe, comparator in probes.items():
        if difference := compare(expected[probe], got[probe], comparator):
            found[probe] = difference
    return found


def diagnose(
    exercise: Task,
    parameters: Parameters,
    expected: Observations,
    got: Mapping[str, Value],
    mistakes: Mapping[str, Sequence[Run]],
) -> str | None:
    """The named mistake that explains an observation, or None.

    A mistake explains it if, on every probe where the mistake departs from the reference, the observation is the
    mistake's. Of several, the one that explains most probes is named.
    """
    best: tuple[int, str] | None = None
    wrong = set(differences(exercise.probes, expected, got))
    for name, recorded in mistakes.items():
        run = next((one for one in recorded if one.parameters == parameters), None)
        if run is None:
            continue
        theirs = {**expected, **run.exercises[exercise.id]}
        departs = differences(exercise.probes, expected, theirs)
        if not departs or not set(departs) <= wrong:
            continue
        if all(_same(theirs[probe], got[probe], exercise.probes[probe]) for probe in departs) and (
            best is None or len(departs) > best[0]
        ):
            best = (len(departs), name)
    return best[1] if best else None


def _same(theirs: Value, got: Value, comparator: Comparator) -> bool:
    """Whether two wrong observations are the same. ``at_most`` and ``same_order`` say little about wrong values."""
    rule = comparator if comparator.name in {"exact", "close", "same_set"} else Comparator(name="close")
    return compare(theirs, got, rule) is None


def _cells(exercise: Task, program: Program, trace: Trace) -> list[CellOutcome]:
    return [cell for cell in trace.cells if program.steps[cell.step].id == exercise.id]


def _time_text(program: Program, cell: CellOutcome) -> str:
    return f"{program.place(cell.step)} ran longer than its limit: does a loop never end?"


def _not_observed(exercise: Task, program: Program, trace: Trace) -> tuple[Verdict, Reason, str]:
    """Why there is no observation of an exercise."""
    unreadable = "the results couldn't be read: does a cell replace Python's or IPython's own functions?"
    if exercise.id in trace.tampered:
        return Verdict.FAIL, Reason.TAMPERED, unreadable
    if exercise.id in trace.slow:
        return Verdict.TIMEOUT, Reason.TIMEOUT, "looking at the results took longer than the limit: does a function never end?"
    lost = trace.lost
    if lost is None:
        return Verdict.TIMEOUT, Reason.TIMEOUT, "the time for the whole submission was used up before this exercise was reached"
    step = trace.cells[lost.step]
    mine = program.steps[lost.step].id == exercise.id
    if lost.how == "timeout":
        text = _time_text(program, step)
        return Verdict.TIMEOUT, Reason.TIMEOUT, text if mine else f"not run: {text}"
    if lost.how == "tampered":
        return Verdict.FAIL, Reason.TAMPERED, f"{unreadable} It was {program.place(lost.step)}"
    how = f" ({lost.exit})" if lost.exit else ""
    text = f"the kernel exited{how} in {program.place(lost.step)}: does it call exit, or need more memory than there is?"
    return Verdict.FAIL, Reason.DIED, text if mine else f"not run: {text}"


def _explain(exercise: Task, program: Program, trace: Trace, probe: str, difference: Difference, got: Value) -> tuple[Reason, str]:
    """The reason and the line for the first probe that differs in a run whose parameters may be told."""
    raised = next((cell for cell in _cells(exercise, program, trace) if cell.status == "error"), None)
    if got.kind == "raised" and got.type == "NameError":
        name = (re.findall(r"'([^']+)'", got.message or "") or [probe])[0]
        if raised:
            first = _first_cause(program, trace, raised)
            return Reason.RAISED, f"{program.place(raised.step)} stopped with {first} before {name} was defined"
        near = difflib.get_close_matches(name, trace.names.get(exercise.id, ()), 1, 0.7)
        return Reason.MISSING, f"{name} isn't defined" + (f"; there is {near[0]}" if near else "")
    if got.kind == "raised":
        return Reason.RAISED, f"{probe}: {difference.text}"
    text = f"{probe}: {difference.text}"
    if difference.hint:
        text += f" — {difference.hint}"
    if raised:
        text += f" ({program.place(raised.step)} stopped with {raised.error})"
    return Reason.WRONG, text


def _first_cause(program: Program, trace: Trace, raised: CellOutcome) -> str:
    """The error of a cell; if it is only the consequence of an earlier one, that one is named."""
    earlier = next((cell for cell in trace.cells if cell.step < raised.step and cell.status == "error"), None)
    if raised.error.startswith("NameError") and earlier:
        return f"{raised.error}, which follows from {program.place(earlier.step)}: {earlier.error},"
    return raised.error
