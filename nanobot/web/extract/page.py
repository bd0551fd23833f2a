"""What reading a page gives, and what of it is wanted."""

from typing import Literal

from msgspec import Struct

Format = Literal["markdown", "text", "html"]
JobKind = Literal["html", "xml", "pdf", "office", "mail"]
#: Kinds that have a reader, in the module of that name, which no other page should pay for.
FILES = frozenset(("pdf", "office", "mail"))
Links = Literal["keep", "text", "footnotes"]


class Keep(Struct, frozen=True):
    """What of a page reaches its text. `images` are addresses; their words are kept anyway. `scripts` is for HTML."""

    comments: bool = False
    tables: bool = True
    links: Links = "keep"
    images: bool = True
    scripts: bool = False


#: The article with everything that belongs to it.
WHOLE = Keep()


class Job(Struct, frozen=True):
    """A page to read. `charset` is the header's; `cut` tells that the body ends in mid-stream."""

    body: bytes
    url: str
    kind: JobKind = "html"
    format: Format = "markdown"
    charset: str = ""
    cut: bool = False
    keep: Keep = WHOLE


class Extracted(Struct, frozen=True):
    """A page as it was read. Dates are as written; `notes` are sentences about what was lost on the way.

    `extractor` is `readability` for the main content of an HTML page, `raw` for all its visible words, `fallback-data`
    for the data in a page that shows nothing, else the kind of file or the remote reader. `how` says more exactly which
    way an HTML page was read (`article`, `reference`, `listing`, `readability`, `visible`), empty for other kinds.
    `share` is the part of the visible words of an HTML page that was kept, 0 to 1.
    """

    title: str
    text: str
    extractor: str
    site: str = ""
    author: str = ""
    published: str = ""
    language: str = ""
    notes: tuple[str, ...] = ()
    how: str = ""
    share: float = 0.0
