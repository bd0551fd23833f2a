"""Sharing one budget among the page texts of a list, and reading an engine's words."""

from hypothesis import given
from hypothesis import strategies as st

from nanobot.utils.text import shares
from nanobot.web.search import payload
from nanobot.web.search.api import join
from tests.tables import table


@given(st.lists(st.integers(0, 60_000), max_size=20), st.integers(0, 50_000))
def test_S19_nobody_gets_more_than_wanted_nothing_is_left_over_and_the_long_ones_share_alike(
    sizes: list[int], budget: int
) -> None:
    room = shares(sizes, budget)
    assert all(0 <= share <= size for share, size in zip(room, sizes, strict=True))
    cut = [share for share, size in zip(room, sizes, strict=True) if share < size]
    assert sum(room) == min(budget, sum(sizes)) or (cut and budget - sum(room) < len(sizes))
    if cut:
        assert max(cut) - min(cut) <= 1
        assert min(cut) + 1 >= max(room)


@table(
    "given_date day",
    ("2026-05-06T10:00:00Z", "2026-05-06"),
    ("2026-05-06", "2026-05-06"),
    ("Wed, 06 May 2026 10:00:00 GMT", "2026-05-06"),
    (1778061600, "2026-05-06"),
    ("3 days ago", ""),
    ("2026-99-01", ""),
    (None, ""),
    (True, ""),
)
def test_days_are_read_from_what_engines_write(given_date: object, day: str) -> None:
    assert payload.day(given_date) == day


@table(
    "raw clean",
    ("a <b>b</b>&amp;c", "a b&c"),
    ("1 < 2 and 3 > 2", "1 < 2 and 3 > 2"),
    ("<script>alert(1)</script>ok", "ok"),
    ("The <script> tag, <svg> in CSS", "The tag, in CSS"),
    ("How <!-- is read", "How <!-- is read"),
    ("&lt;div&gt;", "<div>"),
    ("a\x1b[31mb\u202ec\n d", "abc d"),
    (7, ""),
)
def test_titles_and_snippets_are_plain_text_on_one_line(raw: object, clean: str) -> None:
    assert payload.plain(raw) == clean


@given(
    st.recursive(
        st.none() | st.booleans() | st.floats() | st.text(), lambda x: st.lists(x) | st.dictionaries(st.text(), x)
    )
)
def test_S11_no_json_makes_the_reader_raise_or_invent_an_address(value: object) -> None:
    hit = payload.read_hit({"url": value, "date": value, "score": value})
    assert hit is None or hit.url.startswith(("http://", "https://"))


@table(
    "words short",
    ("[Errno -2] Name or service not known", "its name was not found"),
    ("dns error: failed to lookup address", "its name was not found"),
    ("[Errno 111] Connection refused", "the connection was refused"),
    ("[SSL: CERTIFICATE_VERIFY_FAILED] self-signed", "its certificate is not trusted"),
    ("tunnel error: 502", "the proxy refused"),
    ("something else", "something else"),
)
def test_S16_why_a_host_was_not_reached_is_said_in_a_few_words(words: str, short: str) -> None:
    assert payload.short_reason(words) == short


@table(
    "base path url",
    ("https://api.example", "/res/v1/search", "https://api.example/res/v1/search"),
    ("https://gate.example/res/v1/", "/res/v1/search", "https://gate.example/res/v1/search"),
    ("https://gate.example/v2", "/v2/search", "https://gate.example/v2/search"),
    ("https://gate.example/search", "/search", "https://gate.example/search"),
    ("https://gate.example/brave", "/res/v1/search", "https://gate.example/brave/res/v1/search"),
)
def test_a_base_url_may_hold_none_some_or_all_of_the_path(base: str, path: str, url: str) -> None:
    assert join(base, path) == url
