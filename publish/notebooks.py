"""The executed reference notebook of a lesson, made without running anything: its words from `lesson.md`, its code from
`code/main.py`, its outputs from the receipt and `figures/`.
"""

from __future__ import annotations

import hashlib

from nbformat import NotebookNode

from course.catalogue import Lesson
from course.errors import CourseError
from course.receipt import Receipt
from course.schema import Exercise, Experiment, Figure, LessonFile, QuizFile
from course.script import Cell
from publish import ipynb, markdown
from publish.prose import Block, read
from publish.recorded import Recorded


def path(lesson: Lesson) -> str:
    """Where the reference notebook stands, relative to the course."""
    return lesson.shown(lesson.folder / f"{lesson.id}.ipynb")


def render(lesson: Lesson) -> str:
    """The text of the reference notebook.

    The words keep their order, and the code keeps the order of `code/main.py`, or the notebook could not be run from the
    top. Where the words show a cell before cells it may need (a figure among the ideas, the closing line among the
    building blocks) a pointer stands in its place. The cell follows as soon as those before it have been shown, and with it
    the words that come after it.

    Raises:
        CourseError: for faults in the words, a missing or old receipt, a missing or changed figure, or a notebook that
            would be invalid or too large.
    """
    blocks = read(lesson)
    recorded = Recorded(lesson)
    receipt = recorded.receipt
    folder = lesson.shown(lesson.folder)
    page = _Page(
        lesson,
        receipt,
        recorded.resolved(lesson.meta, f"{folder}/lesson.toml", skip=frozenset({"mistakes"})),
        recorded.resolved(lesson.quiz, f"{folder}/quiz.toml"),
    )
    page.title()
    for block in blocks:
        if block.kind == "words":
            page.words(block, recorded.resolve(block.text, lesson.shown(lesson.words), first=block.line))
        elif block.ref:
            page.show(block)
        else:
            page.part(block)
    return ipynb.dump(page.cells, lesson, path(lesson), seal=True, digest=receipt.digest, generated=True)


class _Page:
    """The notebook while it grows, and the cells that wait for those before them."""

    def __init__(self, lesson: Lesson, receipt: Receipt, meta: LessonFile, quiz: QuizFile) -> None:
        self.lesson, self.receipt, self.meta, self.quiz = lesson, receipt, meta, quiz
        self.cells: list[NotebookNode] = []
        self.left = list(lesson.cells)
        self.waiting: set[str] = set()
        self.later: dict[str, list[str]] = {}

    def say(self, *parts: str) -> None:
        """Add a cell of words, if there are any."""
        if text := markdown.join(*parts):
            ipynb.words(self.cells, text)

    def words(self, block: Block, text: str) -> None:
        """Add the words of a block; those that come after a cell that still waits are kept for it."""
        if any(cell.id == block.after for cell in self.left):
            self.later.setdefault(block.after, []).append(text)
        else:
            self.say(text)

    def title(self) -> None:
        """The head of the notebook: what it is, and where its outputs come from."""
        folder, environment = self.lesson.shown(self.lesson.folder), self.receipt.environment
        packages = ", ".join(f"{name} {version}" for name, version in sorted(environment.packages.items()))
        devices = f"; devices: {', '.join(environment.devices)}" if environment.devices else ""
        self.say(
            f"# {self.meta.title}",
            f"> Generated from `{folder}/` by `make build` (`python -m publish build`). Do not edit it: the next build "
            f"replaces it. Your own copy to work in is `exercises/{self.lesson.id}.ipynb`.",
            f"**{self.meta.question}**",
            f"`{self.lesson.id}` · {self.meta.minutes} minutes · {self.meta.hardware.upper()} · "
            f"comes after: {markdown.after(self.meta.after, {})} · revision {self.meta.revision.isoformat()}",
            markdown.objectives(self.meta),
            f"The outputs below are those of the recorded run (`{folder}/receipt.json`): {environment.implementation} "
            f"{environment.python} on {environment.platform}, {environment.machine}; {packages}{devices}.",
        )

    def show(self, block: Block) -> None:
        """Show a cell here if all cells before it have been shown, and then those that waited for it."""
        self.waiting.add(block.ref)
        if self.left[0].id != block.ref:
            cell = self.lesson.cell(block.ref)
            self.say(f"*The cell “{cell.title}” runs further down, after the cells that come before it in `code/main.py`.*")
            return
        while self.left and self.left[0].id in self.waiting:
            cell = self.left.pop(0)
            if cell.id != block.ref and cell.role in {"parameters", "build"}:
                self.say(f"### {cell.title}")  # its words stand where it was pointed at
            self._cell(cell)
            self.say(*self.later.pop(cell.id, []))

    def _cell(self, cell: Cell) -> None:
        match cell.role:
            case "figure":
                self._figure(cell, next(one for one in self.meta.figures if one.cell == cell.id))
            case "experiment":
                self._experiment(cell, next(one for one in self.meta.experiments if one.cell == cell.id))
            case "exercise":
                self._exercise(cell, next(one for one in self.meta.exercises if one.id == cell.id))
            case _:
                self._code(cell)

    def _code(self, cell: Cell, *more: NotebookNode, hidden: bool = False) -> None:
        printed = self.receipt.printed(cell.id)
        outputs = [ipynb.stream(printed)] if printed else []
        folding = {"jupyter": {"source_hidden": True}} if hidden else {}
        # The number of the cell in the script, since every cell before it has been shown.
        count = len(self.lesson.cells) - len(self.left)
        self.cells.append(ipynb.code(cell, cell.source, count, [*outputs, *more], **folding))
        local = [line for line in printed.splitlines() if self.meta.line_rule(cell.id, line).name == "ignored"]
        if local:
            self.say(
                "*Local observation: what follows was seen in the recorded run, differs from run to run, and is never compared.*",
                markdown.bullets(f"*`{line.replace('`', chr(39))}`*" for line in local),
            )

    def _figure(self, cell: Cell, figure: Figure) -> None:
        self.say(f"### Figure: {figure.title}", markdown.question(figure.prediction))
        self._code(cell, ipynb.image(self._png(cell), figure.alt))
        self.say(markdown.answers(figure.prediction), f"**How to read it.** {figure.reading}")

    def _png(self, cell: Cell) -> bytes:
        file = self.lesson.folder / "figures" / f"{cell.id}.png"
        remedy = f"run `make record LESSON={self.lesson.id}`"
        try:
            image = file.read_bytes()
        except FileNotFoundError:
            raise CourseError.at(self.lesson.shown(file), "", "the figure's file is missing", remedy) from None
        record = self.receipt.figures.get(cell.id)
        if record is None:
            raise CourseError.at(
                self.lesson.shown(self.lesson.receipt), f"figures.{cell.id}", "the figure was not recorded", remedy
            )
        if hashlib.sha256(image).hexdigest() != record.png:
            raise CourseError.at(self.lesson.shown(file), "", "not the figure that the receipt names", remedy)
        return image

    def _experiment(self, cell: Cell, experiment: Experiment) -> None:
        self.say(f"### Experiment: {cell.title}", markdown.question(experiment.prediction))
        self._code(cell)
        self.say(
            markdown.answers(experiment.prediction),
            f"**What to expect.** {experiment.expected}",
            f"**What it means.** {experiment.meaning}",
        )

    def _exercise(self, cell: Cell, exercise: Exercise) -> None:
        self.say(markdown.exercise(exercise, self.meta), "The reference solution is in the folded cell below.")
        self._code(cell, hidden=True)
        self.say(markdown.folded("Why the reference solution is right", exercise.reasoning))

    def part(self, block: Block) -> None:
        """The quiz, the diagnosis, the evidence or the references."""
        match block.kind:
            case "quiz":
                self.say(markdown.quiz(self.quiz))
            case "diagnosis":
                self.say(markdown.diagnosis(self.meta.diagnoses))
            case "evidence":
                template = f"A template for it: `exercises/{self.lesson.id}-evidence.md`."
                self.say(markdown.evidence(self.meta.evidence), template)
            case _:
                self.say(markdown.references(self.meta.references))
