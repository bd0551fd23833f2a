"""Which row of a table a claim is about."""

import re
from collections.abc import Iterable

from nanobot.agent.citations.claims import Claim, words_of

_ROW = re.compile(r"^[ \t]*\|(.*)\|[ \t]*$", re.MULTILINE)
_RULE = re.compile(r"[\s|:-]*")
_YEAR = re.compile(r"(?<!\d)(?:1[5-9]|20)\d\d(?!\d)")
#: Rows that are looked at, of the tables of one page.
_MOST_ROWS = 2_000


class Tables:
    """The rows of a page's tables, each with what it is about: the words of its cells, a year in its first one."""

    def __init__(self, text: str) -> None:
        self._rows: list[tuple[int, int, frozenset[str]]] = []
        for match in _ROW.finditer(text):
            if _RULE.fullmatch(match[1]):
                if self._rows:
                    self._rows.pop()  # what stands above the rule is the head
                continue
            cells = [cell.strip() for cell in match[1].split("|")]
            year = _YEAR.fullmatch(cells[0])
            labels = words_of(" ".join(cells)) | ({f"year {year[0]}"} if year else frozenset())
            self._rows.append((match.start(), match.end(), labels))
            if len(self._rows) >= _MOST_ROWS:
                break

    def elsewhere(self, places: Iterable[int], claim: Claim, besides: frozenset[str] = frozenset()) -> bool:
        """True when all `places` are in rows about something else, and another row is what the claim is about.

        `besides` are words that tell no row: those of the thing itself that stands at the places.
        """
        about = claim.context - besides
        for year in _YEAR.findall(claim.text):
            about |= {f"year {year}"}
        rows = [self._row(place) for place in places]
        here = [row for row in rows if row is not None]
        if not here or len(here) < len(rows):
            return False
        if any(self._rows[row][2] & about for row in here):
            return False
        return any(labels & about for _, _, labels in self._rows)

    def _row(self, place: int) -> int | None:
        return next((at for at, (start, end, _) in enumerate(self._rows) if start <= place < end), None)
