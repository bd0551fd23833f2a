"""The answer of the Messages API, event by event. Unknown events, blocks and deltas are ignored."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

from nanobot.messages import (
    AssistantMessage,
    AssistantPart,
    Delta,
    Text,
    TextDelta,
    Thinking,
    ThinkingDelta,
    ToolCall,
    ToolCallDelta,
    Usage,
)
from nanobot.providers import jsonval
from nanobot.providers.answer import CallSlots, finish_of, finished
from nanobot.providers.failures import Origin, from_event

JsonObject = dict[str, object]


@dataclass(slots=True)
class _Block:
    """One content block while it grows. `slot` is the number of a tool call, -1 for other blocks."""

    kind: Literal["text", "thinking", "redacted_thinking", "tool_use"]
    pieces: list[str] = field(default_factory=list)
    signature: str = ""
    data: str = ""
    slot: int = -1


class MessagesReader:
    """Collects one answer. Feed it parsed events."""

    def __init__(self, origin: Origin, model: str) -> None:
        self._origin = origin
        self._model = model
        self._blocks: dict[int, _Block] = {}
        self._slots = CallSlots()
        self._figures: dict[str, int] = {}
        self._finish = ""
        self._stopped = False
        self.streamed = False

    @property
    def partial(self) -> str:
        return "".join(piece for block in self._blocks.values() if block.kind == "text" for piece in block.pieces)

    @property
    def complete(self) -> bool:
        return self._stopped or bool(self._finish)

    @property
    def stopped(self) -> bool:
        """True when the server said that nothing follows."""
        return self._stopped

    def feed(self, event: JsonObject) -> Iterator[Delta]:
        """The deltas of one event. Raises `ProviderError` where it is an error."""
        match event.get("type"):
            case "content_block_delta":
                yield from self._delta(self._index(event), jsonval.obj(event.get("delta")))
            case "content_block_start":
                yield from self._start(self._index(event), jsonval.obj(event.get("content_block")))
            case "message_start":
                message = jsonval.obj(event.get("message"))
                self._model = jsonval.text(message.get("model")) or self._model
                self._count(message.get("usage"))
            case "message_delta":
                reason = jsonval.obj(event.get("delta")).get("stop_reason")
                self._finish = jsonval.text(reason) or self._finish
                self._count(event.get("usage"))
            case "message_stop":
                self._stopped = True
                self._finish = self._finish or "end_turn"
            case "error":
                raise from_event(self._origin, event, self.partial)
            case "message":
                yield from self._whole(event)

    def message(self) -> AssistantMessage:
        """The whole answer. Raises `ProviderError` where it is empty."""
        calls = self._slots.calls(finish_of(self._finish))
        parts = [part for block in self._blocks.values() if (part := self._part(block, calls))]
        return finished(self._origin, parts, self._finish, model=self._model, usage=self._usage())

    @staticmethod
    def _index(event: JsonObject) -> int:
        return jsonval.integer(event.get("index"))

    def _start(self, index: int, block: JsonObject) -> Iterator[Delta]:
        match block.get("type"):
            case "text":
                self._blocks[index] = _Block("text")
                yield from self._delta(index, {"type": "text_delta", "text": block.get("text")})
            case "thinking":
                self._blocks[index] = _Block("thinking", signature=jsonval.text(block.get("signature")))
                yield from self._delta(index, {"type": "thinking_delta", "thinking": block.get("thinking")})
            case "redacted_thinking":
                self._blocks[index] = _Block("redacted_thinking", data=jsonval.text(block.get("data")))
            case "tool_use":
                given = block.get("input") or ""
                name = jsonval.text(block.get("name"))
                delta = self._slots.add(index, jsonval.text(block.get("id")), name, given)
                self._blocks[index] = _Block("tool_use", slot=delta.slot)
                self.streamed = True
                yield delta

    def _delta(self, index: int, delta: JsonObject) -> Iterator[Delta]:
        block = self._blocks.get(index)
        match delta.get("type"), block:
            case "text_delta", _Block(kind="text"):
                if text := jsonval.text(delta.get("text")):
                    block.pieces.append(text)
                    self.streamed = True
                    yield TextDelta(text)
            case "thinking_delta", _Block(kind="thinking"):
                if text := jsonval.text(delta.get("thinking")):
                    block.pieces.append(text)
                    self.streamed = True
                    yield ThinkingDelta(text)
            case "signature_delta", _Block(kind="thinking"):
                block.signature += jsonval.text(delta.get("signature"))
            case "input_json_delta", _Block(kind="tool_use"):
                piece = jsonval.text(delta.get("partial_json"))
                self._slots.add(index, "", "", piece)
                yield ToolCallDelta(block.slot, arguments=piece)

    def _whole(self, message: JsonObject) -> Iterator[Delta]:
        """An answer that was not streamed."""
        self._count(message.get("usage"))
        self._model = jsonval.text(message.get("model")) or self._model
        for index, item in enumerate(jsonval.items(message.get("content"))):
            yield from self._start(index, jsonval.obj(item))
        self._finish = jsonval.text(message.get("stop_reason")) or "end_turn"

    def _part(self, block: _Block, calls: list[ToolCall]) -> AssistantPart | None:
        text = "".join(block.pieces)
        match block.kind:
            case "text":
                return Text(text) if text else None
            case "thinking":
                replay = {"type": "thinking", "thinking": text, "signature": block.signature}
                return Thinking(text, jsonval.compact(replay) if block.signature else "", "messages")
            case "redacted_thinking":
                return Thinking("", jsonval.compact({"type": "redacted_thinking", "data": block.data}), "messages")
            case "tool_use":
                return calls[block.slot]

    def _count(self, usage: object) -> None:
        """Later figures win, but a zero does not undo a value."""
        for name, value in jsonval.obj(usage).items():
            if number := jsonval.integer(value):
                self._figures[name] = number

    def _usage(self) -> Usage:
        cached = self._figures.get("cache_read_input_tokens", 0)
        written = self._figures.get("cache_creation_input_tokens", 0)
        return Usage(
            input=self._figures.get("input_tokens", 0) + cached + written,
            output=self._figures.get("output_tokens", 0),
            cached=cached,
            cache_write=written,
            requests=1,
        )
