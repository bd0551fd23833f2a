"""The home of hermes-agent: `.env`, `SOUL.md`, `memories/`, `skills/` in groups, `state.db`; its `config.yaml` is left.

Formats as its public documentation has them in 2026.
"""

from collections.abc import Mapping
from pathlib import Path

from nanobot.errors import UsageError
from nanobot.migrate.claw import take_keys
from nanobot.migrate.home import ForeignHome, ForeignMessage, ForeignSession, message_of
from nanobot.migrate.reading import (
    is_file,
    read_text,
    rows_of,
    text_of,
    variables,
)
from nanobot.utils.translation import _

_FILES: Mapping[str, str] = {
    "SOUL.md": "SOUL.md",
    "AGENTS.md": "AGENTS.md",
    "memories/USER.md": "USER.md",
    "memories/MEMORY.md": "memory/MEMORY.md",
}
#: Where people sit at the machine itself.
_LOCAL = frozenset({"cli", "tui", "local", "acp", "desktop"})
_SESSIONS = "SELECT id, source, title, started_at FROM sessions ORDER BY started_at"
_MESSAGES = "SELECT * FROM messages ORDER BY id"


def hermes_home(folder: Path) -> ForeignHome:
    """A home of hermes."""
    home = ForeignHome("hermes", folder)
    take_keys(home, variables(folder / ".env"))
    if is_file(folder / "config.yaml"):
        home.leave("config.yaml", _("It is not read. `nanobot onboard` sets up a model and the time zone."))
    if is_file(folder / "auth.json"):
        home.leave("auth.json", _("Logins cannot be moved; nanobot takes keys."))
    home.take_files(folder, _FILES)
    shipped = _bundled(folder / "skills" / ".bundled_manifest")
    home.take_skills(folder / "skills", deep=True)
    home.skills = [one for one in home.skills if one.name not in shipped]
    if is_file(folder / "state.db"):
        _take_sessions(home, folder / "state.db")
    home.leave_jobs(folder / "cron" / "jobs.json")
    return home


def _take_sessions(home: ForeignHome, path: Path) -> None:
    try:
        sessions, rows = rows_of(path, _SESSIONS), rows_of(path, _MESSAGES)
    except UsageError as error:
        home.leave(_("the sessions of state.db"), str(error))
        return
    said: dict[str, list[ForeignMessage]] = {}
    for row in rows:
        if row.get("active", 1) and (message := message_of(row, row.get("timestamp"))):
            said.setdefault(str(row.get("session_id")), []).append(message)
    for session in sessions:
        name, source = str(session.get("id")), text_of(session.get("source"))
        if name not in said:
            continue
        if source not in _LOCAL:
            home.leave(
                _("the session {name} ({place})", name=name, place=source),
                _("Nobody can tell whether it is yours alone."),
            )
        else:
            home.sessions.append(ForeignSession(name, text_of(session.get("title")), tuple(said[name])))


def _bundled(path: Path) -> frozenset[str]:
    """The names of the skills that came with the other program: lines `name:hash`."""
    if not is_file(path):
        return frozenset()
    return frozenset(line.partition(":")[0].strip() for line in read_text(path).splitlines())
