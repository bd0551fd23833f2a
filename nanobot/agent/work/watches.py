"""What people and models ask of watches, in words: to see them, to add one, to change them, and what they have told.

A watch is a job of the schedule, whose text is what is watched.
"""

import re
from collections.abc import Sequence
from datetime import datetime, timedelta

from msgspec.structs import replace

from nanobot.agent.tools.base import ToolContext
from nanobot.agent.work.briefing import Briefings, sources_of, wanted_of
from nanobot.agent.work.looks import Looks, spread
from nanobot.bus.events import InboundMessage, Sender
from nanobot.errors import NanobotError, UsageError
from nanobot.results import ToolResult
from nanobot.schedule.appointments import CHANGES, Appointments, Who, asked, is_choice, line_of
from nanobot.schedule.job import EVER, Every, Once, ScheduledJob, told
from nanobot.session.database import Database
from nanobot.utils.text import shorten
from nanobot.utils.translation import N_, _, sentences
from nanobot.watch.store import Told, WatchState, WatchStore
from nanobot.watch.target import WatchTarget, read_target
from nanobot.watch.words import named

#: How often something is looked at where nobody says: pages and files, and searches, which cost more.
HOURLY, SEARCHES = "every hour", "every 12 hours"
_SHOWN = 100
_RHYTHM = re.compile(
    r"(?:^|\s)((?:(?:every|each|hourly|daily|weekly|jede[nrsm]?|alle|stündlich|täglich|chaque|cada)\b|每|毎).*)\Z",
    re.IGNORECASE,
)
_HOW = N_(
    "- `/watch https://… every hour` tells you when a page or feed changes.\n"
    "- `/watch https://… § Opening hours` watches a part of it, `/watch https://… § price` its price.\n"
    "- `/watch search: words` watches a search, `/watch file: notes.md` a file.\n"
    "- `/watch pause|resume|run|remove <number>` changes one.\n"
    "- `/watch history` shows what was told."
)
_MORE = N_("`/watch pause|resume|run|remove <number>` changes one, `/help watch` tells how to add.")
_LOOKS = N_("I write where something has changed; on a page that I hardly know yet, when a second look finds it, too.")


class WatchList:
    """The watches as people and models change them, where nothing is read: the first look comes when it is due.

    Raises `UsageError` and `StoreError`.
    """

    def __init__(self, appointments: Appointments, store: WatchStore) -> None:
        self._appointments = appointments
        self._store = store

    async def say(self, message: InboundMessage, text: str) -> str:
        """What becomes of `/watch WORDS`, as Markdown."""
        who, sender = Who.of(message), message.sender
        action, rest = asked(text)
        if not action or (action == "list" and not rest):
            return await self.listed(who)
        if action == "history":
            return await self.history(rest, who)
        if action in CHANGES and is_choice(rest):
            return await self.change(action, rest, who)
        line = rest if action == "add" else text
        rhythm = _RHYTHM.search(line)
        what = line[: rhythm.start()] if rhythm else line
        return await self.add(what, "", rhythm[1] if rhythm else "", who, sender)

    async def add(self, what: str, part: str, every: str, who: Who, sender: Sender) -> str:
        """Watch something; a sentence with its number and what is seen now."""
        target = read_target(what, part)
        text = str(target)
        phrase = every or (SEARCHES if target.kind == "search" else HOURLY)
        when = self._appointments.read(phrase)
        if isinstance(when, Every):  # so that many which are added at once do not look at once
            when = replace(when, start=when.start + timedelta(seconds=spread(text, when.seconds) - when.seconds))
        known = next((job for job in await self._appointments.own(who, "watch") if job.text == text), None)
        if known is not None:
            watch = _("{title}, {times}", title=named(text), times=told(known))
            return _("Watched already as {number}: {watch}", number=known.id, watch=watch)
        state, shows = await self._seen(target, who, sender)
        made = await self._appointments.keep("watch", text, when, who)
        await self._store.put(made.job.id, state)
        line = _(
            "Watching {number}: {what}, {times}.", number=made.job.id, what=named(made.job.text), times=told(made.job)
        )
        seen = _("I see {what} now.", what=shows) if shows else ""
        return sentences(line, seen, _("I write when it changes."), made.note)

    async def _seen(self, target: WatchTarget, who: Who, sender: Sender) -> tuple[WatchState, str]:  # noqa: ARG002
        """What is kept of a first look, and what it shows. Raises `UsageError`."""
        return WatchState(), ""

    async def listed(self, who: Who) -> str:
        """The watches of a person."""
        own = await self._appointments.own(who, "watch")
        if not own:
            return _("Nothing is watched.") + f"\n\n{_(_HOW)}"
        lines = [line_of(job, named(job.text)) for job in own]
        troubles = [
            f"- `{job.id}` ⚠️ {shorten(state.trouble, _SHOWN)}"
            for job, state in [(job, (await self._store.get(job.id))[0]) for job in own]
            if state.trouble
        ]
        lines += ["", _("**In trouble**"), "", *troubles] if troubles else []
        return "\n".join([_("**Watched**"), "", *lines, "", _(_MORE)])

    async def history(self, wanted: str, who: Who) -> str:
        """What watches have told a person, with dates."""
        own = {job.id: job for job in await self._appointments.own(who, "watch")}
        numbers = [int(one) for one in re.findall(r"\d+", wanted)]
        chosen = [number for number in own if not numbers or number in numbers]
        found = await self._store.history(chosen)
        if numbers and not chosen:
            return _("You have no watch {numbers}. `/watch` lists yours.", numbers=wanted)
        if not found:
            return _("No watch has told anything yet.")
        return "\n\n".join(f"`{one.job}` · {own[one.job].local(one.at):%Y-%m-%d %H:%M}\n{one.text}" for one in found)

    async def change(self, action: str, wanted: str, who: Who) -> str:
        """Pause, resume, take away or look now at the watches that are named, or all."""
        done = await self._appointments.change(action, wanted, who, "watch")
        return f"{done}\n\n{_(_LOOKS)}" if action == "run" else done


class Watches(WatchList):
    """The watches where they are looked at, and told of in briefings too."""

    def __init__(self, appointments: Appointments, looks: Looks, briefings: Briefings) -> None:
        super().__init__(appointments, looks.store)
        self._looks = looks
        self._briefings = briefings

    async def work(self, job: ScheduledJob, due: datetime, sender: Sender) -> str:
        """What the person of a watch is told at a due time; empty for nothing. Raises `StoreError`."""
        return await self._looks.work(job, due, sender)

    async def news(self, sources: str, context: ToolContext) -> ToolResult:
        """What is new in these feeds and searches, or in all that the person watches, and was in no briefing."""
        who = Who(context.person, context.address.lasting, context.role, context.direct)
        return await self._briefings.news(*await self._asked(sources_of(sources), who), context)

    async def anything(self, job: ScheduledJob, sender: Sender, turn: str) -> bool:
        """Whether the briefing of a job has anything to tell, in this turn. Raises `UsageError`."""
        who = Who(job.person, job.chat, sender.role, job.direct)
        targets, told = await self._asked(wanted_of(job.text)[0], who)
        return await self._briefings.anything(targets, told, job.person, turn)

    async def _asked(self, sources: Sequence[WatchTarget], who: Who) -> tuple[Sequence[WatchTarget], Sequence[Told]]:
        """These sources; where there are none, the searches that a person watches, and what their watches have told."""
        own = await self._appointments.own(who, "watch")
        if sources:
            return sources, ()
        searches = [target for job in own if (target := read_target(job.text)).kind == "search"]
        return searches, await self._store.history([job.id for job in own], 100)

    async def _seen(self, target: WatchTarget, who: Who, sender: Sender) -> tuple[WatchState, str]:
        draft = ScheduledJob(
            kind="watch", text=str(target), when=Once(EVER), zone="UTC", person=who.person, chat=who.chat
        )
        try:
            found = await self._looks.look(draft, target, WatchState(), sender)
        except NanobotError as error:
            why = str(error).partition("\n")[0]
            raise UsageError(_("It is not watched, for it cannot be looked at: {why}", why=why)) from None
        return found.state or WatchState(), found.shows


def watches_of(appointments: Appointments, database: Database) -> WatchList:
    """The watches in this database where nothing is read."""
    return WatchList(appointments, WatchStore(database))
