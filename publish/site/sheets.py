"""Lessons and projects as the pages show them: their texts with the recorded values in them, and where everything stands on the site."""

from __future__ import annotations

import hashlib
import json
import posixpath
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from markdown_it import MarkdownIt

from course.catalogue import Catalogue, Lesson, Phase, Project, Unit
from course.errors import CourseError
from course.receipt import Receipt
from course.schema import LessonFile, ProjectFile, QuizFile, UnitFile
from publish import guide
from publish.prose import STAGES, Block, read
from publish.recorded import Recorded
from publish.site import keys


@dataclass(frozen=True)
class Asked:
    """Something that a reader answers or keeps: its id on the site, and its text or the digest of what is asked."""

    id: str
    text: str


# What comes before and after the stages of a project.
BEGIN, END = Asked("brief", "Before you begin"), Asked("finish", "To finish")


@dataclass(frozen=True)
class Figure:
    """The files of a figure: drawing and plotted data."""

    svg: bytes
    png: bytes
    data: bytes


class Sheet:
    """One lesson or project, resolved.

    Attributes:
        unit: the lesson or project.
        phase: that it belongs to; a project belongs to the phase of what it comes after. None if there is none.
        number: the lesson's place in its phase, from 1; 0 for a project.
    """

    def __init__(self, unit: Unit, phase: Phase | None) -> None:
        self.unit, self.phase = unit, phase
        self.number = phase.lessons.index(unit) + 1 if phase and isinstance(unit, Lesson) else 0
        self.recorded = Recorded(unit)

    @property
    def id(self) -> str:
        """The id of the lesson or project."""
        return self.unit.id

    @property
    def title(self) -> str:
        """The title."""
        return self.unit.meta.title

    @property
    def kind(self) -> str:
        """``lesson`` or ``project``."""
        return "lesson" if isinstance(self.unit, Lesson) else "project"

    @property
    def page(self) -> str:
        """The page's name on the site, without ``.html``."""
        if isinstance(self.unit, Lesson):
            assert self.phase is not None, "a lesson belongs to a phase"
            return f"phases/{self.phase.entry.folder}/{self.id}"
        return f"projects/{self.id}"

    @cached_property
    def receipt(self) -> Receipt:
        """What was recorded. Raises CourseError if it is missing or of another source."""
        return self.recorded.receipt

    @cached_property
    def blocks(self) -> tuple[Block, ...]:
        """The words, with recorded values in them. Raises CourseError for faults in them."""
        shown = self.unit.shown(self.unit.words)
        return tuple(replace(one, text=self.recorded.resolve(one.text, shown, first=one.line)) for one in read(self.unit))

    @cached_property
    def meta(self) -> UnitFile:
        """The TOML file, resolved. A project's answers are left out; a lesson's are behind a click."""
        skip = {"mistakes"} if isinstance(self.unit, Lesson) else {"mistakes", "reasoning"}
        return self.recorded.resolved(self.unit.meta, self.unit.file, skip=frozenset(skip))

    @property
    def lesson(self) -> LessonFile:
        """The TOML file of a lesson."""
        assert isinstance(self.meta, LessonFile)
        return self.meta

    @property
    def project(self) -> ProjectFile:
        """The TOML file of a project."""
        assert isinstance(self.meta, ProjectFile)
        return self.meta

    @cached_property
    def quiz(self) -> QuizFile | None:
        """The quiz of a lesson, resolved."""
        if not isinstance(self.unit, Lesson):
            return None
        return self.recorded.resolved(self.unit.quiz, self.unit.shown(self.unit.folder / "quiz.toml"))

    @property
    def stages(self) -> tuple[Asked, ...]:
        """The stages of the page: of a lesson the five; of a project its own, and what comes before and after them."""
        if isinstance(self.unit, Lesson):
            return tuple(Asked(stage_id(title), title) for title in STAGES)
        asked = [Asked(one.id, f"Stage {number}: {one.title}") for number, one in enumerate(self.meta.exercises, 1)]
        return (BEGIN, *asked, END)

    @property
    def predictions(self) -> tuple[Asked, ...]:
        """The predictions, with their keys."""
        asked = [(one.cell, one.prediction) for one in self.meta.figures]
        if isinstance(self.meta, LessonFile):
            asked += [(one.cell, one.prediction) for one in self.meta.experiments]
        return tuple(Asked(f"{self.id}/{cell}", keys.asked(one)) for cell, one in asked)

    @property
    def questions(self) -> tuple[Asked, ...]:
        """The questions of the quiz, with their keys."""
        return tuple(Asked(f"{self.id}/{one.id}", keys.asked(one)) for one in (self.quiz.questions if self.quiz else ()))

    @property
    def exercises(self) -> tuple[Asked, ...]:
        """The exercises of a lesson, or the stages of a project."""
        return tuple(Asked(f"{self.id}/exercise/{one.id}", plain(one.title)) for one in self.meta.exercises)

    @property
    def evidence(self) -> tuple[Asked, ...]:
        """What to keep."""
        return tuple(Asked(f"{self.id}/evidence/{number}", plain(one.item)) for number, one in enumerate(self.meta.evidence, 1))

    def figure(self, cell: str) -> Figure:
        """The files of a figure.

        Raises:
            CourseError: if one is missing, or not the one that the receipt names.
        """
        remedy = f"run `make record {self.unit.make}`"
        record = self.receipt.figures.get(cell)
        if record is None:
            raise CourseError.at(self.unit.shown(self.unit.receipt), f"figures.{cell}", "the figure was not recorded", remedy)
        files: dict[str, bytes] = {}
        for suffix, wanted in (("svg", record.svg), ("png", record.png), ("json", record.data)):
            path = self.unit.folder / "figures" / f"{cell}.{suffix}"
            try:
                files[suffix] = path.read_bytes()
            except FileNotFoundError:
                raise CourseError.at(self.unit.shown(path), "", "the figure's file is missing", remedy) from None
            if hashlib.sha256(files[suffix]).hexdigest() != wanted:
                raise CourseError.at(self.unit.shown(path), "", "not the figure that the receipt names", remedy)
        return Figure(files["svg"], files["png"], files["json"])

    @cached_property
    def digest(self) -> str:
        """Of everything that the page shows, so that a page is made again exactly when something in it has changed."""
        quiz = self.quiz.model_dump(mode="json") if self.quiz else None
        cells = [[cell.id, cell.role, cell.title, cell.source] for cell in self.unit.cells]
        blocks = [[one.kind, one.line, one.text, one.ref, one.after] for one in self.blocks]
        shown = [self.meta.model_dump(mode="json"), quiz, cells, blocks, self.receipt.model_dump(mode="json")]
        files = dict(self.unit.files) if isinstance(self.unit, Project) else {}
        return hashlib.sha256(json.dumps([shown, files], sort_keys=True, default=str).encode()).hexdigest()


class Sheets:
    """All lessons and projects of the course as the site shows them."""

    def __init__(self, catalogue: Catalogue) -> None:
        self.catalogue = catalogue
        self.names = guide.names(catalogue)
        phases = {lesson.id: phase for phase in catalogue.phases for lesson in phase.lessons}
        phases |= {phase.entry.id: phase for phase in catalogue.phases}
        self.all = [Sheet(lesson, phases[lesson.id]) for lesson in catalogue.lessons]
        for project in catalogue.projects:
            before = [phases[one] for one in project.meta.after if one in phases]
            self.all.append(Sheet(project, before[-1] if before else None))

    @property
    def root(self) -> Path:
        """The course's folder."""
        return self.catalogue.root

    def __getitem__(self, unit_id: str) -> Sheet:
        """The sheet of that id. Raises KeyError."""
        for one in self.all:
            if one.id == unit_id:
                return one
        raise KeyError(unit_id)

    def of(self, phase: Phase) -> list[Sheet]:
        """The sheets of a phase: its lessons in their order, then its projects."""
        return [one for one in self.all if one.phase is phase]

    @property
    def written(self) -> list[Phase]:
        """The phases that have lessons."""
        return [phase for phase in self.catalogue.phases if phase.lessons]

    def page(self, name: str) -> str | None:
        """The page of a lesson, project or written phase, by id; None for a planned one."""
        for sheet in self.all:
            if sheet.id == name:
                return sheet.page
        return next((guide_page(phase) for phase in self.written if phase.entry.id == name), None)

    @property
    def revision(self) -> str:
        """The date of the last change that a reader should notice."""
        return max((one.unit.meta.revision.isoformat() for one in self.all), default="")


def guide_page(phase: Phase) -> str:
    """The page of a phase's study guide."""
    return f"phases/{phase.entry.folder}/index"


def notes_page(phase: Phase) -> str:
    """The page of a phase's revision notes."""
    return f"phases/{phase.entry.folder}/notes"


def stage_id(title: str) -> str:
    """The id of a stage's section, as its heading gives it."""
    return "-".join("".join(letter if letter.isalnum() else " " for letter in title.lower()).split())


def plain(text: str) -> str:
    """The words of a line of Markdown without its marks."""
    tokens = MarkdownIt("commonmark").parseInline(text)[0].children or []
    return "".join(" " if one.type in {"softbreak", "hardbreak"} else one.content for one in tokens)


def relative(target: str, page: str) -> str:
    """The address of a file of the site as seen from a page. Both are relative to the site's root."""
    return posixpath.relpath(target, posixpath.dirname(page) or ".")


def address(page: str) -> str:
    """The file of a page, relative to the site's root."""
    return f"{page}.html"
