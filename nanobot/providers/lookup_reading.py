"""What a conversation holds for `lookup`: the question, and what the tools have said to it so far."""

import json
import re
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from nanobot.messages import AssistantMessage, Message, Text, ToolMessage, UserMessage
from nanobot.security.trust import unwrap

_HIT = re.compile(r"^(\d{1,3})\. (.*)\n\s*(https?://\S+).*((?:\n(?!\d{1,3}\. ).*)*)", re.MULTILINE)
_PAGE = re.compile(
    r"\[(\d{1,3})\] (.*)((?:\n(?:url|finalUrl|kept|status|published|date|author|site|language|read|rest):.*)*)"
)
_RETOLD = re.compile(r"\A\[Result of ([\w.-]+)\]\n")
_WORLD = frozenset({"network", "timeout", "service", "rate_limited"})


@dataclass(frozen=True, slots=True)
class PageText:
    """A search hit with its snippet, a page, a section of the documentation, or text that came with the question
    (`number` 0)."""

    number: int
    title: str
    url: str
    text: str
    published: str = ""

    @property
    def site(self) -> str:
        return urlsplit(self.url).netloc.casefold().removeprefix("www.")


@dataclass(slots=True)
class Reading:
    """The turn so far: `failures` are the error kinds of web calls, `asked` the URLs, `queries` the searches."""

    question: str = ""
    before: str = ""
    hits: list[PageText] = field(default_factory=list)
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
        return not self.succeeded and any(kind in _WORLD for kind in self.failures)


def read_conversation(messages: tuple[Message, ...]) -> Reading:
    """Everything that counts for the next step."""
    asked = [at for at, message in enumerate(messages) if isinstance(message, UserMessage) and message.kind == "user"]
    reading = Reading()
    earlier = messages[asked[-2]] if len(asked) > 1 else None
    if isinstance(earlier, UserMessage):
        reading.before = _spoken(earlier)[0]
    for message in messages[asked[-1] if asked else 0 :]:
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
    """A question, words typed in mid-turn, or a notice: a request without tools tells their results in those, under a
    line `[Result of NAME]`."""
    if message.kind != "notice":
        own, given = _spoken(message)
        reading.question = f"{reading.question} {own}".strip()
        reading.given.extend(PageText(0, "", "", text) for text in given)
        return
    name = ""
    for part in message.content:
        text = part.text if isinstance(part, Text) else ""
        if told := _RETOLD.match(text):
            name, text = told[1], text[told.end() :]
        if name and text.strip():
            _take(ToolMessage("", name, (Text(text),), "failed" if text.startswith("Error: ") else ""), reading)


def _note(name: str, arguments: str, reading: Reading) -> None:
    try:
        value: object = json.loads(arguments or "{}")
    except ValueError:
        return
    if isinstance(value, dict):
        reading.docs_asked |= name == "nanobot_docs"
        reading.queries.extend([str(value.get("query", ""))] if name == "web_search" else [])
        reading.asked.extend([str(value.get("url", ""))] if name == "web_fetch" else [])


def _take(message: ToolMessage, reading: Reading) -> None:
    outside = unwrap(message.text)
    text = outside.text if outside else message.text
    if message.name == "nanobot_docs" and not message.is_error:
        reading.docs.extend(read_sections(text))
    if message.name not in ("web_search", "web_fetch"):
        return
    if message.is_error:
        reading.failures.append(message.error)
        return
    reading.succeeded += 1
    if message.name == "web_search":
        known = {hit.url for hit in reading.hits}
        reading.hits.extend(hit for hit in read_hits(text) if hit.url not in known)
    elif (page := read_page(text)).text.strip():
        reading.pages.append(page)


def read_hits(text: str) -> list[PageText]:
    """The hits of a search result; lines that are of no known shape are passed over."""
    return [
        PageText(int(number), title.strip(), url, " ".join(snippet.split()))
        for number, title, url, snippet in _HIT.findall(text)
    ]


def read_page(text: str) -> PageText:
    """A page result: its head lines and its text. A text without a head is all text."""
    head = _PAGE.match(text)
    if head is None:
        return PageText(0, "", "", text)
    facts = {name: fact.strip() for name, _, fact in (line.partition(":") for line in head[3].splitlines())}
    title = "" if head[2].strip() == "(no title)" else head[2].strip()
    published = facts.get("published", facts.get("date", ""))
    return PageText(int(head[1]), title, facts.get("url", ""), text[head.end() :].strip("\n"), published.strip())


def read_sections(text: str) -> list[PageText]:
    """The sections of a documentation result."""
    parts = re.split(r"^(?=\[\d{1,3}\] .*\nurl: )", text, flags=re.MULTILINE)
    return [read_page(part.strip()) for part in parts if part.startswith("[")]
