"""What every wire to a model server does: files of a message read, a request sent, the events of its answer read."""

import asyncio
import base64
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Iterator
from contextlib import aclosing
from pathlib import Path

from nanobot.errors import ProviderError
from nanobot.messages import AssistantMessage, Completed, Delta, Media, Text, UserPart
from nanobot.providers import jsonval
from nanobot.providers.answer import CallSlots
from nanobot.providers.base import Capabilities, ProviderInfo, Request
from nanobot.providers.failures import Origin, failure, from_event
from nanobot.providers.http import Endpoint, Link, list_models
from nanobot.providers.page_reading import read_pages
from nanobot.utils.text import nearest

JsonObject = dict[str, object]
PDF_TYPE = "application/pdf"
_IMAGE_TYPES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
#: Bytes of a file: 5 MB as base64 is the smallest limit for images among the vendors (Anthropic).
_IMAGE_LIMIT, _PDF_LIMIT = 3_750_000, 10_000_000


class AnswerReader(ABC):
    """Collects one answer from the parsed events of its stream. `streamed` tells that something was passed on."""

    def __init__(self, origin: Origin, model: str) -> None:
        self.origin = origin
        self.model = model
        self.slots = CallSlots()
        self.raw_finish = ""
        self.stopped = False
        self.streamed = False

    @property
    @abstractmethod
    def partial(self) -> str:
        """The text so far."""

    @property
    def complete(self) -> bool:
        """True once the reason of the end came; only figures may follow."""
        return self.stopped or bool(self.raw_finish)

    def done(self) -> None:
        """`[DONE]` came; an answer without a reason counts as stopped where the wire ends so."""
        return

    @abstractmethod
    def feed(self, event: JsonObject) -> Iterator[Delta]:
        """The deltas of one event. Raises `ProviderError` where it is an error."""

    def end(self) -> Iterator[Delta]:
        """What was held back while it could still be something else."""
        return iter(())

    @abstractmethod
    def message(self) -> AssistantMessage:
        """The whole answer. Raises `ProviderError` where it is empty."""


class WireProvider(ABC):
    """A model behind a wire. One object per model; requests may run at the same time.

    A wire says where its requests go, writes their bodies, and reads the answers.
    """

    path: str

    def __init__(self, info: ProviderInfo, endpoint: Endpoint) -> None:
        self.info = info
        self._link = Link(endpoint)
        self._origin = endpoint.origin
        #: Optional fields that this server has refused.
        self.dropped: set[str] = set()

    @abstractmethod
    def build(self, request: Request) -> bytes:
        """The body of a request. Files are read now."""

    @abstractmethod
    def reader(self, request: Request) -> AnswerReader: ...

    @abstractmethod
    def adapted(self, refusal: str, request: Request) -> bool:
        """True when the refusal named what can be left out or said otherwise: then it is worth a new try."""

    async def aclose(self) -> None:
        await self._link.aclose()

    async def stream(self, request: Request) -> AsyncIterator[Delta]:
        if request.pages:
            yield await read_pages(self.info, self._link, request)
            return
        files = any(isinstance(part, Media) for message in request.messages for part in message.content)
        for _ in range(3):
            body = await asyncio.to_thread(self.build, request) if files else self.build(request)
            try:
                async with aclosing(self._answer(self.reader(request), body)) as deltas:
                    async for delta in deltas:
                        yield delta
            except ProviderError as error:
                refused = error.kind == "bad_request" and error.status in {400, 422}
                if refused and self.adapted(str(error), request):
                    continue
                raise
            return

    def drop(self, refusal: str, names: Iterable[str]) -> bool:
        """Leave out optional fields that a refusal names from now on; True where there are new ones."""
        named = {name for name in names if name in refusal} - self.dropped
        self.dropped |= named
        return bool(named)

    async def _answer(self, reader: AnswerReader, body: bytes) -> AsyncGenerator[Delta, None]:
        identity = ""
        try:
            async with aclosing(self._link.post(self.path, body)) as events:
                async for event, data, identity in events:  # noqa: B007 - the last one is kept
                    if data == "[DONE]":
                        reader.done()
                        break
                    for delta in reader.feed(self._event(event, data, reader)):
                        yield delta
                    if reader.stopped:
                        break
        except ProviderError as error:
            if not reader.complete:
                raise await self._told(error, reader) from error.__cause__
        for delta in reader.end():
            yield delta
        if not reader.complete:
            what = "the stream ended before the answer was complete"
            raise failure(self._origin, "truncated", what, partial=reader.partial)
        yield Completed(reader.message(), identity)

    def _event(self, event: str, data: str, reader: AnswerReader) -> JsonObject:
        value = jsonval.parse(data)
        if not isinstance(value, dict):
            what = f"the stream carried no JSON: {data[:200]}"
            raise failure(self._origin, "protocol", what, partial=reader.partial)
        if event == "error":
            raise from_event(self._origin, value, reader.partial)
        return value

    async def _told(self, error: ProviderError, reader: AnswerReader) -> ProviderError:
        """The error with the text before it, where a lost connection becomes `truncated`; or with the nearest model."""
        if reader.streamed and error.kind in {"network", "timeout"}:
            what = "the server fell silent" if error.kind == "timeout" else "the connection was lost"
            return failure(self._origin, "truncated", f"{what} in the middle of the answer", partial=reader.partial)
        error.partial = error.partial or reader.partial
        if not reader.streamed and error.kind == "not_found":
            near = nearest(self.info.model, await list_models(self._link.endpoint, seconds=3.0))
            if near and near != self.info.model:
                error.args = (f"{error} Did you mean {near!r}?",)
        return error


def _file_data(part: Media) -> str:
    """The file as base64, or an empty text where it cannot be sent as it is."""
    pdf = part.mime == PDF_TYPE and part.inline
    if part.mime not in _IMAGE_TYPES and not pdf:
        return ""
    path = Path(part.path)
    try:
        if path.stat().st_size > (_PDF_LIMIT if pdf else _IMAGE_LIMIT):
            return ""
        return base64.b64encode(path.read_bytes()).decode("ascii")
    except OSError:
        return ""


def _note(part: Media, *, vision: bool) -> str:
    """One plain line in place of a file that the model does not get."""
    name = part.name or Path(part.path).name
    if part.mime == PDF_TYPE and part.inline:
        return f"[file: {name}, a PDF without text, cannot be viewed by this model]"
    if not part.mime.startswith("image/"):
        return f"[file: {name} ({part.mime}), saved at {part.path}]"
    if not vision:
        return f"[image: {name}, cannot be viewed by this model]"
    if not Path(part.path).is_file():
        return f"[image: {name}, the file is gone]"
    return f"[image: {name}, cannot be sent: {part.mime}, {_IMAGE_LIMIT / 1e6:.2f} MB is the limit]"


def readable(parts: Iterable[UserPart], able: Capabilities) -> list[tuple[str, str, str]]:
    """The parts as `(kind, value, mime)`: kind `text` with its text, `image` or `pdf` with base64 data."""
    result: list[tuple[str, str, str]] = []
    for part in parts:
        if isinstance(part, Text):
            if part.text:
                result.append(("text", part.text, ""))
        elif (able.pdf if part.mime == PDF_TYPE else able.vision) and (data := _file_data(part)):
            result.append(("pdf" if part.mime == PDF_TYPE else "image", data, part.mime))
        else:
            result.append(("text", _note(part, vision=able.vision), ""))
    return result
