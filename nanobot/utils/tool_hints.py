"""One line for people about what a tool is doing."""

import re
from collections.abc import Iterable, Mapping
from itertools import groupby
from urllib.parse import urlsplit

from nanobot.utils.secrecy import is_own, url_secrets
from nanobot.utils.text import one_line, shorten, strip_unsafe
from nanobot.utils.translation import N_, _, listed

_PATHS = ("path", "file_path", "filename", "file")
#: Tool → (arguments to look for, wording, what is done in general, whether the value is a URL).
_FORMATS: dict[str, tuple[tuple[str, ...], str, str, bool]] = {
    "web_search": (("query", "search_term", "q"), N_('search "{what}"'), N_("search"), False),
    "web_fetch": (("url", "URL", "uri", "link", "href", "urls", "prompt"), N_("fetch {what}"), N_("fetch"), True),
    "nanobot_docs": (("query",), N_('docs "{what}"'), N_("docs"), False),
    "learn": (("name",), N_("learn the skill {what}"), N_("learn the skill"), False),
    "skill": (("name",), N_("read the skill {what}"), N_("read the skill"), False),
    "recall": (("query",), N_('recall "{what}"'), N_("recall"), False),
    "library": (("query",), N_('library "{what}"'), N_("library"), False),
    "remember": (("fact",), N_('remember "{what}"'), N_("remember"), False),
    "spawn": (("task",), N_('helper "{what}"'), N_("helper"), False),
    "message": (("files", "to", "text"), N_("send {what}"), N_("send"), False),
    "read_file": (_PATHS, N_("read {what}"), N_("read"), False),
    "list_dir": (_PATHS, N_("list {what}"), N_("list"), False),
    "write_file": (_PATHS, N_("write {what}"), N_("write"), False),
    "edit_file": (_PATHS, N_("edit {what}"), N_("edit"), False),
    "delete_file": (_PATHS, N_("delete {what}"), N_("delete"), False),
    "exec": (("command", "cmd", "argv"), N_("run {what}"), N_("run"), False),
    "task": (("id",), N_("task {what}"), N_("task"), False),
    "glob": (("pattern",), N_('find "{what}"'), N_("find"), False),
    "grep": (("pattern", "query"), N_('grep "{what}"'), N_("grep"), False),
}
#: Arguments that want a part of a page, and how a person reads that.
_PARTS = {
    "section": N_('section "{what}"'),
    "find": N_('find "{what}"'),
    "offset": N_("from {what}"),
    "start_index": N_("from {what}"),
}
_URL = re.compile(r"https?://[^\s<>\"']+", re.IGNORECASE)
VALUE_WIDTH = 60
PART_WIDTH = 30


def tool_hint(tool_name: str, arguments: Mapping[str, object]) -> str:
    """The wording of a call, such as `search "Claude 4 vs GPT-4"` or `fetch example.com/article`.

    Long values are cut in the middle to 60 characters. A tool without a wording of its own shows its name and its
    first text argument.
    """
    keys, wording, plain, is_url = _FORMATS.get(tool_name, ((), "", "", False))
    value = next((_said(key, arguments[key]) for key in keys if arguments.get(key)), "")
    if not keys:
        value = next((text for text in arguments.values() if isinstance(text, str) and text.strip()), "")
    value = one_line(value)
    if not keys:
        name = strip_unsafe(tool_name)
        return _('{tool} "{what}"', tool=name, what=shorten(value, VALUE_WIDTH)) if value else name
    if not value:
        return _(plain)
    if not is_url:
        return _(wording, what=shorten(value, PART_WIDTH if tool_name == "spawn" else VALUE_WIDTH))
    return listed((_(wording, what=shorten(_bare(value), VALUE_WIDTH)), *_parts(arguments)))


def numbered(hint: str, earlier: Iterable[str]) -> str:
    """The hint of a helper with its number among those of its turn, such as `helper 2 "tides at Dover"`."""
    begin, plain = _(_FORMATS["spawn"][1]).partition("{what}")[0], _(_FORMATS["spawn"][2])
    count = sum(one.startswith((begin, f"{plain} ")) for one in earlier) + 1
    return hint.replace(plain, _("helper {number}", number=count), 1)


def shared_hint(tool_name: str, arguments: Mapping[str, object]) -> str:
    """The wording of a call where others read along: of what is not public it says no more than what is done."""
    match tool_name:
        case "web_search" | "nanobot_docs" | "todo" | "ask":
            return tool_hint(tool_name, arguments)
        case "web_fetch":
            named = [text for value in arguments.values() for text in (value if isinstance(value, list) else [value])]
            if any(_is_private(str(url)) for url in named if "://" in str(url) or "." in str(url)):
                return _("fetch a page")
            return tool_hint(tool_name, arguments)
        case _:
            return _(_FORMATS[tool_name][2]) if tool_name in _FORMATS else _("use a tool")


def _is_private(text: str) -> bool:
    """Whether a text names an address that holds a secret, or a host of an own network."""
    for word in _URL.findall(text) or [f"http://{text.strip()}"]:
        if url_secrets(word):
            return True
        try:
            host = urlsplit(word).hostname
        except ValueError:
            return True
        if host is None or is_own(host):
            return True
    return False


def _parts(arguments: Mapping[str, object]) -> tuple[str, ...]:
    """Which part of a page is wanted, such as `section "History"`."""
    wanted = {words: one_line(str(arguments[key])) for key, words in _PARTS.items() if arguments.get(key)}
    return tuple(_(words, what=shorten(value, PART_WIDTH)) for words, value in wanted.items() if value not in ("", "0"))


def _said(key: str, value: object) -> str:
    """A text as it is; of a list, and of the pages that a prompt names, the first and how many follow."""
    if key == "prompt":
        value = [page.rstrip(".,;:!?)") for page in _URL.findall(str(value))] or value
    if not isinstance(value, list) or not value:
        return str(value)
    more = len(value) - 1
    return _("{first} + {number} more", first=value[0], number=more) if more else str(value[0])


def fold_hints(hints: Iterable[str]) -> tuple[str, ...]:
    """The hints with neighbouring repeats folded, such as `fetch example.com × 3`."""
    folded: list[str] = []
    for hint, run in groupby(hints):
        count = len([*run])
        folded.append(hint if count == 1 else f"{hint} × {count}")
    return tuple(folded)


def _bare(url: str) -> str:
    """The address without its scheme, and without a login that stands in it."""
    scheme, mark, rest = url.partition("://")
    return re.sub(r"^[^/?#]*@", "", rest) or url if mark and scheme.lower() in {"http", "https"} else url
