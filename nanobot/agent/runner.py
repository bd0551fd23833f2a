"""Runs one turn: ask the model, run the calls it asks for, and again, until it answers or a budget ends it."""

import asyncio
import json
import time
from collections import Counter
from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from nanobot.agent import words
from nanobot.agent.approvals import Approvals
from nanobot.agent.asking import asker, mended, page_reader, room_of
from nanobot.agent.limits import Spent, TurnLimits
from nanobot.agent.talk import Talk
from nanobot.agent.tools.base import ToolContext, ToolLike
from nanobot.agent.tools.named import with_addresses
from nanobot.agent.tools.registry import ToolRegistry
from nanobot.agent.trim import cut_result_text
from nanobot.agent.turn import Turn, TurnResult, TurnTask
from nanobot.bus.events import Notice, Outcome, ToolFinished, ToolProgress, ToolStarted
from nanobot.errors import ProviderError, ProviderErrorKind, StoreError
from nanobot.messages import AssistantMessage, Finish, Message, Text, ToolCall, ToolMessage, UserMessage, UserPart
from nanobot.results import ToolResult, error_result
from nanobot.security.policy import Call, Destination, Verdict
from nanobot.security.trust import wrap
from nanobot.utils.runtime import forget_external_lookup, lookup_target, repeated_external_lookup_error
from nanobot.utils.text import strip_unsafe
from nanobot.utils.tool_hints import fold_hints, tool_hint
from nanobot.utils.watchdog import log_chain

#: How often one call may fail in the same way before an answer is forced.
SAME_FAILURES = 5
#: How many calls of one batch run at the same time.
MAX_PARALLEL = 8
#: Failures of a model or of the network that may be over within the turn.
_AWAY: frozenset[ProviderErrorKind] = frozenset(
    {"network", "timeout", "overloaded", "server", "rate_limit", "truncated"}
)
#: Seconds between two requests to a model that is away: the first pause, which doubles, and the longest one.
_FIRST_PAUSE, _LONGEST_PAUSE = 1.0, 60.0
#: Seconds that must be left for another request to such a model.
_LAST_SECONDS = 5.0
#: Seconds for the last request of a turn that ran out of its budget.
SUMMARY_SECONDS = 30.0
#: Answers that ended like this may hold calls whose arguments were cut.
_CUT: frozenset[Finish] = frozenset({"length", "filtered", "error", "truncated", "overflow"})


class AgentRunner:
    """Runs turns with the tools of one registry. One runner serves every session and every sub-agent."""

    def __init__(self, tools: ToolRegistry, limits: TurnLimits | None = None) -> None:
        self.tools = tools
        self.approvals = Approvals()
        self.limits = limits or TurnLimits()

    async def run(self, task: TurnTask, turn: Turn | None = None) -> TurnResult:
        """Run a turn to its end and say how it ended; never raises for a provider's or a tool's failure.

        When cancelled, `turn` holds what was reached; its owner closes it.
        """
        turn = turn or Turn(self.limits)
        turn.hear(task.sender.role)
        talk = Talk(task, turn, self.tools.specs(turn.authority))
        left = turn.budget.remaining
        # Before the timeout, which fires later and takes away what there is to see.
        watch = asyncio.get_running_loop().call_later(left, _overdue, turn, asyncio.current_task())
        try:
            async with asyncio.timeout(left):
                failures: Counter[str] = Counter()
                if task.past.messages:
                    await self._take_up(talk, failures)
                else:
                    await talk.add(*task.opening)
                return await self._steps(talk, failures)
        except ProviderError as error:
            return await self._failed(talk, words.explain(error, task.provider.info), error)
        except TimeoutError:
            turn.settle("[Broken off at the time limit]")
            return await self._out_of(talk, "seconds")
        finally:
            watch.cancel()

    async def _take_up(self, talk: Talk, failures: Counter[str]) -> None:
        """Go on with a turn that broke off with the process. A call that may have had its effect does not run again."""
        turn, past = talk.turn, talk.task.past
        turn.take_up(past.messages)
        turn.notes.extend(map(_note, _unknown(past.messages)))  # of a process that died before it could tell
        answer = turn.open
        if answer is None:
            return
        for call in answer.calls:
            tool = self.tools.get(call.name)  # None where its server is gone: what it did is not known either
            again = tool is not None and tool.idempotent
            if call.id in past.intents and call.id not in turn.answered and not again:
                turn.notes.append(_note(call))
                await talk.emit(Notice(turn.notes[-1], "warning"))
                turn.answered.add(call.id)
                await talk.add(ToolMessage(call.id, call.name, (Text(words.OUTCOME_UNKNOWN),), "cancelled"))
        left = tuple(call for call in answer.calls if call.id not in turn.answered)
        await self._execute_tools(talk, replace(answer, content=left), failures)

    def _idempotent(self, call: ToolCall) -> bool:
        tool = self.tools.get(call.name)
        return tool is None or tool.idempotent

    async def _steps(self, talk: Talk, failures: Counter[str]) -> TurnResult:
        budget = talk.turn.budget
        nudged = False
        while (spent := budget.spent()) is None:
            await talk.steer()
            answer = await self._ask(talk)
            if answer.calls:
                await self._execute_tools(talk, answer, failures)
                if failures and max(failures.values()) >= SAME_FAILURES:
                    return await self._force_answer(talk)
            elif answer.text.strip():
                return await self._completed(talk, answer)
            elif answer.finish == "filtered":
                raise ProviderError("filtered", "")
            elif nudged:
                return await self._failed(talk, words.NO_ANSWER)
            else:
                nudged = True
                await talk.add(UserMessage((Text(words.NUDGE),), kind="notice"))
        return await self._out_of(talk, spent)

    async def _ask(self, talk: Talk) -> AssistantMessage:
        """The answer of a step. Somebody who waits in a chat is not asked to send a question again for a model that is
        away for minutes."""
        pause = _FIRST_PAUSE
        while True:
            try:
                return await talk.ask()
            except ProviderError as error:
                if error.code == "empty_answer":
                    return AssistantMessage(())
                wait = max(pause, error.retry_after or 0.0)
                left = talk.turn.budget.remaining - wait
                if not talk.task.patient or error.kind not in _AWAY or left < _LAST_SECONDS:
                    raise
                await talk.pause(error, wait)
            pause = min(2 * pause, _LONGEST_PAUSE)

    async def _execute_tools(self, talk: Talk, answer: AssistantMessage, failures: Counter[str]) -> None:
        """Run the calls of one answer in batches; each result is kept as soon as it is there."""
        slots = asyncio.Semaphore(MAX_PARALLEL)

        async def run(call: ToolCall) -> None:
            async with slots:
                result = await self._run_tool(talk, call, cut=answer.finish in _CUT)
            if result.is_error:
                failures[f"{call.name} {call.arguments} {result.text}"] += 1
            talk.turn.answered.add(call.id)
            try:
                await talk.add(self._message(call, result))
            except StoreError:
                if not (result.is_error or self._idempotent(call)):
                    note = words.done_before_the_end(tool_hint(call.name, parse_arguments(call)[0]))
                    talk.turn.notes.append(note)
                    await talk.emit(Notice(note, "warning"))
                raise

        for batch in self._batches(answer.calls):
            try:
                async with asyncio.TaskGroup() as group:
                    for call in batch:
                        group.create_task(run(call))
            except ExceptionGroup as errors:
                # Nothing but the store fails here; what cannot be written down must not be done.
                raise next((one for one in errors.exceptions if isinstance(one, StoreError)), errors) from errors
        talk.turn.open, talk.turn.answered = None, set()
        await talk.add(*talk.turn.asides())

    def _batches(self, calls: Sequence[ToolCall]) -> Iterator[list[ToolCall]]:
        """Neighbours that may run together; an exclusive call is alone, unless it only waits for its like at a lock."""
        batch: list[ToolCall] = []
        for call in calls:
            tool = self.tools.get(call.name)
            if tool is not None and tool.exclusive and not tool.lock:
                if batch:
                    yield batch
                yield [call]
                batch = []
            else:
                batch.append(call)
        if batch:
            yield batch

    async def _run_tool(self, talk: Talk, call: ToolCall, *, cut: bool) -> ToolResult:
        """Run one call, or answer it with the reason why it is not run."""
        tool = self.tools.get(call.name)
        name = tool.name if tool else call.name
        arguments, problem = parse_arguments(call)
        hint = tool_hint(name, with_addresses(name, arguments, talk.turn.sources))
        started = time.monotonic()
        talk.turn.doing.append(hint)
        talk.turn.running[call.id] = hint
        await talk.emit(ToolStarted(call, hint))
        try:
            if cut or problem:
                reason = problem or "the answer broke off before the call was complete"
                result = error_result("invalid_input", f"The call was not run: {reason}. Send it again, complete.")
            else:
                result = await self._look_up(talk, call, name, arguments)
        finally:
            talk.turn.running.pop(call.id, None)
        await talk.emit(ToolFinished(call, result, time.monotonic() - started))
        return result

    async def _look_up(self, talk: Talk, call: ToolCall, name: str, arguments: dict[str, object]) -> ToolResult:
        lookups, task, tool = talk.turn.lookups, talk.task, self.tools.get(name)

        async def progress(text: str) -> None:
            await talk.emit(ToolProgress(call.id, text))

        approve = self.approvals.approver(task, talk.turn, call)
        context = ToolContext(
            call.id,
            talk.turn.id,
            task.session,
            task.address,
            task.sender,
            talk.turn.sources,
            progress,
            privacy=task.privacy,
            approve=approve,
            result_chars=self.limits.max_tool_result_chars,
            ask=asker(talk),
            ask_room=room_of(talk),
            read_pages=page_reader(talk),
        )
        counts = tool is None or not tool.needs_no_network(arguments, context)
        same = with_addresses(name, arguments, talk.turn.sources)
        if counts:
            refusal = repeated_external_lookup_error(name, same, lookups, self.limits.lookup_repeats)
            if refusal is not None:
                known = words.known_sources(talk.turn.found.get(lookup_target(name, same) or "", set()))
                return error_result("repeated", f"{refusal}{known}", message=words.REPEATED)
        verdict = await self._verdict(talk, tool, arguments, context)
        if verdict.decision == "allow" and not self._idempotent(call):
            await task.intend(call)
        result = await self.tools.execute(name, arguments, verdict, context)
        if counts and result.error in ("invalid_input", "denied"):
            forget_external_lookup(name, same, lookups)
        if result.sources and (target := lookup_target(name, same)):
            talk.turn.found.setdefault(target, set()).update(source.number for source in result.sources)
        for source in result.sources:
            if source.number and not talk.turn.sources.text(source.number):
                talk.turn.sources.note(source.number, result.text)
        return result

    async def _verdict(
        self, talk: Talk, tool: ToolLike | None, arguments: dict[str, object], context: ToolContext
    ) -> Verdict:
        """What is decided about a call, by who speaks in this turn and by what was named in its session.

        The context is told which hosts nobody has named.
        """
        if tool is None:
            return Verdict("deny", "")
        known, role = talk.task.addresses, talk.turn.authority
        reached = tuple(Destination(url, url in known or tool.asks(url)) for url in tool.addresses(arguments, context))
        context.made_up = frozenset(one.host for one in reached if not one.named)
        call = Call(tool.name, arguments, tool.access, reached, role, context.person, context.session)
        return await self.approvals.verdict(call, context.approve)

    def _message(self, call: ToolCall, result: ToolResult) -> ToolMessage:
        """The result as the model reads it: within the size limit, and marked where it came from outside."""
        tool = self.tools.get(call.name)
        text = cut_result_text(result.text, self.limits.max_tool_result_chars) or "(no output)"
        if result.untrusted:
            text = wrap(strip_unsafe(text), tool.name if tool else call.name)
        content: tuple[UserPart, ...] = (Text(text), *result.media)
        return ToolMessage(call.id, call.name, content, result.error or "", result.untrusted, result.sources)

    async def _completed(self, talk: Talk, answer: AssistantMessage) -> TurnResult:
        if answer.finish == "length":
            await talk.emit(Notice("The answer reached the model's output limit. Ask it to go on.", "warning"))
        elif answer.finish == "filtered":
            await talk.emit(Notice("The model's content rules cut this answer short.", "warning"))
        return await self._result(talk, "completed", answer.text.strip())

    async def _force_answer(self, talk: Talk) -> TurnResult:
        text = await talk.conclude(words.FORCE_ANSWER.format(count=SAME_FAILURES), talk.turn.budget.remaining)
        if not text:
            return await self._failed(talk, words.NO_ANSWER)
        return await self._result(talk, "completed", text)

    async def _out_of(self, talk: Talk, spent: Spent) -> TurnResult:
        """End at a limit: the model sums up; where it cannot, the runtime does."""
        limits = self.limits
        reason = words.limit_reason(spent, limits.max_steps, limits.max_seconds, limits.max_tokens, talk.turn.overdue)
        text = ""
        if not (talk.turn.overdue and talk.turn.silent):  # what hangs would hang again
            text = await talk.conclude(words.ask_for_summary(reason), SUMMARY_SECONDS)
        if text and talk.turn.overdue:
            talk.turn.notes.append(f"{reason[0].upper()}{reason[1:]}.")
            await talk.emit(Notice(talk.turn.notes[-1], "warning"))
        if not text:
            text = words.plain_summary(reason, fold_hints(talk.turn.doing))
            talk.turn.answer()
            await talk.end(AssistantMessage((Text(text),), "other"))
        return await self._result(talk, "out_of_steps", text)

    async def _failed(self, talk: Talk, sentence: str, error: ProviderError | None = None) -> TurnResult:
        """End in failure with a legal history; the text that came before the failure is kept."""
        partial = talk.turn.shown
        if error is not None and error.kind == "overflow":
            sentence = words.OUT_OF_CONTEXT
        talk.turn.close("failure")
        await talk.end()
        temporary = error is not None and error.retryable
        return TurnResult("failed", partial, sentence, temporary, talk.model, talk.learned, talk.text.citations)

    async def _result(self, talk: Talk, outcome: Outcome, text: str) -> TurnResult:
        """The end of a turn with the marks of its answer judged; where they may still change, mended once."""
        answer = await talk.checked(text)
        if talk.task.revisable and outcome == "completed" and any(one.missing for one in answer.citations):
            answer = await mended(talk, answer)
        talk.turn.cite(answer.citations)
        return TurnResult(
            outcome, answer.shown.strip(), model=talk.model, window=talk.learned, citations=answer.citations
        )


def _note(call: ToolCall) -> str:
    return words.outcome_unknown(tool_hint(call.name, parse_arguments(call)[0]))


def _unknown(messages: Sequence[Message]) -> Iterator[ToolCall]:
    """The calls whose outcome was called unknown."""
    calls: dict[str, ToolCall] = {}
    for message in messages:
        if isinstance(message, AssistantMessage):
            calls = {call.id: call for call in message.calls}
        elif isinstance(message, ToolMessage) and message.text == words.OUTCOME_UNKNOWN and message.call_id in calls:
            yield calls[message.call_id]


def _overdue(turn: Turn, task: "asyncio.Task[object] | None") -> None:
    """Note what a turn waits for when its time is over."""
    turn.overdue, turn.silent = turn.waits, not turn.running and not turn.partial
    if task is not None:
        log_chain(f"turn {turn.id}", task)


def parse_arguments(call: ToolCall) -> tuple[dict[str, object], str]:
    """The arguments as an object, and what is wrong with them, which is empty for a call that may run."""
    if call.error:
        return {}, call.error
    try:
        value: object = json.loads(call.arguments or "{}")
    except (ValueError, RecursionError) as error:
        return {}, f"its arguments are no valid JSON ({error})"
    if not isinstance(value, dict):
        return {}, "its arguments are no JSON object"
    return {str(key): item for key, item in value.items()}, ""
