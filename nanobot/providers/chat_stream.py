"""The answer of Chat Completions, chunk by chunk, in every dialect seen."""

from collections.abc import Collection, Iterator

from nanobot.messages import (
    AssistantMessage,
    AssistantPart,
    Delta,
    Text,
    TextDelta,
    Thinking,
    ThinkingDelta,
    ToolCallDelta,
    Usage,
)
from nanobot.providers import jsonval
from nanobot.providers.answer import CallSlots, finish_of, finished
from nanobot.providers.failures import Origin, from_event
from nanobot.providers.splitters import TextCalls, ThinkSplitter

JsonObject = dict[str, object]


class ChatReader:
    """Collects one answer. Feed it parsed chunks; `text_tools` are names whose calls may come as text."""

    def __init__(self, origin: Origin, model: str, text_tools: Collection[str] = ()) -> None:
        self._origin = origin
        self._model = model
        self._thinking: list[str] = []
        self._details: list[JsonObject] = []
        self._text: list[str] = []
        self._slots = CallSlots()
        self._usage = Usage(requests=1)
        self._finish = ""
        self._refused = False
        self._splitter = ThinkSplitter()
        self._gate = TextCalls(text_tools)
        self.streamed = False

    @property
    def partial(self) -> str:
        return "".join(self._text)

    @property
    def complete(self) -> bool:
        """True once a finish reason came; only figures may follow."""
        return bool(self._finish)

    def feed(self, chunk: JsonObject) -> Iterator[Delta]:
        """The deltas of one chunk. Raises `ProviderError` where the chunk is an error."""
        if chunk.get("error"):
            raise from_event(self._origin, chunk, self.partial)
        usage = chunk.get("usage")
        choices = chunk.get("choices")
        if isinstance(choices, list) and choices:
            choice = jsonval.obj(choices[0])
            if choice.get("error"):
                raise from_event(self._origin, choice, self.partial)
            usage = choice.get("usage") or usage
            delta = choice.get("delta") or choice.get("message")
            if isinstance(delta, dict):
                yield from self._delta(delta)
            if reason := choice.get("finish_reason"):
                native = jsonval.text(choice.get("native_finish_reason"))
                self._finish = native if finish_of(native) == "error" else jsonval.text(reason)
        if not usage:
            usage = jsonval.obj(chunk.get("x_groq")).get("usage")
        if isinstance(usage, dict):
            self._usage = usage_of(usage)
        if not self.streamed and isinstance(model := chunk.get("model"), str) and model:
            self._model = model

    def done(self) -> None:
        """`[DONE]` came; an answer without a finish reason counts as stopped."""
        self._finish = self._finish or "stop"

    def end(self) -> Iterator[Delta]:
        """What was held back while it could still be something else."""
        thinking, text = self._splitter.end()
        yield from self._think(thinking)
        yield from self._say(self._gate.feed(text) if text else "")
        text, calls = self._gate.end()
        yield from self._say(text)
        for name, arguments in calls:
            yield self._slots.add(None, f"text_{len(self._slots) + 1}", name, arguments)

    def message(self) -> AssistantMessage:
        """The whole answer. Raises `ProviderError` where it is empty."""
        finish = "content_filter" if self._refused else self._finish
        parts: list[AssistantPart] = []
        if self._thinking or self._details:
            replay = jsonval.compact({"reasoning_details": self._details}) if self._details else ""
            parts.append(Thinking("".join(self._thinking), replay, "chat"))
        parts.append(Text(self.partial))
        parts.extend(self._slots.calls(finish_of(finish)))
        return finished(self._origin, parts, finish, model=self._model, usage=self._usage)

    def _delta(self, delta: JsonObject) -> Iterator[Delta]:
        details = delta.get("reasoning_details")
        reasoning = delta.get("reasoning_content") or delta.get("reasoning")
        if details:
            shown = self._keep(jsonval.items(details))
            reasoning = reasoning or shown
        if isinstance(reasoning, str) and reasoning:
            yield from self._think(reasoning)
        content = delta.get("content")
        if isinstance(content, str):
            if content:
                yield from self._content(content)
        elif isinstance(content, list):
            yield from self._parts(content)
        if refusal := delta.get("refusal"):
            self._refused = True
            yield from self._say(jsonval.text(refusal))
        if calls := delta.get("tool_calls"):
            for call in jsonval.items(calls):
                yield self._call(jsonval.obj(call))

    def _content(self, content: str) -> Iterator[Delta]:
        thinking, text = self._splitter.feed(content)
        if thinking:
            yield from self._think(thinking)
        if text:
            yield from self._say(self._gate.feed(text))

    def _parts(self, parts: list[object]) -> Iterator[Delta]:
        for item in parts:
            part = jsonval.obj(item)
            inner = part.get("thinking")
            if part.get("type") == "thinking":
                pieces = (
                    [inner] if isinstance(inner, str) else [jsonval.obj(p).get("text") for p in jsonval.items(inner)]
                )
                yield from self._think("".join(jsonval.text(piece) for piece in pieces))
            else:
                yield from self._content(jsonval.text(part.get("text")))

    def _say(self, text: str) -> Iterator[Delta]:
        if text:
            self.streamed = True
            self._text.append(text)
            yield TextDelta(text)

    def _think(self, text: str) -> Iterator[Delta]:
        if text:
            self.streamed = True
            self._thinking.append(text)
            yield ThinkingDelta(text)

    def _call(self, call: JsonObject) -> ToolCallDelta:
        self.streamed = True
        function = jsonval.obj(call.get("function"))
        index = call.get("index")
        extra = call.get("extra_content")
        return self._slots.add(
            index if isinstance(index, int) and not isinstance(index, bool) else None,
            jsonval.text(call.get("id")),
            jsonval.text(function.get("name")),
            function.get("arguments"),
            jsonval.compact({"extra_content": extra}) if extra else "",
        )

    def _keep(self, details: list[object]) -> str:
        """Keep reasoning blocks for the next request; pieces of one block are joined. Returns the readable part."""
        shown: list[str] = []
        for item in details:
            detail = jsonval.obj(item)
            shown.append(jsonval.text(detail.get("text")) or jsonval.text(detail.get("summary")))
            last = self._details[-1] if self._details else {}
            same = last and last.get("type") == detail.get("type") and last.get("index") == detail.get("index")
            if not same or "index" not in detail:
                self._details.append(dict(detail))
                continue
            for key, value in detail.items():
                if key in {"text", "summary", "data"}:
                    last[key] = jsonval.text(last.get(key)) + jsonval.text(value)
                elif value is not None:
                    last[key] = value
        return "".join(shown)


def usage_of(usage: JsonObject) -> Usage:
    """The figures of one request, wherever the vendor put them."""
    prompt = jsonval.obj(usage.get("prompt_tokens_details"))
    completion = jsonval.obj(usage.get("completion_tokens_details"))
    cached = prompt.get("cached_tokens") or usage.get("cached_tokens") or usage.get("prompt_cache_hit_tokens")
    return Usage(
        input=jsonval.integer(usage.get("prompt_tokens")),
        output=jsonval.integer(usage.get("completion_tokens")),
        cached=jsonval.integer(cached),
        cache_write=jsonval.integer(prompt.get("cache_write_tokens")),
        reasoning=jsonval.integer(completion.get("reasoning_tokens")),
        cost=jsonval.decimal(usage.get("cost")),
        requests=1,
    )
