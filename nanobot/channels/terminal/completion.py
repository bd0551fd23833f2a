"""Completion of slash commands."""

from collections.abc import Iterable, Sequence

from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document

from nanobot.channels.base import CommandSummary


class SlashCompleter(Completer):
    """Offers commands while the text is one word that begins with `/`."""

    def __init__(self, commands: Sequence[CommandSummary]) -> None:
        self._commands = commands

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:  # noqa: ARG002
        text = document.text_before_cursor
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
