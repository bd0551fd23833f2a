"""One line for people about what a tool is doing."""

from collections.abc import Iterable, Mapping
from itertools import groupby

from nanobot.utils.text import shorten, squeeze, strip_unsafe

#: Tool → (arguments to look for, wording, whether the value is a URL).
_FORMATS: dict[str, tuple[tuple[str, ...], str, bool]] = {
    "web_search": (("query", "search_term"), 'search "{}"', False),
    "web_fetch": (("url", "urls", "prompt"), "fetch {}", True),
    "nanobot_docs": (("query",), 'docs "{}"', False),
}
VALUE_WIDTH = 60


def tool_hint(tool_name: str, arguments: Mapping[str, object], width: int = VALUE_WIDTH) -> str:
    """The wording of a call, such as `search "Claude 4 vs GPT-4"` or `fetch example.com/article`.

    Long values are cut in the middle to `width` characters. A tool without a wording of its own shows its name and its
    first text argument.
    """
    keys, wording, is_url = _FORMATS.get(tool_name, ((), f'{strip_unsafe(tool_name)} "{{}}"', False))
    value = next((_said(arguments[key]) for key in keys if arguments.get(key)), "")
    if not keys:
        value = next((text for text in arguments.values() if isinstance(text, str) and text.strip()), "")
    value = squeeze(strip_unsafe(value))
    if not value:
        return wording.partition(" ")[0]
    if is_url:
        value = _bare(value)
    return wording.replace("{}", shorten(value, width))


def _said(value: object) -> str:
    """A text as it is; of a list its first entry and how many follow."""
    if not isinstance(value, list) or not value:
        return str(value)
    return f"{value[0]} + {len(value) - 1} more" if len(value) > 1 else str(value[0])


def fold_hints(hints: Iterable[str]) -> tuple[str, ...]:
    """The hints with neighbouring repeats folded, such as `fetch example.com × 3`."""
    folded: list[str] = []
    for hint, run in groupby(hints):
        count = sum(1 for _ in run)
        folded.append(hint if count == 1 else f"{hint} × {count}")
    return tuple(folded)


def _bare(url: str) -> str:
    scheme, mark, rest = url.partition("://")
    return rest if mark and scheme.lower() in {"http", "https"} else url
