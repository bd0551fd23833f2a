"""The rules of Landlock that confine a command, as the program above it puts them on.

Landlock's rules: landlock(7). What older versions of it do not cover (making files empty before version 3, TCP before
4, signals before 6), the filter of system calls and its judge do. Imports nothing but the standard library's small
modules, because it runs before every command.
"""

import contextlib
import ctypes
import os
import stat
import struct
from collections.abc import Iterator, Mapping, Sequence

from nanobot.security.seccomp import LIBC, within

_CREATE, _ADD, _RESTRICT = 444, 445, 446
_NO_NEW_PRIVILEGES, _DROP_BOUND = 38, 24
_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = 1, 2, 4, 8
_MAKE_DEVICES, _DEVICE_CALLS = (1 << 6) | (1 << 11), 1 << 15
_ALL = (1 << 16) - 1
#: How many rights on files the older versions know.
_FILE_RIGHTS = {1: 13, 2: 14, 3: 15, 4: 15}
_READS = _EXECUTE | _READ_FILE | _READ_DIR
_WRITES = _ALL & ~(_MAKE_DEVICES | _DEVICE_CALLS)
_OF_FILES = _EXECUTE | _WRITE_FILE | _READ_FILE | (1 << 14) | _DEVICE_CALLS
_DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")
_FACTS = "cpuinfo meminfo stat filesystems loadavg uptime version sys/kernel sys/vm/overcommit_memory".split()


class Spec:
    """How a command runs: real paths; `proxy` is a Unix socket or empty; `abi` is 0 without Landlock.

    `lifeline` is a descriptor, -1 where there is none; `linux` is False on a system without what Linux alone has.
    """

    writable: list[str]
    readable: list[str]
    hidden: list[str]
    protected: list[str]
    proxy: str
    abi: int
    lifeline: int
    linux: bool

    def __init__(self, told: Mapping[str, object]) -> None:
        vars(self).update(told)


def abi() -> int:
    """The version of Landlock here; 0 where the kernel has none, or it is switched off."""
    return max(0, int(LIBC.syscall(_CREATE, None, 0, 1)))


def paths_below(path: str, barred: Sequence[str]) -> Iterator[str]:
    """`path`, or those parts of it that together hold everything but `barred`."""
    if path in barred:
        return
    if not any(within(one, path) for one in barred):
        yield path
        return
    with contextlib.suppress(OSError), os.scandir(path) as found:
        for entry in found:
            if not entry.is_symlink():
                yield from paths_below(entry.path, barred)


def restrict(spec: Spec, scratch: str, command: int) -> None:
    """Put the rules on this process, which is `command`, and all that it starts. Raises `OSError`."""
    known = (1 << _FILE_RIGHTS.get(spec.abi, 16)) - 1
    network, signals = 3 * (spec.abi >= 4), 3 * (spec.abi >= 6)
    rules = struct.pack("<QQQ", known, network, signals)[: 24 if signals else 16 if network else 8]
    ruleset = LIBC.syscall(_CREATE, rules, len(rules), 0)
    _check(ruleset, "landlock_create_ruleset")
    hidden = [one for one in spec.hidden if os.path.lexists(one)]
    for folder in spec.writable:
        for path in paths_below(folder, [*hidden, *(one for one in spec.readable if one != folder)]):
            _allow(ruleset, path, _WRITES & known)
    for folder in spec.readable:
        for path in paths_below(folder, hidden):
            _allow(ruleset, path, _READS)
    _allow(ruleset, scratch, _WRITES & known)
    for path in _DEVICES:
        _allow(ruleset, path, _READ_FILE | _WRITE_FILE)
    for path in (*(f"/proc/{name}" for name in _FACTS), f"/proc/{command}", "/sys/devices/system/cpu"):
        _allow(ruleset, path, _READS)
    _check(LIBC.syscall(_RESTRICT, ruleset, 0), "landlock_restrict_self")
    os.close(ruleset)


def _allow(ruleset: int, path: str, rights: int) -> None:
    try:
        descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return  # gone meanwhile, or not on this machine: then there is nothing to allow
    folder = stat.S_ISDIR(os.fstat(descriptor).st_mode)
    rule = struct.pack("<Qi", rights if folder else rights & _OF_FILES, descriptor)
    _check(LIBC.syscall(_ADD, ruleset, 1, rule, 0), f"landlock_add_rule for {path}")
    os.close(descriptor)


def _check(result: int, what: str) -> None:
    if result < 0:
        raise OSError(ctypes.get_errno(), what)


def give_up_rights() -> None:
    """No rights of root, and none by programs that lend theirs. Raises `OSError`."""
    _check(LIBC.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0), "no_new_privs")
    for right in range(64):
        LIBC.prctl(_DROP_BOUND, right, 0, 0, 0)  # only root can and needs to
    _check(LIBC.capset(struct.pack("<Ii", 0x20080522, 0), bytes(24)), "capset")
