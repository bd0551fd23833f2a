"""The tool that reads pages: what a call means, and the way from its URLs to its result.

Each page comes from `WebPages`; `nanobot.web.fetch.parts` cuts what is shown of it; `page_answers` has a model answer
a prompt; `page_results` writes the result.
"""

import asyncio
import contextlib
import re
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from nanobot import jsonval
from nanobot.agent.tools.base import ToolContext
from nanobot.agent.tools.deferred import OwnTool
from nanobot.agent.tools.media import keep_media
from nanobot.agent.tools.offers import WebFetchArguments, named
from nanobot.agent.tools.web.answers import answer_from, answer_natively
from nanobot.agent.tools.web.pages import WebPages
from nanobot.agent.tools.web.results import (
    ShownPage,
    Style,
    answered,
    answered_elsewhere,
    beside,
    failed,
    joined,
    title_of,
)
from nanobot.config.proxy import Proxies
from nanobot.config.schema_web import WebFetchConfig
from nanobot.errors import FetchError, ProviderError
from nanobot.messages import Media
from nanobot.results import ToolResult
from nanobot.security.policy import Effect
from nanobot.utils.text import shares, squeeze
from nanobot.utils.translation import _, _n
from nanobot.web.client import Network
from nanobot.web.fetch.page import Page, PageImage, PageRequest, PluginReader
from nanobot.web.fetch.parts import PagePart, places_of, section_of, window_of
from nanobot.web.fetch.reader import PageReader
from nanobot.web.urls import extract_urls
from nanobot.web.usage import UsageLedger

MOST_URLS = 20
#: Characters for all pages of one call together.
MANY_CHARS = 100_000
#: What the head, the notes and the status line of one page take at most, roughly.
_HEAD_CHARS = 700
_NO_PROMPT = "The 'prompt' parameter cannot be empty and must contain URL(s) and instructions."
_NO_URL = "The 'prompt' must contain at least one valid URL."
_SECTION_ALONE = "'section' does not go with 'offset' or 'find'"
#: So many pages that what reading them costs is said before.
_MANY = 5
_TARGETS = frozenset({"url", "urls", "prompt"})
_NO_MODEL = "No model has read these pages for you."


class Asked(Struct, frozen=True):
    """What a prompt names: its URLs, the words around them, why it cannot be used, and what was meant for a URL."""

    urls: tuple[str, ...]
    question: str
    problem: str = ""
    malformed: tuple[str, ...] = ()


def asked_urls(prompt: str) -> Asked:
    """The pages and the question of a prompt."""
    if not prompt.strip():
        return Asked((), "", _NO_PROMPT)
    found = extract_urls(prompt)
    question = prompt
    for url in sorted(found.urls, key=len, reverse=True):
        question = question.replace(url, " ")
    wrong = f" Not valid: {', '.join(found.malformed)}." if found.malformed else ""
    return Asked(found.urls, squeeze(question), "" if found.urls else _NO_URL + wrong, found.malformed)


def _as_meant(given: Mapping[str, object]) -> dict[str, object]:
    """The arguments of a call whose targets came in another shape: a list in `url`, a text in `urls`, empty ones."""
    meant = dict(given)
    if isinstance(form := meant.get("format"), str):
        meant["format"] = {"md": "markdown"}.get(form.strip().lower(), form.strip().lower())
    if isinstance(url := meant.get("url"), list):
        meant |= {"url": "", "urls": meant.get("urls") or url}
    if isinstance(urls := meant.get("urls"), str):
        parts = jsonval.items(jsonval.parse(urls)) or re.findall(r"(?:[^\s,]|,(?!\s|$|https?://|www\.|#))+", urls)
        found = extract_urls(urls).urls  # numbers of pages, and addresses without a scheme, are none of these
        meant["urls"] = found if len(found) >= len(parts) else parts
    elif isinstance(urls, list):
        meant["urls"] = [url for url in urls if url != ""]
    full = {name: value for name, value in meant.items() if name not in _TARGETS or value not in ("", [], ())}
    return full if full.keys() & _TARGETS else meant


class WebFetchTool(OwnTool[WebFetchArguments], name="web_fetch"):
    """`web_fetch`: reads a page through the guarded client and pages through it from memory.

    `whitelist` are the operator's exceptions (nets, addresses, names); `media_dir` is where images go, None keeps none.
    `env` holds keys and proxies that the configuration does not name; `privacy` is privacy mode for every chat.
    `clock` gives the seconds by which a kept page grows old; `ledger` counts what is
    read; `readers` are those of plug-ins. Call `aclose` at the end.
    """

    def __init__(
        self,
        config: WebFetchConfig,
        *,
        proxy: str | None = None,
        whitelist: Sequence[str] = (),
        media_dir: Path | None = None,
        network: Network | None = None,
        env: Mapping[str, str] | None = None,
        privacy: bool = False,
        clock: Callable[[], float] = time.monotonic,
        ledger: UsageLedger | None = None,
        readers: Sequence[PluginReader] = (),
    ) -> None:
        self._config = config
        self._media_dir = media_dir
        self._privacy = privacy
        self._style = Style(as_json=config.render == "json", metadata=config.extract.metadata)
        self._reader = PageReader(
            config,
            proxies=Proxies(proxy, env or {}),
            whitelist=whitelist,
            network=network,
            env=env,
            plugins=readers,
        )
        self._pages = WebPages(self._reader, config.concurrency, ledger or UsageLedger(), clock)

    async def aclose(self) -> None:
        """End the worker processes and connections."""
        await self._reader.aclose()

    def problems(self) -> str:
        """What keeps pages from being read, as a line for /status: DNS of a proxy, what readers elsewhere lack."""
        lacking = [f"Reading by {name}: {one.missing}" for name, one in self._reader.remote.items() if one.missing]
        return "; ".join([*lacking, *([] if self._config.fake_ip else self._pages.invented())])

    async def look(self, request: PageRequest, timeout: float) -> Page:
        """A page as it is now, read by this machine alone, within `timeout` seconds. Raises `FetchError`."""
        return await self._pages.look(request, timeout)

    def read(self, given: Mapping[str, object]) -> WebFetchArguments:
        """Exactly one of `url`, `urls` and a `prompt` that names pages; a prompt without any goes with the others."""
        meant = _as_meant(given)
        args = super().read(meant)
        targets = meant.keys() & _TARGETS
        if len(targets) > 1 and not extract_urls(args.prompt).urls:
            targets -= {"prompt"}
        alone = "url" in targets and not args.prompt.strip()
        wrong = (
            (not targets, "parameter 'url' is missing"),
            (len(targets) > 1, f"give exactly one of 'url', 'urls' and 'prompt', not {' and '.join(sorted(targets))}"),
            (args.offset and not alone, "'offset' goes with 'url' only"),
            (args.section.strip() and not alone, "'section' goes with 'url' only"),
            (args.section.strip() and bool(args.offset or args.find.strip()), _SECTION_ALONE),
            ("prompt" in targets, asked_urls(args.prompt).problem),
        )
        if reason := next((words for is_so, words in wrong if is_so and words), ""):
            raise ValueError(reason)
        return args

    async def run(self, args: WebFetchArguments, context: ToolContext) -> ToolResult:
        if args.urls or args.prompt.strip():
            return await self._many(args, context)
        try:
            request = self._request(args.url, args, context)
            page = await self._pages.get(request, self._pages.consent([request], context), fresh=args.fresh)
        except FetchError as error:
            return failed(error, args.url.strip())
        shown = await self._shown(page, args, args.max_chars or self._config.max_chars, context)
        return shown.result(self._style)

    async def _many(self, args: WebFetchArguments, context: ToolContext) -> ToolResult:
        """All pages under one budget; one that is too long for its share gives the places that the prompt is about."""
        asked = asked_urls(args.prompt)
        wanted = tuple(dict.fromkeys(_urls_of(args)))
        errors = dict.fromkeys(wanted[MOST_URLS:], _unread(f"only the first {MOST_URLS} URLs of a call are."))
        errors |= dict.fromkeys(asked.malformed, _unread("this is no valid URL."))
        requests: dict[str, PageRequest] = {}
        for url in wanted[:MOST_URLS]:
            try:
                requests[url] = self._request(url, args, context)
            except FetchError as error:
                errors[url] = error
        native = await self._natively(requests, args, context)
        if native is not None and not requests and not errors:
            return native
        pages = await self._gathered(requests, errors, args, context)
        most = shares([len(page.content.text) for page in pages], args.max_chars or room_for(len(requests), context))
        shown = [
            await self._shown(page, args, share, context, asked.question)
            for page, share in zip(pages, most, strict=True)
        ]
        unread = {url: errors[url] for url in (*wanted, *asked.malformed) if url in errors}
        rest = await self._told(shown, unread, args.prompt if asked.question else "", context)
        return rest if native is None else beside(native, rest)

    def _request(self, url: str, args: WebFetchArguments, context: ToolContext) -> PageRequest:
        """The page that a call means by `url`. Raises `FetchError` where it names the number of no page."""
        private = context.privacy or self._privacy
        meant = named(url.strip(), context.sources)
        return PageRequest(meant, args.format, private, context.call_id, scripts=args.raw)

    async def _gathered(
        self,
        requests: Mapping[str, PageRequest],
        errors: dict[str, FetchError],
        args: WebFetchArguments,
        context: ToolContext,
    ) -> list[Page]:
        """The pages that could be read, in the order that was asked; what fails goes to `errors` and hinders none."""
        consent = self._pages.consent(requests.values(), context)
        got: dict[str, Page] = {}

        async def read(url: str, request: PageRequest) -> None:
            try:
                got[url] = await self._pages.get(request, consent, fresh=args.fresh)
            except FetchError as error:
                errors[url] = error

        async with asyncio.TaskGroup() as group:
            for url, request in requests.items():
                group.create_task(read(url, request))
        return [got[url] for url in requests if url in got]

    async def _natively(
        self, requests: dict[str, PageRequest], args: WebFetchArguments, context: ToolContext
    ) -> ToolResult | None:
        """What the model's own service makes of public pages, which leave `requests`; None where it reads none."""
        asked = self._config.native and args.prompt.strip() and context.read_pages is not None
        if not asked or args.raw or self._privacy:
            return None
        public: dict[str, str] = {}
        for url, request in requests.items():
            with contextlib.suppress(FetchError):  # what is refused is judged, and told, on its own way
                if not await self._reader.stays_home(request):
                    public[url] = request.url
        native = await answer_natively(public, args.prompt, context)
        if native is None:
            return None
        text, sources = native
        for url in [url for url, meant in public.items() if meant in {source.url for source in sources}]:
            del requests[url]
        return answered_elsewhere(text, sources)

    async def _told(
        self, shown: Sequence[ShownPage], unread: Mapping[str, FetchError], prompt: str, context: ToolContext
    ) -> ToolResult:
        """The model's answer to `prompt` from the whole pages; where there is none, what was found in them."""
        if not prompt or context.ask is None or not any(one.page.content.text.strip() for one in shown):
            return joined(shown, unread, self._style, notice=_NO_MODEL if prompt else "")
        cost = await context.estimate(len(shown), 1) if len(shown) >= _MANY else ""
        reads = _n("The model reads {number} page", "The model reads {number} pages", len(shown))
        await context.progress(_("{what}: {cost}", what=reads, cost=cost) if cost else reads)
        pages = [(one.source, one.page.content.text) for one in shown if one.page.content.text.strip()]
        try:
            text, notes = await answer_from(pages, prompt, context.ask, context.ask_room)
        except ProviderError as error:
            notice = f"The model could not read these pages for you ({error.brief})."
            return joined(shown, unread, self._style, notice=notice)
        return answered(text, notes, shown, unread)

    async def _shown(
        self, page: Page, args: WebFetchArguments, most: int, context: ToolContext, question: str = ""
    ) -> ShownPage:
        """The page with the part that a call wants, and with its number."""
        media = await self._save(page.image) if page.image else ()
        part = await asyncio.to_thread(_part, page, args, most, question)
        said = page.content
        text = "\n".join(one for one in (said.title, said.site, said.author, said.published, said.text) if one)
        source = context.sources.add(page.url, title_of(page), retrieved_at=page.retrieved_at, read=True, text=text)
        return ShownPage(source, page, part, media)

    async def _save(self, image: PageImage) -> tuple[Media, ...]:
        if self._media_dir is None:
            return ()
        kept = await asyncio.to_thread(keep_media, self._media_dir / "web", image.data, image.info.mime)
        return (replace(kept, inline=image.info.mime == "application/pdf"),)

    def addresses(self, arguments: Mapping[str, object], context: ToolContext) -> tuple[str, ...]:
        """The pages that a call names, also by their numbers and in its prompt."""
        args = self.meant(arguments)
        found = []
        for url in _urls_of(args) if args is not None else ():
            with contextlib.suppress(FetchError):
                found.append(named(url.strip(), context.sources))
        return tuple(found)

    def reach(self, url: str) -> Effect:
        if self._reader.asks(url):
            return Effect("lookup", url)
        return Effect("address", url, reason=self._reader.refuses(url))

    def needs_no_network(self, arguments: Mapping[str, object], context: ToolContext) -> bool:
        """Paging through a kept page costs nothing, nor does waiting for a call that loads the same page right now."""
        args = self.meant(arguments)
        if args is None or args.fresh or args.raw or args.prompt:
            return False
        try:
            requests = [self._request(url, args, context) for url in _urls_of(args)]
        except FetchError:
            return False
        paging = bool(args.offset or args.find.strip() or args.section.strip())
        return self._pages.loading(requests, context) or (paging and self._pages.kept(requests, context))


def _urls_of(args: WebFetchArguments) -> Sequence[str]:
    return args.urls or ((args.url,) if args.url else asked_urls(args.prompt).urls)


def _unread(reason: str) -> FetchError:
    return FetchError("invalid_input", reason)


def room_for(pages: int, context: ToolContext) -> int:
    """Characters of text for `pages` pages, so that the runner need not cut the last of them away."""
    if context.result_chars is None:
        return MANY_CHARS
    return max(100 * pages, min(MANY_CHARS, context.result_chars - _HEAD_CHARS * (pages + 1)))


def _part(page: Page, args: WebFetchArguments, most: int, question: str) -> PagePart:
    """The part of the page that a call wants; of a page that is too long the places that its question is about."""
    if args.section.strip():
        return section_of(page, args.section.strip(), most)
    if args.find.strip():
        return places_of(page, args.find, most)
    if question and len(page.content.text) > most:
        part = places_of(page, question, most)
        if part.text:
            return part
    return window_of(page, args.offset, most, args.format)
