"""The filter of system calls on both architectures, run by a small interpreter of classic BPF instead of a kernel."""

import errno
import re
import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from nanobot.security.seccomp import program, small_program

ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}  # AUDIT_ARCH_* of linux/audit.h
#: Where Linux's own headers stand if they are installed; aarch64 uses the generic numbers.
HEADERS = {
    "x86_64": Path("/usr/include/x86_64-linux-gnu/asm/unistd_64.h"),
    "aarch64": Path("/usr/include/asm-generic/unistd.h"),
}
ALLOW, KILL, ASK = 0x7FFF0000, 0x80000000, 0x7FC00000  # SECCOMP_RET_* of linux/seccomp.h


def refused(number: int) -> int:
    return 0x00050000 | number


#: Numbers on x86_64 and aarch64, - where a call does not exist: arch/x86/entry/syscalls/syscall_64.tbl and
#: include/uapi/asm-generic/unistd.h of Linux 6.17.
TABLE = """
read 0 63, write 1 64, open 2 -, openat 257 56, openat2 437 437, close 3 57, fstat 5 80, mmap 9 222, mprotect 10 226,
brk 12 214, rt_sigaction 13 134, ioctl 16 29, pipe2 293 59, dup3 292 24, execve 59 221, wait4 61 260, exit_group 231 94,
futex 202 98, getrandom 318 278, getdents64 217 61, unlinkat 263 35, mkdirat 258 34, renameat2 316 276, linkat 265 37,
symlinkat 266 36, readlinkat 267 78, statx 332 291, getcwd 79 17, chdir 80 49, ftruncate 77 46, ppoll 271 73,
clock_gettime 228 113, nanosleep 35 101, prctl 157 167, getpid 39 172, setpgid 109 154, setsid 112 157, umask 95 166,
epoll_pwait 281 22, eventfd2 290 19, memfd_create 319 279, getxattr 191 8, listxattr 194 11, shmdt 67 197,
add_key 248 217, request_key 249 218, keyctl 250 219, bpf 321 280, perf_event_open 298 241, userfaultfd 323 282,
io_uring_setup 425 425, io_uring_enter 426 426, io_uring_register 427 427, mount 165 40, umount2 166 39,
pivot_root 155 41, chroot 161 51, unshare 272 97, setns 308 268, open_tree 428 428, move_mount 429 429, fsopen 430 430,
fsconfig 431 431, fsmount 432 432, fspick 433 433, mount_setattr 442 442, open_tree_attr 467 467, init_module 175 105,
delete_module 176 106, finit_module 313 273, kexec_load 246 104, kexec_file_load 320 294, reboot 169 142,
swapon 167 224, swapoff 168 225, settimeofday 164 170, clock_settime 227 112, adjtimex 159 171, clock_adjtime 305 266,
sethostname 170 161, setdomainname 171 162, acct 163 89, syslog 103 116, iopl 172 -, ioperm 173 -,
name_to_handle_at 303 264, open_by_handle_at 304 265, quotactl 179 60, quotactl_fd 443 443, ptrace 101 117,
process_vm_readv 310 270, process_vm_writev 311 271, kcmp 312 272, process_madvise 440 440, pidfd_getfd 438 438,
process_mrelease 448 448, shmget 29 194, shmat 30 196, shmctl 31 195, semget 64 190, semop 65 193, semctl 66 191,
semtimedop 220 192, msgget 68 186, msgsnd 69 189, msgrcv 70 188, msgctl 71 187, mq_open 240 180, mq_unlink 241 181,
move_pages 279 239, migrate_pages 256 238, setxattr 188 5, lsetxattr 189 6, fsetxattr 190 7, removexattr 197 14,
lremovexattr 198 15, fremovexattr 199 16, setxattrat 463 463, removexattrat 466 466, file_setattr 469 469, chmod 90 -,
fchmod 91 52, fchmodat 268 53, fchmodat2 452 452, chown 92 -, fchown 93 55, lchown 94 -, fchownat 260 54, utime 132 -,
utimes 235 -, futimesat 261 -, utimensat 280 88, socket 41 198, socketpair 53 199, connect 42 203, sendto 44 206,
sendmsg 46 211, sendmmsg 307 269, bind 49 200, listen 50 201, truncate 76 45, fcntl 72 25, kill 62 129, tkill 200 130,
tgkill 234 131, rt_sigqueueinfo 129 138, rt_tgsigqueueinfo 297 240, pidfd_send_signal 424 424, clone 56 220,
clone3 435 435, prlimit64 302 261, setpriority 141 140, ioprio_set 251 30, sched_setaffinity 203 122,
sched_setscheduler 144 119, sched_setparam 142 118, sched_setattr 314 274
"""
ROWS = [row.split() for row in TABLE.replace("\n", " ").split(",")]
NUMBERS = {
    name: {row[0]: int(row[at]) for row in ROWS if row[at] != "-"} for at, name in enumerate(ARCHITECTURES, start=1)
}

ORDINARY = """read write open openat close fstat mmap mprotect brk rt_sigaction pipe2 dup3 execve wait4 exit_group
futex getrandom getdents64 unlinkat mkdirat renameat2 linkat symlinkat readlinkat statx getcwd chdir ftruncate ppoll
clock_gettime nanosleep prctl getpid setpgid setsid umask epoll_pwait eventfd2 memfd_create getxattr
listxattr""".split()
KERNEL = """add_key request_key keyctl bpf perf_event_open userfaultfd io_uring_setup io_uring_enter io_uring_register
mount umount2 pivot_root chroot unshare setns open_tree move_mount fsopen fsconfig fsmount fspick mount_setattr
open_tree_attr init_module delete_module finit_module kexec_load kexec_file_load reboot swapon swapoff settimeofday
clock_settime adjtimex clock_adjtime sethostname setdomainname acct syslog iopl ioperm name_to_handle_at
open_by_handle_at quotactl quotactl_fd""".split()
OTHERS = """ptrace process_vm_readv process_vm_writev kcmp process_madvise pidfd_getfd process_mrelease shmget shmat
shmctl semget semop semctl semtimedop msgget msgsnd msgrcv msgctl mq_open mq_unlink move_pages migrate_pages""".split()
ATTRIBUTES = """setxattr lsetxattr fsetxattr removexattr lremovexattr fremovexattr setxattrat removexattrat
file_setattr""".split()
METADATA = "chmod fchmod fchmodat fchmodat2 chown fchown lchown fchownat utimensat".split()

Run = Callable[..., int]


def interpret(code: bytes, architecture: int, number: int, arguments: tuple[int, ...]) -> int:
    """What a filter answers to one call (seccomp(2); the instructions: Documentation/networking/filter.rst)."""
    data = struct.pack("<IIQ6Q", number, architecture, 0, *(*arguments, *[0] * 6)[:6])
    lines: list[tuple[int, int, int, int]] = list(struct.iter_unpack("<HBBI", code))
    at = held = 0
    while True:
        operation, yes, no, value = lines[at]
        at += 1
        match operation:
            case 0x20:
                (held,) = struct.unpack_from("<I", data, value)
            case 0x54:
                held &= value
            case 0x15:
                at += yes if held == value else no
            case 0x35:
                at += yes if held >= value else no
            case 0x45:
                at += yes if held & value else no
            case 0x06:
                return value
            case _:
                raise AssertionError(f"instruction {operation:#x}")


@pytest.fixture(params=ARCHITECTURES)
def architecture(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def running(code: bytes, architecture: str) -> Run:
    def run(name: str, *arguments: int) -> int:
        return interpret(code, ARCHITECTURES[architecture], NUMBERS[architecture][name], arguments)

    return run


def existing(architecture: str, names: list[str]) -> list[str]:
    return [name for name in names if name in NUMBERS[architecture]]


def every_program(architecture: str) -> dict[str, bytes]:
    made = {
        f"Landlock {abi}, network {network}": program(architecture, network=network, abi=abi)
        for abi in (1, 3, 5, 6, 7)
        for network in (False, True)
    }
    return {"small": small_program(architecture), **made}


def test_the_numbers_are_those_of_the_headers_of_linux(architecture: str) -> None:
    if not HEADERS[architecture].exists():
        pytest.skip("NOT TRIED: the headers of Linux are not installed")
    found = re.findall(r"#define __NR(?:3264)?_(\w+)\s+(\d+)\n", HEADERS[architecture].read_text(encoding="utf-8"))
    known = {name: int(number) for name, number in found}
    differ = {
        one: (number, known.get(one)) for one, number in NUMBERS[architecture].items() if known.get(one) != number
    }
    newest = max(known.values())
    assert {one: pair for one, pair in differ.items() if pair[0] <= newest} == {}
    other = {row[0] for row in ROWS} - NUMBERS[architecture].keys()
    assert other & known.keys() == set()


def test_ordinary_calls_are_allowed_and_those_of_the_kernel_refused_in_every_sandbox(architecture: str) -> None:
    for about, code in every_program(architecture).items():
        run = running(code, architecture)
        for name in existing(architecture, ORDINARY):
            assert run(name) == ALLOW, (about, name)
        for name in existing(architecture, KERNEL):
            assert run(name) == refused(errno.EPERM), (about, name)
        assert run("clone", 17) == ALLOW
        for flag in (0x00020000, 0x02000000, 0x04000000, 0x08000000, 0x10000000, 0x20000000, 0x40000000):
            assert run("clone", flag | 17) == refused(errno.EPERM), f"{about}: CLONE_NEW… {flag:#x}"
        assert run("clone3") == refused(errno.ENOSYS)
        assert [run("ioctl", 0, one) for one in (0x5412, 0x541C)] == [refused(errno.EPERM)] * 2, (
            "typing into a terminal"
        )
        assert run("ioctl", 0, 0x5401) == ALLOW


def test_calls_of_another_architecture_and_of_x32_get_nowhere(architecture: str) -> None:
    foreign = [one for name, one in ARCHITECTURES.items() if name != architecture] + [0x40000003, 0x40000028]
    for about, code in every_program(architecture).items():
        for one in foreign:
            assert interpret(code, one, NUMBERS[architecture]["read"], ()) == KILL, about
        if architecture == "x86_64":
            for number in (0, 512, 547):
                x32 = interpret(code, ARCHITECTURES[architecture], 0x40000000 | number, ())
                assert x32 == refused(errno.ENOSYS), about


def test_under_landlock_other_processes_shared_memory_and_attributes_are_out_of_reach(architecture: str) -> None:
    for about, code in every_program(architecture).items():
        if about == "small":
            continue
        run = running(code, architecture)
        for name in existing(architecture, OTHERS):
            assert run(name) == refused(errno.EPERM), (about, name)
        for name in existing(architecture, ATTRIBUTES):
            assert run(name) == refused(errno.ENOTSUP), (about, name)
        for name in existing(architecture, METADATA):
            assert run(name) == ASK, (about, name)
        for name in ("prlimit64", "sched_setaffinity", "sched_setscheduler", "sched_setparam", "sched_setattr"):
            assert (run(name, 0), run(name, 77)) == (ALLOW, refused(errno.EPERM)), (about, name)
        for name in ("setpriority", "ioprio_set"):
            assert (run(name, 1, 0), run(name, 1, 77)) == (ALLOW, refused(errno.EPERM)), (about, name)


def test_under_landlock_the_network_is_closed_or_plain_tcp_that_is_judged(architecture: str) -> None:
    denied = refused(errno.EACCES)
    for abi in (1, 4, 7):
        closed = running(program(architecture, network=False, abi=abi), architecture)
        granted = running(program(architecture, network=True, abi=abi), architecture)
        kinds = [(2, 1, 0), (2, 1 | 0x80000, 6), (2, 2, 0), (2, 1, 262), (2, 1, 132), (10, 1, 0), (1, 1, 0), (16, 3, 0)]
        assert [closed("socket", *one) for one in kinds] == [denied] * 8
        assert [granted("socket", *one) for one in kinds] == [ALLOW, ALLOW, *[denied] * 6]
        assert (closed("connect"), granted("connect")) == (denied, ASK)
        for run in (closed, granted):
            assert [run(one) for one in ("bind", "listen")] == [denied] * 2
            assert [run("socketpair", 1, kind) for kind in (1, 5, 2)] == [ALLOW, ALLOW, denied]
            for name, flags in (("sendto", 3), ("sendmsg", 2), ("sendmmsg", 3)):
                plain, opening = [0] * 6, [0] * 6
                opening[flags] = 0x20000000
                assert (run(name, *plain), run(name, *opening)) == (ALLOW, refused(errno.EPERM)), name


def test_what_older_versions_of_landlock_do_not_cover_the_filter_does(architecture: str) -> None:
    oldest = running(program(architecture, network=False, abi=1), architecture)
    middle = running(program(architecture, network=False, abi=5), architecture)
    newest = running(program(architecture, network=False, abi=7), architecture)
    empties, writes = 0o1000, 0o1001
    openings = [("openat", 2)] + ([("open", 1)] if architecture == "x86_64" else [])
    for name, at in openings:
        assert oldest(name, *[0] * at, empties) == refused(errno.EACCES)
        assert oldest(name, *[0] * at, writes) == newest(name, *[0] * at, empties) == ALLOW
    assert (oldest("truncate"), middle("truncate")) == (ASK, ALLOW)
    assert (oldest("openat2"), middle("openat2")) == (refused(errno.ENOSYS), ALLOW)
    signals = ("kill", "tkill", "tgkill")
    assert [run(one) for run in (oldest, middle) for one in signals] == [ASK] * 6
    assert [newest(one) for one in signals] == [ALLOW] * 3
    for name in ("rt_sigqueueinfo", "rt_tgsigqueueinfo", "pidfd_send_signal"):
        assert (middle(name), newest(name)) == (refused(errno.EPERM), ALLOW)
    assert [middle("fcntl", 0, one) for one in (8, 10, 15, 1)] == [refused(errno.EPERM)] * 3 + [ALLOW]
