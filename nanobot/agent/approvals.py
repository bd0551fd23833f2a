"""Verdicts on calls, the questions to the owner that they or the calls themselves wait for, and the answers."""

import asyncio
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from msgspec import Struct, field
from msgspec.structs import replace

from nanobot.agent import explanations
from nanobot.agent.consent import question_of
from nanobot.agent.tools.base import Approval, Approver, Decided, Proposal, Question, ToolContext, ToolLike, in_question
from nanobot.agent.turn import Turn
from nanobot.bus.events import ApprovalAsked, ApprovalClosed, Notice
from nanobot.errors import UsageError
from nanobot.messages import Message, ToolCall
from nanobot.security.policy import Effect, JudgedCall, Policy, Verdict, answered, unattended
from nanobot.session.permissions import Permissions
from nanobot.session.pins import Pins, ToolWords, seal
from nanobot.utils.text import duration
from nanobot.utils.translation import N_, _, listed, yes_or_no

#: Seconds that a question waits for its answer, after which it counts as a no.
ANSWER_SECONDS = 600.0
NOBODY = N_("nobody who may decide can be asked here")
Said = Callable[[], Sequence[Message]]
#: Characters of the reason that a person gives for a no.
_REASON = 1_000
#: What the words mean that people write instead of an answer's own.
_MEANT: Mapping[str, Approval] = {"yes": "once", "always": "always", "no": "no"}
_ANSWERED: Mapping[Approval, str] = {
    "once": N_("Answered: once."),
    "always": N_("Answered: always."),
    "no": N_("Answered: no."),
    "edit": N_("Answered: edit."),
}


class Ruling(Struct, frozen=True):
    """A verdict, and the `text` that the owner wrote in the place of a `proposal`, which is to be judged anew."""

    verdict: Verdict
    proposal: Proposal = Proposal()
    text: str = ""


class _Pending(Struct, frozen=True):
    """A question that waits. `key` is the chat of its turn; one of a group, `shared`, is answered in private too."""

    key: str
    shared: bool
    choices: tuple[Approval, ...]
    answer: "asyncio.Future[Decided]"


class Approvals(Struct):
    """The open questions of all chats.

    `channels` are those that show a question and bring back the answer, or chats in which somebody is there for
    it. `seconds` is how long a question waits. `permissions` is what people have allowed for good.
    """

    seconds: float = ANSWER_SECONDS
    channels: set[str] = field(default_factory=set)
    policy: Policy = field(default_factory=Policy)
    permissions: Permissions = field(default_factory=Permissions)
    _open: dict[str, _Pending] = field(default_factory=dict)

    def approver(self, turn: Turn, call: ToolCall) -> Approver | None:
        """What asks for this call; None where not only the owner speaks, nobody has just spoken, or the channel cannot
        bring an answer back."""
        here = not self.channels.isdisjoint(turn.message.address.names)
        return partial(self._ask, turn, call) if turn.authority == "owner" and here and not turn.scheduled else None

    async def strangers(self, turn: Turn, told: Sequence[ToolWords]) -> tuple[str, ...]:
        """Labels of those servers of whose tools a turn is told in words that the owner has not let count.

        The owner is told once of each such state of a server, and what ends it.
        """
        pins = Pins(self.permissions)
        unread = await pins.unread(told)
        for one in unread if turn.authority == "owner" and turn.message.direct and not turn.scheduled else ():
            words = tuple(word for word in told if word.server == one.server)
            if await self.permissions.note(f"mcp-told:{one.server}", seal(words)):
                await turn.emit(Notice(one.sentence, "warning" if one.known else "info"))
        return tuple(one.label for one in unread)

    async def decide(
        self, turn: Turn, tool: ToolLike, arguments: dict[str, object], context: ToolContext
    ) -> tuple[Verdict, dict[str, object], str]:
        """What is decided about a call, by who speaks in this turn and by what was named in its session; and its
        arguments, with what a model is told where the owner has changed them.

        What runs is what was shown: where the call would do something else by the time of the answer, it is judged
        again.
        """
        note = ""
        while True:
            call = await judged_call(turn, tool, arguments, context)
            proposes = partial(tool.proposal, arguments, context)
            ruling = await self.verdict(call, context.approve, lambda: turn.said, proposes)
            if ruling.text:
                note = explanations.edited(tool.proposes, ruling.text, ruling.proposal.file)
                arguments = tool.rewritten(arguments, ruling.proposal, ruling.text)
                continue
            verdict = ruling.verdict
            waited = verdict.decision == "allow" and verdict.open
            if not waited or (await judged_call(turn, tool, arguments, context)).effects == call.effects:
                context.allowed = verdict.effects if verdict.decision == "allow" else ()
                context.asked = verdict.open if verdict.decision == "allow" else ()
                return verdict, arguments, note

    async def verdict(
        self,
        call: JudgedCall,
        approve: Approver | None,
        said: Said = tuple,
        proposes: Callable[[], Proposal] = Proposal,
    ) -> Ruling:
        """What was decided about a call; the owner is asked where it takes that, and where `approve` can.

        What they have allowed for good counts where they could be asked. `said` gives the conversation, which tells
        whose wish it is; `proposes` what they may write anew.
        """
        # What is written may be long, and is looked through for secrets.
        verdict = self.policy.judge(call) if call.public else await asyncio.to_thread(self.policy.judge, call)
        if verdict.decision == "ask" and approve is not None:
            held = await self.permissions.held(call.person, tainted=bool(call.taint))
            verdict = await asyncio.to_thread(self.policy.judge, replace(call, permitted=held))
        if verdict.decision != "ask":
            return Ruling(verdict)
        if approve is None:
            return Ruling(unattended(call, verdict, _(NOBODY)))
        question = await asyncio.to_thread(question_of, call, verdict, said())
        proposal = await asyncio.to_thread(proposes)
        decided = await approve(replace(question, proposal=proposal))
        if decided.choice == "edit":
            return Ruling(verdict, proposal, decided.text)
        return Ruling(answered(verdict, yes=decided.yes, reason=decided.reason))

    async def _ask(self, turn: Turn, call: ToolCall, question: Question) -> Decided:
        """The answer to a question; one that was answered for good is not asked again."""
        person = turn.message.person
        tainted = bool(turn.taint)
        lasting = frozenset(one.holds_for for one in question.lasting)
        if lasting and lasting <= await self.permissions.held(person, tainted=tainted):
            return Decided("always")
        decided = await self._wait(turn, call, question)
        if decided.choice == "always":
            await self.permissions.add(person, question.lasting, tainted=tainted)
        return decided

    async def _wait(self, turn: Turn, call: ToolCall, question: Question) -> Decided:
        always: tuple[Approval, ...] = ("always",) if question.lasting else ()
        proposal = question.proposal
        edit: tuple[Approval, ...] = ("edit",) if proposal.text else ()
        key, choices = secrets.token_hex(4), ("once", *always, "no", *edit)
        answer: asyncio.Future[Decided] = asyncio.get_running_loop().create_future()
        self._open[key] = _Pending(turn.message.address.key, not turn.message.direct, choices, answer)
        asked = ApprovalAsked(
            key,
            call,
            question.title,
            question.detail,
            choices,
            question.shown,
            proposal.text,
            question.act,
            question.done,
            proposal.file,
            question.diff,
        )
        began = time.monotonic()
        turn.unanswered.add(call.id)
        try:
            async with asyncio.timeout(self.seconds):
                await turn.emit(asked)
                decided = await answer
        except TimeoutError:
            turn.unanswered.discard(call.id)
            await turn.emit(ApprovalClosed(key))
            return Decided("no", _("there was no answer within {time}", time=duration(self.seconds)))
        else:
            turn.unanswered.discard(call.id)
            await turn.emit(ApprovalClosed(key, decided.choice, decided.reason))
            return decided
        finally:
            turn.waited[call.id] = turn.waited.get(call.id, 0.0) + time.monotonic() - began
            del self._open[key]

    async def answer(self, session_key: str, key: str, choice: str, text: str = "", *, anywhere: bool = False) -> str:
        """Answer an open question of this chat and say so; `text` is the reason of a no, or what an edit wrote.

        `anywhere`: it may be a question of a group of the same channel. Raises `UsageError` where that cannot be.
        """
        pending = self._open.get(key)
        same = pending is not None and session_key.partition(":")[0] == pending.key.partition(":")[0]
        here = pending is not None and (pending.key == session_key or (anywhere and pending.shared and same))
        if pending is None or not here or pending.answer.done():
            text = _("No question {key} is open here. It was answered, or its turn is over.", key=repr(key))
            raise UsageError(text)
        meant = _MEANT.get(yes_or_no(choice), choice)
        chosen = next((one for one in pending.choices if one == meant), None)
        if chosen is None:
            choices = listed(pending.choices)
            raise UsageError(_("{choice} is no answer. Use one of: {choices}.", choice=repr(choice), choices=choices))
        if chosen == "edit" and not text.strip():
            raise UsageError(_("Write what is to be done instead: `/approve {key} edit <text>`.", key=key))
        reason = in_question(text, _REASON) if chosen == "no" else ""
        pending.answer.set_result(Decided(chosen, reason, text if chosen == "edit" else ""))
        return _(_ANSWERED[chosen])


async def judged_call(turn: Turn, tool: ToolLike, arguments: dict[str, object], context: ToolContext) -> JudgedCall:
    """A call with everything that it would do now. The context is told which hosts nobody has named."""
    await tool.prepare(arguments, context)
    addresses = tool.addresses(arguments, context)
    reached = [Effect("lookup", url) if url in turn.addresses else tool.reach(url) for url in addresses]
    context.made_up = frozenset(one.about for one in reached if one.kind == "address")
    # Paths are looked up on the disk, and the diff of a write reads its file.
    effects = () if tool.access == "public" else await asyncio.to_thread(tool.effects, arguments, context)
    return JudgedCall(
        tool.name,
        arguments,
        (*effects, *reached),
        turn.authority,
        context.person,
        turn.taint,
        scheduled=turn.scheduled,
        granted=turn.granted,
        public=tool.access == "public",
        direct=turn.message.direct,
    )
