"""ZIPs that work by themselves: a project without its answers, a phase with everything, a phase to begin with, the whole course.

That of a project holds the guide, the starter, the given files, the recorded values that a check compares with, and the grader. It does
not hold the solution, the reasoning of the stages or the code of the named mistakes, so a check from it runs everything but the
fresh draws, for which the solution would have to run beside the learner's module.

What a learner works in stands in every ZIP as it is generated, whatever the present folder holds of it.
"""

from __future__ import annotations

import io
import tomllib
import zipfile
from collections.abc import Mapping
from pathlib import Path

import tomli_w

from course.catalogue import Catalogue, Lesson, Phase, Project, Unit
from course.errors import CourseError
from publish import build, exercises, guide, markdown, notebooks, projects

# What a check needs of the course.
_ROOM = ("course.toml", "environment.py", "requirements-cpu.txt", "pyproject.toml", "LICENSE")
_PACKAGES = ("course", "graders")
# What the whole course is, beside its packages.
_COURSE = (*_ROOM, "Makefile", "README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", ".gitignore", ".gitattributes")
_LOCKS = "requirements-*.txt"
_FOLDERS = (*_PACKAGES, "publish", "phases", "projects", "docs", "examples", "tests")
_LEFT_OUT = "Not part of this bundle."
_KEPT_OUT = frozenset({"project.toml", "README.md", "solution", "starter"})
# A ZIP knows no earlier time; a fixed one makes the same content the same bytes.
_TIME = (1980, 1, 1, 0, 0, 0)


def render(project: Project, catalogue: Catalogue) -> bytes:
    """The ZIP of a project.

    Raises:
        CourseError: for faults in the words, a missing receipt or figure, or a course file that is missing.
    """
    root = catalogue.root
    made = projects.render(project, guide.names(catalogue))
    files: dict[str, bytes] = {path: text.encode() for path, text in made.items()}
    for name in _ROOM:
        files[name] = _read(root / name, name)
    for package in _PACKAGES:
        files |= _folder(root, package, "*.py")
    folder = project.shown(project.folder)
    for path in sorted(project.folder.rglob("*")):
        inside = path.relative_to(project.folder)
        if path.is_file() and inside.parts[0] not in _KEPT_OUT and not _private(inside):
            files[f"{folder}/{inside.as_posix()}"] = path.read_bytes()
    files[f"{folder}/project.toml"] = _without_answers(project).encode()
    files[f"{folder}/original/{project.meta.module}"] = project.starter.source.encode()
    files["README.md"] = _words(project).encode()
    return _zip({f"{project.id}/{name}": data for name, data in files.items()})


def generated(catalogue: Catalogue) -> dict[str, str]:
    """The generated files of all lessons and projects, by path: what :func:`course`, :func:`phase` and :func:`beginner` are given.

    Raises:
        CourseError: for faults in the words, or a missing or old receipt or figure.
    """
    names, files = guide.names(catalogue), dict[str, str]()
    for unit in catalogue.units:
        if isinstance(unit, Lesson):
            files[notebooks.path(unit)] = notebooks.render(unit)
            files |= exercises.render(unit, names)
        elif isinstance(unit, Project):
            files |= projects.render(unit, names)
    return files


def course(catalogue: Catalogue, made: Mapping[str, str]) -> bytes:
    """The ZIP of everything: lessons, projects, grader, the tools that make the pages, the tests.

    Raises:
        CourseError: for a course file that is missing.
    """
    root = catalogue.root
    files = {name: _read(root / name, name) for name in _COURSE}
    files |= {path.name: path.read_bytes() for path in root.glob(_LOCKS)}
    for folder in _FOLDERS:
        files |= _folder(root, folder)
    own = _own(made, catalogue.units) | {f"{exercises.FOLDER}/README.md": exercises.listing(catalogue, guide.names(catalogue))}
    files |= _encoded(own)
    return _zip({f"training-systems/{name}": data for name, data in files.items()})


def phase(one: Phase, catalogue: Catalogue, made: Mapping[str, str]) -> bytes:
    """The ZIP of one phase: its lessons and projects, complete, with the exercises and the grader that checks them.

    Raises:
        CourseError: for a course file that is missing.
    """
    root, folder = catalogue.root, f"phases/{one.entry.folder}"
    units = _units(one, catalogue)
    files = {name: _read(root / name, name) for name in (*_ROOM, "Makefile")}
    for name in (*_PACKAGES, "publish", folder, *(unit.shown(unit.folder) for unit in units if isinstance(unit, Project))):
        files |= _folder(root, name)
    files |= _encoded(_own(made, units))
    files[f"{folder}/README.md"] = guide.render(one, catalogue).encode()
    files["README.md"] = _phase_words(one, units).encode()
    return _zip({f"{one.entry.folder}/{name}": data for name, data in files.items()})


def beginner(one: Phase, catalogue: Catalogue, made: Mapping[str, str]) -> bytes:
    """The ZIP of the exercises of one phase: what a learner works in and what opens it, without any solution.

    Raises:
        CourseError: for a course file that is missing.
    """
    files = {name: _read(catalogue.root / name, name) for name in _ROOM}
    files |= _encoded({path: made[path] for lesson in one.lessons for path in exercises.paths(lesson)})
    files["README.md"] = _beginner_words(one).encode()
    return _zip({f"{one.entry.folder}-beginner/{name}": data for name, data in files.items()})


def _units(one: Phase, catalogue: Catalogue) -> tuple[Unit, ...]:
    """The lessons of a phase, and the projects that come after one of them."""
    ids = {lesson.id for lesson in one.lessons}
    return (*one.lessons, *(project for project in catalogue.projects if ids & set(project.meta.after)))


def _own(made: Mapping[str, str], units: tuple[Unit, ...]) -> dict[str, str]:
    """The generated files of some lessons and projects."""
    own = [path for unit in units if isinstance(unit, Lesson) for path in (notebooks.path(unit), *exercises.paths(unit))]
    own += [path for unit in units if isinstance(unit, Project) for path in (projects.guide(unit), projects.starter(unit))]
    return {path: made[path] for path in own}


def _encoded(files: Mapping[str, str]) -> dict[str, bytes]:
    """Generated files with the manifest, by which it is known later that somebody has edited one."""
    return {path: text.encode() for path, text in files.items()} | {build.MANIFEST: build.manifest_of(files).encode()}


def _folder(root: Path, name: str, pattern: str = "*") -> dict[str, bytes]:
    """The files of a folder of the course, by path."""
    paths = [path for path in (root / name).rglob(pattern) if path.is_file() and not _private(path.relative_to(root))]
    return {path.relative_to(root).as_posix(): path.read_bytes() for path in sorted(paths)}


def _private(inside: Path) -> bool:
    """Whether a path is something that running the project left, or that is no business of a learner's."""
    return any((part.startswith(".") and part != ".gitkeep") or part in {"__pycache__", "runs"} for part in inside.parts)


def _read(path: Path, name: str) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise CourseError.at(name, "", "the file is missing", "bring it back: a bundle does not work without it") from None


def _without_answers(project: Project) -> str:
    """`project.toml` without what answers: reasoning and mistakes' code; and without lessons that are not here."""
    data = tomllib.loads((project.folder / "project.toml").read_text(encoding="utf-8"))
    data["after"] = []
    for stage in data["stage"]:
        stage["reasoning"] = _LEFT_OUT
        for mistake in stage.get("mistake", []):
            mistake["code"] = "pass"
    return tomli_w.dumps(data, multiline_strings=True)


def _words(project: Project) -> str:
    module = f"projects/{project.id}/starter/{project.meta.module}"
    return (
        markdown.join(
            f"# {project.meta.title}",
            f"Read `projects/{project.id}/README.md`, write in `{module}`, and check in this folder:",
            f"```text\npython -m environment graders check {project.id}\n```",
            "The first check makes an environment in `.venv` (Python 3.11 to 3.14, network needed once). The untouched module is "
            f"in `projects/{project.id}/original/`; copy it from there to begin again.",
            "A check from this bundle compares with recorded values. Where your work is graded, it is run under freshly drawn "
            "parameters as well.",
        )
        + "\n"
    )


def _phase_words(one: Phase, units: tuple[Unit, ...]) -> str:
    first = units[0].id
    rows = [(f"`{unit.id}`", unit.meta.title, _place(unit)) for unit in units]
    return (
        markdown.join(
            f"# Phase {one.entry.id}: {one.entry.title}",
            f"The lessons and projects of one phase, with their reference solutions. Begin with `phases/{one.entry.folder}/README.md`.",
            markdown.table(("id", "title", "work in"), rows),
            "In this folder (Python 3.11 to 3.14; the first command makes an environment in `.venv`, for which it needs the network once):",
            f"```text\npython -m environment jupyterlab\npython -m environment graders check {first}\n```",
        )
        + "\n"
    )


def _place(unit: Unit) -> str:
    """What a learner works in."""
    return f"`{unit.shown(unit.module) if isinstance(unit, Project) else f'{exercises.FOLDER}/{unit.id}.ipynb'}`"


def _beginner_words(one: Phase) -> str:
    rows = [(lesson.meta.title, str(lesson.meta.minutes), f"`{exercises.paths(lesson)[0]}`") for lesson in one.lessons]
    return (
        markdown.join(
            f"# Phase {one.entry.id}: {one.entry.title}, to begin with",
            "The exercises of one phase. Nothing in this folder answers them.",
            markdown.table(("lesson", "minutes", "notebook"), rows),
            "In this folder (Python 3.11 to 3.14; the first command makes an environment in `.venv`, for which it needs the network once):",
            "```text\npython -m environment jupyterlab\n```",
            "To have your answers checked, take the ZIP of the whole phase, and copy your notebooks into its `exercises/`: a check runs "
            "the reference solution beside yours, so it cannot be done without it.",
        )
        + "\n"
    )


def _zip(files: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in sorted(files.items()):
            entry = zipfile.ZipInfo(name, _TIME)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = 0o644 << 16
            archive.writestr(entry, data)
    return buffer.getvalue()
