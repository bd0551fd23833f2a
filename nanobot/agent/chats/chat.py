"""What the agent keeps of each chat, and of each message that waits there for its turn."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable

from msgspec import Struct, field
from msgspec.structs import replace

from nanobot.agent.addresses import KnownAddresses
from nanobot.agent.turn import Turn
from nanobot.bus.events import InboundMessage, TurnFinished
from nanobot.providers.base import LLMProvider
from nanobot.session.rows import Closing
from nanobot.session.store import Record, SessionStore

#: Keeps the end of a turn: its last messages together with the answer and the messages that it answers. None instead of
#: an end: the message was read by a turn that has its answer. Does not return before all of it is safe.
Settle = Callable[[InboundMessage, TurnFinished | None, Closing | None], Awaitable[None]]
#: The session of a turn and its records; both are empty where nothing was kept of it.
Left = tuple[str, tuple[Record, ...]]
#: Told when work on a message begins; what an earlier process left of it.
Begin = Callable[[InboundMessage], Awaitable[Left]]


class Entry(Struct, frozen=True):
    """A message that waits for its turn; `done` is resolved with the end of the turn that read it.

    One with `settle` is durable: its turn goes on in the next process where this one ends before it. `begin` is told
    when work on it begins. No other turn runs beside one that is `alone`, and it reads no other message; there is one
    such at a time. One that was said `behind` an ordered command, before that had replied or asked, is for what comes
    of that: no turn from before reads it, and the command does not stop it.
    """

    message: InboundMessage
    done: "asyncio.Future[TurnFinished] | None" = None
    settle: Settle | None = None
    begin: Begin | None = None
    alone: bool = False
    behind: bool = False

    async def begun(self, store: SessionStore) -> Left:
        """Work on it begins: what an earlier process left of its turn, where that is durable. Raises `StoreError`."""
        if self.begin is not None:
            return await self.begin(self.message)
        return await store.begun(self.message.id) if self.settle is not None else ("", ())

    def finish(self, finished: TurnFinished) -> None:
        if self.done is not None and not self.done.done():
            self.done.set_result(finished)


class Chat(Struct):
    """The state of one session key. `window` is the context size learned from the service, 0 while unknown.

    `inbox` holds what waits, `taken` the messages that the turn has read, `steered` the ids of those that it had read
    in mid-turn in an earlier process. `work` serves the chat while it is `busy`; `idle` is set while no turn runs;
    setting `stop` ends the running one. `recalled` tells that the model that was chosen for the chat in an earlier
    process was looked for, and `chosen` is its name; it is made anew when it is `outdated`. `addresses` are
    those that were named in its session. `unsummed`: its last summary was taken back. `instructions` are the AGENTS.md
    of its prompts so far with what tells whether they have changed. `session` is the one that it has for itself now,
    empty where none; `left` is set when it has left that. `ahead` are ordered commands that run, each set when it has
    replied or asked.
    """

    key: str
    provider: LLMProvider
    inbox: deque[Entry] = field(default_factory=deque)
    taken: list[Entry] = field(default_factory=list)
    turn: Turn | None = None
    busy: bool = False
    work: "asyncio.Task[None] | None" = None
    steered: set[str] = field(default_factory=set)
    recalled: bool = False
    chosen: str = ""
    outdated: bool = False
    window: int = 0
    addresses: KnownAddresses = field(default_factory=KnownAddresses)
    stop: asyncio.Event = field(default_factory=asyncio.Event)
    idle: asyncio.Event = field(default_factory=asyncio.Event)
    unsummed: bool = False
    instructions: dict[str, int] = field(default_factory=dict)
    session: str = ""
    ahead: list[asyncio.Event] = field(default_factory=list)
    left: asyncio.Event = field(default_factory=asyncio.Event)

    def put(self, entry: Entry) -> bool:
        """Have a message wait; whether it is for what comes of a command. What a command hands on goes before those."""
        handed = entry.message.cause == "compaction"
        behind = not handed and any(not one.is_set() for one in self.ahead)
        place = next((place for place, one in enumerate(self.inbox) if handed and one.behind), len(self.inbox))
        self.inbox.insert(place, replace(entry, behind=behind))
        return behind

    async def waits(self) -> bool:
        """Whether a message waits, as soon as the commands that came before it have replied or asked."""
        for one in tuple(self.ahead if self.inbox else ()):
            await one.wait()
        return bool(self.inbox)
