"""A model reaches what lies in the roots, whatever it writes a path like and whatever is put in its way meanwhile."""

import os
from pathlib import Path

import pytest

from nanobot.errors import PathError
from nanobot.security.paths import Root, Roots
from tests.tables import table


@pytest.fixture
def roots(tmp_path: Path) -> Roots:
    for name in ("home/workspace", "home/media", "person/.ssh", "project/sub", "read", "outside"):
        (tmp_path / name).mkdir(parents=True)
    for name in ("home/config.json", "person/.ssh/id", "outside/secret", "read/book.txt", "home/workspace/a.md"):
        (tmp_path / name).write_text("x")
    person = tmp_path / "person"
    allowed = (Root(tmp_path / "home/workspace", True), Root(tmp_path / "project", True), Root(tmp_path / "read"))
    return Roots((*allowed, Root(person)), (tmp_path / "home",), person)


def read(roots: Roots, name: str) -> str:
    descriptor = roots.open(roots.place(name))
    with os.fdopen(descriptor) as file:
        return file.read()


def test_paths_of_the_workspace_and_of_other_roots_are_reached(roots: Roots, tmp_path: Path) -> None:
    assert read(roots, "a.md") == read(roots, "./sub/../a.md") == read(roots, str(tmp_path / "read/book.txt")) == "x"
    assert roots.place("a.md").shown == "a.md"
    assert roots.place("new/deep/b.md", write=True).path == tmp_path / "home/workspace/new/deep/b.md"
    with pytest.raises(PathError, match="read-only"):
        roots.place(str(tmp_path / "read/book.txt"), write=True)


@table(
    "name",
    "../config.json",
    "a/../../config.json",
    "{tmp}/home/config.json",
    "{tmp}/outside/secret",
    "{tmp}/home/workspace/../media/x",
    "~/.ssh/id",
    "~/.ssh/../.ssh/id",
    "~root/.bashrc",
    "/etc/passwd",
    "/proc/self/environ",
    "/proc/self/root/etc/passwd",
    "link",
    "folder-link/secret",
    "link-to-link",
    "loop",
    "a\0.md",
    "",
    "x" * 5_000,
    "\ud800",
)
def test_what_lies_outside_or_is_secret_is_refused_with_a_sentence(roots: Roots, tmp_path: Path, name: str) -> None:
    workspace = roots.workspace
    (workspace / "link").symlink_to(tmp_path / "outside/secret")
    (workspace / "folder-link").symlink_to(tmp_path / "outside")
    (workspace / "link-to-link").symlink_to("link")
    (workspace / "loop").symlink_to("loop")
    with pytest.raises(PathError) as told:
        read(roots, name.replace("{tmp}", str(tmp_path)))
    assert str(told.value).endswith((".", ")")) or "folder" in str(told.value)


def test_a_link_that_appears_after_the_judgement_is_not_followed(roots: Roots, tmp_path: Path) -> None:
    (roots.workspace / "sub").mkdir()
    (roots.workspace / "sub/secret").write_text("mine")
    file, deep = roots.place("a.md"), roots.place("sub/secret")
    (roots.workspace / "a.md").unlink()
    (roots.workspace / "a.md").symlink_to(tmp_path / "outside/secret")
    (roots.workspace / "sub").rename(roots.workspace / "moved")
    (roots.workspace / "sub").symlink_to(tmp_path / "outside")
    for place in (file, deep):
        with pytest.raises(PathError, match="became a link"):
            roots.open(place)


def test_another_name_of_a_secret_and_what_is_no_file_is_refused(roots: Roots, tmp_path: Path) -> None:
    os.link(tmp_path / "home/config.json", roots.workspace / "innocent.md")
    os.mkfifo(roots.workspace / "pipe")
    for name in ("innocent.md", "pipe", "."):
        with pytest.raises(PathError):
            read(roots, name)


@table(
    "name control",
    ("AGENTS.md", True),
    ("agents.MD", True),
    ("ＡＧＥＮＴＳ.md", True),
    ("sub/AGENTS.md", True),
    ("memory/2026-01-01.md", True),
    ("skills/x/run.py", True),
    (".git/hooks/pre-commit", True),
    (".bashrc", True),
    ("Templates/agent/identity.md", True),
    ("site/templates/page.html", False),
    ("notes/plan.md", False),
    ("memories.md", False),
)
def test_files_that_steer_the_agent_are_told_from_others(roots: Roots, name: str, control: bool) -> None:
    assert roots.place(name).control is control
