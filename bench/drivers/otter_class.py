"""Grade notebooks with otter-grader's Python API: ``otter_class.py AUTOGRADER OUT NOTEBOOK...``; a line ``name total possible`` each in OUT."""

import sys
from pathlib import Path

from otter.api import grade_submission

with Path(sys.argv[2]).open("w", encoding="utf-8") as out:
    for name in sys.argv[3:]:
        results = grade_submission(name, sys.argv[1], quiet=True)
        out.write(f"{Path(name).stem} {results.total} {results.possible}\n")
