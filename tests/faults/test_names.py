"""Names with anything in them (W08): each has its rows, read back exactly, and is nowhere taken for anything but a name."""

import csv
import io
import json
import re
from datetime import UTC, datetime
from html.parser import HTMLParser

import pytest

from course.receipt import Environment
from graders.reports.files import WRITERS
from graders.reports.lines import class_lines
from graders.verdict import Reason, Results, SubmissionResult, Verdict, not_judged
from tests.faults.cells import Folder
from tests.faults.grading import grade
from tests.faults.working import CASES


class Page(HTMLParser):
    """Looks for what only a learner could have brought in."""

    def __init__(self):
        super().__init__()
        self.found = []

    def handle_starttag(self, tag, attrs):
        self.found += [tag] if tag in {"img", "svg", "iframe", "object", "embed"} else []
        self.found += [name for name, value in attrs if name.startswith("on") or "javascript:" in (value or "")]


def looked_at(graded, into):
    names = sorted(path.name for path in into.root.iterdir())
    assert graded.code == 0, graded.out + graded.err
    assert graded.after == graded.before and not graded.left
    assert sorted(one["learner"] for one in graded.results["submissions"]) == names
    # In the table, what turns the direction of a line is an escape, and what begins a formula has an apostrophe before it.
    shown = [name.replace("\u202e", "\\u202e") for name in names]
    shown = [f"'{name}" if name.startswith(("=", "-")) else name for name in shown]
    assert sorted({row["learner"] for row in graded.csv_rows()}) == sorted(shown)
    assert len(graded.csv_rows()) == 2 * len(names)
    assert len(graded.suites()) == len(names)
    page = graded.folder / "report.html"
    if page.is_file():
        parser = Page()
        parser.feed(page.read_text(encoding="utf-8"))
        assert not parser.found
    assert not [line for line in graded.out.splitlines() if re.match("line$|pwned", line)], "a name begins no line of its own"
    assert not [path for path in into.root.parent.rglob("*") if path.name == "pwned"]


def test_every_name_has_its_rows_and_is_read_back_exactly(ragged, tmp_path):
    into = Folder(tmp_path / "class")
    CASES["W08"](into, " ")  # what they hand in is blank: here it is about the names
    graded = grade(ragged, into.root, tmp_path / "out")
    looked_at(graded, into)
    assert {one["verdict"] for one in graded.results["submissions"]} == {"FAIL"}


@pytest.mark.lessons
def test_every_name_can_pass(ragged, tmp_path):
    into = Folder(tmp_path / "class")
    CASES["W08"](into)
    graded = grade(ragged, into.root, tmp_path / "out", "--jobs", "3", "--cell-seconds", "20")
    looked_at(graded, into)
    assert {one["verdict"] for one in graded.results["submissions"]} == {"PASS"}


@pytest.mark.parametrize(
    ("name", "in_csv"),
    [
        ("\x1b[2J", "\\x1b[2J"),
        ("a\nb", "a\nb"),
        ("\u2066x", "\\u2066x"),
        ("'=1'", "''=1'"),
        ('"@x', "'\"@x"),
        ("{0}", "{0}"),
        ("%s", "%s"),
        ("${HOME}", "${HOME}"),
        ("CON.", "CON."),
        ("\x85", "\\x85"),
        ("PASS      ragged-01", "PASS      ragged-01"),
    ],
)
def test_more_names_of_the_kind(name, in_csv):
    """The reports of a result are made of data alone: this needs neither a kernel nor a file of that name."""
    exercises = not_judged((("pad", 3), ("mean", 2)), Verdict.FAIL, Reason.UNREADABLE, f"{name} is empty")
    one = SubmissionResult(learner=name, lesson="ragged-01", file=f"{name}/a.ipynb", sha256="", exercises=exercises)
    place = Environment(python="3", implementation="", platform="", machine="", packages={}, devices=())
    now = datetime.now(UTC)
    results = Results(
        started=now, finished=now, seed=1, receipts={}, environment=place, isolation=(), limits={}, submissions=(one,)
    )  # fmt: skip
    rows = list(csv.DictReader(io.StringIO("".join(WRITERS["csv"](results)), newline="")))
    assert [row["learner"] for row in rows] == [in_csv] * 2
    assert json.loads("".join(WRITERS["json"](results)))["submissions"][0]["learner"] == name
    for _, line in class_lines(one, 10):
        assert line.startswith("FAIL") and "\n" not in line and "\r" not in line and "\x1b" not in line
    for kind, write in WRITERS.items():
        assert "".join(write(results)).encode("utf-8"), kind
