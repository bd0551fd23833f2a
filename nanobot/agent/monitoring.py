"""Reports what fails and what succeeds to the alarms, where it passes: the model, the search, the store."""

import sqlite3
from collections.abc import AsyncIterator
from pathlib import Path
from typing import TypeVar

from nanobot.agent.explanations import remedy
from nanobot.bus.alarms import CRASH, STORE, Alarm, Alarms, Tell, Trouble
from nanobot.bus.events import Address, MessageBus, Notice, OutboundMessage, ToolFinished, TurnFinished
from nanobot.errors import ProviderError, ProviderErrorKind, StoreError
from nanobot.messages import Completed, Delta
from nanobot.providers.base import LLMProvider, Request, WrappedProvider, nested
from nanobot.results import ToolErrorKind
from nanobot.session.database import Work
from nanobot.session.sqlite import SqliteDatabase
from nanobot.utils.translation import N_, Later

T = TypeVar("T")
SEARCH = "search"
#: What lies in the conversation and not in the service.
_OF_THE_TALK: frozenset[ProviderErrorKind] = frozenset({"overflow", "filtered"})
#: Results of a search that say nothing about the services.
_OF_THE_CALL: frozenset[ToolErrorKind] = frozenset({"invalid_input", "repeated", "cancelled", "denied", "blocked"})
_SEARCH, _SEARCH_ADVICE = (
    Later(N_("Web search")),
    Later(
        N_(
            "Check the network; /status shows every search service and why it does not answer. "
            "Another one is added with tools.web.search.provider and tools.web.search.apiKey."
        )
    ),
)


class WatchedProvider(WrappedProvider):
    """An `LLMProvider` whose requests are counted, each once, after its retries."""

    def __init__(self, provider: LLMProvider, alarms: Alarms) -> None:
        super().__init__(provider)
        self._alarms = alarms
        info = provider.info
        self._label = f"model {info.name} {info.model} "
        self._what = Later(N_("The model {model} ({service})"), model=info.model, service=info.name)

    async def stream(self, request: Request) -> AsyncIterator[Delta]:
        try:
            async with nested(self.inner.stream(request)) as deltas:
                async for delta in deltas:
                    if isinstance(delta, Completed):
                        self._alarms.well(self._label)
                    yield delta
        except ProviderError as error:
            if error.kind not in _OF_THE_TALK:
                cause, advice = remedy(error, self.info)
                self._alarms.failed(Trouble(self._label + error.kind, self._what, cause, advice))
            raise


def watched(provider: LLMProvider, alarms: Alarms) -> LLMProvider:
    """A language model, watched; what is none has no service that could fail."""
    return WatchedProvider(provider, alarms) if provider.info.capabilities.language_model else provider


def watched_bus(alarms: Alarms) -> MessageBus:
    """A bus on which searches without an answer of any service are counted, and turns that go well are seen."""

    def see(message: OutboundMessage) -> None:
        event = message.event
        if isinstance(event, ToolFinished) and event.call.name == "web_search":
            error = event.result.error
            if error is None:
                alarms.well(SEARCH)
            elif error not in _OF_THE_CALL:
                cause = event.result.extras.get("cause") or event.result.message
                alarms.failed(Trouble(SEARCH, _SEARCH, str(cause), _SEARCH_ADVICE))
        elif isinstance(event, TurnFinished) and event.outcome == "completed":
            alarms.well(CRASH)

    bus = MessageBus()
    bus.watch(see)
    return bus


def in_the_terminal(bus: MessageBus, address: Address) -> Tell:
    """Tells whoever sits at the terminal, if it is one that nanobot runs in."""

    async def tell(alarm: Alarm) -> bool:
        await bus.publish_outbound(OutboundMessage(address, Notice(alarm.text, "warning")))
        return True

    return tell


class WatchedDatabase(SqliteDatabase):
    """A database that counts works which the disk refused; a wrong use of the store is none of them."""

    def __init__(self, path: Path, alarms: Alarms) -> None:
        super().__init__(path)
        self._alarms = alarms

    async def perform(self, work: Work[T], *, writes: bool, durable: bool = False) -> T:
        try:
            done = await super().perform(work, writes=writes, durable=durable)
        except StoreError as error:
            if isinstance(error.__cause__, sqlite3.Error | OSError):
                self._alarms.failed(self._trouble(error.__cause__))
            raise
        if durable:
            self._alarms.well(STORE)
        return done

    def _trouble(self, cause: BaseException) -> Trouble:
        advice = N_("Check the free space and the rights of {folder} (df -h, ls -l); nothing is overwritten meanwhile.")
        what = Later(N_("Writing to {path}"), path=str(self.path))
        return Trouble(STORE, what, str(cause), Later(advice, folder=str(self.path.parent)))
