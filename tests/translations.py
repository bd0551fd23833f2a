"""What is to be translated, and the catalogues that hold it.

    python -m tests.translations            brings the catalogues up to date: new sentences are added without a
                                            translation, those that nobody says any more go
    python -m tests.translations cli money  the same for these rooms alone

A catalogue belongs to a room of the package, such as `nanobot/cli`; modules beside the rooms share `nanobot.po`. A
sentence that stands in several rooms has an entry in each of them, with the same translation.
"""

import ast
import functools
import json
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from nanobot.utils.translation import CATALOGUES, folder, read
from tests.reach import nodes, tree_of

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "nanobot"
#: Room → its JSON files that hold sentences, each with the key whose names they are.
SHIPPED = {"config": (("family.json", "noEffect"),)}
HEAD = """\
msgid ""
msgstr ""
"Language: {language}\\n"
"MIME-Version: 1.0\\n"
"Content-Type: text/plain; charset=UTF-8\\n"
"Content-Transfer-Encoding: 8bit\\n"
"Plural-Forms: {plural}\\n"
"""
PLURAL = {"zh_CN": "nplurals=1; plural=0;"}


@dataclass(frozen=True)
class Said:
    """A sentence of the program; `many` is its form for several things. `where` is the module that says it."""

    one: str
    many: str
    where: str

    @property
    def key(self) -> str:
        return f"{self.one}\0{self.many}" if self.many else self.one


def rooms() -> tuple[str, ...]:
    """The rooms that can have a catalogue."""
    folders = (path.name for path in PACKAGE.iterdir() if (path / "__init__.py").exists())
    return (*sorted(folders), "nanobot")


def modules(room: str) -> list[Path]:
    return sorted(PACKAGE.glob("*.py") if room == "nanobot" else (PACKAGE / room).rglob("*.py"))


@functools.cache
def marked(room: str) -> dict[str, Said]:
    """What a room has wrapped, in the order of its modules and lines."""
    found: dict[str, Said] = {}
    for file, key in SHIPPED.get(room, ()):
        path = PACKAGE / room / file
        where = path.relative_to(ROOT).as_posix()
        found |= {one: Said(one, "", where) for one in json.loads(path.read_text(encoding="utf-8"))[key]}
    for path in modules(room):
        for said in marked_in(tree_of(path), path.relative_to(ROOT).as_posix()):
            found.setdefault(said.key, said)
    return found


def marked_in(tree: ast.AST, where: str) -> Iterator[Said]:
    calls = [node for node in nodes(tree) if isinstance(node, ast.Call) and name_of(node) in ("_", "_n", "N_")]
    for call in sorted(calls, key=lambda one: (one.lineno, one.col_offset)):
        literals = [text for one in call.args[:2] if (text := literal(one)) is not None]
        if name_of(call) == "_n" and len(literals) == 2:
            yield Said(literals[0], literals[1], where)
        elif name_of(call) != "_n" and literals:
            yield Said(literals[0], "", where)


def name_of(call: ast.Call) -> str:
    return call.func.id if isinstance(call.func, ast.Name) else ""


def literal(node: ast.AST) -> str | None:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None


#: Three words of a sentence; SQL and the like are in capitals.
_SENTENCE = re.compile(r"[A-Za-z][a-z]+[,.:;']* (?:\S+ )*?\S*[a-z]{2}\S* (?:\S+ )*?\S*[a-z]")
_SQL = re.compile(r"\b(?:SELECT|INSERT|UPDATE|CREATE|DELETE|WHERE|ALTER|AND|ORDER)\b")
_ENGLISH = re.compile(r"# English: \w")


def unwrapped(path: Path) -> Iterator[tuple[int, str]]:
    """Sentences of a module that nobody can translate, each with its line.

    Passed over: docstrings, what goes to the log, regular expressions, annotations, and statements, functions and
    classes beside whose head a comment says `# English: why`, on its lines or on the one before.
    """
    text = path.read_text(encoding="utf-8")
    english = {number for number, line in enumerate(text.splitlines(), 1) if _ENGLISH.search(line)}
    yield from _Reader(english).sentences(tree_of(path))


@dataclass
class _Reader:
    english: set[int]

    def sentences(self, node: ast.AST) -> Iterator[tuple[int, str]]:
        for child in self._children(node):
            text = _text(child)
            if text is not None and _SENTENCE.search(text) and not _SQL.search(text):
                yield child.lineno, text
            elif text is None:
                yield from self.sentences(child)

    def _children(self, node: ast.AST) -> Iterator[ast.expr]:
        """What of a node may be shown to somebody."""
        children = [*ast.iter_child_nodes(node)]
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and _docstring(node):
            children.remove(node.body[0])
        if isinstance(node, ast.Call):
            children = [*node.args[_wrapped(node) :], *node.keywords]
            if _silent(node):
                children = []
        elif isinstance(node, ast.AnnAssign):
            children = [node.value] if node.value is not None else []
        elif isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name) and node.value.id == "Annotated":
            children = []
        for child in children:
            if not (isinstance(child, ast.stmt) and (self._is_english(child) or _is_documentation(child))):
                yield child  # type: ignore[misc]  # statements and keywords have lines as well

    def _is_english(self, node: ast.stmt) -> bool:
        body: list[ast.stmt] = getattr(node, "body", [])
        last = body[0].lineno - 1 if body else node.end_lineno or node.lineno
        return not self.english.isdisjoint(range(node.lineno - 1, last + 1))


def _text(node: ast.AST) -> str | None:
    if isinstance(node, ast.JoinedStr):
        return "".join(literal(one) or "{}" for one in node.values)
    return literal(node) if isinstance(node, ast.Constant) else None


def _docstring(node: ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    first = node.body[0] if node.body else None
    return isinstance(first, ast.Expr) and _text(first.value) is not None


def _is_documentation(node: ast.stmt) -> bool:
    """A text that stands alone, under what it explains."""
    return isinstance(node, ast.Expr) and _text(node.value) is not None


def _wrapped(call: ast.Call) -> int:
    """How many of a call's arguments are sentences with an entry in the catalogue, or the type of `cast`."""
    return {"_": 1, "N_": 1, "_n": 2, "cast": 1}.get(name_of(call), 0)


def _silent(call: ast.Call) -> bool:
    """Whether it is one of the log, such as `logger.opt(exception=error).warning(...)`, or of regular expressions."""
    owner: ast.expr = call.func
    while isinstance(owner, ast.Attribute | ast.Call):
        owner = owner.value if isinstance(owner, ast.Attribute) else owner.func
    return isinstance(owner, ast.Name) and owner.id in ("logger", "re")


def catalogue(language: str, room: str) -> Path:
    return folder() / language / "LC_MESSAGES" / f"{room}.po"


@functools.cache
def entries(language: str, room: str) -> dict[str, str]:
    path = catalogue(language, room)
    return read(path.read_text(encoding="utf-8")) if path.exists() else {}


def quoted(text: str) -> str:
    """A text as gettext's tools write it: a line of the file for each line."""
    lines = [escaped(line) for line in re.findall(r"[^\n]*\n|[^\n]+", text)] or ['""']
    return lines[0] if len(lines) == 1 else "\n".join(['""', *lines])


def escaped(text: str) -> str:
    for sign, written in (("\\", "\\\\"), ('"', '\\"'), ("\n", "\\n"), ("\t", "\\t")):
        text = text.replace(sign, written)
    return f'"{text}"'


def written(language: str, said: Iterable[Said], known: Mapping[str, str]) -> str:
    """A catalogue with these sentences and what is known of their translations."""
    blocks = [HEAD.format(language=language, plural=PLURAL[language])]
    for one in said:
        lines = [f"#: {one.where}", f"msgid {quoted(one.one)}"]
        translation = known.get(one.key, "")
        if one.many:
            forms = translation.split("\0")
            lines.append(f"msgid_plural {quoted(one.many)}")
            lines += [f"msgstr[{place}] {quoted(form)}" for place, form in enumerate(forms)]
        else:
            lines.append(f"msgstr {quoted(translation)}")
        blocks.append("\n".join(lines) + "\n")
    return "\n".join(blocks)


def main(names: Iterable[str] = ()) -> None:
    for language in CATALOGUES.values():
        everywhere: dict[str, str] = {}
        for room in rooms():
            everywhere |= {key: text for key, text in entries(language, room).items() if text}
        for room in [*names] or rooms():
            said, path = marked(room), catalogue(language, room)
            if said:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(written(language, said.values(), everywhere), encoding="utf-8")
                missing = sum(1 for key in said if not everywhere.get(key))
                print(f"{path.relative_to(ROOT)}: {len(said)} sentences, {missing} without a translation")
            else:
                path.unlink(missing_ok=True)


if __name__ == "__main__":
    main(sys.argv[1:])
