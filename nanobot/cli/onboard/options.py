"""What options say of setting up, for scripts: each is tried like an answer, and nothing is written that fails."""

import argparse
import asyncio
from collections.abc import Mapping

from msgspec.structs import replace

from nanobot.cli.onboard.chat import bot_changes, bot_in_words, usual_zone, zone_changes
from nanobot.cli.onboard.plans import NO_MODEL, ModelPlan, found_models, model_in_words
from nanobot.cli.onboard.settings import Change, Settings
from nanobot.doctor.findings import Finding
from nanobot.errors import TemporaryError, UsageError
from nanobot.providers.vendors import BY_NAME, unsupported, vendor_of
from nanobot.utils.text import nearest
from nanobot.utils.translation import _, listed, sentences

_BOT_VARIABLE = "TELEGRAM_BOT_TOKEN"


def missing_options(args: argparse.Namespace) -> Mapping[str, str]:
    """The questions that no option answers, each with the options that would."""
    model = args.model or args.provider or args.api_key_env or args.api_base or args.no_model
    bot, zone = args.telegram_token_env or args.no_telegram, args.time_zone
    found = {
        "model": "" if model else _("--model NAME, --provider NAME with --api-key-env VARIABLE, or --no-model"),
        "bot": "" if bot else _("--telegram-token-env VARIABLE or --no-telegram"),
        "zone": "" if zone else _("--time-zone ZONE such as Europe/Berlin"),
    }
    return {name: said for name, said in found.items() if said}


def apply(settings: Settings, args: argparse.Namespace) -> list[str]:
    """Try what the options say and write it in one step; lines on what was found.

    With `--yes` what they do not say is taken as it is found. Raises `UsageError`, and `TemporaryError` where a service
    cannot be reached; nothing is written then.
    """
    missing = missing_options(args)
    changes: list[Change] = []
    lines: list[str] = []
    plan = _model(settings, args) if "model" not in missing else _found_model(settings) if args.yes else None
    if plan is not None:
        changes += plan.changes(settings)
        if plan.provider != "lookup" and not args.untried:
            finding, info = asyncio.run(settings.try_model(changes))
            lines += _judged(finding if info is not None else replace(finding, fix=""))
            if info is not None and not plan.model:
                changes = replace(plan, model=info.model).changes(settings)
    if args.telegram_api_base:
        changes.append((("channels", "telegram", "apiBase"), args.telegram_api_base))
    bot = _bot(settings, args) if "bot" not in missing or args.yes else []
    if bot and not args.untried:
        lines += [line for finding in asyncio.run(settings.try_bot([*changes, *bot])) for line in _judged(finding)]
    changes += [*bot, *_zone(settings, args)]
    if changes:
        settings.write(changes)
    return lines


def _judged(finding: Finding) -> list[str]:
    """The lines of a finding. Raises where it says that this does not work."""
    if finding.state != "bad":
        return finding.lines
    said = sentences(
        _("{problem}.", problem=finding.words.rstrip(".。")),
        finding.fix,
        _("Nothing was written; --untried writes without a try."),
    )
    raise TemporaryError(said) if finding.network == "unreached" else UsageError(said)


def _model(settings: Settings, args: argparse.Namespace) -> ModelPlan:
    if args.no_model:
        return NO_MODEL
    name = args.provider or ("custom" if args.api_base else "")
    vendor = vendor_of(name) if name else None
    if name and vendor is None:
        near = nearest(name, BY_NAME)
        known = _("Known: {names}.", names=listed(BY_NAME))
        why = unsupported(name) or (_("Did you mean {near!r}?", near=near) if near else known)
        raise UsageError(_("There is no provider {name!r}. {why}", name=name, why=why))
    key = _variable(settings, args.api_key_env, "--api-key-env") if args.api_key_env else ""
    if vendor is None and key:
        vendor = next((one for one in BY_NAME.values() if args.api_key_env in one.keys), None)
        if vendor is None:
            said = _("Whose key {variable} holds is not known. Name it with --provider.", variable=args.api_key_env)
            raise UsageError(said)
    if vendor is not None and args.api_key_env in vendor.keys:
        key = ""  # it is looked for under this name anyway
    return ModelPlan("", vendor.name if vendor else "", args.model or "", key, args.api_base or "")


def _found_model(settings: Settings) -> ModelPlan | None:
    """What is found, where the configuration says nothing yet."""
    return None if model_in_words(settings) else next(iter(asyncio.run(found_models(settings))), None)


def _bot(settings: Settings, args: argparse.Namespace) -> list[Change]:
    if args.telegram_token_env:
        return bot_changes(_variable(settings, args.telegram_token_env, "--telegram-token-env"))
    if args.no_telegram:
        return [(("channels", "telegram", "enabled"), False)] if bot_in_words(settings) else []
    there = settings.env.get(_BOT_VARIABLE, "").strip() and not bot_in_words(settings)
    return bot_changes(f"${{{_BOT_VARIABLE}}}") if there else []


def _zone(settings: Settings, args: argparse.Namespace) -> list[Change]:
    if not (args.time_zone or args.yes):
        return []
    try:
        return zone_changes(args.time_zone or usual_zone(settings))
    except ValueError as error:
        raise UsageError(f"--time-zone {args.time_zone}: {error}.") from None


def _variable(settings: Settings, name: str, option: str) -> str:
    """`${NAME}` for a variable that is set. Raises `UsageError` for another one."""
    if not settings.env.get(name, "").strip():
        raise UsageError(_("{option}: the environment variable {name} is not set.", option=option, name=name))
    return f"${{{name}}}"


def told(settings: Settings) -> str:
    """What is set up, in lines."""
    model = model_in_words(settings) or _("whatever key or local server there is, else none")
    off = sorted(settings.loaded.disabled.items())
    return "\n".join(
        (
            _("Set up in {file}:", file=settings.paths.config),
            _("- model: {model}", model=model),
            _("- Telegram: {bot}", bot=bot_in_words(settings) or _("not set up")),
            _("- time zone: {zone}", zone=usual_zone(settings)),
            *(_("- switched off: {key}: {reason}", key=key, reason=reason) for key, reason in off),
        )
    )
