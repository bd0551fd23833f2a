"""Buttons under messages, and Telegram's own stop button: judged like messages, answered at once."""

import asyncio
from collections.abc import Awaitable

from loguru import logger
from telegram import CallbackQuery, Message, Update
from telegram.error import TelegramError

from nanobot.bus.events import Address, Sender
from nanobot.channels.base import Agent
from nanobot.channels.telegram.access.gate import Gate
from nanobot.channels.telegram.bot import TelegramLine
from nanobot.channels.telegram.read.contents import text_of
from nanobot.channels.telegram.read.incoming import is_private
from nanobot.channels.telegram.send.calls import SHORT_SECONDS
from nanobot.errors import QuestionOver, UsageError
from nanobot.utils.marks import passages
from nanobot.utils.text import shorten
from nanobot.utils.translation import _, speak

#: The beginnings of the data of buttons.
STOP, APPROVE, PASSAGES, CHOOSE = "stop:", "/approve ", "/sources @", "choose:"
_COMMANDS = {STOP: "stop", APPROVE: "approve", PASSAGES: "sources", CHOOSE: "choose"}
#: Characters of the passages that one message shows; `/sources 2` shows all of one source.
_MOST_PASSAGES = 3_500
#: Characters of the line that a press is answered with.
_TOAST = 190


class CallbackQueries:
    """Acts on buttons: `stop:…` ends the turn that it stands under, `/approve …` answers a question of a tool,
    `/sources @…` shows what the marks of an answer rest on.

    Any other data is no button of ours: a client may send what it likes.
    """

    def __init__(self, line: TelegramLine, gate: Gate, agent: Agent) -> None:
        self._line = line
        self._gate = gate
        self._agent = agent

    async def handle(self, update: Update, place: Address | None) -> str:
        """Act on an update of a place that is no message; what is to be said there for it."""
        if update.callback_query is not None:
            speak(text_of(update.callback_query.from_user.language_code), place.key if place is not None else "")
            return await self._pressed(update.callback_query, place)
        if place is not None and "stopped_message_generation" in update.api_kwargs:
            await self._stopped(place)
        return ""

    async def _pressed(self, query: CallbackQuery, place: Address | None) -> str:
        message = query.message if isinstance(query.message, Message) else None
        data = query.data or ""
        command = next((name for begin, name in _COMMANDS.items() if data.startswith(begin)), "")
        if message is None or place is None or not command:
            await self._answer(query, _("This button does nothing any more."))
            return ""
        person = str(query.from_user.id)
        role = await self._gate.judge_press(person, place.chat, private=is_private(message), command=command)
        if role is None:
            await self._answer(query, _("This button is not for you."))
        elif command == "approve":
            await self._approve(query, message, place)
        elif command == "choose":
            await self._choose(query, message, place, Sender(person, role=role))
        elif command == "sources":
            return await self._passages(query, place)
        else:
            await self._stop(query, message, place, Sender(person, role=role))
        return ""

    async def _passages(self, query: CallbackQuery, address: Address) -> str:
        """What the answer above the button cites, as a message of its own."""
        text = passages(await self._agent.loop.citations(address.key, (query.data or "").removeprefix(PASSAGES)))
        await self._answer(query, None if text else _("What this answer cites is not kept any more."))
        if len(text) <= _MOST_PASSAGES:
            return text
        more = _("… `/sources 2` shows all of one source.")
        return f"{text[:_MOST_PASSAGES]}\n\n{more}"

    async def _stop(self, query: CallbackQuery, message: Message, address: Address, by: Sender) -> None:
        turn = (query.data or "").removeprefix(STOP)
        try:
            said = await self._agent.loop.cancel(address.key, turn, by=by)  # before anything that may hang
        except UsageError as error:
            await self._answer(query, str(error))
            return
        logger.info("stop button in {}: {}", address.key, said)
        await self._answer(query, shorten(said, _TOAST))
        await self._take_away(message)

    async def _approve(self, query: CallbackQuery, message: Message, address: Address) -> None:
        """Answer a question of a tool; only the owner comes as far as this.

        One that nobody asks any more, perhaps since a restart, loses its buttons.
        """
        key, choice = [*(query.data or "").removeprefix(APPROVE).split(), "", ""][:2]
        try:
            said = await self._agent.loop.approve(address.key, key, choice)
        except UsageError:
            await self._answer(query, _("This question is over: it was answered, or nanobot has started anew since."))
            await self._take_away(message)
            return
        await self._answer(query, said)

    async def _choose(self, query: CallbackQuery, message: Message, address: Address, by: Sender) -> None:
        """Answer a question, or turn the page of a picker; only the person who was asked may.

        One that is over loses its buttons.
        """
        key, _, number = (query.data or "").removeprefix(CHOOSE).partition(" ")
        page = number.removeprefix("p")
        try:
            if page != number and page.isdecimal():
                await self._agent.loop.questions.turn_page(address.key, key, int(page), by)
                await self._answer(query)
                return
            said = self._agent.loop.questions.answer(address.key, key, int(number) if number.isdecimal() else 0, by)
        except QuestionOver as error:
            await self._answer(query, str(error))
            await self._take_away(message)
            return
        except UsageError as error:
            said = str(error)
        await self._answer(query, shorten(said, _TOAST))

    async def _stopped(self, place: Address) -> None:
        """The stop button that Telegram shows beside a draft; drafts exist in private chats alone."""
        if await self._gate.judge_press(place.chat, place.chat, private=True, command="stop") is not None:
            await self._agent.loop.cancel(place.key)

    async def _answer(self, query: CallbackQuery, text: str | None = None) -> None:
        """End the little clock on the button. A query that is too old cannot be answered, which harms nobody."""
        await _tried(self._line.bot.answer_callback_query(query.id, text))

    async def _take_away(self, message: Message) -> None:
        """Remove the button: its turn is over, perhaps since before a restart."""
        where = {"chat_id": message.chat.id, "message_id": message.message_id}
        await _tried(self._line.call("editMessageReplyMarkup", **where))


async def _tried(call: Awaitable[object]) -> None:
    try:
        async with asyncio.timeout(SHORT_SECONDS):
            await call
    except (TelegramError, TimeoutError) as error:
        logger.info("a button's press could not be answered: {}", type(error).__name__)
