"""Verdicts on calls, the questions to the owner that they or the calls themselves wait for, and the answers."""

import asyncio
import secrets

from msgspec import Struct, field

from nanobot.agent.tools.base import Approval, Approver, in_block, in_question
from nanobot.agent.turn import Turn
from nanobot.bus.events import ApprovalAsked, ApprovalClosed
from nanobot.errors import UsageError
from nanobot.messages import ToolCall
from nanobot.security.policy import KINDS, JudgedCall, Policy, Verdict, unattended

#: Seconds that a question waits for its answer, after which it counts as a no.
ANSWER_SECONDS = 600.0
#: What may be answered about an address that nobody named, and about a tool that may change something.
ABOUT_ADDRESS: tuple[Approval, ...] = ("once", "host", "no", "never")
ABOUT_TOOL: tuple[Approval, ...] = ("once", "session", "no", "never")
NOBODY = "nobody who may decide can be asked here"
#: Characters of the arguments that a question shows.
_SHOWN = 2_000


class _Question(Struct):
    session_key: str
    choices: tuple[Approval, ...]
    answer: "asyncio.Future[Approval]"


class Approvals(Struct):
    """The open questions of all chats.

    `channels` are those that show a question and bring back the answer: each adds itself when it starts. `seconds` is
    how long a question waits.
    """

    seconds: float = ANSWER_SECONDS
    channels: set[str] = field(default_factory=set)
    policy: Policy = field(default_factory=Policy)
    _open: dict[str, _Question] = field(default_factory=dict)

    def approver(self, turn: Turn, call: ToolCall) -> Approver | None:
        """What asks for this call; None where not only the owner speaks or the channel cannot bring an answer back."""
        if turn.authority != "owner" or turn.message.address.channel not in self.channels:
            return None

        async def ask(title: str, detail: str, choices: tuple[Approval, ...]) -> Approval:
            return await self._ask(turn, call, (title, detail), choices)

        return ask

    async def verdict(self, call: JudgedCall, approve: Approver | None) -> Verdict:
        """What was decided about a call; the owner is asked where it takes that, and where `approve` can."""
        verdict = self.policy.judge(call)
        if verdict.decision != "ask":
            return verdict
        if approve is None:
            return unattended(call, verdict, NOBODY)
        choices = ABOUT_ADDRESS if all(one.kind == "address" for one in verdict.open) else ABOUT_TOOL
        chosen = await approve(*_question(call, verdict), choices)
        return self.policy.answered(call, verdict, chosen)

    async def _ask(self, turn: Turn, call: ToolCall, words: tuple[str, str], choices: tuple[Approval, ...]) -> Approval:
        key = secrets.token_hex(4)
        answer: asyncio.Future[Approval] = asyncio.get_running_loop().create_future()
        self._open[key] = _Question(turn.message.address.key, choices, answer)
        try:
            async with asyncio.timeout(self.seconds):
                await turn.emit(ApprovalAsked(key, call, *words, choices))
                chosen = await answer
        except TimeoutError:
            await turn.emit(ApprovalClosed(key))
            return "no"
        else:
            await turn.emit(ApprovalClosed(key, chosen))
            return chosen
        finally:
            del self._open[key]

    def answer(self, session_key: str, key: str, choice: str) -> str:
        """Answer an open question of this chat and say so. Raises `UsageError` where that cannot be."""
        question = self._open.get(key)
        if question is None or question.session_key != session_key or question.answer.done():
            raise UsageError(f"No question {key!r} is open here. It was answered, or its turn is over.")
        chosen = next((one for one in question.choices if one == choice), None)
        if chosen is None:
            raise UsageError(f"{choice!r} is no answer. Use one of: {', '.join(question.choices)}.")
        question.answer.set_result(chosen)
        return f"Answered: {chosen}."


def _question(call: JudgedCall, verdict: Verdict) -> tuple[str, str]:
    """Title and detail: why it is asked, what runs, what leaves, and what the lasting answers mean."""
    lines = [f"Reason: {reason[0].upper()}{reason[1:]}." for reason in verdict.reasons]
    addresses = [one for one in verdict.open if one.kind == "address"]
    if len(addresses) == len(verdict.open):
        for one in addresses:
            lines += [f"Host: {in_question(one.about)}", f"Address: {in_question(one.target)}"]
        hosts = ", ".join(in_question(host) for host in dict.fromkeys(one.about for one in addresses))
        lines.append(f"What leaves: a request for this address to {hosts}.")
        return "Confirm Address", "\n".join(lines)
    lines += [f"Tool: {call.tool}", *(f"Address: {in_question(one.target)}" for one in addresses)]
    for one in verdict.open:
        if one.kind == "change":
            lines.append(f"What leaves: {in_question(one.shown, _SHOWN)}")
            lines.append(
                f'The answer "session" is a yes to every call of {call.tool} that you ask for in this session.'
            )
        elif one.kind != "address":
            lines.append(f"{KINDS[one.kind].means}: {in_question(one.target, _SHOWN)}")
            lines += [in_block(one.shown)] if one.shown else []
    return "Confirm Tool", "\n".join(lines)
