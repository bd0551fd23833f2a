"""Files that steer nanobot or run by themselves are after a command as they were before it."""

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from nanobot.security.control_files import ControlFiles, control_files


def state(folder: Path) -> dict[str, tuple[int, bytes]]:
    found = {}
    for path in sorted(folder.rglob("*")):
        mode = path.lstat().st_mode
        text = os.fsencode(path.readlink()) if path.is_symlink() else path.read_bytes() if path.is_file() else b""
        found[str(path.relative_to(folder))] = (mode, text)
    return found


@pytest.fixture
def root(tmp_path: Path) -> Path:
    made = tmp_path / "root"
    for name in (".git/hooks", "memory/people", "project/.git/hooks"):
        (made / name).mkdir(parents=True)
    for name in ("AGENTS.md", ".git/config", ".git/hooks/pre-commit", "memory/people/a.md", "project/.git/config"):
        (made / name).write_text("ours", encoding="utf-8")
    (made / ".git/hooks/pre-commit").chmod(0o755)
    (made / "CLAUDE.md").symlink_to("AGENTS.md")
    (tmp_path / "outside").mkdir()
    return made


def write(name: str) -> Callable[[Path], None]:
    def change(root: Path) -> None:
        (root / name).write_text("evil", encoding="utf-8")

    return change


def instead(name: str, make: Callable[[Path], object]) -> Callable[[Path], None]:
    def change(root: Path) -> None:
        (root / name).unlink()
        make(root / name)

    return change


def swap_for_a_link(root: Path) -> None:
    (root / ".git").rename(root / "old")
    (root / ".git").symlink_to(root.parent / "outside")


def new_tree(root: Path) -> None:
    shutil.rmtree(root / "memory")
    (root / "memory").write_text("evil", encoding="utf-8")


def new_folder(path: Path) -> None:
    (path / "deep").mkdir(parents=True)
    (path / "deep" / "file").write_text("evil", encoding="utf-8")


CHANGES: dict[str, Callable[[Path], object]] = {
    "a file is written": write("AGENTS.md"),
    "a file is removed": lambda root: (root / "AGENTS.md").unlink(),
    "a mode is changed": lambda root: (root / ".git/hooks/pre-commit").chmod(0o600),
    "a hook is made": write(".git/hooks/post-commit"),
    "a hook of a project is made": write("project/.git/hooks/post-commit"),
    "a file is new": write("SOUL.md"),
    "a folder is new": lambda root: (root / "skills" / "evil").mkdir(parents=True),
    "a file deep inside is written": write("memory/people/a.md"),
    "a link leads elsewhere": instead("CLAUDE.md", lambda path: path.symlink_to("/etc/passwd")),
    "a link becomes a file": instead("CLAUDE.md", Path.touch),
    "a folder becomes a file": new_tree,
    "a file becomes a folder": instead("AGENTS.md", new_folder),
    "a folder above becomes a link to outside": swap_for_a_link,
    "a folder above is renamed": lambda root: (root / ".git").rename(root / "old"),
    "a pipe takes a place": instead("AGENTS.md", os.mkfifo),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_whatever_a_command_did_they_are_as_before_and_it_is_told(root: Path, change: Callable[[Path], object]) -> None:
    kept = ControlFiles(control_files(root))
    before = state(root)
    change(root)
    told = kept.put_back()
    after = state(root)
    assert {name: after.get(name) for name in before} == before
    assert {name for name in after.keys() - before.keys() if not name.startswith("old")} == set()
    assert [*(root.parent / "outside").iterdir()] == []
    assert told
    assert all("by the command and" in one for one in told)
    assert kept.put_back() == ()


def test_other_files_stay_as_the_command_left_them(root: Path) -> None:
    kept = ControlFiles(control_files(root))
    write("notes.md")(root)
    write("project/notes.md")(root)
    assert kept.put_back() == ()
    assert (root / "notes.md").read_text(encoding="utf-8") == "evil"


def test_a_command_may_make_a_repository_but_none_that_runs_something(tmp_path: Path) -> None:
    if shutil.which("git") is None:
        pytest.skip("NOT TRIED: git is not installed")
    kept = ControlFiles(control_files(tmp_path))
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    assert kept.put_back() == ()
    assert (tmp_path / ".git/config").exists()
    subprocess.run(["git", "-C", tmp_path, "config", "core.fsmonitor", "evil"], check=True)
    write(".git/hooks/post-commit")(tmp_path)
    assert len(kept.put_back()) == 2
    assert not (tmp_path / ".git/config").exists()
    assert not (tmp_path / ".git/hooks/post-commit").exists()


def test_where_they_are_too_many_to_keep_none_is_taken_away(root: Path) -> None:
    for number in range(4_100):
        (root / "memory" / f"{number}.md").touch()
    kept = ControlFiles(control_files(root))
    before = state(root)
    assert kept.too_many
    assert kept.put_back() == ()
    assert state(root) == before
