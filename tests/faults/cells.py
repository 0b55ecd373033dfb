"""The parts of which the faulty submissions are made: right and wrong answers, and notebooks around them."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

SETUP = "import numpy as np\nlabels = [[3, 1, 2], [5], [4, 4]]"
PAD = """\
width = max(len(row) for row in labels)
padded_labels = np.full((len(labels), width), -1)
for i, row in enumerate(labels):
    padded_labels[i, :len(row)] = row
mask = padded_labels != -1
last = padded_labels[np.arange(len(labels)), mask.sum(axis=1) - 1]"""
MEAN = """\
masked = np.where(mask, padded_labels, 0)

def masked_mean(x, m):
    return float((x * m).sum() / m.sum())"""
WRONG_PAD = PAD.replace("mask.sum(axis=1) - 1]", "-1]")
WRONG_MEAN = "masked = padded_labels\n\ndef masked_mean(x, m):\n    return float(x.mean())"
SCRIPT = f"{SETUP}\n\n{PAD}\n\n{MEAN}\n"

Node = dict[str, Any]


def code(source: str, name: str | None = None, *, tags: tuple[str, ...] = (), **more: Any) -> Node:
    """A code cell; ``name`` becomes its id, and for an exercise its tag."""
    metadata: Node = {"tags": [*([f"ex:{name}"] if name in {"pad", "mean", "run"} else []), *tags]}
    made = {"cell_type": "code", "execution_count": None, "metadata": metadata, "outputs": [], "source": source}
    return {**made, **({"id": name} if name else {}), **more}


def notebook(
    *, pad: str | None = PAD, mean: str | None = MEAN, before: str = "", after: str = "", run: str = "", **top: Any
) -> Node:
    """A notebook with both answers right, unless said otherwise. ``before`` and ``after`` are cells of the learner's own."""
    cells = [code(SETUP, "setup")]
    cells += [code(before, "before")] if before else []
    cells += [code(pad, "pad")] if pad is not None else []
    cells += [code(mean, "mean")] if mean is not None else []
    cells += [code(run, "run")] if run else []
    cells += [code(after, "after")] if after else []
    spec = {"display_name": "Python 3", "language": "python", "name": "python3"}
    metadata = {"kernelspec": spec, "language_info": {"name": "python"}}
    return {"cells": cells, "metadata": metadata, "nbformat": 4, "nbformat_minor": 5, **top}


def text(made: Node) -> str:
    """A notebook as its file's text."""
    return json.dumps(made, indent=1)


class Folder:
    """A class folder under construction."""

    def __init__(self, root: Path, lesson: str = "ragged-01") -> None:
        self.root, self.lesson = root, lesson

    def put(self, learner: str, made: Node | str | bytes, name: str = "") -> Path:
        """Hand in one file: a notebook, text or bytes. The name of a file is the lesson's unless given."""
        path = self.root / learner / (name or f"{self.lesson}.ipynb")
        path.parent.mkdir(parents=True, exist_ok=True)
        data = text(made) if isinstance(made, dict) else made
        path.write_bytes(data.encode() if isinstance(data, str) else data)
        return path

    def script(self, learner: str, made: str | bytes) -> Path:
        """Hand in a script."""
        return self.put(learner, made, f"{self.lesson}.py")

    def zip(self, name: str, members: dict[str, Node | str | bytes]) -> Path:
        """Hand in an archive."""
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            for member, made in members.items():
                archive.writestr(member, text(made) if isinstance(made, dict) else made)
        return path
