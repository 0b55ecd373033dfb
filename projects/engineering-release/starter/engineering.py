# project: engineering-release
"""The decisions of a release: what a run says of itself, which version may be served, and what is written down of it.

The service loads this file, too, and a server needs neither a tracker nor JAX. So MLflow and NumPy are imported here for
the types alone: the functions get a client, and one that needs more of MLflow imports it itself.
"""

from __future__ import annotations

import hashlib
import json
import math
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    from mlflow import MlflowClient

# Why a version is refused.
OTHER_DATA = "fitted to other data"
OTHER_METRIC = "its logged error is not that of its bytes"
ABOVE_LIMIT = "error above the limit"
NOT_BETTER = "not better than the champion"

# How far the logged error may be from the recomputed one: float32 keeps about seven digits.
RELATIVE = 1e-5
ABSOLUTE = 1e-6

# The largest input that the service takes, in either direction.
LARGEST = 1e6

Predict = Callable[[list[float]], list[float]]
Fetch = Callable[[int], bytes]


@dataclass(frozen=True)
class Statement:
    """What a run says of itself before its first update.

    Attributes:
        rate: the learning rate.
        updates: how many updates it is going to make.
        data_sha256: digest of the training split.
        code_sha256: digest of the program.
    """

    rate: float
    updates: int
    data_sha256: str
    code_sha256: str


@dataclass(frozen=True)
class Line:
    """A model: weight * x + bias."""

    weight: float
    bias: float


@dataclass(frozen=True)
class Candidate:
    """A registered version with all that the gate may look at.

    Attributes:
        version: its number.
        data_sha256: the data that its run was fitted to.
        train_mse: the last training error of its run, as logged.
        logged_mse: the validation error that its run logged.
        recomputed_mse: the validation error of its stored bytes, computed again.
    """

    version: int
    data_sha256: str
    train_mse: float
    logged_mse: float
    recomputed_mse: float


@dataclass(frozen=True)
class Terms:
    """What a release demands, fixed before anything is trained.

    Attributes:
        data_sha256: the data that a candidate must have been fitted to.
        limit: the largest validation error that may be served.
    """

    data_sha256: str
    limit: float


@dataclass(frozen=True)
class Decision:
    """What became of a candidate.

    Attributes:
        version: the candidate.
        reasons: why it was refused; empty if it was promoted.
        champion: the version that the alias leads to after the decision, None if to none.
    """

    version: int
    reasons: tuple[str, ...]
    champion: int | None


@dataclass(frozen=True)
class Evaluation:
    """One evaluation of a reloaded model, with the trace that shows its steps."""

    mse: float
    trace_id: str


class ModelRefused(Exception):
    """The file is not the model that was released; the service must not start."""


class RequestRefused(Exception):
    """A request that is not answered with a prediction.

    Attributes:
        status: the HTTP status: 400 not JSON, 413 too many values, 422 JSON but not what is asked for.
    """

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status


# --- stage 1: identity


def data_digest(*arrays: np.ndarray) -> str:
    """The identity of arrays.

    Args:
        arrays: in a fixed order, of any shape and dtype, of any layout in memory.

    Returns:
        SHA-256 as 64 hex digits, over each array in turn: ``str(dtype)``, ``str(shape)`` (both UTF-8), then the values as
        bytes in row order. So two arrays with a border between them differ from the same bytes with another border.
    """
    raise NotImplementedError("hash dtype, shape and bytes of each array in turn")


def file_digest(path: Path) -> str:
    """SHA-256 of what a file holds, as 64 hex digits: of every byte as it is, wherever the file lies."""
    raise NotImplementedError("hash the bytes of the file")


def code_digest(folder: Path, names: Iterable[str]) -> str:
    """The identity of a program of several files.

    Args:
        folder: where they lie; its place is no part of the identity.
        names: of the files, in any order.

    Returns:
        SHA-256 of the text that ``sha256sum`` prints for them, sorted by name: for each file its digest, two spaces, its
        name and a newline, in UTF-8.
    """
    raise NotImplementedError("hash one line for each file, sorted by name")


def begin_run(client: MlflowClient, experiment_id: str, name: str, statement: Statement) -> str:
    """Open a run and write its statement down, before the first update.

    The store must be unable to change any part of the statement afterwards: it is logged as params ``rate``, ``updates``,
    ``data_sha256`` and ``code_sha256``. The tag ``metric_boundary`` says ``after update``. The run stays open.

    Args:
        client: of the store.
        experiment_id: where the run belongs.
        name: for people; it identifies nothing.
        statement: what the run is going to be.

    Returns:
        The id of the run.
    """
    raise NotImplementedError("create the run and log the statement as params")


def log_curve(client: MlflowClient, run_id: str, curve: Sequence[float]) -> None:
    """Log the training error of a run as metric ``train_mse``.

    Args:
        client: of the store.
        run_id: the run.
        curve: the error after the first update, after the second, and so on. The step of a point is the number of updates
            that have been made.
    """
    raise NotImplementedError("log each point at the number of updates made")


def read_curve(client: MlflowClient, run_id: str, updates: int) -> list[float]:
    """Read a run's ``train_mse`` back: one value for each update.

    A run that was interrupted and resumed has logged some steps twice, and perhaps in another order. What holds for a step
    is its point with the later timestamp.

    Args:
        client: of the store.
        run_id: the run.
        updates: how many the run claims to have made.

    Returns:
        The values of the steps 1 to ``updates``, in this order.

    Raises:
        ValueError: if one of these steps has no point, or a point has another step.
    """
    raise NotImplementedError("keep the later point of each step, and refuse a gap")


# --- stage 2: release


def mse(line: Line, inputs: Sequence[float], targets: Sequence[float]) -> float:
    """The mean squared error of a model, in Python's own floats: nothing of it comes from the training program.

    Args:
        line: the model.
        inputs, targets: of one split, equally many.
    """
    raise NotImplementedError("average the squared differences")


def select_run(client: MlflowClient, experiment_id: str, data_sha256: str) -> str:
    """The run that the store ranks first.

    Args:
        client: of the store.
        experiment_id: where the runs are.
        data_sha256: the param that a run must have, or its errors are not comparable with the others'.

    Returns:
        The id of the run with the smallest ``validation_mse`` among the finished ones. A run that logged none, or logged
        that it is not a number, is no candidate.

    Raises:
        ValueError: if there is no candidate.
    """
    raise NotImplementedError("ask for finished runs on this data, the smallest validation error first")


def register(client: MlflowClient, name: str, run_id: str, source: str, model_sha256: str) -> int:
    """Make a run's model a version, which from then on means this model and no other.

    The version gets the tag ``model_sha256``. One model is one version: where the same run has registered the same bytes
    before, that version is returned and no other is made.

    Args:
        client: of the store.
        name: of the registered model; made if there is none.
        run_id: the run that made the model.
        source: the URI of the stored model.
        model_sha256: digest of its bytes.

    Returns:
        The version as an integer. The embedded store gives one, a tracking server gives the same number as a text.
    """
    raise NotImplementedError("return the version of these bytes, or register it")


def refusals(candidate: Candidate, champion: Candidate | None, terms: Terms) -> tuple[str, ...]:
    """The gate: every reason against a candidate, of the four above; none lets it pass.

    Args:
        candidate: the version that wants to be champion.
        champion: the present one, None before the first release.
        terms: what is demanded.

    Returns:
        ``OTHER_DATA`` if it was fitted to other data; ``OTHER_METRIC`` if its logged validation error is further from the
        recomputed one than ``RELATIVE`` or ``ABSOLUTE`` allow; ``ABOVE_LIMIT`` unless the recomputed error is at most the
        limit; ``NOT_BETTER`` unless it is smaller than the champion's. An error that is not a number meets no condition.
    """
    raise NotImplementedError("collect the reasons, judging by the recomputed validation error")


def resolve(client: MlflowClient, name: str, alias: str) -> int | None:
    """The version that an alias leads to at this moment, as an integer; None if it leads to none."""
    raise NotImplementedError("look the alias up in the registered model")


def promote(
    client: MlflowClient, name: str, alias: str, candidate: Candidate, champion: Candidate | None, terms: Terms
) -> Decision:
    """Put a candidate to the gate and act on what it says.

    One that passes gets the alias. One that is refused leaves the alias where it is, and its version gets the tag
    ``refused`` with the reasons, joined by ``; ``.

    Args:
        client: of the store.
        name: of the registered model.
        alias: of the champion.
        candidate, champion, terms: for the gate.
    """
    raise NotImplementedError("move the alias or write the reasons down")


# --- stage 3: record


def register_prompt(client: MlflowClient, name: str, template: str) -> int:
    """The version of a prompt that holds exactly this text, registered if there is none.

    Args:
        client: of the store.
        name: of the prompt.
        template: its text, with ``{{names}}`` to be filled in.
    """
    raise NotImplementedError("search the versions for this text before registering another")


def evaluate_traced(
    client: MlflowClient, experiment_id: str, predict: Predict, inputs: Sequence[float], targets: Sequence[float]
) -> Evaluation:
    """Evaluate a model once and leave a trace of three spans.

    The root span ``evaluate`` (inputs ``{"records": n}``, outputs ``{"mse": …}``) has two children: ``predict`` (inputs
    ``{"x": […]}``, outputs ``{"y": […]}``), around the call of the model, and ``score`` (inputs ``{"y": […], "targets": […]}``,
    outputs ``{"mse": …}``), around the arithmetic.

    Args:
        client: of the store; it starts and ends traces and spans.
        experiment_id: where the trace belongs.
        predict: the reloaded model.
        inputs, targets: of the split that judges.

    Raises:
        Exception: what ``predict`` raises. The trace is ended and stored even so, with the status ERROR.
    """
    raise NotImplementedError("start the root and its two children, and end each of them in any case")


def release_record(
    client: MlflowClient, name: str, alias: str, fetch: Fetch, evaluation: Evaluation, prompt_version: int
) -> dict[str, Any]:
    """What is written down of a release. All but the last two arguments' own values is read from the store.

    Args:
        client: of the store.
        name: of the registered model.
        alias: of the champion.
        fetch: gives the stored bytes of a version's model.
        evaluation: of the champion, on the split that judges.
        prompt_version: that goes with this release.

    Returns:
        ``champion_version`` (the alias resolved, an integer), ``run_id``, ``data_sha256`` and ``code_sha256`` (params of that
        run), ``validation_mse`` (its metric), ``model_sha256`` (of the bytes that the store gives), ``test_mse``,
        ``prompt_version``, ``trace_id``, ``spans`` (the names in the stored trace) and ``refused``: for each version with that
        tag, in the order of versions, ``{"version": …, "reasons": […]}``.

    Raises:
        ValueError: if the alias leads nowhere, or the bytes are not those that were registered (tag ``model_sha256``).
    """
    raise NotImplementedError("resolve the alias, check the bytes and read everything else from the store")


def trace_back(client: MlflowClient, name: str, fetch: Fetch, content: bytes) -> dict[str, Any] | None:
    """From the bytes of a model back to where they come from.

    Args:
        client: of the store.
        name: of the registered model.
        fetch: gives the stored bytes of a version's model.
        content: the bytes of a file that somebody hands you.

    Returns:
        ``version``, ``run_id``, ``data_sha256`` and ``code_sha256`` of the oldest version that really stores these bytes, whatever
        its tags say; None if there is none.
    """
    raise NotImplementedError("find the oldest version whose stored bytes are these")


# --- stage 4: service


def load_line(path: Path, sha256: str) -> Line:
    """Read the model to be served, if it is the one that was released.

    Args:
        path: of a ``model.json``: an object with ``weight`` and ``bias``.
        sha256: the digest of its bytes in the release record, 64 hex digits.

    Raises:
        ModelRefused: if the file cannot be read, its bytes have another digest, or they are not a model: ``weight`` and
            ``bias`` are finite numbers, and neither a text nor true or false is a number.
    """
    raise NotImplementedError("read the file once, compare the digest, then look at what it holds")


def parse_request(body: bytes, limit: int) -> list[float]:
    """Read a request for predictions: ``{"x": [0.5, 2]}``.

    Args:
        body: as it came.
        limit: how many values one request may hold.

    Returns:
        The inputs, at least one.

    Raises:
        RequestRefused: with status 400 if the body is not JSON in UTF-8 (JSON knows neither NaN nor Infinity); with 422 if it
            is JSON, but not an object with the key ``x`` alone, whose value is a list of at least one number; a number is
            neither a text nor true or false, and lies between ``-LARGEST`` and ``LARGEST``; with 413 if there are more than
            ``limit`` values, whatever they are.
    """

    raise NotImplementedError("parse strictly, then look at the shape, the count and each value")


def predict(line: Line, inputs: Sequence[float]) -> list[float]:
    """One prediction for each input, in the order of the inputs."""
    raise NotImplementedError("evaluate the line at each input")
