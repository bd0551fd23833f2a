"""Updates as the ledger keeps them: each with the conversation that it belongs to."""

import json

from telegram import Bot, Message, Update
from telegram.error import TelegramError

from nanobot.bus.events import Address
from nanobot.channels.telegram.addressing import CHANNEL, address_of
from nanobot.errors import ChannelError
from nanobot.session.ledger import Arrival, InboxRow
from nanobot.utils.text import shorten, squeeze

#: What the library raises for an update that it cannot read.
_UNREADABLE = (ArithmeticError, AttributeError, LookupError, OSError, TelegramError, TypeError, ValueError)


def arrivals_of(updates: list[dict[str, object]], bot: Bot) -> tuple[Arrival, ...]:
    """Updates as they came, ready to be accepted."""
    return tuple(Arrival(str(one["update_id"]), _text(one), _key(one, bot)) for one in updates)


def _text(update: dict[str, object]) -> str:
    """JSON without lone surrogates: what cannot be kept would be fetched again for ever."""
    return json.dumps(update, ensure_ascii=False).encode("utf-8", "replace").decode()


def update_of(row: InboxRow, bot: Bot) -> Update:
    """Raises `ChannelError` for an update that cannot be read."""
    return _read(json.loads(row.payload), bot)


def said_of(row: InboxRow) -> str:
    """The beginning of a message, for the owner."""
    payload: object = json.loads(row.payload)
    message = payload.get("message") if isinstance(payload, dict) else None
    text = message.get("text") or message.get("caption") if isinstance(message, dict) else None
    return f": “{shorten(squeeze(str(text)), 80)}”" if text else ""


def _read(update: dict[str, object], bot: Bot) -> Update:
    try:
        return Update.de_json(update, bot)
    except _UNREADABLE as error:
        raise ChannelError(f"the update cannot be read: {type(error).__name__}: {error}") from error


def _key(raw: dict[str, object], bot: Bot) -> str:
    """The key of the conversation; empty where an update belongs to none, or cannot be read."""
    try:
        update = _read(raw, bot)
    except ChannelError:
        return ""
    message = update.message or update.edited_message
    if message is None and update.callback_query is not None:
        pressed = update.callback_query.message
        message = pressed if isinstance(pressed, Message) else None
    if message is not None:
        return address_of(message).key
    return _stopped_in(update.api_kwargs.get("stopped_message_generation"))


def _stopped_in(stopped: object) -> str:
    """The conversation of Telegram's own stop button."""
    if not isinstance(stopped, dict):
        return ""
    chat, thread = stopped.get("chat"), stopped.get("message_thread_id")
    chat_id = str(chat.get("id", "")) if isinstance(chat, dict) else ""
    return Address(CHANNEL, chat_id, str(thread) if thread else "").key if chat_id else ""
