"""Which lookups are the same, and what is said about the third."""

import pytest

from nanobot.utils.runtime import external_lookup_signature, forget_external_lookup, repeated_external_lookup_error
from tests.tables import table

REFUSAL = (
    "Error: repeated external lookup blocked. "
    "Use the results you already have to answer, or try a meaningfully different source."
)


def test_N20_the_third_same_lookup_is_refused_with_the_exact_words() -> None:
    seen: dict[str, int] = {}
    answers = [repeated_external_lookup_error("web_search", {"query": "cats"}, seen) for _ in range(4)]
    assert answers == [None, None, REFUSAL, REFUSAL]
    assert repeated_external_lookup_error("web_search", {"query": "dogs"}, seen) is None


def test_N20_the_number_of_repeats_can_be_set() -> None:
    seen: dict[str, int] = {}
    assert repeated_external_lookup_error("web_fetch", {"url": "http://a.b"}, seen, 1) is None
    assert repeated_external_lookup_error("web_fetch", {"url": "http://a.b"}, seen, 1) == REFUSAL


@table(
    "one two",
    ({"query": "A  b"}, {"query": "a b"}),
    ({"query": "Ｃａｆé"}, {"query": " café\n"}),
    ({"query": "STRASSE"}, {"query": "straße"}),
    ({"search_term": "cats"}, {"query": "cats"}),
    ({"q": "cats"}, {"query": "cats"}),
    ({"query": "cats", "count": 5}, {"query": "cats", "limit": 5}),
    ({"query": "cats", "freshness": ""}, {"query": "cats"}),
)
def test_N17_N18_the_same_search_has_one_signature(one: dict[str, object], two: dict[str, object]) -> None:
    assert external_lookup_signature("web_search", one) == external_lookup_signature("web_search", two)


@table(
    "other",
    {"query": "dogs"},
    *({"query": "cats", **filters} for filters in ({"freshness": "day"}, {"limit": 9}, {"country": "DE"})),
    *({"query": "cats", name: ["a.b"]} for name in ("include_domains", "exclude_domains")),
    *({"query": "cats", **filters} for filters in ({"language": "de"}, {"include_content": True})),
)
def test_N17_filters_and_limit_make_another_search(other: dict[str, object]) -> None:
    assert external_lookup_signature("web_search", {"query": "cats"}) != external_lookup_signature("web_search", other)


@table(
    "one two same",
    ("HTTPS://Example.COM:443/a#x", "https://example.com/a", True),
    ("http://example.com", "http://example.com/", True),
    (" https://example.com/a ", "https://example.com/a", True),
    ("https://example.com/A", "https://example.com/a", False),
    ("https://example.com:8443/a", "https://example.com/a", False),
    ("https://example.com/a?utm_source=x", "https://example.com/a", False),
    ("http://[::1]:80/", "http://[::1]/", True),
    ("http://example.com:99999/", "http://example.com:99999/", True),
)
def test_N19_pages_are_the_same_by_their_url(one: str, two: str, same: bool) -> None:
    first, second = (external_lookup_signature("web_fetch", {"url": url}) for url in (one, two))
    assert (first == second) is same


def test_N19_scheme_host_and_usual_port_are_written_in_one_way() -> None:
    same = {"HTTPS://A.b:443/x", "https://a.B/x", "https://a.b/x#part"}
    assert {external_lookup_signature("web_fetch", {"url": url}) for url in same} == {"web_fetch:https://a.b/x"}


def test_N19_another_part_of_a_page_is_another_lookup() -> None:
    url = "https://example.com/a#s"
    calls: list[dict[str, object]] = [{"url": url}, {"url": url, "offset": 100}, {"url": url, "find": "x"}]
    signatures = {external_lookup_signature("web_fetch", call) for call in calls}
    assert len(signatures) == 3
    assert sum("#s" in str(signature) for signature in signatures) == 1


def test_N20_other_spellings_of_a_page_are_the_same_lookup() -> None:
    url = "https://example.com/a"
    calls: list[dict[str, object]] = [{key: url, "section": "x"} for key in ("url", "URL", "uri", "link", "href")]
    assert len({external_lookup_signature("web_fetch", call) for call in calls}) == 1
    assert external_lookup_signature("web_fetch", {"url": url}) != external_lookup_signature("web_fetch", calls[0])


@pytest.mark.parametrize("tool", ["web_search", "web_fetch", "read_file"])
def test_N22_a_call_without_a_target_has_no_signature(tool: str) -> None:
    seen: dict[str, int] = {}
    for arguments in ({}, {"query": " ", "url": ""}, {"query": None, "url": None}):
        assert external_lookup_signature(tool, arguments) is None
        assert [repeated_external_lookup_error(tool, arguments, seen) for _ in range(3)] == [None] * 3
    assert seen == {}


def test_N22_an_invalid_call_can_be_taken_back() -> None:
    seen: dict[str, int] = {}
    bad = {"query": "cats", "limit": "many"}
    for _ in range(5):
        assert repeated_external_lookup_error("web_search", bad, seen) is None
        forget_external_lookup("web_search", bad, seen)
    forget_external_lookup("web_search", bad, seen)
    assert set(seen.values()) == {0}


def test_N17_one_query_or_page_in_other_terms_is_looked_up_four_times() -> None:
    seen: dict[str, int] = {}
    searches = [{"query": "Cats" if number % 2 else "cats ", "limit": number} for number in range(1, 13)]
    answers = [repeated_external_lookup_error("web_search", one, seen) for one in searches]
    assert answers == [None] * 4 + [REFUSAL] * 8
    pages = [{"url": f"http://A.b/page#{number}", "find": f"word {number}"} for number in range(6)]
    assert [repeated_external_lookup_error("web_fetch", one, seen) for one in pages] == [None] * 4 + [REFUSAL] * 2
    found = [{"query": "cats", "numResults": number} for number in range(6)]
    assert [repeated_external_lookup_error("mcp_x_search", one, seen) for one in found] == [None] * 4 + [REFUSAL] * 2
    often = [repeated_external_lookup_error("web_search", {"query": "dogs"}, seen, 6) for _ in range(7)]
    assert often == [None] * 6 + [REFUSAL]
