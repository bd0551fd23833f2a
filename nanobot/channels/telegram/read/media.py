"""Files of messages: fetched with a limit, kept under names of our own, and forgotten when nothing names them."""

import asyncio
import math
import mimetypes
import os
import re
import secrets
import shutil
import stat
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from pathlib import Path
from urllib.parse import quote, urlsplit, urlunsplit

import httpx
from loguru import logger
from msgspec import Struct
from telegram.error import BadRequest, NetworkError, RetryAfter, TelegramError

from nanobot import jsonval
from nanobot.channels.telegram.bot import TelegramLine
from nanobot.channels.telegram.read.incoming import Attachment, AttachmentKind
from nanobot.channels.telegram.send.errors import penalty_of, words_of
from nanobot.messages import Media
from nanobot.session.codec import encode
from nanobot.session.ledger import Ledger
from nanobot.utils.translation import N_, _
from nanobot.web.fetch.content import image_info

#: What Telegram's own servers hand to a bot, in bytes.
TELEGRAM_LIMIT = 20_000_000
#: What is taken from a Bot API server of one's own, which knows no limit.
OWN_SERVER_LIMIT = 500_000_000
_SECONDS = 300.0
_STALL_SECONDS = 30.0
#: Seconds before the second try of a file that failed.
_PAUSE = 0.5
_SUFFIX_CHARS = 8
#: Days for which a file stays though nothing names it.
KEEP_MEDIA_DAYS = 90
_EVERY = timedelta(days=1)
_NOTE = "media:looked-through"
_ALL = 1_000_000_000
#: Records that are read at once.
_PAGE = 500
#: Names of nanobot's own making, here and under `web`; what else lies in the folder is not its business.
_OURS = re.compile(r"(?:[a-z_]+-)?(?P<mark>[0-9a-f]{16})(?:\.[a-z0-9]{1,8})?")
_LABELS: Mapping[AttachmentKind, str] = {
    "photo": N_("The photo {name}"),
    "document": N_("The document {name}"),
    "audio": N_("The audio file {name}"),
    "voice": N_("The voice message {name}"),
    "video": N_("The video {name}"),
    "video_note": N_("The video message {name}"),
    "animation": N_("The animation {name}"),
}
_MARK = re.compile(r"(?<![0-9a-f])[0-9a-f]{16}(?![0-9a-f])")


class Fetched(Struct, frozen=True):
    """A file that is here (`media`), or the reason why not (`problem`, a sentence without its subject)."""

    media: Media | None = None
    problem: str = ""


class MediaFolder:
    """Fetches attachments into `folder`. `limit` is in bytes; `own_server` tells whose Bot API server it is."""

    def __init__(self, folder: Path, client: httpx.AsyncClient, *, own_server: bool = False, limit: int = 0) -> None:
        self._folder = folder
        self._client = client
        self._own_server = own_server
        self._limit = limit or (OWN_SERVER_LIMIT if own_server else TELEGRAM_LIMIT)
        self._slots = asyncio.Semaphore(4)

    async def aclose(self) -> None:
        await self._client.aclose()

    async def fetch(self, line: TelegramLine, file: Attachment) -> Fetched:
        """Bring one file here. Never raises for what goes wrong with it: that is part of the answer."""
        if file.size > self._limit:
            return Fetched(problem=self._too_big(file.size))
        try:
            async with self._slots, asyncio.timeout(_SECONDS):
                try:
                    return await self._fetch(line, file)
                except (RetryAfter, NetworkError, httpx.HTTPError) as error:
                    pause = penalty_of(error) if isinstance(error, RetryAfter) else _PAUSE
                    if isinstance(error, BadRequest) or pause > _STALL_SECONDS:
                        raise
                    await asyncio.sleep(pause)
                return await self._fetch(line, file)
        except TimeoutError:
            return Fetched(problem=_("was not read: Telegram sent it too slowly. Send it again."))
        except BadRequest as error:
            if "too big" in error.message.casefold():
                return Fetched(problem=self._too_big(0))
            return Fetched(problem=_("was not read: Telegram no longer has it. Send it again."))
        except (TelegramError, httpx.HTTPError) as error:
            reason = words_of(error)
            return Fetched(problem=_("was not read: fetching it failed ({error}). Send it again.", error=reason))
        except OSError as error:
            reason = error.strerror or type(error).__name__
            return Fetched(problem=_("was not read: it could not be saved here ({error}).", error=reason))

    async def _fetch(self, line: TelegramLine, file: Attachment) -> Fetched:
        place = jsonval.text(jsonval.obj(await line.call("getFile", file_id=file.file_id)).get("file_path"))
        here = self._own_server and await asyncio.to_thread(Path(place).is_file)
        target = await asyncio.to_thread(self._new_file, file)
        kept = False
        try:
            if here:
                size = await asyncio.to_thread(_copy, place, target, self._limit)
            else:
                size = await self._download(f"{line.bot.base_file_url}/{place}", target)
            kept = size >= 0
        finally:
            if not kept:
                target.unlink(missing_ok=True)
        if not kept:
            return Fetched(problem=self._too_big(0))
        mime = await asyncio.to_thread(_mime, target, file)
        return Fetched(Media(str(target), mime, target.name, size))

    async def _download(self, url: str, target: Path) -> int:
        """Stream `url` into `target`; the bytes written, or -1 where they are more than the limit."""
        size = 0
        with target.open("wb") as out:
            async with self._client.stream("GET", _quoted(url), timeout=_STALL_SECONDS) as response:
                response.raise_for_status()
                async for chunk in response.aiter_bytes(65_536):
                    size += len(chunk)
                    if size > self._limit:
                        return -1
                    out.write(chunk)
        return size

    def _new_file(self, file: Attachment) -> Path:
        """An empty file under a random name. Of the original name only a harmless suffix is kept."""
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        suffix = Path(file.name).suffix.lower() or mimetypes.guess_extension(file.mime) or ""
        if not (suffix[1:].isalnum() and suffix.isascii() and len(suffix) <= _SUFFIX_CHARS):
            suffix = ""
        path = self._folder / f"{file.kind}-{secrets.token_hex(8)}{suffix}"
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        return path

    def _too_big(self, size: int) -> str:
        most = f"{self._limit / 1e6:.0f} MB"
        if self._own_server:
            why = _("was not read: files up to {most} are taken.", most=most)
        else:
            why = _(
                "was not read: Telegram gives files up to {most} to bots. A Bot API server of your own "
                "(channels.telegram.apiBase) has no such limit.",
                most=most,
            )
        return _("({size:.0f} MB) {why}", size=size / 1e6, why=why) if size else why


def label(file: Attachment, *, named: bool = True) -> str:
    """A file at the beginning of a sentence, such as `The document report.pdf`; for a model it is not `named`."""
    return _(_LABELS[file.kind], name=file.name if named else "").rstrip()


def _mime(path: Path, file: Attachment) -> str:
    """What the first bytes show for images, else what the sender's client said.

    A file that only calls itself a picture would make every later request fail, so it is not taken for one.
    """
    with path.open("rb") as stream:
        shown = image_info(stream.read(64))
    if shown is not None:
        return shown.mime
    return "application/octet-stream" if file.mime.startswith("image/") else file.mime


def _copy(place: str, target: Path, limit: int) -> int:
    """A Bot API server in local mode names a file of its own disk."""
    size = Path(place).stat().st_size
    if size > limit:
        return -1
    shutil.copyfile(place, target)
    return size


def _quoted(url: str) -> str:
    parts = urlsplit(url)
    return urlunsplit((parts.scheme, parts.netloc, quote(parts.path, safe="/:%"), parts.query, ""))


class OldMedia(Struct, frozen=True):
    """Looks through `folder` once a day. The ledger must be the only one whose conversations name files there."""

    folder: Path
    ledger: Ledger
    channel: str

    async def forget(self, now: datetime) -> int:
        """Delete what is old and unnamed, at most once a day; how many files. Raises `StoreError`.

        A file from before the ledger's first conversation stays: another one may have known it.
        """
        looked = await self.ledger.note(_NOTE)
        if looked and now - datetime.fromisoformat(looked) < _EVERY:
            return 0
        before = (now - timedelta(days=KEEP_MEDIA_DAYS)).timestamp()
        old = await asyncio.to_thread(_older, self.folder, before)
        gone = await self._sweep(old, before) if old else 0
        if gone:
            logger.info("{} files of more than {} days that nothing names were deleted", gone, KEEP_MEDIA_DAYS)
        await self.ledger.set_notes({_NOTE: now.isoformat()})
        return gone

    async def _sweep(self, old: Mapping[Path, str], before: float) -> int:
        """Delete those of `old` that conversations and answers on their way do not name."""
        sessions = await self.ledger.sessions.list(limit=_ALL)
        named = _marks(row.item.payload for row in await self.ledger.pending(self.channel))
        for session in sessions:
            after = 0
            while records := await self.ledger.sessions.transcript(session.id, after=after, limit=_PAGE):
                named |= await asyncio.to_thread(_marks, (encode(record.message) for record in records))
                after = records[-1].seq
        unnamed = [path for path, mark in old.items() if mark not in named]
        begin = min((one.created_at.timestamp() for one in sessions), default=before)
        return await asyncio.to_thread(_delete, unnamed, begin, before)


def _marks(texts: Iterable[str]) -> set[str]:
    return {mark for text in texts for mark in _MARK.findall(text)}


def _older(folder: Path, before: float) -> dict[Path, str]:
    """Files of ours from before this time, each with the mark in its name."""
    found: dict[Path, str] = {}
    for place in (folder, folder / "web"):
        try:
            paths = list(place.iterdir())
        except OSError:  # there is none yet
            continue
        for path in paths:
            ours = _OURS.fullmatch(path.name)
            if ours and _changed(path) < before:
                found[path] = ours["mark"]
    return found


def _delete(files: Iterable[Path], since: float, before: float) -> int:
    """Delete those that are still old: a page that is read again writes its picture again."""
    gone = 0
    for path in files:
        if not since <= _changed(path) < before:
            continue
        try:
            path.unlink()
        except OSError as error:
            logger.warning("the old file {} cannot be deleted: {}", path.name, error.strerror)
        else:
            gone += 1
    return gone


def _changed(path: Path) -> float:
    """When a file was written, in seconds since 1970; never, for what is no file."""
    try:
        found = path.lstat()
    except OSError:
        return math.inf
    return found.st_mtime if stat.S_ISREG(found.st_mode) else math.inf
