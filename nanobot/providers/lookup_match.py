"""Where the words of a question stand in a text, also in other forms: inflected, compounded, or another word for it."""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import islice

from nanobot.providers.lookup_synonyms import by_word, groups
from nanobot.utils.ranking import terms

_AKIN, _PART, _OTHER = 0.75, 0.6, 0.6
_K1, _B = 1.2, 0.5
_LEAST_PART, _LEAST_WHOLE = 4, 7
#: Words that stand in questions of every kind and say little of what this one is about.
_LIGHT_WORDS = """
get gets got go goes going come came take takes took taken have make do does done know knows need needs happen happens
happened use used say says tell think want look put give given keep let become became find mean means call people person
thing kind sort way place time year number much many long name part first last new old good today now still ever
machen macht gemacht geht gehen kommt kommen gibt geben hat haben braucht brauchen muss müssen darf dürfen kann können
soll sollen will lassen heißt passiert genau eigentlich heute jahr mal
faire fait font aller va peut peuvent doit dois faut avoir mettre prendre appelle passe passer an aujourd'hui
hacer hace hizo ir va puede pueden debe hay tener tiene llevar pasa pasó llama año hoy
fare fa fatto andare può possono deve avere ha prendere succede chiama anno oggi
делать сделать делали может можно нужно надо случилось называется год сегодня
"""
_LIGHT = 0.45
#: No more words are looked at for kindred forms than this; what stands beyond it is met as it stands.
_VOCABULARY = 30_000


@dataclass(frozen=True, slots=True)
class Concept:
    """What a question asks about in one word: the words that count for it with their strength, and its weight."""

    word: str
    forms: dict[str, float]
    weight: float


class Texts:
    """Texts counted once, in which concepts are looked for; words of `titles` above them are known as well."""

    def __init__(self, texts: Iterable[str], titles: Iterable[str] = ()) -> None:
        self.words = [terms(text) for text in texts]
        self.counts = [Counter(words) for words in self.words]
        self._in: dict[str, set[int]] = {}
        for at, counts in enumerate(self.counts):
            for word in counts:
                self._in.setdefault(word, set()).add(at)
        for word in terms(" ".join(titles)):
            self._in.setdefault(word, set())
        total = sum(len(words) for words in self.words)
        self._mean = total / len(self.words) if total else 1.0

    def concepts(self, topic: str, text: str) -> list[Concept]:
        """The concepts of a question: one for each word of its topic, and for phrases of `text` with another name."""
        wanted = list(dict.fromkeys(terms(topic)))
        whole = terms(text)
        found = [self._concept(word, whole) for word in wanted]
        return [*found, *(self._weighed(phrase, forms) for phrase, forms in _phrases(whole, set(wanted)))]

    def _concept(self, word: str, whole: Sequence[str]) -> Concept:
        forms = dict.fromkeys(_others(word, whole), _OTHER)
        initial = word[:_LEAST_PART]
        for known in islice(self._in, _VOCABULARY):
            strength = _kinship(word, known, initial)
            if strength:
                forms[known] = max(strength, forms.get(known, 0.0))
        forms[word] = 1.0
        return self._weighed(word, forms)

    def _weighed(self, word: str, forms: dict[str, float]) -> Concept:
        """A concept that stands in most texts weighs little; the strict form of it counts where it stands at all."""
        kept = {form: strength for form, strength in forms.items() if form in self._in}
        strict = [form for form in kept if kept[form] == 1.0]
        places = set().union(*(self._in[form] for form in strict or kept)) if kept else set[int]()
        weight = math.log(1 + (len(self.counts) - len(places) + 0.5) / (len(places) + 0.5))
        return Concept(word, kept, weight * (_LIGHT if word in _light() else 1.0))

    def strength(self, concept: Concept, at: int) -> float:
        """How strongly text `at` holds a concept, from 0 to about 2; often in a short text is more."""
        counts = self.counts[at]
        norm = _K1 * (1 - _B + _B * len(self.words[at]) / self._mean)
        best = 0.0
        for form, strength in concept.forms.items():
            if frequency := counts[form]:
                best = max(best, strength * frequency * (_K1 + 1) / (frequency + norm))
        return best


@cache
def _light() -> frozenset[str]:
    return frozenset(terms(_LIGHT_WORDS))


def held(concept: Concept, words: set[str]) -> float:
    """The strength with which a bag of words holds a concept, from 0 to 1."""
    return max((strength for form, strength in concept.forms.items() if form in words), default=0.0)


def _kinship(word: str, known: str, initial: str) -> float:
    """How nearly two folded words are one: forms of a stem, or a compound and its part."""
    if word == known:
        return 1.0
    short, long = sorted((len(word), len(known)))
    if short < _LEAST_PART or not word.isalpha() or not known.isalpha():
        return 0.0
    if known.startswith(initial):
        shared = next((at for at in range(short) if word[at] != known[at]), short)
        if (shared == short and shared / long >= 0.6) or (shared > _LEAST_PART and shared / long >= 0.75):
            return _AKIN
        if shared == short and short > _LEAST_PART:
            return _PART
        return 0.0
    if long < _LEAST_WHOLE:
        return 0.0
    return _PART if word.endswith(known) or known.endswith(word) else 0.0


def _others(word: str, whole: Sequence[str]) -> set[str]:
    """Other words for a word of the question."""
    found: set[str] = set()
    for number in by_word().get(word, ()):
        group = groups()[number]
        if any(member and member[0] == word and _stands(member, whole) for member in group):
            found.update(member[0] for member in group if len(member) == 1 or _paired(member))
    return found


def _phrases(whole: Sequence[str], wanted: set[str]) -> list[tuple[str, dict[str, float]]]:
    """Phrases of a question that have another name, where none of their words began one in the topic."""
    numbers = dict.fromkeys(number for word in whole if word not in wanted for number in by_word().get(word, ()))
    found = []
    for number in numbers:
        group = groups()[number]
        if any(len(member) > 1 and member[0] not in wanted and _stands(member, whole) for member in group):
            forms = {member[0]: _OTHER for member in group if len(member) == 1 or _paired(member)}
            found.append((f"{number}", forms))
    return found


def _stands(member: Sequence[str], whole: Sequence[str]) -> bool:
    return any(tuple(whole[at : at + len(member)]) == tuple(member) for at in range(len(whole)))


def _paired(member: Sequence[str]) -> bool:
    """True for a word of a script that is cut into pairs: its first pair stands for it."""
    return bool(member) and member[0][:1] >= "\u3040"
