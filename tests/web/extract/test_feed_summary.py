"""What entries of a feed say of themselves keeps its links, and odd HTML is bounded."""

from nanobot.web.extract.feed import extract_xml

RSS = "<rss><channel><title>News</title><item><title>One</title><description>{}</description></item></channel></rss>"


def read(html: str) -> str:
    source = RSS.format(html.replace("&", "&amp;").replace("<", "&lt;"))
    return extract_xml(source.encode(), source).text


def test_the_summary_of_an_entry_keeps_links_and_loses_scripts() -> None:
    text = read('<p>See <a href="https://ex.org/a">the plan</a> and <b>act</b>.</p><script>var secret = 1;</script>')
    assert "See [the plan](https://ex.org/a) and **act**." in text
    assert "secret" not in text


def test_a_relative_link_in_a_summary_starts_from_its_entry() -> None:
    html = '<h2>Today</h2><p>All of it is in <a href="/b">the minutes</a>.</p><img src="/i.png" alt="a gate">'
    source = RSS.format("<![CDATA[" + html + "]]></description><link>https://ex.org/a</link><description>")
    text = extract_xml(source.encode(), source).text
    assert "Today All of it is in [the minutes](https://ex.org/b)." in text
    assert "gate" not in text


def test_odd_summaries_are_bounded() -> None:
    for html in (
        "<blockquote>" * 1_500 + "deep",
        "<blockquote>" * 5_000 + "deep",
        "<" * 50_000,
        "<p>" + "x" * 100_000,
        "<script>never closed",
    ):
        assert len(read(html)) < 1_000
