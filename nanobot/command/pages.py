"""The shipped pages by topic: `nanobot help TOPIC` shows one, `/help TOPIC` says what it is about.

Imports nothing heavy.
"""

import re
from collections.abc import Mapping
from pathlib import Path

from nanobot.utils.host import shipped
from nanobot.utils.text import nearest
from nanobot.utils.translation import _, language, listed, sentences

#: Topics that people ask for by another name than that of the page.
_OTHER_NAMES: Mapping[str, str] = {
    **dict.fromkeys(("onboard", "setup", "install", "login"), "quickstart"),
    **dict.fromkeys(("model", "key", "keys", "provider", "presets"), "models"),
    **dict.fromkeys(("config", "settings"), "configuration"),
    **dict.fromkeys(("search", "fetch"), "web"),
    **dict.fromkeys(("cost", "price", "prices", "budget", "usage", "tokens"), "money"),
    **dict.fromkeys(("bot", "gateway", "people", "groups", "voice"), "telegram"),
    **dict.fromkeys(("cron", "remind", "reminder", "reminders", "heartbeat"), "schedule"),
    **dict.fromkeys(("document", "documents", "recall"), "library"),
    **dict.fromkeys(("prompt", "shortcuts"), "terminal"),
    **dict.fromkeys(("tool", "files", "mcp", "exec"), "tools"),
    **dict.fromkeys(("privacy", "sandbox", "policy", "secrets"), "security"),
    **dict.fromkeys(("plugin", "plugins", "hooks"), "writing-a-plugin"),
    **dict.fromkeys(("postgres", "postgresql", "cluster"), "scale"),
    **dict.fromkeys(("docker", "systemd", "service", "backup", "update", "uninstall"), "running"),
    "briefing": "watch",
    "doctor": "troubleshooting",
    "import": "migrating",
}


def topics() -> dict[str, Path]:
    """Every topic with its page: the names of the pages, and other names of theirs."""
    try:
        folder = shipped("docs")
        pages = {page.stem: page for page in sorted(folder.glob("*.md")) if page.stem != "index"}
        pages |= {page.stem: page for page in sorted((folder / language()).glob("*.md")) if page.stem in pages}
    except OSError:
        return {}
    return pages | {name: pages[page] for name, page in _OTHER_NAMES.items() if page in pages and name not in pages}


def page_of(words: str) -> Path | None:
    """The page on this topic, however it is written; None where there is none."""
    known = topics()
    name = "-".join(words.casefold().split()).strip("/")
    return known.get(name) or known.get(name.removesuffix(".md").removeprefix("docs/"))


def unwrapped(text: str) -> str:
    """Markdown whose paragraphs are one line each: the surface breaks lines at a width of its own."""
    parts = re.split(r"(?ms)(^ *```.*?^ *```$)", text)
    parts[::2] = [re.sub(r"(?<=[^\n])\n *(?![\n|#> ]|[-*] |\d+\. |\Z)", " ", part) for part in parts[::2]]
    return "".join(parts)


def no_topic(words: str) -> str:
    """What is said where there is no such topic: the nearest one, or all pages."""
    known = topics()
    near = nearest(words, known)
    names = listed(sorted({page.stem for page in known.values()}))
    return sentences(
        _("There is no page about {words!r}.", words=words),
        _("Did you mean {near!r}?", near=near) if near else _("There are: {names}.", names=names),
    )


def short_form(page: Path) -> str:
    """What a page is about, as Markdown: its title, how it begins, what it has."""
    text = page.read_text(encoding="utf-8")
    title, rest = [*text.removeprefix("# ").split("\n", 1), ""][:2]
    begins = next((part for part in rest.split("\n\n") if part.strip() and part.strip()[0] not in "#|`!<{"), "")
    begins = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", " ".join(begins.split()))
    heads = re.findall(r"(?m)^## (.+)$", re.sub(r"(?ms)^```.*?^```", "", rest))
    listed = _("\n\nIt has: {heads}.", heads=" · ".join(heads)) if heads else ""
    return _(
        "**{title}**\n\n{begins}{listed}\n\nThe whole page: `nanobot help {stem}` in a shell. Or ask me "
        "about it in a sentence.",
        title=title.strip(),
        begins=begins,
        listed=listed,
        stem=page.stem,
    )
