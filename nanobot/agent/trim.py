"""Makes a conversation fit a context window without asking a model: the same input gives the same cut."""

from collections.abc import Sequence

from msgspec.structs import replace

from nanobot.messages import AssistantMessage, Media, Message, Text, ToolMessage, UserMessage
from nanobot.providers.base import ToolSpec
from nanobot.session.window import first_kept
from nanobot.utils.text import shorten

IMAGE_TOKENS = 1_500
#: What a token of text is taken for everywhere; errs on the high side for English.
BYTES_PER_TOKEN = 3
_OVERHEAD = 8
#: How far each rung of the ladder cuts old tool results, and then those of the running turn, in characters.
_OLD_RESULT = 400
_RUNNING_RESULTS = (8_000, 2_000, 500)
_LONG_TEXT = 20_000


def estimate_text(text: str) -> int:
    """Tokens of a text, estimated without a vocabulary."""
    return (len(text) if text.isascii() else len(text.encode("utf-8", "ignore"))) // BYTES_PER_TOKEN


def estimate(message: Message) -> int:
    """Tokens of one message."""
    total = _OVERHEAD
    for part in message.content:
        if isinstance(part, Media):
            total += IMAGE_TOKENS
        elif part.type == "tool_call":
            total += estimate_text(part.name) + estimate_text(part.arguments) + _OVERHEAD
        else:
            total += estimate_text(part.text)
    return total


def estimate_all(messages: Sequence[Message], system: str = "", tools: Sequence[ToolSpec] = ()) -> int:
    """Tokens of a whole request: messages, system prompt and tool schemas."""
    schemas = sum(estimate_text(f"{tool.name}{tool.description}{tool.schema}") for tool in tools)
    return sum(map(estimate, messages)) + estimate_text(system) + schemas


def window_of(history: Sequence[Message], limit: int) -> tuple[Message, ...]:
    """The newest turns of `history` within `limit` tokens; the cut moves in jumps, as `first_kept` has it."""
    starts = [index for index, message in enumerate(history) if isinstance(message, UserMessage)]
    ends = [*starts[1:], len(history)]
    sizes = [sum(map(estimate, history[start:end])) for start, end in zip(starts, ends, strict=True)] if starts else []
    first = first_kept(sizes, limit)
    return tuple(history[starts[first] :]) if first else tuple(history)


def trim(history: Sequence[Message], turn: Sequence[Message], limit: int) -> tuple[tuple[Message, ...], list[Message]]:
    """`history` and the running `turn` made smaller, rung by rung, until both are within `limit` tokens.

    First old tool results shrink, then the oldest turns go, then the results and at last the texts of the running turn.
    """
    short = tuple(_cut_result(message, _OLD_RESULT) for message in history)
    running = list(turn)
    if _sum(short, running) <= limit:
        return short, running
    kept = window_of(short, max(0, limit - _sum((), running)))
    if _sum(kept, running) > limit:
        kept = ()
    for width in _RUNNING_RESULTS:
        if _sum(kept, running) <= limit:
            break
        running = [_cut_result(message, width) for message in running]
    if _sum(kept, running) > limit:
        width = max(200, min(_LONG_TEXT, limit * 2 // max(1, len(running))))
        running = [_cut_text(message, width) for message in running]
    return kept, running


def cut_result_text(text: str, limit: int) -> str:
    """A tool's text with at most `limit` characters and a note about what is missing."""
    if len(text) <= limit:
        return text
    return f"{text[:limit]}\n\n[Cut: the first {limit} of {len(text)} characters are shown. Ask for less at a time.]"


def _sum(history: Sequence[Message], turn: Sequence[Message]) -> int:
    return sum(map(estimate, history)) + sum(map(estimate, turn))


def _cut_result(message: Message, width: int) -> Message:
    return _cut_text(message, width) if isinstance(message, ToolMessage) else message


def _cut_text(message: Message, width: int) -> Message:
    if isinstance(message, AssistantMessage) or all(
        not isinstance(part, Text) or len(part.text) <= width for part in message.content
    ):
        return message
    parts = tuple(
        replace(part, text=shorten(part.text, width)) if isinstance(part, Text) else part for part in message.content
    )
    return replace(message, content=parts)
