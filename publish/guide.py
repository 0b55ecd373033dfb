"""The study guide of a phase, `phases/<phase>/README.md`: what to bring, in which order to go, and what it proves."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from course.catalogue import Catalogue, Lesson, Phase
from publish import markdown


@dataclass(frozen=True)
class Links:
    """Where a guide's links lead.

    Attributes:
        lesson: the address of a lesson.
        work: a link to what a learner works in.
        project: the address of a project, by its id.
    """

    lesson: Callable[[Lesson], str]
    work: Callable[[Lesson], str]
    project: Callable[[str], str]


IN_FOLDER = Links(
    lesson=lambda lesson: f"{lesson.folder.name}/{lesson.id}.ipynb",
    work=lambda lesson: f"[{lesson.id}.ipynb](../../exercises/{lesson.id}.ipynb)",
    project=lambda name: f"../../projects/{name}/",
)


def names(catalogue: Catalogue) -> dict[str, str]:
    """Readable names of phases and lessons, by id."""
    phases = {entry.id: f"phase {entry.id} ({entry.title})" for entry in catalogue.file.phases}
    return phases | {lesson.id: f"{lesson.id} ({lesson.meta.title})" for lesson in catalogue.lessons}


def path(phase: Phase) -> str:
    """Where the guide of a phase stands, relative to the course."""
    return f"phases/{phase.entry.folder}/README.md"


def render(phase: Phase, catalogue: Catalogue) -> str:
    """The file of a written phase's guide."""
    sources, advice = "phase.toml, the lessons' TOML files and study-guide.md", "Do not edit it: the next build replaces it."
    return markdown.join(markdown.banner(sources, advice), words(phase, catalogue, IN_FOLDER)) + "\n"


def words(phase: Phase, catalogue: Catalogue, links: Links) -> str:
    """The guide of a written phase. A page of words, `study-guide.md` beside it, is taken in if it is there."""
    meta = phase.meta
    assert meta is not None, "a planned phase has no guide"
    known = names(catalogue)
    page = catalogue.root / "phases" / phase.entry.folder / "study-guide.md"
    text = page.read_text(encoding="utf-8-sig") if page.is_file() else ""
    milestones = {one.lesson: one.text for one in meta.milestones}
    minutes = sum(lesson.meta.minutes for lesson in phase.lessons)
    return markdown.join(
        f"# Phase {phase.entry.id}: {meta.title}",
        meta.summary,
        f"**{meta.question}**",
        f"Comes after: {markdown.after(phase.entry.after, known)}. "
        f"{markdown.plural(len(phase.lessons), 'lesson')}, about {minutes} minutes.",
        "## What to bring",
        markdown.bullets(meta.preparation),
        "## Is this where to start?",
        meta.starting_point.question,
        markdown.folded("Answer", meta.starting_point.answer),
        text,
        "## The lessons, in order",
        _lessons(phase, links),
        "## How they connect",
        _connections(phase, known),
        "## Milestones",
        markdown.bullets(f"`{lesson.id}`: {milestones[lesson.id]}" for lesson in phase.lessons),
        "## Change a condition",
        meta.changed_condition,
        "## Project",
        _project(phase, catalogue, links),
    )


def _project(phase: Phase, catalogue: Catalogue, links: Links) -> str:
    """Where the project is, and what it proves."""
    assert phase.meta is not None, "a planned phase has no guide"
    name = phase.meta.project.name
    there = (catalogue.root / "projects" / name).is_dir()
    return f"{f'[{name}]({links.project(name)})' if there else f'`{name}` (planned)'}: {phase.meta.project.proves}"


def _lessons(phase: Phase, links: Links) -> str:
    rows = [
        (
            str(number),
            f"[{lesson.meta.title}]({links.lesson(lesson)})",
            str(lesson.meta.minutes),
            links.work(lesson),
        )
        for number, lesson in enumerate(phase.lessons, 1)
    ]
    return markdown.table(("no.", "lesson", "minutes", "work in"), rows)


def _connections(phase: Phase, known: Mapping[str, str]) -> str:
    """Each lesson's question, what it builds on and what builds on it in this phase."""
    lines: list[str] = []
    for lesson in phase.lessons:
        later = [other.id for other in phase.lessons if lesson.id in other.meta.after]
        leads = f" Leads to {', '.join(later)}." if later else ""
        lines.append(f"`{lesson.id}` asks: {lesson.meta.question} Builds on {markdown.after(lesson.meta.after, known)}.{leads}")
    return markdown.bullets(lines)
