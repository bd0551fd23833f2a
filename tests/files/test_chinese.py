"""What becomes of files, as somebody reads it who knows Chinese alone."""

from pathlib import Path

import pytest

from nanobot.files.store import FileStore
from nanobot.security.paths import Root, Roots
from tests.fakes.chinese import english_left

pytestmark = pytest.mark.usefixtures("chinese")


@pytest.fixture
def store(tmp_path: Path) -> FileStore:
    (tmp_path / "work").mkdir()
    roots = Roots((Root(tmp_path / "work", writable=True),), (tmp_path / "home",), home=tmp_path / "person")
    return FileStore(roots, tmp_path / "home" / "files")


def write(store: FileStore, name: str, data: bytes, taint: tuple[str, ...] = ()) -> str:
    place = store.roots.place(name, write=True)
    return store.change(place, lambda _before: data, session="s", taint=taint).receipt


def test_what_is_changed_and_undone_is_told_in_chinese(store: FileStore) -> None:
    work = store.roots.workspace
    told = [write(store, "a.md", b"1"), write(store, "a.md", b"2"), store.undo("s"), store.undo("s"), store.undo("s")]
    told += [write(store, "b.md", b"1"), store.delete(store.roots.place("b.md", write=True), session="s")]
    told += [store.undo("s"), write(store, "b.md", b"\0")]
    (work / "b.md").write_text("mine")
    told += [store.undo("s"), write(store, "c.md", b"1", ("网页",))]
    told += [store.origins.trust(name) for name in ("", "c.md", "c.md", "")]
    (work / "c.md").write_text("mine")
    told.append(store.undo("s"))
    assert [left for one in told for left in english_left(one)] == []
    assert told[:5] == [
        "已新建 a.md (+1 −0)",
        "已写入 a.md (+1 −1)",
        "a.md 已恢复原样。",
        "a.md 是新建的，已删除。",
        "没有可以撤销的：nanobot 在这个聊天里没有更改过文件，或已全部撤销。",
    ]
