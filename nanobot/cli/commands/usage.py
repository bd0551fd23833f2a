"""`nanobot usage`: what was spent, by what, and what of the budget that is. Asks no model, and no gateway need run."""

import argparse
import asyncio
import json
import os
import sys
from contextlib import closing
from functools import partial

from msgspec.structs import asdict

from nanobot.cli.agent_command import Setup, set_up
from nanobot.cli.commands.home import judge_alone, own_ledger
from nanobot.cli.commands.people import write
from nanobot.command.usage import Report, Wish, overview, raised, report_of, wish_of
from nanobot.messages import Usage
from nanobot.money.budget import Budget
from nanobot.utils.host import midnight_in, zone_of
from nanobot.utils.searchusage import SearchUsageInfo, usage_lines
from nanobot.web.usage import NO_BUDGET, RequestBudget, UsageLedger


def run_usage(args: argparse.Namespace) -> int:
    """Print what was spent, or allow more today; the exit code."""
    setup = set_up(args, os.environ)
    judge_alone(setup, "/usage")
    if args.json:
        sys.stdout.write(f"{asyncio.run(_told(setup, args.words, as_json=True))}\n")
    else:
        write(setup, lambda: _told(setup, args.words))
    return 0


async def _told(setup: Setup, words: list[str], *, as_json: bool = False) -> str:
    """Markdown, or one JSON object. Raises `UsageError`."""
    config, paths = setup.loaded.config, setup.paths
    zone = zone_of(config.agents.defaults.timezone, setup.env)
    midnight = partial(midnight_in, zone)

    async with own_ledger(paths) as ledger:
        budget = Budget(config, ledger, midnight)
        if words[:1] == ["raise"]:
            return await raised(budget, " ".join(words[1:]))
        if as_json:
            report = await report_of(ledger.sessions, wish_of(" ".join(words)), midnight())
            return json.dumps(_data(report, await budget.overview(), _engines(setup)), indent=2, default=str)
        if words:
            return (await report_of(ledger.sessions, wish_of(" ".join(words)), midnight())).text
        told, engines = await overview(ledger.sessions, budget, midnight()), _engines(setup)
        return "\n".join([told, *(["", usage_lines(engines)] if engines else [])])


def _engines(setup: Setup) -> list[SearchUsageInfo]:
    """What search engines were asked, and how many requests each is allowed."""
    own = setup.loaded.config.tools.web.search.providers
    caps = {name: RequestBudget(one.budget_per_day, one.budget_per_month) for name, one in own.items()}
    zone = zone_of(setup.loaded.config.agents.defaults.timezone, setup.env)
    with closing(UsageLedger(setup.paths.home / "usage.db", zone=zone)) as searches:
        return [searches.seen(name, caps.get(name, NO_BUDGET)) for name in searches.asked()]


def _data(report: Report, budget: str, engines: list[SearchUsageInfo]) -> dict[str, object]:
    wish: Wish = report.wish
    return {
        "period": wish.period,
        "since": report.since.isoformat(),
        "by": wish.by,
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
