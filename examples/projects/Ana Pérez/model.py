# project: recovery-audit
"""A small trainer that can be killed at any point and resumed to the same bits.

A *state* is a dictionary of six NumPy arrays, and everything that the next update reads besides data and configuration:

    weights   float32 [8]   the model: a prediction is the sum of features times weights
    momentum  float32 [8]   the optimizer's memory
    step      int64   []    completed updates
    epoch     int64   []    completed epochs
    cursor    int64   []    records of the present epoch that are consumed
    key       uint64  [2]   the stream of random words, and how many records have drawn noise from it

A field without dimensions may be a NumPy scalar or an array of shape (). NumPy and the standard library are enough.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
State = dict[str, Array]

FIELDS = ("weights", "momentum", "step", "epoch", "cursor", "key")
FEATURES = 8
ORDER, NOISE = 1, 2  # what random words are for; the two never share one
CHECKPOINT_FORMAT = 1
REPORT_FORMAT = 1


@dataclass(frozen=True)
class Data:
    """The records, one a row. A row is a place in these arrays; an ID is what the record itself is called.

    Attributes:
        ids: int64 [n], different from each other.
        features: float32 [n, 8].
        labels: float32 [n].
    """

    ids: Array
    features: Array
    labels: Array


@dataclass(frozen=True)
class Config:
    """What a run was asked to do.

    Attributes:
        seed: names the stream of random words.
        batch_size: records of a full batch.
        learning_rate: of every update.
        momentum: how much of the optimizer's memory an update keeps.
    """

    seed: int
    batch_size: int
    learning_rate: float
    momentum: float


@dataclass(frozen=True)
class Update:
    """What one update did.

    Attributes:
        step: how many updates are completed with it.
        ids: int64, the IDs of its batch in their order.
        loss: float32, the mean squared error of its batch before the weights moved.
    """

    step: int
    ids: Array
    loss: np.float32


@dataclass(frozen=True)
class Run:
    """Consecutive updates and the state after the last of them. A resumed run holds only its own updates."""

    updates: list[Update]
    state: State


class Refused(Exception):
    """A checkpoint is not to be used.

    Attributes:
        part: what is wrong with it: one of the six fields, "data", "configuration", or "file" where it cannot be read
            whole.
    """

    def __init__(self, part: str, why: str) -> None:
        super().__init__(f"{part}: {why}")
        self.part = part


def load_data(path: str | Path) -> Data:
    """The records of an NPZ file with the members ids, features and labels."""
    with np.load(path, allow_pickle=False) as archive:
        return Data(archive["ids"], archive["features"], archive["labels"])


def random_words(stream: int, purpose: int, index: int, count: int) -> Array:
    """`count` random uint64 words: a function of its arguments and of nothing else (counter-based, Philox 4x64).

    For one stream, each (purpose, index) is a sequence of its own.
    """
    key, counter = np.array([stream, purpose], np.uint64), np.array([0, index, 0, 0], np.uint64)
    return np.random.Philox(key=key, counter=counter).random_raw(count)


def noise_of(words: Array) -> Array:
    """One multiple of 1/1024 in [-1/8, 1/8) for each word, float32."""
    return ((words >> np.uint64(56)).astype(np.float32) - np.float32(128)) / np.float32(1024)


def config_digest(config: Config) -> str:
    """SHA-256 of a configuration, as JSON with sorted keys."""
    return hashlib.sha256(json.dumps(asdict(config), sort_keys=True).encode()).hexdigest()


# --- the calculation ---------------------------------------------------------------------------------------------


def initial_state(config: Config) -> State:
    """The state before the first update.

    Everything is zero but the first word of the key, which is the seed.
    """
    # BEGIN SOLUTION: make the six fields with their dtypes and shapes
    return {
        "weights": np.zeros(FEATURES, np.float32),
        "momentum": np.zeros(FEATURES, np.float32),
        "step": np.int64(0),
        "epoch": np.int64(0),
        "cursor": np.int64(0),
        "key": np.array([config.seed, 0], np.uint64),
    }
    # END SOLUTION


def next_rows(state: State, data: Data, config: Config) -> Array:
    """The rows of the next batch, int64, in their order.

    The order of an epoch is the stable argsort of one random word for each row: stream `key[0]`, purpose ORDER, index
    the epoch. A batch takes the next `batch_size` rows of it; the last one of an epoch takes those that are left.
    """
    # BEGIN SOLUTION: order the epoch, and take the batch that begins at the cursor
    words = random_words(int(state["key"][0]), ORDER, int(state["epoch"]), len(data.ids))
    order = np.argsort(words, kind="stable")
    cursor = int(state["cursor"])
    return order[cursor : cursor + config.batch_size]
    # END SOLUTION


def update(state: State, data: Data, config: Config) -> tuple[State, Update]:
    """One update: a new state, and what was done. Neither the state nor the data that are passed in change.

    For the n records of the next batch: targets are labels plus noise, one word a record: stream `key[0]`, purpose
    NOISE, index `key[1]`; with n words drawn, `key[1]` grows by n. The loss is the mean over the n records of
    (prediction - target)². With its gradient, momentum' = config.momentum * momentum + gradient, and
    weights' = weights - config.learning_rate * momentum'. All of this is float32. When the last record of an epoch is
    consumed, the epoch is complete: it counts, and the cursor is at zero again.
    """
    # BEGIN SOLUTION: draw the noise, compute loss and gradient, and move all six fields
    rows = next_rows(state, data, config)
    count = len(rows)
    stream, drawn = (int(word) for word in state["key"])
    targets = data.labels[rows] + noise_of(random_words(stream, NOISE, drawn, count))
    features = data.features[rows]
    # Products and sums instead of a matrix product: how a BLAS library adds up may depend on the machine's load.
    errors = (features * state["weights"]).sum(axis=1) - targets
    gradient = (features * errors[:, None]).sum(axis=0) * np.float32(2 / count)
    momentum = np.float32(config.momentum) * state["momentum"] + gradient
    cursor = int(state["cursor"]) + count
    complete = cursor == len(data.ids)
    after: State = {
        "weights": state["weights"] - np.float32(config.learning_rate) * momentum,
        "momentum": momentum,
        "step": np.int64(state["step"] + 1),
        "epoch": np.int64(state["epoch"] + complete),
        "cursor": np.int64(0 if complete else cursor),
        "key": np.array([stream, drawn + count], np.uint64),
    }
    return after, Update(int(after["step"]), data.ids[rows], np.mean(errors * errors, dtype=np.float32))
    # END SOLUTION


# --- the checkpoint ----------------------------------------------------------------------------------------------


def digest(arrays: Mapping[str, Array]) -> str:
    """SHA-256 over arrays, in the order of their names: for each its name, its dtype and its shape as texts, each
    followed by a zero byte, then its bytes in C order: `weights\\0float32\\0(8,)\\0` and 32 bytes.
    """
    # BEGIN SOLUTION: feed names, dtypes, shapes and bytes into one SHA-256
    total = hashlib.sha256()
    for name in sorted(arrays):
        array = np.asarray(arrays[name])
        total.update(f"{name}\0{array.dtype}\0{array.shape}\0".encode())
        total.update(array.tobytes())
    return total.hexdigest()
    # END SOLUTION


def save(path: Path, state: State, data: Data, config: Config) -> None:
    """Write a checkpoint: an NPZ file without pickles, with the six fields under their names and a seventh member.

    That is `manifest`, the bytes of a JSON text as uint8 [k], with the keys

        format   CHECKPOINT_FORMAT
        config   the configuration's digest
        data     the digest of the data's three arrays under their names
        fields   of each field, the digest of this field alone
        payload  the digest of the six fields together

    Under its final name there is always a whole checkpoint, the old one or the new one, and what has that name has
    been handed to the disk (os.fsync). What an interrupted save may have left beside it does not matter.
    """
    # BEGIN SOLUTION: write the file beside its final name, sync it, and rename it
    manifest = {
        "format": CHECKPOINT_FORMAT,
        "config": config_digest(config),
        "data": digest(asdict(data)),
        "fields": {name: digest({name: state[name]}) for name in FIELDS},
        "payload": digest(state),
    }
    members = {**state, "manifest": np.frombuffer(json.dumps(manifest).encode(), np.uint8)}
    beside = path.with_name(f"{path.name}.partial")
    with open(beside, "wb") as file:
        np.savez(file, allow_pickle=False, **members)
        file.flush()
        os.fsync(file.fileno())
    os.replace(beside, path)
    # END SOLUTION


def restore(path: Path, data: Data, config: Config) -> State:
    """The state in a checkpoint, if it is whole and belongs to these data and this configuration.

    Raises:
        Refused: with the part that is wrong. No other exception leaves this function, whatever stands in the file.
        FileNotFoundError: if there is no file.
    """
    # BEGIN SOLUTION: read without pickles, then compare every digest in the manifest
    try:
        with np.load(path, allow_pickle=False) as archive:
            state = {name: archive[name] for name in FIELDS}
            manifest = json.loads(archive["manifest"].tobytes())
        fields = {name: manifest["fields"][name] for name in FIELDS}
        config_wanted, data_wanted, payload_wanted = (manifest[name] for name in ("config", "data", "payload"))
    except FileNotFoundError:
        raise
    except Exception as error:  # a damaged file can make zipfile, NumPy and JSON raise almost anything
        raise Refused("file", f"{path.name} cannot be read whole ({type(error).__name__})") from error
    if config_wanted != config_digest(config):
        raise Refused("configuration", "it was saved by a run that was asked for something else")
    if data_wanted != digest(asdict(data)):
        raise Refused("data", "it was saved by a run on other records")
    for name in FIELDS:
        if fields[name] != digest({name: state[name]}):
            raise Refused(name, "it is not what was saved")
    if payload_wanted != digest(state):
        raise Refused("file", "the fields are whole, and the manifest is not theirs")
    return state
    # END SOLUTION


# --- the evidence ------------------------------------------------------------------------------------------------


def tolerance() -> float:
    """The relative difference of a loss up to which a resumed update counts as the same; 0 asks for the same bits.

    `compare` works with it, and `report` declares it. A log whose losses are a thousandth off has to be noticed. "Ten
    percent, on the first loss" has been proposed.
    """
    # BEGIN SOLUTION: decide on a tolerance that can fail
    return 0.0  # the same program on the same machine: nothing may differ
    # END SOLUTION


def compare(uninterrupted: Run, resumed: Run) -> list[str]:
    """What differs between the updates of a resumed run and those with the same steps of the uninterrupted one.

    The names of what differs, of "steps", "ids", "losses" and "state", in this order; an empty list is a pass. The
    steps of a right resume are the last ones of the uninterrupted run, without a gap. Where they are not, nothing
    else can be compared. Losses are compared under `tolerance()`, IDs and the final state exactly.
    """
    # BEGIN SOLUTION: align the two runs by step, then compare IDs, losses and the final state
    expected = uninterrupted.updates[len(uninterrupted.updates) - len(resumed.updates) :]
    if not expected or [one.step for one in expected] != [one.step for one in resumed.updates]:
        return ["steps"]
    pairs = list(zip(expected, resumed.updates, strict=True))
    same = {
        "ids": all(np.array_equal(one.ids, other.ids) for one, other in pairs),
        "losses": all(abs(other.loss - one.loss) <= tolerance() * abs(one.loss) for one, other in pairs),
        # No tolerance here: a state is the same bits or another state.
        "state": digest(uninterrupted.state) == digest(resumed.state),
    }
    return [name for name, holds in same.items() if not holds]
    # END SOLUTION


def report(data: Data, config: Config, uninterrupted: Run, resumed: Run) -> dict[str, Any]:
    """The evidence of one comparison, in values that JSON knows: no NumPy, floats as Python's, IDs as lists of lists.

    format       REPORT_FORMAT
    data         the digest of the data's three arrays under their names
    config       {"digest": …, "values": the configuration as a dictionary}
    code         the SHA-256 of the bytes of this very file
    state        of each field of the resumed run's final state, the digest of this field alone
    ids          {"uninterrupted": one list an update, "resumed": the same}
    losses       {"uninterrupted": one float an update, "resumed": the same}
    environment  {"python": platform.python_version(), "numpy": its version, "platform": sys.platform,
                 "machine": platform.machine()}
    tolerance    the tolerance that the comparison was made with
    differs      what `compare` found
    verdict      "PASS" or "FAIL"
    """
    # BEGIN SOLUTION: compute every entry from the arguments, this file and this process
    runs = {"uninterrupted": uninterrupted, "resumed": resumed}
    differs = compare(uninterrupted, resumed)
    return {
        "format": REPORT_FORMAT,
        "data": digest(asdict(data)),
        "config": {"digest": config_digest(config), "values": asdict(config)},
        "code": hashlib.sha256(Path(__file__).read_bytes()).hexdigest(),
        "state": {name: digest({name: resumed.state[name]}) for name in FIELDS},
        "ids": {name: [update.ids.tolist() for update in run.updates] for name, run in runs.items()},
        "losses": {name: [float(update.loss) for update in run.updates] for name, run in runs.items()},
        "environment": {
            "python": platform.python_version(),
            "numpy": np.__version__,
            "platform": sys.platform,
            "machine": platform.machine(),
        },
        "tolerance": tolerance(),
        "differs": differs,
        "verdict": "FAIL" if differs else "PASS",
    }
    # END SOLUTION


# --- the run -----------------------------------------------------------------------------------------------------


def train(path: Path, data: Data, config: Config, updates: int, every: int, log: Callable[[Update], None]) -> State:
    """Train until `updates` updates are completed, and return the state.

    Goes on from the checkpoint at `path` if there is one, from the beginning if there is none. A checkpoint that is
    refused ends the run with `Refused`: nobody asked for a new one. `log` is called after each update. After every
    `every`-th update of the run, counted from its beginning, and after the last one, the state is saved; `log` comes
    first.
    """
    # BEGIN SOLUTION: begin or resume, then update, log and save until the run is complete
    state = restore(path, data, config) if path.exists() else initial_state(config)
    while int(state["step"]) < updates:
        state, done = update(state, data, config)
        log(done)
        if done.step % every == 0 or done.step == updates:
            save(path, state, data, config)
    return state
    # END SOLUTION
