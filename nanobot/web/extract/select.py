"""Which blocks are the content of the page: find the container that holds the prose, then drop what is not content.

The choice rests on counts of prose (words outside links), on where they stand, and on the names pages give to their
navigation, promotion and comment parts. A part is dropped by name only when it holds little of the prose, so that an
unlucky class name never loses the article.
"""

import re
from dataclasses import dataclass

from lxml.html import HtmlElement

from nanobot.web.extract.blocks import Block
from nanobot.web.extract.dom import body_of, lineage, names_of, tag_of

#: Names of parts that surround an article.
_AROUND = re.compile(
    r"(?:^|[-_ /])(?:comments?|comment-?list|disqus|related\w*|recirc\w*|recommend\w*|shar(?:e|ing|edaddy"
    r"|ethis)\w*|social\w*"
    r"|promo\w*|newsletter\w*|subscri\w*|sidebar\w*|rail|aside|footer|foot|nav|navigation|navbar|menu"
    r"|breadcrumbs?|byline\w*"
    r"|author\w*|bio|caption\w*|credits?|tags?|taglist|topics|popular|trending|more-(?:stories|from|on"
    r"|news|articles|links)"
    r"|read-?(?:more|also|next)\w*|readmore\w*|see-?also|advert\w*|ads?|adsbygoogle|sponsor\w*|outbrain\w*"
    r"|taboola\w*|cookie\w*"
    r"|consent|gdpr|navbox\w*|catlinks|editsection|hatnote|modal|popup|overlay|toolbar|pagination|pager|print|skip|login|sign-?(?:in|up)"
    r"|visually-?hidden|sr-only"
    r"|screen-?reader\w*|tooltip|gallery\w*|slideshow\w*|carousel|video-?(?:player|caption|meta)|player"
    r"|poll|quiz|rating"
    r"|disclaimer|copyright|legal|most-?(?:read|popular)|prev(?:ious)?|next-post|teaser\w*|latest"
    r"|timestamp|dateline|date"
    r"|published|kicker|eyebrow|poster|respond|reply|post-?meta|entry-?meta|meta-?data|article-?meta"
    r"|post-?info|jp-relatedposts"
    r"|robots-nocontent|noprint|no-print|hide-for-print|mobile-?only|donat\w*|paywall|pullquote|pull-quote"
    r"|wp-caption-text|cta"
    r"|call-to-action|banner\w*|dfp\w*|masthead|upsell|inline-?(?:promo|related|newsletter"
    r"|signup)\w*)(?=[-_ /]|\d|$)",
    re.IGNORECASE,
)
_AROUND_TAGS = frozenset({"nav", "aside", "footer", "figcaption", "form", "address"})
#: Names of zones whose prose does not tell where the article is.
_OTHER_ZONE = re.compile(
    r"comment|footer|sidebar|related|respond|recirc|recommend|promo|newsletter|cookie|consent", re.IGNORECASE
)
#: Whole blocks that are furniture.
_FURNITURE = re.compile(
    r"(?:advert(?:isement)?s?|share(?: this)?(?: article| story| post)?:?|comments?|leave a (?:reply"
    r"|comment)|sign up|subscribe"
    r"|read more.{0,80}|loading.{0,20}|related:?|see also:?|watch:?|tags?:.{0,80}|\d+ comments?"
    r"|like this:?|image copyright"
    r"|image caption|media playback.{0,80}|photo:?|follow us.{0,80}|story continues.{0,40}"
    r"|continue reading.{0,80}|print|e-?mail"
    r"|facebook|twitter|pinterest|tweet|whatsapp|linkedin|реклама|anzeige|publicité|publicidad|広告)\W*",
    re.IGNORECASE,
)
#: Copyright lines and invitations to subscribe.
_LEGAL = re.compile(
    r"all rights reserved|©\s*(?:copyright|\d{4})|copyright\s*(?:©|\(c\)|\d{4})|subscribe to (?:our|the"
    r"|my) |in your inbox"
    r"|sign up for (?:our|the) |follow (?:us|him|her|them|me) on (?:twitter|facebook|instagram|x\b)"
    r"|like us on facebook",
    re.IGNORECASE,
)
#: Headings after which a page speaks of other things.
_ELSEWHERE = re.compile(
    r"(?:^|\W)(?:related|you (?:may|might) (?:also )?(?:like|enjoy)|more (?:from|on|in|stories|news)"
    r"|read (?:more|next|also)"
    r"|recommended|most (?:read|popular)|see also|also (?:read|on)|latest|trending|popular|comments?"
    r"|leave a (?:reply|comment)"
    r"|responses?|other news|share this|about the author|sign up|newsletter|você pode gostar"
    r"|leia (?:também|mais)|читайте также"
    r"|комментарии|lesen sie auch|mehr zum thema|à lire aussi|lire aussi|te puede interesar"
    r"|relacionad[oa]s|相关|関連|推荐)(?:\W|$)",
    re.IGNORECASE,
)
_RELATED_NAME = re.compile(r"related|recommend|more-stories|also-like", re.IGNORECASE)
_BYLINE = re.compile(
    r"(?:by|von|por|par|di|door|автор|posted by|written by|publicado por)\W.{3,120}|(?:updated|published"
    r"|posted)\b.{0,60}\d.{0,40}"
    r"|\W*\d{1,4}[./-]\d{1,2}[./-]\d{1,4}\b.{0,60}",
    re.IGNORECASE,
)
_GENERATOR = re.compile(
    r"sphinx|mkdocs|docusaurus|docutils|vitepress|mdbook|gitbook|antora|hugo-book|jsdoc|rustdoc|asciidoc|pandoc|doxygen|javadoc|texinfo|makeinfo",
    re.IGNORECASE,
)
_GENERATED_PART = re.compile(
    r"(?:^|\s)(?:sphinxsidebar|sphinxsidebarwrapper|md-sidebar|theme-doc-\S*|VPDoc\S*|wy-nav-\S*)(?:\s|$)"
)
_MAIN_NAME = re.compile(
    r"(?:^|\s)(?:markdown-body|rst-content|body|md-content|theme-doc-markdown|mw-parser-output|vp-doc)(?:\s|$)"
)
_STOP_DESCENT = frozenset({"p", "li", "ul", "ol", "table", "blockquote", "pre", "span", "dl"})

DESCENT = 0.86  # a child that holds this share of the prose is the better container
AROUND_SHARE = 0.3  # a part with a telling name is dropped while it holds less of the prose than this
LINK_SHARE = 0.5  # a short block with more of its words in links is a list of links


@dataclass(slots=True)
class Selection:
    """The blocks that are content, in order. `whole` tells that the main part of a reference page was kept as it is."""

    blocks: list[Block]
    whole: bool = False


def select(root: HtmlElement, blocks: list[Block]) -> Selection:
    """The content blocks of the page; empty where no prose is found."""
    main = reference_main(root, blocks)
    if main is not None:
        inside = set(main.iter())
        kept = [block for block in blocks if block.element in inside and not _navigates(block, main)]
        return Selection(kept, whole=True)
    mass = prose_mass(blocks)
    container = find_container(root, mass)
    if container is None:
        return Selection([])
    inside = set(container.iter())
    own = _before_related([block for block in blocks if block.element in inside], mass, AROUND_SHARE * mass[container])
    kept = [block for block in own if not _around(block, container, mass) and not _is_furniture(block)]
    return Selection(_trim(_cut_elsewhere(kept)))


def prose_mass(blocks: list[Block]) -> dict[HtmlElement, float]:
    """For every element the words of prose inside it. Short blocks and other zones count for little."""
    mass: dict[HtmlElement, float] = {}
    for block in blocks:
        if block.kind in {"heading", "rule"} or block.tokens < 8 or block.link_tokens > 0.4 * block.tokens:
            continue
        weight = float(block.tokens - block.link_tokens)
        if block.tokens < 15 or block.kind == "table":
            weight *= 0.3
        path = list(lineage(block.element))
        if any(_is_other_zone(element) for element in path):
            weight *= 0.2
        for element in path:
            mass[element] = mass.get(element, 0.0) + weight
    return mass


def find_container(root: HtmlElement, mass: dict[HtmlElement, float]) -> HtmlElement | None:
    """The innermost element that still holds nearly all of the prose."""
    current = body_of(root)
    if not mass.get(current):
        return None
    while True:
        best = max((child for child in current if child in mass), key=lambda child: mass[child], default=None)
        if best is None or tag_of(best) in _STOP_DESCENT or mass[best] < DESCENT * mass[current]:
            return current
        current = best


def outside_navigation(blocks: list[Block]) -> list[Block]:
    """The blocks that stand in no navigation, header, footer, aside or form; for pages that are lists of links."""
    return [block for block in blocks if not any(_frames(element) for element in lineage(block.element))]


def _frames(element: HtmlElement) -> bool:
    tag = tag_of(element)
    if tag in {"nav", "footer", "aside", "form"} or (
        tag == "header" and tag_of(element.getparent()) in {"body", "div"}
    ):
        return True
    return element.get("role") in {"navigation", "banner", "contentinfo", "search"}


def _is_other_zone(element: HtmlElement) -> bool:
    tag = tag_of(element)
    if tag in {"nav", "aside", "footer", "form"}:
        return True
    return tag not in {"body", "html", "main", "article"} and bool(_OTHER_ZONE.search(names_of(element)))


def _around(block: Block, container: HtmlElement, mass: dict[HtmlElement, float]) -> bool:
    limit = AROUND_SHARE * mass[container]
    quoted = False
    for element in lineage(block.element):
        if element is container:
            return False
        quoted = quoted or tag_of(element) == "blockquote"
        pattern = _OTHER_ZONE if quoted else _AROUND
        named = tag_of(element) in _AROUND_TAGS or pattern.search(names_of(element))
        if named and mass.get(element, 0.0) < limit:
            return True
    return False


def _is_furniture(block: Block) -> bool:
    if block.kind in {"code", "table", "rule"}:
        return False
    share = block.link_tokens / block.tokens if block.tokens else 0.0
    if share > LINK_SHARE and (block.tokens < 40 or share > 0.75) and block.tokens - block.link_tokens < 15:
        return True
    return bool(_FURNITURE.fullmatch(block.text)) or (block.tokens < 60 and bool(_LEGAL.search(block.text)))


def _before_related(blocks: list[Block], mass: dict[HtmlElement, float], least: float) -> list[Block]:
    """Cut at a heading whose own name says that other articles follow, unless it heads a small box inside the text."""
    seen = 0
    for index, block in enumerate(blocks):
        if block.kind == "heading" and seen > 100 and _RELATED_NAME.search(names_of(block.element)):
            parent = block.element.getparent()
            if parent is not None and mass.get(parent, 0.0) >= least:
                return blocks[:index]
        seen += block.tokens - block.link_tokens
    return blocks


def _cut_elsewhere(blocks: list[Block]) -> list[Block]:
    """Cut the tail that follows a heading such as "More from us", when most of the words stand before it."""
    total = sum(block.tokens for block in blocks)
    seen = 0
    for index, block in enumerate(blocks):
        announces = (block.kind == "heading" or block.tokens < 8) and block.tokens <= 10
        late = seen > 0.5 * total and total - seen < 0.35 * total + 5
        if announces and late and _ELSEWHERE.search(block.text[:80]):
            return blocks[:index]
        seen += block.tokens
    return blocks


def _trim(blocks: list[Block]) -> list[Block]:
    start, end = 0, len(blocks)
    while start < end and (
        blocks[start].kind in {"heading", "rule"}
        or (blocks[start].tokens < 20 and _BYLINE.fullmatch(blocks[start].text))
    ):
        start += 1
    if start < end and start and blocks[start - 1].kind == "heading" and blocks[start - 1].level > 1:
        start -= 1
    while end > start and blocks[end - 1].kind in {"heading", "rule"}:
        end -= 1
    return blocks[start:end]


def reference_main(root: HtmlElement, blocks: list[Block]) -> HtmlElement | None:
    """The main part of a documentation page, or None for other pages.

    Such a page was made by a documentation generator, or it has a main landmark with several headings, and code or
    definition lists beside its prose.
    """
    generated = _is_generated(root)
    found = [
        element
        for element in body_of(root).iter("main", "article", "div", "section")
        if tag_of(element) in {"main", "article"}
        or element.get("role") == "main"
        or _MAIN_NAME.search(element.get("class") or "")
    ]
    for element in found:
        inside = set(element.iter())
        own = [block for block in blocks if block.element in inside]
        if (generated and own) or _reads_like_reference(element, own):
            inner = [other for other in found if other is not element and other in inside]
            tightest = _tightest(inner, own)
            return element if tightest is None else tightest
    return body_of(root) if generated and not found else None


def _is_generated(root: HtmlElement) -> bool:
    """Whether a documentation generator signs the page, by its meta element or by the names of its parts."""
    for meta in root.iter("meta"):
        if (meta.get("name") or "").lower() == "generator" and _GENERATOR.search(meta.get("content") or ""):
            return True
    return any(
        _GENERATED_PART.search(element.get("class") or "") for element in body_of(root).iter("div", "nav", "aside")
    )


def _tightest(candidates: list[HtmlElement], own: list[Block]) -> HtmlElement | None:
    total = sum(block.tokens - block.link_tokens for block in own) or 1
    best = None
    for candidate in candidates:
        inside = set(candidate.iter())
        if sum(block.tokens - block.link_tokens for block in own if block.element in inside) >= 0.9 * total:
            best = candidate
    return best


def _reads_like_reference(element: HtmlElement, own: list[Block]) -> bool:
    headings = sum(block.kind == "heading" for block in own)
    codes = sum(block.kind == "code" for block in own)
    inline = sum("code" in span.styles for block in own for span in block.spans)
    terms = sum(1 for _ in element.iter("dt"))
    return headings >= 2 and (codes >= 2 or inline >= 8 or terms >= 4 or (codes >= 1 and inline >= 3))


def _navigates(block: Block, main: HtmlElement) -> bool:
    """Inside a reference page only real navigation is dropped."""
    for element in lineage(block.element):
        if element is main:
            break
        tag = tag_of(element)
        if tag in {"nav", "footer", "form"} or element.get("role") in {"navigation", "search", "contentinfo"}:
            return True
        if re.search(
            r"(?:^|[-_ ])(?:toc(?!-backref)|breadcrumbs?|prev-next|pagination|edit-(?:this-)?page|sidebar"
            r"|sphinxsidebar"
            r"|table-of-contents|page-nav|feedback|mw-editsection|navbox|catlinks|metadata|printfooter)(?:[-_ ]|$)",
            names_of(element),
            re.IGNORECASE,
        ):
            return True
    return bool(_FURNITURE.fullmatch(block.text))
