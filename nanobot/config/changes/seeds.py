"""The files of a new workspace and the newer ones of later versions: what nobody has edited follows, an edit stays."""

import difflib
import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import msgspec

from nanobot.config.paths import SEEDS, TEMPLATE_NOTES, replace_file, template_notes, templates_stamp
from nanobot.errors import UsageError
from nanobot.utils.host import shipped
from nanobot.utils.translation import _, listed

#: Beginnings of the SHA-256 of what earlier versions shipped: a file like one of them was never edited.
EARLIER: Mapping[str, tuple[str, ...]] = {
    "AGENTS.md": ("2453685682970964", "5c04960eab7f551f"),
    "USER.md": ("19fd4ba2c54e618d", "807b6a6eef76a796"),
    "memory/MEMORY.md": ("32cf747b57d0c1b8", "5acb837f8ab17d76"),
}


class SeedNews(NamedTuple):
    """What a new version brings: files that were brought up to date, and edited ones of which there is a newer form."""

    updated: tuple[str, ...] = ()
    newer: tuple[str, ...] = ()

    @property
    def lines(self) -> tuple[str, ...]:
        """What is told, a sentence each."""
        told = []
        if self.updated:
            told.append(
                _(
                    "{files} came with a new text, and yours follows: it was never edited.",
                    files=", ".join(self.updated),
                )
            )
        if self.newer:
            told.append(
                _(
                    "{files} came with a new text. Yours is edited and stays; `nanobot soul diff` shows what is new.",
                    files=", ".join(self.newer),
                )
            )
        return tuple(told)


def follow_templates(home: Path, workspace: Path, source: Path) -> SeedNews:
    """Bring the seeds of a workspace up to date with those in `source` where nobody has edited them; each newer form is
    told once.

    Raises `OSError` where the workspace or the notes cannot be written.
    """
    notes = template_notes(home)
    known = notes.workspaces.setdefault(str(workspace), {})
    updated: list[str] = []
    newer: list[str] = []
    for seed in SEEDS:
        now = (source / seed).read_text(encoding="utf-8")
        digest, before = _digest(now), known.get(seed, "")
        mine = _own(workspace / seed)
        known[seed] = digest
        if mine is None or digest in (before, _digest(mine)):
            continue
        if _digest(mine) == before or _digest(mine)[:16] in EARLIER.get(seed, ()):
            replace_file(workspace / seed, now)
            updated.append(seed)
        elif before:  # edited, and made from an older form
            newer.append(seed)
    notes.stamp = templates_stamp(source)
    replace_file(home / TEMPLATE_NOTES, msgspec.json.encode(notes).decode())
    return SeedNews(tuple(updated), tuple(newer))


def difference(workspace: Path, seed: str) -> str:
    """What the shipped file says otherwise than that of the workspace, as a diff; empty where they are the same."""
    mine, now = _own(workspace / seed) or "", (shipped("templates") / seed).read_text(encoding="utf-8")
    lines = difflib.unified_diff(
        mine.splitlines(),
        now.splitlines(),
        _("{file} (yours)", file=seed),
        _("{file} (of this version)", file=seed),
        lineterm="",
        n=2,
    )
    return "\n".join(lines)


def seed_named(name: str) -> str:
    """The file that a person means, such as `soul` or `MEMORY.md`. Raises `UsageError`."""
    word = name.casefold().removesuffix(".md")
    for seed in SEEDS:
        if word in (seed.casefold().removesuffix(".md"), Path(seed).stem.casefold()):
            return seed
    raise UsageError(
        _("There is no file {name!r} that nanobot brings. There are {files}.", name=name, files=listed(SEEDS))
    )


def _own(file: Path) -> str | None:
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return None


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
