"""One process that holds the module under audit, and nothing else of the audit.

Started by `stages.py` as `python worker.py MODULE`. Reads one question a line from its standard input and writes one
answer a line to its standard output, both as JSON. A question is

    {"call": function, "arguments": {name: value}, "watch": file or null, "stop": {place: number}}

The first line says {"ready": true}. After that an answer is one of

    {"returned": value, "changed": names}   what the function returned; which arguments it changed although it may not
    {"raised": type, "message": text, "line": number or null, "part": text or null}
    {"logged": value}                       `train` has called its `log`; more follows
    {"wrote": text}                         a milestone of writing the watched file; more follows
    {"reached": text}                       the place named by "stop": the process stands still until it is killed

What the module prints goes to standard error.
"""

from __future__ import annotations

import dataclasses
import importlib.machinery
import importlib.util
import json
import os
import sys
import traceback
import zipfile
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

_fsync, _open_member = os.fsync, zipfile.ZipFile.open


def encode(value: Any) -> Any:
    """Plain data as JSON; an array is its dtype, its shape and its bytes, so that not one bit is lost on the way.

    Raises:
        TypeError: for anything that is not data.
    """
    if value is None or isinstance(value, bool | int | float | str):
        # A NumPy scalar that inherits from Python's float (float64) is an array of shape () like the others.
        return value if not isinstance(value, np.generic) else encode(np.asarray(value))
    if isinstance(value, np.ndarray | np.generic):
        array = np.asarray(value)
        if array.dtype.kind not in "biuf":
            raise TypeError(f"an array of {array.dtype} is not data that an answer may hold")
        return {"array": [str(array.dtype), list(array.shape), array.tobytes().hex()]}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: encode(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, dict):
        return {str(name): encode(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [encode(item) for item in value]
    raise TypeError(f"a {type(value).__name__} is not data that an answer may hold")


def decode(value: Any) -> Any:
    """The inverse of `encode`, with dictionaries in the place of dataclasses and lists in that of tuples."""
    if isinstance(value, dict):
        if value.keys() == {"array"}:
            dtype, shape, data = value["array"]
            return np.frombuffer(bytes.fromhex(data), np.dtype(dtype)).reshape(shape).copy()
        return {name: decode(item) for name, item in value.items()}
    return [decode(item) for item in value] if isinstance(value, list) else value


class Worker:
    """The module, and the places at which its process may be stopped."""

    def __init__(self, path: Path, say: Callable[[dict[str, Any]], None]) -> None:
        self.path, self.say = path, say
        self.module: ModuleType | None = None
        self.watched: Path | None = None
        self.stop: dict[str, int] = {}
        self.archives, self.members = 0, 0
        self.data: dict[str, Any] = {}

    def answer(self, question: dict[str, Any]) -> dict[str, Any]:
        """Put one question to the module."""
        try:
            if self.module is None:
                self.module = load(self.path)
            self.watched = Path(question["watch"]) if question.get("watch") else None
            self.stop = question.get("stop") or {}
            arguments = {name: self.argument(name, value) for name, value in question["arguments"].items()}
            fixed = {name: encode(arguments[name]) for name in ("state", "data") if name in arguments}
            if question["call"] == "train":
                arguments["log"] = self.log
            function = getattr(self.module, question["call"], None)
            if function is None:
                raise NotImplementedError("the module does not define it")
            returned = function(**arguments)
            changed = [place for name, before in fixed.items() for place in different(name, before, encode(arguments[name]))]
            return {"returned": encode(returned), "changed": changed}
        except BaseException as error:
            # Also SystemExit and KeyboardInterrupt: a module that ends its process answers that it wanted to.
            frames = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(self.path)]
            if isinstance(error, SyntaxError) and error.filename == str(self.path):
                frames = [error.lineno]
            part = str(error.part) if type(error).__name__ == "Refused" and hasattr(error, "part") else None
            line = frames[-1] if frames else None
            return {"raised": type(error).__name__, "message": str(error)[:500], "line": line, "part": part}

    def argument(self, name: str, value: Any) -> Any:
        """An argument as the module's functions expect it."""
        module = self.module
        match name:
            case "data":  # a path; read once, so that a function that changes its data is noticed
                if value not in self.data:
                    self.data[value] = module.load_data(value)
                return self.data[value]
            case "config":
                return module.Config(**value)
            case "path":
                return Path(value)
            case "uninterrupted" | "resumed":
                run = decode(value)
                updates = [module.Update(one["step"], one["ids"], np.asarray(one["loss"])[()]) for one in run["updates"]]
                return module.Run(updates, run["state"])
            case _:
                return decode(value)

    def log(self, done: Any) -> None:
        """What `train` is given as its `log`: tells the driver, and may stop here."""
        said = encode(done)
        self.say({"logged": said})
        if said.get("step") == self.stop.get("after update"):
            self.stand_still(f"after update {said['step']}")

    def stand_still(self, place: str) -> None:
        """Say where the process is, and do nothing until it is killed; end if whoever should kill it is gone."""
        self.say({"reached": place})
        sys.stdin.readline()
        os._exit(1)

    # --- milestones of writing -------------------------------------------------------------------------------------

    def install(self) -> None:
        """Notice what happens to files, before the module is loaded and can keep a function of its own."""
        sys.addaudithook(self.audit)
        os.fsync = self.fsync
        worker = self

        def open_member(archive: zipfile.ZipFile, name: Any, mode: str = "r", *rest: Any, **options: Any) -> Any:
            if mode == "w" and worker.watched:
                worker.member(archive)
            return _open_member(archive, name, mode, *rest, **options)

        zipfile.ZipFile.open = open_member

    def audit(self, event: str, arguments: tuple[Any, ...]) -> None:
        """Python calls this before a file is opened or renamed."""
        if self.watched is None or event not in {"open", "os.rename"}:
            return
        name = arguments[0] if event == "open" else arguments[1]
        if not isinstance(name, str | os.PathLike) or Path(os.path.abspath(name)) != self.watched:
            return
        if event == "os.rename":
            if self.archives == self.stop.get("save") and self.stop.get("member") == -1:
                self.stand_still(f"save {self.archives}, before the rename")
            self.say({"wrote": "renamed"})
        elif arguments[2] & (os.O_WRONLY | os.O_RDWR):
            self.say({"wrote": "opened in place"})

    def fsync(self, file: int) -> None:
        """In the place of os.fsync."""
        _fsync(file)
        if self.watched is not None:
            self.say({"wrote": "synced"})

    def member(self, archive: zipfile.ZipFile) -> None:
        """A member of an archive is about to be written; the archives of a watched call are its saves."""
        if getattr(archive, "counted", None) is None:
            archive.counted = 0
            self.archives += 1
        if self.archives == self.stop.get("save") and archive.counted == self.stop.get("member"):
            self.stand_still(f"save {self.archives}, before member {archive.counted}")
        archive.counted += 1


def different(name: str, before: Any, after: Any) -> list[str]:
    """The parts of an encoded argument that changed."""
    return [f"{name}.{part}" for part in sorted(before.keys() | after.keys()) if before.get(part) != after.get(part)]


def load(path: Path) -> ModuleType:
    """The module, from its source as it is now: a compiled copy could be that of a moment ago."""
    spec = importlib.machinery.ModuleSpec("model", None, origin=str(path))
    module = importlib.util.module_from_spec(spec)
    module.__file__ = str(path)
    sys.modules["model"] = module  # dataclasses look their module up
    exec(compile(path.read_bytes(), str(path), "exec"), module.__dict__)
    return module


def main() -> None:
    """Answer until the driver closes the pipe."""
    # The answers get a channel of their own: a module may print, and print anything.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    dumps = json.dumps

    def say(answer: dict[str, Any]) -> None:
        answers.write(dumps(answer) + "\n")
        answers.flush()

    worker = Worker(Path(sys.argv[1]), say)
    worker.install()
    say({"ready": True})
    for line in sys.stdin:
        say(worker.answer(json.loads(line)))


if __name__ == "__main__":
    main()
