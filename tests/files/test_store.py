"""Files are changed whole or not at all, every version before is kept, those that people send too."""

import os
import sqlite3
import stat
import threading
import time
from contextlib import closing
from pathlib import Path

import pytest

from nanobot.errors import DiskError, PathError
from nanobot.files.database import FilesDatabase, Step
from nanobot.files.inbox import KEPT_BYTES, KEPT_DAYS, prune_inbox
from nanobot.files.snapshots import ChangedBy
from nanobot.files.steering import Steering
from nanobot.files.store import FileStore
from nanobot.files.versions import digest_of
from nanobot.security.control_files import ControlFiles, Kept, control_files
from nanobot.security.paths import Root, Roots
from tests.fakes.chinese import english_left
from tests.fakes.disk import without_room

#: To a file in which a change of one file said itself what was done.
OLDER = """
ALTER TABLE changes ADD COLUMN before TEXT;
ALTER TABLE changes ADD COLUMN after TEXT;
ALTER TABLE changes ADD COLUMN trash TEXT;
ALTER TABLE changes ADD COLUMN labels TEXT NOT NULL DEFAULT '[]';
UPDATE changes SET (before, after, labels) = (SELECT before, after, labels FROM steps WHERE change = id);
UPDATE changes SET trash = substr(before, 7), before = NULL, labels = '[]' WHERE after IS NULL;
DELETE FROM steps;
"""


@pytest.fixture
def store(tmp_path: Path) -> FileStore:
    (tmp_path / "work").mkdir()
    roots = Roots((Root(tmp_path / "work", writable=True),), (tmp_path / "home",), home=tmp_path / "person")
    return FileStore(roots, tmp_path / "home" / "files")


def write(store: FileStore, name: str, text: str, session: str = "s", taint: tuple[str, ...] = ()) -> str:
    place = store.roots.place(name, write=True)
    return store.change(place, lambda _: text.encode(), session=session, taint=taint).receipt


def text(store: FileStore, name: str) -> str:
    return store.read(store.roots.place(name)).decode()


def test_a_write_says_what_it_did_and_undo_goes_back_step_by_step(store: FileStore) -> None:
    assert write(store, "notes/plan.md", "one\ntwo\n") == "created notes/plan.md (+2 −0)"
    assert write(store, "notes/plan.md", "one\nthree\nfour\n") == "wrote notes/plan.md (+2 −1)"
    write(store, "other.md", "x", session="t")
    assert "as it was before" in store.undo("s")
    assert text(store, "notes/plan.md") == "one\ntwo\n"
    assert "gone again" in store.undo("s")
    with pytest.raises(PathError, match="does not exist"):
        text(store, "notes/plan.md")
    assert "nothing to undo" in store.undo("s")
    assert text(store, "other.md") == "x", "the change of another chat stays"


def test_undo_never_takes_away_what_somebody_else_wrote_since(store: FileStore) -> None:
    write(store, "a.md", "first")
    write(store, "a.md", "second")
    (store.roots.workspace / "a.md").write_text("mine")
    assert "changed by somebody else" in store.undo("s")
    assert text(store, "a.md") == "mine"
    assert [path.read_text() for path in store.roots.workspace.glob("a.md.before-*")] == ["first"]
    write(store, "b.md", "from a page", taint=("page example.org",))
    write(store, "b.md", "second")
    (store.roots.workspace / "b.md").write_text("mine")
    store.undo("s")
    (spare,) = store.roots.workspace.glob("b.md.before-*")
    assert store.origins.of(store.roots.place(spare.name)) == ("page example.org",)


def test_what_is_deleted_lies_in_the_trash_and_comes_back(store: FileStore) -> None:
    write(store, "folder/a.md", "kept")
    assert store.delete(store.roots.place("folder", write=True), session="s") == "moved folder to the trash"
    assert not (store.roots.workspace / "folder").exists()
    assert "back from the trash" in store.undo("s")
    assert text(store, "folder/a.md") == "kept"


def test_a_file_written_with_outside_content_stays_foreign(store: FileStore) -> None:
    write(store, "a.md", "from a page", taint=("page example.org",))
    place = store.roots.place("a.md", write=True)
    assert store.origins.of(place) == ("page example.org",)
    store.change(place, lambda _: b"more", session="s")
    assert store.origins.of(place) == ("page example.org",)
    assert store.origins.below(store.roots.workspace) == {str(place.path)}


def test_a_file_is_the_persons_own_again_when_what_came_from_outside_is_undone_or_deleted(store: FileStore) -> None:
    write(store, "a.md", "mine")
    write(store, "a.md", "theirs", taint=("page example.org",))
    assert "as it was before" in store.undo("s")
    place = store.roots.place("a.md", write=True)
    assert store.origins.of(place) == ()
    write(store, "a.md", "theirs", taint=("page example.org",))
    store.delete(place, session="s")
    write(store, "a.md", "mine")
    assert store.origins.of(place) == ()
    write(store, "new.md", "theirs", taint=("page example.org",))
    assert "gone again" in store.undo("s")
    (store.roots.workspace / "new.md").write_text("mine")
    assert store.origins.of(store.roots.place("new.md")) == ()


def test_what_cannot_be_brought_back_does_not_keep_the_change_before_from_it(store: FileStore) -> None:
    write(store, "a.md", "one")
    write(store, "a.md", "two")
    write(store, "sub/b.md", "three")
    (store.roots.workspace / "sub/b.md").unlink()
    (store.roots.workspace / "sub").rmdir()
    (store.roots.workspace / "sub").symlink_to("/nowhere")
    with pytest.raises(PathError, match="lies outside"):
        store.undo("s")
    assert "as it was before" in store.undo("s")
    assert text(store, "a.md") == "one"


def test_what_is_kept_too_long_goes_and_nothing_that_undo_still_needs(store: FileStore, tmp_path: Path) -> None:
    for text_now in ("one", "two", "three"):
        write(store, "a.md", text_now)
    write(store, "b.md", "gone")
    store.delete(store.roots.place("b.md", write=True), session="t")
    kept = tmp_path / "home/files"
    store.prune()
    assert len([*kept.glob("versions/*/*")]) == 2
    assert "as it was before" in store.undo("s") + store.undo("s")
    assert len([*kept.glob("trash/*")]) == 1
    store.prune(now=time.time() + 61 * 86_400)
    assert not [*kept.glob("versions/*/*"), *kept.glob("trash/*")]
    assert "nothing to undo" in store.undo("t")


def test_a_private_file_that_somebody_has_deleted_since_is_private_again(store: FileStore) -> None:
    write(store, "key", "one")
    place = store.roots.place("key", write=True)
    place.path.chmod(0o600)
    write(store, "key", "two")
    place.path.unlink()
    assert "as it was before" in store.undo("s")
    assert (place.path.read_text(), stat.S_IMODE(place.path.stat().st_mode)) == ("one", 0o600)


def test_what_a_command_leaves_is_no_digest_however_long_its_figures_are() -> None:
    written = f"{1_800_000_000_000_000_000}"
    left = f"{0o100644}:{3_221_225_472}:{1_048_576}:{written}:{written}"  # as `as_text` says it on a large disk
    assert len(left) == len(digest_of(b"two"))
    assert not Step("/a", 0o100644, digest_of(b"one"), left).by_content
    assert Step("/a", 0o100644, digest_of(b"one"), digest_of(b"two")).by_content


def test_what_an_older_nanobot_has_noted_is_undone(store: FileStore, tmp_path: Path) -> None:
    for words in ("one", "two"):
        write(store, "a.md", words)
    theirs, key = store.roots.place("b.md", write=True), store.roots.place("key", write=True)
    for place in (theirs, key):
        write(store, place.path.name, "deleted", taint=("page example.org",) if place is theirs else ())
        place.path.chmod(0o600)
        store.delete(place, session="s")
    write(store, "b.md", "mine")
    store.close()
    with closing(sqlite3.connect(tmp_path / "home/files/files.db")) as database:
        database.executescript(OLDER)
    with closing(FileStore(store.roots, tmp_path / "home/files")) as later:
        gone, back = "gone again: it was new.", "back from the trash."
        said = [later.undo("s") for _ in range(4)]
        assert [one.partition(" is ")[2] for one in said] == [gone, back, gone, back]
        assert stat.S_IMODE(theirs.path.stat().st_mode) == 0o600, "it comes back as it was"
        assert later.origins.of(theirs) == ("page example.org",)
        said = [later.undo("s") for _ in range(3)]
        assert [one.partition(" is ")[2] for one in said] == [gone, "again as it was before.", gone]
        assert [*store.roots.workspace.iterdir()] == []


def test_many_stores_write_while_old_versions_are_deleted(store: FileStore) -> None:
    others = [FileStore(store.roots, store.roots.forbidden[0] / "files") for _ in range(3)]
    failed: list[Exception] = []

    def change(at: int) -> None:
        try:
            for number in range(20):
                write(others[at], f"{at}.md", f"{at} {number}")
                store.prune()
        except Exception as error:  # noqa: BLE001 - told by the test
            failed.append(error)

    threads = [threading.Thread(target=change, args=(at,)) for at in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed
    assert [others[0].undo("s") for _ in range(60)].count("There is nothing to undo") == 0
    for one in (*others, store):
        one.close()


def test_a_write_keeps_the_rights_of_a_file_and_leaves_nothing_beside_it(store: FileStore) -> None:
    write(store, "run.sh", "#!/bin/sh\n")
    (store.roots.workspace / "run.sh").chmod(0o755)
    write(store, "run.sh", "#!/bin/sh\necho\n")
    assert (store.roots.workspace / "run.sh").stat().st_mode & 0o777 == 0o755
    assert [path.name for path in store.roots.workspace.iterdir()] == ["run.sh"]


def test_no_change_of_two_chats_at_the_same_file_is_lost(store: FileStore, tmp_path: Path) -> None:
    stores = [FileStore(store.roots, tmp_path / "home" / "files") for _ in range(3)]
    write(store, "list.md", "first\n")

    def add(one: FileStore) -> None:
        for _ in range(10):
            place = one.roots.place("list.md", write=True)
            one.change(place, lambda before: (before or b"") + b"more\n", session="s")

    threads = [threading.Thread(target=add, args=(one,)) for one in stores]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert text(store, "list.md").splitlines() == ["first", *["more"] * 30]
    for one in stores:
        one.close()


def test_U5_what_a_full_disk_refuses_is_undone_at_the_next_try(store: FileStore) -> None:
    large = "large\n" * 300_000
    write(store, "old.md", "old")
    write(store, "plan.md", large)
    write(store, "plan.md", "small")
    with without_room(1_000_000), pytest.raises(DiskError, match=r"plan\.md could not be written: File too large"):
        store.undo("s")
    assert text(store, "plan.md") == "small"
    assert "as it was before" in store.undo("s")
    assert text(store, "plan.md") == large


def test_U5_of_a_command_what_a_full_disk_refuses_is_undone_at_the_next_try(store: FileStore) -> None:
    large, work = "large\n" * 300_000, store.roots.workspace
    for name in ("a.md", "plan.md", "z.md"):
        (work / name).write_text(large if name == "plan.md" else name)
    before = store.snapshots.take()
    for name in ("a.md", "plan.md", "z.md"):
        (work / name).unlink()
    tally = store.snapshots.record(before, store.snapshots.files(), ChangedBy("s", "rm ./*"))
    assert tally.receipt == "+0 ~0 −3 files"
    with (
        without_room(1_000_000),
        pytest.raises(DiskError, match=r"2 files are as before.*1 could not be.*tries it again"),
    ):
        store.undo("s")
    assert sorted(one.name for one in work.iterdir()) == ["a.md", "z.md"]
    assert store.undo("s").startswith("`rm ./*` is undone: 3 files are as before")
    assert text(store, "plan.md") == large
    assert "nothing to undo" in store.undo("s")


def test_a_snapshot_keeps_what_has_changed_since_the_last_and_of_hard_links_to_keys_nothing(store: FileStore) -> None:
    work, home = store.roots.workspace, store.roots.forbidden[0]
    (work / "a.md").write_text("one")
    home.mkdir(exist_ok=True)
    (home / "config.json").write_text("the key")
    (work / "link.md").hardlink_to(home / "config.json")
    first = store.snapshots.take()
    assert first.lost == {str(work / "link.md")}
    assert [one.read_text() for one in (home / "files/versions").glob("*/*")] == ["one"]
    (work / "a.md").write_text("two")
    (work / "b.md").write_text("new")
    with closing(FileStore(store.roots, home / "files")) as later:
        later.snapshots.take()
        assert {one.read_text() for one in (home / "files/versions").glob("*/*")} == {"one", "two", "new"}
        later.prune()
        assert len([*(home / "files/versions").glob("*/*")]) == 3, "a command that runs may need what was there before"
        later.prune(now=time.time() + 2 * 86_400)
        assert {one.read_text() for one in (home / "files/versions").glob("*/*")} == {"two", "new"}


def test_U73_what_is_put_back_after_a_command_is_what_the_owner_approved_last(store: FileStore, tmp_path: Path) -> None:
    work = store.roots.workspace
    for name, words in (("SOUL.md", "kind"), ("skills/a/SKILL.md", "a"), ("memory/MEMORY.md", "tea")):
        (work / name).parent.mkdir(exist_ok=True, parents=True)
        (work / name).write_text(words)
    guard, number = ControlFiles(control_files(work)), store.origins.begin()
    store.steering.begin(number, guard.places, guard.files)
    with closing(FileStore(store.roots, tmp_path / "home" / "files")) as other:
        write(other, "SOUL.md", "brief")
        other.delete(store.roots.place("skills", write=True), session="s")
        other.delete(store.roots.place("memory", write=True), session="t")
        other.undo("t")
        write(other, "USER.md", "Ada", session="t")
        other.undo("t")
    assert guard.files.keys() >= {work / "SOUL.md", work / "skills/a/SKILL.md"}
    (work / "SOUL.md").write_text("evil")
    (work / "USER.md").write_text("evil")
    (work / "memory/MEMORY.md").write_text("evil")
    written = [work / one for one in ("SOUL.md", "USER.md", "memory/MEMORY.md")]
    assert store.steering.doubted([*written, work / "AGENTS.md"]) == frozenset(written)
    guard.expect(store.steering.wanted(number, guard.files))
    assert len(guard.put_back()) == 3
    assert sorted(str(one.relative_to(work)) for one in work.rglob("*.md")) == ["SOUL.md", "memory/MEMORY.md"]
    assert [text(store, one) for one in ("SOUL.md", "memory/MEMORY.md")] == ["brief", "tea"]
    assert store.steering.doubted(written) == frozenset()
    store.origins.end(number)
    (work / "SOUL.md").write_text("mine, after it")
    assert store.steering.doubted(written) == frozenset()


def test_a_command_is_told_that_not_all_can_come_back_where_files_are_more_than_may_be_kept(tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    for number in range(3):
        (work / f"{number}.bin").write_bytes(bytes([number]) * 1_000)
    roots = Roots((Root(work, writable=True),))
    assert FileStore(roots, tmp_path / "all", snapshot_bytes=3_000).snapshots.whole()
    assert not FileStore(roots, tmp_path / "few", snapshot_bytes=2_999).snapshots.whole()


def test_the_files_that_a_verdict_was_about_are_walked_once(store: FileStore) -> None:
    late = str(store.roots.workspace / "late.md")

    def taken_as_judged() -> bool:
        Path(late).unlink(missing_ok=True)
        assert store.snapshots.whole()
        Path(late).write_text("came between")
        return late not in (store.snapshots.take().files or {})

    assert any(taken_as_judged() for _ in range(20)), "a machine that is busy for a second walks again"
    assert late in (store.snapshots.take().files or {}), "the next command has its own"


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


def told_of(store: FileStore, name: str, data: bytes, taint: tuple[str, ...] = ()) -> str:
    place = store.roots.place(name, write=True)
    return store.change(place, lambda _before: data, session="s", taint=taint).receipt


@pytest.mark.usefixtures("chinese")
def test_what_is_changed_and_undone_is_told_in_chinese(store: FileStore) -> None:
    work = store.roots.workspace
    told = [
        told_of(store, "a.md", b"1"),
        told_of(store, "a.md", b"2"),
        store.undo("s"),
        store.undo("s"),
        store.undo("s"),
    ]
    told += [told_of(store, "b.md", b"1"), store.delete(store.roots.place("b.md", write=True), session="s")]
    told += [store.undo("s"), told_of(store, "b.md", b"\0")]
    (work / "b.md").write_text("mine")
    told += [store.undo("s"), told_of(store, "c.md", b"1", ("网页",))]
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


def test_what_the_owner_has_taken_away_is_not_wanted_back_whatever_its_folder_is_called(tmp_path: Path) -> None:
    steering, place = Steering(FilesDatabase(tmp_path / "db")), tmp_path / os.fsdecode(b"caf\xff\x80")
    files = {place: Kept(stat.S_IFDIR), place / "a": Kept(stat.S_IFREG, b"x")}
    steering.begin(1, [place], files)
    steering.approve(place, {})
    assert not steering.wanted(1, files)
