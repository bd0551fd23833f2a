"""What the keys do."""

from typing import Protocol

from prompt_toolkit.filters import has_completions, is_searching
from prompt_toolkit.input.ansi_escape_sequences import ANSI_SEQUENCES
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.keys import Keys

from nanobot.channels.terminal.paste import Pastes

#: Shift-Enter as terminals send it. The library reads one as letters and the other as Enter, so both become a key that
#: no keyboard has. The kitty protocol stays off: under it Ctrl-C would no longer be Ctrl-C.
SHIFT_ENTER = Keys.F24
_SHIFT_ENTER_CODES = ("\x1b[13;2u", "\x1b[27;2;13~")


class KeyActions(Protocol):
    """What the bindings ask of the screen."""

    def submit(self, text: str) -> None:
        """Enter: the text is a message."""

    def interrupt(self) -> None:
        """Ctrl-C."""

    def stop_turn(self) -> None:
        """Esc: the running turn ends."""

    def leave(self) -> None:
        """Ctrl-D on an empty line."""


def learn_shift_enter() -> None:
    """Teach the input parser both forms of Shift-Enter. May be called again."""
    for code in _SHIFT_ENTER_CODES:
        ANSI_SEQUENCES[code] = SHIFT_ENTER


def bindings(actions: KeyActions, pastes: Pastes) -> KeyBindings:
    """Enter sends; Ctrl-J, Alt-Enter, Shift-Enter and a backslash before Enter make a new line."""
    keys = KeyBindings()
    _sending(keys, actions)
    _leaving(keys, actions)
    _editing(keys, pastes)
    return keys


def _sending(keys: KeyBindings, actions: KeyActions) -> None:
    @keys.add("enter", filter=~is_searching)
    def _send(event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        if buffer.complete_state and buffer.complete_state.current_completion:
            buffer.complete_state = None
            return
        if buffer.document.text_before_cursor.endswith("\\") and buffer.document.is_cursor_at_the_end:
            buffer.delete_before_cursor(1)
            buffer.newline(copy_margin=False)
            return
        if _more_follows(event):
            buffer.newline(copy_margin=False)
            return
        text = buffer.text
        if not text.strip():
            buffer.reset()
            return
        buffer.append_to_history()
        buffer.reset()
        actions.submit(text)

    @keys.add("c-j")
    @keys.add("escape", "enter")
    @keys.add(SHIFT_ENTER)
    def _newline(event: KeyPressEvent) -> None:
        event.current_buffer.newline(copy_margin=False)


def _more_follows(event: KeyPressEvent) -> bool:
    """True where text came in together with this Enter: lines pasted in a terminal that does not mark pastes."""
    return any(press.data.isprintable() and press.data for press in list(event.key_processor.input_queue)[:1])


def _leaving(keys: KeyBindings, actions: KeyActions) -> None:
    @keys.add("c-c", filter=~is_searching)
    @keys.add("<sigint>")
    def _interrupt(event: KeyPressEvent) -> None:  # noqa: ARG001 - the library hands it over
        actions.interrupt()

    @keys.add("escape", filter=~is_searching & ~has_completions)
    def _stop(event: KeyPressEvent) -> None:  # noqa: ARG001
        actions.stop_turn()

    @keys.add("escape", filter=~is_searching & has_completions)
    def _close_menu(event: KeyPressEvent) -> None:
        event.current_buffer.cancel_completion()

    @keys.add("c-z")
    def _suspend(event: KeyPressEvent) -> None:
        event.app.suspend_to_background()

    @keys.add("c-d", filter=~is_searching)
    def _leave(event: KeyPressEvent) -> None:
        if event.current_buffer.text:
            event.current_buffer.delete()
        else:
            actions.leave()


def _editing(keys: KeyBindings, pastes: Pastes) -> None:
    @keys.add(Keys.BracketedPaste)
    def _paste(event: KeyPressEvent) -> None:
        event.current_buffer.insert_text(pastes.take(event.data))

    @keys.add("tab", filter=~has_completions)
    def _complete(event: KeyPressEvent) -> None:
        if event.current_buffer.text.startswith("/"):
            event.current_buffer.start_completion(select_first=True)
        else:
            event.current_buffer.insert_text("    ")

    @keys.add("tab", filter=has_completions)
    def _next(event: KeyPressEvent) -> None:
        event.current_buffer.complete_next()
