"""`nanobot people`, `nanobot permissions` and `nanobot schedule`: who may talk on Telegram, what each may do, what the
owner has allowed for good, and what comes at set times. Ask no model, and no gateway need run."""

import argparse
import asyncio
import os
import re
from collections.abc import Awaitable, Callable, Coroutine

from nanobot.agent.work.watches import watches_of
from nanobot.builder.values import no_channel
from nanobot.bus.events import TERMINAL, InboundMessage, Sender
from nanobot.channels.telegram.access.rights import rights_of
from nanobot.cli.agent_command import Setup, set_up
from nanobot.cli.commands.home import judge_alone, own_ledger, show
from nanobot.command.builtin import permissions_text
from nanobot.config.paths import PEOPLE
from nanobot.errors import UsageError
from nanobot.schedule.appointments import Appointments, Who, appointments_of
from nanobot.session.ledger import Ledger
from nanobot.session.permissions import Permissions
from nanobot.utils.translation import _

#: Commands of a chat that a shell has too.
_SLASH = re.compile(r"`/(schedule|watch|usage|people|invite|permissions|sessions|help)\b")


def run_people(args: argparse.Namespace) -> int:
    """Print who may talk, or what became of a change; the exit code."""
    setup = set_up(args, os.environ)
    if not setup.loaded.config.channels.telegram.token:
        raise UsageError(no_channel(setup.loaded, setup.paths))
    judge_alone(setup, "/people")

    def said(ledger: Ledger) -> Awaitable[str]:
        rights = rights_of(setup.loaded.config, setup.env, ledger, setup.paths.workspace / PEOPLE)
        if args.words[:1] == ["invite"]:
            return rights.invite(" ".join(args.words[1:]), drawn=True)
        return rights.people(" ".join(args.words))

    return _print(setup, said)


def run_permissions(args: argparse.Namespace) -> int:
    """List what is allowed for good, or take back the one that is named; the exit code."""
    setup = set_up(args, os.environ)
    judge_alone(setup, "/permissions")
    if args.action == "remove" and not args.id:
        raise UsageError(_("Name what to take back: nanobot permissions remove ID, or all."))
    wanted = args.id if args.action == "remove" else ""
    return _print(setup, lambda ledger: permissions_text(Permissions(ledger), wanted))


def run_schedule(args: argparse.Namespace) -> int:
    """Show what comes at set times, or change it; the exit code."""
    setup = set_up(args, os.environ)
    judge_alone(setup, "/schedule")
    who = Who("terminal:local", TERMINAL.key, "owner")
    return _print(setup, lambda ledger: _appointments(setup, ledger).say(" ".join(args.words), who))


def run_watch(args: argparse.Namespace) -> int:
    """Show what is watched, or change it; the exit code."""
    setup = set_up(args, os.environ)
    judge_alone(setup, "/watch")
    owner, words = InboundMessage(TERMINAL, Sender("local", role="owner"), ""), " ".join(args.words)
    return _print(setup, lambda ledger: watches_of(_appointments(setup, ledger), ledger.database).say(owner, words))


def _appointments(setup: Setup, ledger: Ledger) -> Appointments:
    return appointments_of(ledger, setup.paths.home, setup.loaded.config.agents.defaults.timezone, setup.env)


def _print(setup: Setup, said: Callable[[Ledger], Awaitable[str]]) -> int:
    """Print what is said of the ledger of this home, as Markdown."""

    async def run() -> str:
        async with own_ledger(setup.paths) as ledger:
            return await said(ledger)

    write(setup, run)
    return 0


def write(setup: Setup, said: Callable[[], Coroutine[None, None, str]]) -> None:
    """Print Markdown in which commands stand as they are typed in a shell. Raises `UsageError`, in such words too."""
    try:
        text = asyncio.run(said())
    except UsageError as error:
        raise UsageError(in_shell(str(error))) from None
    show(in_shell(text), setup)


def in_shell(text: str) -> str:
    """What is said in a chat, with its commands as they are typed in a shell."""
    return _SLASH.sub(lambda found: f"`nanobot {'people ' * (found[1] == 'invite')}{found[1]}", text)
