"""Where nanobot keeps its files, and the first start: the home, and a workspace filled from the templates.

Imports nothing heavy: `nanobot --help` asks for it too.
"""

import errno
import hashlib
import os
import re
import stat
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryFile, mkstemp

from msgspec import DecodeError, Struct, field, json

from nanobot.errors import ConfigError, ConfigProblem
from nanobot.utils.host import shipped, walk
from nanobot.utils.translation import _

_SHORT_HOME = "~/.nanobot"
#: Files of a new workspace, relative to it and to the templates.
SEEDS = ("SOUL.md", "AGENTS.md", "USER.md", "memory/MEMORY.md")
#: Where in the home it is noted of which shipped files those of the workspaces were made.
TEMPLATE_NOTES = "templates.json"
#: Where in the workspace the folders of users are.
PEOPLE = "people"


class TemplateNotes(Struct):
    """Of which templates this was written, and by workspace and file the digest of what was shipped when the file was
    copied, brought up to date, or told to be newer."""

    stamp: str = ""
    workspaces: dict[str, dict[str, str]] = field(default_factory=dict)


class Paths(Struct, frozen=True):
    """The folders and files of one installation, all absolute.

    `database` holds sessions, `history` the lines typed in the terminal, `logins` those at MCP servers, `tasks` what
    runs in the background. `config_named` says that a person named the
    configuration file, so that a missing one is a mistake and not a first start.
    """

    home: Path
    config: Path
    workspace: Path
    database: Path
    media: Path
    cache: Path
    logs: Path
    history: Path
    logins: Path
    tasks: Path
    config_named: bool = False

    @classmethod
    def resolve(
        cls,
        env: Mapping[str, str],
        config_path: str | Path | None = None,
        workspace: str | Path | None = None,
    ) -> "Paths":
        """The paths that `env` (NANOBOT_HOME, NANOBOT_CONFIG) and the two arguments ask for; arguments win.

        `~/.nanobot` at the start of `workspace` means the home that is in force. Nothing is created. Raises
        `ConfigError` where a name is no UTF-8: nothing of it could be written into a file, a database or a message.
        """
        user = person_home(env)
        chosen = env.get("NANOBOT_HOME", "").strip()
        home = expanded(chosen, user) if chosen else user / ".nanobot"
        named = str(config_path or "") or env.get("NANOBOT_CONFIG", "").strip()
        wanted = str(workspace or "")
        if wanted == _SHORT_HOME or wanted.startswith(f"{_SHORT_HOME}/"):
            wanted = str(home / wanted[len(_SHORT_HOME) :].lstrip("/"))
        config = expanded(named, user) if named else home / "config.json"
        place = expanded(wanted, user) if wanted else home / "workspace"
        _judge_names(home, config, place)
        return cls(
            home=home,
            config=config,
            workspace=place,
            database=home / "nanobot.db",
            media=home / "media",
            cache=home / "cache",
            logs=home / "logs",
            history=home / "history",
            logins=home / "mcp_logins.json",
            tasks=home / "tasks",
            config_named=bool(named),
        )

    @property
    def socket(self) -> Path:
        """Where a gateway of this home listens for terminals."""
        return self.home / "gateway.sock"

    def prepare(self) -> None:
        """Create the home and its folders, readable by their owner alone, also what stands there already.

        The configuration file stays as it is: where it holds a key, a warning tells of it. Raises `ConfigError` where
        the home cannot be made or closed.
        """
        try:
            self.home.mkdir(mode=0o700, parents=True, exist_ok=True)
            if self.home.stat().st_mode & 0o077:
                self.home.chmod(0o700)
            for folder in (self.home, self.media, self.cache, self.logs):
                folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise not_writable(error, self.home) from error
        for place, inner, files in walk(self.home):
            for name in files:
                _close(Path(place, name), self.config)
            # What lies in a folder that was closed is out of reach, and may be a hundred thousand files of a person.
            inner[:] = [name for name in inner if _close(Path(place, name), self.config)]


def _judge_names(*places: Path) -> None:
    for place in places:
        try:
            str(place).encode()
        except UnicodeEncodeError:
            shown = os.fsencode(place).decode(errors="backslashreplace")
            hint = _("Name another one with NANOBOT_HOME, --config or --workspace, or rename the folder.")
            problem = ConfigProblem(
                shown, 0, "", _("the name of this place is no UTF-8, so nanobot cannot use it."), hint
            )
            raise ConfigError(problem) from None


def folder_name(key: str) -> str:
    """`telegram-42` for `telegram:42`; what is left of another key has a sign of its own."""
    name = re.sub(r"[^A-Za-z0-9_-]", "-", key.replace(":", "-", 1))[:80]
    plain = re.fullmatch(r"[A-Za-z0-9_]+:[A-Za-z0-9_-]+", key) is not None and len(key) <= 80
    return name if plain else f"{name}-{hashlib.sha256(key.encode()).hexdigest()[:8]}"


def not_writable(error: OSError, place: Path) -> ConfigError:
    """The sentence for a folder of ours that cannot be made or written."""
    message = _("this cannot be made or written: {error}.", error=error.strerror or error)
    hint = _("Choose another place with NANOBOT_HOME, or with --workspace or agents.defaults.workspace.")
    return ConfigError(ConfigProblem(str(error.filename or place), 0, "", message, hint))


def _close(path: Path, but: Path) -> bool:
    """Take the rights of others from a file or folder of ours, and tell whether they had some.

    What a link leads to may be for others.
    """
    with suppress(OSError):  # another user's, or gone meanwhile; the home that it lies in is closed
        mode = path.lstat().st_mode
        if mode & 0o077 and not stat.S_ISLNK(mode) and path != but:
            path.chmod(mode & 0o700)
            return True
    return False


def person_home(env: Mapping[str, str]) -> Path:
    """The person's own folder, which `~` stands for."""
    return Path(env["HOME"]) if env.get("HOME") else Path.home()


def expanded(text: str, user: Path) -> Path:
    """A path as people write it, with their own folder for `~`; absolute."""
    if text == "~" or text.startswith("~/"):
        return user / text[2:]
    return Path(os.path.abspath(text))  # noqa: PTH100 - keeps symbolic links, which Path.resolve would follow


def named_folder(text: str, env: Mapping[str, str]) -> Path:
    """The folder that a person names, behind symbolic links. A link that leads to itself is one that is not there."""
    return Path(os.path.realpath(expanded(text, person_home(env))))  # Path.resolve raises for such a link


def prepare_home(paths: Paths) -> tuple[Path, ...]:
    """Make the home and the workspace usable; the files that were created, none on a later start.

    Raises `ConfigError` where a folder cannot be made or written.
    """
    judge_home(paths)
    paths.prepare()
    try:
        return seed_workspace(paths.workspace)
    except OSError as error:
        raise not_writable(error, paths.workspace) from error


def template_news(paths: Paths) -> tuple[str, ...]:
    """Bring files of the workspace up to date that nobody has edited since an older version brought them; what is to be
    told of that, a sentence each. Costs next to nothing where no version has changed."""
    source, notes = shipped("templates"), template_notes(paths.home)
    if notes.stamp == templates_stamp(source) and str(paths.workspace) in notes.workspaces:
        return ()
    with suppress(OSError):  # a read-only place stays as it is
        from nanobot.config.changes.seeds import follow_templates

        return follow_templates(paths.home, paths.workspace, source).lines
    return ()


def template_notes(home: Path) -> TemplateNotes:
    """What is noted in a home of the files of its workspaces; nothing where that cannot be read."""
    try:
        return json.decode((home / TEMPLATE_NOTES).read_bytes(), type=TemplateNotes)
    except (OSError, DecodeError):
        return TemplateNotes()


def replace_file(file: Path, text: str | bytes) -> None:
    """Put a text in the place of a file in one step; readable by its owner alone. Raises `OSError`."""
    number, fresh = mkstemp(dir=file.parent, prefix=f".{file.name}.")
    try:
        with os.fdopen(number, "wb") as stream:
            stream.write(text.encode() if isinstance(text, str) else text)
            stream.flush()
            os.fsync(stream.fileno())
        Path(fresh).replace(file)
    except OSError:
        Path(fresh).unlink(missing_ok=True)
        raise


def templates_stamp(source: Path) -> str:
    """What changes with the shipped files."""
    found = ((source / seed).stat() for seed in SEEDS)
    return " ".join(f"{one.st_mtime_ns}-{one.st_size}" for one in found)


def judge_home(paths: Paths) -> None:
    """Say whether a start can make and write its folders; nothing stays behind. Raises `ConfigError`."""
    for folder in (paths.home, paths.media, paths.cache, paths.logs):
        _judge_folder(folder, filled=folder.is_dir())
    if not _seeded(paths.workspace):
        _judge_folder(paths.workspace, filled=False)


def _judge_folder(folder: Path, *, filled: bool) -> None:
    """Where something is still to be made, a file without a name shows whether files can stand there.

    Some places, such as `/proc`, permit writing and hold none.
    """
    there = next(place for place in (folder, *folder.parents) if os.path.lexists(place))
    try:
        if not there.is_dir():
            raise NotADirectoryError(errno.ENOTDIR, _("{there} is no folder", there=there))
        if not os.access(there, os.W_OK | os.X_OK):
            what = "it" if there == folder else str(there)
            raise PermissionError(errno.EACCES, _("{what} may not be written, or the disk is read-only", what=what))
        if not filled:
            _hold_a_file(there)
    except OSError as error:
        raise not_writable(error, folder) from error


def _hold_a_file(folder: Path) -> None:
    try:
        TemporaryFile(dir=folder).close()
    except OSError as error:
        raise OSError(
            error.errno, _("{folder} takes no files ({error})", folder=folder, error=error.strerror)
        ) from error


def _seeded(workspace: Path) -> bool:
    return all((workspace / seed).exists() for seed in SEEDS)


def seed_workspace(workspace: Path) -> tuple[Path, ...]:
    """Put every seed that is missing into `workspace`; the files that were created.

    A file that exists is never touched: an edit stays, and so does a file that was emptied on purpose.
    """
    if _seeded(workspace):
        return ()
    source = shipped("templates")
    workspace.mkdir(mode=0o700, parents=True, exist_ok=True)
    created: list[Path] = []
    for seed in SEEDS:
        target = workspace / seed
        if os.path.lexists(target):
            continue
        target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        replace_file(target, (source / seed).read_bytes())  # whole or not at all: one cut off would count as emptied
        created.append(target)
    return tuple(created)
