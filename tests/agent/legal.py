"""What both model wires demand of a conversation, stated on its own."""

import json

from nanobot.messages import AssistantMessage, Message, Text, ToolCall, ToolMessage, UserMessage


def assert_legal(messages: tuple[Message, ...]) -> None:
    """Fail where a strict server of either wire would answer 400."""
    assert messages, "no messages at all"
    assert isinstance(messages[0], UserMessage), "the first word is not a user's"
    assert not isinstance(messages[-1], AssistantMessage), "the last word is the assistant's"
    open_calls: list[ToolCall] = []
    before: Message | None = None
    for message in messages:
        if isinstance(message, ToolMessage):
            assert open_calls, "a result without a call, or one too many"
            call = open_calls.pop(0)
            assert (message.call_id, message.name) == (call.id, call.name), "results are not in call order"
        else:
            assert not open_calls, f"no result right after {open_calls}"
            assert before is None or before.role != message.role, f"two {message.role} messages in a row"
        assert message.content, "no content"
        assert all(not isinstance(part, Text) or part.text.strip() for part in message.content), "blank content"
        if isinstance(message, AssistantMessage):
            assert any(isinstance(part, Text | ToolCall) for part in message.content), "thinking alone"
            open_calls = list(message.calls)
            assert len({call.id for call in open_calls}) == len(open_calls), "the same id twice"
            for call in open_calls:
                assert call.id
                assert call.name
                assert isinstance(json.loads(call.arguments or "{}"), dict), "arguments that are no object"
        before = message
    assert not open_calls, f"no result for {open_calls}"
