"""What is found again, how fast, and how much room the index takes.

    python -m benchmarks.recall [--held] [--wrong] [--tokens]

Five measures, each against its bar: facts that were said before five compactions and are asked for in other words; the
first hit for 100 questions over 2,000 documents in four languages, the mean of four draws; the time of a search in
10,000 messages; the time in which lines of memory are put beside a question; and what taking text in costs, in pages
(of 3,000 characters) a second of one core, and in bytes of the index per byte of text. The documents are made from
`data/recall_corpus.json`: names that resemble each other, the same topics for each, sentences that name them and tell
nothing. A question shares a word with the sentence that answers it, besides the name: what is said in other words alone
is not found by words. `--held` takes the topics that nobody looked at while the index was made. `--tokens` compares the
words of `utils.ranking` with FTS5's own tokenizers on the same documents.
"""

import argparse
import asyncio
import json
import random
import sqlite3
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeAlias

from nanobot.library.index import LibraryIndex
from nanobot.library.memory import MemoryFiles
from nanobot.library.parts import Document, DocumentPart
from nanobot.library.sections import sections
from nanobot.library.talk import Conversations
from nanobot.messages import AssistantMessage, Message, Text, UserMessage
from nanobot.session.database import Transaction
from nanobot.session.sqlite import SqliteDatabase
from nanobot.session.store import SessionStore

DATA = Path(__file__).parent / "data" / "recall_corpus.json"
PER_LANGUAGE, QUESTIONS, PAGE = 500, 25, 3_000
DRAWS = (1, 2, 3, 4)
Language: TypeAlias = dict[str, list[str]]


@dataclass(frozen=True)
class Note:
    """A document about one topic of one name, and how it is asked for."""

    name: str
    text: str
    question: str


class Corpus:
    """Documents made from the templates of one language."""

    def __init__(self, code: str, *, held: bool, chance: random.Random) -> None:
        known = json.loads(DATA.read_text(encoding="utf-8"))[code]
        self._words: Language = known
        self._topics: list[Language] = known["held" if held else "topics"]
        self._chance = chance
        self._code = code

    def notes(self) -> Iterator[Note]:
        names = [form.format(stem) for form in self._words["forms"] for stem in self._words["names"]]
        pairs = [(name, topic) for name in names for topic in self._topics]
        self._chance.shuffle(pairs)
        for number, (name, topic) in enumerate(pairs[:PER_LANGUAGE]):
            fact = self._filled(self._chance.choice(topic["said"]), name)
            lines = [self._filled(line, name) for line in self._chance.sample(self._words["fill"], 7)]
            lines.insert(self._chance.randrange(8), fact)
            title = self._filled(self._chance.choice(self._words["title"]), name)
            text = f"# {title}\n\n{' '.join(lines[:4])}\n\n{' '.join(lines[4:])}\n"
            asked = self._filled(self._chance.choice(topic["asked"]), name)
            yield Note(f"{self._code}-{number:03}", text, asked)

    def _filled(self, text: str, name: str) -> str:
        chance = self._chance
        day = (chance.randint(2024, 2029), chance.randint(1, 12), chance.randint(1, 28))
        date = "{}年{}月{}日".format(*day) if self._code in ("zh", "ja") else "{}-{:02}-{:02}".format(*day)
        values = {
            "n": name,
            "date": date,
            "num": str(chance.randint(10_000, 99_999)),
            "small": str(chance.randint(3, 59)),
        }
        people, streets = chance.choice(self._words["person"]), chance.choice(self._words["street"])
        return text.format(**values, person=people, street=streets, year=chance.randint(1890, 2015))


def corpus(*, held: bool, seed: int) -> dict[str, list[Note]]:
    chance = random.Random(seed)
    return {code: [*Corpus(code, held=held, chance=chance).notes()] for code in ("en", "de", "zh", "ja")}


def asked(notes: dict[str, list[Note]], seed: int) -> list[Note]:
    """The questions: as many of each language."""
    chance = random.Random(seed + 1)
    return [note for some in notes.values() for note in chance.sample(some, QUESTIONS)]


def first_hits(folder: Path, notes: dict[str, list[Note]], questions: Sequence[Note]) -> tuple[int, int, list[str]]:
    """Right first hits, right ones among the first three, and the questions whose first hit is wrong."""
    index = LibraryIndex(folder / "documents.db")
    for note in (note for some in notes.values() for note in some):
        parts = [DocumentPart(one.text, one.heading) for one in sections(note.text)]
        index.put(Document("document", "", f"/d/{note.name}.md"), parts)
    first = third = 0
    wrong = []
    for note in questions:
        found = [Path(one.document.name).stem for one in index.search(note.question, [("document", "")], limit=3)]
        first += found[:1] == [note.name]
        third += note.name in found
        wrong += [f"{note.question} -> {found[:1]}, wanted {note.name}"] if found[:1] != [note.name] else []
    index.close()
    return first, third, wrong


FACTS = (
    ("The spare key of the cellar hangs behind the fuse box.", "where is the spare key of the cellar"),
    ("My sister Anna is allergic to walnuts.", "what is Anna allergic to"),
    ("The Wi-Fi password of the cabin is blue-heron-77.", "Wi-Fi password for the cabin"),
    ("We decided to paint the fence green in April.", "which colour will the fence be painted"),
    ("The plumber is called Kowalski, his number is 0171 5550199.", "phone number of the plumber"),
    ("My blood group is 0 negative.", "which blood group do I have"),
    ("The tax adviser wants the receipts by 15 May.", "until when does the tax adviser need receipts"),
    ("Grandpa's clock was made in Besançon in 1892.", "where was the clock of grandpa made"),
    ("The bicycle frame number is WB4471902.", "frame number of my bicycle"),
    ("For the tent we borrowed 40 euros from Luis.", "how much money did we borrow from Luis"),
    ("Der Zahnarzttermin von Mia ist am 9. Juni um 14 Uhr.", "wann ist Mias Zahnarzttermin"),
    ("Die Heizung hat den Fehlercode E133 gezeigt.", "welchen Fehlercode zeigte die Heizung"),
    ("Unser Trauzeuge heißt Matthias Vogel.", "wie heißt unser Trauzeuge"),
    ("Der Kater bekommt morgens eine halbe Tablette.", "wie viel Tablette bekommt der Kater"),
    ("我的护照放在书房的红色抽屉里。", "护照放在哪里"),
    ("女儿的班主任是陈老师，教数学。", "女儿的班主任是谁"),
    ("车库的密码是四八一五。", "车库密码是多少"),
    ("予備の眼鏡は旅行鞄の内ポケットにあります。", "予備の眼鏡はどこ"),
    ("母の誕生日は三月二十一日です。", "母の誕生日はいつ"),
    ("新しい洗濯機は五年保証に入っています。", "洗濯機の保証は何年"),
)


async def facts_found(folder: Path) -> int:
    """How many of the facts stand among the eight hits that recall shows, after 2,000 messages and five compactions."""
    store = SessionStore(SqliteDatabase(folder / "nanobot.db"))
    index = LibraryIndex(folder / "facts.db")
    session = await store.start("terminal:local")
    lines = list(chatter(random.Random(7), 2_000))
    for number in range(5):
        said: list[Message] = []
        for at in range(0, 200, 50):
            fact = FACTS[number * 4 + at // 50][0]
            part = lines[number * 400 + 2 * at : number * 400 + 2 * at + 100]
            said += [turn for line in (fact, *part) for turn in (user(line), AssistantMessage((Text("Noted."),)))]
        await store.append(session.id, tuple(said))
        await store.database.run(partial(_summed_up, store, session.id))
    await Conversations(store, index).catch_up(600)
    found = 0
    for fact, question in FACTS:
        found += any(one.part.text == fact for one in index.search(question, [("talk", "")], limit=8))
    index.close()
    await store.aclose()
    return found


async def _summed_up(store: SessionStore, session: str, db: Transaction) -> None:
    await store.add(db, session, "compaction", (user("What was said so far: small talk."),), "")


def user(text: str) -> UserMessage:
    return UserMessage((Text(text),))


def chatter(chance: random.Random, count: int) -> Iterator[str]:
    """Lines of conversations in four languages."""
    known = json.loads(DATA.read_text(encoding="utf-8"))
    for _ in range(count):
        words = known[chance.choice([*known])]
        name = chance.choice(words["forms"]).format(chance.choice(words["names"]))
        lines = [*chance.sample(words["fill"], 2), chance.choice(chance.choice(words["topics"])["said"])]
        values = {"n": name, "date": f"{chance.randint(2024, 2029)}-05-17", "num": chance.randint(10_000, 99_999)}
        yield " ".join(lines).format(
            **values, small=chance.randint(3, 59), person=words["person"][0], street=words["street"][0]
        )


def search_times(folder: Path) -> list[float]:
    """Milliseconds of searches in 10,000 messages, by questions of all four languages."""
    index = LibraryIndex(folder / "talk.db")
    parts = [DocumentPart(line, "owner", "2026-01-01T00:00:00+00:00") for line in chatter(random.Random(3), 10_000)]
    for start in range(0, len(parts), 200):
        index.follow(f"s{start}", "", "1", [(Document("talk", "", f"s{start}"), parts[start : start + 200])])
    questions = [note.question for note in asked(corpus(held=False, seed=3), 3)] + [question for _, question in FACTS]
    times = []
    for question in questions:
        begin = time.perf_counter()
        index.search(question, [("talk", ""), ("memory", "")], limit=24)
        times.append((time.perf_counter() - begin) * 1_000)
    index.close()
    return times


def memory_times(folder: Path) -> list[float]:
    """Milliseconds of finding the lines that stand beside a question, in 300 notes of five lines."""
    (folder / "memory").mkdir()
    lines = iter(chatter(random.Random(5), 1_500))
    for number in range(300):
        text = "\n".join(f"- {next(lines)}" for _ in range(5))
        (folder / "memory" / f"2025-{number // 28 + 1:02}-{number % 28 + 1:02}.md").write_text(text, encoding="utf-8")
    index = LibraryIndex(folder / "memory.db")
    memory = MemoryFiles(folder, index, lambda _: frozenset())
    memory.refresh("")
    times = []
    for note in asked(corpus(held=False, seed=2), 2):
        begin = time.perf_counter()
        memory.beside(note.question, "", frozenset())
        times.append((time.perf_counter() - begin) * 1_000)
    index.close()
    return times


def taken_in(folder: Path, name: str, texts: Sequence[str]) -> tuple[float, float]:
    """Pages a second of one core, and bytes of the index per byte of text."""
    index = LibraryIndex(folder / f"{name}.db")
    begin = time.process_time()
    for number, text in enumerate(texts):
        parts = [DocumentPart(one.text, one.heading) for one in sections(text)]
        index.put(Document("document", "", f"/d/{number}.md"), parts)
    spent = time.process_time() - begin
    index.close()
    size = (folder / f"{name}.db").stat().st_size
    return sum(map(len, texts)) / PAGE / spent, size / sum(len(text.encode()) for text in texts)


def own_tokenizer(tokenizer: str, notes: dict[str, list[Note]], questions: Sequence[Note]) -> int:
    """Right first hits with a tokenizer of FTS5 over the same texts; its words or pieces of three are asked for."""
    db = sqlite3.connect(":memory:")
    db.execute(f"CREATE VIRTUAL TABLE word USING fts5 (name UNINDEXED, body, tokenize = '{tokenizer}')")
    for note in (note for some in notes.values() for note in some):
        db.execute("INSERT INTO word VALUES (?, ?)", (note.name, note.text))
    right = 0
    for note in questions:
        text = "".join(sign if sign.isalnum() else " " for sign in note.question)
        pieces = [word for word in text.split() if len(word) >= 1]
        if tokenizer == "trigram":
            pieces = [word[at : at + 3] for word in pieces for at in range(max(1, len(word) - 2))]
        match = " OR ".join(f'"{piece}"' for piece in dict.fromkeys(pieces))
        rows = db.execute("SELECT name FROM word WHERE word MATCH ? ORDER BY rank LIMIT 1", (match,)).fetchall()
        right += bool(rows) and rows[0][0] == note.name
    db.close()
    return right


def judged(told: str, value: float, bar: float, *, least: bool) -> bool:
    """Print a figure beside its bar; whether it holds."""
    good = value >= bar if least else value <= bar
    print(f"{told} (bar {bar:g}){'' if good else ' BELOW THE BAR'}")
    return good


def first_hit_figures(folder: Path, *, held: bool, wrong: bool, tokens: bool) -> float:
    """The mean of right first hits over four draws of documents and questions, of 100 each."""
    rights = []
    for seed in DRAWS:
        notes = corpus(held=held, seed=seed)
        questions = asked(notes, seed)
        (folder / str(seed)).mkdir()
        first, third, missed = first_hits(folder / str(seed), notes, questions)
        rights.append(first)
        beside = {one: own_tokenizer(one, notes, questions) for one in ("unicode61", "trigram")} if tokens else {}
        print(f"draw {seed}: first hit right {first}, among the first three {third} {beside or ''}".rstrip())
        print("".join(f"  {line}\n" for line in missed if wrong), end="")
    return statistics.mean(rights)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--held", action="store_true", help="take the topics that were kept back")
    parser.add_argument("--wrong", action="store_true", help="show the questions whose first hit is wrong")
    parser.add_argument("--tokens", action="store_true", help="compare with FTS5's own tokenizers")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        first = first_hit_figures(folder, held=args.held, wrong=args.wrong, tokens=args.tokens)
        good = [judged(f"first hit right: {first:g} of 100", first, 90, least=True)]
        found = asyncio.run(facts_found(folder))
        good.append(judged(f"facts after five compactions: {found} of {len(FACTS)}", found, 19, least=True))
        times = search_times(folder)
        told = f"search in 10,000 messages: median {statistics.median(times):.1f} ms, longest {max(times):.1f} ms"
        good.append(judged(told, max(times), 30, least=False))
        beside = statistics.median(memory_times(folder))
        good.append(judged(f"lines of 300 notes beside a question: median {beside:.1f} ms", beside, 5, least=False))
        pages = sorted((Path(__file__).parents[1] / "docs").glob("*.md"))
        made = [note.text for some in corpus(held=args.held, seed=1).values() for note in some]
        for kind, said in (("the documentation", [one.read_text(encoding="utf-8") for one in pages]), ("notes", made)):
            speed, ratio = taken_in(folder, kind, said)
            good.append(judged(f"taking {kind} in: {speed:.0f} pages a second of one core", speed, 50, least=True))
            good.append(judged(f"index of {kind}: {ratio:.2f} of the text", ratio, 1.5, least=False))
    print(
        f"recall: {sum(good)} of {len(good)} bars hold; first hit right {first:g} of 100, {found} of {len(FACTS)} facts"
    )
    sys.exit(0 if all(good) else 1)


if __name__ == "__main__":
    main()
