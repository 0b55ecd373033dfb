"""How a process is to be confined, as plain data, and the words for the layers that do it."""

from __future__ import annotations

from dataclasses import dataclass

# The names that stand in reports.
NAMESPACES = "namespaces"  # users, processes, files, network: a machine with nothing else in it
NO_NETWORK = "network namespace"  # where only that part is possible
LANDLOCK = "landlock"
SCOPES = "landlock scopes"  # signals and abstract sockets: part of Landlock where the kernel is new enough
SECCOMP = "seccomp"
RLIMITS = "resource limits"

NOT_CONFINED = 125  # exit status: it could not be set up, and nothing of a learner's was run
STAGE = "n"  # the folder of a scratch in which a namespace's file tree is put together


@dataclass(frozen=True)
class Order:
    """How a process is to be confined.

    Attributes:
        root: the scratch folder. It holds the two that follow, and :data:`STAGE`.
        space: the only folder that can be written.
        sockets: where sockets can be made, shared with the outside.
        work: the folder to begin in, below ``space``.
        readable: files and folders that can be read and executed.
        layers: which of the layers above. Each is set up, or the process ends.
        memory: bytes of data of one process.
        file: bytes of one file.
        scratch: bytes of ``space``, and of shared memory, where they lie in memory.
        tasks: processes and threads together.
        open_files: descriptors of one process.
        keep: descriptors that stay open, besides the three standard ones.
    """

    root: str
    space: str
    sockets: str
    work: str
    readable: tuple[str, ...]
    layers: tuple[str, ...]
    memory: int
    file: int
    scratch: int
    tasks: int
    open_files: int
    keep: tuple[int, ...] = ()
