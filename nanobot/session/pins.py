"""MCP servers: how each is, what it offers and says of its tools, and which of that the owner has read and lets count.

A description that the owner has let count is no content from outside any more, as long as not a byte of it changes.
What was let count is kept among the permissions, one for each server.
"""

import hashlib
import json
from collections.abc import Iterable, Sequence

from loguru import logger
from msgspec import DecodeError, Struct, ValidationError
from msgspec.json import decode

from nanobot.errors import StoreError
from nanobot.session.permissions import Permission, Permissions
from nanobot.utils.text import one_line, shorten, strip_unsafe
from nanobot.utils.translation import N_, _, _n, apart, listed, sentences

#: The kind under which it stands among the permissions.
KIND = "mcp"
#: Most names of tools in a sentence.
_NAMED = 8


class ServerState(Struct, frozen=True):
    """One configured server: where it is, what it offers, and in a sentence why it cannot be used now.

    `ready`: it has answered. `tools` are the names that the agent uses.
    """

    name: str
    place: str
    ready: bool = False
    tools: tuple[str, ...] = ()
    why: str = ""


class ServerOffer(Struct, frozen=True):
    """A resource or a prompt as its server lists it: by its URI or its name. `arguments` with a `?` may be left out."""

    key: str
    title: str = ""
    about: str = ""
    arguments: tuple[str, ...] = ()


class ToolWords(Struct, frozen=True):
    """What a server says of one of its tools: `said` as the model is told it, `mark` of every word and flag of it."""

    server: str
    tool: str
    mark: str
    said: str = ""


class PinnedTools(Struct, frozen=True):
    """What a permission is about: the marks of the tools of a server, by their names."""

    server: str
    tools: dict[str, str]


class Unread(Struct, frozen=True):
    """The tools of one server whose words do not count: `fresh` ones, and those that `changed`.

    `known`: the owner has let words of this server count before.
    """

    server: str
    fresh: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    known: bool = False

    @property
    def label(self) -> str:
        """As content from outside is called."""
        return _("descriptions of the MCP server {server}", server=self.server)

    @property
    def sentence(self) -> str:
        """What the owner is told of it, and what ends it."""
        way = _("/mcp trust {server} shows it and lets it count.", server=self.server)
        if not self.known:
            told = _(
                "What the MCP server {server} says of its tools counts as content from outside, so changes of "
                "what steers me are asked for.",
                server=self.server,
            )
            return sentences(told, way)
        news = [_are(self.changed, N_("{names} is changed"), N_("{names} are changed"))] if self.changed else []
        news += [_are(self.fresh, N_("{names} is new"), N_("{names} are new"))] if self.fresh else []
        told = _("The tools of the MCP server {server} have changed: {news}.", server=self.server, news=apart(news))
        return sentences(told, _("What it says of them counts as content from outside again."), way)


class Pins:
    """What the owner has let count of what servers say."""

    def __init__(self, permissions: Permissions) -> None:
        self._permissions = permissions

    async def unread(self, tools: Iterable[ToolWords]) -> tuple[Unread, ...]:
        """By server, the tools among these whose words do not count; all of them where the store does not say."""
        by_server: dict[str, dict[str, str]] = {}
        for one in tools:
            by_server.setdefault(one.server, {})[one.tool] = one.mark
        if not by_server:
            return ()
        try:
            pinned = {one.server: one.tools for one, _kept in await self._pinned()}
        except StoreError as error:
            logger.warning("what was let count of MCP servers could not be read: {}", error)
            pinned = {}
        found = []
        for server, marks in sorted(by_server.items()):
            known = pinned.get(server, {})
            fresh = tuple(name for name in marks if name not in known)
            changed = tuple(name for name, mark in marks.items() if name in known and known[name] != mark)
            if fresh or changed:
                found.append(Unread(server, fresh, changed, server in pinned))
        return tuple(found)

    async def pin(self, person: str, server: str, tools: Sequence[ToolWords]) -> Permission:
        """Let count what a server says of these tools, in the place of what counted before."""
        old = [kept for one, kept in await self._pinned() if one.server == server]
        marks = {one.tool: one.mark for one in sorted(tools, key=lambda one: one.tool)}
        about = json.dumps({"server": server, "tools": marks})
        words = _n(
            "what the MCP server {server} says of its {number} tool counts, as it was shown (mark {mark})",
            "what the MCP server {server} says of its {number} tools counts, as it was shown (mark {mark})",
            len(marks),
            server=server,
            mark=seal(tools),
        )
        given = Permission(KIND, about, words, person)
        await self._permissions.add(person, (given,))
        for one in old:
            if one.id != given.id:
                await self._permissions.take_back(one.id)
        return given

    async def _pinned(self) -> list[tuple[PinnedTools, Permission]]:
        found = []
        for one in await self._permissions.all():
            if one.kind == KIND:
                try:
                    found.append((decode(one.about, type=PinnedTools), one))
                except (DecodeError, ValidationError):  # written by another version: it lets nothing count
                    continue
        return found


def shown(unread: Unread, tools: Iterable[ToolWords]) -> str:
    """As Markdown, what a server says of those of its tools whose words do not count."""
    wanted = {
        **dict.fromkeys(unread.fresh, N_("{tool} (new)")),
        **dict.fromkeys(unread.changed, N_("{tool} (changed)")),
    }
    blocks = []
    for one in tools:
        if one.tool in wanted:
            name = one_line(one.tool).replace("`", "'")
            told = _(wanted[one.tool], tool=f"`{name}`") if unread.known else f"`{name}`"
            blocks.append(f"{told}\n\n```\n{strip_unsafe(one.said).replace('`', chr(39))}\n```")
    return "\n\n".join([_("**What the MCP server {server} says of its tools**", server=unread.server), *blocks])


def seal(tools: Iterable[ToolWords]) -> str:
    """Eight characters for exactly what a server says of these tools."""
    text = json.dumps(sorted((one.server, one.tool, one.mark) for one in tools))
    return hashlib.sha256(text.encode()).hexdigest()[:8]


def _are(names: Sequence[str], one: str, several: str) -> str:
    """What there is to say of these tools, in the sentence for one or the one for several."""
    said = listed(shorten(name, 60) for name in names[:_NAMED])
    if len(names) > _NAMED:
        said = _("{names} and {number} more", names=said, number=len(names) - _NAMED)
    return _(several if len(names) > 1 else one, names=said)
