"""Finding the sentences of pages that answer a question."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from nanobot.providers.lookup_reading import PageText
from nanobot.providers.lookup_words import Kind, Question
from nanobot.utils.passages import Passage, sentences, split_passages
from nanobot.utils.ranking import Index, terms

MOST = 5
_PAGE_CHARS = 120_000
_FIRST_WIDTH = 520
_WIDTH = 380
_LONGEST = 700
#: The share of the best quote's score that the first few others need, and those after them.
_LEAST_SHARE, _LATER_SHARE = 0.3, 0.5
_SURE = 3
#: What stands between the cells of a table row.
_CELL = " · "
_ENOUGH_LETTERS = 12
#: Most characters of a line that only makes sense with what follows it.
_LABEL = 90

_MONTH = (
    r"jan(?:uary|\.)?|feb(?:ruary|\.)?|mar(?:ch|\.)|apr(?:il|\.)?|june?|july?|aug(?:ust|\.)?|sept?(?:ember|\.)?"
    r"|oct(?:ober|\.)?"
    r"|nov(?:ember|\.)?|dec(?:ember|\.)?|januar|februar|märz|mai|juni|juli|oktober|dezember|janvier|février|mars"
    r"|avril|juin"
    r"|juillet|août|septembre|octobre|novembre|décembre|enero|febrero|marzo|abril|mayo|junio|julio|agosto"
    r"|septiembre|octubre"
    r"|noviembre|diciembre|janeiro|fevereiro|março|maio|junho|julho|setembro|outubro|novembro|dezembro|gennaio|febbraio"
    r"|aprile|maggio|giugno|luglio|settembre|ottobre|dicembre|января|февраля|марта|апреля|мая|июня|июля|августа"
    r"|сентября"
    r"|октября|ноября|декабря|mon(?:day)|tuesday|wednesday|thursday|friday|saturday|sunday"
)
_NUMBER_WORDS = (
    r"two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|dozens?|hundreds?|thousands?|millions?"
    r"|billions?|half|third"
    r"|quarter|once|twice|single|zwei|drei|deux|trois|dos|tres|dois|três|due|tre|два|две|три|четыре|пять"
)
_SIGNS: dict[Kind, re.Pattern[str]] = {
    "time": re.compile(
        rf"\b(?:{_MONTH})\b|\b(?:1\d|20)\d\d\b|\b\d{{1,2}}:\d\d\b|\b\d{{1,2}} ?[ap]\.?m\b|\b(?:yesterday|today"
        rf"|tomorrow|last"
        r"|next|ago)\b|\d ?[年月日時]|\d ?[년월일시]",
        re.IGNORECASE,
    ),
    "number": re.compile(rf"\d|\b(?:{_NUMBER_WORDS})\b|[一二三四五六七八九十百千万億]", re.IGNORECASE),
    "reason": re.compile(
        r"\b(?:because|due to|since|so that|as a result|in order to|owing|thanks to|after|caused?|reasons?|why"
        r"|therefore|weil|da"
        r"|denn|wegen|parce|car|porque|pois|já que|perché|perche|poiché|karena|sebab)\b|потому|из-за|поскольку"
        r"|так как|чтобы"
        r"|ため|ので|から|理由|因为|由于|때문|이유",
        re.IGNORECASE,
    ),
    "person": re.compile(
        r"[A-ZÀ-ÞА-Я][\w'’.-]+(?: (?:de|van|von|da|dos|bin|al|el|\w\.))* [A-ZÀ-ÞА-Я][\w'’-]+"
        r"|[\u3040-\u9fff\uac00-\ud7af]"
    ),
    "place": re.compile(
        r"\b(?:in|at|near|from|to|of|outside|on|em|no|na|en|à|im|bei|nach|di|a|в|на)\s+(?:the\s+)?[A-ZÀ-ÞА-Я]"
        r"|[\u3040-\u9fff\uac00-\ud7af]"
    ),
}
_PRESENT, _ABSENT = 1.25, 0.7


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
        self._sentences = Index(unit.text for unit in self.units)
        self._blocks = Index(passage.text for _, passage in self._passages)
        self._above = Index(f"{self.pages[unit.page].title} {unit.passage.heading}" for unit in self.units)
        self._whole = [set(terms(f"{page.title} {page.text[:_PAGE_CHARS]}")) for page in self.pages]

    def _add(self, page: int, passage: Passage) -> None:
        self._passages.append((page, passage))
        for text in sentences(passage.text):
            self.units.append(_Unit(page, passage, text))
            self._passage_of.append(len(self._passages) - 1)

    def coverage(self, topic: str) -> float:
        """Which share of the question's weight the best page holds, from 0 to 1."""
        return max((self._page_share(terms(topic), number) for number in range(len(self.pages))), default=0.0)

    def _page_share(self, wanted: Sequence[str], page: int) -> float:
        weights = {term: self._sentences.idf(term) for term in set(wanted)}
        whole = sum(weights.values())
        return sum(weight for term, weight in weights.items() if term in self._whole[page]) / whole if whole else 0.0

    def quotes(self, question: Question, most: int = MOST) -> list[Quote]:
        """The quotes that answer best, best first, from different places, no two alike."""
        scores = self._scores(question)
        chosen: list[Quote] = []
        used: set[int] = set()
        for at in sorted(range(len(self.units)), key=lambda at: (-scores[at], at)):
            if len(chosen) >= most or scores[at] <= 0:
                break
            if chosen and scores[at] < chosen[0].score * (_LEAST_SHARE if len(chosen) < _SURE else _LATER_SHARE):
                break
            unit = self.units[at]
            if at in used or _thin(unit.text) or self._heads_table(at):
                continue
            text, places = self._around(at, scores, _WIDTH if chosen else _FIRST_WIDTH)
            if used & places or any(_alike(text, quote.text) for quote in chosen):
                used |= places
                continue
            used |= places
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

    def _scores(self, question: Question) -> list[float]:
        wanted = terms(question.topic) or terms(question.text)
        own = [self._sentences.score(wanted, at) for at in range(len(self.units))]
        share = [self._page_share(wanted, number) ** 2 for number in range(len(self.pages))]
        blocks = [self._blocks.score(wanted, at) for at in range(len(self._passages))]
        asked = set(wanted)
        scores = []
        for at, unit in enumerate(self.units):
            near = max(self._neighbour(own, at, -1), self._neighbour(own, at, 1))
            above = self._above.coverage(wanted, at) * 2.0
            score = own[at] + 0.35 * near + 0.3 * blocks[self._passage_of[at]] + (above if own[at] or near else 0.0)
            score *= (0.2 + share[unit.page]) * (1 + 0.4 * self._sentences.coverage(wanted, at))
            scores.append(score * _sign(question.kind, unit.text, asked))
        return scores

    def _neighbour(self, own: Sequence[float], at: int, step: int) -> float:
        beside = at + step
        same = 0 <= beside < len(own) and self.units[beside].page == self.units[at].page
        return own[beside] if same else 0.0

    def _around(self, at: int, scores: Sequence[float], width: int) -> tuple[str, set[int]]:
        """A sentence with its better neighbours, up to `width` characters, and the units taken.

        Neighbours are of the same passage; a heading or another short line takes what follows it as well.
        """
        first = last = at
        size = len(self.units[at].text)
        while True:
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
        return one.page == two.page and len(one.passage.text) <= _LABEL and one.passage.heading == two.passage.heading


def _joined(units: Sequence[_Unit]) -> str:
    """Units in a row; a dash between passages, no blank after a CJK mark."""
    text = units[0].text
    for before, unit in pairwise(units):
        text += (" " if before.passage is unit.passage else " — ") + unit.text
    return re.sub(r"(?<=[。！？」』]) (?=[\u3000-\u9fff\uff00-\uffef])", "", text)


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


def _sign(kind: Kind, text: str, asked: set[str]) -> float:
    """How well a sentence looks like an answer of the kind that is asked for; words of the question do not count."""
    pattern = _SIGNS.get(kind)
    if pattern is None:
        return 1.0
    for match in pattern.finditer(text):
        if not set(terms(match[0])) <= asked or kind == "reason":
            return _PRESENT
    return 1.0 if kind == "reason" else _ABSENT
