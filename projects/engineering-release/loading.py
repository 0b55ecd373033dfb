"""Finds and loads the module that a learner writes, and says in one line what it raised.

Nothing but the standard library is imported here: the service loads the module, too, and needs no tracker for that.
"""

from __future__ import annotations

import importlib.util
import sys
import traceback
from pathlib import Path
from types import ModuleType

MODULE = "engineering.py"


def find(choice: str | None, here: Path) -> Path:
    """Which file is meant.

    Args:
        choice: ``starter`` or ``solution``, the path of a file, or None for the learner's own.
        here: the folder that holds this project.

    Returns:
        The learner's own is ``engineering.py`` in that folder where there is one (a check puts it there, and so does the
        Dockerfile), else ``starter/engineering.py``.

    Raises:
        FileNotFoundError: with a text that says where it was looked for.
    """
    if choice in {"starter", "solution"}:
        path = here / choice / MODULE
    elif choice is not None:
        path = Path(choice)
    else:
        path = here / MODULE if (here / MODULE).is_file() else here / "starter" / MODULE
    if not path.is_file():
        raise FileNotFoundError(f"there is no file {path}: name your module with --implementation")
    return path


def load(path: Path) -> ModuleType:
    """Run a file as the module ``engineering``, anew each time. Raises what the file raises."""
    spec = importlib.util.spec_from_file_location("engineering", path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    # Data classes look their module up by name while they are made.
    sys.modules["engineering"] = module
    spec.loader.exec_module(module)
    return module


def told(error: BaseException, path: Path) -> str:
    """What a module raised, where: ``read_curve: KeyError: 3 (engineering.py, line 88)``.

    Args:
        error: as it was caught.
        path: the module's file.
    """
    kind = type(error)
    said = f"{kind.__name__}: {error}".rstrip(": ")
    own = [frame for frame in traceback.extract_tb(error.__traceback__) if Path(frame.filename).name == path.name]
    if not own:
        return said
    return f"{own[-1].name}: {said} ({path.name}, line {own[-1].lineno})"
