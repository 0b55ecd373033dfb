"""What passes between a grader and the workers of a cluster, as plain data: errands, answers, greetings, and the frames of a pipe.

Everything is text and the submitted bytes; no object of the grader, let alone of a learner, is ever pickled.
"""

from __future__ import annotations

import json
import platform
from collections.abc import Mapping
from dataclasses import fields
from importlib.metadata import PackageNotFoundError, version
from typing import IO, Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict

from course.receipt import Environment
from graders.store import Terms
from graders.verdict import SubmissionResult
from graders.version import grader_digest

COURSE = "TRAINING_SYSTEMS_COURSE"  # the variable that names a worker's checkout of the course; without it, where it was started
SPOKEN = ("dask", "distributed", "msgpack", "tornado")  # both ends of a connection have to have the same
MAX_HEAD = 10_000  # bytes
BEAT_SECONDS = 10.0  # between two signs of life of a grading process
ALIVE = -1  # the number of a frame that is no more than such a sign


class _Message(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


M = TypeVar("M", bound=_Message)


class Errand(_Message):
    """A submission that is to be judged elsewhere; its bytes travel beside it.

    Attributes:
        run: names the grading run; a worker keeps one grading process for each.
        lesson, learner, shown: of the submission; ``shown`` is how reports name the file.
        name: of the file, without a folder.
        seed, cell_seconds, total_seconds, more, how: see :class:`graders.check.Settings`; ``how`` by its name.
        mode: of the isolation, see :class:`graders.kernels.isolation.Mode`.
        terms: under which it has to be judged. A worker with others refuses.
        place: the caller's environment, to name what differs.
        draws: the parameters of the draws as JSON.
    """

    run: str
    lesson: str
    learner: str
    shown: str
    name: str
    seed: int
    cell_seconds: float | None
    total_seconds: float | None
    more: Mapping[str, int]
    how: str
    mode: str
    terms: Terms
    place: Environment
    draws: str


class Answer(_Message):
    """What came of an errand.

    Attributes:
        kind: ``judged``; ``refused``, since the worker would judge under other terms; or ``ended``: the process that judged it did.
        result: of a judged submission.
        why: of the others, for a person.
    """

    kind: Literal["judged", "refused", "ended"]
    result: SubmissionResult | None = None
    why: str = ""


class Greeting(_Message):
    """What a worker or a scheduler says of itself.

    Attributes:
        python: version of the interpreter.
        versions: of the distributions in :data:`SPOKEN`.
        grader: digest of the grader's sources.
        course: the folder of its course; empty where there is none.
    """

    python: str
    versions: Mapping[str, str]
    grader: str
    course: str = ""


def text(message: _Message) -> str:
    """A message as JSON. In ASCII, since a learner's name may hold a lone surrogate, which is no UTF-8."""
    return json.dumps(message.model_dump(mode="json"), ensure_ascii=True, allow_nan=False)


def parse(kind: type[M], given: object) -> M:
    """A message from its JSON.

    Raises:
        ValueError: if it is not one.
    """
    if not isinstance(given, str):
        raise ValueError(f"{type(given).__name__} is no text")
    return kind.model_validate(json.loads(given))


def myself(course: str = "") -> Greeting:
    """The greeting of this process."""
    return Greeting(
        python=platform.python_version(), versions={name: _version(name) for name in SPOKEN}, grader=grader_digest(), course=course
    )  # fmt: skip


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "none"


def unlike(mine: Greeting, theirs: Greeting, *, patch: bool = True) -> str:
    """What differs in the versions of two ends, or an empty text.

    Args:
        mine: of this end.
        theirs: of the other.
        patch: whether Python has to be the same to the last number.
    """
    pairs = {"Python": (mine.python, theirs.python)} | {
        name: (found, theirs.versions.get(name, "none")) for name, found in mine.versions.items()
    }
    if not patch and mine.python.split(".")[:2] == theirs.python.split(".")[:2]:
        del pairs["Python"]
    return ", ".join(f"{name} {there} there, {here} here" for name, (here, there) in pairs.items() if here != there)


_NAMED = {
    "lesson_digest": "the lesson",
    "receipt_digest": "the receipt of the lesson",
    "grader": "the grader's own sources",
    "limits": "the lesson's limits",
}


def differing(errand: Errand, terms: Terms, place: Environment, draws: str, lacking: tuple[str, ...] = ()) -> str:
    """What a worker would do otherwise than its caller, and what to do about it; empty if nothing.

    Args:
        errand: as the caller wants it.
        terms: the worker's own, like
        place: its environment, and
        draws: the parameters that it draws.
        lacking: the layers of isolation that the worker's machine lacks, with the reasons.
    """
    asked = errand.terms
    other = [one.name for one in fields(Terms) if getattr(asked, one.name) != getattr(terms, one.name)]
    what = [
        f"{words} ({getattr(terms, name)[:12] or 'none'} there, {getattr(asked, name)[:12] or 'none'} here)"
        for name, words in _NAMED.items()
        if name in other
    ]
    remedies = ["bring its checkout to the caller's commit"] if what else []
    if draws != errand.draws and not what:
        what.append("the draws for the same seed")
        remedies.append("bring its checkout to the caller's commit")
    if "environment" in other:
        what.append(f"the environment ({_places(errand.place, place) or 'another requirements-cpu.txt'})")
        remedies.append("make its environment from the caller's locks (`python -m environment --scale --prepare`)")
    if "isolation" in other:
        lack = f"it lacks {'; '.join(lacking)}" if lacking else "it has layers that the caller's machine lacks"
        what.append(f"the isolation ({lack})")
        remedies.append("see what the layer needs in docs/security.md, or grade with --isolation off what you trust")
    return f"{', '.join(what)} differ{'s' if len(what) == 1 else ''}: {', and '.join(remedies)}" if what else ""


def _places(here: Environment, there: Environment) -> str:
    def flat(one: Environment) -> dict[str, str]:
        return {"Python": one.python, "implementation": one.implementation, "system": one.platform, "machine": one.machine, **one.packages}  # fmt: skip

    mine, theirs = flat(here), flat(there)
    return ", ".join(
        f"{name} {theirs.get(name, 'none')} there, {own} here" for name, own in mine.items() if theirs.get(name) != own
    )


def write_frame(stream: IO[bytes], number: int, *parts: bytes) -> None:
    """Write one numbered frame of parts to a pipe."""
    head = json.dumps({"number": number, "sizes": [len(part) for part in parts]}).encode() + b"\n"
    stream.write(head)
    for part in parts:
        stream.write(part)
    stream.flush()


def read_frame(stream: IO[bytes]) -> tuple[int, list[bytes]] | None:
    """Read one frame; None at the end of the pipe, also where it ends within a frame.

    Raises:
        ValueError: if it is no frame.
    """
    line = stream.readline(MAX_HEAD)
    if not line.endswith(b"\n"):
        return None
    head: Any = json.loads(line)
    match head:
        case {"number": int(number), "sizes": [*sizes]} if all(isinstance(size, int) and size >= 0 for size in sizes):
            parts = [stream.read(size) for size in sizes]
            return (number, parts) if [len(part) for part in parts] == sizes else None
    raise ValueError(f"no frame begins with {line[:100]!r}")
