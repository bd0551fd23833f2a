"""What people ask of the schedule, in words: to see their jobs, to add one, to change them."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from nanobot.bus.events import InboundMessage
from nanobot.errors import UsageError
from nanobot.messages import Role
from nanobot.schedule.due import planned
from nanobot.schedule.job import (
    EVER,
    NEVER,
    JobKind,
    MissedPolicy,
    Once,
    ScheduledJob,
    When,
    quiet_hours,
    told,
    written,
    zone_named,
)
from nanobot.schedule.lines import split
from nanobot.schedule.phrases import NO_TIME, unclear, understand
from nanobot.schedule.store import JobStore
from nanobot.session.database import Clock, now
from nanobot.session.ledger import Ledger
from nanobot.session.lock import home_lock
from nanobot.utils.host import zone_of
from nanobot.utils.text import nearest, shorten, squeeze
from nanobot.utils.translation import N_, _, _n, apart, listed, sentences

#: Characters of the text of a job, and of what a list shows of it.
MOST_TEXT, _SHOWN = 4_000, 80
#: What is done with jobs by their numbers.
CHANGES = ("pause", "resume", "remove", "run")
_ACTIONS = ("list", "add", "do", "briefing", *CHANGES, "quiet", "missed")
_WORDS = {"rm": "remove", "delete": "remove", "cancel": "remove", "stop": "pause", "start": "resume"}
_KINDS: Mapping[str, JobKind] = {"do": "ask", "ask": "ask", "briefing": "briefing", "news": "briefing"}
_HOW = N_(
    "- `/schedule {remind}` reminds you.\n"
    "- `/schedule do {ask}` gives me a task.\n"
    "- `/schedule briefing {briefing}` tells what is new in feeds and searches.\n"
    "- `/schedule pause|resume|run|remove <number>` changes one.\n"
    "- `/schedule quiet 22-7` keeps nights quiet."
)
_MORE = N_("`/schedule pause|resume|run|remove <number>` changes one, `/help schedule` tells how to add.")
#: What is typed behind `/schedule`, in words that the one who reads it may use.
_EXAMPLES = {
    "remind": N_("tomorrow at 9 call mum"),
    "ask": N_("every weekday at 8: what is new …"),
    "briefing": N_("every weekday at 8: https://…, search: words"),
}

_GUESTS = N_("Appointments and watches are kept for the owner and for users; guests have none.")
_ABSENT = N_(
    "No gateway runs. It comes while `nanobot agent` is open; what is due at another time is told at its next start. "
    "`nanobot gateway` keeps appointments all the time."
)

#: What is done with jobs → the title above those it was done with, and what is said where there are none.
_CHANGED = {
    "pause": (N_("**Paused**"), N_("There is nothing to pause.")),
    "resume": (N_("**Goes on**"), N_("There is nothing to resume.")),
    "remove": (N_("**Removed**"), N_("There is nothing to remove.")),
    "run": (N_("**Runs now**"), N_("There is nothing to run.")),
}
_TITLES = {"ask": N_("task: {title}"), "briefing": N_("briefing: {title}"), "watch": N_("watch: {title}")}


class Who(Struct, frozen=True):
    """Who asks, such as `telegram:42`, and where: the key of the chat, which nobody else reads where it is `direct`."""

    person: str
    chat: str
    role: Role
    direct: bool = True

    @classmethod
    def of(cls, message: InboundMessage) -> "Who":
        """Who has written a message."""
        return cls(message.person, message.address.lasting, message.sender.role, message.direct)


class Added(Struct, frozen=True):
    """A job that was kept: `line` tells of it, `note` what keeps it from being done as things are."""

    job: ScheduledJob
    line: str
    note: str = ""


class Appointments:
    """The schedule as people and models change it. `zone` is the IANA name of the zone of new jobs.

    `absent` says what keeps jobs from being done where that is so, for who adds one. Raises `UsageError` and
    `StoreError`.
    """

    def __init__(
        self,
        jobs: JobStore,
        ledger: Ledger,
        zone: str,
        *,
        absent: Callable[[str], str] = lambda _channel: "",
        clock: Clock = now,
    ) -> None:
        self.jobs = jobs
        self._ledger = ledger
        self.zone = zone
        self._absent = absent
        self._clock = clock

    async def say(self, words: str, who: Who) -> str:
        """What becomes of `/schedule WORDS`, as Markdown."""
        _judge(who)
        action, rest = asked(words)
        if not action or (action == "list" and not rest):
            return await self.listed(who)
        if action in CHANGES and is_choice(rest):
            return await self.change(action, rest, who)
        if action == "quiet":
            return await self._quiet(rest.strip(), who)
        if action == "missed":
            return await self._policy(rest, who)
        kind = _KINDS.get(action, "remind")
        line = rest if action in ("add", *_KINDS) else words
        try:
            when, text = split(line, self._clock(), zone_named(self.zone))
            if when is None:
                raise unclear(_(NO_TIME))
        except UsageError as error:
            near = nearest(action, _ACTIONS) if line is words and len(words.split()) < 3 else None
            hint = _("Did you mean `/schedule {near}`?", near=near) if near else ""
            raise UsageError(sentences(str(error), hint)) from None
        made = await self.keep(kind, text, when, who)
        return _("{line}.", line=made.line[0].upper() + made.line[1:]) + (f"\n\n{made.note}" if made.note else "")

    async def add(self, kind: JobKind, text: str, phrase: str, who: Who) -> Added:
        """Add a job whose times are a phrase."""
        _judge(who)
        return await self.keep(kind, text, self.read(phrase), who)

    def read(self, phrase: str) -> When:
        """What a phrase means now. Raises `UsageError`."""
        return understand(phrase, self._clock(), zone_named(self.zone))

    async def listed(self, who: Who) -> str:
        """The jobs of a person, with their next runs and how the last ones went."""
        found = await self.own(who)
        open_ones = [job for job in found if job.due < NEVER or job.paused]
        over = [job for job in found if job.due == NEVER and not job.paused and job.last > EVER]
        if not found:
            return _("Nothing is scheduled.") + f"\n\n{_how()}"
        lines = [_("Nothing is to come.")]
        if open_ones:
            lines = [_("**Schedule** ({zone})", zone=self.zone), "", *map(line_of, open_ones)]
        lines += ["", _("**Over**"), "", *map(line_of, over[-5:])] if over else []
        quiet = next((job.quiet for job in found if job.quiet), "")
        lines += ["", _("Quiet hours: {quiet}, for what runs at intervals.", quiet=quiet)] if quiet else []
        return "\n".join([*lines, "", _(_MORE)])

    async def change(self, action: str, wanted: str, who: Who, kind: JobKind | None = None) -> str:
        """Do one of `CHANGES` with the jobs that are named, or all; of one kind, where that is named."""
        _judge(who)
        jobs = await self._named(wanted, who, action, kind)
        at = self._clock()

        def changed(job: ScheduledJob) -> ScheduledJob | None:
            if action == "remove":
                return None
            if action == "run":
                return replace(job, due=at, at=at, paused=False)
            due, when_done = planned(job, at)
            return replace(job, paused=action == "pause", due=due, at=when_done)

        done = await self.jobs.change([job.id for job in jobs], changed)
        done_title, nothing = _CHANGED[action]
        if not done:
            raise UsageError(_(nothing))
        lines = [_(done_title), "", *(line_of(job, short=action in ("remove", "run")) for job in done)]
        note = self._absent(done[0].chat.partition(":")[0]) if action == "run" else ""
        files = sorted({job.origin.split()[0] for job in done if job.origin})
        if files and action == "remove":
            note = _("A line of {files} comes back unless it is ticked or taken out there.", files=listed(files))
        return "\n".join([*lines, *(("", note) if note else ())])

    async def count(self, person: str) -> int:
        """How many jobs somebody has that are still to come."""
        return sum(job.due < NEVER for job in await self._all(person))

    async def keep(self, kind: JobKind, text: str, when: When, who: Who) -> Added:
        """Keep a job; one that there is already stays as it is. Raises `UsageError`."""
        _judge(who)
        text = text.strip()
        if not text and kind != "briefing":
            raise UsageError(_("Say what is to be done, too: `/schedule {remind}`.", remind=_(_EXAMPLES["remind"])))
        if len(text) > MOST_TEXT:
            long = _(
                "A text has at most {most:,} characters; this one has {length:,}.", most=MOST_TEXT, length=len(text)
            )
            raise UsageError(long)
        known = await self._all(who.person)
        same = [one for one in known if (one.kind, one.text, written(one.when)) == (kind, text, written(when))]
        if same and same[0].due < NEVER:
            there = _("scheduled already as {number}: {next}", number=same[0].id, next=_next(same[0]))
            return Added(same[0], there)
        quiet = await self._ledger.note(_quiet_key(who.person)) or ""
        job = ScheduledJob(
            kind=kind,
            text=text,
            when=when,
            zone=self.zone,
            person=who.person,
            chat=who.chat,
            direct=who.direct,
            quiet=quiet,
        )
        made = await self.jobs.add(job, self._clock())
        line = _("scheduled {number}: {title}, {times}", number=made.id, title=_title(made), times=_times(made))
        return Added(made, line, self._absent(made.chat.partition(":")[0]))

    async def _all(self, *persons: str) -> tuple[ScheduledJob, ...]:
        """What these people have scheduled; their helpers in the background are no appointments."""
        return tuple(job for job in await self.jobs.all(persons) if job.kind != "helper")

    async def persons(self, who: Who) -> tuple[str, ...]:
        """Whose jobs are somebody's: the owner is one person at the terminal and on Telegram."""
        if who.role != "owner":
            return (who.person,)
        notes = await self._ledger.notes("telegram:")
        claimed = [f"telegram:{value}" for key, value in notes.items() if key.endswith(":owner")]
        return tuple(dict.fromkeys((who.person, "terminal:local", *claimed)))

    # Within

    async def own(self, who: Who, kind: JobKind | None = None) -> Sequence[ScheduledJob]:
        """The jobs of a person, those of one kind where that is named. Raises `UsageError` for a guest."""
        if who.role == "guest":
            raise UsageError(_(_GUESTS))
        return [job for job in await self._all(*await self.persons(who)) if kind in (None, job.kind)]

    async def _named(self, wanted: str, who: Who, action: str, kind: JobKind | None = None) -> Sequence[ScheduledJob]:
        """The jobs that are meant, which are this person's own."""
        own, command = await self.own(who, kind), "/watch" if kind == "watch" else "/schedule"
        numbers = [int(word) for word in wanted.replace(",", " ").replace("#", " ").split() if word.isdecimal()]
        open_ones = [job for job in own if job.due < NEVER or job.paused]
        meant = [job for job in open_ones if action == "remove" or job.paused == (action == "resume")]
        if wanted.strip().casefold() == "all":
            return meant
        found = [job for job in own if job.id in numbers]
        if not numbers or len(found) < len(set(numbers)):
            missing = listed(str(one) for one in numbers if one not in {job.id for job in found})
            which = _n(
                "Name the number: `{command} {action} 3`; `{command} {action} all` is for {number:,} job.",
                "Name the number: `{command} {action} 3`; `{command} {action} all` is for {number:,} jobs.",
                len(meant),
                command=command,
                action=action,
            )
            what = _("You have no job {numbers}.", numbers=missing) if numbers else which
            raise UsageError(sentences(what, _("`{command}` lists yours with their numbers.", command=command)))
        return found

    async def _quiet(self, words: str, who: Who) -> str:
        """Set or show the hours in which nothing comes that runs at intervals."""
        _judge(who)
        key = _quiet_key(who.person)
        if not words:
            now_ = await self._ledger.note(key)
            how = _("`/schedule quiet 22-7` sets them, `/schedule quiet off` ends them.")
            return sentences(_("Quiet hours: {quiet}.", quiet=now_) if now_ else _("Quiet hours: none."), how)
        quiet = "" if words.casefold() in ("off", "none", "no") else str(quiet_hours(words))
        await self._ledger.set_notes({key: quiet or None})
        at = self._clock()

        def changed(job: ScheduledJob) -> ScheduledJob:
            due, when_done = planned(replace(job, quiet=quiet), at)
            return replace(job, quiet=quiet, due=due, at=when_done)

        own = [job.id for job in await self._all(who.person) if job.due < NEVER]
        await self.jobs.change(own, changed)
        if not quiet:
            return _("There are no quiet hours now.")
        rest = _("What runs at intervals waits for their end; what has a time of day comes at it.")
        return sentences(_("Quiet hours: {quiet}.", quiet=quiet), rest)

    async def _policy(self, words: str, who: Who) -> str:
        """What is done about runs that were missed."""
        number, _blank, policy = words.strip().partition(" ")
        if policy.strip() not in ("once", "skip"):
            raise UsageError(
                _("`/schedule missed 3 once` makes up for missed runs with one, `/schedule missed 3 skip` not.")
            )
        jobs = await self._named(number, who, "missed")
        wanted: MissedPolicy = "once" if policy.strip() == "once" else "skip"
        done = await self.jobs.change([job.id for job in jobs], lambda job: replace(job, missed=wanted))
        numbers = listed(str(job.id) for job in done)
        if wanted == "once":
            return _("Missed runs of {numbers} are made up for by one run within a day.", numbers=numbers)
        return _("Missed runs of {numbers} are not made up for.", numbers=numbers)


def appointments_of(ledger: Ledger, home: Path, zone: str, env: Mapping[str, str]) -> Appointments:
    """The schedule of a home; new jobs are in the configured `zone`, an IANA name, or in that of the machine."""
    known = zone_of(zone, env)
    named = getattr(known, "key", None) or "UTC"

    def absent(channel: str) -> str:
        return _(_ABSENT) if channel == "terminal" and not home_lock(home).held else ""

    return Appointments(JobStore(ledger, home / "schedule-changed"), ledger, str(named), absent=absent)


def _judge(who: Who) -> None:
    """Raises `UsageError` for those who keep no appointments here."""
    if who.role == "guest":
        raise UsageError(_(_GUESTS))
    if not who.direct and who.role != "owner":
        raise UsageError(_("Only the owner may change this in a group, because all of its members share it."))


def asked(words: str) -> tuple[str, str]:
    """What is to be done, as `CHANGES` say it, and the words behind that."""
    word, _blank, rest = words.strip().partition(" ")
    return _WORDS.get(word.casefold(), word.casefold()), rest


def is_choice(words: str) -> bool:
    """Whether words name jobs, so that they are no text."""
    return all(
        word.isdecimal() or word.casefold() == "all" for word in words.replace("#", "").replace(",", " ").split()
    )


def _how() -> str:
    """How to change the schedule."""
    return _(_HOW, **{name: _(words) for name, words in _EXAMPLES.items()})


def _quiet_key(person: str) -> str:
    return f"schedule:quiet:{person}"


def _title(job: ScheduledJob) -> str:
    return f"“{shorten(squeeze(job.title), _SHOWN)}”"


def _next(job: ScheduledJob) -> str:
    """When a job comes next, with its zone."""
    if job.paused:
        return _("paused")
    if job.due >= NEVER:
        return _("over")
    return _("next {time:%Y-%m-%d %H:%M} {zone}", time=job.local(job.due), zone=job.zone)


def _times(job: ScheduledJob) -> str:
    """When a job comes; what comes once names its time once."""
    if isinstance(job.when, Once) and not job.paused:
        return f"{told(job)} {job.zone}"
    return apart((told(job), _next(job)))


def line_of(job: ScheduledJob, title: str = "", *, short: bool = False) -> str:
    """A job in a list, which shows it by this title."""
    said = title or _(_TITLES.get(job.kind, "{title}"), title=_title(job))
    if not short:
        said = _("{title}, {times}", title=said, times=_times(job))
    if not short and job.last > EVER:
        said = _(
            "{job}; last {time:%Y-%m-%d %H:%M}: {result}", job=said, time=job.local(job.last), result=_(job.result)
        )
    if job.origin:
        said = _("{job} (from {file})", job=said, file=job.origin.split()[0])
    return f"- `{job.id}` {said}"
