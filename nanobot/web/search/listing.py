"""Reading hits out of the text that a search tool of an MCP server returns for models."""

import json
import re

from nanobot.web.search.base import SearchHit
from nanobot.web.search.payload import Fields, address, at, day, host_of, lines_of, plain, read_hits

_FIELDS = Fields(
    title=("title", "name"),
    url=("url", "link", "href"),
    snippet=("snippet", "description", "summary", "highlights", "content", "text"),
    content=("text", "content", "raw_content", "markdown"),
    published=("publishedDate", "published_date", "published", "date"),
    score=("score",),
)
_LABEL = re.compile(
    r"^(title|url|link|published(?: date)?|date|author|text|highlights|summary|content|snippet):\s*", re.IGNORECASE
)
_TITLED = re.compile(r"(?m)^(?=Title:\s)")
_LINK = re.compile(r"\[([^\]\n]{1,300})\]\((https?://[^\s)]+)\)")
_BARE = re.compile(r"https?://[^\s<>\"')\]]+")
SNIPPET = 300


def read(words: str, engine: str) -> tuple[SearchHit, ...]:
    """The hits in JSON, in blocks that begin with `Title:`, or at least the links of the text."""
    stripped = words.strip()
    if stripped.startswith(("{", "[")):
        try:
            data: object = json.loads(stripped)
        except (ValueError, RecursionError):
            data = None
        found = data if isinstance(data, list) else at(data, "results")
        if isinstance(found, list):
            return read_hits(found, _FIELDS, engine=engine)[0]
    blocks = [hit for block in _TITLED.split(stripped) if (hit := _block(block)) is not None]
    return tuple(blocks or _links(stripped))


def _block(block: str) -> SearchHit | None:
    """One hit of labelled lines; lines after a label without one of their own belong to it."""
    parts: dict[str, list[str]] = {}
    label = ""
    for line in block.strip().removesuffix("---").splitlines():
        found = _LABEL.match(line) if label not in {"text", "content"} else None
        if found:
            label = found[1].lower()
        parts.setdefault(label, []).append(line[found.end() :] if found else line)
    url = address("".join((parts.get("url") or parts.get("link") or [""])[:1]))
    if not url:
        return None
    told = {label: lines_of("\n".join(lines)) for label, lines in parts.items()}
    content = told.get("text") or told.get("content") or told.get("highlights") or ""
    snippet = told.get("snippet") or told.get("summary") or told.get("highlights") or content
    date = told.get("published date") or told.get("published") or told.get("date") or ""
    return SearchHit(
        title=plain("".join(parts.get("title", [""])[:1])) or host_of(url),
        url=url,
        snippet=plain(snippet)[:SNIPPET],
        content=content,
        published=day(date),
    )


def _links(words: str) -> list[SearchHit]:
    named = {address(url): plain(title) for title, url in _LINK.findall(words)}
    bare = {address(url.rstrip(".,;:")): "" for url in _BARE.findall(words)}
    return [SearchHit(title or host_of(url), url) for url, title in {**bare, **named}.items() if url]
