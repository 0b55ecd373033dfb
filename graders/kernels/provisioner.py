"""A jupyter_client kernel provisioner whose kernels are forked from a process that has imported their libraries.

A kernel specification names it, with the modules to be imported ahead::

    "metadata": {"kernel_provisioner": {"provisioner_name": "training-systems-warm", "config": {"modules": ["jax", "matplotlib.pyplot"]}}}

Where a kernel cannot be forked it starts an ordinary one. Everything else of Jupyter notices nothing.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import tempfile
from pathlib import Path
from typing import Any, cast

from jupyter_client.connect import KernelConnectionInfo
from jupyter_client.provisioning.local_provisioner import LocalProvisioner
from traitlets import Bool, List, Unicode

from graders.kernels.forkserver import Task
from graders.kernels.order import Order
from graders.kernels.servers import Forked, ForkServer, NoFork, descriptor, possible

END_SECONDS = 5.0
NAME = "training-systems-warm"
_PASSING = ("JPY_PARENT_PID", "JPY_SESSION_NAME")  # differ from kernel to kernel, and nothing reads them at import


class WarmProvisioner(LocalProvisioner):
    """Forks kernels.

    Attributes:
        modules: what the kernel's code will import.
        forced: whether to fail instead of starting an ordinary kernel.
        server: the fork server; found by modules and environment if absent.
        order: how the kernel is confined; not at all if absent.
        root: see :class:`Task`.
        why: why the kernel is an ordinary one, once it is.
    """

    modules = List(Unicode(), help="What the kernel's code will import.").tag(config=True)
    forced = Bool(False, help="Fail where a kernel cannot be forked, instead of starting an ordinary one.").tag(config=True)
    server: ForkServer | None = None
    order: Order | None = None
    root: str = ""
    why: str = ""

    async def launch_kernel(self, cmd: list[str], **kwargs: Any) -> KernelConnectionInfo:
        """Fork the kernel.

        Raises:
            NoFork: if that is not possible and nothing else is wanted.
        """
        try:
            if why := possible():
                raise NoFork(why)
            arguments = _arguments(cmd)
            self.server = self.server or _server(tuple(self.modules), kwargs["env"])
            folder = str(kwargs.get("cwd") or Path.cwd())
            stdin, nobody = os.pipe()  # as jupyter_client has it: nothing ever comes
            os.close(nobody)
            try:
                stdio = (stdin, descriptor(kwargs.get("stdout"), 1), descriptor(kwargs.get("stderr"), 2))
                forked = await self.server.fork(Task(arguments, kwargs["env"], folder, self.root, self.order), stdio)
            finally:
                os.close(stdin)
        except NoFork as error:
            if self.forced:
                raise
            self.why = str(error)
            self.log.warning("an ordinary kernel is started: %s", error)
            return await super().launch_kernel(cmd, **kwargs)
        self.process = cast("subprocess.Popen[bytes]", forked)
        self.pid = self.pgid = forked.pid
        self.cwd = folder
        return self.connection_info

    async def wait(self) -> int | None:
        """Wait for the end of the process."""
        if not isinstance(self.process, Forked):
            return await super().wait()
        status = await self.process.ended()
        self.process.release()
        self.process = None
        return status

    async def send_signal(self, signum: int) -> None:
        """Send a signal to the kernel and what it has started in its session."""
        if isinstance(self.process, Forked):
            self.process.send_signal(signum)
        else:
            await super().send_signal(signum)

    async def kill(self, restart: bool = False) -> None:
        """End the process and wait for that, so that nobody has to look again and again."""
        if isinstance(self.process, Forked):
            self.process.send_signal(signal.SIGKILL)
            try:
                async with asyncio.timeout(END_SECONDS):
                    await self.process.ended()
            except TimeoutError:
                self.process.release()  # who would tell of its end does not answer
        else:
            await super().kill(restart)


def _arguments(command: list[str]) -> tuple[str, ...]:
    """The arguments of a command that starts an ipykernel.

    Raises:
        NoFork: if it starts something else.
    """
    if len(command) > 2 and command[1:3] == ["-m", "ipykernel_launcher"]:
        return tuple(command[3:])
    if "-m" in command and command[command.index("-m") + 1] == "ipykernel_launcher":
        raise NoFork("the kernel specification starts Python with options of its own")
    raise NoFork("the kernel specification does not start an ipykernel")


_SERVERS: dict[tuple[tuple[str, ...], tuple[tuple[str, str], ...]], ForkServer] = {}


def _server(modules: tuple[str, ...], environment: dict[str, str]) -> ForkServer:
    """The server for kernels with this environment; of somebody who works there, not of a grader."""
    shared = {name: value for name, value in environment.items() if name not in _PASSING}
    key = (modules, tuple(sorted(shared.items())))
    if key not in _SERVERS or not _SERVERS[key].alive:
        _SERVERS[key] = ForkServer(modules, shared, Path(tempfile.gettempdir()))
    return _SERVERS[key]
