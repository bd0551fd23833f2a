"""The second and the third question: a bot on Telegram, and the time zone."""

import asyncio
import re
from datetime import datetime
from zoneinfo import ZoneInfo, available_timezones

from nanobot.cli.onboard.settings import Change, Settings
from nanobot.cli.onboard.talk import Talk
from nanobot.config.schema import check_timezone, zone_near
from nanobot.errors import NanobotError
from nanobot.utils.host import zone_of
from nanobot.utils.translation import N_, _, month_of, weekday_of, yes_or_no

_TELEGRAM = ("channels", "telegram")
_ZONE = ("agents", "defaults", "timezone")
_VARIABLE = "TELEGRAM_BOT_TOKEN"
_TOKEN = re.compile(r"\b\d{5,}:[\w-]{20,}")
_HOW = N_(
    "On your phone, write `/newbot` to @BotFather on Telegram: it asks for a name and gives you a token such as "
    "`123456789:AAE…`. Paste it here; it is not shown."
)
_NOT_NOW, _OFF = ("", "no", "n", "skip", "not now", "later"), ("off", "none", "remove")


def bot_changes(token: str) -> list[Change]:
    """What is to be written for a bot with this token."""
    return [((*_TELEGRAM, "enabled"), True), ((*_TELEGRAM, "token"), token)]


def ask_bot(settings: Settings, talk: Talk) -> None:
    """Ask for a token until one works, is kept untried, or none is wanted; what is chosen is written."""
    kept = bot_in_words(settings)
    there = not kept and bool(settings.env.get(_VARIABLE, "").strip())
    if kept:
        there_is = N_("There is {bot}. Enter keeps it, `off` switches it off; or paste the token of another one.")
        talk.say(_(there_is, bot=kept))
    else:
        usual = _("Enter takes {variable} of the environment, `no`: not now.", variable=_VARIABLE)
        talk.say(_("{how} {usual}", how=_(_HOW), usual=usual if there else _("Enter: not now.")))
    while True:
        answer = talk.ask(hide="keys")
        if there and not answer:
            token = f"${{{_VARIABLE}}}"
        elif answer.casefold() in _OFF and kept:
            settings.write([((*_TELEGRAM, "enabled"), False)])
            talk.say(_("Telegram is switched off. The token stays in the configuration."))
            return
        elif yes_or_no(answer) == "no" or answer.casefold() in {*_NOT_NOW, *_OFF}:
            if not kept:
                talk.note(_("Not now, then. nanobot onboard asks again."))
            return
        else:
            found = _TOKEN.search(answer)  # also in the whole message of @BotFather
            token = found[0] if found else "".join(answer.split())
        if _bot_settled(settings, talk, bot_changes(token)):
            return
        there = False
        talk.say(_("Paste the token again, or press Enter to go on without a change."))


def bot_in_words(settings: Settings) -> str:
    """What the configuration says of a bot, for a line; empty where none is switched on."""
    telegram = settings.loaded.config.channels.telegram
    if "channels.telegram" in settings.loaded.disabled:
        return ""
    number = telegram.token.partition(":")[0]
    return _("the bot {number}", number=number) if telegram.enabled and telegram.token else ""


def _bot_settled(settings: Settings, talk: Talk, changes: list[Change]) -> bool:
    try:
        found = asyncio.run(settings.try_bot(changes))
    except NanobotError as error:
        talk.say(str(error))
        return False
    for finding in found:
        talk.say("\n".join(finding.lines))
    if found[0].state == "bad" and found[0].network != "unreached":
        return False
    if found[0].state == "bad" and not talk.agreed(_("Keep the token all the same? y keeps it; Enter asks again.")):
        return False
    settings.write(changes)
    return True


def usual_zone(settings: Settings) -> str:
    """The zone of the configuration, else that of the system by its IANA name, else UTC."""
    zone = zone_of(settings.loaded.config.agents.defaults.timezone, settings.env)
    return zone.key if isinstance(zone, ZoneInfo) and zone.key else "UTC"


def zone_changes(name: str) -> list[Change]:
    """What is to be written for a time zone. Raises `ValueError` with the nearest name for one that is none."""
    return [(_ZONE, check_timezone(name))]


def ask_zone(settings: Settings, talk: Talk) -> None:
    """Ask for the time zone until it is one, and write it."""
    usual = usual_zone(settings)
    talk.say(_("Where are you? Reminders and “today” need it. Write it as Europe/Berlin, or name a large city."))
    names = sorted(available_timezones(), key=lambda name: (name.count("/") != 1, name))
    while True:
        answer = talk.ask(usual, names)
        wanted = answer.casefold().replace(" ", "_")
        near = zone_near(answer)
        same = near if near.casefold().endswith(f"/{wanted}") else ""
        name = next((one for one in names if one.casefold() == wanted), same)
        if not name:
            usual = near or usual
            meant = _("There is no time zone {zone!r}. Did you mean {near}? Enter takes it.", zone=answer, near=near)
            none = _("There is no time zone {zone!r}. Name the nearest large city; Tab completes.", zone=answer)
            talk.say(meant if near else none)
            continue
        settings.write(zone_changes(name))
        talk.say(_time_in(name))
        return


def _time_in(zone: str) -> str:
    now = datetime.now(ZoneInfo(zone))
    return _(
        "✓ Time zone: in {zone} it is {time:%H:%M}, on {weekday} {time:%d} {month} {time:%Y}.",
        zone=zone,
        time=now,
        weekday=weekday_of(now),
        month=month_of(now),
    )
