"""A scripted model server: Chat Completions and Messages on one loopback port, one reply per request.

The same `Reply` is spoken on either wire, as the path asks (`/v1/chat/completions` or `/v1/messages`)::

    async with LlmServer(Reply(Call("web_search", {"query": "x"})), "The answer.") as server:
        provider = ...  # base URL: server.url + "/v1" for chat, server.url for messages
        server.requests[0].messages

Faults are part of a reply: a status, raw bytes in place of the stream, a reset, a clean end or silence after n events.
"""

import asyncio
import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

from nanobot.messages import Usage
from nanobot.providers.scripted import Action, Call, End, Pause, Say, Think, Wait, pieces
from tests.fakes.http_server import HttpServer, Request, Responder, Served

Wire = Literal["chat", "messages", ""]
JsonObject = dict[str, object]
Frame = bytes | float | asyncio.Event
"""A piece of a stream: bytes to send, seconds to pause, or an event to wait for."""

CHAT_FINISH = {"stop": "stop", "tools": "tool_calls", "length": "length", "filtered": "content_filter"}
MESSAGES_FINISH = {
    "stop": "end_turn",
    "tools": "tool_use",
    "length": "max_tokens",
    "filtered": "refusal",
    "overflow": "model_context_window_exceeded",
    "pause": "pause_turn",
}


@dataclass(frozen=True, slots=True)
class LlmRequest:
    """A request as the server saw it. `raw` are the exact bytes of the body."""

    wire: Wire
    path: str
    headers: dict[str, str]
    body: JsonObject
    raw: bytes

    @property
    def messages(self) -> list[dict[str, Any]]:
        """The conversation that the model was sent."""
        sent = self.body["messages"]
        assert isinstance(sent, list)
        return sent

    def told(self, role: str) -> list[str]:
        """What was said in it by a role."""
        return [str(one["content"]) for one in self.messages if one["role"] == role]


class Reply:
    """One answer. Actions are those of `nanobot.providers.scripted`.

    `delay` is in seconds, before the status line. With `status` other than 200 or a `body`, the answer is whole (a dict
    is sent as JSON). `raw` replaces the stream by these pieces. `stop_after` events (of the stream) `then` happens.
    """

    def __init__(
        self,
        *actions: Action | str,
        usage: Usage | None = None,
        delay: float = 0.0,
        status: int = 200,
        body: JsonObject | bytes | str | None = None,
        headers: Iterable[tuple[str, str]] = (),
        content_type: str = "",
        raw: Iterable[bytes | str] | None = None,
        stop_after: int | None = None,
        then: Literal["reset", "close", "hang"] = "reset",
    ) -> None:
        self.actions = tuple(Say(action) if isinstance(action, str) else action for action in actions)
        self.usage = usage or Usage(input=100, output=10)
        self.delay = delay
        self.status = status
        self.body = body
        self.headers = tuple(headers)
        self.content_type = content_type
        self.raw = None if raw is None else tuple(item.encode() if isinstance(item, str) else item for item in raw)
        self.stop_after = stop_after
        self.then = then

    @property
    def finish(self) -> str:
        ends = [action.finish for action in self.actions if isinstance(action, End) and action.finish]
        called = any(isinstance(action, Call) for action in self.actions)
        return ends[-1] if ends else "tools" if called else "stop"


ReplySource = Reply | str | Callable[[LlmRequest], Reply]


class LlmServer(Served):
    """Plays `replies` in order, then `after` for ever. Without `after`, a request too many gets a 400 that says so.

    `models` is what `GET /v1/models` lists. Other GET paths are answered from `pages` or with 404.
    """

    def __init__(self, *replies: ReplySource, after: ReplySource | None = None) -> None:
        self.replies = list(replies)
        self.after = after
        self.models: list[JsonObject] = []
        self.pages: dict[str, JsonObject | str] = {}
        self.requests: list[LlmRequest] = []
        self.server = HttpServer(self._handle)
        self._asked = asyncio.Condition()

    def add(self, *replies: ReplySource) -> None:
        self.replies.extend(replies)

    async def asked(self, count: int, timeout: float = 120.0) -> LlmRequest:
        """Wait until `count` model requests have come and return that one."""
        async with asyncio.timeout(timeout), self._asked:
            await self._asked.wait_for(lambda: len(self.requests) >= count)
        return self.requests[count - 1]

    async def _handle(self, request: Request, respond: Responder) -> None:
        if request.method == "GET" or request.path.startswith("/bot"):  # a gateway whose server had this port before
            await self._get(request, respond)
            return
        wire: Wire = "messages" if request.path.endswith("/messages") else "chat"
        body = request.json() if request.body else {}
        seen = LlmRequest(wire, request.path, request.headers, body, request.body)
        self.requests.append(seen)
        async with self._asked:
            self._asked.notify_all()
        await _play(self._next(seen), seen, respond)

    def _next(self, seen: LlmRequest) -> Reply:
        source = self.replies.pop(0) if self.replies else self.after
        if source is None:
            return Reply(status=400, body={"error": {"message": "no reply is scripted for this request"}})
        if isinstance(source, str):
            return Reply(source)
        return source if isinstance(source, Reply) else source(seen)

    async def _get(self, request: Request, respond: Responder) -> None:
        page = self.pages.get(request.path)
        if page is None and request.path.endswith("/models"):
            page = {"object": "list", "data": self.models}
        if page is None:
            await respond.json({"error": {"message": "not found"}}, 404)
        elif isinstance(page, str):
            await respond.send(200, page, content_type="text/plain")
        else:
            await respond.json(page)


async def _play(reply: Reply, seen: LlmRequest, respond: Responder) -> None:
    if reply.delay:
        await asyncio.sleep(reply.delay)
    if reply.status != 200 or reply.body is not None:
        body = {} if reply.body is None else reply.body
        kind = reply.content_type or ("application/json" if isinstance(body, dict) else "text/plain")
        data = json.dumps(body) if isinstance(body, dict) else body
        await respond.send(reply.status, data, headers=reply.headers, content_type=kind)
        return
    if reply.stop_after is not None and reply.stop_after < 0:
        await respond.abort()
        return
    await respond.start(headers=reply.headers, content_type=reply.content_type or "text/event-stream")
    sent = 0
    for frame in frames(reply, seen):
        if isinstance(frame, asyncio.Event):
            await asyncio.wait_for(frame.wait(), 120)
            continue
        if isinstance(frame, float):
            await asyncio.sleep(frame)
            continue
        if reply.stop_after is not None and sent >= reply.stop_after:
            break
        await respond.chunk(frame)
        sent += 1
    else:
        await respond.end()
        return
    await _stop(reply, respond)


async def _stop(reply: Reply, respond: Responder) -> None:
    match reply.then:
        case "reset":
            await asyncio.sleep(0.02)  # lets what was sent arrive before the reset throws it away
            await respond.abort()
        case "close":
            await respond.end()
            respond.close()
        case "hang":
            await respond.hang()


def frames(reply: Reply, seen: LlmRequest) -> Iterator[Frame]:
    """The stream of a reply on the wire of the request."""
    if reply.raw is not None:
        yield from reply.raw
    elif seen.wire == "messages":
        yield from _messages_frames(reply)
    else:
        yield from _chat_frames(reply)


def chat_event(delta: JsonObject | None, finish: str | None = None, **extra: object) -> bytes:
    """One Chat Completions chunk as a server-sent event; without a delta it has no choices."""
    choices = [] if delta is None else [{"index": 0, "delta": delta, "finish_reason": finish}]
    chunk = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "fake", "choices": choices}
    return f"data: {json.dumps({**chunk, **extra}, ensure_ascii=False)}\n\n".encode()


DONE = b"data: [DONE]\n\n"


def _chat_frames(reply: Reply) -> Iterator[Frame]:
    yield chat_event({"role": "assistant", "content": ""})
    slot = 0
    for action in reply.actions:
        match action:
            case Say():
                for piece in pieces(action.text, action.size):
                    yield chat_event({"content": piece})
            case Think():
                yield chat_event({"reasoning_content": action.text})
            case Call():
                identity = action.id or f"call_{slot + 1}"
                head = {"name": action.name, "arguments": ""}
                yield chat_event(
                    {"tool_calls": [{"index": slot, "id": identity, "type": "function", "function": head}]}
                )
                for piece in pieces(_raw(action), 12):
                    yield chat_event({"tool_calls": [{"index": slot, "function": {"arguments": piece}}]})
                slot += 1
            case Pause() | Wait():
                yield action.seconds if isinstance(action, Pause) else action.gate
            case _:
                pass
    yield chat_event({}, CHAT_FINISH.get(reply.finish, reply.finish))
    usage = reply.usage
    yield chat_event(
        None,
        usage={
            "prompt_tokens": usage.input,
            "completion_tokens": usage.output,
            "total_tokens": usage.input + usage.output,
            "prompt_tokens_details": {"cached_tokens": usage.cached},
        },
    )
    yield DONE


def messages_event(kind: str, **fields: object) -> bytes:
    """One event of the Messages API."""
    return f"event: {kind}\ndata: {json.dumps({'type': kind, **fields}, ensure_ascii=False)}\n\n".encode()


def _messages_frames(reply: Reply) -> Iterator[Frame]:
    usage = reply.usage
    started = {"input_tokens": usage.input - usage.cached, "output_tokens": 1, "cache_read_input_tokens": usage.cached}
    message = {"id": "msg_1", "type": "message", "role": "assistant", "model": "fake", "content": [], "usage": started}
    yield messages_event("message_start", message=message)
    yield messages_event("ping")
    index = 0
    for action in reply.actions:
        if isinstance(action, Pause | Wait):
            yield action.seconds if isinstance(action, Pause) else action.gate
        elif isinstance(action, Say | Think | Call):
            yield from _block(action, index)
            index += 1
    stop = {"stop_reason": MESSAGES_FINISH.get(reply.finish, reply.finish), "stop_sequence": None}
    yield messages_event("message_delta", delta=stop, usage={"output_tokens": usage.output})
    yield messages_event("message_stop")


def _block(action: Say | Think | Call, index: int) -> Iterator[bytes]:
    def delta(**fields: object) -> bytes:
        return messages_event("content_block_delta", index=index, delta=fields)

    def start(**block: object) -> bytes:
        return messages_event("content_block_start", index=index, content_block=block)

    match action:
        case Say():
            yield start(type="text", text="")
            for piece in pieces(action.text, action.size):
                yield delta(type="text_delta", text=piece)
        case Think():
            yield start(type="thinking", thinking="", signature="")
            yield delta(type="thinking_delta", thinking=action.text)
            yield delta(type="signature_delta", signature=action.replay or "c2ln")
        case Call():
            yield start(type="tool_use", id=action.id or f"toolu_{index + 1}", name=action.name, input={})
            for piece in pieces(_raw(action), 12):
                yield delta(type="input_json_delta", partial_json=piece)
    yield messages_event("content_block_stop", index=index)


def _raw(action: Call) -> str:
    return action.arguments if isinstance(action.arguments, str) else json.dumps(action.arguments, ensure_ascii=False)
