"""Putting one thing of another home into this one, whole or not at all."""

import errno
import hashlib
import os
import stat
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

from nanobot.config.paths import replace_file
from nanobot.errors import UsageError
from nanobot.messages import AssistantMessage, Message, Text, UserMessage
from nanobot.migrate.home import ForeignJob, ForeignSession
from nanobot.migrate.reading import read_text
from nanobot.schedule.appointments import Appointments
from nanobot.schedule.job import ScheduledJob
from nanobot.session.codec import encode
from nanobot.session.database import Transaction, stamp
from nanobot.session.store import SessionStore
from nanobot.skills.skill import MOST_BYTES, MOST_FILES, held_in
from nanobot.utils.text import shorten
from nanobot.utils.translation import _

#: The `turn` of records that were imported, and whose they are.
IMPORTED, _OWNER = "(imported)", "terminal:local"
#: Characters of a title.
_TITLE = 60
_KNOWN = "SELECT session_id, count(*) FROM record WHERE turn = :turn GROUP BY session_id"
_HAVE = """
SELECT coalesce(max(seq), 0), count(CASE WHEN turn = :turn THEN 1 END) FROM record WHERE session_id = :session
"""
_INSERT = """
INSERT INTO session (id, key, title, messages, created_at, updated_at)
VALUES (:session, :key, :title, 0, :at, :at) ON CONFLICT (id) DO NOTHING
"""
_RECORD = """
INSERT INTO record (session_id, seq, kind, role, size, turn, at, message, kept)
VALUES (:session, :seq, 'message', :role, :size, :turn, :at, :message, 0)
"""
_COUNT = "UPDATE session SET messages = messages + :more, updated_at = :at WHERE id = :session"


def session_id(program: str, other: str) -> str:
    """The id that a session of another program has here, each time it is imported."""
    return hashlib.sha256(f"import {program} {other}".encode()).hexdigest()[:10]


async def known_sessions(store: SessionStore) -> Mapping[str, int]:
    """How many messages of each imported session are here."""
    rows = await store.database.read(lambda db: db.fetch(tuple[str, int], _KNOWN, turn=IMPORTED), long=True)
    return dict(rows)


async def put_session(store: SessionStore, program: str, session: ForeignSession) -> None:
    """Keep a session, or what is new of it, as one of the owner in the terminal. Raises `StoreError`, and `UsageError`
    for one that has gone on here and there."""
    own, now = session_id(program, session.id), datetime.now(UTC)
    begun = next((one.at for one in session.messages if one.at), now)
    title = shorten(session.title or session.messages[0].text.replace("\n", " "), _TITLE)

    async def work(db: Transaction) -> None:
        await db.change(_INSERT, session=own, key=_OWNER, title=title, at=stamp(begun))
        ((last, have),) = await db.fetch(tuple[int, int], _HAVE, session=own, turn=IMPORTED)
        if last > have:
            raise UsageError(
                _("The session {own} has gone on here, so what was said there since is not added.", own=own)
            )
        at = begun
        for seq, one in enumerate(session.messages[have:], have + 1):
            at, message = one.at or at, _message(one.role, one.text, program)
            line = encode(message)
            about = {"role": message.role, "size": len(line), "turn": IMPORTED, "at": stamp(at), "message": line}
            await db.change(_RECORD, session=own, seq=seq, **about)
        await db.change(_COUNT, session=own, more=len(session.messages) - have, at=stamp(at))

    await store.database.run(work, durable=True)


def _message(role: str, text: str, program: str) -> Message:
    """What stands in a conversation elsewhere may hold anything that was read there, also in the place of a person:
    other programs put pages and their own notes into it."""
    if role == "user":
        return UserMessage((Text(text),), untrusted=True)
    return AssistantMessage((Text(text),), strangers=(f"conversation in {program}",))


async def put_job(appointments: Appointments, job: ForeignJob, origin: str) -> None:
    """Keep a job, paused: the other program may still do it. Raises `UsageError` and `StoreError`."""
    made = ScheduledJob(
        kind="remind" if job.says else "ask",
        text=job.text,
        when=job.when,
        zone=job.zone or appointments.zone,
        person=_OWNER,
        chat=_OWNER,
        paused=True,
        origin=origin,
    )
    await appointments.jobs.add(made, datetime.now(UTC))


def put_file(place: Path, text: str, template: str | None) -> None:
    """Write a file where nothing stands, or a template. Raises `UsageError`."""
    try:
        place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if os.path.lexists(place) and (template is None or read_text(place) != template):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST))
        replace_file(place, text)
    except OSError as error:
        raise UsageError(_("{place} cannot be written: {why}.", place=place, why=error.strerror)) from error


def copy_skill(source: Path, place: Path) -> None:
    """Copy the folder of a skill, without links. Raises `UsageError`."""
    held = _skill_files(source)
    try:
        place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=place.parent, prefix=".import-") as folder:
            fresh = Path(folder, place.name)
            for name, data in held.items():
                target = fresh / name
                target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                target.write_bytes(data)
                target.chmod(0o700 if (source / name).stat().st_mode & stat.S_IXUSR else 0o600)
            fresh.rename(place)
    except OSError as error:
        raise UsageError(_("{source} cannot be copied: {why}.", source=source, why=error.strerror)) from error


def _skill_files(folder: Path) -> dict[str, bytes]:
    """The files of a skill by their names. Raises `UsageError` for more than a skill has."""
    held = held_in(folder)
    if held is None:
        most = {"files": MOST_FILES, "size": MOST_BYTES // 1_000_000}
        raise UsageError(
            _("{folder} holds over {files} files or {size} MB, or what is no file.", folder=folder, **most)
        )
    return {name: data for name, data in held.items() if "__pycache__" not in name and not (folder / name).is_symlink()}


def same_folder(one: Path, other: Path) -> bool:
    """Whether two folders of skills hold the same files."""
    with suppress(UsageError):
        return _skill_files(one) == _skill_files(other)
    return False
