"""A grader that is killed, interrupted, doubled, cut off or out of room: no verdict is lost, doubled or changed.

The grader runs as people run it: a process of its own, ended by a real signal. `-m endurance` is the long version.
"""

import contextlib
import json
import os
import random
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import textwrap
import time
import xml.etree.ElementTree as ET
from pathlib import Path

import nbformat
import psutil
import pytest

from graders import owner
from graders.orphans import sweep
from tests.conftest import notebook, reference_answers

SEED = 11
REPORTS = ("results.json", "results.csv", "junit.xml", "report.html")
posix = pytest.mark.skipif(os.name == "nt", reason="Windows ends processes in another way: there are no signals to send")


@pytest.fixture
def folder(tiny, tmp_path):
    """A class in which there is something of each kind: right, wrong, broken, nothing."""
    made = tmp_path / "class"
    wrong = {**reference_answers(tiny), "double": tiny.cell("double").source + "\nmean = sum(numbers) / N"}
    for name, answers in (("Ana", reference_answers(tiny)), ("Li, Wei", wrong), ("Zoë", reference_answers(tiny))):
        (made / name).mkdir(parents=True)
        nbformat.write(notebook(tiny, answers), made / name / "tiny-01.ipynb")
    (made / "Kim").mkdir()
    (made / "Bad").mkdir()
    (made / "Bad" / "tiny-01.ipynb").write_text("no notebook")
    return made


class Grader:
    """Starts `python -m graders grade` on the class, with a temporary folder of its own."""

    def __init__(self, root, course, folder, temporary):
        self.root, self.course, self.folder = root, course, folder
        self.temporary = temporary

    def start(self, out, *words, **more):
        env = {**os.environ, "PYTHONPATH": str(self.root), "TMPDIR": str(self.temporary), "COLUMNS": "200"}
        command = [sys.executable, "-m", "graders", "grade", str(self.folder), "--out", str(out), *map(str, words)]
        return subprocess.Popen(
            command, cwd=self.course, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            text=True, encoding="utf-8", **more,
        )  # fmt: skip

    def run(self, out, *words, **more):
        process = self.start(out, *words, **more)
        output, errors = process.communicate(timeout=300)
        return subprocess.CompletedProcess(process.args, process.returncode, output, errors)

    def left(self):
        """What is left of scratch folders, and processes that live in them."""
        found = list(self.temporary.iterdir())
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                found += [process] if process.environ().get("HOME", "").startswith(str(self.temporary)) else []
        return found


@pytest.fixture
def temporary():
    """A temporary folder with a short path: in a longer one scratch folders would lie elsewhere, and none would be seen."""
    with tempfile.TemporaryDirectory(prefix="t-") as made:
        yield Path(made).resolve()


@pytest.fixture
def grader(root, tiny_copy, folder, temporary):
    return Grader(root, tiny_copy, folder, temporary)


@pytest.fixture
def without_kernels(grader):
    """The same with nothing in the class that needs a kernel, for what has to do with files alone."""
    for name in ("Ana", "Li, Wei", "Zoë"):
        shutil.rmtree(grader.folder / name)
    for name in ("Worse", "Worst"):
        shutil.copytree(grader.folder / "Bad", grader.folder / name)
    return grader


def plain(out):
    """The reports without what is allowed to differ between two runs: times."""
    data = json.loads((out / "results.json").read_text(encoding="utf-8"))
    del data["started"], data["finished"]
    for one in data["submissions"]:
        del one["seconds"]
    suites = ET.parse(out / "junit.xml").getroot()
    for suite in suites:
        del suite.attrib["time"]
    page = (out / "report.html").read_text(encoding="utf-8")
    page = re.sub(r"\d\d\d\d-\d\d-\d\d \d\d:\d\d:\d\d|[0-9.e-]+ s</p>", "", page)
    return data, (out / "results.csv").read_bytes(), ET.tostring(suites), page


def rows(out):
    """What the store holds: (run, learner, lesson) to when it was kept and what."""
    path = out / "results.sqlite"
    if not path.exists():
        return {}
    base = sqlite3.connect(path)
    try:
        if not base.execute("SELECT name FROM sqlite_master WHERE name = 'result'").fetchone():
            return {}
        assert base.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        return {row[:3]: row[3:] for row in base.execute("SELECT run, learner, lesson, kept, result FROM result")}
    finally:
        base.close()


def finished(out):
    """Whether the run in the store is complete."""
    if not (out / "results.sqlite").exists():
        return False
    base = sqlite3.connect(out / "results.sqlite")
    try:
        tables = base.execute("SELECT name FROM sqlite_master WHERE name = 'run'").fetchall()
        return bool(tables) and base.execute("SELECT state FROM run").fetchall() == [("finished",)]
    finally:
        base.close()


def tear(grader, out, kills, chance, span):
    """Start the grader and kill it, again and again, until the class is graded or that many kills are used up.

    Half of the moments lie anywhere in the life of the grader, half soon after it has told its first verdict: without those
    it would never come further than to its imports.

    Returns:
        How often it was killed.
    """
    killed, before = 0, {}
    while True:
        process, first = grader.start(out, "--seed", SEED), ""
        if killed < kills:
            if chance.random() < 0.5:
                wait = chance.uniform(0, span)
            else:
                first = process.stdout.readline()
                wait = chance.uniform(0, span / 3)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(wait)
        done = killed >= kills or process.poll() is not None
        if not done:
            process.kill()
        output, errors = process.communicate(timeout=300)
        now = rows(out)
        assert before.items() <= now.items(), "a result was lost or changed, or graded again"
        for name in REPORTS[:1]:
            if (out / name).exists():
                json.loads((out / name).read_text(encoding="utf-8"))
        if done:
            assert process.returncode == 0, errors
            assert "going on" in first + output or not before
            return killed
        assert process.returncode == -signal.SIGKILL
        killed, before = killed + 1, now
        if finished(out):
            return killed  # it was killed when all was done; the next start would be a new run


@posix
@pytest.mark.parametrize("kills", [5, pytest.param(100, marks=pytest.mark.endurance)])
def test_killed_at_any_moment_and_started_again_it_says_the_same(grader, tmp_path, kills):
    began = time.monotonic()
    done = grader.run(tmp_path / "undisturbed", "--seed", SEED)
    span = time.monotonic() - began
    assert done.returncode == 0, done.stderr
    expected = plain(tmp_path / "undisturbed")
    chance = random.Random(kills)
    total, number = 0, 0
    while total < kills:
        out = tmp_path / f"out{number}"
        # A few kills for each class: then it is let to its end.
        total += tear(grader, out, min(kills - total, 10), chance, span)
        number += 1
        assert plain(out) == expected
        assert len(rows(out)) == 4, "one result for each file"
        assert sorted(one.name for one in out.iterdir()) == sorted([*REPORTS, "results.sqlite"])
    # What the last killed grader has left is cleaned by the next start, also where nothing is left to run.
    assert grader.left() == []


@posix
def test_what_is_stored_is_not_run_again_and_the_start_says_so(grader, tiny, tmp_path):
    slow = {**reference_answers(tiny), "double": "import time\ntime.sleep(600)"}
    (grader.folder / "Slow").mkdir()
    file = grader.folder / "Slow" / "tiny-01.ipynb"
    nbformat.write(notebook(tiny, slow), file)
    limits = ("--cell-seconds", 500, "--total-seconds", 600)
    process = grader.start(tmp_path / "out", *limits)
    while len(rows(tmp_path / "out")) < 4:
        assert process.poll() is None
        time.sleep(0.2)
    process.kill()
    process.communicate()
    before = rows(tmp_path / "out")
    assert not (tmp_path / "out" / "results.json").exists()
    nbformat.write(notebook(tiny, reference_answers(tiny)), file)
    done = grader.run(tmp_path / "out", *limits)
    assert done.returncode == 0, done.stderr
    assert "going on: 4 of 5 submissions were graded before" in done.stdout.splitlines()
    assert "a grader that was killed had left 1 scratch folder" in done.stderr
    after = rows(tmp_path / "out")
    assert before.items() <= after.items() and len(after) == 5 and len({run for run, *_ in after}) == 1
    results = json.loads((tmp_path / "out" / "results.json").read_text(encoding="utf-8"))
    assert results["complete"] is True
    seconds = {one["learner"]: one["seconds"] for one in results["submissions"]}
    kept = {json.loads(row[1])["learner"]: json.loads(row[1])["seconds"] for row in before.values()}
    assert kept.items() <= seconds.items(), "the results are those of before, to the times"
    assert grader.left() == []
    # Finished: the next one is another, in which what was judged stands, and draws afresh for what is new.
    shutil.copytree(grader.folder / "Ana", grader.folder / "New")
    new = grader.folder / "New" / "tiny-01.ipynb"
    new.write_bytes(new.read_bytes() + b"\n")
    again = grader.run(tmp_path / "out", *limits)
    assert "going on" not in again.stdout and "unchanged: 5 of 6 submissions" in again.stdout
    later = json.loads((tmp_path / "out" / "results.json").read_text(encoding="utf-8"))
    assert later["seed"] != results["seed"]
    assert [one for one in later["submissions"] if one["learner"] != "New"] == results["submissions"]
    assert {one["seed"] for one in later["submissions"] if one["file"]} == {results["seed"], later["seed"]}


def test_an_unfinished_run_and_another_seed(without_kernels, tmp_path):
    grader, out = without_kernels, tmp_path / "out"
    broken = grader.course / "phases/01-tiny/01-double/receipt.json"
    whole = broken.read_bytes()
    try:
        broken.write_text("{")
        done = grader.run(out, "--seed", 5)
    finally:
        broken.write_bytes(whole)
    assert done.returncode == 3 and "tries only these again" in done.stdout
    assert rows(out) == {}, "an ERROR is no result"
    refused = grader.run(out, "--seed", 6)
    assert refused.returncode == 2 and "seed 5 is not finished" in refused.stderr and "--fresh" in refused.stderr
    gone_on = grader.run(out)
    assert gone_on.returncode == 0 and "going on: 0 of 3 submissions" in gone_on.stdout and "draws by seed 5" in gone_on.stdout
    fresh = grader.run(out, "--seed", 6, "--fresh")
    assert fresh.returncode == 0 and "going on" not in fresh.stdout and "draws by seed 6" in fresh.stdout


def test_two_graders_at_once_do_not_spoil_each_others_results(grader, tmp_path):
    out = tmp_path / "out"
    both = [grader.start(out, "--seed", seed) for seed in (21, 22)]
    said = [process.communicate(timeout=300) for process in both]
    assert [process.returncode for process in both] == [0, 0], said
    assert sum("another grader" in output for output, _ in said) == 1
    kept = rows(out)
    assert len(kept) == 8 and len({run for run, *_ in kept}) == 2
    base = sqlite3.connect(out / "results.sqlite")
    assert sorted(base.execute("SELECT seed, state FROM run")) == [(21, "finished"), (22, "finished")]
    base.close()
    data = plain(out)[0]
    assert data["seed"] in {21, 22}
    for number, (output, _) in enumerate(said):
        assert f"draws by seed {21 + number}" in output and output.count("PASS ") == 5
    # All reports are of one run.
    other = {21: "draw 22", 22: "draw 21"}[data["seed"]]
    assert other not in json.dumps(data) + (out / "report.html").read_text(encoding="utf-8")
    assert grader.left() == []


def test_only_what_belongs_to_dead_graders_is_swept(temporary, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(temporary))
    child = subprocess.Popen([sys.executable, "-c", "print(1, flush=True); input()"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    child.stdout.readline()
    named = owner._named(child.pid)
    child.communicate(b"\n")
    dead, living = temporary / f"ts-{named}-x", temporary / f"ts-{owner.me()}-x"
    others = [temporary / name for name in ("ts-x", "ts-", "notes", f"ts-beef-{named.pid}-{named.birth}-x")]
    for one in (dead, living, *others):
        one.mkdir()
    (dead / "h").mkdir()
    sleeping = [
        subprocess.Popen(
            [sys.executable, "-c", "import time; time.sleep(600)"], env={**os.environ, "HOME": str(one / "h")}, cwd=one
        )
        for one in (dead, living, others[0])
    ]
    try:
        (temporary / f"ts-{named}-file").write_text("not a folder")
        swept = sweep(temporary / "no cache")
        assert (swept.folders, swept.processes) == (1, 1) and str(swept) == "1 scratch folder and 1 process"
        sleeping[0].wait(10)
        assert [one.poll() for one in sleeping[1:]] == [None, None]
        assert not dead.exists() and living.exists() and all(one.exists() for one in others)
    finally:
        for one in sleeping:
            one.kill()
            one.wait()


@posix
def test_when_the_reader_of_a_pipe_goes_it_ends_quietly(grader, tmp_path):
    process = grader.start(tmp_path / "out")
    assert process.stdout.readline()
    process.stdout.close()
    errors = process.stderr.read()
    assert process.wait(120) == 141 and errors == ""
    assert grader.left() == []
    # What was graded is kept.
    done = grader.run(tmp_path / "out")
    assert done.returncode == 0 and re.search(r"going on: [1-4] of 4 submissions", done.stdout)


@posix
def test_help_into_a_pipe_that_nobody_reads(root):
    command = f"{sys.executable} -m graders grade --help | true; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", command], cwd=root, capture_output=True, text=True, check=False)
    assert done.returncode in {0, 1, 141} and done.stderr == ""


@posix
@pytest.mark.parametrize("module", ["asyncio", "typer", "course.catalogue", "nbclient", "graders.version"])
def test_ctrl_c_while_the_libraries_are_imported_is_no_traceback(root, module):
    code = f"""
    import os, runpy, signal, sys

    class Press:
        @staticmethod
        def find_spec(name, path=None, target=None):
            if name == {module!r}:
                os.kill(os.getpid(), signal.SIGINT)

    sys.meta_path.insert(0, Press)
    sys.argv = ["graders", "--help"]
    runpy.run_module("graders", run_name="__main__", alter_sys=True)
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], cwd=root, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "interrupted\n")


@posix
def test_a_grader_that_ignores_ctrl_c_goes_on_ignoring_it(root):
    code = "import signal, graders.early as e; signal.signal(signal.SIGINT, signal.SIG_IGN); e.leave_quietly(); print(signal.getsignal(signal.SIGINT) is signal.SIG_IGN)"
    done = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "True"


@posix
# JAX, where another test has imported it, warns of every fork; what is forked here runs another program at once.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_limit_on_the_size_of_files_is_one_message_and_the_older_reports_stay(without_kernels, tmp_path):
    import resource  # not on Windows

    grader, out = without_kernels, tmp_path / "out"
    assert grader.run(out, "--seed", 5).returncode == 0
    before = {name: (out / name).read_bytes() for name in REPORTS}

    def little():
        resource.setrlimit(resource.RLIMIT_FSIZE, (2_000, 2_000))

    done = grader.run(out, "--seed", 6, preexec_fn=little)
    assert done.returncode == 3 and len(done.stderr.splitlines()) == 1 and "results.sqlite" in done.stderr, done.stderr
    assert {name: (out / name).read_bytes() for name in REPORTS} == before


_FULL = """
set -eu
mount -t tmpfs -o size=400k none "$OUT"
grade() { (cd "$COURSE" && "$PYTHON" -m graders grade "$CLASS" --out "$OUT" --seed "$1"); }
grade 5 > first.txt
mkdir before && cp "$OUT"/* before
# Full to the last byte.
dd if=/dev/zero of="$OUT"/filler bs=1k count=1000 2>/dev/null || true
code=0
grade 6 > second.txt 2> errors.txt || code=$?
echo "$code" > code.txt
for report in results.json results.csv junit.xml report.html; do cmp "$OUT/$report" "before/$report"; done
rm "$OUT"/filler
grade 6 > third.txt
cp "$OUT"/results.json third.json
ls -A "$OUT" > listing.txt
"""


def may_mount():
    if not shutil.which("unshare"):
        return False
    return (
        subprocess.run(["unshare", "-rm", "mount", "-t", "tmpfs", "none", "/mnt"], capture_output=True, check=False).returncode == 0
    )


@posix
@pytest.mark.skipif(not may_mount(), reason="a small disk needs a mount namespace, which this system does not allow")
def test_a_full_disk_is_one_message_and_the_older_reports_stay(without_kernels, tmp_path):
    grader, out, here = without_kernels, tmp_path / "out", tmp_path / "here"
    out.mkdir()
    here.mkdir()
    script = tmp_path / "full.sh"
    script.write_text(_FULL)
    env = {
        **os.environ, "PYTHONPATH": str(grader.root), "TMPDIR": str(grader.temporary), "PYTHON": sys.executable,
        "CLASS": str(grader.folder), "OUT": str(out), "COURSE": str(grader.course),
    }  # fmt: skip
    done = subprocess.run(["unshare", "-rm", "bash", str(script)], cwd=here, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    errors = (here / "errors.txt").read_text(encoding="utf-8")
    assert (here / "code.txt").read_text().strip() == "3"
    assert len(errors.splitlines()) == 1 and "full" in errors and "make room" in errors.lower(), errors
    assert json.loads((here / "third.json").read_text(encoding="utf-8"))["seed"] == 6
    assert sorted((here / "listing.txt").read_text().split()) == sorted([*REPORTS, "results.sqlite"])
    assert Path(grader.temporary).exists() and grader.left() == []
