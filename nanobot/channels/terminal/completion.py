"""Completion of slash commands, and of files after `@`."""

from collections.abc import Iterable, Sequence

from prompt_toolkit.completion import CompleteEvent, Completer, Completion, PathCompleter
from prompt_toolkit.document import Document

from nanobot.channels.base import CommandSummary


class SlashCompleter(Completer):
    """Offers commands while the text is one word that begins with `/`, and files while a word begins with `@`."""

    def __init__(self, commands: Sequence[CommandSummary]) -> None:
        self._commands = commands
        self._files = PathCompleter(expanduser=True)

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        text = document.text_before_cursor
        word = text.rpartition(" ")[2].rpartition("\n")[2]
        if word.startswith("@"):
            yield from self._files.get_completions(Document(word[1:]), complete_event)
            return
        if not text.startswith("/") or any(sign.isspace() for sign in document.text):
            return
        typed = text[1:].casefold()
        for command in self._commands:
            if command.name.casefold().startswith(typed):
                yield Completion(
                    f"/{command.name}",
                    start_position=-len(text),
                    display=f"/{command.name}",
                    display_meta=command.summary,
                )
