"""A Markdown stream becomes finished blocks: nothing lost, nothing twice, nothing too early."""

import os
import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nanobot.channels.terminal.blocks import MarkdownBlock, Splitter
from nanobot.channels.terminal.look import TextLook
from nanobot.channels.terminal.render import Printer
from nanobot.channels.terminal.transcript import Piece

GOLDEN = Path(__file__).parent.parent / "golden" / "terminal"
PARTS = (
    "# Title\n", "text ", "more *text*\n", "\n", "- item\n", "  - inner\n", "1. one\n", "```py\n", "x = 1\n", "```\n",
    "| a | b |\n", "|---|---|\n", "| 1 | 2 |\n", "> quote\n", "---\n", "===\n", "<b>html</b>\n", "[1]: https://x.example\n",
    "    indented\n", "~~~\n", "\t", "last words",
)  # fmt: skip


def split(text: str) -> list[MarkdownBlock]:
    splitter = Splitter()
    return splitter.feed(text) + splitter.end()


def stream(text: str, size: int) -> list[str]:
    splitter = Splitter()
    blocks = [block for start in range(0, len(text), size) for block in splitter.feed(text[start : start + size])]
    return [block.source for block in blocks + splitter.end()]


@settings(max_examples=150, deadline=None)
@given(st.lists(st.sampled_from(PARTS), max_size=40), st.integers(1, 30))
def test_every_character_is_given_out_once_and_in_order(parts: list[str], size: int) -> None:
    text = "".join(parts)
    assert "".join(stream(text, size)).rstrip() == text.rstrip()


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.sampled_from(("para\n", "\n", "# head\n", "- a\n", "> q\n", "#tag\n", "| a | b |\n", "|---|---|\n")))
)
def test_short_texts_split_the_same_however_they_arrive(parts: list[str]) -> None:
    text = "".join(parts[:6])
    assert [source.strip() for source in stream(text, 1)] == [source.strip() for source in stream(text, 1_000)]


def test_a_paragraph_is_finished_when_the_next_block_begins() -> None:
    splitter = Splitter()
    assert splitter.feed("one\ntwo\n") == []
    assert [block.source for block in splitter.feed("# three")] == []
    assert [block.source for block in splitter.feed("\nfour\nfi")] == ["one\ntwo\n", "# three\n"]
    assert splitter.tail == "four\nfi"


def test_a_blank_line_finishes_a_paragraph_and_not_a_list() -> None:
    splitter = Splitter()
    assert [block.source for block in splitter.feed("one\n\ntw")] == ["one\n\n"]
    assert splitter.feed("o\n") == []
    assert [block.source for block in splitter.feed("\n- item\n\n  and more\n")] == ["two\n\n"]
    assert splitter.tail == "- item\n\n  and more\n"


def test_a_long_code_block_does_not_wait_for_its_end() -> None:
    splitter = Splitter()
    given_out = splitter.feed("```py\n" + "".join(f"line {n}\n" for n in range(20)))
    assert [(block.opens, block.closes) for block in given_out] == [(True, False)]
    assert given_out[0].text.count("\n") == 20
    ending = splitter.feed("last\n```\n\nafter\n")
    assert (ending[0].text, ending[0].closes, ending[0].joined) == ("last\n", True, True)
    assert splitter.tail.strip() == "after"


def test_a_long_list_is_given_out_item_by_item() -> None:
    splitter = Splitter()
    blocks = splitter.feed("".join(f"{n}. item\n" for n in range(1, 21)))
    assert "".join(block.source for block in blocks) + splitter.tail == "".join(f"{n}. item\n" for n in range(1, 21))
    assert splitter.tail == "20. item\n"


def test_a_list_that_continues_is_joined_to_its_first_part() -> None:
    splitter = Splitter()
    splitter.feed("".join(f"- item {n}\n" for n in range(10)))
    blocks = splitter.feed("\nafter\n\nend\n")
    assert [block.joined for block in blocks] == [True, False]


def paint_all(text: str, look: TextLook) -> str:
    printer = Printer()
    return "".join(printer(Piece("text", block=block), look) for block in split(text))


@pytest.mark.parametrize("name", sorted(path.stem for path in GOLDEN.glob("*.md")))
@pytest.mark.parametrize("kind", ["color", "nocolor", "plain"])
def test_painted_markdown_looks_as_kept(name: str, kind: str) -> None:
    """NANOBOT_UPDATE_GOLDEN=1 writes what is painted now; look at the difference before it is committed."""
    look = {
        "color": TextLook(True, True, 60),
        "nocolor": TextLook(True, False, 60),
        "plain": TextLook(False, False, 60),
    }[kind]
    painted = paint_all((GOLDEN / f"{name}.md").read_text(encoding="utf-8"), look)
    kept = GOLDEN / f"{name}.{kind}.txt"
    readable = painted.replace("\x1b", "␛")
    if os.environ.get("NANOBOT_UPDATE_GOLDEN"):
        kept.write_text(readable, encoding="utf-8")
    assert readable == kept.read_text(encoding="utf-8")


def test_no_painted_line_is_padded_or_cropped() -> None:
    code = "x = " + "'a' + " * 40 + "'end'"
    painted = paint_all(f"- item\n\n```py\n{code}\n```\n", TextLook(True, False, 40))
    assert code in painted
    assert not re.search(r" +(\x1b\[[0-9;]*m)*$", painted, re.MULTILINE)


def test_where_a_link_leads_is_visible() -> None:
    painted = paint_all("See [your bank](https://evil.example) and <https://a.example>.\n", TextLook(True, False, 200))
    assert "your bank (" in painted
    assert painted.count("https://evil.example") == 1
    assert painted.count("https://a.example") == 1
