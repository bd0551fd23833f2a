"""Shares of a whole in words: `a third`, `4 in 100`, `one in four`, read as percentages."""

import re
from collections.abc import Sequence

from nanobot.agent.citations.figure import Figure
from nanobot.agent.citations.units import UNITS

_WHOLES = frozenset({3.0, 4.0, 5.0, 10.0, 20.0, 100.0})
_OF = re.compile(r"\s?(?:in|in every|out of|von|sur|de cada|su|из|每)\s?", re.IGNORECASE)
_SHARES = {
    50.0: "half|hälfte|moitié|mitad|metà|metade|половина|половину|половины|半价|半額|half-price|一半|半数|半分|절반",
    25.0: "quarter|viertel|quart|cuarto|quarto|четверть|четверти|cuarta parte|quarta parte|四分之一|4分の1",
    30.0: "三成|3割",
    40.0: "四成|4割",
    60.0: "六成|6割",
    70.0: "七成|7割",
    80.0: "八成|8割",
    90.0: "九成|9割",
    33.3: "third|drittel|tiers|tercio|terzo|terço|треть|трети|tercera parte|terza parte|terça parte|三分之一|3分の1",
    66.7: "two thirds|two-thirds|zwei drittel|deux tiers|dos tercios|due terzi|三分之二",
    75.0: "three quarters|three-quarters|drei viertel|dreiviertel|trois quarts|四分之三",
    20.0: "fifth|fünftel|cinquième|quinto|quinta parte|пятая часть|пятую часть|两成|二成|2割|五分之一",
    10.0: "tenth|zehntel|dixième|décimo|décima parte|一成|1割|十分之一",
}
_SHARE = re.compile(
    "|".join(
        word if ord(word[0]) > 0x2FFF else rf"(?<![^\W\d_]){word}"
        for words in _SHARES.values()
        for word in reversed(words.split("|"))
    ),
    re.IGNORECASE,
)


def with_shares(text: str, found: Sequence[Figure], parts: bool) -> list[Figure]:
    """The figures with `4 in 100` and `one in four` as shares; with `parts` besides the two numbers."""
    kept: list[Figure] = []
    for item in found:
        last = kept[-1] if kept else None
        if (
            last
            and last.kind == item.kind == "number"
            and not (last.unit or item.unit)
            and item.values[0] in _WHOLES
            and last.values[0] < item.values[0]
            and _OF.fullmatch(text[last.end : item.start])
        ):
            share = (100 * last.values[0] / item.values[0],)
            if not parts:
                kept.pop()
            kept.append(Figure("number", last.start, item.end, share, share, unit=UNITS["%"], weak=True, loose=True))
            if not parts:
                continue
        kept.append(item)
    return sorted(kept, key=lambda figure: figure.start)


def _share(match: "re.Match[str]") -> Figure:
    value = next(share for share, words in _SHARES.items() if match[0].casefold() in words.split("|"))
    return Figure("number", *match.span(), (value,), (value,), unit=UNITS["%"], weak=True)


def shares(text: str) -> list[Figure]:
    """The shares that words of `text` may mean; nothing follows from their absence."""
    return [_share(match) for match in _SHARE.finditer(text)]
