"""Readers elsewhere: a configured service, Jina's reader and Firecrawl. Each turns a URL into text in one request.

Their addresses are the operator's or fixed; their answers are content from outside. Every failure is a `FetchError`;
what may pass is tried once more.
"""

import asyncio
import re
from collections.abc import Callable, Mapping
from typing import ClassVar, Literal
from urllib.parse import quote

from msgspec.structs import replace

from nanobot.errors import FetchError, FetchErrorKind
from nanobot.jsonval import at, obj, text
from nanobot.utils.text import retry_after
from nanobot.utils.translation import _
from nanobot.web.extract.page import Extracted
from nanobot.web.fetch.content import content_type, first_heading
from nanobot.web.fetch.download import RETRY_AFTER_MOST, RETRY_WAIT
from nanobot.web.service import Ask, NoAnswer, ServiceAccess, ServiceAnswer, ServiceClient
from nanobot.web.urls import host_of

Step = Literal["service", "local", "plugin", "jina", "firecrawl"]

MAX_BYTES = 10_485_760
_PASSING = frozenset({408, 429, 500, 502, 503, 504})
_HTML = r"\s*<(?:!doctype|html|head|body)\b"
_KINDS: Mapping[NoAnswer, FetchErrorKind] = {
    "timeout": "timeout",
    "proxy unusable": "service",
    "proxy refused": "network",
    "address": "network",
    "network": "network",
    "too_large": "too_large",
}


class RemoteReader:
    """A reader elsewhere: what it is asked (`request`) and what its answer says of the page (`extracted`)."""

    name: ClassVar[Step]
    label: ClassVar[str]

    def __init__(self, access: Callable[[], ServiceAccess]) -> None:
        self._access = access
        self._client = ServiceClient(access, self._no_answer, most=MAX_BYTES)

    @property
    def access(self) -> ServiceAccess:
        """How it is reached now: a changed key counts at once."""
        return self._access()

    @property
    def missing(self) -> str:
        """What the reader lacks to be asked; empty where it lacks nothing."""
        return ""

    def request(self, url: str, timeout: float) -> Ask:
        """The request for a page, without the login. `timeout` is in seconds."""
        raise NotImplementedError

    def extracted(self, url: str, answer: ServiceAnswer) -> Extracted:
        """The page in an answer. Raises `FetchError` where there is none."""
        raise NotImplementedError

    async def read(self, url: str, *, call_id: str, timeout: float) -> Extracted:
        """The text of `url`. `timeout` is in seconds. Raises `FetchError` only."""
        if self.access.problem:
            raise self.error("auth", self.access.problem)
        ask = self.request(url, timeout)
        ask = replace(ask, headers=self._headers(ask.headers, call_id))
        return self.extracted(url, await self._twice(ask, timeout))

    async def aclose(self) -> None:
        await self._client.aclose()

    async def _twice(self, ask: Ask, timeout: float) -> ServiceAnswer:
        """The answer with status 200; anything else raises. A passing fault is tried once more in the same time."""
        clock = asyncio.get_running_loop().time
        deadline = clock() + timeout
        last = False
        while True:
            wait = RETRY_WAIT
            try:
                answer = await self._client.send(ask, timeout=deadline - clock())
            except FetchError as error:
                if last or error.kind != "network":
                    raise
            else:
                if answer.status == 200:
                    return answer
                asked = retry_after(answer.headers.get("retry-after", ""))
                wait = RETRY_WAIT if asked is None else asked
                if last or answer.status not in _PASSING or wait > min(RETRY_AFTER_MOST, deadline - clock()):
                    raise self._refusal(answer)
            await asyncio.sleep(wait)
            last = True

    def _headers(self, headers: Mapping[str, str], call_id: str) -> dict[str, str]:
        """The login, then what the reader wants, and the tool call's id."""
        key, name = self.access.api_key, self.access.call_id_header
        call = {name: re.sub(r"[^\x21-\x7e]", "", call_id)[:200]} if name and call_id else {}
        return {**({"Authorization": f"Bearer {key}"} if key else {}), **headers, **call}

    def _refusal(self, answer: ServiceAnswer) -> FetchError:
        status = answer.status
        error = self.error(
            "auth" if status in (401, 403) else "rate_limited" if status == 429 else "service", f"HTTP {status}"
        )
        error.status = status
        error.retry_after = retry_after(answer.headers.get("retry-after", ""))
        return error

    def _no_answer(self, why: NoAnswer, words: str, proxy: str | None) -> FetchError:
        del proxy
        said = _("no answer {when}", when=words) if why == "timeout" else self._client.clean(words)
        return self.error(_KINDS[why], said)

    def error(self, kind: FetchErrorKind, what: str) -> FetchError:
        return FetchError(kind, f"{self.label}: {what}", host=host_of(self.access.base_url))

    def data(self, answer: ServiceAnswer) -> dict[str, object]:
        """The `data` of a JSON answer."""
        value = answer.json()
        inner = at(value, "data")
        if not isinstance(inner, dict):
            raise self.error("service", _("the answer is no JSON") if value is None else _("the answer has no data"))
        return inner

    def target_status(self, url: str, status: int) -> FetchError:
        """The failure that the reader met at the page itself, which its own success hides."""
        said = _("{url} answered with status {status}", url=url, status=status)
        return FetchError("http_status", f"{self.label}: {said}", status=status)


class ConfiguredService(RemoteReader):
    """`POST baseUrl {"url": …}`, answered with the text of the page."""

    name = "service"
    label = "Fetch service"

    @property
    def missing(self) -> str:
        named = self.access.override_auth and any(name.lower() == "authorization" for name in self.access.headers)
        return "" if self.access.api_key or named else _("Fetch service not configured: its key is missing")

    def request(self, url: str, timeout: float) -> Ask:  # noqa: ARG002 - it is not told
        return Ask(self.access.base_url, {"url": url}, headers={"Accept": "text/markdown"})

    def extracted(self, url: str, answer: ServiceAnswer) -> Extracted:  # noqa: ARG002
        mime = content_type(answer.headers.get("content-type", "")).mime
        if (mime and not mime.startswith("text/")) or re.match(_HTML, answer.text, re.IGNORECASE):
            raise self.error("service", _("the answer is {mime}, no text", mime=mime or "HTML"))
        if not answer.text.strip():
            raise self.error("service", _("the answer is empty"))
        return Extracted(first_heading(answer.text), answer.text, "service")


class JinaReader(RemoteReader):
    """Jina's reader, which runs a page's JavaScript. Works without a key at a low rate."""

    name = "jina"
    label = "Jina reader"

    def request(self, url: str, timeout: float) -> Ask:
        headers = {"Accept": "application/json", "DNT": "1", "X-Timeout": f"{max(1, int(timeout))}"}
        # Quoted whole, for a `..` in the target would be folded into another target, or a page of the reader's own.
        return Ask(f"{self.access.base_url.rstrip('/')}/{quote(url, safe='')}", headers=headers)

    def extracted(self, url: str, answer: ServiceAnswer) -> Extracted:
        data = self.data(answer)
        failed = re.search(r"returned error (\d{3})", text(data.get("warning")), re.IGNORECASE)
        if failed:
            raise self.target_status(url, int(failed[1]))
        content = text(data.get("content"))
        if not content.strip():
            raise self.error("service", _("it found no text"))
        return Extracted(text(data.get("title")), content, "jina", published=text(data.get("publishedTime")))


class FirecrawlReader(RemoteReader):
    """Firecrawl's scrape, which runs a page's JavaScript. A few pages a day work without a key."""

    name = "firecrawl"
    label = "Firecrawl"

    def request(self, url: str, timeout: float) -> Ask:
        body: dict[str, object] = {
            "url": url,
            "formats": ["markdown"],
            "onlyMainContent": True,
            "skipTlsVerification": False,
            "timeout": max(1_000, int(timeout * 1_000)),
        }
        return Ask(f"{self.access.base_url.rstrip('/')}/scrape", body)

    def extracted(self, url: str, answer: ServiceAnswer) -> Extracted:
        data = self.data(answer)
        facts = obj(data.get("metadata"))
        status = facts.get("statusCode")
        if isinstance(status, int) and status >= 400:
            raise self.target_status(url, status)
        found = text(data.get("markdown"))
        if not found.strip():
            raise self.error("service", _("it found no text"))
        site, author = text(facts.get("ogSiteName")), text(facts.get("author"))
        title, language = text(facts.get("title")), text(facts.get("language"))
        return Extracted(title, found, "firecrawl", site, author, language=language)
