"""A request as the JSON body of Anthropic's Messages API.

Order makes the prompt cache work: options, tools, system, then the messages, which only grow. Two blocks carry
`cache_control`: the end of the system prompt (it covers the tools too) and the last block before the tail of the
request, which stands behind everything stable.
"""

import re
from collections.abc import Iterable

from nanobot.messages import AssistantMessage, Message, Text, Thinking, ToolCall, ToolMessage, UserMessage, UserPart
from nanobot.providers import jsonval
from nanobot.providers.answer import call_id
from nanobot.providers.attachments import readable
from nanobot.providers.base import ReasoningEffort, Request
from nanobot.providers.models import family_of

JsonObject = dict[str, object]
_MARK: JsonObject = {"type": "ephemeral"}
_DEFAULT_OUTPUT = 8_192
#: Models that decide themselves how long to think; from 4.6 on, a fixed budget is deprecated (vendor's docs, 2026).
_ADAPTIVE = re.compile(r"(opus|sonnet|haiku)-4[-.][6-9]|claude-[a-z]+-([5-9]|\d\d\b)|mythos")
_BUDGET: dict[ReasoningEffort, int] = {
    "minimal": 1_024,
    "low": 2_048,
    "medium": 8_192,
    "high": 16_384,
    "xhigh": 24_576,
    "max": 30_000,
}
_EFFORT: dict[ReasoningEffort, str] = {"minimal": "low", "xhigh": "max"}


class MessagesBody:
    """Writes request bodies for one model. `dropped` names optional fields that this model has refused.

    `longest` is the length of an answer, in tokens, when a request names none.
    """

    def __init__(self, model: str, *, vision: bool, pdf: bool = False) -> None:
        self._model = model
        self._vision, self._pdf = vision, pdf
        self.dropped: set[str] = set()
        self.longest = family_of(model).output or _DEFAULT_OUTPUT

    def build(self, request: Request) -> bytes:
        """The body. Images are read from their files now."""
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
        return jsonval.dump(body)

    def _thinking(self, effort: ReasoningEffort | None, limit: int) -> JsonObject:
        if effort is None:
            return {}
        if _ADAPTIVE.search(self._model):
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
        for kind, value, mime in readable(parts, vision=self._vision, pdf=self._pdf):
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
                    yield {"type": "tool_use", "id": _identity(part.id), "name": part.name, "input": given}

    def _close(self, turns: list[tuple[str, list[JsonObject]]], tail: str) -> None:
        """Mark the end of the stable part and add the tail behind it."""
        if turns and turns[-1][0] == "user":
            blocks = turns[-1][1]
            blocks[-1] = {**blocks[-1], "cache_control": _MARK}
            if tail.strip():
                blocks.append({"type": "text", "text": tail})
        elif tail.strip():
            turns.append(("user", [{"type": "text", "text": tail}]))


def _tools(request: Request) -> JsonObject:
    """The tools. A history with calls must define them, so a request without tools names the used ones, not to call."""
    if request.tools:
        return {
            "tools": [
                {"name": tool.name, "description": tool.description, "input_schema": tool.schema}
                for tool in request.tools
            ]
        }
    used = {call.name for m in request.messages if isinstance(m, AssistantMessage) for call in m.calls}
    if not used:
        return {}
    plain = [{"name": name, "description": "", "input_schema": {"type": "object"}} for name in sorted(used)]
    return {"tools": plain, "tool_choice": {"type": "none"}}


def _identity(identity: str) -> str:
    return call_id(identity, "[A-Za-z0-9_-]{1,64}", 24)
