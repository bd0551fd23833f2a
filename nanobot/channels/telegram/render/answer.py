"""What a finished turn leaves in the chat: the answer in parts, its sources, long things as files, and what it made."""

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

from nanobot.bus.events import Address, TurnFinished
from nanobot.channels.citations import UNTITLED, sources_list
from nanobot.channels.telegram.receive.callback_queries import PASSAGES
from nanobot.channels.telegram.render.markdown import Rendered, render
from nanobot.channels.telegram.render.screen_messages import ScreenMessage, screen_messages_of, split
from nanobot.channels.telegram.send.calls import Upload
from nanobot.channels.telegram.show.status import STOPPED
from nanobot.messages import Media
from nanobot.results import Source
from nanobot.session.rows import OutboxItem
from nanobot.utils.marks import passages
from nanobot.utils.text import one_line
from nanobot.utils.translation import _

#: An answer of more parts goes on in a file; so does a block of code of more characters.
MOST_PARTS = 4
LONG_CODE = 8_000
#: Telegram's limits for what bots upload, in bytes.
_PHOTO_BYTES, _FILE_BYTES = 10_000_000, 50_000_000
_SPECIAL = re.compile(r"([\\`*_\[\]<>~|])")
_SUFFIXES = {"python": "py", "javascript": "js", "typescript": "ts", "markdown": "md", "rust": "rs", "shell": "sh"}


class OutgoingMessage(Struct, frozen=True):
    """One message of the outbox. `text`: the message; `note`: a file of ours with `content`; `file`: a file at `path`.

    `urgent` for replies to commands; `last` for the last message of its turn; `reply_to` as in `calls.Place`.
    """

    kind: Literal["text", "note", "file"]
    screen: ScreenMessage = field(default_factory=lambda: ScreenMessage(""), name="frame")  # as stored rows have it
    name: str = ""
    content: str = ""
    path: str = ""
    photo: bool = False
    urgent: bool = False
    last: bool = False
    reply_to: int = 0

    def to_json(self) -> str:
        # A lone surrogate, which a model may send, can be neither kept nor sent.
        return json.dumps(msgspec.to_builtins(self), ensure_ascii=False).encode("utf-8", "replace").decode()

    def upload(self) -> Upload:
        """The file to send. Raises `OSError` where it is gone."""
        data = Path(self.path).read_bytes() if self.kind == "file" else self.content.encode("utf-8")
        return Upload(self.name, data, self.screen.text, self.photo)


def outgoing_of(payload: str) -> OutgoingMessage:
    """Raises msgspec's `DecodeError` for a payload of another making."""
    return msgspec.json.decode(payload, type=OutgoingMessage)


def answer_text(finished: TurnFinished) -> str:
    """The whole text of a turn's end, as Markdown."""
    done = "\n".join(f"☑ {_plain(receipt)}" for receipt in finished.receipts)
    text = finished.text.strip()
    said = "\n\n".join(filter(None, [*(f"⚠️ {note}" for note in finished.notes), text, done]))
    if finished.outcome == "cancelled":
        return f"{said}\n\n{_(STOPPED)}" if said else _(STOPPED)
    if finished.outcome == "failed":
        return "\n\n".join(filter(None, (said, f"⚠️ {finished.error or _('The turn failed. Ask again.')}")))
    return said + _sources(replace(finished, text=said)) if said else ""


def answer_messages(finished: TurnFinished) -> tuple[OutgoingMessage, ...]:
    """The messages of a turn's end, in order; empty where there is nothing to say."""
    text = answer_text(finished)
    rendered = render(text)
    screens = split(rendered)
    messages = [OutgoingMessage("text", screen) for screen in screens[:MOST_PARTS]]
    if len(screens) > MOST_PARTS:
        note = ScreenMessage(_("The answer goes on in this file, which holds all of it."), silent=True)
        messages.append(
            OutgoingMessage("note", note, "answer.md", f"{text}\n\n{passages(finished.citations)}".rstrip() + "\n")
        )
    elif messages and finished.citations and finished.answered:
        button = (_("What the pages say"), f"{PASSAGES}{finished.answered[0]}"[:64])
        messages[-1] = replace(messages[-1], screen=replace(messages[-1].screen, buttons=(button,)))
    messages += _long_code(rendered)
    return (*messages, *map(file_message, finished.media))


def text_messages(text: str) -> tuple[OutgoingMessage, ...]:
    """A text (Markdown) in parts."""
    return tuple(OutgoingMessage("text", screen) for screen in screen_messages_of(text))


def outbox_items(
    channel: str, address: Address, key: str, messages: Sequence[OutgoingMessage]
) -> tuple[OutboxItem, ...]:
    """Messages as they go into the outbox of a bot, whose name in the ledger is `channel`, under their key."""
    last = len(messages) - 1
    return tuple(
        OutboxItem(key, part, channel, address.chat, replace(one, last=part == last).to_json(), address.thread)
        for part, one in enumerate(messages)
    )


def _long_code(rendered: Rendered) -> list[OutgoingMessage]:
    blocks = [one for one in rendered.entities if one.type == "pre" and one.length > LONG_CODE]
    return [
        OutgoingMessage(
            "note",
            ScreenMessage(_("The long block of code as a file."), silent=True),
            f"code-{number}.{_SUFFIXES.get(block.language, block.language or 'txt')}",
            rendered.text[block.offset : block.end] + "\n",
        )
        for number, block in enumerate(blocks, 1)
    ]


def file_message(media: Media) -> OutgoingMessage:
    """A file as a document or a photo; what is too large for Telegram as a line that says so."""
    name = media.name or Path(media.path).name
    if media.size > _FILE_BYTES:
        size = media.size / 1_000_000
        said = _("{name} has {size:.0f} MB; Telegram takes at most 50 MB from bots.", name=name, size=size)
        return OutgoingMessage("text", ScreenMessage(said, silent=True))
    photo = media.mime in {"image/png", "image/jpeg", "image/webp"} and media.size <= _PHOTO_BYTES
    return OutgoingMessage("file", ScreenMessage("", silent=True), name, path=media.path, photo=photo)


def _sources(finished: TurnFinished) -> str:
    """What stands under an answer: the marks in doubt, then titles that lead to their pages."""
    lines = sources_list(finished).lines(_source, lambda doubt: f"- ❓ {_plain(doubt)}", "\n**{}**\n")
    return "\n".join(["", "", *lines]) if lines else ""


def _plain(text: str) -> str:
    return _SPECIAL.sub(r"\\\1", one_line(text))


def _source(source: Source) -> str:
    title = _plain(source.title) or _(UNTITLED)
    if source.url.startswith("file:"):  # a document on the machine of nanobot, to which no link leads
        return f"- \\[{source.number}\\] {title}: {_plain(source.url.removeprefix('file:'))}"
    url = one_line(source.url).replace("<", "%3C").replace(">", "%3E")
    return f"- \\[{source.number}\\] [{title}](<{url}>)" if url else f"- \\[{source.number}\\] {title}"
