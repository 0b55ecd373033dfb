"""Read one submitted file, trusting nothing in it: neither its metadata nor that it is a notebook at all.

The submitted bytes are never changed. What had to be repaired in memory is said in a notice.
"""

from __future__ import annotations

import hashlib
import json
import re
import stat
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import jupytext

MAX_BYTES = 64_000_000
MAX_CELLS = 2_000
MAX_DEPTH = 60
MAX_SOURCE = 1_000_000

MARKER = re.compile(r"^\s*#\s*cell:\s*(?P<id>[a-z0-9]+(-[a-z0-9]+)*)\s*$")
# Blanks, but no line ends: with them, many empty lines would take the square of their number.
_CONFLICT = re.compile(r"^[^\S\n]*\"?(<{7} |>{7} |={7}\s*$)", re.MULTILINE)


@dataclass(frozen=True)
class SubmittedCell:
    """One cell as handed in.

    Attributes:
        position: 1-based, over all cells, as JupyterLab shows them from the top.
        kind: ``code``, ``markdown``, ``raw`` or whatever the file says.
        source: with line ends of Unix.
        names: what the cell says of its identity, most trustworthy first: marker comment, metadata, id, tags.
    """

    position: int
    kind: str
    source: str
    names: tuple[str, ...]


@dataclass(frozen=True)
class Submission:
    """One submitted file, read.

    Attributes:
        path: the file.
        sha256: of its bytes as submitted.
        cells: all of them, in order.
        lesson: the lesson or project that the file itself claims to be of, or empty.
        text: a script's text; empty for a notebook.
        notices: what was repaired or left out.
    """

    path: Path
    sha256: str
    cells: tuple[SubmittedCell, ...]
    lesson: str = ""
    notices: tuple[str, ...] = ()
    text: str = ""


class Unreadable(Exception):
    """The file is not something a learner's work can be read from. The message names the fault in a learner's words."""

    def __init__(self, message: str, sha256: str = "", *, refused: bool = False) -> None:
        super().__init__(message)
        self.sha256 = sha256
        self.refused = refused


def read(path: Path) -> Submission:
    """Read a notebook (any nbformat from 3) or a Python script (percent cells, or none).

    Raises:
        Unreadable: for everything that is not one; ``refused`` where it is one that is not to be run.
        PermissionError: if the grader may not read the file; that is not the learner's fault.
    """
    data = _bytes(path)
    sha256 = hashlib.sha256(data).hexdigest()
    try:
        text, notices = _decode(data, path.name)
        if path.suffix.lower() == ".ipynb":
            cells, lesson, more = _notebook(text, path.name, len(data))
            text = ""
        else:
            cells, lesson, more = _script(text)
        cells = tuple(part for cell in cells for part in _parts(cell))
        _check(cells)
    except Unreadable as error:
        error.sha256 = sha256
        raise
    return Submission(path, sha256, cells, lesson, (*notices, *more), text)


def _bytes(path: Path) -> bytes:
    info = path.lstat()  # before opening: opening a FIFO would wait for ever
    if stat.S_ISLNK(info.st_mode):
        raise Unreadable(f"{path.name} is a link, not a file: hand in the file itself")
    if stat.S_ISDIR(info.st_mode):
        raise Unreadable(f"{path.name} is a directory, not a file")
    if not stat.S_ISREG(info.st_mode):
        raise Unreadable(f"{path.name} is not a regular file")
    if info.st_size > MAX_BYTES:
        size, limit = info.st_size / 1e6, MAX_BYTES / 1e6
        raise Unreadable(
            f"{path.name} has {size:.0f} MB; the limit is {limit:.0f} MB: clear the outputs and save again", refused=True
        )
    return path.read_bytes()


def _decode(data: bytes, name: str) -> tuple[str, tuple[str, ...]]:
    if not data.strip():
        raise Unreadable(f"{name} is empty ({len(data)} bytes)")
    notices: tuple[str, ...] = ()
    encoding = "utf-8-sig"
    if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        encoding, notices = "utf-16", (f"{name} is UTF-16, read as such",)
    try:
        return data.decode(encoding), notices
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        byte = data[error.start]
        raise Unreadable(f"{name} is not UTF-8: byte 0x{byte:02x} at offset {error.start}, line {line}: save it as UTF-8") from None


class _DoubleKey(Exception):
    pass


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        # A viewer may show one program and the grader run another.
        raise _DoubleKey(next(key for key, times in Counter(key for key, _ in pairs).items() if times > 1))
    return found


def _load(text: str, name: str, size: int) -> Any:
    try:
        return json.loads(text, object_pairs_hook=_pairs)
    except _DoubleKey as error:
        raise Unreadable(f'{name}: the key "{error}" appears twice', refused=True) from None
    except RecursionError:
        raise Unreadable(f"{name} is nested too deeply (limit {MAX_DEPTH})") from None
    except json.JSONDecodeError as error:
        raise Unreadable(_not_json(text, name, size, error)) from None
    except ValueError:  # Python refuses to read a whole number of more than 4,300 digits
        raise Unreadable(f"{name} holds a number too long to be read: clear the outputs and save again") from None


def _not_json(text: str, name: str, size: int, error: json.JSONDecodeError) -> str:
    if conflict := _CONFLICT.search(text):
        line = text[: conflict.start(1)].count("\n") + 1
        found = text.splitlines()[line - 1].strip()[:60]
        return f"{name}, line {line}: unresolved git merge ({found}): choose a side and save again"
    start = text.lstrip()[:200].lower()
    if start.startswith(("<!doctype", "<html", "<?xml", "<head")):
        return f"{name} is an HTML page, not a notebook: download the notebook itself"
    if not start.startswith(("{", "[")):
        try:
            compile(text, name, "exec")
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return f"{name} is not a notebook: it does not hold JSON"
        return f"{name} is Python text, not a notebook: give it the ending .py"
    if error.pos >= len(text.rstrip()) - 1 or error.msg.startswith("Unterminated"):
        return f"{name} ends early ({size} bytes, JSON stops at line {error.lineno}): upload it again"
    return f"{name} is broken JSON at line {error.lineno}, column {error.colno} ({error.msg}): save it from JupyterLab again"


def _depth(data: Any) -> int:
    deepest, stack = 0, [(data, 1)]
    while stack:
        node, depth = stack.pop()
        deepest = max(deepest, depth)
        if depth > MAX_DEPTH:
            break
        if isinstance(node, dict):
            stack.extend((one, depth + 1) for one in node.values())
        elif isinstance(node, list):
            stack.extend((one, depth + 1) for one in node)
    return deepest


def _notebook(text: str, name: str, size: int) -> tuple[tuple[SubmittedCell, ...], str, tuple[str, ...]]:
    data = _load(text, name, size)
    if not isinstance(data, dict):
        kind = {list: "a list", str: "a text", type(None): "null"}.get(type(data), "a number")
        raise Unreadable(f"{name} is JSON, but {kind}, not a notebook")
    if _depth(data) > MAX_DEPTH:
        raise Unreadable(f"{name} is nested too deeply (limit {MAX_DEPTH})")
    notices: list[str] = []
    metadata = data.get("metadata")
    if not isinstance(metadata, dict):
        notices.append("the notebook has no metadata; taken as empty")
        metadata = {}
    _python_only(metadata, name)
    raw = data.get("cells")
    if not isinstance(raw, list) and isinstance(data.get("worksheets"), list):
        sheets = [sheet for sheet in data["worksheets"] if isinstance(sheet, dict)]
        raw = [cell for sheet in sheets for cell in _list(sheet.get("cells"))]
        notices.append(f"converted from nbformat {data.get('nbformat')}")
    if not isinstance(raw, list):
        raise Unreadable(f"{name} is JSON, but not a notebook: it has no cells")
    if len(raw) > MAX_CELLS:
        raise Unreadable(f"{name} has {len(raw)} cells; the limit is {MAX_CELLS}", refused=True)
    cells = tuple(_cell(node, position) for position, node in enumerate(raw, 1))
    odd = [str(cell.position) for cell in cells if cell.kind not in {"code", "markdown"}]
    if odd:
        notices.append(f"cells that are neither code nor Markdown are not run: {', '.join(odd)}")
    notices += _double_ids(raw)
    ours = metadata.get("training_systems")
    lesson = str(ours.get("lesson", ""))[:100] if isinstance(ours, dict) else ""
    return cells, lesson, tuple(notices)


def _python_only(metadata: dict[str, Any], name: str) -> None:
    """Refuse a notebook of another language: some of it would parse as Python and mean something else."""
    found = []
    for key, inner in (("kernelspec", "language"), ("language_info", "name")):
        part = metadata.get(key)
        if isinstance(part, dict) and isinstance(part.get(inner), str):
            found.append(part[inner])
    other = [one for one in found if one and not one.lower().startswith(("python", "ipython"))]
    if other and len(other) == len(found):
        raise Unreadable(f"{name}: this is a notebook for {other[0][:40]}; the course needs Python", refused=True)


def _double_ids(raw: list[Any]) -> list[str]:
    seen: dict[str, list[int]] = {}
    for position, node in enumerate(raw, 1):
        if isinstance(node, dict) and isinstance(node.get("id"), str):
            seen.setdefault(node["id"], []).append(position)
    return [f"cells {' and '.join(map(str, places))} have the same id" for places in seen.values() if len(places) > 1]


def _parts(cell: SubmittedCell) -> list[SubmittedCell]:
    """A cell into which several were merged, taken apart at the marker comments; every other cell as it is.

    What stands before the first marker is a part of its own, unless it says nothing.
    """
    lines = cell.source.split("\n")
    starts = [number for number, line in enumerate(lines) if MARKER.match(line)] if cell.kind == "code" else []
    if not starts or (starts == [0]):
        return [cell]
    head = "\n".join(lines[: starts[0]])
    parts = [replace(cell, source=head, names=())] if any(_says(line) for line in lines[: starts[0]]) else []
    for start, end in zip(starts, [*starts[1:], len(lines)], strict=True):
        marker = MARKER.match(lines[start])
        names = (marker["id"], *(cell.names if len(starts) == 1 else ())) if marker else ()
        parts.append(replace(cell, source="\n".join(lines[start:end]), names=names))
    return parts


def _says(line: str) -> bool:
    """Whether a line is more than a blank, a comment or a magic such as ``%%time``."""
    return bool(line.strip()) and not line.lstrip().startswith(("#", "%"))


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _cell(node: Any, position: int) -> SubmittedCell:
    if not isinstance(node, dict):
        return SubmittedCell(position, "unknown", "", ())
    kind = node.get("cell_type")
    source = node.get("source", node.get("input", ""))
    if isinstance(source, list):
        source = "".join(part for part in source if isinstance(part, str))
    if not isinstance(source, str):
        source = ""
    source = source.replace("\r\n", "\n").replace("\r", "\n")
    metadata = node.get("metadata")
    metadata = metadata if isinstance(metadata, dict) else {}
    names: list[Any] = []
    if marker := MARKER.match(source.split("\n", 1)[0]):
        names.append(marker["id"])
    ours = metadata.get("training_systems")
    if isinstance(ours, dict):
        names.append(ours.get("cell"))
    names += [node.get("id"), metadata.get("id")]
    tags = metadata.get("tags")
    names += [tag.removeprefix("ex:") for tag in tags if isinstance(tag, str)] if isinstance(tags, list) else []
    texts = tuple(dict.fromkeys(name for name in names if isinstance(name, str)))
    return SubmittedCell(position, kind if isinstance(kind, str) else "unknown", source, texts)


def _script(text: str) -> tuple[tuple[SubmittedCell, ...], str, tuple[str, ...]]:
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    if conflict := _CONFLICT.search(text):
        line = text[: conflict.start(1)].count("\n") + 1
        raise Unreadable(f"line {line}: unresolved git merge: choose a side and save again")
    if not re.search(r"^#\s*%%", text, re.MULTILINE):
        told = "" if re.search(r"^#\s*cell:", text, re.MULTILINE) else "the script has no cell markers; it is run as one cell"
        return (SubmittedCell(1, "code", text, ()),), _claimed(text), (told,) if told else ()
    try:
        notebook = jupytext.reads(text, fmt={"extension": ".py", "format_name": "percent", "comment_magics": False})
    except Exception as error:  # whatever jupytext makes of a header that says nonsense
        raise Unreadable(f"the script's cells cannot be read ({error}): mend or delete the comments above the first cell") from None
    if len(notebook.cells) > MAX_CELLS:
        raise Unreadable(f"{len(notebook.cells)} cells; the limit is {MAX_CELLS}", refused=True)
    cells = tuple(
        _cell({"cell_type": node.cell_type, "source": node.source, "metadata": dict(node.metadata)}, position)
        for position, node in enumerate(notebook.cells, 1)
    )
    return cells, _claimed(text), ()


def _claimed(text: str) -> str:
    lesson = re.search(r"^#?\s*(?:lesson|project):\s*([a-z0-9-]+)\s*$", text, re.MULTILINE)
    return lesson[1] if lesson else ""


def _check(cells: tuple[SubmittedCell, ...]) -> None:
    for cell in cells:
        if cell.kind != "code":
            continue
        if len(cell.source) > MAX_SOURCE:
            raise Unreadable(f"cell {cell.position} has {len(cell.source)} characters; the limit is {MAX_SOURCE}", refused=True)
        for character in cell.source:
            if "\ud800" <= character <= "\udfff":
                raise Unreadable(f"cell {cell.position} holds a character that can't be encoded (U+{ord(character):04X})")
