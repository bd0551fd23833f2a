"""Which addresses of a session somebody has named, so that one that the model made up can be told from them."""

import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from urllib.parse import quote, unquote, urlsplit

from nanobot.agent.history import parse_arguments
from nanobot.agent.tools.offers import SPAWN
from nanobot.messages import AssistantMessage, Message, ToolCall, ToolMessage, UserMessage
from nanobot.results import SourceBook
from nanobot.security.network import MAX_URL
from nanobot.security.policy import texts_of
from nanobot.web.urls import extract_urls, with_scheme

#: Most addresses of one session that are remembered, and most characters of results whose links are still to be read.
MOST_KNOWN, MOST_UNREAD = 20_000, 100_000
#: Places above an address that count as named with it.
_MOST_PLACES = 30
_PORTS = {"http": 80, "https": 443}
#: A host without a scheme, as people write it, and what follows.
_BARE = re.compile(r"(?<![\w@./-])(?:[\w-]+\.)+[^\W\d_]{2,}(?::\d+)?(?:/[^\s<>\"')\]]*)?")
_LINK = re.compile(r"https?://[^\s<>\"'\]]+", re.IGNORECASE)
_TRAILING = ".,;:!?*_~`|"
#: Escapes that say the same as the sign itself. Those of letters, digits, dots and slashes do not: a server sees which
#: one was written, so that they would carry what the address does not say.
_ESCAPE, _SAME = re.compile(r"%[0-9a-fA-F]{2}"), "!$'()*,:@~-_"


class KnownAddresses:
    """The addresses that persons, search hits and pages of one session have named.

    An address counts as named where one with the same host, path and query is; a shorter path without a query counts,
    too, because it says nothing that the named one does not. Whether it is http or https, with `www.` or without, and
    what stands behind `#` make no difference.
    """

    def __init__(self, session: str = "") -> None:
        self.session = session
        self._prompt = ""
        self._known: dict[str, None] = {}
        self._calls: dict[str, ToolCall] = {}
        #: Texts, and what finds the addresses in each: reading takes time, few are followed.
        self._unread: deque[tuple[str, Callable[[str], Iterable[str]]]] = deque()

    def __contains__(self, url: str) -> bool:
        key = _key(url)
        while key not in self._known and self._unread:
            text, find = self._unread.pop()
            self._add(find(text))
        return key in self._known

    def shared(self) -> "KnownAddresses":
        """The same addresses for a helper, whose calls are its own."""
        other = KnownAddresses(self.session)
        other._prompt, other._known, other._unread = self._prompt, self._known, self._unread
        return other

    def copy(self) -> "KnownAddresses":
        """The same addresses, for a turn of which the session keeps nothing."""
        made = KnownAddresses(self.session)
        made._prompt, made._known = self._prompt, dict(self._known)
        made._calls, made._unread = dict(self._calls), deque(self._unread)
        return made

    def hear(self, text: str) -> None:
        """Somebody who is no model wrote this; hosts without a scheme count, as in "look at example.org"."""
        self._add(_written(text))

    def hear_prompt(self, system: str) -> None:
        """What the owner wrote stands in the prompt of a turn."""
        if system != self._prompt:
            self._prompt = system
            self._read_later(system, _written)

    def take(self, messages: Iterable[Message], book: SourceBook | None = None) -> None:
        """Note what these messages of the session name; `book` holds what the sources of their results say."""
        for message in messages:
            if isinstance(message, AssistantMessage):
                self._calls = {call.id: call for call in message.calls} or self._calls
            elif isinstance(message, UserMessage) and message.kind != "notice":
                self.hear(message.text)
            elif isinstance(message, ToolMessage) and not message.error:
                self._learn(message, self._calls.get(message.call_id), book)

    def _learn(self, message: ToolMessage, call: ToolCall | None, book: SourceBook | None) -> None:
        """Sources are named, and links of pages; but not what comes back of the words that the model wrote itself."""
        self._add(source.url for source in message.sources)
        arguments = {name: said for name, said in parse_arguments(call)[0].items() if said} if call else {}
        if (message.sources and "query" in arguments) or message.name == SPAWN:
            return
        if book is not None:
            for source in message.sources:
                self._read_later(book.text(source.number) or "", _links)
        if message.sources and {"prompt", "find"} & arguments.keys():
            return
        own = frozenset(_key(url) for text in texts_of(arguments) for url in _links(text))
        self._read_later(message.text, lambda text: (url for url in _links(text) if not own or _key(url) not in own))

    def _read_later(self, text: str, find: Callable[[str], Iterable[str]]) -> None:
        """Where too much is kept, the addresses of the oldest are read now and its text is let go."""
        self._unread.append((text, find))
        while len(self._unread) > 1 and sum(len(text) for text, _ in self._unread) > MOST_UNREAD:
            text, find = self._unread.popleft()
            self._add(find(text))

    def _add(self, urls: Iterable[str]) -> None:
        for url in urls:
            for key in _keys(url):
                self._known.pop(key, None)
                self._known[key] = None
            while len(self._known) > MOST_KNOWN:
                del self._known[next(iter(self._known))]


def _written(text: str) -> Iterator[str]:
    """The addresses of a text that somebody wrote, also those without a scheme."""
    yield from extract_urls(text).urls
    yield from (f"https://{match[0].rstrip(_TRAILING)}" for match in _BARE.finditer(text))


def _links(text: str) -> Iterator[str]:
    """The addresses of a text that a program wrote, each ended where its bracket is closed."""
    for match in islice(_LINK.finditer(text), MOST_KNOWN):
        whole = match[0]
        surplus = whole.count(")") - whole.count("(")
        end = len(whole.rstrip(_TRAILING))
        while surplus > 0 and whole[end - 1] == ")":
            end, surplus = end - 1, surplus - 1
            while whole[end - 1] in _TRAILING:
                end -= 1
        yield whole[:end]
        if ")" in whole[:end]:  # something follows a link without a blank
            yield whole.partition(")")[0]


def _keys(url: str) -> list[str]:
    """The key of `url` and those of the places above it, the nearest to its host."""
    key = _key(url)
    if not key:
        return []
    host, *folders = key.partition("?")[0].split("/")
    return [*("/".join([host, *folders[:end]]) for end in range(min(len(folders), _MOST_PLACES) + 1)), key]


def _key(url: str) -> str:
    """Host, path and query in one form, which says all that would be sent; empty for what is no address."""
    if len(url) > MAX_URL:
        return ""
    try:
        parts = urlsplit(with_scheme(url.strip()))
        port = parts.port
    except ValueError:
        return ""
    scheme, host = parts.scheme.lower(), (parts.hostname or "").lower().rstrip(".").removeprefix("www.")
    if scheme not in _PORTS or not host:
        return ""
    login = parts.netloc.rpartition("@")[0]
    where = f"{login}@{host}" if login else host
    where += f":{port}" if port not in (None, _PORTS[scheme]) else ""
    return f"{where}{_path(parts.path)}" + (f"?{_plain(parts.query)}" if parts.query else "")


def _path(path: str) -> str:
    """The path as it is sent, without the slash at its end: `..` takes one part away, empty ones as well."""
    parts: list[str] = []
    for part in _plain(path).split("/")[1:]:
        if part == "..":
            del parts[-1:]
        elif part != ".":
            parts.append(part)
    if parts and not parts[-1]:
        parts.pop()
    return "".join(f"/{part}" for part in parts)


def _plain(text: str) -> str:
    """`text` with every sign that has one sense written in one way."""
    quoted = quote(text, safe="%/?&=+;#." + _SAME, errors="replace")
    return _ESCAPE.sub(lambda one: sign if (sign := unquote(one[0])) in _SAME else one[0].upper(), quoted)
