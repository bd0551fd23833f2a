"""Those that send, on common ground: the painter while a turn runs, the outbox for what must arrive, refusals."""

from collections.abc import Callable
from datetime import datetime

from msgspec import Struct, field

from nanobot.bus.alarms import Alarms
from nanobot.channels.telegram.calls import SHORT_SECONDS, Calls
from nanobot.channels.telegram.frames import Slots
from nanobot.channels.telegram.lane import Lanes
from nanobot.channels.telegram.outbox import OutboxParts, ReplyTo, TelegramOutbox, no_reply
from nanobot.channels.telegram.painter import TelegramPainter
from nanobot.channels.telegram.refusals import Refusals
from nanobot.channels.telegram.seams import Line
from nanobot.channels.telegram.showing import Looks, PainterParts
from nanobot.session.ledger import Ledger
from nanobot.session.ledger_memory import now


class Sending(Struct, frozen=True):
    """Meets `seams.Painter` by `painter` and `seams.Outbox` by `outbox`."""

    painter: TelegramPainter
    outbox: TelegramOutbox
    refusals: Refusals
    lanes: Lanes


class SendingParts(Struct, frozen=True):
    """What sending needs. `channel` is the bot's name in the ledger; `lanes` and `wall` bring the time."""

    ledger: Ledger
    channel: str
    line: Line
    looks: Looks
    reply_to: ReplyTo = no_reply
    lanes: Lanes = field(default_factory=Lanes)
    wall: Callable[[], datetime] = now
    alarms: Alarms = field(default_factory=Alarms)


def sending(parts: SendingParts) -> Sending:
    slots = Slots()
    short = Calls(parts.line, parts.lanes, SHORT_SECONDS)
    painter = PainterParts(parts.ledger, parts.channel, short, parts.lanes, slots, parts.looks)
    calls = Calls(parts.line, parts.lanes)
    outbox = OutboxParts(
        parts.ledger, parts.channel, calls, parts.lanes, slots, parts.reply_to, parts.wall, parts.alarms
    )
    return Sending(TelegramPainter(painter), TelegramOutbox(outbox), Refusals(calls, parts.lanes), parts.lanes)
