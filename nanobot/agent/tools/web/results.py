"""How pages that were read stand in the result of a call: the lines above each, its text, its notes, or all as JSON."""

import json
from collections.abc import Mapping, Sequence
from urllib.parse import unquote, urlsplit

from msgspec import Struct
from msgspec.structs import replace

from nanobot.agent.tools.web.answers import uncited
from nanobot.errors import FetchError
from nanobot.messages import Media
from nanobot.results import Source, ToolResult, error_result
from nanobot.utils.text import squeeze, strip_unsafe
from nanobot.utils.translation import _, _n
from nanobot.web.fetch.page import Page
from nanobot.web.fetch.parts import PagePart, rest_of

_MOST = 200
_PASSAGES = "{} Their texts follow, of long ones the places that fit your prompt."


class Style(Struct, frozen=True):
    """`as_json`: the result for one page is JSON. `metadata`: the lines above a page tell its site, author, date and
    language."""

    as_json: bool
    metadata: bool


class ShownPage(Struct, frozen=True):
    """A page with what of it is shown, the source that it is cited by, and the files that go with it."""

    source: Source
    page: Page
    part: PagePart
    media: tuple[Media, ...] = ()

    @property
    def facts(self) -> dict[str, object]:
        return {
            "url": self.page.url,
            "finalUrl": self.page.final_url,
            "status": self.page.status,
            "extractor": self.page.content.extractor,
            "truncated": self.part.truncated,
            "length": len(self.part.text),
        }

    @property
    def notes(self) -> list[str]:
        failed = [f"{self.page.way}."] if "failed" in self.page.way else []
        return [*failed, *self.page.notes, *self.part.notes]

    @property
    def whole(self) -> "ShownPage":
        """The same page with all of its text, as a model was given it."""
        return replace(self, part=PagePart(self.page.content.text, truncated=False, notes=[]))

    def text(self, style: Style) -> str:
        """The lines above the page, its text and the notes about it."""
        return "\n\n".join(one for one in (self.head(style), self.part.text, bracketed(self.notes)) if one)

    def head(self, style: Style) -> str:
        """Number, title, address, what was kept; what the page says of itself; how it was read; where the rest is."""
        page, facts = self.page, self.facts
        lines = [f"[{self.source.number}] {self.source.title or '(no title)'}", f"url: {page.url}"]
        if page.final_url != page.url:
            lines.append(f"finalUrl: {page.final_url}")
        if page.content.share:
            lines.append(f"kept: {_kept(page)}")
        way = "; ".join(_way(page))
        said = {**(_said_of_itself(page) if style.metadata else {}), "read": way, "rest": rest_of(page, self.part)}
        lines += [f"{name}: {strip_unsafe(squeeze(value))}" for name, value in said.items() if value]
        truncated = "true" if self.part.truncated else "false"
        how = f"extractor: {facts['extractor']} | truncated: {truncated} | length: {facts['length']}"
        return "\n".join([*lines, f"status: {page.status} | {how}"])

    def result(self, style: Style) -> ToolResult:
        """The result of a call for this page alone."""
        page, length = self.page, len(self.part.text)
        way = "".join(f"; {one}" for one in _way(page))
        line = _(
            "Read {page} ({length} characters{way})",
            page=self.source.title or page.final_url,
            length=length,
            way=way,
        )
        extras = {
            **self.facts,
            "kind": page.kind,
            "bytes": page.size,
            "requests": page.requests,
            "total": len(page.content.text),
            "next": self.part.next,
            "age": page.age,
            "notes": self.notes,
            "how": page.content.how,
            "attempts": [dict(one) for one in page.attempts],
            **_said_of_itself(page),
        }
        text = self.text(style)
        if style.as_json:
            text = json.dumps({**self.facts, "text": self.part.text}, ensure_ascii=False)
        line = _("empty body") if page.kind == "empty" else line
        return ToolResult(text, line, media=self.media, sources=(self.source,), extras=extras, untrusted=True)


def joined(
    shown: Sequence[ShownPage], unread: Mapping[str, FetchError], style: Style, *, notice: str = ""
) -> ToolResult:
    """One result of many pages, with a line for every URL that was not read; an error only where none could be read.

    `notice` tells why texts come and no answer; empty where none was asked for.
    """
    line = _("Read {read} of {all} pages", read=len(shown), all=len(shown) + len(unread))
    extras: dict[str, object] = {
        "read": [one.page.url for one in shown],
        "failed": {url: error.kind for url, error in unread.items()},
    }
    if not shown and unread:
        first = next(iter(unread.values()))
        told = "\n".join(["No page could be read.", *_lines(unread)])
        wrong = error_result(first.kind, told, message=f"{line}. {_first_line(first)}")
        return replace(wrong, extras=extras, untrusted=True)
    above = [f"[{_PASSAGES.format(notice)}]"] if notice else []
    text = "\n\n".join([*above, *(one.text(style) for one in shown), *_lines(unread)])
    return ToolResult(
        text,
        line,
        media=tuple(media for one in shown for media in one.media),
        sources=tuple(one.source for one in shown),
        extras=extras,
        untrusted=True,
        partial=bool(unread),
    )


def answered(
    answer: str, notes: Sequence[str], shown: Sequence[ShownPage], unread: Mapping[str, FetchError]
) -> ToolResult:
    """The model's answer, then its sources with their status, so that its citations can be followed."""
    style = Style(as_json=False, metadata=False)
    plain, heads = joined(shown, unread, style), [one.whole.head(style) for one in shown]
    text = "\n\n".join(part for part in (answer, bracketed(notes), *heads, *_lines(unread)) if part)
    return replace(plain, text=text, extras={**plain.extras, "answered": True})


def answered_elsewhere(answer: str, sources: tuple[Source, ...]) -> ToolResult:
    """The answer of the model's own service about pages that it has read itself."""
    line = _n("The model's service read {number} page", "The model's service read {number} pages", len(sources))
    by = "read: by the model's service, not here"
    notes = uncited(answer, [source.number for source in sources])
    heads = [f"[{one.number}] {one.title or '(no title)'}\nurl: {one.url}\n{by}" for one in sources]
    text = "\n\n".join(part for part in (answer, bracketed(notes), *heads) if part)
    extras: dict[str, object] = {"native": [one.url for one in sources], "answered": True}
    return ToolResult(text, line, sources=sources, extras=extras, untrusted=True)


def beside(first: ToolResult, rest: ToolResult) -> ToolResult:
    """Both parts of a call of which the model's service has read some pages and this machine the others."""
    return replace(
        first,
        text=f"{first.text}\n\n{rest.text}",
        message=f"{first.message}. {rest.message}",
        media=rest.media,
        sources=(*first.sources, *rest.sources),
        extras={**rest.extras, **first.extras},
        partial=rest.partial or rest.is_error,
    )


def failed(error: FetchError, url: str) -> ToolResult:
    """The failure as a result; people see the URL beside it.

    A server's words may be in it, so a status error is content from outside.
    """
    extras: dict[str, object] = {"host": error.host, "phase": error.phase}
    if error.attempts:
        extras["attempts"] = [dict(one) for one in error.attempts]
    if error.status:
        extras["status"] = error.status
    if error.retry_after is not None:
        extras["retry_after"] = error.retry_after
    result = error_result(error.kind, str(error), message=_why(error, url), **extras)
    return replace(result, untrusted=error.kind in ("http_status", "no_content", "login_wall"))


def title_of(page: Page) -> str:
    """The title of a page, or where it has none, the name of its file; empty for an address without one."""
    name = unquote(urlsplit(page.final_url).path.rpartition("/")[2])
    return page.content.title or (name if "." in name.strip(".") else "")


def bracketed(notes: Sequence[str]) -> str:
    return "\n".join(f"[{note}]" for note in notes)


def _lines(unread: Mapping[str, FetchError]) -> list[str]:
    return [f"{url}: not read: {_why(error, url)}" for url, error in unread.items()]


def _why(error: FetchError, url: str) -> str:
    """The first line of a failure, without the URL where that stands before it anyway."""
    line = _first_line(error)
    return line.removeprefix(url).lstrip(": ") or line


def _first_line(error: FetchError) -> str:
    return str(error).partition("\n")[0]


def _kept(page: Page) -> str:
    """Whether this is the main text or all of the page, and the share of its words, so that nobody guesses the rest."""
    whole = page.content.how in ("visible", "listing")
    share = f"{page.content.share:.0%}" if page.content.share >= 0.01 else "less than 1%"
    return f"{'all visible text' if whole else 'main text'}, {share} of the words of the page"


def _way(page: Page) -> list[str]:
    """How a page was read where it was not simply read here: by whom, or from memory and how old it is."""
    age = [] if page.age is None else [f"from cache ({int(page.age // 60) or 'under 1'} min)"]
    return [page.way, *age] if page.way else age


def _said_of_itself(page: Page) -> dict[str, str]:
    """What the page says of its site, author, date and language."""
    content = page.content
    said = {
        "site": content.site,
        "author": content.author,
        "published": content.published,
        "language": content.language,
    }
    return {name: value[:_MOST] for name, value in said.items()}
