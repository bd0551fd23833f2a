"""Which files a model may reach, and how one is opened so that nothing can be put in its place in between.

A path is resolved once, symbolic links and `..` included, and judged by where it really leads. It is then opened by
a walk of directory descriptors that follows no link, so that a link which appears after the judgement ends in an error
and not in another file.
"""

import contextlib
import errno
import os
import re
import stat
import time
import unicodedata
from collections.abc import Iterable, Iterator
from fnmatch import translate
from functools import cache
from pathlib import Path

from msgspec import Struct, field

from nanobot.errors import DiskError, MissingFile, PathError
from nanobot.security.control_files import CONTROL_NAMES, START_NAMES
from nanobot.utils.translation import _, listed

#: Most characters of a path and most parts that it may have.
_LONGEST, _DEEPEST = 4_096, 128
#: Files and folders that steer the agent or make something run by itself, wherever they lie in a root: besides those
#: that are kept from commands, what is such a file for some program.
_CONTROL = frozenset(name.lower() for name in (*CONTROL_NAMES, *START_NAMES) if "/" not in name) | frozenset(
    "skill.md .gitattributes .netrc crontab pip.conf sitecustomize.py usercustomize.py jenkinsfile .emacs .lldbinit "
    ".pythonrc .login .logout .selected_editor authorized_keys .git .hg .github .gitlab .circleci .config autostart "
    "launchagents launchdaemons systemd cron.d".split()
)
#: At the top of the workspace alone, for elsewhere they are ordinary names: what nanobot's own prompts are made from.
WORKSPACE_CONTROL = ("templates", "hooks")
#: Places below a person's own folder that hold secrets, whatever root was allowed above them.
SECRET_PLACES = (
    ".ssh",
    ".gnupg",
    ".aws",
    ".azure",
    ".kube",
    ".docker/config.json",
    ".netrc",
    ".pypirc",
    ".npmrc",
    ".git-credentials",
    ".password-store",
    ".local/share/keyrings",
    ".config/gcloud",
    ".config/gh",
    ".config/git/credentials",
    ".mozilla",
    ".thunderbird",
    ".config/google-chrome",
    ".config/chromium",
    ".config/rclone",
    ".config/op",
    ".cargo/credentials.toml",
    ".pgpass",
    ".my.cnf",
    ".vault-token",
    "Library/Keychains",
)
#: Files that usually hold keys or passwords, wherever in a root they lie; what is public or an example of one is none.
_KEY_FILES = (
    *(".env", ".env.*", "*.env", ".envrc", "*.pem", "*.key", "*.p12", "*.pfx", "*.ppk", "*.jks", "*.keystore"),
    *("*.kdb", "*.kdbx", "*.ovpn", "id_rsa*", "id_dsa*", "id_ecdsa*", "id_ed25519*", ".netrc", "_netrc", ".pgpass"),
    *(".my.cnf", ".npmrc", ".pypirc", ".htpasswd", ".git-credentials", ".dockercfg", ".vault-token", ".boto", ".s3cfg"),
    *("service-account*.json", "client_secret*.json", "secrets.y*ml", "secrets.json", "secrets.toml"),
)
_NO_KEYS = ("*.pub", "*.example", "*.sample", "*.template", "*.dist", "example.env", "sample.env", "cacert.pem")
#: Such files by the folder that they lie in; an empty name stands for all that lies there.
_KEY_PLACES = frozenset(
    (
        *((".aws", "credentials"), (".docker", "config.json"), (".kube", "config"), (".cargo", "credentials.toml")),
        *((".ssh", ""), (".gnupg", ""), (".azure", ""), (".password-store", ""), (".streamlit", "secrets.toml")),
    )
)
#: Folders with the code of others, whose keys are examples, and how many entries are looked at for such files.
OTHERS_CODE = frozenset("node_modules .venv venv .tox .nox __pycache__ site-packages".split())
_MOST_ENTRIES = 300_000
_NO_FILES = ("/proc", "/sys", "/dev")
#: How a folder is opened: itself, and never what a link leads to.
FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class Root(Struct, frozen=True):
    """A folder that the model may use; `path` is its real path."""

    path: Path
    writable: bool = False


class ResolvedPath(Struct, frozen=True):
    """Where a path of a model really leads: `parts` below the root, none of them a link.

    `shown` is the path as people and models read it. `control`: the file steers the agent or runs by itself. `keys`:
    it usually holds keys or passwords.
    """

    root: Root
    parts: tuple[str, ...]
    shown: str
    control: bool = False
    keys: bool = False

    @property
    def path(self) -> Path:
        return self.root.path.joinpath(*self.parts)


class Roots(Struct):
    """The folders of one person; the first is the workspace, to which relative paths are taken.

    `forbidden` may not be reached though it lies in a root, unless a root lies deeper in it: nanobot's home, its
    configuration and keys, and the secrets of the person.
    """

    roots: tuple[Root, ...]
    forbidden: tuple[Path, ...] = ()
    home: Path = field(default_factory=Path.home)
    _identities: set[tuple[int, int]] = field(default_factory=set)
    _looked: float = -10.0
    _forbidden_names: set[tuple[int, int]] = field(default_factory=set)
    _names_looked: float = -10.0

    def __post_init__(self) -> None:
        self.roots = tuple(Root(_real(one.path), one.writable) for one in self.roots)
        secret = (self.home / name for name in SECRET_PLACES)
        self.forbidden = tuple(dict.fromkeys(_real(one) for one in (*self.forbidden, *secret)))

    @property
    def workspace(self) -> Path:
        return self.roots[0].path

    def place(self, text: str | Path, *, write: bool = False, follow: bool = True) -> ResolvedPath:
        """Where `text`, which somebody wrote, or a path that was found leads. Raises `PathError` where that is outside,
        forbidden, or not to be written.

        Without `follow` a link at its end is meant itself, and not what it leads to.
        """
        asked = self._absolute(text) if isinstance(text, str) else self.workspace / text
        whole = follow or asked.name in ("", "..")
        real = _stored(_real(asked) if whole else _real(asked.parent) / asked.name, whole=whole)
        root = max((one for one in self.roots if _within(real, one.path)), key=_depth, default=None)
        forbidden = [one for one in self.forbidden if _within(real, one)]
        if root is None and not forbidden:
            raise PathError(
                _(
                    "{path} lies outside the folders that you may use ({folders}). The owner can add its folder to "
                    "tools.files.roots in config.json.",
                    path=_said(text),
                    folders=self._names(),
                )
            )
        if root is None or any(len(one.parts) >= len(root.path.parts) for one in forbidden):
            barred = _(
                "{path} is never shown or changed: it holds keys or belongs to nanobot itself.", path=_said(text)
            )
            raise PathError(barred)
        if write and not root.writable:
            raise PathError(
                _(
                    "{path} may be read and not changed: its root in tools.files.roots is read-only.",
                    path=_said(text),
                )
            )
        parts = real.parts[len(root.path.parts) :]
        ours = root.path == self.workspace and bool(parts) and _plain(parts[0]) in WORKSPACE_CONTROL
        return ResolvedPath(root, parts, self.shown(real), ours or is_control(parts), holds_keys(real.parts))

    def key_files(self) -> tuple[Path, ...]:
        """Every file in the roots that usually holds keys, but those in the code of others. Raises `PathError` where
        there is too much to look at."""
        found: list[Path] = []
        seen, waiting = 0, [one.path for one in self.roots]
        while waiting:
            folder = waiting.pop()
            with contextlib.suppress(OSError), os.scandir(folder) as entries:
                for entry in entries:
                    seen += 1
                    if entry.is_dir(follow_symlinks=False):
                        waiting += [Path(entry.path)] if entry.name not in OTHERS_CODE else []
                    elif holds_keys((*folder.parts[-1:], entry.name)):
                        found.append(Path(entry.path))
            if seen > _MOST_ENTRIES:
                raise PathError(
                    _(
                        "There are more than {number:,} files, too many to find those that usually hold keys, which no "
                        "command may read beside content from outside. Use the tools for files, or /new.",
                        number=_MOST_ENTRIES,
                    )
                )
        return tuple(found)

    def forbids(self, path: Path) -> bool:
        """True for what is never shown or changed, and for what usually holds keys."""
        real = _real(path)
        root = max((len(one.path.parts) for one in self.roots if _within(real, one.path)), default=0)
        return holds_keys(real.parts) or any(len(one.parts) >= root for one in self.forbidden if _within(real, one))

    def holds_more(self, place: ResolvedPath) -> bool:
        """True where a folder holds what is forbidden, or another root."""
        others = (*self.forbidden, *(one.path for one in self.roots))
        return any(_within(one, place.path) for one in others)

    def shown(self, real: Path) -> str:
        """A path below the workspace as it stands there, any other as a whole, on one line."""
        text = str(real.relative_to(self.workspace)) if _within(real, self.workspace) else str(real)
        return "".join(sign if sign.isprintable() else "?" for sign in text)

    def _absolute(self, text: str) -> Path:
        name = text.strip()
        if not name or "\0" in name:
            raise PathError(_("A path is needed, such as notes/plan.md."))
        if len(name) > _LONGEST or name.count("/") > _DEEPEST:
            long = {"length": len(name), "folders": name.count("/")}
            raise PathError(_("The path is too long: {length} characters, {folders} folders.", **long))
        try:
            name.encode()
        except UnicodeEncodeError:
            raise PathError(_("{path} is no path: it holds half a character.", path=_said(name))) from None
        if name == "~" or name.startswith("~/"):
            return self.home / name[2:]
        if name.startswith("~"):
            raise PathError(
                _("{path}: the folders of other people are not looked up. Write the whole path.", path=_said(name))
            )
        return self.workspace / name

    def _names(self) -> str:
        return listed(str(one.path) if one.writable else _("{path} (read)", path=one.path) for one in self.roots)

    # Opening

    @contextlib.contextmanager
    def folder(self, place: ResolvedPath) -> Iterator[int]:
        """A descriptor of the folder `place`, which is closed at the end."""
        with self._walk(place.root, place.parts, place.shown, create=False) as descriptor:
            yield descriptor

    @contextlib.contextmanager
    def parent(self, place: ResolvedPath, *, create: bool = False) -> Iterator[tuple[int, str]]:
        """A descriptor of the folder that `place` lies in, and its name there."""
        if not place.parts:
            raise PathError(_("{path} is a folder of its own, and no file.", path=place.shown))
        with self._walk(place.root, place.parts[:-1], place.shown, create=create) as descriptor:
            yield descriptor, place.parts[-1]

    def open(self, place: ResolvedPath) -> int:
        """A descriptor of an ordinary file for reading. Raises `PathError`; the caller closes it."""
        with self.parent(place) as (folder, name):
            return self.open_in(folder, name, place.shown)

    def open_in(self, folder: int, name: str, shown: str) -> int:
        """As `open`, of a file called `name` in a folder that was opened by a walk."""
        with _told(shown):
            descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
            try:
                self._judge_file(os.fstat(descriptor), shown)
            except BaseException:
                os.close(descriptor)
                raise
            return descriptor

    def _judge_file(self, status: os.stat_result, shown: str) -> None:
        if stat.S_ISDIR(status.st_mode):
            raise PathError(_("{path} is a folder. list_dir shows what is in it.", path=shown))
        if not stat.S_ISREG(status.st_mode):
            raise PathError(_("{path} is no ordinary file, but a pipe, a socket or a device.", path=shown))
        if self.bars(status) or (status.st_nlink > 1 and is_in(status, self.forbidden_names())):
            other = _("{path} is another name of a file that holds keys or belongs to nanobot itself.", path=shown)
            raise PathError(other)

    def bars(self, status: os.stat_result) -> bool:
        """True for what is forbidden, under whatever name it was reached, and for what the system shows as files."""
        return is_in(status, self.barred())

    def barred(self) -> set[tuple[int, int]]:
        """The identities of what may not be reached; those with an inode of 0 stand for a whole file system.

        Looked up once a second: they are the second wall, behind where a path leads.
        """
        now = time.monotonic()
        if now - self._looked > 1.0:
            self._identities, self._looked = _identities(self.forbidden) | _devices(), now
        return self._identities

    def forbidden_names(self) -> set[tuple[int, int]]:
        """The identities of all that lies in a forbidden place, looked up once a second. Roots inside are none."""
        now = time.monotonic()
        if now - self._names_looked <= 1.0:
            return self._forbidden_names
        roots = {one.path for one in self.roots}
        waiting = [one for one in self.forbidden if one.is_dir()]
        found: set[tuple[int, int]] = set()
        while waiting:
            place = waiting.pop()
            with contextlib.suppress(OSError), os.scandir(place) as entries:
                disk = place.stat().st_dev
                for entry in entries:
                    found.add((disk, entry.inode()))
                    if entry.is_dir(follow_symlinks=False) and Path(entry.path) not in roots:
                        waiting.append(Path(entry.path))
        self._forbidden_names, self._names_looked = found, now
        return found

    @contextlib.contextmanager
    def _walk(self, root: Root, parts: tuple[str, ...], shown: str, *, create: bool) -> Iterator[int]:
        barred = self.barred()
        with _told(shown):
            descriptor = _open_root(root.path)
        try:
            for name in parts:
                with _told(shown):
                    if create:
                        with contextlib.suppress(FileExistsError):
                            os.mkdir(name, 0o777, dir_fd=descriptor)
                    inner = os.open(name, FOLDER, dir_fd=descriptor)
                os.close(descriptor)
                descriptor = inner
                if is_in(os.fstat(descriptor), barred):
                    raise PathError(
                        _("{path} leads to what holds keys or belongs to nanobot or the system.", path=shown)
                    )
            yield descriptor
        finally:
            os.close(descriptor)


def _open_root(path: Path) -> int:
    """A descriptor of a root, reached from the top without following a link: none of its parents may become one."""
    descriptor = os.open(path.anchor, FOLDER)
    passing = FOLDER & ~os.O_RDONLY | getattr(os, "O_PATH", os.O_RDONLY)  # a folder on the way may be closed to us
    names = path.parts[1:]
    for at, name in enumerate(names, 1):
        try:
            inner = os.open(name, FOLDER if at == len(names) else passing, dir_fd=descriptor)
        finally:
            os.close(descriptor)
        descriptor = inner
    return descriptor


@contextlib.contextmanager
def _told(shown: str) -> Iterator[None]:
    """Errors of the system as sentences about the path that was asked for."""
    try:
        yield
    except FileNotFoundError:
        raise MissingFile(_("{path} does not exist.", path=shown)) from None
    except NotADirectoryError:
        raise PathError(
            _("{path} is no folder, or what stands before its last / is none or became a link.", path=shown)
        ) from None
    except PermissionError:
        raise DiskError(_("{path} may not be read or changed by the user that nanobot runs as.", path=shown)) from None
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise PathError(_("{path} became a link after it was looked up, or links to itself.", path=shown)) from None
        raise DiskError(f"{shown}: {error.strerror or error}.") from None


def _real(path: Path) -> Path:
    try:
        return Path(os.path.realpath(path))
    except (OSError, ValueError):
        raise PathError(_("{path} cannot be looked up.", path=_said(str(path)))) from None


def _stored(real: Path, *, whole: bool) -> Path:
    """The path with each name in the Unicode form in which it stands on the disk, where another one was asked for."""
    if str(real).isascii() or os.path.lexists(real):
        return real
    found = Path(real.anchor)
    for part in real.parts[1:]:
        same = [part] if part.isascii() or os.path.lexists(found / part) else _same_names(found, part)
        found = found / (same[0] if len(same) == 1 else part)
    return _real(found) if whole else _real(found.parent) / found.name


def _same_names(folder: Path, name: str) -> list[str]:
    with contextlib.suppress(OSError):
        form = unicodedata.normalize("NFC", name)
        return [one for one in os.listdir(folder) if unicodedata.normalize("NFC", one) == form]  # noqa: PTH208
    return []


def _within(path: Path, folder: Path) -> bool:
    return path.parts[: len(folder.parts)] == folder.parts


def _depth(root: Root) -> int:
    return len(root.path.parts)


def is_control(parts: tuple[str, ...]) -> bool:
    """Told by names in any case and form, because some file systems take them for the same."""
    return not _CONTROL.isdisjoint(map(_plain, parts))


def holds_keys(parts: tuple[str, ...]) -> bool:
    """Whether the file of this path usually holds keys or passwords. Told by names in any case and form."""
    names = [_plain(part) for part in parts[-2:]]
    inside = len(names) > 1 and not _KEY_PLACES.isdisjoint({(names[0], names[1]), (names[0], "")})
    return bool(names) and (inside or _any(_KEY_FILES, names[-1])) and not _any(_NO_KEYS, names[-1])


def _any(patterns: tuple[str, ...], name: str) -> bool:
    """Whether a name fits one of these patterns; asked of every file, so they are one expression."""
    return _joined(patterns).match(name) is not None


@cache
def _joined(patterns: tuple[str, ...]) -> re.Pattern[str]:
    return re.compile("|".join(map(translate, patterns)))


def _plain(name: str) -> str:
    return unicodedata.normalize("NFKC", name).casefold()


def _identities(paths: Iterable[Path]) -> set[tuple[int, int]]:
    found = set()
    for path in paths:
        with contextlib.suppress(OSError):
            status = os.stat(path)  # noqa: PTH116 - asked for with every file, and a third of the time
            found.add((status.st_dev, status.st_ino))
    return found


def is_in(status: os.stat_result, barred: set[tuple[int, int]]) -> bool:
    """True where `barred` (of `Roots.barred`) names a file or its whole file system."""
    return not barred.isdisjoint({(status.st_dev, status.st_ino), (status.st_dev, 0)})


def _devices() -> set[tuple[int, int]]:
    """The file systems that are no files: with an inode of 0, which no file has."""
    found, ours = set(), Path("/").stat().st_dev
    for name in _NO_FILES:
        with contextlib.suppress(OSError):
            found.add((Path(name).stat().st_dev, 0))
    return found - {(ours, 0)}  # where they are folders like others


def _said(text: str | Path) -> str:
    shown = "".join(sign if sign.isprintable() else "?" for sign in str(text))
    return repr(shown if len(shown) <= 200 else f"{shown[:200]}…")
