"""The floor: import the libraries once, then fork a child for each notebook, which runs its cells with plain ``exec``.

``floor.py FOLDER --modules numpy,jax --jobs 2 [--out FOLDER]``. With ``--out`` the executed notebooks are written there,
with what each cell printed. A measuring stick and no grader: no kernel, no limits, nothing is observed.

It imports nothing of the course and needs the standard library only. The parent never starts a JAX backend: a child
that was forked from a started one would hang.
"""

import argparse
import contextlib
import gc
import importlib
import io
import json
import os
import sys
import traceback
from pathlib import Path


def warm_up(modules: list[str]) -> None:
    """Import, and let matplotlib draw once: what it makes for its first figure is then there for every child."""
    for name in modules:
        importlib.import_module(name)
    if "matplotlib.pyplot" in modules:
        from matplotlib import pyplot  # noqa: PLC0415 - only where the notebooks use it

        figure, axes = pyplot.subplots(figsize=(4, 3))
        axes.plot([1, 2])
        axes.set_xlabel("x")
        axes.set_yscale("log")
        figure.savefig(io.BytesIO(), format="png", bbox_inches="tight")
        pyplot.close(figure)
    gc.collect()
    gc.freeze()


def run(file: Path, out: Path | None) -> None:
    """Run the cells of a notebook in one namespace.

    Raises:
        BaseException: what a cell raises.
    """
    notebook = json.loads(file.read_text(encoding="utf-8"))
    names: dict[str, object] = {"__name__": "__main__"}
    codes = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    for number, cell in enumerate(codes, 1):
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile("".join(cell["source"]), f"<cell {number}>", "exec"), names)  # noqa: S102 - that is its task
        cell["execution_count"] = number
        cell["outputs"] = [{"output_type": "stream", "name": "stdout", "text": printed.getvalue()}] if printed.getvalue() else []
    if out is not None:
        (out / file.name).write_text(json.dumps(notebook, indent=1), encoding="utf-8")


def child(file: Path, out: Path | None) -> None:
    """Run a notebook and end the process, with status 1 if a cell raised."""
    status = 1
    try:
        os.setsid()
        os.chdir(file.parent)
        run(file, out)
        status = 0
    except BaseException:  # whatever ends it: a forked process must not go on as its parent's program
        print(f"{file.name}:", traceback.format_exc(), file=sys.stderr, flush=True)
    os._exit(status)


def main() -> int:
    """Run a folder of notebooks; 1 if one of them failed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--modules", default="")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    os.environ.setdefault("MPLBACKEND", "agg")
    warm_up([one for one in given.modules.split(",") if one])
    waiting, running, failed = sorted(given.folder.resolve().glob("*.ipynb")), 0, 0
    out = given.out.resolve() if given.out else None
    while waiting or running:
        if waiting and running < given.jobs:
            file = waiting.pop(0)
            if os.fork() == 0:
                child(file, out)
            running += 1
            continue
        _, status = os.wait()
        running -= 1
        failed += bool(status)
    if failed:
        print(f"{failed} notebooks failed", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
