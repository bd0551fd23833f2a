"""Chat Completions, the wire that nearly every model server speaks.

Order makes the prompt cache work: options and tools first, then the messages, which only grow. The tail of a request
joins the text of the last message, so everything before it is the same, byte for byte, in the next request.
"""

from collections.abc import Callable, Collection, Iterable, Iterator

from nanobot.messages import (
    AssistantMessage,
    AssistantPart,
    Delta,
    Message,
    Text,
    TextDelta,
    Thinking,
    ThinkingDelta,
    ToolCall,
    ToolCallDelta,
    ToolMessage,
    Usage,
    UserMessage,
    UserPart,
)
from nanobot.providers import jsonval
from nanobot.providers.answer import argument_error, call_id, finish_of, finished
from nanobot.providers.base import ProviderInfo, ReasoningEffort, Request
from nanobot.providers.failures import Origin, from_event
from nanobot.providers.http import Endpoint
from nanobot.providers.splitters import TextCalls, ThinkSplitter
from nanobot.providers.vendors import Quirks, always_reasons, reasons
from nanobot.providers.wire import PDF_TYPE, AnswerReader, JsonObject, WireProvider, readable

_NO_SIGNATURE = {"google": {"thought_signature": "skip_thought_signature_validator"}}
"""What Google documents for calls that another model made."""
_MARK = {"type": "ephemeral"}
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


class OpenAICompatProvider(WireProvider):
    """A model behind Chat Completions."""

    path = "/chat/completions"

    def __init__(self, info: ProviderInfo, endpoint: Endpoint, quirks: Quirks | None = None) -> None:
        super().__init__(info, endpoint)
        self._quirks = quirks or Quirks()
        self._model = info.model
        self._marks = info.model.startswith(tuple(self._quirks.cache_marks))
        kimi = info.model.startswith("kimi-k3")
        self.max_tokens_field: str = "max_completion_tokens" if kimi else self._quirks.max_tokens_field

    def reader(self, request: Request) -> AnswerReader:
        tools = {tool.name for tool in request.tools} if self._quirks.text_calls else ()
        return ChatReader(self._origin, self._model, tools)

    def adapted(self, refusal: str, request: Request) -> bool:  # noqa: ARG002
        if "max_completion_tokens" in refusal:
            other = self.max_tokens_field == "max_tokens"
            self.max_tokens_field = "max_completion_tokens" if other else "max_tokens"
            return True
        return self.drop(refusal, _OPTIONAL)

    def build(self, request: Request) -> bytes:
        body: JsonObject = {"model": self._model, "stream": True, "stream_options": {"include_usage": True}}
        if request.max_tokens is not None:
            body[self.max_tokens_field] = request.max_tokens
        if request.temperature is not None and not _fixed_temperature(self._model):
            body["temperature"] = request.temperature
        body.update(thinking_switch(self._quirks, self._model, request.reasoning_effort))
        if self._quirks.cache_key and request.session:
            body["prompt_cache_key"] = request.session
        if request.tools:
            body["tools"] = [
                {"type": "function", "function": {"name": t.name, "description": t.description, "parameters": t.schema}}
                for t in request.tools
            ]
        for name in self.dropped:
            body.pop(name, None)
        body["messages"] = self._messages(request)
        return jsonval.dump(body)

    def _messages(self, request: Request) -> list[JsonObject]:
        messages: list[JsonObject] = []
        if request.system:
            messages.append({"role": "system", "content": self._marked(request.system)})
        pictures: list[JsonObject] = []
        for message in request.messages:
            if not isinstance(message, ToolMessage) and pictures:
                messages.append({"role": "user", "content": pictures})
                pictures = []
            messages.extend(self._message(message, pictures))
        if pictures:
            messages.append({"role": "user", "content": pictures})
        self._close(messages, request.tail)
        return messages

    def _message(self, message: Message, pictures: list[JsonObject]) -> Iterable[JsonObject]:
        match message:
            case UserMessage():
                content = self._content(message.content)
                return [{"role": "user", "content": content}] if content else []
            case ToolMessage():
                return [self._tool(message, pictures)]
            case AssistantMessage():
                return self._assistant(message)

    def _content(self, parts: Iterable[UserPart]) -> str | list[JsonObject]:
        """Plain text where there is only text, else a list of parts."""
        ready = readable(parts, self.info.capabilities)
        if all(kind == "text" for kind, _, _ in ready):
            return "\n\n".join(value for _, value, _ in ready)
        return [_text(value) if kind == "text" else _file(value, mime) for kind, value, mime in ready]

    def _tool(self, message: ToolMessage, pictures: list[JsonObject]) -> JsonObject:
        """This wire has no images and files in tool answers: they follow as a message of the user."""
        texts: list[str] = []
        for kind, value, mime in readable(message.content, self.info.capabilities):
            if kind != "text":
                pictures.append(_file(value, mime))
                texts.append(f"[the {kind} of {message.name} follows]")
            else:
                texts.append(value)
        identity = self._identity(message.call_id)
        return {"role": "tool", "tool_call_id": identity, "content": "\n\n".join(texts) or "(empty)"}

    def _assistant(self, message: AssistantMessage) -> list[JsonObject]:
        if not message.text and not message.calls:
            return []
        result: JsonObject = {"role": "assistant", "content": message.text}
        result.update(self._reasoning(message))
        if message.calls:
            result["tool_calls"] = [self._call(call) for call in message.calls]
        return [result]

    def _reasoning(self, message: AssistantMessage) -> JsonObject:
        thoughts = [part for part in message.content if isinstance(part, Thinking) and part.origin == "chat"]
        match self._quirks.replay:
            case "reasoning_content":
                text = "".join(part.text for part in thoughts)
                return {"reasoning_content": text} if text or self._quirks.reasoning_required else {}
            case "reasoning_details":
                details = [
                    detail
                    for part in thoughts
                    for detail in jsonval.items(jsonval.obj(jsonval.parse(part.replay)).get("reasoning_details"))
                ]
                return {"reasoning_details": details} if details else {}
        return {}

    def _call(self, call: ToolCall) -> JsonObject:
        raw = "{}" if not call.arguments or argument_error(call.arguments) else call.arguments
        function: JsonObject = {"name": call.name, "arguments": raw}
        result: JsonObject = {"id": self._identity(call.id), "type": "function", "function": function}
        if self._quirks.signatures:
            extra = jsonval.obj(jsonval.parse(call.replay)).get("extra_content") if call.replay else None
            result["extra_content"] = extra or _NO_SIGNATURE
        return result

    def _identity(self, identity: str) -> str:
        return call_id(identity, "[A-Za-z0-9]{9}", 9) if self._quirks.short_ids else identity

    def _marked(self, text: str) -> str | list[JsonObject]:
        return [{**_text(text), "cache_control": _MARK}] if self._marks else text

    def _close(self, messages: list[JsonObject], tail: str) -> None:
        """Mark the end of the stable part and add the tail behind it."""
        last = messages[-1] if messages and messages[-1]["role"] in {"user", "tool"} else None
        if last is None:
            if tail:
                messages.append({"role": "user", "content": tail})
            return
        content = last["content"]
        if self._marks:
            parts = [_text(content)] if isinstance(content, str) else [jsonval.obj(p) for p in jsonval.items(content)]
            parts[-1] = {**parts[-1], "cache_control": _MARK}
            last["content"] = [*parts, _text(tail)] if tail else parts
        elif tail:
            joined = isinstance(content, str)
            last["content"] = f"{content}\n\n{tail}" if joined else [*jsonval.items(content), _text(tail)]


class ChatReader(AnswerReader):
    """Collects one answer. Feed it parsed chunks; `text_tools` are names whose calls may come as text."""

    def __init__(self, origin: Origin, model: str, text_tools: Collection[str] = ()) -> None:
        super().__init__(origin, model)
        self._thinking: list[str] = []
        self._details: list[JsonObject] = []
        self._text: list[str] = []
        self._usage = Usage(requests=1)
        self._refused = False
        self._splitter = ThinkSplitter()
        self._gate = TextCalls(text_tools)

    @property
    def partial(self) -> str:
        return "".join(self._text)

    def feed(self, chunk: JsonObject) -> Iterator[Delta]:
        if chunk.get("error"):
            raise from_event(self.origin, chunk, self.partial)
        usage = chunk.get("usage")
        choices = chunk.get("choices")
        if isinstance(choices, list) and choices:
            choice = jsonval.obj(choices[0])
            if choice.get("error"):
                raise from_event(self.origin, choice, self.partial)
            usage = choice.get("usage") or usage
            delta = choice.get("delta") or choice.get("message")
            if isinstance(delta, dict):
                yield from self._delta(delta)
            if reason := choice.get("finish_reason"):
                native = jsonval.text(choice.get("native_finish_reason"))
                self.raw_finish = native if finish_of(native) == "error" else jsonval.text(reason)
        if not usage:
            usage = jsonval.obj(chunk.get("x_groq")).get("usage")
        if isinstance(usage, dict):
            self._usage = usage_of(usage)
        if not self.streamed and isinstance(model := chunk.get("model"), str) and model:
            self.model = model

    def done(self) -> None:
        self.raw_finish = self.raw_finish or "stop"

    def end(self) -> Iterator[Delta]:
        thinking, text = self._splitter.end()
        yield from self._think(thinking)
        yield from self._say(self._gate.feed(text) if text else "")
        text, calls = self._gate.end()
        yield from self._say(text)
        for name, arguments in calls:
            yield self.slots.add(None, f"text_{len(self.slots) + 1}", name, arguments)

    def message(self) -> AssistantMessage:
        finish = "content_filter" if self._refused else self.raw_finish
        parts: list[AssistantPart] = []
        if self._thinking or self._details:
            replay = jsonval.compact({"reasoning_details": self._details}) if self._details else ""
            parts.append(Thinking("".join(self._thinking), replay, "chat"))
        parts.append(Text(self.partial))
        parts.extend(self.slots.calls(finish_of(finish)))
        return finished(self.origin, parts, finish, model=self.model, usage=self._usage)

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
        return self.slots.add(
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


def _text(text: str) -> JsonObject:
    return {"type": "text", "text": text}


def _file(data: str, mime: str) -> JsonObject:
    if mime == PDF_TYPE:
        return {"type": "file", "file": {"filename": "file.pdf", "file_data": f"data:{mime};base64,{data}"}}
    return {"type": "image_url", "image_url": {"url": f"data:{mime};base64,{data}"}}


def _fixed_temperature(model: str) -> bool:
    """OpenAI's reasoning models and Kimi K3 refuse a temperature of one's own."""
    name = model.rpartition("/")[2]
    return reasons(name) or name.startswith("kimi-k3")


def _openai_effort(model: str, effort: ReasoningEffort) -> str:
    """From GPT-6.2 on the least is `low`."""
    return "low" if effort in {"none", "minimal"} and always_reasons(model) else effort


_BASIC: dict[ReasoningEffort, str] = {"minimal": "low", "xhigh": "high", "max": "high"}


def thinking_switch(quirks: Quirks, model: str, effort: ReasoningEffort | None) -> JsonObject:
    """How this vendor is told to think more, less or not at all. None leaves it to the model."""
    if quirks.thinking == "split":
        return {"reasoning_split": True}
    if effort is None:
        return {}
    on = effort != "none"
    basic = _BASIC.get(effort, effort)
    if model.startswith("kimi-k3"):  # cannot be switched off
        return {"reasoning_effort": {"none": "low", "medium": "high"}.get(basic, "max" if effort == "max" else basic)}
    styles: dict[str, Callable[[], JsonObject]] = {
        "effort": lambda: {"reasoning_effort": _openai_effort(model, effort)},
        "basic_effort": lambda: {"reasoning_effort": basic},
        "openrouter": lambda: {"reasoning": {"effort": "xhigh" if effort == "max" else effort}},
        "type": lambda: {"thinking": {"type": "enabled" if on else "disabled"}},
        "enable_thinking": lambda: {"enable_thinking": on},
        "template": lambda: {"chat_template_kwargs": {"enable_thinking": on}},
        "mistral": lambda: {} if model.startswith("magistral") else {"reasoning_effort": "high" if on else "none"},
    }
    style = styles.get(quirks.thinking)
    return style() if style else {}
