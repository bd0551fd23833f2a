"""The gateway of a home, and how it says that it is."""

import time
from datetime import datetime
from pathlib import Path

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from nanobot import __version__
from nanobot.doctor.findings import Finding, bad, off, ok, one_line, warn
from nanobot.session.lock import home_lock
from nanobot.utils.host import has_ended
from nanobot.utils.text import duration
from nanobot.utils.translation import N_, _, apart, listed

#: Seconds after which a health file is from a gateway that no longer runs.
_FRESH = 45.0
#: Seconds since the last completed poll after which messages do not arrive.
_ILL = 90.0


#: What a gateway is doing, as the health file says it.
_STATES = {
    "polling": N_("polling"),
    "conflict": N_("conflict"),
    "stalled": N_("stalled"),
    "webhook": N_("webhook"),
    "working": N_("working"),
    "starting": N_("starting"),
    "stopped": N_("stopped"),
}


class Gateway(Struct, frozen=True, rename="camel"):
    """What a gateway last wrote about itself. Times are those of the wall clock in seconds, 0 or None where unknown."""

    pid: int = 0
    process: str = ""
    bot: str = ""
    version: str = ""
    state: str = ""
    reason: str = ""
    written: float = 0.0
    since: float = 0.0
    last_poll: float | None = None
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
        if self.version and self.version != __version__:
            parts.append(_("version {version}, while this is {own}", version=self.version, own=__version__))
        elif self.version:
            parts.append(_("version {version}", version=self.version))
        return apart(filter(None, (listed(parts), self.reason)))


def gateway_at(file: Path) -> Gateway | None:
    """What the health file says; None where there is none that can be read."""
    try:
        told = msgspec.json.decode(file.read_bytes(), type=Gateway)
    except (OSError, ValueError):
        return None
    return replace(told, reason=one_line(told.reason), ended=has_ended(told.pid, told.process))


def told_in_status(file: Path, *, telegram: bool) -> list[str]:
    """The lines of `nanobot status`."""
    here = gateway_at(file)
    if here is not None and here.runs:
        return [_("- Gateway: {words}", words=here.words)]
    if not telegram:
        return []
    why = _("it has not run yet here") if here is None else _("not running")
    if here is not None and here.killed:
        why = _("not running, process {pid} was killed or broke off", pid=here.pid)
    return [_("- Gateway: {words}; `nanobot gateway` starts it", words=why)]


def gateway(file: Path, home: Path, *, telegram: bool) -> Finding:
    """Whether the gateway runs and messages arrive: the age of its last completed poll."""
    here = gateway_at(file)
    if not telegram and (here is None or not here.runs):
        return off(_("no channel is switched on"))
    if here is None or not here.runs:
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
    if here.state in {"webhook", "working"}:
        return ok(here.words)
    age = time.time() - (here.last_poll or here.since)
    if age > _ILL or here.state == "conflict":
        fix = _("Stop the other program.") if here.state == "conflict" else _("Look at the findings on Telegram here.")
        return bad(_("{words}: messages do not arrive", words=here.words), fix)
    if here.version and here.version != __version__:
        return warn(here.words, _("Start it again, so that it is the version that is installed."))
    return ok(here.words)
