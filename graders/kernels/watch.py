"""Watch what the processes of a run use, from outside, and end the run where it uses too much."""

from __future__ import annotations

import asyncio
import os
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from course.schema import Limits
from graders.kernels.processes import descendants, end_below, memory

SECONDS = 0.1  # between two looks; a look takes less than a millisecond for the few processes that a run has
_DISK_EVERY = 10
MB = 1_000_000


@dataclass
class Watch:
    """A look at a run every so often, until it is cancelled or has found something.

    Attributes:
        pid: the process that was started for the run: a keeper, or the kernel itself.
        keepers: how many processes there are between the one that was started and a learner's first, itself included.
        limits: of the run.
        folders: what counts as the scratch folder, where the kernel does not bound it.
        exceeded: the limit that was broken: ``memory``, ``processes`` or ``scratch``. Empty until then.
    """

    pid: int
    keepers: int
    limits: Limits
    folders: tuple[Path, ...] = ()
    exceeded: str = field(default="", init=False)
    _kernel: int = field(default=0, init=False)

    async def watch(self) -> None:
        """Look until something is found, then end everything that the run has started."""
        look = 0
        while not self.exceeded:
            await asyncio.sleep(SECONDS)
            look += 1
            self.exceeded = self.look(disk=look % _DISK_EVERY == 0)
        await asyncio.to_thread(self.end)

    def running(self) -> list[psutil.Process]:
        """The kernel, and what was started from it."""
        below = descendants(self.pid)
        if self.keepers:
            return below[self.keepers - 1 :]
        with suppress(psutil.Error):
            return [psutil.Process(self.pid), *below]
        return below

    def look(self, *, disk: bool) -> str:
        """The limit that is broken at this moment, or an empty text.

        Args:
            disk: whether to add up the folders, too.
        """
        running = self.running()
        if len(running) > self.limits.processes:
            return "processes"
        if memory(running, self.limits.memory_mb * MB) > self.limits.memory_mb * MB:
            return "memory"
        if disk and sum(map(size, self.folders)) > self.limits.scratch_mb * MB:
            return "scratch"
        return ""

    def waited(self) -> float:
        """Seconds for which the kernel was ready to compute and had no processor; 0 where the system does not say."""
        if not self._kernel:
            self._kernel = next((process.pid for process in self.running()), 0)
        with suppress(OSError, ValueError, IndexError):
            return int(Path(f"/proc/{self._kernel}/schedstat").read_text(encoding="ascii").split()[1]) / 1e9
        return 0.0

    def end(self) -> None:
        """End the kernel, if a keeper stands above it, and everything that was started from it."""
        end_below(self.pid)


def size(folder: Path) -> int:
    """Bytes on disk of the files below a folder. Links are not followed; what vanishes meanwhile does not count."""
    total = 0
    waiting = [folder]
    while waiting:
        with suppress(OSError), os.scandir(waiting.pop()) as entries:
            for entry in entries:
                with suppress(OSError):
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append(Path(entry.path))
                    else:
                        found = entry.stat(follow_symlinks=False)
                        total += getattr(found, "st_blocks", (found.st_size + 511) // 512) * 512
    return total
