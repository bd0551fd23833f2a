"""Questions to the owner that a tool's call waits for, and their answers."""

import asyncio
import secrets
from dataclasses import dataclass, field
from typing import get_args

from nanobot.agent.tools.base import Approval, Approver
from nanobot.agent.turn import TurnTask
from nanobot.bus.events import ApprovalAsked, ApprovalClosed
from nanobot.errors import UsageError
from nanobot.messages import ToolCall

#: Seconds that a question waits for its answer, after which it counts as a no.
ANSWER_SECONDS = 600.0
_CHOICES: dict[str, Approval] = {choice: choice for choice in get_args(Approval)}


@dataclass(slots=True)
class _Question:
    session_key: str
    answer: "asyncio.Future[Approval]"


@dataclass(slots=True)
class Approvals:
    """The open questions of all chats.

    `channels` are those that show a question and bring back the answer: each adds itself when it starts. `seconds` is
    how long a question waits.
    """

    seconds: float = ANSWER_SECONDS
    channels: set[str] = field(default_factory=set)
    _open: dict[str, _Question] = field(default_factory=dict)

    def approver(self, task: TurnTask, call: ToolCall) -> Approver | None:
        """What asks for this call; None where no owner speaks or where the channel cannot bring an answer back."""
        if task.sender.role != "owner" or task.address.channel not in self.channels:
            return None

        async def ask(title: str, detail: str) -> Approval:
            return await self._ask(task, call, title, detail)

        return ask

    async def _ask(self, task: TurnTask, call: ToolCall, title: str, detail: str) -> Approval:
        key = secrets.token_hex(4)
        answer: asyncio.Future[Approval] = asyncio.get_running_loop().create_future()
        self._open[key] = _Question(task.address.key, answer)
        try:
            async with asyncio.timeout(self.seconds):
                await task.emit(ApprovalAsked(key, call, title, detail))
                chosen = await answer
        except TimeoutError:
            await task.emit(ApprovalClosed(key))
            return "no"
        else:
            await task.emit(ApprovalClosed(key, chosen))
            return chosen
        finally:
            del self._open[key]

    def answer(self, session_key: str, key: str, choice: str) -> str:
        """Answer an open question of this chat and say so. Raises `UsageError` where that cannot be."""
        question = self._open.get(key)
        if question is None or question.session_key != session_key or question.answer.done():
            raise UsageError(f"No question {key!r} is open here. It was answered, or its turn is over.")
        chosen = _CHOICES.get(choice)
        if chosen is None:
            raise UsageError(f"{choice!r} is no answer. Use one of: {', '.join(_CHOICES)}.")
        question.answer.set_result(chosen)
        return f"Answered: {chosen}."
