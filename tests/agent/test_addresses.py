"""Which addresses count as named in a session, and which the model has made up."""

import json
import tracemalloc

import pytest

from nanobot.agent.addresses import KnownAddresses
from nanobot.messages import AssistantMessage, Message, Source, Text, ToolCall, ToolMessage, UserMessage
from nanobot.results import SourceBook
from tests.tables import table


def said(text: str) -> UserMessage:
    return UserMessage((Text(text),))


def called(text: str, /, *urls: str, tool: str = "web_fetch", error: str = "", **arguments: object) -> list[Message]:
    call = ToolCall("c1", tool, json.dumps(arguments))
    sources = tuple(Source(number, url) for number, url in enumerate(urls, 1))
    return [AssistantMessage((call,)), ToolMessage("c1", tool, (Text(text),), error, True, sources)]


def known(*messages: Message, book: SourceBook | None = None) -> KnownAddresses:
    addresses = KnownAddresses()
    addresses.take(messages, book)
    return addresses


@table(
    "text url",
    ("read https://a.example/x?y=1#z.", "https://a.example/x?y=1"),
    ("read https://a.example/x/", "http://www.A.example:80/x"),
    ("read https://a.example/x%20y", "https://a.example/x y"),
    ("read https://a.example/%C3%A4(b)?q=%7e", "https://a.example/ä%28b%29?q=~"),
    ("read https://a.example/x", "https://a.example/./y/../x"),
    ("read https://a.example/docs/x?y=1", "https://a.example/docs/x"),
    ("read https://a.example/docs/x?y=1", "https://a.example/docs"),
    ("read https://a.example/docs/x?y=1", "https://a.example"),
    ("what is new on python.org?", "https://www.python.org/"),
    ("what stands in heise.de/news/42.html, please", "https://heise.de/news/42.html"),
    ("看https://a.example/wiki/北京。", "https://a.example/wiki/北京"),
)
def test_what_a_person_wrote_is_named_and_so_is_what_says_less(text: str, url: str) -> None:
    assert url in known(said(text))


@table(
    "url",
    "https://a.example/docs/x?y=2",
    "https://a.example/docs/x?y=1&z=secret",
    "https://a.example/docs/x/secret",
    "https://a.example/docs/x2",
    "https://a.example/doc",
    "https://secret.a.example/docs/x?y=1",
    "https://secret@a.example/docs/x?y=1",
    "https://a.example:8443/docs/x?y=1",
    "https://b.example/",
    "https://a.example/docs/../secret",
    "https://a.example/secret/%2e%2e/docs/x?y=1",
    "https://a.example/docs/secret%2F..%2Fx?y=1",
    "https://a.example/secret//../docs/x?y=1",
    "https://a.example/secret//..",
    "https://a.example/docs//x?y=1",
    "https://a.example/%64ocs/x?y=1",
    "https://a.example/docs/x?%79=1",
    "ftp://a.example/docs",
    "nonsense",
)
def test_what_says_more_or_something_else_is_made_up(url: str) -> None:
    assert url not in known(said("read https://a.example/docs/x?y=1"))


def test_hits_and_links_of_pages_are_named_also_after_a_restart() -> None:
    page = "[1] A\nurl: https://a.example/\n\nSee [this](https://b.example/c_(d)?e=1) and <https://f.example/g>, too."
    addresses = known(
        *called("Results for: x", "https://hit.example/1", tool="web_search", query="x"),
        *called(page, "https://a.example/", url="https://a.example/"),
    )
    for url in ("https://hit.example/1", "https://b.example/c_(d)?e=1", "https://f.example/g", "https://a.example"):
        assert url in addresses


def test_links_beyond_what_was_shown_of_a_page_are_named() -> None:
    book = SourceBook()
    book.add("https://a.example/", read=True, text="far below: https://b.example/deep")
    assert "https://b.example/deep" in known(*called("the top", "https://a.example/", url="x"), book=book)


@table(
    "messages",
    called("Results for: https://evil.example/?k=1", "https://hit.example", tool="web_search", query="anything"),
    called("Nothing speaks of https://evil.example/?k=1", "https://a.example/", url="https://a.example/", find="x"),
    called("The answer: https://evil.example/?k=1", "https://a.example/", prompt="say https://evil.example/?k=1"),
    called("you said https://evil.example/?k=1", tool="mcp_x_echo", text="https://evil.example/?k=1"),
    called("Error: https://evil.example/?k=1 is not there", error="http_status", url="https://evil.example/?k=1"),
    [AssistantMessage((Text("I will read https://evil.example/?k=1"),))],
    [UserMessage((Text("https://evil.example/?k=1"),), kind="notice")],
)
def test_the_models_own_words_name_nothing_when_they_come_back(messages: list[Message]) -> None:
    assert "https://evil.example/?k=1" not in known(*messages)


def test_what_an_mcp_server_gives_is_named() -> None:
    assert "https://b.example/1" in known(*called("- https://b.example/1", tool="mcp_exa_search", query="x"))


@pytest.mark.parametrize("tail", ["b/" * 30_000, "b)/" * 20_000, " http://a.example/c" * 30_000])
def test_an_endless_address_of_a_page_takes_neither_time_nor_memory(tail: str) -> None:
    book = SourceBook()
    book.add("https://a.example/", read=True, text=f"http://b.example/{tail}")
    tracemalloc.start()
    try:
        assert "http://b.example/x" not in known(*called("(shown in part)", "https://a.example/"), book=book)
        assert tracemalloc.get_traced_memory()[1] < 30_000_000
    finally:
        tracemalloc.stop()


def test_of_large_results_little_is_kept_and_each_of_their_links_is_named() -> None:
    addresses = KnownAddresses()
    tracemalloc.start()
    try:
        for number in range(100):
            addresses.take(called(f"https://h{number}.example/x " + "and so on " * 6_000))
        assert tracemalloc.get_traced_memory()[0] < 500_000, "of 6 MB"
    finally:
        tracemalloc.stop()
    assert {number for number in range(100) if f"https://h{number}.example/x" in addresses} == set(range(100))


def test_the_memory_is_bounded_and_the_oldest_goes() -> None:
    addresses = known(said("https://old.example/first"))
    for number in range(210):
        addresses.hear(" ".join(f"https://h{number}.example/{item}" for item in range(100)))
    assert "https://old.example/first" not in addresses
    assert "https://h209.example/99" in addresses
