"""The pages of a run: per session, bounded, for a while."""

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


def test_the_oldest_pages_leave_first_by_number_and_by_size() -> None:
    store: PageStore[int] = PageStore()
    for number in range(cache.PAGES + 1):
        store.put("a", (str(number),), number, 1)
    assert store.get("a", ("0",)) is None
    assert store.get("a", ("1",)) == 1
    store.put("a", ("big",), -1, cache.CHARS)
    assert store.get("a", ("2",)) is None
    assert store.get("a", ("big",)) == -1
