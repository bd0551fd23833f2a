"""The lines above the text of a page that was read, and the line that a person sees about it."""

from collections.abc import Mapping
from urllib.parse import unquote, urlsplit

from nanobot.results import Source
from nanobot.utils.text import squeeze, strip_unsafe
from nanobot.web.fetch.page import Page
from nanobot.web.fetch.parts import PagePart, rest_of

_MOST = 200


def head(source: Source, page: Page, part: PagePart, facts: Mapping[str, object], *, metadata: bool) -> str:
    """Number, title, address, what was kept; what the page says of itself (`metadata`); how it was read; the rest."""
    lines = [f"[{source.number}] {source.title or '(no title)'}", f"url: {facts['url']}"]
    if facts["finalUrl"] != facts["url"]:
        lines.append(f"finalUrl: {facts['finalUrl']}")
    if page.content.share:
        lines.append(f"kept: {_kept(page)}")
    if metadata:
        lines += _about(page)
    way = "; ".join(one for one in (page.way, from_cache(page)) if one)
    rest = rest_of(page, part)
    lines += [f"{name}: {strip_unsafe(squeeze(value))}" for name, value in (("read", way), ("rest", rest)) if value]
    truncated = "true" if facts["truncated"] else "false"
    how = f"extractor: {facts['extractor']} | truncated: {truncated} | length: {facts['length']}"
    lines.append(f"status: {facts['status']} | {how}")
    return "\n".join(lines)


def _kept(page: Page) -> str:
    """Whether this is the main text or all of the page, and the share of its words, so that nobody guesses the rest."""
    whole = page.content.how in ("visible", "listing")
    share = f"{page.content.share:.0%}" if page.content.share >= 0.01 else "less than 1%"
    return f"{'all visible text' if whole else 'main text'}, {share} of the words of the page"


def title_of(page: Page) -> str:
    """The title of a page, or where it has none, the name of its file; empty for an address without one."""
    name = unquote(urlsplit(page.final_url).path.rpartition("/")[2])
    return page.content.title or (name if "." in name.strip(".") else "")


def summary(page: Page, source: Source, length: int) -> str:
    """One line for a person."""
    if page.kind == "empty":
        return "empty body"
    way = "".join(f"; {one}" for one in (page.way, from_cache(page)) if one)
    return f"Read {source.title or page.final_url} ({length} characters{way})"


def from_cache(page: Page) -> str:
    """That a page came from memory, and how old it is; empty for one that was read just now."""
    if page.age is None:
        return ""
    return f"from cache ({int(page.age // 60) or 'under 1'} min)"


def _about(page: Page) -> list[str]:
    """What the page says of its site, author, date and language, one line each."""
    content = page.content
    said = {
        "site": content.site,
        "author": content.author,
        "published": content.published,
        "language": content.language,
    }
    return [f"{name}: {strip_unsafe(squeeze(value))[:_MOST]}" for name, value in said.items() if value]
