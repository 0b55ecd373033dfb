"""Of the lessons' words: nothing that a learner is asked to predict stands to be read before the prediction is made."""

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest
from markdown_it import MarkdownIt

from course.catalogue import load
from publish import prose

LESSONS = load(Path(__file__).resolve().parents[2]).lessons
PREDICTED = {"figure", "experiment"}


def told(blocks: Iterable[prose.Block]) -> list[str]:
    """Recorded values and tables that stand below a prediction, before the next heading, and are open to read."""
    found, below = [], ""
    for block in blocks:
        if block.kind in PREDICTED:
            below = block.ref
        if block.kind != "words" or block.after:
            continue
        for token in MarkdownIt("commonmark").enable("table").parse(block.text):
            if token.type == "heading_open":
                below = ""
            elif below and token.map and (token.type == "table_open" or (token.type == "inline" and "{recorded}" in token.content)):
                found.append(f"line {block.line + token.map[0]}: {token.type} after {below}: {token.content[:60]}")
    return found


@pytest.mark.parametrize("lesson", LESSONS, ids=lambda lesson: lesson.id)
def test_no_result_is_told_before_it_is_predicted(lesson):
    assert told(prose.read(lesson)) == []


def test_a_result_that_is_told_would_be_found():
    """What the lessons hold back, put outside of its container."""
    for lesson in LESSONS:
        blocks = prose.read(lesson)
        held = [one.after for one in blocks if one.after and ("{recorded}" in one.text or "\n|" in one.text)]
        found = " ".join(told(replace(one, after="") for one in blocks))
        assert held or lesson.id in {"recovery-01", "recovery-06"}
        assert [name for name in held if f" after {name}:" not in found] == []


def test_words_under_another_heading_are_free(small):
    told_below = "{0}The sum is {recorded}`total`.\n\n| a |\n| - |\n| 1 |\n"
    small.change("lesson.md", "```{experiment} longer\n```\n", f"```{{experiment}} longer\n```\n\n{told_below}")
    file = small.folder / "lesson.md"
    text = file.read_text(encoding="utf-8")
    file.write_text(text.replace("{0}", ""), encoding="utf-8")
    sentence, table = told(prose.read(small.lesson))
    assert "inline after longer: The sum is" in sentence
    assert "table_open after longer" in table
    file.write_text(text.replace("{0}", "## What it was\n\n"), encoding="utf-8")
    assert told(prose.read(small.lesson)) == []
