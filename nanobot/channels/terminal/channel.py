"""The terminal as a channel: what is typed goes to the bus, what comes back is printed once.

`TerminalChannel` knows the conversation and no terminal; a `Surface` is the screen, or plain lines.
"""

import asyncio
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import suppress
from functools import partial
from pathlib import Path

from msgspec.structs import replace

from nanobot.bus.events import (
    TERMINAL,
    ChatState,
    CommandReply,
    Event,
    InboundMessage,
    Notice,
    OutboundMessage,
    ToolFinished,
    TurnFinished,
    TurnStarted,
    read_by,
)
from nanobot.channels.base import PERSON, CallResult, StateCall, TerminalAgent, WithdrawCall
from nanobot.channels.terminal.blocks import MarkdownBlock
from nanobot.channels.terminal.clipboard import ShownLately, copying
from nanobot.channels.terminal.files import FileReader, branch_of, named
from nanobot.channels.terminal.live import Live, activity, summary
from nanobot.channels.terminal.look import TextLook
from nanobot.channels.terminal.prompt import QuestionPrompt
from nanobot.channels.terminal.render import Printer
from nanobot.channels.terminal.surface import Surface
from nanobot.channels.terminal.transcript import Piece, Transcript
from nanobot.channels.view import todo_lines
from nanobot.command.router import parse_command
from nanobot.command.words import WORDS
from nanobot.errors import NanobotError, UsageError
from nanobot.utils.translation import _

#: A second Ctrl-C within this many seconds leaves.
AGAIN = 2.0
#: Seconds in which what comes is shown together: drawing costs more than all the rest of an answer.
TOGETHER = 0.14
#: Seconds that a running turn gets to end when the terminal is left.
FAREWELL = 3.0


class TerminalChannel:
    """One conversation in one terminal."""

    def __init__(
        self,
        agent: TerminalAgent,
        surface: Surface,
        *,
        files: FileReader,
        look: Callable[[], TextLook],
        place: str = "",
        echo: bool = True,
        long_turn: float = 20.0,
    ) -> None:
        self._agent = agent
        self._surface = surface
        self._files = files
        self._text_look = look
        self._place = place
        self._long_turn = long_turn
        self._lately = ShownLately()
        self._unread: dict[str, tuple[str, str]] = {}  # by id, as it was shown and as it was sent
        self._commands: set[str] = set()  # the ids of those that were typed and run or wait
        self._echo = echo
        self._transcript = Transcript()
        self.questions = QuestionPrompt(agent, surface, self._draw, self.do)
        self._printer = Printer()
        self._text = ""  # rendered, and not printed yet
        self._text_due = asyncio.Event()
        self._outgoing: asyncio.Queue[Callable[[], Awaitable[None]]] = asyncio.Queue()
        self._stale = asyncio.Event()
        self._stale.set()
        self.state = ChatState()
        self._branch = ""
        self._quiet = asyncio.Event()
        self._quiet.set()
        self._active = asyncio.Event()
        self._waiting = False
        self._since = 0.0
        self._last_interrupt = self._last_escape = -AGAIN
        self._flash = ("", 0.0)
        self.exit_code = 0

    @property
    def name(self) -> str:
        return TERMINAL.channel

    async def start(self) -> None:
        """Talk until the person leaves; `exit_code` says how. Raises what ended the agent, if something did."""
        events = self._agent.bus.subscribe(self.name)
        try:
            async with asyncio.TaskGroup() as group:
                parts = (self._listen(events), self._show(), self._post(), self._spin())
                work = [group.create_task(part) for part in (self._serve(), self._look_on(), *parts)]
                self._draw()
                self.exit_code = await self._surface.run(self)
                await self._end_turn()
                await self._look()
                await self._show_now()
                for task in work:
                    task.cancel()
        except* asyncio.CancelledError:
            raise asyncio.CancelledError from None

    async def _serve(self) -> None:
        """Let the agent serve. One that ends, as a gateway does, has read nothing of what waits."""
        await self._agent.run()
        for shown, _text in self._unread.values():
            self._tell(Notice(_("not sent: {text}", text=shown), "warning"))
        self.exit()

    async def stop(self) -> None:
        self.exit()

    def exit(self, code: int = 0) -> None:
        """Leave with this exit code."""
        self._surface.exit(code)

    async def send(self, message: OutboundMessage) -> None:
        """Take one event in; the text it finishes is printed with the next update of the screen."""
        event, now = message.event, asyncio.get_running_loop().time()
        self._note_read(event)
        if isinstance(event, TurnStarted):
            self._since = now
        if isinstance(event, TurnFinished):
            self._waiting = False
            self._flash = ("", 0.0)
            if event.seconds >= self._long_turn:
                self._surface.ring(_("The answer is there."))
        if isinstance(event, CommandReply | Notice) and not self._transcript.view.running:
            self._waiting = False
        if isinstance(event, CommandReply | TurnFinished):
            self._stale.set()
        self._print(self._transcript.apply(event))
        self._lately.note(event, self._transcript.view)
        if isinstance(event, ToolFinished) and self._commands:
            self.unfold()
        if isinstance(event, TurnFinished):
            self._commands.difference_update(event.answered)
        self._print(self.questions.see(event))
        self._note_activity()
        self._text_due.set()

    def submit(self, text: str, shown: str = "") -> None:
        """A message or a command was entered. `shown` is how it stood in the line, with marks for long pastes."""
        if self.questions.answer_number(text):
            return
        name, _ = parse_command(text.strip()) or ("", "")
        if name in WORDS and WORDS[name].command == "quit":
            self._surface.exit(0)
            return
        if name == "copy":
            self._copy(text.strip().partition(" ")[2])
            return
        key = uuid.uuid4().hex
        if self._busy and not name:
            self._unread[key] = (shown or text, text)
        else:
            self._said(shown or text)
        if not self._busy:
            self._since = asyncio.get_running_loop().time()
        self._waiting = True
        self._note_activity()
        self._draw()
        self.do(partial(self._send, text, key))

    def _said(self, text: str) -> None:
        """Print what the person has said, at the place in the conversation where it is read."""
        if not self._echo:
            self._printer.reset()
        self._print(self._transcript.said(text if self._echo else ""))
        self._text_due.set()

    def _note_read(self, event: Event) -> None:
        """Print what waited and is read now."""
        for key in read_by(event):
            if (waited := self._unread.pop(key, None)) is not None:
                self._said(waited[0])

    # What waits

    @property
    def waits(self) -> bool:
        """Whether something was sent that nothing has read yet."""
        return bool(self._unread)

    def do(self, act: Callable[[], Awaitable[None]]) -> None:
        """Do this behind what was entered before."""
        self._outgoing.put_nowait(act)

    async def take_back(self) -> None:
        """Take the last message that waits back into the line, to be changed."""
        if taken := self._withdrawn(await self._agent.call(WithdrawCall(last=True))):
            self._surface.give_back(taken[0])

    def _withdrawn(self, taken: CallResult) -> list[str]:
        """What came back of what waited, as it was typed."""
        return [self._unread.pop(key)[1] for key in taken.texts if key in self._unread]

    def send_now(self, text: str, shown: str = "") -> None:
        """Stop what runs and answer at once what waits, `text` at the end."""
        if text.strip():
            self.submit(text, shown)
        if self._unread:
            self._say(_("stopping, to read this now …"))
            self.do(self._send_now)

    async def _send_now(self) -> None:
        waiting = self._withdrawn(await self._agent.call(WithdrawCall()))
        if not waiting:
            return  # a step has read it meanwhile
        await self._send("/stop")
        with suppress(TimeoutError):
            async with asyncio.timeout(FAREWELL):
                await self._quiet.wait()
        text = "\n".join(waiting)
        self._said(text)
        self._waiting = True
        await self._send(text)

    # What the terminal does by itself

    def unfold(self) -> None:
        """Print the result of a tool that stands in one line, the last one first."""
        try:
            hint, text = self._lately.unfold()
        except UsageError as error:
            self._say(str(error))
            return
        block = MarkdownBlock("code", text, text)
        self._print([Piece("hint", f"{hint}:"), Piece("text", block=block)])
        self._text_due.set()

    def _copy(self, wanted: str) -> None:
        try:
            said, text = self._lately.to_copy(wanted)
            if not (done := self._surface.send_raw(copying(text))):
                said = _("This terminal takes no copies: its lines are plain.")
            self._tell(Notice(said, "info" if done else "warning"))
        except UsageError as error:
            self._tell(Notice(str(error), "warning"))

    async def paste_picture(self) -> None:
        """Bring the picture in the clipboard along with the message being typed."""
        path = await self._files.pasted()
        self._surface.insert(f"{named(path)} ")

    async def edit_line(self, text: str) -> None:
        """Write the message on in the editor; it comes back into the line."""
        self._surface.clear_input()
        written = text
        try:
            written = (await self._surface.edit(text, "message.md")).rstrip("\n")
        finally:
            self._surface.insert(written)

    def interrupt(self) -> None:
        """Ctrl-C: clear the line, else stop the turn, else leave when it comes twice."""
        now = asyncio.get_running_loop().time()
        left, cleared = self.questions.leave() or self.questions.back(), self._surface.clear_input()
        if left or cleared:
            return
        if self._busy:
            self.stop_turn()
        elif now - self._last_interrupt < AGAIN:
            self._surface.exit(130)
        else:
            self._last_interrupt = now
            self._say(_("press Ctrl-C again to exit"))

    def escape(self, *, empty: bool) -> None:
        """Esc: stop what runs; twice on an empty line, go back in the conversation."""
        now = asyncio.get_running_loop().time()
        if self.questions.leave():
            self._surface.clear_input()
            return
        if self._busy or not empty:
            self._last_escape = -AGAIN
            self.stop_turn()
        elif now - self._last_escape < AGAIN:
            self._last_escape = -AGAIN
            self.submit("/rewind")
        else:
            self._last_escape = now
            self._say(_("press Esc again to go back in the conversation"))

    def stop_turn(self) -> None:
        """Stop the running turn. What was sent and not read by then goes back into the line."""
        if not self._busy:
            return
        self._say(_("stopping …"))
        self.do(self._withdraw_and_stop)

    async def _withdraw_and_stop(self) -> None:
        unread = self._withdrawn(await self._agent.call(WithdrawCall()))
        if unread:
            self._surface.give_back("\n".join(unread))
        await self._send("/stop")

    def _draw(self) -> None:
        """Draw the live part as it is now."""
        self._surface.refresh(self._live())

    def _tell(self, notice: Notice) -> None:
        self._print(self._transcript.apply(notice))
        self._text_due.set()

    def _print(self, pieces: Iterable[Piece]) -> None:
        look = self._text_look()
        self._text += "".join(self._printer(piece, look) for piece in pieces)

    @property
    def _busy(self) -> bool:
        return self._waiting or self._transcript.view.running

    def _say(self, text: str) -> None:
        loop = asyncio.get_running_loop()
        self._flash = (text, loop.time() + AGAIN)
        self._draw()
        loop.call_later(AGAIN + 0.05, self._draw)

    def _note_activity(self) -> None:
        if self._busy:
            self._quiet.clear()
            self._active.set()
        else:
            self._active.clear()
            self._quiet.set()

    def _live(self) -> Live:
        now = asyncio.get_running_loop().time()
        view = self._transcript.view
        text, until = self._flash
        elapsed = now - self._since
        doing = activity(view, waiting=self._waiting, elapsed=elapsed)
        usual = summary(view, self.state, self._branch, self._place)
        status = (doing, _("Ctrl-C stops"), *usual) if doing else usual
        shown, flash = self._transcript, text if now < until else ""
        todo = todo_lines(view.todo) if any(item.state != "done" for item in view.todo) else ()
        busy = self._busy or bool(self._text)  # a prompt comes after what is still to be printed, and not before it
        live = Live(shown.tail, shown.live, shown.waiting, status, flash, busy=busy, todo=todo, elapsed=elapsed)
        return replace(live, asked=self.questions.lines(), unread=tuple(one[0] for one in self._unread.values()))

    async def _listen(self, events: AsyncIterator[OutboundMessage]) -> None:
        async for message in events:
            await self.send(message)

    async def _show(self) -> None:
        """Print what has come together since the last time."""
        while True:
            await self._text_due.wait()
            await self._show_now()
            await asyncio.sleep(TOGETHER)

    async def _show_now(self) -> None:
        self._text_due.clear()
        text, self._text = self._text, ""
        if text:
            await self._surface.show(text, self._live())
        else:
            self._draw()

    async def _post(self) -> None:
        """Do in order what was entered."""
        while True:
            act = await self._outgoing.get()
            try:
                await act()
            except NanobotError as error:
                self._tell(Notice(str(error), "warning"))

    async def _send(self, text: str, key: str = "") -> None:
        if text.startswith("!") and text.strip("! \n"):
            await self._command(text, key)
            return
        found, here, key = await self._files.read(text), self._agent.address, key or uuid.uuid4().hex
        for problem in found.problems:
            await self._agent.bus.publish_outbound(OutboundMessage(here, Notice(problem, level="warning")))
        message = InboundMessage(here, PERSON, text, tuple(found.media), key, found.context, direct=True)
        await self._agent.bus.publish_inbound(message)

    async def _command(self, text: str, key: str) -> None:
        """Hand over a command for this machine: `!` keeps it out of the conversation, `!!` lets the model read it."""
        kept = text.startswith("!!")
        self._commands.add(key)
        typed = InboundMessage(self._agent.address, PERSON, text.lstrip("!").strip(), id=key, direct=True)
        await self._agent.bus.publish_inbound(replace(typed, command=True, aside=not kept))

    async def _look_on(self) -> None:
        """Ask what is true of the conversation when something may have changed it."""
        while True:
            await self._stale.wait()
            self._stale.clear()
            await self._look()

    async def _look(self) -> None:
        try:
            async with asyncio.timeout(FAREWELL):
                self.state = (await self._agent.call(StateCall())).state
                self._branch = await asyncio.to_thread(branch_of, Path.cwd())
        except (NanobotError, TimeoutError):
            return  # the line below says what it said before
        self._draw()

    async def _spin(self) -> None:
        """Turn the spinner while something runs."""
        while True:
            await self._active.wait()
            self._text_due.set()
            await asyncio.sleep(0.2)

    async def _end_turn(self) -> None:
        """Stop a running turn and give it a moment to keep what it has."""
        if not self._busy:
            return
        self.do(self._withdraw_and_stop)
        try:
            async with asyncio.timeout(FAREWELL):
                await self._quiet.wait()
        except TimeoutError:
            return
