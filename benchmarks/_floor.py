"""The least that a gateway could do: real sockets, a durable commit for what is accepted and one for each answer.

`benchmarks/gateway.py` runs it in the place of nanobot, against the same servers and with a request of the same size.
What it costs is what the kernel, asyncio, SQLite and JSON cost. It judges nobody and keeps no conversation.
"""

import asyncio
import json
import os
import sqlite3
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import SplitResult, urlsplit

HOME = Path(os.environ["NANOBOT_HOME"])
CONFIG = json.loads((HOME / "config.json").read_text(encoding="utf-8"))
TELEGRAM = CONFIG["channels"]["telegram"]
#: Characters of the prompt and the tools in the first request of a gateway, and chats that are shown typing at once.
PROMPT, TYPING = "x" * 9_400, 15
Statement = tuple[str, tuple[str, ...]]


class Store:
    """Commits that wait at the same time share a transaction."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1)
        self._jobs: list[tuple[tuple[Statement, ...], asyncio.Future[None]]] = []
        self._db = sqlite3.connect(HOME / "floor.db", check_same_thread=False, isolation_level=None)
        for one in ("PRAGMA journal_mode = WAL", "PRAGMA synchronous = FULL"):
            self._db.execute(one)
        self._db.execute("CREATE TABLE message (id TEXT, text TEXT)")

    async def commit(self, *statements: Statement) -> None:
        done = asyncio.get_running_loop().create_future()
        self._jobs.append((statements, done))
        if len(self._jobs) == 1:
            self._thread.submit(self._drain)
        await done

    def _drain(self) -> None:
        while self._jobs:
            jobs, self._jobs = self._jobs, []
            self._db.execute("BEGIN IMMEDIATE")
            for statements, _done in jobs:
                for one in statements:
                    self._db.execute(*one)
            self._db.execute("COMMIT")
            jobs[0][1].get_loop().call_soon_threadsafe(_wake, [done for _, done in jobs])


def _wake(waiting: list[asyncio.Future[None]]) -> None:
    for one in waiting:
        one.set_result(None)


class Server:
    """Open connections to one server."""

    def __init__(self, url: SplitResult) -> None:
        self._url = url
        self._free: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []

    async def ask(self, path: str, body: object) -> bytes:
        host, data = self._url, json.dumps(body).encode()
        head = f"POST {host.path.rstrip('/')}{path} HTTP/1.1\r\nHost: {host.netloc}\r\n"
        head += f"Content-Type: application/json\r\nContent-Length: {len(data)}\r\n\r\n"
        while True:
            used = bool(self._free)
            reader, writer = self._free.pop() if used else await asyncio.open_connection(host.hostname, host.port)
            writer.write(head.encode() + data)
            try:
                answer = await _answer(reader)
            except (asyncio.IncompleteReadError, ConnectionError):
                if not used:
                    raise
            else:
                self._free.append((reader, writer))
                return answer


async def _answer(reader: asyncio.StreamReader) -> bytes:
    head = (await reader.readuntil(b"\r\n\r\n")).lower()
    if b"chunked" not in head:
        return await reader.readexactly(int(head.partition(b"content-length:")[2].partition(b"\r\n")[0]))
    body = b""
    while size := int((await reader.readuntil(b"\r\n"))[:-2], 16):
        body += (await reader.readexactly(size + 2))[:-2]
    await reader.readexactly(2)
    return body


class Floor:
    def __init__(self) -> None:
        telegram = urlsplit(f"{TELEGRAM['apiBase'].rstrip('/')}/bot{TELEGRAM['token']}")
        self._model = Server(urlsplit(CONFIG["providers"]["bench"]["apiBase"]))
        self._telegram, self._polls, self._store = Server(telegram), Server(telegram), Store()
        self._places, self._typed, self._tasks = asyncio.Semaphore(12), 0, set[asyncio.Task[object]]()

    async def run(self) -> None:
        after = 0
        while True:
            wanted = {"timeout": 30, "limit": 100, "offset": after}
            updates = json.loads(await self._polls.ask("/getUpdates", wanted))["result"]
            if not updates:
                continue
            after = updates[-1]["update_id"] + 1
            await self._store.commit(*(_kept(f"in-{one['update_id']}", json.dumps(one)) for one in updates))
            for message in (one["message"] for one in updates):
                self._start(message["from"]["id"], message["message_id"], message["text"])

    def _start(self, chat: int, number: int, text: str) -> None:
        for work in (self._type(chat), self._serve(chat, number, text)):
            task: asyncio.Task[object] = asyncio.create_task(work)
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _type(self, chat: int) -> None:
        self._typed += 1
        if self._typed <= TYPING:
            await self._telegram.ask("/sendChatAction", {"chat_id": chat, "action": "typing"})

    async def _serve(self, chat: int, number: int, said: str) -> None:
        asked = {"role": "user", "content": said}
        request = {"model": "bench", "stream": True, "messages": [{"role": "system", "content": PROMPT}, asked]}
        text = "".join(_words(await self._model.ask("/chat/completions", request)))
        await self._store.commit(_kept(f"out-{number}", text))
        async with self._places:
            await self._telegram.ask("/sendMessage", {"chat_id": chat, "text": text})


def _kept(name: str, text: str) -> Statement:
    return "INSERT INTO message (id, text) VALUES (?, ?)", (name, text)


def _words(stream: bytes) -> Iterator[str]:
    for line in stream.split(b"\n"):
        if line.startswith(b"data: {"):
            for choice in json.loads(line[6:])["choices"]:
                yield choice["delta"].get("content") or ""


if __name__ == "__main__":
    asyncio.run(Floor().run())
