"""Chat Completions, the wire that nearly every model server speaks."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing

from nanobot.errors import ProviderError
from nanobot.messages import Completed, Delta
from nanobot.providers import jsonval
from nanobot.providers.answer import cut
from nanobot.providers.attachments import has_media
from nanobot.providers.base import ProviderInfo, Request
from nanobot.providers.chat_body import ChatBody
from nanobot.providers.chat_stream import ChatReader
from nanobot.providers.failures import failure, from_event
from nanobot.providers.http import Endpoint, Link, broken_off, described
from nanobot.providers.page_reading import read_pages
from nanobot.providers.vendors import Quirks

#: Optional fields that a server may not know; one that it names in a refusal is left out from then on.
_OPTIONAL = (
    "stream_options",
    "temperature",
    "reasoning_effort",
    "reasoning_split",
    "reasoning",
    "thinking",
    "enable_thinking",
    "chat_template_kwargs",
    "prompt_cache_key",
)


class OpenAICompatProvider:
    """A model behind Chat Completions. One object per model; requests may run at the same time."""

    def __init__(self, info: ProviderInfo, endpoint: Endpoint, quirks: Quirks | None = None) -> None:
        self._info = info
        self._quirks = quirks or Quirks()
        self._link = Link(endpoint)
        self._origin = endpoint.origin
        able = info.capabilities
        self._body = ChatBody(info.model, self._quirks, vision=able.vision, pdf=able.pdf)

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
                async with aclosing(self._answer(request, body)) as deltas:
                    async for delta in deltas:
                        yield delta
            except ProviderError as error:
                if self._adapted(error):
                    continue
                raise
            return

    def _adapted(self, error: ProviderError) -> bool:
        """True when the refusal named a field that can be left out or spelled otherwise: then it is worth a new try."""
        if error.kind != "bad_request" or error.status not in {400, 422}:
            return False
        words = str(error)
        if "max_completion_tokens" in words and self._body.max_tokens_field == "max_tokens":
            self._body.max_tokens_field = "max_completion_tokens"
            return True
        if "max_completion_tokens" in words and self._body.max_tokens_field == "max_completion_tokens":
            self._body.max_tokens_field = "max_tokens"
            return True
        for name in _OPTIONAL:
            if name in words and name not in self._body.dropped:
                self._body.dropped.add(name)
                return True
        return False

    async def _answer(self, request: Request, body: bytes) -> AsyncGenerator[Delta, None]:
        tools = {tool.name for tool in request.tools} if self._quirks.text_calls else ()
        reader = ChatReader(self._origin, self._info.model, tools)
        identity = ""
        try:
            async with aclosing(self._link.post("/chat/completions", body)) as events:
                async for event, data, identity in events:  # noqa: B007 - the last one is kept
                    if data == "[DONE]":
                        reader.done()
                        break
                    for delta in reader.feed(self._chunk(event, data, reader)):
                        yield delta
        except ProviderError as error:
            if not reader.complete:
                if reader.streamed:
                    raise broken_off(self._origin, error, reader.partial) from error.__cause__
                raise await described(self._link.endpoint, self._info.model, error) from error.__cause__
        for delta in reader.end():
            yield delta
        if not reader.complete:
            raise cut(self._origin, reader.partial)
        yield Completed(reader.message(), identity)

    def _chunk(self, event: str, data: str, reader: ChatReader) -> dict[str, object]:
        value = jsonval.parse(data)
        if not isinstance(value, dict):
            what = f"the stream carried no JSON: {data[:200]}"
            raise failure(self._origin, "protocol", what, partial=reader.partial)
        if event == "error":
            raise from_event(self._origin, value, reader.partial)
        return value
