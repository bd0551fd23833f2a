"""Whether a name stands in a text, in the forms in which texts write it."""

import re

from nanobot.agent.citations.claims import Claim, words_of
from nanobot.agent.citations.folding import fold, squash
from nanobot.agent.citations.sets import members
from nanobot.agent.citations.slots import Sentences
from nanobot.agent.citations.tables import Tables
from nanobot.utils.ranking import terms

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
_KINDS = (
    "市|省|县|縣|州|国|大学|大學|公司|银行|銀行|集团|集團|学院|医院|病院|机场|空港|车站|駅|发射中心|"
    "体育场|体育馆|博物馆|研究所|出版社|公园|公園"
)
#: Another name must stand where so much of the claim's other words do, and so many times what stands at its own name.
_AMONG, _CLEARER, _LEAST = 0.75, 2.5, 2
_PERSON_LIKE = re.compile(r"(?<![.!?]\s)(?<!\A)(?<![\w'’])(?:[A-ZÀ-Þ][\w'’-]*\.?\s){0,2}[A-ZÀ-ÞА-ЯЁ][a-zß-ÿа-яё'’-]+")
_FULL_NAME = re.compile(r"(?<![\w'’])[A-ZÀ-ÞА-ЯЁ][\w'’-]+\.?\s[A-ZÀ-ÞА-ЯЁ][\w'’-]+")
#: A German word with such an ending in front of a name says who somebody is.
_CALLING = re.compile(r"(?:in|or|er|ist|ent|eur|chef|amt|and|rat|ung|haus|werk|platz|straße|see|berg)\Z")
_DESCRIBES = re.compile(r"\A\w+e[rsnm]? \w+(?:in|ung|heit|keit|schaft|tion|zeit|zahl)\Z")
_TITLES = re.compile(
    r"(?:Dr|Mr|Mrs|Ms|Prof|Sir|Herr|Frau|Mme|M|Don|Doña|Fürst|Prinz|König|Graf|Prince|King|Queen|Count|San|Saint)\.?\Z"
)


class Names:
    """The names of a page, to be asked for one of a claim."""

    def __init__(self, text: str, sentences: Sentences, language: str, tables: Tables) -> None:
        self.text = text
        self.sentences = sentences
        self.language = language
        self.tables = tables
        self.folded = " ".join(fold(text).split())
        self.squashed = squash(text)
        self.words = words_of(text)

    def has(self, name: str, claim: Claim) -> bool:
        """True when the page has the name, as it is or in a form that means the same, and not in another's place."""
        if not self._written(name, claim):
            return False
        return not self._rivalled(name, claim)

    def _written(self, name: str, claim: Claim) -> bool:
        if re.fullmatch(r"(?:[A-Z][a-z]?\d*){1,5}", name) and re.search(r"\d", name):
            return True  # a formula, which a page may spell out
        folded = " ".join(fold(name).split())
        if folded in self.folded or squash(name) in self.squashed:
            return True
        if re.match("[\u4e00-\u9fff]", name):
            return bool(re.search(f"(?:{_KINDS})$", name)) and _place(name) in self.text
        german = "de" in (claim.language, self.language)
        if german and " " not in name:
            return True  # German writes every noun like a name.
        if (nation := members("nation", name)) and nation <= members("nation", self.text):
            return True
        if f" {_STATES.get(folded, name)}" in self.folded:
            return True
        if folded in _ALIASES and _ALIASES[folded] in self.folded:
            return True
        if any(folded == long and f" {short} " in f" {self.folded} " for short, long in _ALIASES.items()):
            return True
        if name.isupper() and re.search(r"\b" + r"\w*[\s-](?:of |and |for |the )?".join(name.casefold()), self.folded):
            return True
        parts = [part for part in terms(name) if len(part) > 2]
        if german and _DESCRIBES.search(name):
            return True  # an adjective that begins a sentence, and a noun
        if german:
            return bool(parts) and self._has_part(parts[-1]) and not self._otherwise_called(name)
        return bool(parts) and all(self._has_part(part) for part in parts)

    def _otherwise_called(self, name: str) -> bool:
        """True for `Karl Maibach` where the page has an Ernst Maibach."""
        *_, given, family = name.split()
        if _CALLING.search(given) or _TITLES.match(given) or given in self.text:
            return False
        return bool(re.search(rf"[A-ZÄÖÜ][a-zäöüß]+ {re.escape(family)}\b", self.text))

    def _has_part(self, part: str) -> bool:
        return part in self.words or (len(part) >= 5 and part[: max(4, len(part) - 2)] in self.folded)

    def _rivalled(self, name: str, claim: Claim) -> bool:
        """True when the page says of another name what the claim says, and nothing of the kind of this one."""
        own = words_of(name)
        others = claim.context - words_of(" ".join(claim.names))
        if not others or not own or "de" in (claim.language, self.language):
            return False
        places = [match.start() for match in re.finditer(re.escape(name), self.text)]
        if places and self.tables.elsewhere(places, claim, words_of(" ".join(claim.names))):
            return True
        if self._held_by_another(name, others):
            return True
        if not any(own & words for words in self.sentences.words):
            return False  # it stands here in another form
        whole, mine, theirs = self.sentences.asked(others), 0.0, 0.0
        for at, (start, end) in enumerate(self.sentences.spans):
            fit = self.sentences.around(start, others)
            if own & self.sentences.words[at]:
                mine = max(mine, fit)
            elif (
                fit > theirs and others & self.sentences.words[at] and self._names_another(self.text[start:end], claim)
            ):
                theirs = fit
        if len(others) < _LEAST:
            return " " in name and mine == 0 and theirs >= whole
        return theirs >= _AMONG * whole and theirs > mine * _CLEARER + 0.01

    def _held_by_another(self, name: str, role: frozenset[str]) -> bool:
        """True where the page has `director Simon Achebe` and the claim says of another that they are the director."""
        found = False
        for match in _FULL_NAME.finditer(self.text):
            said = words_of(" ".join(self.text[max(0, match.start() - 50) : match.start()].split()[-2:]))
            said |= words_of(" ".join(self.text[match.end() : match.end() + 50].split()[:3]))
            if role <= said:
                if match[0] in name or name in match[0]:
                    return False
                found = found or role <= words_of(
                    " ".join(self.text[max(0, match.start() - 50) : match.start()].split()[-2:])
                )
        return found and " " in name

    def _names_another(self, sentence: str, claim: Claim) -> bool:
        if "|" in sentence:
            return False  # the row of a table: whose it is stands in its head
        said = fold(claim.text)
        return any(
            not any(part in said for part in terms(match[0])) for match in _PERSON_LIKE.finditer(sentence.strip())
        )


def _place(name: str) -> str:
    """A Chinese name without what it is called by: 杭州 of 江杭州市; of a long one how it begins."""
    short = re.sub(f"(?:{_KINDS})$", "", name)
    return short[:2] if len(short) > 3 else short[-2:]
