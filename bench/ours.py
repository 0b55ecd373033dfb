"""Execution only, with this grader's kernels: every cell of every notebook in a kernel of its own, isolated as a submission is.

``python -m bench.ours LESSON OUT NOTEBOOK...`` in the folder of a course. What the lesson's reference imports is known ahead, as when a
submission to it is graded; no probe is taken and nothing is judged. OUT is a JSON file: notebook to what its cells printed.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from functools import partial
from pathlib import Path

from course.catalogue import find_root, survey
from graders.ahead import Ahead
from graders.kernels import imports, warm
from graders.kernels.warm import How
from graders.program import Program, Step, reference
from graders.run import Plan, opened, run


def program(file: Path) -> Program:
    """The code cells of a notebook, in their order."""
    cells = [cell for cell in json.loads(file.read_text(encoding="utf-8"))["cells"] if cell["cell_type"] == "code"]
    return Program(tuple(Step(f"own-{number}", "".join(cell["source"]), "own", number) for number, cell in enumerate(cells, 1)), {})


async def main(lesson: str, files: list[Path], how: How, jobs: int) -> dict[str, list[str]]:
    """Run all of them, some at a time.

    Raises:
        RuntimeError: if a cell fails.
    """
    root = find_root()
    unit, cache = survey(root).unit(lesson), root / ".cache"
    modules = imports.needed([step.source for step in reference(unit).steps], cache)
    if how is not How.COLD:
        warm.prepare(modules, cache)
    limits = unit.meta.limits
    ahead = Ahead(partial(opened, limits, cache, None, how, modules), lambda session: session.alive)
    places = asyncio.Semaphore(jobs)
    waiting = len(files)

    async def one(file: Path) -> list[str]:
        nonlocal waiting
        async with places:
            waiting -= 1
            ahead.prepare(min(jobs, waiting))
            (trace,) = await run(program(file), [Plan({}, {})], limits, cache, opener=ahead.one)
        for cell in trace.cells:
            if cell.status != "ok":
                raise RuntimeError(f"{file.name}: cell {cell.step + 1} ended with {cell.status} {cell.error}")
        return [cell.stdout for cell in trace.cells]

    printed = await asyncio.gather(*map(one, files))
    await ahead.close()
    return {file.stem: texts for file, texts in zip(files, printed, strict=True)}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("lesson")
    parser.add_argument("out", type=Path)
    parser.add_argument("notebooks", type=Path, nargs="+")
    parser.add_argument("--kernel", type=How, default=How.AUTO)
    parser.add_argument("--jobs", type=int, default=2)
    given = parser.parse_args()
    texts = asyncio.run(main(given.lesson, given.notebooks, given.kernel, given.jobs))
    given.out.write_text(json.dumps(texts), encoding="utf-8")
    sys.exit(0)
