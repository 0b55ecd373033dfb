"""Which grader this is: a digest of its own sources, so that results of another one are not taken for its own."""

from __future__ import annotations

import functools
import hashlib
from pathlib import Path


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
