"""Wait for a kernel: that it answers, and that it ends. Both wait for events; Jupyter's own ways sleep and look again."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess

from jupyter_client.asynchronous.client import AsyncKernelClient

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


async def ended(process: subprocess.Popen[bytes]) -> int:
    """Wait for the end of a process of ours. Returns its exit status."""
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


async def answers(client: AsyncKernelClient) -> None:
    """Wait until a kernel answers and what it publishes arrives. Its sockets exist already.

    It has answered a question then, and something has come to our subscription. What else is on the way belongs to that
    question, and nobody takes it for an answer to another one.
    """
    # No heartbeat, which would be one more thread: the end of the process is seen by itself.
    client.start_channels(hb=False)
    client.kernel_info()
    published = asyncio.ensure_future(client.get_iopub_msg())
    try:
        while (await client.get_shell_msg())["msg_type"] != "kernel_info_reply":
            pass
        await published
    finally:
        published.cancel()
