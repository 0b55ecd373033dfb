"""Judge a class: every submission of every learner, several at a time. One broken submission never stops the rest."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

from course.catalogue import Catalogue
from course.errors import CourseError
from graders.check import Desk, Settings, check
from graders.collect import Class, Found
from graders.verdict import Reason, SubmissionResult, Verdict, not_judged

Done = Callable[[SubmissionResult], None]
Desks = dict[str, Desk | CourseError]


def open_desks(catalogue: Catalogue, found: Class, settings: Settings) -> Desks:
    """A desk for each lesson of a class, or what is wrong with the lesson or its receipt."""
    desks: Desks = {}
    for lesson in found.lessons:
        try:
            desks[lesson] = Desk(catalogue.unit(lesson), settings)
        except CourseError as error:
            desks[lesson] = error
    return desks


async def grade(catalogue: Catalogue, found: Class, desks: Desks, jobs: int, done: Done) -> list[SubmissionResult]:
    """Judge a class.

    Args:
        catalogue: the course.
        found: what was handed in.
        desks: of each of its lessons.
        jobs: how many submissions are run at the same time.
        done: called with each result as it comes, in the order in which they are finished.

    Returns:
        The results in the order of the class. When the run is interrupted, ``done`` has been called for what was
        finished until then.
    """
    places = asyncio.Semaphore(jobs)

    async def one(entry: Found) -> SubmissionResult:
        if not entry.files:
            result = await _one(catalogue, found, desks[entry.lesson], entry)
        else:
            async with places:
                result = await _one(catalogue, found, desks[entry.lesson], entry)
        done(result)
        return result

    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(one(entry)) for entry in found.found]
    finally:
        for desk in desks.values():
            if isinstance(desk, Desk):
                await desk.close()
    return [task.result() for task in tasks]


async def _one(catalogue: Catalogue, found: Class, desk: Desk | CourseError, entry: Found) -> SubmissionResult:
    files = entry.files
    shown = _shown(files[0], found.folder) if files else ""
    refusal: tuple[Verdict, Reason, str] | None = None
    if isinstance(desk, CourseError):
        refusal = (Verdict.ERROR, Reason.INTERNAL, str(desk.problems[0]))
    elif len(files) > 1:
        names = ", ".join(_shown(file, found.folder) for file in files)
        refusal = (Verdict.SKIP, Reason.REFUSED, f"{len(files)} files for one lesson, and nothing says which counts: {names}")
    elif not files and found.folder / entry.learner in found.unreadable:
        refusal = (Verdict.ERROR, Reason.INTERNAL, f"permission denied: the grader may not look into {entry.learner}")
    elif not files and (strange := [file for file in found.unknown if file.is_relative_to(found.folder / entry.learner)]):
        names = ", ".join(_shown(file, found.folder) for file in strange)
        refusal = (Verdict.UNSOLVED, Reason.NO_ANSWER, f"no file that is known to be of this lesson; left out: {names}")
    if refusal or isinstance(desk, CourseError):
        worth = tuple((exercise.id, exercise.points) for exercise in catalogue.unit(entry.lesson).meta.exercises)
        exercises = not_judged(worth, *(refusal or (Verdict.ERROR, Reason.INTERNAL, "")))
        return SubmissionResult(learner=entry.learner, lesson=entry.lesson, file=shown, sha256="", exercises=exercises)
    return await check(desk, entry.learner, files[0] if files else None, shown)


def _shown(file: Path, folder: Path) -> str:
    return file.relative_to(folder).as_posix()
