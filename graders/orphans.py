"""What killed graders have left behind: scratch folders, and processes that live in them. A killed grader cannot clean up;
the next one does it, and touches nothing that belongs to a grader that still lives.
"""

from __future__ import annotations

import os
import re
import stat
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

from graders import owner
from graders.kernels.processes import kill
from graders.kernels.sandbox import TOKEN, parent, remove

_NAME = re.compile(rf"(?:ts|fonts)-(?P<owner>{owner.PATTERN})-")
_MARKS = ("HOME", "TMPDIR", "JUPYTER_RUNTIME_DIR", TOKEN)


@dataclass(frozen=True)
class Swept:
    """How much there was to clean away."""

    folders: int = 0
    processes: int = 0

    def __str__(self) -> str:
        folders = f"{self.folders} scratch folder{'s' if self.folders != 1 else ''}"
        return f"{folders} and {self.processes} process{'es' if self.processes != 1 else ''}"


def sweep(cache: Path) -> Swept:
    """End the processes and delete the folders of dead graders.

    Args:
        cache: the folder that graders share; a half-made list of fonts may lie there.
    """
    folders = [*_of_the_dead(parent()), *_of_the_dead(cache)]
    if not folders:
        return Swept()
    ended = kill(_inside(folders))
    for folder in folders:
        remove(folder)
    return Swept(len(folders), ended)


def _of_the_dead(place: Path) -> list[Path]:
    found: list[Path] = []
    with suppress(OSError):
        for entry in place.iterdir():
            match = _NAME.match(entry.name)
            holder = owner.parse(match["owner"]) if match else None
            if holder is not None and holder.life() is owner.Life.DEAD and _ours(entry):
                found.append(entry)
    return found


def _ours(folder: Path) -> bool:
    """Whether it is a real folder of this user: in a temporary folder for everybody, anybody can make a name like ours."""
    try:
        about = folder.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(about.st_mode) and (not hasattr(os, "getuid") or os.getuid() in {0, about.st_uid})


def _inside(folders: list[Path]) -> list[psutil.Process]:
    """The processes that run in one of the folders, by their environment or by their working directory."""
    roots = {str(folder) for folder in folders} | {str(folder.resolve()) for folder in folders}
    found: list[psutil.Process] = []
    for process in psutil.process_iter():
        if process.pid == os.getpid():
            continue
        places: list[str] = []
        with suppress(psutil.Error, OSError, ValueError):
            variables = process.environ()
            places += [variables[name] for name in _MARKS if name in variables]
        with suppress(psutil.Error, OSError):
            places.append(process.cwd() or "")
        if any(place == root or place.startswith(root + os.sep) for place in places for root in roots):
            found.append(process)
    return found
