"""Where the file itself lies that a code host shows in a page of its own, and the paper behind an abstract."""

import re
from collections.abc import Callable
from urllib.parse import SplitResult, urlsplit, urlunsplit


def _github(path: str) -> tuple[str, str] | None:
    match = re.fullmatch(r"/([^/]+)/([^/]+)/blob/([^/]+/.+)", path)
    return ("raw.githubusercontent.com", f"/{match[1]}/{match[2]}/{match[3]}") if match else None


def _gist(path: str) -> tuple[str, str] | None:
    match = re.fullmatch(r"/([^/]+)/([0-9a-f]{8,})/?", path)
    return ("gist.githubusercontent.com", f"/{match[1]}/{match[2]}/raw") if match else None


def _gitlab(path: str) -> tuple[str, str] | None:
    match = re.fullmatch(r"(/.+/-)/blob(/[^/]+/.+)", path)
    return ("gitlab.com", f"{match[1]}/raw{match[2]}") if match else None


def _bitbucket(path: str) -> tuple[str, str] | None:
    match = re.fullmatch(r"(/[^/]+/[^/]+)/src(/[^/]+/.+)", path)
    return ("bitbucket.org", f"{match[1]}/raw{match[2]}") if match else None


def _codeberg(path: str) -> tuple[str, str] | None:
    match = re.fullmatch(r"(/[^/]+/[^/]+)/src(/(?:branch|tag|commit)/[^/]+/.+)", path)
    return ("codeberg.org", f"{match[1]}/raw{match[2]}") if match else None


def _arxiv(path: str) -> tuple[str, str] | None:
    """The whole paper instead of its abstract. Papers without an HTML version answer 404; the abstract is read then."""
    match = re.fullmatch(r"/abs/((?:\d{4}\.\d{4,5}|[a-z-]+(?:\.[A-Z]{2})?/\d{7})(?:v\d+)?)/?", path)
    return ("arxiv.org", f"/html/{match[1]}") if match else None


_RULES: dict[str, Callable[[str], tuple[str, str] | None]] = {
    "github.com": _github,
    "www.github.com": _github,
    "gist.github.com": _gist,
    "gitlab.com": _gitlab,
    "bitbucket.org": _bitbucket,
    "codeberg.org": _codeberg,
    "arxiv.org": _arxiv,
    "www.arxiv.org": _arxiv,
}


def raw_file(url: str) -> str:
    """The address of the file that `url` shows, or `url` itself. Judges host and path exactly, never a part of them."""
    try:
        parts = urlsplit(url)
        port = f":{parts.port}" if parts.port else ""
    except ValueError:
        return url
    rule = _RULES.get((parts.hostname or "").rstrip("."))
    found = rule(parts.path) if rule and "@" not in parts.netloc else None
    if found is None:
        return url
    return urlunsplit(SplitResult(parts.scheme, found[0] + port, found[1], "", ""))
