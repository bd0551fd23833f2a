"""Files that a typed message names with `@`: `@notes.md`, `@"my plan.pdf"`."""

import asyncio
import hashlib
import mimetypes
import re
from collections.abc import Iterable
from pathlib import Path

from msgspec import Struct

from nanobot.channels.documents import Documents
from nanobot.messages import Media

_NAMED = re.compile(r'(?:^|(?<=[\s(]))@(?:"([^"\n]+)"|([^\s"]+))')


class NamedFiles(Struct, frozen=True):
    """What the files of a message hold: texts as context from outside, pictures and scans as media."""

    context: str = ""
    media: tuple[Media, ...] = ()
    problems: tuple[str, ...] = ()


def named_paths(text: str) -> Iterable[Path]:
    """The files that exist under the names after `@`; other words with an `@` stay words."""
    for quoted, plain in _NAMED.findall(text):
        for name in (quoted,) if quoted else (plain, plain.rstrip(".,;:!?)")):
            path = Path(name).expanduser()
            if path.is_file():
                yield path
                break


class FileReader:
    """Reads the files that messages name. Pictures and scans are copied into `folder`, as they are at that moment."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._documents = Documents()

    async def aclose(self) -> None:
        await self._documents.aclose()

    async def read(self, text: str) -> NamedFiles:
        """The files that `text` names. Never raises: what cannot be read is said in `problems`."""
        contexts: list[str] = []
        media: list[Media] = []
        problems: list[str] = []
        for path in dict.fromkeys(named_paths(text)):
            mime = mimetypes.guess_type(path.name)[0] or "application/octet-stream"
            try:
                if mime.startswith("image/"):
                    media.append(await asyncio.to_thread(self._copy, path, mime, inline=False))
                    continue
                file = Media(str(path), mime, path.name, path.stat().st_size)
                found = await self._documents.read(file)
                if found.text:
                    contexts.append(f"Text of the file {path}:\n{found.text}")
                    continue
                if found.scan:
                    media.append(await asyncio.to_thread(self._copy, path, "application/pdf", inline=True))
                problems.append(f"{path}: {found.problem}.")
            except OSError as error:
                problems.append(f"{path} cannot be read: {error.strerror or error}.")
        return NamedFiles("\n\n".join(contexts), tuple(media), tuple(problems))

    def _copy(self, path: Path, mime: str, *, inline: bool) -> Media:
        data = path.read_bytes()
        target = self._folder / "typed" / f"{hashlib.sha256(data).hexdigest()[:16]}{path.suffix}"
        target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        target.write_bytes(data)
        return Media(str(target), mime, path.name, len(data), inline=inline)
