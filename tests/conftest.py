"""What several tests need: the repository, a tiny course with a recorded receipt, and submissions made for it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import nbformat
import pytest
from hypothesis import settings

from course.catalogue import Catalogue, Lesson, Project, load
from graders.record import record
from publish.build import build

ROOT = Path(__file__).resolve().parents[1]

# A loaded machine must not fail a property; tests never measure time.
settings.register_profile("course", deadline=None, max_examples=60)
settings.register_profile(
    "fuzz", settings.get_profile("course"), max_examples=300, derandomize=False
)  # for one round of `make fuzz`
settings.load_profile(os.environ.get("TRAINING_SYSTEMS_EXAMPLES", "course"))


@pytest.fixture(scope="session")
def root() -> Path:
    return ROOT


@pytest.fixture(scope="session")
def cache() -> Path:
    return ROOT / ".cache"


@pytest.fixture(scope="session")
def site(cache: Path) -> Path:
    """The whole site, in a folder of the tests' own: of what has not changed since the last run nothing is made again."""
    from publish.site.build import build as build_site

    return build_site(load(ROOT), cache / "tests-site" / "pages", memory=cache / "tests-site" / "memory").folder


@pytest.fixture(scope="session")
def tiny_root(tmp_path_factory: pytest.TempPathFactory, cache: Path) -> Path:
    """A copy of the fixture course, recorded once. Tests that change it copy it again."""
    target = tmp_path_factory.mktemp("tiny") / "course"
    shutil.copytree(ROOT / "tests" / "fixtures" / "course", target)
    lesson = load(target).lesson("tiny-01")
    record(lesson, target, cache, lambda text: None)
    return target


@pytest.fixture(scope="session")
def audit_root(tiny_root: Path, tmp_path_factory: pytest.TempPathFactory, cache: Path) -> Path:
    """The fixture course with a project in it, recorded and built once. Tests that change it copy it again."""
    target = tmp_path_factory.mktemp("audit") / "course"
    shutil.copytree(tiny_root, target)
    shutil.copytree(ROOT / "tests" / "fixtures" / "projects", target / "projects")
    record(load(target).project("tiny-audit"), target, cache, lambda text: None)
    build(load(target))
    return target


@pytest.fixture
def audit(audit_root: Path) -> Project:
    return load(audit_root).project("tiny-audit")


@pytest.fixture
def audit_copy(audit_root: Path, tmp_path: Path) -> Path:
    """A copy of the course with the project that a test may change."""
    target = tmp_path / "audit"
    shutil.copytree(audit_root, target)
    return target


@pytest.fixture
def tiny(tiny_root: Path) -> Lesson:
    return load(tiny_root).lesson("tiny-01")


@pytest.fixture
def tiny_course(tiny_root: Path) -> Catalogue:
    return load(tiny_root)


@pytest.fixture
def tiny_copy(tiny_root: Path, tmp_path: Path) -> Path:
    """A copy of the recorded course that a test may change."""
    target = tmp_path / "course"
    shutil.copytree(tiny_root, target)
    return target


def notebook(
    lesson: Lesson, answers: dict[str, str] | None = None, *, more: list[tuple[str, str]] | None = None
) -> nbformat.NotebookNode:
    """An exercise notebook as `publish` would make it, without the words.

    Args:
        lesson: the lesson.
        answers: exercise id -> code; ``None`` as a value leaves the cell out. Exercises not named keep their scaffold.
        more: pairs of cell id and code: an additional cell after that one.
    """
    cells = []
    for cell in lesson.cells:
        source = cell.source
        if cell.role == "exercise":
            source = (answers or {}).get(cell.id, lesson.scaffolds[cell.id].source)
        if source is not None:
            node = nbformat.v4.new_code_cell(f"# cell: {cell.id}\n{source}", id=cell.id)
            node.metadata["training_systems"] = {"cell": cell.id, "role": cell.role}
            cells.append(node)
        cells += [nbformat.v4.new_code_cell(code) for after, code in more or [] if after == cell.id]
    made = nbformat.v4.new_notebook(cells=cells)
    made.metadata["training_systems"] = {"lesson": lesson.id}
    return made


@pytest.fixture
def hand_in(tmp_path: Path) -> Callable[..., Path]:
    """Write a submission: ``hand_in(lesson, answers, name="Ana", more=…)`` gives the path of the file."""

    def write(
        lesson: Lesson, answers: dict[str, str] | None = None, name: str = "Ana", more: list[tuple[str, str]] | None = None
    ) -> Path:
        path = tmp_path / "class" / name / f"{lesson.id}.ipynb"
        path.parent.mkdir(parents=True, exist_ok=True)
        nbformat.write(notebook(lesson, answers, more=more), path)
        return path

    return write


def reference_answers(lesson: Lesson) -> dict[str, str]:
    return {exercise.id: lesson.cell(exercise.id).source for exercise in lesson.meta.exercises}
