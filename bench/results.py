"""What was measured, as data: each measurement as it comes in a file of lines, and the whole in `results/`."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import re
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from statistics import median

from pydantic import BaseModel, ConfigDict

from bench.peers import LIBRARIES
from bench.plan import Case, Goal, Side
from course.receipt import write_text
from graders.version import grader_digest

HERE = Path(__file__).resolve().parent
FOLDER = HERE / "results"
_MEASURED = ("classes.py", "drivers", "floor.py", "lesson", "measure.py", "ours.py", "runners.py", "stick.py")


class Model(BaseModel):
    """Frozen, and nothing that is not known."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Sample(Model):
    """One measurement.

    Attributes:
        runner, variant, size: the case.
        round: from 1; 0 is the one for memory, whose time is not used.
        wall, cpu: seconds of all notebooks together.
        exact: whether all CPU time is counted; see :mod:`bench.stick`.
        steps: wall seconds of each command.
        peak_mb: of the whole tree.
        own_mb: of the largest command's own process.
        load: of the machine in the minute before, in processes that want to run.
    """

    runner: str
    variant: str
    size: int
    round: int
    wall: float
    cpu: float
    exact: bool
    steps: tuple[float, ...]
    peak_mb: float | None
    own_mb: float | None
    load: float

    @property
    def case(self) -> Case:
        """What was measured."""
        return Case(self.variant, self.size, self.runner)


class Machine(Model):
    """Where it was measured."""

    processor: str
    cores: int
    memory_gb: int
    system: str
    python: str

    @property
    def slug(self) -> str:
        """For the name of a file."""
        return re.sub(r"[^a-z0-9]+", "-", f"{self.cores}-cores-{self.processor}".lower()).strip("-")[:60].strip("-")


class Results(Model):
    """A whole run.

    Attributes:
        date: of its end, UTC.
        machine: where.
        setup: digest of what was measured: graders, locks, notebooks, how the runners are started.
        versions: of the libraries that all share, and of each peer with what decides its speed.
        missing: peers that could not be installed.
        samples: every measurement.
    """

    format: int = 1
    date: str
    machine: Machine
    setup: str
    versions: dict[str, dict[str, str]]
    missing: tuple[str, ...] = ()
    samples: tuple[Sample, ...]

    def timed(self, case: Case) -> list[Sample]:
        """The measurements of a case whose times count, by round."""
        return sorted((one for one in self.samples if one.case == case and one.round), key=lambda one: one.round)

    def each(self, case: Case) -> float | None:
        """Median wall seconds a notebook."""
        return median(one.wall / case.size for one in found) if (found := self.timed(case)) else None

    def cpu(self, case: Case) -> float | None:
        """Median CPU seconds a notebook."""
        return median(one.cpu / case.size for one in found) if (found := self.timed(case)) else None

    def peak(self, case: Case) -> float | None:
        """The largest memory of the tree that was seen, in MB."""
        return max((one.peak_mb for one in self.samples if one.case == case and one.peak_mb), default=None)

    def own(self, case: Case) -> float | None:
        """Median of the largest memory of the command's own process, in MB."""
        found = [one.own_mb for one in self.timed(case) if one.own_mb]
        return median(found) if found else None

    def ratios(self, goal: Goal) -> list[float]:
        """A goal's ratio in each round in which both sides were measured."""
        over, under = (_by_round(self.timed(side.case), side) for side in (goal.over, goal.under))
        return [over[number] / under[number] for number in sorted(over.keys() & under.keys()) if under[number]]


def _by_round(samples: Iterable[Sample], side: Side) -> dict[int, float]:
    values: dict[int, float | None] = {}
    for one in samples:
        steps = dict(enumerate(one.steps))
        values[one.round] = {
            "wall": one.wall, "first": steps.get(0), "second": steps.get(1), "each": one.wall / one.size, "own": one.own_mb,
        }[side.what]  # fmt: skip
    return {number: value for number, value in values.items() if value is not None}


def machine() -> Machine:
    """This machine."""
    processor, memory = platform.processor() or platform.machine(), 0
    for file, pattern in (("cpuinfo", r"^model name\s*:\s*(.+)$"), ("meminfo", r"^MemTotal:\s*(\d+) kB$")):
        path = Path("/proc") / file
        found = re.search(pattern, path.read_text(encoding="utf-8", errors="replace"), re.MULTILINE) if path.is_file() else None
        if found and file == "cpuinfo":
            processor = re.sub(r"\((R|TM)\)|CPU|@.*", "", found[1])
        elif found:
            memory = round(int(found[1]) / 1e6)
    return Machine(
        processor=" ".join(processor.split()), cores=os.cpu_count() or 1, memory_gb=memory,
        system=f"{platform.system()} {platform.release()}", python=platform.python_version(),
    )  # fmt: skip


def setup(peers: Iterable[str]) -> str:
    """A digest of everything that decides what is measured.

    Args:
        peers: digests of their environments.
    """
    total = hashlib.sha256("\n".join((grader_digest(), *sorted(peers))).encode())
    for name in _MEASURED:
        path = HERE / name
        for file in sorted(path.rglob("*")) if path.is_dir() else [path]:
            if file.is_file() and "__pycache__" not in file.parts:
                total.update(f"{file.relative_to(HERE).as_posix()}\0".encode() + file.read_bytes())
    return total.hexdigest()[:16]


class Kept:
    """Measurements as they come, one a line, so that a run that was interrupted goes on.

    Those of another setup stay in the file and are not used.
    """

    def __init__(self, path: Path, setup: str) -> None:
        self.path, self.setup = path, setup
        self.samples: list[Sample] = []
        self.others = 0
        lines = path.read_text(encoding="utf-8").splitlines() if path.is_file() else []
        for line in lines:
            try:
                data = json.loads(line)
            except ValueError:
                continue  # cut off by a kill
            if data.pop("setup", None) == setup:
                self.samples.append(Sample.model_validate(data))
            else:
                self.others += 1

    def find(self, case: Case, number: int) -> Sample | None:
        """What is known of a case in a round."""
        return next((one for one in self.samples if one.case == case and one.round == number), None)

    def add(self, sample: Sample) -> None:
        """Keep one more."""
        self.samples.append(sample)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"setup": self.setup, **sample.model_dump()}) + "\n")

    def forget(self) -> None:
        """Begin anew: all measurements of this setup go."""
        if self.path.is_file():
            lines = self.path.read_text(encoding="utf-8").splitlines()
            self.path.write_text("".join(f"{line}\n" for line in lines if f'"setup": "{self.setup}"' not in line), encoding="utf-8")
        self.samples = []


def shared_versions(locked: Iterable[tuple[str, str]]) -> dict[str, str]:
    """The versions of the libraries that the notebooks need, from the course's lock."""
    return {name: version for name, version in locked if name in {*LIBRARIES, "nbclient", "jupyter-client"}}


def today() -> str:
    """The date, UTC."""
    return f"{datetime.now(UTC):%Y-%m-%d}"


def save(results: Results, folder: Path = FOLDER) -> Path:
    """Write a run as ``<date>-<machine>.json``, a line a measurement."""
    head = results.model_dump(mode="json", exclude={"samples"})
    lines = ",\n".join(f"  {json.dumps(one.model_dump(mode='json'))}" for one in results.samples)
    text = json.dumps(head, indent=1)[:-2] + f',\n "samples": [\n{lines}\n ]\n}}\n'
    path = folder / f"{results.date}-{results.machine.slug}.json"
    folder.mkdir(parents=True, exist_ok=True)
    write_text(path, text)
    return path


def read(path: Path) -> Results:
    """Read a run."""
    return Results.model_validate_json(path.read_text(encoding="utf-8"))


def newest(folder: Path = FOLDER) -> Path | None:
    """The run with the latest date, from which the page is made."""
    return max(folder.glob("*.json"), default=None, key=lambda path: path.name)
