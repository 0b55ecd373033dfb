"""Audits the recovery of a trainer: ``python projects/recovery-audit/audit.py --stage 1|2|3|4|all``.

A thin line to the course's grader, for those who think of this project in numbered stages. It needs no package: the
environment is made by `environment.py`, as for every other command of the course. Any Python that can run that file can run
this one, from any folder.

Exit code: that of the check. 0 every stage passes, 1 something to mend, 2 wrong arguments, 3 the grader's own fault.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
COURSE = HERE.parent.parent
PLACES = {"starter": HERE / "starter" / "model.py", "solution": HERE / "solution" / "model.py"}


def stages(text: str) -> list[str]:
    """The ids of the stages in `project.toml`, in their order.

    Read with a regular expression, because an old Python knows no TOML; a test compares it with a real reader.
    """
    return re.findall(r'^\[\[stage\]\]\s*\nid = "([^"]+)"', text, re.MULTILINE)


def command(arguments: list[str]) -> list[str]:
    """The command line of the check that is asked for. Exits with code 2 on wrong arguments."""
    ids = stages((HERE / "project.toml").read_text(encoding="utf-8"))
    numbers = [str(number) for number in range(1, len(ids) + 1)]
    listed = "; ".join(f"{number} {name}" for number, name in zip(numbers, ids))  # noqa: B905 - for Python 3.8
    parser = argparse.ArgumentParser(prog="audit.py", description="Put a module to the test of the recovery audit.")
    parser.add_argument(
        "--stage", choices=[*numbers, "all"], default="all", help=f"which stage to check: {listed}; all of them if absent"
    )
    parser.add_argument(
        "--implementation",
        default="starter",
        metavar="FILE",
        help="starter (yours; the default), solution (the reference), or the path of a module",
    )
    parser.add_argument("--evidence-dir", metavar="DIR", help="write the evidence of this check into a new folder")
    parser.add_argument("--seed", type=int, help="seed of the fresh parameters, to repeat a check")
    options = parser.parse_args(arguments)
    module = PLACES.get(options.implementation, Path(options.implementation)).resolve()
    if not module.is_file():
        parser.error(f"there is no module {module}")
    words = ["graders", "check", HERE.name, str(module)]
    if options.stage != "all":
        words += ["--only", ids[int(options.stage) - 1]]
    if options.evidence_dir:
        words += ["--evidence-dir", str(Path(options.evidence_dir).resolve())]
    if options.seed is not None:
        words += ["--seed", str(options.seed)]
    return [sys.executable, "-m", "environment", *words]


def main(arguments: list[str]) -> int:
    """Run the check in the course's folder, and pass its exit code on."""
    words = command(arguments)
    try:
        return subprocess.run(words, cwd=str(COURSE), check=False).returncode
    except KeyboardInterrupt:
        return 130  # the check has had the same signal, and has said so


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
