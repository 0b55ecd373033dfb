"""`python -m publish`: what it says and its exit codes."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from publish.__main__ import app

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def run(small, monkeypatch):
    """Run a command in the small course: its exit code and all it said."""
    monkeypatch.chdir(small.root)

    def command(*words):
        result = CliRunner().invoke(app, list(words))
        assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
        return result.exit_code, result.output

    return command


def test_build_then_check(run):
    code, said = run("build", "--check")
    assert code == 1
    assert "exercises/small-01.py: missing — run `make build`" in said
    assert "14 drifted" in said
    code, said = run("build")
    assert code == 0
    assert "wrote phases/06-small/01-pad/small-01.ipynb" in said
    assert run("build", "--check", "--strict") == (0, "Generated files: 13 as they should be.\n")


def test_a_subfolder_will_do(run, small, monkeypatch):
    run("build")
    monkeypatch.chdir(small.exercises)
    assert run("build", "--check")[0] == 0


def test_edited_files_are_said_and_only_strict_minds(run, small):
    run("build")
    (small.exercises / "small-01.py").write_text("mine = 1\n")
    code, said = run("build")
    assert code == 0
    assert "kept exercises/small-01.py: you have edited it; `make reset LESSON=small-01`" in said
    assert "1 of yours kept" in said
    code, said = run("build", "--check")
    assert code == 0
    assert "kept exercises/small-01.py" in said
    code, said = run("build", "--check", "--strict")
    assert code == 1
    assert "1 edited, which --strict does not allow" in said


def test_reset_says_where_the_backup_is(run, small):
    run("build")
    assert run("reset", "small-01")[1] == "Nothing to bring back: the files of small-01 are as they were generated.\n"
    (small.exercises / "small-01.py").write_text("mine = 1\n")
    code, said = run("reset", "small-01", "--file", "exercises/small-01.py")
    assert code == 0
    copy = re.fullmatch(r"brought back exercises/small-01.py; yours is in (backups/\S+)\n", said)[1]
    assert (small.root / copy).read_text() == "mine = 1\n"


def test_faults_in_the_course_are_plain_lines(run, small):
    small.change("lesson.md", "```{cell} data\n", "```{cell} dota\n")
    code, said = run("build")
    assert code == 1
    assert "phases/06-small/01-pad/lesson.md: line 21: {cell} names 'dota'" in said
    assert "2 to mend" in said
    assert "wrote exercises/small-01.py" in said
    small.change("lesson.toml", "minutes = 10", "minutes = 0")
    code, said = run("build")
    assert code == 1
    assert "lesson.toml: minutes" in said
    assert "Traceback" not in said


@pytest.mark.parametrize(
    "words",
    [
        ("build", "--lesson", "small-09"),
        ("build", "--strict"),
        ("build", "--colour"),
        ("reset",),
        ("reset", "small-09"),
        ("reset", "small-01", "--file", "other.py"),
        ("rest",),
    ],
)
def test_wrong_arguments_are_exit_2(run, words):
    code, said = run(*words)
    assert code == 2
    assert "Traceback" not in said


def test_unknown_lessons_are_answered_with_the_known_ones(run):
    assert "use one of: small-01" in run("reset", "small-09")[1]


def test_a_file_that_cannot_be_written_is_a_plain_line(run, small, monkeypatch):
    def full(path, text):
        raise OSError(28, "No space left on device", str(path))

    monkeypatch.setattr("publish.build.write_text", full)
    code, said = run("build")
    assert code == 1
    assert "small-01.ipynb: No space left on device" in said


@pytest.mark.parametrize("words", [("--help",), ("build", "--help"), ("reset", "--help")])
def test_help_teaches(run, words):
    code, said = run(*words)
    assert code == 0
    assert "exercise" in said


def test_as_a_module_outside_a_course_and_on_a_small_console(tmp_path):
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"}
    result = subprocess.run(
        [sys.executable, "-m", "publish", "build"], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert result.returncode == 1
    assert "no course.toml here or above" in result.stderr
    assert "Traceback" not in result.stderr
