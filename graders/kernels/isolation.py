"""What keeps a learner's code apart on this machine: asked once, ordered for each run, and told in every result."""

from __future__ import annotations

import functools
import json
import os
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path

from course.schema import Limits
from graders.kernels import landlock, seccomp
from graders.kernels.order import LANDLOCK, NAMESPACES, NO_NETWORK, RLIMITS, SCOPES, SECCOMP, STAGE, Order
from graders.kernels.sandbox import Scratch, parent
from graders.owner import me as this_grader

LAUNCHER = Path(__file__).with_name("launch.py")
HOUSE = Path(__file__).resolve().parents[2]
FULL = (NAMESPACES, LANDLOCK, SCOPES, SECCOMP, RLIMITS)
MB = 1_000_000
_TRIAL_SECONDS = 60

EVERYWHERE = (
    "a fresh kernel process in a session of its own for each submission",
    "a scratch folder of its own with HOME and caches, deleted afterwards",
    "a clean environment without inherited variables",
    "limits for time, memory, processes, output and files",
    "values leave as plain data and are compared in another process",
)
TOLD = {
    NAMESPACES: "namespaces: no other process, file or user in sight, no network, a scratch folder in memory of a bounded size",
    NO_NETWORK: "network namespace: no network but its own loopback",
    LANDLOCK: "landlock: reads Python, the system's libraries and the lesson's public files, writes the scratch folder only",
    SCOPES: "landlock scopes: no signals to processes outside, no abstract sockets of theirs",
    SECCOMP: "seccomp: system calls that no exercise needs are refused",
    RLIMITS: "resource limits: memory, size of a file, descriptors, no core dumps",
}

# Beside Python itself. Of /etc only what libraries look up; /sys for the number of processors.
_SYSTEM = (
    "/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/nix/store", "/gnu/store",
    *(f"/etc/{name}" for name in (
        "ld.so.cache", "ld.so.conf", "ld.so.conf.d", "localtime", "timezone", "passwd", "group", "nsswitch.conf", "hosts",
        "host.conf", "gai.conf", "services", "protocols", "resolv.conf", "ssl", "pki", "ca-certificates", "fonts", "mime.types",
        "os-release", "alternatives", "magic", "shells", "terminfo", "inputrc", "bash.bashrc", "profile",
    )),
    "/sys/devices/system", "/sys/fs/cgroup", "/sys/kernel/mm",
)  # fmt: skip


class Mode(StrEnum):
    """What to do about the layers that only some machines have."""

    AUTO = "auto"  # what there is
    REQUIRE = "require"  # all of them, or nothing is run
    OFF = "off"  # none of them


@dataclass(frozen=True)
class Isolation:
    """What is in force.

    Attributes:
        layers: by the names of :mod:`graders.kernels.order`.
        missing: what a machine with everything would have, with the reason why it is not in force.
    """

    layers: tuple[str, ...]
    missing: tuple[str, ...] = ()

    def told(self) -> tuple[str, ...]:
        """For reports: layer by layer, what it does."""
        return (*EVERYWHERE, *(TOLD[layer] for layer in self.layers))

    def brief(self) -> str:
        """For one line."""
        named = ", ".join(self.layers) or "no layer of the system's"
        return named + (f"; without {'; '.join(self.missing)}" if self.missing else "")


@functools.cache
def survey(mode: Mode = Mode.AUTO) -> Isolation:
    """What this machine allows, found out in child processes that confine themselves. Once for each process.

    Args:
        mode: ``off`` leaves out what would be possible. ``require`` finds the same as ``auto``; whoever runs
            something has to look at ``missing``.
    """
    if os.name != "posix":
        return Isolation((), (f"{', '.join(FULL)} (there is nothing of the kind on this system)",))
    if mode is Mode.OFF:
        return Isolation((RLIMITS,), ("every other layer, which is switched off",))
    if sys.platform != "linux":
        return Isolation((RLIMITS,), (f"{', '.join(FULL[:-1])} (they need Linux)",))
    known = [LANDLOCK] if landlock.version() else []
    known += [SCOPES] if landlock.scoped() else []
    missing = [] if LANDLOCK in known else ["landlock (not in this kernel, or not switched on)"]
    if known and SCOPES not in known:
        missing.append("landlock scopes (they need Linux 6.12)")
    filters = [SECCOMP] if seccomp.possible() else []
    if filters and (refused := _trial((SECCOMP,))):
        filters = []
        missing.append(f"seccomp ({refused})")
    elif not filters:
        missing.append("seccomp (there is no filter for this architecture)")
    spaces: list[str] = []
    for one in (NAMESPACES, NO_NETWORK):
        if not (refused := _trial((one, *known, *filters, RLIMITS))):
            spaces = [one]
            break
        missing.append(f"{one} ({refused})")
    return Isolation((*spaces, *known, *filters, RLIMITS), tuple(missing))


def _trial(layers: tuple[str, ...]) -> str:
    """Why a process cannot confine itself so, or an empty text."""
    # Named as a scratch folder, so that a killed grader's is cleaned away like one.
    with tempfile.TemporaryDirectory(prefix=f"ts-{this_grader()}-", dir=parent()) as folder:
        scratch = Scratch(Path(folder).resolve(), "trial")
        for one in (scratch.work, scratch.runtime, scratch.root / STAGE):
            one.mkdir(parents=True)
        ordered = scratch.root / "order.json"
        ordered.write_text(text(order(scratch, Limits(), layers)), encoding="utf-8")
        command = [sys.executable, str(LAUNCHER), str(ordered)]
        try:
            done = subprocess.run(
                command,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=_TRIAL_SECONDS,
                check=False,
                stdin=subprocess.DEVNULL,
            )
        except subprocess.TimeoutExpired:
            return "it takes too long here"
    if done.returncode == 0:
        return ""
    return (done.stderr.strip().splitlines() or [f"status {done.returncode}"])[-1][:200]


def order(scratch: Scratch, limits: Limits, layers: tuple[str, ...], public: tuple[Path, ...] = ()) -> Order:
    """How the processes of a run are confined.

    Args:
        scratch: its folder.
        limits: of the run.
        layers: which are in force; see :func:`survey`.
        public: files and folders of the lesson that its learners' code may read.
    """
    return Order(
        root=str(scratch.root), space=str(scratch.space), sockets=str(scratch.runtime), work=str(scratch.work),
        readable=(*readable(), *(str(path.resolve()) for path in public)), layers=layers,
        memory=(limits.memory_mb + _DATA_SPARE_MB) * MB, file=limits.file_mb * MB, scratch=limits.scratch_mb * MB,
        tasks=tasks(limits), open_files=limits.open_files,
    )  # fmt: skip


# What a process has only reserved counts against the kernel's limit, too, for instance the stacks of threads.
_DATA_SPARE_MB = 2_000


def tasks(limits: Limits) -> int:
    """How many processes and threads there may be: numerical libraries start several threads for each processor."""
    return 8 * limits.processes + 32 * (os.cpu_count() or 1)


def text(one: Order) -> str:
    """An order as the launcher reads it."""
    return json.dumps(asdict(one))


@functools.cache
def readable() -> tuple[str, ...]:
    """What every learner's code may read: this Python with its packages, and the libraries of the system."""
    paths = [Path(sys.prefix), Path(sys.base_prefix), Path(sys.exec_prefix), Path(sys.executable).parent]
    paths += [Path(sys.executable).resolve().parent, *map(Path, sysconfig.get_paths().values())]
    found: set[str] = set()
    for path in (*paths, *map(Path, _SYSTEM)):
        # Both where it is said to be and where it is; a path that leads through links needs both.
        for one in (path, path.resolve()):
            if one.exists() or one.is_symlink():
                found |= set(map(str, _without(one, HOUSE)))
    return tuple(sorted(found))


def _without(path: Path, hidden: Path) -> Iterator[Path]:
    """A path; where the course lies in it, everything in it but the course."""
    if not hidden.is_relative_to(path):
        yield path
    elif path != hidden:
        for one in path.iterdir():
            yield from _without(one, hidden)
