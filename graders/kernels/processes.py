"""The processes of a run: which there are, what they use, and their end."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

import psutil

_END_SECONDS = 5.0
_PAGE = 4096


def descendants(pid: int | None) -> list[psutil.Process]:
    """The processes that a process has started, and theirs, as far as the chain of parents still shows them."""
    if pid is None:
        return []
    if sys.platform != "linux" or not Path(f"/proc/self/task/{os.getpid()}/children").exists():
        try:
            return list(psutil.Process(pid).children(recursive=True))
        except psutil.Error:
            return []
    found: list[psutil.Process] = []
    waiting, seen = [pid], {pid}
    while waiting:
        for child in _children(waiting.pop()):
            if child not in seen:
                seen.add(child)
                waiting.append(child)
                with suppress(psutil.Error):
                    found.append(psutil.Process(child))
    return found


def _children(pid: int) -> list[int]:
    """The children of all threads of a process: much less to read than all processes of the machine."""
    found: list[int] = []
    with suppress(OSError):
        for thread in Path(f"/proc/{pid}/task").iterdir():
            with suppress(OSError):
                found += map(int, (thread / "children").read_text(encoding="ascii").split())
    return found


def memory(processes: Iterable[psutil.Process], enough: int) -> int:
    """Bytes of memory that processes use together.

    What a forked process still shares with its parent is counted twice by the quick way, so the exact one, which takes
    longer, has the last word where the quick one gives more than ``enough``.
    """
    processes = list(processes)
    quick = sum(map(_private, processes))
    return quick if quick <= enough else sum(map(_exact, processes))


def _private(process: psutil.Process) -> int:
    try:
        if sys.platform == "linux":
            _, resident, shared, *_ = Path(f"/proc/{process.pid}/statm").read_text(encoding="ascii").split()
            return (int(resident) - int(shared)) * _PAGE
        return int(process.memory_info().rss)
    except (psutil.Error, OSError, ValueError):
        return 0


def _exact(process: psutil.Process) -> int:
    try:
        if sys.platform == "linux":
            for line in Path(f"/proc/{process.pid}/smaps_rollup").read_text(encoding="ascii").splitlines():
                if line.startswith("Pss_Anon:"):
                    return int(line.split()[1]) * 1024
    except (OSError, ValueError):
        return _private(process)
    return _private(process)


def kill(processes: list[psutil.Process]) -> int:
    """End processes at once and wait until they are gone. Returns how many there were."""
    for process in processes:
        with suppress(psutil.Error):
            process.kill()
    psutil.wait_procs(processes, timeout=_END_SECONDS)
    return len(processes)


def end_below(pid: int) -> int:
    """End everything that a process has started, also what goes on starting others. Returns how many there were.

    The process itself is left: a keeper ends by itself then, after it has taken in what was below it.
    """
    ended: set[int] = set()
    until = time.monotonic() + _END_SECONDS
    while found := [one for one in descendants(pid) if _runs(one)]:
        # The nearest first: with the first process of a namespace the kernel ends all others in it.
        for process in found:
            with suppress(psutil.Error):
                process.kill()
        ended |= {one.pid for one in found}
        if time.monotonic() > until:
            break
        time.sleep(0.002)
    return len(ended)


def _runs(process: psutil.Process) -> bool:
    try:
        return bool(process.status() != psutil.STATUS_ZOMBIE)
    except psutil.Error:
        return False


def processors() -> int:
    """How many processors this process may use."""
    return len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1
