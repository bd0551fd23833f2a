"""`pytest -n 4`: the tests are collected once, and four processes that are forked then take one after the other.

Each worker takes a group of tests at a time, or one that is in none, in the order in which they are to begin: the
longest first. What they find is told to the process that forked them, which judges and prints it as any pytest does.
"""

import atexit
import contextlib
import gc
import itertools
import multiprocessing
import multiprocessing.connection
import os
import signal
import sys
import tempfile
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from typing import BinaryIO

import pytest

#: Beginning of a file's path → what one worker does alone. No two tests of many gateways run at the same time, and what
#: all of them need is made once: a PostgreSQL, a process that forks, the syntax trees of the package, its wheels, the
#: SDKs of the vendors, servers of MCP. Groups begin in this order, before all others.
GROUPS = {
    "tests/cluster/": "cluster",
    "tests/contract/test_budget_": "cluster",
    "tests/contract/test_ledger_": "cluster",
    "tests/contract/test_recall_": "cluster",
    "tests/contract/test_session_": "cluster",
    "tests/crash/": "crash",
    "tests/upkeep/test_update": "update",
    "tests/agent/tools/test_mcp_programs": "mcp",
    "tests/test_architecture": "rules",
    "tests/test_checklist": "rules",
    "tests/test_docs": "rules",
    "tests/test_translations": "rules",
    "tests/test_packaging.py::test_the_package_imports": "rules",
    "tests/test_packaging": "packages",
    "tests/providers/test_sdk_": "sdk",
}
#: Bytes of the number of a unit in the queue.
_NUMBER = 4


def group_of(nodeid: str) -> str:
    return next((name for path, name in GROUPS.items() if nodeid.startswith(path)), "")


def units(items: Sequence[pytest.Item]) -> list[list[int]]:
    """The places of the tests that one worker does in a row: groups first, then each other test alone."""
    groups: dict[str, list[int]] = {name: [] for name in GROUPS.values()}
    others = []
    for number, item in enumerate(items):
        if name := group_of(item.nodeid):
            groups[name].append(number)
        else:
            others.append([number])
    return [*filter(None, groups.values()), *others]


def pytest_addoption(parser: pytest.Parser) -> None:
    number = parser.getgroup("workers")._addoption  # the public way leaves small letters to pytest
    number("-n", dest="workers", type=_processes, default=0, help="processes that take tests, or auto")


def _processes(text: str) -> int:
    return os.cpu_count() or 1 if text in ("auto", "logical") else int(text)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Look for rubbish once among the modules and the tests, which all stay."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.collect()
        gc.freeze()
        gc.enable()


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> bool | None:
    if not session.config.option.workers or session.config.option.collectonly or session.testsfailed:
        return None
    if "tests.fakes.forks" in sys.modules:
        sys.modules["tests.fakes.forks"].connected()  # all workers share it
    todo, folders = units(session.items), itertools.count()
    while todo and not session.shouldfail and not session.shouldstop:
        begun = _begun(session, todo, folders)
        if not begun and not session.shouldfail:
            session.shouldfail = "no worker began a test"
        rest = ([number for number in unit if number not in begun] for unit in todo)
        todo = list(filter(None, rest))  # what workers that died had taken: others do it
    if session.shouldfail:
        raise session.Failed(session.shouldfail)
    if session.shouldstop:
        raise session.Interrupted(session.shouldstop)
    return True


def _begun(session: pytest.Session, todo: Sequence[Sequence[int]], folders: Iterator[int]) -> set[int]:
    """The tests that workers have begun until all of them ended."""
    with tempfile.TemporaryFile() as queue:
        queue.write(b"".join(number.to_bytes(_NUMBER) for number in range(len(todo))))
        queue.flush()
        queue.seek(0)
        base = session.config._tmp_path_factory.getbasetemp()  # type: ignore[attr-defined]
        workers: list[Worker] = []
        try:
            for _ in range(min(session.config.option.workers, len(todo))):
                folder = base / f"worker-{next(folders)}"
                ours, theirs = multiprocessing.Pipe(duplex=False)
                if (pid := os.fork()) == 0:
                    for way in (ours, *(worker.way for worker in workers)):
                        way.close()
                    folder.mkdir()
                    session.config._tmp_path_factory._basetemp = folder  # type: ignore[attr-defined]
                    _work(session, theirs, _taken(queue, todo))
                theirs.close()
                workers.append(Worker(pid, ours))
            _listen(session, queue, workers)
        finally:
            for worker in workers:
                worker.end()
    return {number for worker in workers for number in worker.begun}


# In the process that forks


@dataclass(slots=True)
class Worker:
    """A process that does tests, those that it has begun, and the one that it is at."""

    pid: int
    way: Connection
    begun: set[int] = field(default_factory=set)
    at: set[int] = field(default_factory=set)
    code: int | None = None

    def end(self) -> int:
        """Its exit code; one that is still at work is interrupted."""
        if self.code is None:
            if not self.way.closed:
                os.kill(self.pid, signal.SIGINT)
                self.way.close()
            self.code = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        return self.code


def _listen(session: pytest.Session, queue: BinaryIO, workers: Sequence[Worker]) -> None:
    """Pass on what the workers tell until all have ended."""
    left = {worker.way: worker for worker in workers}
    while left:
        for way in multiprocessing.connection.wait(list(left)):
            assert isinstance(way, Connection)
            try:
                what, data = way.recv()
            except EOFError:
                way.close()
                _ended(session, left.pop(way))
            else:
                _hear(session, left[way], what, data)
        if session.shouldfail or session.shouldstop:
            queue.seek(0, os.SEEK_END)  # they share the place in it: nobody takes another one


def _hear(session: pytest.Session, worker: Worker, what: str, data: object) -> None:
    hook = session.config.hook
    if what == "report":
        hook.pytest_runtest_logreport(report=hook.pytest_report_from_serializable(config=session.config, data=data))
        return
    assert isinstance(data, int)
    item = session.items[data]
    if what == "start":
        worker.begun.add(data)
        worker.at.add(data)
        hook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    else:
        worker.at.remove(data)
        hook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)


def _ended(session: pytest.Session, worker: Worker) -> None:
    code = worker.end()
    said = f"the worker ended in this test: {code}"
    for item in (session.items[number] for number in worker.at):
        report = pytest.TestReport(item.nodeid, item.location, {}, "failed", said, "call")
        session.config.hook.pytest_runtest_logreport(report=report)
    if code and not worker.at:
        session.shouldfail = f"a worker ended with {code} after its tests"


# In a worker


@dataclass(slots=True, eq=False)
class Told:
    """Tells the process that has forked this one what a test has come to."""

    config: pytest.Config
    way: Connection

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        data = self.config.hook.pytest_report_to_serializable(config=self.config, report=report)
        self.way.send(("report", data))


def _taken(queue: BinaryIO, todo: Sequence[Sequence[int]]) -> Iterator[int]:
    while taken := os.read(queue.fileno(), _NUMBER):
        yield from todo[int.from_bytes(taken)]


def _work(session: pytest.Session, way: Connection, numbers: Iterator[int]) -> None:
    """Do what is in the queue. Never returns."""
    config = session.config
    code = 1
    try:
        capture = config.pluginmanager.getplugin("capturemanager")
        capture.stop_global_capturing()  # of files that all workers share
        capture.start_global_capturing()
        config.pluginmanager.unregister(name="terminalreporter")
        config.pluginmanager.register(Told(config, way))
        number = next(numbers, None)
        while number is not None:
            following = next(numbers, None)
            item, after = session.items[number], None if following is None else session.items[following]
            way.send(("start", number))
            config.hook.pytest_runtest_protocol(item=item, nextitem=after)
            way.send(("finish", number))
            number = None if session.shouldfail or session.shouldstop else following
        config.hook.pytest_unconfigure(config=config)  # what was left open is told
        code = 0
    except BaseException:  # noqa: BLE001 - the boundary of a process
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # of a terminal it comes twice: from there, and from who forked us
        sys.excepthook(*sys.exc_info())
    finally:
        with contextlib.suppress(Exception):  # of a worker that goes on to the end nothing is left
            session._setupstate.teardown_exact(None)
        atexit._run_exitfuncs()
        sys.stderr.flush()
        os._exit(code)
