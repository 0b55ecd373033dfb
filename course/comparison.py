"""Whether an observed value agrees with the expected one, and if not, how they differ in a learner's words.

One rule for numbers everywhere: ``|got - expected| <= atol + rtol * |expected|``, with NaN equal to NaN in the same
place. Shapes are compared before numbers, and nothing is ever broadcast.
"""

from __future__ import annotations

import cmath
import difflib
import unicodedata
from dataclasses import dataclass
from typing import Any

import numpy as np

from course.schema import Comparator
from course.values import NUMBER_KINDS, SEQUENCE_KINDS, Value, show, to_array

RTOL = 1e-6
RTOL_NARROW = 1e-5  # float32 has 24 bits: sums in another order differ in the sixth to seventh digit
RTOL_HALF = {"float16": 2e-3, "bfloat16": 1e-2}  # 11 and 8 bits of significand: about two units in the last place
ATOL = 1e-15


@dataclass(frozen=True)
class Difference:
    """How two values differ.

    Attributes:
        text: ``expected …, got …`` in a learner's words. It tells the expected value.
        blind: what kind of difference, for a draw: without any value, and without positions, shapes, keys or counts either, since
            those tell what was drawn.
        hint: advice that follows from the kinds of the two values alone, or empty.
    """

    text: str
    blind: str
    hint: str = ""


def compare(expected: Value, got: Value, comparator: Comparator, path: str = "") -> Difference | None:
    """Compare an observation with what is expected of it.

    Args:
        expected: recorded, or observed of the live reference.
        got: what the learner's cell gave.
        comparator: the rule.
        path: where in a nested value this is, for messages.

    Returns:
        None if they agree, else the difference.
    """
    if comparator.name == "ignored":
        return None
    if expected.kind == "raised" or got.kind == "raised":
        return _raised(expected, got)
    if comparator.name == "raises":
        return Difference(f"expected {show(expected)}", "expected an exception", "the comparator `raises` needs an exception")
    if got.kind == "oversize":
        return Difference(f"expected {show(expected)}, got {show(got)}", "the value is too large to look at")
    try:
        match comparator.name:
            case "at_most":
                return _at_most(got, comparator)
            case "same_order":
                return _same_order(expected, got)
            case "same_set":
                return _same_set(expected, got)
            case _:
                return _equal(expected, got, comparator, path)
    except (ValueError, TypeError, LookupError, AttributeError, OverflowError, RecursionError):
        # Data that contradicts its own dtype or shape did not come from the probe as we sent it.
        return Difference("the observation cannot be read", "the observation cannot be read")


def _at(path: str) -> str:
    return f"{path}: " if path else ""


def _differ(expected: Value, got: Value, path: str, blind: str, hint: str = "") -> Difference:
    return Difference(f"{_at(path)}expected {show(expected)}, got {show(got)}", blind, hint)


def _raised(expected: Value, got: Value) -> Difference | None:
    if expected.kind == "raised" and got.kind == "raised":
        if expected.type == got.type or expected.type in (got.bases or ()):
            return None
        return Difference(f"expected {expected.type}, got {show(got)}", f"raised {got.type}, another exception than expected")
    if expected.kind == "raised":
        return Difference(f"expected {expected.type} to be raised, got {show(got)}", "an exception should have been raised")
    return Difference(f"expected {show(expected)}, got {show(got)}", f"raised {got.type}")


def _equal(expected: Value, got: Value, comparator: Comparator, path: str) -> Difference | None:
    if comparator.library and got.library != comparator.library:
        names = {"numpy": "a NumPy array", "jax": "a JAX array"}
        return Difference(
            f"{_at(path)}expected {names[comparator.library]}, got {names.get(got.library or '', show(got))}",
            "another kind of array was asked for",
        )
    if comparator.dtype and got.dtype != comparator.dtype:
        return Difference(
            f"{_at(path)}expected dtype {comparator.dtype}, got {got.dtype or show(got)}", "another dtype was asked for"
        )
    if expected.kind == "masked" or got.kind == "masked":
        return _masked(expected, got, comparator, path)
    if expected.kind == "dict":
        return _dict(expected, got, comparator, path)
    if expected.kind == "set":
        if got.kind != "set":
            return _differ(expected, got, path, "another kind of value: a set is expected", _kind_hint(got))
        return _same_set(expected, got)
    if expected.kind in NUMBER_KINDS | {"array", "key"} | SEQUENCE_KINDS:
        return _numbers(expected, got, comparator, path)
    if expected.kind != got.kind:
        return _differ(expected, got, path, "another kind of value", _kind_hint(got))
    if expected.kind == "str":
        return _text(expected, got, path)
    if expected.kind == "object":
        return None if expected.type == got.type else _differ(expected, got, path, "another kind of value")
    return None if expected.data == got.data else _differ(expected, got, path, "another value")


def _kind_hint(got: Value) -> str:
    if got.kind == "none":
        return "it is None: did a function print instead of return?"
    if got.kind == "object" and got.type in {"function", "builtin_function_or_method", "method"}:
        return "it is a function: did you forget the ()?"
    if got.kind == "object" and got.type == "generator":
        return "it is a generator: put list(...) around it"
    if got.kind == "str":
        return "it is text, not a number"
    return ""


def _numbers(expected: Value, got: Value, comparator: Comparator, path: str) -> Difference | None:
    want, have = to_array(expected), to_array(got)
    if want is None:
        return _sequence(expected, got, comparator, path)
    if have is None:
        return _differ(expected, got, path, "another kind of value", _kind_hint(got))
    if want.shape != have.shape:
        text = f"{_at(path)}expected shape {want.shape}, got shape {have.shape}"
        return Difference(text, "another shape")
    if (want.dtype.kind == "b") != (have.dtype.kind == "b") and want.size:
        kinds = f"expected {want.dtype.name}, got {have.dtype.name}"
        return Difference(f"{_at(path)}{kinds}", kinds, "True/False and numbers are different kinds")
    wrong = ~_close(want, have, comparator, {expected.dtype or "", got.dtype or ""})
    if not wrong.any():
        return None
    if want.ndim == 0:
        return _differ(expected, got, path, "another value", _nan_hint(have))
    first = tuple(int(index) for index in np.argwhere(wrong)[0])
    where = path + "".join(f"[{index}]" for index in first)
    count = int(wrong.sum())
    blind = "every value differs" if count == want.size else "some values differ"
    more = f" ({count} of {want.size} values differ)" if count > 1 else ""
    if want.size <= 24:
        return Difference(
            f"{_at(path)}expected {show(expected)}, got {show(got)}",
            blind,
            _nan_hint(have),
        )
    return Difference(
        f"{where}: expected {_one(want[first])}, got {_one(have[first])}{more}",
        blind,
        _nan_hint(have),
    )


def _one(value: Any) -> str:
    return f"{value:.9g}" if isinstance(value, np.floating) and value.dtype.itemsize < 8 else str(value)


def _nan_hint(have: np.ndarray[Any, Any]) -> str:
    return "there is a NaN in it" if have.dtype.kind in "fc" and bool(np.isnan(have).any()) else ""


def _close(
    want: np.ndarray[Any, Any], have: np.ndarray[Any, Any], comparator: Comparator, dtypes: set[str]
) -> np.ndarray[Any, Any]:
    """Elementwise agreement of two arrays of one shape. ``dtypes`` are those observed, which NumPy may not know."""
    if want.dtype.kind in "biu" and have.dtype.kind in "biu":
        # Through Python's integers: NumPy would wrap -1 into an unsigned 255 before comparing.
        flat = [int(a) == int(b) for a, b in zip(want.ravel().tolist(), have.ravel().tolist(), strict=True)]
        return np.array(flat, dtype=bool).reshape(want.shape)
    if "O" in (want.dtype.kind, have.dtype.kind):
        flat = [_near(a, b, comparator) for a, b in zip(want.ravel().tolist(), have.ravel().tolist(), strict=True)]
        return np.array(flat, dtype=bool).reshape(want.shape)
    if comparator.name == "exact":
        if want.dtype.kind == have.dtype.kind == "f":
            # The same number in two widths is the same at the narrower one, unless it does not fit there at all.
            narrow = min(want.dtype, have.dtype, key=lambda one: one.itemsize)
            with np.errstate(over="ignore"):
                a, b = want.astype(narrow), have.astype(narrow)
            return np.asarray(((a == b) & (np.isinf(want) == np.isinf(have))) | (_nan(a) & _nan(b)))
        return np.asarray((want == have) | (_nan(want) & _nan(have)))
    rtol, atol = comparator.rtol, ATOL if comparator.atol is None else comparator.atol
    if rtol is None:
        names = dtypes | {want.dtype.name, have.dtype.name}
        rtol = max([RTOL_HALF.get(name, RTOL) for name in names] + [RTOL_NARROW if "float32" in names else RTOL])
    wide = np.complex128 if "c" in (want.dtype.kind, have.dtype.kind) else np.float64
    a, b = want.astype(wide), have.astype(wide)
    with np.errstate(invalid="ignore", over="ignore"):
        near = np.abs(b - a) <= atol + rtol * np.abs(a)
    # An infinity is close only to itself; inf - inf is NaN, and inf <= inf would let everything through.
    return np.asarray(np.where(np.isfinite(a) & np.isfinite(b), near, (a == b) | (_nan(a) & _nan(b))))


def _near(want: Any, have: Any, comparator: Comparator) -> bool:
    """The rule for two of Python's own numbers: there are integers that fit into no dtype, or not into a float beside them."""
    if want == have or (want != want and have != have):  # noqa: PLR0124 - NaN is what differs from itself
        return True
    if comparator.name == "exact" or (isinstance(want, int) and isinstance(have, int)):
        return False
    rtol = RTOL if comparator.rtol is None else comparator.rtol
    try:
        wide, other = complex(want), complex(have)
    except OverflowError:
        return False
    near = abs(other - wide) <= (ATOL if comparator.atol is None else comparator.atol) + rtol * abs(wide)
    return near and cmath.isfinite(wide) and cmath.isfinite(other)


def _nan(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return np.isnan(array) if array.dtype.kind in "fc" else np.zeros(array.shape, bool)


def _sequence(expected: Value, got: Value, comparator: Comparator, path: str) -> Difference | None:
    items = _items(got)
    if items is None:
        return _differ(expected, got, path, "another kind of value: a list is expected", _kind_hint(got))
    want = expected.items or ()
    if len(want) != len(items):
        text = f"{_at(path)}expected {len(want)} items, got {len(items)}"
        return Difference(text, "another number of items")
    for index, (one, other) in enumerate(zip(want, items, strict=True)):
        if difference := compare(one, other, _inner(comparator), f"{path}[{index}]"):
            return difference
    return None


def _inner(comparator: Comparator) -> Comparator:
    return comparator.model_copy(update={"library": None, "dtype": None})


def _items(value: Value) -> tuple[Value, ...] | None:
    """The items of a sequence; an array gives its rows, so that a list of arrays may be one array."""
    if value.kind in SEQUENCE_KINDS:
        return value.items or ()
    if value.kind == "array" and value.shape:
        inner = value.shape[1:]
        return tuple(Value(kind="array", dtype=value.dtype, library=value.library, shape=inner, data=row) for row in value.data)
    return None


def _masked(expected: Value, got: Value, comparator: Comparator, path: str) -> Difference | None:
    """Masks and data are compared apart: a masked element agrees with nothing but a masked element."""
    want, have = to_array(expected), to_array(got)
    if want is None or have is None or want.shape != have.shape:
        return _differ(expected, got, path, "another kind of value or shape")
    mask_want, mask_have = (
        np.array(one.mask if one.mask is not None else False) | np.zeros(want.shape, bool) for one in (expected, got)
    )
    if (mask_want != mask_have).any():
        return Difference(f"{_at(path)}expected another mask than {mask_have.tolist()}", "the mask of the array differs")
    if bool((~_close(want, have, comparator, set()) & ~mask_want).any()):
        return _differ(expected, got, path, "values differ")
    return None


def _key_text(value: Value) -> str:
    return f"{value.kind}:{value.data!r}:{value.type or ''}" if value.items is None else f"{value.kind}:{_identity(value)}"


def _dict(expected: Value, got: Value, comparator: Comparator, path: str) -> Difference | None:
    if got.kind != "dict":
        return _differ(expected, got, path, "another kind of value: a dict is expected", _kind_hint(got))
    want = {_key_text(key): (key, item) for key, item in zip(expected.keys or (), expected.items or (), strict=True)}
    have = {_key_text(key): (key, item) for key, item in zip(got.keys or (), got.items or (), strict=True)}
    for text, (key, _) in want.items():
        if text not in have:
            near = difflib.get_close_matches(show(key), [show(other) for other, _ in have.values()], 1, 0.7)
            there = f"; there is {near[0]}" if near else ""
            return Difference(f"{_at(path)}the key {show(key)} is missing{there}", "a key is missing")
    for text, (key, _) in have.items():
        if text not in want:
            return Difference(f"{_at(path)}the key {show(key)} should not be there", "a key too many")
    for text, (key, item) in want.items():
        if difference := compare(item, have[text][1], _inner(comparator), f"{path}[{show(key)}]"):
            return difference
    return None


def _text(expected: Value, got: Value, path: str) -> Difference | None:
    want, have = unicodedata.normalize("NFC", str(expected.data)), unicodedata.normalize("NFC", str(got.data))
    if want == have:
        return None
    for index, (a, b) in enumerate(zip(want, have, strict=False)):
        if a != b and max(ord(a), ord(b)) > 127:
            hint = f"character {index + 1} is U+{ord(b):04X}, not U+{ord(a):04X}"
            return _differ(expected, got, path, "another text", hint)
    return _differ(expected, got, path, "another text")


def _at_most(got: Value, comparator: Comparator) -> Difference | None:
    have = to_array(got)
    bound = comparator.bound if comparator.bound is not None else 0.0
    if have is None or have.dtype.kind not in "iufO":
        return Difference(f"expected a number of at most {bound:g}, got {show(got)}", "not a number", _kind_hint(got))
    # Written so that a NaN, which compares False with everything, cannot pass.
    if have.size and bool((have <= bound).all()):
        return None
    return Difference(f"expected at most {bound:g}, got {show(got)}", f"more than {bound:g}", _nan_hint(have))


def _same_order(expected: Value, got: Value) -> Difference | None:
    """The ranking counts, not the numbers: for durations and losses."""
    want, have = to_array(expected), to_array(got)
    if want is None or have is None or want.ndim != 1 or want.shape != have.shape:
        return _differ(expected, got, "", "another kind of value or shape")
    if have.dtype.kind == "f" and bool(np.isnan(have).any()):
        return Difference("the values cannot be ranked: there is a NaN among them", "there is a NaN among the values")
    if bool((_less(want) == _less(have)).all()):
        return None
    ranks = [list(np.argsort(one, kind="stable").tolist()) for one in (want, have)]
    return Difference(f"expected the order {ranks[0]} from smallest to largest, got {ranks[1]}", "the order of the values differs")


def _less(values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Which value is less than which other: the whole ranking, ties and infinities included."""
    return np.asarray(values[:, None] < values[None, :])


def _same_set(expected: Value, got: Value) -> Difference | None:
    """The same items equally often, in any order."""
    want, have = _members(expected), _members(got)
    if want is None or have is None:
        return _differ(expected, got, "", "another kind of value: items are expected", _kind_hint(got))
    left: dict[str, list[str]] = {}
    for identity, text in have:
        left.setdefault(identity, []).append(text)
    missing = [text for identity, text in want if not (left.get(identity) and left[identity].pop())]
    extra = [text for texts in left.values() for text in texts]
    if not missing and not extra:
        return None
    parts = [f"missing {', '.join(missing[:8])}"] if missing else []
    parts += [f"too many {', '.join(extra[:8])}"] if extra else []
    return Difference(
        "; ".join(parts), " and ".join([*(["items are missing"] if missing else []), *(["items are too many"] if extra else [])])
    )


def _members(value: Value) -> list[tuple[str, str]] | None:
    """Of each item a text that tells it from all others, and one for messages."""
    items = value.items if value.kind == "set" else _items(value)
    if items is None:
        return None
    return [(_identity(item), _member_text(item)) for item in items]


def _member_text(value: Value) -> str:
    text = _identity(value) if to_array(value) is not None else show(value)
    return text if len(text) <= 200 else show(value)


def _identity(value: Value) -> str:
    """One text an item, the same for 3, np.int64(3) and 3.0, so that a set of IDs may be an array.

    Nothing is left out, however long an item is: two that differ anywhere have two texts.
    """
    array = to_array(value)
    if array is not None:
        flat = [_plainest(one) for one in array.ravel().tolist()]
        return str(flat[0]) if array.ndim == 0 else f"{array.shape}{flat}"
    parts = [_identity(item) for item in value.items or ()]
    if value.kind == "dict":
        # The order of keys says nothing.
        return f"dict{sorted(zip(map(_key_text, value.keys or ()), parts, strict=True))}"
    if value.kind in {"list", "tuple", "set"}:
        return f"{value.kind}{sorted(parts) if value.kind == 'set' else parts}"
    return f"{value.kind}:{value.data!r}:{value.type or ''}"


def _plainest(one: Any) -> Any:
    """A number as an integer where it is one; -0.0 as 0."""
    if isinstance(one, int) or not cmath.isfinite(one):
        return one
    return int(one.real) if not one.imag and float(one.real).is_integer() else one + 0.0
