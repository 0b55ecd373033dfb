"""What a project gives to read, to work in and to carry away; and that none of it answers."""

import io
import subprocess
import sys
import zipfile

import pytest

from course.catalogue import load
from course.errors import CourseError
from publish import build as building
from publish import bundle, guide, projects

ANSWERS = ("number * factor", "_each", "the secret of tiny-audit", "A sum of products", "return number + factor")


def course_files(root, target):
    for name in ("environment.py", "pyproject.toml", "LICENSE", "requirements-cpu.txt"):
        (target / name).write_bytes((root / name).read_bytes())
    for package in ("course", "graders"):
        for path in (root / package).rglob("*.py"):
            copy = target / path.relative_to(root)
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes(path.read_bytes())


@pytest.fixture
def archive(root, audit_copy):
    course_files(root, audit_copy)
    course = load(audit_copy)
    return zipfile.ZipFile(io.BytesIO(bundle.render(course.project("tiny-audit"), course)))


def test_the_guide_asks_and_does_not_answer(audit_root):
    course = load(audit_root)
    made = projects.render(course.project("tiny-audit"), guide.names(course))
    page = made["projects/tiny-audit/README.md"]
    assert "The largest number is 3." in page and "Stage 2: All of them" in page and "figures/look.svg" in page
    assert page.index("Stage 1") < page.index("Stage 2") < page.index("The figure")
    assert not [answer for answer in ANSWERS for text in made.values() if answer in text]


def test_a_stage_that_is_not_shown_is_a_fault(audit_copy):
    words = audit_copy / "projects" / "tiny-audit" / "guide.md"
    words.write_text(words.read_text(encoding="utf-8").replace("```{stage} all\n```\n", ""), encoding="utf-8")
    course = load(audit_copy)
    with pytest.raises(CourseError, match=r"cell all of stages\.py is not shown"):
        projects.render(course.project("tiny-audit"), {})


def test_a_figure_that_is_not_the_recorded_one_is_a_fault(audit_copy):
    (audit_copy / "projects" / "tiny-audit" / "figures" / "look.svg").write_text("<svg/>")
    course = load(audit_copy)
    with pytest.raises(CourseError, match="not the figure that the receipt names"):
        projects.render(course.project("tiny-audit"), {})


def test_an_edited_starter_is_kept_and_reset_backs_it_up(audit_copy):
    starter = audit_copy / "projects" / "tiny-audit" / "starter" / "scale.py"
    original = starter.read_text(encoding="utf-8")
    starter.write_text(original + "# mine\n", encoding="utf-8")
    report = building.build(load(audit_copy))
    assert [line for line in report.kept if "make reset PROJECT=tiny-audit" in line]
    assert starter.read_text(encoding="utf-8").endswith("# mine\n")
    done = building.reset(load(audit_copy), "tiny-audit").done
    assert starter.read_text(encoding="utf-8") == original
    copy = audit_copy / done[0].rpartition(" is in ")[2]
    assert copy.read_text(encoding="utf-8") == original + "# mine\n"


def test_an_untouched_starter_follows_its_solution(audit_copy):
    solution = audit_copy / "projects" / "tiny-audit" / "solution" / "scale.py"
    solution.write_text(solution.read_text(encoding="utf-8").replace("Scaled numbers.", "Numbers, scaled."), "utf-8")
    report = building.build(load(audit_copy))
    starter = audit_copy / "projects" / "tiny-audit" / "starter" / "scale.py"
    # The receipt is of another solution now, which is said; the starter waits for it.
    assert any("receipt" in str(problem) for problem in report.problems)
    assert "Numbers, scaled." not in starter.read_text(encoding="utf-8")


def test_a_bundle_answers_nothing(audit, archive):
    texts = {name: archive.read(name).decode("utf-8", "replace") for name in archive.namelist()}
    assert not [(name, answer) for name, text in texts.items() for answer in ANSWERS if answer in text]
    given = set(audit.starter.source.split("\n"))
    secret = {line.strip() for line in audit.solution.split("\n") if line not in given and "SOLUTION" not in line and line.strip()}
    assert secret
    own = {name: text for name, text in texts.items() if "/projects/" in name}
    assert not [(name, line) for name, text in own.items() for line in secret if line in text]
    assert not [name for name in texts if "solution" in name.split("/") or "phases" in name.split("/")]


def test_a_bundle_unpacks_and_checks_by_itself(audit, archive, tmp_path):
    archive.extractall(tmp_path)
    folder = tmp_path / "tiny-audit"
    check = [sys.executable, "-m", "graders", "check", "tiny-audit"]
    begin = subprocess.run(check, cwd=folder, capture_output=True, text=True, check=False)
    assert begin.returncode == 1 and begin.stdout.count("UNSOLVED") == 2, begin.stderr
    (folder / "projects" / "tiny-audit" / "starter" / "scale.py").write_text(audit.solution, encoding="utf-8")
    done = subprocess.run(check, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0 and "PASS: tiny-audit" in done.stdout, done.stdout + done.stderr
    assert "no solution here to draw fresh parameters" in done.stdout


def test_a_bundle_is_the_same_bytes_twice_and_takes_no_learners_file(root, audit_copy):
    course_files(root, audit_copy)
    course = load(audit_copy)
    first = bundle.render(course.project("tiny-audit"), course)
    starter = audit_copy / "projects" / "tiny-audit" / "starter" / "scale.py"
    starter.write_text("my own work", encoding="utf-8")
    (audit_copy / "projects" / "tiny-audit" / "runs").mkdir()
    (audit_copy / "projects" / "tiny-audit" / "runs" / "evidence.json").write_text("{}")
    assert bundle.render(course.project("tiny-audit"), course) == first


def test_the_command_writes_it(root, audit_copy, monkeypatch):
    course_files(root, audit_copy)
    monkeypatch.setenv("PYTHONPATH", str(root))
    command = [sys.executable, "-m", "publish", "bundle"]
    done = subprocess.run([*command, "tiny-audit"], cwd=audit_copy, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert zipfile.is_zipfile(audit_copy / "dist" / "tiny-audit.zip")
    wrong = subprocess.run([*command, "gone"], cwd=audit_copy, capture_output=True, text=True, check=False)
    assert wrong.returncode == 2 and "use one of: tiny-audit" in wrong.stderr
