"""In the process of a Dask worker: keeps a grading process beside it for each run, and hands it the errands.

A worker runs tasks in threads, while kernels want an event loop and signals of a main thread: so the grading is done in a
process of its own (`graders.serve`), whose end never takes the worker along. It ends when the worker does, since its pipe does.
"""

from __future__ import annotations

import itertools
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from contextlib import suppress
from pathlib import Path
from typing import IO

from course.catalogue import find_root
from course.errors import CourseError
from graders.errand import BEAT_SECONDS, COURSE, Answer, Errand, myself, parse, read_frame, text, write_frame

HOUSE = Path(__file__).resolve().parents[1]
UNUSED_SECONDS = 600.0  # after which the process of another run is ended: its caller was killed, or has lost the connection
END_SECONDS = 30.0  # for a grading process to clean up
SILENT_SECONDS = 300.0  # after which a grading process that gives no sign of life is ended: it was stopped, or hangs


def greet() -> str:
    """What this worker says of itself."""
    try:
        course = str(_course())
    except CourseError:
        course = ""
    return text(myself(course))


def judge(errand: str, data: bytes) -> str:
    """The task that a cluster runs: one submission, judged in the grading process of its run.

    Args:
        errand: an :class:`Errand` as JSON.
        data: the submitted bytes.

    Returns:
        An :class:`Answer` as JSON.
    """
    run = parse(Errand, errand).run
    try:
        root = _course()
    except CourseError as error:
        return text(Answer(kind="refused", why=_no_course(error)))
    bench = _bench(run, root)
    if bench is None:
        return text(Answer(kind="ended", why="its run is over"))
    return bench.ask(errand, data)


def leave(run: str) -> None:
    """End the grading process of a run that is over, and with it what is still being judged."""
    with _TURN:
        _OVER.append(run)
        bench = _BENCHES.pop(run, None)
    if bench is not None:
        bench.close()


def _course() -> Path:
    named = os.environ.get(COURSE)
    return find_root(Path(named) if named else None)


def _no_course(error: CourseError) -> str:
    return f"it has no course ({error.problems[0].what}): start it in the course's folder, or name that in {COURSE}"


class _Bench:
    """A grading process and those who wait for its answers."""

    def __init__(self, root: Path) -> None:
        paths = [str(HOUSE), os.environ.get("PYTHONPATH", "")]
        env = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "graders.serve"], cwd=root, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            start_new_session=True,
        )  # fmt: skip
        self._turn = threading.Lock()  # of the pipe
        self._numbers = itertools.count()
        self._boxes: dict[int, queue.SimpleQueue[str]] = {}
        self.used = self._heard = time.monotonic()
        threading.Thread(target=self._listen, daemon=True, name="graders-answers").start()

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    @property
    def idle(self) -> bool:
        return not self._boxes and time.monotonic() - self.used > UNUSED_SECONDS

    def ask(self, errand: str, data: bytes) -> str:
        """Hand an errand over and wait for the answer."""
        box: queue.SimpleQueue[str] = queue.SimpleQueue()
        number = next(self._numbers)
        self._boxes[number] = box
        self.used = time.monotonic()
        try:
            with self._turn:
                write_frame(_pipe(self._process.stdin), number, errand.encode("ascii"), data)
        except (OSError, ValueError):
            self._tell_end()  # it ended before; who listens may have looked already
        try:
            while True:
                with suppress(queue.Empty):
                    return box.get(timeout=BEAT_SECONDS)
                if time.monotonic() - self._heard > SILENT_SECONDS:
                    self._process.kill()  # who listens says so then
        finally:
            self._boxes.pop(number, None)
            self.used = time.monotonic()

    def _listen(self) -> None:
        try:
            while (frame := read_frame(_pipe(self._process.stdout))) is not None:
                number, parts = frame
                self._heard = time.monotonic()
                if (box := self._boxes.get(number)) is not None:
                    (answer,) = parts
                    box.put(answer.decode("ascii"))
        except (OSError, ValueError):
            self._process.kill()  # what it says is no answer
        self._process.wait()
        self._tell_end()

    def _tell_end(self) -> None:
        why = f"the grading process of the worker ended with {_exit(self._process.wait())}"
        for box in list(self._boxes.values()):
            box.put(text(Answer(kind="ended", why=why)))

    def close(self) -> None:
        """Ask it to end; it is killed if it does not."""
        with suppress(OSError):
            self._process.terminate()
        late = threading.Timer(END_SECONDS, self._process.kill)
        late.daemon = True
        late.start()


def _pipe(stream: IO[bytes] | None) -> IO[bytes]:
    assert stream is not None
    return stream


def _exit(status: int) -> str:
    with suppress(ValueError):
        return signal.Signals(-status).name
    return f"status {status}"


_TURN = threading.Lock()
_BENCHES: dict[str, _Bench] = {}
_OVER: deque[str] = deque(maxlen=1_000)


def _bench(run: str, root: Path) -> _Bench | None:
    """The grading process of a run, started if there is none; None if the run is over."""
    with _TURN:
        if run in _OVER:
            return None
        for other in [name for name, one in _BENCHES.items() if name != run and one.idle]:
            _BENCHES.pop(other).close()
        found = _BENCHES.get(run)
        if found is None or not found.alive:
            found = _BENCHES[run] = _Bench(root)
        return found
