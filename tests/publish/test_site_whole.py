"""The whole site of this course: its numbers, its pages and links, and ZIPs that are unpacked, installed and run."""

from __future__ import annotations

import html
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from course import catalogue
from publish.bundle import generated
from publish.prose import STAGES
from publish.site import links, sheets
from publish.site.downloads import given

ROOT = Path(__file__).resolve().parents[2]
COURSE = catalogue.load(ROOT)
SHEETS = sheets.Sheets(COURSE)


def text_of(page: str) -> str:
    """What a page says, without its marks."""
    return " ".join(html.unescape(re.sub(r"<[^>]+>", "", page)).split())


def test_every_link_leads_somewhere(site):
    findings, count = links.check(site)
    assert findings == []
    assert count > 1000


def test_every_page_is_there(site):
    wanted = {"index", "learning", "setup", "accelerators", "glossary", "docs/grading", "docs/security", "docs/site"}
    wanted |= {sheet.page for sheet in SHEETS.all}
    wanted |= {f"phases/{phase.entry.folder}/{name}" for phase in SHEETS.written for name in ("index", "notes")}
    assert {f"{name}.html" for name in wanted} <= {path.relative_to(site).as_posix() for path in site.rglob("*.html")}


@pytest.mark.parametrize("sheet", SHEETS.all, ids=lambda sheet: sheet.id)
def test_numbers_on_the_page_are_those_of_the_receipt(site, sheet):
    page = (site / f"{sheet.page}.html").read_text(encoding="utf-8")
    said = text_of(page)
    lesson = sheet.kind == "lesson"
    if lesson:
        for line in sheet.receipt.lines:
            assert " ".join(line.text.split()) in said, line
    quoted = re.findall(r"\{recorded\}`([^`]+)`", sheet.unit.words.read_text(encoding="utf-8"))
    assert quoted
    for one in quoted:
        assert " ".join(sheet.recorded.value(one.replace("\\|", "|")).split()) in said, one
    environment = sheet.receipt.environment
    for wanted in (
        sheet.receipt.digest,
        sheet.receipt.lock,
        environment.python,
        *environment.packages.values(),
        *environment.devices,
    ):
        assert wanted in said
    assert "{recorded}" not in said


@pytest.mark.parametrize("sheet", SHEETS.all, ids=lambda sheet: sheet.id)
def test_a_page_offers_the_zips_that_it_belongs_to(site, sheet):
    page = site / f"{sheet.page}.html"
    found = re.findall(r'<a [^>]*href="([^"]*/downloads/[^"]*\.zip)"', page.read_text(encoding="utf-8"))
    folder = sheet.phase.entry.folder
    wanted = {f"{folder}/{folder}-beginner.zip", f"{folder}/{folder}.zip", "training-systems.zip"}
    wanted |= set() if sheet.kind == "lesson" else {f"{sheet.id}/{sheet.id}.zip"}
    assert {(page.parent / one).resolve() for one in found} == {(site / "downloads" / one).resolve() for one in wanted}


@pytest.mark.parametrize("lesson", COURSE.lessons, ids=lambda lesson: lesson.id)
def test_a_lesson_page_offers_everything(site, lesson):
    sheet = SHEETS[lesson.id]
    page = (site / f"{sheet.page}.html").read_text(encoding="utf-8")
    said = text_of(page)
    place = f"lesson {sheet.number} of {len(sheet.phase.lessons)}"
    for wanted in (place, f"{lesson.meta.minutes} minutes", lesson.meta.revision.isoformat(), f"make check LESSON={lesson.id}"):
        assert wanted in said
    assert re.findall(r'data-stage="([^"]*)"', page) == [sheets.stage_id(stage) for stage in STAGES]
    for cell in lesson.cells:
        assert page.count(f'id="cell-{cell.id}"') == 1, cell.id
    for figure in lesson.meta.figures:
        assert f'alt="{html.escape(sheets.plain(sheet.recorded.resolve(figure.alt, "", plain=True)), quote=False)[:60]}' in page
        # Asked before it is shown.
        assert page.index(f'data-id="{lesson.id}/{figure.cell}"') < page.index(f'data-for="{lesson.id}/{figure.cell}"')
    assert page.count('class="option"') == sum(
        len(one.options)
        for one in [
            *lesson.quiz.questions,
            *(figure.prediction for figure in lesson.meta.figures),
            *(experiment.prediction for experiment in lesson.meta.experiments),
        ]
    )


@pytest.mark.parametrize("project", COURSE.projects, ids=lambda project: project.id)
def test_a_project_page_holds_no_answer(site, project):
    page = text_of((site / f"projects/{project.id}.html").read_text(encoding="utf-8"))
    for stage in project.meta.exercises:
        assert f"Stage {project.meta.exercises.index(stage) + 1}: " in page
        assert " ".join(stage.reasoning.split())[:60] not in page
    markers = re.findall(r"# BEGIN SOLUTION.*?\n(.*?)# END SOLUTION", project.solution or "", re.DOTALL)
    assert markers
    for body in markers:
        longest = max((line.strip() for line in body.splitlines()), key=len)
        if len(longest) > 40:
            assert " ".join(longest.split()) not in page, longest


def test_no_machine_and_no_registry_is_named(site):
    for path in site.rglob("*.html"):
        text = path.read_text(encoding="utf-8")
        assert str(ROOT) not in text, path
    assert not list(site.rglob("environment.pickle"))


@pytest.mark.lessons
@pytest.mark.parametrize("lesson", COURSE.lessons, ids=lambda lesson: lesson.id)
def test_the_cumulative_file_runs_by_itself(lesson, tmp_path):
    (tmp_path / "given.py").write_text(given(lesson), encoding="utf-8")
    done = subprocess.run([sys.executable, "given.py"], cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    assert f"PASS: {lesson.id}" in done.stdout


class Desk:
    """A folder into which one ZIP after the other is unpacked. The environment stays: all of them want the same."""

    def __init__(self, downloads: Path, folder: Path) -> None:
        self.downloads, self.folder = downloads, folder

    def unpack(self, name: str) -> Path:
        for path in [path for path in self.folder.iterdir() if path.name not in {".venv", ".cache"}]:
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        with zipfile.ZipFile(self.downloads / name) as archive:
            for entry in archive.infolist():
                path = self.folder / entry.filename.partition("/")[2]
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(archive.read(entry))
        return self.folder

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        """A command as somebody types it who has nothing but a Python: the one behind this environment."""
        python = getattr(sys, "_base_executable", sys.executable)
        return subprocess.run(
            [python, "-m", "environment", *words],
            cwd=self.folder,
            capture_output=True,
            text=True,
            encoding="utf-8",
            timeout=1200,
            check=False,
        )


@pytest.fixture(scope="module")
def desk(site, tmp_path_factory) -> Iterator[Desk]:
    made = Desk(site / "downloads", tmp_path_factory.mktemp("desk"))
    yield made
    shutil.rmtree(made.folder)  # a gigabyte


@pytest.mark.lessons
def test_the_zip_of_a_phase_checks_by_itself(desk):
    folder = desk.unpack("06-recovery/06-recovery.zip")
    done = desk.run("graders", "check", "recovery-01")
    assert "recovery-01: 0 of 3 pass" in done.stdout, done.stderr
    right = COURSE.lesson("recovery-01").script.read_text(encoding="utf-8")
    (folder / "exercises" / "recovery-01.py").write_text(right, encoding="utf-8")
    done = desk.run("graders", "check", "recovery-01", "exercises/recovery-01.py")
    assert "PASS: recovery-01" in done.stdout, done.stdout + done.stderr
    done = desk.run("publish", "reset", "recovery-01")
    assert "brought back exercises/recovery-01.py; yours is in backups/" in done.stdout, done.stdout + done.stderr


@pytest.mark.lessons
def test_the_zip_of_the_course_grades_by_itself(desk):
    desk.unpack("training-systems.zip")
    done = desk.run("publish", "build", "--check", "--strict")
    assert done.returncode == 0, done.stdout + done.stderr
    done = desk.run("graders", "grade", "examples/class", "--lesson", "recovery-01", "--seed", "156217")
    assert re.search(r"\d+ verdicts on \d+ submissions: \d+ PASS", done.stdout), done.stdout + done.stderr
    assert "nothing handed in by: Nguyễn" in done.stdout
    done = desk.run("--site", "publish", "site")
    assert re.search(r"index\.html: \d+ pages", done.stdout), done.stdout + done.stderr


@pytest.mark.lessons
def test_the_beginner_zip_opens_and_holds_no_solution(desk):
    folder = desk.unpack("06-recovery/06-recovery-beginner.zip")
    done = desk.run("jupyterlab", "--version")
    assert done.returncode == 0, done.stderr
    made = generated(COURSE)
    for lesson in COURSE.lessons:
        assert (folder / "exercises" / f"{lesson.id}.ipynb").read_text(encoding="utf-8") == made[f"exercises/{lesson.id}.ipynb"]
    assert not (folder / "phases").exists()
