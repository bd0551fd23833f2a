"""Backups through the shipped program: moved to another machine, taken back, broken off, made each night."""

import asyncio
import io
import json
import os
import shutil
import sqlite3
import subprocess
import sys
import tarfile
from contextlib import aclosing, closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from msgspec.json import encode

from nanobot.config.paths import Paths
from nanobot.errors import NanobotError, StoreError
from nanobot.files.versions import remove_tree
from nanobot.providers.scripted import Wait
from nanobot.session.ledger import Ledger
from nanobot.session.lock import home_use_lock, restore_lock, terminal_jobs_lock
from nanobot.session.rows import OutboxItem
from nanobot.session.sqlite import SqliteDatabase
from nanobot.upkeep.archive import MANIFEST, Manifest, make_backup
from nanobot.upkeep.nightly import NightlyBackups
from nanobot.upkeep.restoring import finish, read_manifest, restore
from tests.cli.harness import Program, modelled, program
from tests.fakes.crash import strace
from tests.fakes.ledger import rows
from tests.fakes.llm_server import LlmServer, Reply


def files_of(home: Path) -> dict[str, bytes]:
    """What a home holds besides backups, what was set aside, and what is of one moment."""
    passing = ("backups", "before-restore", "cache", "logs", "runtime")
    return {
        str(one.relative_to(home)): one.read_bytes()
        for one in sorted(home.rglob("*"))
        if one.is_file() and not str(one.relative_to(home)).startswith(passing) and ".db" not in one.name
    }


async def test_a_backup_moves_an_installation_to_another_machine_with_its_talks_files_and_keys(tmp_path: Path) -> None:
    async with LlmServer(after=Reply("noted")) as server:
        (tmp_path / "a").mkdir()
        old = program(tmp_path / "a", server)
        await old.run("my boat is called Ida")
        (old.home / "workspace" / "USER.md").write_text("- Name: Ada\n", encoding="utf-8")
        made = await old.run("backup", str(tmp_path / "moved.tar.gz"))
        (tmp_path / "b").mkdir()
        new = Program(tmp_path / "b" / "home")
        took = await new.run("restore", str(tmp_path / "moved.tar.gz"), "--yes")
        again = await new.run("agent", "-c", "-m", "what is my boat called?")
        asked = json.dumps(server.requests[-1].body)
    assert (made.code, "moved.tar.gz" in made.out, "holds your keys" in made.out) == (0, True, True)
    assert (took.code, again.code, again.out) == (0, 0, "noted\n"), took.err + again.err
    assert "my boat is called Ida" in asked
    assert "- Name: Ada" in asked
    assert (tmp_path / "moved.tar.gz").stat().st_mode & 0o077 == 0
    assert not [one for one in new.home.rglob("*") if not one.is_symlink() and one.stat().st_mode & 0o077]


async def test_folders_of_any_depth_are_started_with_kept_and_put_back(tmp_path: Path) -> None:
    new, name = Program(tmp_path / "new"), "workspace/skills/deep"
    async with modelled(tmp_path, "fine") as (old, _):
        try:
            (old.home / name).mkdir(parents=True)
            (old.home / name / "SKILL.md").write_text(
                "---\nname: deep\ndescription: How deep is done.\n---\n\nDo it.\n"
            )
            line = "for i in $(seq 1500); do mkdir d; cd d; done; echo here > x"
            assert subprocess.run(["sh", "-c", line], cwd=old.home / name, timeout=120, check=False).returncode == 0
            for nanobot, words in ((old, "hello"), (old, f"backup {tmp_path}/b"), (new, f"restore {tmp_path}/b --yes")):
                ran = await nanobot.run(*words.split())
                assert ran.code == 0, ran.err
            assert (new.home / name / "/".join(["d"] * 1500) / "x").read_text() == "here\n"
            (old.home / name / "d").rename(new.home / name / "/".join(["d"] * 1501))  # deeper than a path is long
            remove_tree(new.home)
            assert not new.home.exists()
        finally:  # pytest cannot
            subprocess.run(["rm", "-rf", old.home, new.home], timeout=120, check=True)


async def test_what_was_there_is_set_aside_and_a_wrong_file_changes_nothing(tmp_path: Path) -> None:
    async with modelled(tmp_path, after=Reply("noted")) as (at, _):
        await at.run("hello there")
        await at.run("config", "set", "agents.defaults.timezone", "Asia/Kathmandu")
        await at.run("backup")
        (at.home / "workspace" / "note.md").write_text("written later", encoding="utf-8")
        before = files_of(at.home)
        whole = next((at.home / "backups").glob("*.tar.gz"))
        (tmp_path / "cut.tar.gz").write_bytes(whole.read_bytes()[: whole.stat().st_size // 2])
        cut = await at.run("restore", str(tmp_path / "cut.tar.gz"), "--yes")
        nobody = await at.run("restore", "last")
        unchanged = files_of(at.home)
        took = await at.run("restore", "last", "--yes")
    assert (cut.code, "Nothing was changed" in cut.err) == (1, True)
    assert (nobody.code, "--yes" in nobody.err) == (2, True)
    assert unchanged == before
    assert took.code == 0, took.err
    assert f"{read_manifest(whole).made.astimezone(ZoneInfo('Asia/Kathmandu')):%H:%M} by nanobot" in took.out
    aside = next(at.home.glob("before-restore-*"))
    assert (aside / "workspace" / "note.md").read_text(encoding="utf-8") == "written later"
    assert not (at.home / "workspace" / "note.md").exists()
    assert [one.name for one in (at.home / "backups").iterdir()] == [whole.name]


async def test_where_there_is_no_backup_the_last_one_is_not_taken_for_the_name_of_one(tmp_path: Path) -> None:
    none = await Program(tmp_path / "home").run("restore", "last")
    assert (none.code, "backups. `nanobot backup` makes one." in none.err) == (2, True), none.err


async def test_messages_that_were_on_their_way_are_not_sent_again_from_a_backup(tmp_path: Path) -> None:
    paths = Paths.resolve({"NANOBOT_HOME": str(tmp_path / "home")})
    async with aclosing(Ledger(SqliteDatabase(paths.database))) as ledger:
        await ledger.put((OutboxItem("t", 0, "telegram", "1", "{}"),))
        make_backup(paths, tmp_path / "b.tar.gz")
    done = restore(tmp_path / "b.tar.gz", paths.home)
    assert done.settled == 1
    assert rows(paths.database, "SELECT state, reason FROM outbox") == [
        ("failed", "the conversations were put back from a backup")
    ]


async def test_no_backup_takes_the_place_of_another_one_that_got_its_name_meanwhile(tmp_path: Path) -> None:
    paths, target = Paths.resolve({"NANOBOT_HOME": str(tmp_path / "home")}), tmp_path / "night.tar.gz"
    paths.home.mkdir()
    jobs = [asyncio.to_thread(make_backup, paths, target, numbered=True) for _ in range(3)]
    made = {one.file.name: one.file.read_bytes() for one in await asyncio.gather(*jobs)}
    assert set(made) == {"night.tar.gz", "night-2.tar.gz", "night-3.tar.gz"}
    with pytest.raises(StoreError, match=r"night\.tar\.gz is there already"):
        make_backup(paths, target)
    with pytest.raises(StoreError, match=r"b\.tar\.gz: File exists\. Free some room or name another place\."):
        make_backup(paths, target / "b.tar.gz")
    assert {name: (tmp_path / name).read_bytes() for name in made} == made
    ran = await asyncio.gather(*(Program(paths.home).run("backup") for _ in range(2)))
    files = {one.out.split()[0] for one in ran}
    assert ([one.code for one in ran], len(files)) == ([0, 0], 2), ran


async def test_a_backup_of_a_database_in_use_is_whole(tmp_path: Path) -> None:
    paths = Paths.resolve({"NANOBOT_HOME": str(tmp_path / "home")})
    async with aclosing(Ledger(SqliteDatabase(paths.database))) as ledger:
        await ledger.put((OutboxItem("t", 0, "telegram", "1", "{}"),))

        async def write() -> None:
            for number in range(1, 200):
                await ledger.put((OutboxItem("t", number, "telegram", "1", "x" * 2_000),))

        writing = asyncio.create_task(write())
        await asyncio.to_thread(make_backup, paths, tmp_path / "b.tar.gz")
        await writing
    restore(tmp_path / "b.tar.gz", paths.home)
    assert rows(paths.database, "PRAGMA integrity_check") == [("ok",)]


async def test_a_database_that_a_full_disk_lets_nobody_open_is_in_a_backup_with_its_log(tmp_path: Path) -> None:
    used, full = (Paths.resolve({"NANOBOT_HOME": str(tmp_path / name)}) for name in ("used", "full"))
    (full.home / "nanobot.db-shm").mkdir(parents=True)
    async with aclosing(Ledger(SqliteDatabase(used.database))) as ledger:
        await ledger.put((OutboxItem("t", 0, "telegram", "1", "only in the log"),))
        for one in ("nanobot.db", "nanobot.db-wal"):
            shutil.copyfile(used.home / one, full.home / one)
    made = make_backup(full, tmp_path / "b.tar.gz")
    restore(made.file, tmp_path / "again", settle=False)
    assert made.unread == ()
    assert rows(tmp_path / "again" / "nanobot.db", "SELECT payload FROM outbox") == [("only in the log",)]


def test_a_backup_waits_for_no_database_that_somebody_has_locked_for_good(tmp_path: Path) -> None:
    paths = Paths.resolve({"NANOBOT_HOME": str(tmp_path / "home")})
    paths.home.mkdir()
    with closing(sqlite3.connect(paths.database)) as db:
        db.execute("CREATE TABLE a (b)")
        db.execute("BEGIN EXCLUSIVE")
        made = make_backup(paths, tmp_path / "b.tar.gz")
    assert made.unread == (f"{paths.database}: database is locked",)


@pytest.mark.skipif(strace.STRACE is None, reason=strace.MISSING)
def test_a_disk_without_locks_is_told_and_not_taken_for_a_restore(tmp_path: Path) -> None:
    command = [str(strace.STRACE), "-f", "-qq", "-o", os.devnull, "-e", "inject=flock:error=ENOLCK"]
    command += [sys.executable, "-m", "nanobot", "-m", "hello"]
    ran = subprocess.run(command, env=program(tmp_path).env, capture_output=True, text=True, timeout=120, check=False)
    assert (ran.returncode, "in-use.lock cannot be made: No locks available." in ran.stderr) == (1, True), ran.stderr


@pytest.mark.skipif(strace.STRACE is None, reason=strace.MISSING)
@pytest.mark.parametrize("at", [1, 3, 6, 9, 12])
async def test_a_restore_that_is_killed_leaves_the_old_or_goes_on_to_the_new(tmp_path: Path, at: int) -> None:
    home = tmp_path / "home"
    for number in range(4):
        (home / f"part{number}").mkdir(parents=True)
        (home / f"part{number}" / "held").write_text("new", encoding="utf-8")
    made = make_backup(Paths.resolve({"NANOBOT_HOME": str(home)}), tmp_path / "b.tar.gz")
    for number in range(4):
        (home / f"part{number}" / "held").write_text("old", encoding="utf-8")
    work = f"restore(Path({str(made.file)!r}), Path({str(home)!r}))"
    code = f"from pathlib import Path; from nanobot.upkeep.restoring import restore; {work}"
    command = [str(strace.STRACE), "-f", "-qq", "-e", "trace=rename", "-e", f"inject=rename:signal=KILL:when={at}"]
    await asyncio.to_thread(
        subprocess.run, [*command, sys.executable, "-c", code], capture_output=True, timeout=60, check=False
    )
    if (home / ".restore").exists():
        finish(home)
    held = {(home / f"part{number}" / "held").read_text(encoding="utf-8") for number in range(4)}
    assert held in ({"old"}, {"new"})
    if held == {"new"}:
        aside = next(home.glob("before-restore-*"))
        assert {(aside / f"part{number}" / "held").read_text(encoding="utf-8") for number in range(4)} == {"old"}


async def test_a_start_goes_on_with_a_restore_that_was_broken_off(tmp_path: Path) -> None:
    async with modelled(tmp_path, after=Reply("noted")) as (at, _):
        stage = at.home / ".restore"
        (stage / "new").mkdir(parents=True)
        shutil.copy(at.home / "config.json", stage / "new" / "config.json")
        (stage / "new" / "mark").write_text("new", encoding="utf-8")
        (stage / "phase").write_text("out", encoding="ascii")
        (at.home / "mark").write_text("old", encoding="utf-8")
        ran = await at.run("hello there")
    assert (ran.code, ran.out) == (0, "noted\n"), ran.err
    assert (at.home / "mark").read_text(encoding="utf-8") == "new"
    assert (next(at.home.glob("before-restore-*")) / "mark").read_text(encoding="utf-8") == "old"
    assert not stage.exists()


async def test_a_restore_that_is_asked_for_again_keeps_what_the_broken_one_had_moved_aside(tmp_path: Path) -> None:
    async with modelled(tmp_path, after=Reply("noted")) as (at, _):
        await at.run("backup")
        stage = at.home / ".restore"
        (stage / "old").mkdir(parents=True)
        (stage / "new").mkdir()
        (stage / "old" / "diary").write_text("written since", encoding="utf-8")
        (stage / "phase").write_text("out", encoding="ascii")
        took = await at.run("restore", "last", "--yes")
    assert took.code == 0, took.err
    assert [one.read_text(encoding="utf-8") for one in at.home.glob("before-restore-*/diary")] == ["written since"]


@pytest.mark.skipif(strace.STRACE is None, reason=strace.MISSING)
async def test_a_home_of_which_a_part_cannot_be_moved_stays_as_it_was(tmp_path: Path) -> None:
    home = tmp_path / "home"
    for name in ("a", "b", "c"):
        (home / name).mkdir(parents=True)
        (home / name / "held").write_text("old", encoding="utf-8")
    made = make_backup(Paths.resolve({"NANOBOT_HOME": str(home)}), tmp_path / "b.tar.gz")
    work = f"restore(Path({str(made.file)!r}), Path({str(home)!r}))"
    code = f"from pathlib import Path; from nanobot.upkeep.restoring import restore; {work}"
    # As where a volume is mounted at the second of them; the first rename is that of the note.
    command = [str(strace.STRACE), "-f", "-qq", "-e", "trace=rename", "-e", "inject=rename:error=EBUSY:when=3"]
    ran = await asyncio.to_thread(
        subprocess.run, [*command, sys.executable, "-c", code], capture_output=True, timeout=60, check=False
    )
    assert b"Nothing was changed" in ran.stderr, ran.stderr
    assert sorted(one.name for one in home.iterdir()) == ["a", "b", "c"]
    assert {(home / name / "held").read_text(encoding="utf-8") for name in "abc"} == {"old"}


def archive(place: Path, *members: tarfile.TarInfo, layout: int = 1) -> Path:
    head = Manifest(layout, "9.9", datetime.now(UTC), "there", "/home")
    with tarfile.open(place, "w:gz") as made:
        data = encode(head)
        first = tarfile.TarInfo(MANIFEST)
        first.size = len(data)
        made.addfile(first, io.BytesIO(data))
        for one in members:
            made.addfile(one, io.BytesIO(b"x" * one.size))
    return place


def member(name: str, *, kind: bytes = tarfile.REGTYPE, link: str = "") -> tarfile.TarInfo:
    made = tarfile.TarInfo(name)
    made.type, made.linkname, made.size = kind, link, 1 if kind == tarfile.REGTYPE else 0
    return made


def timed(at: str) -> tarfile.TarInfo:
    made = member("home/x")
    made.pax_headers = {"mtime": at}
    return made


HOSTILE = {
    "out of the home": (member("home/../../out"),),
    "an absolute name": (member("/etc/out"),),
    "through a link": (member("home/link", kind=tarfile.SYMTYPE, link="/tmp"), member("home/link/out")),
    "a device": (member("home/null", kind=tarfile.CHRTYPE),),
    "what stays in a home": (member("home/backups/x"),),
    "the place of a restore": (member("home/.restore/phase"),),
    "a time that is none": (timed("nan"),),
    "a time beyond all clocks": (timed("1e30"),),
    "a hard link": (member("home/hard", kind=tarfile.LNKTYPE, link="/etc/passwd"),),
}


@pytest.mark.parametrize("what", HOSTILE)
async def test_an_archive_that_reaches_out_of_the_home_is_refused_whole(tmp_path: Path, what: str) -> None:
    home = tmp_path / "home"
    home.mkdir()
    (home / "mark").write_text("mine", encoding="utf-8")
    with pytest.raises(StoreError, match="Nothing was changed"):
        restore(archive(tmp_path / "bad.tar.gz", *HOSTILE[what]), home)
    assert [one.name for one in home.iterdir()] == ["mark"]
    assert not (tmp_path / "out").exists()


async def test_a_backup_holds_what_links_of_a_home_lead_to(tmp_path: Path) -> None:
    async with modelled(tmp_path, after=Reply("noted")) as (at, server):
        await at.run("my boat is called Ida")
        (tmp_path / "disk").mkdir()
        for name in ("workspace", "nanobot.db", "config.json"):
            (at.home / name).rename(tmp_path / "disk" / name)
            (at.home / name).symlink_to(tmp_path / "disk" / name)
        (tmp_path / "disk" / "workspace" / "plan.md").write_text("by boat", encoding="utf-8")
        (at.home / "everything").symlink_to("/")
        made = await at.run("backup", str(tmp_path / "b.tar.gz"))
        (tmp_path / "disk").rename(tmp_path / "lost")
        (tmp_path / "b").mkdir()
        new = Program(tmp_path / "b" / "home")
        took = await new.run("restore", str(tmp_path / "b.tar.gz"), "--yes")
        again = await new.run("agent", "-c", "-m", "what is my boat called?")
        asked = json.dumps(server.requests[-1].body)
    assert (made.code, took.code, again.code, again.out) == (0, 0, 0, "noted\n"), took.err + again.err
    assert "my boat is called Ida" in asked
    assert (new.home / "workspace" / "plan.md").read_text(encoding="utf-8") == "by boat"
    assert (new.home / "everything").is_symlink()


async def test_nothing_is_restored_under_a_terminal_in_which_somebody_talks(tmp_path: Path) -> None:
    at = program(tmp_path)
    await at.run("backup")
    (at.home / "mark").write_text("mine", encoding="utf-8")
    with terminal_jobs_lock(at.home):
        refused = await at.run("restore", "last", "--yes")
    assert (refused.code, "Somebody talks in a terminal" in refused.err) == (1, True), refused.err
    assert (at.home / "mark").exists()


async def test_nothing_is_restored_under_a_question_that_runs_and_none_is_asked_under_a_restore(tmp_path: Path) -> None:
    gates = [asyncio.Event(), asyncio.Event()]
    async with modelled(tmp_path, *(Reply(Wait(gate), "noted") for gate in gates), after="noted") as (at, server):
        await at.run("backup")
        asking = [asyncio.create_task(at.run("agent", "-m", f"question {number}")) for number in range(2)]
        await server.asked(2)
        refused = await at.run("restore", "last", "--yes")
        gates[0].set()
        await asyncio.wait(asking, return_when=asyncio.FIRST_COMPLETED)
        again = await at.run("restore", "last", "--yes")  # the other one is still being answered
        gates[1].set()
        answered = [(one.code, one.out) for one in await asyncio.gather(*asking)]
        with restore_lock(at.home):
            meanwhile = await at.run("agent", "-m", "question 3")
            (at.home / ".restore").mkdir()
            begun = await at.run("agent", "-m", "question 4")
        (at.home / ".restore").rmdir()
        after = await at.run("restore", "last", "--yes")
    for one in (refused, again):
        assert (one.code, "Something is being answered" in one.err) == (1, True), one.err
    assert answered == [(0, "noted\n")] * 2
    for one in (meanwhile, begun):
        assert (one.code, "A backup is being put into the place of" in one.err) == (1, True), one.err
    assert after.code == 0, after.err


async def test_who_asks_in_a_home_is_not_refused_as_by_a_restore_while_others_end_there(tmp_path: Path) -> None:
    def ask() -> None:
        for _ in range(500):
            with home_use_lock(tmp_path):
                pass

    await asyncio.gather(*(asyncio.to_thread(ask) for _ in range(3)))
    assert not list(tmp_path.iterdir())


async def test_a_backup_into_the_workspace_holds_none_of_those_beside_it(tmp_path: Path) -> None:
    home = tmp_path / "home"
    folder = home / "workspace" / "kept"
    (home / "workspace").mkdir(parents=True)
    (home / "workspace" / "album.tar.gz").write_bytes(b"the person's own")
    paths = Paths.resolve({"NANOBOT_HOME": str(home)})
    for number in range(3):
        make_backup(paths, folder / f"nightly-{number}.tar.gz")
    with tarfile.open(folder / "nightly-2.tar.gz") as made:
        assert made.getnames() == [MANIFEST, "home/workspace/album.tar.gz"]


async def test_a_backup_of_a_newer_nanobot_and_what_is_none_are_told(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("no archive", encoding="utf-8")
    with tarfile.open(tmp_path / "other.tar.gz", "w:gz") as made:
        made.addfile(member("home/x"), io.BytesIO(b"x"))
    told = []
    for file in (archive(tmp_path / "newer.tar.gz", layout=2), tmp_path / "text", tmp_path / "other.tar.gz"):
        with pytest.raises(NanobotError) as error:
            read_manifest(file)
        told.append(str(error.value))
    assert "which is newer. Update this one first" in told[0]
    assert "no whole backup" in told[1]
    assert "is no backup of nanobot" in told[2]


async def test_a_workspace_outside_the_home_goes_to_its_place_where_that_is_free(tmp_path: Path) -> None:
    async with LlmServer(after=Reply("noted")) as server:
        place = tmp_path / "desk"
        defaults = {"model": "fake", "provider": "custom", "workspace": str(place)}
        at = program(tmp_path, server, agents={"defaults": defaults})
        await at.run("hello there")
        (place / "plan.md").write_text("by boat", encoding="utf-8")
        await at.run("backup")
        beside = await at.run("restore", "last", "--yes")
        shutil.rmtree(place)
        took = await at.run("restore", "last", "--yes")
    assert f"because {place} holds files already" in beside.out
    assert f"The workspace is in {place}" in took.out
    assert (place / "plan.md").read_text(encoding="utf-8") == "by boat"


async def test_a_nightly_backup_keeps_the_newest_drops_what_was_broken_off_and_says_why_it_was_not_made(
    tmp_path: Path,
) -> None:
    at = program(tmp_path, backup={"keep": 2})
    folder, told = at.home / "backups", list[str]()
    for day in range(1, 4):
        folder.mkdir(exist_ok=True)
        old = folder / f"nightly-2026-01-0{day}T030000.tar.gz"
        old.write_bytes(b"")
        os.utime(old, (day, day))
    os.utime(folder / "nightly-2026-01-01T030000.tar.gz", (2**32, 2**32))  # the clock was ahead
    (folder / "nanobot-by-hand.tar.gz").write_bytes(b"")
    for broken_off in (".nightly-2026-01-02T030000.tar.gz.a1b2c3d4", ".before-update-0.0.9.tar.gz.a1b2c3d4"):
        (folder / broken_off).write_bytes(b"half")
        os.utime(folder / broken_off, (4, 4))
    for other in (".nanobot-now.tar.gz.a1b2c3d4", ".mine.tar.gz.old"):
        (folder / other).write_bytes(b"one that is being written, and the person's own")
    os.utime(folder / ".mine.tar.gz.old", (4, 4))
    nightly = NightlyBackups(folder, Paths.resolve(at.env), at.env, UTC, told.append)
    await nightly.make()
    kept = sorted(one.name for one in folder.iterdir())
    shutil.rmtree(folder)
    folder.write_text("in the way", encoding="utf-8")
    await nightly.make()
    assert len(kept) == 5
    assert kept[:2] == [".mine.tar.gz.old", ".nanobot-now.tar.gz.a1b2c3d4"]
    assert kept[2:4] == ["nanobot-by-hand.tar.gz", "nightly-2026-01-03T030000.tar.gz"]
    assert told[0] == ""
    assert str(folder) in told[1]


async def test_a_nightly_backup_holds_the_workspace_that_the_command_line_of_the_gateway_named(tmp_path: Path) -> None:
    at = program(tmp_path)
    (tmp_path / "desk").mkdir()
    (tmp_path / "desk" / "plan.md").write_text("by boat", encoding="utf-8")
    paths, told = Paths.resolve(at.env, None, tmp_path / "desk"), list[str]()
    await NightlyBackups(at.home / "backups", paths, at.env, UTC, told.append).make()
    made = next((at.home / "backups").iterdir())
    with tarfile.open(made) as archive:
        assert "workspace/plan.md" in archive.getnames()
    assert told == [""]


async def test_a_night_in_which_the_database_cannot_be_copied_takes_no_older_backup_away(tmp_path: Path) -> None:
    at = program(tmp_path, backup={"keep": 1})
    (at.home / "backups").mkdir()
    (at.home / "backups" / "nightly-whole.tar.gz").write_bytes(b"")
    (at.home / "nanobot.db").write_bytes(b"SQLite format 3\0" + b"damaged" * 1_000)
    told = list[str]()
    await NightlyBackups(at.home / "backups", Paths.resolve(at.env), at.env, UTC, told.append).make()
    by_hand = await at.run("backup", str(tmp_path / "by-hand.tar.gz"))
    assert [one.name for one in (at.home / "backups").iterdir()] == ["nightly-whole.tar.gz"]
    assert "No backup could be written" in told[0]
    assert (by_hand.code, "not in it, for it cannot be read" in by_hand.err) == (3, True)


def test_a_nightly_backup_is_due_at_night_or_where_the_last_one_is_old(tmp_path: Path) -> None:
    nightly = NightlyBackups(tmp_path, Paths.resolve({"NANOBOT_HOME": str(tmp_path)}), {}, UTC, print)
    night, noon = datetime(2026, 3, 2, 3, 10, tzinfo=UTC), datetime(2026, 3, 2, 12, tzinfo=UTC)
    assert nightly.due(noon)  # there is none
    made = tmp_path / "nightly-x.tar.gz"
    made.write_bytes(b"")

    def aged(at: datetime, hours: float) -> bool:
        os.utime(made, ((at - timedelta(hours=hours)).timestamp(),) * 2)
        return nightly.due(at)

    assert [aged(night, 24), aged(night, 2), aged(noon, 24), aged(noon, 27)] == [True, False, False, True]
    assert aged(noon, -9_000)  # made while the clock was ahead by a year


#: Makes a backup of a night, and prints what the owner is told of it.
_NIGHT = """
import asyncio, os; from datetime import UTC; from pathlib import Path
from nanobot.config.paths import Paths; from nanobot.upkeep.nightly import NightlyBackups
told, folder = [], Path(os.environ["NANOBOT_HOME"], "backups")
one = NightlyBackups(folder, Paths.resolve(os.environ), os.environ, UTC, told.append)
asyncio.run(one.make()); print(*told, sep="|")
"""


def test_files_that_cannot_be_read_are_told_and_all_else_is_kept(tmp_path: Path) -> None:
    at = program(tmp_path)
    shut = []
    for name in ("one.txt", "two.txt", "kept.txt"):
        (at.home / "workspace").mkdir(exist_ok=True)
        (at.home / "workspace" / name).write_text(name, encoding="utf-8")
        shut.append(at.home / "workspace" / name)
    bare = ["setpriv", "--bounding-set=-dac_override,-dac_read_search"] if os.getuid() == 0 else []
    if bare and shutil.which(bare[0]) is None:
        pytest.skip("every file can be read here: setpriv is missing")

    def run(*command: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([*bare, *command], env=at.env, capture_output=True, text=True, timeout=120, check=False)

    shut[0].chmod(0)
    night = run(sys.executable, "-c", _NIGHT)
    with tarfile.open(next((at.home / "backups").glob("nightly-*"))) as archive:
        held = {name for name in archive.getnames() if name.endswith(".txt")}
    shut[1].chmod(0)
    by_hand = run(*at.command("backup", str(tmp_path / "hand.tar.gz")))
    for one in shut:
        one.chmod(0o600)
    whole = run(*at.command("backup", str(tmp_path / "whole.tar.gz")))
    assert night.stdout == f"nanobot: not in it, for it cannot be read: {shut[0]}: Permission denied\n", night.stderr
    assert held == {"home/workspace/two.txt", "home/workspace/kept.txt"}
    assert (by_hand.returncode, by_hand.stderr.count("for it cannot be read")) == (3, 2)
    assert whole.returncode == 0, whole.stderr


def test_a_night_fails_where_a_database_of_ours_cannot_be_read(tmp_path: Path) -> None:
    at = program(tmp_path)
    database = at.home / "nanobot.db"
    database.write_bytes(b"SQLite format 3\0")
    database.chmod(0)
    bare = ["setpriv", "--bounding-set=-dac_override,-dac_read_search"] if os.getuid() == 0 else []
    if bare and shutil.which(bare[0]) is None:
        pytest.skip("every file can be read here: setpriv is missing")
    command = [*bare, sys.executable, "-c", _NIGHT]
    ran = subprocess.run(command, env=at.env, capture_output=True, text=True, timeout=120, check=False)
    assert "No backup could be written" in ran.stdout
    assert not list((at.home / "backups").glob("nightly-*"))
