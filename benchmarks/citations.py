"""How many planted wrong citations are taken out of answers, and how many right ones are lost.

    python -m benchmarks.citations [--data FILE] [--misses]

FILE holds `pages` ({ID: {"title", "text", maybe "url"}}) and `pairs`, each a list of a page's ID, a question, an
answer whose marks `[1]` are all right, and an answer whose marks are all wrong (another figure, name or quotation than
the page has). Of every right answer two more wrong ones are made: its marks moved to the next page of the file, as
`[2]`, which was read in the same turn; and to `[9]`, which nobody found. A page stands for a source that was read.
"""

import argparse
import json
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from nanobot.agent.citations.check import check
from nanobot.results import SourceBook
from nanobot.utils.marks import find_marks

DATA = Path(__file__).parent / "data" / "citations.json"
Plant = Literal["right", "altered", "other page", "invented"]


@dataclass(frozen=True, slots=True)
class Case:
    """An answer whose marks are all right or all wrong, with the pages of its turn in the order of their numbers."""

    plant: Plant
    question: str
    answer: str
    pages: tuple[str, str]


@dataclass(frozen=True, slots=True)
class Page:
    title: str
    text: str
    url: str


def read_cases(path: Path) -> tuple[dict[str, Page], list[Case]]:
    """The pages and every answer that is checked."""
    value = json.loads(path.read_text(encoding="utf-8"))
    pages = {
        key: Page(page.get("title", ""), page["text"], page.get("url", f"https://pages.test/{key}"))
        for key, page in value["pages"].items()
    }
    names = list(pages)
    return pages, [case for row in value["pairs"] for case in _cases(*row, names=names)]


def _cases(page: str, question: str, right: str, wrong: str, *, names: list[str]) -> Iterator[Case]:
    pair = (page, names[(names.index(page) + 1) % len(names)])
    yield Case("right", question, right, pair)
    yield Case("altered", question, wrong, pair)
    yield Case("other page", question, _moved(right, 2), pair)
    yield Case("invented", question, _moved(right, 9), pair)


def _moved(text: str, number: int) -> str:
    """The answer with every mark changed to another number."""
    for mark in reversed(find_marks(text)):
        text = f"{text[: mark.start]}[{number}]{text[mark.end :]}"
    return text


def removed(case: Case, pages: dict[str, Page]) -> tuple[int, int]:
    """How many marks the check took out, and how many there were."""
    book = SourceBook()
    for name in case.pages:
        book.add(pages[name].url, pages[name].title, read=True, text=pages[name].text)
    return len(check(case.answer, book).removed), sum(len(mark.numbers) for mark in find_marks(case.answer))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--misses", action="store_true", help="print every answer that is judged wrongly")
    arguments = parser.parse_args()
    pages, cases = read_cases(arguments.data)
    gone: Counter[Plant] = Counter()
    there: Counter[Plant] = Counter()
    for case in cases:
        out, marks = removed(case, pages)
        gone[case.plant] += out
        there[case.plant] += marks
        if arguments.misses and out != (0 if case.plant == "right" else marks):
            print(f"{case.plant}: {case.question} · {case.answer}")
    wrong: tuple[Plant, ...] = ("altered", "other page", "invented")
    for plant in wrong:
        print(f"{plant}: {gone[plant]} of {there[plant]} removed")
    found = sum(gone[plant] for plant in wrong) / max(1, sum(there[plant] for plant in wrong))
    lost = gone["right"] / max(1, there["right"])
    print(
        f"citations removed {found:.3f} of the wrong, lost {lost:.3f} of {there['right']} right ({len(cases)} answers)"
    )
    return 0 if found >= 0.95 and lost <= 0.02 else 1


if __name__ == "__main__":
    sys.exit(main())
