"""`nanobot people`, `nanobot permissions` and `nanobot schedule`: who may talk on Telegram, what each may do, what the
owner has allowed for good, and what comes at set times. Ask no model, and no gateway need run."""

import argparse
from collections.abc import Awaitable

from nanobot.agent.work.watches import watches_of
from nanobot.builder.values import no_channel
from nanobot.bus.events import TERMINAL, InboundMessage, Sender
from nanobot.channels.telegram.access.rights import rights_of
from nanobot.cli.agent_command import Setup
from nanobot.cli.commands.home import answer
from nanobot.command.builtin import permissions_text
from nanobot.config.paths import PEOPLE
from nanobot.errors import UsageError
from nanobot.schedule.appointments import Appointments, Who, appointments_of
from nanobot.session.ledger import Ledger
from nanobot.session.permissions import Permissions
from nanobot.utils.translation import _


def run_people(args: argparse.Namespace) -> int:
    """Print who may talk, or what became of a change; the exit code."""

    def said(setup: Setup, ledger: Ledger) -> Awaitable[str]:
        if not setup.loaded.config.channels.telegram.token:
            raise UsageError(no_channel(setup.loaded, setup.paths))
        rights = rights_of(setup.loaded.config, setup.env, ledger, setup.paths.workspace / PEOPLE)
        if args.words[:1] == ["invite"]:
            return rights.invite(" ".join(args.words[1:]), drawn=True)
        return rights.people(" ".join(args.words))

    return answer(args, said)


def run_permissions(args: argparse.Namespace) -> int:
    """List what is allowed for good, or take back the one that is named; the exit code."""
    if args.action == "remove" and not args.id:
        raise UsageError(_("Name what to take back: nanobot permissions remove ID, or all."))
    wanted = args.id if args.action == "remove" else ""
    return answer(args, lambda _setup, ledger: permissions_text(Permissions(ledger), wanted))


def run_schedule(args: argparse.Namespace) -> int:
    """Show what comes at set times, or change it; the exit code."""
    who = Who("terminal:local", TERMINAL.key, "owner")
    return answer(args, lambda setup, ledger: _appointments(setup, ledger).say(" ".join(args.words), who))


def run_watch(args: argparse.Namespace) -> int:
    """Show what is watched, or change it; the exit code."""
    owner, words = InboundMessage(TERMINAL, Sender("local", role="owner"), ""), " ".join(args.words)

    def said(setup: Setup, ledger: Ledger) -> Awaitable[str]:
        return watches_of(_appointments(setup, ledger), ledger.database).say(owner, words)

    return answer(args, said)


def _appointments(setup: Setup, ledger: Ledger) -> Appointments:
    return appointments_of(ledger, setup.paths.home, setup.loaded.config.agents.defaults.timezone, setup.env)
