"""What a source says, ready to be asked whether a claim stands in it."""

import re
from functools import cached_property

from nanobot.agent.citations.claims import Claim, language_of, words_of
from nanobot.agent.citations.figure import normal
from nanobot.agent.citations.folding import squash
from nanobot.agent.citations.names import Names
from nanobot.agent.citations.slots import Sentences, Slots
from nanobot.utils.passages import sentences

_TARGET = re.compile(r"\]\([^()\s]{0,2000}(?:\([^()\s]{0,200}\)[^()\s]{0,2000})?(?: \"[^\"\n]{0,300}\")?\)")
_LEAST_SENTENCE = 6
#: How many times the words of a claim a sentence may have to be taken for the same statement.
_SAME_LENGTH = 1.6
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

_DENIES = re.compile(
    r"\b(?:refus|fail|lack|deny|denie|avoid|exclu|except|ban|bans|banned|forb|prohib|illegal|miss|only|until|free|instead|"
    r"verweiger|verbot|nur|erst|ohne|außer|sauf|interdit|excepto|prohib|solo|только|кроме|запрещ)",
    re.IGNORECASE,
)


class PageText:
    """The text of one source, whose first line is its title."""

    def __init__(self, text: str) -> None:
        self.text = normal(_TARGET.sub("] ", text))

    @cached_property
    def sentences(self) -> Sentences:
        return Sentences(self.text)

    @cached_property
    def _slots(self) -> Slots:
        return Slots(self.text, self.sentences)

    @cached_property
    def _names(self) -> Names:
        return Names(self.text, self.sentences, self.language, self._slots.tables)

    @cached_property
    def title(self) -> frozenset[str]:
        return words_of(self.text.split("\n", 1)[0])

    @cached_property
    def language(self) -> str:
        return language_of(self.text)

    @property
    def latin(self) -> bool:
        return len(self.language) <= 2 or self.language == "other"

    def missing(self, claim: Claim) -> list[str]:
        """What of a claim that must stand here does not: quotations, figures, names."""
        foreign = self.foreign(claim)
        lacks = [quote for quote in claim.quotes if not self._has_quote(quote)]
        lacks += [
            claim.text[item.start : item.end]
            for item in claim.figures
            if not self._slots.has(item, claim, foreign=foreign)
        ]
        names = [
            name for name in claim.names if not ((foreign and self._respelt(name)) or self._names.has(name, claim))
        ]
        lacks += self._slots.changed(claim)
        # Some names are translated: of a claim in another language one must stand here.
        return lacks if foreign and len(names) < len(claim.names) else lacks + names

    def foreign(self, claim: Claim) -> bool:
        """True when the claim is in another language than the page, so that its words cannot stand here."""
        return bool(claim.language and self.language) and claim.language != self.language

    def _respelt(self, name: str) -> bool:
        return not (name.isascii() and self.latin)

    def contradicts(self, claim: Claim) -> bool:
        """True when the sentence that the claim repeats nearly word for word says the opposite of it."""
        if self.foreign(claim) or len(claim.words) < 3:
            return False
        best, share = "", 0.0
        for (start, end), words in zip(self.sentences.spans, self.sentences.words, strict=True):
            found = len(claim.words & words) / len(claim.words)
            if found > share:
                best, share = self.text[start:end], found
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
        if _DENIES.search(claim.text) or _DENIES.search(best):
            return False  # what denies without saying not
        return share >= 0.75 and bool(_NOT.search(claim.text)) != bool(_NOT.search(best))

    def _has_quote(self, quote: str) -> bool:
        """True when the words stand here, if only sentence by sentence, as where the page names the speaker between."""
        if squash(quote) in self._names.squashed:
            return True
        parts = [squash(part) for part in sentences(quote)]
        return len(parts) > 1 and all(len(part) >= _LEAST_SENTENCE and part in self._names.squashed for part in parts)


def _any(words: frozenset[str], said: set[str], text: str) -> bool:
    return bool(words & said) or any(not word.isascii() and word in text for word in words)
