"""Which submissions of a class are run when."""

import asyncio
import multiprocessing
import os
import sys

import pytest

from course.schema import Limits
from graders import batch, store
from graders.batch import Places
from graders.check import Desk, Settings
from graders.collect import search
from graders.kernels.processes import processors
from graders.kernels.warm import How
from graders.program import Program, Step
from graders.run import Plan, run
from tests.conftest import reference_answers


class Class:
    """Learners who take a place each; each keeps it until told, or gives it back at once."""

    def __init__(self, places):
        self.places, self.order, self.release = places, [], asyncio.Event()

    async def long(self, name):
        async with self.places.one():
            self.order.append(f"{name} begins")
            await self.release.wait()
        self.order.append(name)

    async def short(self, name):
        async with self.places.one():
            self.order.append(name)


def test_long_ones_do_not_hold_up_short_ones():
    async def main():
        made = Class(Places(2, patience=0.01))
        tasks = [asyncio.create_task(one) for one in (made.long("a"), made.long("b"), made.short("c"), made.short("d"))]
        await asyncio.wait(tasks[2:])
        assert made.order == ["a begins", "b begins", "c", "d"]
        made.release.set()
        await asyncio.gather(*tasks)
        assert sorted(made.order[-2:]) == ["a", "b"]

    asyncio.run(main())


def test_no_more_than_twice_the_places_are_in_use_and_all_come_back():
    async def main():
        places = Places(2, patience=0.01)
        made = Class(places)
        tasks = [asyncio.create_task(made.long(name)) for name in "abcde"]
        while len(made.order) < 4:
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.1)
        assert sorted(made.order) == [f"{name} begins" for name in "abcd"], "the fifth has to wait for one of them"
        tasks[3].cancel()  # one in a place, while it waits to move aside
        while len(made.order) < 5:
            await asyncio.sleep(0.01)
        made.release.set()
        await asyncio.gather(*tasks, return_exceptions=True)
        assert made.order[4] == "e begins"
        assert (places._free._value, places._aside._value) == (2, 2)
        await asyncio.wait_for(made.short("f"), 10)

    asyncio.run(main())


def test_one_place_is_one_at_a_time():
    async def main():
        made = Class(Places(1, patience=0.01))
        tasks = [asyncio.create_task(made.long(name)) for name in "ab"]
        await asyncio.sleep(0.1)
        assert made.order == ["a begins"]
        made.release.set()
        await asyncio.gather(*tasks)
        assert made.order == ["a begins", "a", "b begins", "b"]

    asyncio.run(main())


def test_submissions_are_run_lesson_by_lesson_and_told_in_the_order_of_the_class(
    tmp_path, tiny_course, tiny, hand_in, cache, monkeypatch
):
    for name in ("Ana", "Bo"):
        file = hand_in(tiny, reference_answers(tiny), name)
    folder = file.parents[1]
    found = search(folder, tiny_course)
    twice = tuple(
        batch.Found(one.learner, lesson, one.files) for one in found.found for lesson in ("tiny-01", "tiny-02")
    )  # the second lesson stands for any other
    found = batch.Class(folder, ("tiny-01", "tiny-02"), twice, ())
    asked = []

    async def fake(catalogue, found, desk, entry, judge):
        asked.append((entry.lesson, entry.learner))
        return store.SubmissionResult(learner=entry.learner, lesson=entry.lesson, file="f", sha256="", exercises=())

    monkeypatch.setattr(batch, "_one", fake)
    desk = Desk(tiny, Settings(1, cache, how=How.COLD))
    results = []
    asyncio.run(batch.grade(tiny_course, found, {"tiny-01": desk, "tiny-02": desk}, 1, results.append))
    assert asked == [("tiny-01", "Ana"), ("tiny-01", "Bo"), ("tiny-02", "Ana"), ("tiny-02", "Bo")]
    assert [(one.lesson, one.learner) for one in results] == asked


def burn(stop):
    os.setsid()  # Linux shares processors among sessions first
    while not stop.is_set():
        pass


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux says for how long a process waited for a processor")
@pytest.mark.parametrize(("source", "status"), [("use(0.9)", "ok"), ("while True: pass", "timeout")])
def test_a_limit_counts_what_a_cell_takes_where_it_has_a_processor(cache, source, status):
    """On a machine with far more to do than it can, half a limit's work is still half a limit's work."""
    work = "import time\ndef use(seconds):\n    end = time.process_time() + seconds\n    while time.process_time() < end: pass"
    program = Program((Step("a", work, "own", 1, True), Step("b", source, "own", 2)), {})
    context = multiprocessing.get_context("spawn")
    stop = context.Event()
    others = [context.Process(target=burn, args=(stop,)) for _ in range(3 * processors())]
    for one in others:
        one.start()
    try:
        (trace,) = asyncio.run(run(program, [Plan({}, {})], Limits(cell_seconds=2, total_seconds=200), cache))
    finally:
        stop.set()
        for one in others:
            one.join()
    assert trace.cells[1].status == status
