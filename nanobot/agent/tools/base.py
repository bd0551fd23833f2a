"""What a call knows of its surroundings, and what a tool is to those who offer and run it."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Literal, Protocol

from msgspec import Struct, field

from nanobot.bus.events import Address, Sender
from nanobot.providers.base import ToolSpec
from nanobot.results import SourceBook, ToolResult
from nanobot.security.policy import Access, texts_of
from nanobot.utils.text import shorten, squeeze, strip_unsafe
from nanobot.web.urls import extract_urls

Progress = Callable[[str], Awaitable[None]]
Approval = Literal["once", "host", "session", "no", "never"]
#: (title, detail, the answers that are offered) → what the owner answers.
Approver = Callable[[str, str, tuple[Approval, ...]], Awaitable[Approval]]
#: What may be answered about a host.
ABOUT_HOST: tuple[Approval, ...] = ("once", "host", "session", "no", "never")
#: (system, prompt) → the model's answer. Raises `ProviderError`.
Ask = Callable[[str, str], Awaitable[str]]
#: (system, task, numbered addresses) → the answer of a service that reads them itself, and those that it has read.
#: Raises `ProviderError`.
ReadPages = Callable[[str, str, tuple[tuple[int, str], ...]], Awaitable[tuple[str, tuple[str, ...]]]]


def in_question(text: str, width: int = 500) -> str:
    """What a model wrote, as a question shows it: on one line, for a further line would speak as the question does.

    Where it is longer than `width` characters, its middle is cut, and that is said.
    """
    line = squeeze(strip_unsafe(text))
    return line if len(line) <= width else f"{shorten(line, width)} (cut; {len(line)} characters in all)"


async def _no_progress(_text: str) -> None:
    return None


class ToolContext(Struct):
    """What a call may know of its surroundings. Every field has a default, so a tool runs without an agent.

    `sources` numbers what was found and read in this turn; `progress` shows a line while the tool works.
    `privacy`: the chat wants nothing sent to services that read or search for us unless they were chosen for it.
    `approve` asks the owner, and is None where nobody who may decide is there. `made_up` are the hosts of the call that
    no person, hit or page has named.
    `result_chars` is where the text of a result is cut, None where it is not.
    `ask` is one request to the turn's model, without tools and history, and None where no language model answers;
    `ask_room` is how many bytes of text its prompt may hold. `read_pages` is one request to the turn's model to read
    public pages itself, None where its service cannot.
    Cancellation is the task's own: a tool is cancelled with `asyncio.CancelledError` and cleans up after itself.
    """

    call_id: str = ""
    turn_id: str = ""
    session: str = ""
    address: Address = field(default_factory=lambda: Address("local", "direct"))
    sender: Sender = field(default_factory=lambda: Sender("local"))
    sources: SourceBook = field(default_factory=SourceBook)
    progress: Progress = _no_progress
    privacy: bool = False
    approve: Approver | None = None
    result_chars: int | None = None
    ask: Ask | None = None
    ask_room: int = 50_000
    read_pages: ReadPages | None = None
    made_up: frozenset[str] = frozenset()

    @property
    def person(self) -> str:
        """Who speaks, on every channel somebody else."""
        return f"{self.address.channel}:{self.sender.id}"

    @property
    def holder(self) -> str:
        """Whose grants and kept pages count: one person's in one session."""
        return f"{self.session} {self.person}"


class ToolLike(Protocol):
    """A tool as the registry and the runner see it. What it says here holds for every tool that does not say other."""

    @property
    def name(self) -> str: ...

    @property
    def spec(self) -> ToolSpec: ...

    @property
    def access(self) -> Access:
        """What a call does: read what anybody may read, read what is the owner's, or perhaps change something."""
        return "changes"

    @property
    def exclusive(self) -> bool:
        """True when no other exclusive call may run beside it; nor any call of its batch, unless it names a `lock`."""
        return False

    @property
    def lock(self) -> str:
        """What an exclusive tool shares with its like alone, such as `ddgs`; empty: it runs with nothing beside it."""
        return ""

    @property
    def aliases(self) -> tuple[str, ...]:
        return ()

    @property
    def idempotent(self) -> bool:
        """True where a call may run again: it only looks something up, or a second run changes nothing more."""
        return False

    def addresses(self, arguments: Mapping[str, object], context: ToolContext) -> tuple[str, ...]:  # noqa: ARG002
        """The http(s) addresses that a call with these arguments sends something to. Never raises."""
        return tuple(dict.fromkeys(url for text in texts_of(arguments) for url in extract_urls(text).urls))

    def asks(self, url: str) -> bool:  # noqa: ARG002
        """True where a call itself asks the owner before it reaches this address, so that nobody asks twice."""
        return False

    def needs_no_network(self, arguments: Mapping[str, object], context: ToolContext) -> bool:  # noqa: ARG002
        """True where this call asks nobody outside, so that it is no external lookup. Never raises."""
        return False

    async def call(self, arguments: dict[str, object], context: ToolContext | None = None) -> ToolResult:
        """Run once. Never raises (besides cancellation): every failure is a result with an error kind."""
