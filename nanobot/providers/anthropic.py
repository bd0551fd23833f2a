"""Anthropic's Messages API, spoken by Anthropic and by some compatible services.

Order makes the prompt cache work: options, tools, system, then the messages, which only grow. Two blocks carry
`cache_control`: the end of the system prompt (it covers the tools too) and the last block before the tail of the
request, which stands behind everything stable.
"""

import re
from collections.abc import Iterable

from msgspec import Struct, field

from nanobot import jsonval
from nanobot.jsonval import JsonObject
from nanobot.messages import (
    AssistantMessage,
    AssistantPart,
    Message,
    Text,
    Thinking,
    ThinkingDelta,
    ToolCall,
    ToolMessage,
    Usage,
    UserMessage,
    UserPart,
)
from nanobot.providers.base import ProviderInfo, ReasoningEffort, Request
from nanobot.providers.failures import Origin, finished, from_event
from nanobot.providers.http import Endpoint
from nanobot.providers.vendors import family_of
from nanobot.providers.wire import AnswerReader, WireProvider, call_id, call_name, readable

_MARK: JsonObject = {"type": "ephemeral"}
_DEFAULT_OUTPUT = 8_192
#: Models that decide themselves how long to think; from 4.6 on, a fixed budget is deprecated (vendor's docs, 2026).
_ADAPTIVE = r"(opus|sonnet|haiku)-4[-.][6-9]|claude-[a-z]+-([5-9]|\d\d\b)|mythos"
_BUDGET: dict[ReasoningEffort, int] = {
    "minimal": 1_024,
    "low": 2_048,
    "medium": 8_192,
    "high": 16_384,
    "xhigh": 24_576,
    "max": 30_000,
}
_EFFORT: dict[ReasoningEffort, str] = {"minimal": "low", "xhigh": "max"}


class AnthropicProvider(WireProvider):
    """A model behind the Messages API. `longest` is the length of an answer, in tokens, where a request names none."""

    def __init__(self, info: ProviderInfo, endpoint: Endpoint) -> None:
        super().__init__(info, endpoint)
        self.path = "/messages" if endpoint.base_url.rstrip("/").endswith("/v1") else "/v1/messages"
        self._model = info.model
        self.longest = family_of(info.model).output or _DEFAULT_OUTPUT

    def reader(self, request: Request) -> AnswerReader:  # noqa: ARG002
        return MessagesReader(self.origin, self._model)

    def adapted(self, refusal: str, request: Request) -> bool:
        if request.max_tokens is None and (longest := re.search(r"max_tokens: \d+ > (\d+)", refusal)):
            self.longest = int(longest[1])
            return True
        return self.drop(refusal, ("temperature", "output_config", "thinking"))

    def build(self, request: Request) -> bytes:
        limit = request.max_tokens or self.longest
        body: JsonObject = {"model": self._model, "stream": True, "max_tokens": limit}
        body.update(self._thinking(request.reasoning_effort, limit))
        if request.temperature is not None and "thinking" not in body:
            body["temperature"] = request.temperature
        body.update(_tools(request))
        for name in self.dropped:
            body.pop(name, None)
        if request.system:
            body["system"] = [{"type": "text", "text": request.system, "cache_control": _MARK}]
        body["messages"] = self._messages(request)
        return self.encoded(body)

    def _thinking(self, effort: ReasoningEffort | None, limit: int) -> JsonObject:
        if effort is None:
            return {}
        if re.search(_ADAPTIVE, self._model):
            if effort == "none":
                return {}
            chosen = _EFFORT.get(effort, effort)
            return {"thinking": {"type": "adaptive", "display": "summarized"}, "output_config": {"effort": chosen}}
        budget = min(_BUDGET.get(effort, 0), limit - 1_024)
        return {"thinking": {"type": "enabled", "budget_tokens": budget}} if budget >= 1_024 else {}

    def _messages(self, request: Request) -> list[JsonObject]:
        """Neighbours of one role become one message, because roles must alternate."""
        turns: list[tuple[str, list[JsonObject]]] = []
        for message in request.messages:
            role, blocks = self._blocks(message)
            if not blocks:
                continue
            if turns and turns[-1][0] == role:
                turns[-1][1].extend(blocks)
            else:
                turns.append((role, blocks))
        self._close(turns, request.tail)
        return [{"role": role, "content": blocks} for role, blocks in turns]

    def _blocks(self, message: Message) -> tuple[str, list[JsonObject]]:
        match message:
            case UserMessage():
                return "user", self._user(message.content)
            case ToolMessage():
                return "user", [self._result(message)]
            case AssistantMessage():
                return "assistant", list(self._assistant(message))

    def _user(self, parts: Iterable[UserPart]) -> list[JsonObject]:
        blocks: list[JsonObject] = []
        for kind, value, mime in readable(parts, self.info.capabilities):
            if kind in ("image", "pdf"):
                source = {"type": "base64", "media_type": mime, "data": value}
                blocks.append({"type": "image" if kind == "image" else "document", "source": source})
            elif value.strip():  # blank text blocks are refused
                blocks.append({"type": "text", "text": value})
        return blocks

    def _result(self, message: ToolMessage) -> JsonObject:
        result: JsonObject = {"type": "tool_result", "tool_use_id": _identity(message.call_id)}
        result["content"] = self._user(message.content) or "(empty)"
        if message.is_error:
            result["is_error"] = True
        return result

    def _assistant(self, message: AssistantMessage) -> Iterable[JsonObject]:
        for part in message.content:
            match part:
                case Thinking():
                    block = jsonval.obj(jsonval.parse(part.replay)) if part.origin == "messages" else {}
                    if block:
                        yield block
                case Text():
                    if part.text.strip():
                        yield {"type": "text", "text": part.text}
                case ToolCall():
                    given = jsonval.obj(jsonval.parse(part.arguments))
                    yield {"type": "tool_use", "id": _identity(part.id), "name": call_name(part.name), "input": given}

    def _close(self, turns: list[tuple[str, list[JsonObject]]], tail: str) -> None:
        """Mark the end of the stable part and add the tail behind it."""
        if turns and turns[-1][0] == "user":
            blocks = turns[-1][1]
            blocks[-1] = {**blocks[-1], "cache_control": _MARK}
            if tail.strip():
                blocks.append({"type": "text", "text": tail})
        elif tail.strip():
            turns.append(("user", [{"type": "text", "text": tail}]))


class _Block(Struct):
    """One content block while it grows. `seal` is the signature of a thought or what stands for a hidden one; `slot` is
    the number of a tool call."""

    kind: str
    pieces: list[str] = field(default_factory=list)
    seal: str = ""
    slot: int = 0


_NO_BLOCK = _Block("")


class MessagesReader(AnswerReader):
    """Collects one answer."""

    def __init__(self, origin: Origin, model: str) -> None:
        super().__init__(origin, model)
        self._blocks: list[_Block] = []
        self._open: dict[int, _Block] = {}
        self._figures: dict[str, int] = {}

    @property
    def partial(self) -> str:
        return "".join(piece for block in self._blocks if block.kind == "text" for piece in block.pieces)

    def feed(self, data: bytes) -> bool:
        event = jsonval.parse(data)
        if not isinstance(event, dict):
            return False
        index = place if isinstance(place := event.get("index"), int) else 0
        match event.get("type"):
            case "content_block_delta":
                self._delta(index, jsonval.obj(event.get("delta")))
            case "content_block_start":
                self._start(index, jsonval.obj(event.get("content_block")))
            case "message_start":
                self._head(jsonval.obj(event.get("message")))
            case "message_delta":
                reason = jsonval.obj(event.get("delta")).get("stop_reason")
                self.raw_finish = jsonval.text(reason) or self.raw_finish
                self._count(event.get("usage"))
            case "message_stop":
                self.stopped = True
                self.raw_finish = self.raw_finish or "end_turn"
            case "error":
                raise from_event(self.origin, event, self.partial)
            case "message":  # an answer that was not streamed
                self._head(event)
                for place, block in enumerate(jsonval.rows(event.get("content"))):
                    self._start(place, block)
                self.raw_finish = jsonval.text(event.get("stop_reason")) or "end_turn"
        return True

    def message(self) -> AssistantMessage:
        calls = self.whole_calls()
        parts = [part for block in self._blocks if (part := self._part(block, calls))]
        return finished(self.origin, parts, self.raw_finish, model=self.model, usage=self._usage())

    def _head(self, message: JsonObject) -> None:
        self.model = jsonval.text(message.get("model")) or self.model
        self._count(message.get("usage"))

    def _start(self, index: int, block: JsonObject) -> None:
        kind = jsonval.text(block.get("type"))
        if kind not in {"text", "thinking", "redacted_thinking", "tool_use"}:
            return
        seal = jsonval.text(block.get("signature")) or jsonval.text(block.get("data"))
        grown = self._open[index] = _Block(kind, seal=seal)
        known = len(self.calls)
        if kind == "tool_use":
            identity, name = jsonval.text(block.get("id")), jsonval.text(block.get("name"))
            grown.slot = self.call(index, identity, name, block.get("input"))
        if kind != "tool_use" or grown.slot == known:  # a call whose start is told twice is one
            self._blocks.append(grown)
        self._delta(index, {**block, "type": f"{kind}_delta"})

    def _delta(self, index: int, delta: JsonObject) -> None:
        block = self._open.get(index, _NO_BLOCK)
        match delta.get("type"), block.kind:
            case "text_delta", "text":
                self.say(jsonval.text(delta.get("text")), block.pieces)
            case "thinking_delta", "thinking":
                self.say(jsonval.text(delta.get("thinking")), block.pieces, ThinkingDelta)
            case "signature_delta", "thinking":
                block.seal += jsonval.text(delta.get("signature"))
            case "input_json_delta", "tool_use" if piece := jsonval.text(delta.get("partial_json")):
                if not block.pieces:
                    self.calls[block.slot].pieces.clear()  # an input that came with its start is said again
                block.pieces.append(piece)
                self.call(index, "", "", piece)

    def _part(self, block: _Block, calls: list[ToolCall]) -> AssistantPart | None:
        text = "".join(block.pieces)
        match block.kind:
            case "text":
                return Text(text) if text else None
            case "thinking":
                replay = {"type": "thinking", "thinking": text, "signature": block.seal}
                return Thinking(text, jsonval.compact(replay) if block.seal else "", "messages")
            case "redacted_thinking":
                return Thinking("", jsonval.compact({"type": "redacted_thinking", "data": block.seal}), "messages")
            case _:
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


def _tools(request: Request) -> JsonObject:
    """The tools. A history with calls must define them, so a request without tools names the used ones, not to call."""
    if request.tools:
        return {
            "tools": [
                {"name": tool.name, "description": tool.description, "input_schema": tool.schema}
                for tool in request.tools
            ]
        }
    used = {call_name(call.name) for m in request.messages if isinstance(m, AssistantMessage) for call in m.calls}
    if not used:
        return {}
    plain = [{"name": name, "description": "", "input_schema": {"type": "object"}} for name in sorted(used)]
    return {"tools": plain, "tool_choice": {"type": "none"}}


def _identity(identity: str) -> str:
    return call_id(identity, "[A-Za-z0-9_-]{1,64}", 24)
