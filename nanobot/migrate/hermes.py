"""The home of hermes-agent: `config.yaml`, `.env`, `SOUL.md`, `memories/`, `skills/` in groups, `state.db`,
`cron/jobs.json`. Formats as its public documentation has them in 2026.

Its configuration is YAML, of which we read what such files hold: keys in indented blocks, lists, plain and quoted
texts. What goes beyond, such as anchors and texts over many lines, is left and said so.
"""

import json
import re
from collections.abc import Mapping
from pathlib import Path

from nanobot import jsonval
from nanobot.errors import UsageError
from nanobot.jsonval import JsonObject
from nanobot.migrate.claw import take_keys, take_servers
from nanobot.migrate.home import ForeignHome, ForeignJob, ForeignMessage, ForeignSession, cron, every, message_of
from nanobot.migrate.reading import (
    instant,
    is_file,
    read_text,
    rows_of,
    text_of,
    variables,
)
from nanobot.schedule.job import Once
from nanobot.utils.translation import N_, _

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
_KEY = re.compile(r"(?P<key>[A-Za-z0-9_.\-]+|\"[^\"]*\"|'[^']*'):(?:\s+(?P<value>.*))?$")
_COMMENT = re.compile(r"(?:^|\s)#.*$")
_SCALARS: Mapping[str, object] = {"true": True, "false": False, "null": None, "~": None}
_BEYOND = N_("Line {number} of config.yaml is of a form that is not read here.")


def hermes_home(folder: Path) -> ForeignHome:
    """A home of hermes. Raises `UsageError` where its configuration cannot be read."""
    home = ForeignHome("hermes", folder)
    config = read_yaml(read_text(folder / "config.yaml")) if is_file(folder / "config.yaml") else {}
    _take_config(home, config)
    take_keys(home, variables(folder / ".env"))
    if is_file(folder / "auth.json"):
        home.leave("auth.json", _("Logins cannot be moved; nanobot takes keys."))
    home.take_files(folder, _FILES)
    shipped = _bundled(folder / "skills" / ".bundled_manifest")
    home.take_skills(folder / "skills", deep=True)
    home.skills = [one for one in home.skills if one.name not in shipped]
    if is_file(folder / "state.db"):
        _take_sessions(home, folder / "state.db")
    home.take_jobs(folder / "cron" / "jobs.json", _job)
    return home


def _take_config(home: ForeignHome, config: JsonObject) -> None:
    model = config.get("model")
    chosen = jsonval.obj(model)
    name = text_of(model) or text_of(chosen.get("default")) or text_of(chosen.get("model"))
    ours = ("agents", "defaults")
    home.take("model", (*ours, "model"), name)
    provider, base = text_of(chosen.get("provider")), text_of(chosen.get("base_url"))
    if base:
        home.take("model.base_url", ("providers", "custom", "apiBase"), base)
        home.take("model.provider", (*ours, "provider"), "custom")
        home.take("model.api_key", ("providers", "custom", "apiKey"), text_of(chosen.get("api_key")), secret=True)
    elif provider != "auto" and "/" not in name:
        home.take("model.provider", (*ours, "provider"), provider)
    home.take("timezone", (*ours, "timezone"), text_of(config.get("timezone")))
    take_servers(home, config.get("mcp_servers"))
    for key in sorted(config.keys() - {"model", "timezone", "mcp_servers"}):
        home.leave(_("{key} in config.yaml", key=key), _("There is no such setting here, or none of this form."))


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


def _job(row: JsonObject) -> ForeignJob | str:
    """A job as hermes writes it: `schedule` with `kind` once, interval or cron, and a `prompt`."""
    schedule, text = jsonval.obj(row.get("schedule")), text_of(row.get("prompt"))
    if row.get("enabled") is False or row.get("state") in ("paused", "completed"):
        return _("It is switched off or over there.")
    if not text or row.get("no_agent") or row.get("script"):
        return _("It runs a program there; that is no task for an agent.")
    kind, name = text_of(schedule.get("kind")), text_of(row.get("id"))
    if kind == "once":
        return ForeignJob(name, text, Once(instant(text_of(schedule.get("run_at")))))
    if kind == "interval":
        minutes = schedule.get("minutes")
        return ForeignJob(name, text, every(float(minutes) * 60 if isinstance(minutes, int | float) else 0.0))
    return ForeignJob(name, text, cron(text_of(schedule.get("expr"))), text_of(schedule.get("tz")))


def _bundled(path: Path) -> frozenset[str]:
    """The names of the skills that came with the other program: lines `name:hash`."""
    if not is_file(path):
        return frozenset()
    return frozenset(line.partition(":")[0].strip() for line in read_text(path).splitlines())


def read_yaml(text: str) -> JsonObject:
    """Groups of keys with texts and lists of texts, as such files hold them; what goes beyond is left out of a list.

    Raises `UsageError` for a line that is beyond us.
    """
    root: dict[str, object] = {}
    groups, holder, last = [(-1, root)], root, ""
    for number, line in enumerate(text.splitlines(), 1):
        bare = (line if "'" in line or '"' in line else _COMMENT.sub("", line)).strip()
        indent = len(line) - len(line.lstrip(" "))
        if not bare or bare.startswith("#") or bare in ("---", "..."):
            continue
        if bare.startswith("- ") and last:
            there = holder[last]
            holder[last] = [*(there if isinstance(there, list) else []), _scalar(bare[2:].strip(), number)]
            continue
        match = _KEY.match(bare)
        if bare == "-" or (match is None and indent > groups[-1][0] >= 0):
            continue  # of a list of groups, or the rest of a text
        if match is None:
            raise UsageError(_(_BEYOND, number=number))
        while groups[-1][0] >= indent:
            groups.pop()
        holder, last, inner = groups[-1][1], match["key"].strip("'\""), dict[str, object]()
        holder[last] = _scalar(match["value"], number) if match["value"] else inner
        groups.append((indent, inner))
    return root


def _scalar(text: str, number: int) -> object:
    if text[:1] in "&*!|>":
        raise UsageError(_(_BEYOND, number=number))
    if text[:1] in '[{"':
        try:
            return json.loads(text)
        except ValueError:
            return [one.strip().strip("'\"") for one in text.strip("[]").split(",") if one.strip()]
    if text[:1] == "'":
        return text.strip("'").replace("''", "'")
    return _SCALARS.get(text.casefold(), text)
