"""What is run for a submission: given cells restored, the learner's own kept, the lesson's order held."""

import nbformat
import pytest

from graders.program import bindings, of_submission, overrides, parameters_text, reference
from graders.submission import read
from tests.conftest import notebook, reference_answers


@pytest.fixture
def program(tiny, tmp_path):
    def of(made):
        path = tmp_path / "tiny-01.ipynb"
        nbformat.write(made, path)
        return of_submission(tiny, read(path))

    return of


def ids(program):
    return [step.id for step in program.steps]


ORDER = ["parameters", "numbers", "look", "one-more", "double", "function", "done"]


def test_an_untouched_file_gives_the_lessons_order(tiny, program):
    found = program(notebook(tiny))
    assert ids(found) == ORDER
    assert found.notices == () and found.missing == {}
    assert [step.position for step in found.steps] == [1, 2, 3, 4, 5, 6, 7]


def test_edited_and_missing_given_cells_are_restored_and_named(tiny, program):
    made = notebook(tiny, reference_answers(tiny))
    made.cells[0].source = "# cell: parameters\nN = 3000\nSEED = 1"
    del made.cells[1]
    found = program(made)
    assert ids(found) == ORDER
    assert found.steps[0].source == tiny.cell("parameters").source
    assert any("cell 1 (Parameters) is given code that was edited" in one for one in found.notices)
    assert any("the given cell numbers" in one for one in found.notices)


def test_comments_and_layout_of_given_cells_may_change(tiny, program):
    made = notebook(tiny)
    made.cells[0].source = "# cell: parameters\n# my note\nN=3\nSEED = 1"
    assert program(made).notices == ()


def test_own_cells_run_after_the_cell_they_follow(tiny, program):
    found = program(notebook(tiny, more=[("numbers", "helper = 1"), ("double", "print(doubled)")]))
    assert ids(found) == ["parameters", "numbers", "own-3", "look", "one-more", "double", "own-7", "function", "done"]
    assert found.observed_after["double"] == 5


def test_cells_in_another_order_run_in_the_lessons(tiny, program):
    made = notebook(tiny)
    made.cells.reverse()
    assert ids(program(made)) == ORDER


def test_a_copied_exercise_cell_counts_with_the_original(tiny, program):
    found = program(notebook(tiny, more=[("double", "# cell: double\nmean = 4")]))
    assert found.observed_after["double"] == 5
    assert "cells 5 and 6 both are double; both were run, in this order" in found.notices


def test_an_unchanged_copy_of_a_given_cell_is_not_run_again(tiny, program):
    found = program(notebook(tiny, more=[("double", "N = 3\nSEED = 1")]))
    assert ids(found) == ORDER


def test_what_a_name_in_a_probe_means(tiny):
    found = reference(tiny)
    assert found.given == {"double": (), "function": ("SEED", "numbers")}
    assert found.keeps == {0: ("SEED",), 1: ("numbers",)}
    assert bindings("import a.b as c, d.e\nfor i in x:\n    with y as z: w = 1\ndef f(): q = 1\n[u for u in v]") == {
        "c",
        "d",
        "i",
        "z",
        "w",
        "f",
    }


def test_a_copied_given_cell_runs_as_the_learners_own(tiny, program):
    found = program(notebook(tiny, more=[("double", "# cell: numbers\nnumbers = [9]")]))
    assert [step.origin for step in found.steps if step.id.startswith("own")] == ["own"]


def test_cells_are_found_by_marker_alone_and_by_metadata_alone(tiny, program):
    made = notebook(tiny, reference_answers(tiny))
    for cell in made.cells:
        cell.metadata.pop("training_systems")
        cell.id = "x" + cell.id
    assert ids(program(made)) == ORDER
    made = notebook(tiny, reference_answers(tiny))
    for cell in made.cells:
        cell.source = cell.source.partition("\n")[2]
        cell.id = "x" + cell.id
    assert ids(program(made)) == ORDER


def test_a_gone_or_converted_cell_is_named(tiny, program):
    found = program(notebook(tiny, {"double": None}))
    assert "is gone" in found.missing["double"] and "make reset" in found.missing["double"]
    made = notebook(tiny)
    made.cells[4] = nbformat.v4.new_markdown_cell(made.cells[4].source)
    assert "cell 5 (double) is a markdown cell" in program(made).missing["double"]


def test_a_file_without_any_known_cell_runs_after_the_given_ones(tiny, program):
    made = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("doubled = [2, 4, 6]\nmean = 4")])
    found = program(made)
    assert ids(found)[-1] == "own-1"
    assert set(found.missing) == {"double", "function"}


def test_the_reference_of_one_exercise_stands_on_build_cells_only(tiny):
    found = reference(tiny, "double", "mean = 0")
    assert ids(found) == ["parameters", "numbers", "double"]
    assert found.steps[-1].source.endswith("mean = 0")
    assert ids(reference(tiny)) == ORDER


def test_overrides_are_literals():
    assert overrides({"N": 5, "names": ("a", "b"), "rate": 0.5, "on": True}) == "N = 5\nnames = ('a', 'b')\nrate = 0.5\non = True"
    assert parameters_text({"N": 5, "SEED": 2}) == "N=5, SEED=2"
    assert parameters_text({}) == "base"
