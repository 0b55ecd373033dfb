"""The grading process beside a worker of a cluster: `python -m graders.serve`. Errands come over stdin, answers go to stdout.

What it knows of a course it reads once: it lives as long as one grading run. The reference of a lesson's draws runs once in it.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from course.catalogue import Unit, find_root, survey
from course.errors import CourseError
from graders.batch import Desks, open_terms
from graders.check import Desk, Settings, check, draw_plans
from graders.errand import ALIVE, BEAT_SECONDS, Answer, Errand, differing, parse, read_frame, text, write_frame
from graders.kernels import warm
from graders.kernels.isolation import Mode
from graders.kernels.isolation import survey as survey_isolation
from graders.kernels.sandbox import parent, remove
from graders.kernels.warm import How
from graders.measure import environment
from graders.orphans import sweep
from graders.owner import me
from graders.store import Terms
from graders.verdict import Reason, SubmissionResult, Verdict, not_judged
from graders.version import environment_digest, grader_digest


def draws_text(unit: Unit, seed: int) -> str:
    """The parameters of the draws of a lesson as text: equal ones give the same."""
    return json.dumps([dict(plan.parameters) for plan in draw_plans(unit, seed)], sort_keys=True)


class Bench:
    """Where the submissions of one run are judged.

    Attributes:
        root: the course.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self._catalogue = survey(root)
        self._desks: Desks = {}
        self._terms: dict[str, Terms] = {}

    async def answer(self, errand: Errand, data: bytes) -> Answer:
        """Judge a submission, if that can be done under the terms of the caller."""
        desk, why = self._agreed(errand)
        if desk is None:
            return Answer(kind="refused", why=f"{why} (in {self.root})")
        try:
            with _handed_in(errand.name, data) as file:
                return Answer(kind="judged", result=await check(desk, errand.learner, file, errand.shown))
        except OSError as error:
            worth = tuple((exercise.id, exercise.points) for exercise in desk.exercises)
            failed = not_judged(worth, Verdict.ERROR, Reason.INTERNAL, f"the file cannot be put on the worker's disk: {error}")
            result = SubmissionResult(
                learner=errand.learner, lesson=errand.lesson, file=errand.shown, sha256="", exercises=failed
            )  # fmt: skip
            return Answer(kind="judged", result=result)

    def _agreed(self, errand: Errand) -> tuple[Desk | None, str]:
        """The desk at which an errand is done, or what differs from the caller's."""
        isolation = survey_isolation(Mode(errand.mode))
        settings = Settings(
            errand.seed, self.root / ".cache", errand.cell_seconds, errand.total_seconds, more=dict(errand.more),
            isolation=isolation, how=How(errand.how),
        )  # fmt: skip
        try:
            unit = self._catalogue.unit(errand.lesson)
        except CourseError as error:
            return None, str(error.problems[0])
        if errand.lesson not in self._desks:
            try:
                self._desks[errand.lesson] = Desk(unit, settings)
            except CourseError as error:
                self._desks[errand.lesson] = error
        desk = self._desks[errand.lesson]
        place = environment(tuple(errand.place.packages), devices=False)
        if errand.lesson not in self._terms:
            self._terms |= open_terms(
                self._catalogue, {unit.id: desk}, settings, grader=grader_digest(), environment=environment_digest(self.root, place),
                isolation=isolation.told(),
            )  # fmt: skip
        draws = draws_text(unit, errand.seed)
        if why := differing(errand, self._terms[errand.lesson], place, draws, isolation.missing):
            return None, why
        return (None, str(desk.problems[0])) if isinstance(desk, CourseError) else (desk, "")

    async def close(self) -> None:
        """End the references that nobody waits for any more."""
        for desk in self._desks.values():
            if isinstance(desk, Desk):
                await desk.close()


@contextmanager
def _handed_in(name: str, data: bytes) -> Iterator[Path]:
    """A submission as a file under its own name, in a folder of its own that is removed afterwards. Raises OSError."""
    # Named as a scratch folder, so that a killed process's is cleaned away like one.
    folder = Path(tempfile.mkdtemp(prefix=f"ts-{me()}-", dir=parent())).resolve()
    try:
        file = folder / name
        if file.parent != folder or not name.strip("."):
            raise OSError(f"{name!r} is not the name of a file")
        file.write_bytes(data)
        yield file
    finally:
        remove(folder)


async def _serve(answers: IO[bytes]) -> None:
    """Judge what comes, several at a time, until the pipe ends; then end what is still running."""
    loop = asyncio.get_running_loop()
    this = asyncio.current_task()
    assert this is not None
    for sent in (signal.SIGTERM, signal.SIGINT):
        with suppress(NotImplementedError):  # Windows
            loop.add_signal_handler(sent, this.cancel)
    root = find_root()
    await asyncio.to_thread(sweep, root / ".cache")
    bench = Bench(root)
    frames: asyncio.Queue[tuple[int, list[bytes]] | None] = asyncio.Queue()

    def listen() -> None:
        while True:
            frame = read_frame(sys.stdin.buffer)
            loop.call_soon_threadsafe(frames.put_nowait, frame)
            if frame is None:
                return

    async def one(number: int, errand: bytes, data: bytes) -> None:
        answer = await bench.answer(parse(Errand, errand.decode("ascii")), data)
        write_frame(answers, number, text(answer).encode("ascii"))

    async def beat() -> None:
        while True:
            write_frame(answers, ALIVE)
            await asyncio.sleep(BEAT_SECONDS)

    # A thread and not a transport: those do not know the pipes of every system.
    threading.Thread(target=listen, daemon=True, name="graders-errands").start()
    try:
        async with asyncio.TaskGroup() as group:
            running: set[asyncio.Task[None]] = {group.create_task(beat())}
            while (frame := await frames.get()) is not None:
                number, (errand, data) = frame
                task = group.create_task(one(number, errand, data))
                running.add(task)
                task.add_done_callback(running.discard)
            for task in running:
                task.cancel()
    finally:
        await bench.close()


def main() -> None:
    """Serve until the worker closes the pipe. Whatever else is printed goes to stderr, among the worker's own messages."""
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    with suppress(asyncio.CancelledError):
        asyncio.run(_serve(answers))
    warm.close()  # what is done at the end of an ordinary process is not done at this one's
    # The thread that listens may wait for a pipe that somebody else still holds.
    sys.stderr.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
