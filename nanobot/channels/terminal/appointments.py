"""Brings what comes of jobs to the terminal: rows of the outbox, which are printed when a terminal is open."""

import asyncio

from loguru import logger

from nanobot.bus.events import (
    TERMINAL,
    Address,
    CommandReply,
    InboundMessage,
    MessageBus,
    OutboundMessage,
    Sender,
    TurnFinished,
)
from nanobot.channels.base import answer_text, terminal_lines
from nanobot.errors import StoreError
from nanobot.session.database import DISK_PAUSE
from nanobot.session.ledger import Ledger
from nanobot.session.rows import OutboxItem, OutboxRow


class TerminalReports:
    """Meets `agent.work.runs.Reports`. A text stands in the outbox before it is printed, so that none is lost."""

    def __init__(self, ledger: Ledger, bus: MessageBus) -> None:
        self._ledger = ledger
        self._bus = bus
        self._work = asyncio.Event()

    async def sender(self, person: str) -> Sender | None:
        """Whoever sits at the terminal owns the machine."""
        return Sender("local", role="owner") if person == f"{TERMINAL.channel}:local" else None

    async def line(self, address: Address, key: str, text: str) -> tuple[OutboxItem, ...]:
        return terminal_lines(address, key, text)

    async def answer(self, message: InboundMessage, finished: TurnFinished) -> tuple[OutboxItem, ...]:
        return terminal_lines(message.address, message.id, answer_text(finished))

    async def place(self, address: Address) -> Address:
        return address

    def wake(self) -> None:
        self._work.set()

    async def run(self) -> None:
        """Print until cancelled, also what came while no terminal was open."""
        self._work.set()
        await self._ledger.recover(TERMINAL.channel)
        while True:
            await self._work.wait()
            self._work.clear()
            try:
                for row in await self._ledger.due(TERMINAL.channel):
                    await self._print(row)
            except StoreError as error:
                logger.error("what came of the schedule cannot be read and is tried again: {}", error)
                await asyncio.sleep(DISK_PAUSE)
                self._work.set()

    async def _print(self, row: OutboxRow) -> None:
        if await self._ledger.begin(row.seq):
            again = "↻ " if row.state == "unknown" else ""
            event = CommandReply("schedule", again + row.item.payload, row.item.turn)
            await self._bus.publish_outbound(OutboundMessage(TERMINAL, event))
            await self._ledger.ack(row.seq)
