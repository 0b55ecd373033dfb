"""What a learner works in: the exercise notebook, the same as a script, the template for the evidence, and the list of them.

No solution is in any of them: an exercise is its scaffold, and its reasoning and mistakes stay in the lesson. Each code cell
says three times which cell it is (cell id, metadata, first line), so that a grader finds it after it was copied, pasted or
saved by another editor.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from nbformat import NotebookNode

from course.catalogue import Catalogue, Lesson, Project
from course.errors import CourseError, Problem
from course.schema import LessonFile
from course.script import Cell
from publish import ipynb, markdown
from publish.recorded import Recorded

FOLDER = "exercises"

# What no learner's file holds; texts in it need no receipt.
_UNPUBLISHED = frozenset({"reasoning", "mistakes", "diagnoses", "references"})
_MARKER = re.compile(r"#\s*((BEGIN|END) )?(SOLUTION|REFERENCE)\b")


@dataclass(frozen=True)
class _Piece:
    """One cell of a learner's file: words, or a lesson's cell with the code it shows."""

    text: str
    cell: Cell | None = None


def paths(lesson: Lesson) -> tuple[str, str, str]:
    """Notebook, script and evidence template of a lesson, relative to the course."""
    return f"{FOLDER}/{lesson.id}.ipynb", f"{FOLDER}/{lesson.id}.py", f"{FOLDER}/{lesson.id}-evidence.md"


def render(lesson: Lesson, names: Mapping[str, str]) -> dict[str, str]:
    """The learner's files of a lesson, by path.

    Args:
        lesson: the lesson.
        names: readable names of phases and lessons, by id.

    Raises:
        CourseError: for a solution marker in a cell that is given, a recorded value that cannot be resolved, or a
            notebook that would be invalid or too large.
    """
    _refuse_markers(lesson)
    file = f"{lesson.shown(lesson.folder)}/lesson.toml"
    meta = Recorded(lesson).resolved(lesson.meta, file, skip=_UNPUBLISHED)
    pieces = tuple(_pieces(lesson, meta, names))
    notebook, script, template = paths(lesson)
    return {
        notebook: _notebook(lesson, pieces, notebook),
        script: _script(pieces),
        template: _evidence(lesson, meta),
    }


def _refuse_markers(lesson: Lesson) -> None:
    """A solution that is marked in a given cell would be handed out."""
    problems = [
        Problem(
            lesson.shown(lesson.script),
            f"line {cell.line + number}",
            f"a solution marker in cell {cell.id}, which learners are given",
            'move it into a cell with role="exercise", or take the marker away',
        )
        for cell in lesson.cells
        if cell.role != "exercise"
        for number, line in enumerate(cell.source.split("\n"))
        if _MARKER.search(line)
    ]
    if problems:
        raise CourseError(*problems)


def _pieces(lesson: Lesson, meta: LessonFile, names: Mapping[str, str]) -> Iterator[_Piece]:
    yield _Piece(_head(lesson, meta, names))
    figures = {one.cell: one for one in meta.figures}
    experiments = {one.cell: one for one in meta.experiments}
    exercises = {one.id: one for one in meta.exercises}
    for cell in lesson.cells:
        match cell.role:
            case "figure":
                figure = figures[cell.id]
                yield _Piece(markdown.join(f"### Figure: {figure.title}", markdown.question(figure.prediction)))
                yield _Piece(cell.source, cell)
                reading = markdown.folded("How to read the figure", figure.reading)
                yield _Piece(markdown.join(markdown.answers(figure.prediction), reading))
            case "experiment":
                experiment = experiments[cell.id]
                yield _Piece(markdown.join(f"### Experiment: {cell.title}", markdown.question(experiment.prediction)))
                yield _Piece(cell.source, cell)
                meaning = markdown.folded("What to expect, and what it means", experiment.expected, experiment.meaning)
                yield _Piece(markdown.join(markdown.answers(experiment.prediction), meaning))
            case "exercise":
                where = "Write in the cell below: put your code where it says `...`, and take the `TODO` away."
                yield _Piece(markdown.join(markdown.exercise(exercises[cell.id], meta), where))
                yield _Piece(lesson.scaffolds[cell.id].source, cell)
            case "parameters":
                advice = (
                    "Given. The check also runs your code with other values than these: write their names in it, never the numbers."
                )
                yield _Piece(markdown.join(f"### {cell.title}", advice))
                yield _Piece(cell.source, cell)
            case _:
                yield _Piece(markdown.join(f"### {cell.title}", _given(lesson, cell)))
                yield _Piece(cell.source, cell)


def _given(lesson: Lesson, cell: Cell) -> str:
    if f"PASS: {lesson.id}" in cell.source:
        return "Given. Its line says that the run has reached its end. Whether your answers are right, only the check says."
    return "Given: read it, and run it as it is."


def _head(lesson: Lesson, meta: LessonFile, names: Mapping[str, str]) -> str:
    folder = lesson.shown(lesson.folder)
    return markdown.join(
        f"# {meta.title}",
        f"> Generated from `{folder}/` by `make build` (`python -m publish build`). This is **your copy: edit the exercise "
        f"cells**. Once you have changed it, no build overwrites it; `make reset LESSON={lesson.id}` "
        f"(`python -m environment publish reset {lesson.id}`) brings the original back and keeps yours in `backups/`.",
        f"**{meta.question}**",
        # Also how the grader knows a script whose name says nothing.
        f"lesson: {lesson.id}",
        f"{meta.minutes} minutes · {meta.hardware.upper()} · comes after: {markdown.after(meta.after, names)}",
        markdown.objectives(meta),
        "How to work:",
        markdown.steps(
            (
                f"Read the lesson beside this: `{folder}/{lesson.id}.ipynb`.",
                "Run from the top. Answer each question before you run the cell after it.",
                "Write in the exercise cells only. The other cells are given: the check puts the lesson's own in their place. "
                "Leave the first line of each cell (`# cell: …`) where it is: by it the check finds the cell.",
                "Before you check, restart and run all cells, and save: names that are left from an earlier run hide mistakes.",
                f"Check, in a terminal in the course's folder: `make check LESSON={lesson.id}`, or without make "
                f"`python -m environment graders check {lesson.id}`. That looks at the notebook; if you work in the script, add "
                f"`FILE={paths(lesson)[1]}` behind the first, `{paths(lesson)[1]}` behind the second.",
                f"Keep your evidence in `{paths(lesson)[2]}`.",
            )
        ),
    )


def _marked(piece: _Piece, cell: Cell) -> str:
    return f"# cell: {cell.id}\n{piece.text}"


def _notebook(lesson: Lesson, pieces: tuple[_Piece, ...], shown: str) -> str:
    cells: list[NotebookNode] = []
    for piece in pieces:
        if piece.cell is None:
            ipynb.words(cells, piece.text)
        else:
            tags = ["exercise" if piece.cell.role == "exercise" else "given"]
            cells.append(ipynb.code(piece.cell, _marked(piece, piece.cell), None, [], tags=tags))
    # No seal: the manifest beside it knows what it was.
    return ipynb.dump(cells, lesson, shown, seal=False)


def _script(pieces: tuple[_Piece, ...]) -> str:
    """The percent script; jupytext and JupyterLab open it as a notebook."""
    parts: list[str] = []
    for piece in pieces:
        if piece.cell is None:
            lines = "\n".join(_comment(line) for line in piece.text.split("\n"))
            parts.append(f"# %% [markdown]\n{lines}\n")
        else:
            cell = piece.cell
            parts.append(f'# %% {cell.title} id="{cell.id}" role="{cell.role}"\n{_marked(piece, cell)}\n')
    return "\n".join(parts)


def _comment(line: str) -> str:
    # A line of words that begins with %% would read as the start of a cell.
    harmless = re.sub(r"^(\s*)%%", r"\1&#37;%", line)
    return f"# {harmless}".rstrip()


def _evidence(lesson: Lesson, meta: LessonFile) -> str:
    folder = lesson.shown(lesson.folder)
    asked = [(f"Figure: {one.title}", one.prediction) for one in meta.figures]
    asked += [(f"Experiment: {lesson.cell(one.cell).title}", one.prediction) for one in meta.experiments]
    predictions: list[str] = []
    for title, prediction in asked:
        predictions += [f"### {title}", prediction.ask, "My prediction, and why:", "What I saw:"]
    code: list[str] = []
    for exercise in meta.exercises:
        code += [f"### {markdown.exercise_title(exercise)} (`{exercise.id}`)", "```python\n```", "Why it is right:"]
    items: list[str] = []
    for number, wanted in enumerate(meta.evidence, 1):
        items += [f"### {number}. {wanted.item}", f"*Why it is asked for: {wanted.why}*", "Mine:"]
    versions = [("Python", ""), ("operating system, processor", ""), *((name, "") for name in sorted(meta.packages))]
    return (
        markdown.join(
            markdown.banner(
                f"{folder}/lesson.toml",
                f"Your copy: write in it. Once changed it is never overwritten; `make reset LESSON={lesson.id}` keeps a backup.",
            ),
            f"# Evidence: {meta.title} (`{lesson.id}`)",
            "Name:",
            "Date:",
            "## Predictions, written before running",
            *(predictions or ["This lesson asks for none."]),
            "## My own code",
            *(code or ["This lesson has no exercise."]),
            "## Outputs",
            "The lines of my run, after a restart:",
            "```text\n```",
            "What differs from the reference notebook, and why:",
            "## Verdict",
            f"What `make check LESSON={lesson.id}` (`python -m environment graders check {lesson.id}`) said:",
            "```text\n```",
            "## Versions",
            "Where this was run. `python -m pip list` names the versions:",
            markdown.table(("what", "version"), versions),
            "## What to keep",
            *(items or ["This lesson asks for nothing more."]),
            "## What this does not show",
            "The limits of my evidence, in my own words:",
        )
        + "\n"
    )


def listing(catalogue: Catalogue, names: Mapping[str, str]) -> str:
    """`exercises/README.md`: the lessons that can be worked on, by phase, and the projects."""
    sections: list[str] = []
    for phase in catalogue.phases:
        if not phase.lessons:
            continue
        rows = [_row(lesson, names) for lesson in phase.lessons]
        head = ("lesson", "minutes", "comes after", "notebook", "script", "evidence")
        sections += [f"## Phase {phase.entry.id}: {phase.entry.title}", markdown.table(head, rows)]
    if catalogue.projects:
        rows = [_project_row(project, names) for project in catalogue.projects]
        sections += ["## Projects", markdown.table(("project", "minutes", "comes after", "your module"), rows)]
    return (
        markdown.join(
            markdown.banner("the lessons under phases/", "Do not edit it: the next build replaces it."),
            "# Exercises",
            "These files are for you to work in: a notebook and a script of each lesson (both hold the same: take the one you "
            "like), and a template for the evidence. They hold no solutions.",
            markdown.bullets(
                (
                    "Check a lesson: `make check LESSON=<id>`, or `python -m environment graders check <id>`.",
                    "A file that you have changed is never overwritten. `make reset LESSON=<id>`, or `python -m publish "
                    "reset <id>`, brings the originals back and keeps yours in `backups/`.",
                    "The lesson itself, with the reference solutions, is in the folder that its title leads to.",
                )
            ),
            *(sections or ["No lesson is written yet."]),
        )
        + "\n"
    )


def _project_row(project: Project, names: Mapping[str, str]) -> tuple[str, ...]:
    title = f"[{project.meta.title}](../{project.shown(project.folder)}/) `{project.id}`"
    module = f"[{project.meta.module}](../{project.shown(project.module)})"
    return title, str(project.meta.minutes), markdown.after(project.meta.after, names), module


def _row(lesson: Lesson, names: Mapping[str, str]) -> tuple[str, ...]:
    files = [path.removeprefix(f"{FOLDER}/") for path in paths(lesson)]
    title = f"[{lesson.meta.title}](../{lesson.shown(lesson.folder)}/) `{lesson.id}`"
    links = [f"[{file}]({file})" for file in files]
    return title, str(lesson.meta.minutes), markdown.after(lesson.meta.after, names), *links
