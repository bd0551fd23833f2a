"""Messages as JSON text, the form in which a session keeps them."""

from functools import cache
from typing import Annotated

from pydantic import Field, TypeAdapter, ValidationError

from nanobot.errors import StoreError
from nanobot.messages import AssistantMessage, Message, ToolMessage, UserMessage

_Stored = Annotated[UserMessage | AssistantMessage | ToolMessage, Field(discriminator="role")]


@cache
def _adapter() -> TypeAdapter[UserMessage | AssistantMessage | ToolMessage]:
    # Built on first use: it costs milliseconds, and a memory session never needs it.
    return TypeAdapter(_Stored)


def encode(message: Message) -> str:
    """One message as one line of JSON. Lone surrogates, which no JSON reader takes back, are replaced."""
    try:
        return _adapter().dump_json(message).decode()
    except ValueError:
        return _adapter().dump_json(_adapter().validate_python(_clean(_adapter().dump_python(message)))).decode()


def decode(text: str) -> Message:
    """The message of a line. Raises `StoreError` for anything that `encode` does not make; unknown keys are ignored."""
    try:
        return _adapter().validate_json(text)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"]) or "the line"
        raise StoreError(f"a stored message cannot be read: {place}: {first['msg']}") from error


def _clean(value: object) -> object:
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, dict):
        return {key: _clean(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_clean(item) for item in value]
    return value
