"""Values on their whole way: any object -> the probe -> JSON -> a value -> the comparators -> a message."""

import json
import math

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from pydantic import ValidationError

from course.comparison import compare
from course.lines import compare_lines
from course.schema import Comparator
from course.values import Value, show
from graders import probe

RULES = ["exact", "close", "close rtol=1e-3 atol=0.1", "at_most 3", "same_set", "same_order", "raises", "exact dtype=float32", "close library=jax", "ignored"]  # fmt: skip
EXACT, CLOSE, SAME_SET = (Comparator.parse(text) for text in ("exact", "close", "same_set"))


class Own:
    """An object of a learner's, whose methods must not be called."""

    def __eq__(self, *more):
        raise SystemExit

    __hash__ = object.__hash__
    __array__ = __len__ = __iter__ = __float__ = __index__ = __eq__


DTYPES = st.sampled_from(
    ["bool", "int8", "uint8", "int32", "uint64", "int64", "float16", "float32", "float64", "complex64", "complex128"]
)
ARRAYS = DTYPES.flatmap(lambda kind: hnp.arrays(kind, hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4)))
OTHER_ARRAYS = st.one_of(
    hnp.arrays("float32", st.integers(0, 30), elements=st.floats(width=32)).map(jnp.asarray),
    st.lists(st.floats(-100, 100), max_size=5).map(lambda many: jnp.asarray(many, "bfloat16")),
    st.tuples(hnp.arrays("float64", 3), st.lists(st.booleans(), min_size=3, max_size=3)).map(lambda two: np.ma.MaskedArray(two[0], two[1])),
    st.sampled_from([np.array(["a", "b"]), np.array([1, "x", None], dtype=object), np.array([], dtype="datetime64[s]")]),
    st.integers(0, 2**32 - 1).map(np.uint32), st.floats(width=16).map(np.float16), st.complex_numbers().map(np.complex128), st.text(max_size=4).map(np.str_),
)  # fmt: skip
INTEGERS = st.integers() | st.integers(-(2**70), 2**70) | st.sampled_from([2**63, -(2**63), 10**400, -(10**400), 2**53 + 1])
ATOMS = st.one_of(
    st.none(), st.booleans(), INTEGERS, st.floats(), st.complex_numbers(), st.text(max_size=20), st.binary(max_size=8),
    st.text(st.characters(min_codepoint=0xD7FE, max_codepoint=0xE001, categories=["Cs", "Co", "Lo"]), max_size=3),
    st.sampled_from([..., len, Own, Own()]),
)  # fmt: skip
KEYS = st.one_of(st.integers(), st.text(max_size=4), st.floats(), st.none(), st.booleans(), st.tuples(st.integers(), st.text(max_size=2)), st.binary(max_size=3))  # fmt: skip
VALUES = st.recursive(
    ATOMS | ARRAYS | OTHER_ARRAYS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4), st.lists(inner, max_size=3).map(tuple), st.dictionaries(KEYS, inner, max_size=4),
        st.sets(KEYS, max_size=5), st.lists(st.floats() | INTEGERS, max_size=40),
    ),
    max_leaves=10,
)  # fmt: skip


def seen(value):
    """What the grader has of a value of a learner's."""
    answer = json.loads(probe.observe("n", ["v"], {"v": value}))
    assert answer["nonce"] == "n"
    return Value.model_validate(answer["values"]["v"])


@given(VALUES)
@example(10**400)
@example([10**400, 1.5, float("nan")])
@example([2**63, 1])
@example({(1, "a"): np.zeros(30), 2: "b"})
def test_every_value_agrees_with_itself_and_can_be_shown(value):
    got = seen(value)
    assert Value.model_validate(got.plain()) == got or "nan" in got.model_dump_json().lower()
    for rule in (EXACT, CLOSE):
        assert compare(got, got, rule) is None, (rule, got)
    if got.kind in {"list", "tuple", "set"}:
        assert compare(got, got, SAME_SET) is None, got
    assert len(show(got)) <= 220 and show(got)


@given(VALUES, VALUES)
def test_no_pair_of_values_brings_a_comparator_down_and_equality_has_no_sides(one, other):
    left, right = seen(one), seen(other)
    for text in RULES:
        for a, b in ((left, right), (right, left)):
            difference = compare(a, b, Comparator.parse(text))
            assert difference is None or (difference.text and difference.blind)
    assert (compare(left, right, EXACT) is None) == (compare(right, left, EXACT) is None), (left, right)


# Of one family and often alike, so that pairs do agree at times.
SMALL = st.recursive(
    st.sampled_from([0, 1, 1.0, True, -0.0, float("nan"), "1", "a", None, np.int8(1), np.float32(1), np.zeros(2), np.ones((1, 2), "int32"), 1j]),
    lambda inner: st.lists(inner, max_size=3) | st.lists(inner, max_size=3).map(tuple),
    max_leaves=5,
)  # fmt: skip


@given(SMALL, SMALL)
def test_equality_has_no_sides_where_values_are_alike(one, other):
    left, right = seen(one), seen(other)
    assert (compare(left, right, EXACT) is None) == (compare(right, left, EXACT) is None), (left, right)
    both = [compare(a, b, SAME_SET) is None for a, b in ((left, right), (right, left))]
    assert both[0] == both[1] or "set" in {left.kind, right.kind}, (left, right)


@given(st.lists(SMALL, max_size=5), st.randoms())
def test_a_set_has_no_order_and_each_item_counts(items, random):
    mixed = list(items)
    random.shuffle(mixed)
    assert compare(seen(items), seen(mixed), SAME_SET) is None
    if items:
        assert compare(seen(items), seen(mixed[1:]), SAME_SET)
        assert compare(seen(mixed[1:]), seen(items), SAME_SET)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ([("a", np.arange(30))], [("a", np.arange(30)[::-1] * 0 + np.r_[np.arange(6), np.arange(24)])]),
        (["x" * 9_990 + "a" * 50], ["x" * 9_990 + "b" * 50]),
        ([{"k": [*range(30), "x"]}], [{"k": [*range(29), 99, "x"]}]),
    ],
)
def test_items_of_a_set_that_differ_far_inside_are_not_the_same(one, other):
    assert compare(seen(one), seen(one), SAME_SET) is None
    assert compare(seen(one), seen(other), SAME_SET)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ([2**63, 1], [2**63 + 1, 1]),
        ([2**53 + 1, 0.5], [2**53, 0.5]),
        ([10**30, 1.5], [10**30 + 1, 1.5]),
        (10**400, 10**400 + 1),
        (10**400, math.inf),
    ],
)
@pytest.mark.parametrize("rule", [EXACT, SAME_SET])
def test_an_integer_that_no_float_holds_is_not_the_one_beside_it(one, other, rule):
    one, other = ([value] if rule is SAME_SET and not isinstance(value, list) else value for value in (one, other))
    assert compare(seen(one), seen(one), rule) is None
    assert compare(seen(one), seen(other), rule)
    assert compare(seen(other), seen(one), rule)
    assert compare(seen(one), seen(one), CLOSE) is None


@given(hnp.arrays("float64", st.integers(1, 40), elements=st.floats(-1e6, 1e6)), st.data())
def test_a_number_that_is_moved_is_found_wherever_it_stands(array, data):
    place = data.draw(st.integers(0, len(array) - 1))
    other = array.copy()
    other[place] += 1 + abs(other[place])
    for form in (lambda a: a, lambda a: a.tolist(), lambda a: {"w": a}, lambda a: [1, a], lambda a: ("x", a.tolist())):
        assert compare(seen(form(array)), seen(form(other)), EXACT)
        assert compare(seen(form(array)), seen(form(other)), CLOSE)


# What somebody may answer in the probe's place: anything that JSON can hold.
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 10**30) | st.floats() | st.sampled_from(["nan", "inf", "-inf", "1", "x", "float64", "bfloat16", "O", "V8", "M8[s]"]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=8,
)  # fmt: skip
KINDS = st.sampled_from(["none", "bool", "int", "float", "complex", "str", "bytes", "ellipsis", "array", "masked", "key", "list", "tuple", "set", "dict", "raised", "object", "oversize"])  # fmt: skip
FORGED = st.deferred(
    lambda: st.fixed_dictionaries(
        {"kind": KINDS},
        optional={
            "data": JSON, "library": st.sampled_from(["numpy", "jax", "x"]), "dtype": st.sampled_from(["float64", "int8", "bfloat16", "O", "U4", "M8[s]", "x", "complex64"]),
            "shape": st.lists(st.integers(-2, 10**9), max_size=4), "mask": JSON, "items": st.lists(FORGED, max_size=3), "keys": st.lists(FORGED, max_size=3),
            "type": st.sampled_from(["ValueError", "int"]), "bases": st.just(["ValueError"]), "message": st.text(max_size=5),
        },
    )
)  # fmt: skip
EXPECTED = [
    [2, 4, 6],
    4.0,
    np.arange(6.0).reshape(2, 3),
    "text",
    {"a": [1.5]},
    {1, 2},
    True,
    (1, "x"),
    np.ma.MaskedArray([1.0, 2.0], [True, False]),
]


@given(FORGED, st.sampled_from(EXPECTED))
@example({"kind": "array", "dtype": "float64", "shape": [-1], "data": [2, 4, 6]}, [2, 4, 7])
@example({"kind": "masked", "dtype": "float64", "shape": [2], "data": [1, 2], "mask": [[True]]}, EXPECTED[-1])
def test_no_forged_answer_brings_a_comparator_down_or_agrees_without_the_value(answer, expected):
    try:
        got = Value.model_validate(answer)
    except (ValidationError, RecursionError):
        return  # the run says `tampered`
    want = seen(expected)
    for text in RULES:
        difference = compare(want, got, Comparator.parse(text))
        assert difference is None or (difference.text and difference.blind)
    if compare(want, got, EXACT) is None:
        assert got.kind in {want.kind, "array", "masked", "list", "tuple", "key", "int", "float", "complex"}
        assert _numbers(want.plain()) <= _numbers(got.plain())  # all that is expected was said


def _numbers(node):
    """The numbers and texts that a value holds as data."""
    if isinstance(node, dict):
        parts = (part for name, part in node.items() if name in {"data", "items", "keys"})
        return set().union(*map(_numbers, parts))
    if isinstance(node, list):
        return set().union(*map(_numbers, node)) if node else set()
    return {float(node)} if isinstance(node, int | float) and abs(node) < 1e300 else {str(node)}


LINES = st.one_of(st.text(max_size=40), st.lists(st.sampled_from(["loss", "1", "1.0", "-2e5", "nan", "[1 2]", "[1, 2]", "array(", ")", "(", "\x1b[31m", "<root>", "<run>", "/a/b", "C:\\x", "'", "{", "}", ":", "é", "\ud800"]), max_size=8).map(" ".join))  # fmt: skip


@given(LINES, LINES)
def test_no_pair_of_lines_brings_the_comparison_down(one, other):
    for text in ("exact", "close", "ignored"):
        rule = Comparator.parse(text)
        assert compare_lines(one, one, rule) is None
        compare_lines(one, other, rule)


@given(LINES, LINES, st.floats(-1e6, 1e6))
def test_one_number_that_is_moved_is_found_in_a_line(before, after, number):
    assume(math.isfinite(number) and "<" not in before + after)
    one, other = (f"{before} = {value:.3f} ; {after}" for value in (number, number + 1 + abs(number)))
    assert compare_lines(one, other, CLOSE)
