"""A Bot API server on loopback: the semantics of updates, messages and refusals that a bot meets, and a user beside it.

    async with TelegramServer() as server:
        ada = server.user("Ada")
        ada.say("hello")
        await server.until(lambda: "bot: hi" in server.visible(ada.chat))

Point a client at it with `base_url=f"{server.url}/bot"`. Tests assert on `visible(chat)`, what the person sees,
and on `calls`. `fail(method, *faults)` scripts what goes wrong next, `failing(method, fault)` for a time.
"""

import asyncio
import contextlib
import hashlib
import itertools
import json
import time
from collections import defaultdict, deque
from collections.abc import Callable
from email import message_from_bytes
from email.policy import HTTP
from typing import Literal
from urllib.parse import parse_qsl

from msgspec import Struct, convert, field
from msgspec.structs import replace

from tests.fakes.http_server import HttpServer, Request, Responder, Served
from tests.fakes.telegram_rules import problems

TOKEN = "123456:FAKE-token_for-tests-0123456789abcdef"
BOT = {
    "id": 123456,
    "is_bot": True,
    "first_name": "Nano",
    "username": "nano_test_bot",
    "can_join_groups": True,
    "can_read_all_group_messages": False,
    "supports_inline_queries": False,
    "has_topics_enabled": True,
}
Json = dict[str, object]
#: What a person waits for: words in a line of the chat, or a condition.
Seen = str | Callable[[], bool]
#: Calls that succeed and change nothing here.
_AGREED = {"answercallbackquery", "setwebhook", "deletewebhook"}


class Fault(Struct, frozen=True):
    """One thing that goes wrong. `apply` tells whether the call took effect before it did."""

    kind: Literal["reset", "hang", "status", "html"]
    apply: bool = False
    status: int = 500
    description: str = ""
    retry_after: int = 0


def drop_before() -> Fault:
    return Fault("reset")


def apply_then_drop() -> Fault:
    return Fault("reset", apply=True)


def black_hole() -> Fault:
    return Fault("hang")


def too_many(seconds: int) -> Fault:
    return Fault("status", status=429, description=f"Too Many Requests: retry after {seconds}", retry_after=seconds)


def refuse(status: int, description: str) -> Fault:
    return Fault("status", status=status, description=description)


def bad_gateway() -> Fault:
    return Fault("html", status=502)


class Call(Struct, frozen=True):
    """One request of the bot: method in lower case, parameters decoded, when it came by the server's clock, what befell
    it."""

    method: str
    params: Json
    at: float
    fault: "Fault | None" = None


class WireEntity(Struct, frozen=True):
    type: str
    offset: int
    length: int
    url: str | None = None


class Message(Struct):
    """A message as it stands in a chat."""

    id: int
    chat: int
    sender: str
    text: str
    entities: list[Json] = field(default_factory=list)
    buttons: list[str] = field(default_factory=list)
    data: list[str] = field(default_factory=list)
    silent: bool = False
    edits: int = 0
    thread: int | None = None
    document: str = ""


class Refused(Exception):
    """The server says no: HTTP status and description."""

    def __init__(self, status: int, description: str, **parameters: object) -> None:
        super().__init__(description)
        self.status = status
        self.parameters = parameters


class Flood:
    """A token bucket per chat whose penalty grows when it is not respected. Off until `enabled`."""

    def __init__(self, per_second: float = 1.0, burst: int = 5, penalty: float = 3.0) -> None:
        self.per_second, self.burst, self.penalty = per_second, burst, penalty
        self.enabled = False
        self.violations = 0
        self._tokens: dict[int, tuple[float, float]] = {}
        self._until: dict[int, tuple[float, float]] = {}

    def check(self, chat: int, now: float) -> None:
        if not self.enabled:
            return
        until, penalty = self._until.get(chat, (0.0, self.penalty))
        if now < until:
            self.violations += 1
            penalty *= 2
            self._until[chat] = (now + penalty, penalty)
            raise Refused(429, f"Too Many Requests: retry after {int(penalty)}", retry_after=max(1, int(penalty)))
        tokens, at = self._tokens.get(chat, (float(self.burst), now))
        tokens = min(float(self.burst), tokens + (now - at) * self.per_second)
        if tokens < 1:
            self._until[chat] = (now + self.penalty, self.penalty)
            raise Refused(429, "Too Many Requests", retry_after=max(1, int(self.penalty)))
        self._tokens[chat] = (tokens - 1, now)


class User:
    """A person in a chat. In a private chat the chat's id is the person's."""

    def __init__(self, server: "TelegramServer", user_id: int, name: str, chat: int, chat_type: str) -> None:
        self.server, self.id, self.name, self.chat, self.chat_type = server, user_id, name, chat, chat_type
        self.language = "en"

    def say(self, text: str, **extra: object) -> Json:
        """Send a message; `extra` are further fields of it (photo, reply_to_message, message_thread_id …)."""
        return self.server.receive(self, text, extra)

    def calls_bot(self, text: str, **extra: object) -> Json:
        """Send a message to a group that names the bot."""
        mention = {"type": "mention", "offset": 0, "length": len(f"@{BOT['username']}")}
        return self.say(f"@{BOT['username']} {text}", entities=[mention], **extra)

    async def asks(self, text: str, seen: Seen) -> str:
        """Send a message, and wait for what comes of it."""
        self.say(text)
        return await self.sees(seen)

    async def presses(self, label: str, seen: Seen) -> str:
        """Press the newest button of that label in the chat, and wait for what comes of it."""
        self.press(label)
        return await self.sees(seen)

    async def sees(self, seen: Seen) -> str:
        """Wait until a line of the chat holds this, the last of which is returned, or until a condition holds."""
        if isinstance(seen, str):
            return await self.server.shows(self.chat, seen)
        await self.server.until(seen)
        return ""

    @property
    def seen(self) -> list[str]:
        """The lines of the chat."""
        return self.server.visible(self.chat)

    def told(self, words: str) -> int:
        """How many lines of the chat hold these words."""
        return sum(words in line for line in self.seen)

    def send(self, kind: str, data: bytes, caption: str = "", *, size: int = -1, **extra: object) -> Json:
        """Send a file: a photo, document, voice, audio, video, video_note or animation.

        `size` is what Telegram claims of it; `file_name`, `mime_type` and `duration` are fields of the file itself.
        """
        number = f"file{next(self.server.ids)}"
        self.server.files[number] = data
        told: Json = {"file_id": number, "file_unique_id": f"u{number}", "file_size": size if size >= 0 else len(data)}
        for name in ("file_name", "mime_type", "duration"):
            if name in extra:
                told[name] = extra.pop(name)
        if kind == "photo":
            small: Json = {"file_id": "small", "file_unique_id": "s", "width": 90, "height": 60, "file_size": 900}
            extra["photo"] = [small, {**told, "width": 1280, "height": 853}]
        else:
            extra[kind] = {"duration": 3, "width": 320, "height": 240, "length": 240, **told}
        if caption:
            extra["caption"] = caption
        return self.server.receive(self, "", extra)

    def album(self, *pictures: bytes, caption: str = "") -> list[Json]:
        """Send pictures as one album: a message each, the caption on the first."""
        group = f"album{next(self.server.ids)}"
        return [
            self.send("photo", data, caption if place == 0 else "", media_group_id=group)
            for place, data in enumerate(pictures)
        ]

    def forward(self, text: str, origin: str, **extra: object) -> Json:
        """Forward what somebody else wrote; `origin` is the name that Telegram shows."""
        shown: Json = {"type": "hidden_user", "sender_user_name": origin, "date": 1_760_000_000}
        return self.say(text, forward_origin=shown, **extra)

    def press(self, label: str) -> Json:
        """Press the newest button of that label in the chat."""
        for message in reversed(self.server.chats[self.chat]):
            if label in message.buttons:
                return self.server.press(self, message, label)
        raise AssertionError(f"no button {label!r} in {self.server.visible(self.chat)}")

    def agrees(self, label: str) -> None:
        """From now on this person presses each button of that label as soon as it stands in any chat."""
        self.server.agreeing = (self, label)

    def edit(self, sent: Json, text: str) -> Json:
        message = sent["message"]
        assert isinstance(message, dict)
        return self.server.push("edited_message", {**message, "text": text, "edit_date": int(time.time())})

    def as_json(self) -> Json:
        return {"id": self.id, "is_bot": False, "first_name": self.name, "language_code": self.language}


class TelegramServer(Served):
    """The server. `updates` wait until the bot confirms them by an offset above their id."""

    def __init__(self, token: str = TOKEN) -> None:
        self.token = token
        self.server = HttpServer(self._serve)
        self.ids = itertools.count(1)
        self.update_ids = itertools.count(500)
        self.calls: list[Call] = []
        self.updates: deque[Json] = deque()
        self.confirmed: list[int] = []
        self.conflicts = 0
        self.chats: dict[int, list[Message]] = defaultdict(list)
        self.actions: list[tuple[float, int, str]] = []
        self.blocked: set[int] = set()
        self.migrated: dict[int, int] = {}
        self.files: dict[str, bytes] = {}
        self.places: dict[str, str] = {}  # what a server in local mode says: the file's path on its disk
        self.flood = Flood()
        self.clock: Callable[[], float] = time.monotonic  # a test may give another one
        self.commands: dict[str, Json] = {}
        self.allowed: list[str] | None = None
        self.webhook: Json = {}  # what getWebhookInfo says of one that is set, such as its url
        self.agreeing: tuple[User, str] | None = None  # who presses which button as soon as it is shown
        self.broken = 0  # calls that met a fault
        self._faults: dict[str, deque[Fault]] = defaultdict(deque)
        self._planned: dict[str, dict[int, Fault]] = defaultdict(dict)
        self._failing: dict[str, Fault] = {}
        self._cut: int | None = None
        self._cut_applies = False
        self._changed = asyncio.Event()
        self._poll: asyncio.Event | None = None

    # What tests do

    def user(self, name: str, user_id: int = 0) -> User:
        number = user_id or 1000 + next(self.ids)
        return User(self, number, name, number, "private")

    def member(self, name: str, group: int, *, user_id: int = 0, kind: str = "supergroup") -> User:
        return User(self, user_id or 1000 + next(self.ids), name, group, kind)

    @property
    def toasts(self) -> list[str]:
        """What presses of buttons were answered with."""
        return [str(call.params.get("text", "")) for call in self.sent("answerCallbackQuery")]

    def fail(self, method: str, *faults: Fault) -> None:
        """What goes wrong in the next calls of `method`, in order; `file` is the download of a file."""
        self._faults[method.lower()].extend(faults)

    def plan(self, method: str, after: int, fault: Fault) -> None:
        """`fault` in a later call of `method`: the one after `after` more that go well."""
        self._planned[method.lower()][len(self.sent(method)) + after] = fault

    def failing(self, method: str, fault: Fault | None) -> None:
        """`fault` in every call of `method` from now on, None for no more."""
        if fault is None:
            self._failing.pop(method.lower(), None)
        else:
            self._failing[method.lower()] = fault

    def calm(self) -> None:
        """Nothing of what `fail` has scripted goes wrong any more."""
        self._faults.clear()

    def cut(self, after: int = 0, *, applies: bool = False) -> None:
        """The network breaks after `after` more calls and stays so; `applies`: the call that breaks has its effect."""
        self._cut, self._cut_applies = len(self.calls) + after, applies

    @property
    def is_cut(self) -> bool:
        """Whether a call has met the cut."""
        return self._cut is not None and len(self.calls) > self._cut

    def mend(self) -> None:
        self._cut = None

    def visible(self, chat: int, *, thread: int | None = None) -> list[str]:
        """The chat as its people see it: sender, text and buttons of every message."""
        return [
            f"{message.sender}: {message.text or message.document}"
            + "".join(f" [{button}]" for button in message.buttons)
            for message in self.chats[chat]
            if thread is None or message.thread == thread
        ]

    async def until(self, condition: Callable[[], bool], timeout: float = 120.0) -> None:
        """Wait until `condition` holds; checked whenever something changed here, and ten times a second.

        A condition may look at something else: a page of a web site, a file. Raises `TimeoutError` with what was seen.
        """
        end = time.monotonic() + timeout
        while not condition():
            if (left := end - time.monotonic()) <= 0:
                seen = {chat: self.visible(chat)[-8:] for chat in self.chats}
                methods = [call.method for call in self.calls[-20:]]
                raise TimeoutError(f"not within {timeout:.0f} s; in the chats {seen}; the last calls {methods}")
            self._changed.clear()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._changed.wait(), min(0.1, left))

    async def shows(self, chat: int, text: str) -> str:
        """Wait until a line of a chat holds this; the last one that does."""
        await self.until(lambda: any(text in line for line in self.visible(chat)))
        return next(line for line in reversed(self.visible(chat)) if text in line)

    def sent(self, method: str) -> list[Call]:
        return [call for call in self.calls if call.method == method.lower()]

    def receive(self, user: User, text: str, extra: Json) -> Json:
        thread = extra.get("message_thread_id") if extra.get("is_topic_message") else None
        message = Message(
            next(self.ids), user.chat, user.name, text, thread=thread if isinstance(thread, int) else None
        )
        self.chats[user.chat].append(message)
        body = {**self.message_json(message, user.chat_type), "from": user.as_json(), **extra}
        if not text:
            body.pop("text", None)
        if text.startswith("/"):
            length = len(text.split(maxsplit=1)[0].encode("utf-16-le")) // 2
            body["entities"] = extra.get("entities") or [{"type": "bot_command", "offset": 0, "length": length}]
        return self.push("message", body)

    def press(self, user: User, message: Message, label: str) -> Json:
        """What Telegram tells the bot when `user` presses the button of that label."""
        query: Json = {
            "id": str(next(self.ids)),
            "from": user.as_json(),
            "chat_instance": "1",
            "data": message.data[message.buttons.index(label)],
            "message": self.message_json(message, "private" if message.chat > 0 else "supergroup"),
        }
        return self.push("callback_query", query)

    def push(self, kind: str, body: Json) -> Json:
        """Put an update into the queue as Telegram would, unless the bot did not ask for its kind."""
        update: Json = {"update_id": next(self.update_ids), kind: body}
        if self.allowed is None or kind in self.allowed:
            self.updates.append(update)
        self._wake()
        return update

    def message_json(self, message: Message, chat_type: str = "private") -> Json:
        title: Json = {"first_name": "Someone"} if chat_type == "private" else {"title": "A group"}
        body: Json = {
            "message_id": message.id,
            "date": int(time.time()),
            "chat": {"id": message.chat, "type": chat_type, **title},
            "from": BOT
            if message.sender == "bot"
            else {"id": message.chat, "is_bot": False, "first_name": message.sender},
            "text": message.text,
            "entities": message.entities,
        }
        if message.buttons:
            pairs = zip(message.buttons, message.data, strict=False)
            buttons = [{"text": text, "callback_data": data} for text, data in pairs]
            body["reply_markup"] = {"inline_keyboard": [buttons]}
        if message.thread is not None:
            body |= {"message_thread_id": message.thread, "is_topic_message": True}
        return body

    def _wake(self) -> None:
        self._changed.set()
        if self._poll is not None:
            self._poll.set()

    # The wire

    async def _serve(self, request: Request, respond: Responder) -> None:
        if request.path.startswith("/file/bot"):
            if self._faults["file"]:
                await self._break(self._faults["file"].popleft(), respond)
                return
            data = self.files.get(request.path.partition(f"{self.token}/")[2])
            await respond.send(200 if data is not None else 404, data or b"")
            return
        token, _, method = request.path.removeprefix("/bot").rpartition("/")
        method = method.lower()
        params = _params(request)
        planned = self._planned[method].pop(len(self.sent(method)), None) if self._planned[method] else None
        if self._cut is not None and len(self.calls) >= self._cut:
            planned = Fault("reset", apply=self._cut_applies and len(self.calls) == self._cut)
        scripted = self._faults[method].popleft() if self._faults[method] else None
        fault = planned or scripted or self._failing.get(method)
        self.calls.append(Call(method, params, self.clock(), fault))
        self._changed.set()
        if token != self.token:
            await self._refuse(respond, Refused(401, "Unauthorized"))
            return
        if fault is not None and not fault.apply:
            await self._break(fault, respond)
            return
        handler = self._agree if method in _AGREED else getattr(self, f"_do_{method}", None)
        if handler is None:
            await self._refuse(respond, Refused(404, "Not Found"))
            return
        try:
            result = await handler(params, respond)
        except Refused as refusal:
            await self._refuse(respond, refusal)
            return
        finally:
            self._changed.set()
        if fault is not None:
            await self._break(fault, respond)
        elif not respond.closed.is_set():
            await respond.json({"ok": True, "result": result})

    async def _break(self, fault: Fault, respond: Responder) -> None:
        self.broken += 1
        match fault.kind:
            case "reset":
                await respond.abort()
            case "hang":
                await respond.hang(60)
            case "html":
                await respond.send(fault.status, "<html>Bad Gateway</html>", content_type="text/html")
            case "status":
                extra = {"retry_after": fault.retry_after} if fault.retry_after else {}
                await self._refuse(respond, Refused(fault.status, fault.description, **extra))

    @staticmethod
    async def _refuse(respond: Responder, refusal: Refused) -> None:
        body: Json = {"ok": False, "error_code": refusal.status, "description": str(refusal)}
        if refusal.parameters:
            body["parameters"] = refusal.parameters
        await respond.json(body, refusal.status)

    # Methods

    async def _agree(self, params: Json, respond: Responder) -> object:
        return True

    async def _do_getme(self, params: Json, respond: Responder) -> object:
        return BOT

    async def _do_getwebhookinfo(self, params: Json, respond: Responder) -> object:
        return {"url": "", "has_custom_certificate": False, "pending_update_count": len(self.updates), **self.webhook}

    async def _do_getupdates(self, params: Json, respond: Responder) -> object:
        if self._poll is not None:  # the older poll loses
            self.conflicts += 1
            self._poll.set()
        mine = self._poll = asyncio.Event()
        allowed = params.get("allowed_updates")
        if isinstance(allowed, list):
            self.allowed = [str(kind) for kind in allowed] or None
        offset = _int(params.get("offset"))
        while self.updates and offset and _int(self.updates[0]["update_id"]) < offset:
            self.confirmed.append(_int(self.updates.popleft()["update_id"]))
        try:
            async with asyncio.timeout(min(_int(params.get("timeout")), 50) or 0.001):
                while not self.updates and self._poll is mine and not respond.closed.is_set():
                    mine.clear()
                    await mine.wait()
        except TimeoutError:
            pass
        finally:
            won = self._poll is mine
            if won:
                self._poll = None
        if not won:
            raise Refused(409, "Conflict: terminated by other getUpdates request; make sure that only one is running")
        return list(itertools.islice(self.updates, _int(params.get("limit")) or 100))

    async def _do_sendmessage(self, params: Json, respond: Responder) -> object:
        chat = self._writable(params)
        text = str(params.get("text", ""))
        self._judge(text, params)
        thread = _int(params.get("message_thread_id")) or None
        message = Message(next(self.ids), chat, "bot", text, thread=thread)
        self._fill(message, params)
        self.chats[chat].append(message)
        return self.message_json(message, "private" if chat > 0 else "supergroup")

    async def _do_editmessagetext(self, params: Json, respond: Responder) -> object:
        chat = self._writable(params)
        message = self._find(chat, params, "message to edit not found")
        text = str(params.get("text", ""))
        self._judge(text, params)
        before = replace(
            message, entities=list(message.entities), buttons=list(message.buttons), data=list(message.data)
        )
        message.text, message.buttons, message.data = text, [], []
        self._fill(message, params)
        same = (before.text, before.entities, before.buttons) == (message.text, message.entities, message.buttons)
        if same:
            raise Refused(400, "Bad Request: message is not modified: specified new message content is the same")
        message.edits += 1
        return self.message_json(message, "private" if chat > 0 else "supergroup")

    async def _do_editmessagereplymarkup(self, params: Json, respond: Responder) -> object:
        chat = self._writable(params)
        message = self._find(chat, params, "message to edit not found")
        message.buttons, message.data = [], []
        self._fill(message, {**params, "entities": message.entities})
        return self.message_json(message, "private" if chat > 0 else "supergroup")

    async def _do_deletemessage(self, params: Json, respond: Responder) -> object:
        chat = self._writable(params)
        self.chats[chat].remove(self._find(chat, params, "message to delete not found"))
        return True

    async def _do_senddocument(self, params: Json, respond: Responder) -> object:
        chat = self._writable(params)
        caption = str(params.get("caption", ""))
        name = str(params.get("document_name") or params.get("document") or "file")
        message = Message(next(self.ids), chat, "bot", caption, document=f"<{name}>")
        self._fill(message, params)
        self.chats[chat].append(message)
        return self.message_json(message)

    async def _do_sendphoto(self, params: Json, respond: Responder) -> object:
        return await self._do_senddocument({**params, "document": "photo"}, respond)

    async def _do_sendchataction(self, params: Json, respond: Responder) -> object:
        chat = self._writable(params)
        self.actions.append((self.clock(), chat, str(params.get("action"))))
        return True

    async def _do_sendmessagedraft(self, params: Json, respond: Responder) -> object:
        if self._writable(params) < 0:
            raise Refused(400, "Bad Request: drafts can be sent to private chats only")
        return True

    async def _do_setmessagereaction(self, params: Json, respond: Responder) -> object:
        self._find(self._writable(params), params, "message to react not found")
        return True

    async def _do_setmycommands(self, params: Json, respond: Responder) -> object:
        self.commands[json.dumps(params.get("scope"), sort_keys=True)] = params
        return True

    async def _do_getfile(self, params: Json, respond: Responder) -> object:
        name = str(params.get("file_id"))
        if name not in self.files:
            raise Refused(400, "Bad Request: invalid file_id")
        if len(self.files[name]) > 20_000_000:
            raise Refused(400, "Bad Request: file is too big")
        return {
            "file_id": name,
            "file_unique_id": name,
            "file_size": len(self.files[name]),
            "file_path": self.places.get(name, name),
        }

    # Rules

    def _writable(self, params: Json) -> int:
        chat = _int(params.get("chat_id"))
        if chat in self.migrated:
            to = self.migrated[chat]
            raise Refused(400, "Bad Request: group chat was upgraded to a supergroup chat", migrate_to_chat_id=to)
        if chat in self.blocked:
            raise Refused(403, "Forbidden: bot was blocked by the user")
        if not chat:
            raise Refused(400, "Bad Request: chat not found")
        self.flood.check(chat, self.clock())
        return chat

    def _find(self, chat: int, params: Json, missing: str) -> Message:
        for message in self.chats[chat]:
            if message.id == _int(params.get("message_id")):
                return message
        raise Refused(400, f"Bad Request: {missing}")

    @staticmethod
    def _judge(text: str, params: Json) -> None:
        if params.get("parse_mode"):
            raise AssertionError("parse_mode is not used")
        entities = convert(params.get("entities") or [], list[WireEntity], strict=False)
        found = problems(text, entities)
        if found:
            raise Refused(
                400, f"Bad Request: can't parse entities: {found[0]}" if text.strip() else f"Bad Request: {found[0]}"
            )

    def _fill(self, message: Message, params: Json) -> None:
        raw = params.get("entities")
        message.entities = [item for item in raw if isinstance(item, dict)] if isinstance(raw, list) else []
        message.silent = bool(params.get("disable_notification"))
        markup = params.get("reply_markup")
        rows = markup.get("inline_keyboard", []) if isinstance(markup, dict) else []
        for row in rows if isinstance(rows, list) else []:
            for button in row:
                message.buttons.append(str(button.get("text")))
                message.data.append(str(button.get("callback_data", "")))
        if self.agreeing is not None and self.agreeing[1] in message.buttons:
            person, label = self.agreeing
            self.press(person, message, label)


def _int(value: object) -> int:
    return int(value) if isinstance(value, int | str) and str(value).lstrip("-").isdigit() else 0


def _params(request: Request) -> Json:
    kind = request.headers.get("content-type", "")
    if "application/json" in kind:
        return request.json()
    if "multipart/form-data" in kind:
        fields = _multipart(request.body, kind)
    else:
        fields = dict(parse_qsl(request.body.decode(), keep_blank_values=True)) | request.query
    return {name: _value(text) for name, text in fields.items()}


def _value(text: str) -> object:
    if text[:1] in "[{" or text in {"true", "false"}:
        try:
            return json.loads(text)
        except ValueError:
            return text
    return text


def _multipart(body: bytes, kind: str) -> dict[str, str]:
    fields: dict[str, str] = {}
    message = message_from_bytes(f"Content-Type: {kind}\r\n\r\n".encode() + body, policy=HTTP)
    for part in message.iter_parts():
        name, content = str(part.get_param("name", header="content-disposition")), part.get_payload(decode=True)
        assert isinstance(content, bytes)
        if (file := part.get_filename()) is not None:
            digest = hashlib.sha256(content).hexdigest()
            fields |= {f"{name}_name": file, f"{name}_size": str(len(content)), f"{name}_sha256": digest}
        else:
            fields[name] = content.decode("utf-8", "replace")
    return fields
