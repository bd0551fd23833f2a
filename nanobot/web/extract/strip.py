"""Reading HTML without a parser, in linear time, for pages on which parsers fail or take too long."""

import html
import re

from nanobot.utils.text import squeeze

MAX_ATTRIBUTES = 2_000
_TAG = r"</?([a-zA-Z][a-zA-Z0-9]*)[^<>]*>|<[!?][^<>]*>"
#: Comments and elements that are never shown, each to the end where nothing ends it.
_HIDDEN = (
    r"(?is)<!--.*?(?:-->|(?P<open>\Z))"
    r"|<(?P<name>script|style|(?:svg|template)(?![^<>]*/>))\b.*?(?:</(?P=name)[^>]*(?:>|\Z)|(?P<unended>\Z))"
)
_INLINE = r"(?i:a|abbr|b|bdi|bdo|cite|code|em|font|i|kbd|mark|q|s|samp|small|span|strong|sub|sup|time|tt|u|var|wbr)\Z"


def strip_tags(source: str, *, page: bool = True) -> str:
    """The text of `source`: no tags, no scripts, entities resolved, a new line where a block ended.

    What nothing ends is hidden to the end of a `page`, as browsers read it. Elsewhere it is words about a tag.
    """

    def shown(found: re.Match[str]) -> str:
        ended = found["open"] is None and found["unended"] is None
        return " " if page or ended else found[0]

    text = re.sub(_TAG, lambda tag: "" if re.match(_INLINE, tag[1] or "") else "\n", re.sub(_HIDDEN, shown, source))
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
