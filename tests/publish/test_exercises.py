"""What learners work in: complete, found by the grader, and without a word of the solutions."""

from __future__ import annotations

import re
from pathlib import Path

import jupytext
import nbformat
import pytest

from course import catalogue, receipt
from course.errors import CourseError
from publish import exercises, guide

ROOT = Path(__file__).resolve().parents[2]
NOTEBOOK, SCRIPT, EVIDENCE = "exercises/small-01.ipynb", "exercises/small-01.py", "exercises/small-01-evidence.md"


def files(small):
    return exercises.render(small.lesson, guide.names(small.load()))


def cells(text):
    notebook = nbformat.reads(text, as_version=nbformat.NO_CONVERT)
    nbformat.validate(notebook)
    return notebook.cells


def test_three_files_a_lesson(small):
    assert tuple(files(small)) == (NOTEBOOK, SCRIPT, EVIDENCE) == exercises.paths(small.lesson)


def test_the_notebook_is_valid_and_has_not_been_run(small):
    text = files(small)[NOTEBOOK]
    notebook = nbformat.reads(text, as_version=nbformat.NO_CONVERT)
    assert (notebook.nbformat, notebook.nbformat_minor) == (4, 5)
    assert notebook.metadata.training_systems == {"lesson": "small-01"}
    code = [cell for cell in cells(text) if cell.cell_type == "code"]
    assert all(cell.outputs == [] and cell.execution_count is None for cell in code)
    assert [cell.id for cell in code] == [cell.id for cell in small.lesson.cells]
    assert len({cell.id for cell in notebook.cells}) == len(notebook.cells)
    assert text.endswith("}\n")


def test_each_code_cell_says_three_times_which_it_is(small):
    for cell in cells(files(small)[NOTEBOOK]):
        if cell.cell_type == "code":
            wanted = small.lesson.cell(cell.id)
            assert cell.metadata["training_systems"] == {"cell": wanted.id, "role": wanted.role}
            assert cell.source.split("\n")[0] == f"# cell: {wanted.id}"
            assert cell.metadata["tags"] == ["exercise" if wanted.role == "exercise" else "given"]


def test_given_cells_are_the_lessons_and_exercises_are_scaffolds(small):
    lesson = small.lesson
    for cell in cells(files(small)[NOTEBOOK]):
        if cell.cell_type == "code":
            source = lesson.scaffolds[cell.id].source if cell.id in lesson.scaffolds else lesson.cell(cell.id).source
            assert cell.source == f"# cell: {cell.id}\n{source}"


def test_the_script_holds_the_same_as_the_notebook(small):
    made = files(small)
    script = jupytext.reads(made[SCRIPT], fmt={"extension": ".py", "format_name": "percent"})
    notebook = cells(made[NOTEBOOK])
    assert [(cell.cell_type, cell.source) for cell in script.cells] == [(cell.cell_type, cell.source) for cell in notebook]
    marked = [cell.metadata for cell in script.cells if cell.cell_type == "code"]
    assert [(one["id"], one["role"], one["title"]) for one in marked] == [(c.id, c.role, c.title) for c in small.lesson.cells]
    compile(made[SCRIPT], SCRIPT, "exec")


def test_words_cannot_start_a_cell_in_the_script(small):
    small.change("lesson.toml", "Pad the row to `SLOTS`", "%% Pad the row to `SLOTS`")
    made = files(small)
    script = jupytext.reads(made[SCRIPT], fmt={"extension": ".py", "format_name": "percent"})
    assert len(script.cells) == len(cells(made[NOTEBOOK]))


def test_what_a_learner_needs_is_there(small):
    for path in (NOTEBOOK, SCRIPT):
        text = files(small)[path]
        for said in (
            "your copy: edit the exercise",
            "python -m environment graders check small-01",
            "make check LESSON=small-01",
            "phases/06-small/01-pad/",
            "phase 05 (What comes before)",
            "Which point is highest?",
            "Six is the largest.",
            "The length is 6.",
            "Count the empty slots.",
            "<summary>Hint 1</summary>",
            "The zeros add nothing to the sum.",
            "# TODO: the values with zeros up to SLOTS",
        ):
            assert said in text, (path, said)
        assert text.index("What does the sum count?") < text.index("The zeros add nothing")
        assert text.index("Which point is highest?") < text.index("shown = list(values)") < text.index("Six is the largest.")


def solution_lines(lesson):
    """The lines of the reference that the scaffolds do not hold, without their markers."""
    given = {line.strip() for cell in lesson.cells if cell.role != "exercise" for line in cell.source.split("\n")}
    for cell in lesson.cells:
        if cell.role == "exercise":
            kept = {line.strip() for line in lesson.scaffolds[cell.id].source.split("\n")}
            for line in cell.source.split("\n"):
                bare = re.sub(r"\s*#\s*SOLUTION:.*", "", line).strip()
                if line.strip() not in kept and bare not in given | kept and not re.match(r"#\s*(BEGIN|END) ", bare):
                    yield bare


def test_no_solution_reasoning_or_mistake_is_in_any_file(small):
    lines = list(solution_lines(small.lesson))
    assert lines == [
        "padded = values + [0.0] * (SLOTS - len(values))",
        "numerator = sum(padded)",
        "masked = numerator / len(values)",
        "assert masked == 4.0",
    ]
    for path, text in files(small).items():
        for secret in (*lines, "REASONING-ONLY", "MISTAKE-CODE", "MISTAKE-ADVICE", "SOLUTION", "would tell the answer"):
            assert secret not in text, (path, secret)


def real_lessons():
    """The lessons of this repository that are recorded as they are; what is faulty, `make verify` says."""
    return [lesson for lesson in catalogue.survey(ROOT).lessons if recorded(lesson)]


def recorded(lesson):
    try:
        return receipt.read(lesson)
    except CourseError:
        return None


@pytest.mark.parametrize("lesson", real_lessons(), ids=lambda lesson: lesson.id)
def test_no_solution_line_of_a_real_lesson_is_handed_out(lesson):
    made = exercises.render(lesson, {})
    secrets = {line for line in solution_lines(lesson) if len(line) > 12}
    assert secrets
    for path in exercises.paths(lesson)[:2]:
        notebook = jupytext.reads(made[path], fmt=path.rpartition(".")[2])
        code = {line.strip() for cell in notebook.cells if cell.cell_type == "code" for line in cell.source.split("\n")}
        assert not secrets & code
        for exercise in lesson.meta.exercises:
            assert exercise.reasoning.split("\n")[0] not in made[path]
            for mistake in exercise.mistakes:
                assert mistake.say.split("\n")[0] not in made[path]


def test_a_solution_marker_in_a_given_cell_is_refused(small):
    small.change("code/main.py", 'print("Seconds:", 0.25)', "secret = 1  # SOLUTION: the secret")
    with pytest.raises(CourseError, match=r"code/main.py: line 7: a solution marker in cell data.*role=.exercise."):
        files(small)


def test_exercises_need_a_receipt_only_for_recorded_values(small):
    (small.folder / "receipt.json").unlink()
    with pytest.raises(CourseError, match=r"there is no receipt"):
        files(small)
    for old, new in (
        ("their sum is {recorded}`total`", "three"),
        ("the sum is {recorded}`total | .1f`", "three"),
        ("The length is {recorded}`Length`", "Six"),
        ("REASONING-ONLY", "{recorded}`total`"),  # in no learner's file
    ):
        small.change("lesson.toml", old, new)
    assert "Six" in files(small)[NOTEBOOK]


def test_evidence_template_has_a_place_for_everything(small):
    text = files(small)[EVIDENCE]
    for said in (
        "Which point is highest?",
        "How long is it?",
        "`pad`",
        "```python",
        "## Outputs",
        "## Verdict",
        "make check LESSON=small-01",
    ):
        assert said in text
    for said in ("| numpy |", "| Python |", "### 1. The padded row", "It shows the zeros."):
        assert said in text
    assert "Six is the largest." not in text


def test_the_listing_names_minutes_prerequisites_and_files(small):
    course = small.load()
    text = exercises.listing(course, guide.names(course))
    assert text.startswith("<!-- Generated from")
    for said in (
        "[Pad a row](../phases/06-small/01-pad/)",
        "| 10 |",
        "phase 05 (What comes before)",
        "(small-01.ipynb)",
        "(small-01.py)",
    ):
        assert said in text
    assert "(small-01-evidence.md)" in text
    assert "Phase 05" not in text  # planned: nothing to work in


def test_the_guide_of_a_phase(small):
    course = small.load()
    (phase,) = [one for one in course.phases if not one.planned]
    text = guide.render(phase, course)
    for said in (
        "# Phase 06: Small things",
        "You can add.",
        "<summary>Answer</summary>\n\nThree.",
        "`small-01`: You can take a mean.",
        "Change the number of slots.",
        "What does padding do to a mean?",
        "Builds on phase 05 (What comes before).",
        "1 lesson, about 10 minutes",
    ):
        assert said in text
    page = small.folder.parent / "study-guide.md"
    page.write_text("## In my own words\n\nRead slowly.\n")
    assert "## In my own words\n\nRead slowly.\n\n## The lessons, in order" in guide.render(phase, course)
