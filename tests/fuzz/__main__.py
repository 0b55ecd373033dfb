"""`python -m tests.fuzz SECONDS`: the property tests of the whole project again and again, with other examples each time.

hypothesis makes the examples: it knows the structure of a notebook and of a value, shrinks what fails, and keeps it in
`.hypothesis/`, from where every later test run tries it first. A fuzzer that is led by coverage of the byte code (atheris)
has no wheels for all the systems and versions of Python on which the course runs, so it is not used.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PROFILE = "TRAINING_SYSTEMS_EXAMPLES"
"""The variable that chooses how many examples tests are run with; tests/conftest.py reads it."""


def rounds(seconds: float, run: Callable[[int], int], clock: Callable[[], float] = time.monotonic) -> tuple[int, int]:
    """Run rounds until another one would not fit into the time, or one has failed. There is always a first.

    Args:
        seconds: for all of them.
        run: one round, by its number from 1; gives an exit code.
        clock: seconds.

    Returns:
        How many rounds were run, and the exit code of the last.
    """
    began, longest, number = clock(), 0.0, 0
    while number == 0 or clock() - began + longest <= seconds:
        number += 1
        before = clock()
        if code := run(number):
            return number, code
        longest = max(longest, clock() - before)
    return number, 0


def main() -> int:
    """Read the command line and fuzz."""
    parser = argparse.ArgumentParser(prog="tests.fuzz", description=__doc__.split("\n\n")[0])
    parser.add_argument("seconds", nargs="?", type=float, default=600.0, help="how long; 600 if absent")
    given, words = parser.parse_known_args()
    command = [sys.executable, "-m", "pytest", "-p", "tests.fuzz.only", "-m", "", "-x", *words]
    environment = {**os.environ, PROFILE: "fuzz"}

    def one(number: int) -> int:
        print(f"round {number}", flush=True)
        return subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode

    number, code = rounds(given.seconds, one)
    said = (
        "no failure"
        if code == 0
        else "failed, as said above; a failing example is kept in .hypothesis/, and `make test` tries it first"
    )
    print(f"{number} round{'s' if number > 1 else ''}: {said}")
    return code


if __name__ == "__main__":
    raise SystemExit(main())
