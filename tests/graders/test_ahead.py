"""Kernels that are ready ahead of need: each is used once, none is left, and one that died meanwhile is not used."""

import asyncio
import os
import signal
from contextlib import asynccontextmanager

import psutil
import pytest

from graders.ahead import Ahead
from graders.batch import grade, open_desks
from graders.check import Settings
from graders.collect import search
from graders.kernels import warm
from graders.verdict import Verdict
from tests.conftest import reference_answers


@pytest.fixture(scope="module", autouse=True)
def _no_server_is_left():
    yield
    warm.close()


class Things:
    """Counts what is opened and closed. ``fails`` is what opening the next ones raises, or None."""

    def __init__(self, *fails):
        self.fails, self.opened, self.closed, self.used = list(fails), [], [], []
        self.unfit = set()
        self.gate = asyncio.Event()
        self.gate.set()

    @asynccontextmanager
    async def one(self):
        number = len(self.opened)
        self.opened.append(number)
        try:
            await self.gate.wait()
            if self.fails and (error := self.fails.pop(0)) is not None:
                raise error
            yield number
        finally:
            self.closed.append(number)

    def ahead(self):
        return Ahead(self.one, lambda number: number not in self.unfit)


async def settled():
    for _ in range(5):
        await asyncio.sleep(0)


def test_what_is_ready_is_used_once_and_first():
    async def main():
        things = Things()
        ahead = things.ahead()
        ahead.prepare(2)
        await settled()
        assert things.opened == [0, 1]
        ahead.prepare(1)  # there are more already
        for expected in (0, 1, 2):
            async with ahead.one() as number:
                assert (number, number in things.closed) == (expected, False)
            assert number in things.closed
        ahead.prepare(1)
        await settled()
        await ahead.close()
        await ahead.close()
        assert things.opened == [0, 1, 2, 3] and sorted(things.closed) == things.opened

    asyncio.run(main())


def test_what_is_not_fit_or_failed_is_replaced():
    async def main():
        things = Things(None, OSError("no"), None)
        ahead = things.ahead()
        ahead.prepare(2)
        await settled()
        things.unfit.add(0)
        async with ahead.one() as number:
            assert number == 2
        assert sorted(things.closed) == [0, 1, 2]

    asyncio.run(main())


def test_an_error_is_that_of_the_one_that_is_opened_when_asked():
    async def main():
        things = Things(OSError("first"), ValueError("second"))
        ahead = things.ahead()
        ahead.prepare(1)
        await settled()
        with pytest.raises(ValueError, match="second"):
            async with ahead.one():
                raise AssertionError
        assert things.closed == [0, 1]

    asyncio.run(main())


def test_who_stops_waiting_takes_nothing_away():
    async def main():
        things = Things()
        things.gate.clear()
        ahead = things.ahead()
        ahead.prepare(1)

        async def use():
            async with ahead.one() as number:
                return number

        waiting = asyncio.ensure_future(use())
        await settled()
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert things.closed == []
        things.gate.set()
        assert await use() == 0
        things.gate.clear()
        ahead.prepare(1)
        await settled()
        await ahead.close()  # on the way
        assert sorted(things.closed) == things.opened == [0, 1]

    asyncio.run(main())


@pytest.mark.skipif(os.name == "nt", reason="Windows has no process groups to kill")
def test_a_class_is_judged_in_kernels_that_were_ready(tiny_course, tmp_path, cache, hand_in, monkeypatch):
    """One of them is killed while it waits, and its submission is judged in another one."""
    lesson = tiny_course.lesson("tiny-01")
    for name in ("Ana", "Ben", "Cem", "Dan", "Eva"):
        hand_in(lesson, reference_answers(lesson), name=name)
    found = search(tmp_path / "class", tiny_course)
    desks = open_desks(tiny_course, found, Settings(7, cache))
    ready = []  # for each kernel that was asked for: how many were ready or on the way, and whether one of them was used
    ordinary = Ahead._take

    async def take(ahead, stack):
        number = len(ahead._ready)
        if len(ready) == 1:
            await asyncio.wait({ahead._ready[0]})
            os.killpg(ahead._ready[0].result()[1].manager.provisioner.process.pid, signal.SIGKILL)
            await ahead._ready[0].result()[1].kernel.ended()
        session = await ordinary(ahead, stack)
        ready.append((number, session is not None))
        return session

    monkeypatch.setattr(Ahead, "_take", take)
    before = set(psutil.Process().children(recursive=True))
    results = []
    asyncio.run(grade(tiny_course, found, desks, 1, results.append))
    assert [one.verdict for one in results] == [Verdict.PASS] * 5
    # The first one was not known of before; the last ones have nobody behind them.
    assert ready == [(1, True), (1, False), (1, True), (1, True)]
    left = set(psutil.Process().children(recursive=True)) - before
    assert not [one for one in left if "forkserver" not in " ".join(one.cmdline())]
