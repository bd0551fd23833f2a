"""The gateways that run on this machine, found by their locks, and how each says that it is."""

import sqlite3
import time
from contextlib import closing, suppress
from datetime import datetime
from pathlib import Path

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from nanobot import __version__
from nanobot.doctor.findings import Finding, bad, off, ok, one_line, warn
from nanobot.session.lock import home_lock, token_locks
from nanobot.utils.host import has_ended
from nanobot.utils.text import duration
from nanobot.utils.translation import N_, _, _n, apart, listed

#: Seconds after which a health file is from a gateway that no longer runs.
_FRESH = 45.0
#: Seconds since the last completed poll after which messages do not arrive.
_ILL = 90.0


#: What a gateway is doing, as the health file says it.
_STATES = {
    "polling": N_("polling"),
    "conflict": N_("conflict"),
    "stalled": N_("stalled"),
    "working": N_("working"),
    "starting": N_("starting"),
    "stopped": N_("stopped"),
}


class Gateway(Struct, frozen=True, rename="camel"):
    """What a gateway last wrote about itself. Times are those of the wall clock in seconds, 0 or None where unknown."""

    file: Path = Path()
    pid: int = 0
    process: str = ""
    home: str = ""
    bot: str = ""
    version: str = ""
    state: str = ""
    reason: str = ""
    written: float = 0.0
    since: float = 0.0
    last_poll: float | None = None
    waiting: int = 0
    ended: bool = False

    @property
    def runs(self) -> bool:
        return not self.ended and self.state != "stopped" and time.time() - self.written <= _FRESH

    @property
    def killed(self) -> bool:
        """It did not stop in order."""
        return self.state != "stopped" and self.ended and time.time() - self.written <= _FRESH

    @property
    def name(self) -> str:
        return f"Telegram @{self.bot}" if self.bot else "Telegram"

    @property
    def words(self) -> str:
        """One line on a gateway that runs."""
        parts = [
            _(
                "process {pid}, {name}, {state}",
                pid=self.pid,
                name=self.name,
                state=_(_STATES.get(self.state, self.state)),
            )
        ]
        if self.last_poll:
            parts.append(_("last poll {age} ago", age=duration(time.time() - self.last_poll)))
        if self.since:
            parts.append(_("since {time}", time=f"{datetime.fromtimestamp(self.since).astimezone():%Y-%m-%d %H:%M}"))
        if count := self.chats:
            parts.append(_n("{number} chat", "{number} chats", count))
        if self.version and self.version != __version__:
            parts.append(_("version {version}, while this is {own}", version=self.version, own=__version__))
        elif self.version:
            parts.append(_("version {version}", version=self.version))
        return apart(filter(None, (listed(parts), self.reason)))

    @property
    def chats(self) -> int:
        """The chats of Telegram that have a conversation; 0 where nobody can tell."""
        database = Path(self.home, "nanobot.db") if self.home else None
        if database is None or not database.is_file():
            return 0
        query = "SELECT count(DISTINCT key) FROM session WHERE key LIKE 'telegram:%'"
        with suppress(sqlite3.Error), closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True)) as db:
            return int(db.execute(query).fetchone()[0])
        return 0


def gateway_at(file: Path) -> Gateway | None:
    """What the health file says; None where there is none that can be read."""
    try:
        told = msgspec.json.decode(file.read_bytes(), type=Gateway)
    except (OSError, ValueError):
        return None
    return replace(told, file=file, reason=one_line(told.reason), ended=has_ended(told.pid, told.process))


def elsewhere(file: Path) -> list[Gateway]:
    """The gateways of this user that run now with another home than that of the health file `file`."""
    found = (gateway_at(Path(note)) for note in (lock.note_of_holder() for lock in token_locks()) if note)
    return [one for one in found if one is not None and one.runs and one.file != file]


def told_in_status(file: Path, *, telegram: bool) -> list[str]:
    """The lines of `nanobot status`."""
    here, others = gateway_at(file), elsewhere(file)
    lines = [_("- Gateway of {home}: {words}", home=one.home or one.file.parent, words=one.words) for one in others]
    if here is not None and here.runs:
        return [_("- Gateway: {words}", words=here.words), *lines]
    if not telegram:
        return lines
    if here is not None and here.killed:
        why = _("not running, process {pid} was killed or broke off", pid=here.pid)
        return [_("- Gateway: {words}; `nanobot gateway` starts it", words=why), *lines]
    why = _("it has not run yet here") if here is None else _("not running")
    return [_("- Gateway: {words}; `nanobot gateway` starts it", words=why), *lines]


def gateway(file: Path, home: Path, *, telegram: bool) -> Finding:
    """Whether the gateway runs and messages arrive: the age of its last completed poll."""
    here = gateway_at(file)
    if not telegram and (here is None or not here.runs):
        return off(_("no channel is switched on"))
    if here is None or not here.runs:
        if other := next(iter(elsewhere(file)), None):
            fix = _("To look at that one: NANOBOT_HOME={home} nanobot doctor", home=other.home or other.file.parent)
            return warn(
                _("none runs with {home}; one runs with another home ({words})", home=home, words=other.words),
                fix,
            )
        if home_lock(home).held:
            fix = _("If it does so in a minute, look into its log and start it again.")
            return warn(_("a process holds its lock and says nothing of itself yet"), fix)
        killed = here is not None and here.killed
        words = (
            _("it was killed or broke off, so no message is answered")
            if killed
            else _("it does not run, so no message is answered")
        )
        return warn(words, _("`nanobot gateway` starts it."))
    if here.state == "stalled":
        return bad(here.words, _("Start it again, and report what the log shows."))
    if here.state == "working":
        return ok(here.words)
    age = time.time() - (here.last_poll or here.since)
    if age > _ILL or here.state == "conflict":
        fix = _("Stop the other program.") if here.state == "conflict" else _("Look at the findings on Telegram here.")
        return bad(_("{words}: messages do not arrive", words=here.words), fix)
    if here.version and here.version != __version__:
        return warn(here.words, _("Start it again, so that it is the version that is installed."))
    return ok(here.words)


def supervisor(file: Path) -> Finding:
    """Whether something starts the gateway again when it ends."""
    here = gateway_at(file)
    if here is None or not here.runs:
        return off(_("no gateway runs here"))
    watched = _("its loop is watched: one that stands still is written into the log and the health file")
    try:
        environ = Path(f"/proc/{here.pid}/environ").read_bytes()
    except OSError:
        environ = b""
    if b"INVOCATION_ID=" in environ:
        return ok(_("systemd starts it again; {watched}", watched=watched))
    if Path("/.dockerenv").exists() or b"container=" in environ:
        return ok(
            _("it runs in a container, whose restart policy is to start it again; {watched}", watched=watched),
        )
    fix = _("`nanobot gateway --install` makes it a service, which is started again when it ends.")
    return warn(_("nothing is seen that starts it again when it ends; {watched}", watched=watched), fix)
