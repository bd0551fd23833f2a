"""How the files of strangers are read: never written, never trusted to be whole, never followed out of their folder."""

import os
import re
import shutil
import sqlite3
import stat
import tempfile
from contextlib import closing, suppress
from datetime import UTC, datetime
from pathlib import Path

from nanobot import jsonval
from nanobot.errors import UsageError
from nanobot.jsonval import JsonObject
from nanobot.utils.text import printable
from nanobot.utils.translation import _

#: Bytes of one file that are read.
_MOST_BYTES = 50_000_000
_DOTENV = re.compile(r"^\s*(?:export\s+)?([A-Za-z_][A-Za-z0-9_]*)\s*=\s*(.*?)\s*$")


def instant(text: str) -> datetime:
    """A time in ISO form; without a zone it is UTC. Raises ValueError."""
    at = datetime.fromisoformat(text)
    return at if at.tzinfo else at.replace(tzinfo=UTC)


def moment(value: object) -> datetime | None:
    """A time as programs write it: seconds or milliseconds since 1970, or text in ISO form."""
    with suppress(ValueError, OverflowError, OSError):
        if isinstance(value, int | float) and not isinstance(value, bool):
            return datetime.fromtimestamp(value / 1000 if value > 1e11 else value, UTC)
        return instant(value) if isinstance(value, str) else None
    return None


def words_of(content: object) -> str:
    """The words of a message, whose content is a text or a list of parts."""
    if isinstance(content, str):
        return printable(content).strip()
    parts = (text_of(one.get("text")) for one in jsonval.rows(content) if one.get("type") in ("text", None))
    return printable("\n".join(part for part in parts if part)).strip()


def read_text(path: Path) -> str:
    """A whole text file, which is a plain file and not too large. Raises `UsageError`."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as file:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise UsageError(_("{path} is no file.", path=path))
            data = file.read(_MOST_BYTES + 1)
    except OSError as error:
        raise UsageError(_("{path} cannot be read: {why}.", path=path, why=error.strerror)) from error
    if len(data) > _MOST_BYTES:
        raise UsageError(_("{path} is larger than {size} MB.", path=path, size=_MOST_BYTES // 1_000_000))
    return data.decode("utf-8", "replace").removeprefix("\ufeff")


def json_lines(path: Path) -> list[JsonObject]:
    """The objects of a file of JSON lines; lines that are none are empty ones. Raises `UsageError`."""
    return [jsonval.obj(jsonval.parse(line)) for line in read_text(path).splitlines()]


def rows_of(path: Path, query: str) -> list[JsonObject]:
    """The rows of another program's database, read from a copy, for even reading leaves files beside one.

    Raises `UsageError`.
    """
    try:
        with tempfile.TemporaryDirectory(prefix="nanobot-import-") as folder:
            for end in ("", "-wal"):
                if is_file(path.with_name(f"{path.name}{end}")):
                    shutil.copyfile(path.with_name(f"{path.name}{end}"), Path(folder, f"copy.db{end}"))
            with closing(sqlite3.connect(Path(folder, "copy.db"))) as db:
                db.row_factory = sqlite3.Row
                return [dict(row) for row in db.execute(query)]
    except (sqlite3.Error, OSError) as error:
        raise UsageError(_("{path} cannot be read: {error}.", path=path, error=error)) from error


def variables(path: Path) -> dict[str, str]:
    """The variables of a `.env` file; none where there is no such file."""
    found: dict[str, str] = {}
    with suppress(UsageError):
        for line in read_text(path).splitlines():
            match = _DOTENV.match(line)
            if match is not None and not line.lstrip().startswith("#"):
                found[match[1]] = match[2].strip("'\"")
    return found


def text_of(value: object) -> str:
    return value.strip() if isinstance(value, str) else ""


def inside(folder: Path) -> list[Path]:
    """What stands in a folder, in order; nothing where it cannot be read."""
    try:
        return sorted(folder.iterdir())
    except OSError:
        return []


def is_file(path: Path) -> bool:
    """Whether it is a plain file, and no link to one."""
    try:
        return stat.S_ISREG(path.lstat().st_mode)
    except OSError:
        return False
