"""Run the reference of a lesson or project completely: as a script, as a notebook, under its variants, with its named mistakes."""

from __future__ import annotations

import asyncio
import importlib.metadata
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from course.catalogue import Unit
from course.comparison import compare
from course.errors import CourseError
from course.receipt import Environment, Run
from course.schema import Limits, Parameters, Task
from course.values import Value
from graders.kernels.sandbox import scratch
from graders.kernels.warm import How
from graders.program import Program, parameters_text, reference
from graders.run import Plan, Trace, run, run_all

Say = Callable[[str], None]
SCRIPT_SECONDS = 300
# The reference is trusted; these only keep a broken one from running for ever.
_PATIENCE = {"cell_seconds": 300.0, "total_seconds": 1800.0}


@dataclass(frozen=True)
class Measured:
    """One complete run of a reference: as a script, as a notebook, under its variants, with its mistakes."""

    script: tuple[str, ...]
    base: Trace
    runs: tuple[Run, ...]
    mistakes: dict[str, dict[str, tuple[Run, ...]]]
    traces: dict[str, dict[str, tuple[Trace, ...]]]


def environment(packages: tuple[str, ...], *, devices: bool = True) -> Environment:
    """This environment, with the versions of those distributions.

    Args:
        packages: names of distributions.
        devices: whether to ask JAX, in a process of its own, which devices it finds.

    Raises:
        CourseError: if one of them is not installed.
    """
    try:
        versions = {name: importlib.metadata.version(name) for name in packages}
    except importlib.metadata.PackageNotFoundError as error:
        raise CourseError.at(
            "packages", "", f"{error.name} is not installed here", "mend its name, or add it to pyproject.toml"
        ) from None
    found: tuple[str, ...] = ()
    if devices and "jax" in packages:
        # In a process of its own: the grader's must never start a JAX backend.
        code = "import jax; print(*(d.device_kind + ' ' + str(d) for d in jax.devices()), sep='\\n')"
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=False, env={**os.environ, "JAX_PLATFORMS": "cpu"}
        )
        found = tuple(line for line in done.stdout.splitlines() if line)
    return Environment(
        python=platform.python_version(), implementation=platform.python_implementation(), platform=platform.system(),
        machine=platform.machine(), packages=versions, devices=found,
    )  # fmt: skip


def exercise_plans(exercises: tuple[Task, ...], grading: Parameters | None = None) -> list[Plan]:
    """The base run and every distinct variant, each with the probes of the exercises that ask for it.

    Args:
        exercises: the exercises.
        grading: parameters that a grading run changes in its base run, too.
    """
    base = Plan(grading or {}, {one.id: tuple(one.probes) for one in exercises}, recorded={})
    variants: list[tuple[Parameters, dict[str, tuple[str, ...]]]] = []
    for one in exercises:
        for parameters in one.variants:
            probes = next((found for known, found in variants if known == parameters), None)
            if probes is None:
                probes = {}
                variants.append((parameters, probes))
            probes[one.id] = tuple(one.probes)
    # What a grading run changes everywhere is no news in the name of a variant.
    told = [{name: value for name, value in one.items() if name not in (grading or {})} for one, _ in variants]
    return [
        base,
        *(Plan(one, probes, name=parameters_text(name)) for (one, probes), name in zip(variants, told, strict=True)),
    ]


def run_script(unit: Unit, cache: Path) -> tuple[str, ...]:
    """Run the script of a lesson or project in a clean environment and return the lines it printed.

    Raises:
        CourseError: if it fails, or does not end.
    """
    shown = unit.shown(unit.script)
    with scratch(cache) as folder:
        script = unit.script
        for name, text in unit.beside.items():
            # A module is imported from the folder of the script.
            (folder.work / name).write_text(text, encoding="utf-8", newline="")
            script = folder.work / unit.script.name
        if script != unit.script:
            shutil.copy(unit.script, script)
        try:
            done = subprocess.run(
                [sys.executable, str(script)],
                cwd=folder.work,
                env=folder.environment(),
                capture_output=True,
                timeout=SCRIPT_SECONDS,
                check=False,
                stdin=subprocess.DEVNULL,
            )
        except subprocess.TimeoutExpired:
            raise CourseError.at(shown, "", f"the script ran longer than {SCRIPT_SECONDS} s", "make it faster") from None
    output = done.stdout.decode("utf-8", "backslashreplace")
    if done.returncode:
        last = done.stderr.decode("utf-8", "backslashreplace").strip().splitlines()[-1:]
        raise CourseError.at(shown, "", f"the script ended with status {done.returncode}: {' '.join(last)}", "mend the script")
    return tuple(output.splitlines())


def measure(unit: Unit, cache: Path, say: Say) -> Measured:
    """Run everything that a receipt holds.

    Raises:
        CourseError: if the reference fails anywhere: a script or cell that raises, a probe that raises unasked.
    """
    say(f"{unit.id}: as a script")
    script = run_script(unit, cache)
    say(f"{unit.id}: as a notebook, with its variants")
    base, *variants = exercise_plans(unit.meta.exercises)
    facts: dict[str, dict[str, str]] = {}
    for fact in unit.meta.facts:
        facts.setdefault(fact.cell, {})[fact.id] = fact.expression
    first = Plan(base.parameters, base.probes, facts, base.name, figures=True)
    short = [Plan(unit.meta.grading, base.probes, name=f"base with {parameters_text(unit.meta.grading)}", recorded={})]
    plans = [first, *variants, *(short if unit.meta.grading else ())]
    program = reference(unit)
    # In an ordinary kernel: what is recorded stands for what anybody sees.
    traces = asyncio.run(run(program, plans, _limits(unit), cache, how=How.COLD))
    for trace in traces:
        _sound(unit, program, trace)
    if len(traces) != len(plans):
        raise CourseError.at(unit.shown(unit.script), "", f"the kernel was lost after {traces[-1].plan.name}", "mend the script")
    for fact in unit.meta.facts:
        value = traces[0].facts.get(fact.id)
        if value is None or (value.kind == "raised" and fact.compare.name != "raises"):
            what = f"fact {fact.id} gave {value.type}: {value.message}" if value else f"fact {fact.id} gave no answer"
            raise CourseError.at(unit.file, "fact", what, "mend its expression")
    say(f"{unit.id}: the named mistakes")
    traced = _run_mistakes(unit, cache)
    if unit.meta.grading:
        _same_without_drills(unit, traces[0], traces.pop())
    runs = tuple(_as_run(trace) for trace in traces)
    mistakes = {
        exercise: {name: tuple(departures(unit, _as_run(trace), runs) for trace in seen) for name, seen in found.items()}
        for exercise, found in traced.items()
    }
    return Measured(script, traces[0], runs, mistakes, traced)


def _limits(unit: Unit) -> Limits:
    """Time enough, and of everything else what a submission has: a reference that needs more could not be handed in."""
    return unit.meta.limits.model_copy(update=_PATIENCE)


def _same_without_drills(unit: Unit, base: Trace, short: Trace) -> None:
    """Refuse grading parameters on which an exercise does depend."""
    for exercise in unit.meta.exercises:
        for probe, comparator in exercise.probes.items():
            difference = compare(base.observations[exercise.id][probe], short.observations[exercise.id][probe], comparator)
            if difference:
                what = f"they change what the exercise {exercise.id} gives: {probe}: {difference.text}"
                raise CourseError.at(unit.file, "grading", what, "take the parameter out of `grading`")


def _run_mistakes(unit: Unit, cache: Path) -> dict[str, dict[str, tuple[Trace, ...]]]:
    """Exercise, then mistake: the base run and the exercise's variants, all in one kernel."""
    names: list[tuple[str, str]] = []
    jobs: list[tuple[Program, Plan]] = []
    for exercise in unit.meta.exercises:
        for mistake in exercise.mistakes:
            program = reference(unit, exercise.id, mistake.code)
            for plan in exercise_plans((exercise,)):
                names.append((exercise.id, mistake.id))
                jobs.append((program, plan))
    traces = asyncio.run(run_all(jobs, _limits(unit), cache, how=How.COLD)) if jobs else []
    if len(traces) != len(jobs):
        exercise_id, name = names[next((number for number, trace in enumerate(traces) if trace.lost), len(traces) - 1)]
        what = f"the kernel was lost in the mistake {name}"
        raise CourseError.at(unit.file, f"exercise {exercise_id}", what, "mend its code")
    found: dict[str, dict[str, tuple[Trace, ...]]] = {}
    for (exercise_id, name), trace in zip(names, traces, strict=True):
        mine = found.setdefault(exercise_id, {})
        mine[name] = (*mine.get(name, ()), trace)
    return found


def _as_run(trace: Trace) -> Run:
    return Run(parameters=trace.plan.key, exercises={name: dict(seen) for name, seen in trace.observations.items()})


def departures(unit: Unit, run: Run, reference: tuple[Run, ...]) -> Run:
    """Where a run with a mistake does not agree with the reference; the rest would be in the receipt once for each mistake."""
    same = next(one for one in reference if one.parameters == run.parameters)
    kept: dict[str, dict[str, Value]] = {}
    for name, seen in run.exercises.items():
        rules, expected = unit.exercise(name).probes, same.exercises[name]
        kept[name] = {probe: value for probe, value in seen.items() if compare(expected[probe], value, rules[probe])}
    return Run(parameters=run.parameters, exercises=kept)


def _sound(unit: Unit, program: Program, trace: Trace) -> None:
    """Refuse a reference that does not run through, or whose probes raise without being expected to."""
    file = unit.shown(unit.script)
    for cell in trace.cells:
        if cell.status != "ok":
            what = f"with {trace.plan.name} it ended with {cell.status} {cell.error}".rstrip()
            raise CourseError.at(file, f"cell {program.steps[cell.step].id}", what, "mend the script")
    for exercise in unit.meta.exercises:
        if exercise.id not in trace.plan.probes:
            continue
        seen = trace.observations.get(exercise.id)
        if seen is None:
            what = f"with {trace.plan.name} its probes gave no answer in time, or ended the kernel"
            raise CourseError.at(unit.file, f"exercise {exercise.id}", what, "mend the probes or the script")
        for probe, comparator in exercise.probes.items():
            value = seen[probe]
            if (value.kind == "raised") != (comparator.name == "raises"):
                what = f"with {trace.plan.name} the probe {probe!r} ({comparator}) gave {value.kind} {value.type or ''} {value.message or ''}".rstrip()
                raise CourseError.at(
                    unit.file,
                    f"exercise {exercise.id}",
                    what,
                    "mend the probe or its comparator",
                )
            if value.kind in {"object", "oversize"}:
                what = f"with {trace.plan.name} the probe {probe!r} gave {value.kind} {value.type or ''}, which is not data"
                raise CourseError.at(unit.file, f"exercise {exercise.id}", what, "probe something that is data")
