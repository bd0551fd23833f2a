"""What a model may see of a conversation: any history becomes legal, and each role sees what is its own."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import chain
from typing import TypeVar

from msgspec.structs import replace

from nanobot import jsonval
from nanobot.agent.context import estimate_all, without_pictures
from nanobot.messages import (
    ROLES,
    AssistantMessage,
    AssistantPart,
    Media,
    Message,
    Role,
    Text,
    Thinking,
    ToolCall,
    ToolMessage,
    UserMessage,
    UserPart,
    least,
)
from nanobot.security.trust import unwrap, wrap
from nanobot.session.store import Record
from nanobot.session.window import first_kept
from nanobot.utils.text import one_line
from nanobot.utils.translation import N_, _
from nanobot.web.urls import host_of

# English: they stand in the conversation, which a model reads
INTERRUPTED = "Error: interrupted before a result came. It is not known whether the call had an effect."
NOT_RUN = "Error: not run. The turn ended before the owner had said whether it may."  # English: see above
CONTINUE = "Please go on."
EARLIER = "(Earlier messages of this conversation are not shown.)"  # English: see above
_EMPTY = "(empty)"
#: Tools that only look something up, by every name that a model may have used, and failures that pass by themselves.
_LOOKUPS = frozenset(
    {"web_search", "SearchWeb", "search_web", "google_web_search", "websearch", "webSearch", "WebSearch"}
    | {"web_fetch", "FetchURL", "fetch_url", "webfetch", "WebFetch", "fetch"}
)
_PASSING = frozenset({"network", "timeout", "service", "rate_limited", "quota"})
#: Exchanges that are shown to who comes back, and the characters of the two sides of each.
_RECALLED, _RECALLED_QUESTION, _RECALLED_ANSWER = 2, 200, 600
#: What a chat would make a link of, and the signs of Markdown.
_ADDRESS = re.compile(r"((?:\b\w+://|\bwww\.)\S+|(?<![\w/])[\w-]+(?:\.[\w-]+)+/\S*)")
_SPECIAL = re.compile(r"([\\`*_\[\]<>~|#])")
_Part = TypeVar("_Part", bound=AssistantPart | UserPart)


class Past:
    """What was said in one session before a turn, as somebody of `role` may see it: legal, measured and kept.

    It grows at its end and loses its oldest turns in jumps, so that a request begins as the one before it. What was
    looked at once is not looked at again. `size` is the bytes of the store that it was begun with, `seq` the record
    that it reaches to; `tokens` is how much `messages` holds. `rest` are the messages after them, where the last turn
    was cut in its middle; they become legal together with what follows. `foreign` labels the content from outside that
    it was begun with, also where the role does not see it: the answers may hold it. `summary` stands in the place of
    what was said still earlier. `stubborn` is how many tokens it had when it could not be summed up.
    """

    def __init__(self, session: str = "", role: Role = "owner", size: int = 0, *, shared: bool = True) -> None:
        self.session, self.role, self.size, self.shared = session, role, size, shared
        self.seq = 0
        self.rest: tuple[Message, ...] = ()
        self.foreign: dict[str, None] = {}
        self.summary: UserMessage | None = None
        self.stubborn = 0
        self._turns: list[tuple[Message, ...]] = []
        self._tokens: list[int] = []

    @property
    def messages(self) -> tuple[Message, ...]:
        if self.summary is None or not self._turns:
            return tuple(chain.from_iterable(self._turns))
        return (*_legal([self.summary, *self._turns[0]]), *chain.from_iterable(self._turns[1:]))

    @property
    def unfinished(self) -> tuple[Message, ...]:
        """`rest`, with the summary before it where it is all that there is."""
        return self.rest if self.summary is None or self._turns else (self.summary, *self.rest)

    @property
    def tokens(self) -> int:
        return sum(self._tokens) + (estimate_all((self.summary,)) if self.summary is not None else 0)

    @staticmethod
    def goes_on_with(records: Sequence[Record]) -> bool:
        """Whether these records, which were appended since, begin a turn and hide nothing of what came before them."""
        first = records[0].message if records else None
        begins = first is None or (isinstance(first, UserMessage) and first.kind == "user")
        return begins and all(record.kind == "message" for record in records)

    def add(self, records: Sequence[Record]) -> None:
        """Take up what was appended since."""
        self.seq = max((record.seq for record in records), default=self.seq)
        if records and records[0].kind == "compaction":
            self.summary, records = self._seen(records[0].message), records[1:]
        self.foreign |= dict.fromkeys(foreign_in((record.message for record in records), self.role))
        seen = forget_failures(seen_by(self.role, (one.message for one in records), self.session, shared=self.shared))
        for turn in _turns(seen):
            self.rest = (*self.rest, *turn)
            legal = _legal(self.rest)
            if legal and isinstance(legal[-1], AssistantMessage):  # else calls or a question wait for what follows
                self._turns.append(tuple(legal))
                self._tokens.append(estimate_all(legal))
                self.rest = ()

    def _seen(self, summary: Message) -> UserMessage | None:
        """A summary as this role may see it: it was made in a turn of somebody who has no more rights."""
        if not isinstance(summary, UserMessage) or ROLES.index(summary.speaker) > ROLES.index(self.role):
            return None
        self.foreign |= dict.fromkeys(foreign_in((summary,), self.role))
        if summary.speaker != self.role:
            self.foreign[_(_WORDS[summary.speaker])] = None
            return replace(summary, content=(Text(wrap(summary.text, summary.speaker, key=self.session)),))
        return summary

    def fit(self, room: int) -> None:
        """Let old pictures go, then the oldest turns, until the rest is within `room` tokens; the newest stays."""
        for place, turn in enumerate(self._turns[:-1] if self.tokens > room else ()):
            self._turns[place] = without_pictures(turn)
            self._tokens[place] = estimate_all(self._turns[place])
        first = first_kept(self._tokens, room - (self.tokens - sum(self._tokens)))
        del self._turns[:first], self._tokens[:first]


def normalize(history: Iterable[Message]) -> tuple[Message, ...]:
    """A legal form of `history`, however it was cut; a legal history comes back equal.

    Every call has exactly one result, right after its message and in the order of the calls; call ids are unique within
    their message and arguments are a JSON object. User and assistant take turns, the first and the last message are
    not the assistant's, and nothing is empty.
    """
    made = _legal(history)
    if made and isinstance(made[-1], AssistantMessage):
        made.append(UserMessage((Text(CONTINUE),), kind="notice"))
    return tuple(made)


def _legal(history: Iterable[Message]) -> list[Message]:
    made: list[Message] = []
    for item, results in _exchanges(history):
        if isinstance(item, UserMessage):
            _add_user(made, item)
        else:
            _add_assistant(made, item, results)
    return made


def _exchanges(history: Iterable[Message]) -> list[tuple[UserMessage | AssistantMessage, list[ToolMessage]]]:
    """Each message with the results of its calls, also those that came after other messages, of a turn that went on
    later. A result that answers no call is left out."""
    found: list[tuple[UserMessage | AssistantMessage, list[ToolMessage]]] = []
    asked: dict[str, list[ToolMessage]] = {}
    for item in history:
        if isinstance(item, ToolMessage):
            asked.get(item.call_id, []).append(item)
            continue
        found.append((item, []))
        if isinstance(item, AssistantMessage):
            asked.update((call.id, found[-1][1]) for call in item.calls)
    return found


def flatten(history: Iterable[Message]) -> tuple[Message, ...]:
    """The same conversation with calls and results told as text, for a request that offers no tools.

    Some services refuse tool messages where no tool is offered.
    """
    told: list[Message] = []
    for item in history:
        if isinstance(item, AssistantMessage):
            lines = [item.text, *(f"[I called {call.name} with {call.arguments or '{}'}]" for call in item.calls)]
            told.append(replace(item, content=(Text("\n".join(line for line in lines if line.strip())),)))
        elif isinstance(item, ToolMessage):
            told.append(UserMessage((Text(f"[Result of {item.name}]\n"), *item.content), kind="notice"))
        else:
            told.append(item)
    return normalize(told)


def forget_failures(history: Iterable[Message]) -> tuple[Message, ...]:
    """`history` without lookups that failed for a passing reason, so that a model does not learn to give up on them.

    For turns that are over, and for whatever is summed up or remembered of them. Calls with effects stay, and so does
    every failure that another try would meet again.
    """
    kept: list[Message] = []
    for item, results in _exchanges(history):
        failed = {result.call_id for result in results if result.name in _LOOKUPS and result.error in _PASSING}
        if failed and isinstance(item, AssistantMessage):
            # Reasoning is signed together with its calls; it goes where one of them goes.
            parts = (part for part in item.content if not isinstance(part, Thinking))
            item = replace(  # noqa: PLW2901
                item, content=tuple(part for part in parts if isinstance(part, Text) or part.id not in failed)
            )
        kept += [item] if item.content else []
        kept += [result for result in results if result.call_id not in failed]
    return tuple(kept)


def speakers(messages: Iterable[Message]) -> tuple[Role, ...]:
    """The roles of the people who speak in these messages."""
    return tuple(one.speaker for one in messages if isinstance(one, UserMessage) and one.kind != "notice")


def seen_by(role: Role, history: Iterable[Message], session: str = "", *, shared: bool = True) -> tuple[Message, ...]:
    """`history` as a turn of this role may see it: a conversation may be that of many people.

    Of the turns of people with more rights it sees what the chat has seen, their words and the answers: no calls, no
    results, no reasoning; and none of that where the chat is not `shared` with them, for then they spoke elsewhere.
    What people with fewer rights have said stands as content from outside, in marks that stay the same in a session.
    """
    kept: list[Message] = []
    for turn in _turns(history):
        by = least(*speakers(turn)) if speakers(turn) else "owner"
        if ROLES.index(by) <= ROLES.index(role):
            kept += [_overheard(one, role, session) for one in turn]
        elif shared:
            kept += [one for one in turn if isinstance(one, UserMessage) and one.kind != "notice"]
            said = [one for one in turn if isinstance(one, AssistantMessage) and one.text.strip() and not one.calls]
            kept += [replace(one, content=(Text(one.text),)) for one in said[-1:]]
    return tuple(kept)


def _turns(history: Iterable[Message]) -> list[list[Message]]:
    """The messages by turn; each begins with the words of a person."""
    turns: list[list[Message]] = [[]]
    for item in history:
        if isinstance(item, UserMessage) and item.kind == "user":
            turns.append([])
        turns[-1].append(item)
    return [turn for turn in turns if turn]


def _overheard(item: Message, role: Role, session: str) -> Message:
    if not isinstance(item, UserMessage) or item.kind == "notice" or ROLES.index(item.speaker) >= ROLES.index(role):
        return item
    content = tuple(
        Text(wrap(part.text, item.speaker, key=session)) if isinstance(part, Text) else part for part in item.content
    )
    return replace(item, content=content)


def parse_arguments(call: ToolCall) -> tuple[dict[str, object], str]:
    """The arguments as an object, and what is wrong with them, which is empty for a call that may run.

    Some models write `null` for none, and an object as a text.
    """
    if call.error:
        return {}, call.error
    try:
        value: object = json.loads(call.arguments.strip() or "{}")
        if isinstance(value, str):
            value = json.loads(value)
        if "\\ud" in call.arguments.lower():  # there may be halves of characters, which nothing takes
            value = json.loads(json.dumps(value, ensure_ascii=False).encode("utf-8", "ignore"))
    except (ValueError, RecursionError) as error:
        return {}, _("its arguments are no valid JSON ({error})", error=error)
    if not isinstance(value, dict | None):
        return {}, _("its arguments are no JSON object")
    return {str(key): item for key, item in (value or {}).items()}, ""


def unique_ids(answer: AssistantMessage) -> AssistantMessage:
    """The same answer with an id of its own for every call."""
    parts: list[AssistantPart] = []
    taken: set[str] = set()
    for part in answer.content:
        if isinstance(part, ToolCall):
            part = replace(part, id=_free_id(part.id, len(taken), taken))  # noqa: PLW2901
            taken.add(part.id)
        parts.append(part)
    return replace(answer, content=tuple(parts))


def _add_user(made: list[Message], item: UserMessage) -> None:
    last, content = made[-1] if made else None, _filled(item.content)
    if content and isinstance(last, UserMessage):
        untrusted = last.untrusted or item.untrusted
        made[-1] = replace(last, content=(*last.content, *_apart(content)), untrusted=untrusted)
    elif content:
        made.append(replace(item, content=content))


def _add_assistant(made: list[Message], item: AssistantMessage, results: list[ToolMessage]) -> None:
    content, calls = _legal_parts(item.content)
    if all(isinstance(part, Thinking) for part in content):
        return
    if not made:
        made.append(UserMessage((Text(EARLIER),), kind="notice"))
    last = made[-1]
    if isinstance(last, AssistantMessage):
        made[-1] = replace(last, content=(*last.content, *_apart(content)))
    else:
        made.append(replace(item, content=content))
    for old, call in calls:
        result = next((one for one in results if one.call_id == old), None)
        if result is None:
            result = ToolMessage(old, call.name, (Text(INTERRUPTED),), "cancelled")
        else:
            results.remove(result)
        said = _filled(result.content) or (Text(_EMPTY),)
        made.append(replace(result, content=said, call_id=call.id, name=call.name))


def _legal_parts(
    content: tuple[AssistantPart, ...],
) -> tuple[tuple[AssistantPart, ...], list[tuple[str, ToolCall]]]:
    """The parts that may be sent, and every call beside the id under which its result was stored."""
    kept: list[AssistantPart] = []
    calls: list[tuple[str, ToolCall]] = []
    for part in content:
        if isinstance(part, ToolCall):
            unique = _free_id(part.id, len(calls), {call.id for _, call in calls})
            call = replace(part, id=unique, arguments=_legal_arguments(part.arguments), name=part.name or "unknown")
            calls.append((part.id, call))
            kept.append(call)
        elif isinstance(part, Thinking) or part.text.strip():
            kept.append(part)
    return tuple(kept), calls


def _free_id(wanted: str, slot: int, taken: set[str]) -> str:
    free = wanted or f"call_{slot}"
    while free in taken:
        free = f"{free}_{slot}"
    return free


def _filled(content: tuple[UserPart, ...]) -> tuple[UserPart, ...]:
    """The parts without blank texts."""
    return tuple(part for part in content if not isinstance(part, Text) or part.text.strip())


def _apart(content: tuple[_Part, ...]) -> tuple[_Part, ...]:
    """The parts with a blank line before their text, to follow other parts."""
    first = content[0]
    # A part of blanks alone would be refused by some services, so the blank line goes into the text.
    return (replace(first, text=f"\n\n{first.text}"), *content[1:]) if isinstance(first, Text) else content


@lru_cache(maxsize=4_096)
def _legal_arguments(arguments: str) -> str:
    """The same where they are an object or nothing, else what is read of them as one."""
    given, problem = parse_arguments(ToolCall("", "", arguments))
    return jsonval.compact(given) if problem or arguments[:1] not in ("", "{") else arguments


def foreign_in(messages: Iterable[Message], role: Role) -> Iterator[str]:
    """A label for each piece of outside content in these messages, such as `page example.org`; some come twice.

    Only the words of the runtime and of those who have at least the rights of `role` are not from outside. Nobody can
    tell who has made a picture or a file, whoever sends it.
    """
    for message in messages:
        if isinstance(message, AssistantMessage):
            yield from (
                *message.strangers,
                *(_("page {address}", address=host_of(url) or "?") for url in message.pages),
            )
        elif isinstance(message, ToolMessage):
            read = [_label(one.url) for one in message.sources if one.read]
            yield from (read or [_("result of {tool}", tool=message.name)]) if message.untrusted else ()
        elif message.kind == "notice":
            yield from [_told_by(message)] if message.untrusted else ()
        else:
            yield from [_("quoted or forwarded text")] if message.untrusted else ()
            if any(isinstance(part, Media) for part in message.content):
                yield _("a picture or file that was sent")
            if message.speaker == "guest" or ROLES.index(message.speaker) < ROLES.index(role):
                yield _(_WORDS[message.speaker])


#: What a notice from outside is, by the label that its words were wrapped with.
_NOTICES = {"said": N_("what a watch or a task has said here"), "helper": N_("what a helper has answered")}
#: Whose words they are that have fewer rights.
_WORDS: Mapping[Role, str] = {
    "guest": N_("words of a guest"),
    "user": N_("words of a user"),
    "owner": N_("words of a owner"),
}


def _told_by(notice: UserMessage) -> str:
    outside = unwrap(notice.text[notice.text.find("<") :])
    told = _NOTICES.get(outside.source) if outside is not None else None
    return _(told or N_("a summary of content from outside"))


def _label(url: str) -> str:
    if url.startswith("file:"):
        return _("file {path}", path=url.removeprefix("file:"))
    return _("page {address}", address=host_of(url) or "?")


def recap(history: Iterable[Message]) -> str:
    """The end of a conversation as Markdown, for a person who comes back to it: what was asked, how the answer begins,
    and what was really done. Nothing of it is a link, for nobody judges its addresses again."""
    lines: list[str] = []
    for turn in [turn for turn in _turns(history) if _asked_in(turn)][-_RECALLED:]:
        answers = [one for one in turn if isinstance(one, AssistantMessage) and one.text.strip() and not one.calls]
        lines.append(_("**You:** {question}", question=_plain(_asked_in(turn), _RECALLED_QUESTION)))
        for answer in answers[-1:]:
            done = [f"☑ {_plain(one, _RECALLED_QUESTION)}" for one in answer.receipts]
            doubts = [f"❓ {_plain(one, _RECALLED_QUESTION)}" for one in answer.unbacked]
            lines.append(_plain(answer.text, _RECALLED_ANSWER))
            lines.append("\\\n".join([*done, *doubts]))
    return "\n\n".join(filter(None, lines))


def _asked_in(turn: Sequence[Message]) -> str:
    """What a person has typed to begin a turn; of what somebody else has said, the words alone."""
    first = turn[0]
    if not (isinstance(first, UserMessage) and first.kind == "user"):
        return ""
    texts = [part.text.strip() for part in first.content if isinstance(part, Text)]
    return texts[-1] if texts and unwrap(texts[-1]) is None else "…"


def _plain(text: str, width: int) -> str:
    """A text on one line, cut at its end, in Markdown that shows it as it is."""
    line = one_line(text)
    line = line if len(line) <= width else f"{line[: width - 1]}…"
    pieces = _ADDRESS.split(line)  # the odd ones are addresses
    return "".join(
        f"`{piece.replace('`', '')}`" if number % 2 else _SPECIAL.sub(r"\\\1", piece)
        for number, piece in enumerate(pieces)
    )
