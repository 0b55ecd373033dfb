"""The measuring stick: starts commands, waits for them and everything they have started, and says what they used.

``stick.py ORDER RESULT``: reads the JSON file ORDER (see :class:`bench.runners.Job` and ``bench.measure``), writes RESULT.
A process of its own for each measurement, so that nothing of another one is counted. On Linux it is the parent of every
process that has lost its own, so that processes which detach themselves are counted, too.

Wall time is that from the first start to the last end of a command. CPU time is user and system time of the whole tree: that of a
control group (version 2) of its own where one can be made; else what the system adds up when processes are waited for, in which
whatever ran in a PID namespace is missing, since the system reaps that unseen. Memory is the largest sum of the proportional set sizes (PSS) of the tree that
was seen; that is asked for in runs whose time is not used, or seldom enough not to matter.
"""

import contextlib
import ctypes
import json
import os
import re
import resource
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
LAST_SECONDS = 15.0  # for what a command leaves behind, before it is ended
LOOK_SECONDS = 0.1


def adopt() -> None:
    """Be the parent of every descendant that loses its own, and end with the process that has started this one (Linux)."""
    if sys.platform == "linux":
        prctl = ctypes.CDLL(None, use_errno=True).prctl
        prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        prctl(PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))


def descendants(root: int) -> list[int]:
    """The processes below one, found in /proc."""
    parents: dict[int, list[int]] = {}
    for entry in os.scandir("/proc"):
        if entry.name.isdigit():
            with contextlib.suppress(OSError, ValueError, IndexError):
                text = Path(entry.path, "stat").read_text(encoding="utf-8", errors="replace")
                parents.setdefault(int(text.rpartition(")")[2].split()[1]), []).append(int(entry.name))
    found, waiting = [], [root]
    while waiting:
        below = parents.get(waiting.pop(), [])
        found += below
        waiting += below
    return found


def size(pid: int) -> int:
    """The proportional set size of a process in bytes; what it shares with nobody where that may not be read; 0 if it is gone."""
    try:
        text = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii")
        found = re.search(r"^Pss:\s+(\d+) kB", text, re.MULTILINE)
        return int(found[1]) * 1024 if found else 0
    except PermissionError:
        with contextlib.suppress(OSError, ValueError):
            _, resident, shared, *_ = Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()
            return (int(resident) - int(shared)) * resource.getpagesize()
        return 0
    except OSError:
        return 0


def highest(pid: int) -> int:
    """The largest resident size that a process has had, in bytes; 0 if it is gone."""
    try:
        found = re.search(r"^VmHWM:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text(encoding="utf-8"), re.MULTILINE)
    except OSError:
        return 0
    return int(found[1]) * 1024 if found else 0


class Looker(threading.Thread):
    """Looks at memory while the commands run: always at that of the commands themselves, at the tree's where it is asked for."""

    def __init__(self, seconds: float) -> None:
        super().__init__(daemon=True)
        self.seconds, self.peak, self.own = seconds, 0, 0
        self.commands: set[int] = set()
        self.over = threading.Event()

    def run(self) -> None:
        """Look until it is over. No more than a fifth of the time is spent with it."""
        due = 0.0
        while not self.over.wait(LOOK_SECONDS):
            self.own = max([self.own, *map(highest, list(self.commands))])
            began = time.monotonic()
            if self.seconds and began >= due:
                self.peak = max(self.peak, sum(map(size, descendants(os.getpid()))))
                due = began + max(self.seconds, 4 * (time.monotonic() - began))


def end_all() -> int:
    """End everything that still runs below this process. Returns how many processes that were."""
    count = 0
    if sys.platform == "linux":
        for pid in descendants(os.getpid()):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
                count += 1
    return count


def reap(seconds: float) -> None:
    """Wait for every child that is left, for so long at most."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        try:
            pid, _ = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if not pid:
            time.sleep(0.02)


class Group:
    """A control group that holds this process and all that it starts, until it is left.

    Attributes:
        folder: of the group; None where none can be made.
    """

    def __init__(self) -> None:
        self.folder: Path | None = None
        self.before = _cpu(resource.RUSAGE_SELF)  # outside the group
        with contextlib.suppress(OSError, StopIteration, IndexError):
            mounts = (line.split() for line in Path("/proc/self/mounts").read_text(encoding="utf-8").splitlines())
            mount = next(words[1] for words in mounts if words[2] == "cgroup2")
            lines = Path("/proc/self/cgroup").read_text(encoding="utf-8").splitlines()
            own = next(line[3:] for line in lines if line.startswith("0::"))
            self.outer = Path(mount, own.lstrip("/"))
            folder = self.outer / f"bench-{os.getpid()}"
            folder.mkdir()
            try:
                self._enter(folder)
            except OSError:
                folder.rmdir()
                raise
            self.folder = folder

    def _enter(self, folder: Path) -> None:
        (folder / "cgroup.procs").write_text(str(os.getpid()), encoding="ascii")

    def used(self) -> float:
        """CPU seconds of all processes that have been in the group, but this one; see the module for what is known without one."""
        if self.folder is None:
            return _cpu(resource.RUSAGE_CHILDREN)
        found = re.search(r"^usage_usec (\d+)$", (self.folder / "cpu.stat").read_text(encoding="ascii"), re.MULTILINE)
        assert found is not None
        return max(0.0, int(found[1]) / 1e6 - (_cpu(resource.RUSAGE_SELF) - self.before))

    def leave(self) -> None:
        """Go back, and take the group away."""
        if self.folder is not None:
            with contextlib.suppress(OSError):  # an empty group that stays does no harm
                self._enter(self.outer)
                self.folder.rmdir()


def _cpu(whose: int) -> float:
    counted = resource.getrusage(whose)
    return counted.ru_utime + counted.ru_stime


def measure(order: dict[str, Any], group: Group) -> dict[str, Any]:
    """Carry out an order and say what it used."""
    looker = Looker(order["memory_seconds"])
    late = threading.Event()

    def too_late() -> None:
        late.set()
        end_all()

    alarm = threading.Timer(order["limit_seconds"], too_late)
    alarm.daemon = True
    waiting = list(enumerate(order["commands"]))
    live: dict[int, tuple[subprocess.Popen[bytes], int, float]] = {}
    steps: list[tuple[int, float]] = []
    failed: dict[str, Any] | None = None
    looker.start()
    alarm.start()
    with Path(order["log"]).open("wb") as log:
        began = last = time.perf_counter()
        while live or (waiting and failed is None):
            if failed is None and waiting and len(live) < order["at_once"]:
                number, command = waiting.pop(0)
                started = time.perf_counter()
                process = subprocess.Popen(command, cwd=order["folder"], env=order["environment"], stdin=subprocess.DEVNULL, stdout=log, stderr=log)  # fmt: skip
                live[process.pid] = (process, number, started)
                looker.commands.add(process.pid)
                continue
            pid, status = os.wait()  # an adopted process may be what ends here
            if pid not in live:
                continue
            last = time.perf_counter()
            process, number, started = live.pop(pid)
            looker.commands.discard(pid)
            process.returncode = os.waitstatus_to_exitcode(status)
            steps.append((number, last - started))
            if process.returncode and failed is None:
                failed = {"command": number, "status": process.returncode}
    alarm.cancel()
    reap(LAST_SECONDS)
    left = end_all()
    reap(LAST_SECONDS)
    looker.over.set()
    looker.join()
    return {
        "wall": last - began,
        "cpu": group.used(),
        "exact": group.folder is not None,
        "steps": [seconds for _, seconds in sorted(steps)],
        "peak": looker.peak,
        "own": looker.own,
        "left": left,
        "failed": {**(failed or {}), "late": late.is_set()} if failed or late.is_set() else None,
    }


if __name__ == "__main__":
    adopt()
    own = Group()
    try:
        answer = measure(json.loads(Path(sys.argv[1]).read_text(encoding="utf-8")), own)
    finally:
        end_all()
        own.leave()
    Path(sys.argv[2]).write_text(json.dumps(answer), encoding="utf-8")
