"""One page from HTML to Markdown: parse, walk, select, render, with the visible text as the last resort."""

import re
from dataclasses import dataclass, replace
from typing import Literal

from lxml.html import HtmlElement

from nanobot.web.extract.blocks import Block, walk
from nanobot.web.extract.dom import lineage, names_of, tag_of
from nanobot.web.extract.metadata import Metadata, read_metadata
from nanobot.web.extract.page import WHOLE, Keep
from nanobot.web.extract.render import Options, render_markdown, render_text
from nanobot.web.extract.select import outside_navigation, select

HowRead = Literal["article", "reference", "listing", "readability", "visible", "empty"]

_LISTING_TOKENS = 60  # with less prose than this,
_LISTING_SHARE = 0.08  # and less than this share of what stands outside navigation, a page is a list of links
_COMMENT_TOKENS = 5
_COMMENTS = re.compile(
    r"(?:^|[-_ ])(?:comments?|comment-?(?:list|body|text)|disqus|replies)(?=[-_ ]|\d|$)", re.IGNORECASE
)
_PAGE = frozenset({"html", "body", "main", "article"})
_LEAST_TOKENS = 25  # fewer words than this, while much more is visible, mean that the choice failed


@dataclass(frozen=True, slots=True)
class Article:
    """`text` is plain, `markdown` keeps the structure. `how` tells which way the page was read.

    `share` is the part of the visible words that was kept, 0 to 1; `tokens` counts the words that were kept.
    """

    text: str
    markdown: str
    metadata: Metadata
    how: HowRead
    share: float
    tokens: int = 0


def read_tree(root: HtmlElement, url: str = "", keep: Keep = WHOLE) -> Article:
    """The content of a page. Never empty where text is visible: then all visible text comes back, and `how` says so."""
    blocks = walk(root)
    selection = select(root, blocks)
    kept = selection.blocks
    how: HowRead = "reference" if selection.whole else "article"
    total = sum(block.tokens for block in blocks)
    words = sum(block.tokens for block in kept)
    around = outside_navigation(blocks)
    if words < _LEAST_TOKENS and total > words:
        kept, how = around or blocks, "visible"
    elif words < _LISTING_TOKENS and words < _LISTING_SHARE * sum(block.tokens for block in around):
        kept, how = around, "listing"
    if not kept:
        how = "empty"
    metadata = read_metadata(root, url)
    if how == "article":
        kept = _without_title(kept, metadata.title)
    return _article(kept, metadata, how, total, url, _said_by_readers(blocks, kept) if keep.comments else [], keep)


def read_part(part: HtmlElement, whole: Article, url: str, keep: Keep = WHOLE) -> Article:
    """The content of a page of which another program chose `part`; `whole` is the page as it was read before."""
    blocks = walk(part)
    total = round(whole.tokens / whole.share) if whole.share else 0
    return _article(blocks, whole.metadata, "readability", total, url, [], keep)


def _article(
    kept: list[Block], metadata: Metadata, how: HowRead, total: int, url: str, comments: list[Block], keep: Keep
) -> Article:
    """The blocks as text and Markdown, as `keep` wants them."""
    tokens = sum(block.tokens for block in kept)
    if not keep.tables:
        kept, comments = ([block for block in some if block.kind != "table"] for some in (kept, comments))
    options = Options(url, keep.links != "text", keep.images, {} if keep.links == "footnotes" else None)
    text, markdown = render_text(kept), render_markdown(kept, options)
    if comments:
        text = f"{text}\n\nComments\n\n{render_text(comments)}"
        markdown = f"{markdown}\n\n## Comments\n\n{render_markdown(comments, replace(options, footnotes=None))}"
    return Article(text, markdown, metadata, how, round(tokens / total, 3) if total else 0.0, tokens)


def _said_by_readers(blocks: list[Block], kept: list[Block]) -> list[Block]:
    """The blocks of the comments below an article, without their buttons and counts."""
    known = {id(block) for block in kept}
    return [
        block
        for block in blocks
        if id(block) not in known
        and block.tokens >= _COMMENT_TOKENS
        and block.link_tokens < block.tokens / 2
        and any(
            _COMMENTS.search(names_of(element)) for element in lineage(block.element) if tag_of(element) not in _PAGE
        )
        and not any(tag_of(element) == "form" for element in lineage(block.element))
    ]


def _without_title(blocks: list[Block], title: str) -> list[Block]:
    """Drop a first heading that only repeats the title, which the header of the page shows already."""
    if len(blocks) > 1 and blocks[0].kind == "heading" and blocks[0].text and title.startswith(blocks[0].text):
        return blocks[1:]
    return blocks
