"""What every wire to a model server does: files of a message read, a request sent, the events of its answer read."""

import asyncio
import base64
import hashlib
import re
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Iterable
from contextlib import aclosing, suppress
from pathlib import Path

from msgspec import Struct, field

from nanobot import jsonval
from nanobot.errors import ProviderError
from nanobot.jsonval import JsonObject
from nanobot.messages import (
    AssistantMessage,
    Completed,
    Delta,
    Finish,
    Media,
    Text,
    TextDelta,
    ThinkingDelta,
    ToolCall,
    ToolCallDelta,
    UserPart,
)
from nanobot.providers.base import Capabilities, ProviderInfo, Request
from nanobot.providers.failures import Origin, failure, finish_of, from_event
from nanobot.providers.http import BODY_LIMIT, Endpoint, Link, is_search, list_models
from nanobot.providers.page_reading import read_pages
from nanobot.utils.text import nearest
from nanobot.utils.translation import _

PDF_TYPE = "application/pdf"
#: Seconds that a stream may take to end after the last of its answer, so that its connection is used again.
_END_SECONDS = 0.05
_IMAGE_TYPES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
#: Bytes of a file: 5 MB as base64 is the smallest limit for images among the vendors (Anthropic).
_IMAGE_LIMIT, _PDF_LIMIT = 3_750_000, 10_000_000
# English: a model reads them
_NOT_RUN: dict[Finish, str] = {
    "length": "The answer reached its length limit inside this call, so it was not run. Send it again, shorter.",
    "filtered": "The service stopped the answer inside this call, so it was not run.",
    "error": "The answer broke off inside this call, so it was not run. Send it again.",
    "truncated": "The answer broke off inside this call, so it was not run. Send it again.",
    "overflow": "The context was full inside this call, so it was not run.",
}


class GrowingCall(Struct):
    """A tool call while it arrives; `pieces` are those of its JSON text, `replay` is what its vendor needs back."""

    id: str
    name: str = ""
    pieces: list[str] = field(default_factory=list)
    replay: str = ""

    def ends_before(self, identity: str, name: str) -> bool:
        """True when a piece with this id, or this name and arguments, can only open another call."""
        if identity and self.id and identity != self.id:
            return True
        return bool(name and self.name) and isinstance(jsonval.parse("".join(self.pieces)), dict)


class AnswerReader(ABC):
    """Collects one answer from the events of its stream.

    `new` holds the deltas that were not passed on yet, `streamed` tells that there were some.
    """

    def __init__(self, origin: Origin, model: str) -> None:
        self.origin = origin
        self.model = model
        self.calls: list[GrowingCall] = []
        self.raw_finish = ""
        self.stopped = False
        self.streamed = False
        self.new = deque[Delta]()
        self._half = ""
        self._size = 0
        self._by_index: dict[int, int] = {}

    @property
    @abstractmethod
    def partial(self) -> str:
        """The text so far."""

    @abstractmethod
    def feed(self, data: bytes) -> bool:
        """Read the JSON of one event; False where it is none. Raises `ProviderError` where it is an error."""

    @abstractmethod
    def message(self) -> AssistantMessage:
        """The whole answer. Raises `ProviderError` where it is empty."""

    def end(self, *, told: bool) -> None:  # noqa: B027 - a wire may have nothing to do then
        """The stream is over, with `[DONE]` if `told`: what was held back is passed on."""

    @property
    def complete(self) -> bool:
        """True once the reason of the end came; only figures may follow."""
        return self.stopped or bool(self.raw_finish)

    def say(self, text: str, into: list[str], kind: type[TextDelta | ThinkingDelta] = TextDelta) -> None:
        if self._half or not text.isascii():
            text = self._half + text
            self._half = text[-1] if "\ud800" <= text[-1] <= "\udbff" else ""
            text = _paired(text)
        if text:
            self._grow(len(text))
            into.append(text)
            self.new.append(kind(text))

    def call(self, index: int | None, identity: str, name: str, arguments: object, replay: str = "") -> int:
        """Take one piece of a tool call, under every way vendors number them, and give the number of its call.

        A piece belongs to the call of its index; a new id on a used index starts a new call; without an index the id
        decides, else the last call.
        """
        ids = [call.id for call in self.calls]
        if index is not None:
            slot = self._by_index.get(index, len(ids))
        elif identity:
            slot = len(ids) - 1 - ids[::-1].index(identity) if identity in ids else len(ids)
        else:
            slot = max(0, len(ids) - 1)
        if slot < len(ids) and self.calls[slot].ends_before(identity, name if arguments else ""):
            slot = len(ids)
        fresh = slot == len(ids)
        if fresh:
            self.calls.append(GrowingCall(identity))
        if index is not None:
            self._by_index[index] = slot
        call = self.calls[slot]
        piece = arguments if isinstance(arguments, str) else jsonval.compact(arguments) if arguments else ""
        self.new.append(ToolCallDelta(slot, identity if fresh else "", "" if call.name else name, piece))
        self._grow(len(piece))
        call.id, call.name, call.replay = call.id or identity, call.name or name, replay or call.replay
        call.pieces.append(piece)
        return slot

    def _grow(self, size: int) -> None:
        self.streamed = True
        self._size += size
        if self._size > BODY_LIMIT:
            raise failure(self.origin, "protocol", _("the answer is larger than 16 MB"), partial=self.partial)

    def whole_calls(self) -> list[ToolCall]:
        """The calls, each with the reason where it must not be run because the answer broke off."""
        calls: list[ToolCall] = []
        for slot, call in enumerate(self.calls, 1):
            raw = _paired("".join(call.pieces)).strip()
            identity = call.id or f"call_{slot}_{_digest(call.name + raw, 8)}"
            broken = _NOT_RUN.get(finish_of(self.raw_finish), "")
            calls.append(ToolCall(identity, call.name, raw, broken, call.replay))
        return calls


def call_name(name: str) -> str:
    """`name` as every vendor takes it: a model may call what is no tool, and is told so in the next request."""
    return re.sub(r"[^\w-]", "_", name, flags=re.ASCII)[:64] or "_"


def call_id(identity: str, pattern: str, length: int) -> str:
    """`identity` where it fits `pattern`, else a short name made from it: the same call always gets the same one."""
    return identity if re.fullmatch(pattern, identity) else _digest(identity, length)


def _paired(text: str) -> str:
    """`text` with the halves of characters that came apart joined, and without those that are alone."""
    return text if text.isascii() else text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "ignore")


def _digest(text: str, length: int) -> str:
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:length]


class WireProvider(ABC):
    """A model behind a wire. One object per model; requests may run at the same time.

    A wire says where its requests go, writes their bodies, and reads the answers.
    """

    path: str

    def __init__(self, info: ProviderInfo, endpoint: Endpoint) -> None:
        self.info = info
        self.origin = endpoint.origin
        self._link = Link(endpoint)
        self._extra = endpoint.extra_body
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

    def encoded(self, body: JsonObject) -> bytes:
        """`body` with what the owner wants in every request, which wins; tools of theirs join those of the agent.

        Where the service searches by itself, the search of the agent is not offered beside it.
        """
        more = dict(self._extra)
        if self.info.capabilities.searches and isinstance(offered := body.get("tools"), list):
            others = [tool for tool in offered if not is_search(jsonval.obj(tool))]
            body = {**body, "tools": others}
            if not others:
                body = {name: value for name, value in body.items() if name not in ("tools", "tool_choice")}
        if "tools" in more and isinstance(ours := body.get("tools"), list) and isinstance(more["tools"], list):
            more["tools"] = [*ours, *more["tools"]]
        return jsonval.dump({**body, **more})

    async def aclose(self) -> None:
        await self._link.aclose()

    async def stream(self, request: Request) -> AsyncIterator[Delta]:
        if request.pages:
            yield await read_pages(self.info, self._link, request)
            return
        files = any(isinstance(part, Media) for message in request.messages for part in message.content)
        for _try in range(3):
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
        told = False
        try:
            async with aclosing(self._link.post(self.path, body)) as events:
                async for event, data in events:
                    if told := data == b"[DONE]":
                        await _end(events)
                        break
                    if event == "error" or not reader.feed(data):
                        raise self._broken(data, reader)
                    while reader.new:
                        yield reader.new.popleft()
                    if reader.stopped:
                        await _end(events)
                        break
        except ProviderError as error:
            if not reader.complete:
                raise await self._explained(error, reader) from error.__cause__
        reader.end(told=told)
        while reader.new:
            yield reader.new.popleft()
        if not reader.complete:
            what = _("the stream ended before the answer was complete")
            raise failure(self.origin, "truncated", what, partial=reader.partial)
        yield Completed(reader.message())

    def _broken(self, data: bytes, reader: AnswerReader) -> ProviderError:
        """The error that an event is or tells of."""
        value = jsonval.parse(data)
        if isinstance(value, dict):
            return from_event(self.origin, value, reader.partial)
        what = _("the stream carried no JSON: {text}", text=data[:200].decode("utf-8", "replace"))
        return failure(self.origin, "protocol", what, partial=reader.partial)

    async def _explained(self, error: ProviderError, reader: AnswerReader) -> ProviderError:
        """The error with the text before it, where a lost connection becomes `truncated`; or with the nearest model."""
        if reader.streamed and error.kind in {"network", "timeout"}:
            silent = _("the server fell silent in the middle of the answer")
            what = silent if error.kind == "timeout" else _("the connection was lost in the middle of the answer")
            return failure(self.origin, "truncated", what, partial=reader.partial)
        error.partial = error.partial or reader.partial
        if not reader.streamed and error.kind == "not_found":
            near = nearest(self.info.model, await list_models(self._link.endpoint, seconds=3.0))
            if near and near != self.info.model:
                error.detail = _("{detail}. Did you mean {near!r}?", detail=error.detail, near=near)
        return error


async def _end(events: AsyncIterator[object]) -> None:
    """Read on to the end of a stream that has said everything."""
    with suppress(ProviderError, TimeoutError):
        async with asyncio.timeout(_END_SECONDS):
            async for _event in events:
                pass


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
        if isinstance(part, Media) and part.place:
            result.append(("text", f"[It is in your files as {part.place}]", ""))  # English: a model reads it
    return result


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


# English: a model reads it
def _note(part: Media, *, vision: bool) -> str:
    """One plain line in place of a file that the model does not get."""
    name = part.name or Path(part.path).name
    if part.mime == PDF_TYPE and part.inline:
        return f"[file: {name}, a PDF without text, cannot be viewed by this model]"
    if not part.mime.startswith("image/"):
        return f"[file: {name} ({part.mime}), which no tool of yours reads under this name]"
    if not vision:
        return f"[image: {name}, cannot be viewed by this model]"
    if not Path(part.path).is_file():
        return f"[image: {name}, the file is gone]"
    return f"[image: {name}, cannot be sent: {part.mime}, {_IMAGE_LIMIT / 1e6:.2f} MB is the limit]"
