"""Every fixed sentence that a person sees can be had in every language of the catalogues."""

import ast
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from nanobot.utils.translation import CATALOGUES
from tests.reach import nodes, tree_of
from tests.translations import PACKAGE, ROOT, Said, entries, marked, modules, name_of, rooms, unwrapped

#: Beginning of a module's path → why its sentences stay English.
ENGLISH = {
    "nanobot/agent/tools/": "a model reads what tools say; what a person sees of it is worded elsewhere",
    "nanobot/agent/context.py": "the prompt, which a model reads",
    "nanobot/schedule/vocabulary": "the words that are understood in what people write, in their languages",
    "nanobot/web/extract/": "notes on a page for the model that reads it, made in a process that knows no person",
    "nanobot/config/generate": "makes a page in English",
}
_FIELD = re.compile(r"(?<!\{)\{([a-z_]\w*)")
#: What is typed as it stands: code, a command of a chat.
_TYPED = re.compile(r"`[^`]+`|(?<![\w/.])/[a-z]{3,}\b")


def pairs() -> Iterator[tuple[str, Said, str]]:
    for language in CATALOGUES.values():
        for room in rooms():
            said = marked(room)
            known = entries(language, room)
            yield from ((f"{language}/{room}", one, known.get(key, "")) for key, one in said.items())


def test_every_sentence_has_a_translation_and_every_translation_a_sentence() -> None:
    missing = [f"{place}: {said.one}" for place, said, translation in pairs() if not all(translation.split("\0"))]
    assert not missing, "write them into the catalogue (python -m tests.translations adds their entries)"
    for language in CATALOGUES.values():
        for room in rooms():
            spare = entries(language, room).keys() - marked(room).keys() - {""}
            assert not spare, f"{language}/{room}: python -m tests.translations takes them out"


def test_a_translation_has_the_values_and_the_typed_words_of_its_sentence() -> None:
    wrong = []
    for place, said, translation in pairs():
        original = said.many or said.one
        for form in translation.split("\0"):
            same = set(_FIELD.findall(form)) | {"number"} == set(_FIELD.findall(original)) | {"number"}
            typed = set(_TYPED.findall(original)) <= set(_TYPED.findall(form))
            edges = [form[:1].isspace(), form[-1:].isspace()] == [original[:1].isspace(), original[-1:].isspace()]
            if not (same and typed and edges):
                wrong.append(f"{place}: {original!r}: {form!r}")
    assert not wrong


def test_a_sentence_of_several_rooms_has_one_translation() -> None:
    known: dict[tuple[str, str], str] = {}
    for place, said, translation in pairs():
        language = place.partition("/")[0]
        assert known.setdefault((language, said.key), translation) == translation, f"{place}: {said.one}"


@pytest.mark.parametrize("room", rooms())
def test_no_sentence_of_a_room_is_left_unwrapped(room: str) -> None:
    left = [
        f"{path.relative_to(ROOT)}:{line}: {text!r:.120}"
        for path in modules(room)
        if not path.relative_to(ROOT).as_posix().startswith(tuple(ENGLISH))
        for line, text in unwrapped(path)
    ]
    assert not left, "wrap it in _(...), or say `# English: why` beside it"


@pytest.mark.parametrize("path", sorted((ROOT / "docs").glob("??/*.md")), ids=lambda path: "/".join(path.parts[-2:]))
def test_a_translated_page_has_the_blocks_the_sections_and_the_links_of_its_original(path: Path) -> None:
    """What is typed is the same; a link leads to a translated page where there is one."""
    original = ROOT / "README.md" if path.stem == "README" else path.parent.parent / path.name
    ours, theirs = (Page.of(one) for one in (path, original))
    assert ours.blocks == theirs.blocks
    assert ours.sections == theirs.sections
    assert ours.links >= {*theirs.links} - {path}
    assert all(link.exists() for link in ours.links)


class Page(NamedTuple):
    """What a page shows as it is typed, how many sections it has at each level, and the files that it leads to."""

    blocks: list[str]
    sections: Counter[int]
    links: set[Path]

    @classmethod
    def of(cls, path: Path) -> "Page":
        text = path.read_text(encoding="utf-8")
        prose = re.sub(r"(?ms)^```.*?^```", "", text)
        targets = re.findall(r"\]\(([^)#:]+)[^):]*\)", prose)
        return cls(
            re.findall(r"(?ms)^```.*?^```", text),
            Counter(len(marks) for marks in re.findall(r"(?m)^(#+) ", prose)),
            {_original((path.parent / target).resolve()) for target in targets},
        )


def _original(path: Path) -> Path:
    """The English page of a translated one."""
    if path.parent.parent != ROOT / "docs":
        return path
    return ROOT / "README.md" if path.stem == "README" else path.parent.parent / path.name


def test_no_function_that_translates_uses_the_name_for_something_else() -> None:
    """A loop over `_` would make it a local variable."""
    for path in PACKAGE.rglob("*.py"):
        functions = [one for one in nodes(tree_of(path)) if isinstance(one, FUNCTIONS) and binds(one)]
        both = [one.lineno for one in functions if any(translates(inner) for inner in nodes(one))]
        assert not both, path.name


FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)


def binds(function: ast.AST) -> bool:
    """Whether the name `_` is a local variable there."""
    return any(
        isinstance(one, ast.Name) and one.id == "_" and isinstance(one.ctx, ast.Store) for one in nodes(function)
    )


def translates(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and name_of(node) == "_"


def test_a_sentence_that_is_wrapped_is_a_literal_without_values_in_it() -> None:
    """An f-string would be looked up with its values, and never found. `_(TABLE[key])` is marked in the table."""
    for path in PACKAGE.rglob("*.py"):
        for node in nodes(tree_of(path)):
            if isinstance(node, ast.Call) and name_of(node) in ("_", "_n", "N_"):
                assert node.args, f"{path.name}:{node.lineno}"
                assert not isinstance(node.args[0], ast.JoinedStr), f"{path.name}:{node.lineno}"
