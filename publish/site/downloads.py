"""What a reader can take along: notebooks, scripts, words, records, figures, evidence templates, and ZIPs that run by themselves."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property

from course.catalogue import Lesson, Phase, Project
from publish import bundle, exercises, notebooks, projects
from publish.site.sheets import Sheet, Sheets

FOLDER = "downloads"
_GIVEN = frozenset({"parameters", "build", "figure", "experiment"})


@dataclass(frozen=True)
class Download:
    """A file to take along.

    Attributes:
        path: on the site.
        name: what a reader calls it.
        what: what it is for.
        data: its content.
    """

    path: str
    name: str
    what: str
    data: bytes

    @property
    def file(self) -> str:
        """The name under which it is saved."""
        return self.path.rpartition("/")[2]

    @property
    def size(self) -> str:
        """Its size, for people."""
        return f"{max(1, round(len(self.data) / 1000))} kB"


class Downloads:
    """All downloads of the site."""

    def __init__(self, sheets: Sheets) -> None:
        self._sheets = sheets

    @cached_property
    def _made(self) -> dict[str, str]:
        """Every generated file, by its path in the course."""
        return bundle.generated(self._sheets.catalogue)

    @cached_property
    def units(self) -> dict[str, tuple[Download, ...]]:
        """The downloads of each lesson and project.

        Raises:
            CourseError: for faults in the words, a missing or old receipt, or a missing figure.
        """
        return {one.id: tuple([*self._unit(one), *_figures(one)]) for one in self._sheets.all}

    @cached_property
    def phases(self) -> dict[str, tuple[Download, ...]]:
        """The ZIPs of each phase that has lessons."""
        return {phase.entry.id: self._phase(phase) for phase in self._sheets.written}

    @cached_property
    def course(self) -> Download:
        """The ZIP of the whole course."""
        data = bundle.course(self._sheets.catalogue, self._made)
        return Download(
            f"{FOLDER}/training-systems.zip", "The whole course", "every lesson, project and tool, solutions included", data
        )

    def around(self, sheet: Sheet) -> tuple[Download, ...]:
        """The ZIPs that a lesson or project belongs to: those of its phase, if that has lessons, and that of the course."""
        return (*(self.phases.get(sheet.phase.entry.id, ()) if sheet.phase else ()), self.course)

    def files(self) -> dict[str, bytes]:
        """Every download, by path."""
        groups = [*self.units.values(), *self.phases.values(), (self.course,)]
        return {one.path: one.data for group in groups for one in group}

    def _unit(self, sheet: Sheet) -> list[Download]:
        unit, folder = sheet.unit, f"{FOLDER}/{sheet.id}"
        record = Download(
            f"{folder}/{unit.id}-receipt.json",
            "Execution record",
            "the receipt: every printed line and observed value of the recorded run, versions, digests",
            unit.receipt.read_bytes(),
        )
        if isinstance(unit, Lesson):
            return [*_lesson(unit, self._made, folder), record]
        assert isinstance(unit, Project)
        return [*_project(unit, self._made, bundle.render(unit, self._sheets.catalogue), folder), record]

    def _phase(self, phase: Phase) -> tuple[Download, ...]:
        folder, catalogue = f"{FOLDER}/{phase.entry.folder}", self._sheets.catalogue
        return (
            Download(
                f"{folder}/{phase.entry.folder}-beginner.zip",
                "To begin with",
                "the exercises of this phase to work in, without any solution",
                bundle.beginner(phase, catalogue, self._made),
            ),
            Download(
                f"{folder}/{phase.entry.folder}.zip",
                "The whole phase",
                "lessons, exercises and projects with the grader that checks them, solutions included",
                bundle.phase(phase, catalogue, self._made),
            ),
        )


def _lesson(lesson: Lesson, made: dict[str, str], folder: str) -> list[Download]:
    reference = made[notebooks.path(lesson)]
    notebook, script, template = exercises.paths(lesson)
    script_text = lesson.script.read_text(encoding="utf-8")
    return [
        Download(f"{folder}/{lesson.id}.ipynb", "Exercise notebook", "to work in: no solution is in it", made[notebook].encode()),
        Download(f"{folder}/{lesson.id}.py", "Exercise script", "the same for an editor and a terminal", made[script].encode()),
        Download(
            f"{folder}/{lesson.id}-reference.ipynb",
            "Executed notebook",
            "the lesson with its code, outputs and figures, and the reference solutions",
            reference.encode(),
        ),
        Download(
            f"{folder}/{lesson.id}-reference.py",
            "Reference script",
            "all code of the lesson in one file, solutions included",
            script_text.encode(),
        ),
        Download(
            f"{folder}/{lesson.id}-given.py", "Cumulative file", "the blocks of this page in one file", given(lesson).encode()
        ),
        Download(
            f"{folder}/{lesson.id}.md", "Lesson text", "the whole page as Markdown, solutions included", _text(reference).encode()
        ),
        Download(f"{folder}/{lesson.id}-evidence.md", "Evidence template", "to fill in with your own run", made[template].encode()),
    ]


def given(lesson: Lesson) -> str:
    """The lesson's own cells as one script: everything but the exercises."""
    return "\n\n".join(f"# %% {cell.title}\n{cell.source.strip()}" for cell in lesson.cells if cell.role in _GIVEN) + "\n"


def _text(notebook: str) -> str:
    """A notebook as Markdown: words as they are, code and what it printed in fences. Figures are not in it."""
    parts: list[str] = []
    for cell in json.loads(notebook)["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            parts.append(source)
            continue
        parts.append(_fenced(source, "python"))
        parts += [_fenced("".join(one["text"]).rstrip("\n"), "text") for one in cell["outputs"] if one["output_type"] == "stream"]
        parts += [
            f"*Figure: {''.join(one['data']['text/plain'])}*" for one in cell["outputs"] if one["output_type"] == "display_data"
        ]
    return "\n\n".join(parts) + "\n"


def _fenced(text: str, language: str) -> str:
    fence = "```"
    while fence in text:
        fence += "`"
    return f"{fence}{language}\n{text}\n{fence}"


def _project(project: Project, made: dict[str, str], archive: bytes, folder: str) -> list[Download]:
    return [
        Download(
            f"{folder}/{project.id}.zip",
            "Project",
            "guide, starter, given files and the check, without the solution: runs by itself",
            archive,
        ),
        Download(
            f"{folder}/{project.meta.module}", "Starter", "the module that you write", made[projects.starter(project)].encode()
        ),
        Download(f"{folder}/stages.py", "Stages", "given: what puts your module to the test", project.script.read_bytes()),
        *(Download(f"{folder}/{name}", name, "given", text.encode()) for name, text in project.files.items()),
        Download(f"{folder}/{project.id}.md", "Guide", "this page as Markdown", made[projects.guide(project)].encode()),
    ]


def _figures(sheet: Sheet) -> list[Download]:
    found: list[Download] = []
    for one in sheet.unit.meta.figures:
        files, stem = sheet.figure(one.cell), f"{FOLDER}/{sheet.id}/{one.cell}"
        found += [
            Download(f"{stem}.svg", f"Figure: {one.title}", "the drawing, to any size", files.svg),
            Download(f"{stem}.png", f"Figure: {one.title}", "the same as an image", files.png),
            Download(f"{stem}.json", f"Figure: {one.title}", "plotted data with provenance: code, versions, device", files.data),
        ]
    return found
