"""Compare a run of the reference of a lesson or project with its receipt, and prove that each named mistake is told apart."""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from course.catalogue import Unit, survey
from course.comparison import compare
from course.errors import CourseError
from course.lines import compare_lines
from course.receipt import Line, Receipt, Run, read
from course.schema import Comparator
from course.values import Value
from graders.judge import Judged, judge
from graders.kernels.cold import KernelFailed
from graders.measure import Measured, Say, measure
from graders.program import parameters_text, reference
from graders.run import Trace
from graders.verdict import Verdict


@dataclass(frozen=True)
class Outcome:
    """What came of verifying one lesson or project.

    Attributes:
        lesson: its id.
        counts: what was compared, as text.
        problems: what differs, a line each.
        faults: why it could not be run, a line each.
    """

    lesson: str
    counts: str = ""
    problems: tuple[str, ...] = ()
    faults: tuple[str, ...] = ()


def verify_by_id(root: Path, unit_id: str) -> Outcome:
    """Verify one lesson or project, named by what another process can be told. Says on stderr what it is doing."""
    try:
        unit = survey(root).unit(unit_id)
        receipt = read(unit)
        problems = verify(unit, receipt, root / ".cache", lambda text: print(text, file=sys.stderr, flush=True))
    except CourseError as error:
        return Outcome(unit_id, faults=tuple(str(problem) for problem in error.problems))
    except KernelFailed as error:
        return Outcome(unit_id, faults=(str(error),))
    mistakes = sum(len(exercise.mistakes) for exercise in unit.meta.exercises)
    return Outcome(unit_id, f"{len(receipt.lines)} lines, {len(receipt.runs)} runs, {mistakes} mistakes", tuple(problems))


def unproven(unit: Unit, measured: Measured) -> Iterator[str]:
    """The half of the two-way proof that concerns mistakes: what is wrong with them, a line each.

    A mistake must be judged FAIL, and be told its own advice and no other's.
    """
    for exercise in unit.meta.exercises:
        recorded = measured.mistakes.get(exercise.id, {})
        for mistake in exercise.mistakes:
            program = reference(unit, exercise.id, mistake.code)
            expected = {
                parameters_text(run.parameters): run.exercises[exercise.id] for run in measured.runs if exercise.id in run.exercises
            }
            runs = [Judged(trace, expected[trace.plan.name]) for trace in measured.traces[exercise.id][mistake.id]]
            result = judge(exercise, program, runs, recorded)
            name = f"{unit.id}/{exercise.id}: the mistake {mistake.id}"
            if result.verdict is Verdict.PASS:
                yield f"{name} passes: no probe tells it from the reference"
            elif result.verdict is not Verdict.FAIL:
                yield f"{name} is judged {result.verdict}, not FAIL: {result.message}"
            elif result.mistake != mistake.id:
                yield f"{name} is taken for {result.mistake or 'no named mistake'}: {result.message}"


def lines_differ(unit: Unit, recorded: tuple[Line, ...], got: tuple[str, ...], how: str) -> Iterator[str]:
    """How printed lines differ from the recorded ones, a text each."""
    if len(recorded) != len(got):
        yield f"{unit.id} {how}: expected {len(recorded)} printed lines, got {len(got)}"
    for line, text in zip(recorded, got, strict=False):
        rule = unit.meta.line_rule(line.cell, line.text)
        if rule.name == "ignored":
            # The number is a local observation, but the words before it are not.
            head = _ignored_head(unit, line.text)
            if not text.startswith(head):
                yield f"{unit.id} {how}, cell {line.cell}: expected a line that begins with {head!r}, got {text!r}"
        elif difference := compare_lines(line.text, text, rule):
            yield f"{unit.id} {how}, cell {line.cell}: {difference.text}"


def _ignored_head(unit: Unit, text: str) -> str:
    heads = [output.line.split("*")[0] for output in unit.meta.outputs if output.compare.name == "ignored"]
    return next((head for head in heads if text.startswith(head)), "")


def verify(unit: Unit, receipt: Receipt, cache: Path, say: Say) -> list[str]:
    """Run the reference again, as a script and as a notebook, and compare every line and observation with its receipt.

    Returns:
        What differs, a line each; empty if everything agrees.

    Raises:
        CourseError: if the reference does not run.
    """
    measured = measure(unit, cache, say)
    problems = list(lines_differ(unit, receipt.lines, measured.script, "as a script"))
    printed = tuple(text for cell in measured.base.cells for text in cell.stdout.splitlines())
    problems += lines_differ(unit, receipt.lines, printed, "as a notebook")
    for fact in unit.meta.facts:
        problems += _value_differs(
            f"{unit.id}: fact {fact.id}", receipt.facts.get(fact.id), measured.base.facts[fact.id], fact.compare
        )
    problems += _runs_differ(unit, receipt.runs, measured.runs, unit.id)
    for exercise in unit.meta.exercises:
        for mistake in exercise.mistakes:
            recorded = receipt.mistakes.get(exercise.id, {}).get(mistake.id, ())
            again = measured.mistakes[exercise.id][mistake.id]
            where = f"{unit.id}: mistake {exercise.id}/{mistake.id}"
            problems += _runs_differ(unit, _whole(recorded, receipt.runs), _whole(again, measured.runs), where, loose=True)
    problems += unproven(unit, measured)
    problems += _figures_differ(unit, receipt, measured.base)
    return problems


def _value_differs(where: str, recorded: Value | None, got: Value, rule: Comparator) -> list[str]:
    if recorded is None:
        return [f"{where}: not in the receipt"]
    difference = compare(recorded, got, rule)
    return [f"{where}: {difference.text}"] if difference else []


def _whole(runs: tuple[Run, ...], reference: tuple[Run, ...]) -> tuple[Run, ...]:
    """Runs of a mistake with what they share with the reference, which receipts leave out."""
    known = {parameters_text(run.parameters): run.exercises for run in reference}
    return tuple(
        Run(
            parameters=run.parameters,
            exercises={name: {**known[parameters_text(run.parameters)][name], **seen} for name, seen in run.exercises.items()},
        )
        for run in runs
        if parameters_text(run.parameters) in known
    )


def _runs_differ(unit: Unit, recorded: tuple[Run, ...], again: tuple[Run, ...], where: str, *, loose: bool = False) -> list[str]:
    problems: list[str] = []
    if [run.parameters for run in recorded] != [run.parameters for run in again]:
        return [f"{where}: other runs than in the receipt"]
    for old, new in zip(recorded, again, strict=True):
        for name, seen in new.exercises.items():
            for probe, rule in unit.exercise(name).probes.items():
                # A wrong value may be far from anything that `at_most` or `raises` can say.
                used = Comparator(name="close") if loose and rule.name in {"at_most", "raises", "same_order"} else rule
                before = old.exercises.get(name, {}).get(probe)
                problems += _value_differs(f"{where}, {parameters_text(new.parameters)}: {name} {probe}", before, seen[probe], used)
    return problems


def _figures_differ(unit: Unit, receipt: Receipt, base: Trace) -> list[str]:
    """Figures are compared by what was plotted; renderings differ with fonts and versions."""
    problems: list[str] = []
    if set(receipt.figures) != set(base.figures):
        return [f"{unit.id}: figures of the cells {sorted(base.figures)}, the receipt has {sorted(receipt.figures)}"]
    for cell, files in base.figures.items():
        path = unit.folder / "figures" / f"{cell}.json"
        for suffix in ("json", "svg", "png"):
            one = path.with_suffix(f".{suffix}")
            digest = getattr(receipt.figures[cell], "data" if suffix == "json" else suffix)
            if not one.is_file() or hashlib.sha256(one.read_bytes()).hexdigest() != digest:
                problems.append(f"{unit.shown(one)}: not the file that the receipt names; run `make record {unit.make}`")
        if path.is_file() and not _plots_agree(json.loads(path.read_text(encoding="utf-8"))["figures"], files.data):
            problems.append(f"{unit.id}: the figure of cell {cell} plots other data than was recorded")
    return problems


def _plots_agree(old: Any, new: Any) -> bool:
    if isinstance(old, dict) and isinstance(new, dict):
        return old.keys() == new.keys() and all(_plots_agree(old[key], new[key]) for key in old)
    if isinstance(old, list) and isinstance(new, list):
        return len(old) == len(new) and all(_plots_agree(a, b) for a, b in zip(old, new, strict=True))
    if isinstance(old, int | float) and isinstance(new, int | float):
        return abs(new - old) <= 1e-9 + 1e-5 * abs(old)
    return bool(old == new)
