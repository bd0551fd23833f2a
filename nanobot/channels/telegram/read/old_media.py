"""Files that were fetched long ago and that no conversation and no waiting answer names any more."""

import asyncio
import math
import re
import stat
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from pathlib import Path

from loguru import logger
from msgspec import Struct

from nanobot.session.codec import encode
from nanobot.session.ledger import Ledger
from nanobot.session.store import Record

#: Days for which a file stays though nothing names it.
KEEP_MEDIA_DAYS = 90
_EVERY = timedelta(days=1)
_NOTE = "media:looked-through"
_ALL = 1_000_000_000
#: Records that are read at once.
_PAGE = 500
#: Names of nanobot's own making, here and under `web`; what else lies in the folder is not its business.
_OURS = re.compile(r"(?:[a-z_]+-)?(?P<mark>[0-9a-f]{16})(?:\.[a-z0-9]{1,8})?")
_MARK = re.compile(r"(?<![0-9a-f])[0-9a-f]{16}(?![0-9a-f])")


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
                named |= await asyncio.to_thread(_marks_of, records)
                after = records[-1].seq
        unnamed = [path for path, mark in old.items() if mark not in named]
        begin = min((one.created_at.timestamp() for one in sessions), default=before)
        return await asyncio.to_thread(_delete, unnamed, begin, before)


def _marks(texts: Iterable[str]) -> set[str]:
    return {mark for text in texts for mark in _MARK.findall(text)}


def _marks_of(records: tuple[Record, ...]) -> set[str]:
    return _marks(encode(record.message) for record in records)


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
