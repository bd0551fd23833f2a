"""Where a page says what a claim counts: its sentences, how much their words tell, and the figures in their places."""

import math
import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable
from functools import cached_property

from nanobot.agent.citations.claims import Claim, words_of
from nanobot.agent.citations.figures import Ledger, agrees, same_kind
from nanobot.agent.citations.reading import Figure
from nanobot.utils.passages import sentence_spans
from nanobot.utils.ranking import terms

_MOST_PLACES = 60
#: A sentence beside the one with the figure counts so much.
_BESIDE = 0.35
#: A figure in the place of the claim's own must stand among so much more of the claim's words.
_CLEARER = 1.15
#: A word that the page does not have counts so much of its rarest one.
_ELSEWHERE = 0.5
#: And among so much of them, of those that the page has at all.
_AMONG = 0.34
#: The same for a small number, which the page need not write as a figure.
_AMONG_WEAK = 0.5
_CJK = re.compile("[\u3040-\u30ff\u4e00-\u9fff\uac00-\ud7af]")
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
    def ledger(self) -> Ledger:
        return Ledger(self.text)

    def has(self, figure: Figure, claim: Claim, *, foreign: bool) -> bool:
        """True unless the page lacks this figure, or gives another one where it says what the claim says."""
        places = self.ledger.agreeing(figure)
        if figure.kind == "date" and not self._has_year(figure, places):
            return False
        if not places and not figure.weak:
            return self.ledger.reckoned(figure, claim.text)
        if foreign or not claim.words:
            return True
        return not self._rivalled(figure, places, claim)

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
        own = {self.sentences.at(place.start) for place in places[:_MOST_PLACES]}
        mine = max((self.sentences.around(place.start, words) for place in places[:_MOST_PLACES]), default=0.0)
        for other in self.ledger.all:
            if other.kind != figure.kind or self.sentences.at(other.start) in own:
                continue
            if not self._instead(figure, other, nouns) or any(agrees(said, other) for said in claim.figures):
                continue
            if not self.sentences.tells(other.start, words, claim):
                continue
            theirs = self.sentences.around(other.start, words)
            if theirs >= least and theirs > mine * _CLEARER + 0.01:
                return True
        return False

    def _instead(self, figure: Figure, other: Figure, nouns: frozenset[str]) -> bool:
        """True when `other` counts or measures what `figure` does."""
        if figure.unit or other.unit:
            return same_kind(figure, other)
        return bool(nouns & counted(self.text, other))

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
    for word in behind.split()[:2]:
        said = words_of(word)
        if not said:
            break  # a preposition: what follows is something else
        found += said
    label = _LABEL.search(text[max(0, figure.start - 24) : figure.start])
    before = [f"<{word}" for word in terms(label[1])[:1] if word in words_of(label[1])] if label else []
    return frozenset([*found, *before])
