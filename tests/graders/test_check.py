"""The whole way of one submission, with real kernels: what passes, what does not, and what is said."""

import asyncio
import json
from dataclasses import replace

import nbformat
import pytest

from course.catalogue import load
from course.errors import CourseError
from course.receipt import read as read_receipt
from course.schema import Range
from graders.check import Desk, Settings, check, draw_plans
from graders.record import record
from graders.verdict import Reason, Verdict
from tests.conftest import reference_answers


@pytest.fixture
def verdicts(tiny, cache):
    """Judge a file; gives the results by exercise, and the whole as ``.all``."""

    def of(path, lesson=tiny, **limits):
        async def one():
            desk = Desk(lesson, Settings(7, cache, **limits))
            try:
                return await check(desk, "Ana", path, path.name if path else "")
            finally:
                await desk.close()

        result = asyncio.run(one())
        of.all = result
        return {one.exercise: one for one in result.exercises}

    return of


RIGHT_FUNCTION = "def scaled(values, factor):\n    return [factor * value for value in values]"


def test_the_reference_passes_and_the_untouched_exercise_is_unsolved(tiny, hand_in, verdicts):
    found = verdicts(hand_in(tiny, reference_answers(tiny)))
    assert [one.verdict for one in found.values()] == [Verdict.PASS, Verdict.PASS]
    assert found["double"].runs == ("base", "N=5", "N=7", "draw 7")
    assert verdicts.all.verdict is Verdict.PASS and verdicts.all.points == 3
    found = verdicts(hand_in(tiny))
    assert {(one.verdict, one.message) for one in found.values()} == {(Verdict.UNSOLVED, "unchanged from the release")}


def test_another_right_solution_passes(tiny, hand_in, verdicts):
    answers = {
        "double": "import numpy as np\nimport jax.numpy as jnp\ndoubled = jnp.asarray(numbers) * 2.0\nmean = np.float32(N + 1)",
        "function": "import numpy as np\ndef scaled(values, factor):\n    return np.asarray(values, dtype='float64') * factor",
    }
    found = verdicts(hand_in(tiny, answers))
    assert [one.verdict for one in found.values()] == [Verdict.PASS, Verdict.PASS], found


def test_a_helper_in_an_additional_cell_is_there_in_every_run(tiny, hand_in, verdicts):
    answers = {"double": "doubled = twice(numbers)\nmean = sum(doubled) / N", "function": RIGHT_FUNCTION}
    found = verdicts(hand_in(tiny, answers, more=[("numbers", "def twice(values):\n    return [v + v for v in values]")]))
    assert found["double"].verdict is Verdict.PASS


def test_answers_in_another_cell_than_their_own_count(tiny, hand_in, verdicts):
    answers = reference_answers(tiny)
    found = verdicts(hand_in(tiny, {"double": "pass"}, more=[("function", answers["double"]), ("done", answers["function"])]))
    assert [one.verdict for one in found.values()] == [Verdict.PASS, Verdict.PASS], found
    assert "double was answered in another cell than its own" in verdicts.all.notices


def test_a_name_of_the_lesson_cannot_answer_for_it(tiny_copy, cache, hand_in, verdicts):
    path = tiny_copy / "phases/01-tiny/01-double/lesson.toml"
    text = path.read_text(encoding="utf-8").replace('mean = "close"', 'mean = "close", "max(numbers) == total" = "exact"')
    path.write_text(text, encoding="utf-8")
    lesson = load(tiny_copy).lesson("tiny-01")
    record(lesson, tiny_copy, cache, lambda line: None)
    right = reference_answers(lesson)
    trick = "class Any:\n    def __eq__(self, other): return False\nmax = lambda values: total\nnumbers = [Any()]\n"
    found = verdicts(hand_in(lesson, {**right, "function": f"{trick}{right['function']}"}), lesson)
    assert found["double"].verdict is Verdict.PASS, found
    assert found["function"].verdict is Verdict.PASS, found


def test_an_answer_merged_into_a_given_cell_is_found(tiny, hand_in, verdicts):
    path = hand_in(tiny, reference_answers(tiny))
    made = nbformat.read(path, 4)
    made.cells[3].source += "\n" + made.cells[4].source
    del made.cells[4]
    nbformat.write(made, path)
    assert [one.verdict for one in verdicts(path).values()] == [Verdict.PASS, Verdict.PASS], verdicts.all


def test_a_file_without_any_sign_of_its_cells_is_judged_by_its_names(tiny, hand_in, verdicts):
    path = hand_in(tiny, reference_answers(tiny))
    made = nbformat.read(path, 4)
    for cell in made.cells:
        cell.source = cell.source.partition("\n")[2]
        cell.metadata.clear()
        cell.id = f"x{cell.id}"
    nbformat.write(made, path)
    assert [one.verdict for one in verdicts(path).values()] == [Verdict.PASS, Verdict.PASS], verdicts.all
    script = path.with_suffix(".PY")
    script.write_text(
        "".join(
            f"# In[{n}]:\n\n{cell.source}\n\n"
            for n, cell in enumerate(nbformat.read(hand_in(tiny, reference_answers(tiny)), 4).cells)
        ),
        encoding="utf-8",
    )
    assert [one.verdict for one in verdicts(script).values()] == [Verdict.PASS, Verdict.PASS], verdicts.all


def test_quit_has_no_effect(tiny, hand_in, verdicts):
    answers = {name: f"{code}\nquit()" for name, code in reference_answers(tiny).items()}
    assert [one.verdict for one in verdicts(hand_in(tiny, answers)).values()] == [Verdict.PASS, Verdict.PASS]


def test_printing_pass_is_no_answer(tiny, hand_in, verdicts):
    found = verdicts(
        hand_in(tiny, dict.fromkeys(("double", "function"), "print('PASS: tiny-01')\nprint('PASS      tiny-01/double')"))
    )
    assert all(one.verdict is not Verdict.PASS for one in found.values())


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ("doubled = [2, 4, 6]\nmean = 4.0", "wrong for N=5"),
        (
            "doubled = {3: [2, 4, 6], 5: [2, 4, 6, 8, 10], 7: [2, 4, 6, 8, 10, 12, 14]}[N]\nmean = {3: 4, 5: 6, 7: 8}[N]",
            "freshly drawn",
        ),
    ],
    ids=["typed-in", "typed-in with the variants"],
)
def test_typed_in_answers_fail(tiny, hand_in, verdicts, answer, said):
    found = verdicts(hand_in(tiny, {"double": answer, "function": RIGHT_FUNCTION}))
    assert found["double"].verdict is Verdict.FAIL and said in found["double"].message
    assert found["function"].verdict is Verdict.PASS


def test_each_named_mistake_fails_with_its_own_advice(tiny, hand_in, verdicts):
    for exercise in tiny.meta.exercises:
        for mistake in exercise.mistakes:
            answers = {**reference_answers(tiny), exercise.id: f"{tiny.cell(exercise.id).source}\n{mistake.code}"}
            found = verdicts(hand_in(tiny, answers))[exercise.id]
            assert (found.verdict, found.mistake) == (Verdict.FAIL, mistake.id)
            assert mistake.say in found.message


def test_an_error_after_the_last_exercise_costs_nothing(tiny, hand_in, verdicts):
    found = verdicts(hand_in(tiny, reference_answers(tiny), more=[("done", "1/0"), ("done", "x = (")]))
    assert all(one.verdict is Verdict.PASS for one in found.values())
    assert any("cell 8 stopped with ZeroDivisionError" in one for one in verdicts.all.notices)


def test_a_metadata_tag_does_not_change_how_a_cell_is_judged(tiny, hand_in, verdicts):
    path = hand_in(tiny, {"double": "doubled = [1]\n1/0", "function": RIGHT_FUNCTION})
    made = nbformat.read(path, 4)
    for cell in made.cells:
        cell.metadata["tags"] = ["raises-exception", "skip-execution"]
    nbformat.write(made, path)
    found = verdicts(path)
    assert found["double"].verdict is Verdict.FAIL and found["function"].verdict is Verdict.PASS


def test_time_death_and_unreadable_files(tiny, hand_in, verdicts, tmp_path):
    loop = verdicts(hand_in(tiny, {"double": "while True: pass", "function": RIGHT_FUNCTION}), cell_seconds=5)
    assert (loop["double"].verdict, loop["function"].verdict) == (Verdict.TIMEOUT, Verdict.PASS)
    dead = verdicts(hand_in(tiny, {"double": "import os; os._exit(0)", "function": RIGHT_FUNCTION}))
    assert (dead["double"].reason, dead["function"].reason) == (Reason.DIED, Reason.DIED)
    assert dead["function"].message.startswith("not run: the kernel exited (status 0) in cell 5")
    path = tmp_path / "tiny-01.ipynb"
    path.write_text("<html>")
    assert {one.reason for one in verdicts(path).values()} == {Reason.UNREADABLE}
    assert {one.verdict for one in verdicts(None).values()} == {Verdict.UNSOLVED}


def test_a_function_without_end_and_time_that_is_used_up_are_time_outs(tiny, hand_in, verdicts):
    endless = "def scaled(values, factor):\n    while True: pass"
    found = verdicts(hand_in(tiny, {**reference_answers(tiny), "function": endless}), cell_seconds=5)
    assert (found["double"].verdict, found["function"].verdict) == (Verdict.PASS, Verdict.TIMEOUT)
    sleep = {**reference_answers(tiny), "double": "import time\ntime.sleep(600)"}
    found = verdicts(hand_in(tiny, sleep), cell_seconds=500, total_seconds=5)
    assert {one.verdict for one in found.values()} == {Verdict.TIMEOUT}
    assert "used up before this exercise was reached" in found["function"].message


def test_a_run_that_ended_before_an_exercise_says_nothing_of_it(tiny, hand_in, verdicts):
    # N=7 is run for the sake of `double` only, and the draw after it, in a new kernel, ends before `function`.
    answers = reference_answers(tiny)
    found = verdicts(hand_in(tiny, {**answers, "double": f"import os\nif N == 7: os._exit(0)\n{answers['double']}"}))
    assert (found["double"].verdict, found["double"].reason) == (Verdict.FAIL, Reason.DIED)
    assert (found["function"].verdict, found["function"].reason) == (Verdict.FAIL, Reason.NOT_RUN)


def test_what_comes_after_the_last_probe_of_a_variant_is_not_run(tiny, hand_in, verdicts):
    answers = reference_answers(tiny)
    found = verdicts(hand_in(tiny, {**answers, "function": f"import os\nif N == 7: os._exit(0)\n{answers['function']}"}))
    assert {one.verdict for one in found.values()} == {Verdict.PASS}, (
        "N=7 is run for the sake of `double` only, which stands before"
    )


def test_what_stands_before_a_crash_is_judged_to_the_end(tiny, hand_in, verdicts):
    found = verdicts(hand_in(tiny, {**reference_answers(tiny), "function": "import os; os._exit(0)"}))
    assert found["double"].verdict is Verdict.PASS and found["double"].runs == ("base", "N=5", "N=7", "draw 7")
    assert (found["function"].verdict, found["function"].reason) == (Verdict.FAIL, Reason.DIED)


def test_a_kernel_that_dies_in_a_variant_is_no_pass(tiny, hand_in, verdicts):
    answer = "import os\nif N != 3: os._exit(0)\n" + tiny.cell("double").source
    found = verdicts(hand_in(tiny, {"double": answer, "function": RIGHT_FUNCTION}))
    assert all(one.verdict is Verdict.FAIL for one in found.values())


def test_a_fault_of_the_grader_is_an_error_and_no_zero(tiny, hand_in, verdicts, monkeypatch):
    async def broken(*args, **kwargs):
        raise OSError("no space left on device")

    path = hand_in(tiny, reference_answers(tiny))
    monkeypatch.setattr("graders.check.run", broken)
    found = verdicts(path)
    assert {(one.verdict, one.points) for one in found.values()} == {(Verdict.ERROR, None)}
    assert verdicts.all.points is None


def test_the_submitted_bytes_are_untouched(tiny, hand_in, verdicts):
    path = hand_in(tiny, reference_answers(tiny))
    before = path.read_bytes(), path.stat().st_mtime_ns, sorted(path.parent.iterdir())
    verdicts(path)
    assert (path.read_bytes(), path.stat().st_mtime_ns, sorted(path.parent.iterdir())) == before


def test_a_draw_is_fresh_repeatable_and_never_a_variant(tiny):
    assert draw_plans(tiny, 1) == draw_plans(tiny, 1)
    drawn = {str(plan.parameters) for seed in range(50) for plan in draw_plans(tiny, seed)}
    assert len(drawn) > 40
    assert all(10 <= plan.parameters["N"] <= 400 for plan in draw_plans(tiny, 3))


def test_a_draw_is_never_the_lessons_own_parameters(tiny):
    narrow = tiny.exercise("double").model_copy(update={"draw": {"N": Range(low=3, high=7)}})
    lesson = replace(tiny, meta=tiny.meta.model_copy(update={"exercises": (narrow,)}))
    assert {plan.parameters["N"] for seed in range(60) for plan in draw_plans(lesson, seed)} == {4, 6}  # not 3, 5, 7


def test_a_receipt_of_another_source_says_which_command_to_run(tiny_copy):
    script = tiny_copy / "phases/01-tiny/01-double/code/main.py"
    script.write_text(script.read_text().replace("N = 3", "N = 4"))
    with pytest.raises(CourseError, match="make record LESSON=tiny-01"):
        read_receipt(load(tiny_copy).lesson("tiny-01"))
    receipt = tiny_copy / "phases/01-tiny/01-double/receipt.json"
    receipt.write_text(receipt.read_text()[:200])
    with pytest.raises(CourseError, match="the receipt is broken"):
        read_receipt(load(tiny_copy).lesson("tiny-01"))
    receipt.unlink()
    with pytest.raises(CourseError, match="there is no receipt"):
        read_receipt(load(tiny_copy).lesson("tiny-01"))


def test_the_receipt_holds_what_the_run_gave(tiny):
    receipt = json.loads(tiny.receipt.read_text(encoding="utf-8"))
    assert [line["text"] for line in receipt["lines"] if not line["text"].startswith("Seconds")] == [
        "Total: 6",
        "With one more: 10",
        "PASS: tiny-01",
    ]
    assert receipt["facts"]["largest"] == {"kind": "int", "data": 3}
    assert [run["parameters"] for run in receipt["runs"]] == [{}, {"N": 5}, {"N": 7}]
    assert set(receipt["figures"]) == {"look"}
    data = json.loads((tiny.folder / "figures" / "look.json").read_text(encoding="utf-8"))
    assert data["figures"][0]["axes"][0]["lines"][0]["y"] == [2.0, 4.0, 6.0]
