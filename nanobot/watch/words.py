"""What people are told of a watch: one message for one change, which quotes old and new.

What stands on a page is shown as it is, in a block where nothing of it is read as Markdown or becomes a link.
"""

import re
from collections.abc import Sequence
from datetime import datetime

from nanobot.utils.text import shorten, squeeze, strip_unsafe
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
    head = f"{target.what} is as it was before" if change.back else f"{target.what} has changed"
    return _message(f"👀 **{_said(head)}**{' (back again)' if change.back else ''}", target, at, lines)


def moved(target: WatchTarget, old: str, new: str, at: datetime, *, back: bool) -> str:
    """That a watched number is another one."""
    head = f"👀 **{_said(target.what)}: {_quoted(new)}**{' (back again)' if back else ''}"
    return _message(head, target, at, [*_signed("-", old), *_signed("+", new)])


def listed(target: WatchTarget, items: Sequence[NewsItem], at: datetime) -> str:
    """That a list has new items."""
    number = f"{len(items)} new" if len(items) > 1 else "New"
    where = f"in {_said(target.what[0].lower() + target.what[1:])}" if target.kind == "search" else "in a feed"
    lines = [f"+ {_quoted(item.title)}{f' ({item.at:%d %b %Y})' if item.at else ''}" for item in items[:_ITEMS]]
    links = "\n".join(item.url for item in items[:_ITEMS] if item.url)
    more = f"\n… and {len(items) - _ITEMS} more" if len(items) > _ITEMS else ""
    return f"{_message(f'👀 **{number} {where}**', target, at, lines)}{more}\n{links}".rstrip()


def troubled(target: WatchTarget, reason: str, number: int) -> str:
    """That something cannot be looked at any more, and what to do."""
    return (
        f"👀 ⚠️ **{_said(target.what)} cannot be watched now**\n{_where(target)}\n```\n{_quoted(reason)}\n```\n"
        f"I go on trying, less often, and say when it is back. `/watch remove {number}` ends it; "
        "watch another page if the site does not want programs."
    )


def recovered(target: WatchTarget, at: datetime) -> str:
    return f"👀 **{_said(target.what)} is back**, {at:%d %b %Y %H:%M}\n{_where(target)}"


def named(text: str) -> str:
    """What is watched as a line of a list shows it."""
    return shorten(_said(text), _NAMED)


def _message(head: str, target: WatchTarget, at: datetime, lines: Sequence[str]) -> str:
    shown = [*lines[:_LINES], *([f"… and {len(lines) - _LINES} more lines"] if len(lines) > _LINES else [])]
    quoted = "\n".join(shown)
    return f"{head}, {at:%d %b %Y %H:%M}\n{_where(target)}\n```diff\n{quoted}\n```"


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
