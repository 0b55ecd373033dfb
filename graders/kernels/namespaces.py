"""A view of the machine that holds only what a run needs: its own files, processes, network, users and message queues.

Two steps, since the processes of a namespace begin with a child: :func:`leave` in the process that stays outside,
:func:`build` in the first one inside.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import socket
import stat
import struct
from contextlib import suppress
from pathlib import Path

from graders.kernels import syscalls as sc
from graders.kernels.order import STAGE, Order

_SET_FLAGS, _UP = 0x8914, 1
_DEVICES = ("null", "zero", "full", "random", "urandom", "tty")
_DESCRIPTORS = {"fd": "", "stdin": "/0", "stdout": "/1", "stderr": "/2"}
_INODES = 200_000  # files and folders in the scratch
_SOMEBODY = 1000
_LEAST_TASKS = 301  # the kernel takes no smaller bound on process numbers


def leave(*, everything: bool) -> None:
    """Enter a user and a network namespace whose loopback works; with ``everything`` also the others, as far as that is
    possible before the first process inside exists.

    Raises:
        OSError: where the kernel, or a policy of the system's, does not allow it.
    """
    user, group = os.geteuid(), os.getegid()
    flags = sc.NEW_USER | sc.NEW_NET
    if everything:
        flags |= sc.NEW_MOUNT | sc.NEW_PID | sc.NEW_IPC | sc.NEW_UTS
    sc.unshare(flags)
    # Nobody is root inside: a program that root executes would get capabilities back.
    Path("/proc/self/setgroups").write_text("deny", encoding="ascii")
    Path("/proc/self/uid_map").write_text(f"{user or _SOMEBODY} {user} 1", encoding="ascii")
    Path("/proc/self/gid_map").write_text(f"{group or _SOMEBODY} {group} 1", encoding="ascii")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        fcntl.ioctl(any_socket, _SET_FLAGS, struct.pack("16sH14x", b"lo", _UP))


def build(order: Order) -> None:
    """Build the file tree, enter it, and bound what can be made in these namespaces. In the first process inside.

    Raises:
        OSError: where the kernel does not allow it.
    """
    sc.mount("none", "/", flags=sc.RECURSIVE | sc.PRIVATE)
    tree = Path(order.root, STAGE)
    sc.mount("tmpfs", str(tree), "tmpfs", sc.NO_SUID | sc.NO_DEV, "mode=755,size=1m")
    shown: list[Path] = []
    for source in sorted({Path(one) for one in order.readable}):
        if not any(source.is_relative_to(one) for one in shown) and _show(tree, source):
            shown.append(source)
    _devices(tree, order.scratch)
    _scratch(tree, order)
    proc = tree / "proc"
    proc.mkdir()
    sc.mount("proc", str(proc), "proc", sc.NO_SUID | sc.NO_DEV | sc.NO_EXEC)
    sc.mount("none", str(tree), flags=sc.REMOUNT | sc.BIND | sc.READ_ONLY | sc.NO_SUID | sc.NO_DEV)
    sc.change_root(str(tree))
    _bound("user/max_user_namespaces", 0)  # in a new one the first process has every capability again
    # Before Linux 6.14 this was one number for the whole machine; the resource limit and the watch remain.
    with suppress(OSError):
        _bound("kernel/pid_max", max(order.tasks, _LEAST_TASKS))


def _bound(name: str, value: int) -> None:
    Path("/proc/sys", name).write_text(str(value), encoding="ascii")


def _inside(tree: Path, path: Path) -> Path:
    return tree / path.relative_to("/")


def _show(tree: Path, source: Path) -> bool:
    """Make a file or folder of the old root appear in the new one, read-only. Links stay links. False if it is not there."""
    target = _inside(tree, source)
    try:
        kind = source.lstat().st_mode
    except FileNotFoundError:
        return False
    if stat.S_ISLNK(kind):
        target.parent.mkdir(parents=True, exist_ok=True)
        if not target.is_symlink():
            target.symlink_to(source.readlink())
        return False  # where it leads to is another entry
    _place(target, folder=stat.S_ISDIR(kind))
    sc.mount(str(source), str(target), flags=sc.BIND | sc.RECURSIVE)
    sc.restrict_mount(str(target), sc.READ_ONLY | sc.NO_SUID | sc.NO_DEV)
    return True


def _place(target: Path, *, folder: bool) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    if folder:
        target.mkdir(exist_ok=True)
    else:
        target.touch()


def _devices(tree: Path, shared_memory: int) -> None:
    """A `/dev` with what harms nobody, pseudo-terminals and shared memory of its own."""
    folder = tree / "dev"
    folder.mkdir()
    sc.mount("tmpfs", str(folder), "tmpfs", sc.NO_SUID | sc.NO_EXEC, "mode=755,size=64k")
    for name in _DEVICES:
        (folder / name).touch()
        sc.mount(f"/dev/{name}", str(folder / name), flags=sc.BIND)
    for name, number in _DESCRIPTORS.items():
        (folder / name).symlink_to(f"/proc/self/fd{number}")
    for name, kind, data in (
        ("pts", "devpts", "newinstance,ptmxmode=0666,mode=620"),
        ("shm", "tmpfs", f"mode=1777,size={shared_memory},nr_inodes={_INODES}"),
    ):
        (folder / name).mkdir()
        sc.mount(kind, str(folder / name), kind, sc.NO_SUID | sc.NO_EXEC | (sc.NO_DEV if kind == "tmpfs" else 0), data)
    (folder / "ptmx").symlink_to("pts/ptmx")


def _scratch(tree: Path, order: Order) -> None:
    """The folder for writing, in memory and bounded, with what it holds outside; and the one for sockets from outside."""
    space, sockets = _inside(tree, Path(order.space)), _inside(tree, Path(order.sockets))
    for one in (space, sockets):
        one.mkdir(parents=True, exist_ok=True)
    sc.mount("tmpfs", str(space), "tmpfs", sc.NO_SUID | sc.NO_DEV, f"mode=700,size={order.scratch},nr_inodes={_INODES}")
    shutil.copytree(order.space, space, symlinks=True, dirs_exist_ok=True)
    sc.mount(order.sockets, str(sockets), flags=sc.BIND)
