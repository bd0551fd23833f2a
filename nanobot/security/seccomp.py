"""What Landlock does not cover, refused by a filter of system calls, and changes of modes and times judged one by one.

The filter is classic BPF that is assembled here (seccomp(2)); it knows x86_64 and aarch64. Calls that need a look at
the memory of the caller are answered by the process that started it (seccomp_unotify(2)): it reads the path, opens what
lies there, and changes it only where it lies in a writable folder. Imports nothing but the standard library's small
modules, because it runs before every command.
"""

import contextlib
import ctypes
import errno
import functools
import os
import struct
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence

from nanobot.security.process_tree import descendants, parent_of

LIBC = ctypes.CDLL(None, use_errno=True)
ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}

_ALLOW, _KILL, _NOTIFY, _ERRNO = 0x7FFF0000, 0x80000000, 0x7FC00000, 0x00050000
_EACCES, _EPERM = _ERRNO | errno.EACCES, _ERRNO | errno.EPERM
_LOAD, _EQUAL, _AT_LEAST, _HAS_BIT, _AND, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x54, 0x06
_RECEIVE, _SEND = 0xC0502100, 0xC0182101
_SECCOMP = {"x86_64": 317, "aarch64": 277}
_GET_DESCRIPTOR = 438

#: System calls by name: their numbers on x86_64 and on aarch64, -1 where one does not exist.
_NUMBERS: Mapping[str, tuple[int, int]] = {
    "socket": (41, 198),
    "socketpair": (53, 199),
    "connect": (42, 203),
    "sendto": (44, 206),
    "sendmsg": (46, 211),
    "sendmmsg": (307, 269),
    "bind": (49, 200),
    "listen": (50, 201),
    "open": (2, -1),
    "openat": (257, 56),
    "openat2": (437, 437),
    "truncate": (76, 45),
    "fcntl": (72, 25),
    "kill": (62, 129),
    "tkill": (200, 130),
    "tgkill": (234, 131),
    "rt_sigqueueinfo": (129, 138),
    "rt_tgsigqueueinfo": (297, 240),
    "pidfd_send_signal": (424, 424),
    "ioctl": (16, 29),
    "clone": (56, 220),
    "clone3": (435, 435),
    "prlimit64": (302, 261),
    "setpriority": (141, 140),
    "ioprio_set": (251, 30),
    "sched_setaffinity": (203, 122),
    "sched_setscheduler": (144, 119),
    "sched_setparam": (142, 118),
    "sched_setattr": (314, 274),
    "chmod": (90, -1),
    "fchmod": (91, 52),
    "fchmodat": (268, 53),
    "fchmodat2": (452, 452),
    "chown": (92, -1),
    "fchown": (93, 55),
    "lchown": (94, -1),
    "fchownat": (260, 54),
    "utimensat": (280, 88),
}
#: Refused whatever the arguments: looking into other processes, memory and queues that are shared by a number or name.
_OTHERS: Sequence[tuple[int, int]] = (
    *((101, 117), (310, 270), (311, 271), (312, 272), (440, 440), (438, 438), (448, 448)),  # ptrace … process_mrelease
    *((29, 194), (30, 196), (64, 190), (68, 186), (240, 180), (279, 239), (256, 238)),  # shmget … migrate_pages
    *((31, 195), (65, 193), (66, 191), (220, 192)),  # shmctl, semop, semctl, semtimedop: a number can be guessed
    *((69, 189), (70, 188), (71, 187), (241, 181)),  # msgsnd, msgrcv, msgctl, mq_unlink
    *((132, -1), (235, -1), (261, -1)),  # utime, utimes, futimesat: every C library of today calls utimensat
)
#: The same in every sandbox: what the kernel keeps for all, and large interfaces of it that no command needs.
_KERNEL: Sequence[tuple[int, int]] = (
    *((248, 217), (249, 218), (250, 219), (321, 280), (298, 241), (323, 282)),  # keys, bpf, perf, userfaultfd
    *((425, 425), (426, 426), (427, 427)),  # io_uring, which no filter can see into
    *((165, 40), (166, 39), (155, 41), (161, 51), (272, 97), (308, 268)),  # mount … setns
    *((428, 428), (429, 429), (430, 430), (431, 431), (432, 432), (433, 433)),  # the newer ways to mount
    *((442, 442), (467, 467)),  # mount_setattr, open_tree_attr
    *((175, 105), (176, 106), (313, 273), (246, 104), (320, 294), (169, 142), (167, 224), (168, 225)),  # kernel, reboot
    *((164, 170), (227, 112), (159, 171), (305, 266), (170, 161), (171, 162), (163, 89), (103, 116)),  # clock, names
    *((172, -1), (173, -1), (303, 264), (304, 265), (179, 60), (443, 443)),  # ports, files by handle, quotas
)
#: Extended attributes and flags of files: answered as by a file system that has none.
_NO_ATTRIBUTES: Sequence[tuple[int, int]] = (
    *((188, 5), (189, 6), (190, 7), (197, 14), (198, 15), (199, 16)),
    *((463, 463), (466, 466), (469, 469)),
)
_NEW_NAMESPACES = 0x7E020000
#: TIOCSTI and TIOCLINUX type into a terminal; then those that change flags and attributes of a file, and who is told
#: of a descriptor by a signal, for which F_SETOWN, F_SETSIG and F_SETOWN_EX of fcntl stand, too.
_IOCTLS = (0x5412, 0x541C, 0x40086602, 0x40087602, 0x401C5820, 0x8901, 0x8902)
_OWNERS = (8, 10, 15)
_FAST_OPEN = 0x20000000  # MSG_FASTOPEN connects without a call of connect
_SENDING = {"sendto": 3, "sendmsg": 2, "sendmmsg": 3}
#: Where the number of a process stands among the arguments; 0 means the caller itself.
_OF_ANOTHER = {"prlimit64": 0, "sched_setaffinity": 0, "sched_setscheduler": 0, "sched_setparam": 0}
_OF_ANOTHER |= {"sched_setattr": 0, "setpriority": 1, "ioprio_set": 1}
_METADATA = "chmod fchmod fchmodat fchmodat2 chown fchown lchown fchownat utimensat".split()

_Line = tuple[int, int, int, int]
#: The numbers of a call on both architectures, and what the filter does with it.
_Rule = tuple[tuple[int, int], Sequence[_Line]]


def machine() -> str:
    """The architecture as the kernel calls it; a filter exists for those in `ARCHITECTURES`, in their whole width."""
    # English: the name of an architecture
    return os.uname().machine if sys.maxsize > 2**32 else "a Python of 32 bits"


def number(name: str) -> int:
    """The number of a system call here, -1 where it does not exist."""
    return _NUMBERS[name][machine() != "x86_64"]


def program(architecture: str, *, network: bool, abi: int) -> bytes:
    """The whole filter for Landlock of version `abi`: what a version does not cover yet is judged or refused here.

    With `network` sockets of TCP may be made, and each connection is judged. `architecture` is as `machine` says it.
    """
    rules = [*_of_kernel(), *((pair, [_end(_EPERM)]) for pair in _OTHERS)]
    rules += [(pair, [_end(_ERRNO | errno.ENOTSUP)]) for pair in _NO_ATTRIBUTES]
    rules += [(_NUMBERS[name], [_end(_NOTIFY)]) for name in _METADATA]
    rules += [(_NUMBERS[name], _unless_zero(at)) for name, at in _OF_ANOTHER.items()]
    rules += [(_NUMBERS[name], _with_bits(at, _FAST_OPEN)) for name, at in _SENDING.items()]
    rules += [(_NUMBERS["socketpair"], _pairs())]
    rules += [(_NUMBERS["socket"], _sockets() if network else [_end(_EACCES)])]
    rules += [(_NUMBERS["connect"], [_end(_NOTIFY if network else _EACCES)])]
    rules += [(_NUMBERS[name], [_end(_EACCES)]) for name in ("bind", "listen")]  # who listens has a port without bind
    if abi < 3:
        rules += [(_NUMBERS["truncate"], [_end(_NOTIFY)]), (_NUMBERS["openat2"], [_end(_ERRNO | errno.ENOSYS)])]
        rules += [(_NUMBERS["open"], _truncating(1)), (_NUMBERS["openat"], _truncating(2))]
    if abi < 6:
        rules += [(_NUMBERS[name], [_end(_NOTIFY)]) for name in ("kill", "tkill", "tgkill")]
        rules += [(_NUMBERS[name], [_end(_EPERM)]) for name in ("rt_sigqueueinfo", "rt_tgsigqueueinfo")]
        rules += [(_NUMBERS["pidfd_send_signal"], [_end(_EPERM)]), (_NUMBERS["fcntl"], _one_of(1, _OWNERS))]
    return _assembled(architecture, rules)


def small_program(architecture: str) -> bytes:
    """The filter for a sandbox with namespaces of its own, which refuses what these do not part."""
    return _assembled(architecture, _of_kernel())


@functools.cache
def filter_file() -> str:
    """A path by which programs that this process starts read the small filter; empty where there is none for this
    architecture. It has no name on any disk and is gone with the process."""
    if machine() not in ARCHITECTURES:
        return ""
    descriptor = os.memfd_create("filter", os.MFD_CLOEXEC)
    os.write(descriptor, small_program(machine()))
    return f"/proc/{os.getpid()}/fd/{descriptor}"


def _of_kernel() -> list[_Rule]:
    rules: list[_Rule] = [(pair, [_end(_EPERM)]) for pair in _KERNEL]
    rules += [(_NUMBERS["clone"], _with_bits(0, _NEW_NAMESPACES))]
    rules += [(_NUMBERS["clone3"], [_end(_ERRNO | errno.ENOSYS)])]  # its flags stand in memory; libraries fall back
    rules += [(_NUMBERS["ioctl"], _one_of(1, _IOCTLS))]
    return rules


def _assembled(architecture: str, rules: Sequence[_Rule]) -> bytes:
    lines: list[_Line] = [(_LOAD, 0, 0, 4), (_EQUAL, 1, 0, ARCHITECTURES[architecture]), _end(_KILL), (_LOAD, 0, 0, 0)]
    if architecture == "x86_64":
        lines += [(_AT_LEAST, 0, 1, 0x40000000), _end(_ERRNO | errno.ENOSYS)]  # the calls of x32
    for pair, block in rules:
        if (call := pair[architecture != "x86_64"]) >= 0:
            lines += [(_EQUAL, 0, len(block), call), *block]
    lines.append(_end(_ALLOW))
    return b"".join(struct.pack("<HBBI", *line) for line in lines)


def _end(action: int) -> _Line:
    return (_RETURN, 0, 0, action)


def _load(argument: int) -> _Line:
    return (_LOAD, 0, 0, 16 + 8 * argument)  # the lower half, which holds all that is asked for here


def _unless_zero(argument: int) -> list[_Line]:
    return [_load(argument), (_EQUAL, 1, 0, 0), _end(_EPERM), _end(_ALLOW)]


def _with_bits(argument: int, bits: int) -> list[_Line]:
    return [_load(argument), (_HAS_BIT, 0, 1, bits), _end(_EPERM), _end(_ALLOW)]


def _one_of(argument: int, values: Sequence[int]) -> list[_Line]:
    """Refused where the argument is one of these."""
    tests = [(_EQUAL, len(values) - at, 0, value) for at, value in enumerate(values)]
    return [_load(argument), *tests, _end(_ALLOW), _end(_EPERM)]


def _truncating(flags: int) -> list[_Line]:
    """Refused where a file is opened to be read and made empty; who may write may do that."""
    lines = [_load(flags), (_HAS_BIT, 0, 3, os.O_TRUNC), (_AND, 0, 0, os.O_ACCMODE), (_EQUAL, 0, 1, os.O_RDONLY)]
    return [*lines, _end(_EACCES), _end(_ALLOW)]


def _pairs() -> list[_Line]:
    """Pairs of sockets are pipes, but those of datagrams can be sent to any socket of the machine."""
    return [_load(1), (_AND, 0, 0, 0xF), (_EQUAL, 0, 1, 2), _end(_EACCES), _end(_ALLOW)]


def _sockets() -> list[_Line]:
    """IPv4, a stream, plain TCP; MPTCP and SCTP are streams, too."""
    lines = [_load(0), (_EQUAL, 0, 7, 2), _load(1), (_AND, 0, 0, 0xF), (_EQUAL, 0, 4, 1), _load(2)]
    return [*lines, (_EQUAL, 1, 0, 0), (_EQUAL, 0, 1, 6), _end(_ALLOW), _end(_EACCES)]


def install(code: bytes) -> int:
    """Put the filter on this process and all that it starts; the descriptor by which judged calls are told.

    Raises `OSError`. PR_SET_NO_NEW_PRIVS must be set before.
    """
    lines = ctypes.create_string_buffer(code, len(code))
    given = struct.pack("<H6xQ", len(code) // 8, ctypes.addressof(lines))
    for flags in (8 | 32, 8):  # SECCOMP_FILTER_FLAG_NEW_LISTENER, and not interrupted by signals where that exists
        descriptor = LIBC.syscall(_SECCOMP[machine()], 1, flags, given)
        if descriptor >= 0:
            return int(descriptor)
    raise OSError(ctypes.get_errno(), "seccomp")


class Judge:
    """Answers the calls that the filter hands over: modes, owners and times inside `writable`, connections to `port`.

    `kept` holds what lies in a writable folder and may not be changed. The judge acts on what it has opened itself,
    so nothing that the caller changes meanwhile counts.
    """

    def __init__(self, listener: int, writable: Sequence[str], kept: Sequence[str], port: int) -> None:
        self.listener = listener
        self._writable, self._kept, self._port = writable, kept, port
        changes: Mapping[str, Callable[[int, Sequence[int]], None]] = {
            "chmod": lambda pid, a: self._mode(pid, _HERE, a[0], a[1]),
            "fchmod": lambda pid, a: self._mode(pid, a[0], 0, a[1]),
            "fchmodat": lambda pid, a: self._mode(pid, a[0], a[1], a[2]),
            "fchmodat2": lambda pid, a: self._mode(pid, a[0], a[1], a[2], a[3]),
            "chown": lambda pid, a: self._owner(pid, _HERE, a[0], a[1:3]),
            "lchown": lambda pid, a: self._owner(pid, _HERE, a[0], a[1:3], _NO_FOLLOW),
            "fchown": lambda pid, a: self._owner(pid, a[0], 0, a[1:3]),
            "fchownat": lambda pid, a: self._owner(pid, a[0], a[1], a[2:4], a[4]),
            "utimensat": lambda pid, a: self._times(pid, a[0], a[1], _memory(pid, a[2], 32) if a[2] else None, a[3]),
            "truncate": lambda pid, a: self._truncate(pid, a[0], a[1]),
            "kill": lambda pid, a: self._kill(pid, a[0], a[1]),
            "tkill": lambda _, a: self._judge_target(_leader(a[0] & 0xFFFFFFFF)),
            "tgkill": lambda _, a: self._judge_target(a[0] & 0xFFFFFFFF),
            "connect": lambda pid, a: self._connect(pid, a[0], _memory(pid, a[1], min(a[2], 128))),
        }
        self._changes = {number(name): change for name, change in changes.items()}
        self._goes_on = {number("tkill"), number("tgkill")}

    def answer(self) -> None:
        """Take one call and answer it; a caller that has gone meanwhile gets none."""
        told = ctypes.create_string_buffer(80)
        if LIBC.ioctl(self.listener, ctypes.c_ulong(_RECEIVE), told) != 0:
            return
        call, pid, _, number_, _, _, *arguments = struct.unpack("<QIIiIQ6Q", told.raw)
        failed = 0
        try:
            self._changes[number_](pid, arguments)
        except OSError as error:
            failed = error.errno or errno.EPERM
        goes_on = int(not failed and number_ in self._goes_on)  # its arguments are numbers, which nobody can exchange
        reply = ctypes.create_string_buffer(struct.pack("<QqiI", call, 0, -failed, goes_on), 24)
        LIBC.ioctl(self.listener, ctypes.c_ulong(_SEND), reply)

    def _mode(self, pid: int, folder: int, path: int, mode: int, flags: int = 0) -> None:
        with self._opened(pid, folder, path, flags) as place:
            os.chmod(place, mode & 0o1777)  # noqa: PTH101 - a mark that lends rights to whoever runs the file is left out

    def _owner(self, pid: int, folder: int, path: int, owner: Sequence[int], flags: int = 0) -> None:
        with self._opened(pid, folder, path, flags) as place:
            os.chown(place, *(-1 if one & 0xFFFFFFFF == 0xFFFFFFFF else one & 0xFFFFFFFF for one in owner))

    def _times(self, pid: int, folder: int, path: int, times: bytes | None, flags: int = 0) -> None:
        with self._opened(pid, folder, path, flags) as place:
            if LIBC.utimensat(-100, place.encode(), times, 0) != 0:
                raise OSError(ctypes.get_errno(), "utimensat")

    @contextlib.contextmanager
    def _opened(self, pid: int, folder: int, path: int, flags: int) -> Iterator[str]:
        """The file that a call means, opened without a right to read it, as a path. Raises `OSError`."""
        folder = ctypes.c_int32(folder & 0xFFFFFFFF).value
        name = _text(pid, path) if path else b""
        if path and not name and not flags & _EMPTY:
            raise FileNotFoundError(errno.ENOENT, "no path")
        base = f"/proc/{pid}/cwd" if folder == _HERE else f"/proc/{pid}/fd/{folder}"
        for own in (b"/proc/self/", b"/proc/thread-self/"):
            if name.startswith(own):
                name = f"/proc/{pid}/".encode() + name[len(own) :]
        target = os.path.join(os.fsencode(base), name) if name else os.fsencode(base)  # noqa: PTH118
        descriptor = os.open(target, os.O_PATH | os.O_CLOEXEC | (os.O_NOFOLLOW if flags & _NO_FOLLOW else 0))
        try:
            place = f"/proc/self/fd/{descriptor}"
            if not self._may_change(os.readlink(place)):  # noqa: PTH115
                raise PermissionError(errno.EPERM, "outside")
            yield place
        finally:
            os.close(descriptor)

    def _may_change(self, real: str) -> bool:
        """The deepest of all folders that hold it decides; the same folder in both lists is kept."""
        inside = max((len(one) for one in self._writable if within(real, one)), default=-1)
        return inside > max((len(one) for one in self._kept if within(real, one)), default=-1)

    def _truncate(self, pid: int, path: int, size: int) -> None:
        with self._opened(pid, _HERE, path, 0) as place:
            os.truncate(place, size)

    def _judge_target(self, process: int) -> None:
        """Raises `OSError` where the command has not started this process itself."""
        above = process
        while (above := parent_of(above)) != os.getpid():
            if above <= 1:
                raise PermissionError(errno.EPERM, "another's")

    def _kill(self, pid: int, target: int, number_: int) -> None:
        """Send a signal to those of the processes meant that the command has started itself."""
        target = ctypes.c_int32(target & 0xFFFFFFFF).value
        if target > 0:
            self._judge_target(target)
            os.kill(target, number_)
            return
        group = os.getpgid(pid if target == 0 else -target) if target != -1 else 0
        own = descendants(os.getpid())
        meant = [one for one in own if (not group and one != pid) or (group and _group(one) == group)]
        if not meant:
            raise PermissionError(errno.EPERM, "another's")
        for one in sorted(meant, key=pid.__eq__):  # the caller last
            with contextlib.suppress(ProcessLookupError):
                os.kill(one, number_)

    def _connect(self, pid: int, descriptor: int, address: bytes) -> None:
        """Connect a socket of the caller to our own port, whatever stands in its memory by now."""
        if address[:8] != struct.pack("<H", 2) + struct.pack(">H", self._port) + b"\x7f\x00\x00\x01":
            raise PermissionError(errno.EACCES, "closed")
        process = os.pidfd_open(_leader(pid))
        try:
            copy = LIBC.syscall(_GET_DESCRIPTOR, process, descriptor & 0xFFFFFFFF, 0)
        finally:
            os.close(process)
        if copy < 0:
            raise OSError(ctypes.get_errno(), "pidfd_getfd")
        try:
            if LIBC.connect(copy, address[:16].ljust(16, b"\0"), 16) != 0:
                raise OSError(ctypes.get_errno(), "connect")
        finally:
            os.close(copy)


_HERE, _NO_FOLLOW, _EMPTY = -100, 0x100, 0x1000


def within(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def _memory(pid: int, address: int, size: int) -> bytes:
    """What stands in the memory of a process, as far as it may be read. Raises `OSError`."""
    descriptor = os.open(f"/proc/{pid}/mem", os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.pread(descriptor, size, address)
    except OverflowError:
        raise OSError(errno.EFAULT, "bad address") from None
    finally:
        os.close(descriptor)


def _text(pid: int, address: int) -> bytes:
    """A path in the memory of a process: read page by page, for the next page may not be there."""
    found = b""
    while b"\0" not in found and len(found) < 4_096:
        found += _memory(pid, address + len(found), 4_096 - (address + len(found)) % 4_096)
    if b"\0" not in found:
        raise OSError(errno.ENAMETOOLONG, "too long")
    return found.partition(b"\0")[0]


def _group(pid: int) -> int:
    with contextlib.suppress(ProcessLookupError):
        return os.getpgid(pid)
    return 0


def _leader(pid: int) -> int:
    """The process that a thread belongs to."""
    with open(f"/proc/{pid}/status", encoding="utf-8") as status:  # noqa: PTH123
        return next(int(line.split()[1]) for line in status if line.startswith("Tgid:"))
