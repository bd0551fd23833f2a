"""`nanobot sessions`: the conversations of this home, listed, found, shown, named, exported, deleted.

Asks no model, and no gateway need run.
"""

import argparse
import asyncio
import sys
from collections.abc import Awaitable, Callable
from contextlib import closing
from pathlib import Path

from nanobot.archive.kept import KeptSessions, form_of, write_private
from nanobot.cli.agent_command import Setup
from nanobot.cli.commands.home import answer, show
from nanobot.cli.options import FAILED
from nanobot.cli.terminal import agreed, say
from nanobot.command.sessions import listing, search_text
from nanobot.errors import UsageError
from nanobot.library.forgotten import ForgottenFacts
from nanobot.library.index import LibraryIndex
from nanobot.library.session_search import SessionSearch
from nanobot.library.talk import Conversations
from nanobot.session.ledger import Ledger
from nanobot.session.listing import SessionEntry, SessionHolder, entries_of, entry_of
from nanobot.utils.host import zone_of
from nanobot.utils.text import one_line
from nanobot.utils.translation import _

#: The person at the terminal has this home, and sees what is theirs in it.
_OWNER = SessionHolder("")
#: Sessions that a list names where nobody wants all, and characters of a name.
_LISTED, _NAME = 30, 60


class _Home:
    """What the actions of the command need of a home."""

    def __init__(self, setup: Setup, ledger: Ledger) -> None:
        self.setup = setup
        self.store = ledger.sessions
        self.ledger = ledger
        self.zone = zone_of(setup.loaded.config.agents.defaults.timezone, setup.env)
        self._file = setup.paths.home / "index.db"
        self._index: LibraryIndex | None = None
        self.kept = KeptSessions(self.store, self.index, setup.paths, self.zone)

    def index(self) -> LibraryIndex:
        if self._index is None:
            self._index = LibraryIndex(self._file)
        return self._index

    async def entry(self, wanted: str) -> SessionEntry:
        """The session that is named. Raises `UsageError`."""
        return await entry_of(self.store, _OWNER, wanted)

    def close(self) -> None:
        if self._index is not None:
            self._index.close()


def run_sessions(args: argparse.Namespace) -> int:
    """Run one of list, search, show, name, export and delete; the exit code."""
    actions: dict[str, Callable[[_Home, argparse.Namespace], Awaitable[int | str]]] = {
        "list": _list,
        "search": _search,
        "show": _show,
        "name": _rename,
        "export": _export,
        "delete": _delete,
    }

    async def said(setup: Setup, ledger: Ledger) -> int | str:
        with closing(_Home(setup, ledger)) as home:
            return await actions[args.sessions_action](home, args)

    return answer(args, said)


async def _list(home: _Home, args: argparse.Namespace) -> str:
    found = await entries_of(home.store, _OWNER, everything=args.all)
    if not found:
        return _("There are no sessions yet. `nanobot` begins one.")
    how = _("`nanobot agent -r ID` goes on with one; `--all` shows single questions and own work too.")
    return listing(found, len(found) if args.all else _LISTED, how, home.zone)


async def _search(home: _Home, args: argparse.Namespace) -> str:
    words = " ".join(args.words)
    talk = Conversations(home.store, home.index(), ForgottenFacts(home.ledger))
    found = await SessionSearch(home.store, home.index(), talk).find(words, _OWNER)
    return await search_text(home.store, _OWNER, found, words, home.zone)


async def _show(home: _Home, args: argparse.Namespace) -> int:
    exported = await home.kept.exported(await home.entry(args.id), "md")
    show(exported.text, home.setup)
    return 0


async def _rename(home: _Home, args: argparse.Namespace) -> str:
    entry, title = await home.entry(args.id), one_line(" ".join(args.words), _NAME)
    await home.store.rename(entry.info.id, title)
    return _("Session `{id}` is called “{title}” now.", id=entry.info.id, title=title)


async def _export(home: _Home, args: argparse.Namespace) -> int | str:
    entry = await home.entry(args.id)
    suffix = Path(args.output).suffix if args.output else ""
    exported = await home.kept.exported(entry, form_of(args.format or suffix or "md"))
    if not args.output:
        sys.stdout.write(exported.text)
        return 0
    path = Path(args.output)
    if not args.force and await asyncio.to_thread(path.exists):
        raise UsageError(_("{path} is there already. Name another file, or give --force to replace it.", path=path))
    await asyncio.to_thread(write_private, path, exported.text)
    return _("Written to `{path}`.", path=path)


async def _delete(home: _Home, args: argparse.Namespace) -> int | str:
    entry = await home.entry(args.id)
    if not args.yes:
        line = entry.line(home.zone)
        told = _("{line}\nIt cannot be brought back. Delete it for good? y, or Enter keeps it: ", line=line)
        unasked = _("Nobody can be asked here. Give --yes to delete the session for good.")
        if not await asyncio.to_thread(agreed, told, unasked):
            say(_("It is kept."))
            return FAILED
    return await home.kept.delete(entry)
