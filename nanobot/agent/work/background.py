"""Helpers in the background: rows of the schedule that are due at once, so that what they answer reaches their chat."""

from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta

from msgspec.json import encode
from msgspec.structs import replace

from nanobot.agent.history import foreign_in
from nanobot.bus.events import Errand, InboundMessage
from nanobot.errors import UsageError
from nanobot.messages import AssistantMessage, Message, Text, UserMessage
from nanobot.results import ToolResult, error_result
from nanobot.schedule.job import EVER, NEVER, Once, ScheduledJob
from nanobot.schedule.store import JobStore
from nanobot.security.trust import wrap
from nanobot.session.database import Clock, now
from nanobot.session.store import SessionStore
from nanobot.utils.text import one_line, shorten, strip_unsafe
from nanobot.utils.translation import _, listed

#: The key of the conversation of a helper in the background, by its number.
KEY = "helper:h{}"
#: Characters of a task in a list, and of an answer that a person is shown again or the model is told.
_TITLE, _ANSWER = 60, 20_000
_RUNS = ("", "runs")
#: The origin of one whose answer the model was told, and how many of those are still shown.
_TOLD, _SHOWN = "told", 5
#: Helpers of one person that have not ended.
MOST_OPEN = 16
#: What is due is later than what it was added at.
_AT_ONCE = timedelta(milliseconds=1)


class BackgroundHelpers:
    """The helpers that go on after the turn that has called them.

    The scheduler runs each as a durable turn, which goes on in the next process where this one ends, and puts its
    answer into the outbox of its chat in the transaction that ends it. Raises `StoreError`.
    """

    def __init__(self, jobs: JobStore, store: SessionStore, *, clock: Clock = now) -> None:
        self._jobs = jobs
        self._store = store
        self._clock = clock

    async def start(self, message: InboundMessage, errand: Errand) -> ToolResult:
        """Let a helper begin for the chat of a message; one of this name that is there already is that one."""
        if errand.role == "guest":
            # English: a model reads it
            return error_result("denied", "Guests have no helpers in the background. Run it without background.")
        person, chat = message.person, message.address.lasting
        known = [job for job in await self._jobs.all((person,)) if job.kind == "helper"]
        job = next((one for one in known if one.errand.name == errand.name), None)
        if job is None:
            if sum(one.due < NEVER or one.result in _RUNS for one in known) >= MOST_OPEN:
                # English: a model reads it
                return error_result("denied", f"{MOST_OPEN} helpers are at work already. Wait for their answers.")
            at = self._clock()
            text = encode(errand).decode()
            fresh = ScheduledJob(
                kind="helper",
                text=text,
                when=Once(at + _AT_ONCE),
                zone="UTC",
                person=person,
                chat=chat,
                direct=message.direct,
            )
            job = await self._jobs.add(fresh, at)
        # English: a model reads it
        told = (
            f"Helper h{job.id} works in the background. Its answer comes into this chat, and you are told of it then."
        )
        shown = _("in the background as h{number}", number=job.id)
        return ToolResult(f"{told} Do not wait for it.", shown)  # English: a model reads it

    async def of(self, key: str) -> tuple[ScheduledJob, ...]:
        """Those of one chat, oldest first; of those whose answer the model was told, the last few."""
        return await self._jobs.of_chat(key, "helper")

    async def listed(self, key: str) -> list[str]:
        """Those of one chat for a person, a line each."""
        return [f"- {_told(job)}" for job in await self.of(key)]

    async def shown(self, key: str, number: int, cancel: Callable[[str], Awaitable[str]] | None) -> str:
        """One of them with its answer, as Markdown; `cancel` ends a turn, where it is to be stopped.

        Raises `UsageError` where there is none of this number.
        """
        job = next((one for one in await self.of(key) if one.id == number), None)
        if job is None:
            known = listed(f"h{one.id}" for one in await self.of(key))
            if not known:
                raise UsageError(_("This chat has no helper h{number}: it has none.", number=number))
            raise UsageError(_("This chat has no helper h{number}: it has {known}.", number=number, known=known))
        if cancel is not None and job.due < NEVER:
            await self._jobs.change((job.id,), lambda _job: None)
            return _("Helper h{number} is taken back before it began.", number=job.id)
        if cancel is not None and job.result in _RUNS:
            return _("Helper h{number}: {what}", number=job.id, what=await cancel(KEY.format(job.id)))
        answer = await self._answer(job)
        return f"{_told(job)}\n\n{answer}" if answer else _told(job)

    async def take_answers(self, message: InboundMessage) -> tuple[UserMessage, ...]:
        """What those of a chat have answered that the model has not been told: it is told once."""
        known = await self.of(message.address.lasting)
        ended = [job for job in known if job.due == NEVER and job.result not in _RUNS and job.origin != _TOLD]
        found = []
        for job in ended:
            session = await self._store.current(KEY.format(job.id))
            said = await self._store.history(session.id)
            text = strip_unsafe(_last_words(said) or job.result)
            foreign = bool(job.errand.foreign) or any(foreign_in(said, message.sender.role))
            shown = wrap(text, "helper") if foreign else text
            title = one_line(job.title, _TITLE)
            # English: a model reads it
            line = f"[Helper h{job.id}, “{title}”, {job.result}; the person was shown it]\n\n{shown}"
            found.append(UserMessage((Text(line),), "notice", speaker=message.sender.role, untrusted=foreign))
        if ended:
            await self._jobs.change([job.id for job in ended], lambda job: replace(job, origin=_TOLD))
            told = [job.id for job in known if job.origin == _TOLD or job in ended]
            await self._jobs.change(told[:-_SHOWN], lambda _job: None)
        return tuple(found)

    async def _answer(self, job: ScheduledJob) -> str:
        session = await self._store.current(KEY.format(job.id))
        return _last_words(await self._store.history(session.id))


def _told(job: ScheduledJob) -> str:
    state = _("waits") if job.due < NEVER else _("runs") if job.result in _RUNS else job.result
    told = f"`h{job.id}` " + _("{title}: {state}", title=one_line(job.title, _TITLE), state=state)
    if job.last <= EVER:
        return told
    return _("{helper}, begun {time:%Y-%m-%d %H:%M} {zone}", helper=told, time=job.local(job.last), zone=job.zone)


def _last_words(said: Sequence[Message]) -> str:
    """The answer of a helper; empty where it has given none."""
    last = said[-1] if said else None
    return shorten(last.text.strip(), _ANSWER) if isinstance(last, AssistantMessage) and not last.calls else ""
