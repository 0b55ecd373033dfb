"""The course of the cases, and the classes that are graded once for all tests."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from tests.faults import grading
from tests.faults.cells import Folder
from tests.faults.table import CASES, rows

FIXTURE = grading.ROOT / "tests" / "fixtures" / "ragged"


@pytest.fixture(scope="session")
def ragged(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the course, with its receipts."""
    target = tmp_path_factory.mktemp("ragged") / "course"
    shutil.copytree(FIXTURE, target, ignore=shutil.ignore_patterns(".cache", "reports"))
    cache = grading.ROOT / ".cache"
    if os.name == "posix" and cache.is_dir():
        (target / ".cache").symlink_to(cache)  # the list of fonts takes seconds to make
    return target


def made(where: str, into: Folder) -> None:
    """Put the submissions of one run into a class folder, and no others."""
    wanted = rows(where)
    for case in dict.fromkeys(row.case for row in wanted):
        CASES[case](into)
    keep = {row.learner for row in wanted}
    for entry in list(into.root.iterdir()):
        if entry.name not in keep:
            shutil.rmtree(entry)


def graded(where: str, course: Path, base: Path, *words: str, lesson: str = "ragged-01") -> grading.Graded:
    into = Folder(base / "class", lesson)
    made(where, into)
    return grading.grade(course, into.root, base / "out", *words, lesson=lesson)


@pytest.fixture(scope="session")
def of_class(ragged: Path, tmp_path_factory: pytest.TempPathFactory) -> grading.Graded:
    return graded("class", ragged, tmp_path_factory.mktemp("fast"), "--jobs", "4", "--cell-seconds", "4")


@pytest.fixture(scope="session")
def of_slow(ragged: Path, tmp_path_factory: pytest.TempPathFactory) -> grading.Graded:
    return graded("slow", ragged, tmp_path_factory.mktemp("slow"), "--jobs", "2", "--cell-seconds", "6")


@pytest.fixture(scope="session")
def of_run(ragged: Path, tmp_path_factory: pytest.TempPathFactory) -> grading.Graded:
    words = ("--jobs", "2", "--total-seconds", "150", "--cell-seconds", "60")
    return graded("run", ragged, tmp_path_factory.mktemp("run"), *words, lesson="ragged-02")
