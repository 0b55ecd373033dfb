"""JSON Schemas of the course's files, for editors: completion, hover text, and a fault shown while it is typed.

They are made from the models of `course`, so they cannot say another thing than the course itself. What only a whole file can
show (an unknown objective, two right options) stays with `course`, which checks everything.
"""

from __future__ import annotations

import json
import re
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaMode

from course.receipt import Receipt
from course.schema import FILES

FOLDER = "docs/schemas"

_COMMENT = (
    "Generated from the models in course/ by `make build` (python -m publish build). Do not edit it: the next build replaces it."
)


class _Plain(GenerateJsonSchema):
    """Without a title for each key, which would only say the key again."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False


def render() -> dict[str, str]:
    """The schemas by path, relative to the course."""
    models: dict[str, type[BaseModel]] = {**FILES, "receipt.json": Receipt}
    return {f"{FOLDER}/{file.partition('.')[0]}.schema.json": _schema(file, model) for file, model in models.items()}


def is_generated(text: str) -> bool:
    """Whether a schema is one that this module wrote; `graders` keeps its own beside them."""
    try:
        return bool(json.loads(text)["$comment"] == _COMMENT)
    except (ValueError, KeyError, TypeError):
        return False


def _schema(file: str, model: type[BaseModel]) -> str:
    mode: JsonSchemaMode = "validation"
    schema = model.model_json_schema(by_alias=True, mode=mode, schema_generator=_Plain)
    for part, kind in ((schema, model), *((schema.get("$defs", {}).get(one.__name__, {}), one) for one in _models(model))):
        _describe(part, kind)
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema", "$comment": _COMMENT, "title": file}
    return json.dumps(head | {key: value for key, value in schema.items() if key != "title"}, indent=2, ensure_ascii=False) + "\n"


def _models(model: type[BaseModel]) -> list[type[BaseModel]]:
    """All models that a model is made of."""
    found: list[type[BaseModel]] = []

    def look(annotation: Any) -> None:
        if isinstance(annotation, type) and issubclass(annotation, BaseModel) and annotation not in found:
            found.append(annotation)
            for field in annotation.model_fields.values():
                look(field.annotation)
        for part in getattr(annotation, "__args__", ()):
            look(part)

    for field in model.model_fields.values():
        look(field.annotation)
    return found


def _describe(part: dict[str, Any], model: type[BaseModel]) -> None:
    """Move the docstring's `Attributes:` to the keys they are about, where an editor shows them."""
    text, _, attributes = str(part.get("description", "")).partition("Attributes:")
    if not attributes:
        return
    part["description"] = text.strip()
    for found in re.finditer(r"^    (\w+): (.*(?:\n     .*)*)", attributes, re.MULTILINE):
        name, words = found.groups()
        field = model.model_fields.get(name)
        key = (field.alias or name) if field else name
        if key in part.get("properties", {}):
            part["properties"][key].setdefault("description", " ".join(words.split()))
