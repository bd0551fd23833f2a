"""Where a Telegram message belongs, and whether it is meant for the bot."""

import re
from collections.abc import Awaitable, Callable

from msgspec import Struct
from telegram import Chat, Message, MessageEntity

from nanobot.bus.events import Address
from nanobot.channels.telegram.read.incoming import Addressed
from nanobot.errors import ChannelError

CHANNEL = "telegram"
#: Says something in a chat: address, Markdown, and a key under which it is said once.
Say = Callable[[Address, str, str], Awaitable[None]]
_COMMAND = re.compile(r"/(\w+)@(\w+)")


class Me(Struct, frozen=True):
    """The bot itself, as `getMe` tells: its id, and its user name without the at sign."""

    id: int
    username: str


def number_of(value: object) -> int:
    """`value` where it is one of Telegram's numbers, whole and of 64 bits; else 0, which is nobody's."""
    return value if isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**63 else 0


def address_of(message: Message) -> Address:
    """The conversation of a message. A thread counts only in a topic: plain groups give replies a thread id as well.

    Raises `ChannelError` where the chat has no number.
    """
    chat = number_of(message.chat.id)
    if not chat:
        raise ChannelError("its chat has no number")
    topic = number_of(message.message_thread_id) if message.is_topic_message is True else 0
    return Address(CHANNEL, str(chat), str(topic) if topic else "")


def is_private(message: Message) -> bool:
    return message.chat.type == Chat.PRIVATE


def addressed(message: Message, me: Me) -> Addressed:
    """How `message` addresses the bot: by a command with its name, a mention in text or caption, or a reply to it."""
    if is_private(message):
        return "private"
    text, entities = words_of(message)
    for entity in entities:
        if way := _by_entity(text, entity, me):
            return way
    return "reply" if answers(message, me) and not _for_another_bot(text, me) else "none"


def _by_entity(text: str, entity: MessageEntity, me: Me) -> Addressed | None:
    said = slice_units(text, entity.offset, entity.length)
    match entity.type:
        case MessageEntity.BOT_COMMAND:
            named = _COMMAND.fullmatch(said)
            return "command" if named and _same(named[2], me.username) else None
        case MessageEntity.MENTION:
            return "mention" if _same(said.removeprefix("@"), me.username) else None
        case MessageEntity.TEXT_MENTION:
            return "mention" if entity.user is not None and entity.user.id == me.id else None
        case _:
            return None


def answers(message: Message, me: Me) -> bool:
    """True for a reply to something that the bot wrote; what opened a topic is not such a thing."""
    target = replied(message)
    return target is not None and target.from_user is not None and target.from_user.id == me.id


def replied(message: Message) -> Message | None:
    """The message that this one replies to. In a topic every plain message points to the topic's opening."""
    target = message.reply_to_message
    if target is None or target.forum_topic_created is not None:
        return None
    if message.is_topic_message and target.message_id == message.message_thread_id:
        return None
    return target


def words_of(message: Message) -> tuple[str, tuple[MessageEntity, ...]]:
    """Text or caption, with its entities."""
    if message.text is not None:
        return message.text, tuple(message.entities)
    return message.caption or "", tuple(message.caption_entities)


def slice_units(text: str, offset: int, length: int) -> str:
    """The part of `text` that an entity names; both figures are in UTF-16 units."""
    raw = text.encode("utf-16-le", "surrogatepass")
    return raw[2 * offset : 2 * (offset + length)].decode("utf-16-le", "replace")


def without_address(text: str, me: Me) -> str:
    """`text` without the bot's name where it only says whom it is for: at its start, or behind a command."""
    name = re.escape(me.username)
    text = re.sub(rf"\A\s*@{name}\b[\s,:]*", "", text, flags=re.IGNORECASE)
    return re.sub(rf"\A(\s*/\w+)@{name}\b", r"\1", text, flags=re.IGNORECASE)


def _for_another_bot(text: str, me: Me) -> bool:
    named = _COMMAND.match(text)
    return bool(named) and not _same(named[2] if named else "", me.username)


def _same(one: str, other: str) -> bool:
    return bool(other) and one.casefold() == other.casefold()
