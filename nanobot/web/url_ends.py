"""Where a URL in prose ends: its host, then what may stand in a path, a query and a fragment.

Chinese, Japanese, Korean and Thai put the next word or a particle right behind a URL; Finnish, Swedish and Turkish hang
case endings on it with a colon or an apostrophe. What signs tell is told apart; words are not known: letters of such a
script behind the second slash of a path count as a part of it.
"""

import re
import unicodedata
from urllib.parse import urlsplit

#: Letters of scripts without blanks, and Hangul, whose particles follow a word at once; full-width forms with them.
_UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1100-\u11ff\u1780-\u17d3\u17d7-\u17ff\u3005-\u3007\u3021-\u3029\u3041-\u309f"
    "\u30a1-\u30fa\u30fc-\u318f\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\ua960-\ua97f\uac00-\ud7ff\uf900-\ufaff"
    "\uff10-\uff19\uff21-\uff3a\uff41-\uff5a\uff66-\uffdc\U00020000-\U0003ffff"
)
#: A character of a host's name: letters and digits with the marks of scripts that write vowels as marks.
_NAME = (
    "\\w\u0300-\u036f\u0591-\u05bd\u05c1-\u05c7\u0610-\u061a\u064b-\u065f\u0900-\u0963\u0966-\u0df3\u0e31-\u0e4e\u0eb1-\u0ecd"
    "\u102b-\u103e\u1056-\u109d\u17b4-\u17d3"
)
#: One letter of a name in Latin letters, to which no other script belongs; not where the next URL begins.
_LATIN = "(?!https?://)[A-Za-z0-9_\u00c0-\u024f]"
_LABEL = f"(?:(?:{_LATIN})+(?:-+(?:{_LATIN})+)*|[{_NAME}]+(?:-+[{_NAME}]+)*)"
#: Behind the last dot stands no hyphen, but for names in ASCII that stand for others.
_LAST = f"(?:xn--[a-z0-9-]+|(?:{_LATIN})+|[{_NAME}]+)"
_HOST = re.compile(rf"(?:(?:{_LABEL}\.)+{_LAST}|{_LABEL}|\[[0-9a-f:.]+\])(?::\d+)?", re.IGNORECASE)
_LOGIN = re.compile(r"[A-Za-z0-9._~!$&*+=:%-]{1,200}@(?=[\w\[])")
#: A URL begins here; of an address without a scheme the host says whether it is one.
_START = re.compile(r"https?://|www\.", re.IGNORECASE)
_RUN = re.compile(f"[{_UNSPACED}]+(?:\u30fb[{_UNSPACED}]+)*")
_ENTITY = re.compile(r"&(?:lt|gt|quot|apos|nbsp|#\d+|#x[0-9a-f]+);", re.IGNORECASE)
#: The path, query or name goes on behind a run of letters.
_GOES_ON = re.compile(r"[/=&%_+-]|[.?#][0-9A-Za-z]")
_OPENERS = {")": "(", "]": "[", "}": "{"}
_TRAILING = ".,;:!?'*~"
#: Notes, and case endings of Finnish and Swedish (a:n, a:ssä), of Turkish and English (a'den, a's).
_ENDINGS = re.compile(
    r"(?<!=)\[\^?\d{1,3}\]$|[\u00b9\u00b2\u00b3\u2070-\u2079]+$|(?<=[^\W_/]):(?:[nst]|[stln]{0,2}[aä]|lle|ksi)$"
    r"|(?<=[^\W_]{2}|[^\W_]\))'(?:s|[dtynl]?[aeıiuü][a-zıü]{0,4})$"
)
#: Marks and endings that are taken off one URL.
_MOST_ENDINGS = 20
#: What looks as if a URL was meant.
_MEANT = re.compile(r"(?<!\w)(?:https?:\S*|[a-z]{2,8}:/{1,2}\S+|www\.\S+)", re.IGNORECASE)
#: Endings of file names that are no top-level domains.
_FILE = re.compile(
    r"html?|php\d?|aspx?|jsp|css|js|json|xml|ya?ml|toml|ini|cfg|conf|config|log|txt|pdf|docx?|xlsx?|pptx?|csv|tar|t?gz|"
    r"bz2|rar|exe|dll|png|jpe?g|gif|svg|bak|old|tmp|d"
)
_MOST_MALFORMED = 20


def find_urls(text: str) -> tuple[list[str], list[str]]:
    """The URLs of `text`, each once, as written; and up to 20 words that look like URLs and are none."""
    urls: dict[str, None] = {}
    gaps: list[str] = []
    at = 0
    for start in _START.finditer(text):
        if start.start() < at or not _may_begin(text, start):
            continue
        url = _url_at(text, start)
        if url:
            urls[url] = None
            gaps.append(text[at : start.start()])
            at = start.start() + len(url)
    gaps.append(text[at:])
    wrong = dict.fromkeys(word[0].rstrip(_TRAILING) for gap in gaps for word in _MEANT.finditer(gap))
    return [*urls], [*wrong][:_MOST_MALFORMED]


def _may_begin(text: str, start: re.Match[str]) -> bool:
    """Whether a URL may begin at `start`: `www.` inside a word, an e-mail address or another address begins none."""
    before = text[max(0, start.start() - 1) : start.start()]
    return start[0].lower() != "www." or not re.match(r"[A-Za-z0-9@/\\._-]", before)


def _url_at(text: str, start: re.Match[str]) -> str:
    """The URL that begins at `start`; empty where there is none."""
    begin = start.start()
    bare = start[0].lower() == "www."
    login = None if bare else _LOGIN.match(text, start.end())
    host = _HOST.match(text, begin if bare else login.end() if login else start.end())
    if host is None or (bare and not is_real_host(host[0])):
        return ""
    if not _is_http_url(f"https://{host[0]}" if bare else text[begin : host.end()]):
        return ""
    url = text[begin : _end_of_tail(text, begin, host.end())]
    marks = _TRAILING + ("_" if text[begin - 1 : begin] == "_" else "")
    for _ in range(_MOST_ENDINGS):
        shorter = _ENDINGS.sub("", url.rstrip(marks))
        if shorter == url:
            break
        url = shorter
    return url


def is_real_host(name: str) -> bool:
    """Whether `name`, which begins with `www.`, has a host behind it that may exist: no file, no number."""
    try:
        labels = (urlsplit(f"https://{name}").hostname or "").removesuffix(".").split(".")
    except ValueError:
        return False
    top = labels[-1]
    return len(labels) > 2 and len(top) > 1 and not top[0].isdigit() and not _FILE.fullmatch(top)


def _is_http_url(url: str) -> bool:
    """Whether `url` names a host over http or https, with a port that exists."""
    try:
        parts = urlsplit(url)
        _port = parts.port
    except ValueError:
        return False
    host = parts.hostname or ""
    return bool(host) and (":" in host or "." in host or host.isascii())


def _end_of_tail(text: str, begin: int, at: int) -> int:
    """The end of path, query and fragment, which begin at `at`; the URL begins at `begin`."""
    if text[at : at + 1] not in ("/", "?", "#"):
        return at
    opened: list[tuple[str, int]] = []
    tail = at
    while at < len(text):
        run = _RUN.match(text, at)
        if run:
            end = _end_of_run(text, begin, tail, run)
            at = max(at, end)
            if end < run.end():
                break
            continue
        char = text[at]
        if _stops(text, at) or _begins_another(text, at) or (char in "([{" and _is_aside(text, tail, at)):
            break
        if char in "([{":
            opened.append((char, at))
        elif char in _OPENERS:
            if not opened or opened[-1][0] != _OPENERS[char]:
                break
            opened.pop()
        at += 1
    return opened[0][1] if opened else at


def _end_of_run(text: str, begin: int, tail: int, run: re.Match[str]) -> int:
    """Whether a run of letters of a script without blanks belongs to the URL: its end, or else its begin."""
    at, end = run.span()
    before = text[at - 1]
    if before not in "/=.#?&-_+(:~%":
        return end if before.isalpha() and not before.isascii() else at
    if _GOES_ON.match(text, end):
        return end
    own_host = not text[begin:tail].isascii()
    return at if before in ".?&" or (at == tail + 1 and not own_host) else end


def _stops(text: str, at: int) -> bool:
    char = text[at]
    if char in ",;!" and not text[at + 1 : at + 2].isascii():
        return True
    if char.isascii():
        return char <= " " or char in '<>"`|\\^\x7f' or _ENTITY.match(text, at) is not None
    return unicodedata.category(char)[0] in "ZCPS"


def _is_aside(text: str, tail: int, at: int) -> bool:
    """Whether a bracket opens something beside the URL: a remark, a note, the end of a tag, the words of a link."""
    before, following = text[at - 1], text[at + 1 : at + 2]
    if text[at] == "[":
        return following == "/" or (before != "/" and not re.search(r"[?#]", text[tail:at]))
    return text[at] == "(" and before.isascii() and before not in "_/=-+,(" and _RUN.match(following) is not None


def _begins_another(text: str, at: int) -> bool:
    """Whether a second URL begins here; one in a path or a query belongs to the first."""
    start = _START.match(text, at)
    if start is None or text[at - 1] in "/=:":
        return False
    return start[0].lower() != "www." or not (text[at - 1].isalnum() or text[at - 1] in ".-_@%")
