"""An ordinary kernel: a new process that imports everything anew. Works on every platform."""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from jupyter_client.asynchronous.client import AsyncKernelClient
from jupyter_client.kernelspec import KernelSpec, KernelSpecManager
from jupyter_client.manager import AsyncKernelManager

from graders.kernels.sandbox import Scratch, descendants, kill

START_SECONDS = 120.0
_SOCKET_PATH = 90  # bytes; Linux allows 107, macOS 103, and jupyter_client appends a few


class KernelFailed(Exception):
    """The kernel could not be started: the fault of the environment, not of a learner."""


class _OwnSpec(KernelSpecManager):
    """The one kernel there is: this interpreter. What kernels a user has installed does not matter."""

    def get_kernel_spec(self, kernel_name: str) -> KernelSpec:
        argv = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}", "--HistoryManager.enabled=False"]
        return KernelSpec(argv=argv, display_name="Python 3", language="python")


@asynccontextmanager
async def kernel(scratch: Scratch) -> AsyncIterator[tuple[AsyncKernelManager, AsyncKernelClient]]:
    """A running kernel and its client; ended, with its process group, when the block is left.

    Raises:
        KernelFailed: if it does not come up.
    """
    manager = AsyncKernelManager(kernel_spec_manager=_OwnSpec(), connection_file=str(scratch.runtime / "k.json"))
    if os.name == "posix" and len(os.fsencode(scratch.runtime)) < _SOCKET_PATH:
        # Unix sockets cannot collide with another kernel's port, and need no network.
        manager.transport = "ipc"
        manager.ip = str(scratch.runtime / "k")
    client: AsyncKernelClient | None = None
    # A kernel that inherited our own stdout could write a line that looks like a verdict.
    with (scratch.runtime / "kernel.log").open("wb") as log:
        try:
            try:
                await manager.start_kernel(cwd=str(scratch.work), env=scratch.environment(), stdout=log, stderr=log)
                client = manager.client()
                client.start_channels()
                await client.wait_for_ready(timeout=START_SECONDS)
            except (RuntimeError, OSError) as error:
                raise KernelFailed(f"the kernel did not start: {error}; try `python -m environment` again") from error
            client.allow_stdin = False
            yield manager, client
        finally:
            if client is not None:
                client.stop_channels()
            if manager.has_kernel:
                children = descendants(getattr(getattr(manager.provisioner, "process", None), "pid", None))
                await manager.shutdown_kernel(now=True)
                kill(children)
