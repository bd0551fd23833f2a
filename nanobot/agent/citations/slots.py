"""Where a page says what a claim counts: its sentences, how much their words tell, and the figures in their places."""

import math
import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable
from functools import cached_property

from nanobot.agent.citations.claims import Claim, words_of
from nanobot.agent.citations.figure import Figure
from nanobot.agent.citations.figures import Ledger, agrees, same_kind
from nanobot.agent.citations.sets import Family, members
from nanobot.agent.citations.tables import Tables
from nanobot.utils.passages import sentence_spans
from nanobot.utils.ranking import terms

_MOST_PLACES = 60
#: A sentence beside the one with the figure counts so much.
_BESIDE = 0.35
#: A figure in the place of the claim's own must stand among so much more of the claim's words.
_CLEARER = 1.6
#: A word that the page does not have counts so much of its rarest one.
_ELSEWHERE = 0.5
#: And among so much of them, of those that the page has at all.
_AMONG = 0.5
#: The same for a small number, which the page need not write as a figure.
_AMONG_WEAK = 0.65
_CJK = re.compile("[\u3040-\u30ff\u4e00-\u9fff\uac00-\ud7af]")
_CLAUSE = re.compile(
    r"[,;:，；：、]\s|[，；：、]|\s(?:and|but|while|und|aber|während|et|mais|y|pero|e|ma|mas|и|а|но)\s"
)
_FAMILIES: tuple[Family, ...] = ("nation", "weekday")
_LABEL = re.compile(r"(?<![^\W\d_])([^\W\d_]{3,})\.?\s?\Z")


class Sentences:
    """The sentences of a page (a row of a table is one), each with its words."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.spans = [(start, end) for start, end in sentence_spans(text) if text[start:end].strip()]
        self.words = [words_of(text[start:end]) for start, end in self.spans]
        self._starts = [start for start, _ in self.spans]
        self._seen = Counter(word for words in self.words for word in words)

    def weigh(self, words: Iterable[str]) -> float:
        """How much words tell that stand here: those that stand in few sentences tell most."""
        return sum(self.weight(word) for word in words)

    def weight(self, word: str) -> float:
        seen = self._seen.get(word, 0)
        return math.log(1 + len(self.spans) / seen) if seen else 0.0

    def at(self, place: int) -> int:
        return max(0, bisect_right(self._starts, place) - 1)

    def around(self, place: int, words: frozenset[str]) -> float:
        """How much of `words` stands in the sentence at `place`, and a little less in those beside it."""
        if not self.spans:
            return 0.0
        at = self.at(place)
        here = words & self.words[at]
        beside = frozenset().union(*self.words[max(0, at - 1) : at], *self.words[at + 1 : at + 2]) & words - here
        return self.weigh(here) + _BESIDE * self.weigh(beside)

    def asked(self, words: frozenset[str]) -> float:
        """How much `words` tell, those that do not stand here at all included."""
        rare = math.log(1 + len(self.spans))
        return sum(self.weight(word) or _ELSEWHERE * rare for word in words)

    def tells(self, place: int, words: frozenset[str], claim: Claim) -> bool:
        """True when the sentence at `place` has two of the words, or a name of the claim."""
        here = words & self.words[self.at(place)]
        start, end = self.spans[self.at(place)]
        row = re.match(r"\s*\|([^|]*)\|", self.text[start:end])
        if row and here & words_of(row[1]):
            return True
        return len(here) > 1 or any(here & words_of(name) for name in claim.names)

    def best(self, words: frozenset[str]) -> float:
        """The same for the sentence with most of `words`."""
        return max((self.around(start, words) for start, _ in self.spans), default=0.0)


class Slots:
    """The figures of a page, each with what it counts: its unit, the words behind it, the word before it."""

    def __init__(self, text: str, sentences: Sentences) -> None:
        self.text = text
        self.sentences = sentences

    @cached_property
    def tables(self) -> Tables:
        return Tables(self.text)

    @cached_property
    def ledger(self) -> Ledger:
        return Ledger(self.text)

    def has(self, figure: Figure, claim: Claim, *, foreign: bool) -> bool:
        """True unless the page lacks this figure, or gives another one where it says what the claim says."""
        places = self.ledger.agreeing(figure)
        if figure.kind == "date" and not places and self._has_day(figure):
            return True
        if figure.kind == "date" and not self._has_year(figure, places):
            return False
        if not places and not figure.weak:
            return self.ledger.reckoned(figure, claim.text)
        if foreign or not claim.words:
            return True
        if places and not self._is_year(figure) and self.tables.elsewhere((item.start for item in places), claim):
            return False
        return not self._rivalled(figure, places, claim)

    @staticmethod
    def _is_year(figure: Figure) -> bool:
        return figure.kind == "number" and any(1_500 <= value < 2_100 for value in figure.values) and not figure.scaled

    def _rivalled(self, figure: Figure, places: list[Figure], claim: Claim) -> bool:
        """True when another figure fills the place of `figure` in a sentence that says more of the claim."""
        nouns = counted(claim.text, figure)
        if not nouns and not figure.unit and figure.kind == "number":
            return False
        words = claim.context
        whole = self.sentences.asked(words)
        if not whole:
            return False
        least = (_AMONG if places else _AMONG_WEAK) * whole
        at = [self.sentences.at(place.start) for place in places[:_MOST_PLACES]]
        mine = max((self.sentences.around(place.start, words) for place in places[:_MOST_PLACES]), default=0.0)
        named = any(nouns & counted(self.text, place) for place in places)
        for other in self.ledger.all:
            if other.kind != figure.kind or not self._instead(figure, other, nouns):
                continue
            if any(agrees(said, other) for said in claim.figures):
                continue
            counts = (
                {word for word in nouns & counted(self.text, other) if word[0] != "<"} if not figure.unit else set()
            )
            if (here := self.sentences.at(other.start)) in at:
                beside = [place for place, one in zip(places, at, strict=False) if one == here]
                if (counts and not named) or self._in_its_clause(other, beside, claim):
                    return True
                continue
            if not (self.sentences.tells(other.start, words, claim) or (counts and not named)):
                continue
            theirs = self.sentences.around(other.start, words)
            if theirs >= least and theirs > mine * _CLEARER + 0.01:
                return True
        return False

    def _in_its_clause(self, other: Figure, places: list[Figure], claim: Claim) -> bool:
        """True when of the figures of one sentence `other` is the one beside the words of the claim."""
        theirs = self._clause(other) & claim.context
        if any(self._clause(place) & claim.context for place in places):
            return False
        return len(theirs) > 1 and self.sentences.weigh(theirs) >= _AMONG * self.sentences.asked(claim.context)

    def _clause(self, figure: Figure) -> frozenset[str]:
        start, end = self.sentences.spans[self.sentences.at(figure.start)]
        before = _CLAUSE.split(self.text[start : figure.start])[-1]
        return words_of(before + " " + _CLAUSE.split(self.text[figure.end : end])[0])

    def changed(self, claim: Claim) -> list[str]:
        """What of a family of words that exclude one another the page has another member of where it says the rest."""
        return [family for family in _FAMILIES if self._changed(family, claim)]

    def _changed(self, family: Family, claim: Claim) -> bool:
        said = members(family, claim.text)
        if len(said) != 1 or said & members(family, self.text):
            return False
        whole = self.sentences.asked(claim.context)
        for start, end in self.sentences.spans:
            if members(family, self.text[start:end]):
                fit = self.sentences.around(start, claim.context)
                if fit >= _AMONG * whole and fit > 0:
                    return True
        return False

    def _instead(self, figure: Figure, other: Figure, nouns: frozenset[str]) -> bool:
        """True when `other` counts or measures what `figure` does."""
        if figure.unit or other.unit:
            return same_kind(figure, other)
        return bool(nouns & counted(self.text, other))

    def _has_day(self, figure: Figure) -> bool:
        """True for `12 February` where the page says the month at one place and `the 12th` at another."""
        months = members("month", self.text)
        return any(
            not year and f"m{month - 1}" in months and re.search(rf"(?<!\d){day}(?:th|st|nd|rd|\.)(?!\d)", self.text)
            for year, month, day in figure.dates
        )

    def _has_year(self, figure: Figure, places: list[Figure]) -> bool:
        """True unless the claim names a year that neither a date that agrees nor any other place here has."""
        years = {date[0] for date in figure.dates}
        # A page of its day names the day and the month only.
        if all(date[2] for date in figure.dates) and places:
            return True
        if 0 in years or any(date[0] in years for place in places for date in place.dates):
            return True
        return bool(years & self.ledger.years)


def counted(text: str, figure: Figure) -> frozenset[str]:
    """What a number at its place counts, as far as the words beside it tell: `letters` of `three long letters`."""
    if figure.kind == "date":
        return frozenset()
    behind = text[figure.end : figure.end + 48]
    behind = re.split(r"[.,;:!?()|\n。，；：！？、（]", behind, maxsplit=1)[0].strip()
    if _CJK.match(behind):
        return frozenset({behind[:1]}) if behind[0] not in "的はがをにとで、는은이가을를" else frozenset()
    found: list[str] = []
    found += words_of(behind.split()[0]) if behind else ()  # a preposition counts nothing
    label = _LABEL.search(text[max(0, figure.start - 24) : figure.start])
    before = [f"<{word}" for word in terms(label[1])[:1] if word in words_of(label[1])] if label else []
    return frozenset([*found, *before])
