"""The owner's documents: read, found, cited, and forgotten with their files."""

import asyncio
import os
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from nanobot.bus.events import Address, Sender
from nanobot.library.folders import LibraryFolders
from nanobot.library.index import LibraryIndex
from nanobot.library.parts import Document, DocumentPart, FoundPart
from nanobot.library.walk import DocumentFolder, SlowDisk, in_time
from nanobot.providers.scripted import Call
from tests.agent.tools.library import speaking
from tests.fakes.files import pdf_file
from tests.fakes.llm_server import Reply
from tests.fakes.office_files import archive

MAIL = """From: Bob Reed <bob@example.org>
To: ann@example.org
Subject: The dentist
Date: Fri, 2 Jan 2026 10:00:00 +0000
MIME-Version: 1.0
Content-Type: multipart/mixed; boundary=b

--b
Content-Type: text/plain; charset=utf-8

The dentist moved our date to Friday 14:30.

--b
Content-Type: application/pdf
Content-Disposition: attachment; filename="invoice-77.pdf"
Content-Transfer-Encoding: base64

JVBERi0=

--b--
"""


def book(**more: str) -> bytes:
    """An e-book of one chapter; `more` are further files in it."""
    return archive(
        {
            "mimetype": "application/epub+zip",
            "META-INF/container.xml": '<container xmlns="urn:oasis:names:tc:opendocument:xmlns:container"><rootfiles>'
            '<rootfile full-path="b.opf"/></rootfiles></container>',
            "b.opf": '<package xmlns="http://www.idpf.org/2007/opf"><metadata><title>Rivers</title></metadata><manifest>'
            '<item id="c" href="c.xhtml"/></manifest><spine><itemref idref="c"/></spine></package>',
            "c.xhtml": "<html><body><h1>Sources</h1><p>The Kolva springs below Mount Teger.</p></body></html>",
            **more,
        }
    )


class Shelf:
    """A folder of documents and its index."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "Documents"
        self.folder.mkdir()
        (folder / "outside").mkdir()
        self.index = LibraryIndex(folder / "index.db")
        self._library = LibraryFolders(self.index, (DocumentFolder(self.folder),), (), folder, lambda _: frozenset())
        self.seen: list[str] = []

    async def read(self) -> int:
        """How many documents were read."""
        self.seen.clear()
        return (await self._library.read(lambda _done, _total, name: self.seen.append(name))).count

    def find(self, query: str) -> FoundPart | None:
        found = self.index.search(query, [("document", "")], limit=1)
        return found[0] if found else None

    def write(self, name: str, data: str | bytes) -> Path:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data.encode() if isinstance(data, str) else data)
        return path


@contextmanager
def shelf(folder: Path) -> Iterator[Shelf]:
    made = Shelf(folder)
    try:
        yield made
    finally:
        made.index.close()


async def test_documents_of_every_kind_are_found_with_their_page_or_heading(tmp_path: Path) -> None:
    with shelf(tmp_path) as books:
        books.write("lease.pdf", pdf_file(["Lease of a flat.", "The deposit is three rents."], "Lease"))
        books.write("garden.md", "# Garden\n\n## Roses\n\nPrune them in March.\n\n## Beans\n\nSow them in May.\n")
        books.write("rivers.epub", book())
        books.write("post/a.eml", MAIL)
        books.write(
            "box.mbox",
            "".join(
                f"From x\n{MAIL.replace('14:30', f'{hour}:15').replace('invoice-77', 'bill')}\n" for hour in (8, 9)
            ),
        )
        books.write(
            "saved.html",
            "<html><title>Tides</title><body><h1>Tides</h1><p>The moon pulls the sea twice a day.</p></body></html>",
        )
        books.write("count.py", "x = 1\n" * 700 + "def zanzibar() -> None: ...\n")
        assert await books.read() == 7
        wanted = {
            "how high is the deposit": ("lease.pdf", "Page 2", True),
            "when do I sow beans": ("garden.md", "Garden › Beans", False),
            "where does the Kolva spring": ("rivers.epub", "Sources", True),
            "dentist 14:30": ("a.eml", "The dentist", True),
            "invoice-77": ("a.eml", "The dentist", True),
            "dentist at 9:15": ("box.mbox", "The dentist", True),
            "moon and sea": ("saved.html", "", True),
        }
        found = {query: books.find(query) for query in wanted}
        assert {
            query: (Path(one.document.name).name, one.part.place, one.part.outside)
            for query, one in found.items()
            if one is not None
        } == wanted
        code = books.find("zanzibar")
        assert code is not None
        line = int(code.part.place.removeprefix("line "))
        assert code.part.text.splitlines()[701 - line] == "def zanzibar() -> None: ..."


def test_what_is_asked_about_the_name_of_a_document_is_found_in_it_and_not_where_the_name_is_only_mentioned() -> None:
    """All that the other documents say is nearer to the question, but for what it is about."""
    with closing(LibraryIndex(None)) as index:
        for number in range(24):
            name, other = (
                ("Harrow", "Linden") if number > 19 else (f"Kestrel{number}", "Harrow" if number < 2 else "Linden")
            )
            said = "A fee of 40 crowns is due within the month." if number < 2 else "Nothing was said of money."
            said = "Members pay a fee of 70 crowns." if number == 20 else said
            text = f"{said} Bread is baked on Fridays. The hall is cold in winter. Nobody has a key. See also {other}."
            index.put(Document("document", "", f"/d/{number}.md", name), [DocumentPart(text, name)])
        found = index.search("which fee is due at Harrow", [("document", "")])
        assert found[0].document.name == "/d/20.md"


async def test_only_what_has_changed_is_read_again_and_what_is_gone_is_forgotten(tmp_path: Path) -> None:
    with shelf(tmp_path) as books:
        first, second = books.write("a.md", "The heron eats frogs."), books.write("b.md", "The stork eats snails.")
        assert (await books.read(), await books.read()) == (2, 0)
        first.write_text("The heron eats fish now.")
        os.utime(first, ns=(1, 1))
        assert await books.read() == 1
        assert books.find("frogs") is None
        assert books.find("heron fish") is not None
        second.unlink()
        assert await books.read() == 0
        assert books.find("stork") is None
        assert [Path(one.name).name for one in books.index.documents("document", "")] == ["a.md"]
        books.folder.rename(tmp_path / "unplugged")
        assert await books.read() == 0
        assert books.find("heron fish") is not None


async def test_a_reading_that_was_broken_off_goes_on_where_it_ended(tmp_path: Path) -> None:
    with shelf(tmp_path) as books:
        for number in range(20):
            books.write(f"{number:02}.md", f"Note {number}.")
        reading = asyncio.create_task(books.read())
        while len(books.seen) < 5:
            await asyncio.sleep(0)
        reading.cancel()
        await asyncio.wait({reading})
        before = len(books.index.documents("document", ""))
        assert 0 < before < 20
        assert await books.read() == 20 - before


async def test_what_lies_in_the_folders_of_other_people_is_content_from_outside(tmp_path: Path) -> None:
    with shelf(tmp_path) as one:
        one.write("people/telegram-2/plan.md", "# Plan\n\nThe Kolva springs below Mount Teger.")
        library = LibraryFolders(
            one.index, (DocumentFolder(one.folder),), (), tmp_path, lambda _: frozenset(), others=one.folder / "people"
        )
        await library.read(lambda *_: None)
        found = one.find("Where does the Kolva spring?")
        assert found is not None
        assert found.part.outside


async def test_a_document_made_to_be_slow_ends_nothing_and_what_lies_beside_it_is_found(tmp_path: Path) -> None:
    with shelf(tmp_path) as one:
        one.write("slow.md", f"#{' ' * 20_000}{'x' * 300}\n\n{'*a' * 20_000}\n\n{' ' * 50_000}x\n")
        one.write("plain.md", "# Rivers ##\n\nThe Kolva springs below Mount Teger.\n")
        assert await one.read() == 2
        found = one.find("Where does the Kolva spring?")
        assert found is not None
        assert found.document.title == "Rivers"


def sparse(path: Path, size: int) -> None:
    with path.open("wb") as file:
        file.truncate(size)


async def test_broken_strange_and_huge_files_end_no_reading_and_each_of_them_is_listed(tmp_path: Path) -> None:
    with shelf(tmp_path) as books:
        deep = books.folder
        for _ in range(80):
            deep = deep / "d"
        deep.mkdir(parents=True)
        (deep / "deep.txt").write_text("too deep")
        (books.folder / "loop").symlink_to(books.folder)
        os.mkfifo(books.folder / "pipe.txt")
        sparse(books.folder / "huge.txt", 4_000_000_000)
        sparse(books.folder / "huge.pdf", 4_000_000_000)
        sparse(books.folder / "mail.mbox", 500_000_000)
        books.write("broken.pdf", b"%PDF-1.4 nothing")
        books.write("broken.docx", b"PK\x03\x04 nothing")
        books.write("scan.pdf", pdf_file([""]))
        books.write("old.doc", b"\xd0\xcf\x11\xe0")
        books.write("empty.txt", "")
        books.write("locked.docx", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + b"EncryptedPackage" * 400)
        locked = (
            '<encryption xmlns:enc="http://www.w3.org/2001/04/xmlenc#"><enc:EncryptedData><enc:CipherData>'
            '<enc:CipherReference URI="c.xhtml"/></enc:CipherData></enc:EncryptedData></encryption>'
        )
        books.write("bought.epub", book(**{"META-INF/encryption.xml": locked}))
        books.write("good.txt", "The good one.")
        books.write(os.fsdecode(b"caf\xe9.txt"), "Its name is no UTF-8, so nobody could ask for it.")
        assert await books.read() == 11
        problems = {Path(one.name).name: one.problem for one in books.index.documents("document", "")}
        assert problems.pop("good.txt") == ""
        assert all(problems.values()), problems
        assert "not text" in problems["huge.txt"]
        assert "more than 50 MB" in problems["huge.pdf"]
        assert "more than 300 MB" in problems["mail.mbox"]
        assert "damaged or locked" in problems["locked.docx"]
        assert "DRM" in problems["bought.epub"]
        assert books.find("Kolva springs") is None
        assert await books.read() == 0, "none of them is tried again before it changes"


def test_a_disk_that_does_not_answer_is_left_after_a_while_and_a_full_one_takes_nothing_in(tmp_path: Path) -> None:
    hanging = threading.Event()
    with pytest.raises(SlowDisk):
        in_time(0.05, hanging.wait)
    hanging.set()
    assert in_time(10, lambda: "answered") == "answered"
    with pytest.raises(FileNotFoundError):
        in_time(10, (tmp_path / "none").stat)
    with closing(LibraryIndex(tmp_path / "index.db")) as index:
        assert index.is_full(1, 10**12) == ""
        assert "are free on the disk" in index.is_full(10**18, 10**12)
        assert "takes more than" in index.is_full(1, 1)


def test_an_index_that_was_damaged_holds_no_file_open_after_its_end(tmp_path: Path) -> None:
    opened = len([*Path("/dev/fd").iterdir()])
    (tmp_path / "index.db").write_bytes(b"no database " * 1_000)
    index = LibraryIndex(tmp_path / "index.db")
    index.close()
    assert len([*Path("/dev/fd").iterdir()]) <= opened


@pytest.mark.parametrize(
    ("name", "outside", "tainted"),
    [("notes", None, False), ("notes", True, True), ("Downloads", None, True), ("Downloads", False, False)],
)
async def test_what_lies_in_a_folder_from_outside_taints_and_so_do_downloads_unless_their_owner_says_otherwise(
    tmp_path: Path, name: str, outside: bool | None, tainted: bool
) -> None:
    folder = tmp_path / name
    (folder / "downloads").mkdir(parents=True)
    (folder / "a.md").write_text("The walrus sings.")
    (folder / "downloads/b.md").write_text("The heron sings.")
    with closing(LibraryIndex(None)) as index:
        for marked in (outside, not tainted):  # the second time another word for the folder, which counts at once
            places = (DocumentFolder(folder, marked),)
            await LibraryFolders(index, places, (), tmp_path, lambda _: frozenset()).read(lambda *_: None)
            walrus, heron = (index.search(one, [("document", "")])[0].part.outside for one in ("walrus", "heron"))
            wanted = tainted if marked is outside else bool(marked)
            assert walrus is wanted
            assert heron is (True if marked is None else wanted)


async def test_nothing_hidden_linked_or_kept_by_tools_is_read(tmp_path: Path) -> None:
    with shelf(tmp_path) as books:
        secret = tmp_path / "outside" / "secret.md"
        secret.write_text("The canary sings.")
        (books.folder / "link.md").symlink_to(secret)
        (books.folder / "linked").symlink_to(secret.parent)
        for name in (".hidden.md", ".git/x.md", "node_modules/x.md", ".ssh/id.txt", "deep/.cache/x.md", "secrets.json"):
            books.write(name, "The canary sings.")
        books.write("plain.md", "Nothing here.")
        assert await books.read() == 1
        assert books.find("canary") is None


async def test_an_answer_from_the_library_cites_the_file_and_only_the_owner_alone_gets_one(tmp_path: Path) -> None:
    folder = tmp_path / "Documents"
    folder.mkdir()
    async with speaking(tmp_path, {"library": {"folders": [str(folder)]}}) as room:
        with shelf(tmp_path / "Documents") as books:
            books.index.close()
            books.index = LibraryIndex(room.home / "index.db")
            library = LibraryFolders(books.index, (DocumentFolder(folder),), (), tmp_path, lambda _: frozenset())
            books.write("lease.md", "# Lease\n\n## Deposit\n\nThe deposit is 1,850 euros.\n")
            await library.read(lambda *_: None)
        call = Reply(Call("library", {"query": "how high is the deposit"}))
        await room.say("How high is my deposit?", call, "The deposit is 1,850 euros [1].")
        assert "[1] Lease (lease.md), Deposit" in room.result
        assert "outside id" not in room.result
        finished = await room.say("Again?", call, "The deposit is 1,850 euros [1].")
        assert [(one.number, one.missing) for one in finished.citations] == [(1, "")]
        wrong = await room.say("Again?", call, "The deposit is 9,999 euros [1].")
        assert "9,999" in wrong.citations[0].claim
        assert wrong.citations[0].missing
        for one in room.home.glob("index.db*"):
            one.unlink()
        assert "`nanobot library read`" in await room.find("library", "deposit")
        bo, group = Sender("2", "Bo", "user"), Address("telegram", "-100")
        await room.say("Deposit?", call, at=Address("telegram", "2"), by=bo)
        assert "1,850" not in room.told
        await room.say("Deposit?", call, at=group, by=Sender("1", "Ann", "owner"), direct=False)
        assert "1,850" not in room.told


@pytest.mark.parametrize("tools", [{"web": {"enable": False}}, {}])
async def test_lookup_answers_from_the_library_first_and_says_which_document_it_quotes(
    tmp_path: Path, tools: dict[str, object]
) -> None:
    folder = tmp_path / "Documents"
    folder.mkdir()
    (folder / "lease.md").write_text("# Lease\n\n## Deposit\n\nThe deposit of the flat is 1,850 euros.\n")
    given = {"library": {"folders": [str(folder)]}, "tools": tools, "agents": {}, "providers": {}}
    async with speaking(tmp_path, given) as room:
        with closing(LibraryIndex(room.home / "index.db")) as index:
            await LibraryFolders(index, (DocumentFolder(folder),), (), tmp_path, lambda _: frozenset()).read(
                lambda *_: None
            )
        finished = await room.say("How high is the deposit of the flat?")
        assert "Your documents say:" in finished.text
        assert "> The deposit of the flat is 1,850 euros. [1]" in finished.text
        assert [one.url for one in finished.sources] == [f"file:{folder}/lease.md#Deposit"]
        assert "**Lease (lease.md), Deposit**" in finished.text
        assert room.model.requests == []
