"""The ZIP of each project: it holds what the guide names, and nothing that answers."""

import io
import re
import zipfile

import pytest

from course.catalogue import load
from publish import bundle
from tests.conftest import ROOT

COURSE = load(ROOT)
LONG = 30  # characters of a line that two authors hardly write alike
COMMON = re.compile(r"\s*(from |import |\"[a-z]+\": platform)")  # but these


@pytest.fixture(scope="module", params=[project.id for project in COURSE.projects])
def project(request):
    return COURSE.project(request.param)


@pytest.fixture(scope="module")
def texts(project):
    archive = zipfile.ZipFile(io.BytesIO(bundle.render(project, COURSE)))
    assert archive.testzip() is None
    return {name: archive.read(name).decode("utf-8", "replace") for name in archive.namelist()}


def test_no_line_of_the_solution_is_in_it(project, texts):
    given = {line.strip() for line in project.starter.source.split("\n")}
    secret = {
        line.strip()
        for line in project.solution.split("\n")
        if len(line.strip()) >= LONG and line.strip() not in given and "SOLUTION" not in line and not COMMON.match(line)
    }
    assert len(secret) > 40
    found = [(name, line) for name, text in texts.items() for line in sorted(secret) if line in text]
    assert not found


def test_neither_reasoning_nor_mistakes_are_in_it(project, texts):
    whole = "\n".join(texts.values())
    for stage in project.meta.exercises:
        assert stage.reasoning not in whole, stage.id
        for mistake in stage.mistakes:
            assert mistake.code not in whole, mistake.id


def test_what_a_learner_needs_is_in_it(project, texts):
    folder = f"{project.id}/projects/{project.id}"
    wanted = {"README.md", "project.toml", "stages.py", f"starter/{project.meta.module}", "receipt.json", *project.meta.files}
    wanted |= {path.name for path in project.folder.glob("*.py")}
    assert not {f"{folder}/{name}" for name in wanted} - set(texts)
    assert f"{project.id}/environment.py" in texts and f"{project.id}/graders/check.py" in texts
    assert texts[f"{folder}/starter/{project.meta.module}"] == project.starter.source
