"""Whether a source carries a claim.

What is compared is only what can be compared with certainty: digits with what they count, quotations, names. Whatever
the source may say in other words (in a language that is not read, in numbers that are spelled there, by figures from
which the claim's can be reckoned) is questioned only where the source names a rival: another value for the same thing.
"""

import math
import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable
from difflib import get_close_matches
from functools import cached_property
from itertools import combinations, product

from msgspec import Struct
from msgspec.structs import replace

from nanobot.agent.citations.facts import (
    TRANSLATED,
    WEEKDAYS,
    Fact,
    figures,
    flattened,
    fold,
    languages_of,
    names,
    quotations,
    sound,
    squash,
    unquoted,
    words_of,
)
from nanobot.results import SourceBook
from nanobot.utils.passages import sentence_spans
from nanobot.utils.translation import _

#: Characters of a passage that is shown for a mark.
PASSAGE_CHARS = 300
_TARGET = re.compile(r"\]\([^()\s]{0,2000}(?:\([^()\s]{0,200}\)[^()\s]{0,2000})?(?: \"[^\"\n]{0,300}\")?\)")
_LETTERS = re.compile(r"[^\W\d_]+")
_GREEK = "\u0370"
#: Where a quotation leaves words out, or joins sentences that stand apart.
_PARTS = r"\[?(?:\.\.\.|…)\]?|(?<=[.!?。！？])\s*"
#: Between the parts of a number that is a name: a version, a telephone, an address.
_JOINED = r"(?<=\d)[-./ \u00a0](?=\d)"
#: How alike two spellings of a name are at least.
_ALIKE_NAMES = 0.75
#: The share of a claim's words that stands on its source at least, and on another one that is taken for the right one.
_LEAST_SHARE, _OTHER_SHARE = 0.12, 0.4
#: The share of its small words that a text in a page's language has there, where that language is read and where not.
_ALIKE, _ALIKE_UNREAD = 0.5, 0.3
#: A number below this and without a unit may stand on any page: it counts only where the claim's words stand.
_SMALL = 32
#: By what share of itself a figure of a page may be rounded at most.
_ROUNDED = 0.1
#: From more facts than these nothing is reckoned, since some two of them would always do; so many figures are judged.
_MOST_TERMS, _MOST_FIGURES = 6, 50
#: On which side of a figure the words before it put what they count.
_BOUND = {"over": "low", "least": "low", "under": "high", "most": "high"}
#: Per cent that a page may have as "one in five", "a third", "jeder zehnte".
_SHARES = frozenset((10, 20, 25, 33, 50, 66, 67, 75))
#: A number that counts something is none of these: 40 rooms are no kilometres, 312,500 inhabitants no euros.
_MEASURED = frozenset("length area volume mass data binary celsius fahrenheit power energy speed".split())
_MONEY = frozenset("eur usd gbp chf cny jpy crown inr rub pln".split())


class Claim(Struct, frozen=True):
    """What a mark, or several that stand together, rests on: `text` reaches back to the mark before or to the start of
    the sentence, `sentence` is all of that."""

    text: str
    sentence: str
    numbers: tuple[int, ...]


def _capitals(text: str) -> list[str]:
    """Its words, but those in small letters, as in `Tsai Ing-wen`."""
    words = _LETTERS.findall(text)
    return [word for word in words if not word[0].islower()] or words


class CitedPage:
    """The text of one source, read as far as its claims ask for it."""

    def __init__(self, text: str) -> None:
        self.text = _TARGET.sub("]", text).replace("**", "")
        self.spans = sentence_spans(self.text)
        # Its title and its address may be in any language.
        self.languages = languages_of(self.text[self.text.find("\n") : self.text.rfind("\n")] or self.text)
        self._words: dict[int, frozenset[str]] = {}

    @cached_property
    def figures(self) -> list[tuple[Fact, int]]:
        """Its figures, each with the place of its sentence."""
        starts = [start for start, _ in self.spans]
        return [(one, max(0, bisect_right(starts, one.start) - 1)) for one in figures(self.text, self.languages)]

    def passage(self, wanted: frozenset[str], facts: list[Fact]) -> str:
        """The sentence with most of these words and figures; the title only where there is nothing else."""
        told = Counter(
            place for found, place in (self.figures if facts else ()) if any(_equal(fact, found) for fact in facts)
        )
        flat, roots = flattened(self.text), [word[: max(3, len(word) - 1)] for word in wanted]
        best, most = min(1, len(self.spans) - 1), -1
        for place, (start, end) in enumerate(self.spans[1:], 1):
            said = flat[start:end]
            weight = 3 * told[place] + sum(word in said for word in roots)
            if weight > most:
                best, most = place, weight
        start, end = self.spans[best]
        return " ".join(self.text[start : min(end, start + PASSAGE_CHARS)].split())

    def words(self, place: int) -> frozenset[str]:
        """The words of a sentence."""
        if place not in self._words:
            start, end = self.spans[place]
            self._words[place] = words_of(self.text[start:end])
        return self._words[place]

    @cached_property
    def _listed(self) -> str:
        return " ".join(["", *self.vocabulary])

    def share(self, wanted: frozenset[str]) -> float:
        """How much of `wanted` stands anywhere on the page: about, by the beginnings of its words."""
        roots = [word if word[0] >= "\u0e00" else f" {word[: max(3, len(word) - 1)]}" for word in wanted]
        return sum(root in self._listed for root in roots) / max(1, len(wanted))

    @cached_property
    def squashed(self) -> str:
        return squash(self.text)

    @cached_property
    def spellings(self) -> frozenset[str]:
        """Its words as they are written."""
        return frozenset(_LETTERS.findall(self.text))

    @cached_property
    def vocabulary(self) -> frozenset[str]:
        return frozenset(_LETTERS.findall(fold.__wrapped__(self.text)))

    @cached_property
    def initials(self) -> str:
        return "".join(word[0] for word in _LETTERS.findall(self.text)).casefold()

    @cached_property
    def capitals(self) -> list[str]:
        """Its names: words that it has with a capital alone."""
        known = self.spellings
        return [fold(word) for word in known if word[0].isupper() and word.lower() not in known]

    @cached_property
    def sounds(self) -> frozenset[str]:
        """Its names as they sound."""
        return frozenset(sound(word) for word in self.capitals if len(word) > 3)

    def foreign(self, text: str) -> bool:
        """True when a text is in another language, so that its words cannot stand here."""
        languages = languages_of(text := unquoted(text))
        if languages & self.languages:
            return False
        words = [fold(word) for word in _LETTERS.findall(text) if word.islower()]
        alike = sum(map(self.vocabulary.__contains__, words)) / max(3, len(words))
        return alike < (_ALIKE if self.languages else _ALIKE_UNREAD) if languages else alike == 0 < len(words)

    def found(self, claim: Claim, facts: Iterable[Fact]) -> list[Fact]:
        """The facts of a claim that stand here."""
        wanted = words_of(claim.sentence)
        anywhere = not wanted or self.foreign(claim.sentence)
        return [fact for fact in facts if self._carries(fact, wanted, anywhere=anywhere)]

    def _carries(self, fact: Fact, wanted: frozenset[str], *, anywhere: bool) -> bool:
        """Whether a fact stands here; a small number only beside words of the claim."""
        if fact.kind == "quotation":
            return all(squash(part) in self.squashed for part in re.split(_PARTS, fact.text))
        if fact.kind == "name":
            return self._names(_capitals(fact.text))
        digits = re.sub(r"\D", "", fact.text)
        if not fact.unit and len(digits) > 4 and digits in re.sub(_JOINED, "", self.text):
            return True
        anywhere = anywhere or fact.dated or fact.count >= _SMALL or fact.count % 1 > 0
        return any(
            (same(fact, other) or (not self.languages and _same_digits(fact, other)))
            and (anywhere or (fact.unit and other.unit) or self._near(place, wanted))
            for other, place in self.figures
        )

    def _near(self, place: int, wanted: frozenset[str]) -> bool:
        """True where one of these words stands in a sentence or beside it."""
        return any(wanted & self.words(at) for at in range(max(0, place - 1), min(place + 2, len(self.spans))))

    def contradicts(self, fact: Fact, claim: Claim, others: list[Fact]) -> bool:
        """False where a fact that was not found may be here in other words, and no rival of it stands here."""
        foreign, count, read = self.foreign(claim.sentence), fact.count, bool(self.languages)
        if fact.kind == "quotation":
            return not self.foreign(fact.text)
        if fact.kind == "name":
            return not foreign or self._alien(fact, claim)
        days = [
            f"\\b{day[:3].title()}\\b" for day, value in WEEKDAYS.items() if (value, "weekday") == (count, fact.unit)
        ]
        years = {other.value > 31 for other, _place in self.figures if fact.dated and other.unit == fact.unit}
        if (days and re.search("|".join(days), self.text)) or (fact.value > 31 and years == {False}):
            return False  # the page has "Thu", or names its days without the year
        own = (fact.spelled and (fact.unit == "percent" or count <= 1)) or (not fact.unit and count in range(5))
        # A month alone may be between two, or another word.
        if own or fact.side == "share" or (fact.dated and not count):
            return False  # half of them, or a count of the writer's own, such as "two reasons"
        if fact.unit in ("weekday", "rate") or (fact.unit == "percent" and count in _SHARES):
            return bool(self.rival(fact, None if foreign else words_of(claim.sentence), others))
        small = (int(count) if fact.grain else count) in range(25) or count in range(30, 101, 10)
        spelled = small and (fact.spelled or fact.unit in ("", "time"))
        return read or not (spelled or (fact.unit == "percent" and count in range(4)))

    def rival(self, fact: Fact, wanted: frozenset[str] | None, others: Iterable[Fact] = ()) -> str:
        """What the page has in the place of a figure: one of the same unit, beside the words of the claim, and none of
        the claim's other ones; empty where there is none."""
        alike, most = "", 0
        for other, place in self.figures:
            shared = 1 if wanted is None else len(wanted & self.words(place))
            if shared > most and other.unit == fact.unit and not any(same(one, other) for one in others):
                alike, most = (other.text if other.text != fact.text else _("another bound")), shared
        return alike

    def _alien(self, name: Fact, claim: Claim) -> bool:
        """True for a name of several words that another language would keep, and that stands here in no form."""
        words, before = _capitals(name.text), claim.sentence.partition(name.text)[0]
        if len(words) < 2 or name.text not in unquoted(claim.sentence):
            return False
        beside = re.findall(r"[^\W\d_]+['’]?", before)[-1:] if re.search(r"\w['’]? ?[\"“„«*]*\Z", before) else []
        translated = TRANSLATED & {fold(word) for word in (*beside, *words)}
        return not (translated or self._has(words[-1]))

    def _names(self, words: list[str]) -> bool:
        """Whether a name stands here in one of its usual forms; `New Jersey`, `Maryland` where the page has NJ, MD."""
        short = 4 if len(words) > 1 else 0  # "Dr", "Mme" may be the writer's
        if any(map(self._has, words)) and all(self._has(word) for word in words if len(word) > short):
            return True
        codes = {fold(word) for word in self.spellings if word.isupper() and len(word) > 1}
        if len(words) > 1:
            return "".join(fold(word)[0] for word in words) in codes
        return any(re.match(".*".join(code), fold(words[0])) for code in codes if len(code) == 2)

    def _has(self, word: str) -> bool:
        """True when a word of a name stands there in one of its usual forms: inflected, shortened, in one word, in
        another spelling or script."""
        folded, alike = fold(word), sound(word)
        if (
            len(word) < 3
            or folded in self.vocabulary
            or (folded[:6] == "americ" and "us" in self.initials)
            or (word[0] >= _GREEK and squash(word) in self.squashed)
        ):
            return True
        if word.rstrip("s").isupper() and len(word) <= 6:
            return folded.rstrip("s") in self.vocabulary or folded in self.initials
        if len(folded) < 4:
            return False
        begins = folded[: max(4, (len(folded) + 1) // 2)]
        if any(one.startswith(begins) for one in self.capitals):
            return True
        if len(folded) > 4 and folded in self._listed:
            return True
        near = [one for one in self.sounds if one.startswith((alike[0], f"g{alike[0]}"))]  # Гаврилюк is Havryliuk
        return bool(get_close_matches(alike, near, 1, _ALIKE_NAMES))


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
        named = names(claim.text, languages_of(unquoted(claim.sentence)))
        facts = [*quotations(claim.text), *figures(claim.text)[-_MOST_FIGURES:], *named]
        lacks = {number: self._lacks(claim, facts, number) for number in claim.numbers if number in self._texts}
        nowhere = set.intersection(*map(set, lacks.values())) if lacks else set()
        verdicts: dict[int, list[str]] = {}
        for number, lack in lacks.items():
            bad = [said for fact, said in lack.items() if fact in nowhere or len(lack) == len(facts)]
            verdicts[number] = bad or ([] if exact else self._elsewhere(claim, facts, number))
        return verdicts

    def passage(self, claim: Claim, number: int) -> str:
        """The words of a source that come nearest to a claim; empty where it has no text."""
        if number not in self._texts:
            return ""
        return self._page(number).passage(words_of(claim.text), figures(claim.text))

    def _page(self, number: int) -> CitedPage:
        if number not in self._pages:
            self._pages[number] = CitedPage(self._texts[number])
        return self._pages[number]

    def _lacks(self, claim: Claim, facts: list[Fact], number: int) -> dict[str, str]:
        """The facts of a claim that a source does not have, each with a sentence that says so."""
        page, lacks = self._page(number), dict[str, str]()
        known = page.found(claim, facts)
        for fact in facts:
            if fact in known or _derived(fact, known):
                continue
            others = [one for one in facts if one.kind == "number" and one != fact]
            if page.contradicts(fact, claim, others):
                instead = page.rival(fact, words_of(claim.sentence)) if fact.kind == "number" else ""
                lacks[fact.text] = (
                    _("{fact}: not on [{place}], which has {instead}", fact=fact.text, place=number, instead=instead)
                    if instead
                    else _("{fact}: not on [{place}]", fact=fact.text, place=number)
                )
        return lacks

    def _elsewhere(self, claim: Claim, facts: list[Fact], number: int) -> list[str]:
        """Why a source is the wrong one: another source of the turn says this, or its words stand nowhere there."""
        page, wanted = self._page(number), words_of(claim.text)
        own, foreign, known = page.share(wanted), page.foreign(claim.sentence), page.found(claim, facts)
        here = any(map(_tells, known))
        if own >= _OTHER_SHARE or (foreign and here and len(known) == len(facts)):
            return []
        for other in self._texts.keys() - set(claim.numbers):
            there = self._page(other).share(wanted) if len(wanted) > (3 if foreign else 1) else 0.0
            said = self._page(other).vocabulary  # where a name stands as it is written, and not as it sounds
            found = [
                fact
                for fact in self._page(other).found(claim, facts)
                if fact.kind != "name" or {fold(word) for word in _capitals(fact.text)} <= said
            ]
            if there >= _OTHER_SHARE or len(found) > max(1, len(known)) or (not here and any(map(_tells, found))):
                return [_("this is not on [{place}]; [{other}] has it", place=number, other=other)]
        alone = own < _LEAST_SHARE and len(wanted) >= 4 and not (foreign or here)
        return [_("this is not on [{place}]", place=number)] if alone else []


def same(fact: Fact, other: Fact) -> bool:
    """True where a figure of a claim says what a figure of a page says, as one of the two may be read."""
    equal = _equal(fact, other)
    if equal or not (fact.readings or other.readings):
        return equal
    pairs = product((fact, *fact.readings), (other, *other.readings))
    return any(_equal(one, two) for one, two in pairs if one.unit == two.unit or "time" not in (one.unit, two.unit))


def _equal(fact: Fact, other: Fact) -> bool:
    if fact.side and other.side and {_BOUND.get(fact.side), _BOUND.get(other.side)} == {"low", "high"}:
        return False  # "at least 40" is not "fewer than 40"
    if fact.unit == other.unit and (fact.unit or fact.scale == 1):
        # In another measure it is rounded: 34 miles are 54 km.
        wide = fact if fact.factor == other.factor or fact.unit == "time" else replace(fact, side="near")
        return _rounds(wide, other.value) or (not fact.value and fact.dated)
    if fact.unit and other.unit and {fact.unit, other.unit} != {"speed", "length"}:  # 时速350公里
        return False
    if (other.counts and fact.unit in _MONEY) or (fact.counts and (other.unit in _MEASURED or other.dated)):
        return False
    if fact.dated:
        return other.alone and fact.value <= 31 and fact.value == other.value
    # Where one of them has no unit, the numbers as they are written, as in "11 cm instead of 7".
    if fact.scale > 1 == other.scale and (other.value > _SMALL or other.value % 1) and _same_digits(fact, other):
        return True  # a table's head says what its figures count
    exact = fact if fact.side == "near" else replace(fact, side="")
    return _rounds(exact, fact.factor * other.count)


def _rounds(fact: Fact, value: float) -> bool:
    """True where `value` is the figure of the claim, or is rounded to it as far as the words before it allow."""
    gap, exact = value - fact.value, 1e-9 * abs(value)
    if abs(gap) <= exact or abs(gap) > _ROUNDED * abs(value):
        return abs(gap) <= exact
    half = fact.step / 2 if fact.side == "near" else fact.grain / 2
    low, high = {"over": (0.0, 0.99 * fact.step), "under": (-0.99 * fact.step, 0.0)}.get(fact.side, (-half, half))
    return low - exact <= gap <= high + exact


def _same_digits(fact: Fact, other: Fact) -> bool:
    """True where two figures have the same digits, whatever counts them: thousands, millions, a month."""
    one, two = fact.count, other.count
    alike = fact.unit == other.unit or (fact.unit != "percent" and not (fact.unit and other.unit))
    scales = alike and (fact.scale == 1 or other.scale == 1)
    told = one == two or fact.value >= 10 * fact.step  # a single digit may stand for anything
    power = round(math.log10(one / two)) if one > 0 < two else 1
    return power not in (1, -1, 2, -2) and told and scales and math.isclose(one, two * 10.0**power)


def _tells(fact: Fact) -> bool:
    """False for a small number that may stand on any page."""
    return fact.kind != "number" or bool(fact.unit) or fact.value > _SMALL


def _derived(fact: Fact, known: list[Fact]) -> bool:
    """True for what two numbers make that claim and page both name: a sum, difference, product, quotient or share."""
    known = [one for one in known if one.kind == "number"]
    if fact.kind != "number" or fact.unit in ("weekday", "rate") or len(known) > _MOST_TERMS:
        return False
    fact = fact if fact.side == "near" else replace(fact, side="")
    unit = "percent" if fact.unit == "points" else fact.unit
    terms = {(100.0, unit, 1.0)} if unit == "percent" else set[tuple[float, str, float]]()
    for number in known:
        dated = number.unit.startswith("month")
        for one in (number, *number.readings):
            if one.value > (31 if dated else 0) and (one is number or not (one.counts or one.unit == "time")):
                terms.add((one.value, "" if dated else one.unit, one.factor))
    for pair in combinations(terms, 2):
        units, made = {of for _, of, _ in pair}, list[float]()
        bare = "" in units  # a number without a unit counts what the other one, or the figure, is measured in
        if units == {"", "percent"} and (unit == "percent" or 1_000 < fact.value < 2_100):
            continue  # three per cent of something are no other share, and no years
        low, high = sorted(value / factor if bare else value for value, _, factor in pair)
        if len((units | {unit}) - {""}) <= 1:
            made += [low + high, high - low, *([low * high, high / low] if bare else [])]
        if units == {""} and 1_000 < low <= high < 2_100:
            made += [high - low - 1, high - low + 1]  # an age before its birthday, and years with the first and last
        if "percent" in units <= {"percent", unit}:
            made.append(low * high / 100)
        if len(units) == 1 and unit in ("", "percent"):
            made += [100 * low / high, 100 * high / low - 100, 100 - 100 * low / high] if unit else [high / low]
        if any(_rounds(fact, (fact.factor if bare else 1.0) * value) for value in made):
            return True
    return False
