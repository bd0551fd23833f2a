"""DBOS Transact in this process: takes workflows from the queue, at most one of each session in all processes."""

import asyncio
import logging
import threading
from collections.abc import Awaitable, Callable
from contextlib import suppress

from dbos import DBOS, DBOSConfig
from dbos import error as dbos_errors
from loguru import logger
from sqlalchemy.exc import SQLAlchemyError

from nanobot.errors import StoreError
from nanobot.session.postgres_rows import APPLICATION, QUEUE, WORKFLOW

#: What this version writes into the queue can be read by all that name the same.
VERSION = "1"
#: Seconds between two looks into the queue.
POLL_SECONDS = 0.2
_STOP_SECONDS = 5.0
#: Serves one update: its channel, its session, its number. Returns when nothing of the session is left to do here.
Serve = Callable[[str, str, int], Awaitable[None]]


class Runtime:
    """One per process, as DBOS itself is. `worker` is the name of this executor."""

    def __init__(self, address: str, worker: str, concurrency: int) -> None:
        self._address = address
        self._worker = worker
        self._concurrency = concurrency
        self._started = False

    async def start(self, serve: Serve) -> None:
        """Begin to take work. `serve` runs in the event loop of the caller. Raises `StoreError`."""
        config: DBOSConfig = {
            "name": APPLICATION,
            "system_database_url": self._address,
            "executor_id": self._worker,
            "application_version": VERSION,
            "sys_db_pool_size": 4,
            "max_executor_threads": 4,
            "log_level": "WARNING",
        }
        DBOS(config=config)
        self._started = True
        _log_as_we_do()

        async def served(channel: str, key: str, seq: int) -> None:
            await serve(channel, key, seq)

        # How often a row may be begun is the ledger's to say.
        DBOS.workflow(name=WORKFLOW, max_recovery_attempts=None)(served)
        try:
            DBOS.launch()  # in the event loop's own thread, so that workflows run in it
            # Not by its async twin, which would make the threads of DBOS those of our whole event loop.
            await asyncio.to_thread(self._register)
        except (dbos_errors.DBOSException, SQLAlchemyError, OSError) as error:
            await self.stop()
            raise StoreError(f"DBOS cannot work on the database: {' '.join(str(error).split())}.") from error

    def _register(self) -> None:
        DBOS.register_queue(
            QUEUE,
            partition_concurrency=1,
            worker_concurrency=self._concurrency,
            polling_interval_sec=POLL_SECONDS,
            on_conflict="always_update",
        )

    async def stop(self) -> None:
        """Take nothing more. What is being served stays marked as this worker's. A second time does nothing."""
        if not self._started:
            return
        self._started = False
        loop, done = asyncio.get_running_loop(), asyncio.Event()

        def destroy() -> None:
            DBOS.destroy(destroy_registry=True)
            with suppress(RuntimeError):  # the loop may be gone by then
                loop.call_soon_threadsafe(done.set)

        # In a thread that nobody has to wait for: DBOS waits long for a database that is away.
        threading.Thread(target=destroy, name="dbos-end", daemon=True).start()
        try:
            async with asyncio.timeout(_STOP_SECONDS):
                await done.wait()
        except TimeoutError:
            logger.warning("DBOS did not end within {:.0f} s", _STOP_SECONDS)


def _log_as_we_do() -> None:
    """Into our log, whose lines show no secrets, instead of onto the screen."""
    log = logging.getLogger("dbos")
    log.handlers.clear()
    log.propagate = True
