"""Server-sent events out of bytes, whatever the network did to them.

Lines end with LF, CRLF or CR and with nothing else: U+2028, U+0085 and their kind are legal inside JSON and
split nothing.
"""

EVENT_LIMIT = 16 * 1024 * 1024


class EventTooLarge(ValueError):
    """One event has more than `EVENT_LIMIT` bytes."""


class SseDecoder:
    """Feed bytes, get `(event, data)` pairs. Comments are dropped; the event name is empty where none was sent."""

    __slots__ = ("_buffer", "_data", "_event", "_size")

    def __init__(self) -> None:
        self._buffer = b""
        self._event = ""
        self._data: list[str] = []
        self._size = 0

    def feed(self, chunk: bytes) -> list[tuple[str, str]]:
        """The events that are complete after `chunk`."""
        block = self._buffer + chunk
        held = b""
        if b"\r" in block:
            if block.endswith(b"\r"):  # the LF of a CRLF may still be on its way
                block, held = block[:-1], b"\r"
            block = block.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        *lines, rest = block.split(b"\n")
        self._buffer = rest + held
        if len(self._buffer) > EVENT_LIMIT:
            raise EventTooLarge
        return self._take(lines)

    def end(self) -> list[tuple[str, str]]:
        """The last event where the stream ended without a blank line."""
        rest, self._buffer = self._buffer.rstrip(b"\r"), b""
        return self._take([rest, b""])

    def _take(self, lines: list[bytes]) -> list[tuple[str, str]]:
        events: list[tuple[str, str]] = []
        for line in lines:
            if line.startswith(b"data:"):
                value = line[6:] if line[5:6] == b" " else line[5:]
                self._size += len(value)
                if self._size > EVENT_LIMIT:
                    raise EventTooLarge
                self._data.append(value.decode("utf-8", "replace"))
            elif not line:
                if self._data:
                    events.append((self._event, "\n".join(self._data)))
                    self._data = []
                    self._size = 0
                self._event = ""
            elif line.startswith(b"event:"):
                self._event = line[6:].strip().decode("utf-8", "replace")
        return events
