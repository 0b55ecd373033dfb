"""Finding submissions: names with anything in them, files that say what they are, nothing lost."""

import os

import nbformat
import pytest

from graders.collect import search, unit_of
from tests.conftest import notebook

NAMES = ["Ana Pérez", "Li, Wei", "O'Neil", "$(touch pwned)", "-rf", "=1+1", "a%sb", "x" * 100, "näïve\u202e", "{0}", "日本", "a\tb"]


@pytest.fixture
def folder(tmp_path):
    made = tmp_path / "class"
    made.mkdir()
    return made


def put(folder, tiny, *parts):
    path = folder.joinpath(*parts)
    path.parent.mkdir(parents=True, exist_ok=True)
    nbformat.write(notebook(tiny), path)
    return path


@pytest.mark.skipif(os.name == "nt", reason="Windows does not allow such names")
def test_every_name_gives_exactly_one_row(folder, tiny, tiny_course):
    for name in NAMES:
        put(folder, tiny, name, "tiny-01.ipynb")
    found = search(folder, tiny_course)
    assert sorted(one.learner for one in found.found) == sorted(NAMES)
    assert all(len(one.files) == 1 for one in found.found)


def test_numbers_in_names_sort_as_numbers(folder, tiny, tiny_course):
    for name in ("s10", "s9", "S1"):
        put(folder, tiny, name, "tiny-01.ipynb")
    assert [one.learner for one in search(folder, tiny_course).found] == ["S1", "s9", "s10"]


def test_an_empty_folder_has_a_row_and_a_hidden_one_has_none(folder, tiny, tiny_course):
    put(folder, tiny, "Ana", "tiny-01.ipynb")
    (folder / "Kim").mkdir()
    (folder / ".git").mkdir()
    put(folder, tiny, "Ana", ".ipynb_checkpoints", "tiny-01-checkpoint.ipynb")
    found = search(folder, tiny_course)
    assert [(one.learner, len(one.files)) for one in found.found] == [("Ana", 1), ("Kim", 0)]


def test_deeper_folders_single_files_and_names_with_additions(folder, tiny, tiny_course):
    put(folder, tiny, "Ana", "week 1", "handed in", "tiny-01 (2).ipynb")
    put(folder, tiny, "Bo", "bo_LATE_tiny-01.IPYNB")
    put(folder, tiny, "tiny-01_cy.ipynb")
    found = {one.learner: one for one in search(folder, tiny_course).found}
    assert set(found) == {"Ana", "Bo", "tiny-01_cy"}
    assert all(len(one.files) == 1 and one.lesson == "tiny-01" for one in found.values())


def test_a_renamed_script_says_itself_of_which_lesson_it_is(folder, tiny, tiny_course):
    (folder / "Ana" / "a" / "b" / "c" / "d").mkdir(parents=True)
    path = folder / "Ana" / "a" / "b" / "c" / "d" / "tiny-1.py"
    path.write_text("# %% [markdown]\n# # Double\n#\n# lesson: tiny-01\n\n# %% A\nx = 1\n", encoding="utf-8")
    assert unit_of(path, folder, tiny_course) == "tiny-01"
    assert [(one.lesson, one.files) for one in search(folder, tiny_course).found] == [("tiny-01", (path,))]


def test_a_renamed_notebook_says_itself_of_which_lesson_it_is(folder, tiny, tiny_course):
    path = put(folder, tiny, "Ana", "homework.ipynb")
    assert unit_of(path, folder, tiny_course) == "tiny-01"
    assert [one.lesson for one in search(folder, tiny_course).found] == ["tiny-01"]


def test_a_file_that_says_nothing_is_left_out_and_named_or_taken_if_there_is_one_lesson(folder, tiny, tiny_course):
    put(folder, tiny, "Ana", "tiny-01.ipynb")
    nbformat.write(nbformat.v4.new_notebook(), folder / "Ana" / "scratch.ipynb")
    (folder / "Bo").mkdir()
    nbformat.write(nbformat.v4.new_notebook(), folder / "Bo" / "whatever.ipynb")
    (folder / "Bo" / "helper.py").write_text("x = 1\n")
    found = search(folder, tiny_course)
    assert {(one.learner, *(file.name for file in one.files)) for one in found.found} == {
        ("Ana", "tiny-01.ipynb"),
        ("Bo", "whatever.ipynb"),
    }
    assert sorted(path.name for path in found.unknown) == ["helper.py", "scratch.ipynb"]


def test_of_two_files_that_say_nothing_none_is_chosen(folder, tiny, tiny_course):
    put(folder, tiny, "Ana", "tiny-01.ipynb")
    (folder / "Bo").mkdir()
    for name in ("a.ipynb", "b.ipynb"):
        nbformat.write(nbformat.v4.new_notebook(), folder / "Bo" / name)
    found = {one.learner: one.files for one in search(folder, tiny_course).found}
    assert [path.name for path in found["Bo"]] == ["a.ipynb", "b.ipynb"]


def test_a_file_that_cannot_be_read_does_not_stop_the_search(folder, tiny, tiny_course):
    put(folder, tiny, "Ana", "tiny-01.ipynb")
    (folder / "Bo").mkdir()
    (folder / "Bo" / "homework.ipynb").write_text('{"cells": [], "n": ' + "1" * 5_000 + "}")
    (folder / "Bo" / "homework.py").write_text("# ---\n# jupyter:\n#   jupytext: 3\n# ---\n# %% A\n")
    assert {one.learner for one in search(folder, tiny_course).found} == {"Ana", "Bo"}


def test_two_files_for_one_lesson_are_both_listed(folder, tiny, tiny_course):
    put(folder, tiny, "Ana", "tiny-01.ipynb")
    (folder / "Ana" / "tiny-01.py").write_text("# %% A\nx = 1\n")
    (one,) = search(folder, tiny_course).found
    assert [path.name for path in one.files] == ["tiny-01.ipynb", "tiny-01.py"]


def test_only_the_lessons_asked_for(folder, tiny, tiny_course):
    put(folder, tiny, "Ana", "tiny-01.ipynb")
    assert search(folder, tiny_course, ("tiny-01",)).lessons == ("tiny-01",)
    assert search(folder, tiny_course, ("other-01",)).found == ()


@pytest.mark.skipif(os.name == "nt", reason="Windows has no symbolic links without a privilege")
def test_links_out_of_the_class_are_not_followed(folder, tiny, tiny_course, tmp_path):
    secret = put(tmp_path, tiny, "elsewhere", "tiny-01.ipynb").parent
    put(folder, tiny, "Ana", "tiny-01.ipynb")
    (folder / "Bo").symlink_to(secret)
    found = search(folder, tiny_course)
    assert all(one.learner != "Bo" or not one.files for one in found.found)
