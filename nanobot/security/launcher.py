"""The program that stands above every command: it starts it, carries its way out, and ends all of it.

It runs apart from nanobot, as `python -I -S`, with the command as its arguments; what else it needs stands in the code
that starts it, since a module to read it with would take as long as all others. Inside bubblewrap it is the first
process, with which the system ends all others; elsewhere it ends everything that the command leaves behind, also what
left its session. It holds the reading end of a pipe, the lifeline, whose other end nanobot has: where that is closed,
because nanobot was killed or lets go of the command, everything ends, at whatever moment that is. Under Landlock it
also answers the system calls that the filter hands over.
"""

import contextlib
import os
import select
import signal
import socket
import sys
import threading
import time
from collections.abc import Mapping

from nanobot.security.landlock import Spec, give_up_rights, restrict
from nanobot.security.process_tree import descendants, send
from nanobot.security.seccomp import LIBC, Judge, install, machine, program

#: Seconds that a command and what it started have to end by themselves after a SIGTERM.
GRACE_SECONDS = 1.5
PROXY_VARIABLES = ("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy", "ALL_PROXY", "all_proxy")
_PARENT_DEATH, _DUMPABLE, _SUBREAPER = 1, 4, 36
_CANNOT_START, _NOT_FOUND = 126, 127


# Ending what is left


def below(spec: Spec, command: int) -> set[int]:
    """Everything below this process. Elsewhere than on Linux what lost its parent is known by its group alone."""
    found = set(descendants(os.getpid(), proc=spec.linux))
    return found if spec.linux or not command else found | {-command}


def end_all(spec: Spec, command: int) -> None:
    """Kill everything below this process: first held still, so that nothing is started while others are killed."""
    held: set[int] = set()
    while new := below(spec, command) - held:
        send(new, signal.SIGSTOP)
        held |= new
    send(held, signal.SIGKILL)
    with contextlib.suppress(ChildProcessError):
        while True:
            os.waitpid(-1, 0)


class Supervisor:
    """Stays above one command until it ends. SIGTERM is handed on, and what does not follow is killed."""

    def __init__(self, spec: Spec) -> None:
        self.command = 0
        self.ended: int | None = None
        self._spec = spec
        self._deadline: float | None = None
        self._wake, told = os.pipe()
        for end in (self._wake, told):
            os.set_blocking(end, False)
        signal.set_wakeup_fd(told, warn_on_full_buffer=False)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, self._stop)
        signal.signal(signal.SIGCHLD, lambda *_: None)

    def _stop(self, number: int, _: object = None) -> None:
        if self._deadline is None:
            self._deadline = time.monotonic() + GRACE_SECONDS
            send(below(self._spec, self.command), number)

    def watch(self, command: int, judge: Judge | None) -> int:
        """How `command` ended, as `waitpid` tells it."""
        self.command = command
        poll = select.poll()
        poll.register(self._wake, select.POLLIN)
        if self._spec.lifeline >= 0:
            poll.register(self._spec.lifeline, select.POLLIN)  # nothing is ever written: what comes is its end
        if judge is not None:
            poll.register(judge.listener, select.POLLIN)
        while self.ended is None:
            left = None if self._deadline is None else max(0.0, self._deadline - time.monotonic())
            if left == 0:
                send({command}, signal.SIGKILL)
            ready = dict(poll.poll(None if left is None else left * 1_000 + 1))
            if judge is not None and ready.get(judge.listener, 0) & select.POLLIN:
                judge.answer()
            elif judge is not None and judge.listener in ready:
                poll.unregister(judge.listener)
            if self._spec.lifeline in ready:
                poll.unregister(self._spec.lifeline)
                self._stop(signal.SIGTERM)
            if self._wake in ready:
                os.read(self._wake, 4_096)
                self._collect()
        return self.ended

    def _collect(self) -> None:
        with contextlib.suppress(ChildProcessError):
            while (told := os.waitpid(-1, os.WNOHANG))[0]:
                if told[0] == self.command:
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


def main(told: Mapping[str, object]) -> None:
    """Run the command in the arguments, as this `Spec` says, and end as it ends, with nothing left to tidy."""
    spec = Spec(told)
    first = spec.linux and os.getpid() == 1
    _hold_on(spec, first=first)
    supervisor = Supervisor(spec)
    server = socket.create_server(("127.0.0.1", 0)) if spec.proxy else None
    scratch = _scratch() if spec.abi else ""
    try:
        ended = _run(supervisor, spec, server, scratch)
        if not first:  # with the first process the system ends all others
            end_all(spec, supervisor.command)
    finally:
        if scratch:
            _remove(scratch)
    if os.WIFSIGNALED(ended) and first:  # which no signal of its own reaches
        os._exit(128 + os.WTERMSIG(ended))
    if os.WIFSIGNALED(ended):
        with contextlib.suppress(OSError):  # that of SIGKILL is never another
            signal.signal(os.WTERMSIG(ended), signal.SIG_DFL)
        os.kill(os.getpid(), os.WTERMSIG(ended))
    os._exit(os.waitstatus_to_exitcode(ended) % 256)


def _hold_on(spec: Spec, *, first: bool) -> None:
    """Be bound to nanobot and to what lies between, and start nothing where nanobot has gone already."""
    if spec.lifeline >= 0:
        os.set_inheritable(spec.lifeline, False)
        poll = select.poll()
        poll.register(spec.lifeline, select.POLLIN)
        if poll.poll(0):
            sys.exit(128 + signal.SIGTERM)
    if spec.linux:
        LIBC.prctl(_SUBREAPER, 1, 0, 0, 0)
    if first:
        LIBC.prctl(_PARENT_DEATH, signal.SIGKILL, 0, 0, 0)  # of bubblewrap, which alone can be ended without nanobot
        LIBC.prctl(_DUMPABLE, 0, 0, 0, 0)  # so that no command opens the lifeline at /proc/1/fd


def _run(supervisor: Supervisor, spec: Spec, server: socket.socket | None, scratch: str) -> int:
    """Start the command, stay above it, and tell how it ended."""
    port = server.getsockname()[1] if server else 0
    ours, theirs = socket.socketpair()
    above, command = os.getpid(), os.fork()
    if command == 0:
        ours.close()
        if spec.linux:
            LIBC.prctl(_PARENT_DEATH, signal.SIGKILL, 0, 0, 0)
            if os.getppid() != above:  # it has ended before that
                os._exit(_CANNOT_START)
        else:
            os.setpgid(0, 0)
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
        if scratch:
            env |= dict.fromkeys(("TMPDIR", "TEMP", "TMP"), scratch)
            give_up_rights()
            restrict(spec, scratch, os.getpid())
            listener = install(program(machine(), network=bool(port), abi=spec.abi))
            socket.send_fds(above, [b"x"], [listener])
            os.close(listener)
        above.close()
        os.execvpe(sys.argv[1], sys.argv[1:], env)  # noqa: S606 - what was asked for, after all rights are gone
    except FileNotFoundError:
        os.write(2, f"{sys.argv[1]}: command not found\n".encode(errors="replace"))
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
