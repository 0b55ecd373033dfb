"""A percent script as cells (`code/main.py` of a lesson, `stages.py` of a project), and the learner's copy of an exercise.

A lesson's code stands once, in a percent script. Solutions in it are marked with the markers that authors of other
graders already write, and the scaffold is made by taking them out:

    last = batches[-1]["y"]  # SOLUTION: the labels of the last batch     ->  last = ...  # TODO: the labels of …
    # BEGIN SOLUTION: …  / # END SOLUTION                                 ->  ...  # TODO: …
    # BEGIN REFERENCE: … / # END REFERENCE                                ->  nothing (what would tell the answer)
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, cast

from course.errors import CourseError
from course.lean import NOTEBOOKS, without

with without(*NOTEBOOKS):
    import jupytext

Role = Literal["parameters", "build", "figure", "experiment", "exercise", "stage"]
ROLES = ("parameters", "build", "figure", "experiment", "exercise")
PROJECT_ROLES = ("parameters", "build", "figure", "stage")

_ID = re.compile(r"^(?=.{1,64}$)[a-z0-9]+(-[a-z0-9]+)*$")  # a notebook takes ids of at most 64 characters
_INLINE = re.compile(r"#\s*SOLUTION:\s*(?P<text>.*\S)\s*$")
_BEGIN = re.compile(r"^(?P<indent>\s*)#\s*BEGIN (?P<kind>SOLUTION|REFERENCE)(:\s*(?P<text>.*\S))?\s*$")
_END = re.compile(r"^\s*#\s*END (?P<kind>SOLUTION|REFERENCE)\s*$")
_TODO = "# TODO: "


@dataclass(frozen=True)
class Cell:
    """One cell of a lesson's script.

    Attributes:
        id: unique in the lesson.
        role: what the cell is for.
        title: a short heading.
        source: its code as written, with the reference solution in it.
        line: the first line of the code in the file, 1-based.
    """

    id: str
    role: Role
    title: str
    source: str
    line: int


@dataclass(frozen=True)
class Blank:
    """A place that the learner fills: what the TODO says, and the names it assigns (empty for a free block)."""

    text: str
    names: tuple[str, ...]


@dataclass(frozen=True)
class Scaffold:
    """The learner's copy of an exercise cell: valid Python in which every solution has become a blank."""

    source: str
    blanks: tuple[Blank, ...]


def read_script(path: Path, shown: str | None = None, roles: tuple[str, ...] = ROLES) -> tuple[Cell, ...]:
    """Read a percent script into cells.

    Args:
        path: the script.
        shown: how messages name it; its path if absent.
        roles: those that its cells may have.

    Raises:
        CourseError: for a missing file, a cell without id or with an unknown role, a double id, code before the first
            cell, a cell of words, or code that does not parse.
    """
    name = shown or str(path)
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise CourseError.at(name, "", "the file is missing", "write the script; docs/lesson-format.md shows one") from None
    starts = [number for number, line in enumerate(text.splitlines(), 1) if re.match(r"#\s*%%", line)]
    cells: list[Cell] = []
    notebook = jupytext.reads(text, fmt={"extension": ".py", "format_name": "percent", "comment_magics": False})
    # jupytext drops an empty first cell but keeps one that holds code before the first marker.
    if len(notebook.cells) != len(starts):
        raise CourseError.at(name, "line 1", "there is text before the first cell", "start the file with a `# %%` line")
    for node, start in zip(notebook.cells, starts, strict=True):
        where = f"line {start}"
        if node.cell_type != "code":
            raise CourseError.at(name, where, f"a {node.cell_type} cell in the script", "put words into the Markdown file")
        cell_id, role = str(node.metadata.get("id", "")), str(node.metadata.get("role", ""))
        if not _ID.match(cell_id):
            raise CourseError.at(
                name,
                where,
                f"cell id {cell_id!r} is not a slug of at most 64 characters",
                'write `# %% Title id="some-id" role="build"`',
            )
        if role not in roles:
            raise CourseError.at(name, where, f"unknown role {role!r} of cell {cell_id}", f"use one of: {', '.join(roles)}")
        if any(cell.id == cell_id for cell in cells):
            raise CourseError.at(name, where, f"cell id {cell_id} stands twice", "give one of the cells another id")
        try:
            ast.parse(node.source)
        except SyntaxError as error:
            line = start + (error.lineno or 1)
            raise CourseError.at(name, f"line {line}", f"not valid Python: {error.msg}", "mend the code") from None
        title = str(node.metadata.get("title", "")).strip()
        if not title:
            raise CourseError.at(name, where, f"cell {cell_id} has no title", 'write `# %% Title id="…" role="…"`')
        cells.append(Cell(cell_id, cast(Role, role), title, node.source, start + 1))
    return tuple(cells)


def scaffold(cell: Cell, file: str = "code/main.py") -> Scaffold:
    """The learner's copy of an exercise cell.

    Raises:
        CourseError: for a marker that cannot be honoured: an END without BEGIN, a SOLUTION comment on something other
            than an assignment or a return, no marker at all, or a result that would not be valid Python.
    """
    lines = cell.source.split("\n")
    comments = _comments(cell.source)
    inline = _inline_solutions(cell, comments, file)
    out: list[str] = []
    blanks: list[Blank] = []
    opened: tuple[str, int] | None = None
    index = 0
    while index < len(lines):
        line, where = lines[index], f"line {cell.line + index}"
        # Only in a comment is a marker a marker; a text may speak of one.
        begin, end = (pattern.match(line) if index in comments else None for pattern in (_BEGIN, _END))
        if begin:
            if opened:
                raise CourseError.at(file, where, "a BEGIN inside another block", "close the first block before it")
            opened = (begin["kind"], index)
            if begin["kind"] == "SOLUTION":
                if not begin["text"]:
                    raise CourseError.at(file, where, "BEGIN SOLUTION says nothing", "write what to do after a colon")
                out.append(f"{begin['indent']}...  {_TODO}{begin['text']}")
                blanks.append(Blank(begin["text"], ()))
        elif end:
            if not opened or opened[0] != end["kind"]:
                raise CourseError.at(file, where, f"END {end['kind']} without its BEGIN", "put the BEGIN line before it")
            opened = None
        elif not opened and index in inline:
            last, replacement, blank = inline[index]
            out.append(replacement)
            blanks.append(blank)
            index = last
        elif not opened:
            out.append(line)
        index += 1
    if opened:
        where = f"line {cell.line + opened[1]}"
        raise CourseError.at(file, where, f"BEGIN {opened[0]} is never closed", f"add `# END {opened[0]}`")
    if not blanks:
        raise CourseError.at(file, f"line {cell.line}", f"exercise {cell.id} has no solution marker", "mark it with # SOLUTION: …")
    source = "\n".join(out).strip("\n")
    try:
        ast.parse(source)
    except SyntaxError as error:
        raise CourseError.at(
            file, f"cell {cell.id}", f"its scaffold is not valid Python: {error.msg}", "move the markers"
        ) from None
    return Scaffold(source, tuple(blanks))


def _comments(source: str) -> dict[int, str]:
    """The comments of a source that parses, by 0-based line."""
    tokens = tokenize.generate_tokens(io.StringIO(source + "\n").readline)
    return {token.start[0] - 1: token.string for token in tokens if token.type == tokenize.COMMENT}


def _inline_solutions(cell: Cell, comments: dict[int, str], file: str) -> dict[int, tuple[int, str, Blank]]:
    """Statements that end in a SOLUTION comment: first line -> (last line, its replacement, its blank); 0-based."""
    found: dict[int, tuple[int, str, Blank]] = {}
    statements = [node for node in ast.walk(ast.parse(cell.source)) if isinstance(node, ast.stmt)]
    for index, comment in comments.items():
        marker = _INLINE.match(comment)
        if not marker:
            continue
        # The innermost statement that ends on this line owns the comment.
        owners = [node for node in statements if node.end_lineno == index + 1]
        node = max(owners, key=lambda one: (one.lineno, one.col_offset), default=None)
        if isinstance(node, ast.Assign):
            head = "".join(f"{ast.unparse(target)} = " for target in node.targets)
            names = tuple(ast.unparse(target) for target in node.targets)
        elif isinstance(node, ast.AnnAssign) and node.value is not None:
            head, names = f"{ast.unparse(node.target)}: {ast.unparse(node.annotation)} = ", (ast.unparse(node.target),)
        elif isinstance(node, ast.Return):
            head, names = "return ", ()
        else:
            where = f"line {cell.line + index}"
            remedy = "put it on an assignment or a return, or use BEGIN/END SOLUTION"
            raise CourseError.at(file, where, "a SOLUTION comment that blanks nothing", remedy)
        replacement = f"{' ' * node.col_offset}{head}...  {_TODO}{marker['text']}"
        found[node.lineno - 1] = (index, replacement, Blank(marker["text"], names))
    return found


def untouched(source: str, original: Scaffold) -> int:
    """How many of the scaffold's blanks still hold their ``...`` in the learner's code.

    A blank counts as untouched when the same assignment (or a bare ``...``) is still there; code that does not parse
    has no blanks that could be counted, and gives 0.
    """
    try:
        written = _placeholders(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return 0
    left = 0
    for placeholder in _placeholders(original.source):
        if placeholder in written:
            written.remove(placeholder)
            left += 1
    return left


def _placeholders(source: str) -> list[str]:
    """The statements whose value is ``...``, in a normal form."""
    kinds = (ast.Assign, ast.AnnAssign, ast.Return, ast.Expr)
    return [
        ast.unparse(node)
        for node in ast.walk(ast.parse(source))
        if isinstance(node, kinds) and isinstance(node.value, ast.Constant) and node.value.value is Ellipsis
    ]


def same_code(left: str, right: str) -> bool:
    """Whether two sources are the same program: comments, blank lines and layout do not count."""
    try:
        return ast.dump(ast.parse(left)) == ast.dump(ast.parse(right))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return left.strip() == right.strip()
