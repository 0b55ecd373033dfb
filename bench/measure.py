"""Carries out one measurement: a job in a clean environment, below the measuring stick."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

STICK = Path(__file__).resolve().parent / "stick.py"
MB = 1_000_000
_TOLD = 2_500  # characters of a failed command's output
_INHERITED = ("PATH", "LD_LIBRARY_PATH", "SYSTEMROOT")
# Nothing of the caller's. What tools would tell their makers over the network is switched off: it would be in the figures.
_FIXED = {
    "LC_ALL": "C.UTF-8",
    "TZ": "UTC",
    "PYTHONUTF8": "1",
    "PYTHONNOUSERSITE": "1",
    "JAX_PLATFORMS": "cpu",
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "DO_NOT_TRACK": "true",
    "PLOOMBER_STATS_ENABLED": "false",
    "PLOOMBER_VERSION_CHECK_DISABLED": "true",
}


class Failed(Exception):
    """Something that is measured did not do its work; the text says what, and shows the end of its output."""


@dataclass(frozen=True)
class Job:
    """What a runner does for one measurement.

    Attributes:
        commands: carried out in this order.
        check: called when they have ended; raises :class:`Failed` where the work was not done.
        at_once: how many of them run at the same time.
        environment: variables besides the usual ones.
        folder: in which they run; that of the measurement if absent.
    """

    commands: Sequence[Sequence[str]]
    check: Callable[[], None]
    at_once: int = 1
    environment: Mapping[str, str] = field(default_factory=dict)
    folder: Path | None = None


@dataclass(frozen=True)
class Used:
    """What a job used.

    Attributes:
        wall, cpu: seconds.
        exact: whether all CPU time is counted; see :mod:`bench.stick`.
        steps: wall seconds of each command.
        peak_mb: of the whole tree (PSS); None if it was not looked at.
        own_mb: the largest resident size of a command's own process; None if that could not be seen.
    """

    wall: float
    cpu: float
    exact: bool
    steps: tuple[float, ...]
    peak_mb: float | None
    own_mb: float | None


def variables(home: Path, python: Path, more: Mapping[str, str] | None = None) -> dict[str, str]:
    """The environment of everything that is measured.

    Args:
        home: HOME; the temporary folder is in it.
        python: the interpreter whose commands come first on the PATH.
        more: further variables.
    """
    env = {name: os.environ[name] for name in _INHERITED if name in os.environ}
    temporary = home / "tmp"
    temporary.mkdir(parents=True, exist_ok=True)
    env["PATH"] = os.pathsep.join([str(python.parent), env.get("PATH", os.defpath)])
    env |= _FIXED | {name: str(home) for name in ("HOME", "USERPROFILE")}
    return env | {name: str(temporary) for name in ("TMPDIR", "TEMP", "TMP")} | dict(more or {})


def carry_out(command: Sequence[str], folder: Path, environment: Mapping[str, str]) -> None:
    """Run a command whose time does not count.

    Raises:
        Failed: if it fails.
    """
    done = subprocess.run(
        list(command), cwd=folder, env=dict(environment), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, check=False,
    )  # fmt: skip
    if done.returncode:
        raise Failed(f"{_short(command)} ended with status {done.returncode}:\n{_end(done.stdout)}")


def measure(job: Job, folder: Path, environment: Mapping[str, str], limit_seconds: float, memory_seconds: float = 0) -> Used:
    """Carry out a job and look whether its work was done.

    Args:
        job: the job.
        folder: of this measurement only.
        environment: of its commands.
        limit_seconds: for all of it.
        memory_seconds: how often the memory of the tree is looked at; 0: not at all.

    Raises:
        Failed: if a command fails or does not end in time, or if the work was not done.
    """
    order, result, log = folder / "order.json", folder / "used.json", folder / "output.log"
    order.write_text(
        json.dumps({
            "commands": [list(map(str, command)) for command in job.commands], "at_once": job.at_once, "log": str(log),
            "folder": str(job.folder or folder), "environment": {**environment, **job.environment},
            "limit_seconds": limit_seconds, "memory_seconds": memory_seconds,
        }),
        encoding="utf-8",
    )  # fmt: skip
    stick = subprocess.Popen([sys.executable, str(STICK), str(order), str(result)], stdin=subprocess.DEVNULL)
    try:
        status = stick.wait()
    except BaseException:
        stick.terminate()
        stick.wait()
        raise
    if status:
        raise Failed(f"the measuring stick ended with status {status}")
    used = json.loads(result.read_text(encoding="utf-8"))
    if used["failed"]:
        number = used["failed"].get("command")
        what = _short(job.commands[number]) if number is not None else "it"
        how = f"did not end within {limit_seconds:.0f} s" if used["failed"]["late"] else f"ended with {used['failed']['status']}"
        raise Failed(f"{what} {how}:\n{_end(log.read_bytes())}")
    try:
        job.check()
    except (Failed, OSError, LookupError, ValueError) as failed:  # the others where what it should have written is not there
        raise Failed(f"its work was not done: {failed}\n{_end(log.read_bytes())}") from None
    return Used(
        wall=round(used["wall"], 4), cpu=round(used["cpu"], 4), exact=used["exact"], steps=tuple(round(one, 4) for one in used["steps"]),
        peak_mb=round(used["peak"] / MB, 1) or None, own_mb=round(used["own"] / MB, 1) or None,
    )  # fmt: skip


def _short(command: Sequence[str]) -> str:
    words = " ".join(Path(word).name if os.sep in word else word for word in map(str, command[:6]))
    return words + (" …" if len(command) > 6 else "")


def _end(output: bytes) -> str:
    text = output.decode("utf-8", "replace").strip()
    return text[-_TOLD:] or "(it printed nothing)"
