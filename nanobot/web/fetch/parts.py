"""What of a page that was read is shown: a window, the places that speak of something, one section, or short JSON."""

import re
from collections.abc import Iterator
from itertools import islice

from msgspec import Struct

from nanobot.utils.ranking import best_passages
from nanobot.utils.text import fold, nearest, shorten, squeeze
from nanobot.web.extract.page import Format
from nanobot.web.fetch.json_text import json_at, json_overview, shorten_json
from nanobot.web.fetch.page import Page

_BREAK_WITHIN = 400
# English: a model reads it
_SHORT_JSON = (
    "Long lists and texts are cut. To read a part of this JSON, call web_fetch again with section=a.b[0]; "
    "to read all of it in parts, with format=text. Its keys:"
)
_JSON_CHARS = 5_000
_HEADING = re.compile(r"^(?P<fence> {0,3}(?:```|~~~))|^(?P<level>#{1,6})[ \t]+(?P<name>[^\n]{1,300})", re.MULTILINE)
_LINK = re.compile(r"!?\[([^\[\]]*)\]\([^()\s]*(?:\([^()\s]*\)[^()\s]*)*(?:\s[^()]*)?\)")
#: More headings than these are not looked at: a page of nothing else would take seconds.
_HEADINGS = 2_000
_NAMES = 15
_NAME_CHARS = 80
#: How much of a page is looked at; a place of it has so many characters, and so many are shown.
MOST_CHARS = 2_000_000
_LEAST_PLACE = 300
_MOST_PLACE = 1_500
_PLACES = 12


class PagePart(Struct, frozen=True):
    """What of a page is shown; `notes` say what it is of the whole and how to read on.

    `next` is the character to read on from, None where nothing follows or what is shown is no piece of the text.
    """

    text: str
    truncated: bool
    notes: list[str]
    next: int | None = None


class PageSection(Struct, frozen=True):
    """A heading in a text: its words without markup, and where it and its section start and end."""

    name: str
    start: int
    end: int


def window_of(page: Page, offset: int, most: int, form: Format) -> PagePart:
    """At most about `most` characters from `offset`; long JSON in its short form where it is wanted as Markdown."""
    whole = page.content.text
    if page.kind == "json" and form == "markdown" and not offset and len(whole) > most:
        keys = json_overview(whole)
        short = shorten_json(whole, min(most, _JSON_CHARS - len(keys)))
        if short is not None:
            return PagePart(short, truncated=True, notes=[f"{_SHORT_JSON} {keys}"])
    text = _window(whole, offset, most)
    end = offset + len(text)
    more = end < len(whole)
    return PagePart(text, more or bool(page.cut), _where(page, offset, end), end if more else None)


# English: a model reads it
def places_of(page: Page, query: str, most: int) -> PagePart:
    """The places that speak of `query`, at most about `most` characters, each under its range."""
    whole = page.content.text
    text = _best_places(whole, query, most)
    if not text:
        note = f"Nothing on this page speaks of {query!r}. It has {len(whole)} characters; read it without find."
        return PagePart("", truncated=True, notes=[note])
    note = f"These are places of a page of {len(whole)} characters. To read around one, call web_fetch with its offset."
    return PagePart(text, truncated=True, notes=[note])


def _best_places(text: str, query: str, most: int) -> str:
    """The best places in reading order, each under its character range; at most about `most` characters, maybe none."""
    places = list(_places(text[:MOST_CHARS]))
    budget = most
    chosen: list[tuple[int, str]] = []
    for at in best_passages(query, [words for _, words in places], _PLACES):
        start, words = places[at]
        if chosen and len(words) > budget:
            break
        budget -= len(words)
        chosen.append((start, words[:most]))
    return "\n\n".join(f"(characters {start} to {start + len(words)})\n{words}" for start, words in sorted(chosen))


def _places(text: str) -> Iterator[tuple[int, str]]:
    """Paragraphs with their offsets; short ones joined, long ones cut at a line or a blank."""
    start = 0
    while start < len(text):
        ends = (match.start() for match in re.finditer(r"\n\s*\n", text[start + _LEAST_PLACE : start + _MOST_PLACE]))
        end = start + _LEAST_PLACE + next(ends, _MOST_PLACE - _LEAST_PLACE)
        if end - start >= _MOST_PLACE:
            blank = max(text.rfind("\n", start + _LEAST_PLACE, end), text.rfind(" ", start + _LEAST_PLACE, end))
            end = blank if blank > start else end
        piece = text[start:end]
        if piece.strip():
            lead = len(piece) - len(piece.lstrip())
            yield start + lead, piece.strip()
        start = end


# English: a model reads it
def section_of(page: Page, name: str, most: int) -> PagePart:
    """The section under the heading `name` with all that is below it; where there is none, what the headings are."""
    whole = page.content.text
    if page.kind == "json" and whole[:1] in ("{", "["):
        return _json_section(page, name, most)
    known = sections(whole)
    wanted = fold(_plain(name.strip().lstrip("#")))
    same = [section for section in known if fold(section.name) == wanted]
    if not same:
        return PagePart("", truncated=True, notes=[_no_section(name, known)])
    found = same[0]
    text = _window(whole[: found.end], found.start, most)
    end = found.start + len(text)
    notes = [f"Section {found.name!r}: characters {found.start} to {end} of {len(whole)}."]
    if end < found.end:
        notes = [f"{notes[0]} It goes on to {found.end}: read on with offset={end}."]
    if len(same) > 1:
        others = ", ".join(str(section.start) for section in same[1:6])
        notes.append(f"More sections have this name: they start at offset {others}.")
    cut = len(text) < len(whole) or bool(page.cut)
    return PagePart(text if end < found.end else text.rstrip("\n"), cut, notes, end if end < len(whole) else None)


# English: a model reads it
def _json_section(page: Page, path: str, most: int) -> PagePart:
    """What stands at a path of a JSON document, its long lists and texts cut where it is too long."""
    text, problem = json_at(page.content.text, path)
    if problem:
        return PagePart("", truncated=True, notes=[problem])
    short = text if len(text) <= most else shorten_json(text, most) or text[:most]
    notes = [f"This is {path!r} of a JSON document of {len(page.content.text)} characters."]
    if short != text:
        notes.append(f"It has {len(text)} characters: long lists and texts are cut. Name a longer path to read a part.")
    return PagePart(short, truncated=True, notes=notes)


def rest_of(page: Page, part: PagePart) -> str:
    """Where the rest of a cut page is: the offset that follows and the sections from there on; empty where none is."""
    if part.next is None:
        return ""
    after = [section.name for section in sections(page.content.text) if section.start >= part.next]
    line = f"offset={part.next} of {len(page.content.text)}"
    return f"{line} | sections: {_names(after)}" if after else line


def sections(text: str) -> list[PageSection]:
    """The first `_HEADINGS` sections of a Markdown text; each ends at the next heading that is not below it."""
    heads = list(islice(_headings(text[:MOST_CHARS]), _HEADINGS + 1))
    ends = [heads.pop()[0] if len(heads) > _HEADINGS else len(text)] * 7
    found: list[PageSection] = []
    for start, level, name in reversed(heads):
        found.append(PageSection(name, start, min(ends[1 : level + 1])))
        ends[level] = start
    return found[::-1]


def _headings(text: str) -> Iterator[tuple[int, int, str]]:
    fence = ""
    for match in _HEADING.finditer(text):
        mark = (match["fence"] or "").strip()
        if mark:
            fence = "" if fence == mark else fence or mark
        elif not fence and (name := _plain(match["name"])):
            yield match.start(), len(match["level"]), name


def _plain(heading: str) -> str:
    """The words of a heading without links, emphasis, code marks and the anchor signs that sites put behind them."""
    return squeeze(re.sub(r"[*`]+", "", _LINK.sub(r"\1", heading))).strip("#¶§ ")


# English: a model reads it
def _no_section(name: str, known: list[PageSection]) -> str:
    if not known:
        return f"There is no section {name!r}: this page has no headings. Use find or offset."
    names = [section.name for section in known]
    folded = {fold(one): one for one in reversed(names)}
    wanted = fold(name)
    near = next((one for key, one in folded.items() if wanted and wanted in key), None) or nearest(name, names)
    hint = f" Did you mean {near!r}?" if near else ""
    return f"There is no section {name!r}.{hint} The sections: {_names(names)}."


def _names(names: list[str]) -> str:
    shown = "; ".join(shorten(name, _NAME_CHARS) for name in names[:_NAMES])
    return shown + (f"; and {len(names) - _NAMES} more" if len(names) > _NAMES else "")


def _window(text: str, offset: int, most: int) -> str:
    """At most `most` characters from `offset`, ended at a line break where one is near."""
    if offset + most >= len(text):
        return text[offset:]
    end = text.rfind("\n", offset + most - min(_BREAK_WITHIN, most // 4), offset + most)
    return text[offset : end + 1 if end > offset else offset + most]


# English: a model reads it
def _where(page: Page, offset: int, end: int) -> list[str]:
    """What this part is of the whole, and how to read on."""
    total = len(page.content.text)
    if page.kind == "empty":
        return ["The page is empty: the server sent no text."]
    if offset and offset >= total:
        return [f"The page ends at character {total}; there is nothing at offset {offset}."]
    if end < total:
        return [f"Characters {offset} to {end} of {total}. To read on, call web_fetch again with offset={end}."]
    return [f"Characters {offset} to {total} of {total}: the end of the page."] if offset else []
