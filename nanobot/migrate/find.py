"""Which homes of other programs there are, and reading one; that of hermes-agent here.

Its `.env`, `SOUL.md`, `memories/`, `skills/` in groups and `state.db` are read, its `config.yaml` is left. Formats as
its public documentation has them in 2026.
"""

from collections.abc import Callable, Mapping
from pathlib import Path

from nanobot.config.paths import expanded, person_home
from nanobot.errors import UsageError
from nanobot.migrate.claw import CLAW_FILES, claw_home, family_home, take_keys
from nanobot.migrate.home import ForeignHome, ForeignMessage, ForeignSession, Program, message_of
from nanobot.migrate.reading import is_file, read_text, rows_of, text_of, variables
from nanobot.utils.text import nearest
from nanobot.utils.translation import _, listed, sentences

#: Where homes are, below the person's own folder, the newest name first; and what stands in each.
_PLACES: tuple[tuple[Program, str], ...] = (
    ("nanobot", ".nanobot"),
    ("hermes", ".hermes"),
    ("openclaw", ".openclaw"),
    ("openclaw", ".clawdbot"),
    ("openclaw", ".moltbot"),
)
_SIGNS: Mapping[Program, tuple[str, ...]] = {
    "hermes": ("config.yaml", "state.db", "memories"),
    "openclaw": (*CLAW_FILES, "agents"),
    "nanobot": ("config.json", "sessions", "workspace"),
}
#: What each place of the environment is for.
_VARIABLES: Mapping[str, Program] = {"HERMES_HOME": "hermes", "OPENCLAW_STATE_DIR": "openclaw"}
_HERMES_FILES: Mapping[str, str] = {
    "SOUL.md": "SOUL.md",
    "AGENTS.md": "AGENTS.md",
    "memories/USER.md": "USER.md",
    "memories/MEMORY.md": "memory/MEMORY.md",
}
#: Where people sit at the machine itself.
_LOCAL = frozenset({"cli", "tui", "local", "acp", "desktop"})
_SESSIONS = "SELECT id, source, title, started_at FROM sessions ORDER BY started_at"
_MESSAGES = "SELECT * FROM messages ORDER BY id"


def homes_there(env: Mapping[str, str], own: Path) -> list[tuple[Program, Path]]:
    """The homes of other programs of this person; `own` is this nanobot's, in which another of the family may have
    kept conversations before."""
    user = person_home(env)
    named = [(program, Path(env[name])) for name, program in _VARIABLES.items() if env.get(name)]
    places = [*named, *((program, user / name) for program, name in _PLACES)]
    found: dict[Path, Program] = {}
    for program, folder in places:
        older = (own / "workspace" / "sessions").is_dir()
        if (folder.resolve() != own.resolve() or older) and _is_home(folder, program):
            found.setdefault(folder.resolve(), program)
    return [(program, folder) for folder, program in found.items()]


def named_home(word: str, env: Mapping[str, str], own: Path) -> tuple[Program, Path]:
    """The home that a person names by its program, or by its folder. Raises `UsageError`."""
    folder = expanded(word, person_home(env))
    if "/" in word or folder.is_dir():
        program = next((one for one in _SIGNS if _is_home(folder, one)), None)
        if program is None:
            raise UsageError(
                _("{word} is no home of nanobot's family, hermes or openclaw: none of their files are.", word=word)
            )
        return program, folder.resolve()
    there = homes_there(env, own)
    found = [one for one in there if one[0] == word or one[1].name == f".{word}"]
    if not found:
        near = nearest(word, [*_READERS])
        hint = _("Did you mean {near!r}?", near=near) if near and near != word else ""
        known = listed(str(home) for program, home in there) or _("none")
        raise UsageError(
            sentences(
                _("There is no home of {word!r} here.", word=word),
                hint,
                _("Found: {homes}.", homes=known),
                _("A folder can be named too."),
            )
        )
    return found[0]


def read_home(program: Program, folder: Path) -> ForeignHome:
    """Everything in a home that there is a place for here. Waits for the disk. Raises `UsageError`."""
    return _READERS[program](folder)


def hermes_home(folder: Path) -> ForeignHome:
    """A home of hermes."""
    home = ForeignHome("hermes", folder)
    take_keys(home, variables(folder / ".env"))
    if is_file(folder / "config.yaml"):
        home.leave("config.yaml", _("It is not read. `nanobot onboard` sets up a model and the time zone."))
    if is_file(folder / "auth.json"):
        home.leave("auth.json", _("Logins cannot be moved; nanobot takes keys."))
    home.take_files(folder, _HERMES_FILES)
    shipped = _bundled(folder / "skills" / ".bundled_manifest")
    home.take_skills(folder / "skills", deep=True)
    home.skills = [one for one in home.skills if one.name not in shipped]
    if is_file(folder / "state.db"):
        _take_sessions(home, folder / "state.db")
    home.leave_jobs(folder / "cron" / "jobs.json")
    return home


_READERS: Mapping[Program, Callable[[Path], ForeignHome]] = {
    "nanobot": family_home,
    "hermes": hermes_home,
    "openclaw": claw_home,
}


def _is_home(folder: Path, program: Program) -> bool:
    return folder.is_dir() and any((folder / name).exists() for name in _SIGNS[program])


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
