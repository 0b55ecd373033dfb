"""The tools that are measured beside this grader, each in an environment of its own.

`peers/<name>.txt` pins a peer and whatever it needs besides the course's own locks. These hold for everything else, so that
all are measured with the same JAX, NumPy, matplotlib and ipykernel.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import environment

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
LIBRARIES = ("ipykernel", "jax", "matplotlib", "numpy")  # what the notebooks need
_TOLD = (*LIBRARIES, "ipython", "jupyter-client", "nbclient", "nbconvert")
_STAMP = "bench.json"
_LISTS = "import importlib.metadata as m, json; print(json.dumps({d.name: d.version for d in m.distributions()}))"


@dataclass(frozen=True)
class Peer:
    """A peer.

    Attributes:
        name: of its file in `peers/`.
        asked: the lines of that file above its comment: the peer itself.
        needed: those below: what it needs.
    """

    name: str
    asked: tuple[str, ...]
    needed: tuple[str, ...]


@dataclass(frozen=True)
class Place:
    """The environment of a peer.

    Attributes:
        folder: where it stands.
        versions: package to version: the peer's own, and those of the libraries that decide its speed.
    """

    folder: Path
    versions: Mapping[str, str]

    @property
    def python(self) -> Path:
        """Its interpreter."""
        return environment.interpreter(self.folder)

    def program(self, name: str) -> str:
        """The path of a command that is installed in it."""
        return str(self.python.parent / name)


class Missing(Exception):
    """A peer cannot be installed; the text says why."""


def peers() -> dict[str, Peer]:
    """All of them, by name."""
    found = {}
    for file in sorted((HERE / "peers").glob("*.txt")):
        above, _, below = file.read_text(encoding="utf-8").partition("#")
        found[file.stem] = Peer(file.stem, tuple(above.split()), tuple(below.splitlines()[1:]))
    return found


def shared() -> tuple[str, ...]:
    """Every version of the course's own locks, as constraints for the installer."""
    lines: dict[str, None] = {}
    for name in (environment.RUNTIME, environment.DEVELOPMENT):
        for pin in environment.pins((ROOT / name).read_text(encoding="utf-8")):
            lines[f"{pin.name}=={pin.version}" + (f" ; {pin.marker}" if pin.marker else "")] = None
    return tuple(lines)


def digest(peer: Peer) -> str:
    """SHA-256 of what an environment is made of."""
    return hashlib.sha256("\n".join((sys.version, *peer.asked, *peer.needed, *LIBRARIES, *shared())).encode()).hexdigest()


def prepare(peer: Peer, cache: Path, say: Callable[[str], None]) -> Place:
    """The environment of a peer, made if it is missing or not what it should be.

    Args:
        peer: the peer.
        cache: a folder that git ignores.
        say: told what takes long.

    Raises:
        Missing: if it cannot be installed.
    """
    folder = cache / "peers" / peer.name
    stamp = folder / _STAMP
    wanted = digest(peer)
    try:
        known = json.loads(stamp.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        known = {}
    if known.get("digest") != wanted:
        shutil.rmtree(folder, ignore_errors=True)
        folder.parent.mkdir(parents=True, exist_ok=True)
        say(f"{peer.name}: installing it in an environment of its own")
        known = {"digest": wanted, "versions": _install(peer, folder)}
        stamp.write_text(json.dumps(known), encoding="utf-8")  # last, so that a half-made one is made again
    return Place(folder, known["versions"])


def _install(peer: Peer, folder: Path) -> dict[str, str]:
    uv = environment.find_uv(ROOT)
    constraints = folder.with_suffix(".constraints")
    constraints.write_text("\n".join(shared()) + "\n", encoding="utf-8")
    try:
        _carry_out(environment.create_command(folder, uv, "this one"))
        python = str(environment.interpreter(folder))
        head = [uv, "pip", "install", "--quiet", "--python", python, "--compile-bytecode"] if uv else [
            python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-input",
        ]  # fmt: skip
        _carry_out(
            [*head, "--only-binary", ":all:", "-c", str(constraints), "-r", str(HERE / "peers" / f"{peer.name}.txt"), *LIBRARIES]
        )
        there: dict[str, str] = json.loads(_carry_out([python, "-c", _LISTS]))
    finally:
        constraints.unlink()
    versions = {environment.normal(name): version for name, version in there.items()}
    own = {environment.normal(line.split("==")[0]) for line in peer.asked}
    return {name: version for name, version in sorted(versions.items()) if name in own or name in _TOLD}


def _carry_out(command: list[str]) -> str:
    env = {"UV_PYTHON_DOWNLOADS": "never", **environment.clean(os.environ)}
    done = subprocess.run(command, cwd=ROOT, env=env, stdin=subprocess.DEVNULL, capture_output=True, check=False)
    if done.returncode:
        last = (done.stderr or done.stdout).decode("utf-8", "replace").strip().splitlines()[-8:]
        raise Missing("\n".join(last) or f"status {done.returncode}")
    return done.stdout.decode("utf-8", "replace")
