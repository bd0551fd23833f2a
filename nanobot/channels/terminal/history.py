"""The lines typed before, in a file that only its owner can read."""

import os
from collections.abc import Iterable
from pathlib import Path

from prompt_toolkit.history import FileHistory

from nanobot.utils.logs import scrub

#: Lines of the file above which the older half is dropped at start.
LONGEST = 20_000


class PrivateHistory(FileHistory):
    """A history file with mode 0600. What looks like a key or a password is masked before it is written.

    A file that cannot be read or written is no reason to stop: the history then lasts as long as the program.
    """

    def __init__(self, path: Path) -> None:
        super().__init__(str(path))
        self._path = path
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            os.close(os.open(path, os.O_CREAT | os.O_APPEND | os.O_WRONLY, 0o600))
            path.chmod(0o600)
            _trim(path)
        except OSError:
            self._path = Path(os.devnull)
            self.filename = os.devnull

    def load_history_strings(self) -> Iterable[str]:
        try:
            return list(super().load_history_strings())
        except OSError:
            return []

    def store_string(self, string: str) -> None:
        try:
            super().store_string(scrub(string))
        except OSError:
            self.filename = os.devnull


def _trim(path: Path) -> None:
    lines = path.read_bytes().splitlines(keepends=True)
    if len(lines) > LONGEST:
        kept = lines[-LONGEST // 2 :]
        start = next((index for index, line in enumerate(kept) if line.startswith(b"#")), 0)
        path.write_bytes(b"\n" + b"".join(kept[start:]))
