"""Whether another source of the turn is the one that says what a claim says."""

import math
from collections import Counter
from collections.abc import Iterable, Mapping

from nanobot.agent.citations.claims import Claim
from nanobot.agent.citations.pages import PageText

_BESIDE = 0.35
#: Another source must have so much of a claim, and so many times what this one has; where this one has next to nothing
#: of it, less is enough.
_MOST, _TIMES = 0.6, 2.5
_MOST_ALONE, _NOTHING = 0.55, 0.1
#: So many words of it at least, and where the cited source is in another language so many.
_LEAST, _LEAST_FOREIGN = 2, 6


class Turn:
    """The sources of a turn that have a text, by number."""

    def __init__(self, pages: Mapping[int, PageText]) -> None:
        self._pages = pages
        self._seen = Counter(word for page in pages.values() for words in page.sentences.words for word in words)
        self._all = sum(len(page.sentences.words) for page in pages.values())

    def elsewhere(self, claim: Claim, number: int) -> bool:
        """True when a source that the claim does not name says it clearly and the source `number` does not."""
        page = self._pages[number]
        known = frozenset(word for word in claim.words if word in self._seen)
        if len(known) < _LEAST:
            return False
        own, _ = self._stands(page, known)
        for other, text in self._pages.items():
            if other in claim.numbers or text.foreign(claim):
                continue
            theirs, words = self._stands(text, known)
            foreign = page.foreign(claim)
            if words < (_LEAST_FOREIGN if foreign else _LEAST) or text.missing(claim):
                continue
            alone = own <= _NOTHING * theirs and not foreign
            if theirs >= (_MOST_ALONE if alone else _MOST) * self._weigh(claim.words) and theirs > own * _TIMES:
                return True
        return False

    def _weigh(self, words: Iterable[str]) -> float:
        return sum(math.log(1 + self._all / max(1, self._seen[word])) for word in words)

    def _stands(self, page: PageText, words: frozenset[str]) -> tuple[float, int]:
        """How much of `words` stands together on a page, its title included, and how many of them."""
        title = words & page.title
        rest = words - title
        best, count = 0.0, 0
        found = page.sentences.words
        for at, here in enumerate(found):
            beside = frozenset().union(*found[max(0, at - 1) : at], *found[at + 1 : at + 2]) & rest - here
            weight = self._weigh(rest & here) + _BESIDE * self._weigh(beside)
            if weight > best:
                best, count = weight, len(rest & here)
        return best + self._weigh(title), count + len(title)
