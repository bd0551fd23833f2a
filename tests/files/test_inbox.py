"""What people send: that the old and the too much of it goes, and what a text names stays."""

import os
from pathlib import Path

from nanobot.files.inbox import KEPT_BYTES, KEPT_DAYS, prune_inbox

NOW = 2_000_000_000.0


def sent(folder: Path, name: str, days: float, size: int = 3) -> Path:
    """A file that came so many days ago; a large one takes no room on the disk."""
    path = folder / "inbox" / name
    path.parent.mkdir(exist_ok=True)
    with path.open("wb") as file:
        file.truncate(size)
    os.utime(path, (NOW - days * 86_400,) * 2)
    return path


def left(folder: Path) -> set[str]:
    return {path.name for path in (folder / "inbox").iterdir()}


def test_what_was_sent_long_ago_goes_but_for_what_a_text_of_the_folder_names(tmp_path: Path) -> None:
    sent(tmp_path, "old.pdf", KEPT_DAYS + 1)
    sent(tmp_path, "report.pdf", KEPT_DAYS + 1)
    sent(tmp_path, "new.pdf", KEPT_DAYS - 1)
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "trip.md").write_text("The ticket is in inbox/report.pdf.", encoding="utf-8")
    (tmp_path / ".hidden").mkdir()
    (tmp_path / ".hidden" / "x.md").write_text("old.pdf", encoding="utf-8")
    prune_inbox(tmp_path, NOW)
    assert left(tmp_path) == {"report.pdf", "new.pdf"}


def test_of_too_much_the_oldest_goes(tmp_path: Path) -> None:
    for number in range(4):
        sent(tmp_path, f"film{number}.mp4", number, KEPT_BYTES // 3)
    prune_inbox(tmp_path, NOW)
    assert left(tmp_path) == {"film0.mp4", "film1.mp4", "film2.mp4"}


def test_an_inbox_that_is_a_link_and_one_that_is_not_there_are_left_alone(tmp_path: Path) -> None:
    there, own = tmp_path / "elsewhere", tmp_path / "own"
    for folder in (there, own):
        folder.mkdir()
    sent(there, "old.pdf", KEPT_DAYS + 1)
    (own / "inbox").symlink_to(there / "inbox")
    prune_inbox(own, NOW)
    prune_inbox(tmp_path, NOW)
    assert left(there) == {"old.pdf"}
