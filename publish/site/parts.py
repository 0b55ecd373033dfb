"""The parts of a lesson or project as nodes: build blocks, figures, experiments, exercises, the quiz, the evidence, the receipt.

Texts of TOML files are Markdown; MyST makes nodes of them (:class:`Reader`). What stands here is the frame around them, as
docs/site.md describes it to the scripts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import groupby

from docutils import nodes

from course.catalogue import Lesson, Project
from course.schema import Experiment, Figure, Option, Prediction, Question, Stage, Task
from course.script import Cell
from publish import markdown
from publish.site import keys
from publish.site.downloads import Download, given
from publish.site.elements import code, details, link, make, paragraph, table, term
from publish.site.sheets import Sheet

Nodes = list[nodes.Node]
# Markdown to nodes; told where it stands, for messages.
Reader = Callable[[str, str], Nodes]


def inline(read: Reader, text: str, where: str) -> Nodes:
    """A text of one paragraph without its paragraph, for a label, a title or a cell."""
    found = read(text, where)
    return list(found[0].children) if len(found) == 1 and isinstance(found[0], nodes.paragraph) else found


def section(title: Nodes | str, name: str, *children: nodes.Node, classes: Iterable[str] = ()) -> nodes.section:
    """A section of the page, which the list of contents shows."""
    heading = nodes.title()
    heading += [nodes.Text(title)] if isinstance(title, str) else title
    made = nodes.section("", heading, *children, ids=[name])
    made["classes"] += classes
    return made


@dataclass(frozen=True)
class Parts:
    """What makes the parts of one page.

    Attributes:
        sheet: the lesson or project.
        read: Markdown to nodes.
        base: the way from the page to the site's root, for instance ``../../``.
        files: what can be downloaded of it.
    """

    sheet: Sheet
    read: Reader
    base: str
    files: tuple[Download, ...]

    def block(self, cell: Cell) -> nodes.Node:
        """A build block: its place among the blocks, its code, what it printed."""
        blocks = [one.id for one in self.sheet.unit.cells if one.role in {"parameters", "build"}]
        head = make(
            "div",
            make("span", f"Block {blocks.index(cell.id) + 1} of {len(blocks)}", classes=["block-number"]),
            " ",
            make("span", cell.title, classes=["block-name"]),
            make("a", "¶", href=f"#cell-{cell.id}", classes=["headerlink"], aria_label=f"Link to this block: {cell.title}"),
            classes=["block-title"],
        )
        return make("div", head, code(cell.source), *self.printed(cell.id), classes=["block"], ids=[f"cell-{cell.id}"])

    def printed(self, cell: str) -> Nodes:
        """What a cell printed in the recorded run; lines that are local observations are marked as such."""
        found: Nodes = []
        lines = [line.text for line in self.sheet.receipt.lines if line.cell == cell]
        for local, group in groupby(lines, lambda line: self.sheet.meta.line_rule(cell, line).name == "ignored"):
            label = "Printed; a local observation: it differs from run to run and is never compared" if local else "Printed"
            found.append(paragraph(label, classes=["output-label"]))
            found.append(code("\n".join(group), "text", ["output", *(["local"] if local else [])]))
        return found

    def prediction(self, cell: str, prediction: Prediction, key: str) -> nodes.Node:
        """A question that is put before a result is shown."""
        name = f"{self.sheet.id}/{cell}"
        legend = make(
            "legend",
            make("strong", "Predict before you look.", classes=["lead"]),
            " ",
            *inline(self.read, prediction.ask, f"{key}.ask"),
        )
        return self._form("prediction", name, keys.asked(prediction), legend, prediction.options, key)

    def _form(self, kind: str, name: str, digest: str, legend: nodes.Node, options: tuple[Option, ...], key: str) -> nodes.Node:
        choices: Nodes = []
        answers: Nodes = []
        for index, one in enumerate(options):
            value, where = keys.option(one), f"{key}.option[{index}]"
            text = inline(self.read, one.text, f"{where}.text")
            mark = make("input", type="radio", name="choice", value=value)
            choices.append(make("label", mark, " ", make("span", *text), classes=["option"]))
            said = make("p", *[node.deepcopy() for node in text], classes=["chosen"])
            right = [paragraph(make("strong", "Right."), classes=["right"])] if one.correct else []
            feedback = self.read(one.feedback, f"{where}.feedback")
            attributes = {"data_option": value, "data_correct": "true" if one.correct else "false"}
            answers.append(make("div", said, *right, *feedback, classes=["feedback"], **attributes))
        return make(
            "form",
            make("fieldset", legend, *choices),
            details("Answer", *answers, classes=["answer"]),
            classes=[kind],
            data_id=name,
            data_key=digest,
        )

    def figure(self, figure: Figure, key: str) -> nodes.section:
        """A figure: prediction, code, drawing, how to read it."""
        cell, name = self.sheet.unit.cell(figure.cell), f"{self.sheet.id}/{figure.cell}"
        svg, _, data = [f"{self.base}downloads/{self.sheet.id}/{figure.cell}.{kind}" for kind in ("svg", "png", "json")]
        drawing = make(
            "figure",
            make("a", make("img", src=svg, alt=figure.alt, loading="lazy"), href=svg, aria_label=f"Full size: {figure.title}"),
            make(
                "figcaption",
                *inline(self.read, figure.title, f"{key}.title"),
                ". ",
                link("Full size", svg),
                " · ",
                link("data and provenance", data, download=f"{figure.cell}.json"),
            ),
            classes=["drawing"],
        )
        revealed = make(
            "div",
            drawing,
            paragraph(make("strong", "How to read it. "), *inline(self.read, figure.reading, f"{key}.reading")),
            details("The code that draws it", code(cell.source), *self.printed(cell.id), data_id=f"{name}/code"),
            classes=["revealed"],
            data_for=name,
        )
        title = [nodes.Text("Figure: "), *inline(self.read, figure.title, f"{key}.title")]
        asked = self.prediction(figure.cell, figure.prediction, f"{key}.prediction")
        return section(title, f"cell-{figure.cell}", asked, revealed, classes=["figure-card"])

    def experiment(self, experiment: Experiment, key: str) -> nodes.section:
        """An experiment: prediction, code, what it printed, what it means."""
        cell, name = self.sheet.unit.cell(experiment.cell), f"{self.sheet.id}/{experiment.cell}"
        revealed = make(
            "div",
            *self.printed(cell.id),
            paragraph(make("strong", "What to expect. "), *inline(self.read, experiment.expected, f"{key}.expected")),
            paragraph(make("strong", "What it means. "), *inline(self.read, experiment.meaning, f"{key}.meaning")),
            classes=["revealed"],
            data_for=name,
        )
        asked = self.prediction(experiment.cell, experiment.prediction, f"{key}.prediction")
        title = f"Experiment: {cell.title}"
        return section(title, f"cell-{experiment.cell}", asked, code(cell.source), revealed, classes=["experiment"])

    def exercise(self, task: Task, key: str) -> nodes.section:
        """An exercise of a lesson: task, guide, scaffold, hints, and the solution behind a click."""
        unit = self.sheet.unit
        assert isinstance(unit, Lesson)
        cell = unit.cell(task.id)
        one = next(one for one in unit.meta.exercises if one.id == task.id)
        return section(
            markdown.exercise_title(one),
            f"cell-{task.id}",
            *self._asked(task, key),
            paragraph("Write where it says ", term("..."), f", in the cell {task.id} of ", self._work(), ":"),
            code(unit.scaffolds[task.id].source),
            *self._hints(task, key),
            details(
                "Solution, and why it is right",
                code(cell.source),
                *self.printed(cell.id),
                *self.read(task.reasoning, f"{key}.reasoning"),
                data_id=f"{self.sheet.id}/exercise/{task.id}/solution",
            ),
            self._check(f"LESSON={unit.id}", unit.id),
            self.done(f"{self.sheet.id}/exercise/{task.id}", "My answer passes the check"),
            classes=["exercise"],
        )

    def stage(self, stage: Stage, number: int, key: str) -> nodes.Node:
        """What a stage of a project asks for. It has no solution here."""
        unit = self.sheet.unit
        assert isinstance(unit, Project)
        needs: Nodes = []
        for one in stage.needs:
            needs += [term(one), nodes.Text(", ")]
        return make(
            "div",
            *self._asked(stage, key),
            paragraph("It stands on ", *needs[:-1], " in ", term(unit.meta.module), "."),
            *self._hints(stage, key),
            self._check(f'PROJECT={unit.id} ARGS="--only {stage.id}"', f"{unit.id} --only {stage.id}"),
            self.note(f"{self.sheet.id}/exercise/{stage.id}", f"My notes on stage {number}"),
            self.done(f"{self.sheet.id}/exercise/{stage.id}", "This stage passes the check"),
            classes=["exercise"],
            ids=[f"cell-{stage.id}"],
        )

    def _work(self) -> nodes.Node:
        path = f"{self.base}downloads/{self.sheet.id}/{self.sheet.id}.ipynb"
        return link("the exercise notebook", path, download=f"{self.sheet.id}.ipynb")

    def _asked(self, task: Task, key: str) -> Nodes:
        aims = {one.id: one.text for one in self.sheet.meta.objectives}
        trains = nodes.bullet_list("", *(nodes.list_item("", *self.read(aims[one], "objectives")) for one in task.meets))
        steps = nodes.enumerated_list("", enumtype="arabic", prefix="", suffix=".")
        steps += [nodes.list_item("", *self.read(one, f"{key}.guide[{index}]")) for index, one in enumerate(task.guide)]
        return [
            paragraph(markdown.plural(task.points, "point"), classes=["points"]),
            *self.read(task.task, f"{key}.task"),
            details("What it trains", trains, classes=["aims"]),
            paragraph(make("strong", "How to go about it")),
            steps,
        ]

    def _hints(self, task: Task, key: str) -> Nodes:
        return [
            details(
                f"Hint {number}",
                *self.read(hint, f"{key}.hints[{number - 1}]"),
                data_id=f"{self.sheet.id}/exercise/{task.id}/hint-{number}",
            )
            for number, hint in enumerate(task.hints, 1)
        ]

    def _check(self, with_make: str, without: str) -> nodes.Node:
        return paragraph(
            "Check it, in the course's folder: ",
            term(f"make check {with_make}"),
            ", without make ",
            term(f"python -m environment graders check {without}"),
            ".",
            classes=["check"],
        )

    def done(self, name: str, text: str, classes: Iterable[str] = ("mark",)) -> nodes.Node:
        """A mark that a reader sets."""
        return make("label", make("input", type="checkbox", classes=["done"], data_id=name), f" {text}", classes=classes)

    def note(self, name: str, label: str) -> nodes.Node:
        """A place for a reader's own words."""
        field = make("textarea", classes=["note"], data_id=name, rows="3", aria_label=label, placeholder=label)
        return make("div", field, classes=["note-field"])

    def quiz(self, key: str) -> nodes.Node:
        """The questions."""
        quiz = self.sheet.quiz
        assert quiz is not None
        forms = [self._question(one, number, f"{key}[{number - 1}]") for number, one in enumerate(quiz.questions, 1)]
        return section("Quiz", "quiz", make("div", *forms, classes=["quiz"]))

    def _question(self, question: Question, number: int, key: str) -> nodes.Node:
        text = inline(self.read, question.text, f"{key}.text")
        legend = make("legend", make("strong", f"Question {number}.", classes=["lead"]), " ", *text)
        return self._form("question", f"{self.sheet.id}/{question.id}", keys.asked(question), legend, question.options, key)

    def diagnosis(self) -> nodes.Node:
        """Symptom, likely cause, and the check that decides."""
        rows = [
            [make("div", *self.read(text, f"diagnosis[{index}]")) for index, text in enumerate((one.symptom, one.cause, one.check))]
            for one in self.sheet.meta.diagnoses
        ]
        return section("Diagnosis", "diagnosis", table(("Symptom", "Likely cause", "Check"), rows, ["diagnosis"]))

    def evidence(self) -> nodes.Node:
        """What to keep, with a place for it."""
        items: Nodes = []
        for number, one in enumerate(self.sheet.meta.evidence, 1):
            name = f"{self.sheet.id}/evidence/{number}"
            why = paragraph(*inline(self.read, one.why, f"evidence[{number - 1}].why"), classes=["why"])
            what = paragraph(make("strong", *inline(self.read, one.item, f"evidence[{number - 1}].item")))
            parts = [what, why, self.note(name, f"My notes on item {number}"), self.done(name, "Kept")]
            items.append(make("li", *parts, ids=[f"evidence-{number}"]))
        template = next((one for one in self.files if one.file.endswith("-evidence.md")), None)
        made: Nodes = [make("ol", *items, classes=["evidence"])]
        if template:
            there = link(template.name.lower(), f"{self.base}{template.path}", download=template.file)
            made.append(paragraph("Outside of the browser: the ", there, " holds the same questions."))
        return make("div", *made)

    def references(self) -> nodes.Node:
        """Primary sources."""
        return section("References", "references", *self.read(markdown.references(self.sheet.meta.references), "reference"))

    def recorded(self) -> nodes.section:
        """The recorded run: where and when it took place, and what it was made of."""
        receipt, unit = self.sheet.receipt, self.sheet.unit
        environment = receipt.environment
        packages = ", ".join(f"{name} {version}" for name, version in sorted(environment.packages.items()))
        device = ", ".join(environment.devices) or f"the processor ({environment.machine}); the lesson uses no JAX device"
        local = sorted({one.line.partition("*")[0].strip() for one in unit.meta.outputs if one.compare.name == "ignored"})
        rows: list[tuple[nodes.Node | str, ...]] = [
            ("Recorded", receipt.recorded.strftime("%Y-%m-%d %H:%M UTC")),
            ("Versions", f"{environment.implementation} {environment.python}; {packages}"),
            ("System", f"{environment.platform}, {environment.machine}"),
            ("Device", device),
            ("Digest of what was run", term(receipt.digest)),
            ("Digest of the locked versions", term(receipt.lock)),
            ("Took", f"{receipt.seconds:.1f} s: a local observation, never compared"),
        ]
        if receipt.commit:
            rows.append(("Commit", term(receipt.commit)))
        if local:
            rows.append(("Local observations", f"the lines that begin with {', '.join(f'“{one}”' for one in local)}"))
        record = next(one for one in self.files if one.file.endswith("-receipt.json"))
        there = link("execution record", f"{self.base}{record.path}", download=record.file)
        words = paragraph(
            "The numbers on this page are those of one recorded run. What was measured on that machine alone is marked as a local "
            "observation; everything else has to come out on yours as well. All of it is in the ",
            there,
            ".",
        )
        return section("The recorded run", "recorded-run", words, table(("", ""), rows, ["receipt"]), classes=["recorded"])

    def run(self) -> nodes.section:
        """The blocks as one file, the command that runs it, and what it prints."""
        unit = self.sheet.unit
        assert isinstance(unit, Lesson)
        file = next(one for one in self.files if one.file.endswith("-given.py"))
        there = link(file.file, f"{self.base}{file.path}", download=file.file)
        shown = {cell.id for cell in unit.cells if cell.role != "exercise"}
        lines = [line.text for line in self.sheet.receipt.lines if line.cell in shown]
        return section(
            "Run it",
            "run-it",
            paragraph("The blocks, figures and experiments of this page, in their order, are one file: ", there, ". Run it with"),
            code(f"python {file.file}", "console"),
            paragraph("in an environment that has the course's packages; or the whole lesson, solutions included, in its folder:"),
            code(f"cd {unit.shown(unit.folder)}\npython code/main.py", "console"),
            details("The cumulative file", code(given(unit)), data_id=f"{self.sheet.id}/file"),
            details("What it prints", code("\n".join(lines), "text", ["output"]), data_id=f"{self.sheet.id}/prints"),
            classes=["run"],
        )

    def downloads(self, around: tuple[Download, ...]) -> Nodes:
        """Everything to take along, as a table.

        Args:
            around: the ZIPs that the lesson or project belongs to. Their sizes are not told: they change with every other
                lesson, and so this page would have to be made anew whenever one does.
        """
        rows: list[tuple[nodes.Node | str, ...]] = [
            (self._file(one), f"{one.what} ({one.file.rpartition('.')[2]}, {one.size})") for one in self.files
        ]
        rows += [(self._file(one), f"{one.what} ({one.file.rpartition('.')[2]})") for one in around]
        advice = "Where the browser shows a file instead of saving it, as it does if this page was opened from a folder: use “Save link as” in the link's menu."
        return [table(("File", "What it is"), rows, ["downloads"]), paragraph(advice)]

    def _file(self, one: Download) -> nodes.Node:
        return link(one.name, f"{self.base}{one.path}", download=one.file)
