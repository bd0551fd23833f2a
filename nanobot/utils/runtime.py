"""The brake on repeated lookups: the same search or page at most twice in a turn, in other terms at most four times."""

import json
from collections.abc import Mapping, MutableMapping
from urllib.parse import urlsplit, urlunsplit

from nanobot.utils.text import fold

MAX_REPEAT_EXTERNAL_LOOKUPS = 2
#: How often a turn may ask for one query or one page, whatever filters, limits and parts go with it.
MAX_LOOKUPS_OF_ONE_TARGET = 4
# English: a model reads it
_REFUSAL = (
    "Error: repeated external lookup blocked. "
    "Use the results you already have to answer, or try a meaningfully different source."
)
_DEFAULT_PORTS = {"http": 80, "https": 443}
#: Arguments that make another lookup of the same query or page.
_SEARCH_KEYS = {
    "limit": ("limit", "count"),
    "freshness": ("freshness",),
    "include_domains": ("include_domains", "includeDomains"),
    "exclude_domains": ("exclude_domains", "excludeDomains"),
    "country": ("country",),
    "language": ("language",),
    "include_content": ("include_content", "includeContent"),
}
_QUERY_KEYS = ("query", "search_term", "q")
_URL_KEYS = ("url", "URL", "uri", "link", "href")
_FETCH_KEYS = {
    "find": ("find",),
    "offset": ("offset", "start_index"),
    "section": ("section",),
    "prompt": ("prompt",),
    "max_chars": ("max_chars", "maxChars", "max_length"),
}


def external_lookup_signature(tool_name: str, arguments: Mapping[str, object]) -> str | None:
    """What makes two lookups the same, or None for a call that is no lookup or names no target.

    Searches: the query, compatibility-normalised, case folded, blanks collapsed, with the filters and the limit that
    were given. Pages: the URL with scheme and host in lower case, without default port and fragment. Searches of MCP
    servers, which are the tools with "search" in their name: all that was given.
    """
    target = lookup_target(tool_name, arguments)
    if target is None:
        return None
    if tool_name == "web_search":
        return f"{target}{_others(arguments, _SEARCH_KEYS)}"
    if tool_name == "web_fetch" and not _page(arguments, keep_fragment=False):
        return target  # the pages are named in the prompt
    if tool_name == "web_fetch":
        place = _page(arguments, keep_fragment=True) if arguments.get("find") else ""
        return f"{f'web_fetch:{place}' if place else target}{_others(arguments, _FETCH_KEYS)}"
    same = {key: fold(value) if isinstance(value, str) else value for key, value in arguments.items()}
    return f"{tool_name}:{json.dumps(same, sort_keys=True, ensure_ascii=False, default=str)}"


def repeated_external_lookup_error(
    tool_name: str,
    arguments: Mapping[str, object],
    seen_counts: MutableMapping[str, int],
    limit: int = MAX_REPEAT_EXTERNAL_LOOKUPS,
) -> str | None:
    """Count this lookup in `seen_counts`; the text of the refusal when it ran often enough already, else None.

    The same lookup may run `limit` times, one query or one page in whatever other terms four times, or `limit` if that
    is more.
    """
    signature, target = external_lookup_signature(tool_name, arguments), lookup_target(tool_name, arguments)
    if signature is None:
        return None
    count = seen_counts.get(signature, 0) + 1
    seen_counts[signature] = count
    if count > limit:
        return _REFUSAL
    every = f"any {target}"
    seen_counts[every] = seen_counts.get(every, 0) + 1
    return None if seen_counts[every] <= max(limit, MAX_LOOKUPS_OF_ONE_TARGET) else _REFUSAL


def forget_external_lookup(
    tool_name: str, arguments: Mapping[str, object], seen_counts: MutableMapping[str, int]
) -> None:
    """Take one count back: the call turned out to be invalid and looked nothing up."""
    signature = external_lookup_signature(tool_name, arguments)
    for counted in (signature, f"any {lookup_target(tool_name, arguments)}"):
        if counted is not None and seen_counts.get(counted, 0) > 0:
            seen_counts[counted] -= 1


def lookup_target(tool_name: str, arguments: Mapping[str, object]) -> str | None:
    """The bare query or page of a lookup, None where the call is no lookup or names none."""
    query = fold(next((str(arguments[key]) for key in _QUERY_KEYS if arguments.get(key)), ""))
    if tool_name == "web_search":
        return f"web_search:{query}" if query else None
    if tool_name == "web_fetch":
        if page := _page(arguments, keep_fragment=False):
            return f"web_fetch:{page}"
        asked = fold(str(arguments.get("prompt") or ""))
        return f"web_fetch:prompt:{asked}" if asked else None
    if tool_name.startswith("mcp_") and "search" in tool_name:
        return f"{tool_name}:{query or json.dumps(dict(arguments), sort_keys=True, ensure_ascii=False, default=str)}"
    return None


def _page(arguments: Mapping[str, object], *, keep_fragment: bool) -> str:
    """The page of a call, or its pages in order; empty where it names none."""
    url = next((str(arguments[key]).strip() for key in _URL_KEYS if arguments.get(key)), "")
    if url:
        return _same_url(url, keep_fragment)
    several = arguments.get("urls")
    several = several.split() if isinstance(several, str) else several
    if not isinstance(several, list):
        return ""
    return " ".join(sorted({_same_url(str(one).strip(), keep_fragment=False) for one in several}))


def _others(arguments: Mapping[str, object], keys: Mapping[str, tuple[str, ...]]) -> str:
    given: dict[str, object] = {}
    for name, spellings in keys.items():
        value = next((arguments[key] for key in spellings if arguments.get(key) not in (None, "", [], False)), None)
        if value is not None:
            given[name] = value
    return " " + json.dumps(given, sort_keys=True, ensure_ascii=False, default=str) if given else ""


def _same_url(url: str, keep_fragment: bool) -> str:
    if url.startswith("#"):
        return url  # the number of a result that is not known
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return url
    host = (parts.hostname or "").lower()
    host = f"[{host}]" if ":" in host else host
    scheme = parts.scheme.lower()
    place = host if port in (None, _DEFAULT_PORTS.get(scheme)) else f"{host}:{port}"
    credentials, at, _ = parts.netloc.rpartition("@")
    fragment = parts.fragment if keep_fragment else ""
    return urlunsplit((scheme, f"{credentials}{at}{place}", parts.path or "/", parts.query, fragment))
