"""The Bot API client, without surprises from the environment.

With it goes the menu of commands that Telegram offers behind its menu button, for each person in their language.
"""

import asyncio
import hashlib
import json
import re
from collections.abc import Awaitable, Callable, Mapping
from contextvars import ContextVar
from functools import lru_cache
from pathlib import Path
from urllib.parse import urlencode, urlsplit

import httpx
import msgspec
from loguru import logger
from msgspec import Struct
from telegram import Bot, BotCommand, BotCommandScopeAllPrivateChats, BotCommandScopeChat
from telegram.error import NetworkError, TelegramError, TimedOut
from telegram.request import BaseRequest, RequestData

from nanobot import jsonval
from nanobot.bus.events import Role
from nanobot.channels.telegram.read.incoming import Me
from nanobot.channels.telegram.settings import TelegramSettings
from nanobot.command.router import CommandRouter
from nanobot.errors import StoreError
from nanobot.session.ledger import Ledger
from nanobot.utils.connections import Connections, certificates, login
from nanobot.utils.text import shorten
from nanobot.utils.translation import ENGLISH, speak

_NAME = re.compile(r"[a-z0-9_]{1,32}")
_MOST = 100
_SUMMARY_CHARS = 256
_DEADLINE = 10.0
#: Seconds between a message and the menu of its chat.
_PAUSE = 1.0
#: Summaries in languages without a catalogue, by the first part of Telegram's language code and the command's name.
TRANSLATIONS: Mapping[str, Mapping[str, str]] = msgspec.json.decode(
    Path(__file__).with_name("menu.json").read_bytes(), type=dict[str, dict[str, str]]
)
#: The kinds of update that are asked for; one that is left out is dropped by Telegram when it is created.
ALLOWED_UPDATES: tuple[str, ...] = (
    "message",
    "edited_message",
    "callback_query",
    "stopped_message_generation",
)
#: Calls of chats that are under way at the same time; the others wait for a place in order.
PLACES = 12
#: Seconds that Telegram holds a poll open, and after which we give up on one.
HOLD_SECONDS = 30
POLL_SECONDS = 50.0
#: Seconds without a byte of an answer, where a call says nothing else.
_READ_SECONDS = 30.0
#: The most seconds of a wait that Telegram asks for; more is not believed.
_LONGEST_WAIT = 7 * 86_400
_STRANGE = "Invalid server response"  # English: the library says it
_HEADERS = {
    "Accept": "*/*",
    "Accept-Encoding": "gzip, deflate",
    "Connection": "keep-alive",
    "User-Agent": BaseRequest.USER_AGENT,
}
Sleep = Callable[[float], Awaitable[object]]
_url = lru_cache(maxsize=64)(httpx.URL)


class _Menu(Struct, frozen=True):
    """Whose menu it is: of one chat, or of every private chat in a language, or of everybody.

    `language` is a code such as `de`; where it is not translated the summaries are in English.
    """

    role: Role
    language: str = ""
    chat: int = 0


class Departure(Struct):
    """When a call leaves this machine: `before` is awaited just before its content does, and may stop it by an error.

    So does `may_leave` that says no: a process that stood still meanwhile may have lost its work to another one. Until
    `left` Telegram cannot have acted on it, whatever goes wrong.
    """

    may_leave: Callable[[], bool]
    before: Callable[[], Awaitable[None]] | None = None
    left: bool = False

    async def leave(self) -> None:
        """The content leaves now: the extension `leave` of a request, which our connections await before it."""
        if not self.left:
            if self.before is not None:
                await self.before()
            if not self.may_leave():
                # English: nobody reads it
                raise ConnectionAbortedError("this process may send nothing now")
            self.left = True


#: The departure of the call that this task makes.
DEPARTURE: ContextVar[Departure | None] = ContextVar("departure", default=None)


class BotRequest(BaseRequest):
    """Requests of the library on connections of ours, without a client of httpx between: it costs as much again."""

    def __init__(self, settings: TelegramSettings) -> None:
        self._connections: Connections | None = Connections(certificates, proxy=settings.proxy)
        self._headers = {**_HEADERS, **login(urlsplit(settings.base_url), "Authorization")}

    @property
    def read_timeout(self) -> float:
        return _READ_SECONDS

    async def initialize(self) -> None:
        return None

    async def shutdown(self) -> None:
        connections, self._connections = self._connections, None
        if connections is not None:
            await connections.aclose()

    async def do_request(
        self,
        url: str,
        method: str,
        request_data: RequestData | None = None,
        read_timeout: object = None,
        *_more: object,
        **_limits: object,
    ) -> tuple[int, bytes]:
        """Status and body of an answer. Of the limits the library's callers here give that of reading alone."""
        if self._connections is None:
            raise RuntimeError("this client was closed")  # English: nobody reads it
        departure, upload = DEPARTURE.get(), request_data is not None and request_data.contains_files
        read = float(read_timeout) if isinstance(read_timeout, int | float) else _READ_SECONDS
        extensions = {
            "timeout": {"connect": 10.0, "read": read, "write": 60.0 if upload else 20.0},
            **({} if departure is None else {"leave": departure.leave}),
        }
        try:
            request = _request(method, _url(url), self._headers, request_data, extensions)
            response = await self._connections.handle_async_request(request)
            try:
                status, body = response.status_code, await response.aread()
            finally:
                await response.aclose()
            return _of_telegram(request, status, body)
        except httpx.TimeoutException as error:
            raise TimedOut from error
        except httpx.HTTPError as error:
            raise NetworkError(f"httpx.{type(error).__name__}: {error}") from error

    @staticmethod
    def parse_json_payload(payload: bytes) -> dict[str, object]:
        """An answer of Telegram. Raises `TelegramError` for that of another program, which may be JSON too."""
        try:  # the library's own way writes all of a page into the log
            answer: object = json.loads(payload.decode("utf-8", "replace"))
        except (ValueError, RecursionError):
            answer = None
        if isinstance(answer, dict) and answer.get("ok") is True and "result" in answer:
            return answer
        if not isinstance(answer, dict) or not answer.keys() & {"ok", "description"}:
            raise TelegramError(_STRANGE)
        given = jsonval.obj(answer.get("parameters"))
        wait, moved = given.get("retry_after"), given.get("migrate_to_chat_id")
        known = {"retry_after": wait} if isinstance(wait, int | float) and 1 <= wait <= _LONGEST_WAIT else {}
        known |= {"migrate_to_chat_id": moved} if isinstance(moved, int) else {}
        return _Refusal(description=jsonval.text(answer.get("description")), parameters=known)


def _of_telegram(request: httpx.Request, status: int, body: bytes) -> tuple[int, bytes]:
    """Status and body. Raises `HTTPStatusError` for another program, whose refusal means nothing for token or chat.

    That something is too large (413) is true whoever says it.
    """
    if not 200 <= status < 300 and status != 413 and "ok" not in jsonval.obj(jsonval.parse(body)):
        httpx.Response(status, request=request).raise_for_status()
    return status, body


class _Refusal(dict[str, object]):
    """What Telegram says instead of a result, which the library looks for where the status was that of a success."""

    def __missing__(self, key: str) -> object:
        raise TelegramError(_STRANGE)


class TelegramLine:
    """A client of the bot with connections of its own: the channel has one for calls and one that waits for updates,
    so that a poll never holds up a call.

    `me` is the bot itself, whose name is known once it has been asked for. `places` are held by calls to chats while
    they are under way. `hold` is how many seconds Telegram holds a poll open.
    """

    def __init__(self, settings: TelegramSettings) -> None:
        self._settings = settings
        self._connect()
        self.me = Me(settings.bot_id, "")
        self.places = asyncio.Semaphore(PLACES)
        self.hold = HOLD_SECONDS

    def _connect(self) -> None:
        one, self._request = self._settings, BotRequest(self._settings)
        requests = self._request, self._request
        self.bot = Bot(one.token, one.base_url, one.base_file_url, *requests)

    async def identify(self) -> None:
        """Ask Telegram who we are. Raises `TelegramError`."""
        username = jsonval.text(jsonval.obj(await self.call("getMe")).get("username"))
        if not username:
            raise TelegramError(_STRANGE)
        self.me = Me(self.me.id, username)

    async def call(self, method: str, seconds: float = _READ_SECONDS, /, **fields: object) -> object:
        """What Telegram answers within `seconds`, as it came. The library would make objects of it, for a number that
        is wanted, and knows no answer of another form. Raises `TelegramError`."""
        post = self.bot._post  # noqa: SLF001 - its public way tells to use that
        answer: object = await post(method, fields, read_timeout=seconds)
        return answer

    async def get_updates(self, offset: int | None) -> list[dict[str, object]]:
        """Wait for updates and return them as they came. Raises `TelegramError`.

        They are not parsed here: one that the library cannot read must not hide the others. What is no update is empty.
        """
        wanted: dict[str, object] = {"timeout": self.hold, "limit": 100, "allowed_updates": list(ALLOWED_UPDATES)}
        if offset is not None:
            wanted["offset"] = offset
        raw = await self.call("getUpdates", self.hold + 10.0, **wanted)
        if not isinstance(raw, list):
            raise TelegramError(_STRANGE)
        return [row if isinstance(row, dict) else {} for row in raw]

    async def renew(self) -> None:
        """Close its connections and any request on them, and make new ones."""
        await self.aclose()
        self._connect()

    async def aclose(self) -> None:
        await self._request.shutdown()


def _request(
    method: str, url: httpx.URL, headers: Mapping[str, str], data: RequestData | None, extensions: Mapping[str, object]
) -> httpx.Request:
    """A form; one with files where there are any. What httpx would find out for itself costs four times as much."""
    if data is None or data.contains_files:
        fields, files = (data.json_parameters, data.multipart_data) if data is not None else (None, None)
        return httpx.Request(method, url, headers=headers, data=fields, files=files, extensions=extensions)
    body = urlencode(data.json_parameters).encode()
    own = {"Host": url.netloc.decode(), "Content-Type": "application/x-www-form-urlencoded"}
    whole = {**own, **headers, "Content-Length": str(len(body))}
    return httpx.Request(method, url, headers=whole, stream=httpx.ByteStream(body), extensions=extensions)


class CommandMenu:
    """Sets the menu of an owner's chat, and of users once per language: a call for each chat would be a flood.

    Telegram keeps them, so one is set only where it is another than that which `ledger` notes.
    """

    def __init__(self, line: TelegramLine, router: CommandRouter, ledger: Ledger, sleep: Sleep = asyncio.sleep) -> None:
        self._line, self._router, self._ledger, self._sleep = line, router, ledger, sleep
        self._offered: set[_Menu] = set()
        self._wanted: asyncio.Queue[_Menu] = asyncio.Queue()
        self._want(_Menu("guest"))  # everybody else sees what a guest may do

    def offer(self, chat: str, role: Role, language: str) -> None:
        """Have the menu of a private chat set. A failure is only logged: commands work without a menu."""
        code = language.partition("-")[0].casefold()
        if role != "guest":
            self._want(_Menu("user", code or "en") if role == "user" else _Menu("owner", code, int(chat)))

    def _want(self, menu: _Menu) -> None:
        if menu not in self._offered:
            self._offered.add(menu)
            self._wanted.put_nowait(menu)

    async def run(self) -> None:
        """Set menus until cancelled, each a moment after the message that it was offered for: its answer goes first."""
        while True:
            menu = await self._wanted.get()
            await self._sleep(_PAUSE)
            try:
                await self._set(menu)
            except (StoreError, TelegramError) as error:
                self._offered.discard(menu)  # it may be offered again
                logger.info("the menu of commands was not set: {}", type(error).__name__)

    async def _set(self, menu: _Menu) -> None:
        """Raises `StoreError` and `TelegramError`."""
        speak(menu.language or ENGLISH)
        words = TRANSLATIONS.get(menu.language, {})
        shown = [
            BotCommand(command.name, shorten(words.get(command.name, command.about), _SUMMARY_CHARS))
            for command in self._router.commands(menu.role, "telegram")
            if _NAME.fullmatch(command.name)
        ][:_MOST]
        users = BotCommandScopeAllPrivateChats() if menu.role == "user" else None
        place = f"menu:{self._line.me.id}:{menu.chat or menu.language}"
        digest = hashlib.sha256(repr((menu, [(one.command, one.description) for one in shown])).encode()).hexdigest()
        if await self._ledger.note(place) != digest:
            spoken = menu.language[:2] if menu.language and not menu.chat else None
            scope = BotCommandScopeChat(menu.chat) if menu.chat else users
            await self._line.bot.set_my_commands(shown, scope, spoken, read_timeout=_DEADLINE)
            await self._ledger.set_notes({place: digest})
