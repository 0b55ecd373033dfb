"""Whether two printed lines say the same: the text exactly, the numbers in it as numbers.

Text is the weakest evidence: print options and versions change it. It is compared when a lesson is verified, and never
decides a learner's verdict; that rests on values.
"""

from __future__ import annotations

import ast
import re
import unicodedata

import numpy as np

from course.comparison import Difference, compare
from course.schema import Comparator
from course.values import Value

_ANSI = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(\x07|\x1b\\)")
_NUMBER = re.compile(r"(?<![\w.])[+-]?(\d+\.\d*|\.\d+|\d+)([eE][+-]?\d+)?(?![\w.]*\w)|(?<!\w)[+-]?(nan|inf)(?!\w)")
_PRINTED_ARRAY = re.compile(r"(?<=[\w.\]])\s+(?=[-+.\w\[])")
_SCALARS = re.compile(r"^(np|numpy|jnp)\.(float|int|uint|bool|complex|bfloat)[0-9]*_?$")
_ARRAYS = frozenset({"array", "Array", "DeviceArray", "np.array", "jnp.array"})


def compare_lines(expected: str, got: str, comparator: Comparator) -> Difference | None:
    """Compare two printed lines.

    Colors are dropped and Unicode is composed (NFC). Where both sides are the text of one Python value (also as NumPy
    or JAX print it), the values are compared; else the text must be the same but for its numbers. Integers never get a
    tolerance; other numbers are compared by ``comparator``. Slashes may lean either way where a path is expected, and an
    expected line may say ``<root>`` for the folder of a run and ``<run>`` for the id of an MLflow run.

    Returns:
        None if they agree, else the difference.
    """
    if comparator.name == "ignored":
        return None
    want, have = (unicodedata.normalize("NFC", _ANSI.sub("", text)).rstrip() for text in (expected, got))
    if want == have or _same_paths(want, have):
        return None
    shown = Difference(f"expected {_cut(want)}, got {_cut(have)}", "another line")
    left, right = _value(want), _value(have)
    if left is not None and right is not None:
        return shown if compare(left, right, _for(comparator, left)) else None
    if _NUMBER.sub("#", want) != _NUMBER.sub("#", have):
        return shown
    for a, b in zip(_NUMBER.finditer(want), _NUMBER.finditer(have), strict=True):
        one, other = _read(a.group()), _read(b.group())
        if compare(one, other, _for(comparator, one)):
            return shown
    return None


# A folder as any system writes it, also as a file URI; or the placeholder itself.
_PLACES = {"<root>": r"(?:<root>|(?:file://)?/?(?:[A-Za-z]:)?(?:/[^/\n]+)*)", "<run>": "(?:<run>|[0-9a-f]{32})"}


def _same_paths(expected: str, got: str) -> bool:
    """Whether two lines differ only in how paths are written, where a path is expected."""
    if "/" not in expected or "\\" in expected:
        return False
    pattern = "".join(_PLACES.get(part, re.escape(part)) for part in re.split("(<root>|<run>)", expected))
    return re.fullmatch(pattern, got.replace("\\", "/")) is not None


def _for(comparator: Comparator, expected: Value) -> Comparator:
    """A bound holds for measured numbers; counts beside them stay exact."""
    return Comparator(name="exact") if comparator.name == "at_most" and expected.kind != "float" else comparator


def _value(text: str) -> Value | None:
    """The value whose text this is, or None: literals, and the spellings of NumPy and JAX."""
    source = text.strip()
    if source.startswith("[") and "," not in source:
        source = _PRINTED_ARRAY.sub(", ", source)
    try:
        return _node(ast.parse(source, mode="eval").body)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _node(node: ast.expr) -> Value:
    match node:
        case ast.Constant(value=bool() | int() | float() | str() as data):
            return Value(kind=type(data).__name__, data=data)  # type: ignore[arg-type]
        case ast.Constant(value=None):
            return Value(kind="none")
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float() as data)) if not isinstance(data, bool):
            return Value(kind=type(data).__name__, data=-data)  # type: ignore[arg-type]
        case ast.List(elts=items) | ast.Tuple(elts=items):
            return Value(kind="list", items=tuple(_node(item) for item in items))
        case ast.Set(elts=items):
            return Value(kind="set", items=tuple(_node(item) for item in items))
        case ast.Dict(keys=keys, values=items):
            found = tuple(_node(key) for key in keys if key is not None)
            return Value(kind="dict", keys=found, items=tuple(_node(item) for item in items))
        case ast.Call(func=function, args=[inner]):
            name = ast.unparse(function)
            value = _node(inner)
            if name in _ARRAYS or (_SCALARS.match(name) and value.kind != "str"):
                return value
            if name in {"frozenset", "set"} and value.items is not None:
                return Value(kind="set", items=value.items)
        case ast.Attribute() if ast.unparse(node) in {"np.True_", "np.False_"}:
            return Value(kind="bool", data=ast.unparse(node) == "np.True_")
    raise ValueError("not the text of a value")


def _read(text: str) -> Value:
    try:
        return Value(kind="int", data=int(text))
    except ValueError:
        number = float(text)
        return Value(kind="float", data=number if np.isfinite(number) else text.lstrip("+"))


def _cut(text: str, limit: int = 300) -> str:
    return repr(text if len(text) <= limit else text[:limit] + "…")
