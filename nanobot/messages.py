"""What travels between the agent and a language model.

A conversation is a tuple of `Message`: user, assistant and tool messages in order. The system prompt is not one of
them; it stands in the request. Values are frozen; providers translate them to their wire and back.
"""

from datetime import datetime
from operator import add
from typing import ClassVar, Literal

from msgspec import Struct, field
from msgspec.structs import astuple

from nanobot.utils.translation import _, _n

Finish = Literal["stop", "tools", "length", "filtered", "overflow", "pause", "error", "truncated", "other"]
"""Why a model stopped, after the vendors' words were mapped."""

Role = Literal["owner", "user", "guest"]
"""What a person is here: who runs this nanobot, whom the owner let in, and everybody else who may talk."""
ROLES: tuple[Role, ...] = ("guest", "user", "owner")
Cause = Literal["chat", "helper", "schedule", "watch", "compaction"]
"""Why a model is asked: a person has spoken, or what runs by itself."""


def least(*roles: Role) -> Role:
    """The role with the fewest rights; `guest` where nobody is named."""
    return min(roles, key=ROLES.index, default="guest")


class Text(Struct, frozen=True, tag_field="type", tag="text"):
    text: str


class Thinking(Struct, frozen=True, tag_field="type", tag="thinking"):
    """A model's reasoning. `replay` is what its provider needs back byte for byte, as a JSON string, else empty.

    `origin` names the wire that made it (`chat` or `messages`); another wire drops the block.
    """

    text: str
    replay: str = ""
    origin: str = ""


class Media(Struct, frozen=True, tag_field="type", tag="media"):
    """A file under the media folder; never base64. `mime` is its type, `size` is in bytes.

    A PDF that is `inline` has no text: a model that reads PDF gets its bytes. `place` is where the tools for files
    reach it, empty where they do not; a model is told of it beside the file.
    """

    path: str
    mime: str
    name: str = ""
    size: int = 0
    inline: bool = False
    place: str = ""


class ToolCall(Struct, frozen=True, tag_field="type", tag="tool_call"):
    """A call the model asks for. `arguments` is the raw JSON text; `""` means no arguments.

    `error` is set when the answer broke off inside it: such a call is answered with the error, never run.
    `replay` carries provider extras (a thought signature) as a JSON string.
    """

    id: str
    name: str
    arguments: str = ""
    error: str = ""
    replay: str = ""


class Usage(Struct, frozen=True):
    """Tokens of one or several requests. `input` counts everything sent, cached parts included; `cost` is in USD.

    `unpriced` are the tokens of input and output whose price nobody knows: `cost` is without them.
    """

    input: int = 0
    output: int = 0
    cached: int = 0
    cache_write: int = 0
    reasoning: int = 0
    cost: float = 0.0
    requests: int = 0
    unpriced: int = 0

    def __add__(self, other: "Usage") -> "Usage":
        return Usage(*map(add, astuple(self), astuple(other)))

    @property
    def money(self) -> str:
        """What it cost, in words; nothing is called free whose price is not known."""
        if not self.unpriced:
            return usd(self.cost)
        rest = _("{tokens:,} tokens of unknown cost", tokens=self.unpriced)
        return _("{known} and {rest}", known=usd(self.cost), rest=rest) if self.cost else rest

    @property
    def text(self) -> str:
        """Tokens, requests and money, in words."""
        if not self.requests and not self.input:
            return _("nothing")
        tokens = _("{input:,} tokens in, {output:,} out", input=self.input, output=self.output)
        if self.cached and self.input:
            tokens = _(
                "{input:,} tokens in ({share:.0%} from the cache), {output:,} out",
                input=self.input,
                share=self.cached / self.input,
                output=self.output,
            )
        if not self.requests:
            return _("{tokens}, {money}", tokens=tokens, money=self.money)
        return _n(
            "{tokens}, {number:,} request, {money}",
            "{tokens}, {number:,} requests, {money}",
            self.requests,
            tokens=tokens,
            money=self.money,
        )


def usd(amount: float) -> str:
    """An amount of money, with the digits that matter."""
    if amount >= 1 or not amount:
        return _("{amount:,.2f} USD", amount=amount)
    return _("{amount:.4f} USD", amount=amount)


class Source(Struct, frozen=True):
    """A page that was found or read in this turn.

    `number` is the mark `[n]` under which it may be cited; it is 0 until a `SourceBook` gave one. `read` tells that the
    page itself was read, not only its snippet. `retrieved_at` is in UTC.
    """

    number: int
    url: str
    title: str = ""
    retrieved_at: datetime | None = None
    read: bool = False


class Citation(Struct, frozen=True):
    """One mark of an answer: the source that it names, the words it stands on and what the source says there.

    `missing` tells what the source does not carry, in a sentence; it is empty for a mark that is right.
    """

    number: int
    url: str
    title: str = ""
    claim: str = ""
    passage: str = ""
    missing: str = ""


UserPart = Text | Media
AssistantPart = Text | Thinking | ToolCall


class UserMessage(Struct, frozen=True, tag_field="role", tag="user"):
    """`kind` tells who speaks: a person, a person in mid-turn (`steer`), or nanobot itself (`notice`).

    `id` is that of the message that a person sent in mid-turn, where the channel gave one. `speaker` is the role that
    the person had; messages that were kept before roles were, count as the owner's. `untrusted`: it holds what others
    said, such as a quotation or a forwarded text.
    """

    content: tuple[UserPart, ...]
    kind: Literal["user", "steer", "notice"] = "user"
    id: str = ""
    speaker: Role = "owner"
    untrusted: bool = False
    role: ClassVar[Literal["user"]] = "user"

    @property
    def text(self) -> str:
        return "".join(part.text for part in self.content if isinstance(part, Text))


class AssistantMessage(Struct, frozen=True, tag_field="role", tag="assistant"):
    """`pages` are those that the service itself read; `citations` what the marks of a final answer were found to be.

    `receipts` are what its turn has really changed, `unbacked` what it claims besides, as in `TurnFinished`.
    `strangers` labels what the model was told from outside besides the conversation, such as descriptions of tools.
    `person` is for whom it was asked, `cause` what it was asked for: for accounts, no model reads them.
    """

    content: tuple[AssistantPart, ...]
    finish: Finish = "stop"
    model: str = ""
    usage: Usage = field(default_factory=Usage)
    role: ClassVar[Literal["assistant"]] = "assistant"
    pages: tuple[str, ...] = ()
    citations: tuple[Citation, ...] = ()
    receipts: tuple[str, ...] = ()
    unbacked: tuple[str, ...] = ()
    strangers: tuple[str, ...] = ()
    person: str = ""
    cause: str = ""

    @property
    def text(self) -> str:
        return "".join(part.text for part in self.content if isinstance(part, Text))

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        return tuple(part for part in self.content if isinstance(part, ToolCall))

    @property
    def empty(self) -> bool:
        """Whether it says nothing to anybody and asks for nothing; it was paid for all the same."""
        return not self.calls and not self.text.strip()


class ToolMessage(Struct, frozen=True, tag_field="role", tag="tool"):
    """The answer to the call `call_id`. `name` is the tool's name; `is_error` tells vendors that have a flag for it.

    `error` is the closed error kind of the result or empty; `untrusted` marks content from outside; `sources` are the
    pages that it found or read. `receipt` is what the call has really changed, a line for each change, and `did` the
    kinds of these effects.
    """

    call_id: str
    name: str
    content: tuple[UserPart, ...]
    error: str = ""
    untrusted: bool = False
    sources: tuple[Source, ...] = ()
    role: ClassVar[Literal["tool"]] = "tool"
    receipt: str = ""
    did: tuple[str, ...] = ()

    @property
    def is_error(self) -> bool:
        return bool(self.error)

    @property
    def text(self) -> str:
        return "".join(part.text for part in self.content if isinstance(part, Text))


Message = UserMessage | AssistantMessage | ToolMessage


class TextDelta(Struct, frozen=True, tag_field="type", tag="text_delta"):
    """A piece of the answer, in order."""

    text: str


class ThinkingDelta(Struct, frozen=True, tag_field="type", tag="thinking_delta"):
    """A piece of the reasoning, in order."""

    text: str


class ToolCallDelta(Struct, frozen=True, tag_field="type", tag="tool_call_delta"):
    """A piece of a call: `slot` counts from 0 within the answer; `arguments` is a fragment of the JSON text."""

    slot: int
    id: str = ""
    name: str = ""
    arguments: str = ""


class StepRetried(Struct, frozen=True, tag_field="type", tag="step_retried"):
    """The request is sent again: everything streamed since its start is void. `wait` is in seconds; `used` is what an
    answer took that said nothing."""

    reason: str
    wait: float = 0.0
    provider: str = ""
    used: Usage | None = None


class Completed(Struct, frozen=True, tag_field="type", tag="completed"):
    """The last delta of every stream: the whole answer."""

    message: AssistantMessage


Delta = TextDelta | ThinkingDelta | ToolCallDelta | StepRetried | Completed
