"""The whole course as data: phases, their lessons with their cells, and every cross-reference checked."""

from __future__ import annotations

import ast
import hashlib
import json
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from course.errors import CourseError, Problem
from course.schema import CourseFile, Exercise, LessonFile, PhaseEntry, PhaseFile, QuizFile, read_toml
from course.script import Cell, Scaffold, read_script, scaffold


@dataclass(frozen=True)
class Lesson:
    """A lesson folder, read and checked.

    Attributes:
        folder: absolute path of the folder.
        root: absolute path of the course.
        meta: `lesson.toml`.
        quiz: `quiz.toml`.
        cells: the cells of `code/main.py`, in order.
        scaffolds: the learner's copy of each exercise cell, by exercise id.
    """

    folder: Path
    root: Path
    meta: LessonFile
    quiz: QuizFile
    cells: tuple[Cell, ...]
    scaffolds: dict[str, Scaffold]

    @property
    def id(self) -> str:
        """The lesson's id, for instance ``recovery-01``."""
        return self.meta.id

    @property
    def script(self) -> Path:
        """The reference script."""
        return self.folder / "code" / "main.py"

    @property
    def words(self) -> Path:
        """The lesson's words."""
        return self.folder / "lesson.md"

    @property
    def receipt(self) -> Path:
        """Where the receipt of this lesson is kept."""
        return self.folder / "receipt.json"

    def shown(self, path: Path) -> str:
        """A path as messages name it: relative to the course, with forward slashes."""
        return path.relative_to(self.root).as_posix() if path.is_relative_to(self.root) else str(path)

    def cell(self, cell_id: str) -> Cell:
        """The cell of that id. Raises KeyError."""
        for cell in self.cells:
            if cell.id == cell_id:
                return cell
        raise KeyError(cell_id)

    def exercise(self, exercise_id: str) -> Exercise:
        """The exercise of that id. Raises KeyError."""
        for exercise in self.meta.exercises:
            if exercise.id == exercise_id:
                return exercise
        raise KeyError(exercise_id)

    @cached_property
    def parameters(self) -> dict[str, object]:
        """The parameters that a run may be repeated with, and their own values. One that is no literal is None."""
        return {name: value for cell in self.cells if cell.role == "parameters" for name, value in _parameters(cell.source).items()}

    @cached_property
    def digest(self) -> str:
        """SHA-256 of what a run of this lesson depends on: its cells, and what is asked of and varied in the exercises.

        Words, hints and advice are left out, so that mending a sentence does not ask for a new receipt.
        """
        parts = {
            "cells": [[cell.id, cell.role, cell.source] for cell in self.cells],
            "grading": self.meta.grading,
            "outputs": [output.model_dump(mode="json") for output in self.meta.outputs],
            "facts": [[fact.id, fact.cell, fact.expression, str(fact.compare)] for fact in self.meta.facts],
            "exercises": [
                {
                    "id": exercise.id,
                    "probes": {text: str(rule) for text, rule in exercise.probes.items()},
                    "variants": exercise.variants,
                    "draw": {name: span.model_dump(mode="json") for name, span in exercise.draw.items()},
                    "mistakes": [[mistake.id, mistake.code] for mistake in exercise.mistakes],
                }
                for exercise in self.meta.exercises
            ],
        }
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


@dataclass(frozen=True)
class Phase:
    """A phase of the course map; ``meta`` is None and ``lessons`` empty for a planned one."""

    entry: PhaseEntry
    meta: PhaseFile | None = None
    lessons: tuple[Lesson, ...] = ()

    @property
    def planned(self) -> bool:
        """Whether the phase is not written yet."""
        return self.meta is None


@dataclass(frozen=True)
class Catalogue:
    """The course.

    Attributes:
        root: the repository.
        file: `course.toml`.
        phases: all phases, planned ones too, in the order of `course.toml`.
        problems: what is faulty and was left out.
    """

    root: Path
    file: CourseFile
    phases: tuple[Phase, ...]
    problems: tuple[Problem, ...] = ()

    @property
    def lessons(self) -> tuple[Lesson, ...]:
        """Every written lesson, in the order of study."""
        return tuple(lesson for phase in self.phases for lesson in phase.lessons)

    def lesson(self, lesson_id: str) -> Lesson:
        """The lesson of that id.

        Raises:
            CourseError: if there is none, with what there is; or if it is faulty, with what is wrong.
        """
        for lesson in self.lessons:
            if lesson.id == lesson_id:
                return lesson
        if self.problems:
            raise CourseError(*self.problems)
        known = ", ".join(lesson.id for lesson in self.lessons) or "none yet"
        raise CourseError.at("course", "", f"there is no lesson {lesson_id!r}", f"use one of: {known}")


def find_root(start: Path | None = None) -> Path:
    """The course's folder: the nearest one with a `course.toml`, from ``start`` (default: here) upwards.

    Raises:
        CourseError: if there is none.
    """
    here = (start or Path.cwd()).resolve()
    for folder in (here, *here.parents):
        if (folder / "course.toml").is_file():
            return folder
    raise CourseError.at(here, "", "no course.toml here or above", "run the command in the course's folder")


def load(root: Path) -> Catalogue:
    """Read the whole course and check it.

    Raises:
        CourseError: with every fault found, each naming file, key and remedy.
    """
    catalogue = survey(root)
    if catalogue.problems:
        raise CourseError(*catalogue.problems)
    return catalogue


def survey(root: Path) -> Catalogue:
    """Read the course, leaving out what is faulty: one broken lesson must not keep the others from being run.

    The faults are in :attr:`Catalogue.problems`.

    Raises:
        CourseError: if `course.toml` itself is faulty.
    """
    root = root.resolve()
    file = read_toml(root / "course.toml", CourseFile, "course.toml")
    problems = _course_problems(file, root)
    phases: list[Phase] = []
    for entry in file.phases:
        folder = root / "phases" / entry.folder
        if folder.is_dir():
            try:
                phase, more = _load_phase(entry, folder, root)
            except CourseError as error:
                phase, more = Phase(entry), list(error.problems)
            phases.append(phase)
            problems += more
        else:
            phases.append(Phase(entry))
    problems += _reference_problems(tuple(phases), file)
    return Catalogue(root, file, tuple(phases), tuple(problems))


def _course_problems(file: CourseFile, root: Path) -> list[Problem]:
    problems = [
        Problem("course.toml", "phase", f"{what} {one!r} stands twice", "give one of the phases another")
        for what, values in (("id", [entry.id for entry in file.phases]), ("folder", [entry.folder for entry in file.phases]))
        for one in _doubles(values)
    ]
    folders = {entry.folder for entry in file.phases}
    present = sorted(path.name for path in (root / "phases").glob("*") if path.is_dir())
    problems += [
        Problem(
            f"phases/{name}", "", "a phase folder that course.toml does not list", "add it to course.toml, or rename the folder"
        )
        for name in present
        if name not in folders
    ]
    known = {entry.id for entry in file.phases}
    for entry in file.phases:
        problems += [
            Problem("course.toml", f"phase {entry.id}: after", f"unknown phase {one!r}", f"use one of: {', '.join(sorted(known))}")
            for one in entry.after
            if one not in known
        ]
    if not problems and (cycle := _cycle({entry.id: entry.after for entry in file.phases})):
        problems.append(Problem("course.toml", "after", f"a cycle: {' -> '.join(cycle)}", "take one of these prerequisites away"))
    return problems


def _load_phase(entry: PhaseEntry, folder: Path, root: Path) -> tuple[Phase, list[Problem]]:
    name = f"phases/{entry.folder}/phase.toml"
    meta = read_toml(folder / "phase.toml", PhaseFile, name)
    problems: list[Problem] = []
    if meta.id != entry.id or meta.title != entry.title:
        remedy = f'write id = "{entry.id}", title = "{entry.title}"'
        problems.append(Problem(name, "id, title", "not the id and title of course.toml", remedy))
    problems += [Problem(name, "lessons", f"{one!r} stands twice", "list each folder once") for one in _doubles(list(meta.lessons))]
    present = {path.parent.name for path in folder.glob("*/lesson.toml")}
    problems += [
        Problem(f"phases/{entry.folder}/{one}", "", "a lesson that phase.toml does not list", f"add it to `lessons` in {name}")
        for one in sorted(present - set(meta.lessons))
    ]
    # The place in the list gives the id, so that the id of a lesson that cannot be read is known too.
    ids = {one: f"{entry.slug}-{number:02d}" for number, one in enumerate(dict.fromkeys(meta.lessons), 1)}
    lessons: list[Lesson] = []
    for one, wanted in ids.items():
        try:
            lesson = load_lesson(folder / one, root)
        except CourseError as error:
            problems += error.problems
            continue
        if lesson.id != wanted:
            file = f"{lesson.shown(lesson.folder)}/lesson.toml"
            problems.append(
                Problem(file, "id", f"by its place in phase.toml this is {wanted}, not {lesson.id}", f'write id = "{wanted}"')
            )
        lessons.append(lesson)
    named = {milestone.lesson for milestone in meta.milestones}
    problems += [
        Problem(name, "milestone", f"no milestone for {one}", "add a [[milestone]] with this lesson")
        for one in ids.values()
        if one not in named
    ]
    problems += [
        Problem(name, "milestone", f"unknown lesson {one!r}", "name a lesson of this phase")
        for one in sorted(named - set(ids.values()))
    ]
    return Phase(entry, meta, tuple(lessons)), problems


def load_lesson(folder: Path, root: Path) -> Lesson:
    """Read one lesson folder and check it for itself; references to other lessons are checked by :func:`load`.

    Raises:
        CourseError: with every fault found.
    """
    folder, root = folder.resolve(), root.resolve()
    shown = folder.relative_to(root).as_posix() if folder.is_relative_to(root) else str(folder)
    meta = read_toml(folder / "lesson.toml", LessonFile, f"{shown}/lesson.toml")
    quiz = read_toml(folder / "quiz.toml", QuizFile, f"{shown}/quiz.toml")
    cells = read_script(folder / "code" / "main.py", f"{shown}/code/main.py")
    problems = _lesson_problems(shown, meta, quiz, cells)
    if not (folder / "lesson.md").is_file():
        problems.append(Problem(f"{shown}/lesson.md", "", "the file is missing", "write the lesson's words"))
    scaffolds: dict[str, Scaffold] = {}
    for cell in cells:
        if cell.role == "exercise":
            try:
                scaffolds[cell.id] = scaffold(cell, f"{shown}/code/main.py")
            except CourseError as error:
                problems += error.problems
    if problems:
        raise CourseError(*problems)
    return Lesson(folder, root, meta, quiz, cells, scaffolds)


def _lesson_problems(shown: str, meta: LessonFile, quiz: QuizFile, cells: tuple[Cell, ...]) -> list[Problem]:
    file = f"{shown}/lesson.toml"
    roles = {cell.id: cell.role for cell in cells}
    objectives = [objective.id for objective in meta.objectives]
    problems: list[Problem] = []

    def double(key: str, values: list[str]) -> None:
        problems.extend(Problem(file, key, f"{one!r} stands twice", "give each its own id") for one in _doubles(values))

    double("objectives", objectives)
    double("exercise", [exercise.id for exercise in meta.exercises])
    double("fact", [fact.id for fact in meta.facts])
    double("figure", [figure.cell for figure in meta.figures])
    double("experiment", [experiment.cell for experiment in meta.experiments])

    def needs(key: str, cell: str, role: str) -> None:
        if roles.get(cell) != role:
            found = f"cell {cell!r} has the role {roles[cell]!r}" if cell in roles else f"there is no cell {cell!r} in code/main.py"
            problems.append(Problem(file, key, found, f'name a cell with role="{role}"'))

    for index, figure in enumerate(meta.figures):
        needs(f"figure[{index}].cell", figure.cell, "figure")
    for index, experiment in enumerate(meta.experiments):
        needs(f"experiment[{index}].cell", experiment.cell, "experiment")
    for index, exercise in enumerate(meta.exercises):
        needs(f"exercise[{index}].id", exercise.id, "exercise")
    described = {one.cell for one in meta.figures} | {one.cell for one in meta.experiments} | {one.id for one in meta.exercises}
    problems += [
        Problem(file, cell.role, f"cell {cell.id!r} of code/main.py is not described", f"add a [[{cell.role}]] for it")
        for cell in cells
        if cell.role in {"figure", "experiment", "exercise"} and cell.id not in described
    ]
    for index, output in enumerate(meta.outputs):
        if output.cell and output.cell not in roles:
            problems.append(
                Problem(file, f"output[{index}].cell", f"there is no cell {output.cell!r}", "name a cell of code/main.py")
            )
    for index, fact in enumerate(meta.facts):
        if fact.cell not in roles:
            problems.append(Problem(file, f"fact[{index}].cell", f"there is no cell {fact.cell!r}", "name a cell of code/main.py"))
    parameters = {name for cell in cells if cell.role == "parameters" for name in _parameters(cell.source)}
    problems += [
        Problem(file, "grading", f"{one} is not a parameter", f"use one of: {', '.join(sorted(parameters)) or 'none yet'}")
        for one in meta.grading
        if one not in parameters
    ]
    for index, exercise in enumerate(meta.exercises):
        key = f"exercise[{index}]"
        double(f"{key}.mistake", [mistake.id for mistake in exercise.mistakes])
        problems += [
            Problem(file, f"{key}.meets", f"unknown objective {one!r}", f"use one of: {', '.join(objectives)}")
            for one in exercise.meets
            if one not in objectives
        ]
        for where, names in [("draw", exercise.draw)] + [
            (f"variants[{n}]", variant) for n, variant in enumerate(exercise.variants)
        ]:
            problems += [
                Problem(
                    file,
                    f"{key}.{where}",
                    f"{one} is not a parameter",
                    f"use one of: {', '.join(sorted(parameters)) or 'none yet'}",
                )
                for one in names
                if one not in parameters
            ]
    for index, question in enumerate(quiz.questions):
        if question.meets not in objectives:
            remedy = f"use one of: {', '.join(objectives)}"
            problems.append(
                Problem(f"{shown}/quiz.toml", f"question[{index}].meets", f"unknown objective {question.meets!r}", remedy)
            )
    problems += [
        Problem(f"{shown}/quiz.toml", "question", f"id {one!r} stands twice", "give each question its own id")
        for one in _doubles([question.id for question in quiz.questions])
    ]
    return problems


def _parameters(source: str) -> dict[str, object]:
    """The names that a parameters cell assigns, with their values where those are literals."""
    found: dict[str, object] = {}
    for node in ast.parse(source).body:
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            try:
                value = ast.literal_eval(node.value)
            except ValueError:
                value = None
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            found |= {target.id: value for target in targets if isinstance(target, ast.Name)}
    return found


def _reference_problems(phases: tuple[Phase, ...], file: CourseFile) -> list[Problem]:
    """Faults between files: prerequisites of lessons that do not exist or run in a circle, double lesson ids."""
    problems: list[Problem] = []
    lessons = [lesson for phase in phases for lesson in phase.lessons]
    ids = [lesson.id for lesson in lessons]
    problems += [Problem("phases", "", f"lesson id {one!r} stands twice", "give one lesson another id") for one in _doubles(ids)]
    listed = {f"{phase.entry.slug}-{n:02d}" for phase in phases if phase.meta for n in range(1, len(phase.meta.lessons) + 1)}
    known = set(ids) | listed | {entry.id for entry in file.phases}
    for lesson in lessons:
        problems += [
            Problem(
                f"{lesson.shown(lesson.folder)}/lesson.toml",
                "after",
                f"unknown prerequisite {one!r}",
                "name a phase of course.toml or a lesson",
            )
            for one in lesson.meta.after
            if one not in known
        ]
    if cycle := _cycle({lesson.id: lesson.meta.after for lesson in lessons}):
        problems.append(Problem("phases", "after", f"a cycle: {' -> '.join(cycle)}", "take one of these prerequisites away"))
    return problems


def _doubles(values: list[str]) -> list[str]:
    return sorted({one for one in values if values.count(one) > 1})


def _cycle(after: dict[str, tuple[str, ...]]) -> list[str] | None:
    """A cycle in the graph of prerequisites as a list of ids that begins and ends alike, or None."""
    done: set[str] = set()
    for start in after:
        path: list[str] = []
        stack: list[tuple[str, bool]] = [(start, False)]
        while stack:
            node, leaving = stack.pop()
            if leaving:
                path.pop()
                done.add(node)
            elif node in path:
                return [*path[path.index(node) :], node]
            elif node not in done:
                path.append(node)
                stack.append((node, True))
                stack.extend((one, False) for one in after.get(node, ()))
    return None
