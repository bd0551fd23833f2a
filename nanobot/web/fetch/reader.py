"""Who reads a page: a configured service, this machine, a remote reader; one after the other until one succeeds.

What leaves this machine is decided here, before anybody else is asked: never a URL that the guard refuses, never one of
a private host, never one that carries what looks like a secret, and nothing at all in privacy mode. A page that was
read here goes to the remote reader only where there is a doubt about it, which the result names.
"""

import asyncio
import ipaddress
from collections.abc import Mapping, Sequence

import httpx
from msgspec import Struct
from msgspec.structs import replace

from nanobot.config.proxy import Proxies
from nanobot.config.schema_web import WebFetchConfig
from nanobot.errors import AddressBlocked, FetchError
from nanobot.security.network import HOME, Exceptions, Hosts, judge_answers, judge_url
from nanobot.utils.connections import Stream
from nanobot.utils.text import sendable
from nanobot.utils.translation import _, sentences
from nanobot.web.client import PAGE_USER_AGENT, Guard, Network, SystemNetwork, guarded_client
from nanobot.web.extract.page import Keep
from nanobot.web.extract.worker import Extractor
from nanobot.web.fetch.download import Download, Limits
from nanobot.web.fetch.local import page_of, read_here
from nanobot.web.fetch.page import Page, PageRequest, PluginReader, PrivateHost, keeps_home
from nanobot.web.fetch.remote import ConfiguredService, FirecrawlReader, JinaReader, RemoteReader, Step
from nanobot.web.service import ServiceAccess, call_id_header

#: The share of the remaining time that a remote reader may take while others stand behind it.
_SHARE = 0.6
_LEAST_SECONDS = 1.0
#: The remote readers by name, each with its address and the variable of its key.
_READERS: Mapping[str, tuple[type[RemoteReader], str, str]] = {
    "jina": (JinaReader, "https://r.jina.ai", "JINA_API_KEY"),
    "firecrawl": (FirecrawlReader, "https://api.firecrawl.dev/v2", "FIRECRAWL_API_KEY"),
}
#: Local failures after which somebody who runs JavaScript or looks like somebody else may do better.
_WORTH_ASKING = frozenset({"no_content", "unsupported_type"})
_WORTH_STATUS = frozenset({403, 406, 429, 503})


class _Pinned(Struct, frozen=True):
    """The network, in which one name has the addresses that were shown, whatever it resolves to by now."""

    network: Network
    host: PrivateHost

    async def resolve(self, host: str, port: int) -> Sequence[str]:
        if host == self.host.name:
            return [str(address) for address in self.host.addresses]
        return await self.network.resolve(host, port)

    async def connect(self, address: str, port: int, timeout: float | None) -> Stream:
        return await self.network.connect(address, port, timeout)


class PageReader:
    """Reads pages as the configuration says. Clients and workers start with the first page; call `aclose` at the end.

    `env` is asked for keys and proxies at every call. `plugins` are asked after this machine.
    """

    def __init__(
        self,
        config: WebFetchConfig,
        *,
        proxies: Proxies | None = None,
        whitelist: Sequence[str] = (),
        network: Network | None = None,
        env: Mapping[str, str] | None = None,
        plugins: Sequence[PluginReader] = (),
    ) -> None:
        hosts = Hosts.parse(config.allow, config.deny)
        exceptions = replace(Exceptions.parse(whitelist), invented=config.fake_ip, hosts=hosts)
        self._exceptions = exceptions.with_private() if config.allow_private == "allow" else exceptions
        self._config = config
        self._env = env or {}
        self._proxies = proxies or Proxies(env=self._env)
        self._guard = Guard(self._exceptions, network or SystemNetwork())
        self._client: httpx.AsyncClient | None = None
        self._extractor = Extractor()
        self.plugins = tuple(plugins)
        self.remote = self._make_remote()

    def _make_remote(self) -> dict[Step, RemoteReader]:
        """The configured remote readers by their steps."""
        found: dict[Step, RemoteReader] = {}
        own, name = self._config.service, self._config.reader
        if own.base_url:
            header = call_id_header(own.tool_call_id_header, own.base_url)
            found["service"] = ConfiguredService(
                lambda: replace(
                    self._access(own.api_key, "KIMI_FETCH_API_KEY", own.base_url),
                    headers=own.headers,
                    override_auth=own.override_auth,
                    call_id_header=header,
                )
            )
        if name != "none":
            kind, url, variable = _READERS[name]
            at = self._config.reader_url or url
            found[name] = kind(lambda: self._access(self._config.reader_key, variable, at))
        return found

    def _access(self, configured: str, variable: str, url: str) -> ServiceAccess:
        key = configured or self._env.get(variable, "").strip()
        problem = "" if sendable(key) else _("no request can carry its key; copy it again, in one piece")
        return ServiceAccess(key, url, proxies=self._proxies, problem=problem)

    @property
    def steps(self) -> tuple[Step, ...]:
        """The readers in the order in which they are asked."""
        service: list[Step] = [name for name in self.remote if name == "service"]
        reader: list[Step] = [name for name in self.remote if name != "service"]
        here: tuple[Step, ...] = ("local", "plugin") if self.plugins else ("local",)
        match self._config.order:
            case "service-first":
                return (*service, *here)
            case "reader-first":
                return (*reader, *service, *here)
            case _:
                return (*service, *here, *reader)

    async def aclose(self) -> None:
        """End the worker processes and connections."""
        await self._extractor.aclose()
        client, self._client = self._client, None
        if client is not None:
            await client.aclose()
        for reader in self.remote.values():
            await reader.aclose()

    async def read(self, request: PageRequest) -> Page:
        """The page, read by the first that can. Raises `FetchError` that names every failure."""
        return await _Reading(self, request, float(self._config.timeout)).run()

    async def local(self, request: PageRequest, timeout: float) -> Page:
        """The page, read by this machine alone. `timeout` is in seconds. Raises `FetchError`."""
        if request.opened is not None:
            guard = Guard(self._opened(request.opened), _Pinned(self._guard.network, request.opened))
            async with guarded_client(guard, proxies=self._proxies) as client:
                return await self._read_here(request, timeout, client, guard.exceptions)
        if self._client is None:
            self._client = guarded_client(self._guard, proxies=self._proxies)
        return await self._read_here(request, timeout, self._client, self._exceptions)

    async def by_plugin(self, request: PageRequest, timeout: float) -> Page:
        """The page as the first plug-in shows it that can, through a proxy that judges every address as for any page.

        `timeout` is in seconds. Raises `FetchError` that names every failure.
        """
        from nanobot.web.host_proxy import HostProxy

        url, failures = judge_url(request.url, self._exceptions).url, list[str]()
        proxy = HostProxy(self._guard, None, self._proxies.of)
        async with proxy.listen() as address:
            for one in self.plugins:
                try:
                    html = await one.read(url, proxy=address, timeout=timeout)
                    return await self._shown(request, html, one.name)
                except FetchError as error:
                    failures.append(f"{one.name}: {error}")
        raise FetchError("no_content", " ".join(failures))

    async def _shown(self, request: PageRequest, html: str, by: str) -> Page:
        """The page in the HTML that a plug-in gives."""
        said = httpx.Headers({"Content-Type": "text/html; charset=utf-8"})
        got = Download(request.url, request.url, 200, said, html.encode("utf-8", "replace"))
        page = await page_of(got, request, self._keep(request), self._extractor)
        if page.kind == "empty":
            raise FetchError("no_content", _("It showed nothing."), phase="extract")
        return replace(page, content=replace(page.content, extractor=by))

    def _keep(self, request: PageRequest) -> Keep:
        wanted = self._config.extract
        return Keep(wanted.comments, wanted.tables, wanted.links, wanted.images, request.scripts)

    async def _read_here(
        self, request: PageRequest, timeout: float, client: httpx.AsyncClient, exceptions: Exceptions
    ) -> Page:
        judge_url(request.url, exceptions)  # of a code host, the page as well as the file in its place
        config = self._config
        agent = config.user_agent or PAGE_USER_AGENT
        limits = Limits(timeout, config.max_bytes, config.retries, agent, exceptions)
        return await read_here(request, limits, self._keep(request), client=client, extractor=self._extractor)

    async def stays_home(self, request: PageRequest) -> str:
        """Why nobody else may be told of this URL; empty where they may. Raises where it may not be read at all."""
        judge_url(request.address, self._exceptions)
        if request.private:
            return _("privacy mode is on")
        if request.format == "html":
            return _("the markup itself is wanted")
        if reason := keeps_home(request.url):
            return reason
        return "" if await self._guard.is_public(request.url) else _("the address is private")

    def is_own(self, host: str) -> bool:
        """Whether the operator has opened this host, by its name or its address."""
        try:
            return self._exceptions.covers_ip(ipaddress.ip_address(host))
        except ValueError:
            return self._exceptions.covers_name(host)

    def asks(self, url: str) -> bool:
        """True where the text of `url` alone tells that it is not read before the owner was asked.

        Nothing is looked up, because that would already tell a made-up name to whoever answers for it.
        """
        try:
            return self._config.allow_private == "ask" and self._refusal(url) is not None
        except FetchError:
            return False

    def refuses(self, url: str) -> str:
        """Why the text of `url` alone tells that it is never read, in a few words; else empty."""
        try:
            refusal = self._refusal(url)
        except FetchError as error:
            return str(error).partition(". ")[0]
        return str(refusal).partition(". ")[0] if refusal and self._config.allow_private != "ask" else ""

    def _refusal(self, url: str, answers: Sequence[str] = ()) -> AddressBlocked | None:
        """Why `url`, whose host has these addresses, is not read. Raises `FetchError` where it is no address at all."""
        try:
            target = judge_url(url, self._exceptions)
            judge_answers(target.host, (str(target.address),) if target.address else answers, self._exceptions)
        except AddressBlocked as refusal:
            return refusal
        return None

    async def private_host(self, url: str) -> PrivateHost | AddressBlocked | None:
        """What the owner may open so that `url` can be read; the refusal where nobody may; None where nobody need be
        asked.

        Only addresses of home and office networks can be opened, never loopback, link-local or cloud metadata.
        """
        if self._config.allow_private != "ask":
            return None
        try:
            target = judge_url(url, self._with_name(httpx.URL(url).raw_host.decode("ascii").lower()))
            network = self._guard.network
            shown = [str(target.address)] if target.address else await network.resolve(target.host, target.port)
            addresses = tuple(map(ipaddress.ip_address, shown))
            refusal = self._refusal(url, shown)
        except (FetchError, httpx.InvalidURL, OSError, ValueError, TimeoutError):
            return None
        private = addresses and all(HOME.covers_ip(address) for address in addresses)
        return PrivateHost(target.host, addresses) if refusal and private else refusal

    def _with_name(self, host: str) -> Exceptions:
        return replace(self._exceptions, names=self._exceptions.names | {host})

    def _opened(self, host: PrivateHost) -> Exceptions:
        """The exceptions with a host that the owner opened: its name, or the address where it is named by that."""
        if host.name != str(host.addresses[0]):
            return self._with_name(host.name)
        nets = tuple(ipaddress.ip_network(str(address)) for address in host.addresses)
        return replace(self._exceptions, nets=(*self._exceptions.nets, *nets))


class _Reading:
    """One page on its way through the readers: who was asked, and what went wrong."""

    def __init__(self, reader: PageReader, request: PageRequest, seconds: float) -> None:
        self._reader = reader
        self._request = request
        self._attempts: list[dict[str, object]] = []
        self._failures: list[tuple[Step, FetchError]] = []
        self._doubtful: Page | None = None
        self._clock = asyncio.get_running_loop().time
        self._deadline = self._clock() + seconds
        self._home: str | None = None

    async def run(self) -> Page:
        steps: tuple[Step, ...] = ("local",) if self._request.opened is not None else self._reader.steps
        for step in steps:
            last = step == steps[-1]
            page = await self._asked(step, last=last)
            if page is not None and (last or not page.doubts):
                return self._finished(page)
            if step == "local":
                self._doubtful = page
                if page is None and not self._worth_asking():
                    break
        if self._doubtful is not None:
            return self._finished(self._doubtful)
        raise self._failure()

    async def _asked(self, step: Step, *, last: bool) -> Page | None:
        """The page as this reader gives it, None where it fails or may not be asked. A refused URL ends the reading."""
        started = self._clock()
        left = self._deadline - started
        try:
            if step == "local":
                page = await self._reader.local(self._request, max(_LEAST_SECONDS, left))
                outcome = "; ".join(page.doubts) or "ok"
            elif step == "plugin":
                page = await self._reader.by_plugin(self._request, max(_LEAST_SECONDS, left if last else left * _SHARE))
                outcome = "; ".join(page.doubts) or "ok"
            elif reason := await self._why_not(step, left):
                page, outcome = None, f"not asked: {reason}"  # English: it is told apart by that below
            else:
                page, outcome = await self._elsewhere(step, left if last else left * _SHARE), "ok"
        except AddressBlocked:
            raise
        except FetchError as error:
            self._failures.append((step, error))
            words = str(error).partition("\n")[0]
            page, outcome = None, words.partition(": ")[2] if step != "local" and ": " in words else words
        self._attempts.append({"step": step, "outcome": outcome, "seconds": round(self._clock() - started, 3)})
        return page

    async def _why_not(self, step: Step, left: float) -> str:
        """Why this reader is not asked; empty where it may be. The URL is judged once for all remote readers."""
        if self._home is None:
            try:
                self._home = await self._reader.stays_home(self._request)
            except AddressBlocked:
                raise
            except FetchError as error:
                self._home = str(error)
        if not self._home and (missing := self._reader.remote[step].missing):
            raise FetchError("service", missing)
        return self._home or ("" if left >= _LEAST_SECONDS else _("no time was left"))

    async def _elsewhere(self, step: Step, seconds: float) -> Page:
        local, url = self._doubtful, self._request.url
        reader = self._reader.remote[step]
        content = await reader.read(judge_url(url).url, call_id=self._request.call_id, timeout=seconds)
        size, final = len(content.text.encode()), local.final_url if local else url
        private = local is not None and local.no_store
        return Page(url, final, 200, "markdown", content, size, requests=1, no_store=private)

    def _worth_asking(self) -> bool:
        """Whether a page that failed here may be read by somebody else."""
        error = self._failures[-1][1]
        return error.kind in _WORTH_ASKING or (error.kind == "http_status" and error.status in _WORTH_STATUS)

    def _finished(self, page: Page) -> Page:
        """The page with who was asked, in words too where it was not simply read here."""
        asked = [one for one in self._attempts if not str(one["outcome"]).startswith("not asked")]
        by = page.content.extractor
        others = {*self._reader.remote, *(one.name for one in self._reader.plugins)}
        # English: a model reads it
        last = f"read by {by}" if by in others else "read locally"
        # English: a model reads it
        before = [f"{one['step']} failed: {one['outcome']}" for one in asked if one["outcome"] != "ok"]
        way = "; ".join([*before, last]) if before or last != "read locally" else ""
        return replace(page, attempts=tuple(self._attempts), way=way)

    def _failure(self) -> FetchError:
        """One error for all that failed: the local one tells the reason, the others are named beside it."""
        if not self._failures:
            return FetchError("service", _("No reader may read this page; check tools.web.fetch.order"))
        main = next((error for step, error in self._failures if step == "local"), self._failures[-1][1])
        also = [str(one[1]).rstrip(".。") for one in self._failures if one[1] is not main]
        if main.kind == "no_content" and self._home:
            also.append(_("No remote reader was asked: {why}", why=self._home))
        head, line, rest = str(main).partition("\n")
        if also:
            head = sentences(head, f"({sentences(*(_('{sentence}.', sentence=one) for one in also))})")
        return FetchError(
            main.kind,
            f"{head}{line}{rest}",
            status=main.status,
            host=main.host,
            phase=main.phase,
            retry_after=main.retry_after,
            attempts=tuple(self._attempts),
        )
