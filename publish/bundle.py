"""A project as a ZIP that works by itself: what a learner needs to read, write and check, and nothing that answers.

It holds the guide, the starter, the given files, the recorded values that a check compares with, and the grader. It does not
hold the solution, the reasoning of the stages or the code of the named mistakes, so a check from it runs everything but the
fresh draws, for which the solution would have to run beside the learner's module.
"""

from __future__ import annotations

import io
import tomllib
import zipfile
from pathlib import Path

import tomli_w

from course.catalogue import Catalogue, Project
from course.errors import CourseError
from publish import guide, markdown, projects

# What a check needs of the course.
_ROOM = ("course.toml", "environment.py", "requirements-cpu.txt", "pyproject.toml", "LICENSE")
_PACKAGES = ("course", "graders")
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
        for path in sorted((root / package).rglob("*.py")):
            files[path.relative_to(root).as_posix()] = path.read_bytes()
    folder = project.shown(project.folder)
    for path in sorted(project.folder.rglob("*")):
        inside = path.relative_to(project.folder)
        if path.is_file() and inside.parts[0] not in _KEPT_OUT and not _private(inside):
            files[f"{folder}/{inside.as_posix()}"] = path.read_bytes()
    files[f"{folder}/project.toml"] = _without_answers(project).encode()
    files[f"{folder}/original/{project.meta.module}"] = project.starter.source.encode()
    files["README.md"] = _words(project).encode()
    return _zip({f"{project.id}/{name}": data for name, data in files.items()})


def _private(inside: Path) -> bool:
    """Whether a path is something that running the project left, or that is no business of a learner's."""
    return any(part.startswith(".") or part in {"__pycache__", "runs"} for part in inside.parts)


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


def _zip(files: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in sorted(files.items()):
            entry = zipfile.ZipInfo(name, _TIME)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = 0o644 << 16
            archive.writestr(entry, data)
    return buffer.getvalue()
