"""Keys by which a browser keeps answers: digests of what was asked, so that a changed question is asked anew."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from course.schema import Option, Prediction, Question

LENGTH = 16  # hexadecimal digits: 64 bits tell all questions of a course apart


def digest(data: Any) -> str:
    """A short digest of plain data."""
    return hashlib.sha256(json.dumps(data, ensure_ascii=False, sort_keys=True).encode()).hexdigest()[:LENGTH]


def option(one: Option) -> str:
    """The key of an answer: of its text alone, which says nothing about its place or whether it is right."""
    return digest(one.text)


def asked(one: Prediction | Question) -> str:
    """The key of a question with its answers. The feedback does not count: a mended sentence asks nothing anew."""
    text = one.ask if isinstance(one, Prediction) else one.text
    return digest([text, [[choice.text, choice.correct] for choice in one.options]])
