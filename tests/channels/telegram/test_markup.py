"""Rendering for Telegram: right shapes, nothing lost, nothing refused, nothing slow."""

import random
import re
from collections import Counter
from collections.abc import Iterator

import pytest
from markdown_it import MarkdownIt

from nanobot.channels.telegram.render.markdown import Rendered, clean, render
from nanobot.channels.telegram.render.screen_messages import LIMIT, split, utf16_length
from tests.fakes.patience import in_proportion
from tests.fakes.telegram_rules import problems
from tests.tables import table


def styled(markdown: str) -> list[tuple[str, str]]:
    found = render(markdown)
    return [(entity.type, found.text[entity.offset : entity.end]) for entity in found.entities]


@table(
    "markdown text entities",
    ("2 * 3 * 4", "2 * 3 * 4", []),
    ("snake_case", "snake_case", []),
    ("[w](https://e.org/F_(x))", "w", [("text_link", "w")]),
    ('[t](https://e.org "T")', "t", [("text_link", "t")]),
    ("Use ``a `b` c``", "Use a `b` c", [("code", "a `b` c")]),
    ("````\n```\nx\n```\n````", "```\nx\n```", [("pre", "```\nx\n```")]),
    ("```python\nx = 1", "x = 1", [("pre", "x = 1")]),
    ("***both***", "both", [("bold", "both"), ("italic", "both")]),
    ("* item *em*", "• item em", [("italic", "em")]),
    ("> a\n> b", "a\nb", [("blockquote", "a\nb")]),
    ("Use <your-token>", "Use <your-token>", []),
    ("Map<String, List<int>>", "Map<String, List<int>>", []),
    ("if (a || b || c)", "if (a || b || c)", []),
    ("$5 and $10, ~5 min", "$5 and $10, ~5 min", []),
    ("**注意：**后面", "注意：后面", [("bold", "注意：")]),
    ("[x](http://localhost:8080/a)", "x (http://localhost:8080/a)", []),
    ("[x](https://e)", "x (https://e)", []),
    ("[Ada](tg://user?id=7)", "Ada (tg://user?id=7)", []),
    ("[https://bank.example](https://e.org/a)", "https://bank.example (https://e.org/a)", []),
    (
        "[Log in at **bank.example**](https://e.org)",
        "Log in at bank.example (https://e.org)",
        [("bold", "bank.example")],
    ),
    ("![bank.example](https://e.org/p.png)", "bank.example (https://e.org/p.png)", []),
    ("[www.e.org/a](https://e.org/a)", "www.e.org/a", [("text_link", "www.e.org/a")]),
    (
        "[version 3.11.2, e.g. this](https://e.org)",
        "version 3.11.2, e.g. this",
        [("text_link", "version 3.11.2, e.g. this")],
    ),
    ("- [ ] open\n- [x] done", "• ☐ open\n• ☑ done", []),
    ("3. c\n4. d", "3. c\n4. d", []),
    ("- a\n  - b\n    1. c", "• a\n  • b\n    1. c", []),
    ("# Head\n\ntext", "Head\n\ntext", [("bold", "Head")]),
    ("**a `b` c**", "a b c", [("bold", "a"), ("code", "b"), ("bold", "c")]),
    ("| A | B |\n|--|--|\n| 1 | 2 |", "A | B\n--+--\n1 | 2", [("pre", "A | B\n--+--\n1 | 2")]),
    (
        "| A | B |\n|--|--|\n| `x | y` | z |",
        "A  | B\n---+-------\n`x | y` | z",
        [("pre", "A  | B\n---+-------\n`x | y` | z")],
    ),
    ("[TODO]: fix", "[TODO]: fix", []),
    ("```Note this\nx\n```", "Note this\nx", [("pre", "x")]),
    ("```hello", "hello", []),
    ("```x = 5\ny = 6\n```", "x = 5\ny = 6", [("pre", "y = 6")]),
    ('```json {"a": 1}\n{}\n```', 'json {"a": 1}\n{}', [("pre", "{}")]),
    ("```js {1,3-5} a={b}\nx\n```", "x", [("pre", "x")]),
    ('```py title="a b"\nx\n```', "x", [("pre", "x")]),
    ("![~~a~~ b](p.png)", "a b (p.png)", []),
    ("👩‍👩‍👧 **x**", "👩‍👩‍👧 x", [("bold", "x")]),
)
def test_shapes(markdown: str, text: str, entities: list[tuple[str, str]]) -> None:
    assert (render(markdown).text, styled(markdown)) == (text, entities)


def test_a_wide_table_becomes_records() -> None:
    row = "| Ada | a very long cell with many words in it | [home](https://e.org) |"
    found = render("| Name | About | Link |\n|---|---|---|\n" + row)
    assert found.text == "Name: Ada\nAbout: a very long cell with many words in it\nLink: home"
    assert [(e.type, e.url) for e in found.entities] == [("bold", ""), ("text_link", "https://e.org")]


PIECES = (
    *("word", "**bold**", "*it*", "~~s~~", "`code`", "[l](https://e.org/a)", "[b](http://localhost)", "_u_", "a_b_c"),
    *(
        "![i](https://e.org/i.png)",
        "注意",
        "**注意：**后",
        "👩‍👩‍👧",
        "𝔘",
        "é",
        "http://e.org",
        "Satz. ",
        "句子。",
        "x" * 40,
    ),
    *("**", "*", "`", "```", "[", "](", "<b>", "&amp;", "|", "~", "\\", "{{", "$x$", "||", "\x00", "\u202e", "\t"),
    *("\n", "\n\n", "\n- ", "\n  - ", "\n1. ", "\n> ", "\n>> ", "\n# ", "\n```py\n", "\n```\n", "\n    code", "  \n"),
    *("\n---\n", "\n| a | b |\n|---|---|\n| c | d |\n", "\n- [x] ", " ", " ", " "),
)


#: What a reader of Markdown takes for marks, by a configuration of its own.
PARSER = MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"]).disable("reference")


def generated(seed: int, count: int) -> Iterator[str]:
    source = random.Random(seed)
    for _ in range(count):
        yield "".join(source.choice(PIECES) + source.choice(("", "", " ")) for _ in range(source.randint(1, 40)))


def visible(markdown: str) -> Iterator[str]:
    """The words a reader of the Markdown sees."""
    for token in PARSER.parse(clean(markdown)):
        if token.type in {"fence", "code_block"}:
            yield from re.findall(r"\w", token.content)
        for child in token.children or []:
            yield from re.findall(r"\w", re.sub(r"^\[[xX]\] ", "", child.content))


def lost(markdown: str, shown: str) -> bool:
    """Whether visible letters are missing in `shown`, or (but for tables, whose cells move) stand in another order."""
    wanted = list(visible(markdown))
    if "|---|" in markdown:
        return bool(Counter(wanted) - Counter(shown))
    letters = iter(shown)
    return not all(letter in letters for letter in wanted)


def refusals(found: Rendered, *, cut: bool = False) -> list[str]:
    """What Telegram refuses of its parts, and that they do not hold every character but blanks where it was `cut`."""
    parts = split(found)
    refused = [problem for part in parts for problem in problems(part.text, part.entities)]
    whole = "".join("".join(part.text.split()) for part in parts) == "".join(found.text.split())
    return refused + ["its parts are not all of it"] * (cut and not whole)


@pytest.mark.parametrize("seed", range(10))
def test_no_text_is_lost_or_refused(seed: int) -> None:
    for markdown in generated(seed, 1_000):
        found = render(markdown)
        assert not refusals(found, cut=True), markdown
        assert not lost(markdown, found.text), (markdown, found.text)


def test_long_answers_keep_everything_and_every_prefix_is_accepted() -> None:
    answer = "\n\n".join(generated(77, 300))
    assert len(answer) > 20_000
    found = render(answer)
    assert not refusals(found, cut=True)
    assert all(utf16_length(part.text) <= LIMIT for part in split(found))
    short = answer[:6_000]
    for end in range(1, len(short), 53):
        assert not refusals(render(short[:end])), short[:end]


@table(
    "markdown",
    "```py\n" + "line = 1\n" * 1_400 + "```",
    "a" * 9_000,
    "**" + "😀" * 6_000 + "**",
    " ".join(f"**w{n}**" for n in range(300)),
    " ".join(f"[w{n}](https://e.org/{n})" for n in range(300)),
    "\n\n".join(f"`c{n}` and *i{n}*" for n in range(200)),
    ids=["code", "letters", "emoji", "bold", "links", "code-and-italic"],
)
def test_long_shapes_are_split_within_the_rules(markdown: str) -> None:
    found = render(markdown)
    assert not refusals(found, cut=True)
    assert len(split(found)) >= 2 or utf16_length(found.text) <= LIMIT
    assert sum(len(part.entities) for part in split(found)) >= len(found.entities), "no style is lost"


def test_a_fence_that_fits_a_message_is_not_cut_and_a_longer_one_stays_code() -> None:
    parts = split(render("text " * 700 + "\n\n```py\n" + "x = 1\n" * 150 + "```"))
    assert [entity.length for part in parts for entity in part.entities if entity.type == "pre"] == [899]
    cut = split(render("```py\n" + "line = 1\n" * 1_400 + "```"))
    assert all([entity.language for entity in part.entities] == ["py"] for part in cut)


@table(
    "markdown",
    *("*" * 20_000, "[" * 20_000, "![" * 10_000, ">" * 20_000, "<" * 20_000, "**a" * 7_000, "*_" * 10_000),
    *("- a\n" * 5_000, "[a](b" * 4_000, "`a" * 10_000, "a\n\n" * 7_000, "|a|b|\n|-|-|\n" + "|c|d|\n" * 4_000),
    "".join("  " * n + "- a\n" for n in range(300)),
    ids=range(13),
)
def test_no_input_is_slow(markdown: str) -> None:
    assert in_proportion(lambda size: split(render(markdown[:size])), 2_500, 20_000, most=40), "64 times is quadratic"
