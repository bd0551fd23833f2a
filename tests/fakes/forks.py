"""Starts nanobot as a process of its own that need not import it: one that has imported all of it forks for each start.

    process = await start(["config", "check"], env)
    out, err = await process.communicate()

Most of the processor time of a short command is its imports, and the tests start a thousand. What is forked runs the
same `main` with the environment, folder and streams of its own, and is killed as any process is. What only a cold start
shows (a missing import, a warning of the interpreter) is seen by tests/cli/test_cold_starts.py, a conversation in
tests/channels/test_terminal_pty.py, the trials and tests/test_imports.py. There is one such server, which the workers
of a run share; it imports nothing before the first start, and ends with them.
"""

import asyncio
import atexit
import contextlib
import ctypes
import fcntl
import gc
import importlib
import json
import os
import pkgutil
import random
import resource
import selectors
import signal
import socket
import subprocess
import sys
import tempfile
import termios
import time
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO

import pytest
from loguru._better_exceptions import ExceptionFormatter

import nanobot
from nanobot.agent.receipts import unbacked
from nanobot.agent.tools.base import schema_of
from nanobot.agent.tools.offers import OFFERS
from nanobot.cli.main import main as run_nanobot
from nanobot.cli.options import build_parser
from nanobot.providers.vendors import family_of
from nanobot.schedule.vocabulary import tokens
from nanobot.utils import translation
from nanobot.utils.connections import certificates
from tests.conftest import COLD, WARNINGS
from tests.fakes.crash.points import Plan, arm

ROOT = Path(__file__).parents[2]
#: Bytes of one order: the words and the variables of a start.
_ORDER = 150_000
#: Of a start's variables those that were read before it forks, by Python or for `certificates`: only what has these
#: is forked.
_EARLY = {"LANG": "C.UTF-8", "TERM": "xterm-256color", "PYTHONWARNINGS": WARNINGS}
#: How the names of such variables begin.
_BEGINNINGS = ("LC_", "PYTHON", "SSL_CERT_")
#: Characters of an input, which a pipe holds until they are read.
_INPUT = 4_096
#: Seconds for the first start, before which everything is imported.
_PATIENCE = 120.0
#: prctl(2), PR_SET_PTRACER: where only ancestors may trace a process, it can allow others.
_SET_PTRACER = 0x59616D61
#: What it does until then: it waits for an order.
_WAITS = """
import runpy, socket, sys
with socket.socket(fileno=int(sys.argv[1])) as way:
    ordered = way.recv(1, socket.MSG_PEEK)
    way.detach()
if ordered:
    runpy.run_module("tests.fakes.forks", run_name="__main__")
"""
_server: list[tuple[socket.socket, subprocess.Popen[bytes], IO[bytes]]] = []


@dataclass(slots=True)
class Forked:
    """A process as `asyncio.subprocess.Process` shows one; its input was given to it at its start."""

    pid: int
    stdout: asyncio.StreamReader
    stderr: asyncio.StreamReader | None
    _end: "asyncio.Task[int]"

    @property
    def returncode(self) -> int | None:
        return self._end.result() if self._end.done() else None

    def send_signal(self, number: int) -> None:
        if not self._end.done():
            os.kill(self.pid, number)

    async def wait(self) -> int:
        return await asyncio.shield(self._end)

    async def communicate(self, given: bytes | None = None) -> tuple[bytes, bytes]:
        """Everything that it prints."""
        assert given is None, "it has no input"
        out, err = await asyncio.gather(self.stdout.read(), self.stderr.read() if self.stderr else _nothing())
        await self.wait()
        return out, err


async def _nothing() -> bytes:
    return b""


async def start(
    arguments: Sequence[str],
    env: Mapping[str, str],
    *,
    together: bool = False,
    given: bytes | None = None,
    room: int = resource.RLIM_INFINITY,
) -> Forked:
    """Start `nanobot` with these words and variables. `together`: errors are printed where all else is."""
    pipes = [os.pipe() for _ in range(1 if together else 2)]
    source = _input(given)
    try:
        told = fork(arguments, env, (source, pipes[0][1], pipes[-1][1]), room=room)
    except pytest.fail.Exception:
        for ours, _ in pipes:
            os.close(ours)
        raise
    finally:
        for one in (source, *(theirs for _, theirs in pipes)):
            os.close(one)
    printed = [await reader(ours) for ours, _ in pipes]
    pid, end = await followed(told)
    return Forked(pid, printed[0], None if together else printed[1], end)


def _input(given: bytes | None) -> int:
    """Where this is read from."""
    if given is None:
        return os.open(os.devnull, os.O_RDONLY)
    source, into = os.pipe()
    os.write(into, given)
    os.close(into)
    return source


def forkable(env: Mapping[str, str], given: bytes | None = None) -> bool:
    """Whether what is forked does with these variables and this input what a process of its own would do."""
    early = {name: value for name, value in env.items() if name in _EARLY or name.startswith(_BEGINNINGS)}
    if early.get("LANG", "").endswith(".UTF-8"):
        del early["LANG"]  # Python reads of it how texts are written, and nanobot reads the rest
    return not COLD and early.items() <= _EARLY.items() and len(given or b"") <= _INPUT


def fork(
    arguments: Sequence[str],
    env: Mapping[str, str],
    streams: Sequence[int],
    *,
    folder: Path | None = None,
    terminal: bool = False,
    plan: Plan | None = None,
    points: Path | None = None,
    stopped: bool = False,
    room: int = resource.RLIM_INFINITY,
) -> int:
    """Start `nanobot` with these three streams, and return where its number and its exit code are to be read.

    `terminal`: they are one, which becomes its own. `points`: it counts in that file the places at which `plan` may end
    it. `stopped`: it begins when it gets SIGCONT, and whoever runs as the same user may trace it. `room`: no file that
    it writes grows beyond so many bytes, as on a full disk.
    """
    order = {"arguments": arguments, "env": dict(env), "folder": str(folder or Path.cwd()), "terminal": terminal}
    order |= {"plan": asdict(plan or Plan()), "points": str(points or ""), "stopped": stopped, "room": room}
    data = json.dumps(order).encode()
    assert len(data) < _ORDER, "so much goes through no start"
    told, tell = os.pipe()
    try:
        socket.send_fds(connected(), [data], [tell, *streams])
    except ConnectionError:
        os.close(told)
        started(b"")
    finally:
        os.close(tell)
    return told


def started(line: bytes) -> int:
    """The number of the process that was forked, which is told in this line."""
    if not line:
        printed = _server[0][2]
        said = os.pread(printed.fileno(), 2_000, max(0, os.fstat(printed.fileno()).st_size - 2_000))
        pytest.fail(f"the process that forks for the tests has ended: {said.decode(errors='replace')}", pytrace=False)
    return int(line)


async def followed(told: int) -> tuple[int, "asyncio.Task[int]"]:
    """The number of a process that was forked, and its exit code when it ends; minus the signal that ended it."""
    lines = await reader(told)
    pid = started(await asyncio.wait_for(lines.readline(), _PATIENCE))
    return pid, asyncio.ensure_future(_ended(lines))


async def reader(descriptor: int) -> asyncio.StreamReader:
    reader = asyncio.StreamReader()
    pipe = os.fdopen(descriptor, "rb", 0)
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), pipe)
    return reader


async def _ended(told: asyncio.StreamReader) -> int:
    return int(await told.read())


def connected(root: Path = ROOT) -> socket.socket:
    """The way to the process that forks, which imports this module from there. It prints into a file without a name."""
    if not _server:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        printed = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the process
        with theirs:
            process = subprocess.Popen(
                (sys.executable, "-c", _WAITS, str(theirs.fileno())),
                env={"PATH": os.environ.get("PATH", ""), **_EARLY},
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=printed,
                stderr=printed,
                cwd=root,
            )
        _server.append((ours, process, printed))
        atexit.register(_disconnect)
    return _server[0][0]


def _disconnect() -> None:
    ours, process, printed = _server.pop()
    ours.close()
    process.wait(60)
    printed.close()


# In the process that forks


def _serve(way: socket.socket) -> None:
    for module in pkgutil.walk_packages(nanobot.__path__, "nanobot."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    certificates()
    # What nearly every start makes for itself: patterns, schemas, sentences, modules that are imported when used.
    unbacked("I have done it.", ())
    family_of("")
    build_parser()
    for offer in OFFERS.values():
        schema_of(offer.arguments)
    tokens("now")
    with translation.speaking("zh"):
        translation._("on")
    # 36 readings of all that sysconfig knows, at each start
    known = ExceptionFormatter._get_lib_dirs()  # type: ignore[no-untyped-call]
    ExceptionFormatter._get_lib_dirs = staticmethod(lambda: known)  # type: ignore[method-assign]
    importlib.import_module("anyio._backends._asyncio")
    importlib.import_module("encodings.idna")
    gc.collect()
    gc.freeze()
    children: dict[int, int] = {}
    woken, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.set_wakeup_fd(wake)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    with selectors.DefaultSelector() as waiting:
        waiting.register(way, selectors.EVENT_READ)
        waiting.register(woken, selectors.EVENT_READ)
        while True:
            ready = {key.fd for key, _ in waiting.select()}
            if woken in ready:
                os.read(woken, 4096)
                _reap(children)
            if way.fileno() not in ready:
                continue
            order, given, _, _ = socket.recv_fds(way, _ORDER, 4)
            if not order:
                return
            if (pid := os.fork()) == 0:
                _live(json.loads(order), given[1:])
            _tell(given[0], pid)
            children[pid] = given[0]
            for one in given[1:]:
                os.close(one)


def _reap(children: dict[int, int]) -> None:
    while children:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if not pid:
            return
        _tell(children[pid], os.waitstatus_to_exitcode(status))
        os.close(children.pop(pid))


def _tell(descriptor: int, number: int) -> None:
    with contextlib.suppress(BrokenPipeError):  # nobody waits for it any more
        os.write(descriptor, b"%d\n" % number)


def _live(order: Mapping[str, object], given: Sequence[int]) -> None:
    """Become the program. Never returns."""
    code = 1
    try:
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGCHLD, signal.SIGINT):
            signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)
        for one, standard in zip(given, (0, 1, 2), strict=True):
            os.dup2(one, standard)
        os.closerange(3, 1_024)
        sys.stdin = os.fdopen(0, encoding=sys.stdin.encoding, errors=sys.stdin.errors, closefd=False)
        sys.stdout = os.fdopen(1, "w", encoding=sys.stdout.encoding, errors=sys.stdout.errors, closefd=False)
        sys.stderr = os.fdopen(2, "w", 1, encoding=sys.stderr.encoding, errors=sys.stderr.errors, closefd=False)
        arguments, env, plan = order["arguments"], order["env"], order["plan"]
        assert isinstance(arguments, list)
        assert isinstance(env, dict)
        assert isinstance(plan, dict)
        if order["terminal"]:
            os.setsid()
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)
        os.chdir(str(order["folder"]))
        os.environ.clear()
        os.environ.update(env)
        time.tzset()
        tempfile.tempdir = None
        random.seed()
        room = int(str(order["room"]))
        resource.setrlimit(resource.RLIMIT_FSIZE, (room, room))
        if order["stopped"]:
            ctypes.CDLL(None).prctl(_SET_PTRACER, ctypes.c_ulong(-1))
            os.kill(os.getpid(), signal.SIGSTOP)
        if order["points"]:
            arm(Plan(**plan), Path(str(order["points"])))
        code = run_nanobot(arguments)
        gc.collect()  # what was left open is told, as at the end of any program
    except BaseException:  # noqa: BLE001 - the boundary of a process
        traceback.print_exc()
    finally:
        with contextlib.suppress(OSError, ValueError):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    with socket.socket(fileno=int(sys.argv[1])) as orders:
        _serve(orders)
