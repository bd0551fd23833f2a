"""What showing a turn needs: how a chat wants to see it, and a part of an answer before its text is final."""

from dataclasses import dataclass
from typing import Literal, Protocol, get_args

from nanobot.bus.events import Address
from nanobot.channels.telegram.calls import Calls, Place
from nanobot.channels.telegram.frames import Frame, Slots
from nanobot.channels.telegram.lane import Lanes
from nanobot.channels.telegram.settings import Hints, Streaming
from nanobot.command.settings import SettingsControl
from nanobot.session.ledger import Ledger, OutboxItem

SendOutcome = Literal["shown", "later", "never"]
_HINTS: dict[str, Hints] = {name: name for name in get_args(Hints)}
_STREAMING: dict[str, Streaming] = {name: name for name in get_args(Streaming)}


@dataclass(frozen=True, slots=True)
class Look:
    """What a chat wants to see."""

    hints: Hints = "live"
    streaming: Streaming = "edit"


class Looks(Protocol):
    async def look(self, chat: str) -> Look:
        """The look of the chat with this address key."""


class ChatLooks:
    """Meets `Looks` by the settings of chats."""

    def __init__(self, chats: SettingsControl) -> None:
        self._chats = chats

    async def look(self, chat: str) -> Look:
        hints, streaming = await self._chats.get(chat, "hints"), await self._chats.get(chat, "streaming")
        return Look(_HINTS.get(hints, "live"), _STREAMING.get(streaming, "edit"))


@dataclass(frozen=True, slots=True)
class PainterParts:
    """What a painter works with. `channel` is the bot's name in the ledger."""

    ledger: Ledger
    channel: str
    calls: Calls
    lanes: Lanes
    slots: Slots
    looks: Looks


async def send_part(parts: PainterParts, address: Address, key: tuple[str, int], frame: Frame) -> SendOutcome:
    """Show a part of an answer before its text is final. The lane is held and the call counted.

    Its row in the ledger comes first, so that another process finds the message and goes on with it.
    """
    turn, number = key
    slot = parts.slots.slot(turn, number)
    item = OutboxItem(turn, number, parts.channel, address.chat, parts.slots.token, address.thread)
    row = await parts.ledger.draft(item)
    if row.state != "draft":
        return "never"
    slot.row = row.seq
    if row.item.payload != parts.slots.token and not row.message_id and not slot.message_id:
        slot.unsure = True  # another process died while it sent this
        return "never"
    slot.message_id = slot.message_id or (int(row.message_id) if row.message_id.isdigit() else 0)
    outcome = await parts.calls.show(Place(address.chat, address.thread), frame, slot.message_id)
    if isinstance(outcome, int):
        fresh = outcome != slot.message_id
        slot.message_id, slot.frame = outcome, frame
        if fresh:
            await parts.ledger.bind(row.seq, str(outcome))
        return "shown"
    if outcome in {"flood", "not_sent"}:
        return "later"
    if outcome == "maybe_sent":
        slot.frame = None
        slot.unsure = slot.unsure or not slot.message_id
        return "later" if slot.message_id else "never"
    return "never"
