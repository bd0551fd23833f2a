"""Checks of what nanobot keeps: who can read it, the database, the library, the schedule; and what of it is safe to put
right, which a check never does."""

import os
import shutil
import sqlite3
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

from nanobot.config.paths import Paths
from nanobot.doctor.findings import Finding, bad, off, ok, one_line, warn
from nanobot.files.database import unusable_advice
from nanobot.session.database import stamp
from nanobot.session.layout import APPLICATION_ID, VERSION
from nanobot.utils.translation import _, _n

#: Seconds that reading a file, or walking folders, may take here.
_SECONDS = 6.0
#: Bytes of room without which SQLite cannot even read a database that others use.
_ROOM = 1_000_000
#: How late a job may be, and how often it may fail in a row, until it is said.
_LATE, _FAILED = timedelta(minutes=5), 3
#: What those others could read who can read these files.
_SECRET = ("config.json", "mcp_logins.json", "nanobot.db", "index.db", "usage.db", "history", ".env")


def open_to_others(paths: Paths) -> list[Path]:
    """What holds keys or conversations and can be read by other users of this machine."""
    places = [paths.home, paths.config, *(paths.home / name for name in _SECRET)]
    return [one for one in dict.fromkeys(places) if one.exists() and one.stat().st_mode & 0o077]


def permissions(paths: Paths) -> Finding:
    """Whether other users of this machine can read keys and conversations, and whether the files are ours."""
    if not paths.home.exists():
        return off(_("{home} is not there yet", home=paths.home))
    mine = os.getuid()
    strange = [one for one in (paths.home, *paths.home.iterdir()) if one.lstat().st_uid != mine]
    if strange and mine:
        fix = _("sudo chown -R $(id -un) {home}: somebody ran nanobot as another user, such as root.", home=paths.home)
        return bad(_("{strange} belongs to another user", strange=strange[0]), fix)
    if found := open_to_others(paths):
        words = _("others on this machine can read {files}", files=", ".join(map(str, found[:3])))
        return warn(words, _("chmod go= on them; `nanobot doctor --fix` does it."))
    return ok(_("{home} is yours alone", home=paths.home))


@contextmanager
def reading(path: Path) -> Iterator[sqlite3.Connection]:
    """A connection that only reads and gives up after `_SECONDS`. Raises `sqlite3.Error`."""
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=2.0)) as db:
        until = time.monotonic() + _SECONDS
        db.set_progress_handler(lambda: time.monotonic() > until, 10_000)
        yield db


def database(path: Path, files: Path) -> Finding:
    """Whether the file is whole, ours and of a layout that is known, and how large it is; and whether `files` is, that
    of the room of files."""
    log = path.with_name(f"{path.name}-wal")
    if not path.exists():
        if log.exists() and log.stat().st_size:
            fix = _("Put {file} back beside it, or move {log} away to begin anew.", file=path.name, log=log.name)
            return bad(_("{path} is missing, and {name} holds its last changes", path=path, name=log.name), fix)
        return off(_("{path} is made at the first start", path=path))
    if shutil.disk_usage(path.parent).free < _ROOM:
        return warn(_("not looked at, because the disk is full"), _("Free some room, then run it again."))
    size = f"{path.stat().st_size / 1e6:,.1f} MB"
    fix = _("Stop nanobot, move {name} away and put a backup in its place.", name=path.name)
    try:
        with reading(path) as db:
            mark, layout = (db.execute(f"PRAGMA {one}").fetchone()[0] for one in ("application_id", "user_version"))
            told = [str(row[0]) for row in db.execute("PRAGMA quick_check(3)")]
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode == sqlite3.SQLITE_INTERRUPT:
            return ok(
                _("{size}; too large to be looked through within {seconds:.0f} s", size=size, seconds=_SECONDS),
            )
        return bad(_("{path} cannot be read: {error}", path=path, error=error), fix)
    except sqlite3.DatabaseError as error:
        return bad(_("{path} is damaged: {error}", path=path, error=error), fix)
    if mark != APPLICATION_ID or layout > VERSION:
        words = (
            _("{path} is of another program", path=path)
            if mark != APPLICATION_ID
            else _("{path} is of a newer nanobot (layout {layout})", path=path, layout=layout)
        )
        return bad(words, _("Update nanobot, or move the file away."))
    if told != ["ok"]:
        return bad(_("{path} is damaged: {error}", path=path, error=one_line("; ".join(told))), fix)
    if wrong := _wrong(files):
        return bad(_("{path} is damaged: {error}", path=files, error=wrong), unusable_advice())
    return ok(_("whole; {size}", size=size))


def _wrong(path: Path) -> str:
    """What is wrong with a database that need not be there; empty where it takes too long to tell."""
    if not path.exists():
        return ""
    try:
        with reading(path) as db:
            told = str(db.execute("PRAGMA quick_check(1)").fetchone()[0])
    except sqlite3.DatabaseError as error:
        return "" if error.sqlite_errorcode in (sqlite3.SQLITE_INTERRUPT, sqlite3.SQLITE_BUSY) else str(error)
    return "" if told == "ok" else one_line(told)


def schedule(path: Path, *, kept: bool) -> Finding:
    """Jobs that are late or keep failing. `kept`: a gateway runs, which does them."""
    if not path.exists():
        return off(_("nothing is scheduled"))
    try:
        with reading(path) as db:
            if db.execute("PRAGMA user_version").fetchone()[0] != VERSION:
                return off(_("nothing can be read of it"))
            found = db.execute("SELECT id, at, failures, chat FROM job WHERE paused = 0").fetchall()
    except sqlite3.Error:
        return off(_("nothing can be read of it"))
    if not found:
        return off(_("nothing is scheduled"))
    now = stamp(datetime.now(UTC) - _LATE)
    late = [f"#{row[0]}" for row in found if str(row[1]) < now]
    failing = [f"#{row[0]}" for row in found if int(row[2]) >= _FAILED]
    count = _n("{number} job", "{number} jobs", len(found))
    if late:
        why = _("Look into the log of the gateway.") if kept else _("Start the gateway: it does them.")
        words = _(
            "{count}; {late} late by more than 5 min ({jobs})",
            count=count,
            late=len(late),
            jobs=", ".join(late[:5]),
        )
        return bad(words, why) if kept else warn(words, why)
    if failing:
        fix = _(
            "`nanobot schedule list` says why; `nanobot schedule remove {job}` takes one away.",
            job=failing[0][1:],
        )
        return warn(
            _("{count}; {jobs} failed {times} times in a row", count=count, jobs=", ".join(failing[:5]), times=_FAILED),
            fix,
        )
    if not kept and any(not str(row[3]).startswith("terminal:") for row in found):
        return warn(
            _("{count}, and no gateway runs that does them", count=count),
            _("`nanobot gateway` starts it."),
        )
    return ok(_("{count}, none late", count=count))


def library(paths: Paths, folders: Sequence[Path]) -> Finding:
    """Whether the index is whole, and what of the documents cannot be read."""
    index = paths.home / "index.db"
    missing = [str(one) for one in folders if not one.is_dir()]
    if missing:
        fix = _("Bring the disk back, or `nanobot library remove FOLDER`.")
        return warn(_("folders that are not there: {folders}", folders=", ".join(missing)), fix)
    if not index.exists():
        return off(_("nothing is indexed yet"))
    anew = _("It is made anew by and by; `nanobot library read` does it now.")
    try:
        with reading(index) as db:
            if (told := db.execute("PRAGMA quick_check(1)").fetchone()[0]) != "ok":
                return warn(_("the index is damaged: {told}", told=told), anew)
            rows = db.execute("SELECT problem FROM document WHERE kind = 'document'").fetchall()
    except sqlite3.Error as error:
        return warn(_("the index cannot be read: {error}", error=error), anew)
    if not folders:
        return ok(_("the index of conversations is whole; no folder of documents is named"))
    broken = sum(bool(row[0]) for row in rows)
    words = _n("{number:,} document", "{number:,} documents", len(rows))
    if broken:
        fix = _("`nanobot library status` names them and says why.")
        return warn(_("{words}, {broken:,} that cannot be read", words=words, broken=broken), fix)
    return ok(words)


def repair(paths: Paths) -> list[str]:
    """What `nanobot doctor --fix` puts right: take the rights of others from what holds keys and conversations.

    A sentence for each thing that was done, or that could not be.
    """
    done = []
    for path in open_to_others(paths):
        try:
            path.chmod(path.stat().st_mode & 0o700)
        except OSError as error:
            done.append(_("{path} could not be closed to others: {error}.", path=path, error=error.strerror))
        else:
            done.append(_("{path} can be read by you alone now.", path=path))
    return done
