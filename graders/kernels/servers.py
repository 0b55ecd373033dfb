"""Fork servers as seen from outside: started when they are needed, asked for kernels, and ended with this process.

See :mod:`graders.kernels.forkserver` for what they are and what is said over the sockets.
"""

from __future__ import annotations

import asyncio
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import IO, Any

from graders.kernels.forkserver import MESSAGE, Task
from graders.kernels.ready import readable

PROGRAM = Path(__file__).with_name("forkserver.py")
FORK_SECONDS = 20.0  # a fork takes milliseconds
READY_SECONDS = 120.0  # for the imports, on a loaded machine
END_SECONDS = 5.0
MAX_STARTS = 4  # how often to start again without a module with which it cannot fork


class NoFork(Exception):
    """There is no kernel to be forked. The message says why; an ordinary kernel does."""


def possible() -> str:
    """Why kernels cannot be forked on this system at all, or an empty text."""
    if sys.platform != "linux":
        return "forking a process that has imported numerical libraries is safe on Linux only"
    try:
        os.close(os.pidfd_open(os.getpid()))
    except (AttributeError, OSError):
        return "this Linux has no descriptors for processes; they came with Linux 5.3"
    return ""


def _received(channel: socket.socket) -> dict[str, Any] | None:
    """The next message if there is one; an empty one if the other end is closed."""
    try:
        data = channel.recv(MESSAGE, socket.MSG_DONTWAIT)
    except BlockingIOError:
        return None
    except OSError:
        return {}
    return dict(json.loads(data)) if data else {}


class Forked:
    """A forked process, with what :class:`subprocess.Popen` offers of it.

    Attributes:
        pid: its number. It is not given to another process before :meth:`release`.
        returncode: its exit status, negative for a signal, once it has ended.
        orphaned: whether it has ended with the server, and not by itself.
    """

    stdin = stdout = stderr = None

    def __init__(self, channel: socket.socket) -> None:
        self.channel = channel
        self.pid = 0
        self.returncode: int | None = None
        self.refused = ""
        self.bound = False
        self.orphaned = False

    def poll(self) -> int | None:
        """Its exit status, or None while it runs."""
        while self.returncode is None and (message := _received(self.channel)) is not None:
            self.pid = message.get("pid", self.pid)
            self.refused = message.get("refused", self.refused)
            self.bound = message.get("bound", self.bound)
            if not message:
                # The server itself has gone, and its processes with it.
                self.returncode = -signal.SIGKILL
                self.orphaned = True
            elif "exit" in message:
                self.returncode = message["exit"]
        return self.returncode

    async def started(self) -> None:
        """Wait until it has been forked.

        Raises:
            NoFork: if it was refused, or there is no server any more.
        """
        while self.poll() is None and not (self.pid or self.refused):
            await readable(self.channel)
        if not self.pid:
            self.release()
            raise NoFork(self.refused or "the process that forks kernels has ended")

    async def reachable(self) -> bool:
        """Wait until the kernel in it can be reached. False if it has ended before."""
        while self.poll() is None and not self.bound:
            await readable(self.channel)
        return self.bound

    async def ended(self) -> int:
        """Wait for its end. Returns the exit status."""
        while (status := self.poll()) is None:
            await readable(self.channel)
        return status

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end, in a program without an event loop.

        Raises:
            subprocess.TimeoutExpired: if it did not end in time.
        """
        waiting = select.poll()
        waiting.register(self.channel, select.POLLIN)
        until = None if timeout is None else time.monotonic() + timeout
        while (status := self.poll()) is None:
            left = None if until is None else max(0.0, until - time.monotonic()) * 1000
            if not waiting.poll(left):
                raise subprocess.TimeoutExpired("a forked process", timeout or 0)
        return status

    def send_signal(self, number: int) -> None:
        """Send a signal to its process group."""
        if self.poll() is None:
            with suppress(OSError):
                self.channel.send(json.dumps({"signal": int(number)}).encode())

    def terminate(self) -> None:
        """Ask it to end."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """End it at once."""
        self.send_signal(signal.SIGKILL)

    def release(self) -> None:
        """Let its number go, and end it if it still runs."""
        self.channel.close()
        if self.returncode is None:
            self.returncode = -signal.SIGKILL

    def __del__(self) -> None:
        self.channel.close()


@dataclass
class ForkServer:
    """A fork server that is running, or starting.

    Attributes:
        modules: what it imports.
        environment: with what it is started.
        folder: in which it is started.
        root: the folder in which its home is; see :class:`Task`.
        left_out: module -> why it is not in there.
    """

    modules: tuple[str, ...]
    environment: Mapping[str, str]
    folder: Path
    root: str = ""
    left_out: dict[str, str] = field(default_factory=dict)
    process: subprocess.Popen[bytes] | None = field(default=None, init=False)
    _control: socket.socket | None = field(default=None, init=False)
    _ready: bool = field(default=False, init=False)
    _why: str = field(default="", init=False)
    _starts: int = field(default=0, init=False)

    def start(self) -> None:
        """Start the process; it imports while other things are done."""
        self._starts += 1
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            # The signal comes with the end of a thread, not of a process.
            bound = ["bound"] if threading.current_thread() is threading.main_thread() else []
            self.process = subprocess.Popen(
                [sys.executable, str(PROGRAM), str(theirs.fileno()), *bound], env=dict(self.environment), cwd=self.folder,
                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, pass_fds=[theirs.fileno()],
                start_new_session=True,
            )  # fmt: skip
        wanted = [one for one in self.modules if one not in self.left_out]
        with suppress(OSError):  # that it cannot be reached is seen when it is asked for something
            self._control.send(json.dumps({"modules": wanted, "root": self.root}).encode())

    async def ready(self) -> None:
        """Wait until it can fork. A module that would make that impossible is left out.

        Raises:
            NoFork: if it cannot.
        """
        if self._control is None and not self._why:
            self.start()
        while not self._ready and not self._why:
            assert self._control is not None
            try:
                await asyncio.wait_for(readable(self._control), READY_SECONDS)
            except TimeoutError:
                self._why = f"the process that forks kernels has imported libraries for {READY_SECONDS:g} s"
                continue
            if self._ready or self._why or (message := _received(self._control)) is None:
                continue  # somebody else who waits has read it
            if "ready" in message:
                self.left_out |= message["left_out"]
                self._ready = True
            elif message.get("spoiled") in self.modules and message["spoiled"] not in self.left_out and self._starts < MAX_STARTS:
                self.left_out[message["spoiled"]] = message["why"]
                self.close()
                self.start()
            else:
                self._why = message.get("why") or "the process that forks kernels ended while it imported libraries"
        if self._why:
            self.close()
            raise NoFork(self._why)

    async def fork(self, task: Task, stdio: Sequence[int]) -> Forked:
        """Fork a process.

        Args:
            task: what is to become of it.
            stdio: descriptors for its stdin, stdout and stderr.

        Raises:
            NoFork: if that is refused, or there is no server any more.
        """
        await self.ready()
        assert self._control is not None
        mine, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        forked = Forked(mine)
        with theirs:
            try:
                socket.send_fds(self._control, [json.dumps(asdict(task)).encode()], [theirs.fileno(), *stdio])
            except OSError as error:
                raise NoFork(f"the process that forks kernels cannot be reached: {error}") from error
        try:
            async with asyncio.timeout(FORK_SECONDS):
                await forked.started()
        except TimeoutError:
            forked.release()
            self._why = "the process that forks kernels does not answer"
            raise NoFork(self._why) from None
        return forked

    @property
    def alive(self) -> bool:
        """Whether it runs, or has not been started yet."""
        return not self._why and (self.process is None or self.process.poll() is None)

    def close(self) -> None:
        """End it, and everything that it has forked."""
        # One that is still importing has forked nothing, and one that does not answer does not end by itself.
        patience = END_SECONDS if self._ready and not self._why else 0
        if self._control is not None:
            self._control.close()
            self._control = None
        self._ready = False
        if self.process is not None:
            try:
                self.process.wait(timeout=patience)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
            self.process = None


def descriptor(stream: IO[Any] | int | None, own: int) -> int:
    """The descriptor that a stream argument of :class:`subprocess.Popen` means; None is this process's own."""
    if stream is None:
        return own
    return stream if isinstance(stream, int) else stream.fileno()
