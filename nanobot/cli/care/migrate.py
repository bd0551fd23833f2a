"""`nanobot import`: what another program has kept, shown line by line, and taken as far as its owner wants.

Asks no model. The other home is only read.
"""

import argparse
import asyncio
import os
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from nanobot.cli.agent_command import Setup, set_up
from nanobot.cli.options import FAILED
from nanobot.config.edit import ConfigFile
from nanobot.errors import NanobotError, UsageError
from nanobot.migrate.find import homes_there, named_home, read_home
from nanobot.migrate.home import Program
from nanobot.migrate.plan import KINDS, ImportItem, ImportKind, ImportPlan, ImportTarget, plan_of
from nanobot.schedule.appointments import appointments_of
from nanobot.session.ledger import Ledger
from nanobot.session.sqlite import SqliteDatabase
from nanobot.utils.text import nearest, printable

_NONE = (
    "No home of another program was found: neither ~/.nanobot of the nanobot family, nor ~/.hermes, ~/.openclaw, "
    "~/.clawdbot or ~/.moltbot. A folder can be named: nanobot import FOLDER."
)
_TITLES: dict[ImportKind, str] = {
    "config": "Configuration",
    "secrets": "Secrets (their values are never shown)",
    "files": "Files",
    "sessions": "Conversations",
    "schedules": "Schedules",
    "skills": "Skills",
}
#: Lines of one kind that are shown.
_SHOWN = 40


def run_import(args: argparse.Namespace) -> int:
    """Show what would be taken, and take what is chosen; the exit code."""
    setup = set_up(args, os.environ)
    if setup.loaded.config.gateway.ledger:
        raise UsageError("Many gateways share a database here (gateway.ledger), into which nothing is imported.")
    only = _kinds(args.only)
    program, folder = _home(args.home, setup)
    return asyncio.run(_import(setup, args, program, folder, only))


async def _import(
    setup: Setup, args: argparse.Namespace, program: Program, folder: Path, only: frozenset[ImportKind]
) -> int:
    home = await asyncio.to_thread(read_home, program, folder)
    ledger = Ledger(SqliteDatabase(setup.paths.database))
    try:
        zone = setup.loaded.config.agents.defaults.timezone
        times = appointments_of(ledger, setup.paths.home, zone, setup.env)
        config = ConfigFile(setup.paths.config, setup.env)
        plan = await plan_of(home, ImportTarget(config, setup.paths, ledger.sessions, times))
        _say(f"{program} in {folder}, which is only read:")
        _preview(plan, only)
        if args.dry_run:
            return 0
        wanted = await _wanted(plan, only, args)
        code = await _take(plan.chosen(wanted))
        if "config" in wanted and "secrets" not in wanted and plan.chosen(frozenset({"secrets"})):
            _say("Without the secrets some of it may not work: `nanobot config check` says what is still missing.")
        return code
    finally:
        await ledger.aclose()


def _home(word: str, setup: Setup) -> tuple[Program, Path]:
    """The home that is meant. Raises `UsageError` where it has to be named."""
    if word:
        return named_home(word, setup.env, setup.paths.home)
    found = homes_there(setup.env, setup.paths.home)
    if not found:
        raise UsageError(_NONE)
    if len(found) > 1:
        listed = ", ".join(f"{program} ({folder})" for program, folder in found)
        raise UsageError(f"There are several homes: {listed}. Name one: nanobot import {found[0][0]}")
    return found[0]


def _kinds(text: str) -> frozenset[ImportKind]:
    """The kinds that are named; all of them but secrets, which are named by themselves, for an empty text."""
    found: list[ImportKind] = []
    for word in text.replace(",", " ").split():
        kind = next((one for one in KINDS if one == word.casefold()), None)
        if kind is None:
            near = nearest(word, KINDS)
            hint = f" Did you mean {near!r}?" if near else ""
            raise UsageError(f"There is no kind {word!r}: {', '.join(KINDS)}.{hint}")
        found.append(kind)
    return frozenset(found or [one for one in KINDS if one != "secrets"])


def _preview(plan: ImportPlan, only: frozenset[ImportKind]) -> None:
    for kind in KINDS:
        items = [one for one in plan.items if one.kind == kind and (kind in only or kind == "secrets")]
        new = [one for one in items if not one.there]
        there = f" ({len(items) - len(new)} here already)" if len(items) > len(new) else ""
        if not items:
            continue
        _say(f"\n{_TITLES[kind]}: {len(new)} new{there}")
        for one in new[:_SHOWN]:
            _say(f"  {one.line}")
        if len(new) > _SHOWN:
            _say(f"  and {len(new) - _SHOWN} more")
    if plan.left:
        _say("\nNot taken:")
        for what, why in plan.left:
            _say(f"  {what}: {why}")
    _say("")


async def _wanted(plan: ImportPlan, only: frozenset[ImportKind], args: argparse.Namespace) -> frozenset[ImportKind]:
    """The kinds that the owner says yes to. Raises `UsageError` where nobody can be asked."""
    asks = sys.stdin.isatty() and sys.stdout.isatty()
    if args.yes:
        return only | {"secrets"} if args.secrets else only
    if not asks:
        raise UsageError("Nobody can be asked here. Give --yes to take what is new, and --secrets for keys too.")
    wanted: frozenset[ImportKind] = frozenset()
    if plan.chosen(only):
        names = " ".join(one for one in KINDS if one in only)
        answer = await _ask(f"Take this? y takes all of it; or name kinds ({names}); Enter takes nothing: ")
        wanted = only if answer in {"y", "yes"} else _kinds(answer) & only if answer else wanted
    secrets = len(plan.chosen(frozenset({"secrets"})))
    if secrets and await _ask(f"Take the {secrets} secrets into {args.config or 'config.json'} too? y, or Enter: ") in {
        "y",
        "yes",
    }:
        wanted |= {"secrets"}
    return wanted


async def _ask(question: str) -> str:
    sys.stdout.write(printable(question))
    sys.stdout.flush()
    answer: str = await asyncio.to_thread(sys.stdin.readline)
    return answer.strip().casefold()


async def _take(items: Sequence[ImportItem]) -> int:
    """Do what was chosen, one after the other, and say what came of it; the exit code."""
    done: Counter[ImportKind] = Counter()
    failed = 0
    for one in items:
        try:
            await one.act()
        except NanobotError as error:
            failed += 1
            _say(f"Not taken: {one.line}: {error}")
        else:
            done[one.kind] += 1
    told = ", ".join(f"{kind} {done[kind]}" for kind in KINDS if done[kind]) or "nothing"
    _say(f"Taken: {told}. The other home is as it was; importing again takes only what is new.")
    if done["schedules"]:
        _say("Schedules are paused, because the other program may still keep them: `nanobot schedule` shows them.")
    if done["skills"]:
        _say("Skills count when you have said yes to them: `nanobot skill list`, then `nanobot skill show NAME`.")
    return FAILED if failed else 0


def _say(line: str) -> None:
    sys.stdout.write(printable(f"{line}\n"))
