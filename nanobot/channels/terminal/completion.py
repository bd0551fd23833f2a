"""What the line being typed completes: commands, and files after `@`.

Files are offered below the current folder and the workspace alone, and hidden ones never; a message may still name any.
"""

import os
import re
import time
from collections.abc import AsyncGenerator, Iterable, Iterator, Sequence
from pathlib import Path

from msgspec import Struct
from prompt_toolkit.completion import CompleteEvent, Completer, Completion, ThreadedCompleter, WordCompleter
from prompt_toolkit.document import Document

from nanobot.channels.base import CommandSummary
from nanobot.utils.text import printable
from nanobot.utils.translation import _

#: What is typed of a name after `@`, quoted or not, up to the cursor.
_TYPED = re.compile(r'(?:^|(?<=[\s(]))@("[^"\n]*|[^\s"]*)$')
#: Names that are offered at once; files that are looked through for a part of a name, and seconds for that.
_MOST, _LOOKED_THROUGH, _SECONDS = 100, 5_000, 0.3
#: Folders of programs, in which nobody looks for a file of theirs.
_SKIPPED = frozenset({"node_modules", "__pycache__", "venv", "target", "build", "dist"})


class FileName(Struct, frozen=True):
    """A file or folder that is offered: how it is written after `@`, and what the list shows."""

    text: str
    shown: str


class FileNames:
    """The files below `here` and the other `roots`."""

    def __init__(self, here: Path, roots: Sequence[Path]) -> None:
        self._here = here
        self._roots = tuple(root.resolve() for root in (here, *roots))

    def offered(self, typed: str) -> Iterator[FileName]:
        """What may follow: names in the folder that is typed so far, then files further down that hold it."""
        folder, _, begin = typed.rpartition("/")
        before = f"{folder}/" if "/" in typed else ""
        place = self._here / Path(before).expanduser() if before else self._here
        count = 0
        for name, inner in self._inside(place):
            if name.casefold().startswith(begin.casefold()):
                yield FileName(f"{before}{name}{'/' if inner else ''}", f"{name}{'/' if inner else ''}")
                count += 1
        if not before and len(begin) > 1:
            found = self._below(begin.casefold())
            yield from (FileName(name, name) for name, _ in zip(found, range(_MOST - count), strict=False))

    def _inside(self, folder: Path) -> list[tuple[str, bool]]:
        """What lies in a folder of a root and is not hidden, by name; True for folders."""
        try:
            place = folder.resolve()
            if not any(place.is_relative_to(root) for root in self._roots):
                return []
            with os.scandir(place) as entries:
                found = [(one.name, one.is_dir()) for one in entries if _is_shown(one.name)]
        except OSError:
            return []
        return sorted(found)[:_MOST]

    def _below(self, part: str) -> Iterator[str]:
        """Files further down that have this in their name, as far as there is time to look."""
        end, left = time.monotonic() + _SECONDS, _LOOKED_THROUGH
        for place, folders, files in os.walk(self._here):
            folders[:] = sorted(name for name in folders if _is_shown(name) and name not in _SKIPPED)
            left -= len(files)
            if left < 0 or time.monotonic() > end:
                return
            if Path(place) != self._here:
                known = (name for name in sorted(files) if _is_shown(name) and part in name.casefold())
                yield from (str(Path(place, name).relative_to(self._here)) for name in known)


def _is_shown(name: str) -> bool:
    return not name.startswith(".") and printable(name) == name


class PromptCompleter(Completer):
    """Offers commands while the text is one word that begins with `/`, and files while a word begins with `@`."""

    def __init__(self, commands: Sequence[CommandSummary], names: FileNames) -> None:
        words = {f"/{one.name}": _(one.summary) for one in commands}
        self._commands = WordCompleter([*words], meta_dict=words, ignore_case=True, sentence=True)
        self._files = ThreadedCompleter(_FileCompleter(names))

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        if _TYPED.search(document.text_before_cursor):
            yield from self._files.get_completions(document, complete_event)
        elif document.text_before_cursor.startswith("/") and len(document.text.split()) == 1:
            yield from self._commands.get_completions(document, complete_event)

    async def get_completions_async(
        self, document: Document, complete_event: CompleteEvent
    ) -> AsyncGenerator[Completion, None]:
        """The same; a disk that is slow holds nothing up."""
        if _TYPED.search(document.text_before_cursor):
            async for one in self._files.get_completions_async(document, complete_event):
                yield one
        else:
            for one in self.get_completions(document, complete_event):
                yield one


class _FileCompleter(Completer):
    def __init__(self, names: FileNames) -> None:
        self._names = names

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:  # noqa: ARG002
        found = _TYPED.search(document.text_before_cursor)
        if found is None:
            return
        typed, quoted = found[1].removeprefix('"'), found[1].startswith('"')
        for one in self._names.offered(typed):
            text = one.text
            if quoted or re.search(r"\s", text):
                text = f'"{text}' if text.endswith("/") else f'"{text}"'
            yield Completion(text, -len(found[1]), one.shown)
