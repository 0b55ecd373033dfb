"""Find the submissions of a class: one folder a learner, notebooks or scripts in it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from course.catalogue import Catalogue
from graders.submission import Unreadable, read

SUFFIXES = (".ipynb", ".py")
_DEEPEST = 8
_IGNORED = frozenset({"__pycache__", ".ipynb_checkpoints", ".git", "node_modules"})


@dataclass(frozen=True)
class Found:
    """What a learner has for a lesson.

    Attributes:
        learner: the name of the folder, exactly.
        lesson: the lesson's id.
        files: no file: nothing was handed in; more than one: it is not clear which one counts.
    """

    learner: str
    lesson: str
    files: tuple[Path, ...]


@dataclass(frozen=True)
class Class:
    """A class folder, searched.

    Attributes:
        folder: the folder.
        lessons: the lessons that somebody handed in, or that were asked for, in the order of study.
        found: one entry for every learner and every one of these lessons.
        unknown: files that could not be told to be of any lesson.
        unreadable: folders that the grader may not look into.
    """

    folder: Path
    lessons: tuple[str, ...]
    found: tuple[Found, ...]
    unknown: tuple[Path, ...]
    unreadable: tuple[Path, ...] = ()


def search(folder: Path, catalogue: Catalogue, wanted: tuple[str, ...] = ()) -> Class:
    """Search a class folder. Nothing in it is changed or followed out of it.

    Args:
        folder: one folder a learner. A file directly in it is a submission of a learner of that name.
        catalogue: the lessons that there are.
        wanted: only these lessons. With exactly one, a file whose name says nothing is taken to be of it.
    """
    ids = [unit.id for unit in catalogue.units if not wanted or unit.id in wanted]
    learners: dict[str, list[Path]] = {}
    unreadable: list[Path] = []
    for entry in sorted(folder.iterdir(), key=lambda path: (_natural(path.name), path.name)):
        if entry.name.startswith(".") or entry.name in _IGNORED:
            continue
        if entry.is_dir() and not entry.is_symlink() and entry.suffix.lower() not in SUFFIXES:
            try:
                learners[entry.name] = list(_files(entry, 1))
            except PermissionError:
                learners[entry.name] = []
                unreadable.append(entry)
        elif entry.suffix.lower() in SUFFIXES:
            learners.setdefault(entry.stem, []).append(entry)
    by: dict[tuple[str, str], list[Path]] = {}
    unsure: list[tuple[str, Path]] = []
    for learner, files in learners.items():
        for file in files:
            lesson = unit_of(file, folder, catalogue)
            if lesson in ids:
                by.setdefault((learner, lesson), []).append(file)
            elif not lesson:
                unsure.append((learner, file))
    lessons = [one for one in ids if wanted or any(lesson == one for _, lesson in by)]
    unknown: list[Path] = []
    known = set(by)
    for learner, file in unsure:
        if len(lessons) == 1 and file.suffix.lower() == ".ipynb" and (learner, lessons[0]) not in known:
            by.setdefault((learner, lessons[0]), []).append(file)
        else:
            unknown.append(file)
    found = tuple(Found(learner, lesson, tuple(by.get((learner, lesson), ()))) for learner in learners for lesson in lessons)
    return Class(folder, tuple(lessons), found, tuple(unknown), tuple(unreadable))


def unit_of(file: Path, folder: Path, catalogue: Catalogue) -> str:
    """Which lesson or project a file of a class folder is of. Empty if nothing tells.

    Its name tells first, then what it says itself, then a folder named like a project, then the name of a module that only
    one project asks for.
    """
    ids = [unit.id for unit in catalogue.units]
    named = [one for one in ids if re.search(rf"(?<![a-z0-9]){re.escape(one)}(?![0-9])", file.name, re.IGNORECASE)]
    if len(named) == 1:
        return named[0]
    try:
        claimed = read(file).lesson
    except (Unreadable, OSError):
        claimed = ""
    if claimed in ids:
        return claimed
    asking = [project.id for project in catalogue.projects if project.meta.module == file.name]
    inside = [one for one in asking if one in file.relative_to(folder).parts]
    return next(iter(inside or asking), "") if len(inside or asking) == 1 else ""


def _files(folder: Path, depth: int) -> list[Path]:
    found: list[Path] = []
    for entry in sorted(folder.iterdir(), key=lambda path: (_natural(path.name), path.name)):
        if entry.name.startswith(".") or entry.name in _IGNORED:
            continue
        if entry.suffix.lower() in SUFFIXES:
            found.append(entry)  # also where it is a folder or a FIFO of that name: the reader says so
        elif entry.is_dir() and not entry.is_symlink() and depth < _DEEPEST:
            found += _files(entry, depth + 1)
    return found


def _natural(name: str) -> list[tuple[int, int, str]]:
    """Numbers in names sort as numbers: 9 before 10."""
    parts = re.split(r"(\d+)", name.casefold())
    return [(0, int(part), "") if part.isdecimal() and part.isascii() else (1, 0, part) for part in parts if part]
