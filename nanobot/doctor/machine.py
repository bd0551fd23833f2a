"""Checks of the machine and the terminal: disk, time zone, sandbox, versions, locale, keys. None leaves the machine."""

import os
import platform
import re
import select
import shutil
import site
import sqlite3
import sys
import termios
import time
import tty
from collections.abc import Mapping
from contextlib import closing, suppress
from datetime import datetime
from pathlib import Path
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from nanobot import __version__
from nanobot.config.schema_tools import ToolsConfig
from nanobot.doctor.findings import Finding, bad, off, ok, one_line, warn
from nanobot.security.sandbox import Reason, choose
from nanobot.utils.host import zone_of
from nanobot.utils.translation import N_, _

#: Bytes of free room below which it is said, and below which nothing can be kept.
_LITTLE, _FULL = 500_000_000, 20_000_000
#: Seconds that a terminal has to answer what it can do.
_TERMINAL_SECONDS = 0.3
#: Asks whether pastes can be marked (DECRQM of mode 2004), then what every terminal answers (DA1).
_ASK = b"\x1b[?2004$p\x1b[c"
_PASTE, _ANSWERED = re.compile(rb"\x1b\[\?2004;([0-4])\$y"), re.compile(rb"\x1b\[\?[0-9;]*c")


def disk(*folders: Path) -> Finding:
    """Room where the data and backups are, and whether files can be written there."""
    places = {place: _free(place) for place in dict.fromkeys(map(_existing, folders))}
    place, free = min(places.items(), key=lambda one: one[1])
    words = _("{size} free at {place}", size=_size(free), place=place)
    if free < _FULL:
        return bad(_("{words}: nothing can be kept", words=words), _("Free some room; what waits is kept then."))
    if shut := next((one for one in places if not os.access(one, os.W_OK)), None):
        fix = _(
            "Give it back to the user who runs nanobot (chown), or name another place (NANOBOT_HOME, backup.folder)."
        )
        return bad(_("{shut} cannot be written", shut=shut), fix)
    if free < _LITTLE:
        return warn(words, _("Free some room: backups, downloads and the index need it."))
    return ok(words)


def _existing(place: Path) -> Path:
    return next(one for one in (place, *place.parents) if one.exists())


def _free(place: Path) -> int:
    return shutil.disk_usage(place).free


def _size(count: int) -> str:
    return f"{count / 1e9:,.1f} GB" if count >= 1e9 else f"{count / 1e6:,.1f} MB"


def time_zone(named: str, env: Mapping[str, str]) -> Finding:
    """Which zone reminders and answers use, and what time that is now."""
    zone = zone_of(named, env)
    key = zone.key if isinstance(zone, ZoneInfo) else str(zone)
    words = _("{zone}, where it is {time}", zone=key, time=f"{datetime.now(zone):%H:%M}")
    try:
        ZoneInfo(named or "UTC")
    except (ZoneInfoNotFoundError, ValueError, OSError):
        fix = _(
            "Write an IANA name such as Europe/Paris into agents.defaults.timezone; pip install tzdata where all fail."
        )
        return bad(
            _("agents.defaults.timezone names {named!r}, which is no zone: {words}", named=named, words=words),
            fix,
        )
    if not named and key == "UTC":
        fix = _("If you live elsewhere, set agents.defaults.timezone, such as Europe/Paris: reminders go by it.")
        return warn(words, fix)
    return ok(words)


async def sandbox(tools: ToolsConfig) -> Finding:
    """Try to break out of what commands would run in."""
    found = await choose(tools.exec.sandbox)
    offered = tools.profile == "full" and tools.exec.enable
    if not isinstance(found, Reason):
        words = found.note if offered else _("{note}; commands are not switched on", note=found.note)
        return ok(words)
    fix = _("Commands stay off until one works: docs/security.md tells what each needs.")
    return bad(one_line(found.text), fix) if offered else off(one_line(found.text))


def versions() -> Finding:
    """Python, SQLite with full text search, and what runs at every start of Python."""
    # English: names alone
    told = f"nanobot {__version__}, Python {platform.python_version()}, SQLite {sqlite3.sqlite_version}"
    if not _searches_texts():
        fix = _("Use a Python whose SQLite has FTS5, such as that of python.org, uv or your system.")
        return bad(_("{told}, which lacks FTS5: nothing can be found again", told=told), fix)
    if strange := _started_files():
        names = ", ".join(strange[:3])
        fix = _("Each runs at every start of Python. If you do not know one, take it away and change your keys.")
        return warn(_("{told}; files that run code by themselves: {names}", told=told, names=names), fix)
    return ok(_("{told} with FTS5", told=told))


def _searches_texts() -> bool:
    with closing(sqlite3.connect(":memory:")) as db, suppress(sqlite3.Error):
        db.execute("CREATE VIRTUAL TABLE t USING fts5(x)")
        return True
    return False


def _started_files() -> list[str]:
    """`.pth` files beside the packages with a line of code, a known way of thieves of keys."""
    usual = ("__editable__", "_virtualenv", "distutils-precedence", "coverage", "a1_coverage", "pytest")
    found = []
    for folder in {*site.getsitepackages(), *([site.getusersitepackages()] if site.ENABLE_USER_SITE else [])}:
        for file in sorted(Path(folder).glob("*.pth")):
            code = any(line.startswith(("import ", "import\t")) for line in _lines(file))
            if code and not file.name.startswith(usual):
                found.append(file.name)
    return found


def _lines(file: Path) -> list[str]:
    try:
        return file.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return []


def locale(env: Mapping[str, str]) -> Finding:
    """Whether signs beyond ASCII can be read and shown."""
    named = next((env[name] for name in ("LC_ALL", "LC_CTYPE", "LANG") if env.get(name)), "")
    encoding = (sys.stdout.encoding or "unknown").lower()
    if encoding.replace("-", "") == "utf8":
        return ok(_("{locale}, {encoding}", locale=named or _("none named"), encoding=encoding))
    fix = _("Set LANG to one with UTF-8, such as export LANG=C.UTF-8 (or en_US.UTF-8).")
    return warn(
        _("{locale}: only {encoding}; other signs become ?", locale=named or _("none named"), encoding=encoding),
        fix,
    )


def terminal(env: Mapping[str, str]) -> Finding:
    """What this terminal is and whether it marks pastes."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        return off(_("this is none; it is looked at when a person runs it in one"))
    kind = env.get("TERM", "")
    if kind in {"", "dumb", "unknown"}:
        fix = _("Set TERM to what your terminal is, such as xterm-256color; `nanobot --plain` works in any.")
        return warn(
            _("TERM is {kind}: no colours, no live area, no editing", kind=kind or _("not set")),
            fix,
        )
    size = shutil.get_terminal_size()
    words = f"{kind}, {size.columns} × {size.lines}"
    answer = _answer(sys.stdin.fileno())
    if _ANSWERED.search(answer) is None:
        return warn(_("{words}; it does not answer what it can do", words=words), _(_NO_ANSWER))
    marks = _PASTE.search(answer)
    if marks is not None and marks[1] in b"12":
        return ok(_("{words}; marks pastes; Alt-Enter makes a new line", words=words))
    if marks is not None and marks[1] == b"0":
        fix = _("Paste long texts with care: every line may be sent alone. A newer terminal or tmux marks pastes.")
        return warn(_("{words}; it does not mark pastes", words=words), fix)
    return ok(_("{words}; does not say whether it marks pastes; Alt-Enter makes a new line", words=words))


_NO_ANSWER = N_("If keys or pastes behave oddly, try another terminal; `nanobot --plain` works in any.")


def _answer(file: int) -> bytes:
    """What the terminal says to the questions; what a person types meanwhile is lost."""
    before = termios.tcgetattr(file)
    told, until = b"", time.monotonic() + _TERMINAL_SECONDS
    try:
        tty.setcbreak(file, termios.TCSANOW)
        os.write(file, _ASK)
        while _ANSWERED.search(told) is None and (left := until - time.monotonic()) > 0:
            if select.select([file], [], [], left)[0]:
                told += os.read(file, 1_000)
    except OSError:
        return told
    finally:
        termios.tcsetattr(file, termios.TCSAFLUSH, before)
    return told
