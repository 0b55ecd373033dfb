"""Run a lesson's reference and keep what it gave: `receipt.json` and `figures/`."""

from __future__ import annotations

import hashlib
import subprocess
from datetime import UTC, datetime
from pathlib import Path

from course.catalogue import Lesson
from course.errors import CourseError, Problem
from course.receipt import Environment, FigureRecord, Line, Receipt, pretty, write, write_text
from graders.measure import Say, environment, measure
from graders.program import reference
from graders.run import FigureFiles
from graders.verify import lines_differ, unproven

LOCK = "requirements-cpu.txt"


def record(lesson: Lesson, root: Path, cache: Path, say: Say) -> Receipt:
    """Run a lesson's reference and write `receipt.json` and `figures/`.

    Raises:
        CourseError: if the reference is not sound, a mistake is not told apart, or script and notebook print different
            lines. Nothing is written then.
    """
    place = environment(lesson.meta.packages)  # first, since a misspelled package should not cost minutes
    measured = measure(lesson, cache, say)
    lines = tuple(
        Line(cell=reference(lesson).steps[cell.step].id, text=text)
        for cell in measured.base.cells
        for text in cell.stdout.splitlines()
    )
    problems = [*unproven(lesson, measured), *lines_differ(lesson, lines, measured.script, "as a script")]
    if problems:
        raise CourseError(*(Problem(lesson.id, "", one, "mend the lesson, then record again") for one in problems))
    receipt = Receipt(
        lesson=lesson.id,
        digest=lesson.digest,
        lock=hashlib.sha256((root / LOCK).read_bytes()).hexdigest(),
        recorded=datetime.now(UTC).replace(microsecond=0),
        commit=_commit(root, lesson),
        environment=place,
        seconds=measured.base.seconds,
        lines=lines,
        facts=dict(measured.base.facts),
        runs=measured.runs,
        mistakes=measured.mistakes,
        figures={cell: _write_figure(lesson, cell, files, place) for cell, files in measured.base.figures.items()},
    )
    write(receipt, lesson.receipt)
    return receipt


def _write_figure(lesson: Lesson, cell: str, files: FigureFiles, place: Environment) -> FigureRecord:
    """Write `figures/<cell>.svg`, `.png` and `.json` (the plotted data with its provenance)."""
    folder = lesson.folder / "figures"
    folder.mkdir(exist_ok=True)
    provenance = {
        "lesson": lesson.id,
        "cell": cell,
        "code_sha256": hashlib.sha256(lesson.cell(cell).source.encode()).hexdigest(),
        "lesson_digest": lesson.digest,
        "environment": place.model_dump(mode="json"),
    }
    data = pretty({"provenance": provenance, "figures": files.data}) + "\n"
    svg = "\n".join(line.rstrip() for line in files.svg.decode("utf-8").splitlines()) + "\n"
    write_text(folder / f"{cell}.json", data)
    write_text(folder / f"{cell}.svg", svg)
    (folder / f"{cell}.png").write_bytes(files.png)
    digests = (hashlib.sha256(one).hexdigest() for one in (data.encode(), svg.encode(), files.png))
    return FigureRecord(data=next(digests), svg=next(digests), png=next(digests))


def _commit(root: Path, lesson: Lesson) -> str:
    """The commit that is checked out, with ``+`` where what the run depends on differs from it; empty outside git.

    Generated files do not count: recording one lesson must not make the next one look changed.
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
    sources = [lesson.shown(lesson.script), lesson.shown(lesson.folder / "lesson.toml"), "course", "graders", LOCK]
    return commit + ("+" if git("status", "--porcelain", "--", *sources) else "")
