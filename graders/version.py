"""Which grader this is, and where it runs, as digests: results of another one are not taken for its own."""

from __future__ import annotations

import functools
import hashlib
from pathlib import Path

from course.receipt import Environment


@functools.cache
def grader_digest() -> str:
    """SHA-256 of all sources of `graders` and `course`, with their names."""
    root = Path(__file__).resolve().parents[1]
    found = hashlib.sha256()
    for path in sorted([*(root / "graders").rglob("*.py"), *(root / "course").rglob("*.py")]):
        # Line ends are those of the checkout; the program is the same.
        source = path.read_bytes().replace(b"\r\n", b"\n")
        found.update(f"{path.relative_to(root).as_posix()} {len(source)}\n".encode())
        found.update(source)
    return found.hexdigest()


def environment_digest(root: Path, place: Environment) -> str:
    """What stands for the environment in the store: the interpreter, and the locked versions of all packages."""
    lock = root / "requirements-cpu.txt"
    locked = lock.read_bytes() if lock.is_file() else b""
    return hashlib.sha256(place.model_dump_json().encode() + locked).hexdigest()
