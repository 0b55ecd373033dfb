"""What a learner keeps of a checked run: the verdicts, what was observed, where it ran, and the figures, in one folder.

It is written once. A folder that holds something is never touched: evidence that can be replaced is none.
"""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict

from course.receipt import Environment, FigureRecord, Observations, pretty
from graders.run import FigureFiles
from graders.verdict import ExerciseResult

NAME = "evidence.json"


class Evidence(BaseModel):
    """`evidence.json`.

    Attributes:
        unit: the lesson or project.
        file: the name of the file that was checked.
        sha256: of its bytes.
        recorded: time in UTC.
        receipt: SHA-256 of the receipt that it was judged by.
        seed: of the draws.
        environment: where it ran.
        isolation: what kept the code apart.
        verdicts: one for each exercise or stage that was looked at.
        observations: exercise or stage, then probe, as seen in the run with no parameter changed.
        figures: digests of the figures' files in this folder, by cell.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    format: Literal[1] = 1
    unit: str
    file: str
    sha256: str
    recorded: datetime
    receipt: str
    seed: int
    environment: Environment
    isolation: tuple[str, ...]
    verdicts: tuple[ExerciseResult, ...]
    observations: dict[str, Observations]
    figures: dict[str, FigureRecord]


def occupied(folder: Path) -> bool:
    """Whether there is something at this place already that must be kept."""
    return folder.is_symlink() or (folder.exists() and (not folder.is_dir() or any(folder.iterdir())))


def digests(files: FigureFiles) -> FigureRecord:
    """The digests of a figure's files as :func:`write` writes them."""
    data, svg, png = (hashlib.sha256(one).hexdigest() for one in _contents(files))
    return FigureRecord(data=data, svg=svg, png=png)


def _contents(files: FigureFiles) -> tuple[bytes, bytes, bytes]:
    return (pretty(files.data) + "\n").encode(), files.svg, files.png


def write(evidence: Evidence, figures: Mapping[str, FigureFiles], folder: Path) -> None:
    """Write the evidence and its figures to a new folder; it appears whole or not at all.

    Raises:
        OSError: if it cannot be written, or something stands there by now.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    beside = folder.with_name(f".{folder.name}.{secrets.token_hex(4)}")
    beside.mkdir()
    for cell, files in figures.items():
        for suffix, data in zip(("json", "svg", "png"), _contents(files), strict=True):
            (beside / f"{cell}.{suffix}").write_bytes(data)
    text = pretty(json.loads(evidence.model_dump_json(exclude_none=True)))
    (beside / NAME).write_bytes(f"{text}\n".encode())
    beside.rename(folder)
