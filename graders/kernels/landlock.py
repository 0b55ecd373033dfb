"""Landlock: which files this process and all that come from it may read and write. It needs no rights, and has no way back."""

from __future__ import annotations

import ctypes
import os
import stat
import struct
from collections.abc import Iterable

from graders.kernels.syscalls import syscall

_CREATE, _ADD_RULE, _RESTRICT = 444, 445, 446
_VERSION, _BENEATH = 1, 1

_EXECUTE, _WRITE, _READ, _LIST, _REMOVE_FOLDER, _REMOVE_FILE = (1 << bit for bit in range(6))
_MAKE_SOCKET = 1 << 9
_ALL = (
    (1 << 13) - 1,
    (1 << 14) - 1,
    (1 << 15) - 1,
    (1 << 15) - 1,
    (1 << 16) - 1,
)  # by ABI 1, 2 (refer), 3 (truncate), 4, 5 (ioctl)
_OF_FILES = _EXECUTE | _WRITE | _READ | 1 << 14 | 1 << 15
READ = _EXECUTE | _READ | _LIST
SOCKETS = _READ | _LIST | _MAKE_SOCKET | _REMOVE_FILE
_SCOPES = 3  # abstract Unix sockets, and signals, of processes outside
_WITH_SCOPES = 6


def version() -> int:
    """The ABI that this kernel offers; 0 where there is no Landlock."""
    try:
        return syscall("landlock", _CREATE, 0, 0, _VERSION)
    except OSError:
        return 0


def scoped() -> bool:
    """Whether signals and abstract sockets can be kept inside, too."""
    return version() >= _WITH_SCOPES


def restrict(readable: Iterable[str], writable: Iterable[str], sockets: Iterable[str]) -> None:
    """Allow these files and what is below these folders, and nothing else. Needs "no new privileges" to be set.

    Args:
        readable: to be read and executed. What does not exist is left out.
        writable: everything.
        sockets: sockets may be made there and files be read, but none be written.

    Raises:
        OSError: where a path cannot be opened, or the kernel refuses.
    """
    abi = version()
    handled = _ALL[min(abi, len(_ALL)) - 1]
    ruleset = syscall("landlock", _CREATE, struct.pack("=QQQ", handled, 0, _SCOPES if abi >= _WITH_SCOPES else 0), 24, 0)
    try:
        for paths, access in ((readable, READ), (sockets, SOCKETS), (writable, handled)):
            for path in paths:
                _allow(ruleset, path, access & handled)
        syscall("landlock", _RESTRICT, ruleset, 0)
    finally:
        os.close(ruleset)


def _allow(ruleset: int, path: str, access: int) -> None:
    try:
        opened = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    try:
        # Rights that only folders have are refused for a file.
        allowed = access if stat.S_ISDIR(os.fstat(opened).st_mode) else access & _OF_FILES
        rule = ctypes.create_string_buffer(struct.pack("=Qi", allowed, opened), 12)
        syscall("landlock", _ADD_RULE, ruleset, _BENEATH, rule, 0)
    finally:
        os.close(opened)
