"""Who holds something: a process, named so that a later one can tell whether it still lives.

A number alone does not do: numbers are given again. So a process is named by the machine, its number and its birth. What a
killed process leaves behind (a run in the store, a scratch folder, a half-written report) carries its name, and only
what belongs to the dead is taken over or cleaned away.
"""

from __future__ import annotations

import functools
import hashlib
import os
import platform
import re
from dataclasses import dataclass
from enum import Enum, auto
from pathlib import Path

import psutil

PATTERN = r"[0-9a-f]{4}-[0-9]+-[0-9a-f]{6}"


class Life(Enum):
    """What is known of a process: UNSEEN if it is of another machine or container, where nothing can be known."""

    ALIVE = auto()
    DEAD = auto()
    UNSEEN = auto()


@dataclass(frozen=True)
class Owner:
    """A process.

    Attributes:
        machine: 4 hex digits for the machine and, on Linux, its space of process numbers: a container has its own.
        pid: its number there.
        birth: 6 hex digits for the moment of its start.
    """

    machine: str
    pid: int
    birth: str

    def __str__(self) -> str:
        return f"{self.machine}-{self.pid}-{self.birth}"

    def life(self) -> Life:
        """Whether the process still runs."""
        if self.machine != _machine():
            return Life.UNSEEN
        return Life.ALIVE if _birth(self.pid) == self.birth else Life.DEAD


def me() -> Owner:
    """The process that asks."""
    return _named(os.getpid())


def parse(text: str) -> Owner | None:
    """An owner from its text, or None if the text is not one."""
    if not re.fullmatch(PATTERN, text):
        return None
    machine, pid, birth = text.split("-")
    return Owner(machine, int(pid), birth)


@functools.cache
def _named(pid: int) -> Owner:
    return Owner(_machine(), pid, _birth(pid) or "000000")


@functools.cache
def _machine() -> str:
    try:
        space = os.readlink("/proc/self/ns/pid")
    except OSError:
        space = ""
    return _short(f"{platform.node()} {space}", 4)


def _birth(pid: int) -> str | None:
    """The birth of a process, or None if there is none of that number, or only its remains that nobody has collected."""
    try:
        # In ticks since the machine was started. psutil adds the time of day of that start, which moves when a clock is set.
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii")
        return None if fields[0] in "ZX" else _short(f"{boot} {fields[19]}", 6)
    except (OSError, IndexError):
        pass  # not Linux, or no such process; psutil knows both
    try:
        process = psutil.Process(pid)
        return None if process.status() == psutil.STATUS_ZOMBIE else _short(f"{process.create_time():.2f}", 6)
    except psutil.Error:
        return None


def _short(text: str, digits: int) -> str:
    return hashlib.sha256(text.encode("utf-8", "backslashreplace")).hexdigest()[:digits]
