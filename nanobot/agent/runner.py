"""Runs one turn: ask the model, run the calls it asks for, and again, until it answers or a limit ends it."""

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from copy import copy
from functools import partial
from pathlib import Path

from loguru import logger
from msgspec.structs import replace

from nanobot.agent import ends, explanations
from nanobot.agent.answer_text import report_checked, unlinked
from nanobot.agent.approvals import Approvals
from nanobot.agent.chats.questions import Questions
from nanobot.agent.context import cut_result_text
from nanobot.agent.conversation import Conversation
from nanobot.agent.history import parse_arguments
from nanobot.agent.receipts import with_receipt
from nanobot.agent.tools.base import HelperTask, ToolContext, ToolLike
from nanobot.agent.tools.offers import EXEC, SPAWN, with_addresses
from nanobot.agent.tools.registry import ToolFactory, ToolRegistry
from nanobot.agent.turn import KeepResult, Turn
from nanobot.bus.events import ToolFinished, ToolProgress, ToolStarted, TurnFinished
from nanobot.config.schema import SubagentsConfig
from nanobot.errors import NanobotError, ProviderError, ProviderErrorKind, StoreError
from nanobot.messages import (
    AssistantMessage,
    StepRetried,
    Text,
    ToolCall,
    ToolMessage,
    UserMessage,
    UserPart,
)
from nanobot.providers.base import ToolSpec
from nanobot.results import ToolResult, error_result
from nanobot.security.policy import Policy, Verdict
from nanobot.security.trust import wrap
from nanobot.utils.logs import without_secrets
from nanobot.utils.runtime import forget_external_lookup, lookup_target, repeated_external_lookup_error
from nanobot.utils.text import strip_unsafe
from nanobot.utils.tool_hints import numbered, shared_hint, tool_hint
from nanobot.utils.translation import N_, _, told
from nanobot.utils.watchdog import log_chain

#: Tools that write a text, whose marks are checked then.
_WRITES = frozenset({"write_file", "edit_file"})
#: How many calls of one batch run at the same time.
MAX_PARALLEL = 8
#: Failures of a model or of the network that may be over within the turn.
_AWAY: frozenset[ProviderErrorKind] = frozenset(
    {"network", "timeout", "overloaded", "server", "rate_limit", "truncated"}
)
#: Seconds between two requests to a model that is away: the first pause, which doubles, and the longest one.
_FIRST_PAUSE, _LONGEST_PAUSE = 1.0, 60.0
#: What is said of a call that broke off.
_INCOMPLETE = N_("The call was not run: {reason}. Send it again, complete.")
#: Seconds that must be left for another request to such a model.
_LAST_SECONDS = 5.0
#: The tool that pages through a long file.
_PAGING = "read_file"
#: (turn, call, task) → what the helper of this call brings back.
Spawner = Callable[[Turn, ToolCall, HelperTask], Awaitable[ToolResult]]


class AgentRunner:
    """Runs turns with the tools of one registry. One runner serves every session and every sub-agent.

    `questions` are those of models to people; `sleep` waits that many seconds for a model that is away; `spawn` runs
    helpers, and is None where there are none, `helpers` bounds them, and `helper_slots` has a place for each that runs.
    """

    def __init__(self, tools: ToolRegistry, questions: Questions, keep_result: KeepResult | None) -> None:
        self.tools = tools
        self.questions = questions
        self.approvals = Approvals(channels=questions.channels)
        self.keep_result = keep_result
        self.sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
        self.spawn: Spawner | None = None
        self.helpers = SubagentsConfig()
        self.helper_slots: asyncio.Semaphore = asyncio.Semaphore(self.helpers.max)

    def bound(self, helpers: SubagentsConfig) -> None:
        """Let helpers have these limits; before the first of them. One can always run, for what an earlier
        configuration has begun."""
        self.helpers, self.helper_slots = helpers, asyncio.Semaphore(max(1, helpers.max))

    def renewed(self, factories: Mapping[str, ToolFactory], policy: Policy) -> "AgentRunner":
        """A runner with these tools made anew and with other rules, and the same questions. Turns of this one go on as
        they began."""
        fresh = copy(self)
        fresh.approvals = replace(self.approvals, policy=policy)
        self.tools = self.tools.replace(factories)
        return fresh

    async def run(self, turn: Turn) -> TurnFinished:
        """Run a turn to its end and say how it ended; never raises for a provider's or a tool's failure.

        When cancelled, `turn` holds what was reached; its owner closes it.
        """
        specs = self.offered(turn)
        conversation = Conversation(turn, specs)
        turn.strangers = await self.approvals.strangers(turn, self.tools.described(specs))
        left = turn.remaining
        # Before the timeout, which fires later and takes away what there is to see.
        watch = asyncio.get_running_loop().call_later(left, _overdue, turn, asyncio.current_task())
        try:
            async with asyncio.timeout(left):
                if turn.message.cause == "compaction":
                    return await self._sum_up(conversation)
                if turn.message.command:
                    return await self._run_typed(conversation)
                await conversation.begin()
                if turn.messages:
                    await self._go_on(conversation)
                else:
                    await turn.add(*turn.prompt.opening)
                return await self._steps(conversation)
        except ProviderError as error:
            return ends.failed(conversation, explanations.explain(error, turn.provider.info), error)
        except TimeoutError:
            turn.settle("[Broken off at the time limit]")  # English: it stands in the conversation
            return await ends.out_of(conversation, "seconds")
        finally:
            watch.cancel()
            conversation.release()

    @staticmethod
    async def _sum_up(conversation: Conversation) -> TurnFinished:
        """The turn of `/compact`, of which nothing is kept but the summary."""
        turn = conversation.turn
        # English: a model reads it
        made = await conversation.sum_up(turn.message.content.strip() or "everything that still counts")
        return turn.finished("completed", made.summary.text if made else _(explanations.NOTHING_TO_SUM_UP))

    async def _run_typed(self, conversation: Conversation) -> TurnFinished:
        """The turn of a command that the person typed: it is judged as one of a model, which is not asked."""
        turn = conversation.turn
        if self.tools.get(EXEC) is None:
            return turn.finished("failed", "", explanations.no_commands(told(self.tools.skipped.get(EXEC, ""))))
        arguments = json.dumps({"command": turn.message.content}, ensure_ascii=False)
        answer = AssistantMessage((ToolCall(f"typed-{turn.id}", EXEC, arguments),), "tools")
        await turn.add(*turn.prompt.opening)
        await turn.add(answer)
        await self._execute_tools(conversation, answer)
        return turn.finished("completed", "")

    def offered(self, turn: Turn) -> tuple[ToolSpec, ...]:
        """The tools of a turn; where nobody can answer, none that asks, and no helpers where a guest speaks."""
        specs = self.tools.specs(turn.authority, turn.granted, direct=turn.message.direct)
        asks, aside = self.questions.can_ask(turn), turn.message.aside
        found = ((spec, self.tools.get(spec.name)) for spec in specs if turn.tools is None or spec.name in turn.tools)
        return tuple(
            spec
            for spec, tool in found
            if (not aside or _is_public(tool))
            and (asks or tool is None or not tool.interactive)
            and (spec.name != SPAWN or turn.authority != "guest")
        )

    async def _go_on(self, conversation: Conversation) -> None:
        """Go on with a turn that broke off with the process. A call that may have had its effect does not run again."""
        turn = conversation.turn
        # Of a process that died before it could tell.
        turn.notes.extend(_note(turn, one) for one in ends.unknown(turn.messages))
        answer = turn.open
        for call in answer.calls if answer else ():
            tool = self.tools.get(call.name)  # None where its server is gone: what it did is not known either
            again = tool is not None and tool.idempotent
            if call.id in turn.began and call.id not in turn.answered and not again:
                await turn.warn(_note(turn, call))
                turn.answered.add(call.id)
                unknown = (Text(explanations.OUTCOME_UNKNOWN),)
                await turn.add(ToolMessage(call.id, call.name, unknown, "cancelled"))
        if answer is not None:
            left = tuple(call for call in answer.calls if call.id not in turn.answered)
            await self._execute_tools(conversation, replace(answer, content=left))

    async def _steps(self, conversation: Conversation) -> TurnFinished:
        turn, nudged, doubted = conversation.turn, False, False
        while (spent := turn.spent()) is None:
            await turn.steer()
            if (verdict := await conversation.refused()) is not None:
                return await ends.over_budget(conversation, verdict)
            answer = await self._ask(conversation)
            if answer.calls:
                await self._execute_tools(conversation, answer)
                if any(count >= ends.SAME_RESULTS for count in turn.repeated.values()):
                    return await ends.out_of(conversation, "repeats")
            elif answer.text.strip():
                if doubted or not (claims := ends.claims_more(turn, answer.text)):
                    return await ends.completed(conversation, answer)
                doubted = True
                await ends.doubt(turn, claims)
            elif answer.finish == "filtered":
                raise ProviderError("filtered", "")
            elif nudged:
                cut = answer.finish == "length"
                return ends.failed(conversation, _(explanations.ONLY_THOUGHT if cut else explanations.NO_ANSWER))
            else:
                nudged = True
                await turn.add(UserMessage((Text(explanations.NUDGE),), kind="notice"))
        return await ends.out_of(conversation, spent)

    async def _ask(self, conversation: Conversation) -> AssistantMessage:
        """The answer of a step. Somebody who waits in a chat is not asked to send a question again for a model that is
        away for minutes."""
        turn, pause = conversation.turn, _FIRST_PAUSE
        while True:
            try:
                return await conversation.ask()
            except ProviderError as error:
                wait = max(pause, error.retry_after or pause)
                if not turn.durable or error.kind not in _AWAY or turn.remaining - wait < _LAST_SECONDS:
                    raise
                info = turn.provider.info
                turn.steps -= 1
                turn.asking = info.model
                await turn.emit(StepRetried(error.brief, wait, error.provider or info.name))
                await self.sleep(wait)
            pause = min(2 * pause, _LONGEST_PAUSE)

    # Tools

    async def _execute_tools(self, conversation: Conversation, answer: AssistantMessage) -> None:
        """Run the calls of one answer in batches; each result is kept as soon as it is there."""
        turn, slots = conversation.turn, asyncio.Semaphore(MAX_PARALLEL)

        async def run(call: ToolCall) -> None:
            async with slots:
                result = await self._run_tool(conversation, call)
            tool = self.tools.get(call.name)
            if result.is_error:
                turn.repeated[hash((call.name, call.arguments, result.text))] += 2
            elif tool is not None and tool.idempotent and tool.local:  # what is elsewhere goes on by itself
                turn.repeated[hash((call.name, call.arguments, result.text, turn.acts))] += 1
            turn.acts += not (result.is_error or (tool is not None and tool.idempotent))
            turn.answered.add(call.id)
            try:
                await turn.add(await self._message(turn, call, result))
            except StoreError:
                if not result.is_error and tool is not None and not tool.idempotent:
                    hint = _hint(turn, call)
                    await turn.warn(_("This was done before the turn broke off: {what}.", what=hint))
                raise

        for batch in self._batches(answer.calls):
            try:
                async with asyncio.TaskGroup() as group:
                    for call in batch:
                        group.create_task(run(call))
            except ExceptionGroup as errors:
                # Nothing but the store fails here; what cannot be written down must not be done.
                raise errors.exceptions[0] from errors
        await turn.add(*turn.asides())

    def _batches(self, calls: Sequence[ToolCall]) -> Iterator[list[ToolCall]]:
        """Neighbours that may run together; what is ordered or exclusive is alone."""
        batch: list[ToolCall] = []
        for call in calls:
            tool = self.tools.get(call.name)
            if tool is not None and (tool.ordered or tool.exclusive):
                yield batch
                yield [call]
                batch = []
            else:
                batch.append(call)
        yield batch

    async def _run_tool(self, conversation: Conversation, call: ToolCall) -> ToolResult:
        """Run one call, or answer it with the reason why it is not run."""
        turn, tool = conversation.turn, self.tools.get(call.name)
        name = tool.name if tool else call.name
        arguments, problem = parse_arguments(call)
        meant = with_addresses(name, arguments, turn.sources)
        hint = _wording(turn, name, meant)
        whole = hint == tool_hint(name, meant)
        if name == SPAWN:
            hint = numbered(hint, turn.doing)
        started = time.monotonic()
        turn.doing.append(hint)
        turn.running[call.id] = hint
        await turn.emit(ToolStarted(call, hint))
        try:
            if problem:
                result = error_result("invalid_input", _(_INCOMPLETE, reason=problem))
            elif turn.message.aside and not (turn.message.command or _is_public(tool)):
                result = error_result("denied", explanations.ASIDE, message=_(explanations.ASIDE))
            elif tool is None:
                result = await self.tools.execute(name, arguments, Verdict("deny", ""))
            elif turn.tools is not None and name not in turn.tools:
                has = ", ".join(sorted(turn.tools)) or "none"
                # English: a model reads it
                result = error_result("denied", f"This helper has no tool {name!r}. Available tools: {has}.")
            else:
                result = await self._judged(conversation, call, tool, arguments)
        finally:
            turn.running.pop(call.id, None)
        told = result if whole else replace(result, message="")
        await turn.emit(ToolFinished(call, told, time.monotonic() - started - turn.waited.pop(call.id, 0)))
        return result

    async def _judged(
        self, conversation: Conversation, call: ToolCall, tool: ToolLike, arguments: dict[str, object]
    ) -> ToolResult:
        """Run a call that is no needless repetition and that the policy allows."""
        turn, name = conversation.turn, tool.name
        context = self._context(conversation, call)
        counts = not tool.needs_no_network(arguments, context)
        same = with_addresses(name, arguments, turn.sources)
        target = lookup_target(name, same)
        if counts:
            refusal = repeated_external_lookup_error(name, same, turn.lookups, turn.limits.lookup_repeats)
            if refusal is not None:
                known = explanations.known_sources(turn.found.get(target, set()))
                return error_result("repeated", f"{refusal}{known}", message=_(explanations.REPEATED))
        verdict, meant, note = await self.approvals.decide(turn, tool, arguments, context)
        if verdict.decision == "allow" and not tool.idempotent:
            await turn.intend(call)
        result = await self.tools.execute(name, meant, verdict, context)
        if note and verdict.decision == "allow":
            result = replace(result, text=f"{note}\n\n{result.text}")
        if result.error in ("invalid_input", "denied"):
            forget_external_lookup(name, same, turn.lookups)
        result = with_receipt(result, verdict, tool.name)
        for written in verdict.effects[:1] if name in _WRITES and result.success else ():
            if told := await report_checked(turn, Path(written.target)):
                result = replace(result, text=f"{result.text}\n\n{told}")
        own = tuple(one.kind for one in verdict.effects) if result.receipt else ()
        for source in result.sources:
            turn.found.setdefault(target, set()).add(source.number)
            if source.number and not turn.sources.text(source.number):
                turn.sources.note(source.number, result.text)
        return replace(result, did=own + result.did)

    def _context(self, conversation: Conversation, call: ToolCall) -> ToolContext:
        turn = conversation.turn
        able = turn.provider.info.capabilities
        spawn = self.spawn if turn.authority != "guest" else None  # helpers cost

        async def progress(text: str) -> None:
            await turn.emit(ToolProgress(call.id, without_secrets(text)))

        return ToolContext(
            call.id,
            turn.id,
            turn.grants or turn.session,
            turn.message.address,
            turn.message.sender,
            turn.sources,
            progress,
            turn.emit,
            self.questions.chooser(turn),
            privacy=turn.prompt.privacy,
            approve=self.approvals.approver(turn, call),
            result_chars=turn.limits.max_tool_result_chars,
            ask=conversation.ask_aside if able.language_model else None,
            ask_room=conversation.aside_room,
            read_pages=conversation.read_pages if able.reads_pages else None,
            estimate=conversation.estimate,
            taint=turn.taint,
            scheduled=turn.scheduled,
            role=turn.authority,
            granted=turn.granted,
            direct=turn.message.direct,
            unlinked=partial(unlinked, turn),
            so_far=lambda: tuple(turn.messages),
            spawn=partial(spawn, turn, call) if spawn is not None else None,
        )

    async def _message(self, turn: Turn, call: ToolCall, result: ToolResult) -> ToolMessage:
        """The result as the model reads it: within the size limit, and marked where it came from outside."""
        tool = self.tools.get(call.name)
        name = tool.name if tool else call.name
        limit = turn.limits.max_tool_result_chars
        kept = await self._kept(turn, name, result) if len(result.text) > limit else ""
        text = cut_result_text(result.text, limit, kept) or "(no output)"
        if result.untrusted:
            text = wrap(strip_unsafe(text), name)
        content: tuple[UserPart, ...] = (Text(text), *result.media)
        error, receipt = result.error or "", result.receipt
        return ToolMessage(
            call.id, call.name, content, error, result.untrusted, result.sources, receipt=receipt, did=result.did
        )

    async def _kept(self, turn: Turn, name: str, result: ToolResult) -> str:
        """Where the whole of a result is that is too long; empty where it is nowhere, or a page of something."""
        labels = (f"result of {name}",) if result.untrusted else ()
        pages = name != _PAGING and any(spec.name == _PAGING for spec in self.offered(turn))
        if self.keep_result is not None and pages:
            try:
                return await self.keep_result(turn.message, result.text, labels)
            except (NanobotError, OSError) as error:
                logger.warning("a long result of {} could not be kept: {}", name, error)
        return ""


def _wording(turn: Turn, name: str, arguments: Mapping[str, object]) -> str:
    """A call in words for those who read them; where that is a group, they are not all for its eyes."""
    return tool_hint(name, arguments) if turn.message.direct else shared_hint(name, arguments)


def _hint(turn: Turn, call: ToolCall) -> str:
    return _wording(turn, call.name, parse_arguments(call)[0])


def _note(turn: Turn, call: ToolCall) -> str:
    """What a person is told of a call that broke off with the process."""
    return _(
        "nanobot stopped while it did this: {what}. Whether that took effect is not known; it was not done again.",
        what=_hint(turn, call),
    )


def _is_public(tool: ToolLike | None) -> bool:
    """Whether a tool only looks at what everybody may see, as one beside the conversation does."""
    return tool is not None and tool.access == "public"


def _overdue(turn: Turn, task: "asyncio.Task[object] | None") -> None:
    """Note what a turn waits for when its time is over."""
    turn.overdue, turn.silent = turn.waits, not turn.running and not turn.partial
    if task is not None:
        log_chain(f"turn {turn.id}", task)
