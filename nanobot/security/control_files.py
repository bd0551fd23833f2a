"""Files that steer nanobot or run by themselves: which they are in a folder, and keeping them as they are.

No command may change them. bubblewrap shows those that exist read-only; what it cannot (a file that did not exist, a
folder that was moved away) and what Landlock cannot at all is compared after the command has ended and put back.
Everything is done by descriptors of folders that are no links, for what lies there now is a stranger's work.
"""

import contextlib
import os
import re
import stat
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from nanobot.utils.translation import _

#: At the top of a root and of each repository in it.
CONTROL_NAMES = (
    *("SOUL.md", "AGENTS.md", "USER.md", "CLAUDE.md", "HEARTBEAT.md", "memory", "skills", ".agents", ".claude"),
    *(".mcp.json", ".envrc", ".vscode", ".idea", ".devcontainer", ".github/workflows", ".gitlab-ci.yml", ".husky"),
    *(".pre-commit-config.yaml", ".git/hooks", ".git/config", ".gitmodules"),
)
#: Besides at the top of a root, which may be the folder of the person: what shells, editors and a login run by
#: themselves.
START_NAMES = (
    *(".bashrc", ".bash_profile", ".bash_login", ".bash_logout", ".profile", ".zshrc", ".zshenv", ".zprofile"),
    *(".zlogin", ".kshrc", ".cshrc", ".tcshrc", ".inputrc", ".gitconfig", ".npmrc", ".pypirc", ".vimrc", ".exrc"),
    *(".gdbinit", ".tmux.conf", ".screenrc", ".xinitrc", ".xprofile", ".xsession", ".pdbrc", ".ssh"),
    *(".config/autostart", ".config/systemd", ".config/fish", ".config/git", "Library/LaunchAgents"),
)
#: How deep repositories are looked for below a root, and in how many folders at most.
_DEPTH, _FOLDERS = 2, 400
#: Most files and bytes that are kept of them.
_MOST, _MOST_BYTES = 4_000, 32_000_000
_FOLDER_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
#: What a new repository may say of itself; nothing of it runs a program.
_PLAIN_CONFIG = re.compile(
    r'\s*(\[(core|user|init|remote "[^"]*"|branch "[^"]*")\]|(repositoryformatversion|filemode|bare|logallrefupdates'
    r"|ignorecase|precomposeunicode|symlinks|name|email|defaultbranch|url|fetch|remote|merge)\s*=[^\\]*)?\s*\Z",
    re.IGNORECASE,
)


class Kept(Struct, frozen=True):
    """One thing as it was: a file with its text, a link with its target, or a folder."""

    mode: int
    text: bytes = b""


def control_files(root: Path) -> tuple[Path, ...]:
    """What no command may change in a writable root, whether it exists already or not."""
    found = [root / name for name in (*CONTROL_NAMES, *START_NAMES)]
    for repository in _repositories(root):
        if (repository / ".git").is_file():  # it lies elsewhere, and this file says where
            found.append(repository / ".git")
        elif repository != root:
            found += [repository / name for name in CONTROL_NAMES]
    return tuple(found)


def _repositories(root: Path) -> Iterator[Path]:
    level, seen = [root], 0
    for _depth in range(_DEPTH + 1):
        below: list[Path] = []
        for folder in level:
            if (seen := seen + 1) > _FOLDERS:
                return
            if (folder / ".git").exists():
                yield folder
            with contextlib.suppress(OSError), os.scandir(folder) as entries:
                below += [Path(one.path) for one in entries if one.is_dir(follow_symlinks=False)]
        level = below


class ControlFiles:
    """Such files as they were before a command, with the folders that they lie in: `files`, at the `places` where such
    lie or may come to lie. Blocks: for a thread.

    `too_many`: no copy of all could be kept, so nothing is put back; only a sandbox that shows them read-only helps.
    """

    def __init__(self, paths: Sequence[Path]) -> None:
        self.places = tuple(dict.fromkeys(Path(os.path.realpath(one.parent)) / one.name for one in paths))
        self._new_repositories = {
            one.parent for one in self.places if one.parent.name == ".git" and not one.parent.exists()
        }
        self.files = self._read()
        size = sum(len(one.text) for one in self.files.values())
        self.too_many = len(self.files) > _MOST or size > _MOST_BYTES

    def expect(self, files: Mapping[Path, Kept]) -> None:
        """What they are to be at the end, where the owner has approved changes meanwhile."""
        self.files = dict(files)
        for path in files:
            for folder in path.parents:
                inside = any(folder.is_relative_to(one) for one in self.places)
                if inside and folder not in self.files and folder.is_dir() and not folder.is_symlink():
                    self.files[folder] = Kept(folder.lstat().st_mode)

    def put_back(self, trash: Path | None = None) -> tuple[str, ...]:
        """Put everything back as it was; a sentence for each that the command had changed.

        What is taken away goes into the folder `trash`: it may be that a person wrote it, and no command.

        One look ends after so many files and bytes; so that nothing is hidden behind them, it is looked until all is as
        it was.
        """
        if self.too_many:
            return ()
        done: dict[Path, bool] = {}
        last: set[Path] = set()
        while (mended := self._mend(trash)) and mended.keys() != last:
            last = set(mended)
            done |= mended
        tops: dict[Path, bool] = {}
        for path, back in done.items():
            top = next(one for one in self.places if path.is_relative_to(one))
            tops[top] = tops.get(top, True) and back
        made = [one for one in tops if not any(path.is_relative_to(one) for path in self.files)]
        return tuple(_sentence(top, made=top in made, back=back) for top, back in tops.items())

    def _mend(self, trash: Path | None) -> dict[Path, bool]:
        """Put back what one look finds: each path that was not as it had been, and whether it is now."""
        now = self._read()
        touched = [path for path in sorted({*now, *self.files}) if now.get(path) != self.files.get(path)]
        touched = [path for path in touched if path in self.files or not self._may_be_new(path, now[path])]
        if trash is not None:
            _save({path: now[path] for path in touched if path in now}, trash)
        for path in reversed(touched):  # what lies in a folder before the folder
            if path in now and (path not in self.files or _kind(now[path]) != _kind(self.files[path])):
                _remove(path)
        return {path: self._is_back(path) for path in touched}

    def _is_back(self, path: Path) -> bool:
        """Put one thing back, or see that it is gone; False where that fails."""
        try:
            if path in self.files:
                _restore(path, self.files[path])
            return path in self.files or not os.path.lexists(path)
        except OSError:
            return False

    def _read(self) -> dict[Path, Kept]:
        found: dict[Path, Kept] = {}
        waiting, size = list(reversed(self.places)), 0
        while waiting and len(found) <= _MOST and size <= _MOST_BYTES:
            path = waiting.pop()
            with contextlib.suppress(OSError), _parent(path) as folder:
                mode = os.stat(path.name, dir_fd=folder, follow_symlinks=False).st_mode
                found[path] = Kept(mode, _text(path.name, folder, mode))
                size += len(found[path].text)
                if stat.S_ISDIR(mode):
                    inner = os.open(path.name, _FOLDER_FLAGS, dir_fd=folder)
                    try:
                        waiting += [path / name for name in os.listdir(inner)]  # noqa: PTH208
                    finally:
                        os.close(inner)
        return found

    def _may_be_new(self, path: Path, kept: Kept) -> bool:
        """Whether a command that makes a repository makes this with it, and nothing runs by it."""
        git = next((one for one in self._new_repositories if path.is_relative_to(one)), None)
        if git is None:
            return False
        if path.name == "config":
            return all(map(_PLAIN_CONFIG.match, kept.text.decode(errors="replace").splitlines()))
        return stat.S_ISDIR(kept.mode) or path.suffix == ".sample"


def _kind(kept: Kept) -> int:
    return stat.S_IFMT(kept.mode)


def _sentence(path: Path, *, made: bool, back: bool) -> str:
    if not back:
        return _(
            "{path} was changed by the command and could not be put back. Look at it: it steers nanobot or runs.",
            path=path,
        )
    head = _("{path} was changed by the command and put back as it was.", path=path)
    if made:
        head = _("{path} was made by the command and taken away again.", path=path)
    # English: a model reads it
    how = (
        "No command may change what steers nanobot or runs by itself. Change it with write_file or edit_file instead, "
        "which asks the owner where that is needed."
    )
    return f"{head}\n{how}"


def _save(files: Mapping[Path, Kept], trash: Path) -> None:
    for path, kept in files.items():
        target = trash / path.relative_to(path.anchor)
        if stat.S_ISREG(kept.mode) and kept.text:
            with contextlib.suppress(OSError):
                target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                target.write_bytes(kept.text)
                target.chmod(0o600)


@contextlib.contextmanager
def _parent(path: Path, *, create: bool = False) -> Iterator[int]:
    """A descriptor of the folder of `path`, reached through no link. `create` makes it, in the place of whatever is no
    folder there. Raises `OSError`."""
    folder = os.open("/", _FOLDER_FLAGS)
    try:
        for name in path.parts[1:-1]:
            try:
                inner = os.open(name, _FOLDER_FLAGS, dir_fd=folder)
            except OSError:
                if not create:
                    raise
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(name, dir_fd=folder)
                os.mkdir(name, 0o755, dir_fd=folder)
                inner = os.open(name, _FOLDER_FLAGS, dir_fd=folder)
            os.close(folder)
            folder = inner
        yield folder
    finally:
        os.close(folder)


def _text(name: str, folder: int, mode: int) -> bytes:
    if stat.S_ISLNK(mode):
        return os.fsencode(os.readlink(name, dir_fd=folder))
    if not stat.S_ISREG(mode):
        return b""
    descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
    with os.fdopen(descriptor, "rb") as file:
        return file.read(_MOST_BYTES + 1)


def _remove(path: Path) -> None:
    with contextlib.suppress(OSError), _parent(path) as folder:
        if stat.S_ISDIR(os.stat(path.name, dir_fd=folder, follow_symlinks=False).st_mode):
            os.rmdir(path.name, dir_fd=folder)
        else:
            os.unlink(path.name, dir_fd=folder)


def _restore(path: Path, kept: Kept) -> None:
    with _parent(path, create=True) as folder:
        if stat.S_ISDIR(kept.mode):
            with contextlib.suppress(FileExistsError):
                os.mkdir(path.name, dir_fd=folder)
        elif stat.S_ISLNK(kept.mode):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(path.name, dir_fd=folder)
            os.symlink(os.fsdecode(kept.text), path.name, dir_fd=folder)
            return
        elif stat.S_ISREG(kept.mode):
            beside = f".{path.name}.{os.urandom(4).hex()}"
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
            with os.fdopen(os.open(beside, flags, 0o600, dir_fd=folder), "wb") as file:
                file.write(kept.text)
            os.rename(beside, path.name, src_dir_fd=folder, dst_dir_fd=folder)
        os.chmod(path.name, stat.S_IMODE(kept.mode), dir_fd=folder)
