"""The passages that answer a question best: its words weighed by how much each tells, candidates by the index, then the
order, the closeness and the share of the words in each."""

import math
import re
import sqlite3
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise

from msgspec import Struct

from nanobot.library.parts import PART_ROW, DocumentPart, FoundPart, document_of, head_of, unpacked
from nanobot.utils.ranking import terms

#: Most different words of a query, and the places that the commonest of them may have together.
_WORDS, _PLACES = 48, 20_000
#: Candidates by the words in them, of which the best are chosen.
CANDIDATES = 64
#: How often a word counts that stands above a passage; how far the length of a passage counts, and the usual one, in
#: words; what words in the order of the question count for; and what pairs with hiragana do, which are grammar mostly.
_ABOVE, _LENGTH, _USUAL, _IN_ORDER, _GRAMMAR = 3, 0.25, 150, 0.3, 0.3
#: How much more a word tells that stands nowhere but above passages: what is written about is named there. And what the
#: words count for that stand close together, within so many words of the text.
_SUBJECT, _TOGETHER, _CLOSE = 4, 2, 12
_HIRAGANA = re.compile("[\u3040-\u309f]")
#: Most letters that are taken off the end of a word that stands nowhere, and the fewest that stay.
_ENDING, _SHORTEST = 2, 5
_WITH = "SELECT rowid AS id, {} AS weight FROM word WHERE word MATCH ?"
_BEST = "SELECT id FROM ({}) GROUP BY id ORDER BY sum(weight) DESC, id DESC LIMIT ?"


class _Word(Struct, frozen=True):
    """A word of a query: in how many passages it stands, and how much it tells. One that `begins` stands for all words
    that begin so."""

    text: str
    seen: int
    weight: float
    begins: bool = False

    def is_in(self, word: str) -> bool:
        """Whether a word of a text is this one."""
        return word.startswith(self.text) if self.begins else word == self.text

    def times(self, counts: Mapping[str, int]) -> int:
        """How often it stands in a passage, whose words are counted."""
        if not self.begins:
            return counts[self.text]
        return sum(count for word, count in counts.items() if word.startswith(self.text))


def best(
    db: sqlite3.Connection, asked: Sequence[str], holders: Sequence[str], limit: int, among: int
) -> tuple[FoundPart, ...]:
    """The passages of these `holders`, given as `scope_word`, with the words that were `asked`: at most `limit`, chosen
    `among` so many, best first."""
    words = _weighed(db, asked)
    looked_for = [*_telling(words)]
    if not looked_for:
        return ()
    mine = " OR ".join(f'"{one}"' for one in holders)
    weighed = [(sign, word) for word in looked_for for sign in ("", "^")]
    matches = [f'"{sign}{word.text}"{" *" * word.begins} AND ({mine})' for sign, word in weighed]
    each = " UNION ALL ".join(_WITH.format(word.weight) for _, word in weighed)
    rows = db.execute(_BEST.format(each), (*matches, max(limit, among))).fetchall()
    found = [_judged(db, row, words) for (row,) in rows]
    return tuple(sorted(found, key=lambda one: -one.score)[:limit])


def _weighed(db: sqlite3.Connection, asked: Sequence[str]) -> tuple[_Word, ...]:
    """The words of a query in order, with how much each tells; one that stands nowhere tells most.

    A word by which texts are named tells what the question is about, and the others what is asked of it.
    """
    total = int(db.execute("SELECT coalesce(max(id), 0) FROM part").fetchone()[0])
    words = []
    for text in list(dict.fromkeys(asked))[:_WORDS]:
        row = db.execute("SELECT doc FROM seen_in WHERE term = ?", (text,)).fetchone()
        beginning, seen = (text, int(row[0])) if row else _beginning(db, text)
        seen = min(seen, total)
        weight = math.log(1 + (total - seen + 0.5) / (seen + 0.5)) * (_GRAMMAR if _HIRAGANA.search(text) else 1.0)
        above = db.execute("SELECT doc FROM seen_in WHERE term = ?", (f"^{beginning}",)).fetchone()
        weight *= 1 + _SUBJECT * min(1.0, int(above[0]) / seen if above and seen else 0.0)
        words.append(_Word(beginning, seen, weight, begins=row is None))
    return tuple(words)


def _beginning(db: sqlite3.Connection, word: str) -> tuple[str, int]:
    """For a word that stands nowhere: its beginning with which other words begin, such as a plural, and how often."""
    for end in range(len(word), max(len(word) - _ENDING, _SHORTEST) - 1, -1):
        query = "SELECT doc FROM seen_in WHERE term >= ? AND term < ? LIMIT 20"
        rows = db.execute(query, (word[:end], f"{word[:end]}\U0010ffff")).fetchall()
        if rows:
            return word[:end], sum(int(seen) for (seen,) in rows)
    return word, 0


def _telling(words: Iterable[_Word]) -> Iterator[_Word]:
    """The words worth looking for, the rarest first: common ones cost most and tell least."""
    places = 0
    for count, word in enumerate(sorted((word for word in words if word.seen), key=lambda word: word.seen)):
        places += word.seen
        if count > 1 and places > _PLACES:
            return
        yield word


def _judged(db: sqlite3.Connection, row: int, words: Sequence[_Word]) -> FoundPart:
    """A candidate with how much of the question stands in it, and how much of that in its order."""
    *of, place, at, outside, data = db.execute(PART_ROW, (row,)).fetchone()
    document, part = document_of(of), DocumentPart(unpacked(data), place, at, bool(outside))
    head, body = terms(head_of(document, place)), terms(part.text)
    counts = Counter([*head * _ABOVE, *body])
    times = [word.times(counts) for word in words]
    whole = sum(word.weight for word in words)
    cover = sum(word.weight for word, count in zip(words, times, strict=True) if count) / whole
    half = 1 - _LENGTH + _LENGTH * len(body) / _USUAL
    score = sum(2 * word.weight * count / (count + half) for word, count in zip(words, times, strict=True))
    beside = {*pairwise([*head, *body])}
    score += _IN_ORDER * sum(two.weight for one, two in pairwise(words) if (one.text, two.text) in beside)
    together = _together(words, frozenset(head), body) / whole
    return FoundPart(document, part, score / whole * cover + _TOGETHER * together**2, cover)


def _together(words: Sequence[_Word], head: frozenset[str], body: Sequence[str]) -> float:
    """The weight of the words that stand closest together in the text, and of those above it; 0 where the text has
    none."""
    above = {word for word in words if any(word.is_in(one) for one in head)}
    whole = {word.text: word for word in words if not word.begins}
    begun = [word for word in words if word.begins]
    best, near = 0.0, deque[tuple[int, _Word]]()
    for at, one in enumerate(body):
        if (word := whole.get(one) or next((word for word in begun if word.is_in(one)), None)) is None:
            continue
        near.append((at, word))
        while near[0][0] <= at - _CLOSE:
            near.popleft()
        best = max(best, sum(word.weight for word in above.union(word for _, word in near)))
    return best
