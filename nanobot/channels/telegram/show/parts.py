"""What showing a turn needs: how a chat wants to see it, and a part of an answer before its text is final."""

from typing import Literal, Protocol, get_args

from msgspec import Struct

from nanobot.bus.events import Address
from nanobot.channels.telegram.render.screen_messages import ScreenMessage, Slots
from nanobot.channels.telegram.send.calls import Calls, Place
from nanobot.channels.telegram.send.pacing import ChatQueues
from nanobot.channels.telegram.settings import Hints, Streaming
from nanobot.command.settings import ChatSettings
from nanobot.errors import StoreError
from nanobot.session.ledger import Ledger, OutboxItem

SendOutcome = Literal["shown", "later", "never"]
_HINTS: dict[str, Hints] = {name: name for name in get_args(Hints)}
_STREAMING: dict[str, Streaming] = {name: name for name in get_args(Streaming)}


class Look(Struct, frozen=True):
    """What a chat wants to see."""

    hints: Hints = "live"
    streaming: Streaming = "edit"


class Looks(Protocol):
    async def look(self, chat: str) -> Look:
        """The look of the chat with this address key."""


class ChatLooks:
    """Meets `Looks` by the settings of chats."""

    def __init__(self, chats: ChatSettings) -> None:
        self._chats = chats

    async def look(self, chat: str) -> Look:
        hints, streaming = await self._chats.get(chat, "hints"), await self._chats.get(chat, "streaming")
        return Look(_HINTS.get(hints, "live"), _STREAMING.get(streaming, "edit"))


class ProgressParts(Struct, frozen=True):
    """What a progress renderer works with. `channel` is the bot's name in the ledger."""

    ledger: Ledger
    channel: str
    calls: Calls
    queues: ChatQueues
    slots: Slots
    looks: Looks


async def send_part(parts: ProgressParts, address: Address, key: tuple[str, int], screen: ScreenMessage) -> SendOutcome:
    """Show a part of an answer before its text is final. The queue is held and the call counted.

    Its row in the ledger is written just before it leaves, so that another process finds the message and goes on with
    it.
    """
    turn, number = key
    slot = parts.slots.slot(turn, number)
    if not slot.row and await _left_unsure(parts, key):
        return "never"
    refused: SendOutcome | None = None

    async def draft() -> None:
        nonlocal refused
        item = OutboxItem(turn, number, parts.channel, address.chat, parts.slots.token, address.thread)
        row = await parts.ledger.draft(item)
        if row is not None:
            slot.row = row.seq
        if row is None or row.state != "draft":  # what came before it is not there yet, or its final text is
            refused = "later" if row is None else "never"
            raise StoreError("it is not to be shown now")

    place, known = Place(address.chat, address.thread), slot.message_id
    try:
        outcome = await parts.calls.show(place, screen, known, before=None if slot.row and known else draft)
    except StoreError:
        if refused is None:
            raise
        return refused
    if isinstance(outcome, int):
        slot.message_id, slot.screen = outcome, screen
        if outcome != known:
            await parts.ledger.bind(slot.row, str(outcome))
        return "shown"
    if outcome == "maybe_sent":
        slot.screen = None
        slot.unsure = slot.unsure or not slot.message_id
    retried = outcome in {"flood", "not_sent"} or (outcome == "maybe_sent" and slot.message_id)
    return "later" if retried else "never"


async def _left_unsure(parts: ProgressParts, key: tuple[str, int]) -> bool:
    """Whether a process that died may have sent this part; its message is taken over where it is known."""
    turn, number = key
    slot = parts.slots.slot(turn, number)
    for row in await parts.ledger.drafts(turn):
        if row.item.part == number and row.item.payload != parts.slots.token:
            slot.message_id = slot.message_id or (int(row.message_id) if row.message_id.isdigit() else 0)
            slot.unsure = not slot.message_id
    return slot.unsure
