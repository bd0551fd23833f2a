"""What a question asks for, told from its words alone. The words of each language stand in `lookup_languages.json`."""

import json
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal

from pydantic import BaseModel

from nanobot.utils.text import squeeze

Wish = Literal["docs", "web", "weather", "clock", "sum", "greeting", "thanks", "about", "impossible", "empty"]
#: What the answer holds: a number, a time, the steps of doing something, or anything.
Kind = Literal["number", "time", "steps", "other"]


class Language(BaseModel):
    """The fixed sentences in one language, the words that say nothing of a subject, and patterns of questions."""

    read: str
    snippets: str
    nothing: str
    nearest: str
    model: str
    hello: str
    welcome: str
    words: str
    patterns: dict[str, str]


@cache
def languages() -> dict[str, Language]:
    """Every language by its ISO 639 code."""
    text = Path(__file__).with_name("lookup_languages.json").read_text(encoding="utf-8")
    return {code: Language.model_validate(entry) for code, entry in json.loads(text).items()}


@cache
def pattern(name: str, around: str = "(?:{})") -> re.Pattern[str]:
    """The pattern `name` of all languages; `around` is what stands before and behind their alternatives."""
    found = [entry.patterns[name] for entry in languages().values() if name in entry.patterns]
    return re.compile(around.format("|".join(found)), re.IGNORECASE)


@cache
def _empty() -> frozenset[str]:
    return frozenset(word for entry in languages().values() for word in entry.words.split())


_WHOLE = r"^(?:{})(?:[\s,]+nanobot)?[\s,!.?。！？]*$"
_OPENING = r"^(?:(?:hi|hello|hey|ok|so|well|hallo|bonjour|hola|привет|nanobot)\b[\s,!.:]*)*(?:(?:{})[\s,:]+)?"
_IMPOSSIBLE = re.compile(
    r"^(?:please |can you |could you |would you |bitte |nanobot,? )*(?:"
    r"(?:write|compose|draft|translate|rewrite|proofread|refactor|debug|remind|pretend|imagine"
    r"|schreibe?|übersetze?|écris|traduis|escribe|traduce|напиши|переведи)(?= )"
    r"|(?:code|program|draw|sing|schedule|send|delete|run|execute|make|create|generate)"
    r" (?:me|us|a|an|the|this|my|some)\b"
    r"|tell me a (?:joke|story|poem)\b|(?:let's|let us) (?:chat|talk|play)\b)",
    re.IGNORECASE,
)
_OWN = re.compile(
    r"\bnanobot\b|\blookup provider\b|\b(?:soul|agents|user|memory|heartbeat)\.md\b|\bconfig\.json\b|^/\w+$",
    re.IGNORECASE,
)
_OWN_THINGS = re.compile(
    r"\b(?:telegram(?!['’]s)|a? ?(?:language )?model|modell?o?|modèle|api keys?|llm|ollama|workspace"
    r"|the (?:config|session|bot|agent|web search|search engine|gateway|terminal)"
    r"|slash commands?|searxng|openrouter|mcp servers?|allow ?list"
    r"|модель|ключ|телеграм\w*)\b|模型",
    re.IGNORECASE,
)
_SELF = re.compile(
    r"^(?:how (?:do|can|should|would) (?:i|we|you)|where (?:do|can|is|are) (?:i|my|the)|can i|how to|what (?:is|are) my"
    r"|wie (?:kann|verbinde|füge|richte)|comment|cómo|как)\b|如何|怎么",
    re.IGNORECASE,
)
_URL = re.compile(r"https?://[^\s<>\"'，。、）」】]+", re.IGNORECASE)
_FOLLOWS = re.compile(
    r"^(?:and|but|und|et|y|и|а)\s|\b(?:he|she|it|they|him|her|them|his|its|their|er|elle|ils|él|ella|он|она|они|его|её)\b",
    re.IGNORECASE,
)
#: Between two questions in one sentence.
_TWO = re.compile(
    r"[,;?]?\s+(?:and|und|et|y|и)\s+(?=(?:when|who|where|how|what|which|why|wann|wer|wo|wie|was|warum|quand|qui|où|comment"
    r"|combien|cuándo|quién|dónde|cómo|cuánt\w+|когда|кто|где|как|сколько)\b)",
    re.IGNORECASE,
)
_SUM = re.compile(
    r"^(?:what(?:'s| is)|how much is|calculate|was ist|wie ?viel ist|combien font|cuánto es|сколько будет)?\s*"
    r"(-?[\d,.]*\d)\s*(\+|-|−|\*|x|×|/|÷|:|plus|minus|times|mal|divided by|% (?:of|von|de)|%(?= ))\s*"
    r"(-?[\d,.]*\d)[\s=?.]*$",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Question:
    """A question taken apart: `query` is for a search engine, `topics` are the words to rank by with the kind of
    answer, one for each of two questions in a sentence; `urls` were pasted, `place` is where the time is asked for."""

    text: str
    query: str
    topics: tuple[tuple[str, Kind], ...]
    wish: Wish
    urls: tuple[str, ...] = ()
    language: str = "en"
    place: str = ""

    @property
    def topic(self) -> str:
        return " ".join(topic for topic, _ in self.topics)

    @property
    def says(self) -> Language:
        return languages()[self.language]


def understand(text: str, before: str = "") -> Question:
    """Take a question apart. `before` is the question asked before it, for one that follows on."""
    urls = tuple(dict.fromkeys(url.rstrip(".,;:!?)]}'\"") for url in _URL.findall(text)))
    bare = squeeze(_URL.sub(" ", text))
    stripped = _stripped(bare)
    wish, place = _wish(bare, stripped, urls)
    follows = before and not urls and wish == "web" and _follows(bare)
    earlier = _topic(_stripped(squeeze(_URL.sub(" ", before)))) if follows else ""
    parts = ((squeeze(f"{earlier} {_topic(part)}"), _kind(part)) for part in _TWO.split(stripped))
    topics = tuple(part for part in parts if part[0])
    return Question(text, squeeze(f"{earlier} {stripped}")[:300], topics, wish, urls, language(bare), place)


def _kind(text: str) -> Kind:
    kinds: tuple[Kind, ...] = ("number", "time", "steps")
    return next((kind for kind in kinds if pattern(kind).search(text)), "other")


def _stripped(text: str) -> str:
    """A question without greetings and courtesies, fit for a search engine."""
    cut = pattern("courtesy", _OPENING).sub("", text.strip(" ¿¡"), count=1)
    cut = pattern("courtesy", r"[\s,]*(?:{})?[\s?!.。？！]*$").sub("", cut)
    return cut if len(cut) >= 2 else text


def _topic(text: str) -> str:
    if re.search("[\u4e00-\u9fff]", text):
        text = pattern("frame").sub(" ", text)
    return " ".join(word for word in text.split() if word.casefold().strip("?!.,:;\"'“”«»¿¡()") not in _empty())


def _follows(text: str) -> bool:
    names = [word for word in text.split()[1:] if word[:1].isupper() or word[:1].isdigit()]
    short = len(text.split()) <= 9 and not re.search(r"\bis it \w+ to\b", text)
    return short and not names and bool(_FOLLOWS.search(text) or not _topic(text))


def _wish(text: str, stripped: str, urls: tuple[str, ...]) -> tuple[Wish, str]:
    """What is wanted, and the place whose time is."""
    if urls:
        return "web", ""
    if not re.search(r"\w", text):
        return "empty", ""
    if clock := pattern("clock", _WHOLE).match(stripped):
        return "clock", (clock.groupdict().get("place") or "").strip()
    wholes: tuple[Wish, ...] = ("thanks", "greeting", "about")
    if wish := next((wish for wish in wholes if pattern(wish, _WHOLE).match(text.strip(" ¿¡"))), None):
        return wish, ""
    if worked_out(stripped):
        return "sum", ""
    if _OWN.search(text) or (_SELF.search(stripped) and _OWN_THINGS.search(text)):
        return "docs", ""
    if pattern("weather").search(text):
        return "weather", ""
    return "impossible" if _IMPOSSIBLE.match(text) else "web", ""


def worked_out(text: str) -> str:
    """The result of a sum of two numbers, such as `what is 12 * 7` or `15% of 80`; empty where it is none."""
    found = _SUM.match(text)
    if found is None:
        return ""
    sign = found[2].casefold()
    try:
        one, two = (float(re.sub(r",(?=\d{3}\b)", "", number).replace(",", ".")) for number in (found[1], found[3]))
        if sign in ("+", "plus"):
            value = one + two
        elif sign in ("-", "−", "minus"):
            value = one - two
        elif sign in ("/", "÷", ":", "divided by"):
            value = one / two
        else:
            value = one * two / (100 if "%" in sign else 1)
    except (ValueError, ArithmeticError):
        return ""
    return f"{found[1]} {found[2]} {found[3]} = {value:,.10g}"


def language(text: str) -> str:
    """The language of a question as an ISO 639 code; English where nothing tells."""
    if re.search("[\u3040-\u30ff\uac00-\ud7af]", text):
        return "en"
    if re.search("[\u4e00-\u9fff]", text):
        return "zh"
    words = re.findall(r"\w+", text.casefold())
    known = {code: set(entry.words.split()) for code, entry in languages().items()}
    told = {code: sum(word in own for word in words) for code, own in known.items()}
    for code, entry in languages().items():
        if re.match(_WHOLE.format(f"{entry.patterns['thanks']}|{entry.patterns['greeting']}"), text, re.IGNORECASE):
            return code
    return max(told, key=lambda code: told[code])
