"""Import a library without the optional parts that it would bring along for others, where these cost more than the library."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

# jupytext's bridge to the Jupyter server; and a grammar for a kind of address that no notebook has to be checked for, which
# jsonschema builds for half a second. Both libraries do without, and say so.
NOTEBOOKS = ("rfc3987_syntax", "jupytext.sync_contentsmanager", "jupytext.async_contentsmanager")


@contextmanager
def without(*modules: str) -> Iterator[None]:
    """While this lasts, these modules are not found, unless they are imported already."""
    hidden = [name for name in modules if name not in sys.modules]
    # None is how Python notes that there is no such module.
    sys.modules.update(dict.fromkeys(hidden))  # type: ignore[arg-type]
    try:
        yield
    finally:
        for name in hidden:
            del sys.modules[name]
