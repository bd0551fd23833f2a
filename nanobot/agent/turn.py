"""One turn: what it may use up, what it has said and done so far, and what of that is kept."""

import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
from datetime import datetime
from typing import TYPE_CHECKING, Literal

from loguru import logger
from msgspec import Struct, field
from msgspec.structs import replace

from nanobot.agent.addresses import KnownAddresses
from nanobot.agent.history import INTERRUPTED, NOT_RUN, Past, foreign_in
from nanobot.agent.receipts import shared_receipt
from nanobot.bus.events import (
    Address,
    Event,
    InboundMessage,
    MessageBus,
    Notice,
    OutboundMessage,
    Outcome,
    ToolFinished,
    TurnFinished,
    TurnStarted,
)
from nanobot.config.schema import SubagentsConfig
from nanobot.errors import StoreError
from nanobot.messages import (
    AssistantMessage,
    Citation,
    Message,
    Role,
    StepRetried,
    Text,
    ToolCall,
    ToolMessage,
    Usage,
    UserMessage,
    least,
)
from nanobot.providers.base import LLMProvider, ProviderInfo
from nanobot.providers.retry import USUAL, Tuning
from nanobot.results import SourceBook
from nanobot.session.store import SessionStore
from nanobot.utils.marks import cited
from nanobot.utils.tool_hints import fold_hints
from nanobot.utils.translation import N_, Later, listed

if TYPE_CHECKING:
    from nanobot.money.budget import Budget

Spent = Literal["steps", "seconds", "tokens", "budget", "repeats"]
EndedBy = Literal["stop", "failure", "restart", "budget"]
#: What may be spent, and what is counted; None for a model that costs nothing. Without a model: on any of them.
BudgetOf = Callable[[ProviderInfo | None], "Budget | None"]

#: Keeps a result of a tool that is too long, with labels of the content from outside in it; where it is, perhaps empty.
KeepResult = Callable[[InboundMessage, str, tuple[str, ...]], Awaitable[str]]

#: What taints a conversation with a model whose service searches by itself.
_OWN_SEARCH = N_("search of the model's service")
# English: they stand in the conversation, which a model reads
_MARKS: dict[EndedBy, str] = {
    "stop": "[Stopped by the user]",
    "failure": "[The answer broke off: the model could not be reached or failed]",
    "restart": "[Interrupted: nanobot was shut down]",
    "budget": "[Not answered: the budget was used up]",
}


class Publisher:
    """Sends the events of one turn to its address, numbered from 1. `last` is the monotonic time of the newest."""

    def __init__(self, bus: MessageBus, address: Address, turn: str = "") -> None:
        self.bus = bus
        self._address = address
        self._turn = turn
        self._seq = 0
        self.last = time.monotonic()

    async def __call__(self, event: Event) -> None:
        self._seq += 1
        self.last = time.monotonic()
        _log(event)
        await self._send(event)

    async def _send(self, event: Event) -> None:
        await self.bus.publish_outbound(OutboundMessage(self._address, event, self._turn, self._seq))


def _log(event: Event) -> None:
    """One line in the log for what makes up the story of a turn; what was said and looked up stays out of it."""
    match event:
        case TurnStarted():
            logger.info("turn begins with {}", event.model)
        case StepRetried():
            logger.info("request is made again in {:.1f} s: {}", event.wait, event.reason)
        case ToolFinished(call=call, result=result):
            end = result.error or "ok"
            logger.info("tool {}: {} in {:.2f} s, {} characters", call.name, end, event.seconds, len(result.text))
        case TurnFinished():
            logger.info("turn ends: {} after {} steps and {:.2f} s", event.outcome, event.steps, event.seconds)


def _cost_of(answer: AssistantMessage, usage: Usage) -> AssistantMessage:
    """A message without words that says what was used, by which model, for whom and why."""
    return AssistantMessage((), "other", answer.model, usage, person=answer.person, cause=answer.cause)


class TurnLimits(Struct, frozen=True):
    """The budget of one turn. A step is one model request with the tool calls it asked for.

    `max_seconds` is wall time. `max_tokens` counts input and output of every request of the turn. A tool result longer
    than `max_tool_result_chars` characters is cut. `lookup_repeats` is how often the same lookup may run.
    """

    max_steps: int = 40
    max_seconds: float = 1_200.0
    max_tokens: int = 2_000_000
    max_tool_result_chars: int = 60_000
    lookup_repeats: int = 2

    def of_helper(self, own: SubagentsConfig) -> "TurnLimits":
        """The budget of a helper, which has limits of its own and those of a turn otherwise."""
        return replace(self, max_steps=own.max_steps, max_seconds=own.max_seconds, max_tokens=own.max_tokens)


class Prompt(Struct, frozen=True):
    """What a turn begins with.

    `opening` is what the person said, `past` what came before; `system` is stable, `tail` changes. `privacy` is what
    the chat has set. `summing` gives the task of a request that sums up the conversation in so many words;
    `forgets` tells what (a text, and when it was said) the person wants in no summary any more.
    """

    opening: tuple[UserMessage, ...] = ()
    past: Past = field(default_factory=Past)
    system: str = ""
    tail: str = ""
    privacy: bool = False
    summing: Callable[[int], str] | None = None
    forgets: Callable[[], Awaitable[Callable[[str, datetime], bool]]] | None = None


class Turn(Struct, eq=False):
    """One turn while it runs: the loop begins and closes it, the runner fills it.

    `message` began it, `provider` answers it within `limits`, `publish` shows its events, and `steering` hands over
    what the person typed since the last call; `heard` tells whether that is anything. A `durable` turn has the id of
    its message, goes on in the next process where this one ends, and asks a model that is away again as long as it has
    time. `budget` tells what may be spent on a model. `began` are the ids of the calls that a process which died had
    begun. `store` keeps it in `session`, which gets the `title` with its first words where it has none, and is
    this turn's alone while it is `held`; `behind` is who has it meanwhile. `addresses` are those that were named in the
    session. `window` is the context of the model in tokens as far as the service has told, else 0.

    `messages` is everything this turn added to the conversation; `found` the numbers of the sources of each lookup;
    `partial` the text streamed since the last complete message; `open` the answer whose calls run, `answered` the ids
    of those that have their results; `repeated` how often a call gave the same, `acts` how many did something; `doing`
    the hint of every call that began; `running` the hints of those that run now, `asking` the model that is asked now;
    `overdue` what it waited for when its time was over, `silent` whether that was the disk or a model that had said
    nothing; `unanswered` the ids of the calls that the owner is asked about, `waited` the seconds that calls have
    waited for that; `concluding`: it sums up; `notes` what a person has to be told with the answer; `told` who has been
    told that the turn is running, by id; `reports` what is wrong with the citations of files. `authority` is the least
    of the roles of those who speak in it: whatever the turn may see or do is judged by it. `granted` is what a user may
    do besides. `taint` names the content from outside that stands in the conversation, in the order in which it came.
    `unbacked` tells of what the answer claims and no call has done. `strangers` labels the descriptions of tools that
    the model is told and the owner has not let count. A helper has no more than these `tools`, and works with the
    `grants` and the kept pages of another session. After `closed` nothing is emitted or saved any more, so a straggler
    that ignored its cancellation cannot write into a later turn.
    """

    id: str
    message: InboundMessage
    provider: LLMProvider
    publish: Publisher
    limits: TurnLimits = field(default_factory=TurnLimits)
    settings: Tuning = USUAL
    durable: bool = False
    steering: Callable[[], tuple[UserMessage, ...]] = tuple
    heard: Callable[[], bool] = bool
    store: SessionStore | None = None
    budget: BudgetOf = lambda _: None
    session: str = ""
    title: str = ""
    held: bool = False
    behind: str = ""
    prompt: Prompt = field(default_factory=Prompt)
    began: frozenset[str] = frozenset()
    addresses: KnownAddresses = field(default_factory=KnownAddresses)
    window: int = 0
    model: str = ""
    authority: Role = "owner"
    steps: int = 0
    usage: Usage = field(default_factory=Usage)
    sources: SourceBook = field(default_factory=SourceBook)
    lookups: dict[str, int] = field(default_factory=dict)
    found: dict[str | None, set[int]] = field(default_factory=dict)
    messages: list[Message] = field(default_factory=list)
    partial: list[str] = field(default_factory=list)
    open: AssistantMessage | None = None
    answered: set[str] = field(default_factory=set)
    repeated: Counter[int] = field(default_factory=Counter)
    acts: int = 0
    doing: list[str] = field(default_factory=list)
    running: dict[str, str] = field(default_factory=dict)
    unanswered: set[str] = field(default_factory=set)
    waited: dict[str, float] = field(default_factory=dict)
    asking: str = ""
    overdue: str = ""
    silent: bool = False
    concluding: bool = False
    notes: list[str] = field(default_factory=list)
    told: set[str] = field(default_factory=set)
    reports: dict[str, str] = field(default_factory=dict)
    granted: frozenset[str] = frozenset()
    unbacked: tuple[str, ...] = ()
    strangers: tuple[str, ...] = ()
    tools: frozenset[str] | None = None
    grants: str = ""
    closed: bool = False
    _taint: dict[str, None] = field(default_factory=dict)
    _judged: int = 0
    _started: float = field(default_factory=time.monotonic)
    _cut: str = ""
    _saved: int = 0
    _refused: list[Message] = field(default_factory=list)
    _read: list[str] = field(default_factory=list)
    _asides: dict[tuple[str, str], AssistantMessage] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.authority = least(self.authority, self.message.sender.role)
        self.granted |= frozenset(self.message.sender.granted)

    @property
    def scheduled(self) -> bool:
        """Nobody has just spoken."""
        return self.message.cause != "chat"

    # What it may use up

    @property
    def seconds(self) -> float:
        return time.monotonic() - self._started

    @property
    def remaining(self) -> float:
        """Seconds left, never negative."""
        return max(0.0, self.limits.max_seconds - self.seconds)

    def spent(self) -> Spent | None:
        """Which limit is reached, or None while another step may begin."""
        if self.steps >= self.limits.max_steps:
            return "steps"
        if self.seconds >= self.limits.max_seconds:
            return "seconds"
        return "tokens" if self.usage.input + self.usage.output >= self.limits.max_tokens else None

    @property
    def waits(self) -> Later:
        """What the turn waits for now, as a part of a sentence."""
        if self.behind:
            return Later(N_("waiting for {what}, which answers in the same conversation"), what=self.behind)
        if self.running:
            return Later(N_("waiting for {what}"), what=listed(fold_hints(tuple(self.running.values()))))
        if self.asking:
            return Later(N_("waiting for the model {model}"), model=self.asking)
        return Later(N_("waiting for the disk"))

    @property
    def taint(self) -> tuple[str, ...]:
        """The content from outside that stands in the conversation; empty where every word is the person's or ours."""
        fresh, self._judged = self.messages[self._judged :], len(self.messages)
        searched = (_OWN_SEARCH,) if self.provider.info.capabilities.searches else ()
        self._taint |= dict.fromkeys((*foreign_in(fresh, self.authority), *self.strangers, *searched))
        return tuple(self.prompt.past.foreign | self._taint)

    def meet(self, labels: Iterable[str]) -> None:
        """Content from outside stands in what the model is told besides the conversation."""
        self._taint |= dict.fromkeys(labels)

    @property
    def receipts(self) -> tuple[str, ...]:
        """What the calls have really changed, a line each, also before a restart."""
        results = (message for message in self.messages if isinstance(message, ToolMessage))
        told = (one.receipt if self.message.direct else shared_receipt(one.receipt, one.did) for one in results)
        return tuple(line for receipt in told for line in receipt.splitlines())

    @property
    def done(self) -> frozenset[str]:
        """The kinds of effects that the calls have had."""
        return frozenset(kind for one in self.messages if isinstance(one, ToolMessage) for kind in one.did)

    # What is said and done

    @property
    def said(self) -> tuple[Message, ...]:
        """The conversation as this turn may see it, with what it has added."""
        return (*self.prompt.past.messages, *self.messages)

    def hear(self, *roles: Role) -> None:
        """Somebody speaks in this turn."""
        self.authority = least(self.authority, *roles)

    async def steer(self) -> None:
        """Read what the person typed since the last step."""
        if typed := self.steering():
            self.hear(*(message.speaker for message in typed))
            await self.add(*typed)
            self._read += (message.id for message in typed if message.id)

    def newly_read(self) -> tuple[str, ...]:
        """The ids of the messages that were read since this was asked last."""
        read, self._read = tuple(self._read), []
        return read

    async def emit(self, event: Event) -> None:
        if not self.closed:
            await self.publish(event)

    async def warn(self, note: str) -> None:
        """Tell a person now and with the answer."""
        self.notes.append(note)
        await self.emit(Notice(note, "warning"))

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

    def count_aside(self, answer: AssistantMessage) -> None:
        """Count a request that stands nowhere in the conversation, such as one that a tool made of the model."""
        if answer.usage == Usage():
            return
        self.usage += answer.usage
        key = answer.model, answer.cause
        before = self._asides.get(key)
        self._asides[key] = _cost_of(answer, before.usage + answer.usage if before else answer.usage)

    def asides(self) -> tuple[AssistantMessage, ...]:
        """The cost of such requests since the last call, a message without words for each model and cause: no model
        reads it, accounts do."""
        made, self._asides = tuple(self._asides.values()), {}
        return made

    # What is kept

    async def add(self, *messages: Message) -> None:
        """Put messages into the conversation and make them durable; the last ones are kept with the answer instead."""
        self.messages.extend(messages)
        self.addresses.take(messages, self.sources)
        if self.closed or self.store is None or not (fresh := self.unsaved()):  # what is left belongs to who closed it
            return
        try:
            await self.store.append(self.session, fresh, turn=self.id, title=self.title)
            self.title = ""
        except StoreError:
            self._refused.extend(fresh)
            raise

    async def intend(self, call: ToolCall) -> None:
        """Make durable that a call is about to have an effect."""
        if self.store is not None:
            await self.store.intend(self.session, call, turn=self.id)

    def unsaved(self) -> tuple[Message, ...]:
        """The messages not handed out yet; each is handed out once, and again where the store refused it."""
        fresh = (*self._refused, *self.messages[self._saved :])
        self._refused.clear()
        self._saved = len(self.messages)
        return fresh

    def costs(self) -> tuple[AssistantMessage, ...]:
        """What the answers cost, without a word of them: all that is kept of a question beside the conversation."""
        answers = (one for one in self.messages if isinstance(one, AssistantMessage))
        return tuple(_cost_of(one, one.usage) for one in answers if one.usage != Usage())

    def take_up(self, messages: tuple[Message, ...], began: frozenset[str]) -> None:
        """Begin with what was kept of this turn: its budget is used as far, its sources are numbered again."""
        self.messages, self.began = list(messages), began
        self._saved = len(messages)
        for message in messages:
            if isinstance(message, AssistantMessage):
                self.steps += bool(message.content)
                self.usage += message.usage
            elif isinstance(message, ToolMessage):
                for source in message.sources:
                    if source.number:  # a file has none
                        self.sources.restore(source, message.text)
        calls: list[str] = []
        for message in reversed(messages):
            if isinstance(message, AssistantMessage):
                if len(set(calls)) < len(message.calls):
                    self.open, self.answered = message, set(calls)
                break
            if isinstance(message, ToolMessage):
                calls.append(message.call_id)

    # How it ends

    def settle(self, mark: str) -> None:
        """Answer the open calls; keep the partial text, with `mark` after it, where there is some."""
        for call in self.open.calls if self.open is not None else ():
            if call.id not in self.answered:
                said = NOT_RUN if call.id in self.unanswered else INTERRUPTED
                self.messages.append(ToolMessage(call.id, call.name, (Text(said),), "cancelled"))
        text = self.shown
        self.open, self.answered = None, set()
        self.answer()
        if text:
            self.messages.append(AssistantMessage((Text(f"{text}\n\n{mark}"),), "other", strangers=self.strangers))

    def cite(self, citations: tuple[Citation, ...], text: str = "") -> None:
        """Keep with the last answer what its marks were found to be, and the words that took its place, if any."""
        if citations:
            last = self.messages[-1]
            content = (Text(text),) if text else last.content
            self.messages[-1] = replace(last, content=content, citations=citations)

    def close(self, by: EndedBy) -> None:
        """Make the conversation legal where it broke off; it ends with words of the assistant."""
        self.settle(_MARKS[by])
        last = self.messages[-1] if self.messages else None
        if not isinstance(last, AssistantMessage) or not last.content:
            self.messages.append(AssistantMessage((Text(_MARKS[by]),), "other"))

    def finished(
        self,
        outcome: Outcome,
        text: str = "",
        error: str = "",
        *,
        temporary: bool = False,
        citations: tuple[Citation, ...] = (),
    ) -> TurnFinished:
        """The end of this turn as surfaces are told of it; what it has done is kept with its last words, too."""
        place = len(self.messages) - (len(self.messages) > self._saved)  # its last words stay the last ones
        self.messages[place:place] = self.asides()
        receipts, last = self.receipts, self.messages[-1] if self.messages else None
        if isinstance(last, AssistantMessage):
            self.messages[-1] = replace(last, receipts=receipts, unbacked=self.unbacked)
        return TurnFinished(
            outcome,
            text,
            self.usage,
            cited(text, self.sources.all),
            model=self.model or self.provider.info.model,
            seconds=self.seconds,
            steps=self.steps,
            error=error,
            temporary=temporary,
            notes=(*self.notes, *self.reports.values()),
            citations=citations,
            receipts=receipts,
            unbacked=self.unbacked,
        )
