"""A warm kernel: forked from a process that has imported the lesson's libraries, and otherwise like one that was started anew.

Where that is not possible, an ordinary one is started.
"""

from __future__ import annotations

import asyncio
import atexit
import os
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from jupyter_client.manager import AsyncKernelManager

from course.schema import Limits
from graders.kernels import cold
from graders.kernels.cold import SOCKET_PATH, START_SECONDS, Kernel, KernelFailed, OwnManager, OwnSpec
from graders.kernels.isolation import Isolation, order, survey
from graders.kernels.order import NAMESPACES, Order
from graders.kernels.provisioner import WarmProvisioner
from graders.kernels.ready import answers, hang_up
from graders.kernels.sandbox import TOKEN, Scratch
from graders.kernels.sandbox import scratch as make_scratch
from graders.kernels.servers import Forked, ForkServer, NoFork, possible
from graders.kernels.watch import Watch

MAX_SERVERS = 3  # each holds the libraries of a lesson in memory


class How(StrEnum):
    """How a kernel comes into being."""

    AUTO = "auto"  # forked where that is safe, else started
    COLD = "cold"
    WARM = "warm"  # forked, or nothing is run


@dataclass
class _Served:
    server: ForkServer
    folder: ExitStack
    users: int = 0
    prepared: bool = False


@dataclass
class _Servers:
    """The fork servers of this process, the one that was used last at the end."""

    known: dict[tuple[tuple[str, ...], str], _Served] = field(default_factory=dict)

    def get(self, modules: tuple[str, ...], scratch: Scratch, cache: Path) -> _Served:
        """The server for these modules and an environment like this scratch folder's."""
        # What differs from run to run is the folder and the token.
        environment = "\n".join(
            f"{name}={value.replace(str(scratch.root), '')}"
            for name, value in sorted(scratch.environment().items())
            if name != TOKEN
        )
        key = (modules, environment)
        served = self.known.pop(key, None)
        if served is not None and not served.server.alive:
            self._end(served)
            served = None
        if served is None:
            for old in [one for one, other in self.known.items() if not other.users][: max(0, len(self.known) - MAX_SERVERS + 1)]:
                self._end(self.known.pop(old))
            stack = ExitStack()
            own = stack.enter_context(make_scratch(cache))
            # Its place in memory is where a forked process writes the token of its own run.
            blank = {**own.environment(), TOKEN: "0" * len(own.token)}
            served = _Served(ForkServer(modules, blank, own.work, str(own.root)), stack)
            served.server.start()
        self.known[key] = served
        return served

    def _end(self, served: _Served) -> None:
        served.server.close()
        served.folder.close()

    def close(self) -> None:
        while self.known:
            self._end(self.known.popitem()[1])


_SERVERS = _Servers()
close = _SERVERS.close
atexit.register(close)  # each would end by itself; the folder of one that is still importing would stay


def prepare(modules: tuple[str, ...], cache: Path) -> None:
    """Start the server for these modules already, if kernels can be forked here; it imports while other things are done."""
    if not possible():
        with make_scratch(cache, sweep=False) as like:
            _SERVERS.get(modules, like, cache)


@asynccontextmanager
async def kernel(
    scratch: Scratch,
    limits: Limits | None = None,
    isolation: Isolation | None = None,
    *,
    cache: Path,
    modules: tuple[str, ...] = (),
    how: How = How.AUTO,
) -> AsyncIterator[Kernel]:
    """A running kernel and its client; ended, with everything that was started from it, when the block is left.

    Args:
        scratch: its folder.
        limits: what it may use; the usual ones if absent.
        isolation: what keeps it apart; what this machine allows if absent.
        cache: see :func:`graders.kernels.sandbox.scratch`.
        modules: what its code will import.
        how: whether it is forked.

    Raises:
        KernelFailed: if it does not come up, cannot be kept apart as ordered, or cannot be forked and must be.
    """
    async with AsyncExitStack() as stack:
        try:
            if how is How.COLD:
                raise NoFork
            running = await stack.enter_async_context(_forked(scratch, limits or Limits(), isolation or survey(), modules, cache))
        except NoFork as error:
            if how is How.WARM:
                raise KernelFailed(f"no kernel can be forked: {error}; try --kernel auto") from error
            running = await stack.enter_async_context(cold.kernel(scratch, limits, isolation))
        yield running


@asynccontextmanager
async def _forked(
    scratch: Scratch, limits: Limits, isolation: Isolation, modules: tuple[str, ...], cache: Path
) -> AsyncIterator[Kernel]:
    if why := possible():
        raise NoFork(why)
    served = _SERVERS.get(modules, scratch, cache)
    served.users += 1
    manager = _manager(scratch, served.server, order(scratch, limits, isolation.layers) if isolation.layers else None)
    watching: asyncio.Task[None] | None = None
    running: Kernel | None = None
    try:
        await served.server.ready()
        served.folder.close()  # it was needed for the imports only
        running = await _start(manager, scratch, limits, isolation)
        watching = asyncio.create_task(running.watch.watch())
        yield running
    finally:
        served.users -= 1
        if watching is not None:
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)
        if running is not None:
            hang_up(running.client)
            await running.end()
        elif manager.has_kernel:
            await manager.shutdown_kernel(now=True)


def _manager(scratch: Scratch, server: ForkServer, ordered: Order | None) -> AsyncKernelManager:
    specs = OwnSpec()
    specs.argv = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}", "--HistoryManager.enabled=False"]
    manager = OwnManager(kernel_spec_manager=specs, connection_file=str(scratch.runtime / "k.json"))
    if len(os.fsencode(scratch.runtime)) < SOCKET_PATH:
        manager.transport = "ipc"
        manager.ip = str(scratch.runtime / "k")
    provisioner = WarmProvisioner(parent=manager, kernel_id=scratch.token, kernel_spec=manager.kernel_spec, forced=True)
    provisioner.server, provisioner.order, provisioner.root = server, ordered, str(scratch.root)
    manager.provisioner = provisioner
    return manager


async def _start(manager: AsyncKernelManager, scratch: Scratch, limits: Limits, isolation: Isolation) -> Kernel:
    file = scratch.root / "kernel.log"
    running: Kernel | None = None
    try:
        with file.open("wb") as log:
            await manager.start_kernel(cwd=str(scratch.work), env=scratch.environment(), stdout=log, stderr=log)
        process = getattr(manager.provisioner, "process", None)
        if not isinstance(process, Forked):
            raise RuntimeError("there is no process")
        inside = NAMESPACES in isolation.layers
        keepers = (2 if inside else 1) if isolation.layers else 0
        folders = (scratch.runtime,) if inside else (scratch.runtime, scratch.space)
        # One context of sockets for both: each has threads of its own.
        client = manager.client(context=manager.context)
        running = Kernel(manager, client, Watch(process.pid, keepers, limits, folders), file)
        async with asyncio.timeout(START_SECONDS):
            if not await process.reachable():
                raise RuntimeError("it ended while it started")
            await answers(client, process)
    except (RuntimeError, OSError, TimeoutError) as error:
        last = (running.said().strip().splitlines() if running else []) or [str(error) or "it takes too long"]
        if running is not None:
            hang_up(running.client)
        raise KernelFailed(f"the kernel did not start: {last[-1]}; try `python -m environment` again") from error
    running.client.allow_stdin = False
    return running
