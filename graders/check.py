"""Judge one submission to one lesson, from file to verdicts. Never raises for what a submission holds."""

from __future__ import annotations

import asyncio
import hashlib
import random
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import zip_longest
from pathlib import Path

from course.catalogue import Lesson
from course.errors import CourseError
from course.receipt import Receipt
from course.receipt import read as read_receipt
from course.schema import Limits, Parameters, ParameterValue, Range
from course.values import Value
from graders import excess
from graders.judge import Judged, differences, judge
from graders.kernels.isolation import Isolation
from graders.measure import exercise_plans
from graders.program import Program, of_submission, parameters_text, reference
from graders.run import Plan, Trace, run
from graders.submission import Submission, Unreadable, read
from graders.verdict import ExerciseResult, Reason, SubmissionResult, Verdict, not_judged


@dataclass(frozen=True)
class Settings:
    """What a grading run is told.

    Attributes:
        seed: of the draws.
        cache: see :func:`graders.kernels.sandbox.scratch`.
        cell_seconds, total_seconds: instead of the lesson's own limits.
        more: other limits instead of the lesson's, by their names.
        isolation: what keeps the learner's code apart; what this machine allows if absent.
    """

    seed: int
    cache: Path
    cell_seconds: float | None = None
    total_seconds: float | None = None
    more: Mapping[str, int] = field(default_factory=dict)
    isolation: Isolation | None = None

    def limits(self, lesson: Lesson) -> Limits:
        """The limits for a submission to this lesson."""
        times = {"cell_seconds": self.cell_seconds, "total_seconds": self.total_seconds}
        return lesson.meta.limits.model_copy(update={**self.more, **{name: value for name, value in times.items() if value}})


class Desk:
    """What one grading run knows of one lesson: its receipt and, run once and live, the reference of its draws."""

    def __init__(self, lesson: Lesson, settings: Settings) -> None:
        self.lesson = lesson
        self.settings = settings
        self.receipt: Receipt = read_receipt(lesson)
        self.receipt_digest = hashlib.sha256(lesson.receipt.read_bytes()).hexdigest()
        self._draws: asyncio.Task[list[tuple[Plan, Mapping[str, Mapping[str, Value]]]]] | None = None

    def draws(self) -> asyncio.Task[list[tuple[Plan, Mapping[str, Mapping[str, Value]]]]]:
        """The plans of the draws, each with what the reference gives: started on the first call, shared by all."""
        if self._draws is None:
            self._draws = asyncio.ensure_future(self._run_draws())
        return self._draws

    async def _run_draws(self) -> list[tuple[Plan, Mapping[str, Mapping[str, Value]]]]:
        plans = draw_plans(self.lesson, self.settings.seed)
        if not plans:
            return []
        limits = self.settings.limits(self.lesson).model_copy(update={"cell_seconds": 300, "total_seconds": 900})
        traces = await run(reference(self.lesson), plans, limits, self.settings.cache, None, self.settings.isolation)
        for plan, trace in zip_longest(plans, traces):
            if trace is None or set(trace.observations) != set(plan.probes) or any(cell.status != "ok" for cell in trace.cells):
                what = f"its reference does not run through with {plan.name}: {parameters_text(plan.parameters)}"
                raise CourseError.at(self.lesson.id, "draw", what, "narrow the ranges or mend the script")
        return [(plan, trace.observations) for plan, trace in zip(plans, traces, strict=True)]

    async def close(self) -> None:
        """End a reference run that nobody waits for any more."""
        if self._draws and not self._draws.done():
            self._draws.cancel()
            await asyncio.wait({self._draws})


def draw_plans(lesson: Lesson, seed: int) -> list[Plan]:
    """Fresh parameters for every distinct draw of a lesson. The same seed gives the same ones.

    Parameters that happen to be the lesson's own, or those of a variant, are drawn again: they would prove nothing.
    """
    groups: list[tuple[Mapping[str, Range], dict[str, tuple[str, ...]]]] = []
    for exercise in lesson.meta.exercises:
        if not exercise.draw:
            continue
        probes = next((found for ranges, found in groups if ranges == exercise.draw), None)
        if probes is None:
            probes = {}
            groups.append((exercise.draw, probes))
        probes[exercise.id] = tuple(exercise.probes)
    known: list[Parameters] = [variant for exercise in lesson.meta.exercises for variant in exercise.variants]
    base = lesson.parameters
    plans: list[Plan] = []
    for number, (ranges, probes) in enumerate(groups):
        source = random.Random(f"{seed}/{lesson.id}/{number}")  # noqa: S311 - unpredictable is enough, secret is not needed
        public = [*known, {name: base.get(name) for name in ranges}]
        parameters = {name: _draw(span, source) for name, span in ranges.items()}
        for _ in range(100):
            if parameters not in public:
                break
            parameters = {name: _draw(span, source) for name, span in ranges.items()}
        plans.append(Plan({**lesson.meta.grading, **parameters}, probes, name=f"draw {seed}"))
    return plans


def _draw(span: Range, source: random.Random) -> ParameterValue:
    if span.choice:
        return source.choice(span.choice)
    low, high = span.low, span.high
    if isinstance(low, int) and isinstance(high, int):
        return source.randint(low, high)
    return round(source.uniform(float(low or 0), float(high or 0)), 6)


async def check(desk: Desk, learner: str, file: Path | None, shown: str) -> SubmissionResult:
    """Judge one submission.

    Args:
        desk: the lesson.
        learner: the name, as handed in.
        file: the submitted file, or None where there is none.
        shown: how reports name the file.
    """
    began = time.monotonic()
    lesson = desk.lesson
    worth = tuple((exercise.id, exercise.points) for exercise in lesson.meta.exercises)

    def finish(exercises: tuple[ExerciseResult, ...], sha256: str = "", notices: tuple[str, ...] = ()) -> SubmissionResult:
        seconds = round(time.monotonic() - began, 2)
        return SubmissionResult(
            learner=learner, lesson=lesson.id, file=shown, sha256=sha256, exercises=exercises, notices=notices, seconds=seconds
        )  # fmt: skip

    if file is None:
        return finish(not_judged(worth, Verdict.UNSOLVED, Reason.NO_ANSWER, "nothing was handed in"))
    submission: Submission | None = None
    try:
        try:
            # In a thread: a large file must not keep the other submissions from being interrupted in time.
            submission = await asyncio.to_thread(read, file)
        except Unreadable as error:
            verdict, reason = (Verdict.SKIP, Reason.REFUSED) if error.refused else (Verdict.FAIL, Reason.UNREADABLE)
            return finish(not_judged(worth, verdict, reason, str(error)), error.sha256)
        except PermissionError:
            message = f"permission denied: the grader may not read {shown}"
            return finish(not_judged(worth, Verdict.ERROR, Reason.INTERNAL, message))
        exercises, notices = await _judge(desk, submission)
        return finish(exercises, submission.sha256, (*submission.notices, *notices))
    except Exception as error:
        message = f"the grader failed: {type(error).__name__}: {error}"[:2_000]
        return finish(not_judged(worth, Verdict.ERROR, Reason.INTERNAL, message), submission.sha256 if submission else "")


async def _judge(desk: Desk, submission: Submission) -> tuple[tuple[ExerciseResult, ...], tuple[str, ...]]:
    lesson, receipt = desk.lesson, desk.receipt
    exercises = lesson.meta.exercises
    program = of_submission(lesson, submission)
    if early := _left_alone(lesson, program, submission):
        worth = tuple((exercise.id, exercise.points) for exercise in exercises)
        return not_judged(worth, Verdict.UNSOLVED, Reason.NO_ANSWER, early), program.notices
    draws = await desk.draws()
    secret = {id(plan): seen for plan, seen in draws}
    plans = [*exercise_plans(exercises, lesson.meta.grading), *(plan for plan, _ in draws)]

    def expected(plan: Plan, exercise: str) -> Mapping[str, Value]:
        return secret[id(plan)][exercise] if id(plan) in secret else receipt.expected(exercise, plan.key)

    def agrees(trace: Trace, exercise_id: str) -> bool:
        seen = trace.observations.get(exercise_id)
        if exercise_id not in trace.plan.probes:
            return True
        return seen is not None and not differences(lesson.exercise(exercise_id).probes, expected(trace.plan, exercise_id), seen)

    def wanted(plan: Plan, traces: list[Trace]) -> bool:
        # What is wrong already needs no further proof; its other runs would only cost time.
        return any(all(agrees(trace, exercise) for trace in traces) for exercise in plan.probes)

    traces = await run(program, plans, desk.settings.limits(lesson), desk.settings.cache, wanted, desk.settings.isolation)
    results = []
    for exercise in exercises:
        runs = [
            Judged(trace, expected(trace.plan, exercise.id), id(trace.plan) in secret)
            for trace in traces
            if exercise.id in trace.plan.probes and trace.reached(program, exercise.id)
        ]
        result = judge(exercise, lesson.scaffolds[exercise.id], program, runs, receipt.mistakes.get(exercise.id, {}))
        asked = [plan for plan in plans if exercise.id in plan.probes]
        if result.verdict is Verdict.PASS and len(runs) < len(asked):
            # The kernel was lost between two runs: what was not looked at is not a PASS.
            lost = "the run under other parameters could not be finished: the kernel ended or ran out of time"
            result = result.model_copy(update={"verdict": Verdict.FAIL, "reason": Reason.NOT_RUN, "message": lost, "points": 0.0})
        results.append(result)
    return tuple(results), (*program.notices, *_events(program, traces[0], sum(trace.left for trace in traces)))


def _left_alone(lesson: Lesson, program: Program, submission: Submission) -> str:
    """What to say of a file that nobody worked in, or an empty text. Such a file need not be run."""
    if not any(cell.kind == "code" and cell.source.strip() for cell in submission.cells):
        return "no code cells"
    if any(step.origin == "own" for step in program.steps) or program.missing:
        return ""
    return "unchanged from the release" if program.unchanged == set(lesson.scaffolds) else ""


def _events(program: Program, trace: Trace, left: int) -> tuple[str, ...]:
    """What happened in the base run outside the exercises, and costs nothing by itself.

    Args:
        program: what was run.
        trace: the base run.
        left: how many processes had to be ended in the end.
    """
    notices: list[str] = []
    for cell in trace.cells:
        place, given_or_own = program.place(cell.step), program.steps[cell.step].origin != "exercise"
        if cell.status == "error" and given_or_own:
            notices.append(f"{place} stopped with {cell.error}")
        elif cell.status == "timeout" and given_or_own:
            notices.append(f"{place} ran longer than its limit")
        elif used := excess.ended(cell.status, place, trace.limits) if given_or_own else None:
            notices.append(used[1])
        if cell.cut:
            notices.append(f"{place} printed more than is kept; the rest was cut")
    if left:
        notices.append(
            "a process was still running at the end and was ended"
            if left == 1
            else f"{left} processes were still running at the end and were ended"
        )
    notices += [f"{exercise} was answered in another cell than its own" for exercise in sorted(trace.late)]
    return tuple(notices)
