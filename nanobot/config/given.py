"""From the tree of a file to what it gives for each key: names made canonical, aliases moved, variables filled in.

Nothing is guessed: a key that is unknown is reported with the nearest known one and left alone, a value that stands
twice is an error, a variable that is unset is remembered where it stands.
"""

import json
import math
import re
from collections.abc import Iterator, Mapping

from msgspec import Struct, field

from nanobot.config.jsonc import Member, Node, Scalar, line_of
from nanobot.config.keys import KeyPath, camel, find_key, keys_of, type_at, walk_keys
from nanobot.config.schema import Config
from nanobot.config.section import Section
from nanobot.config.web_schema import ENGINES_NOT_YET
from nanobot.errors import ConfigProblem
from nanobot.utils.text import nearest

#: Other places that keys are read from, by their camelCase path; the value is where they belong.
ALIASES: Mapping[KeyPath, KeyPath] = {
    ("mcp",): ("tools", "mcpServers"),
    ("mcpServers",): ("tools", "mcpServers"),
    ("services", "moonshotSearch"): ("tools", "web", "search", "providers", "kimi"),
    ("services", "moonshotFetch"): ("tools", "web", "fetch", "service"),
    ("tools", "webfetch"): ("tools", "web", "fetch"),
    ("tools", "webFetch"): ("tools", "web", "fetch"),
    ("tools", "web", "userAgent"): ("tools", "web", "fetch", "userAgent"),
    ("tools", "web", "fetch", "useJinaReader"): ("tools", "web", "fetch", "reader"),
    ("channels", "sendToolHints"): ("channels", "telegram", "hints"),
    ("channels", "telegram", "sendToolHints"): ("channels", "telegram", "hints"),
    ("channels", "sendProgress"): ("channels", "telegram", "streaming"),
    ("channels", "telegram", "sendProgress"): ("channels", "telegram", "streaming"),
    ("channels", "telegram", "groupDebounceSeconds"): ("channels", "telegram", "joinSeconds"),
    ("channels", "transcriptionProvider"): ("channels", "telegram", "transcription", "provider"),
    ("channels", "transcriptionLanguage"): ("channels", "telegram", "transcription", "language"),
    ("channels", "telegram", "mode"): ("channels", "telegram", "webhook", "enabled"),
    ("channels", "telegram", "webhookUrl"): ("channels", "telegram", "webhook", "url"),
    ("channels", "telegram", "webhookListenHost"): ("channels", "telegram", "webhook", "host"),
    ("channels", "telegram", "webhookListenPort"): ("channels", "telegram", "webhook", "port"),
    ("channels", "telegram", "webhookSecretToken"): ("channels", "telegram", "webhook", "secret"),
    ("transcription",): ("channels", "telegram", "transcription"),
}
_ALIAS_PARENTS = {path[:size] for path in ALIASES for size in range(1, len(path))}
#: Values for all channels; one that stands in the channel itself wins.
FOR_ALL = frozenset(
    f"channels.{name}"
    for name in (
        "sendToolHints send_tool_hints sendProgress send_progress transcriptionProvider transcription_provider "
        "transcriptionLanguage transcription_language"
    ).split()
)
#: Keys that people write at the top of the file, and where they belong.
HABITS = {
    "model": "agents.defaults.model",
    "provider": "agents.defaults.provider",
    "apiKey": "providers.<name>.apiKey, such as providers.openai.apiKey",
    "apiBase": "providers.<name>.apiBase, such as providers.openai.apiBase",
    "token": "channels.telegram.token",
}
_ONE_CHANNEL = "nanobot talks on Telegram and in the terminal."
_NO_HELPERS = "There are no helpers yet."
_WHEN_FULL = "A conversation is shortened when it fills the model's context, not when it is idle."
_RESPONSES = "nanobot speaks Chat Completions and keeps the conversation itself."
#: Keys that files carry and that have no effect, with what that means. Whatever they hold is left alone; `<name>` is
#: any name.
NOT_YET: Mapping[KeyPath, str] = {
    **{
        ("channels", name): _ONE_CHANNEL
        for name in (
            "dingtalk discord email feishu lark line matrix mattermost mochat msteams napcat qq signal slack teams "
            "wecom weixin wechat websocket whatsapp"
        ).split()
    },
    ("channels", "sendMaxRetries"): "What could not be sent is tried again for a day.",
    ("channels", "showReasoning"): "Thoughts of the model are not shown.",
    ("channels", "extractDocumentText"): "Documents are read.",
    ("channels", "telegram", "richMessages"): "Answers are sent as text with its formatting.",
    ("channels", "telegram", "webhookPath"): "The path of webhookUrl is used.",
    ("transcription", "maxDurationSec"): "It limits a recorder that nanobot does not have.",
    ("transcription", "maxUploadMb"): "It limits a recorder that nanobot does not have.",
    ("providers", "<name>", "apiType"): _RESPONSES,
    ("providers", "<name>", "responsesStateEnabled"): _RESPONSES,
    ("providers", "<name>", "responsesCompactionEnabled"): _RESPONSES,
    ("providers", "<name>", "responsesCompactThreshold"): _RESPONSES,
    ("providers", "<name>", "defaultModel"): "Name the model in a preset or in agents.defaults.model.",
    ("providers", "<name>", "proxy"): "Set HTTPS_PROXY and NO_PROXY.",
    ("providers", "<name>", "region"): "It belongs to a login of AWS, which nanobot does not have.",
    ("providers", "<name>", "profile"): "It belongs to a login of AWS, which nanobot does not have.",
    ("modelPresets", "<name>", "label"): "A preset is shown by its name.",
    ("agents", "defaults", "maxConcurrentSubagents"): _NO_HELPERS,
    ("agents", "defaults", "failOnToolError"): _NO_HELPERS,
    ("agents", "defaults", "idleCompactAfterMinutes"): _WHEN_FULL,
    ("agents", "defaults", "idleCompactCheckIntervalSeconds"): _WHEN_FULL,
    ("agents", "defaults", "sessionTtlMinutes"): _WHEN_FULL,
    ("agents", "defaults", "unifiedSession"): "Every chat has a conversation of its own.",
    ("agents", "defaults", "disabledSkills"): "There are no skills yet.",
    ("agents", "defaults", "toolHintMaxLength"): "Hints are as long as their line is wide.",
    ("tools", "imageGeneration"): "nanobot makes no pictures.",
    ("tools", "webuiAllowRemotePackageInstall"): "There is no page to install from.",
    ("gateway", "restartMode"): "The gateway is restarted by what started it.",
    ("tools", "exec"): "No shell command runs. When commands come, they stay off until they are switched on.",
    ("tools", "restrictToWorkspace"): "There are no file tools that it could restrict.",
    ("gateway", "host"): "The gateway opens no port.",
    ("gateway", "port"): "The gateway opens no port.",
    ("gateway", "heartbeat"): "Nothing runs by itself.",
    ("agents", "defaults", "heartbeat"): "Nothing runs by itself.",
}
#: Times that are written in milliseconds, as are those whose key ends in `Ms`.
_MILLISECONDS = frozenset({("tools", "webfetch", "timeout"), ("tools", "webFetch", "timeout")})
_SEARCH: KeyPath = ("tools", "web", "search")
_MARK = re.compile(r"\$(?:\$|\{([^}]*)(\}?))")
_INSIDE = re.compile(r"(?:env:)?([A-Za-z_][A-Za-z0-9_]*)(?::-(.*))?", re.DOTALL)


class Given(Struct):
    """What a file gives in one place: its line, the key path as it is written there, and the value before any check.

    `missing` are the variables without which there is no value; `filled` says that a variable stood in the text.
    """

    line: int
    spelled: str
    value: "Scalar | list[Given] | dict[str, Given]"
    missing: tuple[str, ...] = ()
    filled: bool = False


class Expanded(Struct, frozen=True):
    """A text with its variables filled in. `missing` names those that are unset or empty and have no default."""

    text: str
    used: bool
    missing: tuple[str, ...]


def expand(text: str, env: Mapping[str, str]) -> Expanded:
    """`text` with `${VAR}`, `${env:VAR}`, `${VAR:-default}` and `$$` filled in from `env`.

    Raises `ValueError` where `${` opens something else.
    """
    missing: list[str] = []
    used = False

    def fill(match: re.Match[str]) -> str:
        nonlocal used
        if match[0] == "$$":
            return "$"
        inside = _INSIDE.fullmatch(match[1])
        if not match[2] or inside is None:
            raise ValueError("a variable is written ${NAME} or ${NAME:-default}; a $ before { that is meant so is $$")
        used = True
        value = env.get(inside[1], "")
        if value or inside[2] is not None:
            return value or inside[2]
        missing.append(inside[1])
        return ""

    filled = _MARK.sub(fill, text)
    return Expanded(filled, used, tuple(missing))


def number_or_switch(text: str) -> Scalar:
    """The number or the true/false that a variable held; else the text, which the schema then refuses."""
    try:
        value: object = json.loads(text.strip().lower())
    except (ValueError, RecursionError):
        return text
    return value if isinstance(value, int) or (isinstance(value, float) and math.isfinite(value)) else text


class FileReading(Struct):
    """One pass over one file. `data` holds what it gives under canonical keys."""

    file: str
    text: str
    env: Mapping[str, str]
    data: dict[str, Given] = field(default_factory=dict)
    warnings: list[ConfigProblem] = field(default_factory=list)
    errors: list[ConfigProblem] = field(default_factory=list)

    def run(self, root: Node) -> None:
        if isinstance(root.value, tuple):
            self._group(root.value, Config, (), (), "")
            self._leave_out_engines()
        else:
            self._error(root.start, "", "the file holds no object.", "It begins with { and ends with }.")

    def group(self, path: KeyPath) -> dict[str, Given]:
        """What is given in the group at `path`, made where it is missing; a stray one where a value is in its way."""
        level = self.data
        for key in path:
            inner = level.setdefault(key, Given(0, "", {})).value
            if not isinstance(inner, dict):
                return {}
            level = inner
        return level

    def unset(self) -> Iterator[tuple[KeyPath, Given]]:
        """The values that need variables which are not set."""
        waiting: list[tuple[KeyPath, Given]] = [((name,), given) for name, given in self.data.items()]
        while waiting:
            path, given = waiting.pop(0)
            if given.missing:
                yield path, given
            elif isinstance(given.value, dict):
                waiting[:0] = [((*path, name), inner) for name, inner in given.value.items()]

    def _error(self, offset: int, spelled: str, message: str, hint: str = "") -> None:
        self.errors.append(ConfigProblem(self.file, line_of(self.text, offset), spelled, message, hint))

    def _warning(self, offset: int, spelled: str, message: str, hint: str = "") -> None:
        self.warnings.append(ConfigProblem(self.file, line_of(self.text, offset), spelled, message, hint))

    def _group(
        self, members: tuple[Member, ...], model: type[Section], path: KeyPath, source: KeyPath, spelled: str
    ) -> None:
        """The keys of one section. `source` is the canonical path of where it stands, `path` of where it belongs."""
        seen: dict[str, str] = {}
        for member in members:
            name = f"{spelled}.{member.key}" if spelled else member.key
            written, key = camel(member.key), find_key(model, member.key)
            here, in_seconds = (*source, written), find_key(model, written.removesuffix("Ms"))
            if self._twice(member.start, name, key or written, seen):
                continue
            if key:
                self._value(member.node, (*path, key), here, name, thousandths=here in _MILLISECONDS)
            elif here in ALIASES:
                self._value(member.node, ALIASES[here], here, name)
            elif here in _ALIAS_PARENTS and isinstance(member.node.value, tuple):
                self._group(member.node.value, Section, (), here, name)
            elif here in NOT_YET:
                self._warning(member.start, name, "this key has no effect.", NOT_YET[here])
            elif in_seconds:
                self._value(member.node, (*path, in_seconds), here, name, thousandths=True)
            else:
                self._unknown(member, model, source, name)

    def _twice(self, offset: int, name: str, key: str, seen: dict[str, str]) -> bool:
        if key in seen:
            first = "above" if seen[key] == name else f"as {seen[key]}"
            self._error(offset, name, f"the same key stands {first} already.", "Keep one of them.")
            return True
        seen[key] = name
        return False

    def _unknown(self, member: Member, model: type[Section], source: KeyPath, name: str) -> None:
        key, siblings = camel(member.key), [path[-1] for path in (*ALIASES, *_ALIAS_PARENTS) if path[:-1] == source]
        elsewhere = [".".join(path) for path, _ in walk_keys() if path[-1] == key]
        hint = ""
        if not source and key in HABITS:
            hint = f"That key belongs in {HABITS[key]}."
        elif near := nearest(member.key, [*keys_of(model), *siblings]):
            hint = f'Did you mean "{near}"?'
        elif len(elsewhere) == 1:
            hint = f"That key belongs in {elsewhere[0]}."
        self._warning(member.start, name, "unknown key, not used.", hint)

    def _value(self, node: Node, path: KeyPath, source: KeyPath, name: str, *, thousandths: bool = False) -> None:
        slot = type_at(path)
        if node.value is None or slot is None:
            return
        if slot.section is None and slot.named is None:
            self._leaf(node, path, name, thousandths=thousandths)
        elif not isinstance(node.value, tuple):
            shown = "a list" if isinstance(node.value, list) else "a single value"
            self._error(node.start, name, f"got {shown}, wants a group of keys.", "Write { … } with keys inside.")
        else:
            # A group that is given exists, even where it stays empty.
            self.group(path[:-1]).setdefault(path[-1], Given(line_of(self.text, node.start), name, {}))
            if slot.section is not None:
                self._group(node.value, slot.section, path, source, name)
                return
            seen: dict[str, str] = {}
            for member in node.value:
                inner = f"{name}.{member.key}"
                if not self._twice(member.start, inner, member.key, seen):
                    self._value(member.node, (*path, member.key), (*source, "<name>"), inner)

    def _leaf(self, node: Node, path: KeyPath, name: str, *, thousandths: bool) -> None:
        missing: list[str] = []
        given = self._plain(node, name, missing)
        given.missing = tuple(dict.fromkeys(missing))
        if thousandths:
            value = number_or_switch(given.value) if given.filled and isinstance(given.value, str) else given.value
            given.value = value / 1000 if isinstance(value, int | float) and not isinstance(value, bool) else value
        group = self.group(path[:-1])
        before = group.get(path[-1])
        if before is not None and name in FOR_ALL:
            return
        if before is not None and before.spelled not in FOR_ALL:
            self._error(node.start, name, f"the same value stands in {before.spelled} too.", "Keep one.")
            return
        group[path[-1]] = given

    def _plain(self, node: Node, name: str, missing: list[str]) -> Given:
        """A value with its variables filled in; nulls inside a group are left out, like everywhere."""
        given = Given(line_of(self.text, node.start), name, None)
        match node.value:
            case tuple(members):
                seen: dict[str, str] = {}
                given.value = {
                    member.key: self._plain(member.node, inner, missing)
                    for member in members
                    if not self._twice(member.start, inner := f"{name}.{member.key}", member.key, seen)
                    and member.node.value is not None
                }
            case list(items):
                given.value = [self._plain(item, f"{name}[{at}]", missing) for at, item in enumerate(items)]
            case str(text):
                try:
                    expanded = expand(text, self.env)
                except ValueError as error:
                    self._error(node.start, name, f"{error}.")
                    return given
                given.value, given.filled = expanded.text, expanded.used
                missing.extend(expanded.missing)
            case scalar:
                given.value = scalar
        return given

    def _leave_out_engines(self) -> None:
        """Search engines that other programs know: named and left out, with the key and the address beside them."""
        search = self.group(_SEARCH)
        if (named := search.get("provider")) and _not_yet(named.value):
            self._leave_out(named, named.value, "Searches use `auto`.")
            for key in ("provider", "apiKey", "apiKeyCommand", "baseUrl"):
                search.pop(key, None)
        providers = self.group((*_SEARCH, "providers"))
        for name in filter(_not_yet, [*providers]):
            self._leave_out(providers.pop(name), name, "It is left out.")
        fallback = search.get("fallback")
        if fallback is not None and isinstance(fallback.value, list):
            found = [one for one in fallback.value if _not_yet(one.value)]
            if found:
                self._leave_out(fallback, found[0].value, "It is left out.")
                fallback.value = [one for one in fallback.value if one not in found]

    def _leave_out(self, given: Given, name: object, hint: str) -> None:
        message = f"the search engine {name} is not supported yet."
        self.warnings.append(ConfigProblem(self.file, given.line, given.spelled, message, hint))


def _not_yet(name: object) -> bool:
    return isinstance(name, str) and name.strip().lower() in ENGINES_NOT_YET
