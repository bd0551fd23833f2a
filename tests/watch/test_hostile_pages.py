"""A page that is made to be slow to compare: what a watch costs is bounded."""

import time

import pytest

from nanobot.watch.compare import differences
from nanobot.watch.target import blocks_of, number_of

PAGES = {
    "digits": ("1" * 119_000, "2" * 119_000),
    "spaced digits": ("1 " * 59_000, "2 " * 59_000),
    "amounts": ("1,111" * 23_000, "2.222" * 23_000),
    "short lines": ("a\nb\n" * 30_000, "c\nd\n" * 30_000),
}


@pytest.mark.parametrize("page", PAGES)
def test_a_page_made_to_be_slow_is_compared_in_time(page: str) -> None:
    """Processor time of this process alone; without bounds each of these takes minutes."""
    start = time.process_time()
    old, new = (blocks_of(f"price\n{text}") for text in PAGES[page])
    assert differences(old, new)
    number_of(new, "price")
    assert time.process_time() - start < 20
