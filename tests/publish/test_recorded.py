"""Recorded values in words: where they come from, how they are written, and every role that cannot be resolved."""

from __future__ import annotations

import pytest

from course.errors import CourseError
from course.receipt import Line
from course.values import Value
from publish.recorded import Recorded


@pytest.fixture
def recorded(small):
    small.record(
        lines=(
            Line(cell="data", text="Values: [2.0, 4.0, 6.0]"),
            Line(cell="data", text="Rate (local): 3.449e-05"),
            Line(cell="data", text="Count: 1200"),
            Line(cell="data", text="Twice: 1"),
            Line(cell="done", text="Twice: 2"),
            Line(cell="done", text="PASS: small-01"),
        ),
        facts={
            "total": Value(kind="float", data=12.0),
            "digest": Value(kind="str", data="1a81"),
            "ticks": Value(kind="str", data="a`b"),
            "single": Value(kind="array", data=0.2, dtype="float32", shape=(), library="numpy"),
            "off": Value(kind="float", data="nan"),
        },
    )
    return Recorded(small.lesson)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("a {recorded}`Values`.", "a `[2.0, 4.0, 6.0]`."),
        ("{recorded}`total` and {recorded}`total|.3f`", "12.0 and 12.000"),
        ("{recorded}`Rate (local) | .1e`", "3.4e-05"),
        ("{recorded}`Count | ,d`", "`1,200`"),
        ("{recorded}`pad/masked`", "4.0"),
        ("{recorded}`pad/padded`", "`[2.0, 4.0, 6.0, 0.0]`"),
        ("{recorded}`single | .2f`", "0.20"),
        ("{recorded}`off`", "`nan`"),
        ("{recorded}`digest`", "`'1a81'`"),
        ("{recorded}`ticks`", "``'a`b'``"),
        ("$x = {recorded}`total`$", "$x = 12.0$"),
        ("**{recorded}`total`** and [a {recorded}`total`](u)", "**12.0** and [a 12.0](u)"),
        ("> - quoted {recorded}`total`\n>   more {recorded}`Values`", "> - quoted 12.0\n>   more `[2.0, 4.0, 6.0]`"),
        ("`` {recorded}`total` `` is {recorded}`total`", "`` {recorded}`total` `` is 12.0"),
        ("\\{recorded}`total`", "\\{recorded}`total`"),
        ("```\n{recorded}`total`\n```\n{recorded}`total`", "```\n{recorded}`total`\n```\n12.0"),
        ("    {recorded}`total`\n\n{recorded}`total`", "    {recorded}`total`\n\n12.0"),
        ("| a | b |\n|---|---|\n| {recorded}`total` | {recorded}`total \\| .1f` |", "| a | b |\n|---|---|\n| 12.0 | 12.0 |"),
        ("# H {recorded}`total`\n\n1. x {recorded}`total`\n\n   y {recorded}`total`", "# H 12.0\n\n1. x 12.0\n\n   y 12.0"),
    ],
)
def test_values_in_words(recorded, text, wanted):
    assert recorded.resolve(text, "f") == wanted


def test_plain_text_gets_bare_values(recorded):
    assert recorded.resolve("it is {recorded}`Values`", "f", plain=True) == "it is [2.0, 4.0, 6.0]"


@pytest.mark.parametrize(
    ("text", "place", "what", "remedy"),
    [
        ("one\n\n{recorded}`totl`", "line 12", "nothing recorded is called 'totl'", "total, digest"),
        ("{recorded}`pad/other`", "line 10", "nothing recorded is called", "use a probe of pad: padded, masked"),
        ("{recorded}`Values | .2f`", "line 10", "not a single number", "take the format away"),
        ("{recorded}`total | .2q`", "line 10", "'.2q' is not a format", ".4g"),
        ("{recorded}`Twice`", "line 10", "stands for 2 recorded values", "another label"),
        ("{record}`total`", "line 10", "unknown role {record}", "the only role is {recorded}"),
        ("<div>\n{recorded}`total`\n</div>", "line 11", "cannot be read where it stands", "blank line"),
        ("![{recorded}`total`](x.png)", "line 10", "cannot be read where it stands", "beside"),
        ("a {recorded}`to\ntal`", "line 10", "cannot be read where it stands", "on one line"),
    ],
)
def test_roles_that_cannot_be_resolved(recorded, text, place, what, remedy):
    with pytest.raises(CourseError) as caught:
        recorded.resolve(text, "a/lesson.md", first=10)
    (problem,) = caught.value.problems
    assert (problem.file, problem.key) == ("a/lesson.md", place)
    assert what in problem.what
    assert remedy in problem.remedy


def test_texts_of_toml_are_resolved_everywhere_and_faults_name_the_key(recorded, small):
    small.change("lesson.toml", "Adding lists joins them.", "So {recorded}`nothing`.")
    small.change("lesson.toml", "Divide by the right number.", "Not {recorded}`nix`.")
    lesson = small.lesson
    with pytest.raises(CourseError) as caught:
        Recorded(lesson).resolved(lesson.meta, "lesson.toml")
    keys = {problem.key for problem in caught.value.problems}
    assert {"experiment[0].meaning", "exercise[0].guide[1]"} <= keys


def test_skipped_fields_need_no_receipt(small):
    small.change("lesson.toml", "REASONING-ONLY", "{recorded}`total`")
    (small.folder / "receipt.json").unlink()
    lesson = small.lesson
    exercise = lesson.meta.exercises[0]
    assert Recorded(lesson).resolved(exercise, "f", skip=frozenset({"reasoning"})) == exercise
    with pytest.raises(CourseError, match=r"no receipt.*make record LESSON=small-01"):
        Recorded(lesson).resolved(exercise, "f")
