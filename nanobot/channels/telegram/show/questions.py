"""Questions to people: a message with buttons, and in its place what became of it.

A group reads no more than that something waits: there the owner is asked in their private chat.
"""

import asyncio
import textwrap
from collections.abc import Awaitable, Callable

from nanobot.bus.events import Address, ApprovalAsked, OutboundMessage, QuestionAsked
from nanobot.channels.telegram.read.incoming import slice_units
from nanobot.channels.telegram.receive.callback_queries import CHOOSE
from nanobot.channels.telegram.render.markdown import Entity, clean
from nanobot.channels.telegram.render.screen_messages import ScreenMessage, utf16_length
from nanobot.channels.telegram.send.calls import Sending, Upload
from nanobot.utils.text import shorten
from nanobot.utils.translation import N_, _, _n, speak

#: Units of the facts and of the text below them that a message holds; what is longer goes with it as a file.
_DETAIL, _SHOWN = 2_200, 1_300
#: Lines of a change that a message holds.
_LINES = 25
#: Characters of a question of the model, and of a button.
_LONGEST, _BUTTON = 3_000, 40
#: Answers of a picker that one message shows.
_PAGE = 8
#: Seconds between tries to show or to edit the question, and how often an edit is tried.
_PAUSE, _TRIES = 3.0, 3
#: By so much the pause grows that follows on each try that may have arrived; after these another one may go well.
_SPREAD, _PASSING = 2.5, frozenset({"not_sent", "maybe_sent", "flood"})
_LABELS = {"once": N_("Once"), "always": N_("Always"), "no": N_("No")}
NO_ANSWER = N_("No answer within 10 minutes, so it was not done.")
NOTHING_CHOSEN = N_("Nothing was chosen.")
TURN_ENDED = N_("The turn ended before there was an answer, so it was not done.")
WAITS = N_("Something waits for the owner, who is asked in private; if nothing came there, open a chat with me.")
WAITED = N_("The question to the owner is over.")
_FILE = N_("The whole of it is in the file above.")
#: How a question was answered that was answered by a message.
IN_WORDS = N_("Answered in words.")


def question_message(asked: ApprovalAsked, outcome: str = "", group: str = "") -> ScreenMessage:
    """The question with its buttons, or folded up above its outcome. `group` is the chat that it came from."""
    title = shorten(clean(asked.title).strip(), 200) or _("Open question")
    detail, shown = _head(clean(asked.detail).strip(), _DETAIL), _head(_lines(asked), _SHOWN)
    parts = [title, "\n\n".join(filter(None, (detail, shown)))] if outcome else [title, detail, shown]
    text = "\n\n".join(filter(None, parts))
    entities = [Entity("bold", 0, utf16_length(title))]
    if folded := parts[-1]:
        place, length = utf16_length(text) - utf16_length(folded), utf16_length(folded)
        change = Entity("pre", place, length, language="diff")
        block = asked.diff and not outcome
        entities.append(change if block else Entity("expandable_blockquote", place, length))
    text += f"\n\n{_(_FILE)}" if is_cut(asked) else ""
    text += f"\n\n{outcome}" if outcome else ""
    to = f" @{group}" if group else ""
    choices = [] if outcome else [one for one in asked.choices if one in _LABELS]
    if utf16_length(clean(asked.detail).strip()) > _DETAIL:  # what it would allow is not all on the screen
        choices = [one for one in choices if one != "always"]
    buttons = tuple((_(_LABELS[one]), f"/approve {asked.id} {one}{to}") for one in choices)
    return ScreenMessage(text, tuple(entities), buttons=buttons)


def choice_message(asked: QuestionAsked, outcome: str = "") -> ScreenMessage:
    """A question with its answers, or with its outcome instead of the buttons; a picker shows a page of them."""
    question = shorten(clean(asked.question).strip(), _LONGEST)
    if outcome and asked.picker:
        return ScreenMessage(f"{question}\n\n{outcome}")
    pages = max(1, -(-len(asked.choices) // _PAGE)) if asked.picker else 1
    page = min(max(asked.page, 0), pages - 1)
    shown = [*enumerate(asked.choices, 1)]
    shown = shown[page * _PAGE : (page + 1) * _PAGE] if asked.picker else shown
    answers = "\n".join(f"{number}. {clean(choice)}" for number, choice in shown)
    below = outcome or _("Tap an answer, or write one.")
    labels = [(f"{number}. " if asked.picker else "", number, choice) for number, choice in shown]
    buttons = [(shorten(f"{head}{clean(choice)}", _BUTTON), f"{CHOOSE}{asked.id} {n}") for head, n, choice in labels]
    if asked.picker:
        below = _("Page {page} of {pages}. Tap one.", page=page + 1, pages=pages) if pages > 1 else _("Tap one.")
        turns = (("◀", page - 1), ("▶", page + 1))
        buttons += [(sign, f"{CHOOSE}{asked.id} p{to}") for sign, to in turns if 0 <= to < pages]
        buttons.append((_("Leave"), f"{CHOOSE}{asked.id} 0"))
    return ScreenMessage(f"{question}\n\n{answers}\n\n{below}", buttons=() if outcome else tuple(buttons))


def is_cut(asked: ApprovalAsked | QuestionAsked) -> bool:
    """Whether the message leaves something of a question to the owner out."""
    if isinstance(asked, QuestionAsked):
        return False
    shown = _lines(asked)
    return utf16_length(clean(asked.detail)) > _DETAIL or shown != _shown(asked) or utf16_length(shown) > _SHOWN


def _shown(asked: ApprovalAsked) -> str:
    """The text that is asked about; a change of a file without the blanks that set it in, for its block does that."""
    text = clean(asked.shown).rstrip()
    return textwrap.dedent(text) if asked.diff else text


def _lines(asked: ApprovalAsked) -> str:
    """As much of that text as a message shows; a change, which is not folded, is cut after some lines."""
    lines = _shown(asked).split("\n")
    left = len(lines) - _LINES
    more = [_n("… {number:,} more lines", "… {number:,} more lines", left)] if asked.diff and left > 0 else []
    return "\n".join([*lines[:_LINES], *more] if more else lines)


def _head(text: str, units: int) -> str:
    return text if utf16_length(text) <= units else f"{slice_units(text, 0, units - 1)}…"


class OpenQuestion:
    """A question of a `turn` in the chat `origin`."""

    def __init__(self, asked: ApprovalAsked | QuestionAsked, message: OutboundMessage) -> None:
        self.asked = asked
        self.turn = message.turn
        self.origin = message.address
        self._how = ("", "", "")
        self.over = asyncio.Event()
        self._changed = asyncio.Event()

    def close(self, choice: str = "", reason: str = "", ended: str = "") -> None:
        """It was answered, or without a choice it is over. Only the first call counts."""
        if not self.over.is_set():
            self._how = (choice, reason, ended)
            self.over.set()
            self._changed.set()

    @property
    def outcome(self) -> str:
        """What stands below it afterwards, for whoever reads it; empty while it is open."""
        if not self.over.is_set():
            return ""
        choice, reason, ended = self._how
        if not choice:
            nothing = isinstance(self.asked, QuestionAsked) and self.asked.picker
            return _(ended or (NOTHING_CHOSEN if nothing else NO_ANSWER))
        said = _(_LABELS.get(choice, "")) or _(IN_WORDS if choice == IN_WORDS else "") or clean(choice)
        if reason:
            return _("→ {answer}: {reason}", answer=said, reason=shorten(clean(reason), 200))
        if choice == "no" and isinstance(self.asked, ApprovalAsked):
            return _("→ {answer}. If you write why, the model reads it.", answer=said)
        return f"→ {said}"

    def turn_to(self, asked: QuestionAsked) -> None:
        """Show another page of it."""
        self.asked = asked
        self._changed.set()

    async def show(self, sending: Sending, owner: Callable[[], Awaitable[str]]) -> None:
        """Show it until it is over, and then its outcome in its place."""
        if isinstance(self.asked, QuestionAsked) or not sending.queues.queue(self.origin.chat).group:
            await self._hold(sending, self.origin, "")
            return
        asked = await owner()
        async with asyncio.TaskGroup() as group:
            group.create_task(self._tell_group(sending))
            if asked:
                group.create_task(self._hold(sending, Address(self.origin.channel, asked), self._group))

    @property
    def _group(self) -> str:
        return ":".join(filter(None, (self.origin.chat, self.origin.thread)))

    async def _hold(self, sending: Sending, address: Address, group: str) -> None:
        speak("", address.key)
        if is_cut(self.asked):
            await self._until_shown(sending, address, Upload("question.txt", self._whole.encode()))
        message_id = await self._until_shown(sending, address, self._screen(group))
        await self._turn_pages(sending, address, group, message_id)
        await _close(sending, address, self._screen(group), message_id)

    async def _until_shown(self, sending: Sending, address: Address, content: ScreenMessage | Upload) -> int:
        """Show it until it is there or the question is over; the id of its message, or 0.

        A group that refuses it is left alone; a private chat may be opened meanwhile.
        """
        pause = _PAUSE
        while not self.over.is_set():
            outcome = await sending.show(address, content)
            if isinstance(outcome, int):
                return outcome
            if outcome not in _PASSING and sending.queues.queue(address.chat).group:
                return 0
            pause *= _SPREAD if outcome == "maybe_sent" else 1
            await sending.queues.clock.wait(self.over, pause)
        return 0

    async def _turn_pages(self, sending: Sending, address: Address, group: str, message_id: int) -> None:
        """Show other pages of it until it is over."""
        while not self.over.is_set():
            await self._changed.wait()
            self._changed.clear()
            if not self.over.is_set():
                await sending.show(address, self._screen(group), message_id)

    @property
    def _whole(self) -> str:
        """What a file says of it that does not fit into a message."""
        asked = self.asked
        return "" if isinstance(asked, QuestionAsked) else f"{asked.title}\n\n{asked.detail}\n\n{asked.shown}\n"

    def _screen(self, group: str) -> ScreenMessage:
        """How it stands in the chat now."""
        if isinstance(self.asked, QuestionAsked):
            return choice_message(self.asked, self.outcome)
        return question_message(self.asked, self.outcome, group)

    async def _tell_group(self, sending: Sending) -> None:
        message_id = await self._until_shown(sending, self.origin, ScreenMessage(_(WAITS), silent=True))
        await self.over.wait()
        await _close(sending, self.origin, ScreenMessage(_(WAITED), silent=True), message_id)


async def _close(sending: Sending, address: Address, screen: ScreenMessage, message_id: int) -> None:
    for _again in range(_TRIES if message_id else 0):
        if isinstance(await sending.show(address, screen, message_id), int):
            return
        await sending.queues.clock.wait(asyncio.Event(), _PAUSE)
