"""The extractor on whole pages: structure kept, furniture gone, nothing lost, hostile shapes bounded."""

from pathlib import Path

from nanobot.web.extract.html import extract
from nanobot.web.extract.page import Extracted
from tests.fakes.patience import in_proportion
from tests.tables import table

GOLDEN = Path(__file__).parents[2] / "golden" / "extract"
PROSE = (
    "The harbour was rebuilt after the flood of 1953, and its new gates have held back every storm surge since then. "
)
#: What begins a choice of an order, of a search or of who reads, and no offer.
SORTS = ("p>", "form>", "form method=GET><button>", "form role=search><button>", "form><button><input type=email>")


def read_article(html: str, url: str = "") -> Extracted:
    return extract(html, url)


def page(body: str, head: str = "<title>Gates</title>") -> str:
    return f"<html><head>{head}</head><body>{body}</body></html>"


def article(inner: str) -> str:
    return page(f'<div class="nav"><a href="/">Home</a></div><article><h1>Gates</h1>{inner}</article>')


def test_A16_a_reference_page_keeps_its_structure() -> None:
    html = (GOLDEN / "reference.html").read_text(encoding="utf-8")
    found = read_article(html, "https://ex.org/guide/")
    assert found.how == "reference"
    assert found.text == (GOLDEN / "reference.md").read_text(encoding="utf-8").rstrip("\n")


def test_navigation_promotion_and_comments_are_left_out() -> None:
    html = page(
        '<nav><a href="/a">World</a> <a href="/b">Sport</a></nav><main><h1>Gates</h1>'
        + f"<p>{PROSE}</p>" * 4
        + '<form><input type="hidden" name="to"><input type="submit"><p>We look for a mate on a tug.</p></form>'
        + "".join(f"<{sort}<select><option>Newest<option>Oldest</select></form><option>Newest" for sort in SORTS)
        + '<div class="newsletter-signup"><p>Get the best of our reports in your mailbox every morning, free.</p></div>'
        + '<p class="byline">By A. Writer</p><h3>Related stories</h3><p><a href="/c">Another flood</a></p>'
        + '</main><section id="comments"><p>I was there when it happened and it was nothing like that.</p></section>'
        + "<footer>© 2024 Example Media. All rights reserved.</footer>"
    )
    text = read_article(html).text
    assert text.count("harbour was rebuilt") == 4
    for gone in ("World", "mailbox", "Another flood", "I was there", "All rights", "A. Writer", "on a tug", "Newest"):
        assert gone not in text


def test_never_empty_where_text_is_visible() -> None:
    for body in ("<p>Open from 9 to 5.</p>", "<form><p>" + PROSE * 3 + "</p></form>", "plain words &amp; entities"):
        assert read_article(page(body)).text.strip(), body
    found = read_article(page("<p>Open from 9 to 5.</p>"))
    assert (found.text, found.how) == ("Open from 9 to 5.", "visible")
    named = "".join(f"<div class='{name}'><p>{PROSE}</p></div>" for name in ("share", "ad", "menu", "promo", "bio"))
    assert read_article(page(named)).text.count("harbour") == 5
    assert read_article(page("<script>var a = 'words in a script';</script>")).how == ""


def test_A17_words_are_not_glued_and_scripts_leave_nothing() -> None:
    html = article(
        f"<p>alpha</p><p>beta</p><script>\nvar secret = 1;\nx()\n</script><p>{PROSE}</p>" + f"<p>{PROSE}</p>" * 3
    )
    text = read_article(html).text
    assert "alpha\n\nbeta" in text
    assert "secret" not in text


def test_metadata_comes_from_the_page() -> None:
    head = (
        '<title>T | S</title><meta property="og:title" content="The gates"><meta property="og:site_name" content="Ex">'
        '<script type="application/ld+json">{"@graph": [{"@type": "NewsArticle", "datePublished": "2024-05-06",'
        '"author": [{"name": "A. Writer"}]}]}</script>'
    )
    found = read_article(page(f"<article><p>{PROSE}</p></article>", head), "https://www.ex.org/1")
    assert (found.title, found.site, found.author, found.published) == ("The gates", "Ex", "A. Writer", "2024-05-06")


@table(
    "before unit times after",
    ("", "<div>", 50_000, PROSE),
    ("", "<blockquote>", 1_000, PROSE),
    ("", "<table><tr><td>", 300, PROSE),
    ("", "<", 75_000, ""),
    ("", "<br>", 25_000, PROSE),
    ("", "<span>a</span>", 15_000, ""),
    ("", "\ud800\x00", 1, PROSE),
    ("<ul>", "<li>", 500, PROSE),
    ("<ol>", f"<li>{PROSE}</li>", 750, "</ol>"),
    ("<p>", "x", 500_000, ""),
    ("<div>" * 1_500, f"<p>{PROSE}</p>", 750, ""),
    ("<h1>", '<a class="anchor-link" href="#x">t</a>', 5_000, f"</h1>{PROSE}"),
    ("<p>", "x<sup>2</sup> ", 15_000, ""),
    ("", "<div aria-label='x'>", 1_900, PROSE),
    ("<div>", "<span>x</span><b>Y</b>", 10_000, ""),
    ("<table>", "<tr><td>alpha<td>12", 15_000, ""),
    ("", "<div hidden id=S:1><template id=B:2></template>a</div>", 1_900, PROSE),
    ("", "<form><div><p>ab", 900, ""),
    ("", f"<div><p>{PROSE}</p>", 1_900, "<pre>x = 1; y = 2</pre>" * 900),
    ids=(
        "div quote table angle br span surrogate li ol line deep a sup labels fields cells streams forms ladder".split()
    ),
)
def test_hostile_shapes_take_time_in_proportion_and_never_raise(before: str, unit: str, times: int, after: str) -> None:
    def read(size: int) -> None:
        read_article(page(f"{before}{unit * size}{after}"))

    assert in_proportion(read, max(1, times // 4), times, most=10), "the worker would be killed"
