"""The program that starts a command confined by Landlock and a filter of system calls; inside bubblewrap, its way out.

It runs apart from nanobot, as `python -I -S`, with what it needs in its first argument as JSON and the command behind
it. It stays above the command: answers what the filter hands over, and ends everything that the command leaves behind,
also what left its session. Landlock's rules: landlock(7). What older versions of it do not cover (making files empty
before version 3, TCP before 4, signals before 6), the filter and its judge do.
"""

import contextlib
import ctypes
import json
import os
import select
import signal
import socket
import stat
import struct
import sys
import threading
import time
from collections.abc import Iterator, Sequence

from nanobot.security.seccomp import ARCHITECTURES, LIBC, Judge, descendants, install, machine, program, within

#: Seconds that a command and what it started have to end by themselves after a SIGTERM.
GRACE_SECONDS = 1.5
PROXY_VARIABLES = ("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy", "ALL_PROXY", "all_proxy")

_CREATE, _ADD, _RESTRICT = 444, 445, 446
_NO_NEW_PRIVILEGES, _PARENT_DEATH, _SUBREAPER, _DROP_BOUND = 38, 1, 36, 24
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
_CANNOT_START, _NOT_FOUND = 126, 127


class Spec:
    """What the first argument says: real paths; `proxy` is a Unix socket or empty; `abi` is 0 inside bubblewrap."""

    def __init__(self, text: str) -> None:
        told = json.loads(text)
        self.writable: list[str] = told["writable"]
        self.readable: list[str] = told["readable"]
        self.hidden: list[str] = told["hidden"]
        self.protected: list[str] = told["protected"]
        self.proxy: str = told["proxy"]
        self.abi: int = told["abi"]


def abi() -> int:
    """The version of Landlock here; 0 where the kernel has none, or it is switched off."""
    return max(0, int(LIBC.syscall(_CREATE, None, 0, 1)))


def missing() -> str:
    """Why Landlock confines nothing here; empty where it should."""
    if machine() not in ARCHITECTURES:
        return f"there is no filter of system calls for {machine()}"
    return "" if abi() else "this kernel has no Landlock (Linux 5.13 is the first), or it is switched off"


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


def _give_up_rights() -> None:
    """No rights of root, and none by programs that lend theirs. Raises `OSError`."""
    _check(LIBC.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0), "no_new_privs")
    for right in range(64):
        LIBC.prctl(_DROP_BOUND, right, 0, 0, 0)  # only root can and needs to
    _check(LIBC.capset(struct.pack("<Ii", 0x20080522, 0), bytes(24)), "capset")


# Ending what is left


def end_all() -> None:
    """Kill everything below this process: first held still, so that nothing is started while others are killed."""
    held: set[int] = set()
    while new := set(descendants(os.getpid())) - held:
        _signal(new, signal.SIGSTOP)
        held |= new
    _signal(held, signal.SIGKILL)
    with contextlib.suppress(ChildProcessError):
        while True:
            os.waitpid(-1, 0)


def _signal(processes: set[int], number: int) -> None:
    for process in processes:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(process, number)


class Supervisor:
    """Stays above one command until it ends. SIGTERM is handed on, and what does not follow is killed."""

    def __init__(self) -> None:
        self.ended: int | None = None
        self._deadline: float | None = None
        self._wake, told = os.pipe()
        for end in (self._wake, told):
            os.set_blocking(end, False)
        signal.set_wakeup_fd(told, warn_on_full_buffer=False)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, self._stop)
        signal.signal(signal.SIGCHLD, lambda *_: None)

    def _stop(self, number: int, _: object) -> None:
        if self._deadline is None:
            self._deadline = time.monotonic() + GRACE_SECONDS
            _signal(set(descendants(os.getpid())), number)

    def watch(self, command: int, judge: Judge | None) -> int:
        """How `command` ended, as `waitpid` tells it."""
        poll = select.poll()
        poll.register(self._wake, select.POLLIN)
        if judge is not None:
            poll.register(judge.listener, select.POLLIN)
        while self.ended is None:
            left = None if self._deadline is None else max(0.0, self._deadline - time.monotonic())
            if left == 0:
                _signal({command}, signal.SIGKILL)
            ready = dict(poll.poll(None if left is None else left * 1_000 + 1))
            if judge is not None and ready.get(judge.listener, 0) & select.POLLIN:
                judge.answer()
            elif judge is not None and judge.listener in ready:
                poll.unregister(judge.listener)
            if self._wake in ready:
                os.read(self._wake, 4_096)
                self._collect(command)
        return self.ended

    def _collect(self, command: int) -> None:
        with contextlib.suppress(ChildProcessError):
            while (told := os.waitpid(-1, os.WNOHANG))[0]:
                if told[0] == command:
                    self.ended = told[1]


# The way to the proxy


def bridge(server: socket.socket, proxy: str) -> None:
    """Carry every connection to the proxy on its Unix socket, in threads that end with the process."""

    def carry(source: socket.socket, sink: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65_536):
                sink.sendall(data)
        with contextlib.suppress(OSError):
            sink.shutdown(socket.SHUT_WR)

    def serve() -> None:
        while True:
            client, _ = server.accept()
            way = socket.socket(socket.AF_UNIX)
            try:
                way.connect(proxy)
            except OSError:
                client.close()
                continue
            for pair in ((client, way), (way, client)):
                threading.Thread(target=carry, args=pair, daemon=True).start()

    threading.Thread(target=serve, daemon=True).start()


# The program


def main() -> None:
    """Run the command behind the first argument and end as it ends."""
    spec = Spec(sys.argv[1])
    LIBC.prctl(_PARENT_DEATH, signal.SIGTERM, 0, 0, 0)
    LIBC.prctl(_SUBREAPER, 1, 0, 0, 0)
    supervisor = Supervisor()
    server = socket.create_server(("127.0.0.1", 0)) if spec.proxy else None
    scratch = _scratch() if spec.abi else ""
    try:
        ended = _run(supervisor, spec, server, scratch)
        end_all()
    finally:
        if scratch:
            _remove(scratch)
    if os.WIFSIGNALED(ended):
        with contextlib.suppress(OSError):  # that of SIGKILL is never another
            signal.signal(os.WTERMSIG(ended), signal.SIG_DFL)
        os.kill(os.getpid(), os.WTERMSIG(ended))
    sys.exit(os.waitstatus_to_exitcode(ended) % 256)


def _run(supervisor: Supervisor, spec: Spec, server: socket.socket | None, scratch: str) -> int:
    """Start the command, stay above it, and tell how it ended."""
    port = server.getsockname()[1] if server else 0
    ours, theirs = socket.socketpair()
    command = os.fork()
    if command == 0:
        ours.close()
        _become(spec, scratch, port, theirs)
    theirs.close()
    if server is not None:
        bridge(server, spec.proxy)
    judge = None
    if scratch:
        _, descriptors, _, _ = socket.recv_fds(ours, 1, 1)
        if descriptors:
            kept = [*spec.hidden, *spec.protected, *(one for one in spec.readable if one not in spec.writable)]
            judge = Judge(descriptors[0], [*spec.writable, scratch], kept, port)
    return supervisor.watch(command, judge)


def _become(spec: Spec, scratch: str, port: int, above: socket.socket) -> None:
    """In the new process: give up what the command may not have, and turn into it."""
    env = dict(os.environ)
    if port:
        env |= dict.fromkeys(PROXY_VARIABLES, f"http://127.0.0.1:{port}")
    try:
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD, signal.SIGPIPE):
            signal.signal(number, signal.SIG_DFL)
        signal.set_wakeup_fd(-1)
        LIBC.prctl(_PARENT_DEATH, signal.SIGKILL, 0, 0, 0)
        if scratch:
            env |= dict.fromkeys(("TMPDIR", "TEMP", "TMP"), scratch)
            _give_up_rights()
            restrict(spec, scratch, os.getpid())
            listener = install(program(network=bool(port), abi=spec.abi))
            socket.send_fds(above, [b"x"], [listener])
            os.close(listener)
        above.close()
        os.execvpe(sys.argv[2], sys.argv[2:], env)  # noqa: S606 - what was asked for, after all rights are gone
    except FileNotFoundError:
        os.write(2, f"{sys.argv[2]}: command not found\n".encode(errors="replace"))
        os._exit(_NOT_FOUND)
    except OSError as error:
        os.write(2, f"The command could not be started: {error}\n".encode(errors="replace"))
        os._exit(_CANNOT_START)


def _scratch() -> str:
    """A folder for temporary files, which is taken away at the end."""
    path = f"{os.environ.get('TMPDIR') or '/tmp'}/nanobot-run-{os.urandom(8).hex()}"  # noqa: S108
    os.mkdir(path, 0o700)  # noqa: PTH102
    return os.path.realpath(path)


def _remove(folder: str) -> None:
    """Take a folder away with all that is in it; what the command closed is opened for that. Follows no link."""
    with contextlib.suppress(OSError):
        os.chmod(folder, 0o700)  # noqa: PTH101
        for entry in os.scandir(folder):
            if entry.is_dir(follow_symlinks=False):
                _remove(entry.path)
            else:
                os.unlink(entry.path)  # noqa: PTH108
        os.rmdir(folder)  # noqa: PTH106


if __name__ == "__main__":
    main()
