"""From updates to what a person said: words, quotes, files, and a visible line for everything that went wrong.

`describe` reads an update without a network, so that access can be judged first; `complete` fetches what the message
carries. Which messages of one person are one thing to say is told by pure rules: clients cut long texts into messages,
send every picture of an album and every forward on its own, and people press Enter between lines. Who reads the updates
keeps the time.
"""

import asyncio
from collections import defaultdict, deque
from collections.abc import Awaitable, Callable
from datetime import datetime
from pathlib import Path

from msgspec import Struct, field
from msgspec.structs import replace
from telegram import Update

from nanobot.bus.events import Address, InboundMessage, Role, Sender
from nanobot.channels.documents import Documents
from nanobot.channels.telegram.bot import TelegramLine
from nanobot.channels.telegram.read import contents
from nanobot.channels.telegram.read.incoming import (
    Attachment,
    IncomingMessage,
    Say,
    addressed,
    answers,
    answers_question,
    number_of,
    without_address,
)
from nanobot.channels.telegram.read.media import MediaFolder, label
from nanobot.channels.telegram.read.voice import HOW_TO_ENABLE, KEPT_PRIVATE, Transcriber, Transcription
from nanobot.channels.telegram.render.screen_messages import utf16_length
from nanobot.command.settings import ChatSettings
from nanobot.errors import ChannelError, NanobotError
from nanobot.messages import Media
from nanobot.utils.text import shorten
from nanobot.utils.translation import N_, Later, _

#: Characters of all documents of one message that go into the turn.
CONTEXT_CHARS = 60_000
_OVERHEARD_CHARS = 300
#: Seconds after the last of several lines that came in a row; a single line waits for nothing, unless configured.
QUIET_SECONDS = 0.3
#: Seconds after a piece that its client cut off.
PASTE_SECONDS = 1.5
ALBUM_SECONDS = 0.8
FORWARD_SECONDS = 0.1
#: UTF-16 units from which a text is taken for a piece of a longer one.
PIECE_UNITS = 4_000
#: Telegram's dates are whole seconds. What was sent further apart does not belong together, however it arrives: after
#: an outage many messages come at once.
_DATE_SLACK = 2.0
_SPOKEN = frozenset({"voice", "audio", "video_note"})


#: From the message of a person, a file that came with it and its name to the path under which the tools of their turn
#: reach it; empty where they have no files. Raises `NanobotError` or `OSError`.
Receive = Callable[[InboundMessage, Path, str], Awaitable[str]]


async def _say_nothing(_address: Address, _text: str, _key: str) -> None:
    return None


async def _keep_nothing(_message: InboundMessage, _file: Path, _name: str) -> str:
    return ""


class _Parts(Struct):
    """What a message is made of: the person's words, what others said, files, and what went wrong with which.

    Names of files are of others, whoever sends them: their own client names only what they made with it. `places` tell
    where such files are for the tools.
    """

    words: list[str] = field(default_factory=list)
    outside: list[str] = field(default_factory=list)
    media: list[Media] = field(default_factory=list)
    problems: list[tuple[Attachment, str]] = field(default_factory=list)
    places: list[str] = field(default_factory=list)

    def add(self, more: "_Parts") -> None:
        for name in self.__struct_fields__:
            getattr(self, name).extend(getattr(more, name))


class TelegramIntake:
    """Turns updates into messages, in two steps, so that access is judged before anything is fetched.

    `quiet` is how many seconds to wait for a further line; `overheard` how many messages of a group go along. `say`
    shows transcripts and failures in the chat; `chats` know which wants privacy; `receive` puts files where the tools
    of their sender reach them."""

    def __init__(
        self,
        line: TelegramLine,
        media: MediaFolder,
        *,
        quiet: float = 0.0,
        overheard: int = 0,
        transcriber: Transcriber | None = None,
        say: Say = _say_nothing,
        chats: ChatSettings | None = None,
        receive: Receive = _keep_nothing,
    ) -> None:
        self._receive = receive
        self._line = line
        self._media = media
        self._quiet = quiet
        self._most_overheard = overheard
        self._transcriber = transcriber
        self._say = say
        self._documents = Documents()
        self._chats = chats or ChatSettings()
        self._overheard: dict[Address, deque[str]] = defaultdict(lambda: deque(maxlen=overheard))

    async def aclose(self) -> None:
        """Close the connections and processes that reading has opened."""
        await self._media.aclose()
        await self._documents.aclose()
        if self._transcriber is not None:
            await self._transcriber.aclose()

    def patience(self, incoming: IncomingMessage, *, in_a_row: bool = False) -> float:
        """Seconds to wait for a message that belongs to `incoming`, counted from its arrival. Commands never wait.

        A line that comes later than that is read by the turn on its way, so nobody waits for one that is only possible.
        `in_a_row`: others that belong to it have come before it.
        """
        if incoming.command or incoming.edited:
            return 0.0
        if incoming.album:
            return max(ALBUM_SECONDS, self._quiet)
        if incoming.forwarded:
            return FORWARD_SECONDS
        if utf16_length(incoming.texts[-1]) >= PIECE_UNITS:
            return max(PASTE_SECONDS, self._quiet)
        return max(QUIET_SECONDS, self._quiet) if in_a_row else self._quiet

    def joins(self, earlier: IncomingMessage, later: IncomingMessage) -> bool:
        """True where `later`, which came within the patience of `earlier`, is one message with it, or an edit of it."""
        same = earlier.address == later.address and earlier.sender.id == later.sender.id
        if not same or earlier.command or later.command:
            return False
        if later.edited:
            return later.message_ids[0] in earlier.message_ids
        gap = (later.date - earlier.date).total_seconds()
        return abs(gap) <= self.patience(earlier) + _DATE_SLACK

    def describe(self, update: Update, place: Address | None) -> IncomingMessage | None:
        """An update of a place without fetching anything; None for what no person says (joins, pins, other bots)."""
        message = update.message or update.edited_message
        if message is None or message.is_automatic_forward:
            return None
        user = message.from_user
        if user is None or (user.is_bot and message.sender_chat is None):
            return None
        chat = message.sender_chat if user.is_bot else None
        who, name = (user, user.full_name) if chat is None else (chat, chat.effective_name)
        number, person = number_of(message.message_id), number_of(who.id)
        if not (place and number and person and isinstance(message.date, datetime)):
            raise ChannelError(Later(N_("it has no chat, number, sender or date")))
        forwarded = message.forward_origin is not None
        remark = contents.remarks(message)
        files = contents.attachments(message, outside=forwarded)
        own = "" if forwarded else without_address(contents.words(message), self._line.me)
        text = "\n".join(filter(None, (own, "" if forwarded else remark)))
        asked = update.message is not None and not files and answers(message, self._line.me)
        answer = answers_question(message, own) if asked else ""
        if not (text or files or forwarded or (message.text or message.caption)):
            return None
        return IncomingMessage(
            address=place,
            sender=Sender(str(person), contents.name_of(name), "guest", language=contents.tag_of(user.language_code)),
            message_ids=(number,),
            update_ids=(update.update_id,),
            texts=(answer or text,),
            date=message.date,
            attachments=(*files, *contents.quoted_files(message, self._line.me)),
            quotes=() if answer else contents.quotes(message, self._line.me),
            addressed=addressed(message, self._line.me),
            album=contents.text_of(message.media_group_id),
            forwarded=forwarded,
            edited=update.edited_message is not None,
        )

    def overhear(self, incoming: IncomingMessage) -> None:
        """Keep a message of a group that was not for the bot, as context for one that is. Nothing is fetched."""
        if incoming.private or not self._most_overheard or incoming.edited:
            return
        said = incoming.text or " ".join(incoming.quotes) or f"[{incoming.attachments[0].kind}]"
        self._overheard[incoming.address].append(f"{incoming.sender.name}: {shorten(said, _OVERHEARD_CHARS)}")

    async def complete(
        self, incoming: IncomingMessage, role: Role = "guest", granted: tuple[str, ...] = ()
    ) -> InboundMessage:
        """Fetch what the message carries and put it together. What fails is told in the text and in the chat."""
        sender = replace(incoming.sender, role=role, granted=granted)
        begun = InboundMessage(incoming.address, sender, "", id=str(incoming.message_ids[0]), direct=incoming.private)
        parts = _Parts(outside=list(incoming.quotes))
        if incoming.text:
            parts.words.append(incoming.text)
        if overheard := self._overheard.pop(incoming.address, None):
            # English: a model reads it
            parts.outside.insert(0, "\n".join(["Said in the group before:", *overheard]))
        private = await self._chats.get(incoming.address.key, "privacy") == "on"
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(self._file(begun, file, private=private)) for file in incoming.attachments]
        for task in tasks:
            parts.add(task.result())
        await self._tell(incoming, parts)
        return replace(
            begun,
            content=_content(incoming, parts),
            media=tuple(parts.media),
            context=_clipped(["\n".join(parts.places), *parts.outside] if parts.places else parts.outside),
            revisable=True,
        )

    async def _file(self, message: InboundMessage, file: Attachment, *, private: bool) -> _Parts:
        parts = _Parts()
        fetched = await self._media.fetch(self._line, file)
        if fetched.media is None:
            parts.problems.append((file, fetched.problem))
            parts.outside += _called(file)
            return parts
        media = fetched.media
        if file.kind in _SPOKEN or (file.kind == "document" and media.mime.startswith("audio/")):
            heard = await self._listen(media, private=private)
            await self._add_speech(file, media, heard, parts)
            if parts.media:
                await self._keep(message, file, media, parts)
            return parts
        parts.media.append(media)
        place = await self._keep(message, file, media, parts)
        if file.kind == "document" and not media.mime.startswith(("image/", "video/")):
            found = await self._documents.read(media)
            if found.text:  # English: a model reads it
                parts.outside.append(f"Text of the file {file.name or media.name}:\n{found.shown(place)}")
                return parts
            if found.scan:
                parts.media[-1] = replace(parts.media[-1], mime="application/pdf", inline=True)
            parts.problems.append((file, _("is here, but {why}.", why=found.problem)))
        parts.outside += [] if place else _called(file)
        return parts

    async def _keep(self, message: InboundMessage, file: Attachment, media: Media, parts: _Parts) -> str:
        """Put a file where the tools of its sender reach it; its path there, which is also told."""
        try:
            place = await self._receive(message, Path(media.path), file.name or media.name)
        except (NanobotError, OSError) as error:
            reason = str(error) if isinstance(error, NanobotError) else error.strerror or type(error).__name__
            why = reason.rstrip(".")
            parts.problems.append((file, _("is here, but out of reach of the tools for files: {why}.", why=why)))
            return ""
        if place and file.name:
            parts.places.append(_("{file} is in your files as {place}", file=label(file), place=place))
        elif place:
            parts.media[-1] = replace(parts.media[-1], place=place)
        return place

    async def _listen(self, media: Media, *, private: bool) -> Transcription:
        if self._transcriber is None:
            return Transcription(problem=_(HOW_TO_ENABLE))
        if private and not self._transcriber.local:
            return Transcription(problem=_(KEPT_PRIVATE))
        return await self._transcriber.transcribe(Path(media.path), media.mime)

    @staticmethod
    async def _add_speech(file: Attachment, media: Media, heard: Transcription, parts: _Parts) -> None:
        """A recording becomes its words; one that cannot be written down stays a file."""
        if not heard.text:
            parts.media.append(media)
            parts.problems.append((file, _("was not written down. {why}", why=heard.problem)))
            return
        await asyncio.to_thread(Path(media.path).unlink, missing_ok=True)  # its words are kept instead
        if file.outside:  # English: a model reads it
            parts.outside.append(f"Spoken in a recording that was passed on:\n{heard.text}")
        else:
            parts.words.append(heard.text)

    async def _tell(self, incoming: IncomingMessage, parts: _Parts) -> None:
        spoken = [text for text in parts.words if text != incoming.text]
        quoted = ["\n".join(f"> {line}" for line in f"🎤 {text}".splitlines()) for text in spoken]
        lines = [*quoted, *(f"⚠️ {_told(file, problem)}" for file, problem in parts.problems)]
        if lines:
            await self._say(incoming.address, "\n\n".join(lines), f"say-{incoming.update_ids[-1]}")


def _called(file: Attachment) -> list[str]:
    return [_("{file} is called {name}", file=label(file, named=False), name=file.name)] if file.name else []


def _told(file: Attachment, problem: str, *, named: bool = True) -> str:
    return _("{file} {problem}", file=label(file, named=named), problem=problem)


def _content(incoming: IncomingMessage, parts: _Parts) -> str:
    """The person's words, and what went wrong."""
    said = "\n\n".join(parts.words)
    if not said and incoming.quotes and not parts.media:
        # English: a model reads it
        said = "[Forwarded without a word of their own.]" if incoming.forwarded else "[A reply without words.]"
    wrong = [f"[{_told(file, problem, named=False)}]" for file, problem in parts.problems]
    return "\n\n".join([*filter(None, [said]), *wrong])


def _clipped(outside: list[str]) -> str:
    text = "\n\n".join(outside)
    # English: a model reads it
    return text if len(text) <= CONTEXT_CHARS else f"{text[:CONTEXT_CHARS]}\n[Cut: there was more.]"
