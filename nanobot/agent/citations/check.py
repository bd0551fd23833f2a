"""Whether a source carries a claim: its figures, quotations and names exactly, its other words by their share."""

import math
import re
from bisect import bisect_right
from collections.abc import Mapping
from functools import cached_property
from itertools import combinations

from msgspec import Struct

from nanobot.agent.citations.facts import Fact, figures, fold, languages_of, names, quotations, squash, words_of
from nanobot.utils.passages import sentence_spans
from nanobot.utils.translation import _

#: Characters of a passage that is shown for a mark.
PASSAGE_CHARS = 300
_TARGET = re.compile(r"\]\([^()\s]{0,2000}(?:\([^()\s]{0,200}\)[^()\s]{0,2000})?(?: \"[^\"\n]{0,300}\")?\)")
_LETTERS = re.compile(r"[^\W\d_]+")
#: The share of a claim's words that stands on its source at least, and on another one that is taken for the right one.
_LEAST_SHARE, _OTHER_SHARE, _CLEARLY = 0.12, 0.4, 2.0
#: A number without a unit that stands on a page tells, from this on, that the claim is from there.
_TELLING = 40
#: A number below this and without a unit counts only where the claim's words stand.
_SMALL = 100
#: By what share of itself a figure of a page may be rounded at most.
_ROUNDED = 0.1

#: On which side of a figure the words before it put what they count.
_BOUND = {"over": "low", "least": "low", "under": "high", "most": "high"}


class Claim(Struct, frozen=True):
    """What a mark, or several that stand together, rests on: `text` reaches back to the mark before or to the start of
    the sentence, `sentence` is all of that."""

    text: str
    sentence: str
    numbers: tuple[int, ...]

    @property
    def facts(self) -> list[Fact]:
        """What must stand on a source exactly."""
        return [*quotations(self.text), *figures(self.text), *names(self.text, languages_of(self.sentence))]


class CitedPage:
    """The text of one source, read when it is first cited."""

    def __init__(self, text: str) -> None:
        self.text = _TARGET.sub("]", text).replace("**", "")
        self.spans = sentence_spans(self.text)
        self.languages = languages_of(self.text)
        self.words = [words_of(self.text[start:end]) for start, end in self.spans]
        self.all_words = frozenset[str]().union(*self.words)

    @cached_property
    def squashed(self) -> str:
        return squash(self.text)

    @cached_property
    def vocabulary(self) -> frozenset[str]:
        return frozenset(map(fold, set(_LETTERS.findall(self.text))))

    @cached_property
    def stems(self) -> str:
        return _stems(self.text)

    @cached_property
    def initials(self) -> str:
        return "".join(word[0] for word in _LETTERS.findall(self.text) if word[0].isupper()).casefold()

    @cached_property
    def figures(self) -> list[tuple[Fact, int]]:
        """Every figure with the place of its sentence."""
        starts = [start for start, _ in self.spans]
        return [(fact, bisect_right(starts, fact.start) - 1) for fact in figures(self.text)]

    def foreign(self, claim: Claim) -> bool:
        """True when a claim is in another language, so that its words cannot stand here."""
        languages = languages_of(claim.sentence)
        return bool(languages and self.languages) and not languages & self.languages

    def share(self, wanted: frozenset[str]) -> float:
        """How much of `wanted` stands anywhere on the page."""
        return len(wanted & self.all_words) / max(1, len(wanted))

    def quotes(self, text: str) -> bool:
        """True when the words stand there, if only sentence by sentence; in inflected languages in another ending."""
        parts = [part for part in re.split(r"\[?(?:\.\.\.|…)\]?|(?<=[.!?。！？])\s*", text) if squash(part)]
        exact = all(squash(part) in self.squashed for part in parts)
        return exact or (bool(self.languages & {"de", "ru"}) and all(_stems(part) in self.stems for part in parts))

    def names(self, word: str) -> bool:
        """True when a word of a name stands there in one of its usual forms: inflected, shortened, in one word."""
        folded = fold(word)
        if folded in self.vocabulary or len(folded) == 1 or squash(word) in self.squashed:
            return True
        if word.isupper() and len(word) <= 6 and folded in self.initials:
            return True
        beginning = folded[: max(4, len(folded) - 3)]
        return len(folded) > 4 and any(known.startswith(beginning) for known in self.vocabulary)

    def instead(self, fact: Fact, wanted: frozenset[str], *, foreign: bool) -> str | None:
        """What stands in the place of a figure: None where it stands there itself, empty where nothing is like it."""
        anywhere = foreign or fact.kind != "number" or bool(fact.unit) or max(fact.values) >= _SMALL
        small = fact.factor if fact.unit else 4.0
        if fact.spelled and (fact.unit == "percent" or fact.values[0] < small):
            return None  # "half of them", or a count of the writer's own, such as "two reasons"
        alike, most = "", 0
        for other, place in self.figures:
            shared = len(wanted & self.words[place])
            if same(fact, other) and (anywhere or shared or self._beside(place, wanted) > 1):
                return None
            if shared > most and (other.kind, other.unit) == (fact.kind, fact.unit):
                alike, most = (other.text if other.text != fact.text else _("another bound")), shared
        return alike

    def _beside(self, place: int, wanted: frozenset[str]) -> int:
        """How many of the words stand in a sentence or next to it."""
        return len(wanted & frozenset[str]().union(*self.words[max(0, place - 1) : place + 2]))


class CitationJudge:
    """Holds claims against the sources of a turn, whose texts are given by number."""

    def __init__(self, texts: Mapping[int, str]) -> None:
        self._texts = texts
        self._pages: dict[int, CitedPage] = {}

    def missing(self, claim: Claim, *, exact: bool = False) -> dict[int, list[str]]:
        """For each source that a claim cites what of it is not there, in a sentence each; none where all of it is.

        What several sources carry together is carried. With `exact`, other words count for nothing.
        """
        facts = claim.facts
        lacks = {number: self._lacks(claim, facts, number) for number in claim.numbers if number in self._texts}
        nowhere = set.intersection(*(set(lack) for lack in lacks.values())) if lacks else set()
        verdicts: dict[int, list[str]] = {}
        for number, lack in lacks.items():
            bad = [fact for fact in lack if fact in nowhere or len(lack) == len(facts)]
            verdicts[number] = [_not_there(fact, number, lack[fact]) for fact in bad]
            if not (bad or exact) and (wrong := self._elsewhere(claim, number)):
                verdicts[number] = [wrong]
        return verdicts

    def passage(self, claim: Claim, number: int) -> str:
        """The words of a source that come nearest to a claim; empty where it has no text."""
        if number not in self._texts:
            return ""
        page, wanted, facts = self._page(number), words_of(claim.text), figures(claim.text)
        weights = [len(wanted & words) for words in page.words]
        for found, place in page.figures:
            weights[place] += 3 * any(same(fact, found) for fact in facts)
        # The first line is the title: it is a passage only where nothing else is.
        best = max(range(min(1, len(weights) - 1), len(weights)), key=weights.__getitem__, default=0)
        start, end = page.spans[best]
        return " ".join(page.text[start : min(end, start + PASSAGE_CHARS)].split())

    def _page(self, number: int) -> CitedPage:
        if number not in self._pages:
            self._pages[number] = CitedPage(self._texts[number])
        return self._pages[number]

    def _lacks(self, claim: Claim, facts: list[Fact], number: int) -> dict[str, str]:
        """The facts of a claim that a source does not have, each with what it has in their place."""
        page, wanted = self._page(number), words_of(claim.sentence)
        foreign = page.foreign(claim)
        found = {fact: page.instead(fact, wanted, foreign=foreign) for fact in facts if fact.values}
        known = [fact for fact, instead in found.items() if instead is None and fact.kind in ("number", "time")]
        lacks = {
            fact.text: instead for fact, instead in found.items() if instead is not None and not _derived(fact, known)
        }
        for fact in facts if not foreign else ():
            if fact.kind == "quotation" and not page.quotes(fact.text):
                lacks[f"“{fact.text}”"] = ""
            elif fact.kind == "name" and not all(map(page.names, _LETTERS.findall(fact.text))):
                lacks[fact.text] = ""
        return lacks

    def _elsewhere(self, claim: Claim, number: int) -> str:
        """Why a source is the wrong one: another source of the turn says this, or its words stand nowhere there."""
        page, wanted = self._page(number), words_of(claim.text)
        own, foreign = page.share(wanted), page.foreign(claim)
        stated = any(fact.unit or fact.values[0] > _TELLING for fact in figures(claim.text) if not fact.spelled)
        if len(wanted) < 2 or own >= _OTHER_SHARE or (foreign and stated):
            return ""  # figures were found there, in whatever language
        for other in self._texts.keys() - set(claim.numbers):
            if self._page(other).share(wanted) >= max(_OTHER_SHARE, own * _CLEARLY):
                return _("this is not on [{place}]; [{other}] has it", place=number, other=other)
        alone = own < _LEAST_SHARE and len(wanted) >= 4 and not (foreign or stated)
        return _("this is not on [{place}]", place=number) if alone else ""


def _not_there(fact: str, number: int, instead: str) -> str:
    if instead:
        return _("{fact}: not on [{place}], which has {instead}", fact=fact, place=number, instead=instead)
    return _("{fact}: not on [{place}]", fact=fact, place=number)


def same(fact: Fact, other: Fact) -> bool:
    """True where a figure of a claim says what a figure of a page says."""
    if fact.kind == "date":
        year, month, day = other.values if other.kind == "date" else (0, 0, 0)
        agree = all(one == two for one, two in zip(fact.values, (year, month, day), strict=True) if one and two)
        return bool(month) and agree and (day or not fact.values[2]) != 0
    if fact.kind != "number" or other.kind not in ("number", "date"):
        hours = other.kind == "number" and other.unit == "time" and fact.kind == "time"
        return (fact.kind == other.kind or hours) and fact.values[0] * (60 if hours else 1) == other.values[0]
    if other.kind == "date":
        return not fact.unit and fact.values[0] in other.values
    if fact.unit and fact.unit != other.unit and (other.unit or other.counts):
        return False
    if {_BOUND.get(fact.side, ""), _BOUND.get(other.side, "")} == {"low", "high"}:
        return False  # "at least 40" is not "fewer than 40"
    if fact.unit != other.unit:  # one of them has none: the numbers as they are written, as in "11 cm instead of 7"
        return any(math.isclose(fact.values[0] / fact.factor, value / other.factor) for value in other.values)
    # "17.000" of an answer is 17 thousand; a page may mean 17 with three decimals.
    return any(_close(fact, other, value) for value in other.values)


def _close(fact: Fact, other: Fact, value: float) -> bool:
    """True where `value` is the figure of the claim, or is rounded to it as far as the words before it allow."""
    gap = value - fact.values[0]
    if math.isclose(value, fact.values[0], rel_tol=1e-6) or abs(gap) > _ROUNDED * abs(value):
        return math.isclose(value, fact.values[0], rel_tol=1e-6)
    if fact.side in ("over", "under"):
        return 0 < (gap if fact.side == "over" else -gap) < fact.step
    rounded = fact.side == "near" or fact.scale != 1 or other.step < fact.step <= 1
    rounded = rounded or bool(fact.unit and fact.factor != other.factor)
    return rounded and abs(gap) <= fact.step * 0.50001


def _derived(fact: Fact, known: list[Fact]) -> bool:
    """True for the sum or the difference of two numbers, or of two times, that claim and page both name."""
    for one, two in combinations(known, 2):
        size = 60 if one.kind == "time" else 1
        both = (one.values[0] + two.values[0], abs(one.values[0] - two.values[0]))
        if one.kind == two.kind and any(math.isclose(fact.values[0], size * value, rel_tol=1e-6) for value in both):
            return True
    return False


def _stems(text: str) -> str:
    """The words of `text` without their endings."""
    words = map(fold, _LETTERS.findall(text))
    return " ".join(word[0] if len(word) < 4 else word[:5] if len(word) > 6 else word[:4] for word in words)
