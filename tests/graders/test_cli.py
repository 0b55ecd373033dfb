"""The commands as a person or a script uses them: lines, reports, exit codes, bad input."""

import contextlib
import csv
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ET
from pathlib import Path

import nbformat
import psutil
import pytest

from tests.conftest import notebook, reference_answers


@pytest.fixture
def graders(root, tiny_root):
    def run(*words, cwd=tiny_root, **more):
        env = {**os.environ, "PYTHONPATH": str(root), "COLUMNS": "200", **more}
        return subprocess.run(
            [sys.executable, "-m", "graders", *map(str, words)],
            cwd=cwd,
            env=env,
            capture_output=True,
            text=True,
            encoding="utf-8",
            check=False,
            stdin=subprocess.DEVNULL,
        )

    return run


@pytest.fixture
def folder(tiny, tmp_path):
    """A class of three: right, wrong, and nothing."""
    made = tmp_path / "my class"
    wrong = {**reference_answers(tiny), "double": tiny.cell("double").source + "\nmean = sum(numbers) / N"}
    for name, answers in (("Ana Pérez", reference_answers(tiny)), ("Li, Wei", wrong)):
        (made / name).mkdir(parents=True)
        nbformat.write(notebook(tiny, answers), made / name / "tiny-01.ipynb")
    (made / "Kim").mkdir()
    return made


def test_grade_prints_lines_a_table_and_writes_the_reports(graders, folder, tmp_path):
    out = tmp_path / "out"
    done = graders("grade", folder, "--out", out, "--seed", 3)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert sum(line.startswith("PASS") for line in lines) == 3
    assert any(
        re.match(r"FAIL +tiny-01/double +Li, Wei +0/2 +mean: expected 4.0, got 2.0 — This is the mean of the numbers", line)
        for line in lines
    ), done.stdout
    assert "nothing handed in by: Kim" in lines
    assert "4 verdicts on 2 submissions: 3 PASS, 1 FAIL; draws by seed 3" in lines
    assert "\x1b" not in done.stdout
    results = json.loads((out / "results.json").read_text(encoding="utf-8"))
    assert [one["learner"] for one in results["submissions"]] == ["Ana Pérez", "Kim", "Li, Wei"]
    assert [one["points"] for one in results["submissions"]] == [3.0, 0.0, 1.0]
    assert results["complete"] is True and results["seed"] == 3 and results["isolation"]
    with (out / "results.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [(row["learner"], row["verdict"], row["mistake"]) for row in rows if row["exercise"] == "double"] == [
        ("Ana Pérez", "PASS", ""), ("Kim", "UNSOLVED", ""), ("Li, Wei", "FAIL", "not-doubled")
    ]  # fmt: skip
    assert len(ET.parse(out / "junit.xml").getroot().findall(".//testcase")) == 6
    assert "Li, Wei, tiny-01" in (out / "report.html").read_text(encoding="utf-8")
    reports = ["junit.xml", "report.html", "results.csv", "results.json", "results.sqlite"]
    assert sorted(one.name for one in out.iterdir()) == reports


def test_grade_compares_with_a_table(graders, folder, tmp_path):
    rows = [
        ("Ana Pérez", "double", "PASS", "", ""),
        ("Ana Pérez", "function", "PASS", "", ""),
        ("Li, Wei", "double", "FAIL", "wrong", "not-doubled"),
        ("Li, Wei", "function", "PASS", "", ""),
    ]
    table = tmp_path / "expected.csv"

    def write(rows):
        text = "learner,lesson,exercise,verdict,reason,mistake\n" + "".join(
            f'"{a}",tiny-01,{b},{c},{d},{e}\n' for a, b, c, d, e in rows
        )
        table.write_text(text, encoding="utf-8")

    write(rows)
    words = ("grade", folder, "--out", tmp_path / "out", "--expect", table)
    done = graders(*words)
    assert done.returncode == 0, done.stdout + done.stderr
    write(rows[:-1])
    assert graders(*words).returncode == 1
    write([*rows[:2], ("Li, Wei", "double", "PASS", "", ""), rows[3]])
    done = graders(*words)
    assert done.returncode == 1 and "Li, Wei/tiny-01/double" in done.stderr
    table.write_text("nothing\n")
    assert graders(*words).returncode == 2


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("grade", "no/such/folder"), 2, "there is no folder"),
        (("grade", "."), 2, "no submissions found"),
        (("grade", ".", "--lesson", "tiny-99"), 2, "use one of: tiny-01"),
        (("grade", ".", "--jobs", "0"), 2, "jobs"),
        (("check", "tiny-99"), 2, "there is no lesson or project 'tiny-99'"),
        (("check", "tiny-01", "nowhere.ipynb"), 2, "there is no file"),
        (("check", "tiny-01"), 2, "make build"),
        (("record",), 2, "name a lesson"),
        (("frobnicate",), 2, "No such command"),
    ],
)
def test_wrong_arguments_say_what_to_do(graders, words, code, said):
    done = graders(*words)
    assert done.returncode == code
    assert said in done.stderr and "Traceback" not in done.stderr


def test_outside_a_course(graders, tmp_path):
    done = graders("check", "tiny-01", cwd=tmp_path)
    assert done.returncode == 3 and "course.toml" in done.stderr


def test_check_says_pass_and_exits_0_or_names_what_to_mend_and_exits_1(graders, folder, tmp_path):
    done = graders(
        "check",
        "tiny-01",
        folder / "Ana Pérez" / "tiny-01.ipynb",
        "--json",
        tmp_path / "r.json",
        "--junit",
        tmp_path / "j.xml",
        "--csv",
        tmp_path / "c.csv",
    )
    assert done.returncode == 0 and done.stdout.splitlines()[-1] == "PASS: tiny-01"
    assert json.loads((tmp_path / "r.json").read_text())["submissions"][0]["verdict"] == "PASS"
    assert (tmp_path / "j.xml").is_file() and (tmp_path / "c.csv").is_file()
    done = graders("check", "tiny-01", folder / "Li, Wei" / "tiny-01.ipynb")
    assert done.returncode == 1
    assert done.stdout.splitlines()[-1] == "tiny-01: 1 of 2 pass"


def test_a_broken_receipt_is_the_graders_fault(graders, folder, tiny_copy, tmp_path):
    (tiny_copy / "phases/01-tiny/01-double/receipt.json").write_text("{")
    done = graders("grade", folder, "--out", tmp_path / "out", cwd=tiny_copy)
    assert done.returncode == 3 and "make record LESSON=tiny-01" in done.stdout
    rows = json.loads((tmp_path / "out" / "results.json").read_text(encoding="utf-8"))["submissions"]
    assert {one["verdict"] for one in rows} == {"ERROR"} and {one["points"] for one in rows} == {None}
    assert ET.parse(tmp_path / "out" / "junit.xml").getroot().findall(".//error")


def test_one_broken_submission_does_not_stop_the_rest(graders, folder, tmp_path):
    (folder / "Bad").mkdir()
    (folder / "Bad" / "tiny-01.ipynb").write_bytes(b"\x00\xff" * 100)
    done = graders("grade", folder, "--out", tmp_path / "out")
    assert done.returncode == 0
    assert sum(line.startswith("PASS") for line in done.stdout.splitlines()) == 3
    assert sum(line.startswith("FAIL") and "Bad" in line for line in done.stdout.splitlines()) == 2


def test_a_file_of_no_known_lesson_is_named_and_not_called_nothing(graders, folder, tmp_path):
    (folder / "Bo" / "a" / "b" / "c").mkdir(parents=True)
    (folder / "Bo" / "notes.py").write_text("x = 1\n")
    done = graders("grade", folder, "--out", tmp_path / "out")
    assert done.returncode == 0 and "nothing handed in by: Kim" in done.stdout.splitlines()
    assert "left out, of no lesson that is known: Bo/notes.py" in done.stdout
    rows = json.loads((tmp_path / "out" / "results.json").read_text(encoding="utf-8"))["submissions"]
    (bo,) = [one for one in rows if one["learner"] == "Bo"]
    assert {one["message"] for one in bo["exercises"]} == {"no file that is known to be of this lesson; left out: Bo/notes.py"}
    assert bo["verdict"] == "UNSOLVED"


def test_verify_agrees_and_finds_each_kind_of_change(graders, tiny_copy):
    done = graders("verify", cwd=tiny_copy)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.startswith("PASS      tiny-01")
    path = tiny_copy / "phases/01-tiny/01-double/receipt.json"
    good = json.loads(path.read_text(encoding="utf-8"))

    def change(edit):
        data = json.loads(json.dumps(good))
        edit(data)
        path.write_text(json.dumps(data), encoding="utf-8")

    def line(data):
        data["lines"][0]["text"] = "Total: 7"

    def fact(data):
        data["facts"]["largest"]["data"] = 4

    def observation(data):
        data["runs"][1]["exercises"]["double"]["mean"]["data"] = 7.5

    def mistake(data):
        data["mistakes"]["double"]["not-doubled"][0]["exercises"]["double"]["mean"]["data"] = 2.5

    changes = {
        line: "expected 'Total: 7', got 'Total: 6'",
        fact: "fact largest",
        observation: "N=5: double mean",
        mistake: "mistake double/not-doubled",
    }
    for edit, said in changes.items():
        change(edit)
        done = graders("verify", cwd=tiny_copy)
        assert done.returncode == 1 and said in done.stdout, (said, done.stdout)
    path.write_text(json.dumps(good), encoding="utf-8")
    figure = tiny_copy / "phases/01-tiny/01-double/figures/look.json"
    figure.write_text(figure.read_text().replace("6.0", "7.0"))
    done = graders("verify", cwd=tiny_copy)
    assert done.returncode == 1 and "plots other data" in done.stdout


def test_verify_names_the_command_after_a_change_of_the_source(graders, tiny_copy):
    script = tiny_copy / "phases/01-tiny/01-double/code/main.py"
    script.write_text(script.read_text().replace("SEED = 1", "SEED = 2"))
    done = graders("verify", cwd=tiny_copy)
    assert done.returncode == 3 and "make record LESSON=tiny-01" in done.stdout


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (
            'say = "This adds the factor."',
            'say = "This adds the factor."\n\n[[exercise.mistake]]\nid = "harmless"\ncode = "scaled"\nsay = "x"',
            "harmless passes",
        ),
        ('code = "mean = sum(numbers) / N"', 'code = "mean = sum(doubled) / 3"', "is taken for"),
        ('"scaled(numbers, SEED)" = "exact"', '"scaled(number, SEED)" = "exact"', "gave raised NameError"),
        ('"scaled(numbers, SEED)" = "exact"', '"scaled" = "exact"', "which is not data"),
        ('expression = "max(numbers)"', 'expression = "max(number)"', "fact largest gave NameError"),
        ("minutes = 1", "minutes = 1\ngrading = { N = 5 }", "they change what the exercise double gives"),
        ("draw = { N = [10, 400], SEED", "draw = { N = [10, 400], SEED", ""),
    ],
)
def test_record_refuses_a_lesson_that_proves_nothing(graders, tiny_copy, old, new, said):
    path = tiny_copy / "phases/01-tiny/01-double/lesson.toml"
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new), encoding="utf-8")
    receipt = tiny_copy / "phases/01-tiny/01-double/receipt.json"
    before = receipt.read_bytes()
    done = graders("record", "tiny-01", cwd=tiny_copy)
    if said:
        assert done.returncode == 3 and said in done.stderr, done.stderr
        assert receipt.read_bytes() == before
    else:
        assert done.returncode == 0, done.stderr


def test_record_refuses_a_script_that_fails(graders, tiny_copy):
    script = tiny_copy / "phases/01-tiny/01-double/code/main.py"
    script.write_text(script.read_text().replace('print("Total:", total)', 'print("Total:", total)\nassert total == 7'))
    done = graders("record", "tiny-01", cwd=tiny_copy)
    assert done.returncode == 3 and "the script ended with status 1: AssertionError" in done.stderr


@pytest.mark.skipif(os.name == "nt", reason="Windows has no SIGINT for one process of a console")
@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM"])
def test_an_interrupted_run_reports_what_it_has_and_leaves_no_kernel(root, tiny, tiny_root, folder, tmp_path, name):
    (folder / "Slow").mkdir()
    slow = {**reference_answers(tiny), "double": "import time\ntime.sleep(600)"}
    nbformat.write(notebook(tiny, slow), folder / "Slow" / "tiny-01.ipynb")
    out = tmp_path / "out"
    command = [
        sys.executable,
        "-u",
        "-m",
        "graders",
        "grade",
        str(folder),
        "--out",
        str(out),
        "--cell-seconds",
        "500",
        "--total-seconds",
        "600",
    ]
    # A short path: in a longer one scratch folders would lie elsewhere, and what is left would not be seen.
    temporary = Path(tempfile.mkdtemp(prefix="t-")).resolve()
    process = subprocess.Popen(
        command,
        cwd=tiny_root,
        env={**os.environ, "PYTHONPATH": str(root), "TMPDIR": str(temporary)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    seen = []
    for line in process.stdout:
        seen.append(line)
        if sum("Ana" in one or "Li" in one for one in seen) == 4:
            break
    time.sleep(1)
    process.send_signal(getattr(signal, name))
    rest, errors = process.communicate(timeout=60)
    assert process.returncode == 130, errors
    results = json.loads((out / "results.json").read_text(encoding="utf-8"))
    assert results["complete"] is False
    assert {one["learner"] for one in results["submissions"]} >= {"Ana Pérez", "Li, Wei"}
    assert "interrupted" in rest and "Traceback" not in errors
    assert results["receipts"]
    temporary.rmdir()  # empty: no scratch folder is left
    ours = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            ours += [process] if process.environ().get("HOME", "").startswith(str(temporary)) else []
    assert not ours


def test_output_is_utf8_whatever_the_locale(graders, folder, tmp_path):
    done = graders("check", "tiny-01", folder / "Li, Wei" / "tiny-01.ipynb", LC_ALL="C", PYTHONUTF8="0", PYTHONCOERCECLOCALE="0")
    assert done.returncode == 1 and "—" in done.stdout


@pytest.mark.parametrize("more", [{}, {"PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}])
def test_names_are_utf8_whatever_the_locale(graders, folder, tmp_path, more):
    for learner in ("Ana Pérez", "Li, Wei"):
        (folder / learner / "tiny-01.ipynb").write_text("no notebook")
    page = tmp_path / "pages" / "page.html"
    done = graders("grade", folder, "--out", tmp_path / "out", "--html", page, LC_ALL="C", **more)
    assert done.returncode == 0 and "Ana Pérez" in done.stdout, done.stderr
    for report in (tmp_path / "out" / "results.json", tmp_path / "out" / "results.csv", tmp_path / "out" / "junit.xml", page):
        assert "Ana Pérez" in report.read_text(encoding="utf-8"), report
    assert not (tmp_path / "out" / "report.html").exists()


@pytest.mark.skipif(os.name == "nt" or sys.platform == "darwin", reason="Windows and macOS know no file names that are not Unicode")
def test_names_that_are_no_text_at_all(graders, folder, tmp_path):
    for learner in ("Ana Pérez", "Li, Wei"):
        (folder / learner / "tiny-01.ipynb").unlink()
    strange = os.fsencode(folder) + b"/\xff\x1b[2J\xe2\x80\xae=1"
    os.mkdir(strange)
    with open(strange + b"/tiny-01.ipynb", "w") as file:
        file.write("no notebook")
    for _ in range(2):
        done = graders("grade", folder, "--out", tmp_path / "out", "--seed", 3)
        assert done.returncode == 0 and "\x1b" not in done.stdout and "\u202e" not in done.stdout, done.stderr
    rows = json.loads((tmp_path / "out" / "results.json").read_text(encoding="utf-8"))["submissions"]
    assert "\udcff\x1b[2J\u202e=1" in [one["learner"] for one in rows]
    for name in ("results.csv", "junit.xml", "report.html", "results.json"):
        text = (tmp_path / "out" / name).read_text(encoding="utf-8")
        assert "\x1b" not in text and "\u202e" not in text, name


def test_help_teaches(graders):
    assert "Exit code: 0 all exercises pass" in graders("check", "--help").stdout
    assert "results.json" in graders("grade", "--help").stdout
