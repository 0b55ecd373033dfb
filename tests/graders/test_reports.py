"""Reports stay well-formed whatever a name or a message holds, and say the same in every format."""

import csv
import io
import json
import xml.etree.ElementTree as ET
from datetime import UTC, datetime

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from course.receipt import Environment
from graders.__main__ import results_schema
from graders.reports.files import junit, results_csv, results_json, write_report
from graders.reports.lines import class_lines, own_lines, pad, runs_text, totals, width
from graders.reports.text import cell, visible, xml
from graders.verdict import ExerciseResult, Reason, Results, SubmissionResult, Verdict, not_judged

NASTY = [
    "\x1b[2J\x1b[31mPASS",
    "a\nPASS      tiny-01/double",
    '=HYPERLINK("x")',
    "<script>alert(1)</script>",
    "]]>&\x00\ufffe",
    "'; DROP",
    "\u202egnp.exe",
    "日本語",
    "",
    "\ud800",
    "-1+2",
    "x" * 5000,
]


def submission(learner="Ana", verdict=Verdict.PASS, message="", **more):
    points = {Verdict.PASS: 2.0, Verdict.ERROR: None}.get(verdict, 0.0)
    one = ExerciseResult(
        exercise="double",
        verdict=verdict,
        reason=None if verdict is Verdict.PASS else Reason.WRONG,
        message=message,
        points=points,
        out_of=2,
        runs=("base", "N=5", "N=7", "draw 9"),
    )
    return SubmissionResult(
        learner=learner, lesson="tiny-01", file=f"{learner}/tiny-01.ipynb", sha256="0" * 64, exercises=(one,), **more
    )


def results(*submissions):
    now = datetime(2026, 11, 29, 12, 0, tzinfo=UTC)
    place = Environment(python="3.11.7", implementation="CPython", platform="Linux", machine="x86_64", packages={})
    return Results(
        started=now, finished=now, seed=9, receipts={}, environment=place, isolation=(), limits={}, submissions=submissions
    )


@pytest.mark.parametrize("text", NASTY)
def test_nasty_names_and_messages(text):
    run = results(submission(text, Verdict.FAIL, text), submission("Bo"))
    parsed = json.loads(results_json(run))
    assert len(parsed["submissions"]) == 2
    if text.isascii():
        assert parsed["submissions"][0]["learner"] == text
    rows = list(csv.DictReader(io.StringIO(results_csv(run), newline="")))
    assert [row["verdict"] for row in rows] == ["FAIL", "PASS"]
    assert not rows[0]["learner"].startswith(("=", "+", "-", "@"))
    root = ET.fromstring(junit(run))
    assert [suite.get("failures") for suite in root] == ["1", "0"]
    for _, line in class_lines(run.submissions[0], 20):
        assert "\n" not in line and "\x1b" not in line and line.startswith("FAIL")


@given(st.text(max_size=60))
def test_any_text_is_safe_in_every_format(text):
    run = results(submission(text, Verdict.FAIL, text))
    json.loads(results_json(run))
    ET.fromstring(junit(run).encode("utf-8"))
    (row,) = csv.DictReader(io.StringIO(results_csv(run), newline=""))
    assert row["points"] == "0"
    shown = visible(text)
    assert "\n" not in shown and "\r" not in shown and "\x1b" not in shown
    xml(text).encode("utf-8")
    assert not cell(text).startswith(("=", "+", "-", "@", "\t", "\r"))


def test_numbers_stay_numbers_and_no_mark_is_no_zero():
    rows = list(
        csv.DictReader(
            io.StringIO(results_csv(results(submission("A", Verdict.ERROR, "x"), submission("B", Verdict.FAIL))), newline="")
        )
    )
    assert [row["points"] for row in rows] == ["", "0"]


def test_an_error_is_an_error_and_everything_else_a_failure():
    run = results(*(submission(verdict.value, verdict, "m") for verdict in Verdict))
    root = ET.fromstring(junit(run))
    kinds = {suite[0].get("classname").split(".")[1]: [child.tag for child in suite[0]] for suite in root}
    assert kinds == {"PASS": [], "ERROR": ["error"], **{name: ["failure"] for name in ("FAIL", "TIMEOUT", "UNSOLVED", "SKIP")}}


def test_results_match_their_schema_and_the_file_in_docs(root):
    schema = json.loads(results_schema())
    jsonschema.validate(json.loads(results_json(results(submission(), submission("Bo", Verdict.ERROR)))), schema)
    broken = json.loads(results_json(results(submission())))
    broken["submissions"][0]["verdict"] = "GREAT"
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(broken, schema)
    kept = root / "docs" / "schemas" / "results.schema.json"
    assert kept.read_text(encoding="utf-8") == results_schema(), "run `python -m graders schema`"


def test_the_lessons_verdict_is_the_gravest():
    def lesson(*verdicts):
        one = submission()
        exercises = tuple(one.exercises[0].model_copy(update={"verdict": verdict}) for verdict in verdicts)
        return one.model_copy(update={"exercises": exercises}).verdict

    assert lesson(Verdict.PASS, Verdict.PASS) is Verdict.PASS
    assert lesson(Verdict.PASS, Verdict.UNSOLVED) is Verdict.UNSOLVED
    assert lesson(Verdict.FAIL, Verdict.TIMEOUT, Verdict.UNSOLVED) is Verdict.TIMEOUT
    assert lesson(Verdict.ERROR, Verdict.FAIL) is Verdict.ERROR
    assert lesson() is Verdict.ERROR


def test_points_are_of_the_lesson_and_none_where_no_mark_is_given():
    worth = (("a", 2.0), ("b", 3.0))
    one = submission().model_copy(update={"exercises": not_judged(worth, Verdict.UNSOLVED, Reason.NO_ANSWER, "m")})
    assert (one.points, one.out_of) == (0, 5)
    other = submission().model_copy(update={"exercises": not_judged(worth, Verdict.ERROR, Reason.INTERNAL, "m")})
    assert (other.points, other.out_of) == (None, 5)


def test_lines_for_a_class_and_for_oneself():
    ((_, line),) = class_lines(submission("Li, Wei"), 12)
    assert line.split() == ["PASS", "tiny-01/double", "Li,", "Wei", "2/2", "base,", "2", "variants,", "draw", "9"]
    own = [line for _, line in own_lines(submission(notices=("a note",)))]
    assert own == ["PASS      tiny-01/double  base, 2 variants, draw 9", "  note: a note", "PASS: tiny-01"]
    wrong = [line for _, line in own_lines(submission("Ana", Verdict.FAIL, "mean: expected 4, got 5"))]
    assert wrong == ["FAIL      tiny-01/double  mean: expected 4, got 5", "tiny-01: 0 of 1 pass"]
    assert runs_text(("base",)) == "base" and runs_text(()) == ""
    assert totals([submission(), submission("B", Verdict.FAIL)]) == "2 verdicts on 2 submissions: 1 PASS, 1 FAIL"


def test_columns_count_what_a_terminal_shows():
    assert width("日本") == 4 and width("e\u0301") == 1
    assert pad("日本", 6) == "日本  "


def test_a_report_is_written_beside_and_renamed(tmp_path):
    path = tmp_path / "deep" / "results.json"
    write_report("json", results(submission()), path)
    write_report("json", results(submission("Bo")), path)
    assert [one.name for one in path.parent.iterdir()] == ["results.json"]
    assert json.loads(path.read_text(encoding="utf-8"))["submissions"][0]["learner"] == "Bo"
