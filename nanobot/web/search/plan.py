"""Which back ends a search may use, and in which order."""

from nanobot.errors import SkipTool
from nanobot.utils.text import nearest
from nanobot.web.search.catalog import CATALOG, DUCKDUCKGO, Catalog


def effective(catalog: Catalog) -> str:
    """The back end to ask first. Raises `SkipTool` for an unknown name, or where no usable back end remains.

    A named one where it has what it needs; else the first usable one of `fallback`, or DuckDuckGo where that is not
    given. `auto`, empty or missing: the first configured one, else DuckDuckGo.
    """
    name = catalog.settings.provider or "auto"
    if name == "auto":
        return next((known for known in CATALOG if catalog.configured(known)), DUCKDUCKGO)
    _check(name)
    lacking = catalog.missing(name)
    if not lacking:
        return name
    rest = _fallback(catalog)
    if catalog.settings.fallback is None:
        return DUCKDUCKGO
    if not rest:
        raise SkipTool(f"web_search is off: {name} lacks {lacking}, and no other back end is allowed to step in")
    return rest[0]


def order(catalog: Catalog, first: str) -> tuple[str, ...]:
    """Every back end to ask, `first` first, each once."""
    return tuple(dict.fromkeys((first, *_fallback(catalog))))


def _fallback(catalog: Catalog) -> tuple[str, ...]:
    given = catalog.settings.fallback
    if given is None:
        configured = [name for name in CATALOG if name != DUCKDUCKGO and catalog.configured(name)]
        keyless = [name for name, entry in CATALOG.items() if entry.keyless]
        return (*configured, DUCKDUCKGO, *(name for name in keyless if name not in configured))
    usable = []
    for name in given:
        if name.startswith("mcp:"):
            if catalog.mcp is not None:
                usable.append(name)
            continue
        _check(name)
        if catalog.configured(name) or CATALOG[name].keyless:
            usable.append(name)
    return tuple(usable)


def _check(name: str) -> None:
    if name in CATALOG:
        return
    near = nearest(name, CATALOG)
    hint = f"did you mean {near!r}? " if near else ""
    raise SkipTool(f"web_search is off: {name!r} is no search back end; {hint}Known are auto, {', '.join(CATALOG)}")
