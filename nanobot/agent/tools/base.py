"""What a call knows of its surroundings, what a tool is to those who offer and run it, and the tools of ours.

A tool of ours has a msgspec Struct of its arguments, which judges a call and is what a model is told.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from functools import cache
from typing import ClassVar, Generic, Literal, Protocol, TypeVar, get_args, get_type_hints

import msgspec
from loguru import logger
from msgspec import Struct, field
from msgspec.structs import fields, replace

from nanobot.bus.events import Address, Event, Sender
from nanobot.messages import Message, Role
from nanobot.providers.base import ToolSpec
from nanobot.results import SourceBook, ToolResult, error_result
from nanobot.security.policy import Access, Effect, Grant, texts_of
from nanobot.session.permissions import Permission
from nanobot.session.pins import ToolWords
from nanobot.utils.text import nearest, one_line, shorten
from nanobot.web.urls import extract_urls

Progress = Callable[[str], Awaitable[None]]
Approval = Literal["once", "always", "no", "edit"]
#: (system, prompt) → the model's answer. Raises `ProviderError`.
Ask = Callable[[str, str], Awaitable[str]]
#: (system, task, numbered addresses) → the answer of a service that reads them itself, and those that it has read.
#: Raises `ProviderError`.
ReadPages = Callable[[str, str, tuple[tuple[int, str], ...]], Awaitable[tuple[str, tuple[str, ...]]]]


class HelperTask(Struct, frozen=True):
    """What a helper is to do, with which tools (empty: all that it may have), and whether its caller goes on."""

    task: str
    tools: tuple[str, ...] = ()
    background: bool = False


#: What a helper answers, that it works in the background, or why there is none.
Spawn = Callable[[HelperTask], Awaitable[ToolResult]]


def in_question(text: str, width: int = 500) -> str:
    """What a model wrote, as a question shows it: on one line, for a further line would speak as the question does.

    Where it is longer than `width` characters, its middle is cut, and that is said.
    """
    line = one_line(text)
    return line if len(line) <= width else f"{shorten(line, width)} (cut; {len(line)} characters in all)"


class Proposal(Struct, frozen=True):
    """What a call proposes that the owner may write anew; an empty `text` for nothing.

    Where it is the whole content of a file, `file` is the name of that and `before` what it holds now.
    """

    text: str = ""
    file: str = ""
    before: str = ""


class Question(Struct, frozen=True):
    """What the owner is asked about a call.

    `detail` is a fact a line, `shown` the text in question, which may be a `diff`. `lasting` is what `always` would
    allow: exactly that, and where it is empty `always` is no answer. `proposal` is what may be written anew. `act`
    says what would be done, such as `run pytest`, and `done` that it was done.
    """

    title: str
    detail: str
    shown: str = ""
    lasting: tuple[Permission, ...] = ()
    proposal: Proposal = Proposal()
    act: str = ""
    done: str = ""
    diff: bool = False


class Decided(Struct, frozen=True):
    """What the owner answers: `reason` belongs to a no, `text` to an edit, in the place of what was proposed."""

    choice: Approval
    reason: str = ""
    text: str = ""

    @property
    def yes(self) -> bool:
        return self.choice in ("once", "always")


Approver = Callable[[Question], Awaitable[Decided]]


async def _unseen(_told: object) -> None:
    """Nobody sees it."""


class KnownChat(Struct, frozen=True):
    """A chat to which the agent may be asked to write: of a person with a `role`, or a group, by the name it has."""

    address: Address
    name: str = ""
    role: Role | Literal["group"] = "group"


class PersonsAnswer(Struct, frozen=True):
    """How a person answered a question of the model: with a `choice`, in `words` that are still to be read, or not."""

    kind: Literal["choice", "words", "nothing"]
    choice: str = ""


#: (question, choices) → the answer of the person of the turn.
Choose = Callable[[str, tuple[str, ...]], Awaitable[PersonsAnswer]]


#: (pages, requests beside them) → about what that costs, in words.
Estimate = Callable[[int, int], Awaitable[str]]


async def _free(_pages: int, _requests: int) -> str:
    return ""


class ToolContext(Struct):
    """What a call may know of its surroundings. Every field has a default, so a tool runs without an agent.

    `sources` numbers what was found and read in this turn; `progress` shows a line while the tool works,
    `show` an event. `choose` asks the person of the turn, and is None where nobody is there to answer.
    `privacy`: the chat wants nothing sent to services that read or search for us unless they were chosen for it.
    `approve` asks the owner, and is None where nobody who may decide is there. `made_up` are the hosts of the call that
    no person, hit or page has named.
    `result_chars` is where the text of a result is cut, None where it is not.
    `ask` is one request to the turn's model, without tools and history, and None where no language model answers;
    `ask_room` is how many bytes of text its prompt may hold. `read_pages` is one request to the turn's model to read
    public pages itself, None where its service cannot. `estimate` tells in words about what it would cost to read so
    many pages and to make so many requests, to be said before much is begun; it is empty where that is free.
    `allowed` are the effects that were judged: a call does nothing else; `asked` those of them to which the owner has
    said yes just now, with what they show before them. `taint` names the content from outside that
    stands in the conversation. `scheduled`: no person has just spoken. `chats` are those that
    a message may go to besides this one. `role` is the least of those who speak,
    `granted` what the owner lets a user do, and `direct` tells that nobody else reads along.
    Cancellation is the task's own: a tool is cancelled with `asyncio.CancelledError` and cleans up after itself.
    `so_far` gives what was said and done in this turn.
    `unlinked` makes text of addresses that nobody has named, where content from outside stands in the conversation.
    `spawn` lets a helper do a task, and is None where there are none.
    """

    call_id: str = ""
    turn_id: str = ""
    session: str = ""
    address: Address = field(default_factory=lambda: Address("local", "direct"))
    sender: Sender = field(default_factory=lambda: Sender("local"))
    sources: SourceBook = field(default_factory=SourceBook)
    progress: Progress = _unseen
    show: Callable[[Event], Awaitable[None]] = _unseen
    choose: Choose | None = None
    privacy: bool = False
    approve: Approver | None = None
    result_chars: int | None = None
    ask: Ask | None = None
    ask_room: int = 50_000
    read_pages: ReadPages | None = None
    estimate: Estimate = _free
    made_up: frozenset[str] = frozenset()
    unlinked: Callable[[str], str] = str
    spawn: Spawn | None = None
    allowed: tuple[Effect, ...] = ()
    asked: tuple[Effect, ...] = ()
    taint: tuple[str, ...] = ()
    scheduled: bool = False
    chats: tuple[KnownChat, ...] = ()
    role: Role = "guest"
    granted: frozenset[str] = frozenset()
    direct: bool = False
    so_far: Callable[[], tuple[Message, ...]] = tuple

    @property
    def chat(self) -> str:
        """A person in a chat, for whose changes of files `/undo` is."""
        return f"{self.address.lasting} {self.sender.id}"

    @property
    def person(self) -> str:
        """Who speaks, on every channel somebody else."""
        return f"{self.address.channel}:{self.sender.id}"

    @property
    def holder(self) -> str:
        """Whose grants and kept pages count: one person's in one session."""
        return f"{self.session} {self.person}"


class ToolLike(Protocol):
    """A tool as the registry and the runner see it. What it says here holds for every tool that does not say other.

    `access` is what a call does: read what anybody may read, read what is the owner's, or perhaps change something.
    `grant` is what a user needs from the owner so that the tool is offered; empty: it is the owner's, or public.
    `proposes` names the argument that the owner may write anew when they are asked, such as a command.
    `exclusive`: no other exclusive call may run beside it, of any session; nor any call of its batch.
    `ordered`: no other call of its batch may run beside it, while other sessions run theirs: it may take long.
    `interactive`: a call waits for the person of the turn, so that it is offered only where they can answer.
    `idempotent`: a call may run again: it only looks something up, or a second run changes nothing more.
    `local`: a call asks nobody outside, whatever address stands in its arguments.
    `foreign_words` is what a stranger says of this tool, which a model is told; None where nanobot describes it.
    """

    access: Access = "changes"
    grant: Grant = ""
    aliases: tuple[str, ...] = ()
    proposes: str = ""
    exclusive: bool = False
    ordered: bool = False
    interactive: bool = False
    idempotent: bool = False
    local: bool = False
    foreign_words: ToolWords | None = None

    @property
    def name(self) -> str: ...

    @property
    def spec(self) -> ToolSpec: ...

    async def prepare(self, arguments: Mapping[str, object], context: ToolContext) -> None:  # noqa: ARG002
        """Look up in `context` what `effects` has to know. Never raises, and changes nothing else."""
        return

    def effects(self, arguments: Mapping[str, object], context: ToolContext) -> tuple[Effect, ...]:
        """What this very call would do besides reaching addresses: resolved paths, whole commands. Never raises.

        Judged before the call; what is not among it may not be done.
        """
        if self.access == "public":
            return ()
        if self.access == "talks":
            return (Effect("send", context.address.key),)
        said = json.dumps(arguments, ensure_ascii=False, default=str)
        return (Effect("service" if self.access == "reads" else "change", self.name, said),)

    def addresses(self, arguments: Mapping[str, object], context: ToolContext) -> tuple[str, ...]:  # noqa: ARG002
        """The http(s) addresses that a call with these arguments sends something to. Never raises."""
        texts = () if self.local else texts_of(arguments)
        return tuple(dict.fromkeys(url for text in texts for url in extract_urls(text).urls))

    def reach(self, url: str) -> Effect:
        """What it is to reach an address that nobody has named. It is a lookup where a call itself asks the owner
        before, so that nobody asks twice; its `reason` is why a call will not reach it, whatever anybody answers."""
        return Effect("address", url)

    def needs_no_network(self, arguments: Mapping[str, object], context: ToolContext) -> bool:  # noqa: ARG002
        """True where this call asks nobody outside, so that it is no external lookup. Never raises."""
        return self.local

    def proposal(self, arguments: Mapping[str, object], context: ToolContext) -> Proposal:  # noqa: ARG002
        """What the owner may write anew when they are asked. Never raises; may read a file."""
        proposed = arguments.get(self.proposes)
        return Proposal(proposed if isinstance(proposed, str) else "")

    def rewritten(self, arguments: Mapping[str, object], proposal: Proposal, text: str) -> dict[str, object]:  # noqa: ARG002
        """The arguments with `text` in the place of what was proposed."""
        return {**arguments, self.proposes: text}

    async def call(self, arguments: dict[str, object], context: ToolContext | None = None) -> ToolResult:
        """Run once. Never raises (besides cancellation): every failure is a result with an error kind."""


class SpecifiedTool(ToolLike):
    """A tool that is made with what a model is told of it."""

    def __init__(self, spec: ToolSpec) -> None:
        self._spec = spec

    @property
    def name(self) -> str:
        return self._spec.name

    @property
    def spec(self) -> ToolSpec:
        return self._spec


Args = TypeVar("Args", bound=Struct)


class Tool(ToolLike, Generic[Args]):
    """A tool whose arguments are a Struct.

    Subclasses set `name`, `description`, `Arguments` and `access`, and write `run`; `defaults` are those of arguments
    that the settings change. Unknown arguments are refused with the nearest known name; `argument_aliases` maps other
    spellings to the canonical ones, and `value_aliases` those of the values of an argument. A tool that does not say
    what it does may change something: the owner alone has it, and is asked before every call. What it answers, failures
    too, reaches the model as content from outside, unless `own_words` says that every byte is nanobot's own.
    """

    name: ClassVar[str]
    description: str
    own_words: ClassVar[bool] = False
    argument_aliases: ClassVar[Mapping[str, str]] = {}
    value_aliases: ClassVar[Mapping[str, Mapping[str, str]]] = {}
    Arguments: type[Args]
    defaults: Mapping[str, object] = {}

    @property
    def spec(self) -> ToolSpec:
        return ToolSpec(self.name, self.description, schema_of(self.Arguments, self.defaults))

    async def run(self, args: Args, context: ToolContext) -> ToolResult:
        """Do the work. An exception that escapes is a bug; `call` contains it."""
        raise NotImplementedError

    async def call(self, arguments: dict[str, object], context: ToolContext | None = None) -> ToolResult:
        """Validate, run, and return a result whatever happens."""
        try:
            args = self.read(self.canonical(arguments))
        except ValueError as error:
            return error_result("invalid_input", f"Invalid parameters. Reason: {error}")
        try:
            result = await self.run(args, context or ToolContext())
            return result if self.own_words else replace(result, untrusted=True)
        except asyncio.CancelledError:
            raise
        except Exception as error:  # noqa: BLE001 - the tool boundary: a broken tool must not end the turn
            logger.opt(exception=error).error("tool {} failed", self.name)
            broken = error_result("failed", f"{self.name} failed: {type(error).__name__}: {error}")
            return replace(broken, untrusted=not self.own_words)

    def canonical(self, arguments: Mapping[str, object]) -> dict[str, object]:
        """The arguments under their canonical names, without those that are null: models send these for "not given"."""
        given = {key: value for key, value in arguments.items() if value is not None}
        others = {self.argument_aliases[key]: value for key, value in given.items() if key in self.argument_aliases}
        canonical = others | {key: value for key, value in given.items() if key not in self.argument_aliases}
        for key in canonical.keys() & self.value_aliases.keys():
            canonical[key] = self.value_aliases[key].get(str(canonical[key]), canonical[key])
        return canonical

    def meant(self, arguments: Mapping[str, object]) -> Args | None:
        """The arguments of a call as they are meant; None where the call only says what is wrong with them."""
        try:
            return self.read(self.canonical(arguments))
        except ValueError:
            return None

    def read(self, given: Mapping[str, object]) -> Args:
        """Canonical arguments as they are meant. Raises ValueError that says what is wrong with them."""
        known = self.Arguments.__struct_fields__
        wrong = []
        for name in (name for name in given if name not in known):
            near = nearest(name, known)
            hint = f", did you mean {near!r}?" if near else f", known are {', '.join(known)}"
            wrong.append(f"unknown parameter {name!r}{hint}")
        needed = [one.name for one in fields(self.Arguments) if one.required]
        if wrong or any(name not in given for name in needed):
            wrong += [f"parameter {name!r} is missing" for name in needed if name not in given]
            raise ValueError("; ".join(wrong))
        try:
            return msgspec.convert({**self.defaults, **given}, self.Arguments, strict=False)
        except msgspec.ValidationError as error:
            words, _, place = str(error).partition(" - at `$.")
            name = place.rstrip("`").partition("[")[0]
            choices = get_args(get_type_hints(self.Arguments)[name]) if "enum" in words else ()
            known_ones = f"; known are {', '.join(map(str, choices))}" if choices else ""
            raise ValueError(f"{place.rstrip('`')}: {words}{known_ones} (got {given.get(name)!r:.100})") from None


#: What each argument would say and no model needs.
_UNTOLD = frozenset({"title", "minLength", "maxLength", "minimum", "minItems", "additionalProperties"})


def schema_of(arguments: type[Struct], defaults: Mapping[str, object] | None = None) -> dict[str, object]:
    """The JSON Schema of a call, with these defaults of arguments; it points nowhere, for not every service follows."""
    schema = _schema_of(arguments)
    properties = schema.get("properties")
    known = properties if isinstance(properties, dict) else {}
    changed = {name: {**known[name], "default": value} for name, value in (defaults or {}).items()}
    return {**schema, "properties": {**known, **changed}}


@cache
def _schema_of(arguments: type[Struct]) -> Mapping[str, object]:
    """Made once: every change of the tools asks for all of them."""
    _, parts = msgspec.json.schema_components([arguments])
    return _written_out(parts[arguments.__name__], parts)


def _written_out(schema: Mapping[str, object], parts: Mapping[str, Mapping[str, object]]) -> dict[str, object]:
    """A schema with its parts in their places, and without what tells a model nothing: the Struct judges a call."""
    if isinstance(where := schema.get("$ref"), str):
        return _written_out(parts[where.rpartition("/")[2]], parts)
    kinds = schema.get("anyOf")
    if isinstance(kinds, list) and len(kinds) == 2 and {"type": "null"} in kinds:  # it may be left out
        kind = next(one for one in kinds if one != {"type": "null"})
        return _written_out({**schema, **kind, "anyOf": []}, parts)
    return {
        key: _written_out(value, parts) if isinstance(value, Mapping) else value
        for key, value in schema.items()
        if isinstance(value, Mapping) or not (key in _UNTOLD or value == [] or (key == "default" and not value))
    }
