"""The types of the vendors' own SDKs, which take seconds to load: imported by the tests that judge by them."""

from collections.abc import Iterator
from typing import get_args

from anthropic.types import RawMessageStreamEvent, StopReason
from anthropic.types.message_create_params import MessageCreateParamsStreaming
from anthropic.types.model import Model
from anthropic.types.raw_content_block_delta import RawContentBlockDelta
from anthropic.types.raw_content_block_start_event import ContentBlock
from openai.types.chat import ChatCompletionChunk
from openai.types.chat.completion_create_params import CompletionCreateParamsStreaming
from openai.types.shared.chat_model import ChatModel
from pydantic import TypeAdapter

#: What each vendor offers today.
NAMES: dict[str, tuple[str, ...]] = {"openai": get_args(ChatModel), "anthropic": get_args(get_args(Model)[0])}
#: Wire → the body of a request, and an event of a stream.
BODIES: dict[str, TypeAdapter[object]] = {
    "chat": TypeAdapter(CompletionCreateParamsStreaming),
    "messages": TypeAdapter(MessageCreateParamsStreaming),
}
EVENTS: dict[str, TypeAdapter[object]] = {
    "chat": TypeAdapter(ChatCompletionChunk),
    "messages": TypeAdapter(RawMessageStreamEvent),
}


def kinds(union: object) -> Iterator[str]:
    """The `type` of every class in a union of the SDK."""
    for part in get_args(union):
        fields = getattr(part, "model_fields", None)
        if fields and "type" in fields:
            yield from get_args(fields["type"].annotation)
        else:
            yield from kinds(part)


#: Of the wire `messages`: why an answer ends, and what it can be made of.
STOP_REASONS: tuple[str, ...] = get_args(StopReason)
BLOCKS, DELTAS = {*kinds(ContentBlock)}, {*kinds(RawContentBlockDelta)}
_CHOICE = ChatCompletionChunk.model_fields["choices"].annotation
_REASONS = [one for one in get_args(get_args(_CHOICE)[0].model_fields["finish_reason"].annotation) if get_args(one)]
#: Why an answer of the wire `chat` ends.
FINISH_REASONS: tuple[str, ...] = get_args(_REASONS[0])
