"""A question to the owner as a message with a button for each answer, and what became of it."""

import asyncio

from nanobot.bus.events import Address, ApprovalAsked
from nanobot.channels.telegram.calls import Place
from nanobot.channels.telegram.entities import Entity
from nanobot.channels.telegram.frames import Frame
from nanobot.channels.telegram.markup import clean
from nanobot.channels.telegram.showing import PainterParts
from nanobot.channels.telegram.split import utf16_length
from nanobot.utils.text import shorten

#: Characters of a question; the rest of a long address is cut.
_LONGEST = 3_000
#: Seconds between tries to show or to edit the question, and how often an edit is tried.
_PAUSE, _TRIES = 3.0, 3
_LABELS = {"once": "Once", "host": "This host", "session": "This session", "no": "No", "never": "Never"}
NO_ANSWER = "No answer, so it was not done."


def question_frame(asked: ApprovalAsked, outcome: str = "") -> Frame:
    """The question with its buttons, or with its outcome instead of them."""
    title = shorten(clean(asked.title).strip(), 200) or "Question"
    detail = shorten(clean(asked.detail).strip(), _LONGEST)
    text = "\n\n".join(filter(None, (title, detail, outcome)))
    buttons = () if outcome else tuple((_LABELS.get(one, one), f"/approve {asked.id} {one}") for one in asked.choices)
    return Frame(text, (Entity("bold", 0, utf16_length(title)),), buttons=buttons)


class Question:
    """`run` shows the question until `close` tells its outcome, and then the outcome in its place."""

    def __init__(self, parts: PainterParts, address: Address, asked: ApprovalAsked) -> None:
        self.id = asked.id
        self._parts = parts
        self._place = Place(address.chat, address.thread)
        self._asked = asked
        self._outcome = ""
        self._over = asyncio.Event()

    def close(self, choice: str = "") -> None:
        """It was answered, or without a choice it is over. Only the first call counts."""
        if not self._over.is_set():
            self._outcome = f"→ {_LABELS.get(choice, choice)}" if choice else f"→ {NO_ANSWER}"
            self._over.set()

    async def run(self) -> None:
        clock = self._parts.lanes.clock
        message_id = 0
        while not self._over.is_set() and not message_id:
            message_id = await self._show(question_frame(self._asked), 0)
            if not message_id:
                await clock.wait(self._over, _PAUSE)
        await self._over.wait()
        for _ in range(_TRIES if message_id else 0):
            if await self._show(question_frame(self._asked, self._outcome), message_id):
                return
            await clock.wait(asyncio.Event(), _PAUSE)

    async def _show(self, frame: Frame, message_id: int) -> int:
        """The id of the message that shows the frame now, 0 where it could not be shown."""
        async with self._parts.lanes.lane(self._place.chat).permit("command") as permit:
            permit.used()
            outcome = await self._parts.calls.show(self._place, frame, message_id)
        return outcome if isinstance(outcome, int) else 0
