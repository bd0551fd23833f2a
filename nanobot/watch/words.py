"""What people are told of a watch: one message for one change, which quotes old and new.

What stands on a page is shown as it is, in a block where nothing of it is read as Markdown or becomes a link.
"""

import re
from collections.abc import Sequence
from datetime import datetime

from nanobot.utils.text import shorten, squeeze, strip_unsafe
from nanobot.utils.translation import _, _n
from nanobot.watch.compare import WatchChange
from nanobot.watch.items import NewsItem
from nanobot.watch.target import WatchTarget, plain

#: Lines and characters of a quotation and items of a list in one message; characters of what is watched in a list.
_LINES, _WIDTH, _ITEMS, _NAMED = 12, 220, 8, 100


def changed(target: WatchTarget, change: WatchChange, at: datetime) -> str:
    """That a text has changed."""
    lines = [
        line
        for one in change.differences
        for line in (*_signed("-", one.old, one.new), *_signed("+", one.new, one.old))
    ]
    what = _said(target.what)
    if change.back:
        head = _("👀 **{what} is as it was before** (back again), {time}", what=what, time=_moment(at))
    else:
        head = _("👀 **{what} has changed**, {time}", what=what, time=_moment(at))
    return _message(head, target, lines)


def moved(target: WatchTarget, old: str, new: str, at: datetime, *, back: bool) -> str:
    """That a watched number is another one."""
    named_now = {"what": _said(target.what), "number": _quoted(new), "time": _moment(at)}
    head = _("👀 **{what}: {number}**, {time}", **named_now)
    if back:
        head = _("👀 **{what}: {number}** (back again), {time}", **named_now)
    return _message(head, target, [*_signed("-", old), *_signed("+", new)])


def listed(target: WatchTarget, items: Sequence[NewsItem], at: datetime) -> str:
    """That a list has new items."""
    if target.kind == "search":
        head = _n(
            "👀 **New in the search “{words}”**, {time}",
            "👀 **{number} new in the search “{words}”**, {time}",
            len(items),
            words=_said(target.where),
            time=_moment(at),
        )
    else:
        head = _n("👀 **New in a feed**, {time}", "👀 **{number} new in a feed**, {time}", len(items), time=_moment(at))
    message = _message(head, target, [f"+ {_item(item)}" for item in items[:_ITEMS]])
    links = "\n".join(item.url for item in items[:_ITEMS] if item.url)
    more = "\n" + _("… and {number} more", number=len(items) - _ITEMS) if len(items) > _ITEMS else ""
    return f"{message}{more}\n{links}".rstrip()


def troubled(target: WatchTarget, reason: str, number: int) -> str:
    """That something cannot be looked at any more, and what to do."""
    head = _("👀 ⚠️ **{what} cannot be watched now**", what=_said(target.what))
    how = _(
        "I go on trying, less often, and say when it is back. `/watch remove {number}` ends it; "
        "watch another page if the site does not want programs.",
        number=number,
    )
    return f"{head}\n{_where(target)}\n```\n{_quoted(reason)}\n```\n{how}"


def recovered(target: WatchTarget, at: datetime) -> str:
    head = _("👀 **{what} is back**, {time}", what=_said(target.what), time=_moment(at))
    return f"{head}\n{_where(target)}"


def named(text: str) -> str:
    """What is watched as a line of a list shows it."""
    return shorten(_said(text), _NAMED)


def _moment(at: datetime) -> str:
    return _("{time:%d %b %Y %H:%M}", time=at)


def _item(item: NewsItem) -> str:
    title = _quoted(item.title)
    return _("{title} ({day:%d %b %Y})", title=title, day=item.at) if item.at else title


def _message(head: str, target: WatchTarget, lines: Sequence[str]) -> str:
    left = len(lines) - _LINES
    quoted = "\n".join([*lines[:_LINES], *([_("… and {number} more lines", number=left)] if left > 0 else [])])
    return f"{head}\n{_where(target)}\n```diff\n{quoted}\n```"


def _where(target: WatchTarget) -> str:
    if target.kind == "page":
        return target.where
    return f"`{target.where.replace('`', '')}`"


def _signed(sign: str, text: str, other: str = "") -> tuple[str, ...]:
    """A line of the quotation, cut around what differs from the other text."""
    words = plain(text)
    if not words:
        return ()
    if len(words) > _WIDTH and other:
        same = next(
            (place for place, pair in enumerate(zip(words, plain(other), strict=False)) if pair[0] != pair[1]), 0
        )
        words = f"…{words[same - 60 :]}" if same > 120 else words
    return (f"{sign} {_quoted(words)}",)


def _quoted(text: str) -> str:
    """Foreign text in a block of code: on one line, and with nothing that could end the block."""
    return shorten(squeeze(re.sub(r"`{3,}|~{3,}", "…", strip_unsafe(text))), _WIDTH)


def _said(text: str) -> str:
    """A person's own words, without signs that would be read as Markdown."""
    return re.sub(r"[*_`\[\]<>~|]", "", squeeze(text))
