"""A request as the JSON body of Chat Completions.

Order makes the prompt cache work: options and tools first, then the messages, which only grow. The tail of a request
joins the text of the last message, so everything before it is the same, byte for byte, in the next request.
"""

from collections.abc import Callable, Iterable

from nanobot.messages import AssistantMessage, Message, Thinking, ToolCall, ToolMessage, UserMessage, UserPart
from nanobot.providers import jsonval
from nanobot.providers.answer import argument_error, call_id
from nanobot.providers.attachments import PDF_TYPE, readable
from nanobot.providers.base import ReasoningEffort, Request
from nanobot.providers.models import ALWAYS_REASONING, REASONING
from nanobot.providers.vendors import Quirks

JsonObject = dict[str, object]
_NO_SIGNATURE = {"google": {"thought_signature": "skip_thought_signature_validator"}}
"""What Google documents for calls that another model made."""
_MARK = {"type": "ephemeral"}


class ChatBody:
    """Writes request bodies for one model. `dropped` names optional fields that this server has refused."""

    def __init__(self, model: str, quirks: Quirks, *, vision: bool, pdf: bool = False) -> None:
        self._model = model
        self._quirks = quirks
        self._vision, self._pdf = vision, pdf
        self._marks = model.startswith(quirks.cache_marks) if quirks.cache_marks else False
        self.dropped: set[str] = set()
        self.max_tokens_field: str = quirks.max_tokens_field
        if model.startswith("kimi-k3"):
            self.max_tokens_field = "max_completion_tokens"

    def build(self, request: Request) -> bytes:
        """The body. Images are read from their files now."""
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
        ready = readable(parts, vision=self._vision, pdf=self._pdf)
        if all(kind == "text" for kind, _, _ in ready):
            return "\n\n".join(value for _, value, _ in ready)
        return [_text(value) if kind == "text" else _file(value, mime) for kind, value, mime in ready]

    def _tool(self, message: ToolMessage, pictures: list[JsonObject]) -> JsonObject:
        """This wire has no images and files in tool answers: they follow as a message of the user."""
        texts: list[str] = []
        for kind, value, mime in readable(message.content, vision=self._vision, pdf=self._pdf):
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


def _text(text: str) -> JsonObject:
    return {"type": "text", "text": text}


def _file(data: str, mime: str) -> JsonObject:
    if mime == PDF_TYPE:
        return {"type": "file", "file": {"filename": "file.pdf", "file_data": f"data:{mime};base64,{data}"}}
    return {"type": "image_url", "image_url": {"url": f"data:{mime};base64,{data}"}}


def _fixed_temperature(model: str) -> bool:
    """OpenAI's reasoning models and Kimi K3 refuse a temperature of one's own."""
    name = model.rpartition("/")[2]
    return REASONING.match(name) is not None or name.startswith("kimi-k3")


def _openai_effort(model: str, effort: ReasoningEffort) -> str:
    """From GPT-6.2 on the least is `low`."""
    return "low" if effort in {"none", "minimal"} and ALWAYS_REASONING.match(model) else effort


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
