"""What a conversation asks `lookup`, and what the tools have said to it so far.

The words of each language stand in `languages.json`.
"""

import json
import math
import re
from functools import cache
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

from msgspec import Struct, field

from nanobot import jsonval
from nanobot.messages import AssistantMessage, Message, Text, ToolMessage, UserMessage
from nanobot.security.trust import unwrap
from nanobot.utils.text import squeeze

Wish = Literal["docs", "web", "weather", "clock", "sum", "greeting", "thanks", "about", "remind", "impossible", "empty"]
#: What the answer holds: a number, a time, the steps of doing something, or anything.
Kind = Literal["number", "time", "steps", "other"]
_KINDS: tuple[Kind, ...] = ("number", "time", "steps")


@cache
def languages() -> dict[str, dict[str, dict[str, str]]]:
    """Every language by its ISO 639 code: the sentences that it `says`, and the `patterns` of questions in it, among
    them the `words` that say nothing of a subject."""
    text = Path(__file__).with_name("languages.json").read_text(encoding="utf-8")
    known: dict[str, dict[str, dict[str, str]]] = json.loads(text)
    return known


@cache
def pattern(name: str, around: str = "(?:{})") -> re.Pattern[str]:
    """The pattern `name` of all languages; `around` is what stands before and behind their alternatives."""
    found = [entry["patterns"][name] for entry in languages().values() if name in entry["patterns"]]
    return re.compile(around.format("|".join(found)), re.IGNORECASE)


_WHOLE = r"^(?:{})(?:[\s,]+nanobot)?[\s,!.?。！？]*$"
_OPENING = r"^(?:(?:hi|hello|hey|ok|so|well|hallo|bonjour|hola|привет|nanobot)\b[\s,!.:]*)*(?:(?:{})[\s,:]+)?"
_CLOSING = r"[\s,]*(?:{})?[\s?!.。？！]*$"
# English: a pattern
_ASKED = r"^(?:(?:please|can you|could you|would you|bitte|nanobot),? )*(?:{})"
_URL = r"https?://[^\s<>\"'，。、）」】]+"
#: Each sign of a sum with its other spellings.
_SIGNS = {"+": "plus", "-": "−|minus", "*": "times|x|×|mal|fois|por", "/": "÷|:|divided by", "/100*": "% (?:of|von|de)"}
_HIT = re.compile(r"^(\d{1,3})\. (.*)\n\s*(https?://\S+).*((?:\n(?!\d{1,3}\. ).*)*)", re.MULTILINE)
_WORLD = frozenset({"network", "timeout", "service", "rate_limited"})


class LookupQuestion(Struct, frozen=True):
    """A question taken apart: `query` is for a search engine; `topics` are the words that tell with the kind of answer,
    one for each of two questions; `urls` were pasted, `place` is where the time is asked for."""

    query: str
    topics: tuple[tuple[str, Kind], ...]
    wish: Wish
    urls: tuple[str, ...] = ()
    language: str = "en"
    place: str = ""

    @property
    def says(self) -> dict[str, str]:
        """The fixed sentences in the language of the question; English ones where it lacks some."""
        return languages()["en"]["says"] | languages()[self.language]["says"]


def understand(text: str, before: str = "") -> LookupQuestion:
    """Take a question apart. `before` is the question asked before it, for one that follows on."""
    urls = tuple(dict.fromkeys(url.rstrip(".,;:!?)]}'\"") for url in re.findall(_URL, text, re.IGNORECASE)))
    bare = squeeze(re.sub(_URL, " ", text))
    stripped, code = _stripped(bare), language(bare)
    wish, place = _wish(bare, stripped, urls)
    follows = before and not urls and wish == "web" and _follows(bare, code)
    earlier = _topic(_stripped(squeeze(re.sub(_URL, " ", before))), code) if follows else ""
    parts = pattern("two", r"[,;?]?\s+(?:{})").split(stripped)
    kinds: list[Kind] = [next((kind for kind in _KINDS if pattern(kind).search(part)), "other") for part in parts]
    told = [squeeze(f"{earlier} {_topic(part, code)}") for part in parts]
    topics = tuple((topic, kind) for topic, kind in zip(told, kinds, strict=True) if topic)
    return LookupQuestion(squeeze(f"{earlier} {stripped}")[:300], topics, wish, urls, code, place)


def _stripped(text: str) -> str:
    """A question without greetings and courtesies, fit for a search engine."""
    cut = pattern("courtesy", _OPENING).sub("", text.strip(" ¿¡"), count=1)
    cut = pattern("courtesy", _CLOSING).sub("", cut)
    return cut if len(cut) >= 2 else text


def _topic(text: str, code: str) -> str:
    """The words of a question that tell its subject, in its own language."""
    text = pattern("frame").sub(" ", text)  # of scripts without blanks
    empty = languages()[code]["patterns"]["words"].split()
    return " ".join(word for word in text.split() if word.casefold().strip("?!.,:;\"'“”«»¿¡()") not in empty)


def _follows(text: str, code: str) -> bool:
    """True for a short question that names no subject of its own."""
    names = [word for word in text.split()[1:] if word[:1].isupper() or word[:1].isdigit()]
    short = len(text.split()) <= 9 and not re.search(r"\bis it \w+ to\b", text)
    return short and not names and bool(pattern("follows").search(text) or not _topic(text, code))


def _wish(text: str, stripped: str, urls: tuple[str, ...]) -> tuple[Wish, str]:
    """What is wanted, and the place whose time is."""
    if urls or not re.search(r"\w", text):
        return "web" if urls else "empty", ""
    if clock := pattern("clock", _WHOLE).match(stripped):
        return "clock", (clock.groupdict().get("place") or "").strip()
    whole, own = text.strip(" ¿¡"), pattern("self").search(stripped) and pattern("own").search(text)
    asked: tuple[tuple[Wish, object], ...] = (
        ("thanks", pattern("thanks", _WHOLE).match(whole)),
        ("greeting", pattern("greeting", _WHOLE).match(whole)),
        ("about", pattern("about", _WHOLE).match(whole)),
        ("sum", worked_out(stripped)),
        ("docs", own or pattern("named").search(text)),
        ("weather", pattern("weather").search(text)),
        ("remind", pattern("remind", _ASKED).match(text)),
        ("impossible", pattern("impossible", _ASKED).match(text)),
    )
    return next((wish for wish, found in asked if found), "web"), ""


def worked_out(text: str) -> str:
    """A sum with its result, such as `12 * 7 = 84`; empty where the text is none."""
    told = pattern("sum", r"^(?:{})?\s*").sub("", text, count=1).strip(" =?.")
    signed = re.sub(r"(?<=\d)[.,](?=\d{3}\b)", "", told.casefold()).replace(",", ".")
    for sign, words in _SIGNS.items():
        signed = re.sub(rf"(?<=\d)\s*(?:{words})\s*(?=\d)", sign, signed)
    if not re.fullmatch(r"(?!\d{4}-\d\d?-)[\d.]+(?:\s*[-+*/]+\s*[\d.]+)+", signed):
        return ""
    total = 0.0
    try:
        for minus, term in re.findall(r"([-+]?)\s*([\d.*/ ]+)", signed):
            factors = re.findall(r"([*/]?)\s*([\d.]+)", term)
            total += math.prod([float(f"{minus}1"), *(float(n) ** (-1 if way == "/" else 1) for way, n in factors)])
    except (ValueError, ArithmeticError):
        return ""
    return f"{told} = {total:,.10g}"


def language(text: str) -> str:
    """The language of a question as an ISO 639 code; English where nothing tells."""
    for code, script in (("ja", "[\u3040-\u30ff]"), ("ko", "[\uac00-\ud7af]"), ("zh", "[\u4e00-\u9fff]")):
        if re.search(script, text):
            return code

    def score(code: str) -> int:
        known = languages()[code]["patterns"]
        polite = re.match(_WHOLE.format(f"{known['thanks']}|{known['greeting']}"), text, re.IGNORECASE)
        return 9 * bool(polite) + len(set(re.findall(r"[\w-]+", text.casefold())) & set(known["words"].split()))

    return max(languages(), key=score)


class PageText(Struct, frozen=True):
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


class TurnReading(Struct):
    """The turn so far. `calls` are the names of the tools that were called, `asked` the URLs, `library` are passages of
    the person's documents, `given` is text that came with the question, `failures` are the error kinds of web calls."""

    question: str = ""
    before: str = ""
    hits: dict[str, PageText] = field(default_factory=dict)
    pages: list[PageText] = field(default_factory=list)
    docs: list[PageText] = field(default_factory=list)
    library: list[PageText] = field(default_factory=list)
    given: list[PageText] = field(default_factory=list)
    calls: set[str] = field(default_factory=set)
    asked: set[str] = field(default_factory=set)
    failures: list[str] = field(default_factory=list)
    succeeded: int = 0

    @property
    def cut_off(self) -> bool:
        """Every web call failed, and the world is to blame for one at least."""
        return not self.succeeded and not _WORLD.isdisjoint(self.failures)


def read_turn(messages: tuple[Message, ...]) -> TurnReading:
    """Everything that counts for the next step."""
    asked = [at for at, message in enumerate(messages) if isinstance(message, UserMessage) and message.kind == "user"]
    reading = TurnReading()
    for message in messages[asked[-2] : asked[-2] + 1] if len(asked) > 1 else ():
        reading.before = _spoken(message)[0]
    for message in messages[asked[-1] if asked else 0 :]:
        if isinstance(message, ToolMessage):
            _take(message, reading)
        elif isinstance(message, AssistantMessage):
            for call in message.calls:
                reading.calls.add(call.name)
                url = jsonval.text(jsonval.obj(jsonval.parse(call.arguments)).get("url"))
                reading.asked |= {url} - {""}
        elif message.kind != "notice":
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


def _take(message: ToolMessage, reading: TurnReading) -> None:
    outside = unwrap(message.text)
    text = outside.text if outside else message.text
    if message.name in ("nanobot_docs", "library") and not message.is_error:
        sections = re.split(r"^(?=\[\d{1,3}\] .*\nurl: )", text, flags=re.MULTILINE)[1:]
        found = [read_page(section.strip()) for section in sections]
        if message.name == "library":
            reading.library.extend(found)
        else:
            reading.docs.extend(found[:1])  # the right one comes first
    elif message.name in ("web_search", "web_fetch") and message.is_error:
        reading.failures.append(message.error)
    elif message.name == "web_search":
        reading.succeeded += 1
        for number, title, url, snippet in _HIT.findall(text):
            reading.hits.setdefault(url, PageText(int(number), title.strip(), url, squeeze(snippet)))
    elif message.name == "web_fetch":
        reading.succeeded += 1
        page = read_page(text)
        reading.pages.extend([page] if page.text.strip() else [])


def read_page(text: str) -> PageText:
    """A page result: its head lines and its text. A text without a head is all text."""
    head, _, body = text.partition("\n\n")
    named = re.match(r"\[(\d{1,3})\] (.*)", head)
    if named is None:
        return PageText(0, "", "", text)
    facts = {name: fact.strip() for name, _, fact in (line.partition(":") for line in head.splitlines()[1:])}
    title = named[2].strip().removeprefix("(no title)")
    return PageText(int(named[1]), title, facts.get("url", ""), body.strip("\n"), facts.get("published", ""))
