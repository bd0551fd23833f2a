"""The bottom lines of the terminal: live text, running tools, the line being typed, the status line.

prompt_toolkit draws and redraws these few lines only. Everything above them was printed once and belongs to the
terminal: it scrolls, it can be copied, and nothing here touches it again.

`PlainLines` is the other surface, without live area and cursor movement: for screen readers and `--plain`.
"""

import asyncio
import codecs
import errno
import io
import os
import signal
from collections.abc import Callable, Sequence
from functools import partial
from typing import Literal, TextIO

from prompt_toolkit.application import Application, in_terminal
from prompt_toolkit.application.current import set_app
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.completion import ThreadedCompleter
from prompt_toolkit.data_structures import Size
from prompt_toolkit.filters import Condition
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.history import History
from prompt_toolkit.input import Input
from prompt_toolkit.layout import ConditionalContainer, Dimension, HSplit, Layout, Window
from prompt_toolkit.layout.controls import BufferControl, FormattedTextControl
from prompt_toolkit.layout.menus import CompletionsMenu
from prompt_toolkit.output import ColorDepth, Output
from prompt_toolkit.output.vt100 import Vt100_Output
from prompt_toolkit.styles import Style
from prompt_toolkit.widgets import SearchToolbar

from nanobot.channels.base import CommandSummary
from nanobot.channels.terminal.channel import TerminalChannel
from nanobot.channels.terminal.input import Pastes, PromptCompleter, bindings
from nanobot.channels.terminal.live import (
    Live,
    clip,
    question_fits,
    question_lines,
    tail_lines,
    tool_lines,
    unread_lines,
)
from nanobot.channels.terminal.questions import QuestionLine
from nanobot.utils.translation import _

#: What stands between these marks appears at once where the terminal knows them, and is drawn as usual elsewhere.
BEGIN_UPDATE = "\x1b[?2026h"
END_UPDATE = "\x1b[?2026l"
#: The title of the window is put aside at the start and brought back at the end.
KEEP_TITLE, BACK_TITLE = "\x1b[22;0t", "\x1b[23;0t"
_STYLE = Style.from_dict(
    {
        "tail": "fg:ansibrightblack",
        "tool": "fg:ansibrightblack",
        "status": "fg:ansibrightblack",
        "asked.title": "bold fg:ansiyellow",
        "asked.added": "fg:ansigreen",
        "asked.removed": "fg:ansired",
        "asked.keys": "bold",
        "asked.chosen": "bold",
        "prompt": "bold",
        "completion-menu": "noinherit",
        "completion-menu.completion": "noinherit",
        "completion-menu.completion.current": "noinherit reverse",
        "completion-menu.meta.completion": "noinherit fg:ansibrightblack",
        "completion-menu.meta.completion.current": "noinherit reverse",
    }
)

#: Variables of terminals that wrap printed lines anew when they get narrower; xterm, for one, cuts them.
_WRAPPING = ("TMUX", "VTE_VERSION", "KITTY_WINDOW_ID", "WEZTERM_PANE", "ITERM_SESSION_ID", "GHOSTTY_RESOURCES_DIR")
#: How somebody who looks elsewhere is called.
Notify = Literal["bell", "osc9", "off"]
PROMPT = "> "
#: What a person makes of a text in their editor, in a file of that name. Raises `UsageError`.
Edit = Callable[[str, str], str]
#: Lines that follow each other within this many seconds were pasted, for nobody types them so.
TOGETHER = 0.03


class Screen:
    """A `Surface` on a real terminal."""

    arrows = True

    def __init__(
        self,
        keys: Input,
        output: Output,
        edit: Edit,
        *,
        commands: Sequence[CommandSummary] = (),
        history: History | None = None,
        color: bool = True,
        notify: Notify = "bell",
    ) -> None:
        self._notify = notify
        self._output = output
        self._edit = edit
        self._later: list[str] | None = None  # what is to be printed when the editor has left the terminal
        self._live = Live()
        self._pastes = Pastes()
        self._exit: int | None = None
        self._title = ""
        self.buffer = Buffer(
            completer=ThreadedCompleter(PromptCompleter(commands)),  # a disk that is slow holds nothing up
            complete_while_typing=True,
            history=history,
            multiline=True,
            name="message",
        )
        self.app = self._application(keys, color=color)

    async def run(self, channel: TerminalChannel) -> int:
        if self._exit is not None:
            return self._exit
        self.app.key_bindings = bindings(channel, self._pastes)
        self.buffer.on_text_changed += lambda buffer: channel.questions.typed(buffer.text)
        self.app.key_processor.after_key_press += lambda _keys: channel.questions.touched()
        self._output.write_raw(KEEP_TITLE)
        try:
            return await self.app.run_async(set_exception_handler=False)
        except EOFError:  # the window was closed, which may be seen before the signal comes
            return 128 + signal.SIGHUP
        finally:
            _write_now(self._output, BACK_TITLE)

    def exit(self, code: int) -> None:
        if self._exit is None:
            self._exit = code
            if self.app.is_running and not self.app.is_done:
                self.app.exit(result=code)

    def clear_input(self) -> bool:
        had = bool(self.buffer.text)
        self.buffer.reset()
        return had

    @property
    def typed(self) -> str:
        return self._pastes.expand(self.buffer.text)

    def give_back(self, text: str) -> None:
        typed = self.buffer.text
        self.buffer.text = self._pastes.take(text) + (f"\n{typed}" if typed else "")
        self.buffer.cursor_position = len(self.buffer.text)

    def fits(self, asked: Sequence[QuestionLine]) -> bool:
        return question_fits(asked, self._size.columns, self._size.rows)

    async def edit(self, text: str, name: str) -> str:
        self._later = []
        try:
            with set_app(self.app):
                async with in_terminal():
                    return await asyncio.to_thread(self._edit, text, name)
        finally:
            later, self._later = self._later, None
            if later:
                await self.show("".join(later), self._live)

    def ring(self, text: str) -> None:
        if self._later is not None or self._notify == "off":
            return
        if self._notify == "osc9":
            self._output.write_raw(f"\x1b]9;nanobot: {text}\x07")
        else:
            self._output.bell()
        self._output.flush()

    def send_raw(self, sequence: str) -> bool:
        _write_now(self._output, sequence)
        return True

    def insert(self, text: str) -> None:
        self.buffer.insert_text(self._pastes.take(text))
        self.app.invalidate()

    async def show(self, text: str, live: Live) -> None:
        output = self._output
        self._live = live
        if self._later is not None:
            self._later.append(text)
            return
        text = text.replace("\n", "\r\n")
        if not self.app.is_running:
            _write_now(output, text)
            return
        # Not run_in_terminal: it leaves raw mode for a moment, in which a Ctrl-D or Ctrl-C would be lost.
        output.write_raw(BEGIN_UPDATE)
        self.app.renderer.erase()
        output.write_raw(text)
        self.app._redraw()  # noqa: SLF001 - at once, so that the text and the lines below it change together

    def refresh(self, live: Live) -> None:
        self._live = live
        title = _("nanobot: working") if live.busy else "nanobot"
        if self.app.is_running:
            if title != self._title and self._later is None:
                self._title = title
                self._output.set_title(title)
            self.app.invalidate()

    def _application(self, keys: Input, *, color: bool) -> Application[int]:
        output = self._output
        app: Application[int] = Application(
            layout=self._layout(),
            style=_STYLE,
            color_depth=None if color else ColorDepth.DEPTH_1_BIT,
            full_screen=False,
            erase_when_done=True,
            mouse_support=False,
            min_redraw_interval=0.04,
            input=keys,
            output=output,
            before_render=lambda _app: output.write_raw(BEGIN_UPDATE),
            after_render=lambda _app: _write_now(output, END_UPDATE),
        )
        app._on_resize = partial(self._resized, app._on_resize)  # type: ignore[method-assign]  # noqa: SLF001
        app.ttimeoutlen = 0.05
        app.timeoutlen = 0.2
        return app

    def _resized(self, usual: Callable[[], None]) -> None:
        """Draw the lines below anew. A terminal that wraps lines anew has moved what stood there further up."""
        renderer = self.app.renderer
        drawn, size = renderer.last_rendered_screen, self._size
        if drawn is not None and any(os.environ.get(name) for name in _WRAPPING):
            cursor = renderer._cursor_pos  # noqa: SLF001 - where the last drawing left it
            lines = (drawn.data_buffer[y].items() for y in range(cursor.y))
            used = (max((x for x, one in line if one.char.strip()), default=0) for line in lines)
            more = sum(last // size.columns for last in used) + cursor.x // size.columns
            self._output.cursor_up(more)
        usual()

    def _layout(self) -> Layout:
        search = SearchToolbar()
        message = Window(
            BufferControl(self.buffer, search_buffer_control=search.control, preview_search=True),
            get_line_prefix=lambda line, wrapped: [("class:prompt", "❯ " if line == wrapped == 0 else "  ")],
            height=lambda: Dimension(min=1, max=max(3, self._size.rows // 2)),
            wrap_lines=True,
            dont_extend_height=True,
        )
        parts = HSplit(
            [
                _lines("class:tail", lambda: tail_lines(self._live.tail, self._size.columns, self._size.rows)),
                _lines("class:tool", lambda: tool_lines(self._live, self._size.columns)),
                _styled(self._question_lines),
                _lines("class:tool", lambda: unread_lines(self._live.unread, self._size.columns)),
                Window(height=1),
                message,
                CompletionsMenu(max_height=8),
                search,
                _lines("class:status", self._status_lines),
            ]
        )
        return Layout(parts, focused_element=message)

    @property
    def _size(self) -> Size:
        return self._output.get_size()

    def _question_lines(self) -> list[tuple[str, str]]:
        lines = question_lines(self._live.asked, self._size.columns, self._size.rows)
        return [(f"class:asked.{line.style}", line.text) for line in lines]

    def _status_lines(self) -> list[str]:
        line = clip(self._live.flash or " · ".join(self._live.status), self._size.columns - 1)
        return [line] if line else []


def _lines(style: str, lines: Callable[[], list[str]]) -> ConditionalContainer:
    """A window that is as high as its lines, and absent without any."""

    return _styled(lambda: [(style, line) for line in lines()])


def _styled(lines: Callable[[], list[tuple[str, str]]]) -> ConditionalContainer:
    """The same for lines that each have a style of their own."""

    def fragments() -> StyleAndTextTuples:
        shown = lines()
        return [(style, f"{text}\n" if number < len(shown) else text) for number, (style, text) in enumerate(shown, 1)]

    window = Window(FormattedTextControl(fragments), height=lambda: Dimension.exact(len(lines())), wrap_lines=False)
    return ConditionalContainer(window, filter=Condition(lambda: bool(lines())))


def _write_now(output: Output, text: str) -> None:
    output.write_raw(text)
    output.flush()


def terminal_output(stdout: TextIO, term: str | None) -> Output:
    """An output for this terminal that never asks where the cursor is: the answer would arrive among the keys."""

    def size() -> Size:
        try:
            columns, rows = os.get_terminal_size(stdout.fileno())
        except (OSError, io.UnsupportedOperation):
            columns, rows = 80, 24
        return Size(rows=rows or 24, columns=columns or 80)

    return _Closable(stdout, size, term=term, enable_cpr=False)


class _Closable(Vt100_Output):
    """An output that is heard nowhere once its terminal is closed."""

    def flush(self) -> None:
        try:
            super().flush()
        except OSError as error:
            if error.errno != errno.EIO:
                raise
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self.fileno())
            os.close(nowhere)


class PlainLines:
    """A `Surface` that reads lines and writes lines. A backslash at the end of a line continues it.

    Lines that come in together are one message.
    """

    arrows, typed = False, ""

    def __init__(self, stdin: int, stdout: TextIO, edit: Edit) -> None:
        self._stdin = stdin
        self._edit = edit
        self._channel: TerminalChannel | None = None
        self._stdout = stdout
        self._decoder = codecs.getincrementaldecoder(stdout.encoding or "utf-8")("replace")
        self._typed = ""
        self._arrived: list[str] = []
        self._gathering: asyncio.TimerHandle | None = None
        self._message: list[str] = []
        self._prompted = False
        self._live = Live()
        self._code: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    async def run(self, channel: TerminalChannel) -> int:
        loop = asyncio.get_running_loop()
        self._channel = channel
        loop.add_reader(self._stdin, self._readable, channel)
        try:
            return await self._code
        finally:
            loop.remove_reader(self._stdin)
            if self._gathering is not None:
                self._gathering.cancel()
            if self._prompted:
                self._write("\n")

    def exit(self, code: int) -> None:
        if not self._code.done():
            self._code.set_result(code)

    def clear_input(self) -> bool:
        had = bool(self._message)
        self._message.clear()
        return had

    def give_back(self, text: str) -> None:
        self._write("\n" + _("not sent: {text}", text=text) + "\n")
        self._prompted = False

    async def edit(self, text: str, name: str) -> str:
        loop = asyncio.get_running_loop()
        loop.remove_reader(self._stdin)
        try:
            return await asyncio.to_thread(self._edit, text, name)
        finally:
            if self._channel is not None and not self._code.done():
                loop.add_reader(self._stdin, self._readable, self._channel)

    def ring(self, text: str) -> None: ...

    def send_raw(self, sequence: str) -> bool:  # noqa: ARG002
        return False

    def insert(self, text: str) -> None:
        self._message.append(text.rstrip())

    def fits(self, asked: Sequence[QuestionLine]) -> bool:  # noqa: ARG002
        return True

    async def show(self, text: str, live: Live) -> None:
        if self._prompted:
            self._prompted = False
            self._write("\n")
        self._write(text)
        self.refresh(live)

    def refresh(self, live: Live) -> None:
        before, self._live = self._live, live
        if live.flash and live.flash != before.flash:
            self._write(f"\n{live.flash}\n")
            self._prompted = False
        if live.todo and live.todo != before.todo:
            self._write("".join(f"  {line}\n" for line in live.todo if line not in before.todo))
        if live.asked != before.asked:
            same = bool(live.asked) and live.asked[:-1] == before.asked[:-1]  # what may be answered has changed
            self._write("".join(f"{line.text}\n" for line in live.asked[-1 if same else 0 :] if line.text != "…"))
        if not live.busy and not self._prompted and not self._code.done():
            self._prompted = True
            self._write(PROMPT)

    def _readable(self, channel: TerminalChannel) -> None:
        data = os.read(self._stdin, 65_536)
        if not data:
            self._take(channel)
            channel.exit()
            return
        self._typed += self._decoder.decode(data)
        *lines, self._typed = self._typed.split("\n")
        self._arrived += (line.rstrip("\r") for line in lines)
        if lines:
            if self._gathering is not None:
                self._gathering.cancel()
            self._gathering = asyncio.get_running_loop().call_later(TOGETHER, self._take, channel)

    def _take(self, channel: TerminalChannel) -> None:
        """Take in the lines that came together, as one."""
        line, arrived, self._arrived = "\n".join(self._arrived), bool(self._arrived), []
        if not arrived:
            return
        self._prompted = False
        if line.endswith("\\"):
            self._message.append(line[:-1])
            return
        text = "\n".join([*self._message, line])
        self._message.clear()
        if channel.questions.answer_words(text):
            return
        if text.strip():
            channel.submit(text)
        else:
            self._write(PROMPT)
            self._prompted = True

    def _write(self, text: str) -> None:
        self._stdout.write(text)
        self._stdout.flush()
