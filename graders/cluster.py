"""A class judged on many machines: `--scheduler tcp://host:8786`, with Dask distributed. This is the caller's side.

Dask carries errands to workers and answers back, and knows which workers there are. Which worker gets which submission is
chosen here, as many at a time as it has threads: so it is known exactly what a lost worker was at work on, and what killed it.

The worker's side is `graders.outpost`, and beside it `graders.serve`. What is said of a submission comes from there as text,
is held to the form of a result, and goes the same way as every other: into the store, then into the reports.
"""

from __future__ import annotations

import asyncio
import hashlib
import importlib.util
import itertools
import logging
import re
import secrets
import time
import warnings
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from course.receipt import Environment
from graders import outpost
from graders.check import Desk, Settings, check
from graders.errand import COURSE, Answer, Errand, Greeting, myself, parse, text, unlike
from graders.kernels.isolation import Mode
from graders.serve import draws_text
from graders.store import Terms
from graders.submission import Unreadable, raw
from graders.verdict import Reason, SubmissionResult, Verdict, not_judged

CONNECT_SECONDS = 10.0
GREET_SECONDS = 300.0  # one that has just been started imports the grader first, perhaps over a slow network
LOOK_SECONDS = 0.5  # between two looks at which workers there are
LEAVE_SECONDS = 5.0
RESPITE_SECONDS = 30.0  # for a lost worker to come back, before those that refuse are taken to be all there are
LOSSES = 3  # how many workers a submission may take along before it is given up
ERRORS = 2  # on how many workers it is tried where the grader fails
SHOWN = 5  # workers that one message names

INSTALL = "`python -m environment --scale graders grade …` adds it; elsewhere install the locked versions of requirements-scale.txt"
START = "`python -m environment --scale dask {} …` in the course's folder"
ON = "what was graded is kept, and the same command goes on"


class ClusterFailed(Exception):
    """The cluster cannot be used, or not any more. The message says why and what to do."""


@dataclass(frozen=True)
class Order:
    """What the workers are told of a run.

    Attributes:
        settings: of the run.
        mode: of the isolation.
        terms: lesson to the terms under which it has to be judged.
        place: the caller's environment.
    """

    settings: Settings
    mode: Mode
    terms: Mapping[str, Terms]
    place: Environment


def possible(address: str) -> str:
    """Why there is no use in connecting to an address, or an empty text."""
    if not re.fullmatch(r"(?:(?:tcp|tls|ws|wss)://)?(?:[^\s/:\[\]]+|\[[0-9a-fA-F:.]+\]):\d{1,5}", address):
        return f"--scheduler {address}: give the address of a Dask scheduler, for instance tcp://host:8786 or tls://host:8786"
    if importlib.util.find_spec("distributed") is None:
        return f"--scheduler needs Dask distributed, which is not installed here: {INSTALL}"
    return ""


@dataclass(eq=False)
class _Worker:
    """A worker that may judge.

    Attributes:
        address: its address.
        threads: how many submissions it takes at a time.
        load: how many it has.
        alone: who has it, or waits to have it, for itself.
        gone: done once it is lost.
    """

    address: str
    threads: int
    load: int = 0
    alone: _Wish | None = None
    gone: asyncio.Future[None] = field(default_factory=lambda: asyncio.get_running_loop().create_future())


@dataclass(eq=False)
class _Wish:
    """Somebody who needs a worker.

    Attributes:
        lesson: of the submission.
        alone: whether it wants the worker for itself: after a loss nothing else shall run beside what may have caused it.
        again: whether it has waited before.
        avoid: workers that it has been on.
        place: done with the worker that it gets.
    """

    lesson: str
    alone: bool = False
    again: bool = False
    avoid: set[str] = field(default_factory=set)
    place: asyncio.Future[_Worker] | None = None


@dataclass(frozen=True)
class _Case:
    """One submission, read."""

    desk: Desk
    learner: str
    file: Path
    shown: str
    data: bytes

    def error(self, why: str) -> SubmissionResult:
        worth = tuple((one.id, one.points) for one in self.desk.exercises)
        return SubmissionResult(
            learner=self.learner, lesson=self.desk.unit.id, file=self.shown, sha256=hashlib.sha256(self.data).hexdigest(),
            exercises=not_judged(worth, Verdict.ERROR, Reason.INTERNAL, why[:2_000]),
        )  # fmt: skip

    def fault(self, result: SubmissionResult | None) -> str:
        """Why something is no result of this submission, or an empty text."""
        asked = (self.learner, self.desk.unit.id, self.shown, [(one.id, float(one.points)) for one in self.desk.exercises])
        if result is None or asked != (
            result.learner, result.lesson, result.file, [(one.exercise, one.out_of) for one in result.exercises]
        ):  # fmt: skip
            return "answered for another submission"
        # What is said of a zip may be said of the file that is packed in it.
        if self.file.suffix.lower() != ".zip" and result.sha256 not in {"", hashlib.sha256(self.data).hexdigest()}:
            return "judged other bytes than it was sent"
        return ""


class Cluster:
    """The workers behind a scheduler, and which of them has what to do."""

    def __init__(self, client: Any, address: str, order: Order, say: Callable[[str], None]) -> None:
        self.run = secrets.token_hex(8)
        self._client, self._address, self._order, self._say = client, address, order, say
        self._workers: dict[str, _Worker] = {}
        self._unfit: dict[str, str] = {}
        self._greeting: dict[str, asyncio.Task[None]] = {}
        self._refused: dict[tuple[str, str], str] = {}
        self._waiting: deque[_Wish] = deque()
        self._failed: ClusterFailed | None = None
        self._numbers = itertools.count()
        self._draws: dict[str, str] = {}
        self._idle = False
        self._respite = 0.0

    # --- one submission

    async def judge(self, desk: Desk, learner: str, file: Path | None, shown: str) -> SubmissionResult:
        """Judge one submission on some worker; see :func:`graders.check.check`.

        Raises:
            ClusterFailed: if no worker may judge it, or the scheduler is gone.
        """
        if file is None:
            return await check(desk, learner, file, shown)
        wish = _Wish(desk.unit.id)
        losses = errors = 0
        while True:
            worker = await self._place(wish)
            case: _Case | None = None
            try:
                # Read only now, so that no more than is being judged is held in memory.
                with suppress(Unreadable, OSError):
                    case = _Case(desk, learner, file, shown, await asyncio.to_thread(raw, file))
                answer = await self._ask(worker, case) if case else None
            finally:
                self._leave(worker, wish)
            wish.again = True
            if case is None or answer is None:
                return await check(desk, learner, file, shown)  # says what is wrong with the file, and runs nothing
            if answer.kind == "refused":
                self._refuse(worker, desk.unit.id, answer.why)
            elif answer.kind == "ended":
                losses, wish.alone = losses + 1, True
                if losses == LOSSES:
                    return case.error(f"{answer.why}; so it was {losses} times, twice with nothing else beside it. Does it use up the machine? The worker's log may tell; grade it by itself, without --scheduler")  # fmt: skip
            else:
                fault = case.fault(answer.result)
                result = case.error(f"the worker {worker.address} {fault}") if fault or answer.result is None else answer.result
                errors += result.verdict is Verdict.ERROR
                wish.avoid.add(worker.address)
                if result.verdict is not Verdict.ERROR or errors == ERRORS or not self._fitting(wish):
                    return result

    async def _ask(self, worker: _Worker, case: _Case) -> Answer:
        from distributed import KilledWorker  # noqa: PLC0415 - an extra
        from distributed.client import FutureCancelledError  # noqa: PLC0415 - an extra

        future = self._client.submit(
            outpost.judge, text(self._errand(case)), case.data, key=f"graders-{self.run}-{next(self._numbers)}",
            workers=[worker.address], allow_other_workers=False, pure=False,
        )  # fmt: skip
        outcome = asyncio.ensure_future(future.result())
        try:
            await asyncio.wait({outcome, worker.gone}, return_when=asyncio.FIRST_COMPLETED)
            if not outcome.done():
                return Answer(kind="ended", why=f"the worker {worker.address} was lost")
            answer = parse(Answer, outcome.result())
            return answer.model_copy(update={"why": f"{answer.why} ({worker.address})"}) if answer.kind == "ended" else answer
        except KilledWorker:
            return Answer(kind="ended", why=f"the worker {worker.address} was lost")
        except FutureCancelledError:
            raise self._end(f"the scheduler {self._address} has gone; {ON}") from None
        except Exception as error:
            return Answer(kind="judged", result=case.error(f"the worker {worker.address} failed: {type(error).__name__}: {error}"))
        finally:
            outcome.cancel()
            with suppress(Exception):  # where the connection is gone there is nobody to tell
                future.release()

    def _errand(self, case: _Case) -> Errand:
        settings, lesson = self._order.settings, case.desk.unit.id
        if lesson not in self._draws:
            self._draws[lesson] = draws_text(case.desk.unit, settings.seed)
        return Errand(
            run=self.run, lesson=lesson, learner=case.learner, shown=case.shown, name=case.file.name, seed=settings.seed,
            cell_seconds=settings.cell_seconds, total_seconds=settings.total_seconds, more=settings.more, how=settings.how,
            mode=self._order.mode, terms=self._order.terms[lesson], place=self._order.place, draws=self._draws[lesson],
        )  # fmt: skip

    # --- who gets which worker

    def _fitting(self, wish: _Wish) -> list[_Worker]:
        """The workers that may judge it."""
        return [
            one
            for address, one in self._workers.items()
            if address not in wish.avoid and (address, wish.lesson) not in self._refused
        ]

    async def _place(self, wish: _Wish) -> _Worker:
        """Wait for a worker."""
        wish.place = asyncio.get_running_loop().create_future()
        (self._waiting.appendleft if wish.again else self._waiting.append)(wish)
        self._share()
        try:
            return await wish.place
        except asyncio.CancelledError:
            if wish.place.done() and not wish.place.cancelled() and not wish.place.exception():
                self._leave(wish.place.result(), wish)
            raise
        finally:
            if wish in self._waiting:
                self._waiting.remove(wish)

    def _leave(self, worker: _Worker, wish: _Wish) -> None:
        worker.load -= 1
        if worker.alone is wish:
            worker.alone = None
        self._share()

    def _share(self) -> None:
        """Give free workers to those who wait, the first first."""
        free = sum(one.threads - one.load for one in self._workers.values())
        for wish in list(self._waiting):
            if wish.place is None or wish.place.done():
                continue
            if self._failed is not None:
                wish.place.set_exception(self._failed)
                continue
            fitting = self._fitting(wish)
            if not fitting:
                wish.avoid.clear()  # rather the same again than none
                fitting = self._fitting(wish)
            if not fitting and (self._workers or self._unfit) and not self._greeting and time.monotonic() > self._respite:
                self._end(self._nobody(wish.lesson))
                return self._share()
            if free <= 0 and not wish.alone:
                break
            worker = self._chosen(wish, fitting)
            if worker is not None:
                worker.load += 1
                free -= 1
                self._waiting.remove(wish)
                wish.place.set_result(worker)
        return None

    @staticmethod
    def _chosen(wish: _Wish, fitting: list[_Worker]) -> _Worker | None:
        """The worker with the most room. One that is wanted alone is kept until it is empty."""
        if wish.alone:
            mine = next((one for one in fitting if one.alone is wish), None)
            mine = mine or min((one for one in fitting if one.alone is None), key=lambda one: one.load, default=None)
            if mine is not None:
                mine.alone = wish
            return mine if mine is not None and mine.load == 0 else None
        room = [one for one in fitting if one.alone is None and one.load < one.threads]
        return min(room, key=lambda one: one.load / one.threads, default=None)

    def _refuse(self, worker: _Worker, lesson: str, why: str) -> None:
        if (worker.address, lesson) not in self._refused:
            self._refused[worker.address, lesson] = why
            self._say(f"the worker {worker.address} does not judge {lesson}: {why}")

    def _nobody(self, lesson: str) -> str:
        """What to say where no worker may judge a lesson."""
        reasons = self._unfit | {address: why for (address, name), why in self._refused.items() if name == lesson}
        shown = [f"{address}: {why}" for address, why in list(reasons.items())[:SHOWN]]
        more = [f"and {len(reasons) - SHOWN} more"] if len(reasons) > SHOWN else []
        return "\n  ".join([f"no worker of {self._address} may judge {lesson}; {ON}", *shown, *more])

    def _end(self, why: str) -> ClusterFailed:
        """From now on nothing more is judged; whoever waits is told."""
        if self._failed is None:
            self._failed = ClusterFailed(why)
            self._share()
        return self._failed

    # --- which workers there are

    async def watch(self) -> None:
        """Keep looking which workers have come and gone."""
        while self._failed is None:
            try:
                if self._client.status != "running":
                    raise ConnectionError
                there = await asyncio.wait_for(self._client.nthreads(), GREET_SECONDS)
            except Exception as error:
                self._end(f"the scheduler {self._address} has gone ({type(error).__name__}); {ON}")
                return
            self._look(there)
            await asyncio.sleep(LOOK_SECONDS)

    def _look(self, there: Mapping[str, int]) -> None:
        for address in [one for one in self._workers if one not in there]:
            lost = self._workers.pop(address)
            lost.gone.set_result(None)
            self._respite = time.monotonic() + RESPITE_SECONDS
            if lost.load:
                self._say(f"the worker {address} was lost; what it was judging is judged elsewhere")
        self._unfit = {address: why for address, why in self._unfit.items() if address in there}
        for address, threads in there.items():
            if not (address in self._workers or address in self._unfit or address in self._greeting):
                self._greeting[address] = asyncio.create_task(self._greet(address, threads))
        if not there and not self._idle:
            self._say(f"the scheduler {self._address} has no worker; waiting for one. {START.format(f'worker {self._address}')} starts one")  # fmt: skip
        self._idle = not there
        self._share()

    async def _greet(self, address: str, threads: int) -> None:
        """Ask a worker who it is, before anything is sent to it."""
        try:
            answers = await asyncio.wait_for(self._client.run(outpost.greet, workers=[address], on_error="return"), GREET_SECONDS)
            why = _unfit(answers.get(address), f"worker {self._address}")
        except Exception as error:
            why = f"it does not answer ({type(error).__name__})"
        finally:
            self._greeting.pop(address, None)
        if why:
            self._unfit[address] = why
            self._say(f"the worker {address} is left out: {why}")
        else:
            self._workers[address] = _Worker(address, threads)
        self._share()

    async def over(self) -> None:
        """Tell the workers that the run is over: what is still being judged there is ended."""
        for task in list(self._greeting.values()):
            task.cancel()
        if self._workers and self._client.status == "running":
            with suppress(Exception):
                leaving = self._client.run(outpost.leave, self.run, workers=list(self._workers), on_error="ignore")
                await asyncio.wait_for(leaving, LEAVE_SECONDS)


def _unfit(given: object, kind: str, *, patch: bool = True) -> str:
    """Why a worker or scheduler that greets so is of no use, or an empty text."""
    # What a worker could not unpack comes as an exception that quotes it.
    if isinstance(given, ImportError) or (isinstance(given, Exception) and "ModuleNotFoundError" in str(given)):
        return f"it cannot import the grader ({given}): start it with {START.format(kind)}"
    try:
        theirs = parse(Greeting, given)
    except ValueError:
        return f"it gives no greeting that is understood here ({given!r:.200}): start it with {START.format(kind)}"
    mine = myself()
    if versions := unlike(mine, theirs, patch=patch):
        return f"its versions differ ({versions}): make its environment from the same locks, and start it again"
    if patch and theirs.grader != mine.grader:
        return f"the grader's own sources differ ({theirs.grader[:12]} there, {mine.grader[:12]} here): bring its checkout to the caller's commit, and start it again"  # fmt: skip
    if patch and not theirs.course:
        return f"it has no course: start it with {START.format(kind)}, or name the folder in {COURSE}"
    return ""


def _hush() -> None:
    """Keep Dask from reporting lost connections in its own way: what goes wrong is said here, once and in words for whoever grades."""
    for name in list(logging.root.manager.loggerDict):
        if name.partition(".")[0] in {"distributed", "tornado"}:
            logging.getLogger(name).setLevel(logging.CRITICAL)

    def tell(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        if not isinstance(context.get("exception"), OSError | asyncio.CancelledError):
            loop.default_exception_handler(context)

    asyncio.get_running_loop().set_exception_handler(tell)


@asynccontextmanager
async def connect(address: str, order: Order, say: Callable[[str], None]) -> AsyncIterator[Cluster]:
    """The cluster behind a scheduler. At the end what is outstanding is taken back.

    Args:
        address: of the scheduler.
        order: what its workers are told.
        say: called with what happens to workers, for a person.

    Raises:
        ClusterFailed: if the scheduler cannot be reached, or is of no use.
    """
    import dask  # noqa: PLC0415 - an extra
    from distributed import Client  # noqa: PLC0415 - an extra
    from distributed.versions import VersionMismatchWarning  # noqa: PLC0415 - an extra

    _hush()
    warnings.simplefilter("ignore", VersionMismatchWarning)
    with dask.config.set({"distributed.admin.large-graph-warning-threshold": "1GB"}):
        client: Any = cast(Any, Client)(address, asynchronous=True, timeout=CONNECT_SECONDS, set_as_default=False)
        watching: asyncio.Task[None] | None = None
        cluster: Cluster | None = None
        try:
            try:
                await client
                greeting = await asyncio.wait_for(client.run_on_scheduler(outpost.greet), GREET_SECONDS)
            except ImportError as error:
                greeting = error
            except Exception as error:
                raise ClusterFailed(
                    f"the scheduler {address} cannot be reached ({error or type(error).__name__}): does it run there ({START.format('scheduler')}), and may this machine connect to it?"
                ) from error  # fmt: skip
            if why := _unfit(greeting, "scheduler", patch=False):
                raise ClusterFailed(f"the scheduler {address} is of no use: {why}")
            cluster = Cluster(client, address, order, say)
            watching = asyncio.create_task(cluster.watch())
            yield cluster
        finally:
            if watching is not None:
                watching.cancel()
            if cluster is not None:
                await cluster.over()
            with suppress(Exception):
                await asyncio.wait_for(client.close(), LEAVE_SECONDS)
