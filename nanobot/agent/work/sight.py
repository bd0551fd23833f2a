"""What watches see of the web and of files: through the guarded client, the engines, and the rights of their people."""

import asyncio
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from nanobot.agent.tools.files.offered import FileTools
from nanobot.agent.work.briefing import Briefings
from nanobot.agent.work.looks import Looks, Sight
from nanobot.agent.work.watches import Watches
from nanobot.bus.events import Sender
from nanobot.errors import PathError, SkipTool, UsageError
from nanobot.files.spaces import FileUser
from nanobot.schedule.appointments import Appointments
from nanobot.session.ledger import Ledger
from nanobot.utils.text import strip_unsafe
from nanobot.utils.translation import _, told
from nanobot.watch.store import WatchStore
from nanobot.web.fetch.charset import decode
from nanobot.web.fetch.content import named_binary, sniff
from nanobot.web.fetch.page import Page, PageRequest
from nanobot.web.search.base import SearchHit

if TYPE_CHECKING:
    from nanobot.agent.tools.web.fetch import WebFetchTool
    from nanobot.agent.tools.web.search import WebSearchTool

#: Seconds for a page, hits of a search, and bytes of a file.
_SECONDS, _HITS, _BYTES = 25.0, 10, 2_000_000


class AgentSight(Sight):
    """Sees with the tools of an agent, which are made when something is first looked at; `fetch` gives None where pages
    are not read, and `search` raises `SkipTool` where nothing is searched."""

    def __init__(
        self,
        fetch: "Callable[[], WebFetchTool | None]",
        search: "Callable[[], WebSearchTool]",
        files: FileTools,
        privacy: Callable[[], bool],
    ) -> None:
        self._fetch = fetch
        self._search = search
        self._files = files
        self._privacy = privacy

    async def page(self, request: PageRequest) -> Page:
        tool = self._fetch()
        if tool is None:
            raise UsageError(_("Pages are not read here: tools.web.fetch.enable is false."))
        return await tool.look(request, _SECONDS)

    async def hits(self, query: str) -> Sequence[SearchHit]:
        try:
            tool = self._search()
        except SkipTool as error:
            raise UsageError(_("Nothing is searched here: {why}.", why=told(error.args[0]))) from None
        return await tool.hits(query, _HITS, privacy=self._privacy())

    async def file(self, path: str, person: str, sender: Sender) -> str:
        user = FileUser(sender.role, person, True, "files" in sender.granted)
        return await asyncio.to_thread(self._read, path, user)

    def _read(self, path: str, user: FileUser) -> str:
        store = self._files.spaces.of(user)
        place = store.roots.place(path)
        if place.keys:
            raise PathError(_("{path} holds keys, which are not watched.", path=place.shown))
        data = store.read(place, _BYTES)
        if sniff("", data) in ("binary", "image", "pdf", "office"):
            kind = named_binary(data) or _("no text")
            raise PathError(_("{path} is {kind}; only text is watched.", path=place.shown, kind=kind))
        return strip_unsafe(decode(data).text)


def seeing(appointments: Appointments, ledger: Ledger, sight: Sight) -> Watches:
    """The watches in this ledger, which see what there is now."""
    store = WatchStore(ledger.database)
    return Watches(appointments, Looks(store, sight), Briefings(store, sight, ledger.sessions))
