"""Faults around a grading run: killed, denied, changed, empty. Each is a run of its own, by the instructor's command."""

import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from contextlib import closing, suppress

import pytest

from course.catalogue import load
from tests.faults.cells import Folder, notebook
from tests.faults.grading import ROOT, grade, run
from tests.faults.working import CASES

LESSON = ("phases", "01-ragged", "01-labels")


@pytest.fixture
def course(ragged, tmp_path):
    """A copy of the course that a test may change."""
    shutil.copytree(ragged, tmp_path / "course", symlinks=True)
    return tmp_path / "course"


@pytest.fixture
def into(tmp_path):
    return Folder(tmp_path / "class")


def verdicts(graded):
    return {one["learner"]: one["verdict"] for one in graded.results["submissions"]}


def test_exercises_worth_nothing_still_pass_and_divide_nothing(course, into, tmp_path):
    words = course.joinpath(*LESSON, "lesson.toml")
    words.write_text(words.read_text(encoding="utf-8").replace("points = 3", "points = 0").replace("points = 2", "points = 0"))
    CASES["W13"](into)
    graded = grade(course, into.root, tmp_path / "out")
    assert graded.code == 0 and verdicts(graded) == {"W13": "PASS"}
    assert [(row["points"], row["out_of"]) for row in graded.csv_rows()] == [("0", "0")] * 2
    assert "nan" not in graded.out.lower()
    assert not [case for suite in graded.suites() for case in suite.iter("failure")]


def test_nothing_to_grade_is_no_success(course, tmp_path):
    empty = tmp_path / "empty"
    empty.mkdir()
    done = run(course, "grade", empty, "--out", tmp_path / "out")
    assert done.returncode == 2 and "no submissions found" in done.stderr
    done = run(course, "grade", tmp_path, "--lesson", "ragged-10", "--out", tmp_path / "out")
    assert done.returncode == 2 and "no lesson or project 'ragged-10'" in done.stderr and "ragged-01" in done.stderr
    done = run(course, "grade", tmp_path / "missing", "--out", tmp_path / "out")
    assert done.returncode == 2
    assert not (tmp_path / "out" / "junit.xml").exists()


@pytest.mark.parametrize(
    ("name", "made", "code"),
    [
        ("right", None, 0),
        ("unreadable", "{", 1),
        pytest.param("refused", '{"cells": [], "cells": []}', 1, marks=pytest.mark.lessons),
        pytest.param("unsolved", '{"cells": [], "nbformat": 4}', 1, marks=pytest.mark.lessons),
    ],
)
def test_exit_codes_of_a_single_check(ragged, into, name, made, code):
    done = run(ragged, "check", "ragged-01", into.put(name, made or notebook()))
    assert done.returncode == code, done.stdout + done.stderr
    assert ("PASS: ragged-01" in done.stdout) == (code == 0)


@pytest.mark.skipif(os.name != "posix", reason="this platform has no such permissions")
def test_what_may_not_be_read_is_the_instructors_to_mend(course, into, tmp_path):
    CASES["W17"](into)
    command = [sys.executable, "-m", "graders", "grade", str(into.root), "--lesson", "ragged-01", "--out", str(tmp_path / "out")]
    if os.geteuid() == 0:
        if not shutil.which("setpriv"):
            pytest.skip("as root everything may be read, and this machine has no setpriv to give that up")
        # The isolation does without namespaces then; the verdict on a file that cannot be read does not rest on it.
        command = ["setpriv", "--bounding-set=-dac_override,-dac_read_search", "--inh-caps=-all", *command]
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    try:
        done = subprocess.run(command, cwd=course, env=env, capture_output=True, text=True, check=False)
        results = json.loads((tmp_path / "out" / "results.json").read_text(encoding="utf-8"))
    finally:
        for folder in into.root.iterdir():
            folder.chmod(0o755)
    found = {one["learner"]: one for one in results["submissions"]}
    assert done.returncode == 3
    assert {name: one["verdict"] for name, one in found.items()} == {"W17 ro": "PASS", "W17 noread": "ERROR", "W17 nodir": "ERROR"}
    for name in ("W17 noread", "W17 nodir"):
        assert all(one["message"].startswith("permission denied") and one["points"] is None for one in found[name]["exercises"])
    assert [path.name for path in (into.root / "W17 ro").iterdir()] == ["ragged-01.ipynb"]


def test_a_broken_receipt_is_an_error_and_keeps_the_older_grade(course, into, tmp_path):
    CASES["W22"](into) if "W22" in CASES else into.put("W22", notebook())
    first = grade(course, into.root, tmp_path / "out")
    assert first.code == 0 and verdicts(first) == {"W22": "PASS"}
    receipt = course.joinpath(*LESSON, "receipt.json")
    receipt.write_bytes(receipt.read_bytes()[:700])
    second = grade(course, into.root, tmp_path / "out")
    assert second.code == 3 and verdicts(second) == {"W22": "ERROR"}
    row = second.row("W22")
    assert row["points"] is None
    assert any("an older result for the same file stands: PASS" in notice for notice in row["notices"])
    cases = [case for suite in second.suites() for case in suite]
    assert cases and all(case.find("error") is not None and case.find("failure") is None for case in cases)


@pytest.mark.lessons
def test_a_changed_receipt_changes_the_verdict_and_back(course, into, tmp_path):
    into.put("W21", notebook())
    receipt = course.joinpath(*LESSON, "receipt.json")
    right = receipt.read_text(encoding="utf-8")
    wrong = right.replace('"data": [2, 5, 4]', '"data": [2, 5, 5]', 1)
    assert wrong != right
    for text, verdict in ((right, "PASS"), (wrong, "FAIL"), (right, "PASS")):
        receipt.write_text(text, encoding="utf-8")
        assert verdicts(grade(course, into.root, tmp_path / "out")) == {"W21": verdict}
    before = load(course).lesson("ragged-01").digest
    words = course.joinpath(*LESSON, "lesson.toml")
    words.write_text(words.read_text(encoding="utf-8").replace('last = "close"', 'last = "close rtol=1e-3"'), encoding="utf-8")
    after = load(course).lesson("ragged-01").digest
    assert before != after, "a tolerance is part of what a receipt stands for"
    graded = grade(course, into.root, tmp_path / "out")
    assert graded.code == 3 and verdicts(graded) == {"W21": "ERROR"}
    receipt.write_text(right.replace(before, after), encoding="utf-8")
    assert verdicts(grade(course, into.root, tmp_path / "out")) == {"W21": "PASS"}


def kept(store):
    with suppress(sqlite3.Error), closing(sqlite3.connect(f"file:{store}?mode=ro", uri=True)) as database:
        # Names are kept as JSON, since a name may hold what a database cannot.
        return [json.loads(name) for (name,) in database.execute("select learner from result order by rowid")]
    return []


@pytest.mark.lessons
@pytest.mark.skipif(os.name != "posix", reason="this platform has no SIGKILL")
@pytest.mark.parametrize("sent", [signal.SIGKILL, signal.SIGINT])
def test_a_killed_grader_goes_on(course, into, tmp_path, sent):
    CASES["W14"](into, seconds=4)
    out, store = tmp_path / "out", tmp_path / "out" / "results.sqlite"
    words = ("grade", str(into.root), "--lesson", "ragged-01", "--out", str(out), "--jobs", "1", "--cell-seconds", "20")
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    first = subprocess.Popen([sys.executable, "-m", "graders", *words], cwd=course, env=env, stdout=subprocess.DEVNULL)
    until = time.monotonic() + 120
    while len(kept(store)) < 3 and time.monotonic() < until and first.poll() is None:
        time.sleep(0.1)
    first.send_signal(sent)
    assert first.wait(30) == (130 if sent == signal.SIGINT else -signal.SIGKILL)
    done = kept(store)
    assert done[:3] == ["s1", "s2", "s3"] and len(done) < 6
    if sent == signal.SIGINT:
        interrupted = json.loads((out / "results.json").read_text(encoding="utf-8"))
        assert interrupted["complete"] is False and len(interrupted["submissions"]) == len(done)
    again = run(course, *words)
    assert again.returncode == 0, again.stdout + again.stderr
    assert f"going on: {len(done)} of 6" in again.stdout
    results = json.loads((out / "results.json").read_text(encoding="utf-8"))
    assert [(one["learner"], one["verdict"]) for one in results["submissions"]] == [(f"s{n}", "PASS") for n in range(1, 7)]
    assert kept(store) == [*done, *(f"s{n}" for n in range(len(done) + 1, 7))], "nothing is judged twice"


@pytest.mark.lessons
def test_a_locked_store_is_waited_for_or_an_error(course, into, tmp_path):
    into.put("E21", notebook())
    out = tmp_path / "out"
    assert grade(course, into.root, out).code == 0
    database = sqlite3.connect(out / "results.sqlite", isolation_level=None, check_same_thread=False)
    database.execute("begin exclusive")

    def give_back():
        time.sleep(4)
        database.execute("rollback")

    thread = threading.Thread(target=give_back)
    thread.start()
    try:
        graded = grade(course, into.root, out)
    finally:
        thread.join()
        database.close()
    assert graded.code == 0 and verdicts(graded) == {"E21": "PASS"}, graded.err
