"""Which texts answer a query: words folded for comparison, and BM25 over them, in any language.

Latin and Cyrillic words are stemmed lightly; scripts without blanks between words, and Korean with its particles, are
cut into pairs of characters. Common words need no list: those that stand in most texts weigh next to nothing.
BM25 is the form of Robertson and Zaragoza, "The Probabilistic Relevance Framework" (2009).
"""

import math
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cache, lru_cache

_PAIRED = (
    "\u0e00-\u0eff\u1000-\u109f\u1100-\u11ff\u1780-\u17ff\u3005\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff"
    "\uac00-\ud7af\uf900-\ufaff"
)
_NEAR_PAIRED = "[^\0-\u0dff\u2000-\u3004]"  # all of them, and some more
_MARKS = re.compile("[\u0300-\u036f]")
_CYRILLIC_END = (
    r"(?:иями|ями|ами|ого|его|ому|ему|ыми|ими|ется|ится|ться|ешь|ишь|ала|ила|ело|али|или|ели|ает|яет|ует|ить|ать|еть|ов|ев|ей"
    r"|ий|ый|ой|ая|яя|ое|ее|ые|ие|ую|юю|ом|ем|ам|ям|ах|ях|ых|их|ет|ит|ут|ют|ат|ят|ал|ил|ел|[аеиоуыэюяьй])$"
)
#: Words of French, Italian and Catalan that lose their vowel before another word, which is the one that tells.
_ELIDED = frozenset(
    "l d j m n s t c qu jusqu lorsqu puisqu quelqu un all dall dell nell sull coll quell quest bell sant".split()
)
_K1, _B = 1.2, 0.6


def terms(text: str) -> list[str]:
    """The words of `text` as they are compared, in order."""
    folded = _folded(text)
    tokens, paired = _patterns(bool(not folded.isascii() and re.search(_NEAR_PAIRED, folded)))
    if paired is None:
        return list(map(stem, tokens.findall(folded)))
    found: list[str] = []
    for token in tokens.findall(folded):
        if paired.match(token):
            found.extend(token[at : at + 2] for at in range(max(1, len(token) - 1)))
        else:
            found.append(stem(token))
    return found


@cache
def _patterns(paired: bool) -> tuple[re.Pattern[str], re.Pattern[str] | None]:
    """A token, and what is cut into pairs. Compiling such large sets takes 8 ms, which only such texts pay."""
    apart = _PAIRED if paired else ""
    token = rf"\d+(?:[.,]\d+)*|[^\W_{apart}]+(?:['’][^\W\d_{apart}]+)?"
    return (re.compile(rf"[{_PAIRED}]+|{token}"), re.compile(f"[{_PAIRED}]")) if paired else (re.compile(token), None)


def _folded(text: str) -> str:
    decomposed = unicodedata.normalize("NFKD", text.casefold())
    return unicodedata.normalize("NFC", _MARKS.sub("", decomposed)) if not decomposed.isascii() else decomposed


@lru_cache(maxsize=20_000)
def stem(word: str) -> str:
    """A folded word without its commonest endings. Two forms of a word mostly meet; two words seldom do. A number
    without marks between its thousands."""
    if word[:1].isdigit():
        return re.sub(r"[.,](?=\d{3}(?:\D|$))", "", word)
    if "'" in word or "’" in word:
        before, after = re.split("['’]", word, maxsplit=1)
        word = after if before in _ELIDED and len(after) > 1 else before
    if "\u0400" <= word[:1] <= "\u04ff":
        return re.sub(_CYRILLIC_END, "", word) if len(word) > 4 else word
    if len(word) <= 3 or not word.isascii():
        return word
    return _latin(word)


def _latin(word: str) -> str:
    if word.endswith("ies"):
        word = word[:-3] + "y"
    elif word.endswith(("sses", "shes", "ches", "xes")):
        word = word[:-2]
    elif word.endswith("s") and not word.endswith(("ss", "us", "is")):
        word = word[:-1]
    for ending, least in (("ing", 6), ("ed", 5), ("ment", 8), ("ly", 6)):
        if word.endswith(ending) and len(word) >= least:
            word = word[: -len(ending)]
            if len(word) > 3 and word[-1] == word[-2] and word[-1] not in "lsz":
                word = word[:-1]
            break
    if word.endswith("ion") and len(word) > 6 and word[-4] in "st":
        word = word[:-3]
    if len(word) > 3 and word[-1] in "eao":
        word = word[:-1]
    return word[:-1] + "i" if len(word) > 2 and word.endswith("y") else word


class Index:
    """Texts counted once, to be asked with several queries."""

    def __init__(self, texts: Iterable[str]) -> None:
        self.words = [terms(text) for text in texts]
        self.counts = [Counter(words) for words in self.words]
        self._df = Counter(term for counts in self.counts for term in counts)
        total = sum(len(words) for words in self.words)
        self._mean = total / len(self.words) if total else 1.0

    def idf(self, term: str) -> float:
        """How much a term tells: near 0 for one that stands in most texts."""
        seen = self._df[term]
        return math.log(1 + (len(self.counts) - seen + 0.5) / (seen + 0.5))

    def score(self, query: Sequence[str], index: int) -> float:
        """BM25 of text `index` for folded query terms; a term that is asked twice counts once."""
        counts = self.counts[index]
        norm = _K1 * (1 - _B + _B * len(self.words[index]) / self._mean)
        total = 0.0
        for term in set(query):
            frequency = counts[term]
            if frequency:
                total += self.idf(term) * frequency * (_K1 + 1) / (frequency + norm)
        return total


def best_passages(query: str, passages: Sequence[str], k: int) -> list[int]:
    """Where the at most `k` passages stand that answer `query` best, best first, but those without any of its words."""
    index = Index(passages)
    wanted = terms(query)
    scores = [index.score(wanted, at) for at in range(len(passages))]
    return sorted((at for at, score in enumerate(scores) if score > 0), key=lambda at: -scores[at])[:k]
