"""What a project gives to read and to work in: the guide page `README.md`, and the learner's module in `starter/`.

Neither holds anything of the solution: a stage's reasoning and its named mistakes stay in `project.toml`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

from course.catalogue import Project
from course.errors import CourseError
from course.schema import ProjectFile, Stage
from publish import markdown
from publish.prose import Block, read
from publish.recorded import Recorded

_UNPUBLISHED = frozenset({"reasoning", "mistakes"})


def guide(project: Project) -> str:
    """Where the guide page stands, relative to the course."""
    return project.shown(project.folder / "README.md")


def starter(project: Project) -> str:
    """Where the learner's module stands, relative to the course."""
    return project.shown(project.module)


def render(project: Project, names: Mapping[str, str]) -> dict[str, str]:
    """Guide page and starter, by path.

    Args:
        project: the project.
        names: readable names of phases and lessons, by id.

    Raises:
        CourseError: for faults in the words, a missing or old receipt, or a missing figure.
    """
    blocks = read(project)
    recorded = Recorded(project)
    meta = recorded.resolved(project.meta, project.file, skip=_UNPUBLISHED)
    parts = [
        recorded.resolve(block.text, project.shown(project.words), first=block.line)
        if block.kind == "words"
        else _shown(project, meta, recorded, block)
        for block in blocks
    ]
    banner = markdown.banner(
        f"project.toml, guide.md and the receipt of {project.id}", "Do not edit it: the next build replaces it."
    )
    return {
        guide(project): markdown.join(banner, _head(project, meta, names), *parts) + "\n",
        starter(project): project.starter.source,
    }


def _head(project: Project, meta: ProjectFile, names: Mapping[str, str]) -> str:
    given = ", ".join(f"`{name}`" for name in ("stages.py", *meta.files))
    others = sorted({path.name for path in project.folder.glob("*.py")} - {"stages.py", *meta.files})
    commands = (
        [(", ".join(f"`{name}`" for name in others), "given: commands; each explains itself with `--help`")] if others else []
    )
    rows = [
        (
            f"[starter/{meta.module}](starter/{meta.module})",
            "**yours**: what you write and hand in. No build overwrites it once you have.",
        ),
        (given, "given: what puts your module to the test. Read it; the check uses its own copy."),
        *commands,
        ("`project.toml`", "the stages, and how each is judged"),
        ("`receipt.json`, `figures/`", "what the reference solution gave, recorded"),
    ]
    return markdown.join(
        f"# {meta.title}",
        f"**{meta.question}**",
        f"`{project.id}` · {meta.minutes} minutes · {meta.hardware.upper()} · comes after: {markdown.after(meta.after, names)}",
        markdown.objectives(meta),
        markdown.table(("file", "what it is"), rows),
        f"Check, in a terminal in the course's folder: `make check {project.make}`, or without make "
        f"`python -m environment graders check {project.id}`; one stage alone with "
        f"`python -m environment graders check {project.id} --only {meta.exercises[0].id}`. "
        f"`make reset {project.make}` brings the starter back and keeps yours in `backups/`.",
    )


def _shown(project: Project, meta: ProjectFile, recorded: Recorded, block: Block) -> str:
    match block.kind:
        case "stage":
            number, stage = next((n, one) for n, one in enumerate(meta.exercises, 1) if one.id == block.ref)
            return _stage(number, stage, meta)
        case "figure":
            figure = next(one for one in meta.figures if one.cell == block.ref)
            return markdown.join(
                f"### Figure: {figure.title}",
                markdown.question(figure.prediction),
                markdown.folded("The figure", f"![{figure.alt}]({_figure(project, recorded, block.ref)})", figure.reading),
                markdown.answers(figure.prediction),
            )
        case "diagnosis":
            return markdown.diagnosis(meta.diagnoses)
        case "evidence":
            return markdown.evidence(meta.evidence)
        case _:
            return markdown.references(meta.references)


def _stage(number: int, stage: Stage, meta: ProjectFile) -> str:
    return markdown.join(
        f"### Stage {number}: {stage.title}",
        f"`{stage.id}` · {markdown.plural(stage.points, 'point')} · "
        f"stands on {', '.join(f'`{name}`' for name in stage.needs)} in `{meta.module}`",
        markdown.asked(stage, meta),
    )


def _figure(project: Project, recorded: Recorded, cell: str) -> str:
    """The figure's file as the guide page links to it.

    Raises:
        CourseError: if it is missing, or not the one that the receipt names.
    """
    file = project.folder / "figures" / f"{cell}.svg"
    record = recorded.receipt.figures.get(cell)
    remedy = f"run `make record {project.make}`"
    if record is None or not file.is_file():
        raise CourseError.at(project.shown(file), "", "the figure's file is missing", remedy)
    if hashlib.sha256(file.read_bytes()).hexdigest() != record.svg:
        raise CourseError.at(project.shown(file), "", "not the figure that the receipt names", remedy)
    return f"figures/{cell}.svg"
