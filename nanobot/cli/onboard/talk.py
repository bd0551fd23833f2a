"""Questions in a terminal, one line each: what is typed is shown, a key that is pasted is not."""

import os
import re
import sys
import termios
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from getpass import getpass
from typing import Literal

from prompt_toolkit import PromptSession
from prompt_toolkit.application import get_app
from prompt_toolkit.completion import WordCompleter
from prompt_toolkit.filters import Condition
from prompt_toolkit.history import DummyHistory
from prompt_toolkit.input import create_input

from nanobot.channels.terminal.look import look_of
from nanobot.channels.terminal.render import render_line, render_markdown
from nanobot.channels.terminal.screen import terminal_output
from nanobot.utils.text import broken
from nanobot.utils.translation import N_, _, yes_or_no

#: What looks like a key or a token: long, in one piece, and no address, name of a model or place.
_SECRET = re.compile(r"(?i)\b(sk-|gsk_|xai-|hf_|nvapi-|AIza|\d{5,}:)\S{2,}|^(?=\S*\d)[\w.:+=-]{20,}$")
#: What is not shown: nothing, what looks like a key, or all.
Hide = Literal["nothing", "keys", "all"]
#: Names of models that are listed at once.
_SHOWN = 20


def is_secret(text: str) -> bool:
    """Whether what is typed looks like a key, or holds one: it is hidden then."""
    return any(_SECRET.search(one) and "/" not in one for one in text.split())


class Talk:
    """The terminal of a person who is asked. Ctrl-C and Ctrl-D raise `KeyboardInterrupt`."""

    def __init__(self) -> None:
        self._out = sys.stdout
        self._look = look_of(self._out, os.environ)

    @contextmanager
    def unseen(self) -> Iterator[None]:
        """Show nothing of what is typed between two questions: a key that is pasted too early is for the next one."""
        number = sys.stdin.fileno()
        before = termios.tcgetattr(number)
        if self._look.ansi:
            now = [*before]
            now[3] &= ~termios.ECHO
            termios.tcsetattr(number, termios.TCSANOW, now)
        try:
            yield
        finally:
            termios.tcsetattr(number, termios.TCSANOW, before)

    def say(self, text: str) -> None:
        """Show Markdown."""
        self._out.write(render_markdown(text, self._look))
        self._out.flush()

    def gap(self) -> None:
        """Leave a line empty, between two steps."""
        self._out.write("\n")

    def note(self, text: str) -> None:
        """Show a line of less weight, broken between words."""
        self._out.write(render_line("\n".join(broken(text, self._look.width)), "dim", self._look))
        self._out.flush()

    def ask(self, usual: str = "", words: Sequence[str] = (), *, hide: Hide = "nothing") -> str:
        """The answer without blanks around it; `usual` where only Enter is pressed, which is shown before the prompt.

        `words` are offered by Tab. `hide` says what is not shown while it is typed.
        """
        prompt = f"[{usual}] > " if usual else "> "
        try:
            answer = self._typed(prompt, words, hide).strip()
        except (EOFError, KeyboardInterrupt):
            self._out.write("" if self._look.ansi else "\n")
            raise KeyboardInterrupt from None
        return answer or usual

    def _typed(self, prompt: str, words: Sequence[str], hide: Hide) -> str:
        if not self._look.ansi:  # a terminal that cannot move its cursor, and screen readers
            return input(prompt) if hide == "nothing" else getpass(_("(not shown)") + f" {prompt}")

        def hidden() -> bool:
            return hide == "all" or (hide == "keys" and is_secret(get_app().current_buffer.text))

        session: PromptSession[str] = PromptSession(
            prompt,
            input=create_input(),
            output=terminal_output(self._out, os.environ.get("TERM")),
            history=DummyHistory(),
            completer=WordCompleter(list(words), ignore_case=True, match_middle=True) if words else None,
            complete_while_typing=False,
            is_password=Condition(hidden),
            enable_open_in_editor=False,
            enable_suspend=True,
        )
        return session.prompt()

    def agreed(self, question: str) -> bool:
        """Whether the answer is yes; Enter is no."""
        self.say(question)
        return yes_or_no(self.ask("no")) == "yes"

    def chosen_model(self, names: Sequence[str], best: str, *, whose: str) -> str:
        """One of the models that `whose` server lists; Enter takes `best`."""
        numbered = {name: f"{place:>3}  {name}\n" for place, name in enumerate(names, 1)}
        more = "     " + _("… and {count} more", count=len(names) - _SHOWN) + "\n" if len(names) > _SHOWN else ""
        which = N_("Which of the {count} models of {server}? A number, or a part of a name.")
        self.say(_(which, count=len(names), server=whose))
        self._out.write("".join([*numbered.values()][:_SHOWN]) + more)
        while True:
            answer = self.ask(best, names)
            if answer.isdecimal() and 1 <= int(answer) <= len(names):
                return names[int(answer) - 1]
            fitting = [name for name in names if answer.casefold() in name.casefold()]
            if answer in names or len(fitting) == 1:
                return answer if answer in names else fitting[0]
            self.say(_("{count} names of models there have {answer!r} in them.", count=len(fitting), answer=answer))
            self._out.write("".join(numbered[name] for name in fitting[:_SHOWN]))
