"""Files that a typed message names with `@`: `@notes.md`, `@"my plan.pdf"`."""

import asyncio
import mimetypes
import re
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from urllib.parse import unquote

from msgspec import Struct
from msgspec.structs import replace

from nanobot.agent.tools.media import keep_media
from nanobot.channels.base import Locate
from nanobot.channels.documents import Documents
from nanobot.channels.terminal.clipboard import pasted_picture
from nanobot.errors import NanobotError
from nanobot.messages import Media
from nanobot.utils.host import typed_path
from nanobot.utils.text import printable, strip_unsafe
from nanobot.utils.translation import _
from nanobot.web.fetch.content import image_info

#: Largest picture that is read, in bytes.
_LARGEST = 50_000_000
#: What stands before a name: an address has letters there. Signs of other scripts are written without blanks.
BEFORE_NAME = r"(?:^|(?<=[\s(\u0080-\U0010ffff]))@"
_NAMED = re.compile(BEFORE_NAME + r'(?:"([^"\n]+)"|([^\s"]+))')
#: What may follow a name without a blank.
_BEHIND_NAME = re.compile(r"[.,;:!?)]+$|[，。；：！？）、].*")


class NamedFiles(Struct):
    """What the files of a message hold: texts as context from outside, pictures and scans as media."""

    texts: list[str] = []
    media: list[Media] = []
    problems: list[str] = []

    @property
    def context(self) -> str:
        return "\n\n".join(self.texts)


def named_paths(text: str) -> Iterable[Path]:
    """What is there under the names after `@`, and what is not there and is meant as a file: a word with an `@` may be
    a person or a host."""
    for quoted, plain in _NAMED.findall(text):
        bare = _BEHIND_NAME.sub("", plain)
        names = (quoted,) if quoted else (plain, bare)
        with suppress(OSError):  # a word may be longer than any name
            there = next((path for name in names if (path := typed_path(name)).exists()), None)
            kind = mimetypes.guess_type(bare)[0] or "application/x-"
            meant = quoted or bare.startswith(("/", "./", "../", "~/")) or not kind.startswith("application/x-")
            if there is not None or meant:
                yield there or typed_path(names[-1])


def named(path: Path) -> str:
    """How a message names a file."""
    text = str(path)
    return f'@"{text}"' if re.search(r"\s", text) else f"@{text}"


def dropped_file(text: str) -> str:
    """How a message names the file whose path was pasted and nothing else, as terminals do with one that is dropped on
    them; empty for any other text."""
    line = text.strip()
    if line.startswith("file://"):
        line = unquote(line.removeprefix("file://"))
    elif len(line) > 1 and line[0] == line[-1] and line[0] in "'\"":
        line = line[1:-1]
    else:
        line = re.sub(r"\\(.)", r"\1", line)
    if "\n" in line or not line.startswith(("/", "~/")) or printable(line) != line:
        return ""
    try:
        path = Path(line).expanduser()
        return f"{named(path)} " if path.is_file() else ""
    except (OSError, ValueError, RuntimeError):
        return ""


def branch_of(folder: Path) -> str:
    """The git branch of a folder, or the begin of the commit that it is at; empty outside of a repository.

    Reads two small files, as `git` does (gitrepository-layout(5)).
    """
    for above in (folder, *folder.parents):
        place = above / ".git"
        try:
            if place.is_file():  # a worktree or a submodule
                place = above / place.read_text(encoding="utf-8").removeprefix("gitdir:").strip()
            head = (place / "HEAD").read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError):
            continue
        return strip_unsafe(head.removeprefix("ref: refs/heads/")) if head.startswith("ref:") else head[:8]
    return ""


class FileReader:
    """Reads the files that messages name. Pictures and scans are copied into `folder`, as they are at that moment.

    `locate` says where the tools reach them.
    """

    def __init__(self, folder: Path, locate: Locate) -> None:
        self._folder = folder
        self._locate = locate
        self._documents = Documents()

    async def aclose(self) -> None:
        await self._documents.aclose()

    async def pasted(self) -> Path:
        """The picture in the clipboard, as a file. Raises `UsageError`."""
        return await pasted_picture(self._folder)

    async def read(self, text: str) -> NamedFiles:
        """The files that `text` names. Never raises: what cannot be read is said in `problems`."""
        found = NamedFiles()
        for path in dict.fromkeys(named_paths(text)):
            try:
                if path.is_file():
                    await self._read(path, await self._place(path, found), found)
                elif not path.exists():
                    found.problems.append(
                        _("There is no file {file} here; your message has its name alone.", file=path)
                    )
            except OSError as error:
                why = error.strerror or error
                found.problems.append(_("{file} cannot be read: {problem}.", file=path, problem=why))
        return found

    async def _place(self, path: Path, found: NamedFiles) -> str:
        """Where the tools reach a file; empty where they do not."""
        try:
            return await self._locate(path)
        except (NanobotError, OSError) as error:
            why = str(error) if isinstance(error, NanobotError) else f"{error.strerror or error}."
            found.problems.append(_("{file} is out of reach of the tools for files: {problem}", file=path, problem=why))
            return ""

    async def _read(self, path: Path, place: str, found: NamedFiles) -> None:
        size = (await asyncio.to_thread(path.stat)).st_size
        if size <= _LARGEST and (picture := await asyncio.to_thread(_picture_type, path)):
            found.media.append(await asyncio.to_thread(self._copy, path, picture, place))
            return
        mime = mimetypes.guess_type(path.name)[0] or ""
        text = mime if mime.startswith("text/") else "application/octet-stream"
        # English: a model reads it
        where = [f"The file {path.name} is in your files as {place}"] if place else []
        read = await self._documents.read(Media(str(path), text, path.name, size))
        if read.text:
            # English: a model reads it
            found.texts += [*where, f"Text of the file {path}:\n{read.shown(place)}"]
            return
        # English: a model reads it
        found.texts += [*where, f"The file {path.name}: {read.problem}."]
        found.problems.append(_("{file}: {problem}.", file=path, problem=read.problem))
        if read.scan:
            found.media.append(replace(await asyncio.to_thread(self._copy, path, "application/pdf"), inline=True))

    def _copy(self, path: Path, mime: str, place: str = "") -> Media:
        kept = keep_media(self._folder / "typed", path.read_bytes(), mime, name=path.name, ending=path.suffix)
        return replace(kept, place=place)


def _picture_type(path: Path) -> str:
    """The media type of a picture; empty for what only calls itself one, which no model would take."""
    with path.open("rb") as file:
        info = image_info(file.read(64))
    return info.mime if info else ""
