"""Which blocks are the content of the page.

The content stands in one part of the page: the landmark (`main`, `article`, an article's body) that holds the headline
or most of the prose; where no landmark tells, the part that readability votes for; then the innermost part that still
holds nearly all of its prose. In it, parts that call themselves navigation or promotion and rows of teasers are dropped
while they hold little of the prose, as are links after the text and short lines before and after it. Lists of items are
kept whole, as are pages of reference, which are known by their code or by the headings that they lead to.
"""

import copy
import logging
import re
from bisect import bisect_left
from itertools import accumulate
from typing import Literal, TypeGuard

from lxml.html import HtmlElement
from msgspec import Struct
from readability import Document
from readability.readability import Unparseable

from nanobot.web.extract.blocks import Block, Part, Walk, is_caption
from nanobot.web.extract.dom import count_tokens

HowRead = Literal["article", "reference", "listing", "visible", "empty"]

#: Names of parts that surround an article.
_AROUND = re.compile(
    r"(?:^|[-_ /])(?:comments?|disqus|related\w*|recirc\w*|recommend\w*|shar(?:e|ing|edaddy|ethis)\w*|social\w*"
    r"|promo\w*|newsletter\w*|subscri\w*|sidebar\w*|rail|aside|foot(?:er)?|nav(?:bar|igation)?|menu|breadcrumbs?|byline\w*"
    r"|author\w*|bio|credits?|tags?|read-?(?:more|also|next)\w*|advert\w*|ads?|sponsor\w*|outbrain\w*|taboola\w*|cookie\w*"
    r"|consent|navbox\w*|modal|popup|overlay|pagination|pager|(?:no)?print|login|sign-?(?:in|up)|visually-?hidden"
    r"|screen-?reader\w*|slideshow\w*|carousel|player|rating|copyright|most-?(?:read|popular)|prev(?:ious)?|donat\w*|paywall"
    r"|(?<![-_/])hidden(?= |$)(?!.*:)|(?:post|entry)-?meta|meta-?data"
    r"|post-?info|pull-?quote|cta|banner\w*)(?=[-_ /]|\d|$)",
    re.IGNORECASE,
)
#: The ids of what a control of the page opens.
_OPENS = "//@aria-controls | //@data-target | //@data-bs-target | //a/@href[starts-with(., '#')]"
#: Names that say what a text is about, as those of WordPress do.
_TOPIC = re.compile(r"(?:^|(?<=\s))(?:tag|category|has|no|with|without)-\S+")
#: Names of parts whose prose does not tell where the content is.
_OTHER_ZONE = re.compile(
    r"comment|footer|sidebar|related|respond|recirc|recommend|promo|newsletter|cookie|consent|(?:^|[-_ ])cmp",
    re.IGNORECASE,
)
_COMMENTS = re.compile(
    r"(?:^|[-_ ])(?:comments?|comment-?(?:list|body|text)|disqus|replies)(?=[-_ ]|\d|$)", re.IGNORECASE
)
_ARTICLE_BODY = re.compile(r"(?:^|\s)(?:article-?body|mw-parser-output|markdown-body)(?:\s|$)", re.IGNORECASE)
#: What ends a sentence, and what may stand behind that; a pattern of them takes milliseconds to compile.
_SENTENCE_ENDS, _CLOSERS = tuple(".!?…:。！？：।۔؟։"), ' »”"」』）)'
_PAGE = frozenset({"html", "body", "main", "article"})
_TEXTUAL = frozenset({"p", "li", "ul", "ol", "table", "blockquote", "pre", "dl", "tr", "tbody", "td"})

_LISTS = frozenset({"ul", "ol", "dl"})
_FRAME_ROLES = frozenset({"navigation", "banner", "contentinfo", "search", "dialog", "alertdialog"})

LANDMARK = 0.6  # of the prose of the page makes a landmark its content,
TITLED = 0.1  # or this, where the headline stands in it,
VOTED = 0.1  # and this a part that readability chose
DESCENT = 0.86  # a part inside with this share of the prose of the landmark is the better one
AROUND = 0.5  # parts with a telling name are dropped while those of the name hold less of the prose than this
LINKS = 0.5  # a block with more of its words in links is a link
CODE = 0.05  # of the words being code make a page of reference,
ANCHORED = 0.5  # or this part of its headings, and at least four, being places that the page itself links to
WIDENED = 0.25  # links among the words that stand around a reference; more are the frame of the page
CONTENTS = 0.3  # a part without prose with this share of links to headings of the page is its list of contents
LEAD = 10  # words make a sentence, or a heading, between the headline and the text its beginning
LINE = 15  # a line before or after the text with fewer words, which ends no sentence, is no part of it
_MOST_NESTED = 300_000  # words and parts, each for every part that it stands in: beyond, the vote takes too long
SHORT = 120  # words outside navigation are kept whole
DOUBT = 0.7  # where less than this part of them was chosen
_ITEMS = 3  # parts of one kind, each with a link for a title, are a list of items
TEASERS = 0.8  # of such parts with a link of their own make them teasers inside an article, or such a list
_ITEMS_SHARE = 0.6  # of the words outside navigation, with fewer than so many other texts of so many words
_OTHER_TEXTS, _TEXT = 3, 15
_LEAST_TOKENS = 10  # fewer words than this, while much more is visible, mean that the choice failed
_PANEL_TOKENS = 12
_LONG = 30  # words are a sentence whatever they end with: not every language has a mark for that


class Selection(Struct):
    """The blocks that are content, in order, how they were found, and what readers said below them.

    `share` is the part of the visible prose that was kept, `words` that of all visible words, 0 to 1. `revealed` tells
    that the content was hidden, as in pages whose own program shows it.
    """

    blocks: list[Block]
    how: HowRead
    comments: list[Block]
    words: float = 0.0
    share: float = 0.0
    revealed: bool = False


def select(root: HtmlElement, walk: Walk, title: str) -> Selection:
    """The content blocks of the page with this title; where text is visible, there are some."""
    revealed = _reveal(walk, set(" ".join(root.xpath(_OPENS)).replace("#", " ").split()))
    page = _Page(root, walk, title)
    visible = [block for block in walk.blocks if not block.part.hidden]
    kept, how = _chosen(page)
    if how != "listing" and (whole := _short(page, kept)):
        kept, how = whole, "visible"
    total = sum(block.tokens for block in visible)
    tokens = sum(block.tokens for block in kept)
    if tokens < _LEAST_TOKENS and total > tokens:
        kept, how = _outside_navigation(page, page.parts[0]) or visible, "visible"
        tokens = sum(block.tokens for block in kept)
    prose = sum(map(_prose, visible))
    return Selection(
        kept,
        how if kept else "empty",
        _said_by_readers(visible, kept) if how == "article" else [],
        max(round(tokens / total, 3), 0.001) if tokens else 0.0,
        sum(map(_prose, kept)) / prose if prose else 1.0,
        revealed,
    )


def _ends_sentence(block: Block) -> bool:
    return block.text.rstrip(_CLOSERS).endswith(_SENTENCE_ENDS)


def _prose(block: Block) -> int:
    return block.tokens - block.link_tokens if block.tokens >= 8 and block.link_tokens <= 0.4 * block.tokens else 0


class _Page:
    """The blocks and parts of a page with the words, and the weight of the prose, up to each block."""

    def __init__(self, root: HtmlElement, walk: Walk, title: str) -> None:
        self.root, self.blocks, self.parts = root, walk.blocks, walk.parts
        self.place = {part: number for number, part in enumerate(self.parts)}
        self.headline = _headline(self.blocks, title)
        self.elsewhere: dict[Part | None, bool] = {None: False}
        self.framed: dict[Part | None, bool] = {None: False}
        for part in self.parts:
            self.framed[part] = self.framed[part.above] or _frames(part)
            other = part.tag not in _PAGE and _OTHER_ZONE.search(part.names) is not None
            self.elsewhere[part] = self.elsewhere[part.above] or self.framed[part] or other
        self.words = [0, *accumulate(block.tokens for block in self.blocks)]
        self.unquoted = [0, *accumulate(0 if block.quotes else block.tokens for block in self.blocks)]
        self._sums = [0.0]
        for block in self.blocks:
            self._sums.append(self._sums[-1] + _weight(block) * (0.2 if self.elsewhere[block.part] else 1.0))

    def mass(self, part: Part) -> float:
        return self._sums[part.last] - self._sums[part.first]

    def inside(self, scope: Part) -> list[Part]:
        """The parts of `scope`, outermost first, without itself."""
        start = self.place[scope] + 1
        return self.parts[start : bisect_left(self.parts, scope.last, start, key=lambda part: part.first)]

    def without(self, scope: Part, dropped: "dict[Part, bool]") -> list[Block]:
        """The visible blocks of `scope` that stand in no part of `dropped`, which is completed for the parts inside."""
        for part in self.inside(scope):
            dropped[part] = dropped.get(part, False) or dropped.get(part.above or part, False)
        own = self.blocks[scope.first : scope.last]
        return [block for block in own if not block.part.hidden and not dropped.get(block.part, False)]


def _weight(block: Block) -> float:
    """The words of prose of a block; short ones and tables tell little about where the content is."""
    if block.kind in {"heading", "rule"} or block.part.hidden:
        return 0.0
    return _prose(block) * (0.3 if block.tokens < 15 or block.kind == "table" else 1.0)


def _headline(blocks: list[Block], title: str) -> int:
    """The number of the heading that says what the page says it is about; -1 where none does."""
    wanted = set(re.findall(r"\w+", title.lower()))
    best, found = 0.5, -1
    for number, block in enumerate(blocks):
        if block.kind == "heading" and block.level < 4 and not block.part.hidden:
            own = set(re.findall(r"\w+", block.text.lower()))
            common = len(own & wanted)
            alike = common / len(own) * min(1.0, common / 3) + 0.05 * (block.level == 1) if own else 0.0
            if alike > best:
                best, found = alike, number
    return found


def _reveal(walk: Walk, opens: set[str]) -> bool:
    """Show what is hidden only until a program or a control of the page shows it; whether that is most of the text.

    A hidden part is shown where it holds more prose than all that is visible, or where a visible control opens it.
    """
    visible = sum(_prose(block) for block in walk.blocks if not block.part.hidden)
    most, shown = False, set[Part]()
    for part in walk.parts:
        if part.above in shown:
            shown.add(part)
        elif part.hidden and not (part.above and part.above.hidden):
            own, role = walk.blocks[part.first : part.last], part.element.get("role")
            opened = part.element.get("id") in opens and role not in {"dialog", "menu"} and part.tag != "dialog"
            if opened:  # what says more than links, and asks for nothing
                told = sum(block.tokens - 2 * block.link_tokens for block in own)
                opened = told > 0 and not part.element.xpath("@aria-modal | .//input")
            if (prose := sum(map(_prose, own))) > visible and prose >= _PANEL_TOKENS:
                most = opened = True
            if opened or role == "tabpanel":
                shown.add(part)
    for part in shown:
        part.hidden = False
    return most


def _chosen(page: _Page) -> tuple[list[Block], HowRead]:
    total = page.mass(page.parts[0])
    landmark = _landmark(page, total) if total else next(filter(_is_main, page.parts), page.parts[0])
    if landmark is not page.parts[0] and _is_reference(page, landmark):
        return _reference(page, landmark), "reference"
    scope = _inner(page, landmark, total) if total else landmark
    if _is_reference(page, scope):
        return _reference(page, _widened(page, scope)), "reference"
    listed = _items(page)
    if listed is not None:
        return _outside_navigation(page, listed), "listing"
    dropped = _around(page, scope) | _teasers(page, scope)
    posts = _posts(page, scope)
    kept = _without_links(page, scope, page.without(scope, dropped), posts) if total else []
    return _without_lines(page, posts, _lead(page, scope) + kept), "article"


def _landmark(page: _Page, total: float) -> Part:
    """The innermost part that calls itself the content, or the whole page."""
    scope = page.parts[0]
    for test in (_is_main, _is_article, _is_article_body):
        found = [part for part in (scope, *page.inside(scope)) if test(part)]
        titled = [part for part in found if part.first <= page.headline < part.last]
        for some, least in ((titled, TITLED), (found, LANDMARK)):
            best = max(some, key=page.mass, default=None)
            if best is not None and page.mass(best) >= least * total:
                scope = best
                break
    return scope


def _inner(page: _Page, scope: Part, total: float) -> Part:
    """The part of `scope` that readability votes for, or that holds nearly all of its prose; at least that which has
    paragraphs of its own, where the text began."""
    nested = sum(page.words[part.last] - page.words[part.first] for part in page.parts)
    nested += 8 * sum(1 for _one in page.root.iter())  # an element takes the vote as long as so many words
    told = any(test(scope) for test in (_is_article, _is_article_body))
    inside = page.inside(scope)
    large = [part for part in inside if part.tag not in _TEXTUAL and page.mass(part) >= VOTED * total]
    inner, least = scope, DESCENT * page.mass(scope)
    for part in large[:]:
        if part.above is inner and page.mass(part) >= least:
            inner = part
            large.remove(part)
    voted = _vote(page) if large and not (told or nested > _MOST_NESTED) else None
    if voted is not None and page.mass(voted) >= VOTED * total and voted in inside:
        inner = voted
        while inner.tag in _TEXTUAL and inner is not scope and inner.above is not None:
            inner = inner.above
    return _with_paragraphs_around(_begun(page), inner, scope)


def _begun(page: _Page) -> set[Part | None]:
    """The parts that have paragraphs of their own."""
    return {one.above for one in page.parts if one.tag == "p" and page.mass(one) >= _TEXT}


def _with_paragraphs_around(begun: set[Part | None], part: Part, top: Part) -> Part:
    """`part`, or the outermost one around it, up to `top`, that is among those with paragraphs of their own."""
    outer, best = part, part
    while outer is not top and outer.above is not None:
        outer = outer.above
        if outer in begun:
            best = outer
    return best


def _short(page: _Page, chosen: list[Block]) -> list[Block]:
    """All that a page says outside navigation, where that is little and much of it was not chosen; else nothing."""
    main = _main(page)
    whole = _outside_navigation(page, main)
    if sum(block.tokens for block in whole) >= SHORT:
        return []
    if main is page.parts[0]:
        dropped = _around(page, main) | {part: True for part in page.inside(main) if _frames(part)}
        whole = _without_links(page, main, page.without(main, dropped), _posts(page, main))
    left, known = {*whole} - {*chosen}, {*whole, *chosen}
    much = sum(block.tokens for block in left) > (1 - DOUBT) * sum(block.tokens for block in whole)
    return [block for block in page.blocks if block in known] if much else []


def _main(page: _Page) -> Part:
    return max(filter(_is_main, page.parts), key=page.mass, default=page.parts[0])


def _is_main(part: Part) -> bool:
    return part.tag == "main" or part.element.get("role") == "main"


def _is_article(part: Part) -> bool:
    return part.tag == "article" or part.element.get("role") == "article"


def _is_article_body(part: Part) -> bool:
    return "articlebody" in (part.element.get("itemprop") or "").lower() or bool(_ARTICLE_BODY.search(part.names))


def _vote(page: _Page) -> Part | None:
    """The smallest part with nearly all of the prose that readability takes for the content."""
    for place, one in enumerate(page.parts):
        one.element.set("data-n", str(place))
    logging.getLogger("readability").setLevel(logging.CRITICAL)
    try:
        summary = Document(copy.deepcopy(page.root)).summary(html_partial=True)
    except (Unparseable, ValueError, TypeError):
        return None
    numbers = {int(number) for number in re.findall(r' data-n="(\d+)"', summary)}
    held: dict[Part, float] = {}
    for place in range(len(page.parts) - 1, -1, -1):  # inner parts first
        part = page.parts[place]
        if place in numbers and part.tag in {"p", "li", "td", "pre", "blockquote"}:
            held[part] = page.mass(part)
        if part.above is not None and held.get(part):
            held[part.above] = held.get(part.above, 0.0) + held[part]
    least = 0.9 * held.get(page.parts[0], 0.0)
    found = (part for part in held if held[part] >= least > 0)
    return min(found, key=lambda part: part.last - part.first, default=None)


def _around(page: _Page, scope: Part) -> dict[Part, bool]:
    """The parts inside `scope` that say that they are furniture, while they hold little of the prose."""
    named = [
        part
        for part in page.inside(scope)
        if (part.tag in {"nav", "footer", "form"} or (part.names and _AROUND.search(_TOPIC.sub("", part.names))))
        and not (_is_section(page, part) or _is_quoted(page, part))
    ]
    together: dict[str, float] = {}
    for part in named:
        together[part.names] = together.get(part.names, 0.0) + page.mass(part)
    return {part: part.tag == "nav" or together[part.names] < AROUND * page.mass(scope) for part in named}


def _is_section(page: _Page, part: Part) -> bool:
    """Whether a part has its name from its own heading: the id then says what it is about, not what it is."""
    words = re.findall(r"\w+", (part.element.get("id") or "").lower())
    first = page.blocks[part.first] if part.first < part.last else None
    if len(words) < 2 or first is None or first.kind != "heading" or _AROUND.search(part.element.get("class") or ""):
        return False
    return words == re.findall(r"\w+", first.text.lower())[: len(words)]


def _is_quoted(page: _Page, part: Part) -> bool:
    """Whether all that a part says is quoted: posts that an article shows are marked as social, or sharing."""
    return page.words[part.last] > page.words[part.first] and page.unquoted[part.last] == page.unquoted[part.first]


def _teasers(page: _Page, scope: Part) -> dict[Part, bool]:
    """The parts of rows of teasers inside `scope`, while all of them together hold little of the prose."""
    kinds = {"div", "section", "article", "aside", "figure", "li"}
    rows = (row for row in _rows(page, scope) if row[0].tag in kinds)
    apart = (row for row in rows if all(part.tag != "li" for part in _lineage(row[0].above)))
    found = {part: True for row in apart for part in row}
    outer = (part for part in found if part.above not in found)
    return found if sum(map(page.mass, outer)) < AROUND * page.mass(scope) else {}


def _rows(page: _Page, scope: Part) -> list[list[Part]]:
    """The parts of one kind that stand beside each other inside `scope`, most of them with a link of their own."""
    groups: dict[tuple[Part | None, str, str], list[Part]] = {}
    for part in page.inside(scope):
        groups.setdefault((part.above, part.tag, part.names), []).append(part)
    return [
        row
        for row in groups.values()
        if len(row) >= _ITEMS
        and sum(any(map(_is_link, page.blocks[part.first : part.last])) for part in row) >= TEASERS * len(row)
    ]


def _without_links(page: _Page, scope: Part, blocks: list[Block], posts: set[Part | None]) -> list[Block]:
    """Without links that stand apart from the text: neither in nor beside its paragraphs and lists, or after the last.

    A heading belongs to the text that follows it, an item to its list where most of that is text.
    """
    end = max((block.part.last for block in blocks if _prose(block) >= _TEXT), default=0)
    apart: dict[Part, bool] = {}
    begun = _begun(page)
    for part in page.inside(scope):
        if part.above in apart:
            apart[part] = apart[part.above]
        elif part.tag == "p" or part.tag in _LISTS:
            own = page.blocks[part.first : part.last]
            beside = part.tag in _LISTS and part.above in begun
            apart[part] = part.first >= end and sum(map(_is_link, own)) > 0.5 * len(own) and not beside
    sections = {part for part in set(page.inside(scope)) & begun if part.last <= end}
    following: list[Block | None] = [None]  # the next block with words or a link, pictures aside
    for block in reversed(blocks[1:]):
        said = block.tokens or any(span.href for span in block.spans)
        following.append(block if said else following[-1])
    following.reverse()
    return [
        block
        for before, block, after in zip([None, *blocks], blocks, following, strict=False)
        if not _is_link(block)
        or block.part in posts
        or (block.quotes and _is_text(before) and before.quotes)
        or (_is_text(after) if block.kind == "heading" else not apart.get(block.part, block.part not in sections))
    ]


def _posts(page: _Page, scope: Part) -> set[Part | None]:
    """The parts of one name that each hold prose and a link, as posts name who wrote them, with all that is inside."""
    rows: dict[tuple[Part | None, str, str], list[Part]] = {}
    for part in page.inside(scope):
        if part.names and page.mass(part) >= _TEXT:
            rows.setdefault((part.above, part.tag, part.names), []).append(part)

    def is_signed(part: Part) -> bool:
        return any(block.kind == "text" and _is_link(block) for block in page.blocks[part.first : part.last])

    posts: set[Part | None] = {
        part for row in rows.values() if len(row) > 1 and all(map(is_signed, row)) for part in row
    }
    for part in page.inside(scope):
        if part.above in posts:
            posts.add(part)
    return posts


def _without_lines(page: _Page, posts: set[Part | None], blocks: list[Block]) -> list[Block]:
    """Without the dates, names and labels before and after the text: short lines that stand beside no paragraph.

    After the text a line below a heading stays: the two are a section.
    """
    begun = _begun(page)

    def is_line(block: Block) -> bool:
        return (
            block.kind == "text"
            and 0 < block.tokens < LINE
            and not (block.items or block.quotes or is_caption(block) or block.part.tag in {"dt", "dd", "table"})
            and begun.isdisjoint((block.part, block.part.above))
            and block.part not in posts
            and not _ends_sentence(block)
        )

    def is_body(block: Block) -> bool:
        return bool(block.items) or block.kind in {"table", "code"} or (block.kind == "text" and _prose(block) >= _TEXT)

    start = next((number for number, block in enumerate(blocks) if is_body(block)), 0)
    end = len(blocks)
    while end and (blocks[end - 1].kind in {"heading", "rule"} or is_line(blocks[end - 1])):
        if is_line(blocks[end - 1]) and end > 1 and blocks[end - 2].kind == "heading":
            break
        end -= 1
    left = [block for number, block in enumerate(blocks[:end]) if number >= start or not is_line(block)]
    return left if 2 * sum(block.tokens for block in left) > sum(block.tokens for block in blocks) else blocks


def _is_text(block: Block | None) -> TypeGuard[Block]:
    return block is not None and block.tokens > 0 and block.kind != "heading" and not _is_link(block)


def _lead(page: _Page, scope: Part) -> list[Block]:
    """The headings and sentences between the headline and the text, which begin it: often in a part of their own."""
    if not 0 <= page.headline < scope.first:
        return []
    return [
        block
        for block in page.blocks[page.headline + 1 : scope.first]
        if _prose(block) >= LEAD
        and (block.kind == "heading" or block.tokens >= _LONG or _ends_sentence(block))
        and not (block.part.hidden or page.framed[block.part] or is_caption(block) or _AROUND.search(block.part.names))
    ]


def _is_link(block: Block) -> bool:
    """Whether a block is little but links; one with the words of a text outside them is none."""
    mostly = block.link_tokens > LINKS * block.tokens and block.tokens - block.link_tokens < _TEXT
    return mostly and block.kind not in {"code", "table", "rule"}


def _reference(page: _Page, scope: Part) -> list[Block]:
    return page.without(scope, _around(page, scope) | _contents(page, scope))


def _is_reference(page: _Page, scope: Part) -> bool:
    """Whether much of the text is code, or the page leads to most of its headings itself."""
    own = page.blocks[scope.first : scope.last]
    code = sum(
        block.tokens
        if block.kind == "code"
        else sum(count_tokens(span.text) for span in block.spans if "code" in span.styles)
        for block in own
    )
    if code >= CODE * max(1, sum(block.tokens for block in own)):
        return True
    led = {(link.get("href") or "")[1:] for link in page.root.iter("a") if (link.get("href") or "").startswith("#")}
    headings = [block for block in own if block.kind == "heading"]
    anchored = sum(not led.isdisjoint(_anchors(block)) for block in headings)
    return anchored >= 4 and anchored >= ANCHORED * len(headings)


def _anchors(heading: Block) -> set[str]:
    """The names under which links lead to a heading: its own, that of its section, those of anchors inside it."""
    element = heading.part.element
    around = [element, *element.iter("a")]
    if (section := element.getparent()) is not None:
        around.append(section)
    return {name for one in around for name in (one.get("id"), one.get("name")) if name}


def _widened(page: _Page, scope: Part) -> Part:
    """The outermost part around `scope` that adds text to it; what adds mostly links is the frame of the page."""
    best = part = scope
    while part.above is not None and not (_is_main(part) or _is_article(part)):
        part = part.above
        added = [*page.blocks[part.first : best.first], *page.blocks[best.last : part.last]]
        shown = [block for block in added if not block.part.hidden and not page.framed[block.part]]
        words = sum(block.tokens for block in shown)
        if sum(block.link_tokens for block in shown) > WIDENED * words:
            break
        if words:
            best = part
    return best


def _contents(page: _Page, scope: Part) -> dict[Part, bool]:
    """The parts inside `scope` that lead to its headings, which say the same."""
    anchors = {name for block in page.blocks if block.kind == "heading" for name in _anchors(block)}

    def leads(block: Block) -> bool:
        links = {span.href.partition("#")[2] for span in block.spans if span.text.strip(" .0123456789|•·")}
        return block.kind == "text" and bool(links) and links <= anchors

    leading = [0, *accumulate(block.tokens if leads(block) else 0 for block in page.blocks)]
    return {
        part: True
        for part in page.inside(scope)
        if part.tag not in _TEXTUAL
        and page.mass(part) < 1
        and leading[part.last] - leading[part.first] > CONTENTS * (page.words[part.last] - page.words[part.first])
    }


def _items(page: _Page) -> Part | None:
    """The part of a page that is a list: of links, of results, of posts. None for a page that is one text."""
    main = _main(page)
    around = _outside_navigation(page, main)
    words, texts = sum(block.tokens for block in around), sum(_prose(block) >= _TEXT for block in around)
    for row in (one for one in _rows(page, main) if not page.framed[one[0]]):
        blocks = [page.blocks[part.first : part.last] for part in row]
        own = [sum(block.tokens for block in some) for some in blocks]
        inside = sum(_prose(block) >= _TEXT for some in blocks for block in some)
        whole = sum(own) >= _ITEMS_SHARE * words and (texts - inside < _OTHER_TEXTS or sum(own) >= 0.9 * words)
        if whole and max(own) <= 0.5 * sum(own):
            return main
    return None


def _outside_navigation(page: _Page, scope: Part) -> list[Block]:
    """The blocks of `scope` that stand in no navigation, header, footer, aside or form of the page."""
    return page.without(scope, {part: _frames(part) for part in page.inside(scope)})


def _frames(part: Part) -> bool:
    if part.tag in {"nav", "footer", "aside", "form"} or part.element.get("role") in _FRAME_ROLES:
        return True
    return part.tag == "header" and part.above is not None and part.above.tag in {"body", "div"}


def _said_by_readers(visible: list[Block], kept: list[Block]) -> list[Block]:
    """The blocks of the comments below an article, without their buttons and counts."""
    known = {id(block) for block in kept}
    return [
        block
        for block in visible
        if id(block) not in known
        and block.tokens >= 5
        and block.link_tokens < block.tokens / 2
        and any(part.tag not in _PAGE and _COMMENTS.search(part.names) for part in _lineage(block.part))
        and not any(part.tag == "form" for part in _lineage(block.part))
    ]


def _lineage(part: Part | None) -> list[Part]:
    found: list[Part] = []
    while part is not None:
        found.append(part)
        part = part.above
    return found
