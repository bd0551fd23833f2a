"""`nanobot usage`: what was spent, by what, and what of the budget that is. Asks no model, and no gateway need run."""

import argparse
import json
from contextlib import closing
from datetime import tzinfo
from functools import partial

from msgspec.structs import asdict

from nanobot.cli.agent_command import Setup
from nanobot.cli.commands.home import answer
from nanobot.cli.terminal import say
from nanobot.command.usage import Report, overview, raised, report_of, wish_of
from nanobot.messages import Usage
from nanobot.money.budget import Budget
from nanobot.session.ledger import Ledger
from nanobot.utils.host import midnight_in, zone_of
from nanobot.utils.searchusage import SearchUsageInfo, usage_lines
from nanobot.web.usage import NO_BUDGET, RequestBudget, UsageLedger


def run_usage(args: argparse.Namespace) -> int:
    """Print what was spent, or allow more today; the exit code."""

    async def said(setup: Setup, ledger: Ledger) -> int | str:
        zone = zone_of(setup.loaded.config.agents.defaults.timezone, setup.env)
        midnight, words = partial(midnight_in, zone), " ".join(args.words)
        budget = Budget(setup.loaded.config, ledger, midnight)
        if args.words[:1] == ["raise"]:
            return await raised(budget, words.partition(" ")[2])
        engines = _engines(setup, zone)
        if words or args.json:
            report = await report_of(ledger.sessions, wish_of(words), midnight())
            if not args.json:
                return report.text
            say(json.dumps(_data(report, await budget.overview(), engines), indent=2, default=str))
            return 0
        told = await overview(ledger.sessions, budget, midnight())
        return "\n".join([told, *(["", usage_lines(engines)] if engines else [])])

    return answer(args, said)


def _engines(setup: Setup, zone: tzinfo) -> list[SearchUsageInfo]:
    """What search engines were asked, and how many requests each is allowed."""
    own = setup.loaded.config.tools.web.search.providers
    caps = {name: RequestBudget(one.budget_per_day, one.budget_per_month) for name, one in own.items()}
    with closing(UsageLedger(setup.paths.home / "usage.db", zone=zone)) as searches:
        return [searches.seen(name, caps.get(name, NO_BUDGET)) for name in searches.asked()]


def _data(report: Report, budget: str, engines: list[SearchUsageInfo]) -> dict[str, object]:
    return {
        "period": report.wish.period,
        "since": report.since.isoformat(),
        "by": report.wish.by,
        "total": _figures(report.total),
        "groups": [{"name": name, **_figures(usage)} for name, usage in report.groups],
        "budget": budget,
        "searches": [asdict(one) for one in engines],
    }


def _figures(usage: Usage) -> dict[str, object]:
    """Tokens, and money to a millionth of a USD."""
    figures = {name.replace("cache_write", "cacheWrite"): value for name, value in asdict(usage).items()}
    rate = round(usage.cached / usage.input, 4) if usage.input else 0.0
    return {**figures, "cost": round(usage.cost, 6), "cacheHitRate": rate}
