"""Run cells in a kernel and observe them. Knows nothing of expected values.

One kernel runs one submission: first the base run from the top, then, each in a fresh namespace and an empty working
directory, the same cells under other parameters. Probes are taken right after the cell they look at.
"""

from __future__ import annotations

import ast
import asyncio
import json
import marshal
import math
import secrets
import signal
import time
from base64 import b64decode
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from jupyter_client.session import DELIM
from nbclient import NotebookClient
from nbclient.exceptions import DeadKernelError
from nbformat import NotebookNode
from pydantic import ValidationError

from course.schema import Limits, Parameters
from course.values import Value
from graders.kernels.cold import Kernel, KernelFailed
from graders.kernels.isolation import Isolation, survey
from graders.kernels.order import NAMESPACES
from graders.kernels.sandbox import Scratch, scratch
from graders.kernels.warm import How, kernel
from graders.program import Program, overrides

GRACE_SECONDS = 3.0
INSTALL_SECONDS = 60.0
LEAST_SECONDS = 0.01
PATIENCE = 3.0  # for each second of a limit, seconds of waiting for a processor that are not counted
LAST_SECONDS = 0.2  # for what a kernel had still sent when it ended
MAX_KERNELS = 4
MAX_OUTPUT = 1_000_000
MAX_MESSAGE = 2_000
MAX_SAID = 300

_SETUP = """
import sys, types
module = types.ModuleType("graders_probe")
exec(probe, module.__dict__)
sys.modules["graders_probe"] = module
# quit() in a notebook is a habit from the console; it must not take the other runs along.
get_ipython().ask_exit = lambda: print("quit() has no effect here")
"""


def _packed(source: str, name: str) -> str:
    """An expression for compiled code. A kernel is of the same Python, and to compile it in each takes time."""
    return f"__import__('marshal').loads({marshal.dumps(compile(source, name, 'exec'))!r})"


_PROBE = _packed((Path(__file__).parent / "probe.py").read_text(encoding="utf-8"), "<probe>")
_INSTALL = f"exec({_packed(_SETUP, '<setup>')}, {{'get_ipython': get_ipython, 'probe': {_PROBE}}}) or 'ready'"


@dataclass(frozen=True)
class Plan:
    """One run of a program.

    Attributes:
        parameters: what is changed after the parameters cell; nothing, or the lesson's drills, for the base run.
        probes: exercise id -> expressions, taken where the program says.
        facts: cell id -> fact id -> expression, taken after that cell.
        name: how reports call this run.
        figures: whether the figures are drawn to files and their data observed.
        recorded: the parameters under which the receipt holds this run; ``parameters`` if absent.
        whole: whether more than its observations is of interest. Else what its cells print is not kept, and it ends with the last
            probe.
    """

    parameters: Parameters
    probes: Mapping[str, tuple[str, ...]]
    facts: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    name: str = "base"
    figures: bool = False
    recorded: Parameters | None = None
    whole: bool = True

    @property
    def key(self) -> Parameters:
        """The parameters under which the receipt holds this run."""
        return self.parameters if self.recorded is None else self.recorded


@dataclass(frozen=True)
class CellOutcome:
    """What happened to one step.

    Attributes:
        step: index in the program.
        status: ``ok``, ``error`` (it raised), ``timeout``, ``output`` (it printed more than its limit), ``died`` (the kernel
            ended in it), ``memory``, ``processes`` or ``scratch`` (the kernel was ended in it for using more than its limit),
            ``tampered`` (the kernel's answers could not be read any more) or ``not-run``.
        error: ``Type: message`` of the exception, cut.
        stdout, stderr: what it printed, cut; empty in a run of which this is not kept.
        cut: whether output was cut.
        seconds: the time that it was given.
    """

    step: int
    status: str
    error: str = ""
    stdout: str = ""
    stderr: str = ""
    cut: bool = False
    seconds: float = 0.0


@dataclass(frozen=True)
class FigureFiles:
    """A figure's plotted data and its renderings."""

    data: list[Any]
    svg: bytes
    png: bytes


@dataclass(frozen=True)
class Loss:
    """The end of a kernel before its time.

    Attributes:
        step: in which step, or in the probes after it.
        how: ``timeout`` (it had to be killed), ``died``, ``tampered`` (its answers could not be read any more), or the limit
            for which it was ended: ``memory``, ``processes``, ``scratch``, ``output``.
        exit: how the process ended, for instance ``status 0`` or ``SIGSEGV``; empty if that is not known.
        said: what it wrote last to its own stderr, where it ended with a status of its own.
    """

    step: int
    how: str
    exit: str = ""
    said: str = ""


@dataclass(frozen=True)
class Trace:
    """What one run of a program gave.

    Attributes:
        plan: what was run.
        cells: one outcome a step, all of them; in a run that is not of interest as a whole, up to the last probe.
        observations: exercise id -> expression -> value; an exercise that was not reached is absent.
        tampered: exercises whose probes gave no answer that could be read.
        slow: exercises whose probes were interrupted at the time limit.
        late: exercises whose names appeared only in a later cell than their own.
        names: exercise id -> public names of the namespace, where a probe met an undefined one.
        facts: fact id -> value.
        figures: cell id -> files.
        seconds: wall time.
        lost: how the kernel was lost, if it was.
        limits: under which it ran.
        left: how many processes were still running when the kernel was ended, in the last trace of a kernel.
    """

    plan: Plan
    cells: tuple[CellOutcome, ...]
    observations: Mapping[str, Mapping[str, Value]]
    tampered: frozenset[str] = frozenset()
    names: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    facts: Mapping[str, Value] = field(default_factory=dict)
    figures: Mapping[str, FigureFiles] = field(default_factory=dict)
    seconds: float = 0.0
    lost: Loss | None = None
    slow: frozenset[str] = frozenset()
    late: frozenset[str] = frozenset()
    limits: Limits = field(default_factory=Limits)
    left: int = 0

    def reached(self, program: Program, exercise: str) -> bool:
        """Whether the run went as far as to the exercise; one in a new kernel ends where the first kernel was lost."""
        return program.observed_after[exercise] < len(self.cells)


Wanted = Callable[[Plan, list[Trace]], bool]


Opener = Callable[[], AbstractAsyncContextManager["Session"]]


async def run(
    program: Program,
    plans: list[Plan],
    limits: Limits,
    cache: Path,
    wanted: Wanted | None = None,
    isolation: Isolation | None = None,
    how: How = How.AUTO,
    modules: tuple[str, ...] = (),
    opener: Opener | None = None,
) -> list[Trace]:
    """Run one program in a fresh kernel, once for each plan. See :func:`run_all`."""
    return await run_all([(program, plan) for plan in plans], limits, cache, wanted, isolation, how, modules, opener)


async def run_all(
    jobs: list[tuple[Program, Plan]],
    limits: Limits,
    cache: Path,
    wanted: Wanted | None = None,
    isolation: Isolation | None = None,
    how: How = How.AUTO,
    modules: tuple[str, ...] = (),
    opener: Opener | None = None,
) -> list[Trace]:
    """Run programs one after the other in a fresh kernel, each in a fresh namespace and an empty working directory.

    Args:
        jobs: what to run.
        limits: of each cell, and of everything together but the start of kernels.
        cache: see :func:`graders.kernels.sandbox.scratch`.
        wanted: asked before each job but the first, with what came out so far; one that is not wanted is left out.
        isolation: what keeps it apart; what this machine allows if absent.
        how: whether kernels are forked.
        modules: what the programs import, for forked ones.
        opener: gives kernels that were opened by :func:`opened` with the same arguments, perhaps before.

    Returns:
        One trace a job that was run. When the kernel is lost in a step, the jobs after it run in a new kernel, up to that
        step, and those that look at nothing before it are left out: what stands before a crash can still be judged.

    Raises:
        KernelFailed: if a kernel could not be started.
    """
    traces: list[Trace] = []
    seconds = limits.total_seconds
    waiting = list(jobs)
    stop: int | None = None
    opener = opener or partial(opened, limits, cache, isolation, how, modules)
    for _ in range(MAX_KERNELS):
        async with opener() as session:
            session.deadline = time.monotonic() + seconds
            while waiting and not session.lost:
                program, plan = waiting.pop(0)
                if traces and wanted and not wanted(plan, traces):
                    continue
                if session.used and not await session.reset():
                    break
                traces.append(await session.run(program if stop is None else program.until(stop), plan))
            seconds = session.deadline - time.monotonic()
        if traces:
            traces[-1] = replace(traces[-1], left=session.kernel.left)
        lost = traces[-1].lost if traces else None
        if lost is None:
            break
        end = stop = lost.step if stop is None else min(stop, lost.step)
        waiting = [(program, plan) for program, plan in waiting if program.until(end).observed_after.keys() & plan.probes.keys()]
        if not waiting:
            break
    return traces


@asynccontextmanager
async def opened(
    limits: Limits, cache: Path, isolation: Isolation | None = None, how: How = How.AUTO, modules: tuple[str, ...] = ()
) -> AsyncIterator[Session]:
    """A fresh kernel in a scratch folder of its own, with the probe in it. The arguments are those of :func:`run_all`.

    Raises:
        KernelFailed: if it could not be started.
    """
    isolation = isolation or survey()
    with scratch(cache, sweep=NAMESPACES not in isolation.layers) as folder:
        async with kernel(folder, limits, isolation, cache=cache, modules=modules, how=how) as running:
            session = Session(running, folder, limits)
            await session.install()
            yield session


class _Client(NotebookClient):
    """nbclient with bounded output and without widgets; a tag in the notebook does not change how it is run."""

    def __init__(self, limit: int, running: Kernel, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.limit = limit
        self.running = running
        self.size = 0
        self.cut = False
        self.raised = ""
        # What the kernel shows of an exception may get lost where it has no descriptor left; its answer says it, too.
        self.on_cell_error = self._note
        self.flooded = asyncio.Event()

    def output(self, outs: list[Any], msg: dict[str, Any], display_id: str | None, cell_index: int) -> Any:
        content = msg["content"]
        self.size += 100 + len(str(content.get("text", ""))) + sum(len(str(one)) for one in (content.get("data") or {}).values())
        if self.size > self.limit:
            self.flooded.set()
        if self.size > MAX_OUTPUT and msg["msg_type"] != "error":
            self.cut = True
            return None
        return super().output(outs, msg, display_id, cell_index)

    def _note(self, cell: Any, cell_index: int, execute_reply: dict[str, Any]) -> None:
        del cell, cell_index
        content = execute_reply["content"]
        self.raised = f"{content.get('ename')}: {content.get('evalue')}"

    async def _async_poll_kernel_alive(self) -> None:
        """Wait for the end of the kernel, where nbclient looks for it once a second."""
        await self.running.ended()
        await asyncio.sleep(LAST_SECONDS)
        if self.task_poll_for_reply is not None:
            self.task_poll_for_reply.cancel()

    def handle_comm_msg(self, outs: list[Any], msg: dict[str, Any], cell_index: int) -> None:
        """There is no front end here that a widget could talk to."""


class Session:
    """One kernel with its budget. ``lost`` says how the kernel was lost, once it was."""

    def __init__(self, running: Kernel, folder: Scratch, limits: Limits) -> None:
        self.kernel, self.folder, self.limits = running, folder, limits
        self.manager, self.client = running.manager, running.client
        self.deadline = math.inf  # the time counts once the kernel is ready
        self.patience = PATIENCE * limits.total_seconds  # how much may still be given back
        self.lost = ""
        self.interrupted = False  # whether the last request was
        self.exit: int | None = None
        self.used = 0

    @property
    def alive(self) -> bool:
        """Whether the kernel is running."""
        process = getattr(self.manager.provisioner, "process", None)
        return process is not None and process.poll() is None

    async def install(self) -> None:
        """Put the probe into the kernel, outside the namespace in which cells run. Raises KernelFailed if that takes too long."""
        if await self._ask(_INSTALL, seconds=INSTALL_SECONDS) != "ready":
            raise KernelFailed("the kernel started, but does not answer: is the machine overloaded?")

    async def reset(self) -> bool:
        """Empty the namespace and the working directory. False if the kernel does not answer as it should."""
        # Beside the first run's folder and not in it: its files may have any name.
        answer = await self._call(f"reset({str(self.folder.space / f'w{self.used}')!r})")
        return answer == "reset"

    async def run(self, program: Program, plan: Plan) -> Trace:
        """Run the cells of one plan."""
        self.used += 1
        began = time.monotonic()
        outcomes: list[CellOutcome] = []
        observations: dict[str, dict[str, Value]] = {}
        tampered: set[str] = set()
        slow: set[str] = set()
        names: dict[str, tuple[str, ...]] = {}
        facts: dict[str, Value] = {}
        figures: dict[str, FigureFiles] = {}
        loss: Loss | None = None
        end = max((after for exercise, after in program.observed_after.items() if exercise in plan.probes), default=0)
        for index, step in enumerate(program.steps):
            if self.lost:
                outcomes.append(CellOutcome(index, "not-run"))
                continue
            outcomes.append(await self._cell(index, step.source, told=plan.whole))
            if outcomes[-1].status == "not-run":
                continue  # the time is used up: what the cell would have given is not known
            await self._bind(program, plan, index)
            for exercise, after in program.observed_after.items():
                if after == index and exercise in plan.probes and not self.lost:
                    seen = await self._probe(program, plan, exercise)
                    if seen is not None:
                        observations[exercise], names[exercise] = seen
                    elif not self.lost:
                        (slow if self.interrupted else tampered).add(exercise)
            if step.id in plan.facts and not self.lost:
                wanted = plan.facts[step.id]
                seen = await self._observe(tuple(wanted.values()))
                facts |= {fact: seen[0][text] for fact, text in wanted.items()} if seen else {}
            if plan.figures and not self.lost and step.origin == "given":
                figures |= await self._figures(step.id)
            if self.lost:
                loss = Loss(index, self.lost, self._exit_text(), self._said())
            elif (
                not plan.whole
                and index >= end
                and not any(exercise in program.pending or _open(seen) for exercise, seen in observations.items())
            ):
                break
        late = await self._look_again(program, plan, observations)
        seconds = round(time.monotonic() - began, 3)
        return Trace(
            plan=plan, cells=tuple(outcomes), observations=observations, tampered=frozenset(tampered), names=names, facts=facts,
            figures=figures, seconds=seconds, lost=loss, slow=frozenset(slow), late=late, limits=self.limits,
        )  # fmt: skip

    async def _bind(self, program: Program, plan: Plan, index: int) -> None:
        """Change the parameters of this run where a step has set them, and remember what its names mean in probes."""
        step = program.steps[index]
        if plan.parameters and step.parameters and not self.lost:
            await self._cell(index, overrides(plan.parameters), told=False)
        if index in program.keeps and not self.lost:
            await self._call(f"keep({program.keeps[index]!r}, globals(), {step.origin != 'given'})")

    async def _look_again(self, program: Program, plan: Plan, observations: dict[str, dict[str, Value]]) -> frozenset[str]:
        """Take probes once more at the end where an exercise's own cell left them open. Returns which were answered then.

        Somebody may have answered in a cell of their own; the names decide, not the place.
        """
        late: set[str] = set()
        for exercise, seen in list(observations.items()):
            reached_last = program.observed_after[exercise] == len(program.steps) - 1
            if self.lost or reached_last or not (exercise in program.pending or _open(seen)):
                continue
            again = await self._probe(program, plan, exercise)
            if again is not None and again[0] != seen and not _open(again[0]):
                observations[exercise] = again[0]
                late.add(exercise)
        return frozenset(late)

    def _exit_text(self) -> str:
        if self.exit is None:
            return ""
        try:
            return f"status {self.exit}" if self.exit >= 0 else signal.Signals(-self.exit).name
        except ValueError:
            return f"signal {-self.exit}"

    def _said(self) -> str:
        """The last line that a kernel which ended by itself wrote, for instance why a library ended it."""
        if self.lost != "died" or not self.exit or self.exit < 0:
            return ""
        lines = [line.strip() for line in self.kernel.said().splitlines() if line.strip()]
        return lines[-1][:MAX_SAID] if lines else ""

    async def _cell(self, index: int, source: str, *, told: bool) -> CellOutcome:
        seconds = min(self.limits.cell_seconds, self.deadline - time.monotonic())
        if seconds <= 0:
            return CellOutcome(index, "not-run")
        limit = self.limits.output_mb * 1_000_000
        if not told:
            return await self._untold(index, source, seconds, limit)
        # Without nbformat's own functions, which check each cell against a schema: that takes longer than to run it.
        cell, notebook = _notebook(index, source)
        runner = _Client(limit, self.kernel, notebook, km=self.manager, timeout=None, allow_errors=True, store_widget_state=False)
        runner.kc = self.client
        task = asyncio.ensure_future(runner.async_execute_cell(cell, 0, store_history=True))
        status = await self._wait(task, seconds, runner.flooded)
        stdout, stderr, error = "", "", ""
        for output in cell.get("outputs", []):
            if output["output_type"] == "stream":
                stdout, stderr = (
                    (stdout + output["text"], stderr) if output["name"] == "stdout" else (stdout, stderr + output["text"])
                )
            elif output["output_type"] == "error":
                error = _cut(f"{output.get('ename')}: {output.get('evalue')}")
        error = error or _cut(runner.raised)
        if status == "ok" and error:
            status = "error"
        return CellOutcome(index, status, error, stdout, stderr, runner.cut, round(seconds, 1))

    async def _untold(self, index: int, source: str, seconds: float, limit: int) -> CellOutcome:
        """Run a cell of which only the effects are of interest. What it prints is counted and not looked at."""
        request = self.client.execute(source, store_history=True, stop_on_error=False)
        flooded = asyncio.Event()
        silent = asyncio.ensure_future(self._drained(request, limit, flooded))
        task = asyncio.ensure_future(self._reply(request))
        try:
            status = await self._wait(task, seconds, flooded)
            if status == "ok":
                # An answer may overtake what was printed before it, but not for long.
                await asyncio.wait({silent}, timeout=GRACE_SECONDS)
        finally:
            silent.cancel()
            await asyncio.gather(silent, return_exceptions=True)
        content = task.result()["content"] if task.done() and not task.cancelled() and not task.exception() else {}
        if not isinstance(content, dict):
            # A kernel that answers so is of no more use.
            self.lost, self.exit = "tampered", await self.kernel.end()
            return CellOutcome(index, self.lost, seconds=round(seconds, 1))
        error = _cut(f"{content.get('ename')}: {content.get('evalue')}") if content.get("status") == "error" else ""
        return CellOutcome(index, "error" if status == "ok" and error else status, error, seconds=round(seconds, 1))

    async def _drained(self, request: str, limit: int, flooded: asyncio.Event) -> None:
        """Take what a kernel publishes from its socket, until it says that it has done with a request."""
        socket = self.client.iopub_channel.socket
        size = 0
        while True:
            frames: list[bytes] = await socket.recv_multipart()
            # Header, parent header, metadata and content follow on a delimiter and a signature.
            about = frames[frames.index(DELIM) + 2 :] if DELIM in frames else []
            size += sum(map(len, frames)) if len(about) < 4 else _printed(about[3]) + sum(map(len, about[4:]))
            if size > limit:
                flooded.set()
            if len(about) >= 4 and request.encode() in about[1] and b'"status"' in about[0] and b'"idle"' in about[3]:
                return

    async def _wait(self, task: asyncio.Task[Any], seconds: float, flooded: asyncio.Event | None = None) -> str:
        """Wait for a request to the kernel; interrupt it at its limit, kill the kernel if that does not help.

        Args:
            task: the request.
            seconds: its limit.
            flooded: set when its output is over its limit.
        """
        status = "ok"
        flood = asyncio.ensure_future((flooded or asyncio.Event()).wait())
        try:
            await self._patiently({task, flood}, seconds)
        except asyncio.CancelledError:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)  # how it ends is of no interest any more
            raise
        finally:
            flood.cancel()
        self.interrupted = not task.done()
        if not task.done():
            status = "output" if flooded is not None and flooded.is_set() else "timeout"
            await self.manager.interrupt_kernel()
            await asyncio.wait({task}, timeout=GRACE_SECONDS)
        done = task.done()
        if not done:
            task.cancel()
            await asyncio.wait({task}, timeout=GRACE_SECONDS)
        error = task.exception() if task.done() and not task.cancelled() else None
        if done and error is None:
            return status
        if self.kernel.orphaned:
            raise KernelFailed("the process from which kernels are forked has ended in mid-run; grade again")
        # A kernel that does not answer, or whose answers cannot be read, is of no more use.
        exceeded = self.kernel.watch.exceeded
        self.lost = exceeded or (status if status != "ok" else "died" if isinstance(error, DeadKernelError) else "tampered")
        self.exit = await self.kernel.end()
        return self.lost

    async def _patiently(self, waiting: set[asyncio.Task[Any]], seconds: float) -> None:
        """Wait for the first of several tasks, as long as a kernel may take that always has a processor when it needs one."""
        before = self.kernel.watch.waited()
        given, more = 0.0, seconds
        while more > LEAST_SECONDS:
            done, _ = await asyncio.wait(waiting, timeout=more, return_when=asyncio.FIRST_COMPLETED)
            if done:
                return
            more = min(self.kernel.watch.waited() - before - given, PATIENCE * seconds - given, self.patience)
            given += more
            self.patience -= more
            self.deadline += more

    async def _probe(self, program: Program, plan: Plan, exercise: str) -> tuple[dict[str, Value], tuple[str, ...]] | None:
        """Take the probes of an exercise."""
        return await self._observe(plan.probes[exercise], program.given.get(exercise, ()), program.plain.get(exercise, ()))

    async def _observe(
        self, expressions: tuple[str, ...], given: tuple[str, ...] = (), plain: tuple[str, ...] = ()
    ) -> tuple[dict[str, Value], tuple[str, ...]] | None:
        """Take probes. None if no answer came that can be read."""
        nonce = secrets.token_hex(8)
        text = await self._call(f"observe({nonce!r}, {list(expressions)!r}, globals(), {given!r}, {plain!r})")
        try:
            data = json.loads(text) if text else None
            if not isinstance(data, dict) or data.get("nonce") != nonce or set(data["values"]) != set(expressions):
                return None
            values = {expression: Value.model_validate(data["values"][expression]) for expression in expressions}
        except (ValueError, KeyError, TypeError, RecursionError, ValidationError):
            return None
        names: tuple[str, ...] = ()
        if any(value.type == "NameError" for value in values.values()):
            listed = await self._call("names(globals())")
            try:
                names = tuple(str(name)[:100] for name in json.loads(listed or "[]"))
            except (ValueError, TypeError, RecursionError):
                names = ()
        return values, names

    async def _figures(self, cell: str) -> dict[str, FigureFiles]:
        """The figures that a cell left open; they are closed then."""
        listed = await self._call("figures()")
        data = json.loads(listed or "{}")
        if not data.get("figures"):
            return {}
        return {cell: FigureFiles(data["figures"], b64decode(data["svg"]), b64decode(data["png"]))}

    async def _call(self, call: str) -> str | None:
        """Call a function of the probe; its result is a text."""
        return await self._ask(f"__import__('sys').modules['graders_probe'].{call}")

    async def _ask(self, expression: str, code: str = "", seconds: float | None = None) -> str | None:
        """Evaluate an expression in the kernel, outside the reach of input transformers and history.

        Returns:
            The text that the expression gave, or None: it raised, gave something else, or there was no time.
        """
        limit = seconds or min(self.limits.cell_seconds, max(self.deadline - time.monotonic(), 1.0))
        request = self.client.execute(code, silent=True, store_history=False, user_expressions={"answer": expression})
        flooded = asyncio.Event()
        # A thread of the learner's may print all the while: what nobody takes from the socket lies in our memory.
        silent = asyncio.ensure_future(self._drained(request, self.limits.output_mb * 1_000_000, flooded))
        task = asyncio.ensure_future(self._reply(request))
        try:
            if await self._wait(task, limit, flooded) != "ok" or self.lost:
                if flooded.is_set() and not self.lost:
                    self.lost, self.exit = "output", await self.kernel.end()
                return None
        finally:
            silent.cancel()
            await asyncio.gather(silent, return_exceptions=True)
        try:
            text = ast.literal_eval(task.result()["content"]["user_expressions"]["answer"]["data"]["text/plain"])
        except (KeyError, IndexError, AttributeError, TypeError, ValueError, SyntaxError, MemoryError, RecursionError):
            return None
        return text if isinstance(text, str) else None

    async def _reply(self, request: str) -> dict[str, Any]:
        gone = asyncio.ensure_future(self.kernel.ended())
        try:
            while True:
                arriving = asyncio.ensure_future(self.client.get_shell_msg())
                try:
                    await asyncio.wait({arriving, gone}, return_when=asyncio.FIRST_COMPLETED)
                    if not arriving.done():
                        await asyncio.wait({arriving}, timeout=LAST_SECONDS)
                    if not arriving.done():
                        raise DeadKernelError("Kernel died")
                    message: dict[str, Any] = arriving.result()
                finally:
                    arriving.cancel()
                if message["parent_header"].get("msg_id") == request:
                    return message
        finally:
            gone.cancel()


def _printed(content: bytes) -> int:
    """About how many characters a message prints, never more than they are: JSON writes some of them with several."""
    text = content.decode("utf-8", "replace")
    return max(len(text) // 6, len(text) - text.count("\\") - 4 * text.count("\\u00"))


def _notebook(index: int, source: str) -> tuple[Any, Any]:
    """A notebook of one cell, and the cell."""
    made: Any = NotebookNode
    cell = made(id=f"c{index}", cell_type="code", metadata=made(), execution_count=None, source=source, outputs=[])
    return cell, made(nbformat=4, nbformat_minor=5, metadata=made(), cells=[cell])


def _open(seen: Mapping[str, Value]) -> bool:
    """Whether a name is not there yet, or still the placeholder of the scaffold."""
    return any(value.kind == "ellipsis" or value.type == "NameError" for value in seen.values())


def _cut(text: str) -> str:
    return text if len(text) <= MAX_MESSAGE else f"{text[:MAX_MESSAGE]} … ({len(text)} characters)"
