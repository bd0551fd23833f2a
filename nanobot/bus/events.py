"""Everything that happens, as one tagged union, and the bus on which channels and the agent loop meet.

Every surface is fed by `Event`; `channels/view.py` folds events into a picture, and the surfaces only paint it.
Handle the union with `match` and end with `case _: assert_never(event)`.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Collection
from datetime import datetime
from typing import Literal

from msgspec import Struct, field

from nanobot.messages import Cause, Citation, Media, StepRetried, TextDelta, ThinkingDelta, ToolCall, Usage, least
from nanobot.messages import Role as Role
from nanobot.results import Source, ToolResult
from nanobot.utils.text import lasting_key

Outcome = Literal["completed", "cancelled", "out_of_steps", "failed"]


class Address(Struct, frozen=True):
    """Where a conversation lives: a channel (`terminal`, `telegram`), a chat in it, a thread or topic in that."""

    channel: str
    chat: str
    thread: str = ""

    @property
    def key(self) -> str:
        """The default session key, such as `telegram:42` or `telegram:42:7`."""
        return ":".join(filter(None, (self.channel, self.chat, self.thread)))

    @property
    def lasting(self) -> str:
        """The key under which stands what outlasts a conversation, such as changes of files, jobs and their answers."""
        return lasting_key(self.key)

    @property
    def names(self) -> tuple[str, str]:
        """Its channel, and its key: what is said of all chats of a channel, and of this one."""
        return self.channel, self.key

    @classmethod
    def of(cls, key: str) -> "Address":
        """The address of a session key."""
        return cls(*key.split(":", 2))


#: Where whoever sits at this machine talks.
TERMINAL = Address("terminal", "local")


class Sender(Struct, frozen=True):
    """Who speaks. The channel judges the `role` and says it; one that says nothing sends guests.

    Everything that a turn may see and do hangs on it: the prompt, the history, the tools, the grants. The person at the
    terminal is the owner. `granted` is what the owner lets a user do besides. `language` is the tag of the one in which
    they are spoken to, such as zh-hans; empty where the channel does not tell it.
    """

    id: str
    name: str = ""
    role: Role = "guest"
    granted: tuple[str, ...] = ()
    language: str = ""

    def exceeds(self, role: Role | None, granted: Collection[str]) -> bool:
        """Whether they spoke with more than this role, None for none, and what is `granted` besides."""
        return role is None or least(self.role, role) != self.role or not {*self.granted} <= {*granted}


class Errand(Struct, frozen=True):
    """What a helper is to do; `name` makes it this one and no other.

    It has these `tools` alone. `known` are the addresses in its task that somebody has named, `foreign` labels the
    content from outside that stood where it was asked for; `role` and `granted` tell what those might do who spoke.
    """

    name: str
    task: str
    tools: tuple[str, ...] = ()
    known: tuple[str, ...] = ()
    foreign: tuple[str, ...] = ()
    privacy: bool = False
    role: Role = "guest"
    granted: tuple[str, ...] = ()


class InboundMessage(Struct, frozen=True):
    """What a person said. `id` is the channel's own id of the message, unique per channel.

    `context` is quoted or piped text that belongs to the message but was not typed by the sender. `direct` tells that
    nobody but the sender and the agent reads the conversation; a group is not. `revisable`: the surface can still
    change the text of the answer when it is complete, so that marks may be mended. `cause` tells why the model is
    asked: nobody is present in a turn that no person has just begun. `conversation` is the key of another conversation
    than that of its address, such as `schedule:3`; what happens in its turn is shown there and not at its address.
    `aside`: a question beside the conversation, of which that keeps nothing. `note` is what the person is told with
    the answer.
    A helper in the background has an `errand`. `command`: the content is a command for this machine that the person
    typed; it is judged and run, and no model is asked.
    """

    address: Address
    sender: Sender
    content: str
    media: tuple[Media, ...] = ()
    id: str = ""
    context: str = ""
    direct: bool = False
    revisable: bool = False
    cause: Cause = "chat"
    conversation: str = ""
    aside: bool = False
    note: str = ""
    errand: Errand | None = None
    command: bool = False

    @property
    def key(self) -> str:
        """The key of the conversation that it belongs to."""
        return self.conversation or self.address.key

    @property
    def shown_at(self) -> Address:
        """Where what happens in its turn is shown."""
        return Address.of(self.conversation) if self.conversation else self.address

    @property
    def person(self) -> str:
        """Who speaks, on every channel somebody else."""
        return f"{self.address.channel}:{self.sender.id}"


class TurnStarted(Struct, frozen=True, tag_field="type", tag="turn_started"):
    """A turn begins. `message` is the id of the message that it answers."""

    model: str
    at: datetime
    message: str = ""


class StepStarted(Struct, frozen=True, tag_field="type", tag="step_started"):
    """A model request begins. `number` counts from 1 within the turn; a new step's text follows the last one's.

    `read` are the ids of the messages that the turn has read since the last step.
    """

    number: int
    read: tuple[str, ...] = ()


class ToolStarted(Struct, frozen=True, tag_field="type", tag="tool_started"):
    """A tool begins. `hint` is the one-line wording that every surface shows, such as `fetch example.com/article`."""

    call: ToolCall
    hint: str


class ToolProgress(Struct, frozen=True, tag_field="type", tag="tool_progress"):
    call_id: str
    text: str


class ToolFinished(Struct, frozen=True, tag_field="type", tag="tool_finished"):
    """`seconds` is the wall time of the call, without what it waited for the owner."""

    call: ToolCall
    result: ToolResult
    seconds: float = 0.0


class ApprovalAsked(Struct, frozen=True, tag_field="type", tag="approval_asked"):
    """A call waits for the owner. `id` binds the answer to this very call; `choices` are the answers allowed.

    `detail` is a fact a line, `shown` the text that is asked about, which may be a `diff`. `proposed` is what the
    person may write anew where `edit` is a choice, with `file` the name of the file that it would be the content of.
    `act` says in a few words what would be done and `done` the same of what was done.
    """

    id: str
    call: ToolCall
    title: str
    detail: str
    choices: tuple[str, ...] = ("once", "always", "no")
    shown: str = ""
    proposed: str = ""
    act: str = ""
    done: str = ""
    file: str = ""
    diff: bool = False


class ApprovalClosed(Struct, frozen=True, tag_field="type", tag="approval_closed"):
    """A question is over. `choice` is the answer, empty where none came in time; `reason` is the person's for a no."""

    id: str
    choice: str = ""
    reason: str = ""


class QuestionAsked(Struct, frozen=True, tag_field="type", tag="question_asked"):
    """The model asks the person of the turn, and waits. `id` binds the answer to this very question.

    `choices` are two to six answers; `person` is the id of who may choose. What they write instead is read at the next
    step. A command that asks for one of many things has a `picker` shown: any number of choices, of which a surface
    shows some, from the one of `page` on, counted from 0, where it shows pages; the same question comes again with
    another page.
    """

    id: str
    question: str
    choices: tuple[str, ...]
    person: str = ""
    picker: bool = False
    page: int = 0


class QuestionClosed(Struct, frozen=True, tag_field="type", tag="question_closed"):
    """A question of the model is over. `how` tells by what: a `choice`, `words` of the person, or `nothing`."""

    id: str
    how: Literal["choice", "words", "nothing"] = "nothing"
    choice: str = ""


TodoState = Literal["open", "doing", "done"]


class TodoItem(Struct, frozen=True):
    """One line of the list that the agent works on."""

    text: str
    state: TodoState = "open"


class TodoChanged(Struct, frozen=True, tag_field="type", tag="todo_changed"):
    """The whole list of what the agent has done and has still to do in this session; empty where there is none."""

    items: tuple[TodoItem, ...] = ()


class MessageSent(Struct, frozen=True, tag_field="type", tag="message_sent"):
    """The agent sends something to the person of the turn before its answer; `files` are paths on this machine.

    Not published where the channel delivers it by itself.
    """

    text: str
    files: tuple[str, ...] = ()


class ContextCompacted(Struct, frozen=True, tag_field="type", tag="context_compacted"):
    """The history was shortened; sizes are estimated tokens.

    With a `summary` it has taken the place of all but the newest `turns`, and `/undo` takes it back.
    """

    before: int
    after: int
    turns: int = 0
    summary: str = ""


class Notice(Struct, frozen=True, tag_field="type", tag="notice"):
    """One line from the runtime to the person: a fallback, a steered message, a warning."""

    text: str
    level: Literal["info", "warning", "error"] = "info"


class CommandReply(Struct, frozen=True, tag_field="type", tag="command_reply"):
    """The answer to a slash command, as Markdown. `key` lets a later reply replace an earlier one (/status).

    `message` is the id of the message that held the command.
    """

    command: str
    text: str
    key: str = ""
    message: str = ""


class TurnFinished(Struct, frozen=True, tag_field="type", tag="turn_finished"):
    """The turn is over. `text` is the whole final answer and replaces what was streamed; `seconds` is wall time.

    `error` says in a sentence what went wrong when the outcome is `failed`; `temporary`: a later try may work.
    `answered` are the ids of the messages that it has read, the one that began it first. `notes` are sentences that a
    person has to see with the answer, such as an effect of which nobody knows whether it came about. `citations` tell
    of each mark of the answer what it was found to be, `receipts` what the turn has really changed, a line each, and
    `unbacked` what the answer claims though no call of the turn has done it.
    """

    outcome: Outcome
    text: str
    usage: Usage = field(default_factory=Usage)
    sources: tuple[Source, ...] = ()
    media: tuple[Media, ...] = ()
    model: str = ""
    seconds: float = 0.0
    steps: int = 0
    error: str = ""
    temporary: bool = False
    answered: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    citations: tuple[Citation, ...] = ()
    receipts: tuple[str, ...] = ()
    unbacked: tuple[str, ...] = ()


Event = (
    TurnStarted
    | StepStarted
    | StepRetried
    | TextDelta
    | ThinkingDelta
    | ToolStarted
    | ToolProgress
    | ToolFinished
    | ApprovalAsked
    | ApprovalClosed
    | QuestionAsked
    | QuestionClosed
    | TodoChanged
    | MessageSent
    | ContextCompacted
    | Notice
    | CommandReply
    | TurnFinished
)


def read_by(event: Event) -> tuple[str, ...]:
    """The ids of the messages that were read when this happened."""
    match event:
        case TurnStarted() | CommandReply():
            return (event.message,)
        case StepStarted():
            return event.read
        case TurnFinished():
            return event.answered
        case _:
            return ()


class ChatState(Struct, frozen=True):
    """What is true of a chat beside its turns: who answers, its session, and what that has taken so far.

    `used` are the tokens of the last request that was answered, of a `window` of so many; `cost` is in USD, of the
    session. `unpriced`: something of it has a price that nobody knows.
    """

    model: str = ""
    session: str = ""
    title: str = ""
    messages: int = 0
    used: int = 0
    window: int = 0
    cost: float = 0.0
    unpriced: bool = False


class OutboundMessage(Struct, frozen=True):
    """An event on its way to a channel. `turn` is the turn's id, or empty; `seq` counts within the turn."""

    address: Address
    event: Event
    turn: str = ""
    seq: int = 0


class MessageBus:
    """Inside one process: channels publish what people say and subscribe to what goes back; the loop does the opposite.

    Queues are unbounded: a slow surface never stalls a turn.
    """

    def __init__(self) -> None:
        self._inbound: asyncio.Queue[InboundMessage] = asyncio.Queue()
        self._outbound: dict[str, asyncio.Queue[OutboundMessage]] = {}
        self._watchers: list[Callable[[OutboundMessage], None]] = []

    async def publish_inbound(self, message: InboundMessage) -> None:
        """Hand a message to the loop."""
        await self._inbound.put(message)

    async def consume_inbound(self) -> InboundMessage:
        """Wait for the next message, in the order of publication."""
        return await self._inbound.get()

    def pending(self) -> tuple[InboundMessage, ...]:
        """Take what was handed to the loop and not taken by it yet, in the order of publication."""
        return tuple(self._inbound.get_nowait() for _ in range(self._inbound.qsize()))

    async def publish_outbound(self, message: OutboundMessage) -> None:
        """Hand an event to its address's channel. Events of a channel nobody subscribed to are dropped."""
        for watch in self._watchers:
            watch(message)
        queue = self._outbound.get(message.address.channel)
        if queue is not None:
            await queue.put(message)

    def watch(self, see: Callable[[OutboundMessage], None]) -> None:
        """Let somebody see every event of every channel at once, without taking it from who subscribed."""
        self._watchers.append(see)

    def unwatch(self, see: Callable[[OutboundMessage], None]) -> None:
        self._watchers.remove(see)

    def subscribe(self, channel: str) -> AsyncIterator[OutboundMessage]:
        """The events for one channel, from the moment of this call, in order. One subscriber a channel."""
        if channel in self._outbound:
            # English: for who wrote the program
            raise ValueError(f"channel {channel!r} has a subscriber already")
        queue: asyncio.Queue[OutboundMessage] = asyncio.Queue()
        self._outbound[channel] = queue
        return self._drain(channel, queue)

    async def _drain(self, channel: str, queue: asyncio.Queue[OutboundMessage]) -> AsyncIterator[OutboundMessage]:
        try:
            while True:
                yield await queue.get()
        finally:
            self._outbound.pop(channel, None)
