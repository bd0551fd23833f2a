"""The first hit for questions over documents of another make than those of `benchmarks.recall`, looked at once.

    python -m benchmarks.recall_fresh [--set a|b] [--wrong]

2,000 documents in four languages, 100 questions, the mean of four draws. The facts of a name are spread over several
documents of that name, half of them under headings, half in running text; about half of the sentences do not say the
name, which stands in the title alone; each document points to another name of its kind. Every question has one
document that answers it. Nothing of the index was chosen on these; the figure of the first look stands in
docs/benchmarks.md.
"""

import argparse
import random
import statistics
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from msgspec import Struct
from msgspec.json import decode

from benchmarks.recall import Note, first_hits

DATA = Path(__file__).parent / "data"
PER_LANGUAGE, QUESTIONS, DRAWS = 500, 25, (1, 2, 3, 4)
#: How many facts of a name stand in one document.
_FACTS = (1, 2, 3)


class Aspect(Struct):
    """What can be known of a name: the heading above it, how it is said, how it is asked for."""

    head: str
    said: tuple[str, ...]
    asked: tuple[str, ...]


class Domain(Struct):
    """A kind of things with their names, made of two parts, and what can be known of each."""

    names: tuple[str, ...]
    a: tuple[str, ...]
    b: tuple[str, ...]
    titles: tuple[str, ...]
    aspects: tuple[Aspect, ...]
    fill: tuple[str, ...]

    def all_names(self) -> list[str]:
        return [form.format(a=a, b=b) for form in self.names for a in self.a for b in self.b]


class Tongue(Struct):
    """The words of one language, of set a."""

    people: tuple[str, ...]
    shops: tuple[str, ...]
    see: str
    domains: tuple[Domain, ...]


@dataclass(frozen=True)
class Writer:
    """Writes the documents of one language of set a; `code` begins their names."""

    code: str
    tongue: Tongue
    chance: random.Random

    def notes(self) -> list[Note]:
        made = [note for domain in self.tongue.domains for name in domain.all_names() for note in self.of(domain, name)]
        self.chance.shuffle(made)
        return [Note(f"{self.code}-{at:03}", one.text, one.question) for at, one in enumerate(made[:PER_LANGUAGE])]

    def of(self, domain: Domain, name: str) -> Iterator[Note]:
        """The documents about a name, each with one of its facts asked for."""
        aspects = self.chance.sample(domain.aspects, len(domain.aspects))
        while aspects:
            count = self.chance.choice(_FACTS)
            told, aspects = aspects[:count], aspects[count:]
            other = self.chance.choice([one for one in domain.all_names() if one != name])
            title = self.chance.choice(domain.titles).format(n=name)
            asked = self.chance.choice(self.chance.choice(told).asked).format(n=name)
            yield Note(
                "", f"# {title}\n\n{self.body(domain, name, told)}\n\n{self.tongue.see.format(n=other)}\n", asked
            )

    def body(self, domain: Domain, name: str, told: list[Aspect]) -> str:
        facts = [(one.head, self.filled(self.chance.choice(one.said), name)) for one in told]
        fill = [line.format(n=name) for line in self.chance.sample(domain.fill, 4)]
        if self.chance.random() < 0.5:
            parts = [f"## {head}\n\n{fact} {self.chance.choice(fill)}" for head, fact in facts]
            return "\n\n".join([fill[0], *parts])
        lines = [*fill, *(fact for _, fact in facts)]
        self.chance.shuffle(lines)
        return " ".join(lines)

    def filled(self, text: str, name: str) -> str:
        chance = self.chance
        time = f"{chance.randint(6, 21)}:{chance.randrange(0, 60, 5):02}"
        who, shop = chance.choice(self.tongue.people), chance.choice(self.tongue.shops)
        num, small, year = chance.randint(1_000, 99_999), chance.randint(3, 59), chance.randint(2008, 2025)
        return text.format(n=name, time=time, person=who, shop=shop, num=num, small=small, year=year)


class Fact(Struct):
    """What can be known of a name: as the label of a list, as a sentence with the name, as one without, as asked."""

    label: str
    said: str
    told: str
    asked: str


class Realm(Struct):
    """A kind of things: the form of their names, its parts, and what can be known."""

    form: str
    a: tuple[str, ...]
    b: tuple[str, ...]
    aspects: tuple[Fact, ...]


class Diary(Struct):
    """The words of one language, of set b."""

    people: tuple[str, ...]
    log: str
    letter: str
    opening: str
    closing: str
    fill: tuple[str, ...]
    domains: tuple[Realm, ...]


@dataclass(frozen=True)
class Scribe:
    """Writes the documents of one language of set b: sheets that list what is known of a name, letters that name it
    once, and logs of a day in which a sentence names it among what else happened."""

    code: str
    words: Diary
    chance: random.Random

    def notes(self) -> list[Note]:
        names = [
            (realm, realm.form.format(a=a, b=b, num2=self.chance.randint(1, 99)))
            for realm in self.words.domains
            for a in realm.a
            for b in realm.b
        ]
        made = [note for realm, name in names for note in self.of(realm, name)]
        self.chance.shuffle(made)
        return [Note(f"{self.code}-{at:03}", one.text, one.question) for at, one in enumerate(made[:PER_LANGUAGE])]

    def of(self, realm: Realm, name: str) -> Iterator[Note]:
        facts = self.chance.sample(realm.aspects, len(realm.aspects))
        form = self.chance.choice((self.sheet, self.letter, self.log))
        for some in (facts[:2], facts[2:3], facts[3:4], facts[4:]):
            asked = self.chance.choice(some).asked.format(n=name)
            yield Note("", form(name, some), asked)
            form = self.chance.choice((self.sheet, self.letter, self.log))

    def sheet(self, name: str, facts: Sequence[Fact]) -> str:
        rows = [f"- {one.label}: {self.filled(one.told, name)}" for one in facts]
        return "\n".join([f"# {name}", "", *rows, f"- {self.chance.choice(self.words.fill)}", ""])

    def letter(self, name: str, facts: Sequence[Fact]) -> str:
        words = self.words
        person = self.chance.choice(words.people)
        opening = words.opening.format(person=person, n=name)
        lines = [opening, *self.some(2), *(self.filled(one.told, name) for one in facts), *self.some(1), words.closing]
        return f"# {words.letter.format(person=person)}\n\n{' '.join(lines)}\n"

    def log(self, name: str, facts: Sequence[Fact]) -> str:
        day = f"{self.chance.randint(2011, 2025)}-{self.chance.randint(1, 12):02}-{self.chance.randint(1, 28):02}"
        lines = [*self.some(5), *(self.filled(one.said, name) for one in facts)]
        self.chance.shuffle(lines)
        return f"# {self.words.log.format(date=day)}\n\n{' '.join(lines[:3])}\n\n{' '.join(lines[3:])}\n"

    def some(self, count: int) -> list[str]:
        return self.chance.sample(self.words.fill, count)

    def filled(self, text: str, name: str) -> str:
        chance = self.chance
        num, small, year = chance.randint(1_000, 99_999), chance.randint(2, 60), chance.randint(1960, 2025)
        return text.format(n=name, person=chance.choice(self.words.people), num=num, small=small, year=year)


def corpus(name: str, seed: int) -> dict[str, list[Note]]:
    chance = random.Random(seed)
    data = (DATA / f"recall_fresh_{name}.json").read_bytes()
    if name == "a":
        return {code: Writer(code, one, chance).notes() for code, one in decode(data, type=dict[str, Tongue]).items()}
    return {code: Scribe(code, one, chance).notes() for code, one in decode(data, type=dict[str, Diary]).items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--set", choices=("a", "b"), default="a", help="which documents and questions")
    parser.add_argument("--wrong", action="store_true", help="show the questions whose first hit is wrong")
    args = parser.parse_args()
    rights = []
    for seed in DRAWS:
        notes = corpus(args.set, seed)
        chance = random.Random(seed + 1)
        questions = [note for some in notes.values() for note in chance.sample(some, QUESTIONS)]
        with tempfile.TemporaryDirectory() as folder:
            first, third, missed = first_hits(Path(folder), notes, questions)
        rights.append(first)
        count = sum(map(len, notes.values()))
        print(f"draw {seed}: {count} documents, first hit right {first} of 100, among the first three {third}")
        print("".join(f"  {line}\n" for line in missed if args.wrong), end="")
    mean = statistics.mean(rights)
    print(f"first hit right: {mean:g} of 100 (bar 90){'' if mean >= 90 else ' BELOW THE BAR'}")
    sys.exit(0 if mean >= 90 else 1)


if __name__ == "__main__":
    main()
