"""What showing a turn needs: how a chat wants to see it, and a part of an answer before its text is final."""

from typing import Literal

from msgspec import Struct

from nanobot.bus.events import Address
from nanobot.channels.telegram.render.screen_messages import STATUS_PART, MessageSlot, ScreenMessage
from nanobot.channels.telegram.send.calls import Place, Sending
from nanobot.command.settings import ChatSettings
from nanobot.errors import StoreError
from nanobot.session.ledger import OutboxItem

SendOutcome = Literal["shown", "later", "never"]


class Look(Struct, frozen=True):
    """What a chat wants to see, by `command.settings.CHOICES`."""

    hints: str = "live"
    streaming: str = "edit"


async def look_of(chats: ChatSettings, chat: str) -> Look:
    """How the chat of this address key wants to see a turn."""
    return Look(await chats.get(chat, "hints"), await chats.get(chat, "streaming"))


async def send_part(
    sending: Sending, address: Address, key: tuple[str, int], screen: ScreenMessage, slot: MessageSlot
) -> SendOutcome:
    """Show the status of a turn, or a part of its answer before its text is final. The queue is held, the call counted.

    Its row in the ledger is written just before it leaves, so that another process finds the message and goes on with
    it. An answer stands below every earlier one; a status may stand above one that is still owed to the chat.
    """
    (turn, number), fresh = key, not slot.row
    status = number == STATUS_PART
    if fresh and await _left_unsure(sending, key, slot) and not status:
        return "never"
    refused: SendOutcome | None = None

    async def draft() -> None:
        nonlocal refused
        item = OutboxItem(turn, number, sending.channel, address.chat, sending.slots.token, address.thread)
        row = await sending.ledger.draft(item)
        if row is not None:
            slot.row = row.seq
        if not status and (row is None or row.state != "draft"):  # an earlier one is owed, or its final text is there
            refused = "later" if row is None else "never"
            raise StoreError("it is not to be shown now")

    place, known = Place(address.chat, address.thread), slot.message_id
    try:
        outcome = await sending.calls.show(place, screen, known, before=None if slot.row and known else draft)
    except StoreError:
        if refused is None:
            raise
        return refused
    if isinstance(outcome, int):
        slot.message_id, slot.screen = outcome, screen
        if slot.row and (fresh or outcome != known):
            await sending.ledger.bind(slot.row, str(outcome))
        return "shown"
    if outcome == "maybe_sent":
        slot.screen = None
        slot.unsure = slot.unsure or not slot.message_id
    retried = outcome in {"flood", "not_sent"} or (outcome == "maybe_sent" and slot.message_id)
    return "later" if retried else "never"


async def _left_unsure(sending: Sending, key: tuple[str, int], slot: MessageSlot) -> bool:
    """Whether a process that died may have sent this part; its message is taken over where it is known."""
    turn, number = key
    for row in await sending.ledger.drafts(turn):
        if row.item.part == number and row.item.payload != sending.slots.token:
            slot.message_id = slot.message_id or (int(row.message_id) if row.message_id.isdigit() else 0)
            slot.unsure = not slot.message_id
    return slot.unsure
