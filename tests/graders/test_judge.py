"""Verdicts from observations that are built by hand: nothing is run here."""

import pytest

from course.receipt import Run
from course.values import Value
from graders.judge import Judged, diagnose, judge
from graders.program import Program, Step
from graders.run import CellOutcome, Loss, Plan, Trace
from graders.verdict import Reason, Verdict


def number(data):
    return Value(kind="int", data=data)


def numbers(*data):
    return Value(kind="list", items=tuple(number(one) for one in data))


NAME_ERROR = Value(kind="raised", type="NameError", bases=("NameError", "Exception"), message="name 'mean' is not defined")
RIGHT = {"doubled": numbers(2, 4, 6), "mean": number(4)}
MISTAKES = {
    "not-doubled": (Run(parameters={}, exercises={"double": {"doubled": numbers(2, 4, 6), "mean": number(2)}}),),
    "three-typed-in": (
        Run(parameters={}, exercises={"double": RIGHT}),
        Run(parameters={"N": 5}, exercises={"double": {"doubled": numbers(2, 4, 6, 8, 10), "mean": number(10)}}),
    ),
}
RIGHT_5 = {"doubled": numbers(2, 4, 6, 8, 10), "mean": number(6)}


def program(answer="doubled = [2, 4, 6]\nmean = 4", left=""):
    steps = (Step("parameters", "N = 3", "given", 1, True), Step("double", answer, "exercise", 2))
    return Program(steps, {"double": 1}, {"double": answer}, left={"double": left} if left else {})


def trace(seen, *, plan=None, cells=None, **more):
    outcomes = cells or (CellOutcome(0, "ok"), CellOutcome(1, "ok"))
    return Trace(plan or Plan({}, {"double": tuple(RIGHT)}), outcomes, {} if seen is None else {"double": seen}, **more)


FIVE = Plan({"N": 5}, {"double": tuple(RIGHT)}, name="N=5")
DRAW = Plan({"N": 77}, {"double": tuple(RIGHT)}, name="draw 9")


@pytest.fixture
def verdict(tiny):
    def of(*runs, prog=None):
        return judge(tiny.exercise("double"), prog or program(), runs, MISTAKES)

    return of


def test_agreement_everywhere_is_a_pass(verdict):
    result = verdict(Judged(trace(RIGHT), RIGHT), Judged(trace(RIGHT_5, plan=FIVE), RIGHT_5))
    assert (result.verdict, result.reason, result.points, result.runs) == (Verdict.PASS, None, 2, ("base", "N=5"))


def test_a_wrong_value_is_told_with_both_values(verdict):
    result = verdict(Judged(trace({**RIGHT, "mean": number(5)}), RIGHT))
    assert (result.verdict, result.reason, result.probe, result.points) == (Verdict.FAIL, Reason.WRONG, "mean", 0)
    assert result.message == "mean: expected 4, got 5"


def test_a_named_mistake_brings_its_advice(verdict):
    result = verdict(Judged(trace({**RIGHT, "mean": number(2)}), RIGHT))
    assert result.mistake == "not-doubled"
    assert result.message.endswith("— This is the mean of the numbers before they were doubled.")


def test_a_mistake_that_shows_only_in_a_variant_is_named_there(verdict):
    result = verdict(Judged(trace(RIGHT), RIGHT), Judged(trace({**RIGHT_5, "mean": number(10)}, plan=FIVE), RIGHT_5))
    assert result.mistake == "three-typed-in"
    assert "right for the lesson's data, wrong for N=5" in result.message


def test_a_draw_tells_no_numbers(verdict):
    expected = {"doubled": numbers(*range(2, 156, 2)), "mean": number(7812)}
    result = verdict(Judged(trace(RIGHT), RIGHT), Judged(trace(RIGHT, plan=DRAW), expected, secret=True))
    assert (result.verdict, result.reason) == (Verdict.FAIL, Reason.WRONG)
    assert "freshly drawn" in result.message
    assert "77" not in result.message and "7812" not in result.message


def test_two_errors_at_once_still_name_the_mistake_in_one_of_them(tiny):
    seen = {"doubled": numbers(0), "mean": number(2)}
    assert diagnose(tiny.exercise("double"), {}, RIGHT, seen, MISTAKES) == "not-doubled"
    assert diagnose(tiny.exercise("double"), {}, RIGHT, {**RIGHT, "mean": number(99)}, MISTAKES) is None


def test_what_was_left_open_is_unsolved(verdict):
    ellipsis = Value(kind="ellipsis")
    half = program(left="1 of 2 blanks is untouched")
    result = verdict(Judged(trace({**RIGHT, "mean": ellipsis}), RIGHT), prog=half)
    assert (result.verdict, result.reason, result.message) == (Verdict.UNSOLVED, Reason.NO_ANSWER, "1 of 2 blanks is untouched")


def test_a_right_answer_beside_a_left_over_placeholder_passes(verdict):
    assert verdict(Judged(trace(RIGHT), RIGHT), prog=program(left="1 of 2 blanks is untouched")).verdict is Verdict.PASS


def test_a_cell_that_stopped_is_the_cause_of_a_missing_name(verdict):
    cells = (CellOutcome(0, "ok"), CellOutcome(1, "error", "ZeroDivisionError: division by zero"))
    result = verdict(Judged(trace({**RIGHT, "mean": NAME_ERROR}, cells=cells), RIGHT))
    assert result.reason is Reason.RAISED
    assert result.message == "cell 2 stopped with ZeroDivisionError: division by zero before mean was defined"


def test_a_cell_that_stops_under_other_parameters_only_is_told_so(verdict):
    cells = (CellOutcome(0, "ok"), CellOutcome(1, "error", "IndexError: list index out of range"))
    seen = {**RIGHT_5, "mean": NAME_ERROR}
    result = verdict(Judged(trace(RIGHT), RIGHT), Judged(trace(seen, plan=FIVE, cells=cells), RIGHT_5))
    assert result.message == "cell 2 stopped with IndexError: list index out of range before mean was defined (for N=5)"


def test_a_time_out_counts_before_blanks_and_blanks_before_what_was_not_reached(verdict):
    ellipsis, scaffold = Value(kind="ellipsis"), program(left="unchanged from the release")
    seen = {"doubled": ellipsis, "mean": ellipsis}
    late = verdict(Judged(trace(seen, cells=(CellOutcome(0, "ok"), CellOutcome(1, "timeout"))), RIGHT), prog=scaffold)
    assert late.verdict is Verdict.TIMEOUT
    unreached = verdict(Judged(trace(None, cells=(CellOutcome(0, "timeout"), CellOutcome(1, "not-run"))), RIGHT), prog=scaffold)
    assert unreached.verdict is Verdict.UNSOLVED


def test_a_misspelled_name_is_pointed_out(verdict):
    result = verdict(Judged(trace({**RIGHT, "mean": NAME_ERROR}, names={"double": ("doubled", "maen")}), RIGHT))
    assert (result.reason, result.message) == (Reason.MISSING, "mean isn't defined; there is maen")


def test_time_death_and_tampering_each_have_their_own_words(verdict):
    late = verdict(Judged(trace({**RIGHT, "mean": NAME_ERROR}, cells=(CellOutcome(0, "ok"), CellOutcome(1, "timeout"))), RIGHT))
    assert (late.verdict, late.reason) == (Verdict.TIMEOUT, Reason.TIMEOUT)
    died = verdict(Judged(trace(None, cells=(CellOutcome(0, "ok"), CellOutcome(1, "died")), lost=Loss(1, "died")), RIGHT))
    assert (died.verdict, died.reason) == (Verdict.FAIL, Reason.DIED)
    before = verdict(Judged(trace(None, cells=(CellOutcome(0, "died"), CellOutcome(1, "not-run")), lost=Loss(0, "died")), RIGHT))
    assert (before.verdict, before.reason) == (Verdict.FAIL, Reason.DIED) and before.message.startswith("not run: ")
    budget = verdict(Judged(trace(None, cells=(CellOutcome(0, "ok"), CellOutcome(1, "not-run"))), RIGHT))
    assert budget.verdict is Verdict.TIMEOUT
    slow = verdict(Judged(trace(None, slow=frozenset({"double"})), RIGHT))
    assert (slow.verdict, slow.reason) == (Verdict.TIMEOUT, Reason.TIMEOUT)
    forged = verdict(Judged(trace(None, tampered=frozenset({"double"})), RIGHT))
    assert (forged.verdict, forged.reason) == (Verdict.FAIL, Reason.TAMPERED)
    assert len({one.message for one in (late, died, before, budget, slow, forged)}) == 6


def test_a_missing_cell_says_how_to_get_it_back(verdict, tiny):
    gone = Program(
        (Step("parameters", "N = 3", "given", 1, True),), {"double": 0}, {}, {"double": "the cell double is gone; get it back"}
    )
    result = judge(
        tiny.exercise("double"),
        gone,
        [Judged(trace({"doubled": NAME_ERROR, "mean": NAME_ERROR}, cells=(CellOutcome(0, "ok"),)), RIGHT)],
        {},
    )
    assert (result.verdict, result.reason, result.message) == (Verdict.FAIL, Reason.MISSING, "the cell double is gone; get it back")
