"""`nanobot library` as a process, and a program that stays keeps its index up to date."""

import asyncio
from contextlib import closing
from pathlib import Path

import pytest

from nanobot.library.index import LibraryIndex
from nanobot.library.talk import Conversations
from nanobot.library.upkeep import LibraryUpkeep
from nanobot.session.sqlite import MemoryDatabase
from nanobot.session.store import SessionStore
from tests.cli.harness import Program, finish, program
from tests.fakes import forks


async def test_a_folder_is_added_read_listed_and_removed_and_comments_stay(tmp_path: Path) -> None:
    nanobot = program(tmp_path, None)
    config = nanobot.home / "config.json"
    config.write_text('{\n  // mine\n  "library": {"minutes": 30} // often\n}\n', encoding="utf-8")
    folder = tmp_path / "Documents"
    folder.mkdir()
    (folder / "good.md").write_text("# Herons\n\nThey eat fish.\n")
    (folder / "broken.pdf").write_bytes(b"%PDF-1.4 nothing")
    added = await nanobot.run("library", "add", str(folder))
    assert (added.code, "Read 2 documents" in added.out, "broken.pdf: The file is damaged" in added.out) == (
        0,
        True,
        True,
    )
    assert "// mine" in config.read_text("utf-8")
    assert "// often" in config.read_text("utf-8")
    again = await nanobot.run("library", "add", str(folder))
    assert (again.code, "belongs to the library already" in again.out) == (0, True)
    listed = await nanobot.run("library")
    assert listed.out == "~/Documents: 2 documents, 1 with a problem\n"
    (folder / "new.md").write_text("New.")
    status = (await nanobot.run("library", "status")).out
    assert ". The index takes" in status
    assert "Not read yet: 1 document." in status
    downloads = tmp_path / "Downloads"
    downloads.mkdir()
    (downloads / "a.md").write_text("Sent by others.")
    told = await nanobot.run("library", "add", str(downloads))
    assert "counts as content from outside" in told.out
    assert "~/Downloads: 1 document; from outside\n" in (await nanobot.run("library")).out
    assert (await nanobot.run("library", "remove", str(downloads))).code == 0
    written = config.read_text("utf-8").replace('"~/Documents"', '{"path": "~/Documents", "outside": true}')
    config.write_text(written, "utf-8")
    assert "~/Documents: 3 documents, 1 with a problem; from outside\n" in (await nanobot.run("library")).out
    missing = await nanobot.run("library", "add", str(tmp_path / "nowhere"))
    assert (missing.code, "There is no folder" in missing.err) == (2, True)
    unset = await nanobot.run("library", "add", "")
    assert (unset.code, "it is empty" in unset.err) == (2, True), unset.err
    assert (await nanobot.run("library", "remove", "~/Documents")).code == 0
    with closing(LibraryIndex(nanobot.home / "index.db")) as index:
        assert index.documents("document") == ()
    assert "no folder" in (await nanobot.run("library", "list")).out
    assert "// mine" in config.read_text("utf-8")


async def run_without_room(nanobot: Program, size: int, *words: str) -> tuple[int, str]:
    """Run it where no file grows beyond `size` bytes, as on a full disk; its exit code and what it complains of."""
    env = {**nanobot.env, "PYTHONDONTWRITEBYTECODE": "1"}  # Python would keep half of a compiled module for good
    done = await finish(await forks.start(words, env, room=size))
    return done.code, done.err


async def test_a_folder_that_is_a_link_to_itself_is_not_there_and_all_else_goes_on(tmp_path: Path) -> None:
    nanobot = program(tmp_path, library={"folders": ["~/round"]})
    (tmp_path / "round").symlink_to("round")
    listed = await nanobot.run("library")
    assert (listed.code, "the folder is not there" in listed.out) == (0, True), listed.err
    examined = await nanobot.run("doctor", "--quick", "--json")
    assert "Library" in examined.out, examined.err
    added = await nanobot.run("library", "add", "~/round")
    assert (added.code, "There is no folder" in added.err) == (2, True), added.err


@pytest.mark.parametrize("size", [0, 40_000])
async def test_a_reading_that_a_full_disk_ends_says_so_and_the_same_words_go_on(tmp_path: Path, size: int) -> None:
    nanobot = program(tmp_path, None, library={"folders": ["~/Documents"]})
    folder = tmp_path / "Documents"
    folder.mkdir()
    for number in range(40):
        (folder / f"{number}.md").write_text(f"The heron {number} eats fish.\n\n" * 50)
    assert (await nanobot.run("library", "list")).code == 0  # what a start makes in the home is there
    code, told = await run_without_room(nanobot, size, "library", "read")
    assert (code, "look for room and rights there. `nanobot library read` goes on." in told) == (1, True), told
    again = await nanobot.run("library", "add", str(folder))
    assert (again.code, "What is new is read." in again.out) == (0, True)
    assert (await nanobot.run("library")).out == "~/Documents: 40 documents\n"


async def test_a_skill_that_a_full_disk_keeps_from_being_begun_is_begun_by_the_same_words_later(tmp_path: Path) -> None:
    nanobot = program(tmp_path, None)
    assert (await nanobot.run("skill", "list")).code == 0
    new = ("skill", "new", "count-files", "Counts the files.")
    code, told = await run_without_room(nanobot, 9, *new)
    assert (code, "cannot be written" in told) == (2, True), told
    assert [(await nanobot.run(*new)).code for _ in range(2)] == [0, 2]


async def test_a_program_that_stays_has_changed_documents_read_by_another(tmp_path: Path) -> None:
    nanobot = program(tmp_path, None, library={"folders": ["~/Documents"]})
    folder = tmp_path / "Documents"
    folder.mkdir()
    (folder / "a.md").write_text("The heron eats fish.")
    store = SessionStore(MemoryDatabase())
    with closing(LibraryIndex(nanobot.home / "index.db")) as index:
        config = ("--config", str(nanobot.home / "config.json"))
        upkeep = LibraryUpkeep(Conversations(store, index), 0.0001, config, nanobot.env)
        keeping = asyncio.create_task(upkeep.run(first=0))
        async with asyncio.timeout(100):
            while not index.search("heron", [("document", "")]):
                await asyncio.sleep(0)
            (folder / "a.md").unlink()
            while index.search("heron", [("document", "")]):
                await asyncio.sleep(0)
        keeping.cancel()
        await asyncio.wait({keeping})
    await store.aclose()


async def test_compiled_files_that_a_full_disk_has_cut_off_end_no_start_and_are_made_again(tmp_path: Path) -> None:
    nanobot = program(tmp_path, None)
    compiled = tmp_path / "compiled"
    env = {"PYTHONPYCACHEPREFIX": str(compiled), "PYTHONDONTWRITEBYTECODE": ""}
    assert (await nanobot.run("library", env=env)).code == 0
    made = [one for one in compiled.rglob("*.pyc") if "/nanobot/" in str(one) or "/msgspec/" in str(one)]
    cut = [one for one in made if one.name.partition(".")[0] not in ("__init__", "__main__")]
    assert len(cut) > 20
    for one in cut:
        one.write_bytes(one.read_bytes()[:40])
    again = await nanobot.run("library", env=env)
    assert (again.code, again.err, "has no folder" in again.out) == (0, "", True)
    assert (await nanobot.run("library", env=env)).code == 0
    left = [one for one in cut if one.exists() and one.stat().st_size == 40]
    assert len(left) < len(cut) // 4, "what a first start alone imports may be left"


@pytest.mark.parametrize("size", [0, 40_000])
async def test_on_a_full_disk_each_daily_command_says_what_is_wrong_in_a_sentence(tmp_path: Path, size: int) -> None:
    nanobot = program(tmp_path, None, library={"folders": ["~/Documents"]})
    (tmp_path / "Documents").mkdir()
    assert (await nanobot.run("skill", "list")).code == 0
    commands = (
        "schedule | schedule tomorrow at 8 call Anna | watch | watch https://example.org/ | "
        "library list | library status | library read | skill list | skill new weekly-report | "
        "usage | sessions search heron"
    ).split(" | ")
    for words in commands:
        code, told = await run_without_room(nanobot, size, *words.split())
        assert "something inside broke" not in told, words
        assert "Traceback" not in told, words
        assert code in (0, 1, 2), words
        assert bool(told) == bool(code), words
    for words in commands[:6]:
        assert (await nanobot.run(*words.split())).code == 0, words
