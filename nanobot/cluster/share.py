"""What a channel and the cluster ask of each other. Light: nothing here loads a database."""

from collections.abc import Awaitable, Callable
from typing import Literal, Protocol

from msgspec import Struct

from nanobot.session.ledger import InboxRow

#: What a gateway does: take updates in, answer them, or both.
Role = Literal["all", "poller", "worker"]


class Handlers(Struct, frozen=True):
    """What a channel does with its work. `take` begins a row and returns at once; `aside` tells of rows that are given
    up; `living` is told at each sign of life how many workers there are."""

    take: Callable[[InboxRow], None]
    aside: Callable[[tuple[InboxRow, ...]], Awaitable[None]]
    living: Callable[[int], None]


class Dispatcher(Protocol):
    """Brings work to a channel. Met by `worker.ClusterWorker`."""

    @property
    def alive(self) -> bool:
        """False where others may have taken over the work: then nothing may be sent."""

    async def run(self, handlers: Handlers) -> None:
        """Until cancelled. Raises `StoreError` where others have taken over the work."""

    async def aclose(self) -> None:
        """What is left goes to others at once. Called when what was begun has ended."""


class Elected(Protocol):
    """Lets one of many processes do a thing. Met by `worker.Election`."""

    async def run(self, work: Callable[[], Awaitable[None]]) -> None:
        """Run `work` while this process is the one; until cancelled. What `work` raises ends it."""


class Share(Struct, frozen=True):
    """The part of one process: its `role`, the work on a channel that it gets, and elections by name."""

    role: Role
    dispatch: Callable[[str], Dispatcher]
    election: Callable[[str], Elected]

    @property
    def polls(self) -> bool:
        return self.role != "worker"

    @property
    def works(self) -> bool:
        return self.role != "poller"
