"""Run the reference of a lesson or project and keep what it gave: `receipt.json` and `figures/`."""

from __future__ import annotations

import hashlib
import subprocess
from datetime import UTC, datetime
from pathlib import Path

from course.catalogue import Unit
from course.errors import CourseError, Problem
from course.receipt import Environment, FigureRecord, Line, Receipt, pretty, write, write_text
from graders.measure import Say, environment, measure
from graders.program import reference
from graders.run import FigureFiles
from graders.verify import lines_differ, unproven

LOCK = "requirements-cpu.txt"


def record(unit: Unit, root: Path, cache: Path, say: Say) -> Receipt:
    """Run the reference and write `receipt.json` and `figures/`.

    Raises:
        CourseError: if the reference is not sound, a mistake is not told apart, or script and notebook print different
            lines. Nothing is written then.
    """
    place = environment(unit.meta.packages)  # first, since a misspelled package should not cost minutes
    measured = measure(unit, cache, say)
    lines = tuple(
        Line(cell=reference(unit).steps[cell.step].id, text=text)
        for cell in measured.base.cells
        for text in cell.stdout.splitlines()
    )
    problems = [*unproven(unit, measured), *lines_differ(unit, lines, measured.script, "as a script")]
    if problems:
        raise CourseError(*(Problem(unit.id, "", one, "mend it, then record again") for one in problems))
    receipt = Receipt(
        lesson=unit.id,
        digest=unit.digest,
        lock=hashlib.sha256((root / LOCK).read_bytes()).hexdigest(),
        recorded=datetime.now(UTC).replace(microsecond=0),
        commit=_commit(root, unit),
        environment=place,
        seconds=measured.base.seconds,
        lines=lines,
        facts=dict(measured.base.facts),
        runs=measured.runs,
        mistakes=measured.mistakes,
        figures={cell: _write_figure(unit, cell, files, place) for cell, files in measured.base.figures.items()},
    )
    write(receipt, unit.receipt)
    return receipt


def _write_figure(unit: Unit, cell: str, files: FigureFiles, place: Environment) -> FigureRecord:
    """Write `figures/<cell>.svg`, `.png` and `.json` (the plotted data with its provenance)."""
    folder = unit.folder / "figures"
    folder.mkdir(exist_ok=True)
    provenance = {
        "lesson": unit.id,
        "cell": cell,
        "code_sha256": hashlib.sha256(unit.cell(cell).source.encode()).hexdigest(),
        "lesson_digest": unit.digest,
        "environment": place.model_dump(mode="json"),
    }
    data = pretty({"provenance": provenance, "figures": files.data}) + "\n"
    svg = "\n".join(line.rstrip() for line in files.svg.decode("utf-8").splitlines()) + "\n"
    write_text(folder / f"{cell}.json", data)
    write_text(folder / f"{cell}.svg", svg)
    (folder / f"{cell}.png").write_bytes(files.png)
    digests = (hashlib.sha256(one).hexdigest() for one in (data.encode(), svg.encode(), files.png))
    return FigureRecord(data=next(digests), svg=next(digests), png=next(digests))


def _commit(root: Path, unit: Unit) -> str:
    """The commit that is checked out, with ``+`` where what the run depends on differs from it; empty outside git.

    Generated files do not count: recording one must not make the next one look changed.
    """

    def git(*words: str) -> str | None:
        try:
            done = subprocess.run(["git", *words], cwd=root, capture_output=True, text=True, check=False)
        except OSError:
            return None
        return done.stdout.strip() if done.returncode == 0 else None

    commit = git("rev-parse", "HEAD")
    if not commit:
        return ""
    places = (unit.folder, unit.folder / "solution")
    beside = [unit.shown(place / name) for place in places for name in unit.beside if (place / name).is_file()]
    sources = [unit.shown(unit.script), unit.file, *beside, "course", "graders", LOCK]
    return commit + ("+" if git("status", "--porcelain", "--", *sources) else "")
