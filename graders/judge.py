"""From observations to verdicts. Pure: nothing is run here, and a test can build every input by hand.

The order in which a verdict comes about, for one exercise:

1. its probes agree with what is expected, under every parameter it was run with        -> PASS
2. its cell, the kernel in it, or a probe of it ran out of time                          -> TIMEOUT
3. its cell used more than its limits, or the kernel ended before the probes were taken  -> FAIL (memory …, died)
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
from graders import excess
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
        if used := _used_up(exercise, program, run.trace):
            return result(Verdict.FAIL, used[0], used[1] + where)
        if number == 0 and (left := program.left.get(exercise.id)):
            return result(Verdict.UNSOLVED, Reason.NO_ANSWER, left)
        if seen is None:
            verdict, reason, message = _not_observed(exercise, program, run.trace)
            return result(verdict, reason, message + where)
        probe, difference = next(iter(differing.items()))
        known = None if run.secret else diagnose(exercise, run.trace.plan.key, dict(run.expected), seen, mistakes)
        advice = next((one.say for one in exercise.mistakes if one.id == known), "")
        stopped = _given_stopped(exercise, program, run.trace) if number else None
        if stopped:
            # The lesson's own code runs through with these parameters: something that the learner's code did stops it.
            kind = stopped.error.partition(":")[0] if run.secret else _said(stopped)
            text = f"{program.place(stopped.step)} stopped with {kind}: what did a cell before it use up, change or replace?"
            return result(Verdict.FAIL, Reason.RAISED, text + where, probe, known)
        if run.secret:
            text = f"{probe}: right for the lesson's own data, wrong for freshly drawn parameters ({difference.blind})"
            reason = Reason.RAISED if seen[probe].kind == "raised" else Reason.WRONG
            return result(Verdict.FAIL, reason, f"{text}: is something typed in that should be computed?", probe, known)
        reason, text = _explain(exercise, program, run.trace, probe, difference, seen[probe])
        if number and reason is Reason.WRONG:
            text = (
                f"{probe}: right for the lesson's data, wrong for {run.trace.plan.name} ({difference.text}): is the value typed in?"
            )
        elif number:
            text += where
        if changed := _changed_in(program, exercise, probe):
            text += f" — {changed}"
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
    limit = f"{cell.seconds:g} s" if cell.seconds else "its limit"
    return f"{program.place(cell.step)} ran longer than {limit}: does a loop never end?"


def _used_up(exercise: Task, program: Program, trace: Trace) -> tuple[Reason, str] | None:
    """What to say if a cell of the exercise was ended, or stopped, at a limit of what it may use."""
    for cell in _cells(exercise, program, trace):
        place = program.place(cell.step)
        found = (
            excess.raised(cell.error, place, trace.limits)
            if cell.status == "error"
            else excess.ended(cell.status, place, trace.limits)
        )
        if found:
            return found
    return None


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
    place = program.place(lost.step)
    if used := excess.ended(lost.how, place, trace.limits) or excess.raised(lost.said, place, trace.limits):
        return Verdict.FAIL, used[0], used[1] if mine else f"not run: {used[1]}"
    how = f" ({lost.exit}{f': {lost.said}' if lost.said else ''})" if lost.exit else ""
    text = f"the kernel exited{how} in {program.place(lost.step)}: does it call exit, or need more memory than there is?"
    return Verdict.FAIL, Reason.DIED, text if mine else f"not run: {text}"


def _explain(exercise: Task, program: Program, trace: Trace, probe: str, difference: Difference, got: Value) -> tuple[Reason, str]:
    """The reason and the line for the first probe that differs in a run whose parameters may be told."""
    raised = next((cell for cell in _cells(exercise, program, trace) if cell.status == "error"), None)
    if raised is None and exercise.id in program.missing and len(program.missing) == len(program.observed_after):
        # A file without any cell that is known: what stopped in it is the cause, wherever it stands.
        own = (cell for cell in trace.cells if program.steps[cell.step].origin == "own")
        raised = next((cell for cell in own if cell.status == "error"), None)
    if got.kind == "raised" and got.type == "NameError":
        name = (re.findall(r"'([^']+)'", got.message or "") or [probe])[0]
        if raised:
            return Reason.RAISED, f"{_stopped(program, trace, raised, f'before {name} was defined')}"
        near = difflib.get_close_matches(name, trace.names.get(exercise.id, ()), 1, 0.7)
        return Reason.MISSING, f"{name} isn't defined" + (f"; there is {near[0]}" if near else "")
    if got.kind == "raised":
        if raised:
            return Reason.RAISED, _stopped(program, trace, raised, "")
        error = f"{got.type}: {got.message}"
        if used := excess.raised(error, probe, trace.limits):
            return used
        return Reason.RAISED, f"{probe}: {difference.text}{_hint(error)}"
    text = f"{probe}: {difference.text}"
    if difference.hint:
        text += f" — {difference.hint}"
    if raised:
        text += f" ({program.place(raised.step)} stopped with {_said(raised)})"
    return Reason.WRONG, text


def _given_stopped(exercise: Task, program: Program, trace: Trace) -> CellOutcome | None:
    """A cell of the lesson's before an exercise that stopped."""
    before = (cell for cell in trace.cells if cell.step < program.observed_after[exercise.id])
    return next((cell for cell in before if cell.status == "error" and program.steps[cell.step].origin == "given"), None)


def _said(cell: CellOutcome) -> str:
    """The error of a cell; Python gives some no message, which leaves a lone colon."""
    return cell.error.strip().removesuffix(":").strip()


def _stopped(program: Program, trace: Trace, raised: CellOutcome, before: str) -> str:
    """That a cell stopped, and why; if it is only the consequence of an earlier one, that one is named."""
    error, tail = _said(raised), f" {before}" if before else ""
    if error.startswith("SystemExit"):
        return f"sys.exit() in {program.place(raised.step)} ended the cell{tail}"
    text = f"{program.place(raised.step)} stopped with {error}"
    earlier = next((cell for cell in trace.cells if cell.step < raised.step and cell.status == "error"), None)
    if error.startswith("NameError") and earlier:
        return f"{text}{tail}, which follows from {program.place(earlier.step)}: {_said(earlier)}{_hint(earlier.error)}"
    return f"{text}{tail}{_hint(error)}"


# What an error means that says little to somebody who meets it for the first time.
_HINTS = (
    (r"Cannot load backend|TkAgg|QtAgg|no display|DISPLAY", "there is no screen here: remove the call of matplotlib.use(...)"),
    (r"google\.colab", "google.colab exists only on Colab: leave its lines out"),
    (r"FileNotFoundError", "the file isn't part of the exercise: use only what the lesson gives"),
    (r"Run with UUID \S+ is already active", "use `with mlflow.start_run():`, so that a run is ended in any case"),
    (r"Can't locate revision", "mlflow.db was made by another MLflow version: delete it and run again"),
)


def _hint(error: str) -> str:
    """A hint on an error as messages end with it, or an empty text."""
    return next((f" — {hint}" for pattern, hint in _HINTS if re.search(pattern, error)), "")


def _changed_in(program: Program, exercise: Task, probe: str) -> str:
    """That a name of a probe was bound anew by a cell of the learner's own, or an empty text."""
    names = program.changed.get(exercise.id, {})
    found = [f"{name} was changed in cell {place}" for name, place in names.items() if re.search(rf"\b{re.escape(name)}\b", probe)]
    return ", ".join(found)
