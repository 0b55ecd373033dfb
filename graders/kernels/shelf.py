"""Modules that are imported ahead and put away, so that a program finds them when it imports them and not before.

A forked process has the lesson's libraries in memory. To the program in it nothing of that may show: it is as if each
library was imported by the statement that imports it. So their names are taken out of ``sys.modules``, and given back by
a finder on ``sys.meta_path``, together with what an import leaves elsewhere: variables of the environment, filters of
warnings, the streams of log handlers, and settings that a library reads from the environment once, when it is imported
(those of JAX, matplotlib and MLflow; what other libraries read there is what it was in the process that imported them).
A file of the program's own that has a library's name hides it, as ever.
"""

from __future__ import annotations

import builtins
import functools
import logging
import os
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any


class Shelf(MetaPathFinder):
    """The modules that are put away. It collects them while it is entered with :meth:`collect`, and hides them then.

    Attributes:
        modules: name -> module, for those that are still put away.
    """

    def __init__(self) -> None:
        self.modules: dict[str, ModuleType] = {}
        self._needs: dict[str, set[str]] = {}
        self._shown = False
        self._environment: dict[str, str] = {}
        self._filters: list[Any] = []
        self._filters_before: list[Any] = []
        self._handlers: list[logging.Handler] = []
        self._streams: tuple[object, ...] = ()
        self._before: dict[str, str] = {}

    @contextmanager
    def collect(self) -> Iterator[None]:
        """Collect what is imported in this block."""
        known, handlers = set(sys.modules), set(map(id, _handlers()))
        self._before, self._filters_before = dict(os.environ), list(warnings.filters)
        original = builtins.__import__
        builtins.__import__ = self._noting(original)
        try:
            yield
        finally:
            builtins.__import__ = original
        found = {name: module for name, module in sys.modules.items() if name not in known}
        # A module without a specification was put there by another one's code. It comes back with its package or not at all.
        packages = {_top(name) for name, module in found.items() if getattr(module, "__spec__", None)}
        self.modules = {name: module for name, module in found.items() if _top(name) in packages}
        self._filters = [one for one in warnings.filters if one not in self._filters_before]
        self._environment = {name: value for name, value in os.environ.items() if self._before.get(name) != value}
        self._handlers = [one for one in _handlers() if id(one) not in handlers]
        self._streams = (sys.stdout, sys.stderr)

    def _noting(self, original: Callable[..., ModuleType]) -> Callable[..., ModuleType]:
        """An ``__import__`` that notes which package asks for which."""

        def noting(
            name: str,
            globals: Mapping[str, object] | None = None,
            locals: Mapping[str, object] | None = None,
            fromlist: Sequence[str] | None = (),
            level: int = 0,
        ) -> ModuleType:
            if globals and level == 0:
                asking = _top(str(globals.get("__name__")))
                self._needs.setdefault(asking, set()).add(_top(name))
            return original(name, globals, locals, fromlist, level)

        return noting

    def hide(self) -> None:
        """Put the modules away."""
        for name in self.modules:
            sys.modules.pop(name, None)
        warnings.filters[:] = self._filters_before  # type: ignore[index]
        warnings._filters_mutated()  # type: ignore[attr-defined]
        sys.meta_path.insert(0, self)

    def find_spec(self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        """Give a module back, with everything of its package and of those that it has imported itself."""
        module = self.modules.get(fullname)
        if module is None:
            return None
        found = PathFinder.find_spec(fullname, path, target)
        known = getattr(module, "__spec__", None)
        if known is None:
            return None
        # Of the same name may be a file that comes first; and what is built in is found by others than this one.
        if found.origin != known.origin if found is not None else known.origin not in {"built-in", "frozen"}:
            return None
        given = self._given(fullname)
        spec = ModuleSpec(fullname, _Given(module, known, functools.partial(self._give, given)), origin=known.origin)
        spec.submodule_search_locations = known.submodule_search_locations
        spec.has_location, spec.cached = known.has_location, known.cached
        return spec

    def _given(self, fullname: str) -> dict[str, ModuleType]:
        """A module, its package, and all that these have imported, as far as it is still put away."""
        wanted, seen, given = [_top(fullname)], {_top(fullname)}, dict[str, ModuleType]()
        while wanted:
            top = wanted.pop()
            given |= {name: module for name, module in self.modules.items() if _top(name) == top}
            more = self._needs.get(top, set()) - seen
            wanted += more
            seen |= more
        return given

    def _give(self, given: Mapping[str, ModuleType]) -> None:
        """Give modules back, and what their import has done elsewhere. If that raises they stay put away."""
        for name, module in given.items():
            sys.modules.setdefault(name, module)
            self.modules.pop(name, None)
        if not self._shown:
            self._side_effects()
        self._shown = True
        try:
            for name, adapt in _ADAPT.items():
                if name in given:
                    adapt(given, self._before)
        except BaseException:
            for name in given:
                sys.modules.pop(name, None)
            self.modules.update(given)
            raise

    def _side_effects(self) -> None:
        """What the imports have left outside of their modules."""
        for name, value in self._environment.items():
            os.environ.setdefault(name, value)
        for one in reversed(self._filters):
            warnings.filters.insert(0, one)  # type: ignore[attr-defined]
        warnings._filters_mutated()  # type: ignore[attr-defined]
        out, err = self._streams
        for handler in self._handlers:
            # Whoever sets up logging anew, as IPython does at its start, empties the list.
            logging._addHandlerRef(handler)  # type: ignore[attr-defined]
            if isinstance(handler, logging.StreamHandler) and handler.stream in self._streams:
                handler.stream = sys.stdout if handler.stream is out and out is not err else sys.stderr


class _Given(Loader):
    """Gives the import system a module that is complete."""

    def __init__(self, module: ModuleType, spec: ModuleSpec, give: Callable[[], None]) -> None:
        self.module, self.spec, self.give = module, spec, give

    def __getattr__(self, name: str) -> Any:
        """Whatever else the module's own loader offers: its source, its data files."""
        if "spec" not in self.__dict__:  # a copy in the making
            raise AttributeError(name)
        return getattr(self.spec.loader, name)

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return self.module

    def exec_module(self, module: ModuleType) -> None:
        module.__spec__ = self.spec
        self.give()


def _top(name: str) -> str:
    return name.partition(".")[0]


def _handlers() -> Iterator[logging.Handler]:
    known = (reference() for reference in logging._handlerList)  # type: ignore[attr-defined]
    return (one for one in known if one is not None)


def _adapt_jax(given: Mapping[str, ModuleType], before: Mapping[str, str]) -> None:
    """Take over settings that a program has put into the environment before its ``import jax``."""
    config = given["jax._src.config"].config
    for name, current in config.values.items():
        value = os.environ.get(name.upper())
        if value is None or value == before.get(name.upper()):
            continue
        if isinstance(current, bool):
            if value.lower() not in {*_TRUE, *_FALSE}:
                raise ValueError(f"invalid truth value {value.lower()!r} for environment {name.upper()!r}")
            config.update(name, value.lower() in _TRUE)
        elif isinstance(current, int | float):
            config.update(name, type(current)(value))
        else:
            config.update(name, value)


_TRUE, _FALSE = ("y", "yes", "t", "true", "on", "1"), ("n", "no", "f", "false", "off", "0")


def _adapt_matplotlib(given: Mapping[str, ModuleType], before: Mapping[str, str]) -> None:
    """Forget the folders of the process that imported it, and read the settings that are found from here."""
    matplotlib = given["matplotlib"]
    for function in (matplotlib.get_configdir, matplotlib.get_cachedir):
        names = function.__code__.co_freevars
        if "called" in names:
            function.__closure__[names.index("called")].cell_contents = False
    file = matplotlib.matplotlib_fname()
    if not file.startswith(matplotlib.get_data_path()):
        matplotlib.rc_file(file)
    backend = os.environ.get("MPLBACKEND")
    if backend and backend != before.get("MPLBACKEND"):
        matplotlib.rcParams["backend"] = backend


def _adapt_mlflow(given: Mapping[str, ModuleType], before: Mapping[str, str]) -> None:
    """Take over the level of the log that a program has put into the environment before its ``import mlflow``."""
    if os.environ.get("MLFLOW_LOGGING_LEVEL") != before.get("MLFLOW_LOGGING_LEVEL"):
        given["mlflow.utils.logging_utils"]._configure_mlflow_loggers("mlflow")


_ADAPT: dict[str, Callable[[Mapping[str, ModuleType], Mapping[str, str]], None]] = {
    "jax": _adapt_jax,
    "matplotlib": _adapt_matplotlib,
    "mlflow": _adapt_mlflow,
}
