"""Logging in to an MCP server with OAuth, through the SDK's client: it finds the service, registers and uses PKCE.

A person opens a link, whose browser ends at an address where nobody listens, and pastes that. What a server names
beside itself has to be public and encrypted.
"""

import asyncio
import time
from urllib.parse import parse_qs, urlsplit

import httpx2
from mcp.client.auth import OAuthClientProvider, OAuthFlowError, TokenStorage
from mcp.shared.auth import (
    AuthorizationCodeResult,
    OAuthClientInformationFull,
    OAuthClientMetadata,
    OAuthMetadata,
    OAuthToken,
    ProtectedResourceMetadata,
)

from nanobot.agent.tools.mcp.tokens import LoginFile
from nanobot.agent.tools.mcp.transport import TROUBLE
from nanobot.errors import FetchError, WrongAddress
from nanobot.utils.text import one_line, shorten, strip_unsafe
from nanobot.utils.translation import _
from nanobot.web.client import Guard

#: Seconds that a person has to log in.
LOGIN_SECONDS = 600.0
#: Where the browser is sent: the person copies the address from there.
_BACK = "http://127.0.0.1:33418/callback"
_MOST_LINK = 6_000


class Login:
    """A login that waits for its person: `link` is what to open, `give` takes the address that the browser came to."""

    def __init__(self) -> None:
        loop = asyncio.get_running_loop()
        self.link: asyncio.Future[str] = loop.create_future()
        self._answer: asyncio.Future[AuthorizationCodeResult] = loop.create_future()

    def aclose(self) -> None:
        for waiting in (self.link, self._answer):
            waiting.cancel()

    async def show(self, link: str) -> None:
        """The link of the SDK. Raises `OAuthFlowError` for one that nobody should open."""
        parts = urlsplit(link)
        local = parts.hostname in ("127.0.0.1", "localhost", "::1")
        if len(link) > _MOST_LINK or not (parts.scheme == "https" or (parts.scheme == "http" and local)):
            raise _refusal("its address for logging in is neither https nor on this machine")
        self.link.set_result("".join(strip_unsafe(link).split()))

    async def wait(self) -> AuthorizationCodeResult:
        try:
            return await self._answer
        except OAuthFlowError as error:
            raise _refusal(str(error)) from None

    def give(self, address: str) -> None:
        """Take the address that the browser came to. Raises `WrongAddress` where it is not the answer to the link."""
        given = parse_qs(urlsplit(address.strip().strip("<>`")).query)
        wanted = parse_qs(urlsplit(self.link.result()).query).get("state") if self.link.done() else None
        if not wanted or given.get("state") != wanted or self._answer.done():
            raise WrongAddress(
                _(
                    "This is not the answer to the link. Open it, log in, and give the whole address that the browser "
                    "then shows: it begins with http://127.0.0.1 and holds code= and state=."
                )
            )
        if "code" in given:
            issuer = given.get("iss", [None])[0]
            self._answer.set_result(AuthorizationCodeResult(code=given["code"][0], state=wanted[0], iss=issuer))
            return
        reason = one_line(given.get("error", ["no reason given"])[0], 100)
        self._answer.set_exception(OAuthFlowError(f"the login was refused ({reason})"))


class _KeptTokens(TokenStorage):
    """What the SDK keeps of one login. During a new one nothing of an older one is known."""

    def __init__(self, file: LoginFile, key: str, *, fresh: bool) -> None:
        self.file = file
        self.key = key
        self._fresh = fresh

    async def get_tokens(self) -> OAuthToken | None:
        kept = {} if self._fresh else (await asyncio.to_thread(self.file.get, self.key)).tokens
        return OAuthToken.model_validate(kept) if kept else None

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        kept = {} if self._fresh else (await asyncio.to_thread(self.file.get, self.key)).client
        return OAuthClientInformationFull.model_validate(kept) if kept else None

    async def set_tokens(self, tokens: OAuthToken) -> None:
        ends = time.time() + tokens.expires_in if tokens.expires_in is not None else None
        kept = tokens.model_dump(mode="json", exclude_none=True)
        await asyncio.to_thread(self.file.change, self.key, tokens=kept, ends=ends)

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        kept = client_info.model_dump(mode="json", exclude_none=True)
        await asyncio.to_thread(self.file.change, self.key, client=kept)


class _Provider(OAuthClientProvider):
    """The SDK's client, which also remembers when a token ends and where it is renewed."""

    def __init__(self, url: str, kept: _KeptTokens, login: Login | None) -> None:
        self._kept = kept
        about = {
            "client_name": "nanobot",
            "redirect_uris": [_BACK],
            "grant_types": ["authorization_code", "refresh_token"],
            "token_endpoint_auth_method": "none",
        }
        client = OAuthClientMetadata.model_validate(about)
        super().__init__(url, client, kept, login.show if login else self._renew, login.wait if login else None)

    async def _initialize(self) -> None:
        await super()._initialize()
        kept = await asyncio.to_thread(self._kept.file.get, self._kept.key)
        self.context.token_expiry_time = kept.ends
        if kept.service:
            self.context.oauth_metadata = OAuthMetadata.model_validate(kept.service)
        if kept.resource:
            self.context.protected_resource_metadata = ProtectedResourceMetadata.model_validate(kept.resource)

    async def _renew(self, _link: str) -> None:
        """The server takes the token no more, though it has not ended: the next connection renews it first."""
        await asyncio.to_thread(self._kept.file.change, self._kept.key, ends=0.0)
        raise _refusal("it wants a new login")

    async def _handle_token_response(self, response: httpx2.Response) -> None:
        await super()._handle_token_response(response)
        found = {"service": self.context.oauth_metadata, "resource": self.context.protected_resource_metadata}
        fields = {name: one.model_dump(mode="json", exclude_none=True) for name, one in found.items() if one}
        await asyncio.to_thread(self._kept.file.change, self._kept.key, **fields)


def _refusal(why: str) -> OAuthFlowError:
    """What ends a login, noted for the request that waits for it: the SDK may hide it behind a closed connection."""
    TROUBLE.get().login = why
    return OAuthFlowError(why)


def provider_of(url: str, file: LoginFile, key: str, login: Login | None) -> httpx2.Auth:
    """What logs requests to `url` in: for a `login`, or by what is kept of an earlier one."""
    return _Provider(url, _KeptTokens(file, key, fresh=login is not None), login)


async def judge_other(url: str, request: httpx2.Request, guard: Guard) -> None:
    """Refuse a request of a login to another origin than that of the server, unless it is public and encrypted.

    Raises `OAuthFlowError`.
    """
    own, other = httpx2.URL(url), request.url
    if (own.scheme, own.host, own.port) == (other.scheme, other.host, other.port):
        return
    if other.scheme != "https":
        raise _refusal(f"it sends logins to {shorten(other.host, 80)}, which is not encrypted")
    try:
        await guard.addresses(other.host, other.port or 443)
    except FetchError as error:
        raise _refusal(f"it sends logins to {shorten(other.host, 80)}, which may not be reached: {error}") from error
