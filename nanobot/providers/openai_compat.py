"""Chat Completions, the wire that nearly every model server speaks.

Order makes the prompt cache work: options and tools first, then the messages, which only grow. The tail of a request
joins the text of the last message, so everything before it is the same, byte for byte, in the next request.
"""

from collections.abc import Collection, Iterable

from msgspec import Struct
from msgspec.json import Decoder

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
from nanobot.providers.failures import Origin, finish_of, finished, from_event
from nanobot.providers.http import Endpoint
from nanobot.providers.splitters import TextSplitter
from nanobot.providers.vendors import Quirks, always_reasons, reasons
from nanobot.providers.wire import (
    PDF_TYPE,
    AnswerReader,
    WireProvider,
    call_id,
    call_name,
    readable,
)

#: What Google documents for calls that another model made.
_NO_SIGNATURE = {"google": {"thought_signature": "skip_thought_signature_validator"}}
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
        return ChatReader(self.origin, self._model, tools)

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
        return self.encoded(body)

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
                texts.append(f"[the {kind} of {message.name} follows]")  # English: a model reads it
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
        function: JsonObject = {"name": call_name(call.name), "arguments": call.arguments or "{}"}
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


class _ChatFunction(Struct):
    name: object = None
    arguments: object = None


class _ChatCall(Struct):
    index: object = None
    id: object = None
    function: _ChatFunction | None = None
    extra_content: object = None


class _ChatDelta(Struct):
    content: object = None
    reasoning_content: object = None
    reasoning: object = None
    reasoning_details: object = None
    refusal: object = None
    tool_calls: list[_ChatCall] | None = None


class _ChatChoice(Struct):
    delta: _ChatDelta | None = None
    message: _ChatDelta | None = None
    finish_reason: object = None
    native_finish_reason: object = None
    usage: object = None
    error: object = None


class _ChatChunk(Struct):
    """One event: the fields that are read, of servers of every kind. Only how they are nested is taken for granted."""

    choices: list[_ChatChoice] | None = None
    model: object = None
    usage: object = None
    x_groq: object = None
    error: object = None


_CHUNK = Decoder(_ChatChunk)
_NO_CHOICE = _ChatChoice()


class ChatReader(AnswerReader):
    """Collects one answer. `text_tools` are names whose calls may come as text."""

    def __init__(self, origin: Origin, model: str, text_tools: Collection[str] = ()) -> None:
        super().__init__(origin, model)
        self._thinking: list[str] = []
        self._details: list[JsonObject] = []
        self._text: list[str] = []
        self._usage = Usage(requests=1)
        self._refused = False
        self._splitter = TextSplitter(text_tools)

    @property
    def partial(self) -> str:
        return "".join(self._text)

    def feed(self, data: bytes) -> bool:
        chunk = jsonval.parse_as(data, _CHUNK)
        if chunk is None:
            return False
        choice = chunk.choices[0] if chunk.choices else _NO_CHOICE
        if error := chunk.error or choice.error:
            raise from_event(self.origin, {"error": error}, self.partial)
        if not self.streamed and chunk.model:
            self.model = jsonval.text(chunk.model) or self.model
        if delta := choice.delta or choice.message:
            self._delta(delta)
        if choice.finish_reason:
            native = jsonval.text(choice.native_finish_reason)
            self.raw_finish = native if finish_of(native) == "error" else jsonval.text(choice.finish_reason)
        usage = choice.usage or chunk.usage or chunk.x_groq
        if isinstance(usage, dict):
            counted = usage_of(jsonval.obj(usage.get("usage")) or usage)
            self._usage = counted if counted.input or counted.output or counted.cost else self._usage
        return True

    def end(self, *, told: bool) -> None:
        if told:
            self.raw_finish = self.raw_finish or "stop"
        thinking, text, calls = self._splitter.end()
        self.say(thinking, self._thinking, ThinkingDelta)
        self.say(text, self._text)
        for name, arguments in calls:
            self.call(None, f"text_{len(self.calls) + 1}", name, arguments)

    def message(self) -> AssistantMessage:
        if self._refused:
            self.raw_finish = "content_filter"
        parts: list[AssistantPart] = []
        thought, text = "".join(self._thinking), self.partial
        if not thought:  # the template of a local server may have opened it
            before, closed, after = f"{text}\n".partition("\n</think>\n")
            thought, text = (before, after.strip()) if closed and "<think>" not in before else ("", text)
        if thought or self._details:
            replay = jsonval.compact({"reasoning_details": self._details}) if self._details else ""
            parts.append(Thinking(thought, replay, "chat"))
        parts += [Text(text), *self.whole_calls()]
        return finished(self.origin, parts, self.raw_finish, model=self.model, usage=self._usage)

    def _delta(self, delta: _ChatDelta) -> None:
        reasoning = delta.reasoning_content or delta.reasoning
        if delta.reasoning_details:
            shown = self._keep(jsonval.rows(delta.reasoning_details))
            reasoning = reasoning or shown
        if reasoning:
            self.say(jsonval.text(reasoning), self._thinking, ThinkingDelta)
        if isinstance(delta.content, str):
            self._content(delta.content)
        elif delta.content:
            for part in jsonval.rows(delta.content):
                self._part(part)
        if delta.refusal:
            self._refused = True
            self.say(jsonval.text(delta.refusal), self._text)
        for call in delta.tool_calls or ():
            self._call(call)

    def _content(self, content: str) -> None:
        thinking, text = self._splitter.feed(content)
        if thinking:
            self.say(thinking, self._thinking, ThinkingDelta)
        self.say(text, self._text)

    def _part(self, part: JsonObject) -> None:
        if part.get("type") == "thinking":
            inner = part.get("thinking")
            texts = [inner] if isinstance(inner, str) else [piece.get("text") for piece in jsonval.rows(inner)]
            self.say("".join(map(jsonval.text, texts)), self._thinking, ThinkingDelta)
        else:
            self._content(jsonval.text(part.get("text")))

    def _call(self, call: _ChatCall) -> None:
        function, extra = call.function or _ChatFunction(), call.extra_content
        self.call(
            call.index if isinstance(call.index, int) and not isinstance(call.index, bool) else None,
            jsonval.text(call.id),
            jsonval.text(function.name),
            function.arguments,
            jsonval.compact({"extra_content": extra}) if extra else "",
        )

    def _keep(self, details: list[JsonObject]) -> str:
        """Keep reasoning blocks for the next request; pieces of one block are joined. Returns the readable part."""
        for detail in details:
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
        return "".join(jsonval.text(one.get("text")) or jsonval.text(one.get("summary")) for one in details)


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


def _effort(quirks: Quirks, model: str, effort: ReasoningEffort) -> str:
    """How a vendor names this effort."""
    if model.startswith("kimi-k3"):  # cannot be switched off, and knows low, high and max
        return {"none": "low", "minimal": "low", "medium": "high", "xhigh": "high"}.get(effort, effort)
    if quirks.thinking == "effort":  # from GPT-6.2 on the least is `low`
        return "low" if effort in {"none", "minimal"} and always_reasons(model) else effort
    if quirks.thinking == "openrouter":
        return "xhigh" if effort == "max" else effort
    return {"minimal": "low", "xhigh": "high", "max": "high"}.get(effort, effort)


def thinking_switch(quirks: Quirks, model: str, effort: ReasoningEffort | None) -> JsonObject:
    """How this vendor is told to think more, less or not at all. None leaves it to the model."""
    if quirks.thinking == "split":
        return {"reasoning_split": True}
    if effort is None or (quirks.thinking == "mistral" and model.startswith("magistral")):
        return {}
    on, named = effort != "none", _effort(quirks, model, effort)
    if model.startswith("kimi-k3"):
        return {"reasoning_effort": named}
    styles: dict[str, JsonObject] = {
        "effort": {"reasoning_effort": named},
        "basic_effort": {"reasoning_effort": named},
        "openrouter": {"reasoning": {"effort": named}},
        "type": {"thinking": {"type": "enabled" if on else "disabled"}},
        "enable_thinking": {"enable_thinking": on},
        "template": {"chat_template_kwargs": {"enable_thinking": on}},
        "mistral": {"reasoning_effort": "high" if on else "none"},
    }
    return styles.get(quirks.thinking, {})
