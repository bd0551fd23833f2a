"""Kills its own process at one SQL statement, counted from the start; for tests that start nanobot as a process.

Put this folder on PYTHONPATH. `CRASH_AT` is the number of the statement before which the process dies, 0 for none;
`CRASH_WORD` kills it before every message of a conversation that
holds this word. `CRASH_LOG` is a file that gets one line a statement, so that a first run tells how many there are.
"""

import os
import signal
import sqlite3
from pathlib import Path

_at = int(os.environ.get("CRASH_AT", "0"))
_word = os.environ.get("CRASH_WORD", "")
_log = Path(os.environ["CRASH_LOG"]) if "CRASH_LOG" in os.environ else None
_count = 0


def _before(statement: str) -> None:
    global _count  # noqa: PLW0603 - one counter for the process
    if not statement.startswith(("BEGIN", "COMMIT", "INSERT", "UPDATE", "DELETE")):
        return
    _count += 1
    if _log is not None:
        with _log.open("a", encoding="utf-8") as file:
            file.write(f"{_count} {statement[:80]!r}\n")
    if _count == _at or (_word and _word in statement and statement.startswith("INSERT INTO record")):
        os.kill(os.getpid(), signal.SIGKILL)


class _Traced(sqlite3.Connection):
    def __init__(self, *arguments: object, **options: object) -> None:
        super().__init__(*arguments, **options)  # type: ignore[arg-type]
        self.set_trace_callback(_before)


_connect = sqlite3.connect


def _traced(*arguments: object, **options: object) -> sqlite3.Connection:
    options.setdefault("factory", _Traced)
    return _connect(*arguments, **options)  # type: ignore[call-overload,no-any-return]


sqlite3.connect = _traced  # type: ignore[assignment]
