"""Messages as JSON text, the form in which a session keeps them."""

import msgspec

from nanobot.errors import StoreError
from nanobot.messages import AssistantMessage, Message, ToolMessage, UserMessage
from nanobot.utils.translation import _

_ENCODER = msgspec.json.Encoder()
_DECODER = msgspec.json.Decoder(UserMessage | AssistantMessage | ToolMessage)


def encode(message: Message) -> str:
    """One message as one line of JSON. Lone surrogates, which no JSON reader takes back, are replaced."""
    try:
        return _ENCODER.encode(message).decode()
    except UnicodeEncodeError:
        return _ENCODER.encode(_clean(msgspec.to_builtins(message))).decode()


def decode(text: str) -> Message:
    """The message of a line. Raises `StoreError` for anything that `encode` does not make; unknown keys are ignored."""
    try:
        message: Message = _DECODER.decode(text)
    except (msgspec.DecodeError, UnicodeEncodeError) as error:
        raise StoreError(_("a stored message cannot be read: {why}", why=error)) from error
    return message


def _clean(value: object) -> object:
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, dict):
        return {key: _clean(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_clean(item) for item in value]
    return value
