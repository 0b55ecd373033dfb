"""What was recorded of a reference run. `graders` writes it, everybody reads it; a change of it is reviewed as a diff."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from course.catalogue import Unit
from course.errors import CourseError
from course.schema import Parameters
from course.values import Value

Observations = dict[str, Value]


class _Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Environment(_Record):
    """Where a run took place.

    Attributes:
        python: version of the interpreter.
        implementation: ``CPython`` or another.
        platform: ``Linux``, ``Darwin`` or ``Windows``.
        machine: the processor's architecture.
        packages: distribution name to version, for the packages that the lesson names.
        devices: JAX devices as text, or empty where the lesson does not use JAX.
    """

    python: str
    implementation: str
    platform: str
    machine: str
    packages: dict[str, str]
    devices: tuple[str, ...] = ()


class Line(_Record):
    """One printed line and the cell that printed it."""

    cell: str
    text: str


class Run(_Record):
    """What the probes of each exercise saw under some parameters."""

    parameters: Parameters
    exercises: dict[str, Observations]


class FigureRecord(_Record):
    """SHA-256 digests of the files that the figure of a cell left in `figures/`."""

    data: str
    svg: str
    png: str


class Receipt(_Record):
    """The recorded run of the reference of a lesson or project.

    Attributes:
        lesson: its id.
        digest: :attr:`course.catalogue.Unit.digest` at the time of recording.
        lock: SHA-256 of `requirements-cpu.txt`.
        recorded: time in UTC.
        commit: the commit that was checked out, with ``+`` appended where the work tree had changes; empty outside git.
        environment: where it ran.
        seconds: wall time of the base run: a local observation, never compared.
        lines: every printed line, in order.
        facts: those of its TOML file.
        runs: observations of the reference; the first is the base run with no parameter changed, then the variants.
        mistakes: exercise, then mistake, then one run for the base and for each variant of that exercise. What a probe saw as
            with the reference is left out.
        figures: by cell.
    """

    format: Literal[1] = 1
    lesson: str
    digest: str
    lock: str
    recorded: datetime
    commit: str
    environment: Environment
    seconds: float
    lines: tuple[Line, ...]
    facts: Observations
    runs: tuple[Run, ...]
    mistakes: dict[str, dict[str, tuple[Run, ...]]]
    figures: dict[str, FigureRecord]

    def expected(self, exercise: str, parameters: Parameters) -> Observations:
        """What the reference gave for an exercise under these parameters. Raises KeyError if that was not recorded."""
        for run in self.runs:
            if run.parameters == parameters and exercise in run.exercises:
                return run.exercises[exercise]
        raise KeyError((exercise, parameters))

    def printed(self, cell: str) -> str:
        """What a cell printed, or an empty text."""
        return "".join(f"{line.text}\n" for line in self.lines if line.cell == cell)


def read(unit: Unit) -> Receipt:
    """The receipt of a lesson or project.

    Raises:
        CourseError: if it is missing, broken, or was recorded of another source than the present one; the message
            names the command that mends it.
    """
    shown = unit.shown(unit.receipt)
    remedy = f"run `make record {unit.make}` and review the change"
    receipt = read_any(unit.receipt, shown, remedy)
    if receipt.lesson != unit.id:
        raise CourseError.at(shown, "lesson", f"the receipt of {receipt.lesson}", remedy)
    # Without the reference (a learner's bundle) nobody here could have changed what it was recorded of.
    if unit.complete and receipt.digest != unit.digest:
        raise CourseError.at(shown, "digest", "its code or checks have changed since this was recorded", remedy)
    return receipt


def read_any(path: Path, shown: str, remedy: str) -> Receipt:
    """A receipt file, whatever source it was recorded of.

    Raises:
        CourseError: if it is missing or broken.
    """
    try:
        return Receipt.model_validate_json(path.read_bytes())
    except FileNotFoundError:
        raise CourseError.at(shown, "", "there is no receipt", remedy) from None
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(str(part) for part in first["loc"])
        raise CourseError.at(shown, key, f"the receipt is broken: {first['msg']}", remedy) from None


def write(receipt: Receipt, path: Path) -> None:
    """Write a receipt as readable JSON: one line for a value, so that a changed number is a changed line in a diff."""
    text = json.dumps(receipt.model_dump(mode="json", exclude_none=True), ensure_ascii=False, allow_nan=False)
    write_text(path, pretty(json.loads(text), width=200) + "\n")


def write_text(path: Path, text: str) -> None:
    """Write beside and rename, so that a reader never sees half a file. Line ends are those of Unix on every platform."""
    beside = path.with_name(f".{path.name}.new")
    beside.write_bytes(text.encode("utf-8"))
    beside.replace(path)


def pretty(data: Any, indent: str = "", width: int = 120) -> str:
    """JSON with everything on one line that fits there."""
    flat = json.dumps(data, ensure_ascii=False, allow_nan=False)
    if not isinstance(data, dict | list) or not data or len(indent) + len(flat) <= width:
        return flat
    inner = indent + " "
    if isinstance(data, dict):
        parts = [f"{inner}{json.dumps(key, ensure_ascii=False)}: {pretty(value, inner, width)}" for key, value in data.items()]
        return "{\n" + ",\n".join(parts) + f"\n{indent}}}"
    if all(not isinstance(item, dict | list) for item in data):
        return flat
    return "[\n" + ",\n".join(inner + pretty(item, inner, width) for item in data) + f"\n{indent}]"
