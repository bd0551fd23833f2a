"""A small web that travels with nanobot: a dozen pages of a made-up town, nanobot's own docs, and a search engine.

It is served on loopback, so that the whole way from a question to a cited answer can be seen on any machine, without a
network, a key or a configuration. The search engine speaks the JSON interface of SearXNG.
"""

import html
import json
import re
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Self
from urllib.parse import parse_qs, urlsplit

from markdown_it import MarkdownIt
from msgspec import Struct

from nanobot.utils.passages import sentences
from nanobot.utils.ranking import Index, terms

_PAGES = Path(__file__).parent / "pages"
_HTML = "text/html; charset=utf-8"
_TITLE = re.compile(r"<title>(.*?)</title>", re.DOTALL)
#: A line of text in a PDF of which nothing is packed (ISO 32000-1, 9.4.3).
_LINE = re.compile(r"\((.*)\) Tj")
_HEADING = re.compile(r"^# (.+)$", re.MULTILINE)
#: What the search engine does not read: navigation, and examples of commands, which repeat questions and answer none.
_NAVIGATION = re.compile(r"<(head|header|footer|pre)>.*?</\1>|<[^>]+>", re.DOTALL)
_MARKDOWN = re.compile(r"^```.*?^```|\]\([^)\s]+\)|-{3,}|[#*`|\[\]]", re.DOTALL | re.MULTILINE)
_SNIPPET = 240

#: Path → file, where the pages of the town stand.
_TOWN = {
    "/": "index.html",
    "/tides": "tides.html",
    "/ferry": "ferry.html",
    "/museum": "museum.html",
    "/library": "library.html",
    "/forum": "forum.html",
    "/teahouse": "teahouse.html",
    "/webcam": "webcam.html",
    "/recipes/fish-pie": "fish-pie.html",
    "/weather/now.json": "weather.json",
    "/news/feed.xml": "feed.xml",
    "/ferry/timetable.pdf": "timetable.pdf",
}
#: What the search engine knows besides: a camera in a private network, which must not be reached.
# English: the town of the demo is
_PRIVATE = ("http://192.168.1.20/picture", "The harbour webcam, live picture", "Live picture of the harbour webcam.")


class DemoPage(Struct, frozen=True):
    """One page as it is served, made when somebody reads it. `text` is what the search engine reads of it."""

    title: str
    text: str
    type: str
    body: Callable[[], bytes]


class DemoWeb:
    """The web, served on a free port of 127.0.0.1 while the context lasts. `docs` is the folder of the shipped docs."""

    def __init__(self, docs: Path) -> None:
        self._pages = {**dict(_town()), **dict(_docs(docs))}
        self._index = Index(f"{page.title} {page.title} {page.text}" for page in self._pages.values())
        self.url = ""

    def __enter__(self) -> Self:
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        return self

    def __exit__(self, *_why: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def answer(self, target: str) -> tuple[int, str, bytes]:
        """Status, media type and body for the target of a request line."""
        parts = urlsplit(target)
        if parts.path == "/search":
            query = "".join(parse_qs(parts.query).get("q", ()))
            return 200, "application/json", json.dumps({"query": query, "results": self._found(query)}).encode()
        page = self._pages.get(parts.path.rstrip("/") or "/")
        if page is None:
            # English: the town of the demo is
            return 404, _HTML, _layout("Not found", "<h1>Not found</h1><p>There is no such page.</p>").encode()
        return 200, page.type, page.body()

    def _found(self, query: str) -> list[dict[str, str]]:
        wanted = terms(query)
        scored = sorted(
            ((self._index.score(wanted, at), path, page) for at, (path, page) in enumerate(self._pages.items())),
            key=lambda item: -item[0],
        )
        hits = [
            {"title": page.title, "url": self.url + path, "content": _snippet(page.text, wanted)}
            for score, path, page in scored
            if score > 0
        ][:8]
        url, title, content = _PRIVATE
        if "webcam" in query.casefold():
            hits.insert(0, {"title": title, "url": url, "content": content})
        return hits

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        answer = self.answer

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                status, kind, body = answer(self.path)
                self.send_response(status)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name is the library's
                """Requests are shown by the agent, not on stderr."""

        return Handler


def _town() -> Iterator[tuple[str, DemoPage]]:
    for path, name in _TOWN.items():
        text = (_PAGES / name).read_text(encoding="utf-8")
        if name.endswith(".html"):
            named = _TITLE.search(text)
            yield path, DemoPage(html.unescape(named[1]) if named else "", _plain(text), _HTML, text.encode)
        elif name.endswith(".pdf"):
            lines = _LINE.findall(text)
            yield path, DemoPage(lines[0], " ".join(lines), "application/pdf", text.encode)
        else:
            kind = "application/json" if name.endswith(".json") else "application/rss+xml"
            # English: the town of the demo is
            title = "Weather in Port Ellery now" if name.endswith(".json") else "News of Port Ellery"
            yield path, DemoPage(title, _plain(text), kind, text.encode)


def _docs(folder: Path) -> Iterator[tuple[str, DemoPage]]:
    """Every page of the docs as HTML, and all of them on one long page."""
    texts = {file.stem: file.read_text(encoding="utf-8") for file in sorted(folder.glob("*.md"))}
    for name, text in texts.items():
        heading = _HEADING.search(text)
        title = f"nanobot: {heading[1] if heading else name}"
        read = " ".join(_MARKDOWN.sub(" ", text).split())
        yield f"/docs/{name}", DemoPage(title, read, _HTML, partial(_rendered, title, text))
    # English: the docs on this page are
    title = "nanobot: the whole handbook on one page"
    yield "/docs/handbook", DemoPage(title, title, _HTML, partial(_rendered, title, "\n\n".join(texts.values())))


def _rendered(title: str, markdown: str) -> bytes:
    return _layout(title, MarkdownIt("commonmark").enable("table").render(markdown)).encode()


def _layout(title: str, main: str) -> str:
    head = f'<meta charset="utf-8"><title>{html.escape(title)}</title>'
    # English: it is markup alone
    return f'<!doctype html><html lang="en"><head>{head}</head><body><main>{main}</main></body></html>'


def _plain(text: str) -> str:
    return " ".join(html.unescape(_NAVIGATION.sub(" ", text)).split())


def _snippet(text: str, wanted: list[str]) -> str:
    """The sentence with most of the wanted words."""
    parts = sentences(text) or (text,)
    best = max(parts, key=lambda part: len(set(wanted) & set(terms(part))))
    return best[:_SNIPPET]


def demo_config(url: str, *, lookup: bool) -> Mapping[str, object]:
    """The configuration of the demo: its own search engine, no service elsewhere, loopback open to the reader."""
    return {
        "agents": {"defaults": {"provider": "lookup"}} if lookup else {},
        "tools": {
            "ssrfWhitelist": ["127.0.0.1"],
            "web": {
                "search": {"provider": "searxng", "baseUrl": url, "fallback": []},
                "fetch": {"reader": "none"},
            },
        },
    }
