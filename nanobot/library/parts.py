"""Documents and their passages: what is known of each, and how a passage stands in a row of the index.

The words of a passage are those of `utils.ranking`: folded, stemmed, and pairs of characters where a script has no
blanks.
"""

import hashlib
import zlib
from collections.abc import Mapping, Sequence
from pathlib import PurePath
from typing import Literal

from msgspec import Struct

from nanobot.utils.ranking import terms

Kind = Literal["talk", "memory", "document", "docs"]
#: Whose: a kind of text, and the person or group who has it; the owner of the home is the empty one.
Scope = tuple[Kind, str]
_KINDS: Mapping[str, Kind] = {"talk": "talk", "memory": "memory", "document": "document", "docs": "docs"}

#: Texts from this number of bytes on are packed.
_PACKED = 160
#: A passage with its document, by its number.
PART_ROW = (
    "SELECT kind, owner, name, title, state, problem, place, at, outside, text "
    "FROM part JOIN document ON document.id = part.document WHERE part.id = ?"
)


class Document(Struct, frozen=True):
    """What is indexed as a whole: a file, a conversation, a page. `name` is its path or id, unique for its kind and
    owner; `state` tells whether it has changed, such as its time stamp and size, and `problem` why it has no text.
    """

    kind: Kind
    owner: str
    name: str
    title: str = ""
    state: str = ""
    problem: str = ""


class DocumentPart(Struct, frozen=True):
    """A passage of a document: `place` is its page or heading, or who said it; `at` a time as text; `outside`: it is
    content from outside, which nobody here has written."""

    text: str
    place: str = ""
    at: str = ""
    outside: bool = False


class FoundPart(Struct, frozen=True):
    """A passage that was found. `score` is higher for better ones; `cover` is the share of what was asked that stands
    in it, 0 to 1, by the weight of the words."""

    document: Document
    part: DocumentPart
    score: float
    cover: float


def scope_word(kind: Kind, owner: str) -> str:
    """The word by which the passages of an owner are found; none of a text has its sign."""
    return f"!{hashlib.blake2b(f'{kind} {owner}'.encode(), digest_size=8).hexdigest()}"


def key_of(document: Document) -> tuple[str, str, str]:
    return document.kind, document.owner, document.name


def document_of(row: Sequence[object]) -> Document:
    kind, owner, name, title, state, problem = map(str, row)
    return Document(_KINDS[kind], owner, name, title, state, problem)


def head_of(document: Document, place: str) -> str:
    """What stands above a passage and is searched with it."""
    if document.kind in ("talk", "memory"):
        return ""
    name = PurePath(document.name).stem if document.kind == "document" else document.name
    return f"{document.title} {name.replace('_', ' ')} {place}"


def words_of(document: Document, part: DocumentPart) -> str:
    """The words of a passage as the index has them: those above it, which have a sign too, its own, and whose it is."""
    head = terms(head_of(document, part.place))
    words = dict.fromkeys([*head, *terms(part.text), *(f"^{word}" for word in head)])
    return " ".join([*words, scope_word(document.kind, document.owner)])


def packed(text: str) -> bytes:
    """Packed where that pays; a packed text begins with a byte that no text begins with."""
    raw = text.encode()
    if len(raw) < _PACKED:
        return raw
    small = b"\xff" + zlib.compress(raw)
    return small if len(small) < len(raw) else raw


def unpacked(data: bytes) -> str:
    return (zlib.decompress(data[1:]) if data[:1] == b"\xff" else data).decode()
