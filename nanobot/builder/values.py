"""The configuration as plain values of the agent: limits, settings, policy; and what of it does not count."""

from collections.abc import Sequence
from fnmatch import fnmatchcase
from pathlib import Path

from nanobot.agent.turn import TurnLimits
from nanobot.command.settings import SettingName
from nanobot.config.loader import Loaded
from nanobot.config.paths import Paths
from nanobot.config.schema import Config
from nanobot.config.schema_web import WebFetchConfig
from nanobot.providers.retry import Tuning
from nanobot.providers.vendors import VENDORS, unsupported, vendor_of
from nanobot.security.policy import Policy, Rule
from nanobot.utils.text import nearest
from nanobot.utils.translation import N_, _, sentences

_NO_CHANNEL = N_(
    "No channel is switched on. `nanobot onboard` sets up a bot on Telegram. By hand: ask @BotFather for one with "
    "/newbot, then write into {path}:\n"
    '  {{"channels": {{"telegram": {{"enabled": true, "token": "123456789:AAE…"}}}}}}'
)
_CHANNEL_OFF = N_("No channel can be served: channels.telegram is switched off, {reason}. Set it and start again.")


def limits_of(config: Config) -> TurnLimits:
    """What a turn may take."""
    known, defaults, web = TurnLimits(), config.agents.defaults, config.tools.web
    # No less than a page takes, head and notes included, as the owner wants it.
    page = web.fetch.max_chars + 2_000 if web.fetch.max_chars != WebFetchConfig().max_chars else 0
    return TurnLimits(
        defaults.max_tool_iterations,
        defaults.max_turn_seconds,
        defaults.max_turn_tokens or known.max_tokens,
        max(defaults.max_tool_result_chars, page),
        web.search.lookup_repeats,
    )


def settings_of(config: Config) -> Tuning:
    """How models are asked."""
    defaults = config.agents.defaults
    return Tuning(defaults.max_tokens, defaults.temperature, defaults.reasoning_effort, own_effort=True)


def policy_of(config: Config) -> Policy:
    """The judge of every call, with the rules of the owner."""
    section = config.tools.policy
    rules = [Rule(one.decision, one.tool, one.match, one.tainted) for one in section.rules if one.decision]
    return Policy(section.preset, rules)


def chat_defaults(config: Config) -> tuple[dict[SettingName, str], dict[SettingName, str]]:
    """What chats have where nothing else was set for them, and what nobody may set."""
    telegram, private = config.channels.telegram, config.tools.web.privacy
    values: dict[SettingName, str] = {"hints": telegram.hints, "streaming": telegram.streaming}
    values["privacy"] = "on" if private else "off"
    return values, {"privacy": "tools.web.privacy"} if private else {}


def not_counted(loaded: Loaded, tools: Sequence[str]) -> list[str]:
    """What the file says that does not count, with the reason; rules of the policy are held against these `tools`."""
    found = [str(problem) for problem in loaded.problems]
    found += [
        _("{key} is switched off: {reason}", key=where, reason=reason) for where, reason in loaded.disabled.items()
    ]
    for name, one in loaded.config.providers.items():
        if vendor_of(name) is None and not one.api_base:
            near = nearest(name, [vendor.name for vendor in VENDORS])
            hint = _('Did you mean "{name}"?', name=near) if near else _("Give it an apiBase, or take it out.")
            why = unsupported(name) or _("no provider of that name is known. {hint}", hint=hint)
            key, reason = f"providers.{name}", f"{why[0].lower()}{why[1:]}"
            found.append(_("{key} is not used: {reason}", key=key, reason=reason))
    for rule in loaded.config.tools.policy.rules:
        if not (rule.tool.startswith("mcp_") or any(fnmatchcase(name, rule.tool) for name in tools)):
            near = nearest(rule.tool, tools)
            text = _('tools.policy.rules: no tool is named "{tool}", so the rule never counts.', tool=rule.tool)
            found.append(sentences(text, _('Did you mean "{name}"?', name=near) if near else ""))
    return found


def no_channel(loaded: Loaded, paths: Paths) -> str:
    """Why there is no channel that a gateway could serve, and what to do."""
    reason = loaded.disabled.get("channels.telegram")
    return _(_CHANNEL_OFF, reason=reason) if reason else _(_NO_CHANNEL, path=paths.config)


def health_file(config: Config, paths: Paths) -> Path:
    """Where the gateway says how it is."""
    named = config.gateway.health_file
    return Path(named).expanduser() if named else paths.home / "gateway.json"
