"""Results of a class in little memory."""

import tracemalloc

import pytest
from rich.console import Console

from graders.packed import Packed, pack, unpack
from graders.reports.lines import table_of_exercises
from graders.verdict import ExerciseResult, Reason, SubmissionResult, Verdict


def result(learner, verdict=Verdict.PASS, file="f"):
    reason = None if verdict is Verdict.PASS else Reason.WRONG
    one = ExerciseResult(
        exercise="pad", verdict=verdict, reason=reason, message=f"of {learner}", points=1, out_of=2, runs=("base",)
    )
    return SubmissionResult(
        learner=learner, lesson="a-01", file=file, sha256="0" * 64, exercises=(one, one), notices=("n",), seed=3
    )


@pytest.mark.parametrize("name", ["Ana", "", "\udcff", "日本", "\x00"])
def test_a_result_comes_back_as_it_was(name):
    assert unpack(pack(result(name))) == result(name)


def test_they_stand_in_their_places_whenever_they_come():
    packed = Packed()
    assert list(packed) == [] and len(packed) == 0
    for place in (4, 0, 2):
        packed.put(place, result(str(place)))
    assert [one.learner for one in packed] == ["0", "2", "4"] and len(packed) == 3
    packed.put(1, result("1"))
    packed.put(2, result("another"))
    assert [one.learner for one in packed[1:3]] == ["1", "another"] and packed[-1] == result("4")
    with pytest.raises(IndexError):
        packed[4]


def test_they_take_a_small_part_of_what_the_objects_take():
    def memory(keep):
        tracemalloc.start()
        try:
            for place in range(300):
                keep(place, result(f"Learner {place}"))
            return tracemalloc.get_traced_memory()[0]
        finally:
            tracemalloc.stop()

    objects, packed = {}, Packed()
    assert memory(packed.put) * 3 < memory(objects.__setitem__)


def test_a_big_class_has_a_row_an_exercise():
    console = Console(width=100)
    with console.capture() as capture:
        console.print(
            table_of_exercises([result("A"), result("B", Verdict.FAIL), result("C", Verdict.FAIL), result("D", Verdict.SKIP, "")])
        )
    (row,) = [line for line in capture.get().splitlines() if "a-01/pad" in line]
    assert [cell.strip() for cell in row.strip("│").split("│")] == ["a-01/pad", "2", "4"]
    assert "skip" not in capture.get(), "nothing was handed in there"
