"""The dates of a text, in the languages and orders in which they are written."""

import re

_MONTHS = (
    "january jan januar janvier enero janeiro gennaio января январь",
    "february feb februar février fevrier febrero fevereiro febbraio февраля февраль",
    "march mar märz marz mars marzo março марта март",
    "april apr avril abril aprile апреля апрель",
    "may mai mayo maio maggio мая май",
    "june jun juni juin junio junho giugno июня июнь",
    "july jul juli juillet julio julho luglio июля июль",
    "august aug août aout agosto августа август",
    "september sep sept septembre septiembre setembro settembre сентября сентябрь",
    "october oct oktober okt octobre octubre outubro ottobre октября октябрь",
    "november nov novembre noviembre novembro ноября ноябрь",
    "december dec dezember dez décembre decembre diciembre dezembro dicembre декабря декабрь",
)
_MONTH_OF = {name: number for number, names in enumerate(_MONTHS, 1) for name in names.split()}
_MONTH = "|".join(sorted(_MONTH_OF, key=len, reverse=True))
_YEAR = r"(?:1\d|20)\d\d"
_ORDINAL = r"(?:st|nd|rd|th|er|\.|º)?\s?(?:of |de )?"
_DATES = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        rf"(?<!\d)(?P<y>{_YEAR})-(?P<m>\d\d)-(?P<d>\d\d)(?!\d)",
        rf"(?<!\d)(?P<y>{_YEAR})\s?[年년]\s?(?P<m>\d{{1,2}})\s?[月월](?:\s?(?P<d>\d{{1,2}})\s?[日号號일])?",
        r"(?<!\d)(?P<m>\d{1,2})\s?[月월]\s?(?P<d>\d{1,2})\s?[日号號일]",
        rf"(?<!\d)(?P<d>\d{{1,2}})[./](?P<m>\d{{1,2}})[./](?P<y>{_YEAR})(?!\d)",
        rf"(?<!\d)(?P<d>\d{{1,2}}){_ORDINAL}(?P<n>{_MONTH})\b\.?(?:,? (?:de )?(?P<y>{_YEAR})(?!\d))?",
        rf"\b(?P<n>{_MONTH})\b\.? (?P<d>\d{{1,2}})(?:st|nd|rd|th)?(?!\d)(?:,? (?P<y>{_YEAR})(?!\d))?",
        rf"\b(?P<n>{_MONTH})\b\.?,? (?:de )?(?P<y>{_YEAR})(?!\d)",
    )
)
Dated = tuple[int, int, tuple[tuple[int, int, int], ...]]


def dates(text: str) -> list[Dated]:
    """Every date of `text`: where it stands, and (year, month, day) in every reading, 0 for what it does not say."""
    found: list[Dated] = []
    taken: set[int] = set()
    for pattern in _DATES:
        for match in pattern.finditer(text):
            if match.start() in taken or match.end() - 1 in taken:
                continue
            groups = match.groupdict()
            month = _MONTH_OF[groups["n"].casefold()] if groups.get("n") else int(groups.get("m") or 0)
            year, day = int(groups.get("y") or 0), int(groups.get("d") or 0)
            readings = [(year, month, day), (year, day, month)] if "/" in match[0] else [(year, month, day)]
            fitting = tuple(date for date in readings if 0 < date[1] <= 12 and date[2] <= 31)
            if fitting:
                taken.update(range(match.start(), match.end()))
                found.append((match.start(), match.end(), fitting))
    return sorted(found)
