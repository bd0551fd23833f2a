"""The plainest sending that works: whole answers, one message at a time, retried until they arrive or are refused."""

import asyncio
import json
from datetime import timedelta

from loguru import logger
from telegram import MessageEntity
from telegram.error import BadRequest, Forbidden, InvalidToken, RetryAfter, TelegramError

from nanobot.bus.events import Address, InboundMessage, OutboundMessage, TurnFinished
from nanobot.channels.telegram.markup import render
from nanobot.channels.telegram.seams import Line
from nanobot.channels.telegram.split import split
from nanobot.session.ledger import Ledger, OutboxItem, OutboxRow
from nanobot.session.ledger_memory import now


#: Marks a message that may be there twice.
AGAIN = "\n\n(Sent again: the first one may not have arrived.)"


class PlainPainter:
    """Shows nothing while a turn runs."""

    async def show(self, message: OutboundMessage) -> None:
        del message

    async def run(self) -> None:
        await asyncio.Event().wait()


class PlainOutbox:
    """Meets `seams.Outbox`. A message that may have arrived is sent again with a mark."""

    def __init__(self, ledger: Ledger, channel: str, line: Line) -> None:
        self._ledger = ledger
        self._channel = channel
        self._line = line
        self._work = asyncio.Event()
        self._idle = asyncio.Event()

    def compose(self, message: InboundMessage, finished: TurnFinished) -> tuple[OutboxItem, ...]:
        text = finished.text or finished.error or ("Stopped." if finished.outcome == "cancelled" else "Done.")
        parts = split(render(text))
        return tuple(
            self._item(
                message.address,
                message.id,
                number,
                part.text,
                [
                    {
                        "type": one.type,
                        "offset": one.offset,
                        "length": one.length,
                        **({"url": one.url} if one.url else {}),
                    }
                    for one in part.entities
                ],
            )
            for number, part in enumerate(parts)
        )

    def compose_text(self, address: Address, turn: str, text: str) -> OutboxItem:
        return self._item(address, turn, 0, render(text).text, [])

    def wake(self) -> None:
        self._work.set()

    async def run(self) -> None:
        while True:
            self._work.clear()
            rows = await self._ledger.lease(self._channel)
            for row in rows:
                await self._send(row)
            if not rows:
                self._idle.set()
                try:
                    async with asyncio.timeout(1.0):
                        await self._work.wait()
                except TimeoutError:
                    continue
                finally:
                    self._idle.clear()

    async def drain(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                while await self._ledger.pending(self._channel):
                    self.wake()
                    await asyncio.sleep(0.05)
        except TimeoutError:
            logger.warning("some messages were not delivered in time; they go out at the next start")

    def _item(self, address: Address, turn: str, part: int, text: str, entities: list[dict[str, object]]) -> OutboxItem:
        payload = json.dumps({"text": text, "entities": entities}, ensure_ascii=False)
        return OutboxItem(turn, part, self._channel, address.chat, payload, address.thread)

    async def _send(self, row: OutboxRow) -> None:
        wanted = json.loads(row.item.payload)
        try:
            sent = await self._line.bot.send_message(
                int(row.item.chat),
                wanted["text"] + (AGAIN if row.state == "unknown" else ""),
                entities=MessageEntity.de_list(wanted["entities"], self._line.bot),
                message_thread_id=int(row.item.thread) if row.item.thread else None,
            )
            await self._ledger.ack(row.seq, str(sent.message_id))
        except RetryAfter as error:
            wait = error._retry_after  # noqa: SLF001 - the public property warns about its own change of type
            await self._ledger.postpone(row.seq, now() + wait)
        except (BadRequest, Forbidden, InvalidToken) as error:
            await self._ledger.fail(row.seq, type(error).__name__)
        except TelegramError:
            await self._ledger.postpone(row.seq, now() + timedelta(seconds=min(60, 2**row.attempts)))
