"""Plain lines: no live area, no cursor movement, for screen readers, dumb terminals and `--plain`."""

import asyncio
import codecs
import os
from typing import TextIO

from nanobot.channels.terminal.channel import TerminalChannel
from nanobot.channels.terminal.live import Live

PROMPT = "> "
#: Lines that follow each other within this many seconds were pasted, for nobody types them so.
TOGETHER = 0.03


class PlainLines:
    """A `Surface` that reads lines and writes lines. A backslash at the end of a line continues it.

    Lines that come in together are one message.
    """

    def __init__(self, stdin: int, stdout: TextIO) -> None:
        self._stdin = stdin
        self._stdout = stdout
        self._decoder = codecs.getincrementaldecoder(stdout.encoding or "utf-8")("replace")
        self._typed = ""
        self._arrived: list[str] = []
        self._gathering: asyncio.TimerHandle | None = None
        self._message: list[str] = []
        self._prompted = False
        self._flash = ""
        self._code: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    async def run(self, channel: TerminalChannel) -> int:
        loop = asyncio.get_running_loop()
        loop.add_reader(self._stdin, self._readable, channel)
        try:
            return await self._code
        finally:
            loop.remove_reader(self._stdin)
            if self._gathering is not None:
                self._gathering.cancel()
            if self._prompted:
                self._write("\n")

    def exit(self, code: int) -> None:
        if not self._code.done():
            self._code.set_result(code)

    def clear_input(self) -> bool:
        had = bool(self._message)
        self._message.clear()
        return had

    def give_back(self, text: str) -> None:
        self._write(f"\nnot sent: {text}\n")
        self._prompted = False

    def ring(self) -> None: ...

    async def show(self, text: str, live: Live) -> None:
        if self._prompted:
            self._prompted = False
            self._write("\n")
        self._write(text)
        self.refresh(live)

    def refresh(self, live: Live) -> None:
        if live.flash and live.flash != self._flash:
            self._write(f"\n{live.flash}\n")
            self._prompted = False
        self._flash = live.flash
        if not live.busy and not self._prompted and not self._code.done():
            self._prompted = True
            self._write(PROMPT)

    def _readable(self, channel: TerminalChannel) -> None:
        data = os.read(self._stdin, 65_536)
        if not data:
            self._take(channel)
            channel.exit()
            return
        self._typed += self._decoder.decode(data)
        *lines, self._typed = self._typed.split("\n")
        self._arrived += (line.rstrip("\r") for line in lines)
        if lines:
            if self._gathering is not None:
                self._gathering.cancel()
            self._gathering = asyncio.get_running_loop().call_later(TOGETHER, self._take, channel)

    def _take(self, channel: TerminalChannel) -> None:
        """Take in the lines that came together, as one."""
        line, arrived, self._arrived = "\n".join(self._arrived), bool(self._arrived), []
        if not arrived:
            return
        self._prompted = False
        if line.endswith("\\"):
            self._message.append(line[:-1])
            return
        text = "\n".join([*self._message, line])
        self._message.clear()
        if text.strip():
            channel.submit(text)
        else:
            self._write(PROMPT)
            self._prompted = True

    def _write(self, text: str) -> None:
        self._stdout.write(text)
        self._stdout.flush()
