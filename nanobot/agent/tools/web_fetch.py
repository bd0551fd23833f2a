"""The tool that reads a page."""

import asyncio
import contextlib
import hashlib
import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, ClassVar, Self, get_args

from msgspec.structs import replace
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator
from pydantic_core import PydanticCustomError

from nanobot.agent.tools.base import Tool, ToolContext
from nanobot.agent.tools.consent import CallConsent, PrivateConsent
from nanobot.agent.tools.named import named
from nanobot.agent.tools.page_head import head, summary, title_of
from nanobot.agent.tools.web_many import (
    MOST_URLS,
    Many,
    Native,
    alone,
    asked_urls,
    beside,
    gather,
    read_natively,
    room_for,
    shares,
    targets_as_meant,
    told,
    why,
)
from nanobot.config.proxy import Proxies
from nanobot.config.web_schema import WebFetchConfig
from nanobot.errors import AddressBlocked, FetchError
from nanobot.messages import Media
from nanobot.results import ToolResult, error_result
from nanobot.security.network import FAKE_IP
from nanobot.security.policy import Access
from nanobot.utils.prompt_templates import PromptTemplates
from nanobot.web.cache import HostSlots, KeyLocks, PageStore
from nanobot.web.client import Network
from nanobot.web.extract.page import Format
from nanobot.web.fetch.page import Page, PageImage, PageRequest, keeps_home
from nanobot.web.fetch.parts import PagePart, places_of, section_of, window_of
from nanobot.web.fetch.reader import PageReader
from nanobot.web.urls import extract_urls, host_of
from nanobot.web.usage import Lookup, UsageLedger

_FORMATS: tuple[Format, ...] = get_args(Format)
#: The step of a lookup that met an address which a proxy made up.
_INVENTED = "invented address"
#: Kinds of which each format has its own text.
_RENDERED = frozenset({"html", "xml", "csv"})


def _format(value: object) -> object:
    name = value.strip().lower() if isinstance(value, str) else value
    return "markdown" if name == "md" else name


class WebFetchArguments(BaseModel):
    model_config = ConfigDict(extra="forbid")

    url: Annotated[
        str, Field(min_length=1, description="The page: an http(s) URL, or #n for result n of a search.")
    ] = ""
    urls: Annotated[list[str], Field(min_length=1, description="Up to 20 pages at once, instead of url.")] = []
    prompt: Annotated[str, Field(description="What to find out: alone with its URLs in it, or beside url or urls.")] = (
        ""
    )
    format: Annotated[Format, BeforeValidator(_format), Field(description="How to give an HTML page.")] = "markdown"
    max_chars: Annotated[int | None, Field(ge=100, le=1_000_000, description="Most characters to return.")] = None
    offset: Annotated[int, Field(ge=0, description="Character to start at, to read on in a long page.")] = 0
    find: Annotated[str, Field(max_length=300, description="Give only the places of the page that speak of this.")] = ""
    section: Annotated[
        str,
        Field(max_length=300, description="Give only the section under this heading; of JSON, the part at this path."),
    ] = ""
    raw: Annotated[bool, Field(description="With format=html: keep scripts and styles.")] = False
    fresh: Annotated[bool, Field(description="Load the page again, even if it was read a moment ago.")] = False

    @model_validator(mode="before")
    @classmethod
    def _as_meant(cls, given: object) -> object:
        return targets_as_meant(given) if isinstance(given, dict) else given

    @model_validator(mode="after")
    def _one_target(self) -> Self:
        """Exactly one of `url`, `urls` and a `prompt` that names pages; a prompt without any goes with the others."""
        given = self.model_fields_set & {"url", "urls", "prompt"}
        if len(given) > 1 and not extract_urls(self.prompt).urls:
            given -= {"prompt"}
        if not given:
            raise _wrong("parameter 'url' is missing")
        if len(given) > 1:
            raise _wrong(f"give exactly one of 'url', 'urls' and 'prompt', not {' and '.join(sorted(given))}")
        if self.offset and ("url" not in given or self.prompt.strip()):
            raise _wrong("'offset' goes with 'url' only")
        if self.section.strip() and ("url" not in given or self.prompt.strip()):
            raise _wrong("'section' goes with 'url' only")
        if self.section.strip() and (self.offset or self.find.strip()):
            raise _wrong("'section' does not go with 'offset' or 'find'")
        if "prompt" in given:
            problem = asked_urls(self.prompt).problem
            if problem:
                raise _wrong(problem)
        return self


def _wrong(reason: str) -> PydanticCustomError:
    return PydanticCustomError("arguments", "{reason}", {"reason": reason})


class WebFetchTool(Tool[WebFetchArguments]):
    """`web_fetch`: reads a page through the guarded client and pages through it from memory.

    `whitelist` are the operator's exceptions (nets, addresses, names); `media_dir` is where images go, None keeps none.
    `env` holds keys and proxies that the configuration does not name; `privacy` is privacy mode for every chat.
    `clock` gives the seconds by which a kept page grows old; `ledger` counts what is read. Call `aclose` at the end.
    """

    name: ClassVar[str] = "web_fetch"
    aliases: ClassVar[tuple[str, ...]] = ("FetchURL", "fetch_url", "webfetch", "WebFetch", "fetch")
    argument_aliases: ClassVar[dict[str, str]] = {
        "URL": "url",
        "uri": "url",
        "link": "url",
        "href": "url",
        "extractMode": "format",
        "extract_mode": "format",
        "maxChars": "max_chars",
        "max_length": "max_chars",
        "start_index": "offset",
    }
    Arguments = WebFetchArguments
    access: Access = "public"

    def __init__(
        self,
        config: WebFetchConfig,
        *,
        proxy: str | None = None,
        whitelist: Sequence[str] = (),
        media_dir: Path | None = None,
        templates: PromptTemplates | None = None,
        network: Network | None = None,
        env: Mapping[str, str] | None = None,
        privacy: bool = False,
        clock: Callable[[], float] = time.monotonic,
        ledger: UsageLedger | None = None,
    ) -> None:
        self.description = (templates or PromptTemplates()).render("tools/web_fetch.md", max_chars=config.max_chars)
        self._config = config
        self._media_dir = media_dir
        self._reader = PageReader(
            config,
            proxies=Proxies(proxy, env or {}),
            whitelist=whitelist,
            network=network,
            env=env,
            privacy=privacy,
        )
        self._consent = PrivateConsent(self._reader)
        self._privacy = privacy
        self._slots = HostSlots(config.concurrency, self._reader.is_own, clock)
        self._ledger = ledger or UsageLedger()
        self._pages: PageStore[Page] = PageStore(clock=clock)
        self._twins = KeyLocks()

    async def aclose(self) -> None:
        """End the worker processes and connections."""
        await self._reader.aclose()

    def problems(self) -> str:
        """What keeps pages from being read, as a line for /status: DNS of a proxy, what readers elsewhere lack."""
        lacking = [f"Reading by {name}: {lacks}" for name, lacks in self._reader.missing.items()]
        invented = [] if self._config.fake_ip else [one for one in self._ledger.lookups() if one.step == _INVENTED]
        return "; ".join([*lacking, *(f"DNS, seen today: {FAKE_IP}" for _ in invented[:1])])

    async def text_of(self, url: str, timeout: float) -> str:
        """The text of a page, read by this machine alone. Raises `FetchError`. `timeout` is in seconds."""
        async with self._slots.hold(host_of(url)):
            return (await self._reader.local(PageRequest(url), timeout)).content.text

    @property
    def idempotent(self) -> bool:
        return True

    async def run(self, args: WebFetchArguments, context: ToolContext) -> ToolResult:
        if args.urls or args.prompt.strip():
            return await self._many(args, context)
        url = args.url.strip()
        try:
            url = named(url, context.sources)
            page = await self._page(url, args, self._call_consent([url], args, context))
        except FetchError as error:
            return _failed(error, url)
        media = await self._save(page.image) if page.image else ()
        most = args.max_chars or self._config.max_chars
        part = await asyncio.to_thread(_shown, page, args, most)
        return self._result(page, part, context, media)

    async def _many(self, args: WebFetchArguments, context: ToolContext) -> ToolResult:
        """All pages under one budget; one that is too long for its share gives the places that the prompt is about."""
        asked = asked_urls(args.prompt)
        wanted = list(dict.fromkeys(args.urls or ([args.url] if args.url else asked.urls)))
        native = await self._natively(wanted[:MOST_URLS], args, context)
        if native is not None:
            wanted = [url for url in wanted if url not in native.urls]
            if not wanted:
                return alone(native, as_json=self._config.render == "json")

        consent = self._call_consent(wanted[:MOST_URLS], args, context)

        async def read(url: str) -> Page:
            return await self._page(named(url.strip(), context.sources), args, consent)

        got = await gather(wanted[:MOST_URLS], read)
        most = shares(
            [len(page.content.text) for _, page in got.pages], args.max_chars or room_for(len(wanted), context)
        )
        query = args.find.strip() or asked.question
        results: list[ToolResult] = []
        for (_, page), share in zip(got.pages, most, strict=True):
            media = await self._save(page.image) if page.image else ()
            narrowed = bool(args.find.strip() or (query and len(page.content.text) > share))
            part = await asyncio.to_thread(places_of, page, query, share) if narrowed else None
            shown = part if part is not None and (part.text or args.find.strip()) else _shown(page, args, share)
            results.append(self._result(page, shown, context, media))
        many = Many(results, got.failed, wanted[MOST_URLS:], asked.malformed, self._config.render == "json")
        rest = await told(many, [page.content.text for _, page in got.pages], asked.question, args.prompt, context)
        return rest if native is None else beside(native, rest, as_json=many.as_json)

    async def _natively(self, wanted: Sequence[str], args: WebFetchArguments, context: ToolContext) -> Native | None:
        """What the model's own service makes of the public ones of `wanted`; None where it is not asked or fails."""
        if not (self._config.native and args.prompt.strip() and context.read_pages) or args.raw or self._privacy:
            return None
        public: list[str] = []
        for url in wanted:
            try:
                meant = named(url.strip(), context.sources)
                if not await self._reader.stays_home(PageRequest(meant, args.format, context.privacy)):
                    public.append(url)
            except FetchError:
                continue  # it is judged, and refused, on its own way
        return await read_natively(public, args.prompt, context) if public else None

    def _call_consent(self, urls: Sequence[str], args: WebFetchArguments, context: ToolContext) -> CallConsent:
        """The consent for all pages of a call, by the addresses that are really read."""
        pages = []
        for url in urls:
            with contextlib.suppress(FetchError):
                pages.append(named(url.strip(), context.sources))
        return CallConsent(self._consent, [PageRequest(url, args.format).address for url in pages], context)

    async def _page(self, url: str, args: WebFetchArguments, consent: CallConsent) -> Page:
        """The page from the store or the web. Of calls for one page at one time, the first loads it for all."""
        session = consent.context.holder
        async with self._twins.hold((session, url)):
            kept = None if args.fresh or args.raw else self._pages.look(session, (url, args.format))
            if kept is not None:
                return replace(kept[0], requests=0, age=kept[1])
            page, share = await self._counted(url, args, consent)
            for other in () if args.raw else (args.format,) if page.kind in _RENDERED else _FORMATS:
                self._pages.put(session, (url, other), page, len(page.content.text), share=share)
            return page

    async def _counted(self, url: str, args: WebFetchArguments, consent: CallConsent) -> tuple[Page, bool]:
        """`_load`, with every step that was taken noted in the ledger by its host."""
        steps: Sequence[Mapping[str, object]] = ()
        try:
            page, share = await self._load(url, args, consent)
            steps = page.attempts
        except FetchError as error:
            invented = isinstance(error, AddressBlocked) and error.invented
            steps = error.attempts or [{"step": _INVENTED if invented else "local", "outcome": error.kind}]
            raise
        finally:
            self._ledger.note(*_lookups(self.name, host_of(url), steps))
        return page, share

    async def _load(self, url: str, args: WebFetchArguments, consent: CallConsent) -> tuple[Page, bool]:
        """The page from the web, and whether other chats may be given it.

        No slot is held while the owner is asked, who may take minutes.
        """
        context = consent.context
        want = PageRequest(url, args.format, context.privacy, context.call_id, scripts=args.raw)
        try:
            async with self._slots.hold(host_of(url)):
                page = await self._reader.read(want)
        except AddressBlocked as refusal:
            opened = await consent.open(PageRequest(url, args.format).address, refusal)
        else:
            return page, not (page.no_store or self._privacy or context.privacy or keeps_home(url))
        async with self._slots.hold(host_of(url)):
            return await self._reader.read(replace(want, opened=opened)), False

    def addresses(self, arguments: Mapping[str, object], context: ToolContext) -> tuple[str, ...]:
        """The pages that a call names, also by their numbers and in its prompt."""
        try:
            args = WebFetchArguments.model_validate(self.canonical(arguments))
        except ValidationError:
            return ()  # such a call is answered with what is wrong with it
        found = []
        for url in args.urls or ([args.url] if args.url else asked_urls(args.prompt).urls):
            with contextlib.suppress(FetchError):
                found.append(named(url.strip(), context.sources))
        return tuple(found)

    def asks(self, url: str) -> bool:
        return self._reader.asks(url)

    def needs_no_network(self, arguments: Mapping[str, object], context: ToolContext) -> bool:
        """Paging through a kept page costs nothing, nor does waiting for a call that loads the same page right now."""
        try:
            args = WebFetchArguments.model_validate(self.canonical(arguments))
            urls = [named(url.strip(), context.sources) for url in (args.urls or [args.url])]
        except (ValidationError, FetchError):
            return False
        if args.fresh or args.raw or args.prompt:
            return False
        session = context.holder
        if all(self._twins.held((session, url)) for url in urls):
            return True
        paging = bool(args.offset or args.find.strip() or args.section.strip())
        return paging and all(self._pages.look(session, (url, args.format)) is not None for url in urls)

    async def _save(self, image: PageImage) -> tuple[Media, ...]:
        """The image as a file under the media folder, named by its content."""
        if self._media_dir is None:
            return ()
        ending = image.info.mime.partition("/")[2].replace("jpeg", "jpg")
        name = f"{hashlib.sha256(image.data).hexdigest()[:16]}.{ending}"
        path = self._media_dir / "web" / name

        def write() -> None:
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            path.write_bytes(image.data)

        await asyncio.to_thread(write)
        inline = image.info.mime == "application/pdf"
        return (Media(str(path), image.info.mime, name, len(image.data), inline=inline),)

    def _result(self, page: Page, part: PagePart, context: ToolContext, media: tuple[Media, ...]) -> ToolResult:
        text = part.text
        source = context.sources.add(
            page.url, title_of(page), retrieved_at=page.retrieved_at, read=True, text=_said(page)
        )
        facts: dict[str, object] = {
            "url": page.url,
            "finalUrl": page.final_url,
            "status": page.status,
            "extractor": page.content.extractor,
            "truncated": part.truncated,
            "length": len(text),
        }
        notes = [*([f"{page.way}."] if "failed" in page.way else []), *page.notes, *part.notes]
        if self._config.render == "json":
            shown = json.dumps({**facts, "text": text}, ensure_ascii=False)
        else:
            above = head(source, page, part, facts, metadata=self._config.extract.metadata)
            shown = "\n\n".join(one for one in (above, text, _bracketed(notes)) if one)
        line = summary(page, source, len(text))
        extras = {
            **facts,
            "kind": page.kind,
            "bytes": page.size,
            "requests": page.requests,
            "total": len(page.content.text),
            "next": part.next,
            "age": page.age,
            "notes": notes,
            "how": page.content.how,
            "attempts": [dict(one) for one in page.attempts],
            "site": page.content.site,
            "author": page.content.author,
            "published": page.content.published,
            "language": page.content.language,
        }
        return ToolResult(shown, line, media=media, sources=(source,), extras=extras, untrusted=True)


def _lookups(tool: str, host: str, steps: Sequence[Mapping[str, object]]) -> Iterator[Lookup]:
    """The steps that asked somebody."""
    for step in steps:
        outcome, seconds = str(step["outcome"]), step.get("seconds")
        if not outcome.startswith("not asked"):
            taken = seconds if isinstance(seconds, float) else 0.0
            yield Lookup(tool, str(step["step"]), host, "" if outcome == "ok" else "failed", taken)


def _failed(error: FetchError, url: str) -> ToolResult:
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
    result = error_result(error.kind, str(error), message=why(error, url), **extras)
    return replace(result, untrusted=error.kind in ("http_status", "no_content", "login_wall"))


def _shown(page: Page, args: WebFetchArguments, most: int) -> PagePart:
    """The part of the page that a call wants."""
    if args.section.strip():
        return section_of(page, args.section.strip(), most)
    if args.find.strip():
        return places_of(page, args.find, most)
    return window_of(page, args.offset, most, args.format)


def _said(page: Page) -> str:
    """All that a citation of the page may rest on: its text, and what its head says of it."""
    content = page.content
    head = (content.title, content.site, content.author, content.published)
    return "\n".join(part for part in (*head, content.text) if part)


def _bracketed(notes: list[str]) -> str:
    return "\n".join(f"[{note}]" for note in notes)
