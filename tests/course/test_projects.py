"""Projects in the catalogue: read, cross-checked, and their faults named."""

import shutil

import pytest

from course.catalogue import load, survey
from course.errors import CourseError


def test_a_project_is_read_with_its_stages_and_stubs(audit):
    assert audit.id == "tiny-audit" and audit.complete
    assert [stage.id for stage in audit.meta.exercises] == ["each", "all"]
    assert audit.starter.stubs == {"scaled": "multiply", "Total.of": 'add up what "scaled" gives'}
    assert set(audit.beside) == {"scale.py", "worker.py"}
    assert audit.parameters == {"FACTOR": 3}
    assert audit.make == "PROJECT=tiny-audit" and audit.meta.exercises[1].needs == ("scaled", "Total")


@pytest.mark.parametrize(
    ("file", "old", "new", "what"),
    [
        ("project.toml", 'id = "tiny-audit"', 'id = "other-name"', "is not the folder's name"),
        ("project.toml", 'needs = ["scaled"]', 'needs = ["gone"]', "gone is no stub of scale.py"),
        ("project.toml", 'files = ["worker.py"]', 'files = ["worker.py", "lost.py"]', "lost.py: the file is missing"),
        ("project.toml", 'after = ["tiny-01"]', 'after = ["tiny-09"]', "unknown prerequisite 'tiny-09'"),
        ("project.toml", 'id = "each"', 'id = "eech"', "there is no cell 'eech' in stages.py"),
        ("project.toml", "draw = { FACTOR = [5, 400] }", "draw = { OTHER = [5, 400] }", "OTHER is not a parameter"),
        ("project.toml", 'module = "scale.py"', 'module = "../scale.py"', "module"),
        ("stages.py", 'role="stage"', 'role="exercise"', "unknown role 'exercise'"),
        ("solution/scale.py", "# project: tiny-audit", "# project: else", "does not say of which project"),
    ],
)
def test_a_fault_is_named_and_the_rest_is_still_there(audit_copy, file, old, new, what):
    path = audit_copy / "projects" / "tiny-audit" / file
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new), encoding="utf-8")
    with pytest.raises(CourseError, match=what.replace("(", r"\(")):
        load(audit_copy)
    assert [lesson.id for lesson in survey(audit_copy).lessons] == ["tiny-01"]


def test_what_a_run_depends_on_changes_the_digest(audit, audit_copy):
    folder = audit_copy / "projects" / "tiny-audit"
    seen = {audit.digest}
    for file, old, new in (
        ("worker.py", "import sys", "import sys  # changed"),
        ("solution/scale.py", "number * factor", "factor * number"),
        ("stages.py", "numbers = [1, 2, 3]", "numbers = [1, 2, 4]"),
        ("project.toml", "return number + factor", "return factor + number"),
    ):
        path = folder / file
        path.write_text(path.read_text(encoding="utf-8").replace(old, new), encoding="utf-8")
        seen.add(load(audit_copy).project("tiny-audit").digest)
    assert len(seen) == 5
    path = folder / "project.toml"
    path.write_text(path.read_text(encoding="utf-8").replace("Multiply.", "Multiply them."), encoding="utf-8")
    assert load(audit_copy).project("tiny-audit").digest in seen


def test_without_its_solution_a_project_is_read_from_the_original(audit, audit_copy):
    folder = audit_copy / "projects" / "tiny-audit"
    (folder / "original").mkdir()
    (folder / "original" / "scale.py").write_text(audit.starter.source, encoding="utf-8")
    shutil.rmtree(folder / "solution")
    found = load(audit_copy).project("tiny-audit")
    assert not found.complete and found.starter == audit.starter and set(found.beside) == {"worker.py"}
