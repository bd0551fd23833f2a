"""Makes any history legal for a model, and makes a long one fit."""

import json
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import TypeVar

from msgspec.structs import replace

from nanobot.messages import (
    ROLES,
    AssistantMessage,
    AssistantPart,
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
from nanobot.security.trust import wrap

INTERRUPTED = "Error: interrupted before a result came. It is not known whether the call had an effect."
CONTINUE = "Please go on."
EARLIER = "(Earlier messages of this conversation are not shown.)"
_EMPTY = "(empty)"
#: Tools that only look something up, by every name that a model may have used, and failures that pass by themselves.
_LOOKUPS = frozenset(
    {"web_search", "SearchWeb", "search_web", "google_web_search", "websearch", "webSearch", "WebSearch"}
    | {"web_fetch", "FetchURL", "fetch_url", "webfetch", "WebFetch", "fetch"}
)
_PASSING = frozenset({"network", "timeout", "service", "rate_limited", "quota"})
_Part = TypeVar("_Part", bound=AssistantPart | UserPart)


def normalize(history: Iterable[Message], wire: str = "") -> tuple[Message, ...]:
    """A legal form of `history`, however it was cut; a legal history comes back equal.

    Every call has exactly one result, right after its message and in the order of the calls; call ids are unique within
    their message and arguments are a JSON object. User and assistant take turns, the first and the last message are
    not the assistant's, and nothing is empty. Thinking of another wire than `wire` (where one is given) is dropped.
    """
    items = _in_place(list(history))
    made: list[Message] = []
    position = 0
    while position < len(items):
        item = items[position]
        position += 1
        if isinstance(item, UserMessage):
            _add_user(made, item)
        elif isinstance(item, AssistantMessage):
            results: list[ToolMessage] = []
            while position < len(items) and isinstance(follower := items[position], ToolMessage):
                results.append(follower)
                position += 1
            _add_assistant(made, item, results, wire)
        # A tool message elsewhere answers no call that is shown: it is left out.
    if made and isinstance(made[-1], AssistantMessage):
        made.append(UserMessage((Text(CONTINUE),), kind="notice"))
    return tuple(made)


def _in_place(items: list[Message]) -> list[Message]:
    """Results that came after other messages, of a turn that went on later, stand behind their calls."""
    open_calls: dict[str, int] = {}
    late: dict[int, list[Message]] = {}
    other = -1  # where the last message stood that is no result
    for place, item in enumerate(items):
        if isinstance(item, ToolMessage):
            asked = open_calls.pop(item.call_id, place)
            if asked < other:
                late.setdefault(asked, []).append(item)
            continue
        other = place
        if isinstance(item, AssistantMessage):
            for part in item.content:
                if isinstance(part, ToolCall):
                    open_calls[part.id] = place
    if not late:
        return items
    moved = {id(item) for results in late.values() for item in results}
    kept: list[Message] = []
    for place, item in enumerate(items):
        kept += [] if id(item) in moved else [item]
        kept += late.get(place, ())
    return kept


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
    items = list(history)
    kept: list[Message] = []
    position = 0
    while position < len(items):
        item = items[position]
        position += 1
        results: list[ToolMessage] = []
        while isinstance(item, AssistantMessage) and position < len(items):
            follower = items[position]
            if not isinstance(follower, ToolMessage):
                break
            results.append(follower)
            position += 1
        failed = {result.call_id for result in results if result.name in _LOOKUPS and result.error in _PASSING}
        if failed and isinstance(item, AssistantMessage):
            # Reasoning is signed together with its calls; it goes where one of them goes.
            parts = (part for part in item.content if not isinstance(part, Thinking))
            item = replace(
                item, content=tuple(part for part in parts if isinstance(part, Text) or part.id not in failed)
            )
        if item.content:
            kept.append(item)
        kept.extend(result for result in results if result.call_id not in failed)
    return tuple(kept)


def speakers(messages: Iterable[Message]) -> tuple[Role, ...]:
    """The roles of the people who speak in these messages."""
    return tuple(one.speaker for one in messages if isinstance(one, UserMessage) and one.kind != "notice")


def seen_by(role: Role, history: Iterable[Message], session: str = "") -> tuple[Message, ...]:
    """`history` as a turn of this role may see it: a conversation may be that of many people.

    Of the turns of people with more rights it sees what the chat has seen, their words and the answers: no calls, no
    results, no reasoning. What people with fewer rights have said stands as content from outside, in marks that stay
    the same within a session.
    """
    kept: list[Message] = []
    for turn in _turns(history):
        by = least(*speakers(turn)) if speakers(turn) else "owner"
        if ROLES.index(by) <= ROLES.index(role):
            kept += [_overheard(one, role, session) for one in turn]
        else:
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
    content = _filled(item.content)
    if not content:
        return
    last = made[-1] if made else None
    if isinstance(last, UserMessage):
        made[-1] = replace(last, content=(*last.content, *_apart(content)))
    else:
        made.append(item if content == item.content else replace(item, content=content))


def _add_assistant(made: list[Message], item: AssistantMessage, results: Sequence[ToolMessage], wire: str) -> None:
    content, renamed = _legal_parts(item.content, wire)
    if all(isinstance(part, Thinking) for part in content):
        return
    if not made:
        made.append(UserMessage((Text(EARLIER),), kind="notice"))
    last = made[-1]
    if isinstance(last, AssistantMessage):
        made[-1] = replace(last, content=(*last.content, *_apart(content)))
    else:
        made.append(item if content == item.content else replace(item, content=content))
    free = list(results)
    for old, call in renamed:
        for place, result in enumerate(free):
            if result.call_id == old:
                made.append(_legal_result(free.pop(place), call))
                break
        else:
            made.append(ToolMessage(call.id, call.name, (Text(INTERRUPTED),), "cancelled"))


def _legal_parts(
    content: tuple[AssistantPart, ...], wire: str
) -> tuple[tuple[AssistantPart, ...], list[tuple[str, ToolCall]]]:
    """The parts that may be sent, and every call beside the id under which its result was stored."""
    kept: list[AssistantPart] = []
    calls: list[tuple[str, ToolCall]] = []
    taken: set[str] = set()
    for part in content:
        if isinstance(part, ToolCall):
            call = _legal_call(part, len(taken), taken)
            taken.add(call.id)
            calls.append((part.id, call))
            kept.append(call)
        elif isinstance(part, Thinking):
            if not wire or part.origin in {"", wire}:
                kept.append(part)
        elif part.text.strip():
            kept.append(part)
    return tuple(kept), calls


def _legal_call(call: ToolCall, slot: int, taken: set[str]) -> ToolCall:
    unique = _free_id(call.id, slot, taken)
    arguments = call.arguments if not call.arguments or _is_object(call.arguments) else "{}"
    name = call.name or "unknown"
    if (unique, arguments, name) == (call.id, call.arguments, call.name):
        return call
    return replace(call, id=unique, arguments=arguments, name=name)


def _free_id(wanted: str, slot: int, taken: set[str]) -> str:
    free = wanted or f"call_{slot}"
    while free in taken:
        free = f"{free}_{slot}"
    return free


def _legal_result(result: ToolMessage, call: ToolCall) -> ToolMessage:
    content = _filled(result.content) or (Text(_EMPTY),)
    if (content, result.call_id, result.name) == (result.content, call.id, call.name):
        return result
    return replace(result, content=content, call_id=call.id, name=call.name)


def _filled(content: tuple[UserPart, ...]) -> tuple[UserPart, ...]:
    """The parts without blank texts."""
    blank = [part for part in content if isinstance(part, Text) and not part.text.strip()]
    return tuple(part for part in content if part not in blank) if blank else content


def _apart(content: tuple[_Part, ...]) -> tuple[_Part, ...]:
    """The parts with a blank line before their text, to follow other parts."""
    first = content[0]
    # A part of blanks alone would be refused by some services, so the blank line goes into the text.
    return (replace(first, text=f"\n\n{first.text}"), *content[1:]) if isinstance(first, Text) else content


@lru_cache(maxsize=4_096)
def _is_object(arguments: str) -> bool:
    try:
        return isinstance(json.loads(arguments), dict)
    except (ValueError, RecursionError):
        return False
