"""The study guide of a phase, `phases/<phase>/README.md`: what to bring, in which order to go, and what it proves."""

from __future__ import annotations

from collections.abc import Mapping

from course.catalogue import Catalogue, Phase
from publish import markdown


def names(catalogue: Catalogue) -> dict[str, str]:
    """Readable names of phases and lessons, by id."""
    phases = {entry.id: f"phase {entry.id} ({entry.title})" for entry in catalogue.file.phases}
    return phases | {lesson.id: f"{lesson.id} ({lesson.meta.title})" for lesson in catalogue.lessons}


def path(phase: Phase) -> str:
    """Where the guide of a phase stands, relative to the course."""
    return f"phases/{phase.entry.folder}/README.md"


def render(phase: Phase, catalogue: Catalogue) -> str:
    """The guide of a written phase. A page of words, `study-guide.md` beside it, is taken in if it is there."""
    meta = phase.meta
    assert meta is not None, "a planned phase has no guide"
    known = names(catalogue)
    page = catalogue.root / "phases" / phase.entry.folder / "study-guide.md"
    words = page.read_text(encoding="utf-8-sig") if page.is_file() else ""
    milestones = {one.lesson: one.text for one in meta.milestones}
    minutes = sum(lesson.meta.minutes for lesson in phase.lessons)
    return (
        markdown.join(
            markdown.banner(
                "phase.toml, the lessons' TOML files and study-guide.md",
                "Do not edit it: the next build replaces it.",
            ),
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
            words,
            "## The lessons, in order",
            _lessons(phase),
            "## How they connect",
            _connections(phase, known),
            "## Milestones",
            markdown.bullets(f"`{lesson.id}`: {milestones[lesson.id]}" for lesson in phase.lessons),
            "## Change a condition",
            meta.changed_condition,
            "## Project",
            _project(phase, catalogue),
        )
        + "\n"
    )


def _project(phase: Phase, catalogue: Catalogue) -> str:
    """Where the project is, and what it proves."""
    assert phase.meta is not None, "a planned phase has no guide"
    name = phase.meta.project.name
    there = (catalogue.root / "projects" / name).is_dir()
    return f"{f'[{name}](../../projects/{name}/)' if there else f'`{name}` (planned)'}: {phase.meta.project.proves}"


def _lessons(phase: Phase) -> str:
    rows = [
        (
            str(number),
            f"[{lesson.meta.title}]({lesson.folder.name}/{lesson.id}.ipynb)",
            str(lesson.meta.minutes),
            f"[{lesson.id}.ipynb](../../exercises/{lesson.id}.ipynb)",
        )
        for number, lesson in enumerate(phase.lessons, 1)
    ]
    return markdown.table(("", "lesson", "minutes", "work in"), rows)


def _connections(phase: Phase, known: Mapping[str, str]) -> str:
    """Each lesson's question, what it builds on and what builds on it in this phase."""
    lines: list[str] = []
    for lesson in phase.lessons:
        later = [other.id for other in phase.lessons if lesson.id in other.meta.after]
        leads = f" Leads to {', '.join(later)}." if later else ""
        lines.append(f"`{lesson.id}` asks: {lesson.meta.question} Builds on {markdown.after(lesson.meta.after, known)}.{leads}")
    return markdown.bullets(lines)
