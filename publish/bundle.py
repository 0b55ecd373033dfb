"""ZIPs that work by themselves: a project without its answers, a phase with everything, a phase to begin with, the whole course.

That of a project holds the guide, the starter, the given files, the recorded values that a check compares with, and the grader. It does
not hold the solution, the reasoning of the stages or the code of the named mistakes, so a check from it runs everything but the
fresh draws, for which the solution would have to run beside the learner's module.

What a learner works in stands in every ZIP as it is generated, whatever the present folder holds of it. Of the rest, a ZIP takes
what git tracks; where there is no checkout, what is of a kind that the course is made of (:class:`_Files`).
"""

from __future__ import annotations

import io
import subprocess
import tomllib
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

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
_FOLDERS = (*_PACKAGES, "publish", "phases", "projects", "docs", "examples", "bench", "tests")
# Of what kinds its files are, and folders that are left by working with it.
_KINDS = frozenset(
    {".py", ".md", ".toml", ".json", ".ipynb", ".txt", ".csv", ".svg", ".png", ".html", ".css", ".js", ".woff2", ".gitkeep"}
) | {"LICENSE", "Dockerfile"}
_LEFT_BEHIND = frozenset({"__pycache__", "runs", "backups"})
_LEFT_OUT = "Not part of this bundle."
_KEPT_OUT = frozenset({"project.toml", "README.md", "solution", "starter"})
# A ZIP knows no earlier time; a fixed one makes the same content the same bytes.
_TIME = (1980, 1, 1, 0, 0, 0)


def render(project: Project, catalogue: Catalogue) -> bytes:
    """The ZIP of a project.

    Raises:
        CourseError: for faults in the words, a missing receipt or figure, or a course file that is missing.
    """
    root, there = catalogue.root, _Files.of(catalogue.root)
    made = projects.render(project, guide.names(catalogue))
    files: dict[str, bytes] = {path: text.encode() for path, text in made.items()}
    for name in _ROOM:
        files[name] = _read(root / name, name)
    for package in _PACKAGES:
        files |= {path: data for path, data in there.folder(package).items() if path.endswith(".py")}
    folder, inside = project.shown(project.folder), there.unit(project)
    files |= {path: inside[path] for path in inside if PurePosixPath(path).relative_to(folder).parts[0] not in _KEPT_OUT}
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
    root, there = catalogue.root, _Files.of(catalogue.root)
    files = {name: _read(root / name, name) for name in _COURSE}
    files |= {path.name: path.read_bytes() for path in root.glob(_LOCKS)}
    for folder in _FOLDERS:
        files |= there.folder(folder)
    for unit in catalogue.units:
        files |= there.unit(unit)
    own = _own(made, catalogue.units) | {f"{exercises.FOLDER}/README.md": exercises.listing(catalogue, guide.names(catalogue))}
    files |= _encoded(own)
    return _zip({f"training-systems/{name}": data for name, data in files.items()})


def phase(one: Phase, catalogue: Catalogue, made: Mapping[str, str]) -> bytes:
    """The ZIP of one phase: its lessons and projects, complete, with the exercises and the grader that checks them.

    Raises:
        CourseError: for a course file that is missing.
    """
    root, there, folder = catalogue.root, _Files.of(catalogue.root), f"phases/{one.entry.folder}"
    units = _units(one, catalogue)
    files = {name: _read(root / name, name) for name in (*_ROOM, "Makefile")}
    for name in (*_PACKAGES, "publish", folder):
        files |= there.folder(name)
    for unit in units:
        files |= there.unit(unit)
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


@dataclass(frozen=True)
class _Files:
    """What belongs to the course, of what lies in its folders.

    Attributes:
        root: the course's folder.
        tracked: the files that git tracks, relative to it; none where it is no checkout, or git cannot be asked.
    """

    root: Path
    tracked: frozenset[str]

    @classmethod
    def of(cls, root: Path) -> _Files:
        """Ask git, if there is one."""
        try:
            asked = subprocess.run(["git", "ls-files", "-z"], cwd=root, capture_output=True, check=False)
        except OSError:
            return cls(root, frozenset())
        names = asked.stdout.decode(errors="surrogateescape").split("\0") if asked.returncode == 0 else []
        return cls(root, frozenset(filter(None, names)))

    def folder(self, name: str) -> dict[str, bytes]:
        """The files of a folder that belong to the course, by path."""
        inside = [path for path in self.tracked if path.startswith(f"{name}/")] if self.tracked else self._usual(name)
        return self._read(inside)

    def unit(self, unit: Unit) -> dict[str, bytes]:
        """The files of a lesson or project; of one that is being written, and of which git knows nothing yet, all of the course's kinds."""
        folder = unit.shown(unit.folder)
        return self.folder(folder) or self._read(self._usual(folder))

    def _usual(self, name: str) -> list[str]:
        every = (path.relative_to(self.root) for path in (self.root / name).rglob("*"))
        return [path.as_posix() for path in every if _usual(path)]

    def _read(self, paths: list[str]) -> dict[str, bytes]:
        return {path: (self.root / path).read_bytes() for path in sorted(paths) if (self.root / path).is_file()}


def _usual(path: Path) -> bool:
    """Whether a file is of a kind that the course is made of, and not something that working with it has left."""
    hidden = any(part.startswith(".") for part in path.parts if part != ".gitkeep")
    return not hidden and not _LEFT_BEHIND & {*path.parts} and bool(_KINDS & {path.suffix, path.name})


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
