"""Every handed case that is a submission, graded as one class: each row is right, and nothing is lost or left behind.

The class is graded once, by the command that an instructor gives. What takes long, or needs the limits of the sandbox, is a
class of its own.
"""

import os
import re

import pytest

from tests.faults.table import rows


def platform_has(needs):
    return {"": True, "fifo": hasattr(os, "mkfifo")}[needs]


def holds(graded, row):
    """Assert that a row of the reports is what the table says."""
    if not platform_has(row.needs):
        pytest.skip(f"this platform has no {row.needs}")
    found = graded.row(row.learner)
    told = f"{found['exercises']}\n{found['notices']}"
    for name, right in row.verdicts.items():
        (result,) = [one for one in found["exercises"] if one["exercise"] == name]
        assert (result["verdict"], result["reason"] or "") in right, told
    messages = " ".join(one["message"] for one in found["exercises"])
    assert all(word in messages for word in row.says), told
    assert not any(word in messages for word in row.silent), told
    assert all(any(word in notice for notice in found["notices"]) for word in row.notices), told
    if row.points is not None:
        assert found["points"] == row.points
    files = [path for path in graded.before if path == found["file"] or path.startswith(f"{found['file']}/")]
    assert found["sha256"] in {"", graded.before.get(found["file"], "")}, "the digest is of the submitted bytes"
    assert files or not found["file"]


def complete(graded, where):
    """Assert that a run has lost nothing and left nothing, and that its reports agree."""
    assert graded.code == 0, graded.out + graded.err
    assert graded.after == graded.before, "the class folder is as it was"
    assert not graded.left, graded.left
    wanted = sorted(row.learner for row in rows(where) if platform_has(row.needs))
    submissions = graded.results["submissions"]
    assert sorted(one["learner"] for one in submissions) == wanted
    results = [(one, result) for one in submissions for result in one["exercises"]]
    table = graded.csv_rows()
    assert [(row["exercise"], row["verdict"], row["sha256"]) for row in table] == [
        (result["exercise"], result["verdict"], one["sha256"]) for one, result in results
    ]
    suites = graded.suites()
    assert len(suites) == len(submissions)
    assert sum(int(suite.get("failures", "0")) for suite in suites) == sum(result["verdict"] != "PASS" for _, result in results)
    assert sum(len(suite.findall("testcase")) for suite in suites) == len(results)
    # A line for each verdict on what was handed in, and none that a learner has written.
    lines = re.findall(r"^(PASS|FAIL|TIMEOUT|UNSOLVED|SKIP|ERROR)\b", graded.out, re.MULTILINE)
    handed_in = [result for one, result in results if one["file"]]
    assert sorted(lines) == sorted(result["verdict"] for result in handed_in)
    assert all(len(result["message"]) < 3_000 for _, result in results)


@pytest.mark.parametrize("row", rows("class"), ids=str)
def test_case(of_class, row):
    holds(of_class, row)


def test_the_class_is_complete(of_class):
    complete(of_class, "class")


def test_formulas_are_defused_in_the_table_and_exact_in_the_data(of_class):
    cells = [cell for row in of_class.csv_rows() for name, cell in row.items() if name not in {"points", "out_of"}]
    assert not [cell for cell in cells if cell.lstrip("\"' \n")[:1] in tuple("=+-@\t\r") and not cell.startswith("'")]
    assert of_class.row('=HYPERLINK("x","y")')["learner"] == '=HYPERLINK("x","y")'


def test_nothing_was_unpickled_or_planted(of_class, ragged):
    names = {"unpickled.marker", "sitecustomize.marker", "usercustomize.py", "00-plant.py", "pwned"}
    found = [path for base in (ragged, of_class.folder) for path in base.rglob("*") if path.name in names]
    assert not found


@pytest.mark.lessons
@pytest.mark.parametrize("row", rows("slow"), ids=str)
def test_slow_case(of_slow, row):
    holds(of_slow, row)


@pytest.mark.lessons
def test_the_slow_class_is_complete(of_slow):
    complete(of_slow, "slow")


@pytest.mark.lessons
@pytest.mark.parametrize("row", rows("run"), ids=str)
def test_case_of_a_library(of_run, row):
    holds(of_run, row)


@pytest.mark.lessons
def test_the_class_of_libraries_is_complete(of_run):
    complete(of_run, "run")
