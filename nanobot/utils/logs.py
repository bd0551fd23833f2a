"""Logs without secrets: one scrubber that every line passes, from loguru and from the standard library alike.

A secret is what the configuration says is one, and what looks like one: a Telegram bot token, a key that begins with
`sk-`, a Bearer login. Tracebacks are scrubbed as text, after they are rendered, so a secret in a local variable, in a
URL or in an exception's message does not pass.
"""

import contextlib
import logging
import os
import re
import sys
from base64 import b64encode
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote, unquote, unquote_plus

from loguru import logger

from nanobot.utils.text import printable

if TYPE_CHECKING:
    from loguru import Message, Record

MASK = "[secret]"
_SHORTEST = 6
#: Shorter values may well be ordinary words, for which no call is refused.
_SHORTEST_HELD = 8
#: What may stand between the parts of a value that was split: signs, and the names of further parts of a query.
_BETWEEN, _QUERY = re.compile(r"[\W_]+"), re.compile(r"[?&;][^=?&;/]*=")
_BETWEEN_QUERIES = re.compile(rf"{_QUERY.pattern}|{_BETWEEN.pattern}")
_SIGNS = dict.fromkeys(code for code in range(128) if not chr(code).isalnum())
#: Bytes of a log file before it is set aside.
_LARGEST = 5_000_000
#: What looks like a secret, what takes its place, and the signs of which its line has one, in small letters: they are
#: looked for first, in a tenth of the time.
_SHAPES = tuple(
    (tuple(needed.split("|")), re.compile(pattern), put)
    for needed, pattern, put in (
        # Telegram: the bot's number, a colon and 35 characters, in URLs behind `bot`.
        (":|%3a", r"\b(?:bot)?\d{6,}(?::|%3[aA])[A-Za-z0-9_-]{20,}", MASK),
        ("bot", r"bot(?<=\bbot)\d+:[^/\s\"']+", MASK),
        ("sk-", r"sk-(?<=\bsk-)[A-Za-z0-9_-]{8,}", MASK),
        # Less telling beginnings count only where a digit follows, so that words with a hyphen stay.
        ("-|_", r"\b(?:pk|rk|xai|gsk|tvly|jina|fc|pplx|ghp|gho|hf)[-_](?=[A-Za-z_-]*\d)[A-Za-z0-9_-]{12,}", MASK),
        ("bsa", r"BSA(?<=\bBSA)(?=[A-Za-z_-]*\d)[A-Za-z0-9_-]{20,}", MASK),
        ("aiza", r"AIza(?<=\bAIza)[A-Za-z0-9_-]{20,}", MASK),
        # Where the case counts for nothing the i may be a Turkish one, which is another small letter.
        ("bearer|bas|bot", r"(?i)\b((?:bearer|basic|bot)\s+)[A-Za-z0-9._~+/=-]{8,}", rf"\1{MASK}"),
        ("://", r"(://[^/\s:@\"']*:)[^/\s@\"']+@", rf"\1{MASK}@"),
        ("?|&", r"(?i)([?&](?:api[-_]?key|key|token|access_token|secret)=)[^&\s\"']+", rf"\1{MASK}"),
    )
)


class _Secrets:
    """The known values; one for the process, because a log has one scrubber."""

    def __init__(self) -> None:
        self._values: frozenset[str] = frozenset()
        self._needles: frozenset[str] = frozenset()
        self._pattern: re.Pattern[str] | None = None

    def add(self, values: Iterable[str]) -> None:
        """Values that no line may show from now on; those under six characters are left out."""
        for value in values:
            if len(value) >= _SHORTEST:
                # As it is, as a literal in a traceback, and as a part of an address.
                self._values |= {value, repr(value)[1:-1], quote(value), quote(value, safe="")}
            if len(value) >= _SHORTEST_HELD:
                written = [form.casefold() for form in (value, *_encoded(value))]
                bare = set(map(_bare, written))
                self._needles |= {form for form in bare if len(form) >= _SHORTEST_HELD}
                self._needles |= {"".join(form.split()) for form in written}
        longest_first = sorted(self._values, key=lambda text: (-len(text), text))
        self._pattern = re.compile("|".join(map(re.escape, longest_first))) if longest_first else None

    def held_by(self, text: str) -> bool:
        """True where `text` holds a known value of eight characters or more: as it is, quoted for an address, in
        hexadecimal or in Base64.

        Signs between its parts hide none, as in the segments of a path or the values of a query.
        """
        if not self._needles:
            return False
        once, twice = unquote(text), unquote(unquote(text))
        written = {form.casefold() for form in (text, once, twice, unquote_plus(text))}
        forms = set(map(_bare, written))
        written.add(twice.casefold().replace("-", "+").replace("_", "/"))  # Base64 for addresses; signs all of them
        forms |= {"".join(form.split()) for form in written}
        forms |= {_BETWEEN_QUERIES.sub("", form) for form in written if _QUERY.search(form)}
        return any(needle in form for needle in self._needles for form in forms)

    def hide(self, text: str) -> str:
        """`text` with every known secret replaced, and nothing that only looks like one."""
        return self._pattern.sub(MASK, text) if self._pattern else text


def _bare(text: str) -> str:
    """`text` without signs, which those of ASCII leave in a fifth of the time."""
    return text.translate(_SIGNS) if text.isascii() else _BETWEEN.sub("", text)


def _encoded(value: str) -> Iterator[str]:
    """A value in hexadecimal, backwards, and in Base64 wherever it stands in what is encoded."""
    data = value.encode(errors="replace")
    yield data.hex()
    yield value[::-1]
    for before in range(3):
        text = b64encode(b"-" * before + data).decode()
        yield text[-(-before * 8 // 6) : (before + len(data)) * 8 // 6]


_known = _Secrets()
add_secrets, holds_secret, without_secrets = _known.add, _known.held_by, _known.hide


def scrub(text: str) -> str:
    """`text` with every known secret, and everything that looks like one, replaced."""
    text = without_secrets(text)
    letters = text.casefold()
    for needed, pattern, put in _SHAPES:
        for one in needed:
            if one in letters:
                text = pattern.sub(put, text)
                break
    return text


class _ScrubbedStream:
    """A loguru sink: one rendered line in, the same line without secrets out. Its file stays open."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._file: tuple[int, os.stat_result] | None = None

    def write(self, message: "Message") -> None:
        """Only a traceback is still as it came; the rest of the line is ours, or was scrubbed as the message."""
        line = printable(message if message.record["exception"] is None else scrub(message))
        if self._path is None:
            sys.stderr.write(line)
            sys.stderr.flush()
            return
        with contextlib.suppress(OSError):  # on a full disk the line is lost, and nobody sees a traceback for it
            os.write(self._opened(self._path), line.encode("utf-8", "replace"))

    def stop(self) -> None:
        """Called by loguru when the sink is taken away."""
        if self._file is not None:
            os.close(self._file[0])
            self._file = None

    def _opened(self, path: Path) -> int:
        """The file at `path`, which another process may have set aside or taken away.

        One older file is kept beside it, so that a log never fills the disk.
        """
        with contextlib.suppress(FileNotFoundError):
            found = path.stat()
            if found.st_size > _LARGEST:
                path.replace(path.with_name(f"{path.name}.1"))
            elif self._file is not None and os.path.samestat(found, self._file[1]):
                return self._file[0]
        self.stop()
        file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self._file = file, os.fstat(file)
        return file


class _Forward(logging.Handler):
    """Hands records of the standard library to loguru, so that they pass the same scrubber and reach the same file."""

    def emit(self, record: logging.LogRecord) -> None:
        try:
            level: str | int = logger.level(record.levelname).name
        except ValueError:
            level = record.levelno
        try:
            text = record.getMessage()
        except (TypeError, ValueError):
            text = str(record.msg)

        def name_origin(entry: "Record") -> None:
            entry["name"], entry["line"] = scrub(record.name), record.lineno

        logger.patch(name_origin).opt(exception=record.exc_info).log(level, "{}", text)


def _scrub_message(entry: "Record") -> None:
    entry["message"] = scrub(entry["message"])


def configure_logging(log_file: Path | None, secrets: Iterable[str] = (), *, verbose: bool = False) -> None:
    """Send every log line to `log_file` (made private), and with `verbose` from DEBUG up to stderr as well.

    Without a file only warnings and worse reach stderr. Replaces every earlier configuration; may be called again when
    more secrets are known. The loggers of httpx, httpcore and telegram stay at WARNING: their INFO lines are URLs, and
    Telegram's hold the token.
    """
    add_secrets(secrets)
    logger.remove()
    # Every sink gets a clean message, also one that somebody else adds; ours clean the rendered traceback too.
    # `turn` is the id of the message that a turn answers, bound while the turn runs.
    logger.configure(patcher=_scrub_message, extra={"turn": "-"})
    shape = "{time:%Y-%m-%dT%H:%M:%S.%f%z} {level} {name}:{line} [{extra[turn]}] {message}"
    # diagnose would print the values of local variables into a traceback.
    if log_file is not None:
        with contextlib.suppress(OSError):  # where none can be written, as on a disk to read alone, its lines are lost
            log_file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            log_file.touch(mode=0o600)
        level = "DEBUG" if verbose else "INFO"
        logger.add(_ScrubbedStream(log_file), level=level, format=shape, diagnose=False, backtrace=False)
    if verbose or log_file is None:
        level = "DEBUG" if verbose else "WARNING"
        short = "{level}: [{extra[turn]}] {message}" if verbose else "{level}: {message}"
        logger.add(_ScrubbedStream(None), level=level, format=short, diagnose=False)
    root = logging.getLogger()
    for handler in [handler for handler in root.handlers if isinstance(handler, _Forward)]:
        root.removeHandler(handler)
    root.addHandler(_Forward())
    root.setLevel(logging.DEBUG if verbose else logging.INFO)
    for name in ("httpx", "httpcore", "telegram"):
        logging.getLogger(name).setLevel(logging.WARNING)
