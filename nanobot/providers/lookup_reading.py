"""What a conversation holds for `lookup`: the question, and what the tools have said to it so far."""

import json
import re
from dataclasses import dataclass, field
from itertools import pairwise
from urllib.parse import urlsplit

from nanobot.messages import AssistantMessage, Message, Text, ToolMessage, UserMessage
from nanobot.security.trust import unwrap

_HIT = re.compile(r"^(\d{1,3})\. (.*)$")
_HEAD = re.compile(r"^\[(\d{1,3})\] (.*)$")
_RETOLD = re.compile(r"\A\[Result of ([\w.-]+)\]\n")
_FACT = re.compile(r"^(url|finalUrl|kept|status|published|date|author|site|language|read|rest): ?(.*)$")
_WORLD = frozenset({"network", "timeout", "service", "rate_limited"})


@dataclass(frozen=True, slots=True)
class Hit:
    """A search result: its source number, where it leads, and what the engine said about it."""

    number: int
    title: str
    url: str
    snippet: str = ""

    @property
    def site(self) -> str:
        return urlsplit(self.url).netloc.casefold().removeprefix("www.")


@dataclass(frozen=True, slots=True)
class PageText:
    """A page, a section of the documentation, or text that came with the question (`number` 0)."""

    number: int
    title: str
    url: str
    text: str
    published: str = ""


@dataclass(slots=True)
class Reading:
    """The turn so far.

    `failures` are the error kinds of web calls, `asked` the URLs and `queries` the searches made.
    """

    question: str = ""
    before: str = ""
    introduced: bool = False
    hits: list[Hit] = field(default_factory=list)
    pages: list[PageText] = field(default_factory=list)
    docs: list[PageText] = field(default_factory=list)
    given: list[PageText] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)
    queries: list[str] = field(default_factory=list)
    docs_asked: bool = False
    failures: list[str] = field(default_factory=list)
    succeeded: int = 0

    @property
    def cut_off(self) -> bool:
        """Every web call failed, and the world is to blame for one at least."""
        return bool(self.failures) and not self.succeeded and any(kind in _WORLD for kind in self.failures)


def read_conversation(messages: tuple[Message, ...], closing: str) -> Reading:
    """Everything that counts for the next step. `closing` is the line that is said once in a session."""
    asked = [at for at, message in enumerate(messages) if isinstance(message, UserMessage) and message.kind == "user"]
    start = asked[-1] if asked else 0
    reading = Reading(
        introduced=any(closing in message.text for message in messages[:start] if isinstance(message, AssistantMessage))
    )
    earlier = messages[asked[-2]] if len(asked) > 1 else None
    if isinstance(earlier, UserMessage):
        reading.before = _spoken(earlier)[0]
    for message in messages[start:]:
        if isinstance(message, UserMessage):
            _hear(message, reading)
        elif isinstance(message, AssistantMessage):
            for call in message.calls:
                _note(call.name, call.arguments, reading)
        else:
            _take(message, reading)
    return reading


def _spoken(message: UserMessage) -> tuple[str, list[str]]:
    """The person's own words, and the wrapped text that came along."""
    own, given = [], []
    for part in message.content:
        if isinstance(part, Text):
            outside = unwrap(part.text.strip())
            if outside is None:
                own.append(part.text)
            elif outside.source != "name":
                given.append(outside.text)
    return " ".join(own).strip(), given


def _hear(message: UserMessage, reading: Reading) -> None:
    """A question; words typed in mid-turn are added to it; nanobot's own notices may retell results."""
    if message.kind == "notice":
        _retold(message, reading)
        return
    own, given = _spoken(message)
    reading.question = f"{reading.question} {own}".strip()
    reading.given.extend(PageText(0, "", "", text) for text in given)


def _retold(message: UserMessage, reading: Reading) -> None:
    """Results told as text, as in a request without tools: a line `[Result of NAME]`, then the parts of the result."""
    name = ""
    for part in message.content:
        if not isinstance(part, Text):
            continue
        told = _RETOLD.match(part.text)
        name = told[1] if told else name
        rest = part.text[told.end() :] if told else part.text
        if name and rest.strip():
            error = "failed" if rest.startswith("Error: ") else ""
            _take(ToolMessage("", name, (Text(rest),), error), reading)


def _note(name: str, arguments: str, reading: Reading) -> None:
    try:
        value: object = json.loads(arguments or "{}")
    except ValueError:
        return
    if not isinstance(value, dict):
        return
    if name == "nanobot_docs":
        reading.docs_asked = True
    elif name == "web_search":
        reading.queries.append(str(value.get("query", "")))
    elif name == "web_fetch":
        reading.asked.append(str(value.get("url", "")))


def _take(message: ToolMessage, reading: Reading) -> None:
    outside = unwrap(message.text)
    text = outside.text if outside else message.text
    if message.name == "nanobot_docs":
        if not message.is_error:
            reading.docs.extend(read_sections(text))
        return
    if message.name not in ("web_search", "web_fetch"):
        return
    if message.is_error:
        reading.failures.append(message.error)
        return
    reading.succeeded += 1
    if message.name == "web_search":
        known = {hit.url for hit in reading.hits}
        reading.hits.extend(hit for hit in read_hits(text) if hit.url not in known)
    else:
        page = read_page(text)
        if page.text.strip():
            reading.pages.append(page)


def read_hits(text: str) -> list[Hit]:
    """The hits of a search result; lines that are of no known shape are passed over."""
    hits: list[Hit] = []
    number, title, url, snippet = 0, "", "", list[str]()
    for line in [*text.splitlines(), "0. "]:
        head = _HIT.match(line)
        if head is None:
            stripped = line.strip()
            if number and not url and stripped.startswith(("http://", "https://")):
                url = stripped.split()[0]
            elif number and url:
                snippet.append(stripped)
            continue
        if number and url:
            hits.append(Hit(number, title, url, " ".join(part for part in snippet if part)))
        number, title, url, snippet = int(head[1]), head[2].strip(), "", []
    return hits


def read_page(text: str) -> PageText:
    """A page result: its head lines and its text. A text without a head is all text."""
    if text.startswith("{"):
        return _from_json(text)
    lines = text.split("\n")
    head = _HEAD.match(lines[0])
    if head is None:
        return PageText(0, "", "", text)
    facts: dict[str, str] = {}
    at = 1
    while at < len(lines) and (fact := _FACT.match(lines[at])):
        facts[fact[1]] = fact[2].strip()
        at += 1
    body = "\n".join(lines[at:]).strip("\n")
    title = "" if head[2].strip() == "(no title)" else head[2].strip()
    return PageText(int(head[1]), title, facts.get("url", ""), body, facts.get("published", facts.get("date", "")))


def _from_json(text: str) -> PageText:
    try:
        value: object = json.loads(text)
    except ValueError:
        return PageText(0, "", "", text)
    if not isinstance(value, dict) or not isinstance(value.get("text"), str):
        return PageText(0, "", "", text)
    return PageText(0, str(value.get("title", "")), str(value.get("url", "")), str(value["text"]))


def read_sections(text: str) -> list[PageText]:
    """The sections of a documentation result."""
    starts = [match.start() for match in re.finditer(r"^\[\d{1,3}\] .*\nurl: ", text, re.MULTILINE)]
    return [read_page(text[start:end].strip()) for start, end in pairwise([*starts, len(text)])]
