"""What entries of a feed say of themselves keeps its links, and odd HTML is bounded."""

from nanobot.web.extract.feed import extract_xml

RSS = "<rss><channel><title>News</title><item><title>One</title><description>{}</description></item></channel></rss>"


def read(html: str) -> str:
    source = RSS.format(html.replace("&", "&amp;").replace("<", "&lt;"))
    return extract_xml(source.encode(), source).text


def test_the_summary_of_an_entry_keeps_links_and_loses_scripts() -> None:
    text = read('<p>See <a href="https://ex.org/a">the plan</a> and <b>act</b>.</p><script>var secret = 1;</script>')
    assert "See [the plan](https://ex.org/a) and act." in text
    assert "secret" not in text


def test_a_relative_link_in_a_summary_starts_from_its_entry() -> None:
    html = '<h2>Today</h2><p>All of it is in <a class=x href="/b">the minutes</a>.</p>'
    source = RSS.format("<![CDATA[" + html + "]]></description><link>https://ex.org/a</link><description>")
    text = extract_xml(source.encode(), source).text
    assert "Today All of it is in [the minutes](https://ex.org/b)." in text


def test_odd_summaries_are_bounded() -> None:
    for html in (
        "<blockquote>" * 1_500 + "deep",
        "<blockquote>" * 5_000 + "deep",
        "<" * 50_000,
        "<p>" + "x" * 100_000,
        "<script>never closed",
        "<a href='http://[::1'>x</a>" + "<a href=" * 5_000,
        ("<a " + "href=" * 39 + "x" * 2_000) * 10,
    ):
        assert len(read(html)) < 1_000


def test_an_entry_keeps_its_files_its_permanent_link_and_text_in_markup_of_its_own() -> None:
    rss = (
        "<rss xmlns:m='http://search.yahoo.com/mrss/'><channel><item><title>Film</title><guid>https://ex.org/1</guid>"
        "<enclosure url='/f.mp4'/><m:group><m:description>Of the tide.</m:description></m:group></item>"
        "<item><guid isPermaLink='false'>https://ex.org/no</guid><title>Two</title></item></channel></rss>"
    )
    atom = (
        "<feed><entry><title type='html'>A &lt;b&gt;bold&lt;/b&gt; plan</title><link rel='enclosure' href='/p.pdf'/>"
        "<content type='xhtml'><div><p>One.</p><p>See <a href='/m'>the map</a>.</p></div></content></entry></feed>"
    )
    film, plan = (extract_xml(source.encode(), source, "https://ex.org/feed").text for source in (rss, atom))
    assert film == "- [Film](https://ex.org/1)\n  Of the tide.\n  [file](https://ex.org/f.mp4)\n- Two"
    assert plan == "- A bold plan\n  One. See [the map](https://ex.org/m).\n  [file](https://ex.org/p.pdf)"
