"""The sample class: its files are what its source gives, and its verdicts are those of the table.

`.ci/run` grades the whole class; here, the first lesson's thirteen learners, who show every kind of verdict but ERROR.
"""

import csv
import os
import subprocess
import sys

from course.catalogue import load


def table(root):
    with (root / "examples" / "expected.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def run(root, *words):
    env = {**os.environ, "PYTHONUTF8": "1"}
    return subprocess.run(
        [sys.executable, "-m", *map(str, words)], cwd=root, env=env, capture_output=True, text=True, encoding="utf-8", check=False
    )


def test_the_class_is_what_its_source_gives(root):
    done = run(root, "examples.make", "--check")
    assert done.returncode == 0, done.stdout


def test_the_table_names_every_exercise_of_every_submission(root):
    rows = table(root)
    handed_in = {
        (path.parent.name, path.stem) for path in (root / "examples" / "class").glob("*/*") if not path.name.startswith(".")
    }
    exercises = {lesson.id: [exercise.id for exercise in lesson.meta.exercises] for lesson in load(root).lessons}
    wanted = {(learner, lesson, exercise) for learner, lesson in handed_in for exercise in exercises[lesson]}
    assert wanted == {(row["learner"], row["lesson"], row["exercise"]) for row in rows if row["learner"] != "Nguyễn"}
    assert len(rows) == len(wanted) + len(exercises["recovery-01"])  # one learner has handed in nothing
    assert {row["verdict"] for row in rows} == {"PASS", "FAIL", "TIMEOUT", "UNSOLVED"}
    assert {row["lesson"] for row in rows if row["verdict"] == "PASS"} == set(exercises)


def test_the_table_of_the_projects_names_every_stage_of_every_module(root):
    with (root / "examples" / "projects.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    projects = {project.meta.module: project for project in load(root).projects}
    wanted = {
        (path.parent.name, projects[path.name].id, stage.id)
        for path in (root / "examples" / "projects").glob("*/*.py")
        for stage in projects[path.name].meta.exercises
    }
    assert wanted == {(row["learner"], row["lesson"], row["exercise"]) for row in rows} and len(rows) == len(wanted)
    assert {row["verdict"] for row in rows} == {"PASS", "FAIL", "UNSOLVED"}


def test_the_first_lesson_gets_the_verdicts_of_the_table(root, tmp_path):
    done = run(
        root,
        "graders",
        "grade",
        "examples/class",
        "--lesson",
        "recovery-01",
        "--expect",
        "examples/expected.csv",
        "--out",
        tmp_path,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    count = sum(row["lesson"] == "recovery-01" for row in table(root))
    assert f"all {count} verdicts are those of examples/expected.csv" in done.stdout
