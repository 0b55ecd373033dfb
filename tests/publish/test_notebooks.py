"""The executed reference notebook: made of the lesson's files alone, in an order that runs, always the same bytes."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest

from course.errors import CourseError
from publish import ipynb, notebooks

ROOT = Path(__file__).resolve().parents[2]


def read(text):
    notebook = nbformat.reads(text, as_version=nbformat.NO_CONVERT)
    nbformat.validate(notebook)
    return notebook


def code_cells(notebook):
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def test_it_is_a_valid_notebook_of_format_4_5(small):
    text = notebooks.render(small.lesson)
    notebook = read(text)
    assert (notebook.nbformat, notebook.nbformat_minor) == (4, 5)
    assert text.endswith("}\n")
    assert not text.endswith("\n\n")
    assert len(text.encode()) < 300_000
    assert json.dumps(json.loads(text), indent=1, sort_keys=True, ensure_ascii=False) + "\n" == text
    assert notebook.metadata.training_systems["lesson"] == "small-01"
    assert notebook.metadata.training_systems["digest"] == small.lesson.digest
    assert notebook.metadata.training_systems["generated"] is True


def test_code_has_the_order_of_the_script_wherever_the_words_show_it(small):
    lesson = small.lesson
    cells = code_cells(read(notebooks.render(lesson)))
    assert [cell.id for cell in cells] == [cell.id for cell in lesson.cells]
    assert [cell.execution_count for cell in cells] == [1, 2, 3, 4, 5, 6]
    assert [cell.source for cell in cells] == [cell.source for cell in lesson.cells]
    assert [dict(cell.metadata.training_systems) for cell in cells] == [{"cell": c.id, "role": c.role} for c in lesson.cells]


def test_a_cell_that_is_shown_early_is_pointed_at(small):
    ids = [cell.id for cell in read(notebooks.render(small.lesson)).cells]
    sources = {cell.id: cell.source for cell in read(notebooks.render(small.lesson)).cells}
    pointers = [name for name, source in sources.items() if "runs further down" in source]
    assert len(pointers) == 2  # the figure among the ideas, the end among the building blocks
    assert "“The plot”" in sources[pointers[0]]
    assert ids.index(pointers[0]) < ids.index("parameters") < ids.index("data") < ids.index("plot") < ids.index("longer")
    assert sources[ids[ids.index("done") - 1]] == "### The end"


def test_words_that_come_after_a_prediction_follow_its_run(small):
    figure, experiment = "```{figure} plot\n```\n", "```{experiment} longer\n```\n"
    small.change(
        "lesson.md", figure, f"{figure}\n```{{after}} plot\nIt rises to {{recorded}}`total`.\n```\n\nThe ideas end here.\n"
    )
    small.change("lesson.md", experiment, f"{experiment}\n```{{after}} longer\nTwice three.\n```\n")
    cells = read(notebooks.render(small.lesson)).cells
    place = {cell.id: index for index, cell in enumerate(cells)}
    words = {cell.source: index for index, cell in enumerate(cells) if cell.cell_type == "markdown"}
    # The figure is pointed at among the ideas and runs after the data: so its words wait for it.
    assert words["The ideas end here."] < place["plot"] < words["It rises to 12.0."] < place["longer"] < words["Twice three."]
    assert "{after}" not in "".join(cell.source for cell in cells)


def test_outputs_come_from_the_receipt_and_the_figure(small):
    cells = {cell.id: cell for cell in code_cells(read(notebooks.render(small.lesson)))}
    (output,) = cells["data"].outputs
    assert (output.output_type, output.name, output.text) == ("stream", "stdout", "Values: [2.0, 4.0, 6.0]\nSeconds: 0.25\n")
    (figure,) = cells["plot"].outputs
    assert base64.b64decode(figure.data["image/png"]) == (small.folder / "figures" / "plot.png").read_bytes()
    assert figure.data["text/plain"] == "Three points; their sum is 12.0."
    assert cells["pad"].outputs == []


def test_words_carry_recorded_numbers_and_nothing_is_left_unresolved(small):
    notebook = read(notebooks.render(small.lesson))
    words = "\n".join(cell.source for cell in notebook.cells if cell.cell_type == "markdown")
    for said in (
        "The values are `[2.0, 4.0, 6.0]`, their sum 12.00.",
        "the sum is 12.0.",
        "The length is 6.",
        "The mean is 4.0.",
        "No; the sum is 12.0.",
    ):
        assert said in words
    assert words.count("{recorded}") == 1  # the example in a code block
    assert "{recorded}`no such thing`" in words


def test_everything_of_the_toml_files_is_read(small):
    words = "\n".join(cell.source for cell in read(notebooks.render(small.lesson)).cells)
    for said in ("What does padding do", "Which point is highest?", "Six is the largest.", "REASONING-ONLY", "Print a \\| b"):
        assert said in words
    for said in (
        "Why 4?",
        "It shows the zeros.",
        "https://docs.python.org/3/library/functions.html#sum",
        "Generated from",
        "2.4.6",
    ):
        assert said in words
    assert "MISTAKE" not in words


def test_local_observations_are_shown_as_recorded_and_named_as_such(small):
    cells = read(notebooks.render(small.lesson)).cells
    place = next(index for index, cell in enumerate(cells) if cell.id == "data")
    assert "Local observation" in cells[place + 1].source
    assert "Seconds: 0.25" in cells[place + 1].source
    assert "Values" not in cells[place + 1].source


def test_the_same_bytes_in_another_process_with_another_hash_seed(small):
    code = (
        "import sys; from pathlib import Path; from course import catalogue; from publish import build\n"
        "made = build.plan(catalogue.load(Path(sys.argv[1])))\n"
        "sys.stdout.buffer.write('\\0'.join(f'{p.path}\\n{p.text}' for p in made.products).encode())"
    )
    outputs = {
        subprocess.run(
            [sys.executable, "-c", code, str(small.root)],
            env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONHASHSEED": seed, "TZ": zone},
            stdout=subprocess.PIPE,
            check=True,
        ).stdout
        for seed, zone in (("1", "UTC"), ("2", "Asia/Tokyo"))
    }
    assert len(outputs) == 1
    assert notebooks.render(small.lesson).encode() in outputs.pop()


def test_seal_tells_an_old_notebook_from_a_changed_one(small):
    text = notebooks.render(small.lesson)
    assert ipynb.is_sealed(text)
    assert ipynb.is_sealed(text.replace("\n", "\r\n"))
    assert not ipynb.is_sealed(text.replace('"execution_count": 2', '"execution_count": 20'))
    assert not ipynb.is_sealed("{}")
    assert not ipynb.is_sealed("not JSON")


def test_without_a_receipt_the_message_names_the_command(small):
    (small.folder / "receipt.json").unlink()
    with pytest.raises(CourseError, match=r"receipt.json: there is no receipt — run `make record LESSON=small-01`"):
        notebooks.render(small.lesson)


def test_an_old_receipt_is_refused(small):
    small.change("code/main.py", "SLOTS = 4", "SLOTS = 5")
    with pytest.raises(CourseError, match=r"have changed since.*make record LESSON=small-01"):
        notebooks.render(small.lesson)


def test_a_figure_that_is_missing_changed_or_not_recorded_is_refused(small):
    figure = small.folder / "figures" / "plot.png"
    figure.write_bytes(figure.read_bytes() + b"x")
    with pytest.raises(CourseError, match=r"plot.png: not the figure that the receipt names — run `make record"):
        notebooks.render(small.lesson)
    figure.unlink()
    with pytest.raises(CourseError, match=r"figures/plot.png: the figure's file is missing"):
        notebooks.render(small.lesson)
    small.record(figures={})
    with pytest.raises(CourseError, match=r"receipt.json: figures.plot: the figure was not recorded"):
        notebooks.render(small.lesson)


def test_a_notebook_that_is_too_large_names_its_largest_output(small):
    lines = small.record().lines
    small.record(lines=(*lines, lines[0].model_copy(update={"cell": "longer", "text": "x" * 300_000})))
    with pytest.raises(
        CourseError, match=r"small-01.ipynb: 3[01]\d,\d+ bytes; the limit is 300,000 — .*printed text of cell longer"
    ):
        notebooks.render(small.lesson)


def test_an_id_that_nbformat_would_refuse_is_a_fault_of_the_script(small):
    small.change("code/main.py", 'id="done"', f'id="{"a" * 65}"')
    with pytest.raises(CourseError, match=r"code/main.py: line 27: cell id 'a+' is not a slug of at most 64 characters"):
        small.load()
