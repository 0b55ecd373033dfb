"""The page of a lesson or project: its head, its words as MyST reads them, and between them the parts that they show."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from itertools import groupby
from typing import Any, ClassVar

from docutils import nodes
from sphinx.util.docutils import SphinxDirective

from course.catalogue import Lesson
from course.schema import Stage
from publish.prose import Block
from publish.site.elements import details, link, make, paragraph, table, term
from publish.site.parts import Nodes, Parts, inline, section
from publish.site.sheets import BEGIN, END, Asked, address, relative
from publish.site.whole import Site, current


class UnitDirective(SphinxDirective):
    """```` ```{unit} recovery-01 ````: the page of a lesson or project, all but its title."""

    required_arguments = 1
    has_content = True
    option_spec: ClassVar[dict[str, Any]] = {}

    def run(self) -> list[nodes.Node]:
        """Append the page to the document."""
        renderer = self.state._renderer  # type: ignore[attr-defined] # MyST's state: it knows which section the words are in
        _Page(renderer, current.get(), self.arguments[0], self.env.docname).paint()
        return []


class _Page:
    """A page while it grows.

    Attributes:
        sections: the sections that are its stages, by id.
    """

    def __init__(self, renderer: Any, site: Site, unit_id: str, docname: str) -> None:
        self.renderer, self.sheets, self.sheet, self.docname = renderer, site.sheets, site.sheets[unit_id], docname
        base = posixpath.relpath(".", posixpath.dirname(docname)) + "/"
        self.parts = Parts(self.sheet, self.read, base, site.downloads.units[unit_id])
        self.around = site.downloads.around(self.sheet)
        self.sections: dict[str, nodes.section] = {}

    def paint(self) -> None:
        """Head, stages, ends of stages."""
        self.add(*self._head())
        if isinstance(self.sheet.unit, Lesson):
            self._lesson()
        else:
            self._project()
        for name, stage in self.sections.items():
            stage["stage"] = name
            stage["classes"].append("stage")
            if name not in stage["ids"][:1]:
                stage["ids"].insert(0, name)
            stage.append(self.parts.done(f"{self.sheet.id}/stage/{name}", "I have finished this stage", ["stage-done"]))

    def add(self, *children: nodes.Node) -> None:
        """Append nodes where the words stand now."""
        self.renderer.current_node.extend(children)

    def read(self, text: str, where: str) -> Nodes:
        """Markdown of a TOML file as nodes."""
        box = nodes.container()
        source = str(self.sheets.root / self.sheet.unit.file)
        with self._source(f"{source}: {where}"), self.renderer.current_node_context(box):
            self.renderer.nested_render_text(text, 0)
        return list(box.children)

    @contextmanager
    def _source(self, path: str) -> Iterator[None]:
        """Let messages name the file that the words come from, and not the page that is made of them."""
        document, reporter = self.renderer.document, self.renderer.reporter
        before = document["source"], reporter.source, getattr(reporter, "get_source_and_line", None)
        document["source"] = reporter.source = path
        reporter.get_source_and_line = lambda line=None: (path, line)
        try:
            yield
        finally:
            document["source"], reporter.source, reporter.get_source_and_line = before

    def _words(self, block: Block, offset: int) -> None:
        with self._source(str(self.sheet.unit.words)), self._veiled(block.after):
            self.renderer.nested_render_text(block.text, block.line - 1, heading_offset=offset)

    def _veiled(self, after: str) -> AbstractContextManager[Any]:
        """Put the words that follow among what is shown once a prediction is made, if they come after one."""
        if not after:
            return nullcontext()
        box = make("div", classes=["revealed"], data_for=f"{self.sheet.id}/{after}")
        context: AbstractContextManager[Any] = self.renderer.current_node_context(box, append=True)
        return context

    def _lesson(self) -> None:
        names = {one.text: one.id for one in self.sheet.stages}
        for stage, blocks in groupby(self.sheet.blocks, lambda one: one.stage):
            for block in blocks:
                self._block(block, 1)
                self.sections[names[stage]] = self.renderer._level_to_section[2]
            if names[stage] == "build-run":
                self.sections["build-run"] += [self.parts.run(), self.parts.recorded()]

    def _project(self) -> None:
        groups = [(heading, list(blocks)) for heading, blocks in groupby(self.sheet.blocks, lambda one: one.heading)]
        asked = [next((one.ref for one in blocks if one.kind == "stage"), "") for _, blocks in groups]
        last = max(index for index, one in enumerate(asked) if one)
        self._open(BEGIN)
        for index, (_, blocks) in enumerate(groups):
            if index == last + 1:
                self._open(END)
            for block in blocks:
                self._block(block, 0 if asked[index] else 1)
            if asked[index]:
                number = list(filter(None, asked)).index(asked[index]) + 1
                made = self.renderer._level_to_section[2]
                made[0].insert(0, nodes.Text(f"Stage {number}: "))
                self.sections[asked[index]] = made
        if END.id not in self.sections:
            self._open(END)
        self.sections[END.id] += self.parts.recorded()

    def _open(self, stage: Asked) -> None:
        """Begin a stage that no heading of the words begins."""
        made = section(stage.text, stage.id)
        self.renderer.update_section_level_state(made, 2)
        self.renderer.current_node = made
        self.sections[stage.id] = made

    def _block(self, block: Block, offset: int) -> None:
        if block.kind == "words":
            self._words(block, offset)
        else:
            self.add(self._shown(block))

    def _shown(self, block: Block) -> nodes.Node:
        meta, parts = self.sheet.meta, self.parts
        match block.kind:
            case "cell":
                return parts.block(self.sheet.unit.cell(block.ref))
            case "figure":
                index = [one.cell for one in meta.figures].index(block.ref)
                return parts.figure(meta.figures[index], f"figure[{index}]")
            case "experiment":
                index = [one.cell for one in self.sheet.lesson.experiments].index(block.ref)
                return parts.experiment(self.sheet.lesson.experiments[index], f"experiment[{index}]")
            case "exercise":
                index = [one.id for one in meta.exercises].index(block.ref)
                return parts.exercise(meta.exercises[index], f"exercise[{index}]")
            case "stage":
                index = [one.id for one in meta.exercises].index(block.ref)
                stage = meta.exercises[index]
                assert isinstance(stage, Stage)
                return parts.stage(stage, index + 1, f"stage[{index}]")
            case "quiz":
                return parts.quiz("question")
            case "diagnosis":
                return parts.diagnosis()
            case "evidence":
                return parts.evidence()
            case _:
                return parts.references()

    def _head(self) -> Nodes:
        sheet, meta = self.sheet, self.sheet.meta
        aims = nodes.bullet_list("", *(nodes.list_item("", *self.read(one.text, "objectives")) for one in meta.objectives))
        listed = [make("li", link(one.text, f"#{one.id}")) for one in sheet.stages]
        return [
            paragraph(*self._where(), classes=["where"]),
            paragraph(*inline(self.read, meta.question, "question"), classes=["question"]),
            make(
                "dl",
                _pair("Time", f"{meta.minutes} minutes"),
                _pair("Hardware", meta.hardware.upper()),
                _pair("Comes after", *self._before()),
                _pair("Revision", meta.revision.isoformat()),
                classes=["facts"],
            ),
            make("div", paragraph(make("strong", "Afterwards you can")), aims, classes=["aims"]),
            details("Set up", *self._setup(), data_id=f"{sheet.id}/setup"),
            details("Downloads", *self.parts.downloads(self.around), data_id=f"{sheet.id}/downloads"),
            make("nav", make("ol", *listed), classes=["stages"], aria_label="Stages"),
        ]

    def _where(self) -> Nodes:
        sheet = self.sheet
        track = [nodes.Text(f"{self.sheets.catalogue.file.title} · ")]
        if sheet.phase is None:
            return [*track, nodes.Text("project")]
        guide = self._to(f"phases/{sheet.phase.entry.folder}/index")
        place = f"lesson {sheet.number} of {len(sheet.phase.lessons)}" if sheet.number else "project"
        return [*track, link(f"Phase {sheet.phase.entry.id}: {sheet.phase.entry.title}", guide), nodes.Text(f" · {place}")]

    def _before(self) -> Nodes:
        found: Nodes = []
        for name in self.sheet.meta.after:
            text, page = self.sheets.names.get(name, name), self.sheets.page(name)
            found += [link(text, self._to(page)) if page else nodes.Text(f"{text}, planned"), nodes.Text("; ")]
        return found[:-1] or [nodes.Text("nothing")]

    def _to(self, page: str) -> str:
        return relative(address(page), self.docname)

    def _setup(self) -> Nodes:
        unit = self.sheet.unit
        check = f"graders check {unit.id}"
        rows: list[tuple[nodes.Node | str, ...]] = [
            ("Linux, macOS", term("make lab"), term(f"make check {unit.make}")),
            ("PowerShell", term("py -m environment jupyterlab"), term(f"py -m environment {check}")),
            ("Any", term("python -m environment jupyterlab"), term(f"python -m environment {check}")),
        ]
        if isinstance(unit, Lesson):
            work = link(f"{unit.id}.ipynb", f"{self.parts.base}downloads/{unit.id}/{unit.id}.ipynb", download=f"{unit.id}.ipynb")
            rows.append(("Notebook elsewhere", work, "run it from the top; check it later in the course's folder"))
        return [
            paragraph(
                "In the course's folder. The first command makes the environment by itself. ",
                link("Set-up in full, and what to do when it fails", self._to("setup")),
                "; ",
                link("accelerators", self._to("accelerators")),
                ".",
            ),
            table(("System", "Open", "Check"), rows),
        ]


def _pair(term: str, *description: nodes.Node | str) -> nodes.Node:
    return make("div", make("dt", term), make("dd", *description))
