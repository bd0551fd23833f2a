"""What a model is told besides the conversation: a stable prefix and a volatile tail."""

from collections.abc import Callable
from datetime import UTC, datetime, tzinfo
from pathlib import Path

from msgspec import Struct

from nanobot.agent.trim import BYTES_PER_TOKEN
from nanobot.bus.events import Address, InboundMessage, Sender
from nanobot.messages import Text, UserMessage, UserPart
from nanobot.security.trust import wrap
from nanobot.utils.prompt_templates import PromptTemplates
from nanobot.utils.text import strip_unsafe

#: The files of a workspace that belong to the system prompt, in their order, and the heading each gets.
CONTEXT_FILES: tuple[tuple[str, str], ...] = (
    ("SOUL.md", "Who you are"),
    ("AGENTS.md", "Instructions of the owner"),
    ("USER.md", "About the user"),
    ("memory/MEMORY.md", "What you remember"),
)
#: Those that belong to the owner, and are shown to the model where nobody but the owner reads the answer.
PERSONAL_FILES = frozenset({"USER.md", "memory/MEMORY.md"})

#: Most characters that one file may bring.
_FILE_LIMIT = 20_000


class ContextFile(Struct, frozen=True):
    """One file of the workspace as it went into the prompt; `size` is the file's length in bytes."""

    name: str
    text: str
    size: int
    cut: bool


def _utc_now() -> datetime:
    return datetime.now(UTC)


class ContextBuilder:
    """Builds the system prompt from the workspace, at every turn anew, and the tail from the clock and the channel.

    The prefix depends on files alone, so it stays the same
    byte for byte until somebody edits one. `zone` is that of the person.
    """

    def __init__(
        self,
        workspace: Path | None = None,
        *,
        zone: tzinfo = UTC,
        clock: Callable[[], datetime] = _utc_now,
    ) -> None:
        self.workspace = workspace
        self._clock = clock
        self._templates = PromptTemplates(workspace)
        self._read_before: dict[str, tuple[tuple[int, ...], ContextFile | None]] = {}  # and how the file was then
        self.zone = zone

    def files(self, window: int = 0) -> tuple[ContextFile, ...]:
        """The context files that exist and say something, read now; together at most about half of `window` tokens."""
        limit = min(_FILE_LIMIT, window * BYTES_PER_TOKEN // 2 // len(CONTEXT_FILES) or _FILE_LIMIT)
        found = (self._read(name, limit) for name, _ in CONTEXT_FILES)
        return tuple(file for file in found if file is not None)

    def system(self, window: int = 0, *, personal: bool = False) -> str:
        """The stable prefix: identity, then the files of the workspace under their headings.

        `window` is the model's context in tokens, 0 where it does not matter. `personal` adds what belongs to the
        owner: for the owner's own turns, and where nobody else reads along.
        """
        headings = dict(CONTEXT_FILES)
        workspace = str(self.workspace or "") if personal else ""
        parts = [self._templates.render("agent/identity.md", workspace=workspace)]
        for file in self.files(window):
            if file.name in PERSONAL_FILES and not personal:
                continue
            note = f"\n\n[Cut: {file.name} is longer than what is shown.]" if file.cut else ""
            parts.append(f"## {headings[file.name]} ({file.name})\n\n{file.text}{note}")
        return "\n\n".join(parts)

    def tail(self, address: Address, sender: Sender | None = None) -> str:
        """What changes between requests: the time in the user's zone, the channel, the person."""
        now = self._clock().astimezone(self.zone)
        name = getattr(self.zone, "key", None) or now.tzname()
        lines = [f"Now: {now:%A}, {now:%Y-%m-%d %H:%M} ({name})", f"Channel: {address.channel}"]
        if sender is not None and sender.name:
            name = strip_unsafe(sender.name)[:80]
            lines.append(f"Speaking, {sender.role}: {repr(name) if sender.role == 'owner' else wrap(name, 'name')}")
        return "\n".join(lines)

    def midnight(self) -> datetime:
        """When the day began in the user's zone."""
        return self._clock().astimezone(self.zone).replace(hour=0, minute=0, second=0, microsecond=0)

    def user_message(self, message: InboundMessage, *, steer: bool = False) -> UserMessage:
        """What a person sent, as the model sees it. Quoted and piped text is marked as content from outside, and so is
        the name before what is said in a group."""
        parts: list[UserPart] = []
        if message.sender.name and not message.direct:  # many speak there, each under a name of their own choice
            parts.append(Text(f"{wrap(strip_unsafe(message.sender.name)[:80], 'name')}\n\n"))
        if message.context.strip():
            parts.append(Text(f"{wrap(message.context, 'context')}\n\n"))
        if message.content.strip():
            parts.append(Text(message.content))
        parts.extend(message.media)
        content = tuple(parts) or (Text("(empty message)"),)
        speaker = message.sender.role
        return UserMessage(content, "steer" if steer else "user", message.id if steer else "", speaker)

    def _read(self, name: str, limit: int) -> ContextFile | None:
        if self.workspace is None:
            return None
        path = self.workspace / name
        try:
            stat = path.stat()
            state = (stat.st_mtime_ns, stat.st_ctime_ns, stat.st_ino, stat.st_size, limit)
            before, file = self._read_before.get(name, ((), None))
            if before == state:
                return file
            with path.open(encoding="utf-8", errors="replace") as stream:
                text = stream.read(limit + 1)
        except OSError:
            return None
        cut = len(text) > limit
        text = text[:limit].strip()
        file = ContextFile(name, text, max(stat.st_size, len(text)), cut) if text else None
        self._read_before[name] = (state, file)
        return file
