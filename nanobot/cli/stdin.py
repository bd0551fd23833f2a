"""Reading what a pipe brings."""

import select
import sys
from typing import BinaryIO

from msgspec import Struct

from nanobot.errors import UsageError

#: Bytes of standard input that are read; the rest is left out, and said so.
MOST_BYTES = 1_000_000
_NOTE_AFTER = 2.0


class Piped(Struct, frozen=True):
    """The text of standard input. `cut` tells that there was more than the limit."""

    text: str = ""
    cut: bool = False


def read_piped(stream: BinaryIO) -> Piped:
    """Everything up to the limit. Says on stderr that it waits when nothing comes for a while.

    Raises `UsageError` for data that is no text.
    """
    try:
        ready, _, _ = select.select([stream], [], [], _NOTE_AFTER)
        if not ready:
            sys.stderr.write("nanobot: waiting for the end of standard input …\n")
            sys.stderr.flush()
    except (OSError, ValueError):
        pass  # a stream without a descriptor is simply read
    data = stream.read(MOST_BYTES + 1)
    if b"\x00" in data[:8_192]:
        raise UsageError("Standard input is not text. Convert it first, or give the question with -m and no pipe.")
    cut = len(data) > MOST_BYTES
    return Piped(data[:MOST_BYTES].decode("utf-8", "ignore" if cut else "replace").removeprefix("\ufeff"), cut)
