"""What can be done with conversations that are kept: putting one into a file, and deleting one with all its traces."""

import asyncio
import os
import sqlite3
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from datetime import UTC, datetime, tzinfo
from pathlib import Path
from typing import Literal, Protocol

from msgspec import Struct

from nanobot.archive.exchanges import seen_by
from nanobot.archive.page import page_of
from nanobot.archive.text import lines_of, markdown_of
from nanobot.bus.events import Address, InboundMessage
from nanobot.config.paths import Paths, replace_file
from nanobot.errors import UsageError
from nanobot.files.inbox import INBOX
from nanobot.files.versions import OUTPUT_FOLDER
from nanobot.library.index import LibraryIndex
from nanobot.library.memory import folder_of_owner
from nanobot.messages import Media, Role
from nanobot.session.listing import SessionEntry
from nanobot.session.removal import RemovedSession, remove_session, unmentioned
from nanobot.session.store import SessionStore
from nanobot.utils.text import nearest
from nanobot.utils.translation import N_, _, _n, sentences, together

ExportForm = Literal["md", "jsonl", "html"]
_FORMS: dict[str, ExportForm] = {
    "md": "md",
    "markdown": "md",
    "jsonl": "jsonl",
    "json": "jsonl",
    "html": "html",
    "htm": "html",
}
_STAYS = N_(
    "What was noted in memory, files that were written, exports and backups stay, and so do the sums of what it has "
    "cost."
)
_TYPES: Mapping[ExportForm, str] = {"md": "text/markdown", "jsonl": "application/jsonl", "html": "text/html"}


class FileCarrier(Protocol):
    """What brings a file to a chat, as that of the tool `message` does."""

    async def deliver(self, address: Address, text: str, files: tuple[Media, ...], key: str) -> str: ...


class ExportedSession(Struct, frozen=True):
    """A conversation as a file: its usual name, and what it holds."""

    name: str
    text: str


class KeptSessions:
    """The conversations of one home. `index` opens what finds them, `zone` is that of the person; `messengers` bring
    files to chats, by the name of their channel."""

    def __init__(
        self,
        store: SessionStore,
        index: Callable[[], LibraryIndex],
        paths: Paths,
        zone: tzinfo | None,
        messengers: Callable[[], Mapping[str, FileCarrier]] = dict,
    ) -> None:
        self._store = store
        self._index = index
        self._paths = paths
        self._zone = zone
        self._messengers = messengers

    async def exported(self, entry: SessionEntry, form: ExportForm, role: Role = "owner") -> ExportedSession:
        """A conversation in one of the forms, as somebody of this role may see it. Raises `StoreError`."""
        records = seen_by(await self._store.transcript(entry.info.id), role)
        match form:
            case "md":
                text = await asyncio.to_thread(markdown_of, entry, records, self._zone)
            case "jsonl":
                text = await asyncio.to_thread(lines_of, entry, records)
            case "html":
                text = await asyncio.to_thread(page_of, entry, records, self._zone)
        return ExportedSession(f"nanobot-{entry.info.id}.{form}", text)

    async def export(self, message: InboundMessage, entry: SessionEntry, form: str) -> str:
        """Send a session as a file to the chat of a message, or write it into the folder `exports` of the workspace
        where no channel brings files; say which. Raises `UsageError` and `StoreError`."""
        exported = await self.exported(entry, form_of(form), message.sender.role)
        messenger, chat = self._messengers().get(message.address.channel), message.address
        if messenger is None:
            place = self._paths.workspace / "exports" / exported.name
            await asyncio.to_thread(write_private, place, exported.text)
            return _("Written to `{path}`.", path=place)
        place = await asyncio.to_thread(write_private, self._paths.media / exported.name, exported.text)
        mime, size = _TYPES[form_of(form)], len(exported.text.encode())
        file, key = Media(str(place), mime, exported.name, size), f"{message.id} export"
        waits = await messenger.deliver(chat, "", (file,), key)
        if waits:
            return _("`{name}` is kept, and {waits}.", name=exported.name, waits=waits)
        return _("`{name}` is on its way.", name=exported.name)

    async def delete(self, entry: SessionEntry) -> str:
        """Delete a conversation: its records and those of its helpers, what the index has of it, and the files and long
        results that no other conversation mentions. What came of it, in sentences.

        Raises `StoreError`, and nothing is gone, where a turn runs in it.
        """
        removed = await remove_session(self._store, entry.info.id, datetime.now(UTC))
        named = await asyncio.to_thread(self._named, removed, entry.owner)
        alone = await unmentioned(self._store, named)
        files = await asyncio.to_thread(self._clear, removed, [named[one] for one in alone])
        told = _n("{number} message", "{number} messages", removed.messages)
        helpers = len(removed.sessions) - 1
        things = [_n("{number} of its helpers", "{number} of its helpers", helpers)] if helpers else []
        things += [_n("{number} file", "{number} files", files)] if files else []
        gone = _("Deleted: {messages}, with {things}.", messages=told, things=together(things)) if things else ""
        return sentences(gone or _("Deleted: {messages}.", messages=told), _(_STAYS))

    def _named(self, removed: RemovedSession, owner: str) -> dict[str, Path]:
        """The files of ours that a conversation names, by how it names them: those that came with it, in the media
        folder or in the inbox of this person, and the long results that were kept for it."""
        paths = {one: Path(os.path.normpath(one)) for one in removed.media}
        found = {one: path for one, path in paths.items() if self._paths.media in path.parents}
        space = folder_of_owner(self._paths.workspace, owner)
        for folder in (INBOX, OUTPUT_FOLDER):
            with suppress(OSError):
                names = [name for name in os.listdir(space / folder) if f"{folder}/{name}" in removed.text]  # noqa: PTH208
                found |= {f"{folder}/{name}": space / folder / name for name in names}
        return found

    def _clear(self, removed: RemovedSession, files: Iterable[Path]) -> int:
        """Take away what is left of it outside the database; how many files that were."""
        with suppress(sqlite3.Error):  # an index that cannot be used is made anew, from what there is
            self._index().erase(removed.sessions)
        forget_lines(self._paths.history, removed.said)
        for one in removed.sessions:
            for form in set(_FORMS.values()):
                _gone(self._paths.media / f"nanobot-{one}.{form}")
        return sum(map(_gone, files))


def form_of(word: str) -> ExportForm:
    """The form that a person names. Raises `UsageError` with the nearest one."""
    found = _FORMS.get(word.casefold().lstrip("."))
    if found is None:
        near = nearest(word, _FORMS)
        hint = _("Did you mean {near!r}?", near=near) if near else ""
        raise UsageError(sentences(_("There is no form {word!r}: name md, jsonl or html.", word=word), hint))
    return found


def write_private(path: Path, text: str) -> Path:
    """Write a file whole, readable by its owner alone. Raises `UsageError` where that cannot be done."""
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        replace_file(path, text)
    except OSError as error:
        raise UsageError(
            _("{path} cannot be written: {why}. Nothing was exported.", path=path, why=error.strerror)
        ) from error
    return path


def forget_lines(history: Path, said: frozenset[str]) -> None:
    """Take lines that were said out of the history of the terminal, where each line of an entry stands behind a `+`."""
    try:
        entries = history.read_text(encoding="utf-8", errors="surrogateescape").split("\n# ")
    except OSError:
        return
    words = {text.strip() for text in said}
    kept = [one for one in entries if _entry_text(one) not in words]
    if len(kept) < len(entries):
        with suppress(OSError):
            replace_file(history, "\n# ".join(kept).encode("utf-8", "surrogateescape"))


def _entry_text(entry: str) -> str:
    return "\n".join(line[1:] for line in entry.split("\n") if line.startswith("+")).strip()


def _gone(path: Path) -> bool:
    """Delete a file; whether there was one."""
    try:
        path.unlink()
    except OSError:
        return False
    return True
