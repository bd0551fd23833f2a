"""What 200 watches cost: processor time by a simulated clock, against a real site on loopback, and no model.

`python -m benchmarks.watches [--hours 24]` runs a quiet day, on which nothing changes that counts, and a day with
changes and with sites that are hostile. Pages are looked at each hour. Figures are the processor time of this process
and of those that take pages apart, as a share of the simulated time, the requests by answer, and the messages.
"""

import argparse
import asyncio
import gzip
import multiprocessing
import resource
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

from nanobot.agent.scheduler import JobSurface, Scheduler
from nanobot.agent.tools.web.fetch import WebFetchTool
from nanobot.agent.work.looks import Looks, Sight, spread
from nanobot.agent.work.runs import ScheduleServices
from nanobot.bus.events import Address, InboundMessage, MessageBus, Sender, TurnFinished
from nanobot.config.schema_web import WebFetchConfig
from nanobot.schedule.job import NEVER, Every, ScheduledJob
from nanobot.schedule.store import JobStore
from nanobot.session.ledger import Ledger
from nanobot.session.rows import OutboxItem
from nanobot.session.sqlite import SqliteDatabase
from nanobot.utils.prompt_templates import PromptTemplates
from nanobot.watch.store import WatchStore
from nanobot.web.fetch.page import Page, PageRequest

WATCHES, HOSTS = 200, 20
BEGIN = datetime(2026, 3, 2, tzinfo=UTC)
PARAGRAPHS = 60
#: Kinds of pages of a day, repeated over the watches.
QUIET = ("etag", "etag", "etag", "modified", "plain", "plain", "counter", "etag", "modified", "plain")
BUSY = ("etag", "changing", "etag", "modified", "plain", "refused", "gone", "bomb", "loop", "counter")


def page(kind: str, number: str, hour: int, request: int) -> bytes:
    """A page of some 20 kB as it is at an hour; a counter differs at each request."""
    lines = [
        f"<p>Paragraph {one} of page {number}: {'words about the harbour and its bridges ' * 8}</p>"
        for one in range(PARAGRAPHS)
    ]
    if kind == "changing":
        lines.insert(3, f"<p>Edition {chr(97 + hour // 6 % 26)} of the day tells about another thing now.</p>")
    if kind == "counter":
        lines.append(f"<p>Answer number {request} of this server</p>")
    body = f"<h1>{kind}</h1>{''.join(lines)}"
    return f"<html><head><title>{kind} {number}</title></head><body><main>{body}</main></body></html>".encode()


class HarbourSite:
    """Answers on many addresses of this machine; the clock of the site is set by a request."""

    def __init__(self) -> None:
        self.hour = 0
        self.requests = 0
        self.answers: Counter[int] = Counter()
        self.open: Counter[str] = Counter()
        self.most_open = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        host = str(writer.get_extra_info("sockname")[0])
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                self.open[host] += 1
                self.most_open = max(self.most_open, self.open[host])
                try:
                    writer.write(self.answer(head.decode("latin-1")))
                    await writer.drain()
                finally:
                    self.open[host] -= 1
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    def answer(self, head: str) -> bytes:
        first, *lines = head.split("\r\n")
        path = first.split()[1]
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines) if value}
        _, kind, number = path.split("/")
        if kind == "hour":
            self.hour = int(number)
            told = f"{dict(self.answers)} {self.most_open}".encode()
            return response(200, told)
        self.requests += 1
        status, body, more = self.page(kind, number, headers)
        self.answers[status] += 1
        return response(status, body, *more)

    def page(self, kind: str, number: str, headers: dict[str, str]) -> tuple[int, bytes, tuple[str, ...]]:
        match kind:
            case "refused" | "gone":
                return (403 if kind == "refused" else 404), b"<p>Not for you.</p>", ()
            case "bomb":
                return 200, gzip.compress(bytes(30_000_000)), ("Content-Encoding: gzip",)
            case "loop":
                return 302, b"", (f"Location: /loop/{int(number) + 1}",)
            case "etag" if headers.get("if-none-match") == f'"{number}"':
                return 304, b"", (f'ETag: "{number}"',)
            case "modified" if "if-modified-since" in headers:
                return 304, b"", ()
        tag = (f'ETag: "{number}"',) if kind == "etag" else ()
        when = ("Last-Modified: Mon, 02 Mar 2026 00:00:00 GMT",) if kind == "modified" else ()
        return 200, page(kind, number, self.hour, self.requests), (*tag, *when)


def response(status: int, body: bytes, *more: str) -> bytes:
    lines = (f"HTTP/1.1 {status} So", "Content-Type: text/html; charset=utf-8", f"Content-Length: {len(body)}", *more)
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + (b"" if status == 304 else body)


def serve(ready: "multiprocessing.queues.Queue[int]", hosts: Sequence[str]) -> None:
    """The process of the site."""

    async def run() -> None:
        site = HarbourSite()
        first = await asyncio.start_server(site.serve, hosts[0], 0)
        port = int(first.sockets[0].getsockname()[1])
        others = [await asyncio.start_server(site.serve, host, port) for host in hosts[1:]]
        ready.put(port)
        await asyncio.gather(first.serve_forever(), *(one.serve_forever() for one in others))

    asyncio.run(run())


class ToolSight(Sight):
    """Sees through the tool that reads pages."""

    def __init__(self, tool: WebFetchTool) -> None:
        self._tool = tool
        self.looks = 0

    async def page(self, request: PageRequest) -> Page:
        self.looks += 1
        return await self._tool.look(request, 10.0)


class Kept:
    """Keeps what the person would read."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    async def sender(self, person: str) -> Sender | None:
        return Sender(person, role="owner")

    async def line(self, address: Address, key: str, text: str) -> tuple[OutboxItem, ...]:
        self.lines.append(text)
        return (OutboxItem(key, 0, "bench", address.chat, text),)

    async def answer(self, message: InboundMessage, finished: TurnFinished) -> tuple[OutboxItem, ...]:
        raise AssertionError((message, finished))

    async def place(self, address: Address) -> Address:
        return address

    def wake(self) -> None:
        return


class Watching(Looks):
    """Watches alone."""

    async def anything(self, job: ScheduledJob, sender: Sender, turn: str) -> bool:
        raise AssertionError(f"there are no briefings: {job} {sender} {turn}")


async def no_stop(key: str) -> None:
    raise AssertionError(f"nothing runs that could be stopped: {key}")


async def no_model(message: InboundMessage, settle: object) -> TurnFinished:
    raise AssertionError(f"a model was asked: {message} {settle}")


class Day:
    """One simulated day of watches over these kinds of pages."""

    def __init__(
        self, folder: Path, port: int, hosts: Sequence[str], *, begin: datetime = BEGIN, person: str = "bench:1"
    ) -> None:
        self.at = self.begin = begin
        self.person = person
        self.port, self.hosts = port, hosts
        self.ledger = Ledger(SqliteDatabase(folder / "n.db"), clock=lambda: self.at)
        self.jobs = JobStore(self.ledger)
        self.reports = Kept()
        self.tool = WebFetchTool(WebFetchConfig(), whitelist=("127.0.0.0/8",))
        self.sight = ToolSight(self.tool)
        looks = Watching(WatchStore(self.ledger.database), self.sight, clock=lambda: self.at, sleep=self.no_sleep)
        kept = (self.jobs, self.ledger, MessageBus(), no_model, PromptTemplates())
        services = ScheduleServices(*kept, no_stop, lambda: looks)
        self.scheduler = Scheduler(
            services, [JobSurface(person.partition(":")[0], self.reports)], clock=lambda: self.at
        )

    async def no_sleep(self, _seconds: float) -> None:
        return

    async def run(self, kinds: Sequence[str], hours: int) -> tuple[float, int]:
        """The seconds of this process, and how many requests for pages there were."""
        for number in range(WATCHES):
            kind, host = kinds[number % len(kinds)], self.hosts[number % len(self.hosts)]
            url = f"http://{host}:{self.port}/{kind}/{number}"
            start = self.begin + timedelta(seconds=spread(url, 3_600) - 3_600)
            when = Every(3_600, start)
            job = ScheduledJob(kind="watch", text=url, when=when, zone="UTC", person=self.person, chat=self.person)
            await self.jobs.add(job, self.at)
        end, hour = self.begin + timedelta(hours=hours), -1
        begun = time.process_time()
        while self.at < end:
            if (self.at - self.begin) // timedelta(hours=1) != hour:
                hour = (self.at - self.begin) // timedelta(hours=1)
                await self.said(hour)
            until = await self.scheduler.serve_due()
            await self.scheduler.idle()
            self.at = min(max(until, self.at + timedelta(seconds=1)), end, NEVER)
        used = time.process_time() - begun
        await self.tool.aclose()
        await self.scheduler.aclose()
        await self.ledger.aclose()
        return used, self.sight.looks

    async def said(self, hour: int) -> str:
        """Set the clock of the site; what it has answered so far."""
        reader, writer = await asyncio.open_connection(self.hosts[0], self.port)
        writer.write(f"GET /hour/{hour} HTTP/1.1\r\nHost: site\r\n\r\n".encode())
        head = await reader.readuntil(b"\r\n\r\n")
        size = int(head.lower().partition(b"content-length:")[2].split()[0])
        told = (await reader.readexactly(size)).decode()
        writer.close()
        return told


def children() -> float:
    """Processor seconds of the processes that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def measure(name: str, kinds: Sequence[str], hours: int) -> None:
    hosts = [f"127.0.0.{number}" for number in range(1, HOSTS + 1)]
    ready: multiprocessing.Queue[int] = multiprocessing.Queue()
    site = multiprocessing.Process(target=serve, args=(ready, hosts), daemon=True)
    site.start()
    with tempfile.TemporaryDirectory() as folder:

        async def run() -> tuple[Day, float, int, str]:
            day = Day(Path(folder), ready.get(), hosts)
            used, looks = await day.run(kinds, hours)
            return day, used, looks, await day.said(0)

        before = children()
        day, used, looks, answers = asyncio.run(run())
        workers = children() - before
    site.terminate()
    share = (used + workers) / (hours * 3_600)
    print(f"{name}: {looks} requests of {WATCHES} watches in {hours} h, {share:.3%} of one core")
    print(f"  {used:.1f} s here, {workers:.1f} s taking pages apart; answers and most at once of a host: {answers}")
    print(f"  {len(day.reports.lines)} messages, 0 requests to a model")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hours", type=int, default=24, help="of each of the two days")
    args = parser.parse_args()
    measure("quiet day", QUIET, args.hours)
    measure("busy day", BUSY, args.hours)


if __name__ == "__main__":
    main()
