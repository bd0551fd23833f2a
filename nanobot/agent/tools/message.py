"""The tool by which the agent sends messages and files, to the person of the turn or to another chat."""

import asyncio
import hashlib
import mimetypes
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from msgspec import Struct
from msgspec.structs import replace

from nanobot.agent.tools.base import KnownChat, ToolContext
from nanobot.agent.tools.deferred import OwnTool
from nanobot.agent.tools.files.common import person_of
from nanobot.agent.tools.media import keep_media
from nanobot.agent.tools.offers import MessageArguments
from nanobot.bus.events import Address, MessageSent
from nanobot.errors import PathError, StoreError
from nanobot.files.spaces import FileSpaces
from nanobot.messages import Media
from nanobot.results import ToolResult, error_result
from nanobot.security.paths import ResolvedPath
from nanobot.security.policy import Effect
from nanobot.utils.logs import holds_secret
from nanobot.utils.text import shorten, strip_unsafe
from nanobot.utils.translation import _

#: Characters of a message, and bytes of a file, which is what Telegram takes from bots.
_TEXT, _BYTES = 16_000, 50_000_000
#: Characters of the text of a file that a question shows.
_SHOWN = 300
_OWN = ("", "me", "here", "this chat", "user")


class Messenger(Protocol):
    """A channel that brings messages to chats other than the one that is answered."""

    async def chats(self) -> tuple[KnownChat, ...]:
        """The chats to which the owner lets the agent write. Raises `StoreError`."""

    async def deliver(self, address: Address, text: str, files: tuple[Media, ...], key: str) -> str:
        """Send it, once under its key, also where the process ends before; why that waits, where it does.

        Raises `StoreError`."""


class _Outgoing(Struct, frozen=True):
    """What a call sends, and where; `own`: to the person of the turn."""

    chat: KnownChat
    own: bool
    places: tuple[ResolvedPath, ...] = ()


class MessageTool(OwnTool[MessageArguments], name="message"):
    """`message`: files are copied under `media` when the call runs, so what is sent is what was judged.

    `messengers` bring it to chats, by the name of their channel. Elsewhere it is shown where the person is.
    """

    own_words = True

    def __init__(self, spaces: FileSpaces, messengers: Mapping[str, Messenger], media: Path) -> None:
        self._spaces = spaces
        self._messengers = messengers
        self._media = media

    def canonical(self, arguments: Mapping[str, object]) -> dict[str, object]:
        given = super().canonical(arguments)
        files = given.get("files")
        return {**given, "files": [files] if files else []} if isinstance(files, str) else given

    async def prepare(self, arguments: Mapping[str, object], context: ToolContext) -> None:
        if str(self.canonical(arguments).get("to", "")).strip().casefold() in _OWN:
            return
        try:
            found = [await messenger.chats() for messenger in self._messengers.values()]
        except StoreError:
            found = []
        context.chats = tuple(chat for chats in found for chat in chats)

    def effects(self, arguments: Mapping[str, object], context: ToolContext) -> tuple[Effect, ...]:
        try:
            args = self.read(self.canonical(arguments))
            goes = self._goes(args, context)
        except PathError as error:
            return (Effect("forbidden", "", reason=str(error)),)
        except ValueError:
            return (Effect("send", context.address.key),)  # the call only says what is wrong with it
        said = strip_unsafe(args.text)
        lines = [f"to {goes.chat.name or goes.chat.address.key}", said, *map(_shown, goes.places)]
        shown = "\n".join(filter(None, lines))
        reads = (Effect("keys" if place.keys else "read", str(place.path)) for place in goes.places)
        return (Effect("send" if goes.own else "send_other", goes.chat.address.key, shown), *reads)

    async def run(self, args: MessageArguments, context: ToolContext) -> ToolResult:
        try:
            goes = self._goes(args, context)
            files = tuple([await asyncio.to_thread(self._copy, place, context) for place in goes.places])
            text = await asyncio.to_thread(context.unlinked, shorten(args.text.strip(), _TEXT))
            return await self._send(goes, text, files, context)
        except ValueError as error:  # the names of people are their own
            return replace(error_result("invalid_input", str(error)), untrusted=True)
        except (PathError, StoreError, OSError) as error:
            return error_result("failed", str(error))

    async def _send(self, goes: _Outgoing, text: str, files: tuple[Media, ...], context: ToolContext) -> ToolResult:
        chat, kind = goes.chat.address, "send" if goes.own else "send_other"
        if not any(one.kind == kind and one.target == chat.key for one in context.allowed):
            raise PathError("This is not the chat that the call was allowed for. Make the call again.")
        messenger, waits = self._messengers.get(chat.channel), ""
        if messenger is not None:
            waits = await messenger.deliver(chat, text, files, _key(context, chat, text, files))
        elif chat == context.address:
            paths = tuple(str(place.path) for place in goes.places)
            await context.show(MessageSent(text, paths))
        else:
            return error_result("failed", f"{chat.channel} cannot be reached from here; the gateway must run.")
        named = ", ".join(file.name for file in files)
        what, shown, whom = named or "a message", named or _("a message"), goes.chat.name or chat.key
        told = "" if goes.own else f" to {chat.key}"
        if waits:
            return ToolResult(
                f"Not sent yet: {what} for {chat.key} is kept, and {waits}.",
                _("kept {what}; {waits}", what=shown, waits=waits),
                receipt=_("kept {what} for {whom}; {waits}", what=shown, whom=whom, waits=waits),
            )
        sent = _("sent {what}", what=shown)
        receipt = sent if goes.own else _("sent {what} to {whom}", what=shown, whom=whom)
        return ToolResult(f"Sent {what}{told}.", sent, receipt=receipt)

    def _goes(self, args: MessageArguments, context: ToolContext) -> _Outgoing:
        """What goes where. Raises `PathError` for a file that may not be read, ValueError for what is no message."""
        if not args.text.strip() and not args.files:
            raise ValueError("Give a text, files, or both.")
        chat = _chat(args.to, context)
        personal = chat.role == "owner" == context.role or chat.address == context.address
        if not args.files:
            return _Outgoing(chat, personal)
        roots = self._spaces.of(person_of(context)).roots
        return _Outgoing(chat, personal, tuple(roots.place(one) for one in args.files))

    def _copy(self, place: ResolvedPath, context: ToolContext) -> Media:
        """The file as it is now, under a name made from what it holds."""
        if not any(one.kind in ("read", "keys") and one.target == str(place.path) for one in context.allowed):
            raise PathError(f"{place.shown} is not the file that this call was allowed for. Make the call again.")
        data = self._spaces.of(person_of(context)).read(place, _BYTES)
        if holds_secret(data.decode("utf-8", "replace")):
            raise PathError(f"{place.shown} holds a key or a token of the configuration, which is never sent.")
        mime = mimetypes.guess_type(place.path.name)[0] or "application/octet-stream"
        ending = place.path.suffix[:8].lower() or ".bin"
        return keep_media(self._media, data, mime, name=place.path.name, ending=ending)


def _chat(wanted: str, context: ToolContext) -> KnownChat:
    """The chat that is meant. Raises ValueError that names those that are known."""
    name = wanted.strip().casefold().removeprefix("@")
    own = KnownChat(context.address)
    if name in _OWN or name in (context.address.key, context.address.chat):
        return own
    may = context.role == "owner" or "messages" in context.granted
    known = context.chats if may else ()
    found = [one for one in known if name in (one.address.chat, one.address.key)]
    found = found or [one for one in known if name == "owner" == one.role]
    found = found or [one for one in known if name == one.name.casefold()]
    if len(found) == 1:
        return found[0]
    if name == "owner" == context.role and not found:
        return own
    names = "; ".join(f"{one.name or one.role} ({one.address.chat})" for one in found or known)
    if found:
        raise ValueError(f"Several chats are called {wanted!r}: {names}. Name the number.")
    advice = f"Known are: {names}." if names else "No other chat is known here."
    raise ValueError(f"There is no chat {wanted!r} that the owner allowed. {advice} Leave `to` out for this chat.")


def _shown(place: ResolvedPath) -> str:
    return f"file {shorten(place.shown, _SHOWN)}"


def _key(context: ToolContext, chat: Address, text: str, files: tuple[Media, ...]) -> str:
    """The same for the same message of the same turn."""
    parts = (context.turn_id, context.call_id, chat.key, text, *(file.path + file.name for file in files))
    return f"msg-{hashlib.sha256(repr(parts).encode(errors='replace')).hexdigest()[:24]}"
