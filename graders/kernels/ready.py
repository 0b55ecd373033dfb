"""Wait for a kernel: that it answers, and that it ends. Both wait for events; Jupyter's own ways sleep and look again."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
from typing import Protocol

from jupyter_client.asynchronous.client import AsyncKernelClient

_RECONNECT_MS = 5
_LARGEST = 400_000_000  # bytes of one message; a kernel that sends a larger one is not heard any more
_LOOK_SECONDS = 0.05  # where the system has no event for the end of a process


async def readable(source: socket.socket | int) -> None:
    """Wait until there is something to read, or the other end is closed; for a process's descriptor, until it has ended."""
    loop = asyncio.get_running_loop()
    ready: asyncio.Future[None] = loop.create_future()

    def seen() -> None:
        if not ready.done():
            ready.set_result(None)

    # A descriptor of its own, so that several can wait for the same.
    descriptor = os.dup(source if isinstance(source, int) else source.fileno())
    loop.add_reader(descriptor, seen)
    try:
        await ready
    finally:
        loop.remove_reader(descriptor)
        os.close(descriptor)


class Ends(Protocol):
    """A process that tells of its own end."""

    async def ended(self) -> int:
        """Wait for it. Returns the exit status."""


async def ended(process: subprocess.Popen[bytes] | Ends) -> int:
    """Wait for the end of a process that we have started. Returns its exit status."""
    if not isinstance(process, subprocess.Popen):
        return await process.ended()
    try:
        handle = os.pidfd_open(process.pid)
    except (AttributeError, OSError):
        while process.poll() is None:
            await asyncio.sleep(_LOOK_SECONDS)
        return process.wait()
    try:
        while process.poll() is None:
            await readable(handle)
    finally:
        os.close(handle)
    return process.wait()


async def answers(client: AsyncKernelClient, process: subprocess.Popen[bytes] | Ends) -> None:
    """Start a client's channels, and wait until the kernel answers and what it publishes arrives.

    Raises:
        RuntimeError: if the process ends before.
    """
    # Sockets that are not there yet are looked for again; the usual 100 ms would be most of a kernel's start.
    client.context.reconnect_ivl = _RECONNECT_MS
    client.context.maxmsgsize = _LARGEST
    # No heartbeat, which would be one more thread: the end of the process is seen by itself. And no channel that nobody uses:
    # the kernel lets each in when it comes to it, which may be after a program has used up all descriptors.
    client.start_channels(stdin=False, control=False, hb=False)
    tasks = {asyncio.ensure_future(_answered(client)), asyncio.ensure_future(ended(process))}
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    if any(task.result() is not None for task in done):
        raise RuntimeError("it ended before it answered")


def hang_up(client: AsyncKernelClient) -> None:
    """Stop the channels that were started. Jupyter's own way makes the others, to look whether they have to be stopped."""
    for channel in (client.shell_channel, client.iopub_channel):
        if channel.is_alive():
            channel.stop()


async def _answered(client: AsyncKernelClient) -> None:
    """It has answered a question then, and something has come to our subscription: a kernel greets new subscribers.

    What else is on the way belongs to that question, and nobody takes it for an answer to another one.
    """
    client.kernel_info()
    while (await client.get_shell_msg())["msg_type"] != "kernel_info_reply":
        pass
    await client.get_iopub_msg()
