"""The table of expectations, and the cases that it speaks of."""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.faults import libraries, reading, running, working
from tests.faults.cells import Folder

HERE = Path(__file__).parent
CASES: dict[str, Callable[[Folder], None]] = {**reading.CASES, **running.CASES, **working.CASES, **libraries.CASES}


@dataclass(frozen=True)
class Row:
    """What is right for one submission.

    Attributes:
        case, learner: whose.
        where: in which run it is graded.
        verdicts: exercise to what is right: pairs of verdict and reason.
        says, notices: words that must be there.
        silent: words that must not stand in the messages.
        points: if given, the points of the whole.
        needs: what a platform must have.
    """

    case: str
    learner: str
    where: str
    verdicts: dict[str, tuple[tuple[str, str], ...]]
    says: tuple[str, ...] = ()
    notices: tuple[str, ...] = ()
    silent: tuple[str, ...] = ()
    points: float | None = None
    needs: str = ""

    def __str__(self) -> str:
        return self.learner


def cases() -> list[dict[str, Any]]:
    """The table as it stands in the file."""
    return list(tomllib.loads((HERE / "expected.toml").read_text(encoding="utf-8"))["case"])


def rows(where: str) -> list[Row]:
    """The rows of one run."""
    found = []
    for case in cases():
        for row in case.get("rows", ()):
            place = row.get("where", case.get("where", "class"))
            if place == where:
                verdicts = {name: _read(row[name]) for name in ("pad", "mean", "run") if name in row}
                lists = {name: tuple(row.get(name, ())) for name in ("says", "notices", "silent")}
                more = {name: row[name] for name in ("points", "needs") if name in row}
                found.append(Row(case["id"], row["learner"], place, verdicts, **lists, **more))
    return found


def _read(text: str) -> tuple[tuple[str, str], ...]:
    parts = (one.split() for one in text.split(" | "))
    return tuple((verdict, reason[0] if reason else "") for verdict, *reason in parts)
