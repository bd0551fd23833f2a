"""The quality gate: which pages are worth another reading, and which URLs stay at home."""

from nanobot.web.extract.html import extract
from nanobot.web.extract.page import Extracted
from nanobot.web.fetch.local import doubts
from nanobot.web.fetch.page import keeps_home
from tests.tables import table

SCRIPT = f"<script>{'var a = 1; ' * 300}</script>"
PROSE = "The ferry leaves the old pier at nine and comes back with the evening tide. " * 8


@table(
    "body reason",
    (f"<p>One moment.</p>{SCRIPT}", "much script"),
    ("<h1>Tides</h1><div id=root><p>Loading…</p></div><script src=a.js></script>", "its scripts fill in"),
    ("<p>Tides</p><app-root></app-root><script src=a.js></script>", "its scripts fill in"),
    ("<p>Menu</p><script src=a.js></script><noscript>Please enable JavaScript.</noscript>", "asks for JavaScript"),
    ('<p><a href="/very/long/address">a</a> <a href="/another/one">b</a></p><script src=a></script>', "but links"),
    ('<script type="application/ld+json">{"articleBody": "High water came at nine."}</script>', "data in the page"),
)
def test_a_page_that_is_probably_not_all_there_is_doubted(body: str, reason: str) -> None:
    html = f"<html><body>{body}</body></html>"
    assert any(reason in doubt for doubt in doubts(extract(html, "https://ex.org/"), html))


def test_unreadable_characters_are_a_reason() -> None:
    assert doubts(Extracted("", "a\ufffd" * 50, "raw"), "") == ("50% of the characters could not be read",)


@table(
    "body",
    f"<p>{PROSE}</p>{SCRIPT}",
    "<p>We open at nine and close at five.</p>",
    f"<p>{PROSE}</p><noscript>Please enable JavaScript to comment.</noscript><script></script>",
    "<ul>" + "".join(f'<li><a href="/{n}">Entry number {n} of the list</a></li>' for n in range(40)) + "</ul>" + SCRIPT,
    ids=["article", "short", "noscript", "links"],
)
def test_ordinary_pages_raise_no_doubt(body: str) -> None:
    html = f"<html><body>{body}</body></html>"
    assert doubts(extract(html, "https://ex.org/"), html) == ()


@table(
    "ending home",
    ("?q=tide+table&page=2", False),
    ("?v=dQw4w9WgXcQ&t=30s", False),
    ("?id=1234567", False),
    ("?monkey=1&passage=2&author=x", False),
    ("?token=1", True),
    ("?user_token=1", True),
    ("?clientSecret=1", True),
    ("?p=sk-abcdefghijklmnop1234", True),
    ("#access_token=1", True),
    ("bot123456789:AAExampleExampleExampleExample_1/getUpdates", True),
    ("v1/sk-abcdefghijklmnop1234/models", True),
    ("v1/%73k-abcdefghijklmnop1234/models", True),
    ("services/T012AB3CD/B045EF6GH/a1B2c3D4e5F6g7H8i9J0k1L2", True),
    ("api/webhooks/110022003300/aB3dE5fG7hI9jK1lM3nO5pQ7-rS9tU1vW3xY5zA7", True),
    ("reset-password-token/x9y8z7w6v5u4", True),
    ("repos/ghp_abcdefghijklmnopqrstuvwx/x", True),
    ("wiki/List_of_countries_by_GDP_(nominal)_2024", False),
    ("torvalds/linux/commit/0123456789abcdef0123456789abcdef01234567", False),
    ("blog/10-best-laptops-for-Students-in-2024-and-2025", False),
    ("docs/api/Utf8JsonStreamParserFactory.html", False),
    ("abs/2401.01234v2", False),
    ("tokens/overview-of-tokens", False),
    ("p/3f2504e0-4f89-11d3-9a0c-0305e82c3301", False),
)
def test_a_url_that_carries_a_secret_stays_at_home(ending: str, home: bool) -> None:
    assert bool(keeps_home(f"https://ex.org/{ending}")) is home
