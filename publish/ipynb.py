"""Notebooks as text: cells with fixed ids, checked, bounded in size, the same bytes for the same content.

A generated notebook that is not a learner's copy carries a seal, the digest of everything else in it. So a notebook that
somebody ran or wrote notes in is told apart from one that is merely old.
"""

from __future__ import annotations

import base64
import hashlib
import json
from typing import Any

import nbformat
from nbformat import NotebookNode

from course.catalogue import Lesson
from course.errors import CourseError
from course.script import Cell

LIMIT = 300_000  # bytes: what the repository allows a committed file
OURS = "training_systems"  # the key of our metadata in notebooks and cells

_v4: Any = nbformat.v4  # nbformat's own functions carry no types


def words(cells: list[NotebookNode], text: str) -> None:
    """Append a cell of words. Its id has an underscore, which no id of a lesson's cell has, so the two never meet."""
    number = sum(cell.cell_type == "markdown" for cell in cells) + 1
    cells.append(_v4.new_markdown_cell(text, id=f"words_{number:02d}"))


def code(cell: Cell, source: str, count: int | None, outputs: list[NotebookNode], **metadata: Any) -> NotebookNode:
    """A code cell that carries the identity of a lesson's cell.

    Args:
        cell: the lesson's cell.
        source: the code it shows.
        count: its execution count; None for a cell that has not been run.
        outputs: what it gave.
        metadata: more metadata, for instance ``tags``.
    """
    made: NotebookNode = _v4.new_code_cell(
        source,
        id=cell.id,
        execution_count=count,
        outputs=outputs,
        metadata={OURS: {"cell": cell.id, "role": cell.role}, **metadata},
    )
    return made


def stream(text: str) -> NotebookNode:
    """What a cell printed, as an output."""
    made: NotebookNode = _v4.new_output("stream", name="stdout", text=text)
    return made


def image(png: bytes, alt: str) -> NotebookNode:
    """A figure as an output, with the text that says what is seen."""
    made: NotebookNode = _v4.new_output("display_data", data={"image/png": base64.b64encode(png).decode(), "text/plain": alt})
    return made


def dump(cells: list[NotebookNode], lesson: Lesson, shown: str, *, seal: bool, **metadata: Any) -> str:
    """The text of a notebook.

    Args:
        cells: its cells.
        lesson: the lesson it belongs to.
        shown: how messages name the file.
        seal: whether to add the seal.
        metadata: more of our metadata.

    Raises:
        CourseError: if it is too large; the largest output or cell is named.
    """
    notebook: NotebookNode = _v4.new_notebook(
        cells=cells,
        metadata={
            "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
            # No version: it would be that of whoever builds.
            "language_info": {"name": "python"},
            OURS: {"lesson": lesson.id, **metadata},
        },
    )
    nbformat.validate(notebook)
    text = _write(notebook)
    if seal:
        notebook.metadata[OURS]["seal"] = _digest(json.loads(text))
        text = _write(notebook)
    size = len(text.encode())
    if size > LIMIT:
        raise CourseError.at(shown, "", f"{size:,} bytes; the limit is {LIMIT:,}", f"make it smaller: {_largest(notebook)}")
    return text


def _write(notebook: NotebookNode) -> str:
    writes: Any = nbformat.writes
    text: str = writes(notebook, version=nbformat.NO_CONVERT)
    return text.rstrip("\n") + "\n"


def _digest(data: Any) -> str:
    return hashlib.sha256(json.dumps(data, sort_keys=True).encode()).hexdigest()


def is_sealed(text: str) -> bool:
    """Whether a notebook is just as some build wrote it: sealed, and unchanged since."""
    try:
        data = json.loads(text)
        seal = data["metadata"][OURS].pop("seal")
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return False
    return bool(seal == _digest(data))


def is_reference(text: str) -> bool:
    """Whether a notebook was made as a reference notebook, even if it has been changed or copied since."""
    try:
        return bool(json.loads(text)["metadata"][OURS]["generated"] is True)
    except (ValueError, KeyError, TypeError, RecursionError):
        return False


def _largest(notebook: NotebookNode) -> str:
    sizes: list[tuple[int, str]] = []
    for cell in notebook.cells:
        sizes.append((len(json.dumps(cell.source)), f"the text of cell {cell.id}"))
        for output in cell.get("outputs", []):
            kind = "printed text" if output.output_type == "stream" else "figure"
            sizes.append((len(json.dumps(output)), f"the {kind} of cell {cell.id}"))
    size, what = max(sizes)
    return f"the largest part is {what}, {size:,} bytes"
