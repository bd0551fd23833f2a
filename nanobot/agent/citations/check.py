"""Whether a source carries a claim: its figures, quotations and names exactly, its other words by their share."""

import math
import re
from bisect import bisect_right
from functools import cached_property
from itertools import combinations

from msgspec import Struct

from nanobot.agent.citations.facts import Fact, figures, fold, languages_of, names, quotations, squash, words_of
from nanobot.results import SourceBook
from nanobot.utils.passages import sentence_spans
from nanobot.utils.translation import _

#: Characters of a passage that is shown for a mark.
PASSAGE_CHARS = 300
_TARGET = re.compile(r"\]\([^()\s]{0,2000}(?:\([^()\s]{0,200}\)[^()\s]{0,2000})?(?: \"[^\"\n]{0,300}\")?\)")
_LETTERS = re.compile(r"[^\W\d_]+")
#: Where a quotation leaves words out, or joins sentences that stand apart.
_PARTS = r"\[?(?:\.\.\.|…)\]?|(?<=[.!?。！？])\s*"
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


class CitedPage:
    """The text of one source, read when it is first cited."""

    def __init__(self, text: str) -> None:
        self.text = _TARGET.sub("]", text).replace("**", "")
        self.spans = sentence_spans(self.text)
        self.languages = languages_of(self.text)
        self.words = [words_of(self.text[start:end]) for start, end in self.spans]
        starts = [start for start, _ in self.spans]
        #: Every figure with the place of its sentence.
        self.figures = [(fact, bisect_right(starts, fact.start) - 1) for fact in figures(self.text)]

    @cached_property
    def squashed(self) -> str:
        return squash(self.text)

    @cached_property
    def vocabulary(self) -> frozenset[str]:
        return frozenset(map(fold, set(_LETTERS.findall(self.text))))

    @cached_property
    def initials(self) -> str:
        return "".join(word[0] for word in _LETTERS.findall(self.text) if word[0].isupper()).casefold()

    @cached_property
    def all_words(self) -> frozenset[str]:
        return frozenset[str]().union(*self.words)

    def foreign(self, claim: Claim) -> bool:
        """True when a claim is in another language, so that its words cannot stand here."""
        languages = languages_of(claim.sentence)
        return bool(languages and self.languages) and not languages & self.languages

    def share(self, wanted: frozenset[str]) -> float:
        """How much of `wanted` stands anywhere on the page."""
        return len(wanted & self.all_words) / max(1, len(wanted))

    def instead(self, fact: Fact, wanted: frozenset[str], *, foreign: bool) -> str | None:
        """What stands in the place of a fact: None where it stands there itself, empty where nothing is like it."""
        if fact.kind == "quotation":
            return None if foreign or all(squash(part) in self.squashed for part in re.split(_PARTS, fact.text)) else ""
        if fact.kind == "name":
            return None if foreign or all(map(self._has, _LETTERS.findall(fact.text))) else ""
        if fact.side == "share" or (
            fact.spelled and (fact.unit == "percent" or fact.value <= (fact.factor if fact.unit else 3))
        ):
            return None  # "half of them", or a count of the writer's own, such as "two reasons"
        if fact.unit.startswith("month") and fact.value > 31:
            dated = {other.value > 31 for other, place in self.figures if other.unit == fact.unit}
            if dated == {False}:
                return None  # the page names days of this month without their year
        anywhere = foreign or bool(fact.unit) or fact.value >= _SMALL
        if any(same(fact, other) and (anywhere or wanted & self._near(place)) for other, place in self.figures):
            return None
        alike, most = "", 0
        for other, place in self.figures:
            shared = len(wanted & self.words[place])
            if shared > most and other.unit == fact.unit:
                alike, most = (other.text if other.text != fact.text else _("another bound")), shared
        return alike

    def _near(self, place: int) -> frozenset[str]:
        """The words of a sentence and of those beside it."""
        return frozenset[str]().union(*self.words[max(0, place - 1) : place + 2])

    def _has(self, word: str) -> bool:
        """True when a word of a name stands there in one of its usual forms: inflected, shortened, in one word."""
        folded = fold(word)
        if folded in self.vocabulary or squash(word) in self.squashed:
            return True
        if word.isupper() and len(word) <= 6 and folded in self.initials:
            return True
        beginning = folded[: max(4, len(folded) - 3)]
        return len(folded) > 4 and any(known.startswith(beginning) for known in self.vocabulary)


class CitationJudge:
    """Holds claims against the sources of a turn."""

    def __init__(self, book: SourceBook) -> None:
        texts = {source: book.text(source.number) for source in book.all}
        self._texts = {one.number: f"{one.title}\n{text}\n{one.url}" for one, text in texts.items() if text}
        self._pages: dict[int, CitedPage] = {}

    def missing(self, claim: Claim, *, exact: bool = False) -> dict[int, list[str]]:
        """For each source that a claim cites what of it is not there, in a sentence each; none where all of it is.

        What several sources carry together is carried. With `exact`, other words count for nothing.
        """
        text, languages = claim.text, languages_of(claim.sentence)
        facts = [*quotations(text), *figures(text), *names(text, languages)]
        lacks = {number: self._lacks(claim, facts, number) for number in claim.numbers if number in self._texts}
        nowhere = set.intersection(*map(set, lacks.values())) if lacks else set()
        verdicts: dict[int, list[str]] = {}
        for number, lack in lacks.items():
            bad = [said for fact, said in lack.items() if fact in nowhere or len(lack) == len(facts)]
            verdicts[number] = bad or ([] if exact else self._elsewhere(claim, number))
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
        """The facts of a claim that a source does not have, each with a sentence that says so."""
        page, wanted, foreign = self._page(number), words_of(claim.sentence), self._page(number).foreign(claim)
        found = {fact: page.instead(fact, wanted, foreign=foreign) for fact in facts}
        known = [fact for fact, instead in found.items() if instead is None and fact.kind == "number"]
        return {
            fact.text: _("{fact}: not on [{place}], which has {instead}", fact=fact.text, place=number, instead=instead)
            if instead
            else _("{fact}: not on [{place}]", fact=fact.text, place=number)
            for fact, instead in found.items()
            if instead is not None and not _derived(fact, known)
        }

    def _elsewhere(self, claim: Claim, number: int) -> list[str]:
        """Why a source is the wrong one: another source of the turn says this, or its words stand nowhere there."""
        page, wanted = self._page(number), words_of(claim.text)
        own, foreign = page.share(wanted), page.foreign(claim)
        stated = any(fact.unit or fact.value > _TELLING for fact in figures(claim.text) if not fact.spelled)
        if len(wanted) < 2 or own >= _OTHER_SHARE or (foreign and stated):
            return []  # figures were found there, in whatever language
        for other in self._texts.keys() - set(claim.numbers):
            if self._page(other).share(wanted) >= max(_OTHER_SHARE, own * _CLEARLY):
                return [_("this is not on [{place}]; [{other}] has it", place=number, other=other)]
        alone = own < _LEAST_SHARE and len(wanted) >= 4 and not (foreign or stated)
        return [_("this is not on [{place}]", place=number)] if alone else []


def same(fact: Fact, other: Fact) -> bool:
    """True where a figure of a claim says what a figure of a page says."""
    if fact.unit not in ("", other.unit) and (other.unit or fact.unit.startswith("month")):
        return False
    if {_BOUND.get(fact.side, ""), _BOUND.get(other.side, "")} == {"low", "high"}:
        return False  # "at least 40" is not "fewer than 40"
    # Where one of them has no unit, the numbers as they are written, as in "11 cm instead of 7".
    ratio = fact.factor / other.factor if fact.unit != other.unit else 1.0
    return _rounds(fact, ratio * other.value)


def _rounds(fact: Fact, value: float) -> bool:
    """True where `value` is the figure of the claim, or is rounded to it as far as the words before it allow."""
    gap, exact = value - fact.value, 1e-6 * abs(value)
    half = fact.step / 2 if fact.side == "near" else fact.grain / 2
    low, high = {"over": (0.0, 0.99 * fact.step), "under": (-0.99 * fact.step, 0.0)}.get(fact.side, (-half, half))
    return abs(gap) <= exact or (low - exact <= gap <= high + exact and abs(gap) <= _ROUNDED * abs(value))


def _derived(fact: Fact, known: list[Fact]) -> bool:
    """True for the sum or the difference of two numbers that claim and page both name."""
    for one, two in combinations([one.value for one in known], 2):
        if fact.kind == "number" and any(math.isclose(fact.value, value) for value in (one + two, abs(one - two))):
            return True
    return False
