"""The text of one step on its way to a person: what has a mark or an address is held until its sentence is judged."""

import asyncio
import re
from typing import TYPE_CHECKING

from nanobot.agent.addresses import KnownAddresses
from nanobot.messages import Citation, UserMessage

if TYPE_CHECKING:
    from nanobot.agent.citations.answer import MarkedAnswer
    from nanobot.agent.turn import Turn

#: Seconds that judging one piece of an answer may take.
CHECK_SECONDS = 10.0
#: Where a mark or an address begins, or may begin with what has come so far.
_BEGINS = re.compile(r"\[|【|https?://|h(?:t(?:t(?:p(?:s?:?/?)?)?)?)?\Z", re.IGNORECASE)
#: Where a sentence has ended, so that all its marks are known.
_ENDS = re.compile(r"\n|(?<!\d[.])(?<=[.!?])[\"”’)*_]*\s|[。！？]")


class AnswerText:
    """`raw` is what the model has said, `shown` what a person may see of it: the same with its marks judged.

    `failed` tells that the marks could not be judged; they are shown as they are.
    """

    def __init__(self, turn: "Turn", addresses: KnownAddresses) -> None:
        self.raw = ""
        self.shown = ""
        self.failed = False
        self._turn = turn
        self._addresses = addresses
        self._held = 0  # where in `raw` the part begins that is held back
        self._looked = 0  # how far the held part has no end
        self._marked: MarkedAnswer | None = None

    @property
    def citations(self) -> tuple[Citation, ...]:
        return tuple(self._marked.citations) if self._marked is not None else ()

    async def feed(self, piece: str) -> str:
        """Take the next piece of the answer and give what may be shown now."""
        self.raw += piece
        shown = ""
        while begin := _BEGINS.search(self.raw, self._held):
            shown += self.raw[self._held : begin.start()]
            self._held = begin.start()
            end = _ENDS.search(self.raw, max(begin.end(), self._looked))
            if end is None:
                self._looked = max(begin.end(), len(self.raw) - 4)
                break
            shown += await self._judged(end.end())
        else:
            shown += self.raw[self._held :]
            self._held = len(self.raw)
        self.shown += shown
        return shown

    async def end(self) -> str:
        """The answer is complete: what is left of it."""
        shown = await self._judged(len(self.raw)) if self._held < len(self.raw) else ""
        self.shown += shown
        return shown

    async def _judged(self, end: int) -> str:
        held, self._held = self._held, end
        if self.failed:
            return self.raw[held:end]
        try:
            async with asyncio.timeout(CHECK_SECONDS):
                return await asyncio.to_thread(self._judge, self.raw[:end], held)
        except (TimeoutError, ValueError, LookupError, ArithmeticError, RecursionError):
            self.failed = True
            return self.raw[held:end]

    def _judge(self, whole: str, start: int) -> str:
        if self._marked is None:
            # An answer without marks and addresses needs none of it.
            from nanobot.agent.citations.answer import MarkedAnswer

            book, addresses = self._turn.sources, self._addresses
            people = [one.text for one in self._turn.messages if isinstance(one, UserMessage) and one.kind != "notice"]
            self._marked = MarkedAnswer(book, addresses.__contains__, "\n".join(people))
        return self._marked.mark(whole, start)
