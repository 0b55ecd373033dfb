"""The code that observes. Its text is sent into the kernel before any cell runs; nothing else of the grader goes there.

It holds no expected value and no check: it turns the values of expressions into plain data (the form that
:mod:`course.values` reads) and returns them. Only exact built-in, NumPy and JAX types are read as data, so an object
with its own ``__eq__`` or ``__array__`` proves nothing. It imports nothing but the standard library, and keeps
references to what it needs, since a learner's code may replace it later.
"""

from __future__ import annotations

import base64
import contextlib
import io
import json
import os
import sys

MAX_ITEMS = 200_000
MAX_TEXT = 100_000
MAX_DEPTH = 20
MAX_MESSAGE = 2_000

_dumps, _modules, _isinstance, _type, _len, _str, _repr = json.dumps, sys.modules, isinstance, type, len, str, repr
_float, _int, _bool, _list, _min = float, int, bool, list, min
_suppress = contextlib.suppress
_getcwd, _chdir, _makedirs = os.getcwd, os.chdir, os.makedirs


class _Oversize(Exception):
    """A value is over the bounds above."""


class _Budget:
    def __init__(self):
        self.items = 0

    def take(self, count):
        self.items += count
        if self.items > MAX_ITEMS:
            raise _Oversize(f"more than {MAX_ITEMS} items")


_kept = {}


def keep(names, namespace, frozen=False):
    """Remember what a cell has just bound to these names, whatever a later cell calls so.

    A given cell's stay the objects that they are, so that what an exercise does to them is seen. A learner's answer is
    frozen: plain data as a copy, which no later cell can change.
    """
    for name in names:
        if name in namespace:
            _kept[name] = namespace[name]
            if frozen:
                try:
                    _kept[name] = _copy(namespace[name], _Budget())
                except _Oversize:
                    continue  # too large to copy, and to look at as well
    return "kept"


def _copy(value, budget, depth=0):
    """A copy of exact built-in containers and NumPy arrays; everything else is the same object."""
    kind = _type(value)
    budget.take(1)
    if depth > MAX_DEPTH:
        raise _Oversize(f"nested deeper than {MAX_DEPTH}")
    if kind is _list or kind is tuple:
        return kind([_copy(item, budget, depth + 1) for item in value])
    if kind is dict:
        return {key: _copy(item, budget, depth + 1) for key, item in value.items()}
    if kind is set:
        return set(value)
    numpy = _modules.get("numpy")
    if numpy is not None and kind is numpy.ndarray:
        budget.take(value.size)
        return numpy.ndarray.copy(value, order="K")
    return value


def observe(nonce, expressions, namespace, given=(), plain=()):
    """Evaluate expressions and return the JSON text of ``{"nonce": …, "values": {expression: value}}``.

    The names in ``given`` mean what the lesson's own cells made of them, and those in ``plain`` are Python's own, whatever
    another cell has called so: a function of a learner's that answers for the lesson's would prove nothing.
    An expression that raises is an observation too. What goes wrong in the encoding itself becomes an observation of
    kind ``object``, never an exception.
    """
    scope = {name: value for name, value in namespace.items() if name not in plain}
    scope.update((name, _kept[name]) for name in given if name in _kept)
    values = {}
    for expression in expressions:
        try:
            value = eval(compile(expression, "<probe>", "eval"), scope)
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            values[expression] = _raised(error)
            continue
        try:
            values[expression] = _encode(value, 0, _Budget())
        except _Oversize as error:
            values[expression] = {"kind": "oversize", "type": _name(value), "message": _str(error)}
        except KeyboardInterrupt:
            raise
        except BaseException:
            values[expression] = {"kind": "object", "type": _name(value)}
    return _dumps({"nonce": nonce, "values": values}, allow_nan=False)


def figures():
    """The open matplotlib figures as the JSON text of ``{"figures": …, "svg": …, "png": …}``; then all are closed.

    ``figures`` is what was plotted, not how it was rendered. The first one is also drawn; its files are base64.
    """
    pyplot = _modules.get("matplotlib.pyplot")
    found, drawn = [], {}
    if pyplot and pyplot.get_fignums():
        first = pyplot.figure(pyplot.get_fignums()[0])
        svg, png = io.BytesIO(), io.BytesIO()
        # Without a date and with fixed element ids the same figure gives the same bytes.
        with _modules["matplotlib"].rc_context({"svg.hashsalt": "training-systems"}):
            first.savefig(svg, format="svg", metadata={"Date": None}, bbox_inches="tight")
        first.savefig(png, format="png", dpi=110, metadata={"Software": None}, bbox_inches="tight")
        drawn = {"svg": base64.b64encode(svg.getvalue()).decode(), "png": base64.b64encode(png.getvalue()).decode()}
    for number in pyplot.get_fignums() if pyplot else []:
        axes = []
        for ax in pyplot.figure(number).get_axes():
            lines = [
                {"label": _str(one.get_label()), "x": _plain(one.get_xdata()), "y": _plain(one.get_ydata())}
                for one in ax.get_lines()
            ]
            points = [
                {"label": _str(one.get_label()), "xy": _plain(one.get_offsets())}
                for one in ax.collections
                if _len(one.get_offsets())
            ]
            bars = [
                [_float(one.get_x()), _float(one.get_width()), _float(one.get_height())]
                for one in ax.patches
                if hasattr(one, "get_height")
            ]
            images = [_plain(one.get_array()) for one in ax.get_images()]
            axes.append({
                "title": ax.get_title(), "xlabel": ax.get_xlabel(), "ylabel": ax.get_ylabel(),
                "xscale": ax.get_xscale(), "yscale": ax.get_yscale(),
                "lines": lines, "points": points, "bars": bars, "images": images,
            })  # fmt: skip
        found.append({"axes": axes})
    if pyplot:
        pyplot.close("all")
    return _dumps({"figures": found, **drawn})


def reset(folder):
    """Begin again: an empty namespace, closed figures, and a working directory of its own below the scratch folder."""
    pyplot = _modules.get("matplotlib.pyplot")
    if pyplot:
        pyplot.close("all")
    _kept.clear()
    with _suppress(Exception):  # a learner may have replaced parts of MLflow: then the next run finds the same stores again
        _forget_stores()
    shell = _modules["IPython"].get_ipython()
    shell.reset(new_session=False, aggressive=False)
    for name in ("__doc__", "__loader__", "__package__", "__spec__"):
        shell.user_module.__dict__.setdefault(name, None)  # gone with the rest; multiprocessing looks for one of them
    _makedirs(folder, exist_ok=True)
    _chdir(folder)
    return "reset"


def _forget_stores():
    """Let MLflow end its runs and forget the stores it has open: in the next run ``sqlite:///mlflow.db`` is another file."""
    mlflow = _modules.get("mlflow")
    if mlflow is None:
        return
    while "mlflow.tracking.fluent" in _modules and mlflow.active_run():
        mlflow.end_run()
    for part in ("tracking", "model_registry"):
        module = _modules.get(f"mlflow.store.{part}.sqlalchemy_store")
        if module is not None:
            for engine in module.SqlAlchemyStore._engine_map.values():
                engine.dispose()
            module.SqlAlchemyStore._engine_map.clear()
    for part, kind in (("_tracking_service", "TrackingStoreRegistry"), ("_model_registry", "ModelRegistryStoreRegistry")):
        module = _modules.get(f"mlflow.tracking.{part}.registry")
        if module is not None:
            getattr(module, kind)._get_store_with_resolved_uri.cache_clear()


def names(namespace):
    """The public names that the namespace holds, as JSON text: for "there is a name much like it"."""
    found = sorted(name for name in namespace if _isinstance(name, _str) and name[:1] != "_")
    return _dumps(found[:500])


def _raised(error):
    kind = _type(error)
    try:
        message = _str(error)[:MAX_MESSAGE]
    except BaseException:
        message = ""
    return {"kind": "raised", "type": kind.__name__, "bases": [base.__name__ for base in kind.__mro__], "message": _clean(message)}


def _name(value):
    return _clean(_str(_type(value).__name__)[:200])


def _clean(text):
    """Text that JSON and UTF-8 can carry: a lone surrogate becomes its escape."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def _plain(values):
    numpy = _modules["numpy"]
    return _numbers(numpy.ma.filled(numpy.asarray(values, dtype=_float), numpy.nan).tolist(), "float64")


def _encode(value, depth, budget):
    kind = _type(value)
    budget.take(1)
    if depth > MAX_DEPTH:
        raise _Oversize(f"nested deeper than {MAX_DEPTH}")
    if value is None:
        return {"kind": "none"}
    if value is Ellipsis:
        return {"kind": "ellipsis"}
    if kind is _bool:
        return {"kind": "bool", "data": value}
    if kind is _int:
        if value.bit_length() > 10_000:
            raise _Oversize("more than 10,000 bits")
        return {"kind": "int", "data": value}
    if kind is _float:
        return {"kind": "float", "data": _number(value)}
    if kind is complex:
        return {"kind": "complex", "data": [_number(value.real), _number(value.imag)]}
    if kind is _str:
        if _len(value) > MAX_TEXT:
            raise _Oversize(f"more than {MAX_TEXT} characters")
        return {"kind": "str", "data": _clean(value)}
    if kind is bytes:
        if _len(value) > MAX_TEXT:
            raise _Oversize(f"more than {MAX_TEXT} bytes")
        return {"kind": "bytes", "data": value.hex()}
    if kind in (_list, tuple) or (issubclass(kind, tuple) and hasattr(kind, "_fields")):
        budget.take(_len(value))
        return {
            "kind": "list" if kind is _list else "tuple",
            "items": [_encode(item, depth + 1, budget) for item in tuple.__iter__(value)]
            if kind is not _list
            else [_encode(item, depth + 1, budget) for item in value],
        }
    if kind in (set, frozenset):
        budget.take(_len(value))
        items = [_encode(item, depth + 1, budget) for item in value]
        return {"kind": "set", "items": sorted(items, key=lambda item: _dumps(item, sort_keys=True))}
    if kind is dict:
        budget.take(_len(value))
        return {
            "kind": "dict",
            "keys": [_encode(key, depth + 1, budget) for key in value],
            "items": [_encode(item, depth + 1, budget) for item in value.values()],
        }
    return _array(value, kind, budget) or {"kind": "object", "type": _name(value)}


def _array(value, kind, budget):
    """NumPy arrays and scalars, masked arrays, JAX arrays and keys; None for everything else."""
    numpy = _modules.get("numpy")
    if numpy is None:
        return None
    if kind is numpy.ndarray:
        return _ndarray(value, "numpy", budget)
    if kind is numpy.ma.MaskedArray or value is numpy.ma.masked:
        plain = numpy.asarray(value.data)
        found = _ndarray(plain, "numpy", budget)
        mask = numpy.broadcast_to(numpy.ma.getmaskarray(value), plain.shape)
        return found and {**found, "kind": "masked", "mask": mask.tolist()}
    if issubclass(kind, numpy.generic) and kind.__module__ == "numpy":
        if value.dtype.kind not in "biufc":
            return _encode(value.item(), 0, budget) if value.dtype.kind in "US" else None
        name = {"b": "bool", "i": "int", "u": "int", "f": "float", "c": "complex"}[value.dtype.kind]
        data = _numbers(value.tolist() if value.dtype.kind != "f" else _shortest(value), value.dtype.name)
        return {"kind": name, "data": data, "dtype": value.dtype.name, "library": "numpy"}
    jax = _modules.get("jax")
    core = _modules.get("jaxlib._jax") or _modules.get("jaxlib.xla_extension")
    if jax is not None and core is not None and kind is getattr(core, "ArrayImpl", None):
        return _ndarray(numpy.asarray(value), "jax", budget)
    if jax is not None and kind.__name__ == "PRNGKeyArray" and kind.__module__.startswith("jax."):
        found = _ndarray(numpy.asarray(jax.random.key_data(value)), "jax", budget)
        return {**found, "kind": "key"}
    return None


def _ndarray(array, library, budget):
    kind = array.dtype.kind
    budget.take(array.size)
    narrow = kind == "V" and array.dtype.name in ("bfloat16", "float8_e4m3fn", "float8_e5m2")
    if kind not in "biufc" and not narrow:
        return None
    if kind == "f" and array.dtype.itemsize < 8:
        data = numpy_nested([_shortest(one) for one in array.ravel()], array.shape)
    elif narrow:
        data = array.astype("float32").tolist()
    else:
        data = array.tolist()
    return {
        "kind": "array",
        "library": library,
        "dtype": array.dtype.name,
        "shape": _list(array.shape),
        "data": _numbers(data, array.dtype.name),
    }


def numpy_nested(flat, shape):
    """Flat numbers as nested lists of that shape."""
    if not shape:
        return flat[0]
    step = 1
    for size in shape[1:]:
        step *= size
    return [numpy_nested(flat[i * step : (i + 1) * step], shape[1:]) for i in range(shape[0])]


def _shortest(value):
    """A narrow float as the shortest decimal that reads back to it, so that receipts show 0.1 and not 0.10000000149."""
    return _float(_str(value))


def _numbers(data, dtype):
    if _isinstance(data, _list):
        return [_numbers(item, dtype) for item in data]
    if _isinstance(data, complex):
        return [_number(data.real), _number(data.imag)]
    return _number(data)


def _number(value):
    if _isinstance(value, _float) and (value != value or value in (_float("inf"), _float("-inf"))):
        return "nan" if value != value else ("inf" if value > 0 else "-inf")
    return value
