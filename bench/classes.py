"""The notebooks that are measured: a class in which each submission has other constants, in the form that each tool wants.

The cells stand once, in the script of the lesson in `lesson/`; `without_jax.py` beside it holds those that differ for NumPy.
"""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from course.catalogue import load
from course.script import Cell, read_script

HERE = Path(__file__).resolve().parent
LESSON = HERE / "lesson"
VARIANTS = ("jax", "numpy")
ASSIGNMENT = "descent"
_KERNEL = {"kernelspec": {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"}}
_MARKER = re.compile(r"^\s*# (BEGIN|END) SOLUTION.*\n?", re.MULTILINE)


@dataclass(frozen=True)
class Student:
    """Who hands in, and with which constants.

    Attributes:
        name: of the folder or file.
        seed: of the data; of its own for everybody, so that nobody's result is another's.
        rate: of the steps.
    """

    name: str
    seed: int
    rate: float


def students(size: int) -> tuple[Student, ...]:
    """A class of this size. A larger one begins with the smaller one."""
    return tuple(Student(f"s{number:04d}", 1000 + number, 0.08 + 0.001 * (number % 40)) for number in range(size))


def script() -> Path:
    """The script of the lesson that is measured."""
    (lesson,) = load(LESSON).units
    return lesson.script


@cache
def cells(variant: str) -> tuple[Cell, ...]:
    """The cells of a variant, with the solutions and their markers in them."""
    found = read_script(script())
    if variant == "jax":
        return found
    other = {cell.id: cell for cell in read_script(LESSON / "without_jax.py")}
    return tuple(other.get(cell.id, cell) for cell in found)


def course(variant: str, folder: Path) -> str:
    """Make a copy of the lesson for a variant, as a course of its own without a receipt. Returns the lesson's id."""
    shutil.copytree(LESSON, folder, ignore=shutil.ignore_patterns("__pycache__", ".cache"))
    shutil.copy(HERE.parent / "requirements-cpu.txt", folder)
    text = "".join(f'# %% {cell.title} id="{cell.id}" role="{cell.role}"\n{cell.source}\n\n' for cell in cells(variant))
    (folder / script().relative_to(LESSON)).write_text(text, encoding="utf-8")
    return load(folder).units[0].id


def answered(cell: Cell, student: Student, *, constants: bool = True) -> str:
    """A cell as a student hands it in. ``constants``: with the student's own; a lesson of ours gives them."""
    source = _MARKER.sub("", cell.source)
    if cell.role == "parameters" and not constants:
        return source
    if cell.role == "parameters":
        for name, value in (("STUDENT", student.name), ("SEED", student.seed), ("RATE", round(student.rate, 3))):
            source = re.sub(rf"^{name} = .*$", f"{name} = {value!r}", source, flags=re.MULTILINE)
    return f"# {student.name}\n{source}" if cell.role in {"parameters", "exercise"} else source


def loss(student: Student) -> float:
    """The last loss of a student's training, computed here without JAX: the proof that a notebook was run to its end."""
    names: dict[str, Any] = {"print": lambda *_: None}
    for cell in cells("numpy"):
        exec(compile(answered(cell, student), f"<{cell.id}>", "exec"), names)  # noqa: S102 - our own cells
        if cell.id == "train-test":
            break
    return float(names["losses"][-1])


def write(path: Path, cells: list[dict[str, Any]], more: dict[str, Any] | None = None) -> None:
    """Write a notebook."""
    path.parent.mkdir(parents=True, exist_ok=True)
    for number, cell in enumerate(cells):
        cell.setdefault("id", f"c{number:02d}")
    notebook = {"cells": cells, "metadata": {**_KERNEL, **(more or {})}, "nbformat": 4, "nbformat_minor": 5}
    path.write_text(json.dumps(notebook, indent=1), encoding="utf-8")


def code(source: str, **more: Any) -> dict[str, Any]:
    """A code cell without output."""
    cell: dict[str, Any] = {"cell_type": "code", "execution_count": None, "metadata": {}, "outputs": [], "source": source}
    return cell | more


def _raw(source: str) -> dict[str, Any]:
    return {"cell_type": "raw", "metadata": {}, "source": source}


def plain(variant: str, group: tuple[Student, ...], folder: Path) -> None:
    """``<student>.ipynb``, as it is handed in to nobody in particular."""
    for student in group:
        write(folder / f"{student.name}.ipynb", [code(answered(cell, student)) for cell in cells(variant)])


def scripts(variant: str, group: tuple[Student, ...], folder: Path) -> None:
    """``<student>.py``, the same cells one after the other."""
    folder.mkdir(parents=True, exist_ok=True)
    for student in group:
        text = "\n\n".join(answered(cell, student) for cell in cells(variant))
        (folder / f"{student.name}.py").write_text(f"{text}\n", encoding="utf-8")


def handed_in(variant: str, group: tuple[Student, ...], folder: Path, lesson: str) -> None:
    """``<student>/<lesson>.ipynb``: a class for this grader."""
    for student in group:
        made = [code(answered(cell, student, constants=False), id=cell.id) for cell in cells(variant)]
        for cell, one in zip(cells(variant), made, strict=True):
            one["metadata"] = {"training_systems": {"cell": cell.id, "role": cell.role}}
        write(folder / student.name / f"{lesson}.ipynb", made, {"training_systems": {"lesson": lesson}})


def nbgrader(variant: str, group: tuple[Student, ...], folder: Path) -> None:
    """A course of nbgrader: source and submissions."""
    write(folder / "source" / ASSIGNMENT / f"{ASSIGNMENT}.ipynb", [_graded(cell, cell.source) for cell in cells(variant)])
    for student in group:
        made = [_graded(cell, answered(cell, student)) for cell in cells(variant)]
        write(folder / "submitted" / student.name / ASSIGNMENT / f"{ASSIGNMENT}.ipynb", made)
    config = "c = get_config()\nc.CourseDirectory.course_id = 'bench'\nc.ExecutePreprocessor.timeout = 300\n"
    (folder / "nbgrader_config.py").write_text(config, encoding="utf-8")


def _graded(cell: Cell, source: str) -> dict[str, Any]:
    test, solution = cell.id.endswith("-test"), cell.role == "exercise"
    if not test and not solution:
        return code(source)
    about = {"grade": test, "solution": solution, "locked": test, "grade_id": cell.id, "schema_version": 3, "task": False}
    points = {"points": 1} if test else {}
    return code(source, metadata={"nbgrader": {**about, "cell_type": "code", **points}})


_OTTER_CONFIG = """\
# ASSIGNMENT CONFIG
init_cell: true
export_cell: false
solutions_pdf: false
run_tests: false
generate:
  pdf: false
requirements: []
"""


def otter(variant: str, group: tuple[Student, ...], folder: Path) -> None:
    """``master/``, from which `otter assign` makes the tests, and ``class/<student>.ipynb``."""
    made = [_raw(_OTTER_CONFIG)]
    waiting: list[Cell] = []  # what stands before a test is its question
    for cell in cells(variant):
        if cell.id.endswith("-test"):
            given = [_marked(one) for one in waiting]
            made += [
                _raw(f"# BEGIN QUESTION\nname: {_word(cell)}\npoints: 1"),
                _raw("# BEGIN SOLUTION"),
                *given,
                _raw("# END SOLUTION"),
            ]
            made += [_raw("# BEGIN TESTS"), code(cell.source), _raw("# END TESTS"), _raw("# END QUESTION")]
            waiting = []
        elif cell.role == "exercise" or waiting:
            waiting.append(cell)
        else:
            made.append(code(cell.source))
    write(folder / "master" / f"{ASSIGNMENT}.ipynb", made)
    for student in group:
        own = [code(f"import otter\n\ngrader = otter.Notebook({f'{ASSIGNMENT}.ipynb'!r})")]
        for cell in cells(variant):
            own.append(code(f"grader.check({_word(cell)!r})" if cell.id.endswith("-test") else answered(cell, student)))
        write(folder / "class" / f"{student.name}.ipynb", own)


def _marked(cell: Cell) -> dict[str, Any]:
    """A cell of a question as otter wants it: its markers say no more than where the solution is."""
    source = re.sub(r"(# BEGIN SOLUTION):.*", r"\1", cell.source)
    return code(source if "SOLUTION" in source else f"# BEGIN SOLUTION\n{source}\n# END SOLUTION")


def _word(cell: Cell) -> str:
    return cell.id.replace("-", "_")
