"""What `nanobot doctor --fix` puts right: only what loses nothing and can be done at any time."""

import sqlite3
import time
from contextlib import closing
from pathlib import Path

from nanobot.config.paths import Paths
from nanobot.doctor.home import open_to_others, reading
from nanobot.errors import StoreError, UsageError
from nanobot.library.index import discard
from nanobot.session.layout import APPLICATION_ID
from nanobot.session.lock import FileLock, token_locks
from nanobot.upkeep.environments import own_environment, sweep
from nanobot.utils.translation import _

#: Bytes of changes beside a database that are written into it.
_LOG = 4_000_000
#: What is written beside a file before it takes its place, and the seconds after which nobody is still writing it.
_HALVES, _OLD = ("nanobot.db.*.new", "gateway.json.new", "index.db.*.new"), 3_600.0
_LOCKS = ("gateway.lock", "terminal-jobs.lock", "in-use.lock", "library.lock")


def repair(paths: Paths) -> list[str]:
    """Put right what is safe; a sentence for each thing that was done, or that could not be."""
    home = paths.home
    if not home.is_dir():
        return _swept()
    return [*_closed(paths), *_unlocked(home), *_tidied(home), *_indexed(home), *_written(paths), *_swept()]


def _swept() -> list[str]:
    """Delete environments that an update left half done, where this nanobot is in one of its own."""
    try:
        return sweep(own_environment())
    except UsageError:
        return []


def _closed(paths: Paths) -> list[str]:
    """Take the rights of others from what holds keys and conversations."""
    done = []
    for path in open_to_others(paths):
        try:
            path.chmod(path.stat().st_mode & 0o700)
        except OSError as error:
            done.append(_("{path} could not be closed to others: {error}.", path=path, error=error.strerror))
        else:
            done.append(_("{path} can be read by you alone now.", path=path))
    return done


def _unlocked(home: Path) -> list[str]:
    """Take away locks that no process holds; one that is held stays."""
    done = []
    places = [(home / name, FileLock(home / name)) for name in _LOCKS if (home / name).exists()]
    for name, lock in [*places, *((None, one) for one in token_locks())]:
        try:
            if lock.take():
                continue
        except StoreError as error:
            done.append(str(error))
            continue
        lock.release()
        done.append(
            _("A lock that nobody held is gone: {file}.", file=name)
            if name
            else _("A lock that nobody held is gone from the folder of this login.")
        )
    return list(dict.fromkeys(done))  # the folder may hold many


def _tidied(home: Path) -> list[str]:
    """Take away halves of files that a killed process left: each is written beside and then put in its place."""
    done, before = [], time.time() - _OLD
    for path in sorted(one for form in _HALVES for one in home.glob(form)):
        try:
            if path.is_symlink() or not path.is_file() or path.stat().st_mtime > before:
                continue
            path.unlink()
        except OSError as error:
            done.append(_("{path}, half a file, could not be taken away: {error}.", path=path, error=error.strerror))
        else:
            done.append(_("Half a file that was left is gone: {path}.", path=path))
    return done


def _indexed(home: Path) -> list[str]:
    """Take a damaged index away; it is made anew from conversations and documents, which are all kept elsewhere."""
    index = home / "index.db"
    if not index.exists():
        return []
    try:
        with reading(index) as db:
            if db.execute("PRAGMA quick_check(1)").fetchone()[0] == "ok":
                return []
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode == sqlite3.SQLITE_INTERRUPT:
            return []
    except sqlite3.DatabaseError:
        pass
    discard(index)
    return [_("The damaged index is gone. It is made anew by and by; `nanobot library read` reads your documents now.")]


def _written(paths: Paths) -> list[str]:
    """Write what waits beside the database into it, where it is whole and nobody is in the way."""
    log = paths.database.with_name(f"{paths.database.name}-wal")
    if not paths.database.exists() or not log.exists() or log.stat().st_size < _LOG:
        return []
    size = log.stat().st_size
    try:
        with closing(sqlite3.connect(f"file:{paths.database}?mode=rw", uri=True, timeout=2.0)) as db:
            if db.execute("PRAGMA application_id").fetchone()[0] != APPLICATION_ID:
                return []
            busy = db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]
    except sqlite3.Error as error:
        return [_("What waits beside the database could not be written into it: {error}.", error=error)]
    if busy:
        return [_("What waits beside the database stays there, because somebody reads it. Stop nanobot and try again.")]
    return [_("{size:,.1f} MB of changes that waited beside the database are in it now.", size=size / 1e6)]
