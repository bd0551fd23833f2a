"""What a conversation holds for `lookup`: the question, and what the tools have said to it so far."""

import re
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from nanobot.messages import AssistantMessage, Message, Text, ToolMessage, UserMessage
from nanobot.providers import jsonval
from nanobot.security.trust import unwrap
from nanobot.utils.text import squeeze

_HIT = re.compile(r"^(\d{1,3})\. (.*)\n\s*(https?://\S+).*((?:\n(?!\d{1,3}\. ).*)*)", re.MULTILINE)
_PAGE = re.compile(
    r"\[(\d{1,3})\] (.*)((?:\n(?:url|finalUrl|kept|status|published|date|author|site|language|read|rest):.*)*)"
)
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
    """The turn so far. `calls` are the names of the tools that were called, `asked` the URLs, `given` is text that
    came with the question, `failures` are the error kinds of web calls."""

    question: str = ""
    before: str = ""
    hits: list[PageText] = field(default_factory=list)
    pages: list[PageText] = field(default_factory=list)
    docs: list[PageText] = field(default_factory=list)
    given: list[PageText] = field(default_factory=list)
    calls: set[str] = field(default_factory=set)
    asked: set[str] = field(default_factory=set)
    failures: list[str] = field(default_factory=list)
    succeeded: int = 0

    @property
    def cut_off(self) -> bool:
        """Every web call failed, and the world is to blame for one at least."""
        return not self.succeeded and not _WORLD.isdisjoint(self.failures)


def read_conversation(messages: tuple[Message, ...]) -> Reading:
    """Everything that counts for the next step."""
    asked = [at for at, message in enumerate(messages) if isinstance(message, UserMessage) and message.kind == "user"]
    reading = Reading()
    for message in messages[asked[-2] : asked[-2] + 1] if len(asked) > 1 else ():
        reading.before = _spoken(message)[0]
    for message in messages[asked[-1] if asked else 0 :]:
        if isinstance(message, ToolMessage):
            _take(message, reading)
        elif isinstance(message, AssistantMessage):
            for call in message.calls:
                reading.calls.add(call.name)
                reading.asked.add(jsonval.text(jsonval.obj(jsonval.parse(call.arguments)).get("url")))
        elif message.kind == "notice":
            _take_retold(message, reading)
        else:
            own, given = _spoken(message)
            reading.question = f"{reading.question} {own}".strip()
            reading.given.extend(PageText(0, "", "", text) for text in given)
    return reading


def _spoken(message: Message) -> tuple[str, list[str]]:
    """The person's own words, and the wrapped text that came along."""
    texts = [part.text for part in message.content if isinstance(part, Text)]
    wrapped = [unwrap(text.strip()) for text in texts]
    own = " ".join(text for text, outside in zip(texts, wrapped, strict=True) if outside is None)
    return own.strip(), [outside.text for outside in wrapped if outside and outside.source != "name"]


def _take_retold(notice: UserMessage, reading: Reading) -> None:
    """A request without tools tells their results in notices, under a line `[Result of NAME]`."""
    name = ""
    for said in (part.text for part in notice.content if isinstance(part, Text)):
        told = re.match(r"\[Result of ([\w.-]+)\]\n", said)
        name, text = (told[1], said[told.end() :]) if told else (name, said)
        if name and text.strip():
            _take(ToolMessage("", name, (Text(text),), "failed" if text.startswith("Error: ") else ""), reading)


def _take(message: ToolMessage, reading: Reading) -> None:
    outside = unwrap(message.text)
    text = outside.text if outside else message.text
    if message.name == "nanobot_docs" and not message.is_error:
        reading.docs.extend(read_sections(text))
    elif message.name in ("web_search", "web_fetch") and message.is_error:
        reading.failures.append(message.error)
    elif message.name == "web_search":
        reading.succeeded += 1
        known = {hit.url for hit in reading.hits}
        found = _HIT.findall(text)
        hits = (PageText(int(number), title.strip(), url, squeeze(snippet)) for number, title, url, snippet in found)
        reading.hits.extend(hit for hit in hits if hit.url not in known)
    elif message.name == "web_fetch":
        reading.succeeded += 1
        page = read_page(text)
        reading.pages.extend([page] if page.text.strip() else [])


def read_page(text: str) -> PageText:
    """A page result: its head lines and its text. A text without a head is all text."""
    head = _PAGE.match(text)
    if head is None:
        return PageText(0, "", "", text)
    facts = {name: fact.strip() for name, _, fact in (line.partition(":") for line in head[3].splitlines())}
    title = "" if head[2].strip() == "(no title)" else head[2].strip()
    published = facts.get("published", facts.get("date", ""))
    return PageText(int(head[1]), title, facts.get("url", ""), text[head.end() :].strip("\n"), published)


def read_sections(text: str) -> list[PageText]:
    """The sections of a documentation result."""
    parts = re.split(r"^(?=\[\d{1,3}\] .*\nurl: )", text, flags=re.MULTILINE)
    return [read_page(part.strip()) for part in parts if part.startswith("[")]
