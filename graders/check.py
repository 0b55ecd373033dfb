"""Judge one submission to one lesson or project, from file to verdicts. Never raises for what a submission holds."""

from __future__ import annotations

import ast
import asyncio
import hashlib
import random
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain, zip_longest
from pathlib import Path

from course.catalogue import Project, Unit
from course.errors import CourseError
from course.receipt import Receipt
from course.receipt import read as read_receipt
from course.schema import Limits, Parameters, ParameterValue, Range, Task
from course.values import Value
from graders import excess
from graders.ahead import Ahead
from graders.judge import Judged, differences, judge
from graders.kernels import imports, warm
from graders.kernels.cold import KernelFailed
from graders.kernels.isolation import Isolation
from graders.kernels.warm import How
from graders.measure import exercise_plans
from graders.program import Program, of_submission, parameters_text, reference
from graders.run import Opener, Plan, Session, Trace, opened, run
from graders.submission import Submission, Unreadable, read
from graders.verdict import ExerciseResult, Reason, SubmissionResult, Verdict, not_judged

LOADED = "loaded"  # the name of a fact
# for each draw: exercise -> probe -> value
Expected = list[Mapping[str, Mapping[str, Value]]]


@dataclass(frozen=True)
class Settings:
    """What a grading run is told.

    Attributes:
        seed: of the draws.
        cache: see :func:`graders.kernels.sandbox.scratch`.
        cell_seconds, total_seconds: instead of the lesson's own limits.
        more: other limits instead of the lesson's, by their names.
        isolation: what keeps the learner's code apart; what this machine allows if absent.
        how: whether kernels are started anew or forked.
        only: the stages of a project to look at; all if empty.
        figures: whether the figures of the base run are drawn.
        abreast: in how many kernels the runs of one submission are done at the same time.
    """

    seed: int
    cache: Path
    cell_seconds: float | None = None
    total_seconds: float | None = None
    more: Mapping[str, int] = field(default_factory=dict)
    isolation: Isolation | None = None
    how: How = How.AUTO
    only: tuple[str, ...] = ()
    figures: bool = False
    abreast: int = 1

    def limits(self, unit: Unit) -> Limits:
        """The limits for a submission."""
        times = {"cell_seconds": self.cell_seconds, "total_seconds": self.total_seconds}
        return unit.meta.limits.model_copy(update={**self.more, **{name: value for name, value in times.items() if value}})


class Desk:
    """What one grading run knows of one lesson or project: its receipt and, run once and live, the reference of its draws.

    Attributes:
        unit: the lesson or project.
        exercises: those that are judged.
    """

    def __init__(self, unit: Unit, settings: Settings) -> None:
        self.unit = unit
        self.exercises = tuple(one for one in unit.meta.exercises if not settings.only or one.id in settings.only)
        self.settings = settings
        self.receipt: Receipt = read_receipt(unit)
        self.receipt_digest = hashlib.sha256(unit.receipt.read_bytes()).hexdigest()
        #: The runs with fresh parameters.
        self.drawn = tuple(draw_plans(unit, settings.seed, self.exercises)) if unit.complete else ()
        self._draws: asyncio.Task[Expected] | None = None
        self._prepared: tuple[str, ...] | None = None
        self._ahead: Ahead[Session] = Ahead(self._opened, lambda session: session.alive)

    @cached_property
    def modules(self) -> tuple[str, ...]:
        """What the reference imports: a forked kernel has it ready. A submission has no say in it."""
        return imports.needed([step.source for step in reference(self.unit).steps], self.settings.cache)

    def prepare(self, kernels: int = 0) -> None:
        """Let the libraries be imported from which kernels of this lesson are forked, while other things are done.

        Args:
            kernels: as many are to be ready for the next submissions.
        """
        if self.settings.how is not How.COLD and self.modules != self._prepared:
            self._prepared = self.modules
            warm.prepare(self.modules, self.settings.cache)
        self._ahead.prepare(kernels)

    @property
    def opener(self) -> Opener:
        """Gives kernels for submissions, those that are ready first."""
        return self._ahead.one

    def _opened(self) -> AbstractAsyncContextManager[Session]:
        settings = self.settings
        return opened(settings.limits(self.unit), settings.cache, settings.isolation, settings.how, self.modules)

    async def rest(self) -> None:
        """No more submissions are expected: end the kernels that are ready for them."""
        await self._ahead.close()

    def draws(self) -> asyncio.Task[Expected]:
        """What the reference gives for each draw: started on the first call, shared by all."""
        failed = self._draws is not None and self._draws.done() and not self._draws.cancelled() and self._draws.exception()
        if self._draws is None or isinstance(failed, KernelFailed):  # nothing that the lesson is to blame for: tried again
            self._draws = asyncio.ensure_future(self._run_draws())
        return self._draws

    async def _run_draws(self) -> Expected:
        if not self.drawn:
            return []
        limits = self.settings.limits(self.unit).model_copy(update={"cell_seconds": 300, "total_seconds": 900})
        program = reference(self.unit)
        # What is loaded in the end is remembered: the next kernel for this lesson has it ready.
        plans = [*self.drawn[:-1], replace(self.drawn[-1], facts={program.steps[-1].id: {LOADED: imports.LOADED}}, whole=True)]
        traces = await run(
            program, plans, limits, self.settings.cache, None, self.settings.isolation, self.settings.how, self.modules
        )
        for plan, trace in zip_longest(plans, traces):
            if trace is None or set(trace.observations) != set(plan.probes) or any(cell.status != "ok" for cell in trace.cells):
                what = f"its reference does not run through with {plan.name}: {parameters_text(plan.parameters)}"
                raise CourseError.at(self.unit.id, "draw", what, "narrow the ranges or mend the script")
        before = self.modules
        self._remember(traces[-1].facts.get(LOADED))
        if self.modules != before:
            await self._ahead.close()  # the next ones have more imported
        return [trace.observations for trace in traces]

    def _remember(self, loaded: Value | None) -> None:
        """Keep what the reference had loaded, for the kernels of later runs."""
        if loaded is not None and isinstance(loaded.data, str):
            with suppress(OSError):  # without it a kernel imports the rest by itself
                imports.remember([step.source for step in reference(self.unit).steps], self.settings.cache, loaded.data)
                self.__dict__.pop("modules", None)  # to be looked up anew

    async def close(self) -> None:
        """End the kernels, and a reference run, that nobody waits for any more."""
        await self._ahead.close()
        if self._draws is None:
            return
        if not self._draws.done():
            self._draws.cancel()
            await asyncio.wait({self._draws})
        if not self._draws.cancelled():
            self._draws.exception()  # whoever waited for it has said so; where nobody did, it is of no interest


def draw_plans(unit: Unit, seed: int, exercises: tuple[Task, ...] | None = None) -> list[Plan]:
    """Fresh parameters for every distinct draw. The same seed gives the same ones, whichever exercises are looked at.

    Parameters that happen to be the lesson's own, or those of a variant, are drawn again: they would prove nothing.
    """
    groups: list[tuple[Mapping[str, Range], dict[str, tuple[str, ...]]]] = []
    for exercise in unit.meta.exercises:
        if not exercise.draw:
            continue
        probes = next((found for ranges, found in groups if ranges == exercise.draw), None)
        if probes is None:
            probes = {}
            groups.append((exercise.draw, probes))
        probes[exercise.id] = tuple(exercise.probes)
    known: list[Parameters] = [variant for exercise in unit.meta.exercises for variant in exercise.variants]
    base = unit.parameters
    plans: list[Plan] = []
    asked = {exercise.id for exercise in (unit.meta.exercises if exercises is None else exercises)}
    for number, (ranges, probes) in enumerate(groups):
        source = random.Random(f"{seed}/{unit.id}/{number}")  # noqa: S311 - unpredictable is enough, secret is not needed
        public = [*known, {name: base.get(name) for name in ranges}]
        parameters = {name: _draw(span, source) for name, span in ranges.items()}
        for _ in range(100):
            if parameters not in public:
                break
            parameters = {name: _draw(span, source) for name, span in ranges.items()}
        mine = {exercise: found for exercise, found in probes.items() if exercise in asked}
        if mine:
            plans.append(Plan({**unit.meta.grading, **parameters}, mine, name=f"draw {seed}", whole=False))
    return plans


def _draw(span: Range, source: random.Random) -> ParameterValue:
    if span.choice:
        return source.choice(span.choice)
    low, high = span.low, span.high
    if isinstance(low, int) and isinstance(high, int):
        return source.randint(low, high)
    return round(source.uniform(float(low or 0), float(high or 0)), 6)


async def check(
    desk: Desk, learner: str, file: Path | None, shown: str, keep: Callable[[Program, list[Trace]], None] | None = None
) -> SubmissionResult:
    """Judge one submission.

    Args:
        desk: the lesson or project.
        learner: the name, as handed in.
        file: the submitted file, or None where there is none.
        shown: how reports name the file.
        keep: called with what was run and observed, if anything was.
    """
    began = time.monotonic()
    worth = tuple((exercise.id, exercise.points) for exercise in desk.exercises)

    def finish(exercises: tuple[ExerciseResult, ...], sha256: str = "", notices: tuple[str, ...] = ()) -> SubmissionResult:
        seconds = round(time.monotonic() - began, 2)
        return SubmissionResult(
            learner=learner, lesson=desk.unit.id, file=shown, sha256=sha256, exercises=exercises, notices=notices, seconds=seconds,
            seed=desk.settings.seed if sha256 else None,
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
        exercises, notices = await _judge(desk, submission, keep)
        # What is said of a script's cells is of no interest where the file is a module.
        repaired = () if isinstance(desk.unit, Project) else submission.notices
        return finish(exercises, submission.sha256, (*repaired, *notices))
    except Exception as error:
        message = f"the grader failed: {type(error).__name__}: {error}"[:2_000]
        return finish(not_judged(worth, Verdict.ERROR, Reason.INTERNAL, message), submission.sha256 if submission else "")


async def _judge(
    desk: Desk, submission: Submission, keep: Callable[[Program, list[Trace]], None] | None
) -> tuple[tuple[ExerciseResult, ...], tuple[str, ...]]:
    unit, receipt, exercises = desk.unit, desk.receipt, desk.exercises
    worth = tuple((exercise.id, exercise.points) for exercise in exercises)
    if isinstance(unit, Project) and (fault := _no_module(unit, submission)):
        return not_judged(worth, Verdict.FAIL, Reason.UNREADABLE, fault), ()
    program = of_submission(unit, submission, desk.settings.only, figures=desk.settings.figures)
    if early := _left_alone(program, submission, desk.exercises):
        return tuple(
            one.model_copy(update={"message": program.left.get(one.exercise, early)})
            for one in not_judged(worth, Verdict.UNSOLVED, Reason.NO_ANSWER, early)
        ), program.notices
    drawing = desk.draws()  # beside the learner's own runs
    base, *variants = exercise_plans(exercises, unit.meta.grading)
    plans = [replace(base, figures=desk.settings.figures), *(replace(one, whole=False) for one in variants), *desk.drawn]
    drawn = {id(plan): number for number, plan in enumerate(desk.drawn)}

    def expected(plan: Plan, exercise: str) -> Mapping[str, Value]:
        return drawing.result()[drawn[id(plan)]][exercise] if id(plan) in drawn else receipt.expected(exercise, plan.key)

    def agrees(trace: Trace, exercise_id: str) -> bool:
        seen = trace.observations.get(exercise_id)
        if exercise_id not in trace.plan.probes or (id(trace.plan) in drawn and not drawing.done()):
            return True  # as far as is known by now
        return seen is not None and not differences(unit.exercise(exercise_id).probes, expected(trace.plan, exercise_id), seen)

    traces, left = await _observed(desk, program, plans, drawing, agrees)
    if keep:
        keep(program, traces)
    results = []
    for exercise in exercises:
        judged = [
            Judged(trace, expected(trace.plan, exercise.id), id(trace.plan) in drawn)
            for trace in traces
            if exercise.id in trace.plan.probes and trace.reached(program, exercise.id)
        ]
        result = judge(exercise, program, judged, receipt.mistakes.get(exercise.id, {}))
        asked = [plan for plan in plans if exercise.id in plan.probes]
        if result.verdict is Verdict.PASS and len(judged) < len(asked):
            # The kernel was lost between two runs: what was not looked at is not a PASS.
            lost = "the run under other parameters could not be finished: the kernel ended or ran out of time"
            result = result.model_copy(update={"verdict": Verdict.FAIL, "reason": Reason.NOT_RUN, "message": lost, "points": 0.0})
        results.append(result)
    notices = (*program.notices, *_events(program, traces[0], left))
    if not unit.complete:
        notices = (*notices, "there is no solution here to draw fresh parameters against; the course's own check does that too")
    return tuple(results), notices


async def _observed(
    desk: Desk, program: Program, plans: list[Plan], drawing: Awaitable[Expected], agrees: Callable[[Trace, str], bool]
) -> tuple[list[Trace], int]:
    """Run a program as often as it takes.

    Args:
        desk: the lesson or project.
        program: the submission.
        plans: the base run first.
        drawing: what the reference gives for the draws, once it is known.
        agrees: whether what a run gave for an exercise is right, as far as is known by then.

    Returns:
        The runs in the order of the plans, without those that could not change anything; and how many processes had to be ended.
    """
    unit, settings = desk.unit, desk.settings

    def wanted(plan: Plan, traces: list[Trace]) -> bool:
        # What is wrong already needs no further proof; its other runs would only cost time.
        return any(all(agrees(trace, exercise) for trace in traces) for exercise in plan.probes)

    async def observed(some: list[Plan]) -> list[Trace]:
        return await run(program, some, settings.limits(unit), settings.cache, wanted, opener=desk.opener)

    dealt = shares(plans, settings.abreast)
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(observed(some)) for some in dealt]
    except ExceptionGroup as errors:
        raise errors.exceptions[0] from errors
    await drawing
    left = sum(trace.left for task in tasks for trace in task.result())
    found = {id(trace.plan): trace for trace in chain.from_iterable(task.result() for task in tasks)}
    alone = {id(some[0]) for some in dealt}

    def doubtful() -> Plan | None:
        """A run by which an exercise is wrong, but which had another one before it in its kernel: what that left may be the cause."""
        if any(trace.lost or any(cell.status in {"timeout", "not-run"} for cell in trace.cells) for trace in found.values()):
            return None
        for exercise in desk.exercises:
            asked = (plan for plan in plans if exercise.id in plan.probes)
            wrong = next((one for one in asked if id(one) not in found or not agrees(found[id(one)], exercise.id)), None)
            if wrong is not None and id(wrong) not in alone:
                return wrong
        return None

    while (plan := doubtful()) is not None:
        alone.add(id(plan))
        again = await observed([plan])
        left += sum(trace.left for trace in again)
        found |= {id(trace.plan): trace for trace in again}
    return [found[id(plan)] for plan in plans if id(plan) in found], left


def shares(plans: list[Plan], number: int) -> list[list[Plan]]:
    """Deal plans to a number of kernels. The first kernel has the base run, which takes longest, and is dealt to last."""
    number = min(number, len(plans))
    dealt = [plans[:1], *([] for _ in range(number - 1))]
    for place, plan in enumerate(plans[1:]):
        dealt[(place + 1) % number].append(plan)
    return dealt


def _no_module(project: Project, submission: Submission) -> str:
    """Why a file cannot be put to the test as a project's module, or an empty text."""
    if submission.path.suffix.lower() != ".py":
        return f"{submission.path.name} is a notebook; this project is handed in as the file {project.meta.module}"
    try:
        ast.parse(submission.text)
    except SyntaxError as error:
        return f"line {error.lineno} of {submission.path.name} is not valid Python: {error.msg}"
    except (ValueError, RecursionError, MemoryError) as error:
        return f"{submission.path.name} cannot be parsed: {error}"
    return ""


def _left_alone(program: Program, submission: Submission, exercises: tuple[Task, ...]) -> str:
    """What to say of a file that nobody worked in, or an empty text. Such a file need not be run."""
    if not any(cell.kind == "code" and cell.source.strip() for cell in submission.cells):
        return "no code cells"
    if any(step.origin == "own" for step in program.steps) or program.missing:
        return ""
    return "unchanged from the release" if {one.id for one in exercises} <= program.unchanged else ""


def _events(program: Program, trace: Trace, left: int) -> tuple[str, ...]:
    """What happened in the base run outside the exercises, and costs nothing by itself.

    Args:
        program: what was run.
        trace: the base run.
        left: how many processes had to be ended in the end.
    """
    notices: list[str] = []
    for cell in trace.cells:
        place, given_or_own = program.place(cell.step), program.steps[cell.step].origin in {"given", "own"}
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
