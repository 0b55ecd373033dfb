"""The reports as files: `results.json`, CSV and JUnit XML. Written beside and renamed, always well-formed."""

from __future__ import annotations

import csv
import io
import json
import xml.etree.ElementTree as ET
from pathlib import Path

from course.receipt import write_text
from graders.reports.text import cell, xml
from graders.verdict import Results, Verdict

COLUMNS = ("learner", "lesson", "exercise", "verdict", "reason", "points", "out_of", "mistake", "message", "file", "sha256")


def results_json(results: Results) -> str:
    """The exact report: names and messages unchanged. `docs/schemas/results.schema.json` describes it."""
    text = json.dumps(results.plain(), ensure_ascii=False, indent=1, allow_nan=False)
    # A lone surrogate in a file name cannot be UTF-8; the escape says what it was.
    return text.encode("utf-8", "backslashreplace").decode("utf-8") + "\n"


def results_csv(results: Results) -> str:
    """One row an exercise. Text that a spreadsheet would take for a formula is defused; numbers stay numbers."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\r\n")
    writer.writerow(COLUMNS)
    for one in results.submissions:
        for result in one.exercises:
            earned = "" if result.points is None else f"{result.points:g}"
            writer.writerow([
                cell(one.learner), one.lesson, result.exercise, result.verdict.value, result.reason.value if result.reason else "",
                earned, f"{result.out_of:g}", result.mistake or "", cell(result.message), cell(one.file), one.sha256,
            ])  # fmt: skip
    return out.getvalue()


def junit(results: Results) -> str:
    """JUnit XML: a suite a submission, a case an exercise. FAIL, TIMEOUT, UNSOLVED and SKIP are failures, never absent;
    ERROR is an error.
    """
    root = ET.Element("testsuites", name="training-systems")
    for one in results.submissions:
        suite = ET.SubElement(
            root, "testsuite", name=xml(f"{one.learner} {one.lesson}"), tests=str(len(one.exercises)),
            failures=str(sum(result.verdict not in {Verdict.PASS, Verdict.ERROR} for result in one.exercises)),
            errors=str(sum(result.verdict is Verdict.ERROR for result in one.exercises)), time=f"{one.seconds:g}",
        )  # fmt: skip
        for result in one.exercises:
            case = ET.SubElement(suite, "testcase", classname=xml(f"{one.lesson}.{one.learner}"), name=result.exercise)
            if result.verdict is not Verdict.PASS:
                kind = "error" if result.verdict is Verdict.ERROR else "failure"
                reason = result.reason.value if result.reason else ""
                ET.SubElement(case, kind, type=f"{result.verdict}({reason})", message=xml(result.message))
    ET.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ET.tostring(root, encoding="unicode") + "\n"


WRITERS = {"json": results_json, "csv": results_csv, "junit": junit}


def write_report(kind: str, results: Results, path: Path) -> None:
    """Write one report.

    Args:
        kind: ``json``, ``csv`` or ``junit``.
        results: the grading run.
        path: where; its folder is made.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    write_text(path, WRITERS[kind](results))
