"""A process that has imported a lesson's libraries and forks kernels: ``python forkserver.py DESCRIPTOR``.

It has one thread and starts no JAX backend, since a process with more than that cannot be forked safely. Who started it
talks with it over a pair of Unix sockets that has no name: the descriptor is one end. Each message is one JSON object.

Over that socket, from outside: first ``{"modules": […], "root": …}``, answered by ``{"ready": …, "left_out": {…}}`` or, where a module
cannot be here, ``{"spoiled": module, "why": …}`` and the end. Then, for each kernel, a :class:`Task` with four descriptors:
the kernel's own socket, and its stdin, stdout and stderr.
Over a kernel's own socket, to the outside: ``{"pid": …}`` or ``{"refused": …}``, then ``{"bound": …}`` from the kernel once its
sockets can be reached (before it runs anybody's code), and ``{"exit": …}`` when the process has ended. From outside:
``{"signal": …}``. The number of an ended process stays reserved until the socket is closed.

The server ends with whoever started it: when its socket is closed, or by a signal where the system has one for that.
"""

from __future__ import annotations

import sys
from pathlib import Path

_HOUSE = str(Path(__file__).resolve().parents[2])
if __name__ == "__main__":
    # This folder is no place for a learner's code to import from; see launch.py.
    sys.path[0] = _HOUSE

import gc  # noqa: E402
import importlib  # noqa: E402
import io  # noqa: E402
import itertools  # noqa: E402
import json  # noqa: E402
import os  # noqa: E402
import random  # noqa: E402
import selectors  # noqa: E402
import signal  # noqa: E402
import socket  # noqa: E402
import tempfile  # noqa: E402
import threading  # noqa: E402
from contextlib import suppress  # noqa: E402
from dataclasses import dataclass, replace  # noqa: E402
from typing import Any  # noqa: E402

from graders.kernels import syscalls  # noqa: E402
from graders.kernels.confine import confine  # noqa: E402
from graders.kernels.order import Order  # noqa: E402
from graders.kernels.pipes import open_early  # noqa: E402
from graders.kernels.places import Place, find  # noqa: E402
from graders.kernels.shelf import Shelf  # noqa: E402

MESSAGE = 1 << 17  # bytes of one message
_DESCRIPTORS = 4
_NAMED, _REASON = 100, 300  # of what could not be imported: as much as one message holds
TOKEN = b"TRAINING_SYSTEMS_SCRATCH="  # sandbox.TOKEN, which this process is too small to import

# What an ipykernel has imported when it runs its first cell.
KERNEL = (
    "ipykernel.kernelapp", "ipykernel.ipkernel", "ipykernel.zmqshell", "ipykernel.displayhook", "ipykernel.debugger",
    "IPython.core.completerlib", "IPython.core.debugger", "IPython.core.oinspect", "IPython.extensions.storemagic",
    "tornado.platform.asyncio", "faulthandler",
)  # fmt: skip


@dataclass(frozen=True)
class Task:
    """A kernel to be forked.

    Attributes:
        arguments: of ``ipykernel_launcher``.
        environment: the whole of it.
        folder: the working directory.
        root: the folder in which its home and all others are; of no importance if empty.
        order: how the process is confined; not at all if absent.
    """

    arguments: tuple[str, ...]
    environment: dict[str, str]
    folder: str
    root: str = ""
    order: Order | None = None


def task(data: dict[str, Any]) -> Task:
    """A task from its JSON object."""
    order = None
    if data["order"] is not None:
        fields: dict[str, Any] = {name: tuple(value) if isinstance(value, list) else value for name, value in data["order"].items()}
        order = Order(**fields)
    return Task(tuple(data["arguments"]), data["environment"], data["folder"], data["root"], order)


def unsafe() -> str:
    """Why this process cannot be forked, or an empty text."""
    backend = sys.modules.get("jax._src.xla_bridge")
    if backend is not None and backend.backends_are_initialized():
        return "a JAX backend has been started, and its threads would be missing in a forked process"
    if threading.active_count() > 1:
        names = ", ".join(sorted(one.name for one in threading.enumerate() if one is not threading.main_thread()))
        return f"there is another thread ({names}), which would be missing in a forked process"
    with suppress(OSError):
        if len(os.listdir("/proc/self/task")) > 1:
            return "a library has started a thread, which would be missing in a forked process"
    return ""


@dataclass
class _Child:
    pid: int
    channel: socket.socket | None  # until nobody asks for it any more
    handle: int  # a descriptor for the process
    ended: bool = False

    def signal(self, number: int) -> None:
        try:
            os.killpg(self.pid, number)
        except ProcessLookupError:
            os.kill(self.pid, number)  # it has no session of its own yet; its number is kept until it is released


class Server:
    """The loop of the fork server.

    Args:
        control: the socket to whoever started it.
    """

    def __init__(self, control: socket.socket) -> None:
        self.control = control
        self.shelf = Shelf()
        self.children: list[_Child] = []
        self.root = ""
        self.places: list[Place] = []  # where libraries have kept the path of our folder
        self.variables: dict[str, str] = {}  # what ipykernel's own imports have put into the environment

    def prepare(self) -> bool:
        """Import what is wanted. Returns whether kernels can be forked."""
        received = self.control.recv(MESSAGE)
        if not received:
            return False
        asked = json.loads(received)
        left_out: dict[str, str] = {}
        gc.disable()
        before = dict(os.environ)
        for name in KERNEL:
            importlib.import_module(name)
        self.variables = {name: value for name, value in os.environ.items() if before.get(name) != value}
        spoiled = unsafe() and ("ipykernel", unsafe())
        with self.shelf.collect():
            for name in asked["modules"]:
                try:
                    importlib.import_module(name)
                except Exception as error:
                    if len(left_out) < _NAMED:
                        left_out[name] = f"{type(error).__name__}: {error}"[:_REASON]
                _settle()
                if why := unsafe():
                    spoiled = (name, why)
                    break
            if not spoiled and "matplotlib.figure" in sys.modules:
                _draw()
        if spoiled:
            _send(self.control, spoiled=spoiled[0], why=spoiled[1])
            return False
        if asked["root"]:
            self.root = asked["root"]
            self.places = find(self.root)
        # Without a collection before: it takes long, and the holes that it leaves are what a forked process fills, page by page.
        gc.freeze()
        _send(self.control, ready=os.getpid(), left_out=left_out)
        return True

    def serve(self) -> tuple[Task, socket.socket, list[int]] | None:
        """Fork kernels on request.

        Returns:
            In a forked process, what it is to become. In the server, at its end, None.
        """
        while True:
            with selectors.PollSelector() as waiting:
                waiting.register(self.control, selectors.EVENT_READ)
                for child in self.children:
                    if child.channel is not None:
                        waiting.register(child.channel, selectors.EVENT_READ, child)
                    if not child.ended:
                        waiting.register(child.handle, selectors.EVENT_READ, child)
                ready = [(key.fileobj, key.data) for key, _ in waiting.select()]
            for source, child in ready:
                if source is self.control:
                    forked = self._request()
                    if forked == "end":
                        self._close()
                        return None
                    if isinstance(forked, tuple):
                        return forked
                elif child in self.children:
                    self._attend(child, source)

    def _request(self) -> tuple[Task, socket.socket, list[int]] | str:
        """Read one request and fork."""
        try:
            data, descriptors, _, _ = socket.recv_fds(self.control, MESSAGE, _DESCRIPTORS)
        except OSError:
            return "end"
        if not data:
            return "end"
        if len(descriptors) < _DESCRIPTORS:
            _close(descriptors)  # there was none left for the others; who asks sees its end closed
            return ""
        channel = socket.socket(fileno=descriptors[0])
        wanted = task(json.loads(data))
        sys.stdout.flush()
        sys.stderr.flush()
        why = unsafe()
        try:
            pid = -1 if why else os.fork()
        except OSError as error:
            pid, why = -1, f"no process can be forked: {error}"
        if pid < 0:
            with suppress(OSError):
                _send(channel, refused=why)
            channel.close()
            _close(descriptors[1:])
            return ""
        if pid == 0:
            for child in self.children:
                if child.channel is not None:
                    child.channel.close()
                os.close(child.handle)
            self.children.clear()
            self.control.close()
            return wanted, channel, descriptors[1:]
        _close(descriptors[1:])
        try:
            self.children.append(_Child(pid, channel, os.pidfd_open(pid)))
        except OSError:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            channel.close()
            return ""
        with suppress(OSError):
            _send(channel, pid=pid)
        return ""

    def _attend(self, child: _Child, source: object) -> None:
        """See to one kernel: it has ended, or is to be sent a signal, or nobody asks for it any more."""
        if source == child.handle:
            # Its number is not given free yet: whoever uses it must not meet another process.
            found = os.waitid(os.P_PIDFD, child.handle, os.WEXITED | os.WNOWAIT)
            if found is None:
                return
            child.ended = True
            if child.channel is None:
                self._forget(child)
                return
            with suppress(OSError):
                _send(child.channel, exit=found.si_status if found.si_code == os.CLD_EXITED else -found.si_status)
                child.channel.shutdown(socket.SHUT_WR)
        elif child.channel is not None:
            try:
                data = child.channel.recv(MESSAGE)
            except OSError:
                data = b""
            if data:
                child.signal(json.loads(data)["signal"])
                return
            child.channel.close()
            child.channel = None
            if child.ended:
                self._forget(child)
            else:
                child.signal(signal.SIGKILL)

    def _forget(self, child: _Child) -> None:
        os.waitpid(child.pid, 0)
        os.close(child.handle)
        self.children.remove(child)

    def _close(self) -> None:
        for child in self.children:
            child.signal(signal.SIGKILL)
        for child in list(self.children):
            self._forget(child)


def _draw() -> None:
    """Draw a figure, which nobody sees and pyplot does not know: what the first one makes is found by all later ones.

    These are the fonts, the parser of formulas in labels, and what draws and writes; together they take longer than a figure.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg  # noqa: PLC0415 - only where there is matplotlib
    from matplotlib.figure import Figure  # noqa: PLC0415

    figure = Figure(figsize=(2, 2))
    axes = figure.subplots()
    axes.plot([1, 2], label="x")
    axes.set_title("x")
    axes.set_yscale("log")
    axes.legend()
    figure.set_canvas(FigureCanvasAgg(figure))
    figure.savefig(io.BytesIO())


def _close(descriptors: list[int]) -> None:
    for one in descriptors:
        os.close(one)


def _send(channel: socket.socket, **message: object) -> None:
    channel.send(json.dumps(message).encode())


def _settle() -> None:
    """Let libraries end the threads that they end at a fork: OpenBLAS does, and starts them anew when they are needed."""
    with suppress(OSError):
        if len(os.listdir("/proc/self/task")) > 1 and threading.active_count() == 1:
            if (pid := os.fork()) == 0:
                os._exit(0)
            os.waitpid(pid, 0)


def become(wanted: Task, channel: socket.socket, stdio: list[int], server: Server) -> None:
    """Make this forked process one as if it had been started anew, and confine it."""
    shelf = server.shelf
    os.setsid()
    for number in signal.valid_signals():
        if callable(signal.getsignal(number)) and number != signal.SIGINT:
            signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    for place, descriptor in enumerate(stdio):
        os.dup2(descriptor, place)
    _close(stdio)
    os.chdir(wanted.folder)
    os.environ.clear()
    os.environ.update(wanted.environment | server.variables)
    _mark(os.environb.get(TOKEN[:-1], b""))
    for kept in server.places if wanted.root else ():
        kept.move(server.root, wanted.root)
    tempfile.tempdir = None
    threading._counter = itertools.count(1).__next__  # type: ignore[attr-defined]
    random.seed()
    if numpy_random := shelf.modules.get("numpy.random"):
        numpy_random.seed()
    if processes := sys.modules.get("multiprocessing.process") or shelf.modules.get("multiprocessing.process"):
        processes.current_process().authkey = os.urandom(32)
    shelf.hide()
    if wanted.order is not None:
        confine(replace(wanted.order, keep=(channel.fileno(),)))
    else:
        os.closerange(3, channel.fileno())
        os.closerange(channel.fileno() + 1, os.sysconf("SC_OPEN_MAX"))
        if sys.platform == "linux":
            syscalls.die_with_parent(signal.SIGKILL)
    gc.enable()
    sys.path.remove(_HOUSE)
    for name in [one for one in sys.modules if one.split(".")[0] == "graders"]:
        del sys.modules[name]
    os.environ["JPY_PARENT_PID"] = "1"  # see launch.py
    sys.argv = ["ipykernel_launcher", *wanted.arguments]


def _mark(token: bytes) -> None:
    """Write the run's token where the system shows the environment of this process to others.

    It shows the one with which a program was started, which for a forked process is that of the server.
    """
    with suppress(OSError, ValueError, IndexError):
        fields = Path("/proc/self/stat").read_text(encoding="ascii").rpartition(")")[2].split()
        start, end = int(fields[47]), int(fields[48])
        place = Path("/proc/self/environ").read_bytes().index(TOKEN) + len(TOKEN)
        if token and start + place + len(token) <= end:
            import ctypes  # noqa: PLC0415 - used here only

            ctypes.memmove(start + place, token, len(token))


def main() -> None:
    """Serve; and in a forked process, be a kernel."""
    # ipykernel reads this when it is imported: 1 keeps it from looking after its parent by itself.
    os.environ["JPY_PARENT_PID"] = "1"
    os.environ["JE_ARROW_MALLOC_CONF"] = "background_thread:false"  # pyarrow's allocator would start a thread
    control = socket.socket(fileno=int(sys.argv[1]))
    control.set_inheritable(False)
    if sys.platform == "linux" and sys.argv[2:] == ["bound"]:
        syscalls.die_with_parent(signal.SIGKILL)
    server = Server(control)
    if not server.prepare():
        return
    forked = server.serve()
    if forked is None:
        return
    wanted, channel, stdio = forked
    become(wanted, channel, stdio, server)
    del server, forked, control
    from ipykernel.kernelapp import IPKernelApp  # noqa: PLC0415 - a server may serve no kernel

    app = IPKernelApp.instance()
    app.initialize()  # type: ignore[no-untyped-call]
    open_early(app)
    _send(channel, bound=True)
    channel.close()
    del wanted, channel, stdio
    app.start()  # type: ignore[no-untyped-call]


if __name__ == "__main__":
    main()
