"""One page from HTML to Markdown: parse, walk, select, render, with the visible text as the last resort."""

from dataclasses import dataclass
from typing import Literal

from nanobot.web.extract.blocks import Block, walk
from nanobot.web.extract.dom import parse
from nanobot.web.extract.metadata import Metadata, read_metadata
from nanobot.web.extract.render import Options, render_markdown, render_text
from nanobot.web.extract.select import outside_navigation, select

HowRead = Literal["article", "reference", "listing", "visible", "empty"]

_LISTING_TOKENS = 60  # with less prose than this,
_LISTING_SHARE = 0.08  # and less than this share of what stands outside navigation, a page is a list of links
_LEAST_TOKENS = 25  # fewer words than this, while much more is visible, mean that the choice failed


@dataclass(frozen=True, slots=True)
class Article:
    """`text` is plain, `markdown` keeps the structure. `how` tells which way the page was read.

    `share` is the part of the visible words that was kept, 0 to 1.
    """

    text: str
    markdown: str
    metadata: Metadata
    how: HowRead
    share: float


def read_article(html: str, url: str = "", *, links: bool = True, images: bool = True) -> Article:
    """The content of a page. Never empty where text is visible: then all visible text comes back, and `how` says so."""
    root = parse(html)
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
    options = Options(url, links=links, images=images)
    share = sum(block.tokens for block in kept) / total if total else 0.0
    return Article(render_text(kept), render_markdown(kept, options), metadata, how, round(share, 3))


def _without_title(blocks: list[Block], title: str) -> list[Block]:
    """Drop a first heading that only repeats the title, which the header of the page shows already."""
    if len(blocks) > 1 and blocks[0].kind == "heading" and blocks[0].text and title.startswith(blocks[0].text):
        return blocks[1:]
    return blocks
