"""What the lessons are held to: names, figures and lines that code outside them relies on.

The lines and facts are read from the receipts, which `make verify` proves to be what a run gives; what needs a run of its
own is run here for the first lesson, which takes no time.
"""

import ast
import json
import math
import os
import subprocess
import sys

import pytest

from course.catalogue import load
from course.receipt import read
from course.schema import Option, Question
from course.values import number

SECONDS = "Preparation seconds (local observation only): "

LINES = {
    "recovery-01": [
        "Batch sizes: [4, 4, 3]",
        "Example order: [9, 10, 4, 1, 0, 7, 6, 8, 2, 5, 3]",
        SECONDS,
        "Dataset SHA256: 1a81451a8fb32a1bf0ad6307ea19198153ab1603b37174c76c4d498e343e6892",
        "Epoch one order: [4, 0, 5, 10, 6, 2, 1, 9, 7, 3, 8]",
        "Omitted IDs: [2, 3, 5]",
        "Copy preserves fingerprint; reordered source and edited labels invalidate it.",
        "PASS: recovery-01",
    ],
    "recovery-02": [
        "First IDs: [8, 6, 7, 9]",
        "Next IDs: [0, 5, 1, 2]",
        "Iterator state bytes: ",
        "Restored next batch matches",
        "Same seed restarts; it does not resume",
        "Each epoch covers all twelve IDs",
        "Next-epoch IDs replayed: [2, 0, 11, 1]",
        "Expected sampler compatibility rejection",
        "PASS: recovery-02",
    ],
    "recovery-03": ["Restored step: 3", "Optimizer count: 3", *[""] * 6, "PASS: recovery-03"],
    "recovery-06": [
        "Validation MSE by learning rate: {0.02: 0.11994461715221405, 0.15: 5.049471951679152e-10}",
        "Verified 30 logged steps per run; selected and reloaded the better validation candidate.",
        "Validation difference: 0.11994461664726686",
        "Wrong zero model validation MSE: 6.0",
        "Changed target changes dataset identity.",
        "PASS: recovery-06",
    ],
}

# The names on which later blocks, exercises and other tools rely.
NAMES = {
    "recovery-01": "ids features labels dataset_digest fingerprint epoch_order make_batches batches elapsed seen last padded_labels mask "
    "masked same reversed_digest changed_labels changed_digest batch wrong_labels fixed",
    "recovery-02": "TutorialSource make_loader loader iterator first_batch snapshot second_batch restored_iterator replayed_batch one_epoch "
    "later later_state expected_third new_iterator boundary boundary_state expected replay incompatible compatible",
    "recovery-03": "tx initial_state pack_bytes unpack_bytes same_tree step package_versions encode_contract validate_contract workspace root "
    "x y contract state checkpoint_path payload restored expected_next expected_loss restored_next restored_loss",
    "recovery-04": "data_contract consume",
    "recovery-05": "transition publish accepted preflight",
    "recovery-06": "x y vx vy objective update data_hash curves validation run_ids bad_validation changed_y changed_hash",
}


@pytest.fixture(scope="module")
def catalogue(root):
    return load(root)


@pytest.mark.parametrize("lesson_id", LINES)
def test_lines(catalogue, lesson_id):
    printed = [line.text for line in read(catalogue.lesson(lesson_id)).lines]
    wanted = LINES[lesson_id]
    assert len(printed) == len(wanted)
    for got, line in zip(printed, wanted, strict=True):
        assert got.startswith(line) if line.endswith(" ") or not line else got == line


def test_figures_of_the_fourth_lesson(catalogue):
    lines = {line.text.partition(": ")[0]: line.text.partition(": ")[2] for line in read(catalogue.lesson("recovery-04")).lines}
    assert json.loads(lines["IDs after step 2"]) == [[4, 10, 11, 3], [2, 0, 11, 1], [5, 7, 6, 8], [4, 3, 10, 9]]
    losses = json.loads(lines["Losses after step 2"])
    wanted = [0.5496272444725037, 0.8390463590621948, 0.07169045507907867, 0.32427603006362915]
    assert all(math.isclose(got, value, rel_tol=1e-5) for got, value in zip(losses, wanted, strict=True))


def test_figures_of_the_third_lesson(catalogue):
    facts = read(catalogue.lesson("recovery-03")).facts
    assert math.isclose(number(facts["bias-norm"].data), 0.07066326588392258, rel_tol=1e-5)
    assert math.isclose(number(facts["weight-norm"].data), 0.19857126474380493, rel_tol=1e-5)


@pytest.mark.parametrize("lesson_id", NAMES)
def test_names_are_assigned_in_the_script(catalogue, lesson_id):
    lesson = catalogue.lesson(lesson_id)
    tree = ast.parse(lesson.script.read_text(encoding="utf-8"))
    found = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    found |= {node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    assert not set(NAMES[lesson_id].split()) - found


APPENDED = """
import inspect
assert ids.dtype == "int64" and ids.tolist() == list(range(11))
assert features.dtype == "float32" and labels.dtype == "float32"
assert np.array_equal(labels, 2 * features - 1)
assert fingerprint == dataset_digest(features, labels)
assert epoch_order(17, 1).tolist() == [4, 0, 5, 10, 6, 2, 1, 9, 7, 3, 8]
assert [len(one["id"]) for one in make_batches(17, 0)] == [4, 4, 3]
assert [len(one["id"]) for one in make_batches(17, 0, drop_last=True)] == [4, 4]
assert [len(one["id"]) for one in make_batches(17, 0, batch_size=5)] == [5, 5, 1]
assert inspect.isgenerator(make_batches(17, 0)) and set(next(make_batches(17, 0))) == {"id", "x", "y"}
for size in (0, -1):
    try:
        list(make_batches(17, 0, size))
    except ValueError:
        continue
    raise AssertionError(size)
assert mask.dtype == "float32" and isinstance(elapsed, float) and seen.shape == (11,)
assert abs(float(masked) - (-1 / 3)) < 1e-6
assert same == fingerprint and len({same, reversed_digest, changed_digest}) == 3
assert np.array_equal(fixed["y"], batch["y"]) and not np.array_equal(wrong_labels, batch["y"])
print("appended code has run")
"""


def test_the_first_lesson_prints_its_lines_and_runs_code_written_against_it(catalogue, tmp_path):
    script = tmp_path / "main.py"
    script.write_text(catalogue.lesson("recovery-01").script.read_text(encoding="utf-8") + APPENDED, encoding="utf-8")
    env = {**os.environ, "MPLBACKEND": "agg"}
    done = subprocess.run([sys.executable, script], cwd=tmp_path, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines.pop() == "appended code has run"
    seconds = lines.pop(2)
    assert seconds.startswith(SECONDS) and float(seconds.removeprefix(SECONDS)) > 0
    assert lines == [line for line in LINES["recovery-01"] if line != SECONDS]
    assert [path.name for path in tmp_path.iterdir()] == ["main.py"]


def test_the_first_lesson_needs_nothing_but_numpy_before_its_figure(catalogue):
    for cell in catalogue.lesson("recovery-01").cells:
        imported = {
            name.split(".")[0]
            for node in ast.walk(ast.parse(cell.source))
            for name in (
                [alias.name for alias in node.names]
                if isinstance(node, ast.Import)
                else [node.module or ""]
                if isinstance(node, ast.ImportFrom)
                else []
            )
        }
        allowed = sys.stdlib_module_names | ({"numpy", "matplotlib"} if cell.role == "figure" else {"numpy"})
        assert imported <= allowed, cell.id


def test_every_lesson_is_complete(catalogue):
    for lesson in catalogue.lessons:
        meta = lesson.meta
        assert meta.figures and meta.experiments and meta.diagnoses and meta.evidence and meta.references, lesson.id
        assert {exercise.kind for exercise in meta.exercises} >= {"modify", "transfer"}, lesson.id
        for exercise in meta.exercises:
            where = f"{lesson.id}/{exercise.id}"
            assert 2 <= len(exercise.mistakes) <= 4, where
            assert exercise.draw, where
            assert len(exercise.guide) >= 2, where
        words = len(lesson.words.read_text(encoding="utf-8").split())
        assert 1500 <= words <= 3000, f"{lesson.id}: {words} words"
        objectives = {objective.id for objective in meta.objectives}
        met = {one for exercise in meta.exercises for one in exercise.meets} | {
            question.meets for question in lesson.quiz.questions
        }
        assert objectives <= met, f"{lesson.id}: no exercise and no question meets {objectives - met}"
        places = {[option.correct for option in question.options].index(True) for question in lesson.quiz.questions}
        assert len(places) > 1, f"{lesson.id}: the right option is always at the same place"
        longest = [max(question.options, key=lambda option: len(option.text)).correct for question in lesson.quiz.questions]
        assert sum(longest) <= len(longest) / 2, f"{lesson.id}: the longest option is mostly the right one"


class Shape:
    """How a question looks to somebody who does not read it: the lengths of its options, and the place of the right one."""

    def __init__(self, where: str, question: Question) -> None:
        self.where = where
        self.lengths = [len(option.text) for option in question.options]
        self.place = [option.correct for option in question.options].index(True)

    @property
    def length(self) -> int:
        return self.lengths[self.place]

    def odd(self, index: int) -> float:
        """By how much the length of an option differs from the mean length of the others."""
        others = (sum(self.lengths) - self.lengths[index]) / (len(self.lengths) - 1)
        return abs(self.lengths[index] / others - 1)


def giveaways(shapes: list[Shape]) -> list[str]:
    """Rules that need no reading and are right far more often, or more seldom, than chance; and options that stick out."""
    shares = {
        "the longest option is right": (0.15, 0.4, [one.length == max(one.lengths) for one in shapes]),
        "the shortest option is right": (0.15, 0.4, [one.length == min(one.lengths) for one in shapes]),
        "the first option is right": (0.0, 0.4, [one.place == 0 for one in shapes]),
        "the last option is right": (0.0, 0.4, [one.place == len(one.lengths) - 1 for one in shapes]),
    }
    found = [
        f"{rule} in {sum(hits)} of {len(hits)} questions"
        for rule, (low, high, hits) in shares.items()
        if not low <= sum(hits) / len(hits) <= high
    ]
    return found + [
        f"{one.where}: option {index + 1} sticks out by its length, {one.odd(index):.0%}"
        for one in shapes
        for index in range(len(one.lengths))
        if one.odd(index) > 0.4
    ]


def test_no_quiz_is_answered_by_length_or_place(catalogue):
    shapes = [Shape(f"{lesson.id}/{one.id}", one) for lesson in catalogue.lessons for one in lesson.quiz.questions]
    assert giveaways(shapes) == []


@pytest.mark.parametrize(
    ("texts", "right", "said"),
    [
        (["right, and long", "wrong here", "wrong, too"], 0, {"the longest option is right", "the first option is right"}),
        (["wrong here", "right", "wrong, too"], 1, {"the shortest option is right", "the longest option is right", "option 2"}),
        (["wrong", "wrong", "right"], 2, {"the last option is right"}),
        (["wrong", "right and quite a lot longer", "wrong"], 1, {"option 2 sticks out"}),
    ],
)
def test_what_gives_an_answer_away_is_told(texts, right, said):
    options = [Option(text=text, feedback="Why.", correct=index == right) for index, text in enumerate(texts)]
    question = Question(id="small", text="Which?", meets="all", option=tuple(options))
    told = giveaways([Shape("small-01/small", question)] * 10)
    assert all(any(one in line for line in told) for one in said), told
