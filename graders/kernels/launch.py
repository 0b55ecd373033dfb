"""Start a kernel in confinement: ``python launch.py ORDER [CONNECTION_FILE]``, where ORDER is a file with the JSON of an Order.

A program of its own, read before anything is confined; the kernel then runs in the same interpreter. Without a connection
file it is a trial: it ends with status 0 if it is confined.
"""

from __future__ import annotations

import sys
from pathlib import Path

# This folder is no place for a learner's code to import from, and the house is needed only until the kernel starts.
_HOUSE = str(Path(__file__).resolve().parents[2])
sys.path[0] = _HOUSE

import json  # noqa: E402
import os  # noqa: E402
import socket  # noqa: E402
import tempfile  # noqa: E402
from typing import Any  # noqa: E402

from graders.kernels.confine import confine  # noqa: E402
from graders.kernels.order import LANDLOCK, NAMESPACES, Order  # noqa: E402
from graders.kernels.pipes import open_early  # noqa: E402


def read(text: str) -> Order:
    """An order from its JSON text."""
    data: dict[str, Any] = {name: tuple(value) if isinstance(value, list) else value for name, value in json.loads(text).items()}
    return Order(**data)


def trial(order: Order) -> None:
    """Look whether the confinement holds and leaves what a kernel needs.

    Raises:
        SystemExit: with what does not.
    """
    if {NAMESPACES, LANDLOCK} & set(order.layers):
        try:
            Path(__file__).read_bytes()
        except OSError:
            pass
        else:
            raise SystemExit("files outside can still be read")
    try:
        with tempfile.TemporaryFile(dir=order.work) as file:
            file.write(b"written")
        with socket.socket(socket.AF_UNIX) as one:
            one.bind(str(Path(order.sockets, "trial")))
    except OSError as error:
        raise SystemExit(f"the scratch folder cannot be written: {error}") from None


def main() -> None:
    """Confine this process and be an IPython kernel from then on."""
    order = read(Path(sys.argv[1]).read_text(encoding="utf-8"))
    confine(order)
    if len(sys.argv) == 2:
        trial(order)
        return
    sys.path.remove(_HOUSE)
    for name in [one for one in sys.modules if one.split(".")[0] == "graders"]:
        del sys.modules[name]
    # Who started the kernel is seen to by the keeper; 1 keeps ipykernel from looking for itself.
    os.environ["JPY_PARENT_PID"] = "1"
    sys.argv = ["ipykernel_launcher", "-f", sys.argv[2], "--HistoryManager.enabled=False"]
    from ipykernel.kernelapp import IPKernelApp  # noqa: PLC0415 - nothing of the environment is run before the confinement

    app = IPKernelApp.instance()
    app.initialize()  # type: ignore[no-untyped-call]
    open_early(app)
    app.start()  # type: ignore[no-untyped-call]


if __name__ == "__main__":
    main()
