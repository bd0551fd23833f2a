"""What a source says, ready to be asked whether a claim stands in it."""

import re
import unicodedata
from functools import cached_property
from typing import Literal

from nanobot.agent.citations.claims import Claim, language_of, words_of
from nanobot.agent.citations.figures import Figure, Ledger
from nanobot.utils.passages import sentences
from nanobot.utils.ranking import terms

_TARGET = re.compile(r"\]\([^()\s]{0,2000}(?:\([^()\s]{0,200}\)[^()\s]{0,2000})?(?: \"[^\"\n]{0,300}\")?\)")
_MARKS = re.compile("[\u0300-\u036f]")
#: Characters around a figure in which words of the claim must stand, and the width of a passage.
_AROUND = 350
_PASSAGE = 900
#: Shares of a claim's words: near a figure; in one passage and on the whole page, where nothing else can be checked.
_NEAR_FIGURE = 0.25
_IN_PASSAGE = 0.33
_ON_PAGE = 0.4
#: The same where the claim has a name that stands here: what is put in other words keeps its names.
_NAMED_IN_PASSAGE = 0.2
_NAMED_ON_PAGE = 0.28
#: A snippet is short: a claim that rests on one alone must stand in it more fully.
_IN_SNIPPET = 0.6
_MOST_PLACES = 60
_LEAST_SENTENCE = 6
_NEAR_NAME = 0.2
_FEW = 3
#: How many times the words of a claim a sentence may have to be taken for the same statement.
_SAME_LENGTH = 1.6
_ALIASES = {
    "us": "united states",
    "usa": "united states",
    "u.s.": "united states",
    "america": "united states",
    "uk": "united kingdom",
    "britain": "united kingdom",
    "eu": "european union",
    "un": "united nations",
    "uae": "united arab emirates",
}
#: American states and how newspapers shorten them.
_STATES = dict(
    pair.split("=")
    for pair in (
        "alabama=ala.|arizona=ariz.|arkansas=ark.|california=calif.|colorado=colo."
        "|connecticut=conn.|delaware=del.|florida=fla."
        "|georgia=ga.|illinois=ill.|indiana=ind.|kansas=kan.|kentucky=ky.|louisiana=la."
        "|maryland=md.|massachusetts=mass."
        "|michigan=mich.|minnesota=minn.|mississippi=miss.|missouri=mo.|montana=mont.|nebraska=neb.|nevada=nev."
        "|new hampshire=n.h.|new jersey=n.j.|new mexico=n.m.|new york=n.y.|north carolina=n.c.|north dakota=n.d."
        "|oklahoma=okla.|oregon=ore.|pennsylvania=pa.|rhode island=r.i.|south carolina=s.c.|south dakota=s.d."
        "|tennessee=tenn.|virginia=va.|vermont=vt.|washington=wash.|west virginia=w.va.|wisconsin=wis.|wyoming=wyo."
    ).split("|")
)
#: Words that say opposite things: a sentence of a page that has one of them does not support a claim with the other.
_OPPOSITES = tuple(
    (frozenset(one.split()), frozenset(other.split()))
    for one, other in (
        (
            "rose rise risen raised increased increase grew grown gained climbed",
            "fell fallen decreased decrease dropped declined shrank reduced reduce lowered",
        ),
        ("more higher larger greater longer above", "less fewer lower smaller shorter below"),
        ("largest biggest highest tallest longest most best", "smallest lowest shortest least worst"),
        ("first earliest oldest", "last latest newest"),
        ("before earlier", "after later"),
        ("won win wins winner", "lost lose loses loser"),
        ("opened open opens", "closed close closes shut"),
        ("approved accepted allowed passed legal", "rejected refused banned denied forbidden illegal"),
        ("north northern", "south southern"),
        ("east eastern", "west western"),
        ("增加 增长 上升 提高 上涨", "减少 下降 降低 下跌"),
        ("最大 最高 最长 最多", "最小 最低 最短 最少"),
        ("成功", "失败"),
    )
)
_NOT = re.compile(
    r"\b(?:not|never|no|without|nobody|nothing|hardly|neither|cannot|nicht|kein\w*|nie|pas"
    r"|jamais|no|nunca|non|não|не)\b|n['’]t\b|[不没沒未]",
    re.IGNORECASE,
)

Verdict = Literal["full", "part", "none"]


class PageText:
    """The text of one source. `read` tells that it is the page, not only what an engine says of it."""

    def __init__(self, text: str, *, read: bool) -> None:
        self.text = unicodedata.normalize("NFKC", _TARGET.sub("] ", text))
        self.read = read

    @cached_property
    def _squashed(self) -> str:
        return squash(self.text)

    @cached_property
    def _figures(self) -> Ledger:
        return Ledger(self.text)

    @cached_property
    def _words(self) -> frozenset[str]:
        return words_of(self.text)

    @cached_property
    def _folded(self) -> str:
        return " ".join(_fold(self.text).split())

    @cached_property
    def language(self) -> str:
        return language_of(self.text)

    @property
    def latin(self) -> bool:
        return len(self.language) <= 2 or self.language == "other"

    @cached_property
    def _passages(self) -> list[tuple[int, frozenset[str]]]:
        """Overlapping stretches of the text with their words."""
        step = _PASSAGE // 2
        return [(at, words_of(self.text[at : at + _PASSAGE])) for at in range(0, max(1, len(self.text) - step), step)]

    @cached_property
    def _sentences(self) -> list[tuple[str, frozenset[str]]]:
        return [(sentence, words_of(sentence)) for sentence in sentences(self.text)]

    def missing(self, claim: Claim) -> list[str]:
        """What of a claim that must stand here does not: quotations, figures, names."""
        lacks = [quote for quote in claim.quotes if not self._has_quote(quote)]
        lacks += [claim.text[item.start : item.end] for item in claim.figures if not self._has_figure(item, claim)]
        names = [name for name in claim.names if not self._has_name(name, claim)]
        # Some names are translated: of a claim in another language one must stand here.
        return lacks if self.foreign(claim) and len(names) < len(claim.names) else lacks + names

    def shares(self, claim: Claim) -> bool:
        """True when enough of the claim's words stand here together; always where the languages differ."""
        if self.foreign(claim) or len(claim.words) < 2:
            return True
        whole = len(claim.words & self._words) / len(claim.words)
        if not self.read:
            return whole >= _IN_SNIPPET
        if claim.quotes or claim.figures:
            return whole >= _NEAR_FIGURE
        named = any(self._has_name(name, claim) for name in claim.names)
        if whole < (_NAMED_ON_PAGE if named else _ON_PAGE):
            return False
        return self._best_passage(claim) >= (_NAMED_IN_PASSAGE if named else _IN_PASSAGE)

    def foreign(self, claim: Claim) -> bool:
        """True when the claim is in another language than the page, so that its words cannot stand here."""
        return bool(claim.language and self.language) and claim.language != self.language

    def contradicts(self, claim: Claim) -> bool:
        """True when the sentence that the claim repeats nearly word for word says the opposite of it."""
        if self.foreign(claim) or len(claim.words) < 3:
            return False
        best, share = "", 0.0
        for sentence, words in self._sentences:
            found = len(claim.words & words) / len(claim.words)
            if found > share:
                best, share = sentence, found
        if share < 0.6:
            return False
        said, there = set(re.findall(r"\w+", claim.text.casefold())), set(re.findall(r"\w+", best.casefold()))
        for one, other in _OPPOSITES:
            for mine, theirs in ((one, other), (other, one)):
                if (
                    _any(mine, said, claim.text)
                    and not _any(mine, there, best)
                    and _any(theirs, there, best)
                    and not _any(theirs, said, claim.text)
                ):
                    return True
        if len(words_of(best)) > _SAME_LENGTH * len(claim.words):
            return False  # the denial may be of something else that the sentence says
        return share >= 0.75 and bool(_NOT.search(claim.text)) != bool(_NOT.search(best))

    def _best_passage(self, claim: Claim) -> float:
        return max((len(claim.words & words) for _, words in self._passages), default=0) / len(claim.words)

    def _has_quote(self, quote: str) -> bool:
        """True when the words stand here, if only sentence by sentence, as where the page names the speaker between."""
        if squash(quote) in self._squashed:
            return True
        parts = [squash(part) for part in sentences(quote)]
        return len(parts) > 1 and all(len(part) >= _LEAST_SENTENCE and part in self._squashed for part in parts)

    def _has_figure(self, figure: Figure, claim: Claim) -> bool:
        """True when the page gives this figure, beside words of the claim where the languages allow to tell."""
        places = self._figures.agreeing(figure)
        if figure.kind == "date" and not self._has_year(figure, places):
            return False
        if not places or self.foreign(claim) or not claim.words:
            return bool(places)
        head = words_of(self.text[:200])
        for place in places[:_MOST_PLACES]:
            near = words_of(self.text[max(0, place.start - _AROUND) : place.end + _AROUND])
            if len(claim.words & (near | head)) / len(claim.words) >= _NEAR_FIGURE:
                return True
        return False

    def _has_year(self, figure: Figure, places: list[Figure]) -> bool:
        """True unless the claim names a year that neither a date that agrees nor any other place here has."""
        years = {date[0] for date in figure.dates}
        # A page of its day names the day and the month only.
        if all(date[2] for date in figure.dates) and places:
            return True
        if 0 in years or any(date[0] in years for place in places for date in place.dates):
            return True
        return bool(years & self._figures.years)

    def _has_name(self, name: str, claim: Claim) -> bool:
        if self.foreign(claim) and not (name.isascii() and self.latin):
            return True
        if claim.language == "de" and " " not in name:
            return True  # German writes every noun like a name.
        folded = " ".join(_fold(name).split())
        if folded in self._folded:
            return self._beside(folded, claim)
        if squash(name) in self._squashed:
            return True
        if not name.isascii() and len(name) > 2 and re.match("[\u4e00-\u9fff]", name) and _place(name) in self.text:
            return True
        if f" {_STATES.get(folded, name)}" in self._folded:
            return True
        if folded in _ALIASES and _ALIASES[folded] in self._folded:
            return True
        if any(folded == long and f" {short} " in f" {self._folded} " for short, long in _ALIASES.items()):
            return True
        if name.isupper() and re.search(r"\b" + r"\w*[\s-](?:of |and |for |the )?".join(name.casefold()), self._folded):
            return True
        parts = [part for part in terms(name) if len(part) > 2]
        return bool(parts) and all(self._has_part(part) for part in (parts if claim.language != "de" else parts[-1:]))

    def _beside(self, name: str, claim: Claim) -> bool:
        """True when the name stands beside other words of the claim at one of its places."""
        others = claim.words - words_of(name)
        if len(others) < _FEW or self.foreign(claim):
            return True
        place = self._folded.find(name)
        for _ in range(_MOST_PLACES):
            if place < 0:
                return False
            near = words_of(self._folded[max(0, place - _AROUND) : place + len(name) + _AROUND])
            if len(others & near) / len(others) >= _NEAR_NAME:
                return True
            place = self._folded.find(name, place + len(name))
        return False

    def _has_part(self, part: str) -> bool:
        return part in self._words or (len(part) >= 5 and part[: max(4, len(part) - 2)] in self._folded)


def _place(name: str) -> str:
    """A Chinese name without what it is called by: 杭州 of 江杭州市."""
    return re.sub("(?:市|省|县|縣|大学|大學|公司|银行|銀行|集团|集團)$", "", name)[-2:]


def squash(text: str) -> str:
    """Letters and digits alone, folded: what two printings of the same words share."""
    return "".join(sign for sign in _fold(unicodedata.normalize("NFKC", text)) if sign.isalnum())


def _fold(text: str) -> str:
    return _MARKS.sub("", unicodedata.normalize("NFKD", text.casefold()))


def _any(words: frozenset[str], said: set[str], text: str) -> bool:
    return bool(words & said) or any(not word.isascii() and word in text for word in words)
