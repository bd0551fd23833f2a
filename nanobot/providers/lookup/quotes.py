"""Which words of pages answer a question: sentences, list items, table rows and code, ranked and quoted as they stand.

A unit scores the weight of the question's words that stand in it or, for less, in what it belongs to: the lead of its
list, the head of its table, its headings, the title of its page, the sentence beside it.
"""

import math
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import pairwise

from msgspec import Struct

from nanobot.providers.lookup.question import Kind, PageText, pattern
from nanobot.utils.passages import Passage, sentences, split_passages
from nanobot.utils.ranking import Index, terms

_PAGE_CHARS = 120_000
_STEP = re.compile(r"^\d{1,3}[.)]\s")
#: A figure that is no year, or a number in letters.
_NUMBER = r"(?<![\d.])(?!(?:1\d|20)\d\d\b)\d|[零〇一二两三四五六七八九十百千万亿]|\b(?:{})"
_TIME = r"\b(?:1\d|20)\d\d\b|\d[:.h]\d\d\b|\b\d{{1,2}}\s?(?:am|pm|Uhr|h)\b|\d\s*[年月日点號号時时]|\b(?:{})"
#: What a word is worth that is a form of one of the question's, and one that holds it or is a part of it.
_KIN, _PART = 0.8, 0.6
#: What a word of the question is worth in a lead, heading or title above the unit, and in the sentence beside it.
_ABOVE, _BESIDE = 0.7, 0.5
#: What is left of a score where the number or time that is asked for is missing, and where it is not beside the words.
_MISSING, _APART = 0.5, 0.85
#: Characters: of the first quote, of others, of all of them, of a list, and of steps or code.
_FIRST_WIDTH, _WIDTH, _MOST_CHARS, _LIST_CHARS, _GROUP_CHARS = 300, 120, 560, 500, 1_500
#: The share of the best score that another quote needs where the best one holds the whole question.
_SHARE = 0.6


class Unit(Struct, frozen=True):
    """What is ranked: a sentence, or an item, a row or a block of code as a whole."""

    page: int
    passage: Passage
    text: str


class Quote(Struct, frozen=True):
    """Words of a page. `cover` is the share of the question's weight that they and their place hold, from 0 to 1;
    `fits` tells that they hold a number or a time where one is asked for."""

    page: PageText
    text: str
    score: float = 1.0
    cover: float = 1.0
    fits: bool = True


class Evidence:
    """Pages to be quoted. `unread` are texts of other hits, which tell with the pages how rare a word is."""

    def __init__(self, pages: Sequence[PageText], unread: Iterable[str] = ()) -> None:
        self.pages = list({page.text: page for page in pages}.values())
        texts = [page.text[:_PAGE_CHARS] for page in self.pages]
        self.units = [unit for number, text in enumerate(texts) for unit in _units(number, text)]
        self._fine = Index(unit.text for unit in self.units)
        wholes = [f"{page.title} {text}" for page, text in zip(self.pages, texts, strict=True)]
        self._coarse = Index([*wholes, *unread])
        self._vocabulary = frozenset[str]().union(*self._coarse.words[: len(wholes)])

    def quotes(self, topic: str, kind: Kind, most: int = 4) -> list[Quote]:
        """The quotes that answer best, best first, from different places."""
        ranked = self._ranked(list(dict.fromkeys(terms(topic))), kind)
        found: list[Quote] = []
        used: set[int] = set()
        for score, cover, at in ranked:
            if len(found) == most or score <= (_SHARE * found[0].cover * found[0].score if found else 0.0):
                break
            places = self._places(at, kind, _WIDTH if found else _FIRST_WIDTH)
            text = self._shown(places)
            if found and sum(len(quote.text) for quote in found) + len(text) > _MOST_CHARS:
                continue
            if used.isdisjoint(places):
                found.append(Quote(self.pages[self.units[at].page], text, score, cover, _cue(text, kind) > _MISSING))
            used.update(places)
        return found

    def lead(self) -> list[Quote]:
        """The first full paragraphs of each page, for a page that was asked for without a question."""
        found: list[Quote] = []
        for number, page in enumerate(self.pages):
            texts = list(dict.fromkeys(unit.passage.markdown for unit in self.units if unit.page == number))
            full = [text for text in texts if len(text) > 80] or texts
            found.extend(Quote(page, _clipped(text)) for text in full[:3])
        return found

    def _ranked(self, wanted: Sequence[str], kind: Kind) -> list[tuple[float, float, int]]:
        """Score, cover and place of every unit, best first. A word of no text weighs like one of a single text."""
        rarest = math.log(1 + (len(self._coarse.words) - 0.5) / 1.5)
        fine = [self._fine.idf(term) for term in wanted]
        coarse = [min(rarest, self._coarse.idf(term)) for term in wanted]
        kin = [{word: near for word in self._vocabulary if (near := _kinship(term, word))} for term in wanted]
        asked = frozenset(form for forms in kin for form in forms)
        rows = []
        for at, unit in enumerate(self.units):
            strengths = [self._strength(at, forms) for forms in kin]
            score = _share(fine, strengths) * _cue(unit.text, kind, asked)
            rows.append((score, _share(coarse, [min(1.0, strength / _ABOVE) for strength in strengths]), at))
        return sorted(rows, key=lambda row: (-row[0], row[2]))

    def _strength(self, at: int, forms: dict[str, float]) -> float:
        """How far a unit and what it belongs to hold one word of the question, from 0 to 1."""
        unit = self.units[at]
        above = (unit.passage.lead, unit.passage.heading, self.pages[unit.page].title)
        beside = [
            other.text
            for other in self.units[max(0, at - 1) : at + 2]
            if (other.page, other.passage.heading) == (unit.page, unit.passage.heading)
        ]
        near = [_ABOVE * _held(forms, _bag(text)) for text in above]
        near += [_BESIDE * _held(forms, _bag(text)) for text in beside]
        return max(_held(forms, _bag(unit.text)), *near)

    def _places(self, at: int, kind: Kind, width: int) -> list[int]:
        """What to quote with a unit: its list or code, its neighbours in the paragraph, or it alone."""
        unit = self.units[at]
        group = self._group(unit)
        if kind == "steps" and not any(_STEP.match(self.units[place].text) for place in group):
            here = (unit.page, unit.passage.heading)
            beside = (other for other in self.units if (other.page, other.passage.heading) == here)
            group = self._group(next((other for other in beside if _STEP.match(other.text)), unit))
        whole = kind == "steps" or unit.passage.kind == "code" or re.search(r"[:：][*_]*$", unit.text)
        listed = unit.passage.kind == "item" and unit.passage.lead and kind == "other"
        size = sum(len(self.units[place].text) for place in group)
        if len(group) > 1 and size < (_GROUP_CHARS if whole else _LIST_CHARS if listed else 0):
            return group
        mates = [place for place in group if unit.passage.kind == "text" and self.units[place].passage is unit.passage]
        places, size = [at], len(unit.text)
        for near in sorted(mates, key=lambda place: (place > at, abs(place - at))):
            if near in (places[0] - 1, places[-1] + 1) and size + len(self.units[near].text) < width:
                size += len(self.units[near].text)
                places = sorted([*places, near])
        return places

    def _group(self, unit: Unit) -> list[int]:
        here = (unit.page, unit.passage.group)
        return [place for place, other in enumerate(self.units) if (other.page, other.passage.group) == here]

    def _shown(self, places: Sequence[int]) -> str:
        """Units as they stand: a table row under its head, a list line by line after its lead."""
        units = [self.units[place] for place in places]
        lead = units[0].passage.lead
        lines = [lead] if lead and len(lead) < 200 else []
        if units[0].passage.kind == "row" and lines:
            lines.append("|" + "---|" * (lead.count("|") - 1))
        lines.append(units[0].text)
        for before, unit in pairwise(units):
            if before.passage is unit.passage:
                lines[-1] += ("" if re.search("[\u3000-\u9fff\uff00-\uffef]$", lines[-1]) else " ") + unit.text
            else:
                lines.append(unit.text)
        return "\n".join(lines) if len(lines) > 1 else _clipped(lines[0])


def _clipped(text: str) -> str:
    return text if len(text) <= 700 or "```" in text else text[:700].rsplit(" ", 1)[0] + " …"


def _cue(text: str, kind: Kind, asked: frozenset[str] = frozenset()) -> float:
    """How well a unit fits what is asked for: best where a number stands beside a word of the question."""
    if kind == "time":
        return 1.0 if pattern("times", _TIME).search(text) else _MISSING
    if kind != "number":
        return 1.0
    numbers = list(pattern("numerals", _NUMBER).finditer(text))
    near = any(not asked.isdisjoint(_bag(text[max(0, n.start() - 30) : n.end() + 30])) for n in numbers)
    return 1.0 if near else _APART if numbers else _MISSING


def _share(weights: Sequence[float], strengths: Sequence[float]) -> float:
    return sum(w * s for w, s in zip(weights, strengths, strict=True)) / (sum(weights) or 1.0)


def _held(forms: dict[str, float], words: frozenset[str]) -> float:
    return max((strength for form, strength in forms.items() if form in words), default=0.0)


@lru_cache(maxsize=20_000)
def _bag(text: str) -> frozenset[str]:
    return frozenset(terms(text))


def _kinship(one: str, two: str) -> float:
    """How near two words are: 1 for the same, 0 for those that have nothing to do with each other."""
    if one == two:
        return 1.0
    short, long = sorted((one, two), key=len)
    if len(short) < 4 or (short[:4] != long[:4] and short not in long) or not short.isalpha():
        return 0.0
    shared = next((at for at, (a, b) in enumerate(zip(short, long, strict=False)) if a != b), len(short))
    if shared >= max(4, 0.6 * len(long)):
        return _KIN
    return _PART if len(short) >= 5 and short in long else 0.0


def _units(page: int, markdown: str) -> Iterator[Unit]:
    for passage in split_passages(markdown):
        if passage.kind == "text":
            yield from (Unit(page, passage, sentence) for sentence in sentences(passage.markdown))
        elif passage.kind != "row" or passage.lead:
            yield Unit(page, passage, passage.markdown)
