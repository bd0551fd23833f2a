"""Messages of the agent to chats of the bot, from the gateway or from another process with the same database."""

from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from nanobot.agent.tools.base import KnownChat
from nanobot.bus.events import Address, InboundMessage, Sender, TurnFinished
from nanobot.channels.base import answer_text, terminal_lines
from nanobot.channels.telegram.access.people import Access
from nanobot.channels.telegram.settings import CHANNEL, settings_of
from nanobot.config.schema import Config
from nanobot.messages import Media
from nanobot.session.ledger import Ledger
from nanobot.session.lock import home_lock
from nanobot.session.rows import OutboxItem
from nanobot.utils.translation import N_, _, speaking, spoken_at

if TYPE_CHECKING:
    from nanobot.channels.telegram.send.outbox import TelegramOutbox

#: Puts messages into the outbox, from where a gateway sends them. Raises `StoreError`.
Put = Callable[[tuple[OutboxItem, ...]], Awaitable[object]]
_WAITS = N_("it goes out when a gateway runs next; none runs now")


class TelegramMessages:
    """Meets `agent.tools.message.Messenger`: brings messages of the agent to people and groups of the bot.

    `channel` is the name of the bot in the ledger; `waits` tells why nothing goes out now, empty where it does.
    """

    def __init__(self, access: Access, channel: str, put: Put, waits: Callable[[], str] = lambda: "") -> None:
        self._access = access
        self._channel = channel
        self._put = put
        self._waits = waits

    async def chats(self) -> tuple[KnownChat, ...]:
        people = [KnownChat(Address(CHANNEL, one.id), one.name, one.role) for one in await self._access.people()]
        groups = [KnownChat(Address(CHANNEL, one.id), one.name) for one in await self._access.groups()]
        return (*people, *groups)

    async def deliver(self, address: Address, text: str, files: tuple[Media, ...], key: str) -> str:
        from nanobot.channels.telegram.render.answer import file_message, outbox_items, text_messages

        with speaking(spoken_at(address.key)):
            made = [*text_messages(text), *map(file_message, files)]
        await self._put(outbox_items(self._channel, address, key, made))
        return self._waits()


class TelegramReports:
    """Meets `agent.work.runs.Reports`: brings what comes of the schedule to people and groups of the bot.

    What is for a terminal goes to the owner while nobody sits there. Before the first, `recall` finds who speaks which
    language.
    """

    def __init__(self, access: Access, outbox: "TelegramOutbox", recall: Callable[[], Awaitable[None]]) -> None:
        self._access = access
        self._outbox = outbox
        self.recall = recall
        self._seated: Callable[[], bool] = lambda: False
        self._print: Callable[[], None] = lambda: None

    def beside(self, seated: Callable[[], bool], print_: Callable[[], None]) -> None:
        """There are terminals: whether somebody is `seated` at one, and what has the rows for them printed."""
        self._seated, self._print = seated, print_

    async def sender(self, person: str) -> Sender | None:
        """Somebody with the rights that they have now; None for strangers."""
        channel, _, name = person.partition(":")
        if channel != CHANNEL:
            return Sender(name, role="owner")
        known = await self._access.person(name)
        return Sender(name, known.name, known.role, known.granted) if known is not None else None

    async def line(self, address: Address, key: str, text: str) -> tuple[OutboxItem, ...]:
        place = await self._place(address)
        if place is None:
            return terminal_lines(address, key, text)
        return self._outbox.compose_text(place, key, text, urgent=False)

    async def answer(self, message: InboundMessage, finished: TurnFinished) -> tuple[OutboxItem, ...]:
        place = await self._place(message.address)
        if place is None:
            return terminal_lines(message.address, message.id, answer_text(finished))
        with speaking(spoken_at(place.key)):
            return self._outbox.compose(replace(message, address=place), finished)

    async def place(self, address: Address) -> Address:
        return await self._place(address) or address

    def wake(self) -> None:
        self._print()
        self._outbox.wake()

    async def _place(self, address: Address) -> Address | None:
        """Where what is for this address goes; None for a terminal, also where the bot has nobody to tell instead."""
        if address.channel == CHANNEL:
            return address
        owner = "" if self._seated() else await self._access.owner()
        return Address(CHANNEL, owner) if owner else None


def beside_the_gateway(config: Config, env: Mapping[str, str], ledger: Ledger, home: Path) -> TelegramMessages:
    """What a process that is no gateway hands to that of its home. Raises `UsageError` where the bot is not set up."""
    settings = settings_of(config.channels.telegram, env)
    access = Access(ledger, settings.channel, settings.allow_from)
    return TelegramMessages(access, settings.channel, ledger.put, lambda: "" if home_lock(home).held else _(_WAITS))
