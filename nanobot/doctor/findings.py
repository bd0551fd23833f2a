"""What a check has found: one line with what is the matter, and one with what to do.

A check never raises for what it looks at: a fault is its finding. One that takes too long is a finding that says so.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Literal

from loguru import logger
from msgspec import Struct
from msgspec.structs import replace

from nanobot.errors import NanobotError
from nanobot.utils.logs import scrub
from nanobot.utils.text import shorten, squeeze
from nanobot.utils.translation import N_, _, listed

#: `ok`: nothing to do. `warn`: it works, but not as it should. `bad`: something does not work. `off`: not used, or not
#: tried, and why.
State = Literal["ok", "warn", "bad", "off"]
Network = Literal["", "reached", "unreached"]
#: What stands before a finding.
MARKS: Mapping[State, str] = {"ok": "✓", "warn": "!", "bad": "✗", "off": "-"}
#: Seconds that one check may take.
CHECK_SECONDS = 8.0
_CHARS = 400
#: How the names of findings begin.
NAMES = (
    N_("Budget"), N_("Clock"), N_("Configuration"), N_("DNS"), N_("Database"), N_("Disk"), N_("Gateway"), N_("IPv6"),
    N_("Library"), N_("Local context"), N_("Locale"), N_("MCP"), N_("Model"), N_("Network"), N_("Not tried"),
    N_("Permissions"), N_("Pictures"), N_("Proxy"), N_("Sandbox"), N_("Schedule"), N_("Search"), N_("Telegram message"),
    N_("Telegram token"), N_("Telegram updates"), N_("Terminal"), N_("Time zone"), N_("Versions"),
    N_("Voice"), N_("DNS and IPv6"), N_("Question"),
)  # fmt: skip


class Finding(Struct, frozen=True):
    """`words` say what was found and `fix` what to do, each in one line; `fix` is empty where nothing is to be done.

    `error` is the kind of error of a model that refused. `network` tells whether a server elsewhere answered; it is
    empty where none was asked.
    """

    name: str
    state: State
    words: str
    fix: str = ""
    error: str = ""
    network: Network = ""

    @property
    def title(self) -> str:
        """The name as a person reads it; `name` is the same in every language."""
        kind, mark, one = self.name.partition(": ")
        kind = _(kind) if kind in NAMES else kind
        return _("{name}: {words}", name=kind, words=one) if mark else kind

    @property
    def lines(self) -> list[str]:
        """As a person reads it in a terminal."""
        told = [f"{MARKS[self.state]} {_('{name}: {words}', name=self.title, words=self.words)}"]
        return [*told, f"    → {self.fix}"] if self.fix else told

    @property
    def markdown(self) -> str:
        """As a person reads it in a chat."""
        fix = f"\n  → {self.fix}" if self.fix else ""
        told = _("{name}: {words}", name=f"**{self.title}**", words=self.words)
        return f"- {MARKS[self.state]} {told}{fix}"


def ok(words: str) -> Finding:
    """A finding of a check, which gives it its name: nothing is to be done."""
    return Finding("", "ok", words)


def warn(words: str, fix: str) -> Finding:
    """It works, but not as it should."""
    return Finding("", "warn", words, fix)


def bad(words: str, fix: str, network: Network = "") -> Finding:
    """Something does not work."""
    return Finding("", "bad", words, fix, network=network)


def off(words: str, fix: str = "") -> Finding:
    """It is not used, or not tried, and why."""
    return Finding("", "off", words, fix)


#: A check, with the name under which its findings stand that have none of their own.
Check = tuple[str, Callable[[], Awaitable[Finding | Sequence[Finding]]]]


def one_line(text: str) -> str:
    """The text of an error for a finding: in one line, without secrets, not too long, without its last full stop."""
    return shorten(squeeze(scrub(text)), _CHARS).rstrip(".。")


async def bounded(name: str, check: Awaitable[Finding | Sequence[Finding]], seconds: float) -> list[Finding]:
    """What a check finds within so many seconds; else that it was too slow."""
    try:
        async with asyncio.timeout(seconds):
            found = await check
    except TimeoutError:
        words, fix = (
            _("no answer within {seconds:.0f} s", seconds=seconds),
            _("Run it again; if it stays so, look at what it asks."),
        )
        return [Finding(name, "warn", words, fix)]
    except (NanobotError, OSError) as error:
        return [Finding(name, "bad", one_line(str(error)) or type(error).__name__)]
    except Exception as error:  # noqa: BLE001 - a check that breaks is a finding, and the others go on
        logger.opt(exception=error).warning("the check {} broke", name)
        fix = _("This is a fault of nanobot itself: the log shows where.")
        return [
            Finding(
                name,
                "bad",
                _("the check itself broke ({error})", error=one_line(f"{type(error).__name__}: {error}")),
                fix,
            )
        ]
    some = [found] if isinstance(found, Finding) else found
    return [one if one.name else replace(one, name=name) for one in some]


async def findings_of(checks: Iterable[Check]) -> list[Finding]:
    """What all checks find, run beside each other, in their order."""
    found = await asyncio.gather(*(bounded(name, make(), CHECK_SECONDS) for name, make in checks))
    return [one for some in found for one in some]


def said_once(found: Sequence[Finding]) -> list[Finding]:
    """One finding in place of those that all say that there is no network, and of each that another one holds."""
    told = [one.words for one in found if one.state == "bad"]
    found = [one for one in found if one.network or not any(one.words in words != one.words for words in told)]
    lost = [one for one in found if one.network == "unreached"]
    if len(lost) < 2 or any(one.network == "reached" for one in found):
        return found
    names = listed(one.title for one in lost)
    words = _(
        "nothing outside this machine answers ({words}); so it is with: {names}", words=lost[0].words, names=names
    )
    fix = _("Check the connection of this machine, its DNS and its proxy, then run it again.")
    return [Finding("Network", "bad", words, fix), *(one for one in found if one not in lost)]


def exit_code(found: Iterable[Finding]) -> int:
    """0 where all is well, 1 for warnings, 2 where something does not work."""
    states = {one.state for one in found}
    return 2 if "bad" in states else 1 if "warn" in states else 0
