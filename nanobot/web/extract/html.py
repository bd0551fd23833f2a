"""The main content of an HTML page as Markdown or plain text, and what the page says of itself.

Parse, walk, select, render. Where the choice fails all visible text comes back; a page that shows nothing without
JavaScript is answered from the data that lies in it. Runs in the worker process, see `nanobot.web.extract.worker`.
"""

import re

import lxml.html
from lxml import etree
from lxml.html import HtmlElement

from nanobot.web.extract.blocks import Block, walk, with_captions
from nanobot.web.extract.dom import TooDeepError, parse, tell_choices
from nanobot.web.extract.metadata import Metadata, base_of, page_data, read_metadata
from nanobot.web.extract.page import WHOLE, Extracted, Format, Keep
from nanobot.web.extract.render import Options, render_markdown, render_text
from nanobot.web.extract.select import select
from nanobot.web.extract.strip import cut_attributes, page_title, strip_tags

MAX_CHARS = 11_000_000
_POOR_CHARS = 200
_MUCH = 0.6  # of the visible prose; where less is kept, the result says so
_FORBIDDEN = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")  # they crash or empty parsers


def extract(
    html: bytes | str,
    url: str,
    *,
    format: Format = "markdown",  # noqa: A002
    keep: Keep = WHOLE,
) -> Extracted:
    """Read a page. Bytes are taken as UTF-8. Never raises on bad markup; an empty `text` means nothing was found."""
    source = html.decode("utf-8", "replace") if isinstance(html, bytes) else html
    notes = [] if len(source) <= MAX_CHARS else [f"Only the first {MAX_CHARS} characters of the page were read."]
    source = cut_attributes(_FORBIDDEN.sub("", source[:MAX_CHARS]))
    try:
        root = parse(source)
    except TooDeepError as error:
        notes.append(f"Its structure is lost: {error}. This is its bare text.")
        return Extracted(page_title(source), strip_tags(source), "raw", notes=tuple(notes))
    except (etree.LxmlError, ValueError, TypeError):
        return Extracted(page_title(source), strip_tags(source), "raw", notes=tuple(notes))
    about = read_metadata(root, url)
    if format == "html":
        return _about(about, source if keep.scripts else _harmless_html(root), "raw", notes)
    return _read(root, source, url, about, notes, format == "markdown", keep)


def _read(
    root: HtmlElement, source: str, url: str, about: Metadata, notes: list[str], markdown: bool, keep: Keep
) -> Extracted:
    tell_choices(root)
    found = select(root, walk(root), about.title)
    post = found.how == "article" or about.published  # a page of reference has its title in its text
    blocks = _without_title(found.blocks, about.title) if post else found.blocks
    text = _rendered(blocks, found.comments if keep.comments else [], base_of(root, url), markdown, keep)
    data = page_data(root) if len(text) < _POOR_CHARS else ""
    if len(data) > len(text):
        notes.append("The page shows little without JavaScript; this is the data that lies in it.")
        return _about(about, f"{text}\n\n{data}" if text not in data else data, "fallback-data", notes)
    if not text.strip():
        bare = strip_tags(source)
        return _about(about, bare, "raw" if bare else "none", notes)
    if found.revealed:
        notes.append("This text is hidden in the page until the page's own program shows it.")
    if found.share < _MUCH:
        notes.append(
            f"Only {found.share:.0%} of the text on the page was taken for its main content. "
            "If something is missing, fetch the page with format=html."
        )
    whole = found.how in ("visible", "empty")
    return _about(about, text, "raw" if whole else "readability", notes, found.how, found.words)


def _about(
    about: Metadata, text: str, extractor: str, notes: list[str], how: str = "", share: float = 0.0
) -> Extracted:
    said = (about.site, about.author, about.published, about.language)
    return Extracted(about.title, text.strip(), extractor, *said, notes=tuple(notes), how=how, share=share)


def _rendered(blocks: list[Block], comments: list[Block], base: str, markdown: bool, keep: Keep) -> str:
    """The blocks as `keep` wants them, with the comments of readers below."""
    if not keep.tables:
        blocks, comments = ([block for block in some if block.kind != "table"] for some in (blocks, comments))
    if not markdown:
        return "\n\nComments\n\n".join(render_text(some) for some in (blocks, comments) if some)
    options = Options(base, keep.links != "text", keep.images, {} if keep.links == "footnotes" else None)
    text = render_markdown(with_captions(blocks), options)
    if comments:
        text += f"\n\n## Comments\n\n{render_markdown(comments, Options(base, options.links, keep.images))}"
    return text


def _without_title(blocks: list[Block], title: str) -> list[Block]:
    """Drop a first heading that only repeats the title, which the header of the page shows already."""
    if len(blocks) > 1 and blocks[0].kind == "heading" and blocks[0].text and title.startswith(blocks[0].text):
        return blocks[1:]
    return blocks


def _harmless_html(root: HtmlElement) -> str:
    for element in root.xpath("//script | //style | //template"):
        element.drop_tree()
    return str(lxml.html.tostring(root, encoding="unicode"))
