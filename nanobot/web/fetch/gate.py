"""What may be sent to a remote reader, and why a page that was read here is worth another reading."""

import re
from urllib.parse import parse_qsl, unquote, urlsplit

from nanobot.web.extract.page import Extracted

_LITTLE_CHARS = 250
_SCRIPT_SHARE = 0.5
_REPLACED = 0.05
_LINK = re.compile(r"!?\[[^\[\]]{0,400}\]\([^()\s]{1,2000}\)")
_SCRIPT = re.compile(r"<script\b[^<>]*>(.*?)</script\s*>", re.IGNORECASE | re.DOTALL)
_JAVASCRIPT = re.compile(
    r"enable javascript|javascript (?:is )?(?:required|disabled|not enabled)|without javascript", re.IGNORECASE
)
#: The empty element that a program in the page fills: as frameworks name it, or one of its own making.
_MOUNT = re.compile(
    r"<(?:(?:div|main|section)\b[^<>]*\bid=[\"']?(?:root|app|main|__next|__nuxt|react-root|svelte|gatsby)\b|app-root\b)[^<>]*>"
    r"\s*(?:<(?:div|p|span|svg|img|i)\b[^<>]*>\s*)*[^<>]{0,40}\s*</",
    re.IGNORECASE,
)
#: Names of query values that open a door, and the shape of values that nobody types.
_SECRET_NAME = re.compile(
    r"(?:^|[_.-])(?:token|key|apikey|auth|authorization|sig|signature|passw(?:or)?d|passwd|pwd|secret|session|sessionid"
    r"|sid|jwt|credential|credentials|otp|code|ticket|nonce|invite|bearer)(?:$|[_.-])",
    re.IGNORECASE,
)
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_KNOWN_KEY = (
    r"(?:bot)?\d{6,}:[\w-]{20,}|(?:sk|pk|rk)[-_][\w-]{16,}|eyJ[\w-]{10,}\.|gh[opsur]_\w{20,}|github_pat_\w{20,}"
    r"|glpat-[\w-]{16,}|xox[a-z]-[\w-]{10,}|A[KS]IA[A-Z0-9]{16}|AIza[\w-]{30,}|(?:tvly|pplx|fc|hf|npm|jina)[-_]\w{16,}"
)
_SECRET_VALUE = re.compile(rf"(?=[^\s]*\d)(?=[^\s]*[A-Za-z])[A-Za-z0-9_\-+/=.~]{{28,}}\Z|{_KNOWN_KEY}")
_KEY = re.compile(_KNOWN_KEY)
#: In a path, where titles and names of files stand too: a word of both cases with digits in several places.
_RANDOM_WORD = re.compile(r"(?=.*\d[A-Za-z]+\d)(?=.*[a-z])(?=.*[A-Z])[A-Za-z0-9]{12,}\Z")
_LONG = 24
_SECRET_AFTER_NAME = re.compile(r"(?=.*\d)(?=.*[A-Za-z])[\w.~=-]{12,}\Z")


def doubts(content: Extracted, html: str, replaced: float = 0.0) -> tuple[str, ...]:
    """Reasons why the text is probably not what a person would see; none for an ordinary page."""
    text = content.text
    found: list[str] = []
    scripts = sum(len(match[1]) for match in _SCRIPT.finditer(html))
    share = scripts / len(html) if html else 0.0
    if len(text) < _LITTLE_CHARS and "<script" in html.lower():
        outside = len(_LINK.sub("", text).strip())
        if share > _SCRIPT_SHARE:
            found.append(f"little text ({len(text)} characters) and much script ({share:.0%})")
        elif outside < len(text) * 0.2 and _LINK.search(text):
            found.append("nothing but links")
        if _MOUNT.search(html):
            found.append("its scripts fill in the content")
        if _JAVASCRIPT.search(text) or _JAVASCRIPT.search("".join(re.findall(r"<noscript.{0,2000}", html, re.DOTALL))):
            found.append("it asks for JavaScript")
    if content.extractor == "fallback-data":
        found.append("only the data in the page was found")
    if replaced > _REPLACED:
        found.append(f"{replaced:.0%} of the characters could not be read")
    return tuple(found)


def keeps_home(url: str) -> str:
    """Why `url` must not be told to anybody else, empty where it may: it carries what looks like a secret."""
    parts = urlsplit(url)
    if "@" in parts.netloc:
        return "the URL carries a login"
    for name, value in (*parse_qsl(parts.query), *parse_qsl(parts.fragment)):
        if _SECRET_NAME.search(_CAMEL.sub("_", name)) or _SECRET_VALUE.match(value):
            return f"the value of {name[:40]!r} in the URL looks like a secret"
    return "the path of the URL looks as if it held a secret" if _secret_path(parts.path) else ""


def _secret_path(path: str) -> bool:
    """Whether a part of `path` is a key by its shape, or a long word after a part that announces one."""
    before = ""
    for part in unquote(path).split("/"):
        if _KEY.match(part) or (len(part) >= _LONG and any(map(_RANDOM_WORD.match, re.split(r"[-_.~=;,]", part)))):
            return True
        if _SECRET_NAME.search(before) and _SECRET_AFTER_NAME.match(part):
            return True
        before = part
    return False
