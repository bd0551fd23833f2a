"""Pages taken apart: what a stranger writes costs no more than its length."""

import time

import pytest

from nanobot.utils.passages import plain_text, split_passages
from tests.tables import table

HOSTILE = ("*a", "_a ", "![", "![](", "[a](", " ", "|--", "- ", "`", "*", "[a", "# ", " #")


@pytest.mark.parametrize("piece", HOSTILE)
def test_a_line_made_to_be_slow_is_read_in_time(piece: str) -> None:
    """Processor time of this process alone; a pattern that begins anew at every mark takes minutes here."""
    start = time.process_time()
    for line in (piece * 40_000, f"# {piece * 40_000}x", f"{piece * 40_000}x"):
        split_passages(line)
    assert time.process_time() - start < 10


@table(
    "markdown plain",
    ("**bold** and *slanted* and ***both***", "bold and slanted and both"),
    ("**bold with *slanted* words**", "bold with slanted words"),
    ("_a_ __b__ snake_case _some snake_case here_", "a b snake_case some snake_case here"),
    ("2 * 3 * 4, a*b*c", "2 * 3 * 4, a*b*c"),
    ("![a [b] c](x(1).png) [d [e]](http://f.test/(g))", "d [e]"),
)
def test_the_marks_of_emphasis_links_and_pictures_are_taken_away(markdown: str, plain: str) -> None:
    assert plain_text(markdown) == plain


def test_a_heading_loses_its_closing_marks() -> None:
    (one,) = split_passages("## Tides ##\n\nTwice a day.")
    assert one.heading == "Tides"
