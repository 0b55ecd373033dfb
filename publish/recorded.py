"""Recorded values in the words: what `` {recorded}`…` `` stands for.

    {recorded}`Batch sizes`               the text after "Batch sizes: " of the printed line that begins so
    {recorded}`fact-id`                   a fact of lesson.toml
    {recorded}`exercise-id/expression`    what a probe saw in the base run
    {recorded}`fact-id | .4g`             a single number, with a format

The value comes from the receipt and from nowhere else, so that a number in the words, in a notebook and in the grader is one
number. Roles are found by markdown-it: one inside a code block or a code span is an example, and stays.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

from markdown_it import MarkdownIt
from markdown_it.rules_inline import StateInline
from markdown_it.token import Token

from course import receipt as receipts
from course.catalogue import Unit
from course.errors import CourseError, Problem
from course.receipt import Receipt
from course.schema import Model
from course.values import NUMBER_KINDS, Value, number, show

SHOWN_CHARACTERS = 2_000  # a whole list may be quoted; show() alone cuts at the length of a message

_ROLE = re.compile(r"\{([a-z][a-z-]*)\}(`+)")
_PLAIN_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")

M = TypeVar("M", bound=Model)


@dataclass(frozen=True)
class _Role:
    """One role in a text: the line it stands on, where in that line, and what it says."""

    line: int
    start: int
    end: int
    name: str
    content: str
    in_table: bool


class UnknownError(LookupError):
    """A role that stands for nothing that was recorded: what is wrong, and the remedy."""

    def __init__(self, what: str, remedy: str) -> None:
        self.what, self.remedy = what, remedy
        super().__init__(what)


class Recorded:
    """The recorded values of one lesson or project, put into its words.

    The receipt is read when the first role asks for it, so that words without roles need none.
    """

    def __init__(self, unit: Unit) -> None:
        self.unit = unit

    @cached_property
    def receipt(self) -> Receipt:
        """The receipt. Raises CourseError if it is missing, broken or of another source."""
        return receipts.read(self.unit)

    def value(self, content: str) -> str:
        """What a role's content stands for.

        Raises:
            UnknownError: if nothing of that name was recorded, or the format does not fit the value.
            CourseError: if there is no receipt to look in.
        """
        found = self._find(content)
        # The whole content is tried first: an expression may itself hold a bar.
        if found is None and "|" in content:
            name, _, spec = (part.strip() for part in content.rpartition("|"))
            found = self._find(name)
            if found is not None:
                return _formatted(found, name, spec)
        if found is None:
            raise UnknownError(f"nothing recorded is called {content!r}", self._choices(content))
        return found if isinstance(found, str) else show(found, SHOWN_CHARACTERS)

    def _find(self, name: str) -> Value | str | None:
        """The fact, the printed text or the observation of that name."""
        found: list[Value | str] = [self.receipt.facts[name]] if name in self.receipt.facts else []
        found += list(dict.fromkeys(line.text[len(name) + 2 :] for line in self.receipt.lines if line.text.startswith(f"{name}: ")))
        exercise, slash, expression = name.partition("/")
        if slash and self.receipt.runs:
            seen = self.receipt.runs[0].exercises.get(exercise.strip(), {})
            found += [seen[expression.strip()]] if expression.strip() in seen else []
        if len(found) > 1:
            raise UnknownError(
                f"{name!r} stands for {len(found)} recorded values", "print another label, or quote a fact with an id of its own"
            )
        return found[0] if found else None

    def _choices(self, content: str) -> str:
        exercise = content.partition("/")[0].strip()
        seen = self.receipt.runs[0].exercises.get(exercise) if self.receipt.runs and "/" in content else None
        if seen is not None:
            return f"use a probe of {exercise}: {', '.join(seen)}"
        labels = [line.text.partition(": ")[0] for line in self.receipt.lines if ": " in line.text]
        names = list(dict.fromkeys([*self.receipt.facts, *labels]))
        return f"use one of: {', '.join(names) or 'nothing was recorded'}; or exercise-id/probe"

    def resolve(self, text: str, file: str, key: str = "", first: int | None = None, *, plain: bool = False) -> str:
        """A text with every ``{recorded}`` role replaced by its value.

        Args:
            text: Markdown.
            file: how messages name the file it comes from.
            key: the key it stands under, in a TOML file.
            first: the line of the file its first line is, in `lesson.md`.
            plain: write values bare, for a text that is not Markdown.

        Returns:
            the text; a number stands bare, anything else as a code span, whose characters Markdown leaves alone.

        Raises:
            CourseError: with every role that cannot be resolved, naming file, place and remedy.
        """
        if not _ROLE.search(text):
            return text
        lines = text.split("\n")
        problems: list[Problem] = []
        unreadable: dict[int, str] = {}
        # From the back, so that the columns of the roles before stay true.
        for role in reversed(_roles(text, unreadable)):
            where = f"line {first + role.line}" if first is not None else key
            if role.name != "recorded":
                problems.append(Problem(file, where, f"unknown role {{{role.name}}}", "the only role is {recorded}"))
                continue
            try:
                value = self.value(role.content)
            except UnknownError as error:
                problems.append(Problem(file, where, f"{{recorded}}`{role.content}`: {error.what}", error.remedy))
                continue
            line = lines[role.line]
            lines[role.line] = line[: role.start] + (value if plain else _written(value, role.in_table)) + line[role.end :]
        for line_number, remedy in unreadable.items():
            where = f"line {first + line_number}" if first is not None else key
            problems.append(Problem(file, where, "a role that cannot be read where it stands", remedy))
        if problems:
            raise CourseError(*reversed(problems))
        return "\n".join(lines)

    def resolved(self, model: M, file: str, key: str = "", skip: frozenset[str] = frozenset()) -> M:
        """A copy of TOML data in which every text is resolved.

        Args:
            model: the data.
            file: how messages name the file.
            key: where in the file the data stands.
            skip: fields that are not published, and so need no receipt.

        Raises:
            CourseError: as :meth:`resolve`, with the faults of all texts together.
        """
        problems: list[Problem] = []

        def walk(value: Any, at: str) -> Any:
            if isinstance(value, str):
                try:
                    return self.resolve(value, file, at, plain=at.endswith(".alt"))
                except CourseError as error:
                    problems.extend(error.problems)
                    return value
            if isinstance(value, tuple):
                return tuple(walk(item, f"{at}[{index}]") for index, item in enumerate(value))
            if isinstance(value, Model):
                fields = type(value).model_fields
                texts = {
                    name: walk(getattr(value, name), f"{at}.{field.alias or name}".lstrip("."))
                    for name, field in fields.items()
                    if name not in skip
                }
                return value.model_copy(update=texts)
            return value

        copy: M = walk(model, key)
        if problems:
            raise CourseError(*dict.fromkeys(problems))
        return copy


def _formatted(found: Value | str, name: str, spec: str) -> str:
    single: Any = None
    if isinstance(found, str):
        single = float(found) if _PLAIN_NUMBER.fullmatch(found.strip()) else None
        if single is not None and found.strip().lstrip("+-").isdigit():
            single = int(found)
    elif found.kind in NUMBER_KINDS or (found.kind == "array" and found.shape == ()):
        single = number(found.data)
    if single is None:
        raise UnknownError(
            f"{name!r} is not a single number, so no format fits", "take the format away, or record the number as a fact"
        )
    try:
        return format(single, spec)
    except ValueError:
        raise UnknownError(f"{spec!r} is not a format for {single!r}", "write a format such as .4g, .3f or ,d") from None


def _written(value: str, in_table: bool) -> str:
    """A value as Markdown."""
    if _PLAIN_NUMBER.fullmatch(value):
        return value
    ticks = "`" * (max((len(run) for run in re.findall(r"`+", value)), default=0) + 1)
    pad = " " if value.startswith("`") or value.endswith("`") else ""
    return f"{ticks}{pad}{value.replace('|', chr(92) + '|') if in_table else value}{pad}{ticks}"


def _role_rule(state: StateInline, silent: bool) -> bool:
    """An inline rule for markdown-it: ``{name}`` directly followed by a code span."""
    found = _ROLE.match(state.src, state.pos, state.posMax)
    if not found:
        return False
    close = _closing(state.src, found.end(), len(found[2]), state.posMax)
    if close < 0:
        return False
    if not silent:
        token = state.push("role", "", 0)
        token.content = state.src[found.end() : close]
        token.info = found[1]
        token.meta = {"at": state.pos}
    state.pos = close + len(found[2])
    return True


def _closing(text: str, start: int, length: int, end: int) -> int:
    """Where the run of exactly ``length`` backticks begins that closes a code span, or -1."""
    for run in re.finditer(r"`+", text[start:end]):
        if len(run.group()) == length:
            return start + run.start()
    return -1


def _parser() -> MarkdownIt:
    parser = MarkdownIt("commonmark").enable("table")
    parser.inline.ruler.before("backticks", "role", _role_rule)
    return parser


def _roles(text: str, unreadable: dict[int, str]) -> list[_Role]:
    """The roles of a Markdown text in order, each with its place in the source.

    markdown-it gives no columns, and a line inside a quotation or a list is not the line of the source. But on each
    line the inline content holds the same look-alikes of a role in the same order as the source, so the n-th of one
    is the n-th of the other; the parser says which of them are roles and which stand in code.

    Args:
        text: the Markdown.
        unreadable: filled with the lines on which a look-alike stands outside inline content, and the remedy.
    """
    lines = text.split("\n")
    verdicts: dict[int, list[Token | None]] = {}
    literal: set[int] = set()
    tables: set[int] = set()
    for token in _parser().parse(text):
        if token.map is None:
            continue
        span = range(*token.map)
        if token.type in {"fence", "code_block"}:
            literal.update(span)
        elif token.type == "table_open":
            tables.update(span)
        elif token.type == "inline":
            _judge(token, verdicts, unreadable)
    found: list[_Role] = []
    for line, source in enumerate(lines):
        places = [] if line in literal else list(_ROLE.finditer(source))
        judged = verdicts.get(line, [])
        if len(places) != len(judged):
            unreadable[line] = "put a blank line between the HTML tag and the text, or move the role out of it"
            continue
        for place, token_ in zip(places, judged, strict=True):
            if token_ is None:
                continue
            close = _closing(source, place.end(), len(place[2]), len(source))
            if close < 0:
                unreadable[line] = "keep the role on one line"
                continue
            found.append(_Role(line, place.start(), close + len(place[2]), token_.info, token_.content.strip(), line in tables))
    return found


def _judge(token: Token, verdicts: dict[int, list[Token | None]], unreadable: dict[int, str]) -> None:
    """For each look-alike in an inline token: the role it is, or None for one in code."""
    children = token.children or []
    roles = {child.meta["at"]: child for child in children if child.type == "role"}
    begin = (token.map or [0])[0]
    for child in children:
        if child.type == "image" and any(one.type == "role" for one in child.children or []):
            unreadable[begin] = "a role cannot stand in the text of an image: put it beside"
    for place in _ROLE.finditer(token.content):
        line = begin + token.content.count("\n", 0, place.start())
        verdicts.setdefault(line, []).append(roles.get(place.start()))
