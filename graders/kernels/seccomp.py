"""A filter of system calls: what no exercise needs, and what would reach past the other layers, is refused."""

from __future__ import annotations

import errno
import struct

from graders.kernels.syscalls import install_filter, machine

# Names, and their numbers on x86-64 and on 64-bit ARM.
_REFUSED = {
    # Other views of the file system and of who one is.
    "mount": (165, 40), "umount2": (166, 39), "pivot_root": (155, 41), "chroot": (161, 51), "unshare": (272, 97),
    "setns": (308, 268), "open_tree": (428, 428), "move_mount": (429, 429), "fsopen": (430, 430), "fsconfig": (431, 431),
    "fsmount": (432, 432), "fspick": (433, 433), "mount_setattr": (442, 442), "name_to_handle_at": (303, 264),
    "open_by_handle_at": (304, 265), "quotactl": (179, 60),
    # Other processes, and what the kernel keeps for them.
    "ptrace": (101, 117), "process_vm_readv": (310, 270), "process_vm_writev": (311, 271), "kcmp": (312, 272),
    "pidfd_getfd": (438, 438), "add_key": (248, 217), "request_key": (249, 218), "keyctl": (250, 219),
    # Wide doors into the kernel.
    "bpf": (321, 280), "perf_event_open": (298, 241), "userfaultfd": (323, 282), "kexec_load": (246, 104),
    "kexec_file_load": (320, 294), "init_module": (175, 105), "finit_module": (313, 273), "delete_module": (176, 106),
    # The machine as a whole.
    "reboot": (169, 142), "swapon": (167, 224), "swapoff": (168, 225), "acct": (163, 89), "syslog": (103, 116),
    "settimeofday": (164, 170), "adjtimex": (159, 171), "clock_settime": (227, 112), "clock_adjtime": (305, 266),
}  # fmt: skip
# Said not to exist, so that libraries fall back on what can be filtered.
_UNKNOWN = {"io_uring_setup": (425, 425), "io_uring_enter": (426, 426), "io_uring_register": (427, 427), "clone3": (435, 435)}
_SOCKET, _CLONE = (41, 198), (56, 220)
_ARCHITECTURES = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}
_X32 = 0x40000000

_UNIX, _IPV4, _IPV6, _NETLINK = 1, 2, 10, 16
_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_NUMBER_AT, _ARCHITECTURE_AT, _FIRST_ARGUMENT_AT = 0, 4, 16
_ALLOW, _REFUSE = 0x7FFF0000, 0x00050000
_NEW_USER = 0x10000000


def possible() -> bool:
    """Whether there is a filter for this architecture."""
    return machine() in _ARCHITECTURES


def restrict(*, network: bool) -> None:
    """Install the filter. Needs "no new privileges" to be set.

    Args:
        network: whether Internet sockets may be made, since a network namespace bounds where they lead. Without it
            a filter cannot tell this machine's own addresses from others, so none are made at all.

    Raises:
        OSError: where the kernel refuses.
    """
    column, architecture = _ARCHITECTURES[machine()]
    refuse, unknown = _REFUSE | errno.EPERM, _REFUSE | errno.ENOSYS
    code = [
        _one(_LOAD, _ARCHITECTURE_AT),
        # Another calling convention (32-bit programs) has other numbers.
        _one(_EQUAL, architecture, 1, 0),
        _one(_RETURN, refuse),
        _one(_LOAD, _NUMBER_AT),
    ]
    if column == 0:
        code += [_one(_AT_LEAST, _X32, 0, 1), _one(_RETURN, refuse)]
    for numbers, answer in ((_REFUSED, refuse), (_UNKNOWN, unknown)):
        for both in numbers.values():
            code += [_one(_EQUAL, both[column], 0, 1), _one(_RETURN, answer)]
    families = (_UNIX, _NETLINK, _IPV4, _IPV6) if network else (_UNIX, _NETLINK)
    code += [_one(_EQUAL, _CLONE[column], 0, 4), _one(_LOAD, _FIRST_ARGUMENT_AT), _one(_ANY_BIT, _NEW_USER, 0, 1)]
    code += [_one(_RETURN, refuse), _one(_RETURN, _ALLOW)]
    code += [_one(_EQUAL, _SOCKET[column], 1, 0), _one(_RETURN, _ALLOW), _one(_LOAD, _FIRST_ARGUMENT_AT)]
    code += [_one(_EQUAL, family, len(families) - place, 0) for place, family in enumerate(families)]
    code += [_one(_RETURN, _REFUSE | errno.EACCES), _one(_RETURN, _ALLOW)]
    install_filter(code)


def _one(operation: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    """One instruction of the kernel's packet filter machine."""
    return struct.pack("=HBBI", operation, if_true, if_false, value)
