"""The whole course as data: phases, their lessons with their cells, and every cross-reference checked."""

from __future__ import annotations

import ast
import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TypeVar

from course.errors import CourseError, Problem
from course.schema import (
    CourseFile,
    LessonFile,
    PhaseEntry,
    PhaseFile,
    ProjectFile,
    QuizFile,
    Task,
    UnitFile,
    read_toml,
)
from course.script import PROJECT_ROLES, Cell, Scaffold, read_script, scaffold
from course.starter import Starter, asked, starter


@dataclass(frozen=True)
class Unit(ABC):
    """What a lesson and a project have in common: a folder with metadata and a script, read and checked.

    Attributes:
        folder: absolute path of the folder.
        root: absolute path of the course.
        meta: its TOML file.
        cells: the cells of its script, in order.
    """

    folder: Path
    root: Path
    meta: UnitFile
    cells: tuple[Cell, ...]

    @property
    def id(self) -> str:
        """The id, for instance ``recovery-01`` or ``recovery-audit``."""
        return self.meta.id

    @property
    @abstractmethod
    def script(self) -> Path:
        """The script whose cells are run."""

    @property
    @abstractmethod
    def words(self) -> Path:
        """What is read."""

    @property
    @abstractmethod
    def file(self) -> str:
        """The TOML file as messages name it."""

    @property
    @abstractmethod
    def make(self) -> str:
        """How a make command names this unit, for instance ``LESSON=recovery-01``."""

    @property
    def complete(self) -> bool:
        """Whether the reference is here, so that it can be run."""
        return True

    @property
    def beside(self) -> Mapping[str, str]:
        """Files that stand in the working directory when the reference is run: name to text."""
        return {}

    @property
    def receipt(self) -> Path:
        """Where the receipt is kept."""
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

    def exercise(self, exercise_id: str) -> Task:
        """The exercise or stage of that id. Raises KeyError."""
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
        """SHA-256 of what a run of the reference depends on: cells, files, and what is asked of and varied in the exercises.

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
        if self.beside:
            parts["beside"] = dict(self.beside)
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


@dataclass(frozen=True)
class Lesson(Unit):
    """A lesson folder. Its script is the reference: the exercises are answered in it.

    Attributes:
        quiz: `quiz.toml`.
        scaffolds: the learner's copy of each exercise cell, by exercise id.
    """

    meta: LessonFile
    quiz: QuizFile
    scaffolds: dict[str, Scaffold]

    @property
    def script(self) -> Path:
        """The reference script."""
        return self.folder / "code" / "main.py"

    @property
    def words(self) -> Path:
        """The lesson's words."""
        return self.folder / "lesson.md"

    @property
    def file(self) -> str:
        """`lesson.toml` as messages name it."""
        return self.shown(self.folder / "lesson.toml")

    @property
    def make(self) -> str:
        """How a make command names this lesson."""
        return f"LESSON={self.id}"


@dataclass(frozen=True)
class Project(Unit):
    """A project folder. Its script is given and puts a module to the test: the learner's, or the reference solution.

    Attributes:
        files: the given files that stand beside the module, name to text.
        solution: the text of the reference module; None in a learner's bundle, where there is none.
        starter: the learner's module as it is handed out.
    """

    meta: ProjectFile
    files: Mapping[str, str]
    solution: str | None
    starter: Starter

    @property
    def script(self) -> Path:
        """The given script with a cell for each stage."""
        return self.folder / "stages.py"

    @property
    def words(self) -> Path:
        """The words of the guide."""
        return self.folder / "guide.md"

    @property
    def file(self) -> str:
        """`project.toml` as messages name it."""
        return self.shown(self.folder / "project.toml")

    @property
    def make(self) -> str:
        """How a make command names this project."""
        return f"PROJECT={self.id}"

    @property
    def complete(self) -> bool:
        """Whether the solution is here, so that it can be run."""
        return self.solution is not None

    @property
    def beside(self) -> Mapping[str, str]:
        """The given files and the reference module."""
        return self.files if self.solution is None else {**self.files, self.meta.module: self.solution}

    @property
    def module(self) -> Path:
        """The learner's module: generated once, then theirs."""
        return self.folder / "starter" / self.meta.module


U = TypeVar("U", bound=Unit)


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
        projects: the written projects, by id.
        problems: what is faulty and was left out.
    """

    root: Path
    file: CourseFile
    phases: tuple[Phase, ...]
    projects: tuple[Project, ...] = ()
    problems: tuple[Problem, ...] = ()

    @property
    def lessons(self) -> tuple[Lesson, ...]:
        """Every written lesson, in the order of study."""
        return tuple(lesson for phase in self.phases for lesson in phase.lessons)

    @property
    def units(self) -> tuple[Unit, ...]:
        """Everything that can be handed in: the lessons in the order of study, then the projects."""
        return (*self.lessons, *self.projects)

    def lesson(self, lesson_id: str) -> Lesson:
        """The lesson of that id.

        Raises:
            CourseError: if there is none, with what there is; or if it is faulty, with what is wrong.
        """
        return self._found("lesson", lesson_id, self.lessons)

    def project(self, project_id: str) -> Project:
        """The project of that id. Raises CourseError like :meth:`lesson`."""
        return self._found("project", project_id, self.projects)

    def unit(self, unit_id: str) -> Unit:
        """The lesson or project of that id. Raises CourseError like :meth:`lesson`."""
        return self._found("lesson or project", unit_id, self.units)

    def _found(self, kind: str, wanted: str, units: tuple[U, ...]) -> U:
        for unit in units:
            if unit.id == wanted:
                return unit
        if self.problems:
            raise CourseError(*self.problems)
        known = ", ".join(unit.id for unit in units) or "none yet"
        raise CourseError.at("course", "", f"there is no {kind} {wanted!r}", f"use one of: {known}")


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
    projects: list[Project] = []
    for path in sorted((root / "projects").glob("*/project.toml")):
        try:
            projects.append(load_project(path.parent, root))
        except CourseError as error:
            problems += error.problems
    problems += _reference_problems(tuple(phases), projects, file)
    return Catalogue(root, file, tuple(phases), tuple(projects), tuple(problems))


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
    problems = [
        *_unit_problems(f"{shown}/lesson.toml", "code/main.py", "exercise", meta, cells),
        *_experiment_problems(f"{shown}/lesson.toml", meta, cells),
        *_quiz_problems(f"{shown}/quiz.toml", meta, quiz),
    ]
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
    return Lesson(folder, root, meta, cells, quiz, scaffolds)


def load_project(folder: Path, root: Path) -> Project:
    """Read one project folder and check it for itself. Without `solution/` the starter is that of `original/`.

    Raises:
        CourseError: with every fault found.
    """
    folder, root = folder.resolve(), root.resolve()
    shown = folder.relative_to(root).as_posix() if folder.is_relative_to(root) else str(folder)
    meta = read_toml(folder / "project.toml", ProjectFile, f"{shown}/project.toml")
    cells = read_script(folder / "stages.py", f"{shown}/stages.py", PROJECT_ROLES)
    problems = _unit_problems(f"{shown}/project.toml", "stages.py", "stage", meta, cells)
    if meta.id != folder.name:
        problems.append(
            Problem(f"{shown}/project.toml", "id", f"{meta.id!r} is not the folder's name", f'write id = "{folder.name}"')
        )
    files: dict[str, str] = {}
    for name in meta.files:
        if text := _text(folder / name, f"{shown}/{name}", problems):
            files[name] = text
    if not (folder / "guide.md").is_file():
        problems.append(Problem(f"{shown}/guide.md", "", "the file is missing", "write the guide's words"))
    # A learner's bundle has no solution, but what was made from it.
    place = "solution" if (folder / "solution").is_dir() else "original"
    name = f"{shown}/{place}/{meta.module}"
    source = _text(folder / place / meta.module, name, problems)
    original = Starter("", {})
    if source:
        try:
            original = starter(source, name, meta.id)
        except CourseError as error:
            problems += error.problems
        else:
            problems += [
                Problem(
                    f"{shown}/project.toml",
                    f"stage[{index}].needs",
                    f"{one} is no stub of {meta.module}",
                    f"use one of: {', '.join(original.stubs)}",
                )
                for index, stage in enumerate(meta.exercises)
                for one in stage.needs
                if not asked(one, original.stubs)
            ]
    if problems:
        raise CourseError(*problems)
    return Project(folder, root, meta, cells, files, source if place == "solution" else None, original)


def _text(path: Path, shown: str, problems: list[Problem]) -> str:
    """The text of a file of a project; what is wrong with it is added to the problems."""
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        problems.append(Problem(shown, "", "the file is missing", "write it, or mend its name in project.toml"))
    except UnicodeDecodeError as error:
        problems.append(Problem(shown, f"byte {error.start}", "the file is not UTF-8", "save it as UTF-8"))
    return ""


def _unit_problems(file: str, script: str, role: str, meta: UnitFile, cells: tuple[Cell, ...]) -> list[Problem]:
    """Faults between a TOML file and its script.

    Args:
        file: how messages name the TOML file.
        script: how messages name the script.
        role: of the cells that its exercises or stages are about.
        meta: the TOML file.
        cells: of the script.
    """
    roles = {cell.id: cell.role for cell in cells}
    objectives = [objective.id for objective in meta.objectives]
    problems = _double(file, "objectives", objectives)
    problems += _double(file, role, [exercise.id for exercise in meta.exercises])
    problems += _double(file, "fact", [fact.id for fact in meta.facts])
    problems += _double(file, "figure", [figure.cell for figure in meta.figures])
    described = {"figure": [figure.cell for figure in meta.figures], role: [exercise.id for exercise in meta.exercises]}
    for kind, names in described.items():
        problems += _described(file, script, kind, names, cells)
    for index, output in enumerate(meta.outputs):
        if output.cell and output.cell not in roles:
            problems.append(Problem(file, f"output[{index}].cell", f"there is no cell {output.cell!r}", f"name a cell of {script}"))
    for index, fact in enumerate(meta.facts):
        if fact.cell not in roles:
            problems.append(Problem(file, f"fact[{index}].cell", f"there is no cell {fact.cell!r}", f"name a cell of {script}"))
    parameters = {name for cell in cells if cell.role == "parameters" for name in _parameters(cell.source)}
    known = f"use one of: {', '.join(sorted(parameters)) or 'none yet'}"
    problems += [Problem(file, "grading", f"{one} is not a parameter", known) for one in meta.grading if one not in parameters]
    for index, exercise in enumerate(meta.exercises):
        key = f"{role}[{index}]"
        problems += _double(file, f"{key}.mistake", [mistake.id for mistake in exercise.mistakes])
        problems += [
            Problem(file, f"{key}.meets", f"unknown objective {one!r}", f"use one of: {', '.join(objectives)}")
            for one in exercise.meets
            if one not in objectives
        ]
        varied = [("draw", set(exercise.draw)), *((f"variants[{n}]", set(one)) for n, one in enumerate(exercise.variants))]
        problems += [
            Problem(file, f"{key}.{where}", f"{one} is not a parameter", known)
            for where, names in varied
            for one in sorted(names - parameters)
        ]
    return problems


def _double(file: str, key: str, values: list[str]) -> list[Problem]:
    return [Problem(file, key, f"{one!r} stands twice", "give each its own id") for one in _doubles(values)]


def _described(file: str, script: str, role: str, names: list[str], cells: tuple[Cell, ...]) -> list[Problem]:
    """Cells of a role and what describes them must belong to each other, both ways."""
    roles = {cell.id: cell.role for cell in cells}
    key = "cell" if role in {"figure", "experiment"} else "id"
    problems: list[Problem] = []
    for index, name in enumerate(names):
        if roles.get(name) != role:
            found = f"cell {name!r} has the role {roles[name]!r}" if name in roles else f"there is no cell {name!r} in {script}"
            problems.append(Problem(file, f"{role}[{index}].{key}", found, f'name a cell with role="{role}"'))
    problems += [
        Problem(file, cell.role, f"cell {cell.id!r} of {script} is not described", f"add a [[{cell.role}]] for it")
        for cell in cells
        if cell.role == role and cell.id not in names
    ]
    return problems


def _experiment_problems(file: str, meta: LessonFile, cells: tuple[Cell, ...]) -> list[Problem]:
    names = [experiment.cell for experiment in meta.experiments]
    return _double(file, "experiment", names) + _described(file, "code/main.py", "experiment", names, cells)


def _quiz_problems(file: str, meta: LessonFile, quiz: QuizFile) -> list[Problem]:
    objectives = [objective.id for objective in meta.objectives]
    problems = [
        Problem(file, f"question[{index}].meets", f"unknown objective {question.meets!r}", f"use one of: {', '.join(objectives)}")
        for index, question in enumerate(quiz.questions)
        if question.meets not in objectives
    ]
    return problems + [
        Problem(file, "question", f"id {one!r} stands twice", "give each question its own id")
        for one in _doubles([question.id for question in quiz.questions])
    ]


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


def _reference_problems(phases: tuple[Phase, ...], projects: list[Project], file: CourseFile) -> list[Problem]:
    """Faults between files: prerequisites that do not exist or run in a circle, double ids."""
    problems: list[Problem] = []
    lessons: list[Unit] = [lesson for phase in phases for lesson in phase.lessons]
    ids = [lesson.id for lesson in lessons]
    problems += [Problem("phases", "", f"lesson id {one!r} stands twice", "give one lesson another id") for one in _doubles(ids)]
    listed = {f"{phase.entry.slug}-{n:02d}" for phase in phases if phase.meta for n in range(1, len(phase.meta.lessons) + 1)}
    known = set(ids) | listed | {entry.id for entry in file.phases}
    for unit in [*lessons, *projects]:
        problems += [
            Problem(unit.file, "after", f"unknown prerequisite {one!r}", "name a phase of course.toml or a lesson")
            for one in unit.meta.after
            if one not in known
        ]
    problems += [
        Problem(project.file, "id", f"{project.id} is a lesson's id", "give the project another, and its folder the same")
        for project in projects
        if project.id in known
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
