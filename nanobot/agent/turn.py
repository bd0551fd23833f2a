"""The state of one running turn, and how it is closed when it ends early."""

import uuid
from collections.abc import Awaitable, Callable
from typing import Literal

from msgspec import Struct, field
from msgspec.structs import replace

from nanobot.agent.addresses import KnownAddresses
from nanobot.agent.history import INTERRUPTED
from nanobot.agent.limits import Budget, ModelSettings, TurnLimits
from nanobot.bus.events import Address, Event, Outcome, Sender
from nanobot.messages import (
    AssistantMessage,
    Citation,
    Message,
    Role,
    Text,
    ToolCall,
    ToolMessage,
    Usage,
    UserMessage,
    least,
)
from nanobot.providers.base import LLMProvider
from nanobot.results import SourceBook
from nanobot.utils.tool_hints import fold_hints

Emit = Callable[[Event], Awaitable[None]]
Save = Callable[[tuple[Message, ...]], Awaitable[None]]
Intend = Callable[[ToolCall], Awaitable[None]]
Steering = Callable[[], Awaitable[tuple[UserMessage, ...]]]
EndedBy = Literal["stop", "failure", "restart"]

_MARKS: dict[EndedBy, str] = {
    "stop": "[Stopped by the user]",
    "failure": "[The answer broke off: the model could not be reached or failed]",
    "restart": "[Interrupted: nanobot was shut down]",
}


async def _save_nothing(_messages: tuple[Message, ...]) -> None:
    return None


async def _nobody() -> tuple[UserMessage, ...]:
    return ()


async def _intend_nothing(_call: ToolCall) -> None:
    return None


class Past(Struct, frozen=True):
    """What a process that died left of a turn: its messages in order, and the ids of the calls that were begun.

    Only calls of the last answer count; those before it have their results. `first` is the `seq` of its first record.
    """

    messages: tuple[Message, ...] = ()
    intents: frozenset[str] = frozenset()
    first: int = 0


class TurnTask(Struct, frozen=True):
    """What a runner is asked to do.

    `history` is what came before this turn, `opening` starts it. `emit` shows an event, `save` makes messages durable
    in order, `steering` hands over what the person typed since the last call. `window` is the context size in tokens
    as far as known, else 0. `privacy` is what the chat has set.

    `intend` makes durable that a call is about to have an effect. A `patient` turn asks a model that is away again, as
    long as it has time. A turn with a `past` goes on where that ends. With `hold_end`, the messages
    after the last call are left in `Turn.unsaved` for who keeps them together with the answer.
    `addresses` are those that were named in the session before. `revisable`: the surface can still change the text of
    an answer once it is complete.
    """

    provider: LLMProvider
    opening: tuple[Message, ...]
    emit: Emit
    history: tuple[Message, ...] = ()
    system: str = ""
    tail: str = ""
    session: str = ""
    address: Address = field(default_factory=lambda: Address("local", "direct"))
    sender: Sender = field(default_factory=lambda: Sender("local"))
    settings: ModelSettings = field(default_factory=ModelSettings)
    save: Save = _save_nothing
    steering: Steering = _nobody
    window: int = 0
    privacy: bool = False
    intend: Intend = _intend_nothing
    patient: bool = False
    past: Past = field(default_factory=Past)
    hold_end: bool = False
    addresses: KnownAddresses = field(default_factory=KnownAddresses)
    revisable: bool = False


class TurnResult(Struct, frozen=True):
    """How a turn ended. `window` is the context size to plan with from now on, 0 where nothing new was learned.

    `text` is the answer as a person sees it, with `[1?]` for a mark that its source does not carry; `citations` tell
    what each mark was found to be.
    """

    outcome: Outcome
    text: str
    error: str = ""
    temporary: bool = False
    model: str = ""
    window: int = 0
    citations: tuple[Citation, ...] = ()


class Turn:
    """One turn while it runs. Shared by the runner, which fills it, and the loop, which may have to close it.

    `messages` is everything this turn added to the conversation; `found` the numbers of the sources of each lookup;
    `partial` the text streamed since the last complete message; `answered` the ids of the open calls that have their
    results; `doing` the hint of every call that began; `running` the hints of the calls that run now, `asking` the
    model that is asked now; `overdue` what it waited for when its time was over, `silent` whether that was the disk or
    a model that had said nothing; `concluding`: it sums up; `notes` what a person has to be told with the answer;
    `session` where the turn is kept, once that is known; `held` whether that session is this turn's alone, `behind` who
    has it meanwhile; `told` who has been told that the turn is running, by id. `authority` is the least of the roles of
    those who speak in it: whatever the turn may see or do is judged by it. After `closed` nothing is emitted or saved
    any more, so a straggler that ignored its cancellation cannot write into a later turn.
    """

    def __init__(self, limits: TurnLimits, turn_id: str = "") -> None:
        self.id = turn_id or uuid.uuid4().hex[:12]
        self.authority: Role = "owner"
        self.budget = Budget(limits)
        self.sources = SourceBook()
        self.lookups: dict[str, int] = {}
        self.found: dict[str, set[int]] = {}
        self.messages: list[Message] = []
        self.partial: list[str] = []
        self._cut = ""
        self.open: AssistantMessage | None = None
        self.answered: set[str] = set()
        self.doing: list[str] = []
        self.running: dict[str, str] = {}
        self.asking = ""
        self.overdue = ""
        self.silent = False
        self.concluding = False
        self.notes: list[str] = []
        self.closed = False
        self.save: Save | None = None
        self.session = ""
        self.held = False
        self.behind = ""
        self.told: set[str] = set()
        self._saved = 0
        self._refused: list[Message] = []
        self._aside = Usage()

    def hear(self, *roles: Role) -> None:
        """Somebody speaks in this turn."""
        self.authority = least(self.authority, *roles)

    def take_up(self, messages: tuple[Message, ...]) -> None:
        """Begin with what was kept of this turn: its budget is used as far, its sources are numbered again."""
        self.messages = list(messages)
        self._saved = len(messages)
        for message in messages:
            if isinstance(message, AssistantMessage):
                self.budget.steps += bool(message.content)
                self.budget.usage += message.usage
            elif isinstance(message, ToolMessage):
                for source in message.sources:
                    self.sources.restore(source, message.text)
        calls: list[str] = []
        for message in reversed(messages):
            if isinstance(message, AssistantMessage):
                if message.calls and len(set(calls)) < len(message.calls):
                    self.open, self.answered = message, set(calls)
                break
            if isinstance(message, ToolMessage):
                calls.append(message.call_id)

    @property
    def shown(self) -> str:
        """What a person has seen of the step that runs: its text so far, else that of the try that broke off last."""
        return "".join(self.partial).strip() or self._cut

    def void(self) -> None:
        """The step is asked for again."""
        self._cut = self.shown
        self.partial.clear()

    def answer(self) -> None:
        """The step has its answer, which takes the place of what was shown of it."""
        self._cut = ""
        self.partial.clear()

    @property
    def waits(self) -> str:
        """What the turn waits for now, as a part of a sentence."""
        if self.behind:
            return f"waiting for {self.behind}, which answers in the same conversation"
        if self.running:
            return f"waiting for {', '.join(fold_hints(tuple(self.running.values())))}"
        return f"waiting for the model {self.asking}" if self.asking else "waiting for the disk"

    def unsaved(self) -> tuple[Message, ...]:
        """The messages not handed out yet; each is handed out once, and again where it was refused."""
        fresh = (*self._refused, *self.messages[self._saved :])
        self._refused.clear()
        self._saved = len(self.messages)
        return fresh

    def refuse(self, messages: tuple[Message, ...]) -> None:
        """Take back what could not be kept."""
        self._refused.extend(messages)

    def count_aside(self, usage: Usage) -> None:
        """Count a request that a tool made of the model."""
        self.budget.usage += usage
        self._aside += usage

    def asides(self) -> tuple[AssistantMessage, ...]:
        """The cost of such requests since the last call, as a message without words: no model reads it, accounts do."""
        usage, self._aside = self._aside, Usage()
        return (AssistantMessage((), "other", usage=usage),) if usage != Usage() else ()

    def settle(self, mark: str) -> None:
        """Answer the open calls; keep the partial text, with `mark` after it, where there is some."""
        if self.open is not None:
            for call in self.open.calls:
                if call.id not in self.answered:
                    self.messages.append(ToolMessage(call.id, call.name, (Text(INTERRUPTED),), "cancelled"))
        self.messages.extend(self.asides())
        text = self.shown
        self.open, self.answered = None, set()
        self.answer()
        if text:
            self.messages.append(AssistantMessage((Text(f"{text}\n\n{mark}"),), "other"))

    def cite(self, citations: tuple[Citation, ...], text: str = "") -> None:
        """Keep with the last answer what its marks were found to be, and the words that took its place, if any."""
        last = self.messages[-1] if self.messages else None
        if citations and isinstance(last, AssistantMessage) and len(self.messages) > self._saved:
            content = (Text(text),) if text else last.content
            self.messages[-1:] = [*self.asides(), replace(last, content=content, citations=citations)]

    def close(self, by: EndedBy) -> None:
        """Make the conversation legal where it broke off; it ends with words of the assistant."""
        self.settle(_MARKS[by])
        last = self.messages[-1] if self.messages else None
        if not isinstance(last, AssistantMessage) or not last.content:
            self.messages.append(AssistantMessage((Text(_MARKS[by]),), "other"))
