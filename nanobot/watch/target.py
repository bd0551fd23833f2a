"""What is watched: a page, a part of one, a number in it, a search, or a file; as people write it and as it is kept."""

import re
from collections.abc import Sequence
from decimal import Decimal, InvalidOperation
from itertools import islice
from typing import Literal
from urllib.parse import parse_qsl, urlencode, urlsplit

from msgspec import Struct

from nanobot.errors import UsageError
from nanobot.utils.text import fold, squeeze
from nanobot.utils.translation import _

TargetKind = Literal["page", "search", "file"]

#: Characters of a target, and of a page that are compared.
MOST_TARGET, MOST_TEXT = 1_000, 120_000
#: Blocks of a page that are compared: each change is looked for among all the others.
_MOST_BLOCKS = 3_000
#: Blocks after words in which a number still belongs to them.
_NEAR = 3
_PART = " § "
_NUMBER_WORDS = re.compile(
    r"(?:price|number|preis|zahl|prix|precio|价格|數字|数字)(?:\s*:\s*|\s+(?:near|of|bei|de)\s+|$)(.*)", re.IGNORECASE
)
_CURRENCY = r"(?:[$€£¥₹₽₩₺]|\b(?:USD|EUR|GBP|CHF|JPY|CNY|PLN|SEK|NOK|DKK|CZK|RUB|INR|TRY|BRL)\b|\bkr\b|\bzł|元|円|원)"
_AMOUNT = r"\d{1,3}(?:[ '’.,\u00a0\u202f]\d{3}){1,5}(?:[.,]\d{1,2})?(?!\d)|\d{1,15}(?:[.,]\d{1,9})?"
_PRICE = re.compile(rf"{_CURRENCY}\s?({_AMOUNT})|({_AMOUNT})\s?{_CURRENCY}", re.IGNORECASE)
_FIGURE = re.compile(rf"(?<![\w.,])-?(?:{_AMOUNT})")
_LINK = re.compile(r"!?\[((?:[^\[\]]|\[[^\[\]]*\])*)\]\(<?[^()\s]*(?:\([^()\s]*\)[^()\s]*)*>?(?:\s+\"[^\"]*\")?\)")
_HEADING = re.compile(r"(#{1,6})\s+(.*)")
#: Parameters of URLs that say where a reader came from.
_TRACKING = re.compile(r"(?:utm_\w+|fbclid|gclid|msclkid|mc_[ce]id|ref|ref_src|source|cmpid|at_\w+)\Z", re.IGNORECASE)


class WatchTarget(Struct, frozen=True):
    """`where` is an address, the words of a search, or a path; `part` a heading or words in it, empty for all of it.

    `number`: only the number near the words of `part` counts.
    """

    kind: TargetKind
    where: str
    part: str = ""
    number: bool = False

    def __str__(self) -> str:
        head = self.where if self.kind == "page" else f"{self.kind}: {self.where}"
        if not self.part and not self.number:
            return head
        number = ("number: " if self.part else "price") if self.number else ""
        return f"{head}{_PART}{number}{self.part}"

    @property
    def what(self) -> str:
        """What is watched, in a few words."""
        if self.number:
            return _("The number near “{words}”", words=self.part) if self.part else _("The price")
        if self.kind == "search":
            return _("The search “{words}”", words=self.where)
        if self.part:
            return f"“{self.part}”"
        return _("The file") if self.kind == "file" else _("The page")


def read_target(what: str, part: str = "") -> WatchTarget:
    """What somebody wants watched. Raises `UsageError` that says how to write it."""
    head, _sign, tail = squeeze(what).partition(_PART.strip())
    head, part = head.strip(), squeeze(part or tail)
    if not head:
        raise UsageError(_("Say what to watch: the address of a page or a feed, `search: words`, or `file: path`."))
    if len(head) + len(part) > MOST_TARGET:
        raise UsageError(_("What is watched is named in at most {number} characters.", number=MOST_TARGET))
    number = _NUMBER_WORDS.fullmatch(part)
    if number:
        part = number[1].strip()
    kind, where = _kind(head)
    if kind == "search" and (part or number):
        raise UsageError(_("A search is watched as a whole. Leave the part out, or watch one of its pages."))
    return WatchTarget(kind, where, part, bool(number))


def _kind(head: str) -> tuple[TargetKind, str]:
    named = re.match(r"(search|file|page|feed)\s*:\s*(?!//)", head, re.IGNORECASE)
    if named:
        kind = named[1].lower()
        where = head[named.end() :].strip()
        if where:
            return ("search" if kind == "search" else "file" if kind == "file" else "page", _address(where, kind))
    if re.match(r"https?://", head, re.IGNORECASE) or re.fullmatch(
        r"(?:[\w-]+\.)+[a-z]{2,}(?:[:/]\S*)?", head, re.IGNORECASE
    ):
        return "page", _address(head, "page")
    if re.match(r"[~./]|[A-Za-z]:\\", head) or re.fullmatch(r"\S+\.\w{1,5}", head):
        return "file", head
    raise UsageError(
        _(
            "“{words}” is no address. Write https://… for a page or feed, `search: {words}` for a search, "
            "`file: path`.",
            words=head,
        )
    )


def _address(where: str, kind: str) -> str:
    if kind in ("search", "file"):
        return where
    return where if re.match(r"https?://", where, re.IGNORECASE) else f"https://{where}"


def blocks_of(text: str, part: str = "") -> tuple[str, ...]:
    """A text in Markdown as its lines that say something, without rules and the lines under heads of tables; of a long
    one its beginning, or what begins with the heading or the first line that holds the words of `part`."""
    begin, words = 0, re.escape(part)
    if part and len(text) > MOST_TEXT:
        forms = (rf"^#{{1,6}}\s.*{words}", words)
        found = next(filter(None, (re.search(one, text, re.IGNORECASE | re.MULTILINE) for one in forms)), None)
        begin = text.rfind("\n", 0, found.start()) + 1 if found else 0
    lines = (squeeze(line) for line in text[begin : begin + MOST_TEXT].splitlines())
    said = (line for line in lines if re.search(r"\w", line) and not re.fullmatch(r"[\s|:=_-]+", line))
    return tuple(islice(said, _MOST_BLOCKS))


def plain(block: str) -> str:
    """A block as a person reads it: links as their words, without signs of Markdown."""
    words = _LINK.sub(lambda match: match[1], block)
    return squeeze(re.sub(r"^(?:#{1,6}|[-*+>]|\d+\.)\s+|\*\*|__|`|\\(?=\W)", "", words))


def part_of(blocks: Sequence[str], part: str) -> tuple[str, ...]:
    """The blocks below the heading that holds the words of `part`, else those that hold them; empty where none does."""
    wanted = fold(part)
    for place, block in enumerate(blocks):
        heading = _HEADING.match(block)
        if heading and wanted in fold(plain(block)):
            return (block, *_below(blocks[place + 1 :], len(heading[1])))
    return tuple(block for block in blocks if wanted in fold(plain(block)))


def _below(blocks: Sequence[str], level: int) -> tuple[str, ...]:
    for place, block in enumerate(blocks):
        heading = _HEADING.match(block)
        if heading and len(heading[1]) <= level:
            return tuple(blocks[:place])
    return tuple(blocks)


def number_of(blocks: Sequence[str], words: str) -> str:
    """The number nearest after the words, as it is written, one with a currency first; empty where there is none."""
    wanted = fold(words)
    for place, block in enumerate(blocks):
        text = plain(block)
        begin = fold(text).find(wanted) if wanted else 0
        if begin < 0:
            continue
        near = [text[begin + len(wanted) :], *map(plain, blocks[place + 1 : place + 1 + (_NEAR if wanted else 0)])]
        found = _first(near, _PRICE) or (_first(near, _FIGURE) or _first([text[:begin]], _FIGURE) if wanted else "")
        if found:
            return found
    return ""


def _first(texts: Sequence[str], pattern: re.Pattern[str]) -> str:
    return next((squeeze(match[0]) for text in texts for match in (pattern.search(text),) if match), "")


def value_of(number: str) -> Decimal | None:
    """What a written number is worth, in whichever country it was written; None where it is none."""
    match = re.search(rf"-?(?:{_AMOUNT})", number)
    if match is None:
        return None
    digits = re.sub(r"[ '’\u00a0\u202f]", "", match[0])
    comma, dot = digits.rfind(","), digits.rfind(".")
    if comma >= 0 and dot >= 0:
        digits = digits.replace("." if comma > dot else ",", "")
    elif len(re.findall(r"[.,]\d{3}(?!\d)", digits)) == len(re.findall(r"[.,]", digits)):
        digits = re.sub(r"[.,]", "", digits)
    try:
        return Decimal(digits.replace(",", "."))
    except InvalidOperation:
        return None


def canonical(url: str) -> str:
    """An address without what does not change the page: its scheme, `www.`, marks of where a reader came from."""
    try:
        parts = urlsplit(url.strip())
    except ValueError:
        return url.strip()
    query = urlencode([pair for pair in parse_qsl(parts.query, keep_blank_values=True) if not _TRACKING.match(pair[0])])
    host = parts.netloc.lower().removeprefix("www.")
    return f"{host}{parts.path.rstrip('/') or '/'}{f'?{query}' if query else ''}"
