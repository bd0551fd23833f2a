"""Finding the sentences of pages that answer a question."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from nanobot.providers.lookup_cues import Cue
from nanobot.providers.lookup_match import Concept, Texts, held
from nanobot.providers.lookup_reading import PageText
from nanobot.providers.lookup_words import Question
from nanobot.utils.passages import Passage, sentences, split_passages
from nanobot.utils.ranking import terms

MOST = 5
#: Up to this many characters more quotes than `MOST` are shown.
_LITTLE = 560
_PAGE_CHARS = 120_000
_FIRST_WIDTH = 520
_WIDTH = 380
_LONGEST = 700
#: The share of the best quote's score that another needs: where the best holds nothing but the subject of its page, and
#: where it holds all that the question asks about.
_UNSURE_SHARE, _SURE_SHARE = 0.08, 0.35
#: What stands between the cells of a table row.
_CELL = " · "
_ENOUGH_LETTERS = 12
#: Most characters of a line that only makes sense with what follows it.
_LABEL = 90

#: What every sentence of a page that fits has to begin with, as a share of the weight of what the question tells.
_FLOOR = 0.3
#: The beginning of a page tells what its subject is; a question about more than the subject is seldom answered there.
_LEAD = 0.7
#: From here on a word is there itself and not only something akin to it.
_FIRM = 0.75
#: How much a word of the page's own subject tells of one of its sentences on a page of up to `_SHORT` passages; all
#: from `_LONG` passages on.
_SUBJECT, _SHORT, _LONG = 0.0, 12, 60
#: What a sentence gets from the others of its paragraph, from its headings, and from its neighbours beyond.
_BLOCK, _HEADING, _BESIDE = 0.35, 0.6, 0.3
#: The share of the best page's fit below which a page is about something else.
_RELATED = 0.65
#: What a word gains by standing in the title of a page.
_TITLE = 0.5
#: Most sentences of one quote.
_SENTENCES = 4


@dataclass(frozen=True, slots=True)
class Quote:
    """Words of a page, as they stand there. `score` compares quotes of one answer."""

    page: PageText
    text: str
    score: float


@dataclass(frozen=True, slots=True)
class _Unit:
    """A sentence, or a heading, with its place."""

    page: int
    passage: Passage
    text: str


class Evidence:
    """The sentences of some pages, ready to be ranked for a question."""

    def __init__(self, pages: Sequence[PageText]) -> None:
        self.pages = _distinct(pages)
        self.units: list[_Unit] = []
        self._passages: list[tuple[int, Passage]] = []
        self._passage_of: list[int] = []
        for number, page in enumerate(self.pages):
            heading = ""
            for passage in split_passages(page.text[:_PAGE_CHARS]):
                if passage.heading != heading:
                    heading = passage.heading
                    self._add(number, Passage(heading.rpartition(" › ")[2], heading, passage.index, code=True))
                self._add(number, passage)
        self._sentences = Texts((unit.text for unit in self.units), (page.title for page in self.pages))
        self._blocks = [set(terms(passage.text)) for _, passage in self._passages]
        self._above = [set(terms(passage.heading)) for _, passage in self._passages]
        self._titles = [set(terms(page.title)) for page in self.pages]
        self._whole = [set(terms(f"{page.title} {page.text[:_PAGE_CHARS]}")) for page in self.pages]

    def _add(self, page: int, passage: Passage) -> None:
        self._passages.append((page, passage))
        for text in sentences(passage.text):
            self.units.append(_Unit(page, passage, text))
            self._passage_of.append(len(self._passages) - 1)

    def coverage(self, topic: str) -> float:
        """Which share of the question's weight the best page holds, from 0 to 1."""
        wanted = self._sentences.concepts(topic, topic)
        return max((self._page_share(wanted, number) for number in range(len(self.pages))), default=0.0)

    def _page_share(self, wanted: Sequence[Concept], page: int) -> float:
        whole = sum(concept.weight for concept in wanted)
        found = sum(concept.weight * held(concept, self._whole[page]) for concept in wanted)
        return found / whole if whole else 0.0

    def _page_fit(self, wanted: Sequence[Concept], page: int) -> float:
        """How well a page fits a question, from 0 to 1: what its title says it is about counts more."""
        whole = sum(concept.weight for concept in wanted) * (1 + _TITLE)
        found = sum(
            concept.weight * (held(concept, self._whole[page]) + _TITLE * (held(concept, self._titles[page]) >= _FIRM))
            for concept in wanted
        )
        return found / whole if whole else 0.0

    def quotes(self, question: Question, most: int = MOST) -> list[Quote]:
        """The quotes that answer best, best first, from different places, no two alike."""
        scores, sureness = self._scores(question)
        least = 0.0
        chosen: list[Quote] = []
        used: set[int] = set()
        for at in sorted(range(len(self.units)), key=lambda at: (-scores[at], at)):
            size = sum(len(quote.text) for quote in chosen)
            if scores[at] <= 0 or (len(chosen) >= most and size + len(self.units[at].text) > _LITTLE):
                break
            if chosen and scores[at] < chosen[0].score * least:
                break
            unit = self.units[at]
            if at in used or _thin(unit.text) or self._heads_table(at):
                continue
            text, places = self._around(at, scores, _WIDTH if chosen else _FIRST_WIDTH)
            if used & places or any(_alike(text, quote.text) for quote in chosen):
                used |= places
                continue
            used |= places
            if not chosen:
                least = _UNSURE_SHARE + (_SURE_SHARE - _UNSURE_SHARE) * sureness[at]
            chosen.append(Quote(self.pages[unit.page], text, scores[at]))
        return chosen

    def lead(self, most: int = 3) -> list[Quote]:
        """The first full paragraphs of each page, for a page that was asked for without a question."""
        found: list[Quote] = []
        for number, page in enumerate(self.pages):
            long = [passage.text for at, passage in self._passages if at == number and len(passage.text) > 80]
            short = [passage.text for at, passage in self._passages if at == number]
            found.extend(Quote(page, _clipped(text), 1.0) for text in (long or short)[:most])
        return found

    def _scores(self, question: Question) -> tuple[list[float], list[float]]:
        """For each unit how well it answers, and which share of what the question tells beyond the subject it holds."""
        wanted = self._sentences.concepts(question.topic or question.text, question.text)
        cue = Cue(question.kind, question.text, set(terms(question.text)))
        shares = [self._page_fit(wanted, number) for number in range(len(self.pages))]
        best = max(shares, default=0.0)
        scores, sureness = [0.0] * len(self.units), [0.0] * len(self.units)
        for number, share in enumerate(shares):
            if not share or share < best * _RELATED:
                continue
            telling = self._telling(wanted, number)
            own = {at: self._own(at, telling) for at, unit in enumerate(self.units) if unit.page == number}
            floor = _FLOOR * sum(weight for _, weight in telling) / len(telling)
            for at, held_here in own.items():
                score = (
                    held_here + _BESIDE * max(own.get(at - 1, 0.0), own.get(at + 1, 0.0)) + self._context(at, telling)
                )
                fit = cue.fit(self.units[at].text)
                scores[at] = (score + floor) * (0.2 + share**2) * fit
                sureness[at] = self._sureness(at, telling) * min(1.0, fit)
                if at == min(own) and not sureness[at] and any(weight < concept.weight for concept, weight in telling):
                    scores[at] *= _LEAD
        return scores, sureness

    def _telling(self, wanted: Sequence[Concept], page: int) -> list[tuple[Concept, float]]:
        """The question's concepts with what each tells of a sentence of this page: its subject tells little."""
        blocks = [at for at, (number, _) in enumerate(self._passages) if number == page]
        length = min(1.0, max(0.0, (len(blocks) - _SHORT) / (_LONG - _SHORT)))
        subject = _SUBJECT + (1 - _SUBJECT) * length
        known = [
            held(concept, self._titles[page]) >= _FIRM
            or sum(held(concept, self._blocks[at]) >= _FIRM for at in blocks) > max(1, len(blocks) / 2)
            for concept in wanted
        ]
        if all(known):
            return [(concept, concept.weight) for concept in wanted]
        return [
            (concept, concept.weight * (subject if told else 1.0)) for concept, told in zip(wanted, known, strict=True)
        ]

    def _own(self, at: int, telling: Sequence[tuple[Concept, float]]) -> float:
        """What a sentence itself holds of the question; more for much of it than for one word often."""
        whole = sum(weight for _, weight in telling)
        found = [(self._sentences.strength(concept, at), weight) for concept, weight in telling]
        share = sum(weight * min(1.0, strength) for strength, weight in found) / whole if whole else 0.0
        return sum(weight * strength for strength, weight in found) * (1 + 0.4 * share)

    def _sureness(self, at: int, telling: Sequence[tuple[Concept, float]]) -> float:
        """Which share of the concepts that tell of this page's sentences stands in one of them, from 0 to 1."""
        beyond = [(concept, weight) for concept, weight in telling if weight == concept.weight]
        whole = sum(weight for _, weight in beyond)
        block = self._blocks[self._passage_of[at]]
        return sum(weight * held(concept, block) for concept, weight in beyond) / whole if whole else 0.0

    def _context(self, at: int, telling: Sequence[tuple[Concept, float]]) -> float:
        """What the paragraph of a sentence and the headings above it hold of the question."""
        block = self._passage_of[at]
        return sum(
            weight * (_BLOCK * held(concept, self._blocks[block]) + _HEADING * held(concept, self._above[block]))
            for concept, weight in telling
        )

    def _around(self, at: int, scores: Sequence[float], width: int) -> tuple[str, set[int]]:
        """A sentence with its better neighbours, up to `width` characters, and the units taken.

        Neighbours are of the same passage; a heading or another short line takes what follows it as well.
        """
        first = last = at
        size = len(self.units[at].text)
        while last - first + 1 < _SENTENCES:
            beside = [
                place
                for place, joins in (
                    (first - 1, self._joins(first - 1, first)),
                    (last + 1, self._joins(last, last + 1)),
                )
                if joins and size + len(self.units[place].text) < width
            ]
            if not beside:
                break
            best = max(beside, key=lambda place: (scores[place], place))
            size += len(self.units[best].text) + 1
            first, last = min(first, best), max(last, best)
        text = _clipped(_joined(self.units[first : last + 1]))
        head = self._table_head(first)
        if head and len(head) + len(text) < width:
            text = f"{head} — {text}"
        return text, set(range(first, last + 1))

    def _heads_table(self, at: int) -> bool:
        """True for the first row of a table: it comes along with a row that answers."""
        rows = [
            0 <= place < len(self.units)
            and self.units[place].page == self.units[at].page
            and _CELL in self.units[place].text
            for place in (at - 1, at, at + 1)
        ]
        return rows == [False, True, True]

    def _table_head(self, at: int) -> str:
        """The first row of the table in which unit `at` is a later row, else nothing."""
        row = at
        while row and _CELL in self.units[row].text and self.units[row - 1].page == self.units[at].page:
            if _CELL not in self.units[row - 1].text:
                break
            row -= 1
        return self.units[row].text if row < at else ""

    def _joins(self, before: int, after: int) -> bool:
        """True when two neighbouring units may stand in one quote."""
        if before < 0 or after >= len(self.units):
            return False
        if self._passage_of[before] == self._passage_of[after]:
            return True
        one, two = self.units[before], self.units[after]
        if _CELL in one.passage.text and _CELL in two.passage.text:
            return False  # a row is quoted with the head of its table, not with its neighbours
        return one.page == two.page and _is_label(one.passage.text) and one.passage.heading == two.passage.heading


def _joined(units: Sequence[_Unit]) -> str:
    """Units in a row; a dash between passages, no blank after a CJK mark."""
    text = units[0].text
    for before, unit in pairwise(units):
        text += (" " if before.passage is unit.passage else " — ") + unit.text
    return re.sub(r"(?<=[。！？」』]) (?=[\u3000-\u9fff\uff00-\uffef])", "", text)


def _is_label(text: str) -> bool:
    """A short line that is no sentence: it only makes sense with what follows it."""
    return len(text) <= _LABEL and not text.rstrip("\"'”’»)]」』").endswith((".", "!", "…", "。", "！", "？"))


def _clipped(text: str) -> str:
    return text if len(text) <= _LONGEST else text[:_LONGEST].rsplit(" ", 1)[0] + " …"


def _thin(text: str) -> bool:
    """No sentence to speak of: a label, a menu entry, a question of the page itself is fine."""
    return sum(char.isalnum() for char in text) < _ENOUGH_LETTERS and not re.search(
        r"[\u3040-\u9fff\uac00-\ud7af]{4}", text
    )


def _alike(one: str, other: str) -> bool:
    a, b = set(terms(one)), set(terms(other))
    return bool(a and b) and len(a & b) / min(len(a), len(b)) > 0.8


def _distinct(pages: Sequence[PageText]) -> list[PageText]:
    """Pages in order; a second reading of a page replaces nothing but adds its other parts."""
    seen: set[str] = set()
    kept = []
    for page in pages:
        if page.text not in seen:
            seen.add(page.text)
            kept.append(page)
    return kept
