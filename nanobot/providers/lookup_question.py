"""What a question asks for, told from its words alone. The words of each language stand in `lookup_languages.json`."""

import ast
import json
import operator
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal

from nanobot.utils.text import squeeze

Wish = Literal["docs", "web", "weather", "clock", "sum", "greeting", "thanks", "about", "impossible", "empty"]
#: What the answer holds: a number, a time, the steps of doing something, or anything.
Kind = Literal["number", "time", "steps", "other"]


@cache
def languages() -> dict[str, dict[str, dict[str, str]]]:
    """Every language by its ISO 639 code: the sentences that it `says`, and the `patterns` of questions in it, among
    them the `words` that say nothing of a subject."""
    text = Path(__file__).with_name("lookup_languages.json").read_text(encoding="utf-8")
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
_ASKED = r"^(?:(?:please|can you|could you|would you|bitte|nanobot),? )*(?:{})"
_OWN = r"\bnanobot\b|\b(?:soul|agents|user|memory|heartbeat)\.md\b|\bconfig\.json\b|^/\w+$"
_URL = r"https?://[^\s<>\"'，。、）」】]+"
#: Each sign of a sum with its other spellings.
_SIGNS = {"+": "plus", "-": "−|minus", "*": "times|x|×|mal|fois|por", "/": "÷|:|divided by", "/100*": "% (?:of|von|de)"}
_OPERATORS: dict[type[ast.AST], Callable[[float, float], float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}


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
    def says(self) -> dict[str, str]:
        """The fixed sentences in the language of the question; English ones where it lacks some."""
        return languages()["en"]["says"] | languages()[self.language]["says"]


def understand(text: str, before: str = "") -> Question:
    """Take a question apart. `before` is the question asked before it, for one that follows on."""
    urls = tuple(dict.fromkeys(url.rstrip(".,;:!?)]}'\"") for url in re.findall(_URL, text, re.IGNORECASE)))
    bare = squeeze(re.sub(_URL, " ", text))
    stripped, code = _stripped(bare), language(bare)
    wish, place = _wish(bare, stripped, urls)
    follows = before and not urls and wish == "web" and _follows(bare, code)
    earlier = _topic(_stripped(squeeze(re.sub(_URL, " ", before))), code) if follows else ""
    parts = pattern("two", r"[,;?]?\s+(?:{})").split(stripped)
    topics = tuple((topic, _kind(part)) for part in parts if (topic := squeeze(f"{earlier} {_topic(part, code)}")))
    return Question(text, squeeze(f"{earlier} {stripped}")[:300], topics, wish, urls, code, place)


def _kind(text: str) -> Kind:
    kinds: tuple[Kind, ...] = ("number", "time", "steps")
    return next((kind for kind in kinds if pattern(kind).search(text)), "other")


def _stripped(text: str) -> str:
    """A question without greetings and courtesies, fit for a search engine."""
    cut = pattern("courtesy", _OPENING).sub("", text.strip(" ¿¡"), count=1)
    cut = pattern("courtesy", _CLOSING).sub("", cut)
    return cut if len(cut) >= 2 else text


def _topic(text: str, code: str) -> str:
    """The words of a question that tell its subject, in its own language."""
    if code in ("zh", "ja"):
        text = pattern("frame").sub(" ", text)
    empty = languages()[code]["patterns"]["words"].split()
    return " ".join(word for word in text.split() if word.casefold().strip("?!.,:;\"'“”«»¿¡()") not in empty)


def _follows(text: str, code: str) -> bool:
    """True for a short question that names no subject of its own."""
    names = [word for word in text.split()[1:] if word[:1].isupper() or word[:1].isdigit()]
    short = len(text.split()) <= 9 and not re.search(r"\bis it \w+ to\b", text)
    return short and not names and bool(pattern("follows").search(text) or not _topic(text, code))


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
    if re.search(_OWN, text, re.IGNORECASE) or (pattern("self").search(stripped) and pattern("own").search(text)):
        return "docs", ""
    if pattern("weather").search(text):
        return "weather", ""
    return "impossible" if pattern("impossible", _ASKED).match(text) else "web", ""


def worked_out(text: str) -> str:
    """A sum with its result, such as `12 * 7 = 84`; empty where the text is none."""
    told = pattern("sum", r"^(?:{})?\s*").sub("", text, count=1).strip(" =?.")
    signed = re.sub(r"(?<=\d)[.,](?=\d{3}\b)", "", told.casefold()).replace(",", ".")
    for sign, words in _SIGNS.items():
        signed = re.sub(rf"(?<=[\d)])\s*(?:{words})\s*(?=[-\d(])", sign, signed)
    if not re.fullmatch(r"[\d\s.+*/()-]{3,80}", signed) or not re.search(r"[\d)]\s*[-+*/]+\s*[-(]?\d", signed):
        return ""
    try:
        return f"{told} = {_value(ast.parse(signed.strip(), mode='eval').body):,.10g}"
    except (SyntaxError, ValueError, ArithmeticError):
        return ""


def _value(node: ast.expr) -> float:
    """The value of a sum. Raises `ValueError` for anything else."""
    match node:
        case ast.Constant(value=int() | float() as number):
            return float(number)
        case ast.UnaryOp(op=ast.USub(), operand=one):
            return -_value(one)
        case ast.BinOp(left=one, op=sign, right=two) if type(sign) in _OPERATORS:
            return _OPERATORS[type(sign)](_value(one), _value(two))
    raise ValueError


def language(text: str) -> str:
    """The language of a question as an ISO 639 code; English where nothing tells."""
    for code, script in (("ja", "[\u3040-\u30ff]"), ("ko", "[\uac00-\ud7af]"), ("zh", "[\u4e00-\u9fff]")):
        if re.search(script, text):
            return code
    told = {}
    for code, entry in languages().items():
        known = entry["patterns"]
        whole = re.match(_WHOLE.format(f"{known['thanks']}|{known['greeting']}"), text, re.IGNORECASE)
        told[code] = sum(word in known["words"].split() for word in re.findall(r"[\w-]+", text.casefold()))
        told[code] += 9 * bool(whole)
    return max(told, key=lambda code: told[code])
