"""What every wire does with an answer once its events are read: call slots, arguments judged, the end named."""

import hashlib
import re
from collections.abc import Iterable

from nanobot.messages import AssistantMessage, AssistantPart, Finish, Text, ToolCall, ToolCallDelta, Usage
from nanobot.providers import jsonval
from nanobot.providers.failures import Origin, failure

_FINISH: dict[str, Finish] = {
    "stop": "stop",
    "end_turn": "stop",
    "stop_sequence": "stop",
    "eos": "stop",
    "tool_calls": "tools",
    "tool_use": "tools",
    "function_call": "tools",
    "length": "length",
    "max_tokens": "length",
    "model_length": "length",
    "content_filter": "filtered",
    "sensitive": "filtered",
    "refusal": "filtered",
    "safety": "filtered",
    "model_context_window_exceeded": "overflow",
    "pause_turn": "pause",
    "error": "error",
    "network_error": "error",  # Zhipu
    "insufficient_system_resource": "error",  # DeepSeek
    "malformed_function_call": "error",  # Gemini
}
_NOT_RUN: dict[Finish, str] = {
    "length": "The answer reached its length limit inside this call, so it was not run. Send it again, shorter.",
    "filtered": "The service stopped the answer inside this call, so it was not run.",
    "error": "The answer broke off inside this call, so it was not run. Send it again.",
    "truncated": "The answer broke off inside this call, so it was not run. Send it again.",
    "overflow": "The context was full inside this call, so it was not run.",
}


def finish_of(raw: str) -> Finish:
    """The vendors' word for the end, in ours."""
    return _FINISH.get(raw.lower(), "other")


def argument_error(raw: str) -> str:
    """Why these arguments cannot be used, or an empty text. Nothing at all means no arguments."""
    if not raw.strip():
        return ""
    value = jsonval.parse(raw)
    if isinstance(value, dict):
        return ""
    if value is None:
        return f"The arguments are not valid JSON and were not used: {raw[:200]}"
    return f"The arguments must be a JSON object, not {type(value).__name__}: {raw[:200]}"


class CallSlots:
    """Tool calls of one answer as their pieces arrive, under every way vendors number them.

    A piece belongs to the call of its index; a new id on a used index starts a new call; without an index the id
    decides, else the last call. Ids that repeat are made unique.
    """

    def __init__(self) -> None:
        self._names: list[str] = []
        self._ids: list[str] = []
        self._arguments: list[list[str]] = []
        self._replays: list[str] = []
        self._by_index: dict[int, int] = {}

    def __len__(self) -> int:
        return len(self._ids)

    def add(self, index: int | None, identity: str, name: str, arguments: object, replay: str = "") -> ToolCallDelta:
        """Take one piece; the delta says what is new about its call."""
        slot = self._slot(index, identity, name if arguments else "")
        fresh = slot == len(self._ids)
        if fresh:
            self._ids.append(identity)
            self._names.append("")
            self._arguments.append([])
            self._replays.append("")
        new_name = name if not self._names[slot] else ""
        self._ids[slot] = self._ids[slot] or identity
        self._names[slot] = self._names[slot] or name
        self._replays[slot] = replay or self._replays[slot]
        piece = arguments if isinstance(arguments, str) else jsonval.compact(arguments) if arguments else ""
        self._arguments[slot].append(piece)
        if index is not None:
            self._by_index[index] = slot
        return ToolCallDelta(slot, identity if fresh else "", new_name, piece)

    def _slot(self, index: int | None, identity: str, name: str) -> int:
        if index is not None:
            slot = self._by_index.get(index)
            if slot is None or self._starts_anew(slot, identity, name):
                return len(self._ids)
            return slot
        if identity and identity in self._ids:
            slot = len(self._ids) - 1 - self._ids[::-1].index(identity)
            return len(self._ids) if self._starts_anew(slot, identity, name) else slot
        if identity or not self._ids:
            return len(self._ids)
        last = len(self._ids) - 1
        return len(self._ids) if self._starts_anew(last, "", name) else last

    def _starts_anew(self, slot: int, identity: str, name: str) -> bool:
        """A new id does; so does a name with arguments where the call is whole already. A name alone repeats itself."""
        if identity and self._ids[slot] and identity != self._ids[slot]:
            return True
        return bool(name and self._names[slot] and self._complete(slot))

    def _complete(self, slot: int) -> bool:
        """True when the call's JSON is whole, so that a further name can only open another call."""
        return isinstance(jsonval.parse("".join(self._arguments[slot])), dict)

    def calls(self, finish: Finish) -> list[ToolCall]:
        """The calls, each with the reason where it must not be run."""
        calls: list[ToolCall] = []
        seen: set[str] = set()
        for slot, name in enumerate(self._names):
            raw = "".join(self._arguments[slot]).strip()
            identity = self._ids[slot] or f"call_{slot + 1}_{_digest(name + raw, 8)}"
            while identity in seen:
                identity = f"{self._ids[slot]}_{slot + 1}" if identity == self._ids[slot] else f"{identity}x"
            seen.add(identity)
            error = _NOT_RUN.get(finish, "") or argument_error(raw)
            calls.append(ToolCall(identity, name, raw, error, self._replays[slot]))
        return calls


def finished(
    origin: Origin, parts: Iterable[AssistantPart], raw_finish: str, *, model: str, usage: Usage
) -> AssistantMessage:
    """The whole answer. An answer that says and asks nothing is an error that may be tried again."""
    content = tuple(part for part in parts if not (isinstance(part, Text) and not part.text))
    finish = finish_of(raw_finish)
    calls = any(isinstance(part, ToolCall) for part in content)
    if calls and finish in {"stop", "other"}:
        finish = "tools"
    said = calls or any(isinstance(part, Text) and part.text.strip() for part in content)
    if not said and finish == "error":
        raise failure(origin, "server", f"the answer ended with {raw_finish!r}")
    if not said and finish in {"stop", "tools", "other"}:
        raise failure(origin, "protocol", "the model returned an empty answer", code="empty_answer")
    return AssistantMessage(content, finish, model, usage)


def call_id(identity: str, pattern: str, length: int) -> str:
    """`identity` where it fits `pattern`, else a short name made from it: the same call always gets the same one."""
    return identity if re.fullmatch(pattern, identity) else _digest(identity, length)


def _digest(text: str, length: int) -> str:
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:length]
