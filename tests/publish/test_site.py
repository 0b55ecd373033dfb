"""The site of the small course: what its pages show, what stops the build, what is made again, and what can be taken along."""

from __future__ import annotations

import hashlib
import io
import json
import re
import shutil
import subprocess
import zipfile
from pathlib import Path

import pytest

from course import catalogue
from course.errors import CourseError
from course.receipt import FigureRecord
from publish import bundle, exercises
from publish.site import build as building
from publish.site import keys

ROOT = Path(__file__).resolve().parents[2]
PAGE = "phases/06-small/small-01.html"
PNG = "plot.png"


class Pages:
    """The small course with everything that a site needs."""

    def __init__(self, small, folder: Path) -> None:
        self.small, self.folder = small, folder

    def record(self) -> None:
        figures = self.small.folder / "figures"
        figures.mkdir(exist_ok=True)
        (figures / "plot.svg").write_text('<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 1 1"/>', encoding="utf-8")
        provenance = {"code_sha256": "c" * 64, "environment": {"python": "3.11.7"}}
        (figures / "plot.json").write_text(json.dumps({"provenance": provenance, "figures": []}), encoding="utf-8")
        self.small.record()  # writes the image
        digests = {
            kind: hashlib.sha256((figures / f"plot.{suffix}").read_bytes()).hexdigest()
            for kind, suffix in (("svg", "svg"), ("png", "png"), ("data", "json"))
        }
        self.small.record(figures={"plot": FigureRecord(**digests)})

    def build(self, folder: Path | None = None, **options):
        return building.build(catalogue.load(self.small.root), folder or self.folder, **options)

    def problems(self) -> str:
        with pytest.raises(CourseError) as caught:
            self.build()
        print(*caught.value.problems, sep="\n")
        return "\n".join(map(str, caught.value.problems))

    def read(self, path: str = PAGE) -> str:
        return (self.folder / path).read_text(encoding="utf-8")

    def bytes(self) -> dict[str, bytes]:
        return tree(self.folder)


def tree(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


@pytest.fixture
def pages(small) -> Pages:
    for name in ("requirements-cpu.txt", "environment.py", "pyproject.toml", "LICENSE", ".gitignore", ".gitattributes"):
        shutil.copy(ROOT / name, small.root)
    for name in ("Makefile", "README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md"):
        (small.root / name).write_text(f"# {name}\n\nWords.\n", encoding="utf-8")
    (small.root / "docs").mkdir()
    (small.root / "docs" / "grading.md").write_text("# Grading\n\nSee [the course](../course.toml).\n", encoding="utf-8")
    made = Pages(small, small.root / "_site")
    made.record()
    return made


def attribute(text: str, name: str) -> list[str]:
    return re.findall(rf'{name}="([^"]*)"', text)


def test_a_lesson_page_keeps_its_promises(pages):
    result = pages.build()
    text = pages.read()
    assert result.pages == result.written
    assert result.links > 100
    assert re.findall(r'<section class="stage" data-stage="([^"]*)" id="([^"]*)"', text) == [
        (one, one) for one in ("understand", "build-run", "experiment", "exercise-check", "evidence")
    ]
    assert '<meta name="course-page" content="lesson">' in text
    assert '<meta name="course-unit" content="small-01">' in text
    assert '<link rel="icon" href="data:image/svg+xml,' in text  # a browser asks for one in any case
    data = json.loads(pages.read("_static/course-data.js").removeprefix("window.courseData = ").removesuffix(";\n"))
    (unit,) = data["phases"][0]["units"]
    assert unit["url"] == PAGE
    for kind, things in (("prediction", unit["predictions"]), ("question", unit["questions"])):
        forms = re.findall(rf'<form class="{kind}" data-id="([^"]*)" data-key="([^"]*)"', text)
        assert sorted(forms) == sorted((one["id"], one["key"]) for one in things)
    assert len(unit["questions"]) == 4
    marks = {f"small-01/stage/{one['id']}" for one in unit["stages"]} | {one["id"] for one in unit["exercises"] + unit["evidence"]}
    assert marks == set(attribute("".join(re.findall(r'<input class="done"[^>]*>', text)), "data-id"))
    assert set(attribute(text, "data-for")) == {one["id"] for one in unit["predictions"]}
    assert {"small-01/exercise/pad/hint-1", "small-01/exercise/pad/hint-2", "small-01/exercise/pad/solution"} <= set(
        attribute(text, "data-id")
    )
    assert 'alt="Three points; their sum is 12.0."' in text
    # Each option's answer is there once, and exactly one of each form is right.
    for form in re.findall(r"<form class=\"(?:prediction|question).*?</form>", text, re.DOTALL):
        assert sorted(attribute(form, "value")) == sorted(attribute(form, "data-option"))
        assert attribute(form, "data-correct").count("true") == 1


def test_numbers_are_those_of_the_receipt(pages):
    pages.build()
    assert "their sum <code" not in pages.read()
    assert "their sum 12.00" in pages.read()
    assert "2026-01-02 03:04 UTC" in pages.read()
    data = json.loads((pages.small.folder / "receipt.json").read_text(encoding="utf-8"))
    data["facts"]["total"]["data"] = 13.5
    (pages.small.folder / "receipt.json").write_text(json.dumps(data), encoding="utf-8")
    pages.build()
    assert "their sum 13.50" in pages.read()
    assert "their sum is 13.5." in pages.read()


def test_a_local_observation_is_marked(pages):
    pages.build()
    local = re.search(r"a local observation: it differs.*?Seconds: 0\.25", pages.read(), re.DOTALL)
    assert local
    assert "Values: [2.0" not in local[0]


def test_a_bad_formula_names_lesson_line_and_formula(pages):
    pages.small.change("lesson.md", "Three values and four slots.", "Three values\nand $\\frac{1}{$ slots.")
    said = pages.problems()
    assert re.search(r"phases/06-small/01-pad/lesson\.md:3: the formula '\\\\frac\{1\}\{' cannot be read", said), said
    # What was seen once is not forgotten: a second build must not publish the page.
    assert pages.problems() == said
    pages.small.change("lesson.md", "$\\frac{1}{$", "$\\frac{1}{4}$")
    pages.build()
    assert "<mfrac><mn>1</mn><mn>4</mn></mfrac>" in pages.read()


def test_a_bad_formula_in_a_table_names_its_key(pages):
    pages.small.change("lesson.toml", "Count the empty slots.", "Count $\\\\nothing$.")
    assert "phases/06-small/01-pad/lesson.toml: exercise[0].guide[0]" in pages.problems()


def test_warnings_and_broken_links_are_faults(pages):
    pages.small.change("lesson.md", "Divide by what is real.", "See [there](nowhere.md).")
    assert "phases/06-small/01-pad/lesson.md:54: 'myst' cross-reference target not found: 'nowhere.md'" in pages.problems()
    pages.small.change("lesson.md", "[there](nowhere.md)", '<a href="elsewhere.html">there</a>')
    assert f"{PAGE}: elsewhere.html: there is no such file" in pages.problems()
    pages.small.change("lesson.md", '<a href="elsewhere.html">there</a>', '<img src="https://example.org/x.png" alt="">')
    assert "it is loaded from outside of the site" in pages.problems()


def test_an_unknown_value_is_a_fault(pages):
    pages.small.change("lesson.md", "{recorded}`Values`", "{recorded}`Nothing`")
    assert "nothing recorded is called 'Nothing'" in pages.problems()


def test_a_figure_that_the_receipt_does_not_name_is_a_fault(pages):
    (pages.small.folder / "figures" / "plot.svg").write_text("<svg/>", encoding="utf-8")
    assert "not the figure that the receipt names" in pages.problems()


def test_twice_gives_the_same_bytes_and_writes_nothing(pages):
    pages.build()
    first, times = pages.bytes(), {path: path.stat().st_mtime_ns for path in (pages.folder / "phases").rglob("*.html")}
    assert pages.build().written == 0
    assert pages.bytes() == first
    assert {path: path.stat().st_mtime_ns for path in times} == times
    assert pages.build(fresh=True).written > 5
    assert pages.bytes() == first


def test_a_change_makes_only_its_pages_and_the_same_as_a_fresh_build(pages, tmp_path):
    whole = pages.build().pages
    pages.small.change("lesson.md", "Divide by what is real.", "Divide by what is really there.")
    result = pages.build()
    assert 0 < result.written < whole / 2
    assert "Divide by what is really there." in pages.read()
    assert "Divide by what is really there." in pages.read("phases/06-small/notes.html")
    fresh = pages.build(tmp_path / "fresh", memory=tmp_path / "memory").folder
    assert tree(fresh) == pages.bytes()


def test_a_new_title_reaches_every_page(pages):
    pages.build()
    assert "Pad a row" in pages.read("setup.html")
    pages.small.change("lesson.toml", 'title = "Pad a row"', 'title = "Fill a row"')
    pages.build()
    assert not [path for path, data in pages.bytes().items() if path.endswith(".html") and b"Pad a row" in data]


def test_a_folder_that_is_no_site_is_left_alone(pages, tmp_path):
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "thesis.txt").write_text("mine", encoding="utf-8")
    (mine / "_static").mkdir()  # as another site has it
    with pytest.raises(CourseError, match="not a site"):
        pages.build(mine)
    assert (mine / "thesis.txt").read_text(encoding="utf-8") == "mine"


def test_the_key_of_a_question_is_that_of_its_content(pages):
    def key() -> str:
        return keys.asked(pages.small.lesson.quiz.questions[0])

    before = key()
    pages.small.change("quiz.toml", 'feedback = "Yes."', 'feedback = "Yes, that is so."')
    assert key() == before
    pages.small.change("quiz.toml", 'text = "Why 1?"', 'text = "Why one?"')
    assert key() != before


def test_the_glossary_stands_by_its_lessons(pages):
    file = pages.small.folder.parent / "glossary.toml"
    glossary = file.read_text(encoding="utf-8")
    pages.build()
    assert 'id="padding"' in pages.read("glossary.html")
    file.write_text(glossary.replace('"padding"', '"paddock"'), encoding="utf-8")
    assert "term[0].name: small-01 does not use the word 'paddock'" in pages.problems()
    file.write_text(glossary.replace("small-01", "small-02"), encoding="utf-8")
    assert "term[0].lesson: small-02 is no lesson of this phase" in pages.problems()
    file.write_text(glossary + glossary.replace("format = 1", "").replace("padding", "Padding"), encoding="utf-8")
    assert "term[1].name: 'Padding' stands twice" in pages.problems()


def test_downloads_are_what_the_course_holds(pages):
    (pages.small.root / "exercises").mkdir()
    (pages.small.root / "exercises" / "small-01.py").write_text("mine = 1\n", encoding="utf-8")
    pages.build()
    files = tree(pages.folder / "downloads" / "small-01")
    assert set(files) == {
        "small-01.ipynb", "small-01.py", "small-01-reference.ipynb", "small-01-reference.py", "small-01-given.py", "small-01.md",
        "small-01-evidence.md", "small-01-receipt.json", "plot.svg", "plot.png", "plot.json",
    }  # fmt: skip
    made = exercises.render(pages.small.lesson, {})
    assert b"REASONING-ONLY" not in files["small-01.ipynb"] + files["small-01.py"]
    assert files["small-01.py"] == made["exercises/small-01.py"].encode().replace(b"phase 05", b"phase 05 (What comes before)")
    assert files["small-01-receipt.json"] == (pages.small.folder / "receipt.json").read_bytes()
    assert b"SOLUTION" not in files["small-01-given.py"]
    assert b"numerator" not in files["small-01-given.py"]
    # What a lesson no longer has is gone.
    (pages.folder / "downloads" / "small-01" / "old.txt").write_text("old", encoding="utf-8")
    pages.build()
    assert not (pages.folder / "downloads" / "small-01" / "old.txt").exists()


def test_a_lesson_page_offers_the_zips_that_it_belongs_to(pages):
    pages.build()
    (listed,) = re.findall(r'<details[^>]*data-id="small-01/downloads".*?</details>', pages.read(), re.DOTALL)
    rows = re.findall(r'<a [^>]*href="([^"]*\.zip)"[^>]*>([^<]*)</a>.*?</tr>', listed, re.DOTALL)
    assert rows == [
        ("../../downloads/06-small/06-small-beginner.zip", "To begin with"),
        ("../../downloads/06-small/06-small.zip", "The whole phase"),
        ("../../downloads/training-systems.zip", "The whole course"),
    ]
    for path, _ in rows:
        with zipfile.ZipFile((pages.folder / PAGE).parent / path) as archive:
            assert archive.testzip() is None
    # A size would change with every lesson of the course, and the page with it.
    assert listed.count("kB") == listed.count("<a ") - len(rows)


def unpacked(data: bytes, folder: Path) -> Path:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        assert archive.testzip() is None
        archive.extractall(folder)
    (inside,) = folder.iterdir()
    return inside


def test_the_beginner_zip_answers_nothing(pages, tmp_path):
    course = catalogue.load(pages.small.root)
    made = bundle.generated(course)
    data = bundle.beginner(course.phases[1], course, made)
    assert data == bundle.beginner(course.phases[1], course, made)
    folder = unpacked(data, tmp_path / "unpacked")
    files = tree(folder)
    assert {
        "exercises/small-01.ipynb",
        "exercises/small-01.py",
        "exercises/small-01-evidence.md",
        "environment.py",
        "README.md",
    } <= set(files)
    everything = b"".join(files.values())
    for answer in (b"REASONING-ONLY", b"MISTAKE-CODE", b"numerator", b"len(values))"):
        assert answer not in everything, answer


def test_the_zips_hold_a_course_that_can_be_read(pages, tmp_path):
    course = catalogue.load(pages.small.root)
    (pages.small.root / "exercises").mkdir(exist_ok=True)
    (pages.small.root / "exercises" / "small-01.py").write_text("mine = 1\n", encoding="utf-8")
    made = bundle.generated(course)
    for name, data in (("phase", bundle.phase(course.phases[1], course, made)), ("course", bundle.course(course, made))):
        folder = unpacked(data, tmp_path / name)
        assert [one.id for one in catalogue.load(folder).lessons] == ["small-01"]
        assert b"mine" not in (folder / "exercises" / "small-01.py").read_bytes()
        assert (folder / "phases/06-small/01-pad/small-01.ipynb").is_file()
        assert not [path for path in tree(folder) if "__pycache__" in path or path.startswith(".cache")]


JUNK = (
    "tests/__pycache__/test_a.cpython-311.pyc",
    "examples/.pytest_cache/v/cache/lastfailed",
    "examples/class/.ipynb_checkpoints/small-01-checkpoint.ipynb",
    "examples/backups/small-01.ipynb",
    "examples/runs/evidence/results.json",
    "phases/06-small/01-pad/code/main.py.orig",
    "phases/06-small/01-pad/lesson.md~",
    "docs/.grading.md.swp",
    "tests/runs.sqlite",
)
LOOSE = ("examples/results.json", "tests/report.html", "docs/notes.md", "phases/06-small/01-pad/figures/copy of plot.png")


def plant(root: Path, names: tuple[str, ...]) -> None:
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"junk")


def packed(root: Path) -> dict[str, bytes]:
    """The ZIPs of a course: all of it, and its phase."""
    course = catalogue.load(root)
    made = bundle.generated(course)
    return {"course": bundle.course(course, made), "phase": bundle.phase(course.phases[1], course, made)}


def names_in(data: bytes) -> set[str]:
    return {name.partition("/")[2] for name in zipfile.ZipFile(io.BytesIO(data)).namelist()}


def test_a_zip_takes_what_git_tracks(pages):
    root = pages.small.root
    plant(root, ("examples/class/Ana Pérez/small-01.ipynb", "examples/odd.kind"))
    (root / "examples" / "class" / "Ana Pérez" / "small-01.ipynb").write_text("{}", encoding="utf-8")
    for words in (["init", "--quiet"], ["add", "--all"]):
        subprocess.run(["git", *words], cwd=root, check=True)
    before = packed(root)
    assert {"examples/class/Ana Pérez/small-01.ipynb", "examples/odd.kind"} <= names_in(before["course"])
    plant(root, (*JUNK, *LOOSE))
    assert packed(root) == before
    # What git no longer finds is not there to be taken.
    (root / "examples" / "odd.kind").unlink()
    assert names_in(packed(root)["course"]) == names_in(before["course"]) - {"examples/odd.kind"}


def test_a_zip_takes_a_lesson_of_which_git_knows_nothing_yet(pages):
    root = pages.small.root
    for words in (["init", "--quiet"], ["add", "course.toml", "docs", "phases/06-small/phase.toml"]):
        subprocess.run(["git", *words], cwd=root, check=True)
    plant(root, JUNK)
    for data in packed(root).values():
        assert {"phases/06-small/01-pad/lesson.md", "phases/06-small/01-pad/figures/plot.svg"} <= names_in(data)
        assert not names_in(data) & {*JUNK}


def test_without_git_a_zip_takes_files_of_the_courses_kinds(pages, monkeypatch):
    root = pages.small.root
    before = packed(root)
    assert {"docs/grading.md", "phases/06-small/01-pad/figures/plot.svg"} <= names_in(before["course"])
    plant(root, JUNK)
    assert packed(root) == before
    monkeypatch.setenv("PATH", "")  # no git at all
    assert packed(root) == before


def test_the_courses_kinds_are_those_of_every_file_that_git_tracks():
    tracked = bundle._Files.of(ROOT).tracked
    if not tracked:
        pytest.skip("this is no checkout")
    odd = [path for path in tracked if path.partition("/")[0] in bundle._FOLDERS and not bundle._usual(Path(path))]
    assert odd == []
    assert not [name for name in JUNK if bundle._usual(Path(name))]


def test_words_that_answer_a_prediction_are_shown_with_its_result(pages):
    words = (
        "```{after} plot\nIt rises to {recorded}`total | .0f`, **as a table says**:\n\n| a | b |\n| --- | --- |\n| 1 | 2 |\n```\n"
    )
    pages.small.change("lesson.md", "```{figure} plot\n```\n", f"```{{figure}} plot\n```\n\n{words}\nOpen again.\n")
    pages.build()
    text = pages.read()
    (veiled,) = re.findall(r'<div class="revealed" data-for="small-01/plot">\s*<p>It rises to.*?</div>\s*</div>', text, re.DOTALL)
    assert "It rises to 12, <strong>as a table says</strong>" in veiled
    assert "<td><p>2</p></td>" in veiled
    assert "Open again" not in veiled
    assert text.index('data-id="small-01/plot"') < text.index(veiled) < text.index("Open again.") < text.index('id="build-run"')
    # The page is made again where only the place of the words has changed.
    pages.small.change("lesson.md", words, words.replace("```{after} plot\n", "").replace("| 2 |\n```\n", "| 2 |\n"))
    assert pages.build().written >= 1
    assert pages.read().count('class="revealed" data-for="small-01/plot"') == 1


def test_a_fault_in_words_that_come_after_names_the_line(pages):
    fault = "```{after} plot\nFine.\n\nA formula $\\frac{1}{$ that is none.\n```\n"
    pages.small.change("lesson.md", "```{figure} plot\n```\n", f"```{{figure}} plot\n```\n\n{fault}")
    line = (pages.small.folder / "lesson.md").read_text(encoding="utf-8").split("\n").index("A formula $\\frac{1}{$ that is none.")
    assert f"lesson.md:{line + 1}: the formula" in pages.problems()
