"""A page by the number that it has in this turn: `#2` and `[2]` stand for the URL of source 2."""

import re
from collections.abc import Mapping

from nanobot.errors import FetchError
from nanobot.results import SourceBook
from nanobot.web.urls import with_scheme

_NUMBER = re.compile(r"#([0-9]{1,6})|\[([0-9]{1,6})\]")


def named(url: str, sources: SourceBook) -> str:
    """The URL itself (`www.` is read over https) or that of a number. Raises `FetchError` where none has it."""
    match = _NUMBER.fullmatch(url)
    if match is None:
        return with_scheme(url)
    try:
        return sources[int(match[1] or match[2])].url
    except KeyError:
        known = len(sources.all)
        have = f"results #1 to #{known} are known" if known else "nothing was found in this turn yet"
        raise FetchError("invalid_input", f"There is no result {url}: {have}. Search first or give a URL.") from None


def with_addresses(tool_name: str, arguments: Mapping[str, object], sources: SourceBook) -> dict[str, object]:
    """The arguments of a call with the numbers of pages replaced by their URLs, for people and for counting lookups.

    What stands for nothing stays as it is, and so do the arguments of every tool but `web_fetch`.
    """
    if tool_name != "web_fetch":
        return dict(arguments)

    def known(value: object) -> object:
        if isinstance(value, list):
            return [known(one) for one in value]
        try:
            return named(value.strip(), sources) if isinstance(value, str) else value
        except FetchError:
            return value

    return {key: value if key in ("find", "section", "prompt") else known(value) for key, value in arguments.items()}
