"""How often `lookup` shows the passage that answers, over a site of real pages.

    python -m benchmarks.lookup --data FOLDER [--questions FILE] [--half dev|held|all]

FOLDER holds `ground-truth.json` ({ID: {"url": …, "articleBody": …}}) and `html/ID.html.gz`. FILE is a list of
{"id", "page", "question", "answers"}; a question counts as answered when one of its answers stands in the reply,
with blanks and case folded. The pages stand on a loopback site, each under a host name of its own as on the web; a
loopback search engine in SearXNG's shape ranks them by plain BM25 of title and body, knowing nothing of the questions.
The real loop, the real tools and the real provider run over them. Questions at odd places of the file are `held`: the
rules were tuned on the others.
"""

import argparse
import asyncio
import gzip
import html
import json
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # tests/fakes, also when this runs as a file

from nanobot.agent.context import ContextBuilder
from nanobot.agent.loop import AgentLoop, AgentServices
from nanobot.agent.tools.docs import NanobotDocsTool
from nanobot.agent.tools.web_fetch import WebFetchTool
from nanobot.agent.tools.web_search import WebSearchTool
from nanobot.bus.events import Address, InboundMessage, Sender
from nanobot.bus.queue import MemoryBus
from nanobot.command.dispatch import CommandRouter
from nanobot.config.web_schema import WebFetchConfig, WebSearchConfig
from nanobot.providers.lookup import LookupProvider
from nanobot.session.memory import MemorySessionStore
from nanobot.utils.ranking import Index, terms
from nanobot.utils.text import fold, squeeze
from nanobot.web.client import SystemNetwork
from tests.fakes.http_server import HttpServer, Request, Responder

QUESTIONS = Path(__file__).parent / "data" / "lookup_questions.json"
_TITLE = re.compile(rb"<title[^>]*>(.*?)</title>", re.IGNORECASE | re.DOTALL)
_SNIPPET = 200


@dataclass(frozen=True, slots=True)
class Entry:
    """One question of the set."""

    id: str
    page: str
    question: str
    answers: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SitePage:
    """A page of the loopback site: where it stands, its bytes, and what the search engine knows of it."""

    id: str
    host: str
    raw: bytes
    title: str
    body: str


class Site:
    """The pages and the search engine behind one loopback server."""

    def __init__(self, folder: Path) -> None:
        truth = json.loads((folder / "ground-truth.json").read_text(encoding="utf-8"))
        self.pages = [_page(folder, key, entry) for key, entry in truth.items()]
        self._by_path = {f"/{page.id}": page for page in self.pages}
        self._index = Index(f"{page.title} {page.body}" for page in self.pages)
        self.port = 0

    async def handle(self, request: Request, responder: Responder) -> None:
        if request.path == "/search":
            await responder.json({"query": request.query["q"], "results": self._search(request.query["q"])})
        elif page := self._by_path.get(request.path):
            await responder.send(200, page.raw, content_type="text/html")
        else:
            await responder.send(404, "no such page", content_type="text/plain")

    def _search(self, query: str) -> list[dict[str, object]]:
        wanted = terms(query)
        scores = [(self._index.score(wanted, at), page) for at, page in enumerate(self.pages)]
        best = sorted((item for item in scores if item[0] > 0), key=lambda item: -item[0])[:10]
        return [
            {
                "title": page.title or page.host,
                "url": f"http://{page.host}:{self.port}/{page.id}",
                "content": page.body[:_SNIPPET],
                "score": score,
            }
            for score, page in best
        ]


def _page(folder: Path, key: str, entry: dict[str, str]) -> SitePage:
    raw = gzip.decompress((folder / "html" / f"{key}.html.gz").read_bytes())
    found = _TITLE.search(raw)
    title = squeeze(html.unescape(found[1].decode("utf-8", "replace"))) if found else ""
    host = (urlsplit(entry["url"]).hostname or key).removeprefix("www.")
    return SitePage(key, f"{host}.test", raw, title, squeeze(entry["articleBody"]))


class LoopbackNames(SystemNetwork):
    """Every name is this machine."""

    async def resolve(self, host: str, port: int) -> tuple[str, ...]:  # noqa: ARG002
        return ("127.0.0.1",)


def read_questions(path: Path, half: str) -> list[Entry]:
    """The questions of one half, or all."""
    rows = json.loads(path.read_text(encoding="utf-8"))
    entries = [Entry(row["id"], row["page"], row["question"], tuple(row["answers"])) for row in rows]
    wanted = {"dev": (0,), "held": (1,), "all": (0, 1)}[half]
    return [entry for at, entry in enumerate(entries) if at % 2 in wanted]


def answered(entry: Entry, reply: str) -> bool:
    """True when a decisive phrase stands in the reply; marks of Markdown count in neither."""
    shown = _plain(reply)
    return any(_plain(answer) in shown for answer in entry.answers)


def _plain(text: str) -> str:
    return fold(re.sub(r"[*_\\`]", "", text))


async def ask_all(folder: Path, entries: list[Entry]) -> list[tuple[Entry, str]]:
    """Every question in a session of its own, through the real loop."""
    site = Site(folder)
    async with HttpServer(site.handle) as server:
        site.port = server.port
        fetch = WebFetchTool(WebFetchConfig(), whitelist=("127.0.0.0/8",), network=LoopbackNames())
        search = WebSearchTool(WebSearchConfig(provider="searxng", base_url=server.url, fallback=()))
        docs = NanobotDocsTool()
        services = AgentServices(
            MemoryBus(),
            MemorySessionStore(),
            LookupProvider(),
            ContextBuilder(),
            CommandRouter(()),
            {"web_search": lambda: search, "web_fetch": lambda: fetch, "nanobot_docs": lambda: docs},
        )
        loop = AgentLoop(services)
        rows = []
        try:
            for entry in entries:
                message = InboundMessage(Address("bench", entry.id), Sender("bench", role="owner"), entry.question)
                finished = await loop.process(message)
                rows.append((entry, finished.text or finished.error))
        finally:
            await loop.aclose()
            await fetch.aclose()
            await search.aclose()
        return rows


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--questions", type=Path, default=QUESTIONS)
    parser.add_argument("--half", choices=("dev", "held", "all"), default="all")
    parser.add_argument("--bar", type=float, default=0.92, help="exit 1 below this share (default %(default)s)")
    parser.add_argument("--misses", action="store_true", help="print every reply that misses")
    arguments = parser.parse_args()
    entries = read_questions(arguments.questions, arguments.half)
    rows = asyncio.run(ask_all(arguments.data, entries))
    hits = 0
    for entry, reply in rows:
        right = answered(entry, reply)
        hits += right
        if not right and arguments.misses:
            print(f"--- {entry.id} {entry.question} wants {entry.answers}\n{reply}\n")
    share = hits / len(rows) if rows else 0.0
    length = sorted(len(reply) for _, reply in rows)[len(rows) // 2] if rows else 0
    print(f"lookup {share:.3f} ({hits}/{len(rows)}) {arguments.half}, median reply {length} characters")
    return 0 if share >= arguments.bar else 1


if __name__ == "__main__":
    sys.exit(main())
