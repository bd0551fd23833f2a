"""The homes of the nanobot family and of openclaw, which write jobs and workspaces alike.

nanobot: `config.json` in the form of our own, `workspace/`, `sessions/*.jsonl` whose first line is metadata,
`cron/jobs.json`. openclaw, also under its older names clawdbot and moltbot: `openclaw.json`, `workspace/`,
`agents/<name>/sessions/*.jsonl` of events, `cron/jobs.json`, `skills/`, `.env`, `auth-profiles.json`.
Formats as their public documentation has them in 2026.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path

from nanobot import jsonval
from nanobot.config.changes.text import plain
from nanobot.config.jsonc import JsoncError, parse
from nanobot.config.keys import NAMES
from nanobot.errors import UsageError
from nanobot.jsonval import JsonObject
from nanobot.migrate.home import ForeignHome, ForeignSession, claw_job, message_of
from nanobot.migrate.reading import (
    inside,
    is_file,
    json_lines,
    read_text,
    text_of,
    variables,
)
from nanobot.utils.translation import N_, _

#: Names of the configuration file of openclaw, the newest first.
CLAW_FILES = ("openclaw.json", "clawdbot.json", "moltbot.json")
#: Where Markdown files of a workspace go.
_FILES: Mapping[str, str] = {
    "SOUL.md": "SOUL.md",
    "AGENTS.md": "AGENTS.md",
    "USER.md": "USER.md",
    "IDENTITY.md": "memory/identity.md",
    "TOOLS.md": "memory/tools.md",
    "MEMORY.md": "memory/MEMORY.md",
    "memory/MEMORY.md": "memory/MEMORY.md",
}
#: Where people sit at the machine itself.
_LOCAL = frozenset({"cli", "local", "terminal", "tui", "webui", "main", "direct"})
#: The variable of a key → where it stands here.
_KEYS: Mapping[str, tuple[str, ...]] = {
    **{
        f"{name.upper()}_API_KEY": ("providers", name, "apiKey")
        for name in ("anthropic", "openai", "openrouter", "deepseek", "gemini", "groq", "mistral", "moonshot", "zai")
    },
    "TELEGRAM_BOT_TOKEN": ("channels", "telegram", "token"),
    **{
        f"{name.upper()}_API_KEY": ("tools", "web", "search", "providers", name, "apiKey")
        for name in ("brave", "tavily", "exa", "firecrawl")
    },
}
#: Providers that need no `apiBase` here and there.
_UNKNOWN = N_("There is no place for it here.")


def family_home(folder: Path) -> ForeignHome:
    """A home of the nanobot family. Raises `UsageError` where its configuration cannot be read."""
    home = ForeignHome("nanobot", folder)
    config = config_of(folder / "config.json")
    for path, value in _leaves(config):
        secret = any(NAMES.search(part) for part in path[-1:]) or path[-1] in ("env", "headers")
        (home.secrets if secret else home.config)[path] = value
    workspace = _workspace(folder, jsonval.obj(jsonval.obj(config.get("agents")).get("defaults")).get("workspace"))
    home.config.pop(("agents", "defaults", "workspace"), None)
    home.take_files(workspace, _FILES)
    home.take_skills(workspace / "skills")
    owners = jsonval.obj(jsonval.obj(config.get("channels")).get("telegram")).get("allowFrom")
    for place in (workspace / "sessions", folder / "sessions"):
        for file in inside(place):
            if file.suffix == ".jsonl" and is_file(file):
                _take_family_session(home, file, owners if isinstance(owners, list) else [])
    for place in (folder / "cron", workspace / "cron"):
        home.take_jobs(place / "jobs.json", claw_job)
    return home


def claw_home(folder: Path) -> ForeignHome:
    """A home of openclaw. Raises `UsageError` where its configuration cannot be read."""
    home = ForeignHome("openclaw", folder)
    file = next((folder / name for name in CLAW_FILES if is_file(folder / name)), folder / CLAW_FILES[0])
    config = config_of(file)
    defaults = jsonval.obj(jsonval.obj(config.get("agents")).get("defaults"))
    _take_claw_config(home, config, defaults)
    named = text_of(defaults.get("workspace")) or text_of(jsonval.obj(config.get("agent")).get("workspace"))
    workspace = _workspace(folder, named)
    home.take_files(workspace, _FILES)
    home.take_skills(workspace / "skills")
    home.take_skills(folder / "skills")
    for path in sorted(folder.glob("agents/*/sessions/*.jsonl")):
        if is_file(path):
            _take_claw_session(home, path)
    home.take_jobs(folder / "cron" / "jobs.json", claw_job)
    return home


def config_of(path: Path) -> JsonObject:
    """A configuration as JSON, with comments or without; empty where there is no file. Raises `UsageError`."""
    if not is_file(path):
        return {}
    try:
        return jsonval.obj(plain(parse(read_text(path))))
    except JsoncError as error:
        raise UsageError(_("{path} cannot be read: {error}.", path=path, error=error)) from error


def take_keys(home: ForeignHome, given: Mapping[str, str]) -> None:
    """Note the keys among variables of which we know the place."""
    for name, value in given.items():
        if value and name in _KEYS:
            home.take(_("the variable {name}", name=name), _KEYS[name], value, secret=True)
        elif value and NAMES.search(name):
            home.leave(_("the variable {name}", name=name), _(_UNKNOWN))


def take_servers(home: ForeignHome, servers: object) -> None:
    """Note MCP servers; what a program is given and what goes with its requests counts as secret."""
    for name, server in jsonval.obj(servers).items():
        given = jsonval.obj(server)
        plain = {key: given[key] for key in ("command", "args", "url", "cwd") if given.get(key)}
        place = ("tools", "mcpServers", name)
        if not (plain.get("command") or plain.get("url")):
            home.leave(_("the MCP server {name}", name=name), _("It names neither a program nor an address."))
            continue
        home.take(_("the MCP server {name}", name=name), place, plain)
        for key in ("env", "headers"):
            home.take(_("the {key} of {name}", key=key, name=name), (*place, key), given.get(key), secret=True)


def _take_claw_config(home: ForeignHome, config: JsonObject, defaults: JsonObject) -> None:
    model = defaults.get("model") or jsonval.obj(config.get("agent")).get("model")
    ours = ("agents", "defaults")
    home.take("agents.defaults.model", (*ours, "model"), text_of(model) or text_of(jsonval.obj(model).get("primary")))
    home.take("agents.defaults.model.fallbacks", (*ours, "fallbackModels"), jsonval.obj(model).get("fallbacks"))
    home.take("agents.defaults.userTimezone", (*ours, "timezone"), text_of(defaults.get("userTimezone")))
    variables_there = {
        **jsonval.obj(jsonval.obj(config.get("env")).get("vars")),
        **jsonval.obj(config.get("env")),
        **variables(home.folder / ".env"),
    }
    texts = {name: value for name, value in variables_there.items() if isinstance(value, str)}
    for name, one in jsonval.obj(jsonval.obj(config.get("models")).get("providers")).items():
        provider = jsonval.obj(one)
        there = f"models.providers.{name}"
        home.take(f"{there}.baseUrl", ("providers", name, "apiBase"), text_of(provider.get("baseUrl")))
        _take_secret(home, f"{there}.apiKey", ("providers", name, "apiKey"), provider.get("apiKey"), texts)
    _take_channels(home, jsonval.obj(config.get("channels")), texts)
    take_servers(home, jsonval.obj(config.get("mcp")).get("servers") or config.get("mcpServers"))
    take_keys(home, texts)
    for path in sorted(home.folder.glob("agents/*/agent/auth-profiles.json")):
        for profile in jsonval.obj(config_of(path).get("profiles")).values():
            given = jsonval.obj(profile)
            name, key = text_of(given.get("provider")), text_of(given.get("key"))
            if name and key:
                home.take(_("the key of {name}", name=name), ("providers", name, "apiKey"), key, secret=True)
            elif name:
                home.leave(_("the login at {name}", name=name), _("Logins cannot be moved; nanobot takes keys."))


def _take_channels(home: ForeignHome, channels: JsonObject, texts: Mapping[str, str]) -> None:
    for name, one in channels.items():
        if name != "telegram":
            home.leave(_("the channel {name}", name=name), _("nanobot talks on Telegram and in the terminal."))
            continue
        given = {**jsonval.obj(jsonval.obj(jsonval.obj(one).get("accounts")).get("default")), **jsonval.obj(one)}
        place = ("channels", "telegram")
        _take_secret(home, "channels.telegram.botToken", (*place, "token"), given.get("botToken"), texts)
        allowed = given.get("allowFrom")
        numbers = [str(who) for who in allowed if str(who).isdecimal()] if isinstance(allowed, list) else []
        home.take("channels.telegram.allowFrom", (*place, "allowFrom"), numbers)


def _take_secret(
    home: ForeignHome, source: str, place: tuple[str, ...], value: object, texts: Mapping[str, str]
) -> None:
    """Note a secret that stands there, or that a variable of the other program holds."""
    reference = jsonval.obj(value)
    name = text_of(reference.get("id")) if reference.get("source") == "env" else ""
    text = text_of(value)
    if text.startswith("${") and text.endswith("}"):
        name = text[2:-1]
    found = texts.get(name, "") if name else text
    if found:
        home.take(source, place, found, secret=True)
    elif value:
        home.leave(source, _("Its value is kept elsewhere, and cannot be read from here."))


def _take_family_session(home: ForeignHome, path: Path, owners: list[object]) -> None:
    lines = _lines(home, path)
    meta = next((one for one in lines if one.get("_type") == "metadata"), {})
    key = text_of(meta.get("key")) or path.stem.replace("_", ":", 1)
    channel, chat = key.partition(":")[::2]
    alone = [str(one) for one in owners] == [chat]
    if channel not in _LOCAL and not (channel == "telegram" and alone):
        home.leave(_("the session {name}", name=key), _("Nobody can tell whether it is yours alone."))
        return
    said = [message for one in lines if (message := message_of(one, one.get("timestamp")))]
    title = text_of(jsonval.obj(meta.get("metadata")).get("title"))
    if said:
        home.sessions.append(ForeignSession(key, title, tuple(said)))


def _take_claw_session(home: ForeignHome, path: Path) -> None:
    lines = _lines(home, path)
    rows = ((jsonval.obj(one.get("message")), one.get("timestamp")) for one in lines if one.get("type") == "message")
    said = [message for row, at in rows if (message := message_of(row, at or row.get("timestamp")))]
    if said:
        home.sessions.append(ForeignSession(path.stem, "", tuple(said)))


def _lines(home: ForeignHome, path: Path) -> list[JsonObject]:
    try:
        return json_lines(path)
    except UsageError as error:
        home.leave(str(path), str(error))
        return []


def _workspace(folder: Path, named: object) -> Path:
    """The workspace of a home: where it is named, as long as that is inside the home or there, else as usual."""
    wanted = text_of(named)
    usual = [folder / "workspace", folder / "workspace-main", folder / "workspace.default"]
    if wanted:
        place = Path(wanted.replace("~", str(folder.parent), 1) if wanted.startswith("~") else wanted)
        usual.insert(0, place if place.is_absolute() else folder / place)
    return next((one for one in usual if one.is_dir()), usual[0])


def _leaves(config: JsonObject, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], object]]:
    """The values of a configuration that are no objects of others, each with its keys."""
    for key, value in config.items():
        if isinstance(value, dict) and value and key not in ("env", "headers"):
            yield from _leaves(value, (*path, key))
        elif key != "$schema" and value not in (None, "", [], {}):
            yield (*path, key), value
