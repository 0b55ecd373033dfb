"""Confine a process in place: everything that is done after it returns, and everything started from there, is confined.

The process that calls :func:`confine` stays behind as a keeper outside; the call returns in a child of it. So a kernel that
was forked from a warm process is confined like one that was started anew. The keeper adopts what its descendants leave
behind, ends with whoever started it, and ends as the child did.
"""

from __future__ import annotations

import os
import resource
import signal
import struct
import sys
import traceback
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

from graders.kernels import landlock, namespaces, seccomp
from graders.kernels import syscalls as sc
from graders.kernels.order import LANDLOCK, NAMESPACES, NO_NETWORK, NOT_CONFINED, RLIMITS, SECCOMP, Order

_DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/shm")  # noqa: S108 - a device


def confine(order: Order) -> tuple[str, ...]:
    """Confine everything from here on. Must be called in a process with a single thread; returns in a child of it.

    Returns:
        The layers in force: those of the order.

    Never returns where a layer cannot be set up: the reason goes to stderr, and the status is :data:`NOT_CONFINED`.
    """
    try:
        _close_others(order.keep)
        if sys.platform == "linux":
            _enter(order)
        if RLIMITS in order.layers:
            limit(order)
        if sys.platform == "linux":
            _restrict(order)
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
        os._exit(NOT_CONFINED)
    return order.layers


def _close_others(keep: tuple[int, ...]) -> None:
    low = 3
    for one in (*sorted(set(keep) - {0, 1, 2}), os.sysconf("SC_OPEN_MAX") if hasattr(os, "sysconf") else 4096):
        os.closerange(low, one)
        low = one + 1


def _enter(order: Order) -> None:
    """Leave a keeper behind and go on in a child, inside of the namespaces that are ordered."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # meant for the kernel, but sent to its whole group
    sc.die_with_parent(signal.SIGKILL)
    _no_core()
    if NAMESPACES in order.layers:
        namespaces.leave(everything=True)
        # A first process of its own, and not the kernel: it takes in orphans, and signals that end others do not end it.
        told, tell = os.pipe()
        if first := os.fork():
            os.close(tell)
            _end_as(_reap(first, told))
        os.close(told)
        _first_inside(order, tell)
    else:
        sc.adopt_orphans()
        if NO_NETWORK in order.layers:
            namespaces.leave(everything=False)
        if {NO_NETWORK, LANDLOCK, SECCOMP} & set(order.layers):
            sc.drop_capabilities()  # root's reach past the other layers, into the memory of the grader for instance
        if child := os.fork():
            status = _reap(child)
            _end_children()
            _end_as(status)
    sc.die_with_parent(signal.SIGKILL)
    sc.no_new_privileges()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.chdir(order.work)


def _first_inside(order: Order, tell: int) -> None:
    """Be the first process of the namespaces, with which all others in them end. Returns in its child."""
    sc.die_with_parent(signal.SIGKILL)
    namespaces.build(order)
    sc.drop_capabilities()
    if child := os.fork():
        sc.hide_from_peers()
        # No signal of its own making ends this process, so it cannot end as its child did, and tells instead.
        os.write(tell, struct.pack("i", _reap(child)))
        os._exit(0)
    os.close(tell)


def _reap(child: int, told: int | None = None) -> int:
    """Wait for a child, and for whatever is handed over meanwhile. Returns the child's wait status, or what was told."""
    while True:
        try:
            ended, status = os.wait()
        except InterruptedError:
            continue
        if ended == child:
            break
    told_status = os.read(told, 4) if told is not None else b""
    return int(struct.unpack("i", told_status)[0]) if len(told_status) == 4 else status


def _end_children() -> None:
    """Kill the children that are left, and theirs, which become ours then."""
    listed = Path(f"/proc/self/task/{os.getpid()}/children")
    while True:
        try:
            for one in listed.read_text(encoding="ascii").split():
                os.kill(int(one), signal.SIGKILL)
            os.wait()
        except ChildProcessError:
            return
        except OSError:
            return  # a kernel without that list: the grader looks for them, too


def _end_as(status: int) -> NoReturn:
    """End with the exit status or by the signal that a wait status holds."""
    if os.WIFSIGNALED(status):
        with suppress(OSError):  # that of SIGKILL is what it always is
            signal.signal(os.WTERMSIG(status), signal.SIG_DFL)
        os.kill(os.getpid(), os.WTERMSIG(status))
    os._exit(os.waitstatus_to_exitcode(status) if os.WIFEXITED(status) else NOT_CONFINED)


def _no_core() -> None:
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def limit(order: Order) -> None:
    """Set the limits that the kernel keeps for each process; what a learner's code starts has them, too."""
    _no_core()
    # Outside a user namespace the count would take in everything else that this user runs.
    counted = NAMESPACES in order.layers or NO_NETWORK in order.layers
    for name, value in (("FSIZE", order.file), ("NOFILE", order.open_files), ("DATA", order.memory), ("NPROC", order.tasks)):
        which = getattr(resource, f"RLIMIT_{name}", None)
        if which is None or (name == "DATA" and sys.platform != "linux") or (name == "NPROC" and not counted):
            continue
        hard = resource.getrlimit(which)[1]
        bounded = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(which, (bounded, bounded))


def _restrict(order: Order) -> None:
    inside = NAMESPACES in order.layers
    if LANDLOCK in order.layers:
        # In namespaces /dev is one of its own; elsewhere its terminals are those of whoever grades.
        devices = ("/dev",) if inside else _DEVICES
        landlock.restrict((*order.readable, "/proc"), (order.space, *devices), (order.sockets,))
    if SECCOMP in order.layers:
        seccomp.restrict(network=inside or NO_NETWORK in order.layers)
