"""The course as a whole: every fault names file, key and remedy."""

import re
import shutil

import pytest

from course.catalogue import find_root, load, survey
from course.errors import CourseError

LESSON = "phases/01-tiny/01-double"


@pytest.fixture
def course(root, tmp_path):
    target = tmp_path / "course"
    shutil.copytree(root / "tests" / "fixtures" / "course", target)
    return target


def change(course, file, old, new):
    path = course / file
    text = path.read_text(encoding="utf-8")
    assert old in text, f"the fixture has changed: no {old!r}"
    path.write_text(text.replace(old, new, 1), encoding="utf-8")


def test_a_sound_course_is_read(course):
    catalogue = load(course)
    assert [lesson.id for lesson in catalogue.lessons] == ["tiny-01"]
    assert [phase.planned for phase in catalogue.phases] == [True, False]


FAULTS = [
    (f"{LESSON}/lesson.toml", 'title = "Double"', 'title = "Double"\ncolour = "red"', "colour: unknown key", "known keys: "),
    (f"{LESSON}/lesson.toml", "points = 2", "point = 2", "exercise[0].point: unknown key", "points"),
    (f"{LESSON}/lesson.toml", "minutes = 1", "", "minutes: the key is missing", "docs/lesson-format.md"),
    (f"{LESSON}/lesson.toml", "minutes = 1", 'minutes = "long"', "minutes: ", "change the value"),
    (f"{LESSON}/lesson.toml", 'after = ["00"]', 'after = ["99"]', "after: unknown prerequisite '99'", "name a phase"),
    (f"{LESSON}/lesson.toml", 'after = ["00"]', 'after = ["tiny-01"]', "a cycle: tiny-01 -> tiny-01", "take one"),
    (
        f"{LESSON}/lesson.toml",
        'id = "double", text',
        'id = "other", text',
        "exercise[0].meets: unknown objective 'double'",
        "use one of: other",
    ),
    (f"{LESSON}/lesson.toml", 'id = "function"', 'id = "double"', "exercise: 'double' stands twice", "its own id"),
    (
        f"{LESSON}/lesson.toml",
        '[[exercise]]\nid = "function"',
        '[[exercise]]\nid = "funktion"',
        "there is no cell 'funktion'",
        'role="exercise"',
    ),
    (f"{LESSON}/lesson.toml", 'cell = "look"', 'cell = "numbers"', "has the role 'build'", 'role="figure"'),
    (
        f"{LESSON}/lesson.toml",
        "variants = [{ N = 5 }, { N = 7 }]",
        "variants = [{ M = 5 }]",
        "variants[0]: M is not a parameter",
        "use one of: N, SEED",
    ),
    (f"{LESSON}/lesson.toml", "draw = { N = [10, 400] }", "draw = { N = [10, 4] }", "high must be greater", "change the value"),
    (f"{LESSON}/lesson.toml", 'doubled = "exact"', 'doubled = "nearly"', "exercise[0].probes.doubled", "change the value"),
    (f"{LESSON}/lesson.toml", 'doubled = "exact"', '"doubled +" = "exact"', "is not an expression", "change the value"),
    (f"{LESSON}/lesson.toml", 'code = "mean = sum(numbers) / N"', 'code = "mean ="', "is not valid Python", "change the value"),
    (f"{LESSON}/lesson.toml", "format = 1", "format = 2", "format: ", "change the value"),
    (
        f"{LESSON}/lesson.toml",
        'id = "tiny-01"',
        'id = "tiny-02"',
        "by its place in phase.toml this is tiny-01",
        'write id = "tiny-01"',
    ),
    (f"{LESSON}/lesson.toml", 'cell = "numbers"', 'cell = "nowhere"', "fact[0].cell: there is no cell 'nowhere'", "name a cell"),
    (f"{LESSON}/lesson.toml", "[[figure]]", "[[figure", "not valid TOML", "mend the line"),
    (f"{LESSON}/quiz.toml", 'id = "two"', 'id = "one"', "question: id 'one' stands twice", "its own id"),
    (
        f"{LESSON}/quiz.toml",
        'meets = "double"',
        'meets = "halve"',
        "question[0].meets: unknown objective 'halve'",
        "use one of: double",
    ),
    (f"{LESSON}/quiz.toml", "correct = true, ", "", "exactly one option", "change the value"),
    (
        "phases/01-tiny/phase.toml",
        'lessons = ["01-double"]',
        'lessons = ["01-double", "01-double"]',
        "'01-double' stands twice",
        "list each folder once",
    ),
    (
        "phases/01-tiny/phase.toml",
        'lessons = ["01-double"]',
        'lessons = ["02-more"]',
        "a lesson that phase.toml does not list",
        "add it to `lessons`",
    ),
    ("phases/01-tiny/phase.toml", 'lesson = "tiny-01"', 'lesson = "tiny-07"', "unknown lesson 'tiny-07'", "name a lesson"),
    ("phases/01-tiny/phase.toml", 'title = "Tiny"', 'title = "Huge"', "not the id and title", 'title = "Tiny"'),
    ("course.toml", 'after = ["00"]', 'after = ["07"]', "unknown phase '07'", "use one of: 00, 01"),
    ("course.toml", 'after = ["00"]', 'after = ["01"]', "a cycle: 01 -> 01", "take one"),
    ("course.toml", 'id = "00"', 'id = "01"', "id '01' stands twice", "another"),
    (
        "course.toml",
        'folder = "01-tiny"',
        'folder = "02-tiny"',
        "a phase folder that course.toml does not list",
        "add it to course.toml",
    ),
]


@pytest.mark.parametrize(("file", "old", "new", "what", "remedy"), FAULTS, ids=[f"{i:02d}" for i in range(len(FAULTS))])
def test_a_fault_names_file_key_and_remedy(course, file, old, new, what, remedy):
    change(course, file, old, new)
    with pytest.raises(CourseError) as caught:
        load(course)
    said = str(caught.value)
    assert what in said
    assert remedy in said
    assert all(re.match(r"^[\w./-]+:? .* — .+", str(problem)) for problem in caught.value.problems)


@pytest.mark.parametrize(
    "file",
    [
        f"{LESSON}/lesson.toml",
        f"{LESSON}/quiz.toml",
        f"{LESSON}/lesson.md",
        f"{LESSON}/code/main.py",
        "phases/01-tiny/phase.toml",
        "course.toml",
    ],
)
def test_a_missing_file_is_named(course, file):
    (course / file).unlink()
    with pytest.raises(CourseError) as caught:
        load(course)
    assert f"{file}: the file is missing" in str(caught.value) or "phases/01-tiny" in str(caught.value)


def test_all_faults_are_found_in_one_reading(course):
    change(course, f"{LESSON}/lesson.toml", 'cell = "look"', 'cell = "nowhere"')
    change(course, f"{LESSON}/quiz.toml", 'meets = "double"', 'meets = "halve"')
    with pytest.raises(CourseError) as caught:
        load(course)
    assert {"nowhere", "halve"} <= set(re.findall(r"'(\w+)'", str(caught.value)))


def test_a_broken_lesson_does_not_hide_the_others(course):
    shutil.copytree(course / LESSON, course / "phases/01-tiny/02-again")
    change(course, "phases/01-tiny/phase.toml", 'lessons = ["01-double"]', 'lessons = ["01-double", "02-again"]')
    catalogue = survey(course)
    assert catalogue.lesson("tiny-01").id == "tiny-01"
    assert catalogue.problems
    with pytest.raises(CourseError):
        load(course)


def test_the_digest_follows_code_and_checks_but_not_words(course):
    before = load(course).lesson("tiny-01").digest
    change(course, f"{LESSON}/lesson.toml", "This adds the factor.", "This adds it.")
    change(course, f"{LESSON}/lesson.md", "Numbers can be doubled.", "They can.")
    assert load(course).lesson("tiny-01").digest == before
    change(course, f"{LESSON}/lesson.toml", 'mean = "close"', 'mean = "exact"')
    changed = load(course).lesson("tiny-01").digest
    assert changed != before
    change(course, f"{LESSON}/code/main.py", "N = 3", "N = 4")
    assert load(course).lesson("tiny-01").digest not in {before, changed}


def test_the_root_is_found_from_below(course, tmp_path):
    assert find_root(course / LESSON) == course.resolve()
    with pytest.raises(CourseError, match=r"course\.toml"):
        find_root(tmp_path)


def test_the_course_of_this_repository_is_sound(root):
    catalogue = load(root)
    assert [phase.entry.id for phase in catalogue.phases] == [f"{n:02d}" for n in range(22)]
