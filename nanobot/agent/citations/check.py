"""Whether a source carries a claim: its figures, quotations and names exactly, its words by their share."""

import math
import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

from nanobot.agent.citations.facts import Fact, figures, fold, language_of, names, quotations, squash, words_of

_TARGET = re.compile(r"\]\([^()\s]{0,2000}(?:\([^()\s]{0,200}\)[^()\s]{0,2000})?(?: \"[^\"\n]{0,300}\")?\)")
_BORDER = re.compile(r"(?<=[.!?])[\"”’)\]]*\s+|(?<=[。！？])|\n+")
#: Most characters of a passage that is shown for a mark.
PASSAGE_CHARS = 300
#: The share of a claim's words that its source must have, where another source has `_CLEARLY` times as many.
_LEAST_SHARE, _OTHER_SHARE, _CLEARLY = 0.25, 0.5, 2.0
#: A page number may differ from a rounded one by this share at most.
_ROUNDED = 0.06


@dataclass(frozen=True, slots=True)
class Claim:
    """What one mark, or several that stand together, rests on: `text` reaches back to the mark before or the sentence's
    start, `sentence` is the whole sentence."""

    text: str
    sentence: str
    numbers: tuple[int, ...]


class Page:
    """The text of one source, read when it is first cited."""

    def __init__(self, text: str) -> None:
        self.text = _TARGET.sub("]", text).replace("**", "")

    @cached_property
    def spans(self) -> list[tuple[int, int]]:
        """Where its sentences stand."""
        borders = [0, *(match.end() for match in _BORDER.finditer(self.text)), len(self.text)]
        return [(start, end) for start, end in pairwise(borders) if end > start]

    @cached_property
    def words(self) -> list[frozenset[str]]:
        return [words_of(self.text[start:end]) for start, end in self.spans]

    @cached_property
    def all_words(self) -> frozenset[str]:
        return frozenset().union(*self.words)

    @cached_property
    def figures(self) -> list[tuple[Fact, int]]:
        """Every figure with the place of its sentence."""
        starts = [start for start, _ in self.spans]
        return [(fact, bisect_right(starts, fact.start) - 1) for fact in figures(self.text)]

    @cached_property
    def squashed(self) -> str:
        return squash(self.text)

    @cached_property
    def vocabulary(self) -> frozenset[str]:
        return frozenset(fold(word) for word in re.findall(r"[^\W\d_]+", self.text))

    @cached_property
    def initials(self) -> str:
        return "".join(word[0] for word in re.findall(r"[^\W\d_]+", self.text) if word[0].isupper()).casefold()

    @cached_property
    def language(self) -> str:
        return language_of(self.text)

    def near(self, place: int) -> frozenset[str]:
        return frozenset().union(*self.words[max(0, place - 1) : place + 2])


class Judge:
    """Holds claims against the sources of a turn, whose texts are given by number."""

    def __init__(self, texts: Mapping[int, str]) -> None:
        self._pages = {number: Page(text) for number, text in texts.items()}

    def missing(self, claim: Claim, *, exact: bool = False) -> dict[int, list[str]]:
        """For each source that a claim cites what of it is not there, as sentences; empty lists where all of it is.

        What several sources carry together is carried. With `exact`, other words count for nothing.
        """
        lacks = {number: self._lacks(claim, number) for number in claim.numbers if number in self._pages}
        if not lacks:
            return {}
        common = set.intersection(*(set(lack) for lack in lacks.values()))
        parts = len(self._facts(claim))
        verdicts: dict[int, list[str]] = {}
        for number, lack in lacks.items():
            bad = [fact for fact in lack if fact in common or len(lack) >= max(parts, 1) + (parts == 0)]
            verdicts[number] = [f"{fact}: not on [{number}]{self._instead(lack[fact])}" for fact in bad]
            if not exact and not verdicts[number] and (wrong := self._elsewhere(claim, number)):
                verdicts[number] = [wrong]
        return verdicts

    def passage(self, claim: Claim, number: int) -> str:
        """The words of a source that come nearest to a claim."""
        page = self._pages.get(number)
        if page is None:
            return ""
        weights = _weights(page)
        wanted = words_of(claim.text)
        facts = figures(claim.text)
        best, most = min(1, len(page.spans) - 1), 0.0
        hits = Counter(place for fact in facts for found, place in page.figures if same(fact, found))
        for place, words in enumerate(page.words):
            score = sum(weights.get(word, 0.0) for word in wanted & words) + 3.0 * hits[place]
            if score > most:
                best, most = place, score
        if not page.spans:
            return ""
        start, end = page.spans[best]
        return " ".join(page.text[start : min(end, start + PASSAGE_CHARS)].split())

    def _facts(self, claim: Claim) -> list[Fact]:
        quoted = list(quotations(claim.text))
        inside = [(fact.start, fact.end) for fact in quoted]
        free = [fact for fact in figures(claim.text) if not any(a <= fact.start < b for a, b in inside)]
        named = [
            fact
            for fact in names(claim.text, language_of(claim.sentence))
            if not any(a <= fact.start < b for a, b in inside)
        ]
        return [*quoted, *free, *named]

    def _lacks(self, claim: Claim, number: int) -> dict[str, str]:
        """The facts of a claim that a source does not have, each with what it has in their place."""
        page = self._pages[number]
        language = language_of(claim.sentence)
        foreign = bool(language and page.language) and language != page.language
        wanted = words_of(claim.sentence)
        lacks: dict[str, str] = {}
        facts = self._facts(claim)
        found = {
            id(fact): self._find(fact, page, wanted, foreign=foreign)
            for fact in facts
            if fact.kind not in ("quotation", "name")
        }
        for fact in facts:
            if fact.kind == "quotation":
                if not foreign and not _quoted(fact, page):
                    lacks[f"“{fact.text}”"] = ""
            elif fact.kind == "name":
                if not foreign and not _named(fact, page):
                    lacks[fact.text] = ""
            elif found[id(fact)] != "yes" and not _derived(fact, facts, found):
                lacks[fact.text] = found[id(fact)]
        return lacks

    def _find(self, fact: Fact, page: Page, wanted: frozenset[str], *, foreign: bool) -> str:
        """`yes` where a source has a figure; else what it has instead, empty where that is nothing."""
        equal = [place for other, place in page.figures if same(fact, other)]
        if equal and (foreign or not _weak(fact) or any(wanted & page.near(place) for place in equal)):
            return "yes"
        alike = [
            (other, place)
            for other, place in page.figures
            if other.kind == fact.kind and (other.unit == fact.unit or other.values == fact.values)
        ]
        if (
            fact.kind == "number"
            and fact.spelled
            and not fact.unit
            and not any(other.after == fact.after for other, _ in alike if other.after)
        ):
            return "yes"
        if not alike:
            return ""
        best = max(
            alike,
            key=lambda one: (len(wanted & page.words[one[1]]), one[0].after == fact.after, one[0].unit == fact.unit),
        )
        return best[0].text if wanted & page.near(best[1]) or foreign else ""

    def _instead(self, has: str) -> str:
        return f", which has {has}" if has else ""

    def _elsewhere(self, claim: Claim, number: int) -> str:
        """Why a source is the wrong one: another source of the turn says this, and it does not."""
        page = self._pages[number]
        wanted = words_of(claim.text)
        language = language_of(claim.sentence)
        if len(wanted) < 2 or (language and page.language and language != page.language):
            return ""
        own = len(wanted & page.all_words) / len(wanted)
        if own >= _OTHER_SHARE:
            return ""
        for other, text in self._pages.items():
            if other in claim.numbers:
                continue
            share = len(wanted & text.all_words) / len(wanted)
            if share >= max(_OTHER_SHARE, own * _CLEARLY) and not self._lacks(claim, other):
                return f"this is not on [{number}]; [{other}] has it"
        if own < _LEAST_SHARE and len(wanted) >= 4:
            return f"this is not on [{number}]"
        return ""


def same(fact: Fact, other: Fact) -> bool:
    """True where a figure of a claim says what a figure of a page says."""
    if fact.kind == "date":
        return _same_date(fact, other)
    if fact.kind == "time" and other.kind == "time":
        return fact.values[0] == other.values[0]
    if fact.kind == "weekday":
        return other.kind == "weekday" and fact.values == other.values
    if fact.kind == "number" and other.kind == "date":
        return not fact.unit and fact.values[0] in other.date
    if fact.kind != "number" or other.kind != "number":
        return False
    if fact.unit != other.unit and ((fact.unit and other.unit) or (fact.unit and other.after)):
        return False
    return any(_close(fact, value, wanted, other) for value in other.values for wanted in fact.values)


def _same_date(fact: Fact, other: Fact) -> bool:
    if other.kind != "date":
        return fact.date[1:] == (0, 0) and other.kind == "number" and other.values[0] == fact.date[0]
    pairs = list(zip(fact.date, other.date, strict=True))
    if all(one == two for one, two in pairs if one and two):
        return all(two or not one for one, two in pairs[1:])
    return False


def _close(fact: Fact, value: float, wanted: float, other: Fact) -> bool:
    if math.isclose(value, wanted, rel_tol=1e-6):
        return True
    if not value or abs(value - wanted) > _ROUNDED * abs(value):
        return False
    gap = value - wanted
    if fact.side == "down":
        return 0 < gap < fact.step
    if fact.side == "up":
        return -fact.step < gap < 0
    rounds = (
        fact.side == "near" or fact.scaled or fact.step < 1 or other.step < fact.step == 1 or fact.unit != other.unit
    )
    return rounds and abs(gap) <= fact.step / 2 * 1.0001


def _weak(fact: Fact) -> bool:
    """True for a figure that stands on many pages by chance."""
    return fact.kind == "number" and not fact.unit and max(fact.values) < 100


def _derived(fact: Fact, facts: list[Fact], found: Mapping[int, str]) -> bool:
    """True for the sum or the difference of two numbers that claim and page both name."""
    if fact.kind != "number":
        return False
    known = [one for one in facts if one.kind == "number" and one is not fact and found[id(one)] == "yes"]
    return any(
        math.isclose(fact.values[0], abs(one.values[0] + sign * two.values[0]), rel_tol=1e-6)
        for place, one in enumerate(known)
        for two in known[place + 1 :]
        for sign in (1, -1)
    )


def _quoted(fact: Fact, page: Page) -> bool:
    parts = [squash(part) for part in re.split(r"\[?(?:\.\.\.|…)\]?|(?<=[.!?。！？])\s*", fact.text)]
    return all(part in page.squashed for part in parts if part)


def _named(fact: Fact, page: Page) -> bool:
    return all(_name_word(word, page) for word in re.findall(r"[^\W\d_]+", fact.text))


def _name_word(word: str, page: Page) -> bool:
    folded = fold(word)
    known = page.vocabulary
    if folded in known or len(folded) == 1 or squash(word) in page.squashed:
        return True
    if word.isupper() and len(word) <= 6 and folded in page.initials:
        return True
    beginning = folded[: max(4, len(folded) - 3)]
    return len(folded) > 4 and any(one.startswith(beginning) for one in known)


def _weights(page: Page) -> dict[str, float]:
    counts = Counter(word for words in page.words for word in words)
    return {word: math.log(1 + len(page.words) / count) for word, count in counts.items()}
