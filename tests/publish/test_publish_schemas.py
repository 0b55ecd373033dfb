"""The JSON Schemas: valid themselves, accepting what the course accepts, refusing what an editor should underline."""

from __future__ import annotations

import copy
import json
import tomllib
from datetime import date
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from publish import schemas

FIXTURES = Path(__file__).resolve().parents[1] / "fixtures"
NAMES = ("course", "phase", "glossary", "lesson", "project", "quiz", "receipt")


def validator(name):
    schema = json.loads(schemas.render()[f"docs/schemas/{name}.schema.json"])
    Draft202012Validator.check_schema(schema)
    return Draft202012Validator(schema)


def data(small, name):
    if name == "receipt":
        return json.loads((small.folder / "receipt.json").read_text())
    folders = {
        "course": small.root,
        "phase": small.folder.parent,
        "glossary": small.folder.parent,
        "project": FIXTURES / "projects" / "tiny-audit",
    }
    path = folders.get(name, small.folder) / f"{name}.toml"
    # JSON knows no dates; editors hand them to a schema as text.
    return json.loads(json.dumps(tomllib.loads(path.read_text()), default=date.isoformat))


def test_one_schema_a_file_with_a_banner():
    made = schemas.render()
    assert set(made) == {f"docs/schemas/{name}.schema.json" for name in NAMES}
    for text in made.values():
        assert json.loads(text)["$schema"] == "https://json-schema.org/draft/2020-12/schema"
        assert "make build" in json.loads(text)["$comment"]
        assert schemas.is_generated(text)
        assert text.endswith("}\n")
    assert not schemas.is_generated('{"$comment": "another room\'s"}')


@pytest.mark.parametrize("name", NAMES)
def test_the_course_fits_its_schema(small, name):
    assert list(validator(name).iter_errors(data(small, name))) == []


@pytest.mark.parametrize("name", NAMES)
def test_an_unknown_key_does_not_fit(small, name):
    assert list(validator(name).iter_errors(data(small, name) | {"titel": "x"}))


@pytest.mark.parametrize(
    ("change", "fits"),
    [
        (lambda lesson: lesson["exercise"][0].update(draw={"SLOTS": [3, 9]}), True),
        (lambda lesson: lesson["exercise"][0].update(draw={"SLOTS": {"choice": [1, 2]}}), True),
        (lambda lesson: lesson["exercise"][0].update(draw={"SLOTS": [3]}), False),
        (lambda lesson: lesson["exercise"][0].update(draw={"SLOTS": "many"}), False),
        (lambda lesson: lesson["exercise"][0].update(probes={"padded": 1}), False),
        (lambda lesson: lesson["exercise"][0].update(kind="quiz"), False),
        (lambda lesson: lesson["exercise"][0].update(hints=["one"]), False),
        (lambda lesson: lesson.update(minutes=0), False),
        (lambda lesson: lesson.pop("question"), False),
        (lambda lesson: lesson["reference"][0].update(url="http://example.org"), False),
    ],
)
def test_values_that_an_editor_should_underline(small, change, fits):
    lesson = copy.deepcopy(data(small, "lesson"))
    change(lesson)
    assert (not list(validator("lesson").iter_errors(lesson))) is fits


def test_keys_carry_the_words_of_the_models():
    lesson = json.loads(schemas.render()["docs/schemas/lesson.schema.json"])
    assert "matched against the whole recorded line" in lesson["$defs"]["Output"]["properties"]["line"]["description"]
    assert "Attributes" not in lesson["$defs"]["Output"]["description"]
    receipt = json.loads(schemas.render()["docs/schemas/receipt.schema.json"])
    assert receipt["properties"]["recorded"]["description"].startswith("time in UTC")
