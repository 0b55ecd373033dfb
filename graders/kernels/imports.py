"""Which modules a program will need: those that it names, and those that were loaded when it was run before."""

from __future__ import annotations

import ast
import hashlib
import os
import re
import sys
from collections.abc import Iterable, Sequence
from contextlib import suppress
from importlib.machinery import PathFinder
from pathlib import Path

LOADED = "' '.join(sorted(__import__('sys').modules))"  # an expression; its value in a kernel is what to remember
_NAME = re.compile(r"[A-Za-z_]\w*(\.\w+)*", re.ASCII)
_OURS = ("__main__", "graders", "graders_probe")
_MOST = 100_000  # bytes of one message to the process that imports them, less what else is in it


def imported(sources: Iterable[str]) -> tuple[str, ...]:
    """The modules that programs import, found by reading them. Nothing is imported, and what cannot be read gives none."""
    found: set[str] = set()
    for source in sources:
        with suppress(SyntaxError, ValueError, RecursionError, MemoryError):
            for node in ast.walk(ast.parse(source)):
                if isinstance(node, ast.Import):
                    found |= {one.name for one in node.names}
                elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                    found |= {node.module, *(f"{node.module}.{one.name}" for one in node.names)}
    return tuple(sorted(filter(_exists, found)))


def _exists(name: str) -> bool:
    """Whether there is a module of this name. The package that holds it is not imported for that."""
    parts = name.split(".")
    if len(parts) == 1 and name in sys.builtin_module_names:
        return True
    path: Sequence[str] | None = None
    for number in range(1, len(parts) + 1):
        spec = PathFinder.find_spec(".".join(parts[:number]), path)
        if spec is None:
            return False
        path = spec.submodule_search_locations or ()
    return True


def needed(sources: Sequence[str], cache: Path) -> tuple[str, ...]:
    """What programs import, and what was remembered of a run of exactly these."""
    named = imported(sources)
    try:
        known = _file(sources, cache).read_text(encoding="ascii").split()
    except (OSError, ValueError):
        known = []
    return (*named, *(one for one in known if one not in set(named)))


def remember(sources: Sequence[str], cache: Path, loaded: str) -> None:
    """Keep what a run of these programs had loaded at its end. Only a lesson's own code is to be believed.

    Args:
        sources: the programs.
        cache: a folder of ours.
        loaded: the value of :data:`LOADED` then.
    """
    names: list[str] = []
    size = 0
    for name in loaded.split():
        size += len(name) + 4
        if _NAME.fullmatch(name) and name.split(".")[0] not in _OURS and size < _MOST:
            names.append(name)
    file = _file(sources, cache)
    file.parent.mkdir(parents=True, exist_ok=True)
    beside = file.with_suffix(f".{os.getpid()}")
    beside.write_text("\n".join(names), encoding="ascii")
    beside.replace(file)


def _file(sources: Sequence[str], cache: Path) -> Path:
    digest = hashlib.sha256("\0".join((sys.version, *sources)).encode("utf-8", "surrogatepass")).hexdigest()
    return cache / "modules" / f"{digest[:32]}.txt"
