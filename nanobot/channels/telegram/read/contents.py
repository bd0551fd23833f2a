"""What is in a Telegram message: the words of its sender, the words of others, and files; nothing is fetched here."""

import re

from msgspec.structs import replace
from telegram import (
    Message,
    MessageEntity,
    MessageOrigin,
    MessageOriginChannel,
    MessageOriginChat,
    MessageOriginHiddenUser,
    MessageOriginUser,
)

from nanobot.channels.telegram.read.incoming import (
    Attachment,
    AttachmentKind,
    Me,
    number_of,
    replied,
    slice_units,
    words_of,
)
from nanobot.utils.text import one_line, shorten, squeeze, strip_unsafe

#: Characters of a quoted message that go along.
QUOTE_CHARS = 1_500
#: Characters of a name, a title, or an option of a poll.
_NAME_CHARS = 80
#: Largest photo that every vendor of models takes, in bytes.
_PHOTO_BYTES = 3_750_000
_MIME = re.compile(r"[\w.+-]{1,60}/[\w.+-]{1,80}", re.ASCII)
_TAG = re.compile(r"[A-Za-z]{2,8}([-_][A-Za-z0-9]{1,8}){0,4}")
_MIMES: dict[AttachmentKind, str] = {
    "photo": "image/jpeg",
    "document": "application/octet-stream",
    "audio": "audio/mpeg",
    "voice": "audio/ogg",
    "video": "video/mp4",
    "video_note": "video/mp4",
    "animation": "video/mp4",
}
#: Files of which a message has one each, besides photos and animations.
_SINGLE: tuple[AttachmentKind, ...] = ("document", "audio", "voice", "video", "video_note")
#: What tells whose message it is, and how it stands in its chat, and not what is in it.
_AROUND = frozenset(
    "message_id date chat from_user sender_chat sender_tag sender_boost_count author_signature via_bot effect_id "
    "edit_date message_thread_id is_topic_message direct_messages_topic is_from_offline has_protected_content "
    "media_group_id reply_markup forward_origin quote reply_to_message external_reply reply_to_story caption "
    "caption_entities has_media_spoiler show_caption_above_media paid_star_count link_preview_options is_paid_post "
    "reply_to_checklist_task_id reply_to_poll_option_id suggested_post_info".split()
)


def words(message: Message) -> str:
    """Text or caption as it reads, the address of a hidden link behind the linked words."""
    text, entities = words_of(message)
    links = sorted(
        (entity for entity in entities if entity.type == MessageEntity.TEXT_LINK and entity.url),
        key=lambda entity: entity.offset,
    )
    done = 0
    parts: list[str] = []
    for link in links:
        end = link.offset + link.length
        label = slice_units(text, link.offset, link.length)
        parts.append(slice_units(text, done, max(0, end - done)))
        if link.url and squeeze(label) != link.url:
            parts.append(f" ({link.url})")
        done = max(done, end)
    whole = "".join([*parts, slice_units(text, done, len(text))]) if links else text
    return strip_unsafe(whole)


def card(message: Message) -> str:
    """What others wrote into a contact, a place or a poll, with a label; empty where there is none of them."""
    if message.venue is not None:
        venue, place = message.venue, message.venue.location
        return f"Place: {name_of(venue.title)}, {name_of(venue.address)} ({place.latitude:.6f}, {place.longitude:.6f})"
    if message.contact is not None:
        who = f"{message.contact.first_name} {message.contact.last_name or ''}"
        return f"Contact: {name_of(who)}, {name_of(message.contact.phone_number)}"
    if message.poll is not None:
        options = "; ".join(name_of(option.text) for option in message.poll.options)
        return f"Poll: {one_line(message.poll.question, 300)} Options: {options}"
    return ""


def remarks(message: Message) -> str:
    """What the message shows that is neither text nor a file, in one line without a name; empty where there is none."""
    if message.sticker is not None:
        return f"{strip_unsafe(text_of(message.sticker.emoji))} [sticker]".strip()
    if found := card(message):
        return f"[{found.partition(':')[0]}]"
    if message.location is not None:
        return f"[Location: {message.location.latitude:.6f}, {message.location.longitude:.6f}]"
    if message.dice is not None:
        return f"[{message.dice.emoji} shows {message.dice.value}]"
    unread = message.story or message.game or message.checklist or message.paid_media or message.giveaway
    if unread is not None or _is_new_kind(message):
        return "[A message of a kind that nanobot cannot read]"  # English: a model reads it
    return ""


def _is_new_kind(message: Message) -> bool:
    """Whether all that is in a message is of a kind that the library does not know."""
    new = message.api_kwargs.keys()
    return bool(new) and not {name for name, value in message.to_dict(recursive=False).items() if value} - _AROUND - new


def attachments(message: Message, *, outside: bool = False) -> tuple[Attachment, ...]:
    """The files of a message; of a photo the largest size that models take."""
    if message.photo:
        fitting = [size for size in message.photo if (size.file_size or 0) <= _PHOTO_BYTES] or list(message.photo)
        best = max(fitting, key=lambda size: size.width * size.height)
        return (replace(_attachment("photo", best, outside), mime="image/jpeg"),)
    if message.animation is not None:  # comes with a `document` that is the same file
        return (_attachment("animation", message.animation, outside),)
    files = ((kind, getattr(message, kind)) for kind in _SINGLE)
    return tuple(_attachment(kind, file, outside) for kind, file in files if file is not None)


def _attachment(kind: AttachmentKind, file: object, outside: bool) -> Attachment:
    """Telegram's file types share these fields, but not a type that names them."""

    def text(field: str) -> str:
        return text_of(getattr(file, field, None))

    return Attachment(
        kind,
        text("file_id"),
        mime if _MIME.fullmatch(mime := text("mime_type")) else _MIMES[kind],
        one_line(text("file_name"), 120),
        number_of(getattr(file, "file_size", None)),
        outside,
    )


def quotes(message: Message, me: Me) -> tuple[str, ...]:
    """What others say in the message: what it replies to, what it forwards or shares; each with a label."""
    found: list[str] = []
    if quoted := _quoted(message, me):
        found.append(quoted)
    if message.forward_origin is not None:
        said = "\n".join(filter(None, (words(message), card(message) or remarks(message)))) or _files_line(message)
        when = message.forward_origin.date
        found.append(f"Forwarded from {_origin(message.forward_origin)}, {when:%Y-%m-%d %H:%M} UTC:\n{said}")
    elif shared := card(message):
        found.append(shared)
    return tuple(found)


def quoted_files(message: Message, me: Me) -> tuple[Attachment, ...]:
    """The files of the message that this one replies to, unless the bot itself sent them."""
    target = replied(message)
    if target is None or (target.from_user is not None and target.from_user.id == me.id):
        return ()
    return attachments(target, outside=True)


def _quoted(message: Message, me: Me) -> str:  # English: a model reads it
    part = shorten(strip_unsafe(message.quote.text), QUOTE_CHARS) if message.quote is not None else ""
    target = replied(message)
    if target is not None:
        said = part or shorten("\n".join(filter(None, (words(target), card(target) or remarks(target)))), QUOTE_CHARS)
        return f"In reply to {_author(target, message, me)}:\n{said or _files_line(target)}"
    if message.external_reply is not None:
        said = part or "[a message of another chat]"
        return f"In reply to {_origin(message.external_reply.origin)}, in another chat:\n{said}"
    return ""


def _author(target: Message, message: Message, me: Me) -> str:  # English: a model reads it
    user = target.from_user
    if user is not None and user.id == me.id:
        return "an earlier message of yours"
    if user is not None and message.from_user is not None and user.id == message.from_user.id:
        return "an earlier message of their own"
    if target.sender_chat is not None:
        return name_of(target.sender_chat.title or "a chat")
    return name_of(user.full_name) if user is not None else "somebody"


def _origin(origin: MessageOrigin) -> str:
    if isinstance(origin, MessageOriginUser):
        return name_of(origin.sender_user.full_name)
    if isinstance(origin, MessageOriginHiddenUser):
        return name_of(origin.sender_user_name)
    if isinstance(origin, MessageOriginChannel):
        link = f" (https://t.me/{origin.chat.username}/{origin.message_id})" if origin.chat.username else ""
        return f"the channel {name_of(origin.chat.title)}{link}"
    if isinstance(origin, MessageOriginChat):
        return name_of(origin.sender_chat.title or "a group")
    return "somebody"


def _files_line(message: Message) -> str:
    nouns = {"voice": "voice message", "video_note": "video message"}
    kinds = ", ".join(f"{nouns.get(file.kind, file.kind)} {file.name}".strip() for file in attachments(message))
    # English: a model reads it
    return f"[{kinds}]" if kinds else "[nothing that can be read]"


def name_of(text: object) -> str:
    """A name that people chose for themselves, fit for one line. The library gives None where it is empty."""
    return one_line(text_of(text), _NAME_CHARS) or "somebody"


def text_of(value: object) -> str:
    """`value` where it is text, as it should be; else nothing."""
    return value if isinstance(value, str) else ""


def tag_of(value: object) -> str:
    """`value` where it is the tag of a language (IETF BCP 47); else nothing, as whoever sends it may write anything."""
    return value if isinstance(value, str) and _TAG.fullmatch(value) else ""
