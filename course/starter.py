"""The module that a learner writes in a project, made from the reference solution by taking the marked parts out.

    def order(key: int) -> list[int]:
        \"\"\"What it must give.\"\"\"
        # BEGIN SOLUTION: return the order of the epoch      ->      raise NotImplementedError("return the order of the epoch")
        …
        # END SOLUTION

Between such markers at the left margin stand helpers that only the solution needs; they are dropped.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass

from course.errors import CourseError
from course.script import same_code

_BEGIN = re.compile(r"^(?P<indent>\s*)#\s*BEGIN SOLUTION(:\s*(?P<text>.*\S))?\s*$")
_END = re.compile(r"^\s*#\s*END SOLUTION\s*$")


@dataclass(frozen=True)
class Starter:
    """The learner's copy of a project's module.

    Attributes:
        source: valid Python; what is asked for raises NotImplementedError.
        stubs: by name (``Class.method`` for a method), in the order of the file: what the stub says is to be done.
    """

    source: str
    stubs: dict[str, str]


def starter(solution: str, file: str, project: str) -> Starter:
    """Make the starter from a solution.

    Args:
        solution: the text of the reference module.
        file: how messages name it.
        project: the id that its first line must give.

    Raises:
        CourseError: for a solution that does not parse, says of no project, or has a marker that cannot be honored.
    """
    lines = solution.replace("\r\n", "\n").split("\n")
    claim = f"# project: {project}"
    if lines[0].strip() != claim:
        raise CourseError.at(file, "line 1", "the module does not say of which project it is", f"begin it with `{claim}`")
    _parsed(solution, file, "")
    out: list[str] = []
    opened: int | None = None
    for index, line in enumerate(lines):
        where = f"line {index + 1}"
        begin = _BEGIN.match(line)
        if begin:
            if opened is not None:
                raise CourseError.at(file, where, "a BEGIN inside another block", "close the first block before it")
            if not begin["text"]:
                raise CourseError.at(file, where, "BEGIN SOLUTION says nothing", "write what to do after a colon")
            opened = index
            if begin["indent"]:
                # A Python string, not JSON: the two quote a text alike but for characters outside ASCII.
                out.append(f"{begin['indent']}raise NotImplementedError({_quoted(begin['text'])})")
        elif _END.match(line):
            if opened is None:
                raise CourseError.at(file, where, "END SOLUTION without its BEGIN", "put the BEGIN line before it")
            opened = None
        elif opened is None:
            out.append(line)
    if opened is not None:
        raise CourseError.at(file, f"line {opened + 1}", "BEGIN SOLUTION is never closed", "add `# END SOLUTION`")
    source = re.sub(r"\n{4,}", "\n\n\n", "\n".join(out)).rstrip("\n") + "\n"
    stubs = dict(_stubs(_parsed(source, file, "its starter: ")))
    if not stubs:
        raise CourseError.at(file, "", "no solution is marked", "put `# BEGIN SOLUTION: …` and `# END SOLUTION` into functions")
    return Starter(source, stubs)


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _parsed(source: str, file: str, what: str) -> ast.Module:
    try:
        return ast.parse(source)
    except SyntaxError as error:
        raise CourseError.at(file, f"line {error.lineno}", f"{what}not valid Python: {error.msg}", "mend the code") from None


def _stubs(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """Functions and methods that do nothing but raise NotImplementedError, with what it says."""
    waiting: list[tuple[str, ast.stmt]] = [("", node) for node in tree.body]
    while waiting:
        prefix, node = waiting.pop(0)
        if isinstance(node, ast.ClassDef):
            waiting = [(f"{prefix}{node.name}.", inner) for inner in node.body] + waiting
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            for statement in node.body:
                raised = statement.exc if isinstance(statement, ast.Raise) else None
                name = raised.func if isinstance(raised, ast.Call) else raised
                if isinstance(name, ast.Name) and name.id == "NotImplementedError":
                    text = raised.args[0] if isinstance(raised, ast.Call) and raised.args else None
                    said = text.value if isinstance(text, ast.Constant) and isinstance(text.value, str) else ""
                    yield f"{prefix}{node.name}", said


def open_stubs(source: str, original: Starter) -> dict[str, str]:
    """Which of the starter's stubs still are stubs in a learner's module, with what the starter says is to be done.

    A module that does not parse has none that could be told.
    """
    try:
        left = dict(_stubs(ast.parse(source)))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return {}
    return {name: text for name, text in original.stubs.items() if name in left}


def is_untouched(source: str, original: Starter) -> bool:
    """Whether a learner's module is the starter still; comments and layout do not count."""
    return same_code(source, original.source)


def asked(name: str, stubs: dict[str, str]) -> dict[str, str]:
    """The stubs that a name of a stage's `needs` stands for: the function of that name, or the methods of that class."""
    return {one: text for one, text in stubs.items() if one == name or one.startswith(f"{name}.")}
