"""An ordinary kernel: a new process that imports everything anew. Works on every platform."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import psutil
from jupyter_client.asynchronous.client import AsyncKernelClient
from jupyter_client.kernelspec import KernelSpec, KernelSpecManager
from jupyter_client.manager import AsyncKernelManager

from course.schema import Limits
from graders.kernels.isolation import LAUNCHER, Isolation, order, survey, text
from graders.kernels.order import NAMESPACES
from graders.kernels.ready import answers, ended, hang_up
from graders.kernels.sandbox import Scratch
from graders.kernels.watch import Watch

START_SECONDS = 120.0
SOCKET_PATH = 90  # bytes; Linux allows 107, macOS 103, and jupyter_client appends a few
_SAID = 4_000
END_SECONDS = 5.0
# What libraries start for themselves, and end with the kernel, is no news.
_HELPERS = ("multiprocessing.resource_tracker", "multiprocessing.forkserver")


class KernelFailed(Exception):
    """The kernel could not be started: the fault of the environment, not of a learner."""


class OwnSpec(KernelSpecManager):
    """The one kernel there is: this interpreter. What kernels a user has installed does not matter."""

    argv: list[str]

    def get_kernel_spec(self, kernel_name: str) -> KernelSpec:
        """This interpreter, whatever the name."""
        return KernelSpec(argv=self.argv, display_name="Python 3", language="python")


class OwnManager(AsyncKernelManager):
    """Jupyter's manager without the connection over which it asks kernels to end: ours are ended by signals.

    The kernel lets a connection in when it comes to it. With no descriptor left for that it would abort.
    """

    def _connect_control_socket(self) -> None:
        pass


@dataclass
class Kernel:
    """A running kernel.

    Attributes:
        manager, client: Jupyter's.
        watch: what looks at its use of memory and processes; ``watch.exceeded`` says why it was ended.
        log: what the process wrote to its own stdout and stderr.
        left: once it is ended, how many processes a learner's code had left running.
    """

    manager: AsyncKernelManager
    client: AsyncKernelClient
    watch: Watch
    log: Path
    left: int = 0

    async def end(self) -> int | None:
        """End the kernel and everything that was started from it. Returns the exit status of what had ended by itself."""
        process = getattr(self.manager.provisioner, "process", None)
        status = process.poll() if process is not None else None
        if process is not None:
            if status is None:
                self.left += sum(map(_foreign, self.watch.running()[1:]))
            await asyncio.to_thread(self.watch.end)
            if self.watch.keepers:
                # The keeper above ends by itself then; the manager would look for that every 100 ms.
                with suppress(TimeoutError):
                    await asyncio.wait_for(ended(process), END_SECONDS)
        if self.manager.has_kernel:
            await self.manager.shutdown_kernel(now=True)
        return status

    @property
    def orphaned(self) -> bool:
        """Whether it has ended with the process from which it was forked: no fault of what it ran."""
        process = getattr(self.manager.provisioner, "process", None)
        return process is not None and process.poll() is not None and bool(getattr(process, "orphaned", False))

    async def ended(self) -> None:
        """Wait until the kernel's process has ended."""
        process = getattr(self.manager.provisioner, "process", None)
        if process is not None:
            await ended(process)

    def said(self) -> str:
        """The end of what the process wrote to its own stdout and stderr."""
        with suppress(OSError), self.log.open("rb") as file:
            file.seek(max(0, self.log.stat().st_size - _SAID))
            return file.read(_SAID).decode("utf-8", "backslashreplace")
        return ""


def _foreign(process: psutil.Process) -> bool:
    """Whether somebody's own code will have started a process."""
    try:
        command = " ".join(process.cmdline())
    except psutil.Error:
        return False
    return not any(helper in command for helper in _HELPERS)


@asynccontextmanager
async def kernel(scratch: Scratch, limits: Limits | None = None, isolation: Isolation | None = None) -> AsyncIterator[Kernel]:
    """A running kernel and its client; ended, with everything that was started from it, when the block is left.

    Args:
        scratch: its folder.
        limits: what it may use; the usual ones if absent.
        isolation: what keeps it apart; what this machine allows if absent.

    Raises:
        KernelFailed: if it does not come up, or cannot be kept apart as ordered.
    """
    limits = limits or Limits()
    isolation = isolation or survey()
    file = scratch.runtime / "k.json"
    specs = OwnSpec()
    specs.argv = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}", "--HistoryManager.enabled=False"]
    if isolation.layers:
        ordered = scratch.root / "order.json"
        ordered.write_text(text(order(scratch, limits, isolation.layers)), encoding="utf-8")
        specs.argv = [sys.executable, str(LAUNCHER), str(ordered), "{connection_file}"]
    manager = OwnManager(kernel_spec_manager=specs, connection_file=str(file))
    if os.name == "posix" and len(os.fsencode(scratch.runtime)) < SOCKET_PATH:
        # Unix sockets cannot collide with another kernel's port, and need no network.
        manager.transport = "ipc"
        manager.ip = str(scratch.runtime / "k")
    running: Kernel | None = None
    watching: asyncio.Task[None] | None = None
    log_file = scratch.root / "kernel.log"
    # A kernel that inherited our own stdout could write a line that looks like a verdict.
    with log_file.open("wb") as log:
        try:
            try:
                await manager.start_kernel(cwd=str(scratch.work), env=scratch.environment(), stdout=log, stderr=log)
                inside = NAMESPACES in isolation.layers
                keepers = (2 if inside else 1) if isolation.layers and sys.platform == "linux" else 0
                folders = (scratch.runtime,) if inside else (scratch.runtime, scratch.space)
                process = getattr(manager.provisioner, "process", None)
                if process is None:
                    raise RuntimeError("there is no process")
                watch = Watch(process.pid, keepers, limits, folders)
                # One context of sockets for both: each has threads of its own.
                running = Kernel(manager, manager.client(context=manager.context), watch, log_file)
                async with asyncio.timeout(START_SECONDS):
                    await answers(running.client, process)
            except (RuntimeError, OSError, TimeoutError) as error:
                last = (running.said().strip().splitlines() if running else []) or [str(error)]
                raise KernelFailed(f"the kernel did not start: {last[-1]}; try `python -m environment` again") from error
            running.client.allow_stdin = False
            watching = asyncio.create_task(running.watch.watch())
            yield running
        finally:
            if watching is not None:
                watching.cancel()
                await asyncio.gather(watching, return_exceptions=True)
            if running is not None:
                hang_up(running.client)
                await running.end()
            elif manager.has_kernel:
                await manager.shutdown_kernel(now=True)
