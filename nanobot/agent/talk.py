"""The conversation of one turn with a provider: what is sent, what is streamed, what is done when it does not fit."""

import asyncio
import time
from collections.abc import AsyncGenerator
from contextlib import suppress

from loguru import logger
from msgspec.structs import replace

from nanobot.agent.answer_text import AnswerText
from nanobot.agent.history import flatten, forget_failures, normalize, unique_ids
from nanobot.agent.trim import estimate_all, estimate_text, trim, window_of
from nanobot.agent.turn import Turn, TurnTask
from nanobot.bus.events import ContextCompacted, Event, Notice, StepStarted
from nanobot.errors import ProviderError, StoreError
from nanobot.messages import (
    AssistantMessage,
    Completed,
    Message,
    StepRetried,
    Text,
    TextDelta,
    ThinkingDelta,
    UserMessage,
)
from nanobot.providers.base import Request, ToolSpec

#: The share of the window that a shortened conversation may take, and the share that tool schemas may.
_FILL = 0.7
_SCHEMA_SHARE = 3
_LEAST = 400
#: Seconds given to a stream to close its connection.
_CLOSE_SECONDS = 0.5


class Talk:
    """Asks the provider with everything said so far and keeps the turn's record of the answers.

    `window` starts as what is known of the model's context in tokens and is lowered when the service says otherwise.
    """

    def __init__(self, task: TurnTask, turn: Turn, tools: tuple[ToolSpec, ...]) -> None:
        self.task = task
        self.turn = turn
        self.window = task.window or task.provider.info.capabilities.window
        self.learned = 0
        self.model = task.provider.info.model
        self.text = AnswerText(turn, task.addresses)
        self._tools = tools
        self._fixed = estimate_all((), task.system, tools)
        self._history = window_of(forget_failures(task.history), max(_LEAST, self.window - self._fixed - self._reserve))
        self._history_size = estimate_all(self._history)
        self._trimmed: list[Message] = []
        self._trimmed_count = 0

    @property
    def _reserve(self) -> int:
        """Tokens kept free for the answer."""
        return min(self.task.settings.max_tokens or 2_048, self.window // 4)

    async def emit(self, event: Event) -> None:
        if not self.turn.closed:
            await self.task.emit(event)

    async def add(self, *messages: Message) -> None:
        """Put messages into the conversation and make them durable."""
        self.turn.messages.extend(messages)
        self.task.addresses.take(messages, self.turn.sources)
        await self._save()

    async def end(self, *messages: Message) -> None:
        """Put the last messages of the turn into the conversation."""
        self.turn.messages.extend(messages)
        if not self.task.hold_end:
            await self._save()

    async def _save(self) -> None:
        if self.turn.closed:
            return  # what is left belongs to who closed it
        fresh = self.turn.unsaved()
        if not fresh:
            return
        try:
            await self.task.save(fresh)
        except StoreError:
            self.turn.refuse(fresh)
            raise

    async def steer(self) -> None:
        """Read what the person typed since the last step."""
        typed = await self.task.steering()
        if typed:
            self.turn.hear(*(message.speaker for message in typed))
            await self.add(*typed)

    async def ask(self) -> AssistantMessage:
        """One step: the answer of the model. Raises `ProviderError`.

        A conversation that is too long is cut once; a history that the service refuses is left out once.
        """
        if self._size() + self._reserve > self.window:
            await self._shrink(self.window)
        try:
            return await self._stream(self._request())
        except ProviderError as error:
            if error.kind == "overflow":
                self.learned = self.window = error.window or min(self.window, int(self._size() * _FILL))
                await self._shrink(self.window)
                await self.emit(StepRetried("the conversation was too long for the model and was shortened"))
            elif error.kind == "bad_request" and self._history:
                self._history, self._history_size = (), 0
                text = "The model's service refused the earlier conversation. I go on without it; /new starts afresh."
                await self.emit(Notice(text, "warning"))
            else:
                raise
        return await self._stream(self._request())

    async def pause(self, error: ProviderError, seconds: float) -> None:
        """Wait before the step is asked for again."""
        info = self.task.provider.info
        self.turn.budget.steps -= 1
        self.turn.asking = info.model
        await self.emit(StepRetried(error.brief, seconds, error.provider or info.name))
        await asyncio.sleep(seconds)

    async def conclude(self, instruction: str, seconds: float) -> str:
        """A last answer without tools, within `seconds`; empty where the model gave none."""
        self.turn.concluding = True
        await self.add(UserMessage((Text(instruction),), kind="notice"))
        request = self._request()
        request = replace(request, messages=flatten(request.messages), tools=())
        with suppress(ProviderError, TimeoutError):
            async with asyncio.timeout(seconds):
                return (await self._stream(request)).text.strip()
        return ""

    def _said(self) -> list[Message]:
        return [*self._trimmed, *self.turn.messages[self._trimmed_count :]]

    def _size(self) -> int:
        return self._fixed + self._history_size + estimate_all(self._said())

    def _request(self) -> Request:
        settings = self.task.settings
        return Request(
            normalize([*self._history, *self._said()]),
            system=self.task.system,
            tail=self.task.tail,
            tools=self._tools,
            max_tokens=settings.max_tokens,
            temperature=settings.temperature,
            reasoning_effort=settings.reasoning_effort,
            session=self.task.session,
        )

    async def _shrink(self, window: int) -> None:
        before = self._size()
        await self._fit_tools(window)
        limit = max(_LEAST, int(window * _FILL) - self._fixed - min(self._reserve, window // 4))
        self._history, self._trimmed = trim(self._history, self._said(), limit)
        self._trimmed_count = len(self.turn.messages)
        self._history_size = estimate_all(self._history)
        await self.emit(ContextCompacted(before, self._size()))

    async def _fit_tools(self, window: int) -> None:
        """Leave out the tools with the largest schemas where all of them would fill the window."""
        sizes = {tool.name: estimate_text(f"{tool.name}{tool.description}{tool.schema}") for tool in self._tools}
        room = window // _SCHEMA_SHARE
        if sum(sizes.values()) <= room:
            return
        kept: set[str] = set()
        for name in sorted(sizes, key=lambda item: (sizes[item], item)):
            room -= sizes[name]
            if room < 0:
                break
            kept.add(name)
        left_out = [tool.name for tool in self._tools if tool.name not in kept]
        self._tools = tuple(tool for tool in self._tools if tool.name in kept)
        self._fixed = estimate_all((), self.task.system, self._tools)
        await self.emit(Notice(f"Left out for want of room in the model's context: {', '.join(left_out)}.", "warning"))

    async def _stream(self, request: Request) -> AssistantMessage:
        turn = self.turn
        self._begin_text()
        turn.budget.steps += 1
        await self.emit(StepStarted(turn.budget.steps))
        turn.asking = self.task.provider.info.model
        begun = time.monotonic()
        stream = self.task.provider.stream(request)
        answer: AssistantMessage | None = None
        try:
            async for delta in stream:
                if isinstance(delta, Completed):
                    answer = delta.message
                    break
                if isinstance(delta, TextDelta):
                    await self._show(await self.text.feed(delta.text))
                elif isinstance(delta, StepRetried):
                    self._begin_text()
                if isinstance(delta, ThinkingDelta | StepRetried):
                    await self.emit(delta)
            await self._show(await self.text.end())
        except ProviderError:
            await self._show(await self.text.end())
            raise
        finally:
            if isinstance(stream, AsyncGenerator):
                await _close(stream)
            turn.asking = ""
        if answer is None:
            raise ProviderError("truncated", "the stream ended without an answer", partial=self.text.raw)
        used, calls = answer.usage, len(answer.calls)
        logger.info(
            "request {} to {}: {} tokens in, {} out, {} calls, {:.2f} s",
            *(turn.budget.steps, answer.model or self.model, used.input, used.output, calls, time.monotonic() - begun),
        )
        return await self._accept(answer)

    def _begin_text(self) -> None:
        self.turn.void()
        self.text = AnswerText(self.turn, self.task.addresses)

    async def _show(self, text: str) -> None:
        if text:
            self.turn.partial.append(text)
            await self.emit(TextDelta(text))

    async def checked(self, answer: str) -> AnswerText:
        """The text of an answer with its marks judged: that which was streamed, unless the answer is another."""
        text = self.text
        if text.raw.strip() != answer.strip():
            text = AnswerText(self.turn, self.task.addresses)
            await text.feed(answer)
            await text.end()
        if text.failed:
            await self.emit(Notice("The citations of this answer could not be checked.", "warning"))
        return text

    async def _accept(self, answer: AssistantMessage) -> AssistantMessage:
        """Keep an answer: count it, and store it unless it says nothing."""
        turn = self.turn
        turn.budget.usage += replace(answer.usage, requests=max(1, answer.usage.requests))
        if answer.finish == "overflow" and not answer.calls:
            raise ProviderError("overflow", "the model's context is full", partial=answer.text)
        turn.answer()
        self.model = answer.model or self.model
        answer = unique_ids(answer)
        if answer.calls:
            turn.open, turn.answered = answer, set()
            await self.add(answer)
        elif answer.text.strip():
            await self.end(answer)
        return answer


async def _close(stream: AsyncGenerator[object, None]) -> None:
    with suppress(TimeoutError):
        async with asyncio.timeout(_CLOSE_SECONDS):
            await stream.aclose()
