"""Reading HTML without a parser, in linear time, for pages on which parsers fail or take too long."""

import html
import re

from nanobot.utils.text import squeeze

MAX_ATTRIBUTES = 2_000
_TAG = re.compile(r"</?([a-zA-Z][a-zA-Z0-9]*)[^<>]*>|<[!?][^<>]*>")
_INLINE = re.compile(
    r"(?:a|abbr|b|bdi|bdo|cite|code|em|font|i|kbd|mark|q|s|samp|small|span|strong|sub|sup|time|tt|u|var|wbr)\Z",
    re.IGNORECASE,
)


def strip_tags(source: str) -> str:
    """The text of `source`: no tags, no scripts, entities resolved, a new line where a block ended."""
    text = _TAG.sub(lambda tag: "" if _INLINE.match(tag[1] or "") else "\n", _without_hidden(source))
    lines = (squeeze(line) for line in html.unescape(text).split("\n"))
    return "\n".join(line for line in lines if line)


def page_title(source: str) -> str:
    match = re.search(r"<title[^<>]{0,200}>([^<]{0,1000})", source[:100_000], re.IGNORECASE)
    return squeeze(html.unescape(match[1]))[:300] if match else ""


def cut_attributes(source: str) -> str:
    """`source` where no tag carries more than some 2,000 attributes: they make parsers quadratic."""
    return re.sub(
        r"<[a-zA-Z][^<>]{20000,}>",
        lambda tag: tag[0] if tag[0].count("=") <= MAX_ATTRIBUTES else " ".join(tag[0].split()[:MAX_ATTRIBUTES]) + ">",
        source,
    )


def _without_hidden(source: str) -> str:
    """`source` without comments and without elements that are never shown. Each place is looked at once."""
    lower = source.lower()
    if len(lower) != len(source):  # a few letters change their length; positions must agree
        lower = source
    kept: list[str] = []
    absent: set[str] = set()
    place = 0
    for match in re.finditer(r"<!--|<(script|style|template|svg)\b", lower):
        if match.start() < place:
            continue
        kept.append(source[place : match.start()])
        end = "-->" if match[1] is None else f"</{match[1]}"
        found = -1 if end in absent else lower.find(end, match.end())
        if found < 0:
            absent.add(end)
            place = len(source) if match[1] in ("script", "style") else match.end()
            continue
        close = lower.find(">", found)
        place = len(source) if close < 0 else close + 1
        kept.append(" ")
    kept.append(source[place:])
    return "".join(kept)
