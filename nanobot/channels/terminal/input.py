"""The line being typed: what its keys do, what it completes, long pastes, and the lines typed before."""

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path

from prompt_toolkit.application import get_app
from prompt_toolkit.completion import CompleteEvent, Completer, Completion, PathCompleter, WordCompleter
from prompt_toolkit.document import Document
from prompt_toolkit.filters import Condition, has_completions, is_searching
from prompt_toolkit.history import FileHistory
from prompt_toolkit.input.ansi_escape_sequences import ANSI_SEQUENCES
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.keys import Keys

from nanobot.channels.base import CommandSummary
from nanobot.channels.terminal.channel import TerminalChannel
from nanobot.channels.terminal.files import BEFORE_NAME, dropped_file
from nanobot.channels.terminal.questions import KEYS
from nanobot.utils.logs import scrub
from nanobot.utils.text import printable
from nanobot.utils.translation import _

#: A paste above either size is shown as a mark.
LONG_CHARACTERS = 1_000
LONG_LINES = 15
#: Rows that PageUp and PageDown go in a picker.
_PAGE = 8
#: Shift-Enter as terminals send it. The library reads one as letters and the other as Enter, so both become a key that
#: no keyboard has. The kitty protocol stays off: under it Ctrl-C would no longer be Ctrl-C.
SHIFT_ENTER = Keys.F24
ANSI_SEQUENCES.update({"\x1b[13;2u": SHIFT_ENTER, "\x1b[27;2;13~": SHIFT_ENTER})

#: What is typed of a name after `@`, quoted or not, up to the cursor.
_TYPED = re.compile(BEFORE_NAME + r'("[^"\n]*|[^\s"]*)$')


def bindings(channel: TerminalChannel, pastes: "Pastes") -> KeyBindings:
    """Enter sends; Ctrl-J, Alt-Enter, Shift-Enter and a backslash before Enter make a new line."""
    keys = KeyBindings()
    _sending(keys, channel, pastes)
    _approving(keys, channel)
    _leaving(keys, channel)
    _editing(keys, pastes)
    _working(keys, channel, pastes)
    return keys


def _working(keys: KeyBindings, channel: TerminalChannel, pastes: "Pastes") -> None:
    """What is done beside typing: sending at once, unfolding results, pictures, the editor."""

    @keys.add("c-s", filter=~is_searching)
    def _now(event: KeyPressEvent) -> None:
        text = event.current_buffer.text
        if text.strip():
            event.current_buffer.append_to_history()
        event.current_buffer.reset()
        channel.send_now(pastes.expand(text), text)

    keys.add("c-o")(lambda _event: channel.unfold())
    keys.add("c-v")(lambda _event: channel.do(channel.paste_picture))
    keys.add("c-g", filter=~is_searching)(
        lambda event: channel.do(partial(channel.edit_line, pastes.expand(event.current_buffer.text)))
    )


def _sending(keys: KeyBindings, channel: TerminalChannel, pastes: "Pastes") -> None:
    @keys.add("enter", filter=~is_searching)
    def _send(event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        if channel.questions.picking:
            if channel.questions.pick():
                buffer.reset()
        elif buffer.complete_state and buffer.complete_state.current_completion:
            buffer.complete_state = None
        elif buffer.document.text_before_cursor.endswith("\\") and buffer.document.is_cursor_at_the_end:
            buffer.delete_before_cursor(1)
            buffer.newline(copy_margin=False)
        elif _more_follows(event):
            buffer.newline(copy_margin=False)
        elif channel.questions.answer_line(pastes.expand(buffer.text)):
            buffer.reset()
        elif text := buffer.text if buffer.text.strip() else "":
            buffer.append_to_history()
            buffer.reset()
            channel.submit(pastes.expand(text), text)
        else:
            buffer.reset()

    @keys.add("c-j")
    @keys.add("escape", "enter")
    @keys.add(SHIFT_ENTER)
    def _newline(event: KeyPressEvent) -> None:
        event.current_buffer.newline(copy_margin=False)


def _approving(keys: KeyBindings, channel: TerminalChannel) -> None:
    """The keys that answer a question: on an empty line, alone, and after a pause. Else they are letters."""

    def counts(key: str) -> bool:
        app = get_app()
        return channel.questions.takes(key) and not app.current_buffer.text and not app.key_processor.input_queue

    def answer(event: KeyPressEvent) -> None:
        channel.questions.answer_key(event.data)

    def chooses() -> bool:
        return channel.questions.picking

    def waits() -> bool:
        return channel.waits and not chooses() and not get_app().current_buffer.text

    keys.add("up", filter=Condition(waits) & ~is_searching)(lambda _event: channel.do(channel.take_back))
    for key, step in (("up", -1), ("down", 1), ("pageup", -_PAGE), ("pagedown", _PAGE)):
        keys.add(key, filter=Condition(chooses) & ~is_searching)(lambda _event, step=step: channel.questions.move(step))
    for key in KEYS:
        keys.add(key, filter=Condition(partial(counts, key)) & ~is_searching)(answer)


def _more_follows(event: KeyPressEvent) -> bool:
    """True where text came in together with this Enter: lines pasted in a terminal that does not mark pastes."""
    return any(press.data.isprintable() and press.data for press in list(event.key_processor.input_queue)[:1])


def _leaving(keys: KeyBindings, channel: TerminalChannel) -> None:
    keys.add("c-c", filter=~is_searching)(lambda _event: channel.interrupt())
    keys.add("<sigint>")(lambda _event: channel.interrupt())
    keys.add("escape", filter=~is_searching & ~has_completions)(
        lambda event: channel.escape(empty=not event.current_buffer.text)
    )
    keys.add("escape", filter=~is_searching & has_completions)(lambda event: event.current_buffer.cancel_completion())
    keys.add("c-z")(lambda event: event.app.suspend_to_background())

    @keys.add("c-d", filter=~is_searching)
    def _leave(event: KeyPressEvent) -> None:
        if event.current_buffer.text:
            event.current_buffer.delete()
        else:
            channel.exit()


def _editing(keys: KeyBindings, pastes: "Pastes") -> None:
    @keys.add(Keys.BracketedPaste)
    def _paste(event: KeyPressEvent) -> None:
        """A path that is pasted, or a file that is dropped here, comes along as a file."""
        event.current_buffer.insert_text(dropped_file(event.data) or pastes.take(event.data))

    keys.add("tab", filter=has_completions)(lambda event: event.current_buffer.complete_next())

    @keys.add("tab", filter=~has_completions)
    def _complete(event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        if buffer.text.startswith("/") or "@" in buffer.document.get_word_before_cursor(WORD=True):
            event.current_buffer.start_completion(select_first=True)
        else:
            event.current_buffer.insert_text("    ")


class Pastes:
    """Remembers what each mark stands for until its message is sent."""

    def __init__(self) -> None:
        self._texts: dict[str, str] = {}
        self._count = 0

    def take(self, text: str) -> str:
        """What to insert for a paste: its text, or a mark such as `[paste 1: 40 lines]`."""
        text = printable(text)
        lines = text.count("\n") + 1
        if len(text) <= LONG_CHARACTERS and lines <= LONG_LINES:
            return text
        self._count += 1
        if lines > 1:
            mark = _("[paste {paste}: {count} lines]", paste=self._count, count=lines)
        else:
            mark = _("[paste {paste}: {count} characters]", paste=self._count, count=len(text))
        self._texts[mark] = text
        return mark

    def expand(self, text: str) -> str:
        """`text` with every mark replaced by what it stands for."""
        for mark, pasted in self._texts.items():
            text = text.replace(mark, pasted)
        return text


class PrivateHistory(FileHistory):
    """A history file with mode 0600. What looks like a key or a password is masked before it is written.

    A file that cannot be read or written is no reason to stop: the history then lasts as long as the program.
    """

    def __init__(self, path: Path) -> None:
        super().__init__(str(path))
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            os.close(os.open(path, os.O_CREAT | os.O_APPEND | os.O_WRONLY, 0o600))
            path.chmod(0o600)
        except OSError:
            self.filename = os.devnull

    def store_string(self, string: str) -> None:
        try:
            super().store_string(scrub(string))
        except OSError:
            self.filename = os.devnull


def _is_shown(path: str) -> bool:
    name = Path(path).name
    return not name.startswith(".") and printable(name) == name


class PromptCompleter(Completer):
    """Offers commands while the text is one word that begins with `/`, and files while a word begins with `@`."""

    def __init__(self, commands: Sequence[CommandSummary]) -> None:
        words = {f"/{one.name}": _(one.summary) for one in commands}
        self._commands = WordCompleter([*words], meta_dict=words, ignore_case=True, sentence=True)
        self._files = PathCompleter(file_filter=_is_shown, expanduser=True)

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        if found := _TYPED.search(document.text_before_cursor):
            yield from self._named(found[1], complete_event)
        elif document.text_before_cursor.startswith("/") and len(document.text.split()) == 1:
            yield from self._commands.get_completions(document, complete_event)

    def _named(self, typed: str, event: CompleteEvent) -> Iterator[Completion]:
        """The files and folders that may be meant; what has a blank in it is quoted."""
        path = typed.removeprefix('"')
        for one in self._files.get_completions(Document(path), event):
            text = path + one.text + "/" * one.display_text.endswith("/")
            if typed.startswith('"') or re.search(r"\s", text):
                text = f'"{text}' if text.endswith("/") else f'"{text}"'
            yield Completion(text, -len(typed), one.display)
