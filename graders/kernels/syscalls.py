"""The few Linux system calls that Python does not offer, through the C library. Each raises OSError where the kernel refuses."""

from __future__ import annotations

import ctypes
import functools
import os
import platform
import sys
from collections.abc import Sequence

NEW_USER, NEW_MOUNT, NEW_PID, NEW_NET, NEW_IPC, NEW_UTS = 0x10000000, 0x20000, 0x20000000, 0x40000000, 0x8000000, 0x4000000

READ_ONLY, NO_SUID, NO_DEV, NO_EXEC, REMOUNT, BIND, RECURSIVE, PRIVATE = 1, 2, 4, 8, 32, 4096, 16384, 1 << 18
DETACH = 2

_SET_PDEATHSIG, _SET_DUMPABLE, _CAPBSET_DROP, _SET_SUBREAPER, _SET_NO_NEW_PRIVS, _CAP_AMBIENT = 1, 4, 24, 36, 38, 47
_SET_SECCOMP, _FILTER = 22, 2
_AT_RECURSIVE, _AT_FDCWD = 0x8000, -100
_MOUNT_SETATTR = 442  # the same number on every architecture, as for all system calls since 424


@functools.cache
def _c() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def syscall(what: str, number: int, *arguments: object) -> int:
    """Call a system call by its number.

    Args:
        what: its name, for the error.
        number: its number on this architecture.
        arguments: integers, bytes or ctypes objects.

    Raises:
        OSError: what the kernel said.
    """
    plain = [ctypes.c_long(one) if isinstance(one, int) else one for one in arguments]
    return _checked(what, _c().syscall(ctypes.c_long(number), *plain))


def _checked(what: str, result: int) -> int:
    if result == -1:
        code = ctypes.get_errno()
        raise OSError(code, f"{what}: {os.strerror(code)}")
    return result


def _prctl(what: str, option: int, *arguments: object) -> None:
    plain = [ctypes.c_ulong(one) if isinstance(one, int) else one for one in arguments]
    plain += [ctypes.c_ulong(0)] * (4 - len(plain))
    _checked(what, _c().prctl(ctypes.c_int(option), *plain))


def unshare(flags: int) -> None:
    """Leave the namespaces that ``flags`` names for new ones."""
    _checked("unshare", _c().unshare(ctypes.c_int(flags)))


def mount(source: str, target: str, kind: str = "", flags: int = 0, data: str = "") -> None:
    """Mount a file system, or bind a folder or file."""
    done = _c().mount(os.fsencode(source), os.fsencode(target), kind.encode() or None, ctypes.c_ulong(flags), data.encode() or None)
    _checked(f"mount {kind or source}", done)


class _MountAttributes(ctypes.Structure):
    _fields_ = (
        ("set", ctypes.c_uint64),
        ("clear", ctypes.c_uint64),
        ("propagation", ctypes.c_uint64),
        ("user_namespace", ctypes.c_uint64),
    )


def restrict_mount(target: str, flags: int) -> None:
    """Add :data:`READ_ONLY`, :data:`NO_SUID` … to a mount and everything mounted below it. Needs Linux 5.12."""
    attributes = _MountAttributes(set=flags)
    size = ctypes.sizeof(attributes)
    syscall("mount_setattr", _MOUNT_SETATTR, _AT_FDCWD, os.fsencode(target), _AT_RECURSIVE, ctypes.byref(attributes), size)


def change_root(folder: str) -> None:
    """Make a mounted folder the root of this mount namespace, and let go of everything that was mounted before."""
    os.chdir(folder)
    _checked("pivot_root", _c().pivot_root(b".", b"."))
    _checked("umount", _c().umount2(b".", ctypes.c_int(DETACH)))
    os.chdir("/")


def die_with_parent(signal: int) -> None:
    """Be sent a signal when the thread that started this process ends."""
    _prctl("set the parent's death signal", _SET_PDEATHSIG, signal)


def adopt_orphans() -> None:
    """Become the parent of every descendant whose own parent ends."""
    _prctl("become a subreaper", _SET_SUBREAPER, 1)


def hide_from_peers() -> None:
    """Keep processes of the same user from tracing this one and from reading its environment and memory."""
    _prctl("clear dumpable", _SET_DUMPABLE, 0)


def no_new_privileges() -> None:
    """Let no program that is started from here gain rights."""
    _prctl("no new privileges", _SET_NO_NEW_PRIVS, 1)


class _CapabilityHeader(ctypes.Structure):
    _fields_ = (("version", ctypes.c_uint32), ("pid", ctypes.c_int))


def drop_capabilities() -> None:
    """Give up every capability, also those that a program could get back by being executed."""
    for capability in range(64):
        try:
            _prctl("drop a capability", _CAPBSET_DROP, capability)
        except OSError:
            break  # the kernel knows no more; or there was nothing to drop, and then nothing to gain
    _prctl("clear ambient capabilities", _CAP_AMBIENT, 4)
    header = _CapabilityHeader(0x20080522, 0)
    _checked("capset", _c().capset(ctypes.byref(header), (ctypes.c_uint32 * 6)()))


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.c_void_p))


def install_filter(instructions: Sequence[bytes]) -> None:
    """Install a seccomp filter of eight-byte instructions for this process and all that come from it."""
    code = ctypes.create_string_buffer(b"".join(instructions))
    program = _Program(len(instructions), ctypes.addressof(code))
    _prctl("install a system call filter", _SET_SECCOMP, _FILTER, ctypes.byref(program))


def machine() -> str:
    """The architecture as Linux names it, or an empty text elsewhere and for a 32-bit Python."""
    return platform.machine() if sys.platform == "linux" and sys.maxsize > 2**32 else ""
