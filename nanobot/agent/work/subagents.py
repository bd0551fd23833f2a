"""Helpers: a part of a turn's work, done by a turn with a context of its own."""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from loguru import logger
from msgspec.structs import replace

from nanobot.agent.context import ContextBuilder
from nanobot.agent.opening import helper_prompt, take_up
from nanobot.agent.runner import AgentRunner
from nanobot.agent.tools.base import HelperTask
from nanobot.agent.tools.offers import SPAWN
from nanobot.agent.turn import Publisher, Turn, TurnLimits
from nanobot.bus.events import Errand, Event, Notice, ToolProgress, ToolStarted, TurnFinished
from nanobot.messages import AssistantMessage, ToolCall
from nanobot.results import ToolResult, error_result
from nanobot.session.removal import helper_name
from nanobot.session.store import SessionStore
from nanobot.utils.text import duration, one_line
from nanobot.utils.translation import _, _n
from nanobot.web.urls import extract_urls

if TYPE_CHECKING:
    from nanobot.agent.work.background import BackgroundHelpers

#: The key of a helper's session.
KEY = "helper:{}"
#: Seconds of its turn that a helper leaves for what is done with its answer.
SPARE_SECONDS = 15.0
#: Helpers in one step from which on it is said beforehand what they may cost.
MANY = 3
#: Characters of the title of a helper's session.
_TITLE = 60
#: What a helper always has where its caller has it, and what one does on average, to say beforehand what it costs.
_WEB = frozenset({"web_search", "web_fetch"})
_PAGES, _REQUESTS = 3, 4
#: What a helper never has besides what asks or tells people something: helpers of its own.
_NEVER = frozenset({SPAWN, "message", "ask", "todo", "schedule", "task", "remember", "watch"})


class HelperEvents(Publisher):
    """What a helper does, as one line of the call that it works for; people read its warnings as those of the turn."""

    def __init__(self, parent: Turn, call: ToolCall) -> None:
        super().__init__(parent.publish.bus, parent.message.address, parent.id)
        self._parent = parent
        self._call = call
        self.turn: Turn | None = None

    async def _send(self, event: Event) -> None:
        if isinstance(event, ToolStarted) and self.turn is not None:
            line = _n(
                "{what} ({number} step, {time})",
                "{what} ({number} steps, {time})",
                self.turn.steps,
                what=event.hint,
                time=duration(self.turn.seconds),
            )
            await self._parent.emit(ToolProgress(self._call.id, line))
        elif isinstance(event, Notice) and event.level != "info":
            await self._parent.emit(event)


class SubagentManager:
    """Runs helpers, some at a time and the others in the order in which they were asked for.

    A helper is a turn of the same `runner`, whose conversation is kept in a session of its own. It may do what the turn
    may for which it works, with those of its tools that need nobody, and nobody can be asked. Its lookups count as
    those of that turn, and its sources have their numbers in the same book, so that its marks are good there.
    """

    def __init__(
        self,
        runner: AgentRunner,
        store: SessionStore,
        context: ContextBuilder,
        background: "Callable[[], BackgroundHelpers | None]" = lambda: None,
    ) -> None:
        self._runner = runner
        self._store = store
        self._context = context
        self._background = background

    async def run(self, parent: Turn, call: ToolCall, wanted: HelperTask) -> ToolResult:
        """Let a helper do a task and give back what it answers, or that it works in the background. A call that is made
        again after the end of its process goes on where that has left the helper."""
        own = {spec.name for spec in self._runner.offered(parent)} - _NEVER
        names = {tool.name if (tool := self._runner.tools.get(name)) else name for name in wanted.tools}
        if lacking := names - own:
            known = ", ".join(sorted(own)) or "none"
            # English: a model reads it
            return error_result(
                "invalid_input", f"A helper cannot have {', '.join(sorted(lacking))}. It can have: {known}."
            )
        await self._announce(parent, call)
        errand = _errand(parent, call, wanted.task, own & (names | _WEB) if names else own)
        if wanted.background:
            return await self._in_background(parent, errand)
        if self._runner.helper_slots.locked():
            await parent.emit(ToolProgress(call.id, _("waits until another has ended")))
        async with self._runner.helper_slots:
            turn = await self._begin(parent, call, errand)
            with logger.contextualize(turn=turn.id):
                finished = await self._finish(turn)
        parent.usage += finished.usage
        return _result(turn, finished)

    async def _in_background(self, parent: Turn, errand: Errand) -> ToolResult:
        helpers = self._background() if not parent.message.aside else None  # a question aside leaves nothing
        if helpers is None:
            # English: a model reads it
            reason = "Nobody would be here for its answer: there is no open terminal and no gateway in this process."
            return error_result("denied", f"{reason} Run it without background.")
        return await helpers.start(parent.message, errand)

    async def _announce(self, parent: Turn, call: ToolCall) -> None:
        """Say before many helpers begin what they may cost."""
        calls = [one for one in parent.open.calls if self._is_spawn(one)] if parent.open is not None else []
        if len(calls) < MANY or calls[0].id != call.id:
            return
        info, count = parent.provider.info, len(calls)
        most = min(count, max(1, self._runner.helpers.max))
        said = _("{count} helpers, {most} at a time. /stop ends them.", count=count, most=most)
        if (budget := parent.budget(info)) is not None:
            told = await budget.estimate(parent.message, info, pages=_PAGES * count, requests=_REQUESTS * count)
            said = _("{count} helpers, {most} at a time; {cost}. /stop ends them.", count=count, most=most, cost=told)
        await parent.emit(Notice(said))

    def _is_spawn(self, call: ToolCall) -> bool:
        tool = self._runner.tools.get(call.name)
        return tool is not None and tool.name == SPAWN

    async def _begin(self, parent: Turn, call: ToolCall, errand: Errand) -> Turn:
        """The turn of a helper, as far as an earlier process has brought it."""
        name, task = errand.name, errand.task
        events = HelperEvents(parent, call)
        sender = replace(parent.message.sender, role=parent.authority, granted=tuple(parent.granted))
        turn = events.turn = Turn(
            name,
            replace(
                parent.message,
                id=name,
                sender=sender,
                content=task,
                media=(),
                context="",
                cause="helper",
                revisable=True,
            ),
            parent.provider,
            events,
            self._within(parent),
            parent.settings,
            parent.durable,
            store=self._store,
            budget=parent.budget,
            window=parent.window,
            authority=parent.authority,
            addresses=parent.addresses.shared(),
            sources=parent.sources,
            lookups=parent.lookups,
            found=parent.found,
            grants=parent.grants or parent.session,
        )
        turn.prompt = helper_prompt(self._context, turn, errand)
        turn.session, records = await self._store.begun(name)
        if records:
            take_up(turn, records)
        else:
            turn.session = (await self._store.current(KEY.format(name))).id
            await self._store.rename(turn.session, one_line(task, _TITLE))
        return turn

    def _within(self, parent: Turn) -> TurnLimits:
        """What a helper may use up, which is no more than is left of the turn for which it works."""
        used, own = parent.usage.input + parent.usage.output, parent.limits.of_helper(self._runner.helpers)
        return replace(
            own,
            max_seconds=min(own.max_seconds, max(1.0, parent.remaining - SPARE_SECONDS)),
            max_tokens=min(own.max_tokens, max(1, parent.limits.max_tokens - used)),
        )

    async def _finish(self, turn: Turn) -> TurnFinished:
        """Run a helper to its end and keep that; one that had ended before its process died does not run again."""
        last = turn.messages[-1] if turn.messages else None
        if isinstance(last, AssistantMessage) and last.text and not last.calls:
            return replace(turn.finished("completed", last.text, citations=last.citations), receipts=last.receipts)
        finished = await self._runner.run(turn)
        turn.closed = True
        if left := turn.unsaved():
            await self._store.append(turn.session, left, turn=turn.id)
        return finished


def _errand(parent: Turn, call: ToolCall, task: str, tools: Iterable[str]) -> Errand:
    """What a helper is to do, with a name that the same call has in every process."""
    name = helper_name(parent.id, call, task)
    known = tuple(url for url in extract_urls(task).urls if url in parent.addresses)
    may = parent.authority, tuple(sorted(parent.granted))
    return Errand(name, task, tuple(sorted(tools)), known, parent.taint, parent.prompt.privacy, *may)


def _result(turn: Turn, finished: TurnFinished) -> ToolResult:
    """What a helper brings back: untrusted where anything was that it has read or been told."""
    # English: a model reads it
    wrong = (f"source {one.number} does not say: {one.claim}" for one in finished.citations if one.missing)
    told = [*(f"done: {line}" for line in finished.receipts), *finished.notes, *wrong]
    parts = [finished.text, *([f"[{line}]" for line in told])]
    took = duration(finished.seconds)
    about = _n("{number} step, {time}", "{number} steps, {time}", finished.steps, time=took)
    result = ToolResult("\n\n".join(filter(None, parts)), about, sources=finished.sources)
    if finished.outcome == "failed":
        # English: a model reads it
        broken = error_result("failed", f"The helper failed: {finished.error}")
        result = replace(broken, text="\n\n".join([broken.text, *filter(None, parts)]))
    receipt = "\n".join(finished.receipts)
    return replace(result, receipt=receipt, did=tuple(sorted(turn.done)), untrusted=bool(turn.taint))
