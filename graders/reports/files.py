"""The reports as files: `results.json`, CSV, JUnit XML and HTML. Always well-formed, and never half of one: all of a run are
written beside the older ones first, and take their places only when every one of them is on the disk.
"""

from __future__ import annotations

import csv
import errno
import io
import json
import os
import re
import textwrap
import xml.etree.ElementTree as ET
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from graders import owner
from graders.reports.html import report_html
from graders.reports.text import cell, json_text, short, xml
from graders.verdict import Results, Verdict

_BESIDE = re.compile(rf"\.report-(?P<owner>{owner.PATTERN})-[0-9]+\.new")
COLUMNS = ("learner", "lesson", "exercise", "verdict", "reason", "points", "out_of", "mistake", "message", "file", "sha256")


Pieces = Iterator[str]  # of a report, so that one of a big class need not be held whole


def results_json(results: Results) -> Pieces:
    """The exact report: names unchanged, whatever they hold. `docs/schemas/results.schema.json` describes it."""
    head = _json(results.head(), 0)
    yield f'{head.removesuffix("}").rstrip()},\n "submissions": ['
    separator = ""
    for one in results.submissions:
        data = one.plain()
        data["notices"] = [short(notice) for notice in data["notices"]]
        for result in data["exercises"]:
            result["message"] = short(result["message"])
        yield f"{separator}\n{_json(data, 2)}"
        separator = ","
    yield "\n ]\n}\n" if separator else "]\n}\n"


def _json(data: object, depth: int) -> str:
    # No line end stands within a string of JSON.
    return textwrap.indent(json_text(json.dumps(data, ensure_ascii=False, indent=1, allow_nan=False)), " " * depth)


def results_csv(results: Results) -> Pieces:
    """One row an exercise. Text that a spreadsheet would take for a formula is defused; numbers stay numbers."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\r\n")
    writer.writerow(COLUMNS)
    for one in results.submissions:
        for result in one.exercises:
            earned = "" if result.points is None else f"{result.points:g}"
            writer.writerow([
                cell(one.learner), one.lesson, result.exercise, result.verdict.value, result.reason.value if result.reason else "",
                earned, f"{result.out_of:g}", result.mistake or "", cell(short(result.message)), cell(one.file), one.sha256,
            ])  # fmt: skip
        yield out.getvalue()
        out.seek(out.truncate(0))
    yield out.getvalue()


def junit(results: Results) -> Pieces:
    """JUnit XML: a suite a submission, a case an exercise. FAIL, TIMEOUT, UNSOLVED and SKIP are failures, never absent;
    ERROR is an error.
    """
    yield '<?xml version="1.0" encoding="UTF-8"?>\n<testsuites name="training-systems">\n'
    for one in results.submissions:
        suite = ET.Element(
            "testsuite", name=xml(f"{one.learner} {one.lesson}"), tests=str(len(one.exercises)),
            failures=str(sum(result.verdict not in {Verdict.PASS, Verdict.ERROR} for result in one.exercises)),
            errors=str(sum(result.verdict is Verdict.ERROR for result in one.exercises)), time=f"{one.seconds:g}",
        )  # fmt: skip
        for result in one.exercises:
            case = ET.SubElement(suite, "testcase", classname=xml(f"{one.lesson}.{one.learner}"), name=xml(result.exercise))
            if result.verdict is not Verdict.PASS:
                kind = "error" if result.verdict is Verdict.ERROR else "failure"
                reason = result.reason.value if result.reason else ""
                ET.SubElement(case, kind, type=f"{result.verdict}({reason})", message=xml(short(result.message)))
        ET.indent(suite, level=1)
        yield f"  {ET.tostring(suite, encoding='unicode')}\n"
    yield "</testsuites>\n"


WRITERS: dict[str, Callable[[Results], Pieces]] = {"json": results_json, "csv": results_csv, "junit": junit, "html": report_html}


class NotWritten(OSError):
    """A report cannot be written. The older reports are as they were."""


def write_reports(results: Results, files: Mapping[str, Path]) -> None:
    """Write reports, all or none.

    Args:
        results: the grading run.
        files: ``json``, ``csv``, ``junit`` or ``html`` to where; folders are made.

    Raises:
        NotWritten: if one of them cannot be written, for instance because the disk is full.
    """
    beside: list[tuple[Path, Path]] = []
    path = Path()
    try:
        for path in files.values():
            if path.is_dir():
                raise IsADirectoryError(errno.EISDIR, "it is a folder", str(path))
        for number, (kind, path) in enumerate(files.items()):
            pieces = WRITERS[kind](results)
            path.parent.mkdir(parents=True, exist_ok=True)
            if path.exists() and not path.is_file():
                # /dev/stdout or a pipe: to be written to, not replaced
                with path.open("wb") as file:
                    file.writelines(piece.encode("utf-8") for piece in pieces)
                continue
            _clear(path.parent)
            new = path.parent / f".report-{owner.me()}-{number}.new"
            beside.append((new, path))
            _write(new, pieces)
        for new, path in beside:
            new.replace(path)
        for folder in {path.parent for _, path in beside}:
            _sync(folder)
    except BrokenPipeError:
        raise
    except OSError as error:
        what = error.strerror or type(error).__name__
        raise NotWritten(f"the reports cannot be written, {path}: {what}; the older ones are as they were") from error
    finally:
        for new, _ in beside:
            with suppress(OSError):
                new.unlink()


def write_report(kind: str, results: Results, path: Path) -> None:
    """Write one report. See :func:`write_reports`."""
    write_reports(results, {kind: path})


def _write(path: Path, pieces: Pieces) -> None:
    with path.open("wb") as file:
        file.writelines(piece.encode("utf-8") for piece in pieces)
        file.flush()
        os.fsync(file.fileno())


def _sync(folder: Path) -> None:
    """Bring a renaming to the disk, where the system can be asked for that."""
    if os.name == "posix":
        opened = os.open(folder, os.O_RDONLY)
        try:
            with suppress(OSError):  # some file systems do not know it for folders
                os.fsync(opened)
        finally:
            os.close(opened)


def _clear(folder: Path) -> None:
    """Delete what graders that were killed while they wrote have left."""
    for entry in folder.iterdir():
        match = _BESIDE.fullmatch(entry.name)
        holder = owner.parse(match["owner"]) if match else None
        if holder is not None and holder.life() is owner.Life.DEAD:
            with suppress(OSError):
                entry.unlink()
