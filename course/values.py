"""Values as plain data: what a probe saw, in a form that crosses processes without pickle and stands in a receipt.

`graders/probe.py` writes this form inside the learner's kernel; this module reads it, shows it, and never calls code
of a learner's object. Numbers in arrays keep their dtype; NaN and infinities are the strings "nan", "inf" and "-inf".
"""

from __future__ import annotations

import math
from typing import Any, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict

Kind = Literal[
    "none", "bool", "int", "float", "complex", "str", "bytes", "ellipsis", "array", "masked", "key",
    "list", "tuple", "set", "dict", "raised", "object", "oversize",
]  # fmt: skip


class Value(BaseModel):
    """One observed value.

    Attributes:
        kind: what it is. ``key`` is a JAX PRNG key, ``masked`` a NumPy masked array, ``raised`` an expression that
            raised, ``object`` anything that is not data, ``oversize`` a value over the probe's bounds.
        data: the scalar, or nested lists for an array.
        library: ``numpy`` or ``jax`` for arrays and NumPy scalars.
        dtype: of arrays and NumPy scalars.
        shape: of arrays.
        mask: of masked arrays, nested lists of bool.
        items: of lists, tuples and sets; of a dict its values.
        keys: of a dict, in the order of ``items``.
        type: the type's name, of objects and exceptions.
        bases: the names of an exception's base classes.
        message: of an exception, cut.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: Kind
    data: Any = None
    library: str | None = None
    dtype: str | None = None
    shape: tuple[int, ...] | None = None
    mask: Any = None
    items: tuple[Value, ...] | None = None
    keys: tuple[Value, ...] | None = None
    type: str | None = None
    bases: tuple[str, ...] | None = None
    message: str | None = None

    def plain(self) -> dict[str, Any]:
        """The JSON form, without the keys that do not apply."""
        return self.model_dump(mode="json", exclude_none=True)


NUMBER_KINDS = frozenset({"bool", "int", "float", "complex"})
SEQUENCE_KINDS = frozenset({"list", "tuple"})


def number(data: Any) -> Any:
    """One number of the JSON form: the spelled-out non-finite floats become floats, pairs become complex numbers."""
    if isinstance(data, str):
        return float(data)
    if isinstance(data, list):
        return complex(number(data[0]), number(data[1]))
    return data


def to_array(value: Value) -> np.ndarray[Any, Any] | None:
    """The value as a NumPy array: arrays with their dtype, numbers as 0-d, rectangular nested lists of numbers as the
    array that NumPy would make of them. None for everything else, ragged lists and lists of text among them.

    Raises:
        ValueError, TypeError: for data that contradicts its own dtype or shape (a forged answer).
    """
    if value.kind in {"array", "masked", "key"}:
        shape = value.shape or ()
        if math.prod(shape) > 5_000_000:
            raise ValueError("shape too large")
        dtype = _dtype(value.dtype or "")
        if dtype is None:
            return None
        flat = [number(one) for one in _flatten(value.data, len(shape))]
        return np.array(flat, dtype=dtype).reshape(shape)
    if value.kind in NUMBER_KINDS:
        dtype = _dtype(value.dtype) if value.dtype else None
        return np.array(number(value.data), dtype=dtype)
    if value.kind in SEQUENCE_KINDS:
        return _stack(value)
    return None


def _stack(value: Value) -> np.ndarray[Any, Any] | None:
    """Nested lists as an array, if they are rectangular and hold numbers of one family (bool apart from the rest)."""
    parts: list[np.ndarray[Any, Any]] = []
    for item in value.items or ():
        part = to_array(item)
        if part is None or (parts and part.shape != parts[0].shape):
            return None
        parts.append(part)
    if len({part.dtype.kind == "b" for part in parts}) > 1:
        return None
    if not parts:
        return np.zeros((0,))
    if _widens({part.dtype.kind for part in parts}, parts):
        return np.stack([part.astype(object) for part in parts])
    return np.stack(parts)


def _widens(kinds: set[str], parts: list[np.ndarray[Any, Any]]) -> bool:
    """Whether NumPy would make floats of integers that no float can hold: of an int64 beside a uint64 or a float64."""
    if len(kinds) < 2 or not kinds & {"i", "u"} or kinds == {"i", "O"}:
        return False
    return any(part.size and bool(((part > 2**53) | (part < -(2**53))).any()) for part in parts if part.dtype.kind in "iu")


NARROW = frozenset({"bfloat16", "float8_e4m3fn", "float8_e5m2"})
"""Floats that NumPy does not know; the probe sends them as float32, which holds each of them exactly."""


def _dtype(name: str) -> np.dtype[Any] | None:
    """The numeric dtype of that name; None if it is not one of numbers."""
    try:
        dtype = np.dtype("float32" if name in NARROW else name)
    except TypeError:
        return None
    return dtype if dtype.kind in "biufc" else None


def _flatten(data: Any, depth: int) -> list[Any]:
    """The numbers of nested lists. Below the shape's depth a list is a complex number's pair, and stays whole."""
    flat = [data]
    for _ in range(depth):
        flat = [item for part in flat for item in part]
    return flat


def show(value: Value, limit: int = 200) -> str:
    """A short, safe text for a message: at most ``limit`` characters, never code of the learner's object."""
    text = _text(value)
    return text if len(text) <= limit else f"{text[: limit - 20]} … ({len(text)} characters)"


def _text(value: Value) -> str:
    match value.kind:
        case "none":
            return "None"
        case "ellipsis":
            return "..."
        case "bool" | "int" | "float" | "complex":
            return _number_text(number(value.data), value.dtype)
        case "str":
            return repr(value.data)
        case "bytes":
            return f"bytes {value.data}"
        case "array" | "masked" | "key":
            return _array_text(value)
        case "list" | "tuple" | "set":
            inner = ", ".join(_text(item) for item in value.items or ())
            left, right = {"list": ("[", "]"), "tuple": ("(", ")"), "set": ("{", "}")}[value.kind]
            return f"{left}{inner}{right}"
        case "dict":
            pairs = zip(value.keys or (), value.items or (), strict=False)
            return "{" + ", ".join(f"{_text(key)}: {_text(item)}" for key, item in pairs) + "}"
        case "raised":
            return f"{value.type}: {value.message}" if value.message else f"{value.type}"
        case "oversize":
            return f"a {value.type} too large to look at ({value.message})"
        case "object":
            return f"a {value.type}"
        case _:
            return value.kind


def _number_text(data: Any, dtype: str | None = None) -> str:
    if isinstance(data, bool | int):
        return str(data)
    if isinstance(data, float):
        # float32 has no more than nine digits that mean anything; float64 shows its shortest exact form.
        return f"{data:.9g}" if dtype in {"float32", "float16", "bfloat16"} else repr(data)
    return str(data)


def _array_text(value: Value) -> str:
    depth = len(value.shape or ())
    flat = _flatten(value.data, depth)
    if len(flat) > 24:
        head = ", ".join(_number_text(number(one), value.dtype) for one in flat[:6])
        return f"array of shape {tuple(value.shape or ())}, {value.dtype}, beginning [{head}, …]"
    return _nested_text(value.data, depth, value.dtype)


def _nested_text(data: Any, depth: int, dtype: str | None) -> str:
    if depth == 0:
        return _number_text(number(data), dtype)
    return "[" + ", ".join(_nested_text(item, depth - 1, dtype) for item in data) + "]"
