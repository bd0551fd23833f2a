"""What one update says, before anything of it is fetched: where it belongs, whom it is for, and what its sender wrote.

Where an update belongs is read from the JSON alone and breaks on nothing: an update is kept before anybody judges it.
"""

import json
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping
from datetime import datetime
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace
from telegram import Bot, Chat, Message, MessageEntity, Update

from nanobot.bus.events import Address, Sender
from nanobot.channels.telegram.render.screen_messages import LIMIT, utf16_length
from nanobot.channels.telegram.settings import CHANNEL
from nanobot.command.router import parse_command
from nanobot.errors import ChannelError
from nanobot.session.rows import Arrival, InboxRow
from nanobot.utils.text import shorten, squeeze
from nanobot.utils.translation import N_, Later, yes_or_no

AttachmentKind = Literal["photo", "document", "audio", "voice", "video", "video_note", "animation"]
Addressed = Literal["private", "mention", "reply", "command", "none"]
"""How a message reaches the bot: in a private chat, or in a group by one of the three ways that count; else `none`."""
#: Says something in a chat: address, Markdown, and a key under which it is said once.
Say = Callable[[Address, str, str], Awaitable[None]]

_NOBODY = "-"
_COMMAND = re.compile(r"/(\w+)@(\w+)")
_TO_SOMEBODY, _COMMAND_TO = (
    re.compile(r"(?P<kept>)\s*@(?P<name>\w+)[\s,:]*"),
    re.compile(r"(?P<kept>\s*/\w+)@(?P<name>\w+)"),
)
#: The payload of an update that JSON cannot hold again; nobody can read it, so it is set aside.
_NOT_KEPT = '"an update that is nested too deeply to be kept"'  # English: for whoever looks into the ledger


# Where it belongs


def number_of(value: object) -> int:
    """`value` where it is one of Telegram's numbers, whole and of 64 bits; else 0, which is nobody's."""
    return value if isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**63 else 0


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
    return Arrival(
        str(update["update_id"]), payload, _chat_answered(update) or (place.key if place is not None else "")
    )


def _chat_answered(update: Mapping[str, object]) -> str:
    """The key of the group whose question a button in the owner's private chat answers, for who serves that group."""
    data = _part(update, "callback_query").get("data")
    if not isinstance(data, str) or not data.startswith("/approve "):
        return ""
    group = data.rpartition(" @")[2]
    return f"{CHANNEL}:{group}" if re.fullmatch(r"-\d{1,20}(:\d{1,20})?", group) else ""


def update_of(row: InboxRow, bot: Bot) -> Update:
    """Raises `ChannelError` for what is no update, and whatever the library raises for one that it cannot read."""
    raw: object = json.loads(row.payload)
    if not isinstance(raw, dict):
        raise ChannelError(Later(N_("it is no update of Telegram's")))
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


def place_in(row: InboxRow) -> Address | None:
    """The conversation of an update that was kept, also by a version that did not keep it beside the update."""
    return Address.of(row.key) if row.key else place_of(_payload(row))


def private_sender(row: InboxRow) -> tuple[Address, str] | None:
    """The conversation and the id of who wrote to the bot in private, also where the rest cannot be read."""
    person = number_of(_part(_message(_payload(row)), "from").get("id"))
    place = place_in(row)
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


# Whom it is for


class Me(Struct, frozen=True):
    """The bot itself, as `getMe` tells: its id, and its user name without the at sign."""

    id: int
    username: str


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


def answers_question(message: Message, text: str) -> str:
    """`text` as the command that answers the question with buttons which it replies to; empty where it replies to none.

    Words that say no more than an answer are that answer; any others are the reason of a no.
    """
    target = replied(message)
    markup = target.reply_markup if target is not None else None
    rows = markup.inline_keyboard if markup is not None else ()
    data = [str(button.callback_data or "") for row in rows for button in row]
    found = next((one.split() for one in data if re.match(r"/approve [0-9a-f]{8} ", one)), None)
    if found is None or not text or text.startswith("/") or not squeeze(text):
        return ""
    return f"/approve {found[1]} {yes_or_no(text) or f'no {text.strip()}'}"


def words_of(message: Message) -> tuple[str, tuple[MessageEntity, ...]]:
    """Text or caption, with its entities."""
    if message.text is not None:
        return message.text, tuple(message.entities)
    return message.caption or "", tuple(message.caption_entities)


def slice_units(text: str, offset: int, length: int) -> str:
    """The part of `text` that an entity names; both figures are in UTF-16 units."""
    raw = text.encode("utf-16-le", "surrogatepass")
    return raw[2 * offset : 2 * (offset + length)].decode("utf-16-le", "ignore")


def without_address(text: str, me: Me) -> str:
    """`text` without the bot's name where it only says whom it is for: at its start, or behind a command."""
    for pattern in (_TO_SOMEBODY, _COMMAND_TO):
        found = pattern.match(text)
        if found and _same(found["name"], me.username):
            text = found["kept"] + text[found.end() :]
    return text


def _for_another_bot(text: str, me: Me) -> bool:
    named = _COMMAND.match(text)
    return bool(named) and not _same(named[2] if named else "", me.username)


def _same(one: str, other: str) -> bool:
    return bool(other) and one.casefold() == other.casefold()


# What it says


class Attachment(Struct, frozen=True):
    """A file that Telegram keeps. `name` and `mime` are what the sender's client says; `size` is in bytes, 0 unknown.

    `outside` marks what the person only passed on: files of a quoted or forwarded message.
    """

    kind: AttachmentKind
    file_id: str
    mime: str
    name: str = ""
    size: int = 0
    outside: bool = False


class IncomingMessage(Struct, frozen=True):
    """One or several messages of one person that become one `InboundMessage`.

    `texts` has one text a message, in the order of `message_ids`; `update_ids` are the updates that it settles.
    `quotes` is what others said: quoted and forwarded text, each with its label. The role of `sender` is `guest` until
    somebody who knows has judged it. `edited` marks the new version of a message that was handed out before.
    """

    address: Address
    sender: Sender
    message_ids: tuple[int, ...]
    update_ids: tuple[int, ...]
    texts: tuple[str, ...]
    date: datetime
    attachments: tuple[Attachment, ...] = ()
    quotes: tuple[str, ...] = ()
    addressed: Addressed = "none"
    album: str = ""
    forwarded: bool = False
    edited: bool = False

    @property
    def private(self) -> bool:
        return self.addressed == "private"

    @property
    def text(self) -> str:
        """What the person typed. Pieces that the client cut in mid-word are put together again without a break."""
        text = ""
        last = 0
        for piece in filter(None, self.texts):
            text += ("\n" if text and last < LIMIT else "") + piece
            last = utf16_length(piece)
        return text

    @property
    def command(self) -> bool:
        """True for a slash command or a word that means one; what was forwarded or edited commands nothing.

        The bot's own name is gone from `texts`, so a command that still has one is another bot's.
        """
        alone = not (self.attachments or self.quotes)
        parsed = parse_command(self.text.strip(), _NOBODY, alone=alone)
        return not self.forwarded and not self.edited and parsed is not None

    def rewritten(self, edit: "IncomingMessage") -> "IncomingMessage":
        """This message with the text of one of its messages replaced by the edited one."""
        place = self.message_ids.index(edit.message_ids[0])
        texts = (*self.texts[:place], edit.texts[0], *self.texts[place + 1 :])
        return replace(self, texts=texts, update_ids=(*self.update_ids, *edit.update_ids))


def whole(messages: Iterable[IncomingMessage]) -> IncomingMessage | None:
    """What updates say together, edits put in their places; None where nothing of it is to be answered."""
    found: IncomingMessage | None = None
    for incoming in messages:
        if incoming.edited:
            if found is not None and incoming.message_ids[0] in found.message_ids:
                found = found.rewritten(incoming)
        else:
            found = incoming if found is None else _joined(found, incoming)
    return found


def _joined(first: IncomingMessage, later: IncomingMessage) -> IncomingMessage:
    """Two messages of one person in one place as one, in their order."""
    return replace(
        first,
        message_ids=(*first.message_ids, *later.message_ids),
        update_ids=(*first.update_ids, *later.update_ids),
        texts=(*first.texts, *later.texts),
        attachments=(*first.attachments, *later.attachments),
        quotes=(*first.quotes, *(quote for quote in later.quotes if quote not in first.quotes)),
        addressed=first.addressed if first.addressed != "none" else later.addressed,
        forwarded=first.forwarded and later.forwarded,
    )
