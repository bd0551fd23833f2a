"""The table in docs/checklist.md that shows every row of the checklist with the tests that prove it.

    python -m tests.checklist    writes the table anew

A row is an id such as `N20`; the tests that prove it are all those that carry the id in their names.
"""

import ast
import functools
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "checklist.md"
BEGIN = "<!-- checklist: python -m tests.checklist -->"
END = "<!-- end of checklist -->"

#: Letter → (number of rows, what they are about).
FAMILIES: dict[str, tuple[int, str]] = {
    "K": (31, "Reading a page"),
    "S": (26, "Searching"),
    "G": (38, "Many pages, prompts and citations"),
    "N": (47, "The two tools, their settings and their life in a turn"),
    "A": (22, "MCP servers, formats and permissions"),
}
#: Rows that have no test, and why.
OPEN: dict[str, str] = {}
#: Rows of which a part does not hold on the program as it is, and which.
PARTIAL: dict[str, str] = {
    "G09": "Gemini cannot be told which hosts to open; what a service read is not checked against the page",
    "G16": "the time for a page is in the configuration, not in a call; a connection has 6 s, not 10",
    "G27": "local names such as localhost need an entry in tools.ssrfWhitelist, whatever allowPrivate says",
    "G38": "counts of the web tools alone; other tools are not counted",
    "K21": "keys come from the configuration, the environment or a command; OAuth is not there",
    "N16": "no setting adds a rule about fresh facts to the prompt",
    "N42": "images over 5 MB are refused, not made smaller",
}

_ID = re.compile(r"(?<![A-Za-z0-9])([KSGNA]\d\d)(?![A-Za-z0-9])")


@dataclass(frozen=True, slots=True)
class Proof:
    """A test that carries a row's id. `path` is below tests/."""

    name: str
    path: str


def rows() -> Iterator[str]:
    """Every id in order."""
    for letter, (count, _) in FAMILIES.items():
        yield from (f"{letter}{number:02}" for number in range(1, count + 1))


@functools.cache
def proofs() -> dict[str, list[Proof]]:
    """Every id that is carried by tests, with those tests in the order of their names."""
    found: dict[str, list[Proof]] = {}
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
                proof = Proof(node.name, path.relative_to(ROOT / "tests").as_posix())
                for row in _ID.findall(node.name.replace("_", " ")):
                    found.setdefault(row, []).append(proof)
    return {row: sorted(tests, key=lambda proof: (proof.name, proof.path)) for row, tests in found.items()}


def table(page: str) -> str:
    """`page` with its table made anew."""
    found = proofs()
    lines = []
    for letter, (_, title) in FAMILIES.items():
        lines += ["", f"## {title} ({letter})", "", "| row | test | in tests/ |", "|---|---|---|"]
        for row in (row for row in rows() if row[0] == letter and row in found):
            lines += [f"| {row} | `{proof.name}` | `{proof.path}` |" for proof in found[row]]
    still_open = [row for row in rows() if row not in found]
    if still_open:
        lines += ["", "## Without a test", "", "| row | why |", "|---|---|"]
        lines += [f"| {row} | {OPEN.get(row, 'missing')} |" for row in still_open]
    lines += ["", "## Held in part", "", "| row | what is missing |", "|---|---|"]
    lines += [f"| {row} | {PARTIAL[row]} |" for row in sorted(PARTIAL)]
    before, after = page.partition(BEGIN)[0], page.partition(END)[2]
    return "\n".join([f"{before}{BEGIN}", *lines, "", f"{END}{after}"])


if __name__ == "__main__":
    PAGE.write_text(table(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
