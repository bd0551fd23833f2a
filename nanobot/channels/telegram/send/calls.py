"""The calls that show something, and what is done when Telegram refuses one: fewer entities, no reply, no topic."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from loguru import logger
from msgspec import Struct
from msgspec.structs import replace
from telegram import LinkPreviewOptions, Message, ReplyParameters
from telegram.constants import ChatAction
from telegram.error import ChatMigrated, RetryAfter, TelegramError

from nanobot.channels.telegram.bot import DEPARTURE, Departure, TelegramLine
from nanobot.channels.telegram.render.screen_messages import ScreenMessage, Slots, plainer
from nanobot.channels.telegram.send.errors import Trouble, classify, penalty_of
from nanobot.channels.telegram.send.pacing import ChatQueues
from nanobot.errors import StoreError
from nanobot.session.ledger import Ledger

#: Seconds that a call, that one which need not succeed, and that an upload may take.
CALL_SECONDS, SHORT_SECONDS = 35.0, 12.0
UPLOAD_SECONDS = 180.0
#: Nothing that stands in an answer makes Telegram fetch a page.
_NO_PREVIEW = LinkPreviewOptions(is_disabled=True)
_CAPTION = 1_024
T = TypeVar("T")
Before = Callable[[], Awaitable[None]]


class Place(Struct, frozen=True):
    """Where a message goes. `reply_to` is the id of the message that it answers, 0 for none."""

    chat: str
    thread: str = ""
    reply_to: int = 0

    @property
    def private(self) -> bool:
        return not self.chat.startswith(("-", "@"))


class Upload(Struct, frozen=True):
    """A file to send; `photo` shows it as a picture."""

    name: str
    data: bytes
    caption: str = ""
    photo: bool = False
    silent: bool = True


class Calls:
    """Whoever calls holds a permit of the chat's queue. What goes wrong is returned, never raised.

    `before` is awaited just before the content of a call leaves; its `StoreError` stops the call and is raised.
    """

    def __init__(self, line: TelegramLine, queues: ChatQueues, seconds: float = CALL_SECONDS) -> None:
        self._line = line
        self._queues = queues
        self._seconds = seconds

    def short(self) -> "Calls":
        """The same for what need not succeed: nobody waits for it long."""
        return Calls(self._line, self._queues, SHORT_SECONDS)

    async def show(
        self, place: Place, screen: ScreenMessage, message_id: int = 0, *, before: Before | None = None
    ) -> int | Trouble:
        """Send a message, or edit the one of this id. Returns the id of the message that shows it now."""
        topic_failed = False
        for _ in range(6):
            outcome = await self._show_once(place, screen, message_id, before)
            match outcome:
                case "same":
                    return message_id
                case "lost_target":
                    message_id = 0
                case "format" if (simple := plainer(screen)) is not None:
                    screen = simple
                case "lost_reply" | "lost_thread" if place != Place(place.chat):
                    place, topic_failed = _fallen_back(place, outcome, topic_failed)
                case "moved":
                    continue
                case _:
                    return outcome
        return "refused"

    async def upload(self, place: Place, file: Upload, *, before: Before | None = None) -> int | Trouble:
        """Send a file. Returns the message's id."""
        topic_failed = False
        for _ in range(5):
            outcome = await self._upload_once(place, file, before)
            match outcome:
                case "lost_reply" | "lost_thread" if place != Place(place.chat):
                    place, topic_failed = _fallen_back(place, outcome, topic_failed)
                case "moved":
                    continue
                case "refused" if file.photo:  # too large or no picture for Telegram: as a file then
                    file = replace(file, photo=False)
                case _:
                    return outcome
        return "refused"

    async def delete(self, chat: str, message_id: int) -> bool | Trouble:
        return await self._attempt(
            chat, lambda to: self._line.bot.delete_message(to, message_id), seconds=self._seconds
        )

    async def typing(self, place: Place) -> bool | Trouble:
        thread = int(place.thread) if place.thread else None
        return await self._attempt(
            place.chat,
            lambda to: self._line.bot.send_chat_action(to, ChatAction.TYPING, message_thread_id=thread),
            seconds=self._seconds,
        )

    async def reachable(self, chat: str) -> bool:
        """Whether Telegram answers now. Shows nothing to anybody."""
        outcome = await self._attempt(chat, lambda _to: self._line.bot.get_me(), seconds=SHORT_SECONDS)
        return not isinstance(outcome, str)

    async def draft(self, place: Place, draft_id: int, screen: ScreenMessage) -> bool | Trouble:
        """Show text in a draft, which Telegram forgets after half a minute."""
        thread = int(place.thread) if place.thread else None
        return await self._attempt(
            place.chat,
            lambda to: self._line.bot.send_message_draft(
                to, draft_id, screen.text, thread, entities=screen.wire, api_kwargs={"can_stop": True}
            ),
            seconds=self._seconds,
        )

    async def _show_once(
        self, place: Place, screen: ScreenMessage, message_id: int, before: Before | None
    ) -> int | Trouble:
        bot = self._line.bot

        def call(to: int) -> Awaitable[Message | bool]:
            if message_id:
                return bot.edit_message_text(
                    screen.text,
                    to,
                    message_id,
                    entities=screen.wire,
                    reply_markup=screen.keyboard,
                    link_preview_options=_NO_PREVIEW,
                )
            return bot.send_message(
                to,
                screen.text,
                entities=screen.wire,
                disable_notification=screen.silent,
                reply_markup=screen.keyboard,
                message_thread_id=_topic(place),
                link_preview_options=_NO_PREVIEW,
                reply_parameters=ReplyParameters(place.reply_to) if place.reply_to else None,
            )

        return _number(await self._attempt(place.chat, call, seconds=self._seconds, before=before), message_id)

    async def _upload_once(self, place: Place, file: Upload, before: Before | None) -> int | Trouble:
        bot = self._line.bot
        reply = ReplyParameters(place.reply_to) if place.reply_to else None
        caption = file.caption[:_CAPTION] or None

        def call(to: int) -> Awaitable[Message]:
            if file.photo:
                return bot.send_photo(
                    to,
                    file.data,
                    caption,
                    filename=file.name,
                    disable_notification=file.silent,
                    message_thread_id=_topic(place),
                    reply_parameters=reply,
                )
            return bot.send_document(
                to,
                file.data,
                caption,
                filename=file.name,
                disable_notification=file.silent,
                message_thread_id=_topic(place),
                reply_parameters=reply,
            )

        return _number(await self._attempt(place.chat, call, seconds=UPLOAD_SECONDS, before=before), 0)

    async def _attempt(
        self, chat: str, call: Callable[[int], Awaitable[T]], *, seconds: float, before: Before | None = None
    ) -> T | Trouble:
        """One call; what it says about the chat is told to its queue."""
        queue = self._queues.queue(chat)
        departure = Departure(before)
        token = DEPARTURE.set(departure)
        try:
            async with asyncio.timeout(seconds), self._line.places:
                result = await call(int(self._queues.now_at(chat)))
        except (TelegramError, TimeoutError) as error:
            if isinstance(error.__cause__, StoreError):  # of `before`
                raise error.__cause__ from None
            trouble = classify(error)
            if trouble == "maybe_sent" and not departure.left:
                trouble = "not_sent"
            if isinstance(error, RetryAfter):
                queue.punish(penalty_of(error))
            elif isinstance(error, ChatMigrated):
                self._queues.move(chat, str(error.new_chat_id))
            elif trouble == "dead_chat":
                queue.dead = True
            if trouble != "same":
                logger.info("a call to chat {} failed: {} ({})", chat, trouble, type(error).__name__)
            return trouble
        finally:
            DEPARTURE.reset(token)
        queue.succeeded()
        return result


class Sending(Struct, frozen=True):
    """What all share that show something in the chats of a bot. `channel` is the bot's name in the ledger."""

    ledger: Ledger
    channel: str
    calls: Calls
    queues: ChatQueues
    slots: Slots

    @classmethod
    def over(cls, line: TelegramLine, ledger: Ledger, channel: str, queues: ChatQueues | None = None) -> "Sending":
        queues = queues or ChatQueues()
        return cls(ledger, channel, Calls(line, queues), queues, Slots())


def _fallen_back(place: Place, trouble: Trouble, tried: bool) -> tuple[Place, bool]:
    """The place without what is gone. A topic gets a second try: Telegram sometimes does not know one for a moment."""
    if trouble == "lost_reply":
        return replace(place, reply_to=0), tried
    return (replace(place, thread="") if tried else place), True


def _topic(place: Place) -> int | None:
    """The thread to send to; the general topic of a forum wants none."""
    return int(place.thread) if place.thread and place.thread != "1" else None


def _number(outcome: Message | bool | Trouble, known: int) -> int | Trouble:
    if isinstance(outcome, Message):
        return outcome.message_id
    return outcome if isinstance(outcome, str) else known
