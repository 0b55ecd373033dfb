"""One real grading run of a class folder, and everything that is to be looked at afterwards."""

from __future__ import annotations

import csv
import hashlib
import io
import json
import os
import shutil
import stat
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ET
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Graded:
    """What came of a run.

    Attributes:
        code, out, err: of the process.
        results: `results.json`, or empty.
        folder: of the reports.
        before, after: fingerprints of the class folder.
        left: what was left behind: files in the temporary folder, processes, sockets.
    """

    code: int
    out: str
    err: str
    results: dict[str, Any]
    folder: Path
    before: dict[str, str]
    after: dict[str, str]
    left: list[str]

    def row(self, learner: str) -> dict[str, Any]:
        """The one result of a learner."""
        (found,) = [one for one in self.results["submissions"] if one["learner"] == learner]
        return dict(found)

    def csv_rows(self) -> list[dict[str, str]]:
        """The rows of the CSV report."""
        return list(csv.DictReader(io.StringIO((self.folder / "results.csv").read_text(encoding="utf-8"), newline="")))

    def suites(self) -> list[ET.Element]:
        """The suites of the JUnit report."""
        return list(ET.fromstring((self.folder / "junit.xml").read_bytes()))


def run(course: Path, *words: str | Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a command of the grader in a course."""
    env = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONUTF8": "1", **environment}
    return subprocess.run(
        [sys.executable, "-m", "graders", *map(str, words)], cwd=course, env=env, capture_output=True, text=True,
        encoding="utf-8", errors="replace", check=False, stdin=subprocess.DEVNULL,
    )  # fmt: skip


def grade(course: Path, folder: Path, out: Path, *words: str, lesson: str = "ragged-01") -> Graded:
    """Grade a class and look at what is there afterwards."""
    before = fingerprint(folder)
    # Short, because the path of a socket is; and of its own, so that whatever is left in it is this run's.
    own = Path(tempfile.mkdtemp(prefix="f-"))
    try:
        done = run(course, "grade", folder, "--lesson", lesson, "--out", out, "--seed", "5", *words, TMPDIR=str(own))
        left = leftovers(own)
    finally:
        shutil.rmtree(own, ignore_errors=True)
    report = out / "results.json"
    results = json.loads(report.read_text(encoding="utf-8")) if report.is_file() else {}
    return Graded(done.returncode, done.stdout, done.stderr, results, out, before, fingerprint(folder), left)


def fingerprint(folder: Path) -> dict[str, str]:
    """Every entry below a folder, with the digest of what is a file."""
    found = {}
    for path in sorted(folder.rglob("*")):
        kind = path.lstat().st_mode
        plain = stat.S_ISREG(kind) and os.access(path, os.R_OK)
        found[path.relative_to(folder).as_posix()] = hashlib.sha256(path.read_bytes()).hexdigest() if plain else oct(kind)
    return found


def leftovers(own: Path) -> list[str]:
    """What is left in a temporary folder, or of the processes and sockets that were made below it."""
    left = [f"file {path}" for path in own.rglob("*")]
    for process in psutil.process_iter():
        try:
            if process.pid != os.getpid() and process.environ().get("TMPDIR", "").startswith(str(own)):
                left.append(f"process {process.pid} {process.cmdline()}")
        except (psutil.Error, OSError):
            continue
    sockets = Path("/proc/net/unix")
    if sockets.is_file():
        left += [f"socket {line.split()[-1]}" for line in sockets.read_text().splitlines() if str(own) in line]
    return left
