"""Writing, drift, and above all: nothing that a learner wrote is overwritten or lost."""

from __future__ import annotations

import json
import shutil
from datetime import datetime

import pytest

from course import catalogue
from course.errors import CourseError
from publish import build as building
from publish import ipynb

REFERENCE = "phases/06-small/01-pad/small-01.ipynb"
NOTEBOOK, SCRIPT, EVIDENCE = "exercises/small-01.ipynb", "exercises/small-01.py", "exercises/small-01-evidence.md"
ALL = {
    REFERENCE,
    NOTEBOOK,
    SCRIPT,
    EVIDENCE,
    "exercises/README.md",
    "exercises/manifest.json",
    "phases/06-small/README.md",
    *(f"docs/schemas/{name}.schema.json" for name in ("course", "phase", "glossary", "lesson", "project", "quiz", "receipt")),
}


def tree(root):
    """Every file of the course with its bytes."""
    return {path.relative_to(root).as_posix(): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def manifest(small):
    return json.loads((small.exercises / "manifest.json").read_text())["files"]


def clean(small):
    report = building.check(small.load())
    return not report.drift and not report.problems and not report.kept


@pytest.fixture
def built(small):
    report = building.build(small.load())
    assert report.problems == []
    return small


def edit(built, path=SCRIPT, text="# my own line\n"):
    file = built.root / path
    file.write_bytes(file.read_bytes() + text.encode())
    return file.read_bytes()


def test_a_build_writes_everything_and_a_second_one_nothing(small):
    before = tree(small.root)
    report = building.build(small.load())
    after = tree(small.root)
    assert set(after) - set(before) == ALL
    assert all(after[path] == before[path] for path in before)
    assert {line.removeprefix("wrote ") for line in report.done} == ALL
    times = {path: (small.root / path).stat().st_mtime_ns for path in ALL}
    report = building.build(small.load())
    assert (report.done, report.kept, report.problems) == ([], [], [])
    assert {path: (small.root / path).stat().st_mtime_ns for path in ALL} == times
    assert clean(small)


def test_every_generated_file_ends_with_one_newline_and_has_no_carriage_return(built):
    for path in ALL:
        data = (built.root / path).read_bytes()
        assert data.endswith(b"\n")
        assert not data.endswith(b"\n\n")
        assert b"\r" not in data


def test_a_check_changes_nothing(small):
    before = tree(small.root)
    report = building.check(small.load())
    assert len(report.drift) == len(ALL)
    assert tree(small.root) == before


CHANGES = {
    "words": ("lesson.md", "Divide by what is real.", "Divide by what is there.", {REFERENCE}),
    "task": ("lesson.toml", "Pad the row to", "Fill the row to", {REFERENCE, NOTEBOOK, SCRIPT}),
    "reasoning": ("lesson.toml", "REASONING-ONLY", "another reason", {REFERENCE}),
    "quiz": ("quiz.toml", "Why 3?", "Wherefore?", {REFERENCE}),
    "minutes": (
        "lesson.toml",
        "minutes = 10",
        "minutes = 11",
        {REFERENCE, NOTEBOOK, SCRIPT, "exercises/README.md", "phases/06-small/README.md"},
    ),
    "evidence": ("lesson.toml", "It shows the zeros.", "It shows zeros.", {REFERENCE, EVIDENCE}),
    "phase": ("../phase.toml", "You can add.", "You can add up.", {"phases/06-small/README.md"}),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_changed_source_is_drift_in_the_files_it_goes_into(built, change):
    path, old, new, stale = CHANGES[change]
    built.change(path, old, new)
    report = building.check(built.load())
    learner = any(one.startswith("exercises/") for one in stale)
    assert {line.partition(":")[0] for line in report.drift} == stale | ({"exercises/manifest.json"} if learner else set())
    assert all("make build" in line for line in report.drift)
    assert building.build(built.load()).kept == []
    assert clean(built)


def test_a_changed_receipt_is_drift(built):
    facts = {"total": built.record().facts["total"].model_copy(update={"data": 13.0})}
    built.record(facts=facts)
    report = building.check(built.load())
    assert any(line.startswith(f"{REFERENCE}: not what its source gives now") for line in report.drift)


@pytest.mark.parametrize("path", sorted(ALL))
def test_a_missing_file_is_drift_and_comes_back(built, path):
    before = tree(built.root)
    (built.root / path).unlink()
    report = building.check(built.load())
    assert any(line.startswith(f"{path}: ") for line in report.drift)
    building.build(built.load())
    assert tree(built.root) == before


@pytest.mark.parametrize("path", ["phases/06-small/README.md", "docs/schemas/lesson.schema.json", REFERENCE])
def test_a_generated_file_that_was_changed_is_drift_and_is_replaced(built, path):
    before = (built.root / path).read_text()
    (built.root / path).write_text(before.replace("Small", "Tall").replace("lesson", "less"))
    assert [line.partition(":")[0] for line in building.check(built.load()).drift] == [path]
    building.build(built.load())
    assert (built.root / path).read_text() == before


def test_notes_in_a_reference_notebook_go_to_a_backup(built):
    text = (built.root / REFERENCE).read_text().replace("Divide by what is real.", "My note.")
    (built.root / REFERENCE).write_text(text)
    (line,) = building.build(built.load()).done
    assert "changed by hand" in line
    (copy,) = (built.root / "backups").rglob("small-01.ipynb")
    assert copy.read_text() == text
    assert copy.relative_to(built.root).as_posix() in line
    assert clean(built)


def test_a_readme_that_was_never_generated_goes_to_a_backup(small):
    (small.folder.parent / "README.md").write_text("# By hand\n")
    building.build(small.load())
    (copy,) = (small.root / "backups").rglob("README.md")
    assert copy.read_text() == "# By hand\n"


@pytest.mark.parametrize("path", [NOTEBOOK, SCRIPT, EVIDENCE, "exercises/README.md"])
def test_an_edited_file_is_kept_and_said(built, path):
    mine = edit(built, path, " ")
    entries = manifest(built)
    for _ in range(2):
        report = building.build(built.load())
        assert report.done == []
        (line,) = report.kept
        assert line.startswith(f"kept {path}: you have edited it")
        if "README" not in path:
            assert "`make reset LESSON=small-01` brings the original back (with a backup)" in line
    assert (built.root / path).read_bytes() == mine
    assert manifest(built) == entries
    report = building.check(built.load())
    assert report.drift == []
    assert len(report.kept) == 1


def test_an_edited_file_is_kept_when_the_lesson_moves_on_and_its_entry_stays(built):
    mine = edit(built)
    entries = manifest(built)
    built.change("lesson.toml", "Pad the row to", "Fill the row to")
    report = building.build(built.load())
    assert len(report.kept) == 1
    assert (built.root / SCRIPT).read_bytes() == mine
    assert b"Fill the row to" in (built.root / NOTEBOOK).read_bytes()
    assert manifest(built)["small-01.py"] == entries["small-01.py"]
    assert manifest(built)["small-01.ipynb"] != entries["small-01.ipynb"]
    report = building.check(built.load())
    assert report.drift == []
    assert len(report.kept) == 1


@pytest.mark.parametrize("text", [None, "", "not JSON", "[]", '{"files": 1}', '{"files": {"small-01.py": 7}}'])
def test_a_lost_or_broken_manifest_loses_nothing(built, text):
    mine = edit(built)
    before = manifest(built)
    if text is None:
        (built.exercises / "manifest.json").unlink()
    else:
        (built.exercises / "manifest.json").write_text(text)
    assert any(line.startswith("exercises/manifest.json") for line in building.check(built.load()).drift)
    built.change("lesson.toml", "Pad the row to", "Fill the row to")
    report = building.build(built.load())
    assert (built.root / SCRIPT).read_bytes() == mine
    assert any(SCRIPT in line for line in report.kept)
    assert "small-01.py" not in manifest(built)
    assert set(manifest(built)) <= set(before)


def test_other_line_ends_alone_are_no_edit(built):
    for path in ALL:
        file = built.root / path
        file.write_bytes(file.read_bytes().replace(b"\n", b"\r\n"))
    assert clean(built)
    assert building.build(built.load()).done == []
    built.change("lesson.toml", "Pad the row to", "Fill the row to")
    report = building.build(built.load())
    assert report.kept == []
    assert not (built.root / "backups").exists()
    file = built.root / SCRIPT
    file.write_bytes(file.read_bytes().replace(b"\n", b"\r\n") + b"# mine\r\n")
    assert len(building.build(built.load()).kept) == 1


def drop_lesson(built):
    """Make the phase a planned one: its lesson is gone, what was generated for it stays."""
    for name in ("lesson.toml", "lesson.md", "quiz.toml", "receipt.json"):
        (built.folder / name).unlink()
    shutil.move(built.folder.parent, built.root / "elsewhere")


def test_files_that_no_lesson_produces_are_drift_and_are_removed(built):
    drop_lesson(built)
    report = building.check(built.load())
    assert {line.partition(":")[0] for line in report.drift} >= {NOTEBOOK, SCRIPT, EVIDENCE}
    assert any("no lesson produces it any more" in line for line in report.drift)
    building.build(built.load())
    assert sorted(path.name for path in built.exercises.iterdir()) == ["README.md", "manifest.json"]
    assert list(manifest(built)) == ["README.md"]
    assert clean(built)


def test_an_edited_file_of_a_vanished_lesson_is_left(built):
    mine = edit(built)
    drop_lesson(built)
    for _ in range(2):
        report = building.build(built.load())
        assert report.kept == [f"left {SCRIPT}: no lesson produces it any more, but it has been edited"]
        assert (built.root / SCRIPT).read_bytes() == mine
    assert building.check(built.load()).drift == []


def test_files_of_the_learner_beside_ours_are_not_ours(built):
    (built.exercises / "notes.md").write_text("mine")
    (built.exercises / "small-01-copy.ipynb").write_bytes((built.root / NOTEBOOK).read_bytes())
    assert clean(built)
    building.build(built.load())
    assert (built.exercises / "notes.md").read_text() == "mine"


def test_an_extra_reference_notebook_is_drift_but_a_changed_copy_is_left(built):
    extra = built.folder / "old-01.ipynb"
    extra.write_bytes((built.root / REFERENCE).read_bytes())
    own = built.folder / "small-01-Copy1.ipynb"
    own.write_text((built.root / REFERENCE).read_text().replace("Divide by", "I divide by"))
    foreign = built.folder / "mine.ipynb"
    foreign.write_text('{"cells": [], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}')
    assert not ipynb.is_sealed(own.read_text())
    report = building.check(built.load())
    assert [line.partition(":")[0] for line in report.drift] == ["phases/06-small/01-pad/old-01.ipynb"]
    assert len(report.kept) == 1
    building.build(built.load())
    assert not extra.exists()
    assert own.exists()
    assert foreign.exists()


def test_schemas_of_another_room_are_not_ours(built):
    results = built.root / "docs" / "schemas" / "results.schema.json"
    results.write_text('{"$comment": "Generated by graders"}')
    old = built.root / "docs" / "schemas" / "old.schema.json"
    old.write_bytes((built.root / "docs/schemas/quiz.schema.json").read_bytes())
    assert [line.partition(":")[0] for line in building.check(built.load()).drift] == ["docs/schemas/old.schema.json"]
    building.build(built.load())
    assert results.exists()
    assert not old.exists()


def test_a_manifest_cannot_lead_out_of_its_folder(built):
    entries = manifest(built)
    target = built.root / "phases" / "06-small" / "README.md"
    entries["../phases/06-small/README.md"] = building.digest(target.read_bytes())
    entries[".."] = "x"
    (built.exercises / "manifest.json").write_text(json.dumps({"files": entries}))
    building.build(built.load())
    assert target.exists()
    assert not any("/" in name or name == ".." for name in manifest(built))


def test_a_lesson_that_cannot_be_built_stops_no_other_file(built):
    add_lesson(built)
    built.change("lesson.toml", "Pad the row to", "Fill the row to")
    report = building.build(built.load())
    assert [problem.file for problem in report.problems] == ["phases/06-small/02-again/receipt.json"]
    assert "make record LESSON=small-02" in report.problems[0].remedy
    assert "Fill the row to" in (built.root / REFERENCE).read_text()
    assert "small-02" in (built.exercises / "README.md").read_text()
    # An old receipt keeps what was made with it.
    built.change("code/main.py", "SLOTS = 4", "SLOTS = 5")
    before = tree(built.root)
    report = building.build(built.load())
    assert len(report.problems) == 2
    assert tree(built.root) == before
    assert building.check(built.load()).drift == []


def add_lesson(small):
    """A second lesson, like the first, not recorded."""
    other = small.folder.parent / "02-again"
    shutil.copytree(small.folder, other, ignore=shutil.ignore_patterns("*.ipynb", "receipt.json"))
    for name in ("lesson.toml", "code/main.py"):
        file = other / name
        file.write_text(file.read_text().replace("small-01", "small-02"))
    phase = small.folder.parent / "phase.toml"
    text = phase.read_text().replace('lessons = ["01-pad"]', 'lessons = ["01-pad", "02-again"]')
    phase.write_text(text + '[[milestone]]\nlesson = "small-02"\ntext = "Again."\n')
    return other


def test_a_lesson_that_cannot_be_read_loses_no_file_and_stops_no_other(built):
    other = add_lesson(built)
    (other / "receipt.json").write_text((built.folder / "receipt.json").read_text().replace("small-01", "small-02"))
    digest = catalogue.load_lesson(other, built.root).digest
    receipt = json.loads((other / "receipt.json").read_text()) | {"digest": digest}
    (other / "receipt.json").write_text(json.dumps(receipt))
    assert building.build(built.load()).problems == []
    assert clean(built)
    before = tree(built.root)
    built.change("lesson.toml", "minutes = 10", "minutes = 0")
    file = other / "lesson.toml"
    file.write_text(file.read_text().replace("Pad the row to", "Fill the row to"))
    report = building.build(catalogue.survey(built.root))
    assert [problem.key for problem in report.problems] == ["minutes"]
    after = tree(built.root)
    assert set(before) == set(after)
    changed = {path for path in after if after[path] != before[path] and not path.endswith(".toml")}
    assert changed == {
        "phases/06-small/02-again/small-02.ipynb",
        "exercises/small-02.ipynb",
        "exercises/small-02.py",
        "exercises/manifest.json",
    }
    assert building.check(catalogue.survey(built.root)).drift == []
    assert building.build(catalogue.survey(built.root), "small-02").problems == []


def test_one_lesson_alone(small):
    building.build(small.load(), "small-01")
    assert {path for path in ALL if (small.root / path).exists()} == {
        REFERENCE,
        NOTEBOOK,
        SCRIPT,
        EVIDENCE,
        "exercises/manifest.json",
    }
    assert building.check(small.load(), "small-01").drift == []
    with pytest.raises(CourseError, match="there is no lesson or project 'small-09'"):
        building.build(small.load(), "small-09")


def test_a_folder_in_the_place_of_a_file_is_a_plain_fault(small):
    (small.root / SCRIPT).mkdir(parents=True)
    with pytest.raises(CourseError, match="a folder stands where a file is generated"):
        building.build(small.load())


def test_reset_brings_the_original_back_and_keeps_a_backup(built):
    original = (built.root / SCRIPT).read_bytes()
    mine = edit(built)
    report = building.reset(built.load(), "small-01")
    assert (built.root / SCRIPT).read_bytes() == original
    (copy,) = (path for path in (built.root / "backups").rglob("*") if path.is_file())
    assert copy.name == "small-01.py"
    assert copy.read_bytes() == mine
    datetime.strptime(copy.parent.name, "%Y%m%dT%H%M%SZ")
    assert report.done == [f"brought back {SCRIPT}; yours is in {copy.relative_to(built.root).as_posix()}"]
    assert clean(built)


def test_resets_within_a_second_never_share_a_backup(built, monkeypatch):
    class Still(datetime):
        @classmethod
        def now(cls, tz=None):
            return cls(2026, 1, 2, 3, 4, 5, tzinfo=tz)

    monkeypatch.setattr(building, "datetime", Still)
    written = []
    for number in range(3):
        written.append(edit(built, SCRIPT, f"# attempt {number}\n"))
        building.reset(built.load(), "small-01")
    folders = sorted(path.name for path in (built.root / "backups").iterdir())
    assert folders == ["20260102T030405Z", "20260102T030405Z-2", "20260102T030405Z-3"]
    assert [(built.root / "backups" / name / "small-01.py").read_bytes() for name in folders] == written


def test_reset_without_edits_does_nothing(built):
    before = tree(built.root)
    report = building.reset(built.load(), "small-01")
    assert report.done == []
    assert tree(built.root) == before


def test_reset_brings_a_kept_file_up_to_the_lesson(built):
    mine = edit(built)
    built.change("lesson.toml", "Pad the row to", "Fill the row to")
    building.build(built.load())
    building.reset(built.load(), "small-01")
    assert b"Fill the row to" in (built.root / SCRIPT).read_bytes()
    (copy,) = (built.root / "backups").rglob("small-01.py")
    assert copy.read_bytes() == mine
    assert clean(built)


def test_reset_of_one_file_leaves_the_others(built):
    mine = {path: edit(built, path, "\n") for path in (SCRIPT, EVIDENCE)}
    building.reset(built.load(), "small-01", "small-01.py")
    assert (built.root / SCRIPT).read_bytes() != mine[SCRIPT]
    assert (built.root / EVIDENCE).read_bytes() == mine[EVIDENCE]
    with pytest.raises(CourseError, match=r"'small-01.txt' is none.*small-01-evidence.md"):
        building.reset(built.load(), "small-01", "small-01.txt")


def test_reset_that_cannot_make_the_original_touches_nothing(built):
    mine = edit(built)
    built.change("lesson.toml", "Count the empty slots.", "{recorded}`nothing`")
    before = tree(built.root)
    with pytest.raises(CourseError, match="nothing recorded"):
        building.reset(built.load(), "small-01")
    assert tree(built.root) == before
    assert (built.root / SCRIPT).read_bytes() == mine


def test_reset_that_cannot_make_a_backup_touches_nothing(built):
    mine = edit(built)
    (built.root / "backups").write_text("a file where the folder should be")
    with pytest.raises(OSError):  # noqa: PT011 - which one differs between platforms
        building.reset(built.load(), "small-01")
    assert (built.root / SCRIPT).read_bytes() == mine


def test_reset_brings_back_what_was_deleted(built):
    before = tree(built.root)
    (built.root / NOTEBOOK).unlink()
    report = building.reset(built.load(), "small-01")
    assert len(report.done) == 1
    assert tree(built.root) == before
