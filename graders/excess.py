"""What to say where a submission used more than its limits: the reason, and a line in a learner's words with the limit."""

from __future__ import annotations

import re

from course.schema import Limits
from graders.verdict import Reason

_ERRNO = re.compile(r"\[Errno (\d+)\]")
_OF_MEMORY = re.compile(r"^(_?\w*MemoryError\b|(?:Xla|Jax)RuntimeError: RESOURCE_EXHAUSTED)|bad_alloc|[Oo]ut of memory")
# Of the operating systems on which there are such limits: 12 and 28 are the same everywhere, 11 is 35 on macOS.
_NO_MEMORY, _NO_SPACE, _TOO_LARGE, _TOO_MANY_FILES, _NO_PROCESS = {"12"}, {"28", "122"}, {"27"}, {"24"}, {"11", "35"}


def ended(how: str, place: str, limits: Limits) -> tuple[Reason, str] | None:
    """For a cell, or a kernel, that was ended for what it used; None where that is not what happened.

    Args:
        how: see :class:`graders.run.Loss`.
        place: of the cell, as messages name it.
        limits: that it had.
    """
    if how == "memory":
        return Reason.MEMORY, _memory(place, limits)
    if how == "processes":
        text = f"{place} started more than {limits.processes} processes, which is the limit: does something start itself again?"
        return Reason.RESOURCE_LIMIT, text
    if how == "scratch":
        return Reason.RESOURCE_LIMIT, _space(place, limits)
    if how == "output":
        text = f"{place} printed more than {limits.output_mb} MB, which is the limit: does a loop print without end?"
        return Reason.OUTPUT_LIMIT, text
    return None


def raised(error: str, place: str, limits: Limits) -> tuple[Reason, str] | None:
    """For an exception that the operating system's limits caused; None for any other.

    Args:
        error: ``Type: message``.
        place: of the cell or the expression that raised it.
        limits: under which it ran.
    """
    code = next(iter(_ERRNO.findall(error)), "")
    if _OF_MEMORY.search(error) or code in _NO_MEMORY:
        return Reason.MEMORY, _memory(place, limits)
    if code in _NO_SPACE:
        return Reason.RESOURCE_LIMIT, _space(place, limits)
    if code in _TOO_LARGE:
        text = f"{place} wrote a file of more than {limits.file_mb} MB, which is the limit: does a loop write without end?"
        return Reason.RESOURCE_LIMIT, text
    if code in _TOO_MANY_FILES:
        text = f"{place} had more than {limits.open_files} files open, which is the limit: does a loop open files and close none?"
        return Reason.RESOURCE_LIMIT, text
    if (code in _NO_PROCESS and error.startswith("BlockingIOError")) or "can't start new thread" in error:
        text = f"{place} started more processes or threads than it may (the limit is {limits.processes} processes)"
        return Reason.RESOURCE_LIMIT, text
    return None


def _memory(place: str, limits: Limits) -> str:
    return f"{place} needed more than {limits.memory_mb} MB of memory, which is the limit: is an array larger than it has to be?"


def _space(place: str, limits: Limits) -> str:
    return f"{place} filled its folder: {limits.scratch_mb} MB of files is the limit. Does a loop write without end?"
