"""The pages of a run: per session, bounded, for a while."""

import pytest

from nanobot.web import cache
from nanobot.web.cache import PageStore


def test_a_page_belongs_to_its_session_and_grows_old() -> None:
    now = 0.0
    store: PageStore[str] = PageStore(fresh=10, clock=lambda: now)
    store.put("a", ("u",), "page", 4)
    assert store.get("a", ("u",)) == "page"
    assert store.get("b", ("u",)) is None
    now = 11.0
    assert store.get("a", ("u",)) is None


@pytest.mark.parametrize("share", [False, True])
def test_the_oldest_pages_leave_first_by_number_and_by_size(share: bool) -> None:
    store: PageStore[int] = PageStore()
    most = cache.PAGES // (1 + share)
    for number in range(most + 1):
        store.put("a", (str(number),), number, 1, share=share)
    assert [store.get(name, ("0",)) for name in "ab"] == [None, None]
    assert [store.get(name, ("1",)) for name in "ab"] == [1, 1 if share else None]
    store.put("a", ("big",), -1, cache.CHARS)
    assert (store.get("a", (str(most),)), store.get("a", ("big",))) == (None, -1)
    store.put("a", ("big",), -2, 1)
    store.put("b", ("next",), 3, cache.CHARS - 1)
    assert (store.get("a", ("big",)), store.get("b", ("next",))) == (-2, 3)


def test_a_page_for_all_is_found_by_each_until_a_newer_one_stands_in_its_place() -> None:
    now = 0.0
    store: PageStore[str] = PageStore(clock=lambda: now)
    store.put("a", ("u",), "for all", 7, share=True)
    now = 5.0
    assert store.look("b", ("u",)) == ("for all", 5.0)
    store.put("b", ("u",), "for b", 5)
    assert (store.get("a", ("u",)), store.get("b", ("u",)), store.get("c", ("u",))) == ("for all", "for b", None)
