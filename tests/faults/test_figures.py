"""What is drawn and where it is kept: the data of a figure counts (C18), and so do values read from a store, not paths (E07)."""

import base64
import json

import matplotlib.pyplot as plt
import pytest

from course.comparison import compare
from course.lines import compare_lines
from course.schema import Comparator
from course.values import Value
from graders import probe

CLOSE = Comparator.parse("close")


def plotted(numbers, title="last", **style):
    with plt.rc_context(style):
        _, axes = plt.subplots(figsize=(2, 2))
        axes.plot([0, 1, 2], numbers)
        axes.set_title(title)
        data = json.loads(probe.figures())
        return data["figures"], base64.b64decode(data["png"])


def test_what_is_plotted_counts_and_not_how_it_is_drawn():
    plain, pixels = plotted([2, 5, 4])
    other_font, other_pixels = plotted([2, 5, 4], **{"font.size": 11, "lines.linewidth": 3})
    assert plain == other_font and pixels != other_pixels
    assert plotted([3, 5, 4])[0] != plain
    assert plotted([2, 5, 4], title="first")[0] != plain


def test_a_learners_figure_is_judged_by_a_probe_on_its_data():
    _, axes = plt.subplots()
    axes.plot([0, 1, 2], [2, 5, 4])
    expression = "axes.lines[0].get_ydata()"
    seen = json.loads(probe.observe("n", [expression], {"axes": axes}))["values"][expression]
    plt.close("all")
    right, wrong = (
        Value(kind="list", items=tuple(Value(kind="int", data=n) for n in numbers)) for numbers in ([2, 5, 4], [3, 5, 4])
    )
    assert compare(right, Value.model_validate(seen), CLOSE) is None
    assert compare(wrong, Value.model_validate(seen), CLOSE) is not None


@pytest.mark.parametrize(
    ("expected", "got", "agrees"),
    [
        ("<root>/mlruns/1/<run>/artifacts", "file:///C:/Users/me/course/mlruns/1/<run>/artifacts", True),
        ("<root>/mlruns/1/<run>/artifacts", r"C:\Users\me\course\mlruns\1\<run>\artifacts", True),
        ("sqlite:///<root>/mlflow.db", r"sqlite:///C:\Users\me\course\mlflow.db", True),
        ("plots/last.png", r"plots\last.png", True),
        ("<root>/mlruns/1/<run>/artifacts/last.png", "<root>/mlruns/1/<run>/artifacts/first.png", False),
        ("<root>/mlruns/1/<run>/artifacts", "/home/me/my course/mlruns/1/0123456789abcdef0123456789abcdef/artifacts", True),
        ("<root>/mlruns/1/<run>/artifacts", "/home/me/mlruns/2/0123456789abcdef0123456789abcdef/artifacts", False),
        ("sqlite:///<root>/mlflow.db", "sqlite:////home/me/mlflow.db", True),
        ("sqlite:///<root>/mlflow.db", "sqlite:////home/me/other.db", False),
        ("no <root> here", "no /home/me here", False),
        (r"a\b", "a/b", False),
    ],
)
def test_paths_are_no_answers(expected, got, agrees):
    assert (compare_lines(expected, got, CLOSE) is None) == agrees
