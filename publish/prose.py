"""`lesson.md`, or the `guide.md` of a project, as blocks: the words in the order in which they are read, and between them the places where a cell, an
exercise, the quiz and so on are shown.

A directive is a fenced block without a body, ```` ```{cell} batches ```` and its closing fence. One has a body: ```` ```{after} omissions ````
holds the words that would answer the prediction of the experiment or figure `omissions`. Fences and headings are found by
markdown-it, so that an example inside a code block is never taken for one.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Literal, cast, get_args

from markdown_it import MarkdownIt
from markdown_it.token import Token

from course.catalogue import Lesson, Unit
from course.errors import CourseError, Problem

STAGES = ("Understand", "Build & Run", "Experiment", "Exercise & Check", "Evidence")

Kind = Literal["words", "cell", "figure", "experiment", "exercise", "stage", "quiz", "diagnosis", "evidence", "references"]

# The directive that shows a cell of each role.
SHOWN_BY = {
    "parameters": "cell",
    "build": "cell",
    "figure": "figure",
    "experiment": "experiment",
    "exercise": "exercise",
    "stage": "stage",
}
_PARTS = ("quiz", "diagnosis", "evidence", "references")
_AFTER = "after"
_DIRECTIVES = (*(kind for kind in get_args(Kind) if kind != "words"), _AFTER)
# The roles of cells with a prediction.
_PREDICTED = frozenset({"figure", "experiment"})
_INFO = re.compile(r"^\{(?P<name>[^}]*)\}\s*(?P<argument>.*)$")


@dataclass(frozen=True)
class Block:
    """One piece of a lesson's page.

    Attributes:
        kind: ``words`` for Markdown, else the directive.
        stage: the level-1 heading it stands under; in a lesson one of the five stages.
        heading: the nearest heading above it, of any level; for words, the heading they begin with if they have one.
        line: its first line in the file, 1-based.
        text: of words, the Markdown with its ``{recorded}`` roles still in it; empty otherwise.
        ref: the id of the cell, exercise or stage that is shown; empty for the other kinds.
        after: of words, the figure or experiment whose prediction they would answer; empty for words that may be read at once.
    """

    kind: Kind
    stage: str
    heading: str
    line: int
    text: str = ""
    ref: str = ""
    after: str = ""


@dataclass(frozen=True)
class _Mark:
    """A place where the words are cut: a heading of level 1 to 6, or a directive with its body."""

    start: int
    end: int
    level: int = 0
    title: str = ""
    name: str = ""
    argument: str = ""
    body: str = ""


def read(unit: Unit) -> tuple[Block, ...]:
    """The blocks of the words of a lesson or project, in order. Only a lesson's have the five stages as headings.

    Raises:
        CourseError: with every fault found: a heading that is not one of the five stages in their order, words above
            the first, an unknown directive, one with a body, one for a cell of another role, a cell that is shown
            twice or not at all, a part (quiz, …) that is missing, words that come after nothing. Each names file, line and remedy.
    """
    shown = unit.shown(unit.words)
    try:
        text = unit.words.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise CourseError.at(shown, f"byte {error.start}", "the file is not UTF-8", "save it as UTF-8") from None
    marks, problems = _marks(text, shown)
    if isinstance(unit, Lesson):
        problems += _stage_problems(marks, text, shown)
    problems += _directive_problems(marks, unit, shown)
    problems += _after_problems(marks, unit, shown)
    if problems:
        raise CourseError(*sorted(problems, key=_line))
    return _blocks(marks, text.split("\n"))


def _line(problem: Problem) -> int:
    number = problem.key.removeprefix("line ")
    return int(number) if number.isdigit() else 0


def _marks(text: str, shown: str) -> tuple[list[_Mark], list[Problem]]:
    """Headings and directives, in order; and the directives that stand where they cannot be honoured."""
    marks: list[_Mark] = []
    problems: list[Problem] = []
    env: dict[str, Any] = {}
    tokens = MarkdownIt("commonmark").enable("table").parse(text, env)
    for index, token in enumerate(tokens):
        if token.map is None:
            continue
        start, end = token.map
        where = f"line {start + 1}"
        if token.type == "heading_open" and token.level == 0:
            marks.append(_Mark(start, end, int(token.tag[1:]), title=tokens[index + 1].content.strip()))
        elif token.type == "fence" and token.info.strip().startswith("{"):
            problem = _misplaced(token)
            if problem:
                problems.append(Problem(shown, where, *problem))
                continue
            found = cast(re.Match[str], _INFO.match(token.info.strip()))
            marks.append(_Mark(start, end, name=found["name"], argument=found["argument"].strip(), body=token.content))
    for label, definition in env.get("references", {}).items():
        # The words are cut into cells of a notebook, where a link no longer finds a definition that stands elsewhere.
        where = f"line {definition['map'][0] + 1}"
        problems.append(
            Problem(
                shown, where, f"the link definition [{label}] does not reach every cell", "write the link in place: [text](url)"
            )
        )
    return marks, problems


def _misplaced(token: Token) -> tuple[str, str] | None:
    """What is wrong with a directive's block as such, and the remedy."""
    found = _INFO.match(token.info.strip())
    if not found or found["name"] not in _DIRECTIVES:
        return f"unknown directive {token.info.strip()!r}", f"use one of: {', '.join(f'{{{name}}}' for name in _DIRECTIVES)}"
    if token.level:
        return f"{{{found['name']}}} stands inside a list or a quotation", "move it to the start of a line of its own"
    if found["name"] == _AFTER:
        empty = "{after} is empty", "write into it what is to be read once the prediction is made, or remove it"
        return None if token.content.strip() else empty
    if token.content.strip():
        return (
            f"{{{found['name']}}} has a body",
            "leave it empty and close the fence: what it shows comes from code/main.py and the TOML files",
        )
    return None


def _stage_problems(marks: list[_Mark], text: str, shown: str) -> list[Problem]:
    headings = [mark for mark in marks if mark.level == 1]
    order = ", ".join(f"# {stage}" for stage in STAGES)
    problems = [
        Problem(
            shown,
            f"line {mark.start + 1}",
            f"{mark.title!r} is not one of the five stages",
            f"the level-1 headings are, in this order: {order}",
        )
        for mark in headings
        if mark.title not in STAGES
    ]
    titles = [mark.title for mark in headings if mark.title in STAGES]
    for mark in headings:
        if titles.count(mark.title) > 1 and mark.start != next(one.start for one in headings if one.title == mark.title):
            problems.append(Problem(shown, f"line {mark.start + 1}", f"# {mark.title} stands twice", "keep one of them"))
    problems += [
        Problem(shown, "", f"the heading `# {stage}` is missing", f"the level-1 headings are, in this order: {order}")
        for stage in STAGES
        if stage not in titles
    ]
    if not problems and titles != list(STAGES):
        first = next(mark for mark, stage in zip(headings, STAGES, strict=True) if mark.title != stage)
        problems.append(
            Problem(shown, f"line {first.start + 1}", f"# {first.title} is out of order", f"put the stages in this order: {order}")
        )
    above = text.split("\n")[: headings[0].start if headings else None]
    for number, line in enumerate(above, 1):
        if line.strip():
            problems.append(
                Problem(
                    shown,
                    f"line {number}",
                    "there are words above the first stage",
                    "put them under # Understand; the title comes from lesson.toml",
                )
            )
            break
    return problems


def _directive_problems(marks: list[_Mark], unit: Unit, shown: str) -> list[Problem]:
    problems: list[Problem] = []
    roles = {cell.id: cell.role for cell in unit.cells}
    script = unit.script.relative_to(unit.folder).as_posix()
    # The driver of a project is given to be read as a file; its guide shows what is asked and what came out.
    wanted_roles = set(SHOWN_BY) if isinstance(unit, Lesson) else {"stage", "figure"}
    lines: dict[str, int] = {}
    for mark in marks:
        if not mark.name or mark.name == _AFTER:
            continue
        where, key = f"line {mark.start + 1}", f"{{{mark.name}}}" if mark.name in _PARTS else mark.argument
        if mark.name in _PARTS:
            if mark.argument:
                problems.append(
                    Problem(shown, where, f"{{{mark.name}}} takes no id (got {mark.argument!r})", f"write {{{mark.name}}} alone")
                )
        elif mark.argument not in roles:
            wanted = [cell.id for cell in unit.cells if SHOWN_BY[cell.role] == mark.name]
            problems.append(
                Problem(
                    shown,
                    where,
                    f"{{{mark.name}}} names {mark.argument!r}, which is no cell of {script}",
                    f"use one of: {', '.join(wanted) or 'there is none yet'}",
                )
            )
            continue
        elif SHOWN_BY[roles[mark.argument]] != mark.name:
            right = SHOWN_BY[roles[mark.argument]]
            problems.append(
                Problem(
                    shown,
                    where,
                    f"{{{mark.name}}} shows {mark.argument}, whose role is {roles[mark.argument]}",
                    f"write {{{right}}} {mark.argument}",
                )
            )
        if key in lines:
            problems.append(
                Problem(shown, where, f"{key} is shown twice (also on line {lines[key]})", "keep one of the directives")
            )
        lines.setdefault(key, mark.start + 1)
    problems += [
        Problem(
            shown,
            "",
            f"cell {cell.id} of {script} is not shown",
            f"add a fenced block {{{SHOWN_BY[cell.role]}}} {cell.id} where it is explained",
        )
        for cell in unit.cells
        if cell.id not in lines and cell.role in wanted_roles
    ]
    there = {
        "quiz": isinstance(unit, Lesson),
        "diagnosis": unit.meta.diagnoses,
        "evidence": unit.meta.evidence,
        "references": unit.meta.references,
    }
    problems += [
        Problem(
            shown, "", f"{{{part}}} is missing", f"add a fenced block {{{part}}}, or nobody reads what the TOML file says there"
        )
        for part, content in there.items()
        if content and f"{{{part}}}" not in lines
    ]
    return problems


def _after_problems(marks: list[_Mark], unit: Unit, shown: str) -> list[Problem]:
    """Words that come after no prediction, or after one that a reader does not see above them; and what cannot stand in such words."""
    problems: list[Problem] = []
    predicted = [cell.id for cell in unit.cells if cell.role in _PREDICTED]
    known = {cell.id: cell.role for cell in unit.cells}
    above: set[str] = set()  # figures and experiments of this stage so far
    for mark in marks:
        if mark.level == 1:
            above.clear()
        if mark.name in _PREDICTED:
            above.add(mark.argument)
        if mark.name != _AFTER:
            continue
        where, name = f"line {mark.start + 1}", mark.argument
        use = f"use one of: {', '.join(predicted) or 'there is none yet'}"
        if name not in known:
            problems.append(Problem(shown, where, f"{{after}} names {name!r}, which is no figure or experiment", use))
        elif name not in predicted:
            problems.append(
                Problem(shown, where, f"{{after}} names {name}, a cell of role {known[name]} without a prediction", use)
            )
        elif name not in above:
            what = f"{{after}} {name} does not stand below {{{known[name]}}} {name} in the same stage"
            problems.append(Problem(shown, where, what, "move it below: where the prediction is made, these words appear"))
        inside, more = _marks(mark.body, shown)
        found = [(one.start, "a heading" if one.level else f"{{{one.name}}}") for one in inside]
        problems += [
            Problem(shown, f"line {mark.start + 2 + line}", f"{what} stands inside {{after}}", "close the block before it")
            for line, what in found
        ]
        problems += [Problem(shown, f"line {mark.start + 1 + _line(one)}", one.what, one.remedy) for one in more]
    return problems


def _blocks(marks: list[_Mark], lines: list[str]) -> tuple[Block, ...]:
    """Cut the words at every directive and at headings of level 1 and 2; deeper headings stay inside."""
    blocks: list[Block] = []
    stage = heading = ""
    begin = 0  # first line of the words that are being gathered
    named = ""  # the heading that holds for them

    def gather(end: int) -> None:
        add(begin, "\n".join(lines[begin:end]))

    def add(first: int, text: str, after: str = "") -> None:
        if text.strip():
            first += next(index for index, line in enumerate(text.split("\n")) if line.strip())
            blocks.append(Block("words", stage, named, first + 1, text.strip("\n").rstrip(), after=after))

    for mark in marks:
        if mark.name == _AFTER:
            gather(mark.start)
            named = heading
            add(mark.start + 1, mark.body, mark.argument)
            begin = mark.end
        elif mark.name:
            gather(mark.start)
            blocks.append(Block(cast(Kind, mark.name), stage, heading, mark.start + 1, ref=mark.argument))
            begin, named = mark.end, heading
        else:
            if mark.level <= 2:
                gather(mark.start)
                begin, named = mark.start, mark.title
            heading = mark.title
            if mark.level == 1:
                stage = mark.title
    gather(len(lines))
    return tuple(blocks)
