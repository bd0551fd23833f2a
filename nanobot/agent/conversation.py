"""One turn's conversation with its model: what is sent, what is streamed, what is done when it does not fit."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from loguru import logger
from msgspec.structs import replace

from nanobot.agent.answer_text import AnswerText
from nanobot.agent.context import BYTES_PER_TOKEN, estimate_all, estimate_text, trim
from nanobot.agent.history import Past, flatten, normalize, unique_ids
from nanobot.agent.memory.compaction import (
    FULL,
    LEAST_SAVED,
    TAIL,
    Compacted,
    shown_of,
    sum_up,
    without_forgotten,
    words_for,
)
from nanobot.agent.turn import Turn
from nanobot.bus.events import ContextCompacted, Notice, StepStarted
from nanobot.errors import ProviderError
from nanobot.messages import (
    AssistantMessage,
    Cause,
    Completed,
    Delta,
    Finish,
    Message,
    StepRetried,
    Text,
    TextDelta,
    ThinkingDelta,
    ToolCallDelta,
    Usage,
    UserMessage,
)
from nanobot.providers.base import Request, ToolSpec, nested, opened
from nanobot.utils.translation import _, listed

if TYPE_CHECKING:
    from nanobot.money.budget import Budget, BudgetVerdict

#: The share of the window that a shortened conversation may take, and the share that tool schemas may.
_FILL = 0.7
_SCHEMA_SHARE = 3
#: What has to be left at most of a request for another one to be of use.
_WORTH = 0.9
_LEAST = 400
#: Seconds for one request of a tool, its retries included.
ASIDE_SECONDS = 120.0
#: The share of the window that a request of a tool may fill, with room left for a text that has short words.
_ASIDE_SHARE = 5 / 6
#: Tokens kept for the answer, and for the system prompt and the task of a request of a tool.
_ANSWER_TOKENS, _TASK_TOKENS = 2_048, 800
_BROKEN: frozenset[Finish] = frozenset({"filtered", "error", "truncated", "overflow"})


class Conversation:
    """Asks the provider of `turn` with everything said so far, and keeps its answers there.

    `window` starts as what is known of the model's context in tokens and is lowered when the service says otherwise;
    `text` is the answer of the step that runs or ran last. `aside_seconds` is how long a request of a tool may take.
    """

    def __init__(self, turn: Turn, tools: tuple[ToolSpec, ...]) -> None:
        info = turn.provider.info
        self.turn = turn
        self.window = turn.window or info.capabilities.window
        self._narrowed = bool(turn.window)
        self.text = AnswerText(turn)
        self.aside_seconds = ASIDE_SECONDS
        self._held_by: Budget | None = None
        self._tools = tools
        self._fixed = self._unchanging
        self._history: tuple[Message, ...] = ()
        self._history_size = 0
        self._trimmed: list[Message] = []
        self._trimmed_count = 0
        turn.model = turn.model or info.model

    @property
    def _unchanging(self) -> int:
        """Tokens of what stands in every request besides the conversation."""
        prompt = self.turn.prompt
        return estimate_all((), prompt.system, self._tools) + estimate_text(prompt.tail)

    @property
    def _reserve(self) -> int:
        """Tokens kept free for the answer."""
        return min(self.turn.settings.max_tokens or _ANSWER_TOKENS, self.window // 4)

    @property
    def _blank(self) -> Request:
        """A request without a word. Once one was too long for the service, an answer has no more than what is kept free
        for it."""
        blank = self.turn.settings.applied(Request(()))
        return replace(blank, max_tokens=self._reserve) if self._narrowed and blank.max_tokens else blank

    async def begin(self) -> None:
        """Begin with what was said before: summed up where it fills the window, else as much as there is room for."""
        past = self.turn.prompt.past
        used = past.tokens + self._fixed + self._reserve + estimate_all(self.turn.prompt.opening)
        if used > self.window * FULL and past.tokens > past.stubborn * (1 + LEAST_SAVED):
            await self.sum_up()
        past = self.turn.prompt.past
        past.fit(max(_LEAST, self.window - self._fixed - self._reserve))
        self._history, self._history_size = past.messages, past.tokens
        self._trimmed = list(past.unfinished)

    async def sum_up(self, focus: str = "") -> Compacted | None:
        """Put a summary in the place of what was said first; None where that is not possible or saves too little.

        What is not summed up stays as it is, and the oldest turns are left out of the requests where they do not fit.
        """
        turn, past = self.turn, self.turn.prompt.past
        able = turn.store is not None and turn.message.direct and turn.provider.info.capabilities.language_model
        if turn.store is None or not able or turn.messages or turn.prompt.summing is None:
            return None
        records = await turn.store.records(turn.session, size=past.size)
        if turn.prompt.forgets is not None:
            records = without_forgotten(records, await turn.prompt.forgets())
        shown = shown_of(records, turn.authority, turn.session)
        task, tail = turn.prompt.summing(words_for(self.window)), int(self.window * TAIL)
        try:
            ask = partial(self.ask_aside, cause="compaction")
            made = await sum_up(shown, ask, task, room=self.aside_room, tail=tail, focus=focus)
        except ProviderError as error:
            made = None
            text = _("The earlier conversation could not be summed up: {error}", error=error)
            await turn.emit(Notice(text, "warning"))
        if made is None or not (focus or made.after <= made.before * (1 - LEAST_SAVED)):
            past.stubborn = past.tokens
            return None
        summary = replace(made.summary, speaker=turn.authority, untrusted=made.summary.untrusted or bool(turn.taint))
        await turn.store.compact(turn.session, summary, made.keep)
        fresh = Past(past.session, past.role, past.size, shared=past.shared)
        fresh.add(await turn.store.records(turn.session, size=past.size))
        turn.prompt = replace(turn.prompt, past=fresh)
        await turn.emit(ContextCompacted(made.before, made.after, made.turns, summary.text))
        return made

    async def ask(self) -> AssistantMessage:
        """One step: the answer of the model. Raises `ProviderError`.

        A conversation that is too long is cut until it fits or cannot be cut; a history that the service refuses is
        left out once.
        """
        if self._size() + self._reserve > self.window:
            await self._shrink()
        while True:
            try:
                answer = await self._stream(self._request())
            except ProviderError as error:
                if error.kind == "overflow" and await self._narrow(error):
                    continue
                if error.kind != "bad_request" or not self._history:
                    raise
                self._history, self._history_size = (), 0
                text = _(
                    "The model's service refused the earlier conversation. I go on without it; /new starts afresh."
                )
                await self.turn.emit(Notice(text, "warning"))
            else:
                if self._narrowed:
                    self.turn.window = self.window
                return answer

    async def _narrow(self, error: ProviderError) -> bool:
        """Ask for less, in the window that the service named or, where that holds all of it by our count, in less than
        what was refused; False where nothing can go."""
        size, longest, named = self._size(), self._blank.max_tokens, error.window or 0
        self._narrowed = True
        self.window = named if 0 < named < size + (longest or 0) else min(self.window, int(size * _FILL))
        if await self._shrink():
            shortened = _("the conversation was too long for the model and was shortened")
            await self.turn.emit(StepRetried(shortened))
            return True
        return self._blank.max_tokens != longest

    async def conclude(self, instruction: str, seconds: float) -> str:
        """A last answer without tools, within `seconds`; empty where the model gave none."""
        self.turn.concluding = True
        if await self.refused() is not None:
            return ""
        await self.turn.add(UserMessage((Text(instruction),), kind="notice"))
        request = replace(self._request(), tools=())
        if self.turn.provider.info.capabilities.language_model:  # others read results, and not words about them
            request = replace(request, messages=flatten(request.messages))
        with suppress(ProviderError, TimeoutError):
            async with asyncio.timeout(seconds):
                return (await self._stream(request)).text.strip()
        return ""

    def _said(self) -> list[Message]:
        return [*self._trimmed, *self.turn.messages[self._trimmed_count :]]

    def _size(self) -> int:
        return self._fixed + self._history_size + estimate_all(self._said())

    def _request(self) -> Request:
        prompt, session = self.turn.prompt, self.turn.session
        messages = (*self._history, *normalize(self._said()))
        return replace(
            self._blank, messages=messages, system=prompt.system, tail=prompt.tail, tools=self._tools, session=session
        )

    async def _shrink(self) -> bool:
        """Make the request smaller; False where hardly anything of it can go."""
        before = self._size()
        await self._fit_tools()
        limit = max(_LEAST, int(self.window * _FILL) - self._fixed - self._reserve)
        self._history, self._trimmed = trim(self._history, self._said(), limit)
        self._trimmed_count = len(self.turn.messages)
        self._history_size = estimate_all(self._history)
        if self._size() > before * _WORTH:
            return False
        await self.turn.emit(ContextCompacted(before, self._size()))
        return True

    async def _fit_tools(self) -> None:
        """Leave out the tools with the largest schemas where all of them would fill the window."""
        room = self.window // _SCHEMA_SHARE
        kept: list[ToolSpec] = []
        for tool in sorted(self._tools, key=lambda tool: (estimate_text(tool.text), tool.name)):
            room -= estimate_text(tool.text)
            if room < 0:
                break
            kept.append(tool)
        if len(kept) == len(self._tools):
            return
        left_out = listed(tool.name for tool in self._tools if tool not in kept)
        self._tools = tuple(tool for tool in self._tools if tool in kept)
        self._fixed = self._unchanging
        text = _("Left out for want of room in the model's context: {tools}.", tools=left_out)
        await self.turn.emit(Notice(text, "warning"))

    async def _stream(self, request: Request) -> AssistantMessage:
        """One request: its text is shown as it comes, with its marks judged, and its answer is kept."""
        turn, begun = self.turn, time.monotonic()
        self._begin_text()
        turn.steps += 1
        await turn.emit(StepStarted(turn.steps, turn.newly_read()))
        turn.asking = turn.provider.info.model
        answer: AssistantMessage | None = None
        try:
            async with opened(self._deltas(request)) as deltas:
                async for delta in deltas:
                    if isinstance(delta, Completed):
                        answer = delta.message
                        break
                    await self._take(delta)
            await self._show(await self.text.end())
        except ProviderError:
            await self._show(await self.text.end())
            raise
        finally:
            turn.asking = ""
        if answer is None:
            raise ProviderError("truncated", _("the stream ended without an answer"), partial=self.text.raw)
        used, calls = answer.usage, len(answer.calls)
        logger.info(
            "request {} to {}: {} tokens in, {} out, {} calls, {:.2f} s",
            *(turn.steps, answer.model or turn.model, used.input, used.output, calls, time.monotonic() - begun),
        )
        return await self._keep(answer)

    async def _take(self, delta: Delta) -> None:
        if isinstance(delta, TextDelta):
            await self._show(await self.text.feed(delta.text))
        elif isinstance(delta, StepRetried):
            self._begin_text()
        if isinstance(delta, ThinkingDelta | StepRetried):
            await self.turn.emit(delta)

    # Money

    async def refused(self) -> "BudgetVerdict | None":
        """Why the budget does not allow another request now; None where it does. People are warned once a day."""
        turn, info = self.turn, self.turn.provider.info
        if (budget := turn.budget(info)) is None:
            return None
        begun = turn.steps > 0 and not turn.concluding
        turn.asking = info.model
        try:
            self._held_by = budget
            verdict = await budget.judge(turn.message, info, begun=begun, turn=turn.id, tokens=self._size())
        finally:
            turn.asking = ""
        if verdict.kind == "warn":
            turn.notes.append(verdict.text)
            await turn.emit(Notice(verdict.text, "warning"))
        return verdict if verdict.kind == "stop" else None

    async def estimate(self, pages: int, requests: int) -> str:
        """About what so many pages and requests would cost with the model of the turn; empty where it is free."""
        turn, info = self.turn, self.turn.provider.info
        budget = turn.budget(info)
        return await budget.estimate(turn.message, info, pages=pages, requests=requests) if budget is not None else ""

    async def _deltas(self, request: Request, cause: Cause | None = None) -> AsyncIterator[Delta]:
        """What one request streams; the answer at its end carries its cost.

        An answer that broke off, or was stopped, is paid for as well: it is reckoned from its length, as is one of
        which the service tells no figures.
        """
        said, provider = 0, self.turn.provider
        try:
            async with nested(provider.stream(request)) as deltas:
                async for delta in deltas:
                    if isinstance(delta, Completed):
                        answer, length, said = delta.message, said, 0
                        untold = not (answer.usage.input or answer.usage.output or answer.usage.cost)
                        if untold and (reckoned := self._reckoned(request, length)) is not None:
                            answer = replace(answer, usage=reckoned)
                        yield replace(delta, message=self._charged(answer, cause))
                        continue
                    if isinstance(delta, StepRetried):
                        self._count_broken(request, said, cause, delta.used)
                        said = 0
                    else:
                        said += len(delta.arguments if isinstance(delta, ToolCallDelta) else delta.text)
                    yield delta
        finally:
            self._count_broken(request, said, cause)
            self.release()

    def release(self) -> None:
        """No request of the turn is under way any more."""
        if self._held_by is not None:
            self._held_by.release(self.turn.id)

    def _count_broken(self, request: Request, said: int, cause: Cause | None, used: Usage | None = None) -> None:
        if (usage := used or self._reckoned(request, said)) is not None:
            self.turn.count_aside(self._charged(AssistantMessage((), "other", usage=usage), cause))

    def _reckoned(self, request: Request, said: int) -> Usage | None:
        """About what a request used up that was answered with so many characters; None where no model was asked."""
        if not said or not self.turn.provider.info.capabilities.language_model:
            return None
        sent = estimate_all(request.messages, request.system, request.tools)
        return Usage(input=sent, output=said // BYTES_PER_TOKEN + 1)

    def _charged(self, answer: AssistantMessage, cause: Cause | None = None) -> AssistantMessage:
        """An answer with what it cost, and for whom and why it was asked, as accounts want it."""
        turn, info = self.turn, self.turn.provider.info
        usage = replace(answer.usage, requests=max(1, answer.usage.requests))
        if (budget := turn.budget(info)) is not None:
            usage = budget.charge(turn.message, info, answer.model, usage)
        model = answer.model or info.model
        return replace(answer, model=model, usage=usage, person=turn.message.person, cause=cause or turn.message.cause)

    def _begin_text(self) -> None:
        self.turn.void()
        self.text = AnswerText(self.turn)

    async def _show(self, text: str) -> None:
        if text:
            self.turn.partial.append(text)
            await self.turn.emit(TextDelta(text))

    async def _keep(self, answer: AssistantMessage) -> AssistantMessage:
        """Count an answer, and keep it unless it says nothing; one without calls ends the turn and is kept with it."""
        turn = self.turn
        if answer.empty or (answer.finish == "overflow" and not answer.calls):
            turn.count_aside(answer)  # it is kept nowhere else, and was paid for
        else:
            turn.usage += answer.usage
        if answer.finish == "overflow" and not answer.calls:
            raise ProviderError("overflow", _("the model's context is full"), partial=answer.text)
        turn.answer()
        turn.model = answer.model or turn.model
        answer = replace(unique_ids(answer), strangers=turn.strangers)
        if answer.calls:
            turn.open, turn.answered = answer, set()
            await turn.add(answer)
        elif answer.text.strip():
            turn.messages.append(answer)
        return answer

    # Requests of tools, apart from what was said

    @property
    def aside_room(self) -> int:
        """Bytes of text that one request of a tool may hold beside its answer."""
        return max(1_000, int((self.window - self._reserve - _TASK_TOKENS) * BYTES_PER_TOKEN * _ASIDE_SHARE))

    async def ask_aside(self, system: str, prompt: str, *, cause: Cause | None = None) -> str:
        """The model's answer to `prompt`. Raises `ProviderError` when the model fails, takes too long or says nothing,
        and when the tokens of the turn or the budget are used up."""
        answer = await self._aside(replace(self._blank, messages=_asked(prompt), system=system), cause)
        text = answer.text.strip()
        # English: a model reads it
        return f"{text}\n\n[The answer broke off at the model's output limit.]" if answer.finish == "length" else text

    async def read_pages(
        self, system: str, task: str, pages: tuple[tuple[int, str], ...]
    ) -> tuple[str, tuple[str, ...]]:
        """As `ask_aside`, for a service that reads public pages itself: the answer and the pages that it read."""
        answer = await self._aside(replace(self._blank, messages=_asked(task), system=system, pages=pages))
        return answer.text.strip(), answer.pages

    async def _aside(self, request: Request, cause: Cause | None = None) -> AssistantMessage:
        if self.turn.spent() == "tokens":
            raise ProviderError("quota", _("The token limit of this turn is reached."))
        if (verdict := await self.refused()) is not None:
            raise ProviderError("quota", verdict.text)
        answer = AssistantMessage(())
        try:
            async with asyncio.timeout(self.aside_seconds), opened(self._deltas(request, cause)) as deltas:
                async for delta in deltas:
                    if isinstance(delta, Completed):
                        answer = delta.message
                        break
        except TimeoutError:
            text = _("The model did not answer within {seconds:.0f} seconds.", seconds=self.aside_seconds)
            raise ProviderError("timeout", text) from None
        self.turn.count_aside(answer)
        if answer.finish in _BROKEN or not answer.text.strip():
            raise ProviderError("truncated", _("The model gave no whole answer."), partial=answer.text.strip())
        return answer


def _asked(prompt: str) -> tuple[Message, ...]:
    return (UserMessage((Text(prompt),)),)
