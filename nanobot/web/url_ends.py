"""Where a URL in prose ends: its host, then what may stand in a path, a query and a fragment."""

import re
import unicodedata

from nanobot.web.url_words import NAME, RUN, TOP_LEVEL, UNSPACED, belonging, goes_on, without_ending

#: A URL begins here; of an address without a scheme the host says whether it is one.
START = re.compile(r"https?://|www\.", re.IGNORECASE)
_LOGIN = re.compile(r"[A-Za-z0-9._~!$&*+=:%-]{1,200}@(?=[\w\[])")
_IPV6 = re.compile(r"\[[0-9A-Fa-f:.]+\]")
_LABEL = re.compile(f"[{NAME}]+(?:-+[{NAME}]+)*")
_TOP = re.compile(f"[A-Za-z0-9_]+|[{NAME}]+")
_NEXT = re.compile(r"https?://", re.IGNORECASE)
_PORT = re.compile(r":\d+")
_SWITCH = re.compile(f"(?<=[0-9A-Za-z])[{UNSPACED}]")
_UNSPACED = re.compile(f"[{UNSPACED}]")
_ENTITY = re.compile(r"&(?:lt|gt|quot|apos|nbsp|#\d+|#x[0-9a-f]+);", re.IGNORECASE)
#: The path, query or name goes on behind a run of letters.
_GOES_ON = re.compile(r"[/=&%_+-]|[.?#][0-9A-Za-z]")
_KEYCAP = re.compile("[0-9#*]\ufe0f?\u20e3")
_OPENERS = {")": "(", "]": "[", "}": "{"}
#: What may enclose a URL: each opener with what closes it.
_CLOSERS = dict(
    zip(
        "\u201c\u2018\"'`<\u300c\u300e\u300a\u3010\u00ab(\uff08[",
        "\u201d\u2019\"'`>\u300d\u300f\u300b\u3011\u00bb)\uff09]",
        strict=True,
    )
)
_KEPT_MARKS = "\u00b7\u00a7\u00b6\u05be\u05f3\u05f4"
_TRAILING = ".,;:!?'*~\u00b7"
_FOOTNOTE = re.compile(r"(?<!=)\[(?:\^\w{1,20}|\^?\d{1,3}(?:[,;-]\d{1,3})*|[a-z])\]$")
_MOST_LABEL = 63
#: Marks and endings that are taken off one URL.
_MOST_NOTES = 20


def may_begin(text: str, start: re.Match[str]) -> bool:
    """Whether a URL may begin at `start`: `www.` inside a word, an e-mail address or another address begins none."""
    if start[0].lower() != "www.":
        return True
    before = text[max(0, start.start() - 2) : start.start()]
    if before[-1:] in tuple("._-"):
        before = before[:-1] if not before[:-1].endswith(tuple("._-")) else ""
    return not (before and before[-1].isascii() and (before[-1].isalnum() or before[-1] in "@/\\"))


def end_of_host(text: str, at: int, *, login: bool = True) -> int:
    """The end of the host and port that begin at `at`; `at` itself where there is none."""
    here = _LOGIN.match(text, at) if login else None
    begin = here.end() if here else at
    six = _IPV6.match(text, begin)
    end = six.end() if six else _end_of_labels(text, begin)
    port = _PORT.match(text, end) if end > begin else None
    return port.end() if port else end


def _end_of_labels(text: str, begin: int) -> int:
    end, at, labels = begin, begin, 0
    while label := _LABEL.match(text, at, _next_url(text, at, begin)):
        to = _end_of_label(text, label, labels)
        if to > at:
            end = to
        if to < label.end() or text[to : to + 1] != ".":
            break
        labels += label[0].lower() != "www"
        at = to + 1
    return end


def _next_url(text: str, at: int, begin: int) -> int:
    """Where the next URL with a scheme begins: `a.comhttps://b.com` are two."""
    following = _NEXT.search(text, max(at, begin + 1), at + _MOST_LABEL + 9)
    return following.start() if following else len(text)


def _end_of_label(text: str, label: re.Match[str], before: int) -> int:
    """The end of one label, `before` is how many stand before it without `www`; its begin where it is no label."""
    last = not re.match(r"\.\w", text[label.end() :])
    if _UNSPACED.match(label[0]):
        top = TOP_LEVEL.match(label[0]) if last and before else None
        return label.end() if not (last and before) else label.start() + (top.end() if top else 0)
    switch = _SWITCH.search(label[0])
    if switch and (last or before or label[0].startswith("localhost")):
        return label.start() + switch.start()
    if not last or not before or label[0].lower().startswith("xn--"):
        return label.end()
    # A top-level domain has no hyphen and is of one script: what follows is an ending of the sentence's language.
    whole = _TOP.match(label[0])
    return label.start() + (whole.end() if whole else 0)


def end_of_tail(text: str, begin: int, at: int) -> int:
    """The end of path, query and fragment, which begin at `at`; the URL begins at `begin`."""
    if text[at : at + 1] not in ("/", "?", "#"):
        return at
    opened: list[tuple[str, int]] = []
    tail = at
    while at < len(text):
        run = RUN.match(text, at)
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
    """How far a run of letters of a script without blanks belongs to the URL."""
    at, end = run.span()
    before = text[at - 1]
    if before not in "/=.#?&-_+(:~%":
        return end if before.isalpha() and not before.isascii() else at
    quoted = begin > 0 and end < len(text) and _CLOSERS.get(text[begin - 1]) == text[end]
    if quoted or _GOES_ON.match(text, end):
        return end
    own_host = not text[begin:tail].isascii()
    if before in ".?&" or (at == tail + 1 and not own_host) or goes_on(run[0]):
        return at
    following = START.match(text, end + (text[end : end + 1] == "\u30fb"))
    return belonging(text, at, end, following is not None)


def _stops(text: str, at: int) -> bool:
    char = text[at]
    if char in ",;!" and text[at - 1].isascii() and _is_letter(text[at + 1 : at + 2]):
        return True
    if char.isascii():
        return char <= " " or char in '<>"`|\\^\x7f' or bool(_ENTITY.match(text, at) or _KEYCAP.match(text, at))
    kind = unicodedata.category(char)
    if char in "\u200c\u200d":
        return not (_is_letter(text[at - 1]) and _is_letter(text[at + 1 : at + 2]))
    if char == "\u2013":
        following = text[at + 1 : at + 2]
        return not (text[at - 1].isalnum() and (following.isupper() or following.isdigit()))
    if kind[0] in "ZC" or kind == "Sk":
        return True
    if kind[0] == "P":
        return char not in _KEPT_MARKS
    return kind in ("So", "Sm") and (char >= "\u2100" or char in "\u00a9\u00ae") and text[at + 1 : at + 2] != "/"


def _is_letter(char: str) -> bool:
    """Whether this is a letter or a mark of one, and none of ASCII."""
    return char != "" and not char.isascii() and unicodedata.category(char)[0] in "LM"


def _is_aside(text: str, tail: int, at: int) -> bool:
    """Whether a bracket opens something beside the URL: a remark, a note, the end of a tag, the words of a link."""
    before, following = text[at - 1], text[at + 1 : at + 2]
    if text[at] == "[":
        return following == "/" or (before != "/" and not re.search(r"[?#]", text[tail:at]))
    return text[at] == "(" and before.isascii() and before not in "_/=-+,(" and bool(_UNSPACED.match(following))


def _begins_another(text: str, at: int) -> bool:
    """Whether a second URL begins here; one in a path or a query belongs to the first."""
    start = START.match(text, at)
    if start is None or text[at - 1] in "/=:":
        return False
    return start[0].lower() != "www." or not (text[at - 1].isalnum() or text[at - 1] in ".-_@%")


def trimmed(url: str, before: str) -> str:
    """The URL without the punctuation of its sentence; `before` are the two characters in front of it."""
    marks = _TRAILING + ("_" if before[-1:] == "_" else "") + ("=" if before == "==" else "")
    if before[-1:] == "'":
        url = url.partition("'")[0]
    for _ in range(_MOST_NOTES):
        shorter = without_ending(_FOOTNOTE.sub("", url.rstrip(marks)))
        if shorter == url:
            break
        url = shorter
    return url
