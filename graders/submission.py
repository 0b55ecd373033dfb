"""Read one submitted file, trusting nothing in it: neither its metadata nor that it is a notebook at all.

The submitted bytes are never changed. What had to be repaired in memory is said in a notice. A file may stand in a zip:
its path then goes on behind the archive's (``Ana.zip/recovery-01.ipynb``), and it is read from there into memory; nothing
is ever extracted to disk.
"""

from __future__ import annotations

import ast
import hashlib
import json
import os
import re
import stat
import zipfile
import zlib
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import jupytext

MAX_BYTES = 64_000_000
MAX_CELLS = 2_000
MAX_DEPTH = 60
MAX_SOURCE = 1_000_000
MAX_SCRIPT = 2_000_000
MAX_PARTS = 2_000_000  # values in the JSON: each costs about a hundred bytes of memory, whatever its size in the file
MAX_MEMBERS = 2_000
MAX_RATIO = 500  # of a member's size to its packed size; only looked at from a few megabytes on
SUFFIXES = (".ipynb", ".py")
IGNORED = frozenset({"__pycache__", ".ipynb_checkpoints", ".git", "node_modules", "__MACOSX"})

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
        path: the file; for one in a zip, behind the archive's own path.
        sha256: of its bytes as submitted; for one in a zip, of the bytes that are packed in it.
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
        kind = path.suffix.lower()
        if kind == ".zip":
            kind = members(path)[0].suffix.lower()
        if kind == ".ipynb":
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


def members(archive: Path) -> list[Path]:
    """The notebooks and scripts in a zip, as paths that go on behind the archive's own.

    Raises:
        Unreadable: if the archive is damaged, or holds what an honest one does not (then ``refused``).
        OSError: if it cannot be read.
    """
    with _opened(archive) as found:
        names = [_inner(info.filename) for info in _infos(found, archive.name) if not info.is_dir()]
    return [
        archive.joinpath(*parts)
        for parts in names
        if parts[-1].lower().endswith(SUFFIXES) and not any(part.startswith(".") or part in IGNORED for part in parts)
    ]


def raw(path: Path) -> bytes:
    """The bytes of a file as handed in: of a zip its own, of a file in a zip those that are packed in it.

    Raises:
        Unreadable: if it is no ordinary file, is too large, or its archive is damaged or suspicious.
        OSError: if it cannot be read.
    """
    archive = next((one for one in path.parents if one.suffix.lower() == ".zip" and one.is_file()), None)
    if archive is not None:
        return _unpacked(archive, path)
    info = path.lstat()  # before opening: opening a FIFO would wait for ever
    _regular(info, path.name)
    flags = os.O_RDONLY | getattr(os, "O_BINARY", 0) | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    with open(os.open(path, flags), "rb") as file:
        _regular(os.fstat(file.fileno()), path.name)  # it may have been replaced in between
        data = file.read(MAX_BYTES + 1)
    _size(len(data), path.name)
    return data


def _bytes(path: Path) -> bytes:
    data = raw(path)
    # What lies in an archive never ends with .zip: see `members`.
    if path.suffix.lower() != ".zip":
        return data
    try:
        inside = members(path)
        if len(inside) != 1:
            names = ", ".join(one.relative_to(path).as_posix() for one in inside[:10])
            listed = f" ({names})" if names else ""
            raise Unreadable(f"{path.name} holds {len(inside)} notebooks and scripts{listed}: hand in the one", refused=True)
        return _unpacked(path, inside[0])
    except Unreadable as error:
        error.sha256 = hashlib.sha256(data).hexdigest()
        raise


def _regular(info: os.stat_result, name: str) -> None:
    if stat.S_ISLNK(info.st_mode):
        raise Unreadable(f"{name} is a link, not a file: hand in the file itself")
    if stat.S_ISDIR(info.st_mode):
        raise Unreadable(f"{name} is a directory, not a file")
    if not stat.S_ISREG(info.st_mode):
        raise Unreadable(f"{name} is not a regular file")
    _size(info.st_size, name)


def _size(size: int, name: str) -> None:
    if size > MAX_BYTES:
        raise Unreadable(
            f"{name} has {size / 1e6:.0f} MB; the limit is {MAX_BYTES / 1e6:.0f} MB: clear the outputs and save again",
            refused=True,
        )


def _opened(archive: Path) -> zipfile.ZipFile:
    _regular(archive.lstat(), archive.name)
    try:
        return zipfile.ZipFile(archive)
    except (zipfile.BadZipFile, ValueError, NotImplementedError, EOFError) as error:
        raise Unreadable(f"{archive.name} is not a zip that can be read ({error}): pack it again") from None


def _infos(archive: zipfile.ZipFile, name: str) -> list[zipfile.ZipInfo]:
    """The entries of an archive, if nothing in it is suspicious."""
    infos = archive.infolist()
    again = "; pack only your notebooks and scripts"
    if len(infos) > MAX_MEMBERS:
        raise Unreadable(f"{name} holds {len(infos)} entries; the limit is {MAX_MEMBERS}{again}", refused=True)
    seen: set[tuple[str, ...]] = set()
    for info in infos:
        parts = _inner(info.filename)
        shown = info.filename[:100]
        if not parts or ".." in parts or info.filename.startswith(("/", "\\")) or ":" in parts[0]:
            raise Unreadable(f"{name} holds a path that leads out of it ({shown!r}){again}", refused=True)
        if stat.S_IFMT(info.external_attr >> 16) not in {0, stat.S_IFREG, stat.S_IFDIR}:
            raise Unreadable(f"{name} holds a link or a device ({shown!r}){again}", refused=True)
        if parts in seen and not info.is_dir():
            # Which of the two is shown depends on the program that opens it.
            raise Unreadable(f"{name} holds {shown!r} twice{again}", refused=True)
        seen.add(parts)
    total = sum(info.file_size for info in infos)
    if total > 4 * MAX_BYTES:
        raise Unreadable(f"{name} unpacks to {total / 1e6:.0f} MB; the limit is {4 * MAX_BYTES / 1e6:.0f} MB{again}", refused=True)
    return infos


def _inner(name: str) -> tuple[str, ...]:
    """The parts of a member's name, whichever way its slashes lean."""
    return tuple(part for part in name.replace("\\", "/").split("/") if part not in {"", "."})


def _unpacked(archive: Path, path: Path) -> bytes:
    """The bytes of a file in a zip, bounded while they are unpacked: what an archive says of its sizes may be a lie."""
    name = f"{path.name} in {archive.name}"
    with _opened(archive) as opened:
        parts = path.relative_to(archive).parts
        found = next((info for info in _infos(opened, archive.name) if _inner(info.filename) == parts), None)
        if found is None:
            raise Unreadable(f"there is no {path.name} in {archive.name}")
        _size(found.file_size, name)
        if found.flag_bits & 1:
            raise Unreadable(f"{name} is locked by a password: pack it without one")
        if found.compress_type not in {zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED}:
            raise Unreadable(f"{name} is packed in a way that is not read here: pack it as an ordinary zip")
        if found.file_size > MAX_BYTES // 16 and found.file_size > MAX_RATIO * max(found.compress_size, 1):
            raise Unreadable(
                f"{name} unpacks to more than {MAX_RATIO} times its size: clear the outputs and pack again", refused=True
            )
        try:
            with opened.open(found) as stream:
                data = stream.read(MAX_BYTES + 1)
        except (zipfile.BadZipFile, zlib.error, EOFError, ValueError, NotImplementedError, RuntimeError) as error:
            raise Unreadable(f"{name} is damaged ({error}): pack it again") from None
    _size(len(data), name)
    return data


# The first bytes of text that is not UTF-8: byte order marks, or a bracket between zero bytes.
_ENCODINGS = (
    (b"\xff\xfe\x00\x00", "utf-32"), (b"\x00\x00\xfe\xff", "utf-32"), (b"\xff\xfe", "utf-16"), (b"\xfe\xff", "utf-16"),
    (b"{\x00\x00\x00", "utf-32-le"), (b"\x00\x00\x00{", "utf-32-be"), (b"{\x00", "utf-16-le"), (b"\x00{", "utf-16-be"),
)  # fmt: skip


def _decode(data: bytes, name: str) -> tuple[str, tuple[str, ...]]:
    if not data.strip():
        raise Unreadable(f"{name} is empty ({len(data)} bytes)")
    encoding = next((one for start, one in _ENCODINGS if data.startswith(start)), "utf-8-sig")
    shown = encoding[:6].upper() if encoding != "utf-8-sig" else "UTF-8"
    try:
        text = data.decode(encoding)
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        where = f"byte 0x{data[error.start]:02x} at offset {error.start}, line {line}"
        raise Unreadable(f"{name} is not {shown}: {where}: save it as UTF-8") from None
    if not text.strip():
        raise Unreadable(f"{name} is empty ({len(data)} bytes)")
    return text, (f"{name} is {shown}, read as such",) if shown != "UTF-8" else ()


class _DoubleKey(Exception):
    pass


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        # A viewer may show one program and the grader run another.
        raise _DoubleKey(next(key for key, times in Counter(key for key, _ in pairs).items() if times > 1))
    return found


_TOKENS = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"|[\[{,]', re.DOTALL)


def _bound_parts(text: str, name: str) -> None:
    """Refuse JSON of so many values that they would fill the memory: ``[[],[],[],…`` needs twenty times its size."""
    if sum(text.count(one) for one in "[{,") <= MAX_PARTS:
        return
    count = 0  # exactly now: outputs may be full of commas
    for found in _TOKENS.finditer(text):
        count += found[0][0] != '"'
        if count > MAX_PARTS:
            raise Unreadable(f"{name} holds more than {MAX_PARTS} values: clear the outputs and save again", refused=True)


def _load(text: str, name: str, size: int) -> tuple[Any, tuple[str, ...]]:
    _bound_parts(text, name)
    odd: set[str] = set()

    def constant(word: str) -> float:
        odd.add(word)
        return float(word.replace("Infinity", "inf"))

    try:
        data = json.loads(text, object_pairs_hook=_pairs, parse_constant=constant)
    except _DoubleKey as error:
        raise Unreadable(f'{name}: the key "{error}" appears twice', refused=True) from None
    except RecursionError:
        raise Unreadable(f"{name} is nested too deeply (limit {MAX_DEPTH})") from None
    except json.JSONDecodeError as error:
        raise Unreadable(_not_json(text, name, size, error)) from None
    except ValueError:  # Python refuses to read a whole number of more than 4,300 digits
        raise Unreadable(f"{name} holds a number too long to be read: clear the outputs and save again") from None
    return data, tuple(f"{word} is not JSON; read as a number" for word in sorted(odd))


def _not_json(text: str, name: str, size: int, error: json.JSONDecodeError) -> str:
    if conflict := _CONFLICT.search(text):
        line = text[: conflict.start(1)].count("\n") + 1
        found = text.splitlines()[line - 1].strip()[:60]
        return f"{name}, line {line}: unresolved git merge ({found}): choose a side and save again"
    start = text.lstrip()[:200].lower()
    if start.startswith(("<!doctype", "<html", "<?xml", "<head")):
        return f"{name} is an HTML page, not a notebook: download the notebook itself"
    if not start.startswith(("{", "[")):
        if _python(text):
            return f"{name} is Python text, not a notebook: give it the ending .py"
        return f"{name} is not a notebook: it does not hold JSON"
    if error.pos >= len(text.rstrip()) - 1 or error.msg.startswith("Unterminated"):
        return f"{name} ends early ({size} bytes, JSON stops at line {error.lineno}): upload it again"
    return f"{name} is broken JSON at line {error.lineno}, column {error.colno} ({error.msg}): save it from JupyterLab again"


def _python(text: str) -> bool:
    """Whether a text is a program: it parses, and not merely because a word is an expression."""
    try:
        body = ast.parse(text[:MAX_SOURCE]).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return any(not isinstance(node, ast.Expr) or isinstance(node.value, ast.Call) for node in body)


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
    data, odd_words = _load(text, name, size)
    if not isinstance(data, dict):
        kind = {list: "a list", str: "a text", type(None): "null"}.get(type(data), "a number")
        raise Unreadable(f"{name} is JSON, but {kind}, not a notebook")
    if _depth(data) > MAX_DEPTH:
        raise Unreadable(f"{name} is nested too deeply (limit {MAX_DEPTH})")
    notices = list(odd_words)
    metadata = data.get("metadata")
    if not isinstance(metadata, dict):
        notices.append("the notebook has no metadata; taken as empty")
        metadata = {}
    _python_only(metadata, name)
    version = data.get("nbformat")
    raw = data.get("cells")
    if isinstance(data.get("worksheets"), list):
        if isinstance(raw, list) and raw:
            # Which of the two is shown depends on the program that opens it.
            raise Unreadable(f"{name} holds both cells and worksheets: save it from JupyterLab again", refused=True)
        sheets = [sheet for sheet in data["worksheets"] if isinstance(sheet, dict)]
        raw = [cell for sheet in sheets for cell in _list(sheet.get("cells"))]
        notices.append(f"converted from nbformat {str(version)[:20]}")
    elif version != 4 or isinstance(version, bool):
        notices.append(f"nbformat {str(version)[:20]} is not known; read as 4")
    if not isinstance(raw, list):
        raise Unreadable(f"{name} is JSON, but not a notebook: it has no cells")
    if len(raw) > MAX_CELLS:
        raise Unreadable(f"{name} has {len(raw)} cells; the limit is {MAX_CELLS}", refused=True)
    cells = tuple(_cell(node, position) for position, node in enumerate(raw, 1))
    if odd := [cell.position for cell in cells if cell.kind not in {"code", "markdown"}]:
        notices.append(f"cells that are neither code nor Markdown are not run: {_some(odd)}")
    for position, node in enumerate(raw, 1):
        if isinstance(node, dict) and "source" in node and "input" in node and node["source"] != node["input"]:
            raise Unreadable(f"{name}, cell {position}: it holds two sources: save it from JupyterLab again", refused=True)
    if cut := [position for position, node in enumerate(raw, 1) if isinstance(node, dict) and not _all_text(node)]:
        notices.append(f"what is not text in the source of cells was left out: {_some(cut)}")
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
    return [f"cells {_some(places, ' and ')} have the same id" for places in seen.values() if len(places) > 1][:20]


def _all_text(node: dict[str, Any]) -> bool:
    source = node.get("source", node.get("input", ""))
    return isinstance(source, str) or (isinstance(source, list) and all(isinstance(part, str) for part in source))


def _some(positions: list[int], between: str = ", ") -> str:
    """Positions as a notice lists them; not all, where there are very many."""
    more = f"{between}{len(positions) - 20} more" if len(positions) > 20 else ""
    return between.join(map(str, positions[:20])) + more


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
    if len(text) > MAX_SCRIPT:
        raise Unreadable(f"the script has {len(text)} characters; the limit is {MAX_SCRIPT}", refused=True)
    starts = sum(1 for _ in re.finditer(r"^#[^\S\n]*%%", text, re.MULTILINE))
    if starts > MAX_CELLS:  # before they are taken apart, which takes more than a millisecond each
        raise Unreadable(f"{starts} cells; the limit is {MAX_CELLS}", refused=True)
    if not starts:
        told = "" if re.search(r"^#\s*cell:", text, re.MULTILINE) else "the script has no cell markers; it is run as one cell"
        return (SubmittedCell(1, "code", text, ()),), _claimed(text), (told,) if told else ()
    try:
        notebook = jupytext.reads(text, fmt={"extension": ".py", "format_name": "percent", "comment_magics": False})
    except Exception as error:  # whatever jupytext makes of a header that says nonsense
        raise Unreadable(f"the script's cells cannot be read ({error}): mend or delete the comments above the first cell") from None
    cells = tuple(
        _cell({"cell_type": node.cell_type, "source": node.source, "metadata": dict(node.metadata)}, position)
        for position, node in enumerate(notebook.cells, 1)
    )
    return cells, _claimed(text), ()


def _claimed(text: str) -> str:
    lesson = re.search(r"^#?[^\S\n]*(?:lesson|project):[^\S\n]*([a-z0-9-]{1,100})[^\S\n]*$", text, re.MULTILINE)
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
