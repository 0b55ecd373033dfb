# %% What the driver stands on id="imports" role="build"
import functools
import hashlib
import json
import math
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any, Self

import matplotlib.pyplot as plt
import numpy as np
import worker
from worker import decode, encode

# %% Parameters id="parameters" role="parameters"
SEED = 17  # of the records, and of the first of two runs
RECORDS = 23
BATCH_SIZE = 5  # leaves three records for the last batch of an epoch
OTHER_SEED = 90  # of the second run
OTHER_BATCH_SIZE = 4
LEARNING_RATE = 0.0625  # a power of two: see `oracle`
EXACT_BATCH = 4  # a power of two as well
SAVE_STEP = 2  # updates of an epoch after which a checkpoint is made
DEAL = 6  # the order in which sabotaged things are shown to the module
TORN_PERCENT = 60  # of a torn file that is left
KILL_STEP = 9  # the first process is killed after this update
EVERY = 4  # updates from one save to the next
STOP_MEMBER = 3  # the second process is killed before it writes this member of its first save; -1: before the rename

# %% The module in processes of its own id="children" role="build"
MODULE = Path.cwd().resolve() / "model.py"
WORKER = Path(worker.__file__).resolve()
# What the module prints is shown where this file runs as a script, for whoever looks for a fault; nothing reads it.
PRINTS = None if "__file__" in globals() else subprocess.DEVNULL
SECONDS = 10.0  # for one answer; a right one takes milliseconds
START_SECONDS = 60.0  # for a process to come up: that is the machine's affair
silent: dict[str, str] = {}  # functions that blocked or ended a process, and how: nobody asks them a second time
FIELDS = ("weights", "momentum", "step", "epoch", "cursor", "key")


class Refusal(RuntimeError):
    """The module has refused a checkpoint.

    Attributes:
        part: what it says is wrong.
    """

    def __init__(self, part: str, text: str) -> None:
        super().__init__(text)
        self.part = part


@dataclass
class Answer:
    """What came back for one question.

    Attributes:
        value: what the function returned.
        changed: the arguments that it changed although it may not.
        updates: what `train` has logged.
        written: the milestones of writing the watched file.
        end: how it ended: ``returned``, or where it was killed.
        failure: why there is no value.
        kind: the name of the exception that the module raised.
    """

    value: Any = None
    changed: tuple[str, ...] = ()
    updates: list[dict[str, Any]] = field(default_factory=list)
    written: list[str] = field(default_factory=list)
    end: str = "returned"
    failure: RuntimeError | None = None
    kind: str = ""


class Clock:
    """Whether a time limit was reached."""

    over = False


@contextmanager
def limited(process: subprocess.Popen[str], seconds: float) -> Iterator[Clock]:
    """Kill a process that is still at it after so many seconds."""
    clock = Clock()

    def end() -> None:
        clock.over = True
        process.kill()

    timer = threading.Timer(seconds, end)
    timer.start()
    try:
        yield clock
    finally:
        timer.cancel()


class Child:
    """A process that holds the module. One that has ended is replaced when the next question is put."""

    def __init__(self) -> None:
        self.process: subprocess.Popen[str] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self, patience: float = 0.0) -> int | None:
        """End the process, after so many seconds in which it may end by itself. Returns its exit code."""
        process, self.process = self.process, None
        if process is None:
            return None
        with suppress(subprocess.TimeoutExpired):
            if patience:
                process.wait(patience)
        process.kill()  # SIGKILL: no handler, no `finally`, no `atexit` runs in the child
        with suppress(OSError), process:  # closes the pipes and reaps it
            pass
        return process.returncode

    def _start(self) -> subprocess.Popen[str]:
        command = [sys.executable, "-I", "-B", str(WORKER), str(MODULE)]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": PRINTS, "text": True, "encoding": "utf-8"}
        self.process = subprocess.Popen(command, env={**os.environ, "OPENBLAS_NUM_THREADS": "1"}, **pipes)
        with limited(self.process, START_SECONDS):
            ready = self.process.stdout.readline()
        if not ready:
            raise RuntimeError(f"worker.py did not come up (exit code {self.close()})")
        return self.process

    def put(self, call: str, *, watch: Path | None = None, stop: Mapping[str, int] | None = None, **arguments: object) -> Answer:
        """Put one question and wait for its answer; a failure is in the answer.

        Args:
            call: a function of the module.
            watch: a file; how it is written is observed.
            stop: a place at which the process is killed.
            arguments: of the function, as `worker.py` expects them.
        """
        answer = Answer()
        if call in silent:
            answer.failure, answer.kind = RuntimeError(silent[call]), "no answer"
            return answer
        clock = Clock()
        question = {"call": call, "arguments": encode(arguments), "watch": watch and str(watch), "stop": stop}
        try:
            process = self.process or self._start()
            with limited(process, SECONDS) as clock:
                process.stdin.write(json.dumps(question) + "\n")
                process.stdin.flush()
                for line in process.stdout:
                    if self._hear(call, json.loads(line), answer):
                        return answer
        except RuntimeError as error:
            answer.failure = error
            return answer
        except (OSError, ValueError, LookupError, TypeError):
            pass  # the pipe broke, or what came out of it is no answer
        code = self.close(patience=1.0)
        if clock.over:
            silent[call] = f"{call}: no answer within {SECONDS:.0f} s; does a loop never end?"
        else:
            silent[call] = f"{call}: the process ended without an answer (exit code {code})"
        answer.failure, answer.kind = RuntimeError(silent[call]), "no answer"
        return answer

    def _hear(self, call: str, said: dict[str, Any], answer: Answer) -> bool:
        """Take in one line of the process. Returns whether it was the last one of this answer."""
        if "logged" in said:
            answer.updates.append(decode(said["logged"]))
        elif "wrote" in said:
            answer.written.append(said["wrote"])
        elif "reached" in said:
            self.close()
            answer.end = f"killed: {said['reached']}"
            return True
        elif "returned" in said:
            answer.value, answer.changed = decode(said["returned"]), tuple(said["changed"])
            return True
        else:
            place = f" (model.py, line {said['line']})" if said["line"] else ""
            text = f"{call}: {said['raised']} {said['message']}{place}"
            answer.kind = said["raised"]
            answer.failure = Refusal(said["part"], text) if said["part"] is not None else RuntimeError(text)
            return True
        return False

    def ask(self, call: str, **arguments: Any) -> Any:
        """The value that a function of the module returns.

        Raises:
            RuntimeError: if it raised, naming function and line; or if the process ended or took too long.
        """
        answer = self.put(call, **arguments)
        if answer.failure:
            raise answer.failure
        return answer.value


class Findings(dict[str, Any]):
    """What one stage has found out. Looking up what could not be found out raises why."""

    def find(self, question: Callable[[], Any]) -> Callable[[], Any]:
        """Answer a question at once, under its function's name. Each one stands for itself: none spoils another."""
        name = question.__name__
        try:
            self[name] = question()
        except RuntimeError as error:
            self[name] = error
        except Exception as error:
            # What came back could not be worked with: a missing field, another shape.
            self[name] = RuntimeError(f"{name}: an answer is not what its docstring says ({type(error).__name__}: {error})")
        return question

    def __getitem__(self, name: str) -> Any:
        value = super().__getitem__(name)
        if isinstance(value, Exception):
            raise value
        return value

    def show(self, stage: str) -> None:
        """Print how many questions have an answer, and why the others have none. Whether it is right, the grader says."""
        open_ones = {name: value for name, value in self.items() if isinstance(value, Exception)}
        print(f"{stage}: {len(self) - len(open_ones)} of {len(self)} questions answered")
        for name, error in open_ones.items():
            print(f"  {name}: {error}")


# %% Records, and an oracle in plain Python id="oracle" role="build"
ORDER, NOISE = 1, 2  # purposes of random words, as in the module
DATA, EXACT, DEALING = 3, 4, 5  # and the driver's own
MASK = 2**64 - 1

scratch = tempfile.TemporaryDirectory(prefix="recovery-audit-", ignore_cleanup_errors=True)
root = Path(scratch.name).resolve()


def philox(stream: int, purpose: int, index: int, count: int) -> list[int]:
    """The words of the module's `random_words`, by the published algorithm (Philox 4x64 with ten rounds), in integers."""
    words: list[int] = []
    for block in range(1, count // 4 + 2):  # NumPy steps its counter before a block, not after it
        a, b, c, d = block, index, 0, 0
        left, right = stream, purpose
        for _ in range(10):
            first, second = a * 0xD2E7470EE14C6C93, c * 0xCA5A826395121157
            a, b, c, d = (second >> 64) ^ b ^ left, second & MASK, (first >> 64) ^ d ^ right, first & MASK
            left, right = (left + 0x9E3779B97F4A7C15) & MASK, (right + 0xBB67AE8584CAA73B) & MASK
        words += [a, b, c, d]
    return words[:count]


def deal(names: Sequence[str], index: int) -> list[str]:
    """The names in the order that DEAL gives them; the module is never told it."""
    return [name for _, name in sorted(zip(philox(DEAL, DEALING, index, len(names)), names, strict=True))]


@dataclass(frozen=True)
class Records:
    """A data set as plain numbers, and the file in which the module gets it."""

    ids: list[int]
    features: list[list[float]]
    labels: list[float]
    path: str


def make_records(seed: int) -> Records:
    """RECORDS records of eight features, in quarters from -1 to 1; labels are a sum of them with hidden weights.

    All numbers are small multiples of 1/16, which float32 holds exactly.
    """
    words = philox(seed, DATA, 0, 8 * RECORDS + 8)
    hidden = [(word % 17 - 8) / 4 for word in words[:8]]
    features = [[(word % 9 - 4) / 4 for word in words[start : start + 8]] for start in range(8, len(words), 8)]
    labels = [sum(a * b for a, b in zip(row, hidden, strict=True)) for row in features]
    ids = [100 + seed % 900 + row for row in range(RECORDS)]
    path = root / f"records-{seed}.npz"
    np.savez(path, ids=np.array(ids, np.int64), features=np.array(features, np.float32), labels=np.array(labels, np.float32))
    return Records(ids, features, labels, str(path))


def oracle(
    state: Mapping[str, Any], records: Records, config: Mapping[str, Any], number: type[Fraction] | type[float]
) -> tuple[dict[str, Any], list[int], Any]:
    """One update in plain Python: the new state, the IDs and the loss.

    In fractions there is no rounding at all. Records, noise and the states of `exact_state` are small multiples of powers
    of two, and so are learning rate, momentum and EXACT_BATCH: then float32 does not round either, in whatever order it
    adds up, and the two must agree in every byte.
    """
    stream, drawn = state["key"]
    order = [row for _, row in sorted(zip(philox(stream, ORDER, state["epoch"], RECORDS), range(RECORDS), strict=True))]
    rows = order[state["cursor"] : state["cursor"] + config["batch_size"]]
    count = len(rows)
    noise = [number((word >> 56) - 128) / 1024 for word in philox(stream, NOISE, drawn, count)]
    errors = [
        sum(number(x) * w for x, w in zip(records.features[row], state["weights"], strict=True))
        - number(records.labels[row])
        - extra
        for row, extra in zip(rows, noise, strict=True)
    ]
    gradient = [
        2 * sum(number(records.features[row][j]) * e for row, e in zip(rows, errors, strict=True)) / count for j in range(8)
    ]
    momentum = [number(config["momentum"]) * m + g for m, g in zip(state["momentum"], gradient, strict=True)]
    complete = state["cursor"] + count == RECORDS
    after = {
        "weights": [w - number(config["learning_rate"]) * m for w, m in zip(state["weights"], momentum, strict=True)],
        "momentum": momentum,
        "step": state["step"] + 1,
        "epoch": state["epoch"] + complete,
        "cursor": 0 if complete else state["cursor"] + count,
        "key": [stream, drawn + count],
    }
    return after, [records.ids[row] for row in rows], sum(e * e for e in errors) / count


def as_arrays(state: Mapping[str, Any]) -> dict[str, np.ndarray[Any, Any]]:
    """A plain state with the dtypes that the module's docstring names."""
    kinds = {"weights": np.float32, "momentum": np.float32, "key": np.uint64}
    return {name: np.array([float(x) for x in state[name]] if name in {"weights", "momentum"} else state[name],
                           kinds.get(name, np.int64)) for name in FIELDS}  # fmt: skip


def exact_state(index: int, cursor: int) -> dict[str, Any]:
    """A state in the middle of things, in eighths: with a key, a step and an epoch that no seed or count explains."""
    words = philox(OTHER_SEED, EXACT, index, 19)
    eighths = [Fraction(word % 33 - 16, 8) for word in words[:16]]
    step, epoch, drawn = (word % 1000 for word in words[16:])
    key = [SEED + OTHER_SEED + 1, drawn]
    return {"weights": eighths[:8], "momentum": eighths[8:], "step": step, "epoch": epoch, "cursor": cursor, "key": key}


def beginning(seed: int) -> dict[str, Any]:
    """The state before the first update, in plain numbers."""
    return {"weights": [0.0] * 8, "momentum": [0.0] * 8, "step": 0, "epoch": 0, "cursor": 0, "key": [seed, 0]}


def bytes_of(array: Any) -> str:
    """Dtype, shape and every byte of an array, as a text."""
    array = np.asarray(array)
    return f"{array.dtype} {list(array.shape)} {array.tobytes().hex()}"


def every_byte(state: Mapping[str, Any]) -> str:
    """The six fields of a state with all their bytes, as a text."""
    return "; ".join(f"{name} {bytes_of(state[name])}" for name in FIELDS)


def flat(batches: Sequence[Sequence[int]]) -> np.ndarray[Any, Any]:
    """The IDs of all batches in one row."""
    return np.array([one for batch in batches for one in batch], np.int64)


def numbers(values: Sequence[float]) -> np.ndarray[Any, Any]:
    """Losses in one row."""
    return np.array(values, np.float32)


def unlike(one: Mapping[str, Any], other: Mapping[str, Any]) -> list[str]:
    """The fields in which two states are not the same bytes; a dtype or a shape that is wrong is named."""
    found = []
    for name in FIELDS:
        left, right = np.asarray(one[name]), np.asarray(other[name])
        if (left.dtype, left.shape) != (right.dtype, right.shape):
            found.append(f"{name} ({right.dtype}, {right.shape})")
        elif left.tobytes() != right.tobytes():
            found.append(name)
    return found


@dataclass(frozen=True)
class Setting:
    """One run that the module is asked for: data and configuration."""

    records: Records
    config: dict[str, Any]

    @property
    def arguments(self) -> dict[str, Any]:
        """As the module's functions take them."""
        return {"data": self.records.path, "config": self.config}

    @property
    def per_epoch(self) -> int:
        """Updates of one epoch."""
        return math.ceil(RECORDS / self.config["batch_size"])


def setting(seed: int, batch_size: int) -> Setting:
    """The run with this seed and batch size, on the records of this seed."""
    config = {"seed": seed, "batch_size": batch_size, "learning_rate": LEARNING_RATE, "momentum": 0.75}
    return Setting(make_records(seed), config)


@dataclass(frozen=True)
class Walk:
    """Updates that the driver asked for, one after the other.

    Attributes:
        start: the state before them.
        states: the state after each.
        updates: what the module says each of them did.
    """

    start: dict[str, Any]
    states: list[dict[str, Any]]
    updates: list[dict[str, Any]]

    @property
    def ids(self) -> list[list[int]]:
        """The IDs of each batch."""
        return [one["ids"].tolist() for one in self.updates]

    @property
    def losses(self) -> list[float]:
        """The loss of each update."""
        return [float(one["loss"]) for one in self.updates]

    def at(self, done: int) -> dict[str, Any]:
        """The state after this many of the updates."""
        return self.states[done - 1] if done else self.start

    def run(self) -> dict[str, Any]:
        """As the module's `Run`."""
        return {"updates": self.updates, "state": self.at(len(self.updates))}


def walk(child: Child, state: dict[str, Any], count: int, where: Setting) -> Walk:
    """Ask for `count` updates. The state crosses to the driver and back each time; the module has no other memory."""
    result = Walk(state, [], [])
    for _ in range(count):
        state, done = child.ask("update", state=state, **where.arguments)
        result.states.append(state)
        result.updates.append(done)
    return result


main = setting(SEED, BATCH_SIZE)
other = setting(OTHER_SEED, OTHER_BATCH_SIZE)

# %% Stage 1: calculations id="calculations" role="stage"
calculations = Findings()

with Child() as child:

    @functools.cache
    def two_epochs(which: int) -> Walk:
        """Two epochs from the beginning, with the module's own first state."""
        where = (main, other)[which]
        return walk(child, child.ask("initial_state", config=where.config), 2 * where.per_epoch, where)

    @calculations.find
    def initial() -> str:
        """Every byte of the first state."""
        return every_byte(child.ask("initial_state", config=main.config))

    @calculations.find
    def coverage() -> list[str]:
        """IDs that are missing in an epoch or came more than once in it: the first ones, if there are many."""
        found = []
        for which, where in enumerate((main, other)):
            batches = two_epochs(which).ids
            for epoch in range(2):
                counts = Counter(flat(batches[where.per_epoch * epoch : where.per_epoch * (epoch + 1)]).tolist())
                ids = sorted(counts | Counter(where.records.ids))
                found += [f"run {which}, epoch {epoch}: {one} came {counts[one]} times" for one in ids if counts[one] != 1]
        return found[:4]

    @calculations.find
    def order() -> list[np.ndarray[Any, Any]]:
        """The IDs of all batches in their order, and the sizes of the batches; one run after the other."""
        batches = two_epochs(0).ids + two_epochs(1).ids
        return [flat(batches), np.array([len(batch) for batch in batches])]

    @calculations.find
    def purity() -> dict[str, Any]:
        """What happens to a state that is asked about three times, with another question in between."""
        state, elsewhere = as_arrays(exact_state(0, 1)), as_arrays(exact_state(1, 2))
        answers = [child.put("update", state=one, **main.arguments) for one in (state, state, elsewhere, state)]
        if failed := next((one.failure for one in answers if one.failure), None):
            raise failed
        same = [json.dumps(encode(answer.value)) for answer in (answers[0], answers[1], answers[3])]
        return {
            "arguments changed": sorted({name for answer in answers for name in answer.changed}),
            "different answers": len(set(same)),
            "step": int(answers[3].value[0]["step"]),
        }

    @calculations.find
    def losses() -> np.ndarray[Any, Any]:
        """The loss of every update, one run after the other."""
        return numbers(two_epochs(0).losses + two_epochs(1).losses)

    @calculations.find
    def tail() -> dict[str, Any]:
        """The update on the last records of an epoch, fewer than a batch, from a state of the driver's."""
        state = exact_state(2, RECORDS - RECORDS % BATCH_SIZE)
        after, done = child.ask("update", state=as_arrays(state), **main.arguments)
        return {"records": len(done["ids"]), "loss": float(done["loss"]), "momentum": after["momentum"]}

    @calculations.find
    def one_update() -> list[str]:
        """Every byte of the state after one update: in the middle of an epoch, and on its last records."""
        where = Setting(main.records, {**main.config, "batch_size": EXACT_BATCH})
        found = []
        for index, cursor in enumerate((3, RECORDS - EXACT_BATCH)):
            after, _ = child.ask("update", state=as_arrays(exact_state(3 + index, cursor)), **where.arguments)
            found.append(every_byte(after))
        return found

    @calculations.find
    def unlike_oracle() -> list[str]:
        """Where the module and the driver's own arithmetic part: the first place of each comparison."""
        where = Setting(main.records, {**main.config, "batch_size": EXACT_BATCH})
        found = []
        for index, cursor in enumerate((3, RECORDS - EXACT_BATCH)):
            plain = exact_state(3 + index, cursor)
            wanted = as_arrays(oracle(plain, where.records, where.config, Fraction)[0])
            after, _ = child.ask("update", state=as_arrays(plain), **where.arguments)
            found += [f"one update {index}: {name}" for name in unlike(wanted, after)]
        for which, where in enumerate((main, other)):
            state = beginning(where.config["seed"])
            for number, done in enumerate(two_epochs(which).updates, 1):
                state, ids, loss = oracle(state, where.records, where.config, float)
                places = {
                    "step": int(done["step"]) == number,
                    "ids": done["ids"].tolist() == ids,
                    "loss": math.isclose(done["loss"], loss, rel_tol=1e-4, abs_tol=1e-6),
                }
                if wrong := [name for name, right in places.items() if not right]:
                    found.append(f"run {which}, update {number}: {wrong[0]}")
                    break
        return found


calculations.show("calculations")


# %% Making checkpoints lie id="sabotage" role="build"
def members_of(path: Path) -> dict[str, np.ndarray[Any, Any]]:
    """All members of a checkpoint."""
    with np.load(path, allow_pickle=False) as archive:
        return {name: archive[name] for name in archive.files}


def digest_of(arrays: Mapping[str, Any]) -> str:
    """The digest that `digest` is described by: of names, dtypes, shapes and bytes."""
    parts = []
    for name, value in sorted(arrays.items()):
        array = np.asarray(value)
        parts += [f"{name}\0{array.dtype}\0{array.shape}\0".encode(), array.tobytes()]
    return hashlib.sha256(b"".join(parts)).hexdigest()


def tear(source: Path, target: Path) -> None:
    """A file that ends too early."""
    whole = source.read_bytes()
    target.write_bytes(whole[: len(whole) * TORN_PERCENT // 100])


def sabotage(what: str, source: Path, target: Path, where: Setting) -> Setting:
    """Write a copy of a checkpoint with one thing wrong, and say with what it is to be restored.

    A lost field has the value that it has at the beginning of a run; what the manifest says stays as it was.
    """
    lost = {
        "momentum": {"momentum": np.zeros(8, np.float32)},
        "cursor": {"cursor": np.int64(0)},
        "key": {"key": np.array([where.config["seed"], 0], np.uint64)},
    }
    if what in lost:
        np.savez(target, **(members_of(source) | lost[what]))
    elif what == "file":
        tear(source, target)
    else:
        shutil.copyfile(source, target)
    if what == "configuration":
        return Setting(where.records, {**where.config, "learning_rate": LEARNING_RATE / 2})
    if what == "data":
        with np.load(where.records.path) as archive:
            arrays = {name: archive[name] for name in archive.files}
        arrays["labels"][RECORDS // 2] += 1
        edited = root / "edited.npz"
        np.savez(edited, **arrays)
        return Setting(Records(where.records.ids, [], [], str(edited)), where.config)
    return where


# %% Stage 2: changed conditions id="changed-conditions" role="stage"
conditions = Findings()
folder = Path(tempfile.mkdtemp(dir=root))

with Child() as writer, Child() as reader:
    # Before the first update, in both epochs, and between them.
    boundaries = sorted({0, SAVE_STEP, main.per_epoch, main.per_epoch + SAVE_STEP})
    inside = folder / f"boundary-{main.per_epoch + SAVE_STEP}.npz"

    @functools.cache
    def uninterrupted() -> Walk:
        """Two epochs in the process that writes the checkpoints."""
        walked = walk(writer, writer.ask("initial_state", config=main.config), 2 * main.per_epoch, main)
        for done in boundaries:
            writer.ask("save", path=str(folder / f"boundary-{done}.npz"), state=walked.at(done), **main.arguments)
        return walked

    @functools.cache
    def resumed() -> dict[int, Walk]:
        """From each boundary to the end, in a process that has never seen the state."""
        uninterrupted()
        walks = {}
        for done in boundaries:
            state = reader.ask("restore", path=str(folder / f"boundary-{done}.npz"), **main.arguments)
            walks[done] = walk(reader, state, 2 * main.per_epoch - done, main)
        return walks

    @conditions.find
    def digests() -> list[str]:
        """Of two arrays, of the same two under each other's names, and of one number in two dtypes."""
        state = as_arrays(exact_state(5, 3))
        one, two = state["weights"], state["key"]
        questions = ({"one": one, "two": two}, {"one": two, "two": one}, {"one": np.int32(5)}, {"one": np.int64(5)})
        return [writer.ask("digest", arrays=question) for question in questions]

    @conditions.find
    def identity() -> dict[str, Any]:
        """What a checkpoint says about itself, and which of its digests of fields are not those of what it holds."""
        uninterrupted()
        members = members_of(inside)
        manifest = json.loads(members.pop("manifest").tobytes())
        own = {name: digest_of({name: value}) for name, value in members.items()}
        wrong = [name for name, value in own.items() if manifest["fields"].get(name) != value]
        return {
            "members": " ".join(sorted(members)),
            "format": manifest["format"],
            "config": manifest["config"],
            "data": manifest["data"],
            "wrong digests": wrong + ["payload"] * (manifest["payload"] != digest_of(members)),
        }

    @conditions.find
    def restored() -> list[str]:
        """The fields that did not come back as they were."""
        return [
            f"boundary {done}: {name}"
            for done, walked in resumed().items()
            for name in unlike(uninterrupted().at(done), walked.start)
        ]

    @conditions.find
    def next_ids() -> np.ndarray[Any, Any]:
        """The IDs of the two batches that follow a boundary, one boundary after the other."""
        return flat([batch for walked in resumed().values() for batch in walked.ids[:2]])

    @conditions.find
    def same_bits() -> np.ndarray[Any, Any]:
        """A row for each boundary: its step, the updates that follow, and how many of their losses and of their states have
        the same bits as in the process that saved.
        """
        rows = []
        for done, walked in resumed().items():
            was, rest = uninterrupted(), range(len(walked.updates))
            same_losses = [bytes_of(walked.updates[k]["loss"]) == bytes_of(was.updates[done + k]["loss"]) for k in rest]
            same_states = [not unlike(walked.states[k], was.states[done + k]) for k in rest]
            rows.append([int(walked.start["step"]), len(rest), sum(same_losses), sum(same_states)])
        return np.array(rows)

    @conditions.find
    def resumed_losses() -> np.ndarray[Any, Any]:
        """The losses that follow the boundaries, one boundary after the other."""
        return numbers([loss for walked in resumed().values() for loss in walked.losses])

    @conditions.find
    def named() -> list[str]:
        """What becomes of seven checkpoints, shown in an order that only the driver knows."""
        kinds = deal(["momentum", "cursor", "key", "configuration", "data", "file", "nothing"], 0)
        saved = uninterrupted().at(main.per_epoch + SAVE_STEP)
        found = []
        for number, kind in enumerate(kinds):
            path = folder / f"checkpoint-{number}.npz"
            where = sabotage(kind, inside, path, main)
            answer = reader.put("restore", path=str(path), **where.arguments)
            if isinstance(answer.failure, Refusal):
                found.append(f"refused: {answer.failure.part}")
            elif answer.failure:
                if answer.kind in {"NotImplementedError", "no answer"}:
                    raise answer.failure  # nothing was decided about the file
                found.append(f"raised {answer.kind}")
            else:
                found.append(f"accepted, {6 - len(unlike(saved, answer.value))} of 6 fields as they were saved")
        return found


conditions.show("changed-conditions")

# %% Stage 3: evidence id="evidence" role="stage"
evidence = Findings()

with Child() as child:

    @functools.cache
    def comparisons() -> list[tuple[Setting, Walk, Walk]]:
        """Three pairs of runs in the order that DEAL gives: a right resume, one on other records, one with a lost cursor."""
        found = {}
        for kind, where in (("right", main), ("other", other), ("cursor", main)):
            start = child.ask("initial_state", config=where.config)
            whole = walk(child, start, 2 * where.per_epoch, where)
            state = dict(whole.at(SAVE_STEP))
            if kind == "cursor":
                state["cursor"] = np.int64(0)
            found[kind] = (where, whole, walk(child, state, 2 * where.per_epoch - SAVE_STEP, where))
        return [found[kind] for kind in deal(list(found), 1)]

    @functools.cache
    def reports() -> list[dict[str, Any]]:
        """The module's report on each of them."""
        return [
            child.ask("report", uninterrupted=whole.run(), resumed=rest.run(), **where.arguments)
            for where, whole, rest in comparisons()
        ]

    @evidence.find
    def entries() -> str:
        """The entries of a report and their types; JSON knows no arrays."""
        return ", ".join(f"{name} {type(value).__name__}" for name, value in sorted(reports()[0].items()))

    @evidence.find
    def identities() -> list[str]:
        """Which data and which configuration the reports speak of."""
        return [
            f"data {one['data']}, configuration {one['config']['digest']}: {json.dumps(one['config']['values'], sort_keys=True)}"
            for one in reports()
        ]

    @evidence.find
    def reported_ids() -> np.ndarray[Any, Any]:
        """The IDs of the resumed runs in the reports, one report after the other; the others are confirmed below."""
        return flat([batch for one in reports() for batch in one["ids"]["resumed"]])

    @evidence.find
    def reported_losses() -> np.ndarray[Any, Any]:
        """The losses of the resumed runs in the reports."""
        return numbers([loss for one in reports() for loss in one["losses"]["resumed"]])

    @evidence.find
    def unconfirmed() -> list[str]:
        """Entries that the driver, by its own calculation from what it has seen, finds to be otherwise."""
        declared = child.ask("tolerance")
        environment = {
            "python": platform.python_version(),
            "numpy": np.__version__,
            "platform": sys.platform,
            "machine": platform.machine(),
        }
        code = hashlib.sha256(MODULE.read_bytes()).hexdigest()
        found = []
        for number, (one, (_, whole, rest)) in enumerate(zip(reports(), comparisons(), strict=True)):
            truth = {
                "code": code,
                "state": {name: digest_of({name: rest.run()["state"][name]}) for name in FIELDS},
                "environment": environment,
                "tolerance": declared,
                "ids": {"uninterrupted": whole.ids, "resumed": rest.ids},
                "losses": {"uninterrupted": whole.losses, "resumed": rest.losses},
                "differs": child.ask("compare", uninterrupted=whole.run(), resumed=rest.run()),
            }
            found += [f"report {number}: {name}" for name, value in truth.items() if one[name] != value]
        return found

    @evidence.find
    def verdicts() -> list[str]:
        """The verdicts, and whether the IDs are among what differs."""
        return [" ".join([one["verdict"], *(name for name in one["differs"] if name == "ids")]) for one in reports()]


evidence.show("evidence")

# %% Stage 4: everything id="everything" role="stage"
everything = Findings()
LAST = 4 * main.per_epoch  # updates of the whole run


def train(name: str, stop: Mapping[str, int] | None = None) -> Answer:
    """Ask a process of its own to train on `<name>/checkpoint.npz`, and kill it where `stop` says."""
    place = root / name
    place.mkdir(exist_ok=True)
    path = place / "checkpoint.npz"
    with Child() as child:
        return child.put("train", path=str(path), updates=LAST, every=EVERY, watch=path, stop=stop, **main.arguments)


def logged(answer: Answer) -> Walk:
    """The updates that a run has logged, and its last state, as a walk without the states between."""
    if answer.failure:
        raise answer.failure
    return Walk({}, [{}] * (len(answer.updates) - 1) + [answer.value], answer.updates)


def manner(written: Sequence[str]) -> str:
    """How the watched file came to its name, from the milestones of writing it."""
    found: Counter[str] = Counter()
    synced = False
    for milestone in written:
        if milestone == "renamed":
            found["synced, then renamed" if synced else "renamed without a sync"] += 1
        elif milestone == "opened in place":
            found["written in place"] += 1
        synced = milestone == "synced"
    return ", ".join(f"{count} {how}" for how, count in sorted(found.items())) or "never"


whole = train("whole")
attempts = [
    train("killed", {"after update": KILL_STEP}),
    train("killed", {"save": 1, "member": STOP_MEMBER}),
    train("killed"),
]

with Child() as child:

    @functools.cache
    def straight() -> Walk:
        """The same run without any checkpoint."""
        return walk(child, child.ask("initial_state", config=main.config), LAST, main)

    @functools.cache
    def rest(after: int, wrong: str = "") -> Walk:
        """The updates that follow one of them, from a state in which one thing may be wrong."""
        state = dict(straight().at(after))
        if wrong in {"key", "momentum"}:
            state[wrong] = as_arrays(beginning(SEED))[wrong]  # lost: as it is before the first update
        elif wrong == "rounded":
            state["momentum"] = state["momentum"].astype(np.float16).astype(np.float32)
        return walk(child, state, LAST - after - (wrong == "short"), main)

    def begun() -> list[Answer]:
        """The three processes, if the first of them got as far as to be killed."""
        if attempts[0].failure:
            raise attempts[0].failure
        return attempts

    @everything.find
    def ends() -> str:
        """How the three processes ended."""
        for attempt in begun():
            if attempt.failure:
                raise attempt.failure
        return "; ".join(attempt.end for attempt in attempts)

    @everything.find
    def steps() -> str:
        """The updates that each of them made."""
        return "; ".join(" ".join(str(int(one["step"])) for one in attempt.updates) for attempt in begun())

    @everything.find
    def ids() -> np.ndarray[Any, Any]:
        """The IDs that they consumed, one process after the other."""
        return flat([one["ids"].tolist() for attempt in begun() for one in attempt.updates])

    @everything.find
    def last_losses() -> np.ndarray[Any, Any]:
        """The losses of the last process."""
        return numbers(logged(attempts[-1]).losses)

    @everything.find
    def kept_bits() -> dict[str, Any]:
        """What the last process has in common with the run that nobody killed, to the bit: how many losses, and which
        fields of the final state.
        """
        rest, expected = logged(attempts[-1]), logged(whole)
        wanted = {int(one["step"]): bytes_of(one["loss"]) for one in expected.updates}
        different = unlike(expected.states[-1], rest.states[-1])
        return {
            "losses": sum(bytes_of(one["loss"]) == wanted.get(int(one["step"])) for one in rest.updates),
            "fields": " ".join(name for name in FIELDS if name not in different),
        }

    @everything.find
    def written() -> str:
        """How the checkpoints of the three processes, and of the run that nobody killed, came to their name."""
        return "; ".join(manner(attempt.written) for attempt in (*begun(), whole))

    @everything.find
    def torn() -> str:
        """What becomes of a run whose checkpoint is torn."""
        logged(whole)  # there is nothing to tear if that run failed
        place = root / "torn"
        place.mkdir()
        tear(root / "whole" / "checkpoint.npz", place / "checkpoint.npz")
        answer = train("torn")
        if answer.failure and not isinstance(answer.failure, Refusal):
            raise answer.failure
        end = f"refused: {answer.failure.part}" if answer.failure else "not refused"
        return f"{end}, after {len(answer.updates)} updates"

    @everything.find
    def judged() -> str:
        """What the module's `compare` says of the run that was killed twice."""
        differs = child.ask("compare", uninterrupted=logged(whole).run(), resumed=logged(attempts[-1]).run())
        return " ".join(["FAIL" if differs else "PASS", *differs])

    @everything.find
    def report() -> str:
        """The module's own report on it, as JSON: kept with the evidence, and not compared with anybody else's."""
        runs = {"uninterrupted": logged(whole).run(), "resumed": logged(attempts[-1]).run()}
        return json.dumps(child.ask("report", **runs, **main.arguments), sort_keys=True)

    @everything.find
    def dealt_verdicts() -> str:
        """What it says of two right and five wrong resumes, in an order that only the driver knows."""
        pairs = {wrong: rest(KILL_STEP, wrong) for wrong in ("key", "momentum", "rounded", "short")}
        right = rest(KILL_STEP)
        edited = [{**one, "loss": one["loss"] * np.float32(1.001)} for one in right.updates]
        pairs["edited log"] = Walk(right.start, right.states, edited)
        pairs |= {"right": right, "right, from an earlier update": rest(SAVE_STEP)}
        found = []
        for kind in deal(list(pairs), 2):
            differs = child.ask("compare", uninterrupted=straight().run(), resumed=pairs[kind].run())
            found.append("FAIL" if differs else "PASS")
        return " ".join(found)

    @everything.find
    def first_loss() -> np.ndarray[Any, Any]:
        """How far the first losses of the resumes without key, without momentum and with a rounded momentum are off, in
        percent: what a tolerance on the first loss would have to see.
        """
        right = straight().losses[KILL_STEP]
        return np.array([100 * (rest(KILL_STEP, wrong).losses[0] / right - 1) for wrong in ("key", "momentum", "rounded")])

    @everything.find
    def farthest_loss() -> np.ndarray[Any, Any]:
        """How far their losses are off at most, in percent."""
        right = straight().losses[KILL_STEP:]
        pairs = [zip(rest(KILL_STEP, wrong).losses, right, strict=True) for wrong in ("key", "momentum", "rounded")]
        return np.array([max(abs(100 * (loss / was - 1)) for loss, was in pair) for pair in pairs])

    @everything.find
    def traces() -> dict[str, list[tuple[int, float]]]:
        """Losses by step, for the figure."""

        def points(updates: Sequence[Mapping[str, Any]]) -> list[tuple[int, float]]:
            return [(int(one["step"]), float(one["loss"])) for one in updates]

        processes = zip(("first process", "second process", "third process"), attempts, strict=True)
        return {
            "uninterrupted": points(logged(whole).updates),
            **{name: points(attempt.updates) for name, attempt in processes},
            "momentum lost": points(rest(KILL_STEP, "momentum").updates),
            "key lost": points(rest(KILL_STEP, "key").updates),
        }


everything.show("everything")

# %% The losses of four runs id="loss-traces" role="figure"
found = everything.get("traces")
if isinstance(found, dict):
    figure, axes = plt.subplots(figsize=(8.8, 4.6), layout="constrained", facecolor="white")
    looks = {
        "uninterrupted": {"color": "0.75", "linewidth": 7, "solid_capstyle": "round"},
        "first process": {"color": "black", "marker": "o", "markersize": 5, "linewidth": 1},
        "second process": {"color": "black", "marker": "s", "markersize": 8, "fillstyle": "none", "linestyle": "none"},
        "third process": {"color": "black", "marker": "x", "markersize": 6, "linewidth": 1},
        "momentum lost": {"color": "tab:red", "linestyle": "--", "marker": "v", "markersize": 4, "linewidth": 1.2},
    }
    for name, look in looks.items():
        axes.plot(*zip(*found[name], strict=True), label=name, **look)
    for name in ("first process", "second process"):
        last, _ = found[name][-1]
        axes.axvline(last + 0.5, color="0.4", linewidth=1, linestyle=":")
        axes.text(last + 0.6, 0.97, "killed", transform=axes.get_xaxis_transform(), fontsize=8, va="top")
    axes.set(xlabel="update", ylabel="loss of its batch", yscale="log")
    axes.xaxis.get_major_locator().set_params(integer=True)
    axes.legend(frameon=False, fontsize=9, loc="lower left")
