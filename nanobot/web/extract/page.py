"""What reading a page gives."""

from dataclasses import dataclass
from typing import Literal

Format = Literal["markdown", "text", "html"]


@dataclass(frozen=True, slots=True)
class Extracted:
    """A page as it was read. `extractor` is readability, raw, fallback-data, xml or none; dates are as written.

    `notes` are sentences about what was lost on the way.
    """

    title: str
    text: str
    extractor: str
    site: str = ""
    author: str = ""
    published: str = ""
    language: str = ""
    notes: tuple[str, ...] = ()
