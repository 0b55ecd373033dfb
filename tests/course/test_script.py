"""Percent cells, solution markers and the learner's copy made from them."""

import ast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from course.errors import CourseError
from course.script import Cell, read_script, same_code, scaffold, untouched


def cell(source: str) -> Cell:
    return Cell("one", "exercise", "One", source, 10)


def test_cells_are_read_with_role_id_and_title(tmp_path):
    path = tmp_path / "main.py"
    path.write_text('# %% First id="first" role="parameters"\nN = 1\n\n# %% Then id="then" role="build"\nx = N\n')
    first, then = read_script(path)
    assert (first.id, first.role, first.title, first.source, first.line) == ("first", "parameters", "First", "N = 1", 2)
    assert (then.id, then.line) == ("then", 5)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('x = 1\n# %% A id="a" role="build"\ny = 1\n', "before the first cell"),
        ('# %% A role="build"\nx = 1\n', "not a slug"),
        ('# %% A id="a" role="paint"\nx = 1\n', "unknown role 'paint'"),
        ('# %% A id="a" role="build"\nx = 1\n# %% B id="a" role="build"\nx = 1\n', "stands twice"),
        ('# %% A id="a" role="build"\nx = = 1\n', "not valid Python"),
        ('# %% [markdown]\n# words\n# %% A id="a" role="build"\nx = 1\n', "markdown cell"),
        ('# %% id="a" role="build"\nx = 1\n', "no title"),
    ],
)
def test_a_script_that_cannot_be_used_is_refused(tmp_path, text, said):
    path = tmp_path / "main.py"
    path.write_text(text)
    with pytest.raises(CourseError, match=said) as caught:
        read_script(path, "code/main.py")
    assert str(caught.value).startswith("code/main.py: line ")


def test_a_missing_script_is_refused(tmp_path):
    with pytest.raises(CourseError, match="missing"):
        read_script(tmp_path / "main.py")


@pytest.mark.parametrize(
    ("source", "expected", "names"),
    [
        ("x = 1  # SOLUTION: one", "x = ...  # TODO: one", [("x",)]),
        ("x: int = 1  # SOLUTION: one", "x: int = ...  # TODO: one", [("x",)]),
        ("a = b = 1  # SOLUTION: one", "a = b = ...  # TODO: one", [("a", "b")]),
        ("x = (\n    1\n    + 2\n)  # SOLUTION: three", "x = ...  # TODO: three", [("x",)]),
        ("def f():\n    return 1  # SOLUTION: one", "def f():\n    return ...  # TODO: one", [()]),
        ("x, y = 1, 2  # SOLUTION: both", "(x, y) = ...  # TODO: both", [("(x, y)",)]),
        ("a['k'] = 1  # SOLUTION: one", "a['k'] = ...  # TODO: one", [("a['k']",)]),
        ("# BEGIN SOLUTION: do it\nx = 1\ny = 2\n# END SOLUTION\nassert x", "...  # TODO: do it\nassert x", [()]),
        ("def f():\n    # BEGIN SOLUTION: do it\n    return 1\n    # END SOLUTION", "def f():\n    ...  # TODO: do it", [()]),
        ("x = 1  # SOLUTION: one\n# BEGIN REFERENCE: told\nassert x == 1\n# END REFERENCE", "x = ...  # TODO: one", [("x",)]),
        ("if True:\n    x = '# SOLUTION: no'  # SOLUTION: text", "if True:\n    x = ...  # TODO: text", [("x",)]),
    ],
)
def test_scaffold(source, expected, names):
    made = scaffold(cell(source))
    assert made.source == expected
    assert [blank.names for blank in made.blanks] == names
    ast.parse(made.source)


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("x = 1", "no solution marker"),
        ("# BEGIN SOLUTION: a\nx = 1", "never closed"),
        ("x = 1\n# END SOLUTION", "without its BEGIN"),
        ("# BEGIN SOLUTION: a\n# BEGIN REFERENCE: b\n# END REFERENCE\n# END SOLUTION", "inside another block"),
        ("# BEGIN SOLUTION\nx = 1\n# END SOLUTION", "says nothing"),
        ("print(1)  # SOLUTION: one", "blanks nothing"),
        ("def f():\n    # BEGIN REFERENCE: a\n    return 1\n    # END REFERENCE\nx = 1  # SOLUTION: b", "not valid Python"),
    ],
)
def test_markers_that_cannot_be_honored_are_refused(source, said):
    with pytest.raises(CourseError, match=said):
        scaffold(cell(source))


SOURCE = "x = 1  # SOLUTION: one\ny = 2  # SOLUTION: two\n# BEGIN SOLUTION: three\nz = 3\n# END SOLUTION"


@pytest.mark.parametrize(
    ("answer", "left"),
    [
        (None, 3),
        ("x = 5\ny = ...\n...", 2),
        ("x = 5\ny = 6\nz = 1", 0),
        ("y = ...", 1),
        ("q = ...", 0),
        ("x = (", 0),
    ],
)
def test_untouched_blanks_are_counted(answer, left):
    original = scaffold(cell(SOURCE))
    assert untouched(original.source if answer is None else answer, original) == left


def test_layout_and_comments_are_not_code():
    assert same_code("x=1 # a\n\n", "# cell: one\nx = 1")
    assert not same_code("x = 1", "x = 2")
    assert same_code("x = (", " x = ( ".strip())


NAME = st.from_regex(r"[a-z]{1,6}", fullmatch=True).filter(
    lambda name: (
        name.isidentifier()
        and name
        not in {
            "if",
            "in",
            "is",
            "or",
            "as",
            "and",
            "not",
            "for",
            "def",
            "del",
            "try",
            "elif",
            "else",
            "from",
            "pass",
            "with",
            "while",
            "yield",
            "class",
            "break",
            "async",
            "await",
            "raise",
            "return",
            "import",
            "global",
            "lambda",
            "assert",
            "except",
        }
    )
)
STATEMENT = st.tuples(NAME, st.integers(0, 99), st.booleans())


@given(st.lists(STATEMENT, min_size=1, max_size=8), st.integers(0, 3))
def test_every_scaffold_parses_and_holds_no_solution(statements, indent):
    lines, solutions = [], 0
    for name, number, hidden in statements:
        value = f"'secret{number}'" if hidden else str(number)
        lines.append(f"{name} = {value}" + ("  # SOLUTION: find it" if hidden else ""))
        solutions += hidden
    if not solutions:
        return
    body = "\n".join(("    " * indent) + line for line in lines)
    head = "".join("    " * depth + "if True:\n" for depth in range(indent))
    made = scaffold(cell(head + body))
    ast.parse(made.source)
    assert "secret" not in made.source
    assert len(made.blanks) == solutions
    assert untouched(made.source, made) == solutions
