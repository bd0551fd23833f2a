"""The /status text."""

from msgspec import Struct, field

from nanobot.agent.context import ContextFile
from nanobot.messages import Usage
from nanobot.providers.base import ProviderInfo
from nanobot.session.store import SessionInfo
from nanobot.utils.text import duration

PRIVATE = "Privacy: on, pages and speech go to no service but the model"
SEARCH_PENDING = "Search: asking the service…"


class Status(Struct, frozen=True):
    """What /status shows. `context` is the size of the last request in tokens, `uptime` is in seconds.

    `usage` is that of the session, `today` that of all sessions since midnight; `facts` are further lines.
    """

    version: str
    info: ProviderInfo
    session: SessionInfo
    window: int
    context: int
    usage: Usage
    tools: tuple[str, ...]
    skipped: dict[str, str]
    files: tuple[ContextFile, ...]
    uptime: float
    running: str = ""
    search: str = ""
    today: Usage = field(default_factory=Usage)
    facts: tuple[str, ...] = ()


def status_text(status: Status) -> str:
    """Markdown, one line a fact."""
    lines = [
        *_chat_lines(status),
        f"- Today, all chats: {status.today.input:,} in, {status.today.output:,} out{_cost(status.today)}",
        f"- Tools: {', '.join(status.tools) or 'none'}",
        *(f"- Not offered: {name}: {reason}" for name, reason in sorted(status.skipped.items())),
        *(f"- {file.name}: {size(file.size)}{', cut' if file.cut else ''}" for file in status.files),
        f"- Turn: {status.running or 'nothing is running'}",
        *(f"- {fact}" for fact in status.facts),
    ]
    return "\n".join(lines) + (f"\n\n{status.search}" if status.search else "")


def chat_status_text(status: Status) -> str:
    """The part that is about one chat, for those who are not to know of the others."""
    return "\n".join((*_chat_lines(status), f"- Turn: {status.running or 'nothing is running'}"))


def _chat_lines(status: Status) -> tuple[str, ...]:
    info, session, usage = status.info, status.session, status.usage
    why = f"; {info.chosen_because}" if info.chosen_because else ""
    share = f" ({status.context / status.window:.0%})" if status.window else ""
    title = f" {session.title}" if session.title else ""
    return (
        f"**nanobot {status.version}**, up {duration(status.uptime)}",
        f"- Model: {info.model or 'none'} ({info.name}{why})",
        f"- Context: {status.context:,} of {status.window:,} tokens{share}",
        f"- Session: `{session.id}`{title}, {session.messages} messages",
        f"- Tokens: {usage.input:,} in{_cache_share(usage)}, {usage.output:,} out{_cost(usage)}",
    )


def size(count: int) -> str:
    """Bytes such as `812 B` or `1.5 kB`."""
    return f"{count} B" if count < 1_000 else f"{count / 1_000:.1f} kB"


def _cache_share(usage: Usage) -> str:
    return f" ({usage.cached / usage.input:.0%} from the cache)" if usage.cached and usage.input else ""


def _cost(usage: Usage) -> str:
    return f", {usage.cost:.4f} USD" if usage.cost else ""
