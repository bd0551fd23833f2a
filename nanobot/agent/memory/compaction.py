"""Long conversations: what was said first becomes a summary, and what was said last stays as it was.

Nothing is deleted: a summary is a record of its own, and an empty one takes it back.
"""

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime

from msgspec import Struct
from msgspec.structs import replace

from nanobot.agent.context import estimate_all
from nanobot.agent.history import foreign_in, forget_failures, seen_by
from nanobot.agent.tools.base import Ask
from nanobot.messages import ROLES, AssistantMessage, Media, Message, Role, Text, ToolMessage, UserMessage
from nanobot.session.store import COPIED, FORGOTTEN, Record, SessionStore
from nanobot.utils.text import shorten

#: The share of the model's window beyond which a conversation is summed up, and that which its last turns may keep.
FULL, TAIL = 0.8, 0.25
#: The share that a summary has to save, and by which a conversation that could not be summed up has to grow.
LEAST_SAVED = 0.2
#: Words of a summary for each 1,000 tokens of the window, and their bounds.
_WORDS_A_THOUSAND, _FEWEST_WORDS, _MOST_WORDS = 20, 150, 1_500
#: Characters of a result of a tool, and of a text, that a summary is made from.
_RESULT, _SAID = 1_500, 12_000
#: Requests for one summary; of what is longer than that the oldest part is left out.
_MOST_PARTS = 6
# English: they stand in the conversation, which a model reads
_TAKEN_AWAY = "[Taken away by the person.]"
_EARLIER = "Summary of the earlier conversation, which is no longer shown:\n\n"  # English: see above


class Shown(Struct, frozen=True):
    """What is shown of a session: its earlier summary, if any, and its turns from the oldest on with their records."""

    summary: UserMessage | None
    turns: tuple[tuple[int, tuple[Message, ...]], ...]

    @property
    def tokens(self) -> int:
        said = [message for _, turn in self.turns for message in turn]
        return estimate_all([self.summary, *said] if self.summary else said)

    def tail(self, limit: int) -> int:
        """How many of the newest turns fit into `limit` tokens; the newest one may take twice as much."""
        count, total = 0, 0
        for _, turn in reversed(self.turns):
            total += estimate_all(turn)
            if total > (limit if count else 2 * limit):
                break
            count += 1
        return count


class Compacted(Struct, frozen=True):
    """A summary in the place of what came before the record `keep`; sizes in tokens, `turns` are those that stay."""

    summary: UserMessage
    keep: int
    before: int
    after: int
    turns: int


def shown_of(records: Sequence[Record], role: Role, session: str) -> Shown:
    """What somebody of `role` may see of these records, by turn."""
    first = records[0].message if records and records[0].kind == "compaction" else None
    turns: list[tuple[int, list[Message]]] = []
    for record in records[1:] if first else records:
        message = record.message
        if not turns or (isinstance(message, UserMessage) and message.kind == "user"):
            turns.append((record.seq, []))
        turns[-1][1].append(message)
    shown = ((seq, forget_failures(seen_by(role, turn, session, shared=False))) for seq, turn in turns)
    summary = first if isinstance(first, UserMessage) and ROLES.index(first.speaker) <= ROLES.index(role) else None
    return Shown(summary, tuple((seq, turn) for seq, turn in shown if turn))


def without_forgotten(records: Sequence[Record], forgets: Callable[[str, datetime], bool]) -> tuple[Record, ...]:
    """The records without the words and calls of messages that hold what the person has taken away."""

    def holds(record: Record) -> bool:
        message = record.message
        calls = [call.arguments for call in message.calls] if isinstance(message, AssistantMessage) else []
        return record.kind == "message" and any(forgets(text, record.at) for text in (message.text, *calls))

    return tuple(
        replace(record, message=replace(record.message, content=(Text(_TAKEN_AWAY),))) if holds(record) else record
        for record in records
    )


def words_for(window: int) -> int:
    """How long a summary may be in a window of so many tokens."""
    return max(_FEWEST_WORDS, min(_MOST_WORDS, window // 1_000 * _WORDS_A_THOUSAND))


async def sum_up(shown: Shown, ask: Ask, task: str, *, room: int, tail: int, focus: str = "") -> Compacted | None:
    """Sum up what `shown` shows but for its newest turns, which fit into `tail` tokens; None where nothing is left.

    `task` is the system prompt of the request, `room` the bytes that one may hold, `focus` what the person wants kept
    who asks for it, when half of the turns stay at most. Raises `ProviderError`, and then nothing has changed.
    """
    kept = min(shown.tail(tail), len(shown.turns) // 2 if focus else len(shown.turns))
    old = shown.turns[: len(shown.turns) - kept]
    if not old:
        return None
    said = [line for _, turn in old for line in _told(turn)]
    before = shown.summary.text if shown.summary is not None else ""
    for part in _parts([_within(line, room // 2) for line in said], room // 2):
        before = await ask(task, _request(_within(before, room // 3), part, focus))
    untrusted = bool(shown.summary and shown.summary.untrusted)
    untrusted = untrusted or any(foreign_in((message for _, turn in old for message in turn), "guest"))
    text = f"{_EARLIER}{before.removeprefix(_EARLIER.strip()).strip()}"
    summary = UserMessage((Text(text),), kind="notice", untrusted=untrusted)
    rest = shown.turns[len(old) :]
    after = estimate_all([summary, *(message for _, turn in rest for message in turn)])
    return Compacted(summary, rest[0][0] if rest else 0, shown.tokens, after, kept)


async def take_back(store: SessionStore, session: str) -> int:
    """Show again what the newest summary of a session hides; the number of its record, or 0 where none counts now.

    None counts after a call has changed something, which `/undo` takes back first.
    """
    hiding = await store.hiding(session)
    newest = hiding[-1] if hiding else None
    # Before what a branch begins with there is nothing, and what the person wanted forgotten does not come back.
    lasting = newest is not None and newest.turn in (COPIED, FORGOTTEN)
    if newest is None or lasting or newest.kind == "reset" or not newest.message.content:
        return 0
    since = await store.records(session, after=newest.seq)
    if any(isinstance(one.message, ToolMessage) and one.message.receipt for one in since):
        return 0
    earlier = hiding[-2] if len(hiding) > 1 else None
    summary, keep = UserMessage((), kind="notice"), 1
    if earlier is not None and earlier.kind == "reset":
        keep = earlier.seq + 1
    elif earlier is not None and isinstance(earlier.message, UserMessage):
        summary, keep = earlier.message, earlier.kept or earlier.seq + 1
    await store.compact(session, summary, keep)
    return newest.seq


def _told(turn: Sequence[Message]) -> Iterator[str]:
    """A turn as text: who said what, which calls were made and what they brought."""
    for message in turn:
        if isinstance(message, ToolMessage):
            yield f"[Result of {message.name}] {shorten(message.text, _RESULT)}"
            continue
        who = "Person" if isinstance(message, UserMessage) else "You"
        if isinstance(message, AssistantMessage):
            yield from (f"[You called {call.name}] {shorten(call.arguments, _RESULT)}" for call in message.calls)
        media = [f"[{part.name or part.mime}]" for part in message.content if isinstance(part, Media)]
        said = " ".join([*media, shorten(message.text, _SAID)]).strip()
        if said:
            yield f"{who}: {said}"


def _within(text: str, size: int) -> str:
    """The text with at most so many bytes: its beginning and a mark where it was cut."""
    data = text.encode("utf-8", "replace")
    return text if len(data) <= size else f"{data[: size - 4].decode('utf-8', 'ignore')} …"


def _parts(lines: Sequence[str], room: int) -> list[str]:
    """The lines in order, in texts of at most `room` bytes each; the newest of them where there are too many."""
    parts: list[list[str]] = [[]]
    size = 0
    for line in lines:
        line_size = len(line.encode("utf-8", "replace")) + 2
        if parts[-1] and size + line_size > room:
            parts.append([])
            size = 0
        parts[-1].append(line)
        size += line_size
    return ["\n\n".join(part) for part in parts[-_MOST_PARTS:]]


def _request(before: str, part: str, focus: str) -> str:
    # English: a model reads it
    wished = f"The person asks you to keep above all: {focus}\n\n" if focus else ""
    earlier = f"<earlier-summary>\n{before}\n</earlier-summary>\n\n" if before else ""
    return f"{wished}{earlier}<conversation>\n{part}\n</conversation>"
