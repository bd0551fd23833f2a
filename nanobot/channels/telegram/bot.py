"""The Bot API client: one for calls, one of its own for the long poll, both without surprises from the environment.

With it goes the menu of commands that Telegram offers behind its menu button, for each person in their language.
"""

import asyncio
import re
import warnings
from collections.abc import Awaitable, Callable, Mapping
from contextvars import ContextVar
from pathlib import Path

import httpx
import msgspec
from loguru import logger
from msgspec import Struct
from telegram import Bot, BotCommand, BotCommandScopeAllPrivateChats, BotCommandScopeChat
from telegram.error import TelegramError
from telegram.request import HTTPXRequest

from nanobot.bus.events import Role
from nanobot.channels.telegram.read.incoming import Me
from nanobot.channels.telegram.settings import TelegramSettings
from nanobot.command.router import CommandRouter
from nanobot.security.network import certificates, no_cookies
from nanobot.utils.text import shorten

_NAME = re.compile(r"[a-z0-9_]{1,32}")
_MOST = 100
_SUMMARY_CHARS = 256
_DEADLINE = 10.0
#: Summaries in other languages, by the first part of Telegram's language code and the command's name.
TRANSLATIONS: Mapping[str, Mapping[str, str]] = msgspec.json.decode(
    Path(__file__).with_name("menu.json").read_bytes(), type=dict[str, dict[str, str]]
)
#: The kinds of update that are asked for; one that is left out is dropped by Telegram when it is created.
ALLOWED_UPDATES: tuple[str, ...] = (
    "message",
    "edited_message",
    "callback_query",
    "my_chat_member",
    "stopped_message_generation",
)
#: Connections for calls, and the places for those of chats. They wait for a place in order, because those that wait
#: within the pool are looked through at every call; downloads and the menu have the rest of the connections.
_POOL, PLACES = 16, 12
#: Seconds that Telegram holds a poll open, and after which we give up on one.
HOLD_SECONDS = 30
POLL_SECONDS = 50.0


class Departure(Struct):
    """When a call leaves this machine: `before` is awaited just before its content does, and may stop it by an error.

    So does `may_leave` that says no: a process that stood still meanwhile may have lost its work to another one. Until
    `left` Telegram cannot have acted on it, whatever goes wrong.
    """

    may_leave: Callable[[], bool]
    before: Callable[[], Awaitable[None]] | None = None
    left: bool = False

    async def trace(self, event: str, _info: Mapping[str, object]) -> None:
        """Hear what the connection does; an extension of httpcore."""
        if event == "http11.send_request_body.started" and not self.left:
            if self.before is not None:
                await self.before()
            if not self.may_leave():
                raise ConnectionAbortedError("this process may send nothing now")
            self.left = True


#: The departure of the call that this task makes.
DEPARTURE: ContextVar[Departure | None] = ContextVar("departure", default=None)


async def _watch(request: httpx.Request) -> None:
    if (departure := DEPARTURE.get()) is not None:
        request.extensions["trace"] = departure.trace


class TelegramLine:
    """The client for calls. `me` is the bot itself, whose name is known once it has been asked for.

    `places` are held by calls to chats while they are under way.
    """

    def __init__(self, settings: TelegramSettings) -> None:
        self._request = _request(settings, pool=_POOL)
        self.bot = _bot(settings, self._request)
        self.me = Me(settings.bot_id, "")
        self.places = asyncio.Semaphore(PLACES)

    async def identify(self) -> None:
        """Ask Telegram who we are. Raises `TelegramError`."""
        self.me = Me(self.me.id, (await self.bot.get_me()).username or "")

    async def aclose(self) -> None:
        await self._request.shutdown()


class PollClient:
    """The client that waits for updates. It has a connection of its own, so that a poll never holds up a call."""

    def __init__(self, settings: TelegramSettings, *, hold: int = HOLD_SECONDS) -> None:
        self._settings = settings
        self._hold = hold
        self._request = _request(settings, pool=2)
        self._bot = _bot(settings, self._request)

    async def get_updates(self, offset: int | None) -> list[dict[str, object]]:
        """Wait for updates and return them as they came. Raises `TelegramError`.

        They are not parsed here: one that the library cannot read must not hide the others.
        """
        wanted: dict[str, object] = {"timeout": self._hold, "limit": 100, "allowed_updates": list(ALLOWED_UPDATES)}
        if offset is not None:
            wanted["offset"] = offset
        with warnings.catch_warnings():  # the library recommends its own getUpdates, which loses what it cannot read
            warnings.simplefilter("ignore")
            raw: object = await self._bot.do_api_request(
                "getUpdates", api_kwargs=wanted, read_timeout=self._hold + 10.0
            )
        return [row for row in raw if isinstance(row, dict)] if isinstance(raw, list) else []

    async def delete_webhook(self) -> None:
        """Let polling work again where a webhook was set. What waits at Telegram is kept."""
        await self._bot.delete_webhook(drop_pending_updates=False)

    async def renew(self) -> None:
        """Close the client, its connections and any request on them, and make a new one."""
        await self._request.shutdown()
        self._request = _request(self._settings, pool=2)
        self._bot = _bot(self._settings, self._request)

    async def aclose(self) -> None:
        await self._request.shutdown()


def _request(settings: TelegramSettings, *, pool: int) -> HTTPXRequest:
    return HTTPXRequest(
        connection_pool_size=pool,
        connect_timeout=10.0,
        read_timeout=30.0,
        write_timeout=20.0,
        media_write_timeout=60.0,
        pool_timeout=5.0,
        proxy=settings.proxy,
        # The proxy was chosen when the settings were made.
        httpx_kwargs={
            "trust_env": False,
            "verify": certificates(),
            "cookies": no_cookies(),
            "event_hooks": {"request": [_watch]},
        },
    )


def _bot(settings: TelegramSettings, request: HTTPXRequest) -> Bot:
    return Bot(
        settings.token,
        base_url=settings.base_url,
        base_file_url=settings.base_file_url,
        request=request,
        get_updates_request=request,
    )


class CommandMenu:
    """Sets the menu of an owner's chat, and of users once per language: a call for each chat would be a flood."""

    def __init__(self, line: TelegramLine, router: CommandRouter) -> None:
        self._line = line
        self._router = router
        self._shown: dict[str, tuple[Role, str]] = {}

    async def start(self) -> None:
        """Everybody else sees what a guest may do."""
        await self._set("guest", "", 0)

    async def offer(self, chat: str, role: Role, language: str) -> None:
        """Set the menu of a private chat. A failure is only logged: commands work without a menu."""
        if role == "user":
            code = language.partition("-")[0] or "en"
            chat, place, language = f"language {code}", 0, code
        elif role == "owner":
            place = int(chat)
        else:
            return
        if self._shown.get(chat) == (role, language):
            return
        self._shown[chat] = (role, language)
        if not await self._set(role, language, place):
            del self._shown[chat]

    async def _set(self, role: Role, language: str, chat: int) -> bool:
        """Set the menu of one chat, or of every private chat in a language, or of everybody.

        `language` is a code such as `de` or `pt-br`; where it is not translated the summaries are in English.
        """
        code = language.partition("-")[0].casefold()
        words = TRANSLATIONS.get(code, {})
        shown = [
            BotCommand(command.name, shorten(words.get(command.name, command.summary), _SUMMARY_CHARS))
            for command in self._router.commands(role, "telegram")
            if _NAME.fullmatch(command.name)
        ]
        scope = BotCommandScopeChat(chat) if chat else BotCommandScopeAllPrivateChats() if code else None
        spoken = code[:2] if code and not chat else None
        try:
            await self._line.bot.set_my_commands(shown[:_MOST], scope, spoken, read_timeout=_DEADLINE)
        except TelegramError as error:
            logger.info("the menu of commands was not set: {}", type(error).__name__)
            return False
        return True
