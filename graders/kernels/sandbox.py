"""The scratch folder and the clean environment of one run, and the end of everything that was started in it."""

from __future__ import annotations

import functools
import os
import secrets
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

import psutil

from graders.kernels.order import STAGE
from graders.kernels.processes import kill
from graders.owner import me as this_grader

TOKEN = "TRAINING_SYSTEMS_SCRATCH"  # noqa: S105 - the name of a variable; its value marks every process of one run

# What a process needs to find its programs and, on some machines, to compute correctly. Everything else that the
# grader's own environment holds (credentials, tokens, proxies) stays out of the learner's.
_INHERITED = (
    "PATH", "SYSTEMROOT", "SYSTEMDRIVE", "WINDIR", "COMSPEC", "PATHEXT", "NUMBER_OF_PROCESSORS", "PROCESSOR_ARCHITECTURE",
    "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE",
)  # fmt: skip

_FIXED = {
    "LC_ALL": "C.UTF-8",
    "TZ": "UTC",
    "PYTHONUTF8": "1",
    "PYTHONHASHSEED": "0",
    "PYTHONNOUSERSITE": "1",
    "PYTHONDONTWRITEBYTECODE": "1",
    "MPLBACKEND": "agg",
    # Sums come out the same on every machine, and the kernels that run at the same time do not fight for its processors.
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "VECLIB_MAXIMUM_THREADS": "1",
    "NPROC": "2",  # of XLA, whose callbacks need one besides the one that computes
    "JAX_PLATFORMS": "cpu",
    "JAX_ENABLE_X64": "0",
    "TF_CPP_MIN_LOG_LEVEL": "2",
    "MLFLOW_ENABLE_TELEMETRY": "false",
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "MLFLOW_DISABLE_AGENT_HINT": "1",
    "DO_NOT_TRACK": "true",
}

_PARENT_PATH = 55  # bytes: the name of a scratch folder in it, and that of a socket in there, need the rest of about 100


@dataclass(frozen=True)
class Scratch:
    """The folder of one run.

    Attributes:
        root: holds everything below, and what is nobody's to write; deleted at the end.
        token: the value of :data:`TOKEN` in the environment of every process of this run.
    """

    root: Path
    token: str

    @property
    def space(self) -> Path:
        """What the learner's code may write. In a namespace it is another folder of the same name."""
        return self.root / "s"

    @property
    def work(self) -> Path:
        """The working directory of the learner's code."""
        return self.space / "w"

    @property
    def runtime(self) -> Path:
        """Connection files and sockets. The name is short because a Unix socket's path is limited to about 100 bytes."""
        return self.root / "r"

    def environment(self) -> dict[str, str]:
        """The whole environment of a process of this run."""
        home = self.space / "h"
        env = {name: os.environ[name] for name in _INHERITED if name in os.environ}
        scripts = str(Path(sys.executable).parent)
        env["PATH"] = os.pathsep.join([scripts, env.get("PATH", os.defpath)])
        env |= _FIXED
        env |= {name: str(home) for name in ("HOME", "USERPROFILE", "APPDATA", "LOCALAPPDATA")}
        env |= {name: "learner" for name in ("USER", "LOGNAME", "USERNAME")}
        env |= {name: str(self.space / "t") for name in ("TMPDIR", "TEMP", "TMP")}
        env |= {
            "IPYTHONDIR": str(home / "ipython"),
            "JUPYTER_CONFIG_DIR": str(home / "jupyter"),
            "JUPYTER_DATA_DIR": str(home / "jupyter"),
            "JUPYTER_RUNTIME_DIR": str(self.runtime),
            "MPLCONFIGDIR": str(home / "matplotlib"),
            "XDG_CACHE_HOME": str(home / "cache"),
            "XDG_CONFIG_HOME": str(home / "config"),
            "XDG_DATA_HOME": str(home / "data"),
            TOKEN: self.token,
        }
        return env


def parent() -> Path:
    """Where scratch folders lie: the temporary folder, or a shorter one where sockets in there could not be given a path."""
    usual = Path(tempfile.gettempdir()).resolve()
    others = [Path(name).resolve() for name in ("/tmp", "/var/tmp") if os.name == "posix"]  # noqa: S108 - mkdtemp makes the names
    may = [one for one in others if one.is_dir() and os.access(one, os.W_OK | os.X_OK)]
    return next((one for one in (usual, *may) if len(os.fsencode(one)) <= _PARENT_PATH), usual)


@contextmanager
def scratch(cache: Path, *, sweep: bool = True) -> Iterator[Scratch]:
    """A new scratch folder; at the end every process of the run is ended and the folder is gone.

    Args:
        cache: where what can be shared read-only between runs is kept: matplotlib's list of fonts, which costs
            seconds to make.
        sweep: whether to look for processes of the run among all of the machine. Not needed where nothing was started, or where
            all of them have ended with the first, as in a namespace.
    """
    root = Path(tempfile.mkdtemp(prefix=f"ts-{this_grader()}-", dir=parent())).resolve()
    made = Scratch(root, secrets.token_hex(8))
    try:
        for name in ("s/w", "s/t", "s/h/matplotlib", "r", STAGE):
            (root / name).mkdir(parents=True)
        for source in _fonts(cache).glob("fontlist-*.json"):
            shutil.copy(source, made.space / "h" / "matplotlib")
        yield made
    finally:
        if sweep:
            end_processes(made.token)
        remove(root)


def end_processes(token: str) -> int:
    """Kill every process that carries the run's token, also those in sessions of their own. Returns how many there were.

    Only processes whose environment names this very run are touched.
    """
    return kill([process for process in psutil.process_iter() if _carries(process, token)])


def _carries(process: psutil.Process, token: str) -> bool:
    if process.pid == os.getpid():
        return False
    try:
        return bool(process.environ().get(TOKEN) == token)
    except (psutil.Error, OSError, ValueError):
        return False


def remove(folder: Path) -> None:
    """Delete a folder of ours, also where it holds read-only entries. A file that is still held open (Windows) gets a
    few tries; what cannot be deleted is left to the system's own cleaning of temporary files.
    """

    def writable(function: object, path: str, error: object) -> None:
        del function, error
        for one in (Path(path).parent, Path(path)):
            # The folder's own parent holds what belongs to others.
            if one.is_relative_to(folder) and not one.is_symlink():
                with suppress(OSError):
                    one.chmod(0o700)

    for attempt in range(3):
        # Python 3.12 renamed the argument and deprecated the old name.
        if sys.version_info >= (3, 12):
            shutil.rmtree(folder, onexc=writable)
        else:
            shutil.rmtree(folder, onerror=writable)
        if not folder.exists():
            return
        time.sleep(0.1 * attempt)
    shutil.rmtree(folder, ignore_errors=True)


@functools.cache
def _fonts(cache: Path) -> Path:
    """The folder with matplotlib's list of fonts, made once for an environment."""
    folder = cache / f"matplotlib-{version('matplotlib')}"
    if not folder.is_dir():
        cache.mkdir(parents=True, exist_ok=True)
        beside = Path(tempfile.mkdtemp(prefix=f"fonts-{this_grader()}-", dir=cache))
        env = {**os.environ, **_FIXED, "MPLCONFIGDIR": str(beside)}
        subprocess.run([sys.executable, "-I", "-c", "import matplotlib.font_manager"], env=env, check=False, capture_output=True)
        try:
            beside.rename(folder)
        except OSError:
            remove(beside)  # another grader was quicker; its list is as good
    return folder
