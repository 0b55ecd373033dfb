"""The one exception for a fault in the course's own files: it names the file, the key and the remedy."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Problem:
    """One fault in a course file.

    Attributes:
        file: the file at fault, relative to the course root where possible.
        key: where in the file, for instance ``exercise[0].probes`` or ``line 12``; empty for the file as a whole.
        what: what is wrong, in one sentence without a full stop.
        remedy: what to do about it, as an imperative.
    """

    file: str
    key: str
    what: str
    remedy: str

    def __str__(self) -> str:
        place = f"{self.file}: {self.key}" if self.key else self.file
        return f"{place}: {self.what} — {self.remedy}"


class CourseError(Exception):
    """One or more faults in course files, all of them found in one reading so that an author mends them together."""

    def __init__(self, *problems: Problem) -> None:
        self.problems = problems
        super().__init__("\n".join(str(problem) for problem in problems))

    @classmethod
    def at(cls, file: Path | str, key: str, what: str, remedy: str) -> CourseError:
        """The common case of a single problem."""
        return cls(Problem(str(file), key, what, remedy))
