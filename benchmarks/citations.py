"""How many wrong citations of answers are questioned, and how many right ones.

    python -m benchmarks.citations [--data FILE] [--half tune|held] [--misses]

FILE holds `pages` ({ID: {"title", "text", "half"}}) and `claims`, each a list of a page's ID, a kind, and an answer
with marks `[1]`. The kind is `right` or what is wrong: a number, date, unit, quotation or name that the page does not
have; or roles that are swapped, a denial, an over-claim. Every right answer is judged two more times as a wrong one of
the kind `source`: with its marks moved to another page of the file that was read in the same turn, and to one that
nobody found. The rules were made with the pages of the half `tune`; the figure is that of the half `held`.
"""

import argparse
import json
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from nanobot.agent.citations.answer import MarkedAnswer
from nanobot.results import SourceBook
from nanobot.utils.marks import find_marks

DATA = Path(__file__).parent / "data" / "citations.json"
#: What has to be caught, and the share of it; the other kinds are beyond what words can tell.
BARS = {"number": 0.97, "date": 0.97, "unit": 0.97, "quotation": 0.97, "source": 0.97, "name": 0.9}
MOST_RIGHT = 0.01


@dataclass(frozen=True, slots=True)
class Page:
    title: str
    text: str
    half: str


@dataclass(frozen=True, slots=True)
class Case:
    """An answer whose marks are all of one kind, with the page that it cites and another one."""

    kind: str
    answer: str
    pages: tuple[Page, Page]


def read_cases(path: Path, half: str) -> list[Case]:
    value = json.loads(path.read_text(encoding="utf-8"))
    pages = {key: Page(one["title"], one["text"], one["half"]) for key, one in value["pages"].items()}
    names = [key for key, page in pages.items() if half in ("", page.half)]
    cases: list[Case] = []
    for key, kind, answer in value["claims"]:
        if key in names:
            both = (pages[key], pages[names[(names.index(key) + 1) % len(names)]])
            cases.append(Case(kind, answer, both))
            if kind == "right":
                cases += [Case("source", _moved(answer, 2), both), Case("source", _moved(answer, 9), both)]
    return cases


def _moved(text: str, number: int) -> str:
    """The answer with every mark changed to another number."""
    for mark in reversed(find_marks(text)):
        text = f"{text[: mark.start]}[{number}]{text[mark.end :]}"
    return text


def questioned(case: Case) -> list[str]:
    """For each mark of an answer what is missing, empty where it counts as right."""
    book = SourceBook()
    for number, page in enumerate(case.pages):
        book.add(f"https://pages.test/{number}", page.title, read=True, text=page.text)
    answer = MarkedAnswer(book, lambda _url: True)
    answer.mark(case.answer, 0)
    return [one.missing for one in answer.citations]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--half", choices=("tune", "held"), default="held")
    parser.add_argument("--misses", action="store_true", help="print every mark that is judged wrongly")
    arguments = parser.parse_args()
    caught: Counter[str] = Counter()
    there: Counter[str] = Counter()
    for case in read_cases(arguments.data, arguments.half):
        for missing in questioned(case):
            there[case.kind] += 1
            caught[case.kind] += bool(missing)
            if arguments.misses and bool(missing) == (case.kind == "right"):
                print(f"{case.kind}: {case.answer} · {missing}")
    for kind in (*BARS, *sorted(there.keys() - BARS.keys() - {"right"})):
        print(f"{kind}: {caught[kind]} of {there[kind]} wrong marks questioned")
    exact = [kind for kind in BARS if kind != "name"]
    share = sum(caught[kind] for kind in exact) / max(1, sum(there[kind] for kind in exact))
    lost = caught["right"] / max(1, there["right"])
    print(f"wrong numbers, dates, units, quotations and sources questioned {share:.3f}")
    print(f"right marks questioned {lost:.3f} of {there['right']}")
    names = caught["name"] / max(1, there["name"])
    return 0 if share >= BARS["number"] and names >= BARS["name"] and lost <= MOST_RIGHT else 1


if __name__ == "__main__":
    sys.exit(main())
