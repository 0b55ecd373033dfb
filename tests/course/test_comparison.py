"""The comparators, on the pairs that real graders got wrong and on generated values."""

import json
import math
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from course.comparison import compare
from course.lines import compare_lines
from course.schema import Comparator
from course.values import Value
from graders import probe

PAIRS = json.loads((Path(__file__).parent / "pairs.json").read_text(encoding="utf-8"))
CLOSE, EXACT = Comparator.parse("close"), Comparator.parse("exact")


def seen(expression: str) -> Value:
    """What the probe makes of an expression."""
    answer = json.loads(probe.observe("n", [expression], {"np": np, "jnp": jnp}))
    return Value.model_validate(answer["values"][expression])


@pytest.mark.parametrize("pair", PAIRS["expr"], ids=lambda pair: pair["name"])
def test_pairs_of_values(pair):
    difference = compare(seen(pair["expected"]), seen(pair["got"]), CLOSE)
    assert (difference is None) == (pair["verdict"] == "PASS"), difference


@pytest.mark.parametrize("pair", [one for one in PAIRS["text"] if "UNDECIDED" not in one["verdict"]], ids=lambda pair: pair["name"])
def test_pairs_of_lines(pair):
    difference = compare_lines(pair["expected"], pair["got"], CLOSE)
    assert (difference is None) == (pair["verdict"] == "PASS"), difference


@pytest.mark.parametrize(
    ("rule", "expected", "got", "agrees"),
    [
        ("at_most 1e-8", "0.0", "1e-9", True),
        ("at_most 1e-8", "0.0", "1e-7", False),
        ("at_most 1e-8", "0.0", "float('nan')", False),
        ("at_most 1e-8", "0.0", "'0'", False),
        ("at_most 1e-8", "0.0", "np.array([])", False),
        ("same_set", "[1, 2, 3]", "np.array([3, 1, 2])", True),
        ("same_set", "[1, 2, 3]", "{1, 2, 3}", True),
        ("same_set", "[1, 2, 2]", "[1, 1, 2]", False),
        ("same_set", "[1, 2]", "[1, 2, 3]", False),
        ("same_order", "[0.1, 0.5, 0.2]", "[3, 9, 4]", True),
        ("same_order", "[0.1, 0.5, 0.2]", "[3, 4, 9]", False),
        ("same_order", "[0.1, 0.5]", "[1.0, float('nan')]", False),
        ("same_order", "[1.0, float('inf'), 0.5]", "[7, float('inf'), 2]", True),
        ("same_order", "[1, 1, 2]", "[1, 2, 3]", False),
        ("raises", "1/0", "1/0", True),
        ("raises", "[][0]", "{}['a']", False),
        ("raises", "1/0", "1", False),
        ("exact", "1", "1/0", False),
        ("ignored", "1", "'anything'", True),
        ("exact dtype=float32", "np.float32(1)", "np.float64(1)", False),
        ("exact dtype=float32", "np.ones(2, 'float32')", "np.ones(2, 'float32')", True),
        ("exact library=jax", "jnp.ones(2)", "np.ones(2)", False),
        ("exact", "np.float32(0.1)", "0.1", True),
        ("exact", "0.1", "0.1000001", False),
        ("exact", "'a'", "'b'", False),
        ("exact", "b'a'", "b'a'", True),
        ("exact", "float('inf')", "1e308", False),
        ("exact", "70000.5", "np.float16('inf')", False),
        ("exact", "2049", "np.float16(2048)", False),
        ("close", "float('inf')", "float('inf')", True),
        ("close", "float('inf')", "1e308", False),
        ("close", "jnp.bfloat16(1.5)", "1.503", True),
        ("close", "1+2j", "1+2.1j", False),
        ("close", "1+2j", "1+2j", True),
    ],
)
def test_rules(rule, expected, got, agrees):
    difference = compare(seen(expected), seen(got), Comparator.parse(rule))
    assert (difference is None) == agrees, difference


@pytest.mark.parametrize("text", ["close rtol", "near", "exact rtol=1", "at_most", "close rtol=x", "at_most a", ""])
def test_a_comparator_that_cannot_be_read_is_refused(text):
    with pytest.raises(ValueError, match=r".*"):
        Comparator.parse(text)


@pytest.mark.parametrize(
    "text", ["exact", "close rtol=1e-05 atol=0.1", "at_most 1e-08", "exact dtype=float32", "close library=jax"]
)
def test_a_comparator_reads_back_as_it_is_written(text):
    assert str(Comparator.parse(text)) == text


# How many there are, at which place and under which key tells what was drawn.
BLIND = [
    ("list(range(157))", "[0] * 157"), ("list(range(157))", "[1] * 157"), ("list(range(157))", "list(range(158))"), ("np.zeros(157)", "np.zeros(158)"),
    ("[['a'] * 156, 'b']", "[['a'] * 157, 'b']"), ("{157: 1}", "{158: 1}"), ("{157: 1}", "{157: 2}"), ("{157: 1}", "{157: 1, 158: 2}"),
    ("{157, 158}", "{157, 159}"), ("{'a157'}", "{'a157', 'a158'}"), ("['a157', 'b']", "['a158', 'b']"), ("157", "None"), ("157", "len"),
]  # fmt: skip


def test_messages_say_what_differs_and_a_draw_tells_no_value():
    shape = compare(seen("np.zeros((3, 1))"), seen("np.zeros(3)"), CLOSE)
    assert shape and "shape (3, 1)" in shape.text and "(3, 1)" not in shape.blind
    nested = compare(seen("{'loss': 0.5, 'w': [0.1, 0.2]}"), seen("{'loss': 0.5, 'w': [0.1, 0.3]}"), CLOSE)
    assert nested and "'w'" in nested.text and "0.2" in nested.text and "0.2" not in nested.blind
    for expected, got in BLIND:
        difference = compare(seen(expected), seen(got), CLOSE)
        assert difference and not any(one.isdecimal() for one in difference.blind), difference.blind
    key = compare(seen("{'loss': 1}"), seen("{'Loss': 1}"), CLOSE)
    assert key and "there is 'Loss'" in key.text
    forgot = compare(seen("3.0"), seen("len"), CLOSE)
    assert forgot and "()" in forgot.hint
    look_alike = compare(seen("'a'"), seen("'\\u0430'"), EXACT)
    assert look_alike and "U+0430" in look_alike.hint


def test_a_forged_observation_is_a_difference_and_no_exception():
    forged = Value(kind="array", dtype="float64", shape=(2,), data=[[1], "x"])
    assert compare(seen("np.ones(2)"), forged, CLOSE)
    assert compare(seen("np.ones(2)"), Value(kind="array", dtype="float64", shape=(10**6, 10**6), data=[]), CLOSE)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=12,
)


@given(VALUES)
def test_every_value_agrees_with_itself(value):
    encoded = Value.model_validate(json.loads(probe.observe("n", ["v"], {"v": value}))["values"]["v"])
    assert compare(encoded, encoded, EXACT) is None
    assert compare(encoded, encoded, CLOSE) is None


@given(
    hnp.arrays(
        st.sampled_from([np.float32, np.float64, np.int16]),
        hnp.array_shapes(max_dims=3, max_side=4),
        elements={"min_value": -100, "max_value": 100},
    ),
    st.data(),
)
def test_one_changed_number_is_found(array, data):
    index = data.draw(st.tuples(*(st.integers(0, side - 1) for side in array.shape)))
    changed = array.copy()
    changed[index] += 1
    one, other = (Value.model_validate(json.loads(probe.observe("n", ["v"], {"v": v}))["values"]["v"]) for v in (array, changed))
    assert compare(one, other, CLOSE)
    assert compare(one, other, EXACT)
    assert compare(one, one, EXACT) is None


@given(st.floats(allow_nan=False, allow_infinity=False, min_value=-1e100, max_value=1e100), st.floats(1e-9, 1e-2))
def test_the_rule_for_numbers(expected, rtol):
    rule = Comparator(name="close", rtol=rtol, atol=0)
    near, far = expected * (1 + rtol / 2), expected * (1 + rtol * 3)
    assert compare(Value(kind="float", data=expected), Value(kind="float", data=near), rule) is None
    if math.isfinite(far) and abs(far - expected) > rtol * abs(expected):
        assert compare(Value(kind="float", data=expected), Value(kind="float", data=far), rule)


@pytest.mark.parametrize(
    ("expected", "got", "rule", "agrees"),
    [
        ("loss 0.5000001", "loss 0.5", "close", True),
        ("loss 0.51", "loss 0.5", "close", False),
        ("step 3", "step 4", "close rtol=1", False),
        ("value 1e-3", "value 0.001", "exact", True),
        ("Seconds: 0.1", "Seconds: 9.9", "ignored", True),
        ("{0.02: 0.1199, 0.15: 5.04e-10}", "{0.02: 0.1199, 0.15: 5.05e-10}", "exact", False),
        ("mse 5e-10", "mse 7e-10", "at_most 1e-8", True),
        ("mse 5e-10", "mse 7e-7", "at_most 1e-8", False),
    ],
)
def test_lines(expected, got, rule, agrees):
    assert (compare_lines(expected, got, Comparator.parse(rule)) is None) == agrees
