"""Conversations reach the index alike from every database, a piece at a time, by several processes at once."""

import asyncio
import sys
from pathlib import Path

from nanobot.library.index import LibraryIndex
from nanobot.library.parts import Document, DocumentPart
from nanobot.library.talk import Conversations
from nanobot.messages import AssistantMessage, Message, Text, UserMessage
from nanobot.session.ledger import Ledger
from tests.contract.conftest import HandClock


def said(text: str, answer: str = "Noted.") -> tuple[Message, ...]:
    return UserMessage((Text(text),)), AssistantMessage((Text(answer),))


async def test_what_is_new_is_taken_in_once_by_two_processes(ledger: Ledger, clock: HandClock, tmp_path: Path) -> None:
    first, second = LibraryIndex(tmp_path / "index.db"), LibraryIndex(tmp_path / "index.db")
    both = Conversations(ledger.sessions, first), Conversations(ledger.sessions, second)
    session = await ledger.sessions.start("terminal:local")
    for number in range(150):  # more than one batch
        await ledger.sessions.append(session.id, said(f"The number {number} is a canary."))
    assert await both[0].catch_up(60)
    assert first.count("talk") == 300
    clock.forward(minutes=30)
    await ledger.sessions.append(session.id, said("The walrus came later."))
    assert await asyncio.gather(*(one.catch_up(60) for one in both)) == [True, True]
    assert [one.part.text for one in second.search("walrus", [("talk", "")])] == ["The walrus came later."]
    assert second.count("talk") == 302
    first.close()
    second.close()


async def test_a_compaction_and_a_reset_hide_nothing_from_the_index(ledger: Ledger, tmp_path: Path) -> None:
    index = LibraryIndex(tmp_path / "index.db")
    session = await ledger.sessions.start("terminal:local")
    await ledger.sessions.append(session.id, said("The heron lives by the lake."))
    summary = (UserMessage((Text("They spoke of birds."),)),)
    await ledger.database.run(lambda db: ledger.sessions.add(db, session.id, "compaction", summary, ""))
    assert await Conversations(ledger.sessions, index).catch_up(60)
    assert [one.part.text for one in index.search("heron", [("talk", "")])] == ["The heron lives by the lake."]
    assert index.search("spoke of birds", [("talk", "")]) == ()
    index.close()


async def test_what_a_helper_was_asked_is_nobodys_words_and_deleted_talks_go(ledger: Ledger, tmp_path: Path) -> None:
    index = LibraryIndex(tmp_path / "index.db")
    talk = Conversations(ledger.sessions, index)
    helper, own = [await ledger.sessions.start(key) for key in ("helper:7", "terminal:local")]
    await ledger.sessions.append(helper.id, said("Find the canary of the helper."))
    await ledger.sessions.append(own.id, said("My own canary sings."))
    index.follow("x", "", "1", [(Document("talk", "", "gone"), [DocumentPart("The canary that is gone.")])])
    assert await talk.catch_up(60)
    await talk.forget_deleted()
    assert [one.part.text for one in index.search("canary", [("talk", "")])] == ["My own canary sings."]
    index.close()


_WRITER = """
import sys
from pathlib import Path
from nanobot.library.index import LibraryIndex
from nanobot.library.parts import Document, DocumentPart
index = LibraryIndex(Path(sys.argv[1]))
for number in range(40):
    name = f"{sys.argv[2]}-{number}"
    index.put(Document("document", "", name), [DocumentPart(f"The word of {name} is zebra{number}.")])
index.close()
"""


async def test_many_processes_write_one_index_and_what_is_dropped_is_gone(tmp_path: Path) -> None:
    place = tmp_path / "index.db"
    command = (sys.executable, "-c", _WRITER, str(place))
    writers = [await asyncio.create_subprocess_exec(*command, str(number)) for number in range(3)]
    async with asyncio.timeout(100):
        assert [await one.wait() for one in writers] == [0, 0, 0]
    index = LibraryIndex(place)
    assert len(index.documents("document")) == 120
    assert len(index.search("zebra7", [("document", "")], limit=9)) == 3
    index.drop([Document("document", "", f"1-{number}") for number in range(40)])
    assert len(index.documents("document")) == 80
    assert {one.document.name for one in index.search("zebra7", [("document", "")], limit=9)} == {"0-7", "2-7"}
    index.put(Document("document", "", "0-7"), [DocumentPart("Something else.")])
    assert {one.document.name for one in index.search("zebra7", [("document", "")], limit=9)} == {"2-7"}
    assert index.search("zebra7", [("document", "telegram:2"), ("talk", "")]) == ()
    assert index.search("zebra7", []) == ()
    index.close()
