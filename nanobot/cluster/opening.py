"""Joins the cluster that a database makes: the ledger, and this process's part of the work."""

from nanobot.cluster.desk import Role, Share
from nanobot.cluster.dispatch import Dispatch
from nanobot.cluster.election import Election
from nanobot.session.ledger_dbos import LedgerDbos
from nanobot.session.postgres import Postgres

#: Crashes during work on a row after which it is parked: more than with one gateway, because a worker that was merely
#: taken for dead, as on a busy machine, counts as one.
MOST_ATTEMPTS = 5


def join(address: str, role: Role, concurrency: int) -> tuple[LedgerDbos, Share]:
    """Opens no connection yet. Raises `StoreError` for what is no address."""
    ledger = LedgerDbos(Postgres(address), most_attempts=MOST_ATTEMPTS)
    share = Share(
        role,
        lambda channel: Dispatch(ledger, channel, concurrency),
        lambda name: Election(ledger, name, ledger.worker),
    )
    return ledger, share
