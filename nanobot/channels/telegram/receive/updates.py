"""Updates as the ledger keeps them: each with the conversation that it belongs to.

What is read here is read from the JSON alone and breaks on nothing: an update is kept before anybody judges it.
"""

import json
from collections.abc import Mapping

from telegram import Bot, Update

from nanobot.bus.events import Address
from nanobot.channels.telegram.addressing import CHANNEL, number_of
from nanobot.errors import ChannelError
from nanobot.session.ledger import Arrival, InboxRow
from nanobot.utils.text import shorten, squeeze

#: The payload of an update that JSON cannot hold again; nobody can read it, so it is set aside.
_NOT_KEPT = '"an update that is nested too deeply to be kept"'


def arrivals_of(updates: list[dict[str, object]]) -> tuple[Arrival, ...]:
    """Updates as they came, ready to be accepted. Each has a whole number as its `update_id`."""
    return tuple(_arrival(one) for one in updates)


def _arrival(update: dict[str, object]) -> Arrival:
    """Its JSON has no lone surrogates: what cannot be kept would be fetched again for ever."""
    place = place_of(update)
    try:
        payload = json.dumps(update, ensure_ascii=False).encode("utf-8", "replace").decode()
    except (RecursionError, ValueError):
        payload = _NOT_KEPT
    return Arrival(str(update["update_id"]), payload, place.key if place is not None else "")


def update_of(row: InboxRow, bot: Bot) -> Update:
    """Raises `ChannelError` for what is no update, and whatever the library raises for one that it cannot read."""
    raw: object = json.loads(row.payload)
    if not isinstance(raw, dict):
        raise ChannelError("it is no update of Telegram's")
    return Update.de_json(raw, bot)


def said_of(row: InboxRow) -> str:
    """The beginning of a message, in quotation marks; empty where it has no words."""
    message = _part(_payload(row), "message")
    text = message.get("text") or message.get("caption")
    return f"“{shorten(squeeze(str(text)), 80)}”" if text else ""


def place_of(update: Mapping[str, object]) -> Address | None:
    """The conversation of an update; None where it belongs to none.

    That a group becomes a supergroup belongs to the supergroup, so that what is said there is worked on after it.
    """
    stopped = _part(update, "stopped_message_generation")
    message = _message(update) or stopped
    chat = number_of(message.get("migrate_to_chat_id")) or number_of(_part(message, "chat").get("id"))
    thread = number_of(message.get("message_thread_id"))
    in_topic = message.get("is_topic_message") is True or message is stopped
    return Address(CHANNEL, str(chat), str(thread) if in_topic and thread else "") if chat else None


def private_sender(row: InboxRow) -> tuple[Address, str] | None:
    """The conversation and the id of who wrote to the bot in private, also where the rest cannot be read."""
    update = _payload(row)
    place, person = place_of(update), number_of(_part(_message(update), "from").get("id"))
    return (place, str(person)) if place is not None and place.chat == str(person) else None


def _message(update: Mapping[str, object]) -> Mapping[str, object]:
    pressed = _part(_part(update, "callback_query"), "message")
    return _part(update, "message") or _part(update, "edited_message") or pressed


def _payload(row: InboxRow) -> Mapping[str, object]:
    payload: object = json.loads(row.payload)
    return payload if isinstance(payload, dict) else {}


def _part(whole: Mapping[str, object], name: str) -> Mapping[str, object]:
    part = whole.get(name)
    return part if isinstance(part, dict) else {}
