"""Judge a class: every submission of every learner, several at a time. One broken submission never stops the rest."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import stat
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from course.catalogue import Catalogue, Lesson, Project, Unit
from course.errors import CourseError
from graders.check import Desk, Settings, check
from graders.collect import Class, Found
from graders.store import Asked, Run, Store, Terms, terms_text
from graders.verdict import Reason, SubmissionResult, Verdict, not_judged

Done = Callable[[SubmissionResult], None]
Judge = Callable[[Desk, str, Path | None, str], Awaitable[SubmissionResult]]
Desks = dict[str, Desk | CourseError]
PATIENCE = 10.0  # seconds; most submissions take less
_LARGEST = 64_000_000  # bytes; a larger file is not run, so that there is nothing to remember of it


def open_desks(catalogue: Catalogue, found: Class, settings: Settings) -> Desks:
    """A desk for each lesson of a class, or what is wrong with the lesson or its receipt."""
    desks: Desks = {}
    for lesson in found.lessons:
        try:
            desks[lesson] = Desk(catalogue.unit(lesson), settings)
        except CourseError as error:
            desks[lesson] = error
    return desks


@dataclass(frozen=True)
class Ledger:
    """Where a run keeps its results, and what it has from before it was interrupted.

    Attributes:
        store: the store.
        run: the run.
        terms: lesson to the terms of this run.
        known: (learner, lesson) to a result that is not judged again.
        taken: how many of these are of earlier runs.
        changed: how many results of this run were judged under other terms, or of other bytes, and are judged again.
    """

    store: Store
    run: Run
    terms: Mapping[str, Terms]
    known: Mapping[tuple[str, str], SubmissionResult] = field(default_factory=dict)
    taken: int = 0
    changed: int = 0


def open_ledger(store: Store, run: Run, found: Class, terms: Mapping[str, Terms]) -> Ledger:
    """The ledger of a run, with what it has of this class so far.

    Args:
        store: the open store.
        run: begun in it.
        found: the class as it is now.
        terms: lesson to the terms of this run.

    Raises:
        StoreFailed: if the store cannot be read.
    """
    before = store.results(run) if run.goes_on else {}
    known: dict[tuple[str, str], SubmissionResult] = {}
    asked: list[Asked] = []
    changed = 0
    for entry in found.found:
        if len(entry.files) != 1:
            continue
        file, shown = entry.files[0], _shown(entry.files[0], found.folder)
        sha256 = fingerprint(file)
        now = Asked(entry.learner, entry.lesson, shown, sha256, terms[entry.lesson])
        kept = before.get((entry.learner, entry.lesson))
        if kept is not None and (kept.sha256, kept.result.file, kept.terms) == (sha256, shown, now.terms) and sha256:
            known[entry.learner, entry.lesson] = kept.result
            continue
        changed += kept is not None
        if sha256:
            asked.append(now)
    taken = store.take_over(run, asked)
    return Ledger(store, run, terms, known | taken, len(taken), changed)


def open_terms(
    catalogue: Catalogue, desks: Desks, settings: Settings, *, grader: str, environment: str, isolation: tuple[str, ...]
) -> dict[str, Terms]:
    """Lesson to the terms under which its submissions are judged.

    Args:
        catalogue: the course.
        desks: of the lessons of the class.
        settings: of the run.
        grader: digest of the grader's sources.
        environment: digest of the environment.
        isolation: what keeps the learner's code apart.
    """
    found: dict[str, Terms] = {}
    for name, desk in desks.items():
        lesson = catalogue.unit(name)
        found[name] = Terms(
            lesson_digest=_asked(lesson), receipt_digest=desk.receipt_digest if isinstance(desk, Desk) else "", grader=grader,
            environment=environment, limits=terms_text(settings.limits(lesson).model_dump(mode="json")), isolation=terms_text(isolation),
        )  # fmt: skip
    return found


def _asked(unit: Unit) -> str:
    """SHA-256 of what a verdict and its points depend on in a lesson: more than what a run of its reference does."""
    asked = [one.model_dump(mode="json", include={"id", "points", "needs", "mistakes"}) for one in unit.meta.exercises]
    handed_out = {name: one.source for name, one in unit.scaffolds.items()} if isinstance(unit, Lesson) else {}
    if isinstance(unit, Project):
        handed_out = {unit.meta.module: unit.starter.source}
    parts = [unit.digest, [[cell.id, cell.title] for cell in unit.cells], asked, handed_out]
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def fingerprint(file: Path) -> str:
    """SHA-256 of a submitted file's bytes; empty for what is no ordinary file, is too large, or cannot be read."""
    # Of a file in a zip that of the archive: it is what was handed in.
    file = next((one for one in file.parents if one.suffix.lower() == ".zip" and one.is_file()), file)
    try:
        # Looked at first: to open a FIFO would wait for ever.
        about = file.lstat()
        if not stat.S_ISREG(about.st_mode) or about.st_size > _LARGEST:
            return ""
        # And not waited for if it has become one since.
        with os.fdopen(os.open(file, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)), "rb") as opened:
            return hashlib.file_digest(opened, "sha256").hexdigest()
    except OSError:
        return ""


class Places:
    """Places for submissions that are run at the same time.

    What takes long moves aside after a while and gives its place to the next one, so that a few endless loops do not hold up a
    class. It goes on beside; as many may be aside as there are places. Where there is one place, it is one at a time.
    """

    def __init__(self, number: int, patience: float = PATIENCE) -> None:
        """Args: number: of places. patience: seconds after which one moves aside."""
        aside = number if number > 1 else 0
        self._free, self._aside, self._patience = asyncio.Semaphore(number), asyncio.Semaphore(aside), patience

    @asynccontextmanager
    async def one(self) -> AsyncIterator[None]:
        """A place, waited for in the order of asking."""
        await self._free.acquire()
        held = self._free

        async def move() -> None:
            nonlocal held
            await asyncio.sleep(self._patience)
            await self._aside.acquire()
            held = self._aside
            self._free.release()

        moving = asyncio.ensure_future(move())
        try:
            yield
        finally:
            moving.cancel()
            held.release()


async def grade(
    catalogue: Catalogue,
    found: Class,
    desks: Desks,
    jobs: int,
    done: Done,
    ledger: Ledger | None = None,
    judge: Judge | None = None,
) -> None:
    """Judge a class.

    Args:
        catalogue: the course.
        found: what was handed in.
        desks: of each of its lessons.
        jobs: how many submissions are run at the same time.
        done: called with each result as it comes, in the order in which they are finished. By then it is kept, and it is kept
            nowhere else: those of a big class are many.
        ledger: keeps the results, and has those that need not be judged again.
        judge: judges one submission elsewhere; :func:`graders.check.check` does if absent.

    Raises:
        StoreFailed: if a result cannot be kept. What was kept until then stays.
        Exception: what ``done`` raises.
    """
    places = Places(jobs)
    known = ledger.known if ledger is not None else {}
    # Lesson by lesson: the libraries of a few lessons at a time are held in memory.
    turns = sorted(found.found, key=lambda entry: found.lessons.index(entry.lesson))
    waiting = [entry.lesson for entry in turns if entry.files and (entry.learner, entry.lesson) not in known]

    async def one(entry: Found) -> None:
        desk = desks[entry.lesson]
        if not entry.files:
            result = await _one(catalogue, found, desk, entry, judge)
        else:
            async with places.one():
                waiting.remove(entry.lesson)
                # What the next ones need is imported, and their kernels are started, while this one runs.
                coming = Counter(waiting[:jobs])
                for lesson in () if judge else dict.fromkeys([entry.lesson, *coming]):
                    if isinstance(ready := desks[lesson], Desk):
                        ready.prepare(coming[lesson])
                result = await _judged(catalogue, found, desk, entry, ledger, judge)
                if entry.lesson not in waiting and isinstance(desk, Desk):
                    await desk.rest()
        done(result)

    # More than have a place, so that the next one is there when one comes free; not one for each submission of a big class.
    room = asyncio.Semaphore(3 * jobs)
    try:
        for entry in turns:
            if (result := known.get((entry.learner, entry.lesson))) is not None:
                done(result)
        async with asyncio.TaskGroup() as group:
            for entry in turns:
                if (entry.learner, entry.lesson) not in known:
                    await room.acquire()
                    group.create_task(one(entry)).add_done_callback(lambda _: room.release())
    except ExceptionGroup as errors:
        # The first is the cause; what came of ending the others says nothing.
        raise errors.exceptions[0] from errors
    finally:
        for desk in desks.values():
            if isinstance(desk, Desk):
                await desk.close()


async def _judged(
    catalogue: Catalogue, found: Class, desk: Desk | CourseError, entry: Found, ledger: Ledger | None, judge: Judge | None
) -> SubmissionResult:
    """Judge what was handed in, and keep the result."""
    if ledger is None:
        return await _one(catalogue, found, desk, entry, judge)
    file = entry.files[0] if len(entry.files) == 1 else None
    # In threads: neither a large file nor a locked store may keep the clocks of the other submissions from being read.
    sha256 = await asyncio.to_thread(fingerprint, file) if file else ""
    result = await _one(catalogue, found, desk, entry, judge)
    if result.verdict is Verdict.ERROR:
        return await asyncio.to_thread(_with_standing, ledger, sha256, result)
    if file and sha256 != await asyncio.to_thread(fingerprint, file):
        sha256 = result.sha256  # the file was changed meanwhile; what was judged is what was read
    return await asyncio.to_thread(ledger.store.keep, ledger.run, sha256, ledger.terms[entry.lesson], result)


def _with_standing(ledger: Ledger, sha256: str, result: SubmissionResult) -> SubmissionResult:
    """An ERROR with a notice of the older result for the same file, which stands."""
    kept = ledger.store.standing(ledger.run, result.learner, result.lesson, sha256) if sha256 else None
    if kept is None:
        return result
    older = kept.result
    points = "" if older.points is None else f", {older.points:g} of {older.out_of:g} points"
    notice = f"an older result for the same file stands: {older.verdict}{points}, graded on {kept.kept:%Y-%m-%d %H:%M} UTC"
    return result.model_copy(update={"notices": (*result.notices, notice)})


async def _one(catalogue: Catalogue, found: Class, desk: Desk | CourseError, entry: Found, judge: Judge | None) -> SubmissionResult:
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
    return await (judge or check)(desk, entry.learner, files[0] if files else None, shown)


def _shown(file: Path, folder: Path) -> str:
    return file.relative_to(folder).as_posix()
