"""`nanobot library` as a process, and a program that stays keeps its index up to date."""

import asyncio
from contextlib import closing
from pathlib import Path

from nanobot.library.index import LibraryIndex
from nanobot.library.talk import Conversations
from nanobot.library.upkeep import LibraryUpkeep
from nanobot.session.sqlite import MemoryDatabase
from nanobot.session.store import SessionStore
from tests.cli.harness import program


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
    assert (again.code, "belongs to the library already" in again.err) == (2, True)
    listed = await nanobot.run("library")
    assert listed.out == "~/Documents: 2 documents, 1 with a problem\n"
    assert "passages; the index takes" in (await nanobot.run("library", "status")).out
    missing = await nanobot.run("library", "add", str(tmp_path / "nowhere"))
    assert (missing.code, "There is no folder" in missing.err) == (2, True)
    assert (await nanobot.run("library", "remove", "~/Documents")).code == 0
    with closing(LibraryIndex(nanobot.home / "index.db")) as index:
        assert index.documents("document") == ()
    assert "no folder" in (await nanobot.run("library", "list")).out
    assert "// mine" in config.read_text("utf-8")


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
