"""What people were promised for their messages, judged from outside: by their chats and a tool that has effects."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from tests.crash.brain import JOB
from tests.fakes.mcp_server import McpServer, ServedTool, text
from tests.fakes.telegram_server import TelegramServer, User

REPEAT = "↻"
#: The tool that has effects: it notes a line, and its server does not say that it only reads.
ADD = ServedTool("add", {"line": {"type": "string"}}, ("line",), lambda arguments: text(f"noted {arguments['line']}"))
#: What a chat and its owner are told of messages that are given up.
_ASIDE, _SUMMARY = "without an answer", re.compile(r"^I set (\d+) messages? of \d+ chats? aside")


@dataclass(slots=True)
class Marks:
    """Marks of a repeat: of how many an earlier sending had arrived, and of how many others Telegram had failed one
    without taking it, so that nobody can know.
    """

    all: int = 0
    arrived: int = 0
    unknowable: int = 0


@dataclass(slots=True)
class Judge:
    """`asked` are the jobs that people gave, by chat and person, in their order."""

    telegram: TelegramServer
    notes: McpServer
    asked: dict[tuple[int, int], list[str]] = field(default_factory=dict)
    _open: list[tuple[int, str]] = field(default_factory=list)

    def ask(self, person: User, job: str) -> None:
        """A person gives the bot a job; in a group they name the bot."""
        self.asked.setdefault((person.chat, person.id), []).append(job)
        self._open.append((person.chat, job))
        say = person.say if person.chat > 0 else person.calls_bot
        say(f"Please do {job}.")

    def forget(self) -> None:
        """What was asked so far was answered, or refused in words that this judge does not know."""
        self.asked.clear()
        self._open.clear()

    # What stands in the chats

    def answers(self, chat: int) -> list[str]:
        """What the bot has said of jobs in a chat, in order, whole or not."""
        return [one for one in self._said(chat) if "Answer to " in one]

    def answered(self, job: str, chat: int) -> bool:
        return any("The end." in one and job in _jobs(one) for one in self.answers(chat))

    def set_aside(self, job: str, chat: int) -> list[str]:
        """Where the chat is told that a job is given up."""
        return [one for one in self._said(chat) if _ASIDE in one and job in JOB.findall(one)]

    def settled(self, job: str, chat: int) -> bool:
        """Whether a job was answered, or refused aloud."""
        return self.answered(job, chat) or bool(self.set_aside(job, chat))

    @property
    def open(self) -> list[tuple[int, str]]:
        """Chats and jobs that nobody has heard the end of."""
        self._open = [(chat, job) for chat, job in self._open if not self.settled(job, chat)]
        return self._open

    @property
    def effects(self) -> list[str]:
        """The lines that the tool noted, in order."""
        lines = []
        for call in self.notes.calls:
            arguments = call.get("arguments")
            assert isinstance(arguments, dict)
            lines.append(str(arguments["line"]))
        return lines

    @property
    def marks(self) -> Marks:
        """The answers that bear the mark of a repeat."""
        failed = {
            (str(call.params.get("chat_id")), job)
            for call in self.telegram.sent("sendMessage")
            for job in _jobs(str(call.params.get("text")))
            if call.fault is not None and not call.fault.apply
        }
        found = Marks()
        for chat in {chat for chat, _ in self.asked}:
            seen: set[str] = set()
            for one in self.answers(chat):
                jobs = set(_jobs(one))
                if REPEAT in one:
                    found.all += 1
                    found.arrived += bool(jobs & seen)
                    found.unknowable += not jobs & seen and any((str(chat), job) in failed for job in jobs)
                seen |= jobs
        return found

    # What does not hold

    def problems(self) -> list[str]:
        """What does not hold, in words."""
        found = [
            f"the effect of {job} happened {count} times" for job, count in Counter(self.effects).items() if count > 1
        ]
        effects = set(self.effects)
        for chat, job in self._jobs():
            found += self._wrong_answer(chat, job)
            found += self._wrong_note(chat, job, effects) if job.startswith("note") else ()
        for (chat, person), jobs in self.asked.items():
            firsts = list(dict.fromkeys(job for one in self.answers(chat) for job in _jobs(one) if job in jobs))
            if firsts != [job for job in jobs if job in firsts]:
                found.append(f"{person} asked {jobs} in chat {chat}, answered in the order {firsts}")
        return [*found, *self._wrong_summaries()]

    def _wrong_answer(self, chat: int, job: str) -> Iterator[str]:
        if not self.settled(job, chat):
            yield f"{job} was neither answered nor refused: {self.telegram.visible(chat)[-12:]}"
        plain = [one for one in self.answers(chat) if job in _jobs(one) and REPEAT not in one]
        # What stands there of an answer whose question was given up is not whole, and is no answer to what it names.
        plain = [one for one in plain if "The end." in one or not any(self.set_aside(by, chat) for by in _jobs(one))]
        if len(plain) > 1:
            yield f"{job} was answered twice without a mark: {plain}"
        if len(told := [one for one in self.set_aside(job, chat) if REPEAT not in one]) > 1:
            yield f"{job} was given up twice: {told}"

    def _wrong_note(self, chat: int, job: str, effects: set[str]) -> Iterator[str]:
        """An answer says that a line was noted, or that this is not known."""
        told = " ".join(one for one in self.answers(chat) if job in _jobs(one))
        unsure = "not known" in told or "unknown" in told or bool(self.set_aside(job, chat))
        if f"{job} (noted)" in told and job not in effects:
            yield f"{job} is said to be noted, and is not"
        if job in effects and f"{job} (noted)" not in told and not unsure:
            yield f"{job} was noted, and nobody is told that it may have been: {told}"
        if job not in effects and not unsure:
            yield f"{job} was not noted, and nobody is told why: {told}"

    def _wrong_summaries(self) -> Iterator[str]:
        """The owner hears of each message that is given up in another chat once."""
        said = [one for chat in list(self.telegram.chats) if chat > 0 for one in self._said(chat)]
        told = sum(int(found[1]) for one in said if (found := _SUMMARY.match(one)))
        aside = [one for chat in list(self.telegram.chats) for one in self._said(chat) if _ASIDE in one]
        most = sum(int(number[1]) if (number := re.search(r"I set (\d+) messages", one)) else 1 for one in aside)
        if told > most:
            yield f"the owner was told of {told} messages that are set aside, and the chats of {most}"

    def _jobs(self) -> Iterator[tuple[int, str]]:
        return ((chat, job) for (chat, _), jobs in self.asked.items() for job in jobs)

    def _said(self, chat: int) -> Iterable[str]:
        return (one.text for one in self.telegram.chats[chat] if one.sender == "bot")


def _jobs(answer: str) -> list[str]:
    """The jobs that an answer is about; a line before it may name calls that broke off."""
    return JOB.findall(answer.partition("Answer to ")[2])
