"""One page: what is asked for, and what was read."""

import re
from datetime import UTC, datetime
from typing import Protocol, runtime_checkable
from urllib.parse import SplitResult, urlsplit, urlunsplit

from msgspec import Struct, field

from nanobot.security.network import IPAddress
from nanobot.utils.secrecy import Reticent, url_secrets
from nanobot.web.extract.page import Extracted, Format
from nanobot.web.fetch.content import ImageInfo, Kind

_GITHUB = r"/([^/]+/[^/]+)/blob/([^/]+/.+)", "raw.githubusercontent.com", r"/\1/\2"
#: A paper instead of its abstract. Those without an HTML version answer 404; the abstract is read then.
_ARXIV = r"/abs/((?:\d{4}\.\d{4,5}|[a-z-]+(?:\.[A-Z]{2})?/\d{7})(?:v\d+)?)/?", "arxiv.org", r"/html/\1"
#: Host → its pages that show a file, the host of the file itself, and its path there.
_FILES = {
    "github.com": _GITHUB,
    "www.github.com": _GITHUB,
    "gist.github.com": (r"/([^/]+)/([0-9a-f]{8,})/?", "gist.githubusercontent.com", r"/\1/\2/raw"),
    "gitlab.com": (r"(/.+/-)/blob(/[^/]+/.+)", "gitlab.com", r"\1/raw\2"),
    "bitbucket.org": (r"(/[^/]+/[^/]+)/src(/[^/]+/.+)", "bitbucket.org", r"\1/raw\2"),
    "codeberg.org": (r"(/[^/]+/[^/]+)/src(/(?:branch|tag|commit)/[^/]+/.+)", "codeberg.org", r"\1/raw\2"),
    "arxiv.org": _ARXIV,
    "www.arxiv.org": _ARXIV,
}


def raw_file(url: str) -> str:
    """The address of the file that `url` shows, or `url` itself. Judges host and path exactly, never a part of them."""
    try:
        parts = urlsplit(url)
        port = f":{parts.port}" if parts.port else ""
    except ValueError:
        return url
    shown, host, path = _FILES.get((parts.hostname or "").rstrip("."), ("", "", ""))
    found = re.fullmatch(shown, parts.path) if host and "@" not in parts.netloc else None
    return urlunsplit(SplitResult(parts.scheme, host + port, found.expand(path), "", "")) if found else url


def keeps_home(url: str) -> str:
    """Why `url` must not be told to anybody else, empty where it may: it carries what looks like a secret."""
    found = url_secrets(url)
    return found[0].where if found else ""


class PrivateHost(Struct, frozen=True):
    """A host of the owner's network with the addresses that it has now, as the owner is shown it."""

    name: str
    addresses: tuple[IPAddress, ...]


class SeenPage(Struct, frozen=True):
    """By what a page is known that has not changed: what its site says of it, and a digest of its bytes."""

    etag: str = ""
    modified: str = ""
    digest: str = ""

    @property
    def headers(self) -> dict[str, str]:
        """The headers that ask for the page only where it has changed."""
        said = {"If-None-Match": self.etag, "If-Modified-Since": self.modified}
        return {name: value for name, value in said.items() if value}


class PageRequest(Struct, frozen=True):
    """One page as a call wants it. `private` forbids every reader but this machine; `call_id` goes to the service.

    `scripts` keeps them in HTML. `opened` is what the owner allowed for this page alone, see `PageReader.private_host`.
    With `seen` a page that is still the same is not taken apart, see `Page.unchanged`.
    """

    url: str
    format: Format = "markdown"
    private: bool = False
    call_id: str = ""
    scripts: bool = False
    opened: PrivateHost | None = None
    seen: SeenPage | None = None

    @property
    def address(self) -> str:
        """The address that is really read: of a file that a code host shows, the file."""
        return self.url if self.format == "html" else raw_file(self.url)


@runtime_checkable
class PluginReader(Protocol):
    """A reader of a plug-in: it is asked for a page that shows nothing, or too little, without its scripts."""

    name: str

    async def read(self, url: str, *, proxy: str, timeout: float) -> str:
        """The page as HTML. `proxy` is the address of an HTTP proxy, the only way out: it judges every address.
        `timeout` is in seconds. Raises `FetchError`, and nothing else."""


class PageImage(Reticent, frozen=True):
    """An image as it came, or a PDF whose pages are images."""

    unprinted = ("data",)

    info: ImageInfo
    data: bytes


class Page(Struct, frozen=True):
    """A page that was read. `cut` says why it is not whole; `notes` are sentences about how it was read.

    `doubts` are reasons why its text may not be what a person would see. `attempts` are the readers that were asked,
    each with `step`, `outcome` and `seconds`; `way` says it in words where it was not simply read here.
    `unchanged`: it is what the request had seen, and has no content here; `seen` is by what it is known next time.
    `no_store`: the site wants no copy kept for others. `age` is in seconds, None for a page that came just now.
    """

    url: str
    final_url: str
    status: int
    kind: Kind
    content: Extracted
    size: int = 0
    cut: str = ""
    image: PageImage | None = None
    requests: int = 1
    doubts: tuple[str, ...] = ()
    attempts: tuple[dict[str, object], ...] = ()
    way: str = ""
    no_store: bool = False
    unchanged: bool = False
    seen: SeenPage = SeenPage()
    age: float | None = None
    retrieved_at: datetime = field(default_factory=lambda: datetime.now(UTC))

    @property
    def notes(self) -> tuple[str, ...]:
        cut = (f"The page is not whole: {self.cut}.",) if self.cut else ()  # English: a model reads it
        return (*cut, *self.content.notes)
