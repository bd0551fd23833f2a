"""Anthropic's Messages API, spoken by Anthropic and by some compatible services."""

import asyncio
import re
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing

from nanobot.errors import ProviderError
from nanobot.messages import Completed, Delta
from nanobot.providers import jsonval
from nanobot.providers.answer import cut
from nanobot.providers.attachments import has_media
from nanobot.providers.base import ProviderInfo, Request
from nanobot.providers.failures import failure
from nanobot.providers.http import Endpoint, Link, broken_off, described
from nanobot.providers.messages_body import MessagesBody
from nanobot.providers.messages_stream import MessagesReader
from nanobot.providers.page_reading import read_pages

VERSION = "2023-06-01"
#: Optional fields that a model may not know; one that is named in a refusal is left out from then on.
_OPTIONAL = ("temperature", "output_config", "thinking")


class AnthropicProvider:
    """A model behind the Messages API. One object per model; requests may run at the same time."""

    def __init__(self, info: ProviderInfo, endpoint: Endpoint) -> None:
        self._info = info
        self._link = Link(endpoint)
        self._origin = endpoint.origin
        self._path = "/messages" if endpoint.base_url.rstrip("/").endswith("/v1") else "/v1/messages"
        self._body = MessagesBody(info.model, vision=info.capabilities.vision, pdf=info.capabilities.pdf)

    @property
    def info(self) -> ProviderInfo:
        return self._info

    async def aclose(self) -> None:
        await self._link.aclose()

    async def stream(self, request: Request) -> AsyncIterator[Delta]:
        if request.pages:
            yield await read_pages(self._info, self._link, request)
            return
        build = self._body.build
        for _ in range(3):
            body = await asyncio.to_thread(build, request) if has_media(request) else build(request)
            try:
                async with aclosing(self._answer(body)) as deltas:
                    async for delta in deltas:
                        yield delta
            except ProviderError as error:
                if self._adapted(error, request):
                    continue
                raise
            return

    def _adapted(self, error: ProviderError, request: Request) -> bool:
        """True when the refusal named a field that can be left out, or the longest answer: worth a new try."""
        if error.kind != "bad_request" or error.status != 400:
            return False
        words = str(error)
        if request.max_tokens is None and (longest := re.search(r"max_tokens: \d+ > (\d+)", words)):
            self._body.longest = int(longest[1])
            return True
        named = {name for name in _OPTIONAL if name in words} - self._body.dropped
        self._body.dropped |= named
        return bool(named)

    async def _answer(self, body: bytes) -> AsyncGenerator[Delta, None]:
        reader = MessagesReader(self._origin, self._info.model)
        identity = ""
        try:
            async with aclosing(self._link.post(self._path, body)) as events:
                async for _, data, identity in events:  # noqa: B007 - the last one is kept
                    if data == "[DONE]":  # some compatible servers say it here too
                        break
                    for delta in reader.feed(self._event(data, reader)):
                        yield delta
                    if reader.stopped:
                        break
        except ProviderError as error:
            if not reader.complete:
                if reader.streamed:
                    raise broken_off(self._origin, error, reader.partial) from error.__cause__
                raise await described(self._link.endpoint, self._info.model, error) from error.__cause__
        if not reader.complete:
            raise cut(self._origin, reader.partial)
        yield Completed(reader.message(), identity)

    def _event(self, data: str, reader: MessagesReader) -> dict[str, object]:
        value = jsonval.parse(data)
        if not isinstance(value, dict):
            what = f"the stream carried no JSON: {data[:200]}"
            raise failure(self._origin, "protocol", what, partial=reader.partial)
        return value
