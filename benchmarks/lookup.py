"""How often `lookup` shows the passage that answers, over a site of pages, and whether it declines where none does.

    python -m benchmarks.lookup [--set FILE] [--half dev|held|all] [--data FOLDER] [--misses]

FILE is {"pages": [{"id", "title", "markdown" or "html"}], "questions": [{"id", "page", "question", "answers"}]}. A
question counts as answered when one of its answers stands in the reply, with blanks and case folded; one without
answers is unanswerable, and counts when the reply declines. FOLDER adds the pages of an extraction set:
`ground-truth.json` ({ID: {"url": …, "articleBody": …}}) and `html/ID.html.gz`. The pages stand on a loopback site, each
under a host name of its own as on the web; a loopback search engine in SearXNG's shape ranks them by plain BM25 of
title and body, knowing nothing of the questions. The real loop, the real tools and the real provider run over them.
Every other page of the set, and every other unanswerable question, is `held`: no rule was tuned on those.
"""

import argparse
import asyncio
import gzip
import html
import json
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # tests/fakes, also when this runs as a file

from markdown_it import MarkdownIt

from nanobot.agent.chats.services import AgentServices
from nanobot.agent.context import ContextBuilder
from nanobot.agent.loop import AgentLoop
from nanobot.agent.tools.docs import NanobotDocsTool
from nanobot.agent.tools.web.fetch import WebFetchTool
from nanobot.agent.tools.web.search import WebSearchTool
from nanobot.bus.events import Address, InboundMessage, MessageBus, Sender
from nanobot.command.router import CommandRouter
from nanobot.config.schema_web import WebFetchConfig, WebSearchConfig
from nanobot.providers.lookup.provider import LookupProvider
from nanobot.providers.lookup.question import languages
from nanobot.session.sqlite import MemoryDatabase
from nanobot.session.store import SessionStore
from nanobot.utils.ranking import Index, terms
from nanobot.utils.text import fold, squeeze
from nanobot.web.client import SystemNetwork
from tests.fakes.http_server import HttpServer, Request, Responder

SET = Path(__file__).parent / "data" / "lookup_set.json"
_MARKUP = re.compile(r"<(script|style|head|nav|footer|header)\b.*?</\1>|<[^>]+>", re.DOTALL)
_TITLE = re.compile(rb"<title[^>]*>(.*?)</title>", re.IGNORECASE | re.DOTALL)
_SNIPPET = 200
_LAYOUT = (
    "<!doctype html><html><head><meta charset='utf-8'><title>{title}</title></head><body>"
    "<nav><a href='/'>Start</a> <a href='/all'>All pages</a></nav><main>{main}</main><footer>Imprint</footer>"
    "</body></html>"
)


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


@dataclass(frozen=True, slots=True)
class Score:
    """What one reply is worth. `first` tells that the first quote alone holds the answer."""

    right: bool
    first: bool


class Site:
    """The pages and the search engine behind one loopback server."""

    def __init__(self, pages: Sequence[SitePage]) -> None:
        self.pages = pages
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


def read_pages(file: Path, folder: Path | None) -> list[SitePage]:
    """The pages of a set, and those of an extraction set beside them."""
    pages = [_set_page(at, row) for at, row in enumerate(json.loads(file.read_text(encoding="utf-8"))["pages"])]
    if folder:
        truth = json.loads((folder / "ground-truth.json").read_text(encoding="utf-8"))
        pages += [_page(folder, key, entry) for key, entry in truth.items()]
    return pages


def _set_page(at: int, row: dict[str, str]) -> SitePage:
    main = row.get("html") or MarkdownIt("commonmark").enable("table").render(row["markdown"])
    page = row.get("html") or _LAYOUT.format(title=html.escape(row["title"]), main=main)
    body = squeeze(html.unescape(_MARKUP.sub(" ", main)))
    return SitePage(f"p{at}", f"site{at}.test", page.encode(), row["title"], body)


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
    """The questions of one half of the pages, or all; the unanswerable ones are halved among themselves."""
    content = json.loads(path.read_text(encoding="utf-8"))
    places = {page["id"]: at for at, page in enumerate(content["pages"])}
    wanted = {"dev": (0,), "held": (1,), "all": (0, 1)}[half]
    entries, unanswerable = [], 0
    for row in content["questions"]:
        unanswerable += not row["answers"]
        if (places[row["page"]] if row["answers"] else unanswerable) % 2 in wanted:
            entries.append(Entry(row["id"], row["page"], row["question"], tuple(row["answers"])))
    return entries


def score(entry: Entry, reply: str) -> Score:
    """Whether a decisive phrase stands in the reply and in its first quote; marks of Markdown count in neither.

    An unanswerable question is right when the reply says so, with one quote at most.
    """
    quotes = [block for block in reply.split("\n\n") if block.startswith("> ")]
    if not entry.answers:
        declined = any(known["says"]["nothing"] in reply for known in languages().values()) and len(quotes) <= 1
        return Score(declined, declined)
    found = [any(_plain(answer) in _plain(text) for answer in entry.answers) for text in (reply, "".join(quotes[:1]))]
    return Score(found[0], found[1])


def _plain(text: str) -> str:
    return fold(re.sub(r"[*_\\`]", "", text))


async def ask_all(pages: Sequence[SitePage], entries: Sequence[Entry]) -> list[tuple[Entry, str]]:
    """Every question in a session of its own, through the real loop."""
    site = Site(pages)
    async with HttpServer(site.handle) as server:
        site.port = server.port
        fetch = WebFetchTool(WebFetchConfig(), whitelist=("127.0.0.0/8",), network=LoopbackNames())
        search = WebSearchTool(WebSearchConfig(provider="searxng", base_url=server.url, fallback=()))
        docs = NanobotDocsTool()
        services = AgentServices(
            MessageBus(),
            SessionStore(MemoryDatabase()),
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
    parser.add_argument("--set", type=Path, default=SET, help="the pages and questions (default %(default)s)")
    parser.add_argument("--data", type=Path, help="a folder of further pages")
    parser.add_argument("--half", choices=("dev", "held", "all"), default="all")
    parser.add_argument("--bar", type=float, default=0.92, help="exit 1 below this share (default %(default)s)")
    parser.add_argument("--misses", action="store_true", help="print every reply that misses")
    arguments = parser.parse_args()
    entries = read_questions(arguments.set, arguments.half)
    rows = asyncio.run(ask_all(read_pages(arguments.set, arguments.data), entries))
    scored = [(entry, reply, score(entry, reply)) for entry, reply in rows]
    for entry, reply, result in scored:
        if arguments.misses and not (result.right and result.first):
            print(f"--- {'' if result.right else 'MISS '}{entry.id} {entry.question} wants {entry.answers}\n{reply}\n")
    told = [result for entry, _, result in scored if entry.answers]
    declined = [result for entry, _, result in scored if not entry.answers]
    share = sum(result.right for result in told) / max(1, len(told))
    first = sum(result.first for result in told) / max(1, len(told))
    length = sorted(len(reply) for _, reply, _ in scored)[len(scored) // 2] if scored else 0
    print(
        f"lookup {share:.3f} of {len(told)} in the reply, {first:.3f} in the first quote, "
        f"{sum(result.right for result in declined)} of {len(declined)} declined, "
        f"median reply {length} characters ({arguments.half})"
    )
    return 0 if share >= arguments.bar else 1


if __name__ == "__main__":
    sys.exit(main())
