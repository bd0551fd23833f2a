"""What one message from Telegram says, before anything of it is fetched."""

from collections.abc import Iterable
from datetime import datetime
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from nanobot.bus.events import Address, Sender
from nanobot.channels.telegram.render.screen_messages import LIMIT, utf16_length
from nanobot.command.router import parse_command

AttachmentKind = Literal["photo", "document", "audio", "voice", "video", "video_note", "animation"]
Addressed = Literal["private", "mention", "reply", "command", "none"]
"""How a message reaches the bot: in a private chat, or in a group by one of the three ways that count; else `none`."""

_NOBODY = "-"


class Attachment(Struct, frozen=True):
    """A file that Telegram keeps. `name` and `mime` are what the sender's client says; `size` is in bytes, 0 unknown.

    `outside` marks what the person only passed on: files of a quoted or forwarded message.
    """

    kind: AttachmentKind
    file_id: str
    unique_id: str
    mime: str
    name: str = ""
    size: int = 0
    seconds: int = 0
    outside: bool = False


class IncomingMessage(Struct, frozen=True):
    """One or several messages of one person that become one `InboundMessage`.

    `texts` has one text a message, in the order of `message_ids`; `update_ids` are the updates that it settles.
    `quotes` is what others said: quoted and forwarded text, each with its label. The role of `sender` is `guest` until
    somebody who knows has judged it. `edited` marks the new version of a message that was handed out before.
    """

    address: Address
    sender: Sender
    private: bool
    message_ids: tuple[int, ...]
    update_ids: tuple[int, ...]
    texts: tuple[str, ...]
    date: datetime
    attachments: tuple[Attachment, ...] = ()
    quotes: tuple[str, ...] = ()
    addressed: Addressed = "none"
    language: str = ""
    album: str = ""
    forwarded: bool = False
    edited: bool = False

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
