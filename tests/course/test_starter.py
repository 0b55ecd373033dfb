"""The learner's module made from a solution: what is taken out, what stays, and markers that cannot be honored."""

import ast

import pytest

from course.errors import CourseError
from course.starter import asked, is_untouched, open_stubs, starter

HEAD = "# project: demo\n"
SOLUTION = (
    HEAD
    + '''"""A module."""

RATE = 0.5


# BEGIN SOLUTION: helpers
def _helper() -> int:
    return 41


# END SOLUTION


def answer(x: int) -> int:
    """What is asked."""
    # BEGIN SOLUTION: say "the answer"
    return _helper() + x
    # END SOLUTION


class Box:
    def open(self) -> int:
        # BEGIN SOLUTION: open it
        return 1
        # END SOLUTION

    def kept(self) -> int:
        return 2
'''
)


def test_solutions_become_stubs_and_helpers_go():
    made = starter(SOLUTION, "model.py", "demo")
    assert made.stubs == {"answer": 'say "the answer"', "Box.open": "open it"}
    assert "_helper" not in made.source and "41" not in made.source
    assert "RATE = 0.5" in made.source and '"""What is asked."""' in made.source and "return 2" in made.source
    names = {}
    exec(compile(made.source, "model.py", "exec"), names)
    with pytest.raises(NotImplementedError, match='say "the answer"'):
        names["answer"](1)


def test_what_is_still_a_stub():
    made = starter(SOLUTION, "model.py", "demo")
    assert open_stubs(made.source, made) == made.stubs
    half = made.source.replace('raise NotImplementedError("open it")', "return 1")
    assert open_stubs(half, made) == {"answer": 'say "the answer"'}
    assert open_stubs(SOLUTION, made) == {}
    assert open_stubs("def answer(:", made) == {}
    assert asked("Box", made.stubs) == {"Box.open": "open it"} and asked("answer", made.stubs) == {"answer": 'say "the answer"'}
    assert asked("other", made.stubs) == {}


def test_comments_and_layout_do_not_make_it_touched():
    made = starter(SOLUTION, "model.py", "demo")
    assert is_untouched(made.source.replace("RATE = 0.5", "RATE  =  0.5  # mine"), made)
    assert not is_untouched(made.source.replace("RATE = 0.5", "RATE = 0.6"), made)


@pytest.mark.parametrize(
    ("solution", "what"),
    [
        ("x = 1\n", "does not say of which project"),
        (HEAD.replace("demo", "other") + "x = 1\n", "does not say of which project"),
        (HEAD + "def f():\n    # BEGIN SOLUTION: a\n    return 1\n", "never closed"),
        (HEAD + "def f():\n    return 1\n    # END SOLUTION\n", "END SOLUTION without its BEGIN"),
        (HEAD + "def f():\n    # BEGIN SOLUTION\n    return 1\n    # END SOLUTION\n", "says nothing"),
        (
            HEAD + "def f():\n    # BEGIN SOLUTION: a\n    # BEGIN SOLUTION: b\n    return 1\n    # END SOLUTION\n",
            "inside another block",
        ),
        (HEAD + "def f(:\n", "not valid Python"),
        (HEAD + "def f():\n    return 1\n", "no solution is marked"),
        (HEAD + "if True:\n# BEGIN SOLUTION: a\n    x = 1\n# END SOLUTION\n", "its starter: not valid Python"),
    ],
)
def test_a_faulty_solution_is_named(solution, what):
    with pytest.raises(CourseError, match=what):
        starter(solution, "model.py", "demo")


def test_the_starter_is_valid_python_with_any_text_in_a_stub():
    text = r'a "quoted" back\slash'
    made = starter(HEAD + f"def f():\n    # BEGIN SOLUTION: {text}\n    return 1\n    # END SOLUTION\n", "model.py", "demo")
    assert ast.parse(made.source) and made.stubs == {"f": text}
