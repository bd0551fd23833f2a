"""Extraction in processes of its own: a page that eats memory or time ends its worker, never the agent.

Workers start at the first page, take one page at a time, and are replaced after `RECYCLE` pages or a failure. Where a
worker fails, the page's tags are stripped without a parser, and the result says so.
"""

import asyncio
import contextlib

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

from nanobot.utils.processes import bare_environment, own_module
from nanobot.web.extract.page import FILES, Extracted, Job
from nanobot.web.extract.strip import page_title, strip_tags
from nanobot.web.fetch.charset import decode, is_plain

WALL_SECONDS = 8.0
PDF_WALL_SECONDS = 17.0
RECYCLE = 60
MAX_BODY = 10_485_760
_ANSWER_LIMIT = 64 * 1024 * 1024


class WorkerFailed(Exception):
    """A worker did not answer; its text says why. Never leaves this module."""


class _Worker(Struct):
    process: asyncio.subprocess.Process
    loaded: frozenset[str] = frozenset()
    jobs: int = 0

    async def run(self, job: Job) -> Extracted:
        stdin, stdout = self.process.stdin, self.process.stdout
        if stdin is None or stdout is None:
            raise WorkerFailed("the worker has no pipes")
        head = msgspec.json.encode((replace(job, body=b""), len(job.body)))
        self.jobs += 1
        try:
            stdin.write(head + b"\n" + job.body)
            await stdin.drain()
            line = await stdout.readline()
        except (ConnectionError, ValueError) as error:
            raise WorkerFailed(str(error)) from error
        try:
            return msgspec.json.decode(line, type=Extracted)
        except msgspec.DecodeError as error:
            said = line[:200].decode(errors="replace").strip()
            raise WorkerFailed(said or await self._last_words()) from error

    async def _last_words(self) -> str:
        """Why the process ended without an answer. An end with a code of its own is a broken installation."""
        code = await self.process.wait()
        if code < 0:
            return "out of memory or time"
        return f"its process ended with code {code}; `python -m nanobot.web.extract.lean` shows why"

    async def close(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            self.process.kill()
        await self.process.communicate()


class Extractor(Struct):
    """Up to `size` workers, which `aclose` ends; one event loop only."""

    size: int = 2
    wall: float = WALL_SECONDS
    _idle: list[_Worker] = field(default_factory=list)
    _slots: asyncio.Semaphore | None = None

    @property
    def pids(self) -> tuple[int, ...]:
        """The process ids of the workers that wait for a page."""
        return tuple(worker.process.pid for worker in self._idle)

    async def aclose(self) -> None:
        """End the workers."""
        while self._idle:
            await self._idle.pop().close()

    async def extract(self, job: Job) -> Extracted:
        """Read a page; never raises for a page's sake."""
        if self._slots is None:
            self._slots = asyncio.Semaphore(self.size)
        if len(job.body) > MAX_BODY and job.kind in ("html", "xml"):
            job = replace(job, body=job.body[:MAX_BODY], cut=True)
        async with self._slots:
            try:
                worker = await self._take(_needs(job))
            except OSError as error:
                return await asyncio.to_thread(strip_page, job, f"no process could be started: {error}")
            healthy = False
            wall = max(self.wall, PDF_WALL_SECONDS) if job.kind == "pdf" else self.wall
            try:
                async with asyncio.timeout(wall):
                    page = await worker.run(job)
                healthy = worker.jobs < RECYCLE
            except (WorkerFailed, TimeoutError) as error:
                reason = str(error) or f"took longer than {wall:g} s"
                page = await asyncio.to_thread(strip_page, job, reason)
            finally:
                if healthy:
                    self._idle.append(worker)
                else:
                    await worker.close()
            return page

    async def _take(self, needs: frozenset[str]) -> _Worker:
        """A worker that waits and has loaded all of this, else a new one in the place of one that waits, which can
        read what that one could."""
        fitting = [worker for worker in self._idle if needs <= worker.loaded]
        if fitting:
            self._idle.remove(fitting[-1])
            return fitting[-1]
        if self._idle:
            worker = self._idle.pop(0)
            needs |= worker.loaded
            await worker.close()
        return await _start(needs)


def _needs(job: Job) -> frozenset[str]:
    """What of a worker's readers and encodings a job takes, beside those of every page."""
    if job.kind in FILES:
        return frozenset((job.kind, "codecs"))
    return frozenset[str]() if is_plain(job.body, cut=job.cut) else frozenset(("codecs",))


def strip_page(job: Job, reason: str) -> Extracted:
    """What can be read of a page without a parser; of a file in a format of its own that is nothing."""
    if job.kind in FILES:
        return Extracted("", "", job.kind, notes=(f"The file could not be taken apart ({reason}).",))
    text = decode(job.body, job.charset, cut=job.cut).text
    note = f"The page could not be taken apart ({reason}); this is its bare text."
    return Extracted(page_title(text), strip_tags(text), "raw", notes=(note,))


async def _start(needs: frozenset[str]) -> _Worker:
    """A new worker, which can load nothing later."""
    process = await asyncio.create_subprocess_exec(
        *own_module("nanobot.web.extract.lean", *sorted(needs)),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        env=bare_environment(),
        limit=_ANSWER_LIMIT,
        start_new_session=True,
    )
    return _Worker(process, needs)
