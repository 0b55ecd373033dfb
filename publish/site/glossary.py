"""The glossary of all phases: the words of their `glossary.toml`, each with the lesson that introduces it."""

from __future__ import annotations

import re
from itertools import groupby

from course.catalogue import Phase
from course.errors import CourseError, Problem
from course.schema import GlossaryFile, Term, read_toml
from publish import markdown
from publish.site.sheets import Sheets


def render(sheets: Sheets) -> str:
    """The terms as Markdown, in alphabetical order.

    Raises:
        CourseError: for a file that is no glossary, a term of a lesson that is not there, and one that its lesson does not use.
    """
    terms: list[Term] = []
    problems: list[Problem] = []
    for phase in sheets.written:
        path = f"phases/{phase.entry.folder}/glossary.toml"
        if (sheets.root / path).is_file():
            found = read_toml(sheets.root / path, GlossaryFile, path).terms
            problems += _problems(path, found, phase)
            terms += found
    if problems:
        raise CourseError(*problems)
    parts: list[str] = []
    for letter, group in groupby(sorted(terms, key=lambda one: one.name.casefold()), lambda one: one.name[0].upper()):
        parts += [f"## {letter}", *(_entry(one, sheets) for one in group)]
    return markdown.join(*parts)


def _problems(file: str, terms: tuple[Term, ...], phase: Phase) -> list[Problem]:
    lessons = {lesson.id: lesson for lesson in phase.lessons}
    problems: list[Problem] = []
    for index, one in enumerate(terms):
        key = f"term[{index}]"
        if one.name.casefold() in [other.name.casefold() for other in terms[:index]]:
            problems.append(Problem(file, f"{key}.name", f"{one.name!r} stands twice", "keep one of them"))
        lesson = lessons.get(one.lesson)
        if lesson is None:
            remedy = f"use one of: {', '.join(lessons)}"
            problems.append(Problem(file, f"{key}.lesson", f"{one.lesson} is no lesson of this phase", remedy))
            continue
        files = (lesson.words, lesson.folder / "lesson.toml", lesson.script)
        text = " ".join(" ".join(path.read_text(encoding="utf-8").split()) for path in files).casefold()
        unused = [part for part in one.name.casefold().split(", ") if not re.search(rf"\b{re.escape(part)}", text)]
        if unused:
            what = f"{lesson.id} does not use the word {unused[0]!r}"
            problems.append(Problem(file, f"{key}.name", what, "name the lesson that does, or take the term away"))
    return problems


def _entry(one: Term, sheets: Sheets) -> str:
    """A term as a heading, so that it can be linked to and searched for."""
    sheet = sheets[one.lesson]
    return markdown.join(f"### {one.name}", f"{one.text} See [{sheet.title}](/{sheet.page}.md).")
