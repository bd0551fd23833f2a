"""What a channel and the cluster ask of each other. Light: nothing here loads a database."""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Literal

from msgspec import Struct

from nanobot.session.rows import InboxRow

if TYPE_CHECKING:
    from nanobot.cluster.postgres import Postgres
    from nanobot.cluster.worker import ClusterWorker

#: What a gateway does: take updates in, answer them, or both.
Role = Literal["all", "poller", "worker"]


class Handlers(Struct, frozen=True):
    """What a channel does with its work. `take` begins a row and returns at once; `aside` tells of rows that are given
    up; `living` is told at each sign of life how many workers there are."""

    take: Callable[[InboxRow], None]
    aside: Callable[[tuple[InboxRow, ...]], Awaitable[None]]
    living: Callable[[int], None]


class Share(Struct, frozen=True):
    """The part of one process: whether it polls, the worker that brings it updates, and the database of all."""

    polls: bool
    worker: "ClusterWorker | None"
    database: "Postgres"
