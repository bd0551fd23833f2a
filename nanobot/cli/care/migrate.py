"""`nanobot import`: what another program has kept, shown line by line, and taken as far as its owner wants.

Asks no model. The other home is only read.
"""

import argparse
import asyncio
import os
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from nanobot.cli.agent_command import Setup, set_up
from nanobot.cli.commands.home import own_ledger
from nanobot.cli.options import FAILED
from nanobot.cli.terminal import agreed, ask, say, somebody_is_here
from nanobot.config.edit import ConfigFile
from nanobot.errors import NanobotError, UsageError
from nanobot.migrate.find import homes_there, named_home, read_home
from nanobot.migrate.home import Program
from nanobot.migrate.plan import KINDS, ImportItem, ImportKind, ImportPlan, ImportTarget, plan_of
from nanobot.schedule.appointments import appointments_of
from nanobot.utils.text import nearest
from nanobot.utils.translation import N_, _, listed, sentences, yes_or_no

_NONE = N_(
    "No home of another program was found: neither ~/.nanobot of the nanobot family, nor "
    "~/.hermes, ~/.openclaw, ~/.clawdbot or ~/.moltbot. A folder can be named: nanobot "
    "import FOLDER."
)
_TITLES: dict[ImportKind, str] = {
    "config": N_("Configuration"),
    "secrets": N_("Secrets (their values are never shown)"),
    "files": N_("Files"),
    "sessions": N_("Conversations"),
    "schedules": N_("Schedules"),
    "skills": N_("Skills"),
}
#: Lines of one kind that are shown.
_SHOWN = 40


def run_import(args: argparse.Namespace) -> int:
    """Show what would be taken, and take what is chosen; the exit code."""
    setup = set_up(args, os.environ)
    if setup.loaded.config.gateway.ledger:
        raise UsageError(_("Many gateways share a database here (gateway.ledger), into which nothing is imported."))
    only = _kinds(args.only)
    program, folder = _home(args.home, setup)
    return asyncio.run(_import(setup, args, program, folder, only))


async def _import(
    setup: Setup, args: argparse.Namespace, program: Program, folder: Path, only: frozenset[ImportKind]
) -> int:
    home = await asyncio.to_thread(read_home, program, folder)
    async with own_ledger(setup.paths) as ledger:
        zone = setup.loaded.config.agents.defaults.timezone
        times = appointments_of(ledger, setup.paths.home, zone, setup.env)
        config = ConfigFile(setup.paths.config, setup.env)
        plan = await plan_of(home, ImportTarget(config, setup.paths, ledger.sessions, times))
        say(_("{program} in {folder}, which is only read:", program=program, folder=folder))
        _preview(plan, only)
        if args.dry_run:
            return 0
        wanted = await _wanted(plan, only, args)
        code = await _take(plan.chosen(wanted))
        if "config" in wanted and "secrets" not in wanted and plan.chosen(frozenset({"secrets"})):
            say(_("Without the secrets some of it may not work: `nanobot config check` says what is still missing."))
        return code


def _home(word: str, setup: Setup) -> tuple[Program, Path]:
    """The home that is meant. Raises `UsageError` where it has to be named."""
    if word:
        return named_home(word, setup.env, setup.paths.home)
    found = homes_there(setup.env, setup.paths.home)
    if not found:
        raise UsageError(_(_NONE))
    if len(found) > 1:
        homes = listed(f"{program} ({folder})" for program, folder in found)
        raise UsageError(
            _("There are several homes: {homes}. Name one: nanobot import {first}", homes=homes, first=found[0][0])
        )
    return found[0]


def _kinds(text: str) -> frozenset[ImportKind]:
    """The kinds that are named; all of them but secrets, which are named by themselves, for an empty text."""
    found: list[ImportKind] = []
    for word in text.replace(",", " ").split():
        kind = next((one for one in KINDS if one == word.casefold()), None)
        if kind is None:
            near = nearest(word, KINDS)
            hint = _("Did you mean {near!r}?", near=near) if near else ""
            told = _("There is no kind {word!r}: {kinds}.", word=word, kinds=", ".join(KINDS))
            raise UsageError(sentences(told, hint))
        found.append(kind)
    return frozenset(found or [one for one in KINDS if one != "secrets"])


def _preview(plan: ImportPlan, only: frozenset[ImportKind]) -> None:
    for kind in KINDS:
        items = [one for one in plan.items if one.kind == kind and (kind in only or kind == "secrets")]
        new = [one for one in items if not one.there]
        if not items:
            continue
        say(f"\n{_head(kind, len(new), len(items) - len(new))}")
        for one in new[:_SHOWN]:
            say(f"  {one.line}")
        if len(new) > _SHOWN:
            say(_("  and {number} more", number=len(new) - _SHOWN))
    if plan.left:
        say(_("\nNot taken:"))
        for what, why in plan.left:
            say(_("  {what}: {why}", what=what, why=why))
    say("")


def _head(kind: ImportKind, new: int, there: int) -> str:
    title = _(_TITLES[kind])
    if there:
        return _("{title}: {new} new ({there} here already)", title=title, new=new, there=there)
    return _("{title}: {new} new", title=title, new=new)


async def _wanted(plan: ImportPlan, only: frozenset[ImportKind], args: argparse.Namespace) -> frozenset[ImportKind]:
    """The kinds that the owner says yes to. Raises `UsageError` where nobody can be asked."""
    if args.yes:
        return only | {"secrets"} if args.secrets else only
    if not somebody_is_here():
        raise UsageError(_("Nobody can be asked here. Give --yes to take what is new, and --secrets for keys too."))
    wanted: frozenset[ImportKind] = frozenset()
    if plan.chosen(only):
        names = " ".join(one for one in KINDS if one in only)
        answer = await asyncio.to_thread(
            ask, _("Take this? y takes all of it; or name kinds ({names}); Enter takes nothing: ", names=names)
        )
        said = yes_or_no(answer)
        wanted = only if said == "yes" else _kinds(answer) & only if answer and said != "no" else wanted
    secrets = len(plan.chosen(frozenset({"secrets"})))
    place = args.config or "config.json"
    question = _("Take the {number} secrets into {place} too? y, or Enter: ", number=secrets, place=place)
    if secrets and await asyncio.to_thread(agreed, question):
        wanted |= {"secrets"}
    return wanted


async def _take(items: Sequence[ImportItem]) -> int:
    """Do what was chosen, one after the other, and say what came of it; the exit code."""
    done: Counter[ImportKind] = Counter()
    failed = 0
    for one in items:
        try:
            await one.act()
        except NanobotError as error:
            failed += 1
            say(_("Not taken: {line}: {error}", line=one.line, error=error))
        else:
            done[one.kind] += 1
    told = listed(f"{kind} {done[kind]}" for kind in KINDS if done[kind]) or _("nothing")
    say(_("Taken: {told}. The other home is as it was; importing again takes only what is new.", told=told))
    if done["schedules"]:
        say(_("Schedules are paused, because the other program may still keep them: `nanobot schedule` shows them."))
    if done["skills"]:
        say(_("Skills count when you have said yes to them: `nanobot skill list`, then `nanobot skill show NAME`."))
    return FAILED if failed else 0
