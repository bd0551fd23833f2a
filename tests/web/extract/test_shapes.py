"""Small shapes of HTML and the Markdown that each becomes."""

import pytest

from nanobot.web.extract.html import extract
from nanobot.web.extract.page import Keep
from tests.tables import table

BASE = "https://ex.org/a/b"
PROSE = (
    "The harbour was rebuilt after the flood of 1953, and its new gates have held back every storm surge since then. "
)
TABLE = "<table><tr><th>Year</th><th>Ships</th></tr><tr><td>1911</td><td>40</td></tr></table>"

#: name → (HTML between two paragraphs, the Markdown between them).
SHAPES: dict[str, tuple[str, str]] = {
    "heading 2": ("<h2>On <em>boats</em></h2><p>Text.</p>", "## On *boats*\n\nText."),
    "heading 6": ("<h6>Deep</h6><p>Text.</p>", "###### Deep\n\nText."),
    "heading in a link": (
        '<h3>The old <a href="/x">map</a></h3><p>T.</p>',
        "### The old [map](https://ex.org/x)\n\nT.",
    ),
    "paragraphs": ("<p>a</p><p>b</p>", "a\n\nb"),
    "line break": ("<p>a<br>b</p>", "a\nb"),
    "two line breaks": ("<div>aa<br><br>bb</div>", "aa\n\nbb"),
    "bold and italic": ("<p><b>a</b> <em>b</em> <strong><i>c</i></strong></p>", "**a** *b* ***c***"),
    "struck": ("<p><del>old</del> new</p>", "~~old~~ new"),
    "inline code": ("<p>Run <code>a `b` c</code> now</p>", "Run ``a `b` c`` now"),
    "keyboard": ("<p>Press <kbd>q</kbd></p>", "Press `q`"),
    "list": ("<ul><li>one</li><li>two</li></ul>", "- one\n- two"),
    "numbered list": ("<ol><li>one</li><li>two</li></ol>", "1. one\n2. two"),
    "list from seven": ('<ol start="7"><li>g</li><li>h</li></ol>', "7. g\n8. h"),
    "nested list": ("<ul><li>a<ul><li>b</li></ul></li><li>c</li></ul>", "- a\n  - b\n- c"),
    "numbers in a list": ("<ul><li>a<ol><li>x</li><li>y</li></ol></li></ul>", "- a\n  1. x\n  2. y"),
    "link": (
        '<p>All came to see <a href="c?d=1#e">the plan</a>.</p>',
        "All came to see [the plan](https://ex.org/a/c?d=1#e).",
    ),
    "link in the page": ('<p>All of them went <a href="#top">up there</a></p>', "All of them went up there"),
    "script link": ('<p>And so they did <a href="javascript:x()">press</a></p>', "And so they did press"),
    "mail": ('<p>Then you may <a href="mailto:a@ex.org">write</a></p>', "Then you may [write](mailto:a@ex.org)"),
    "image": ('<p><img src="/i.png" alt="a gate"></p>', "![a gate](https://ex.org/i.png)"),
    "image whose link says what it shows": (
        '<p><a href="/g" title="a gate"><img src="/i.png" alt=""></a></p>',
        "[![a gate](https://ex.org/i.png)](https://ex.org/g)",
    ),
    "result of a sum": ("<p>It holds <output>8.2 t</output> now</p>", "It holds 8.2 t now"),
    "image without words": ('<p>a<img src="/i.png" alt="">b</p>', "ab"),
    "linked image": (
        '<p><a href="/g"><img src="/i.png" alt="gate"></a></p>',
        "[![gate](https://ex.org/i.png)](https://ex.org/g)",
    ),
    "code": ("<pre><code>a\n  b\n</code></pre>", "```\na\n  b\n```"),
    "code with language": ('<pre><code class="language-go">x := 1</code></pre>', "```go\nx := 1\n```"),
    "code with a language and a brush": ('<pre class="brush: js notranslate">x = 1</pre>', "```js\nx = 1\n```"),
    "code of an old page": ("<xmp>open()\n  close()</xmp>", "```\nopen()\n  close()\n```"),
    "code with a fence": ("<pre>```\nx\n```</pre>", "````\n```\nx\n```\n````"),
    "highlighted code": (
        '<div class="highlight-python"><pre><span class="k">def</span> f(): ...</pre></div>',
        "```python\ndef f(): ...\n```",
    ),
    "code with a style of its own for a language": (
        "<pre class='highlight go'>x</pre><div class='highlight highlight-source-go'><pre class=wide>y</pre></div>",
        "```go\nx\n```\n\n```go\ny\n```",
    ),
    "a change of code in a table": (
        "<table><tr><td data-line-number=7><td>def f():<tr><td><td><i data-code-marker='+'>  x()</i></table>",
        "```\ndef f():\n+  x()\n```",
    ),
    "code in a list": ("<ul><li>run<pre>make\n  all</pre></li></ul>", "- run\n\n  ```\n  make\n    all\n  ```"),
    "quote": ("<blockquote><p>a</p><p>b</p></blockquote>", "> a\n>\n> b"),
    "quote in a quote": ("<blockquote>a<blockquote>b</blockquote></blockquote>", "> a\n> >\n> > b"),
    "table": (TABLE, "| Year | Ships |\n| --- | --- |\n| 1911 | 40 |"),
    "table without a head": (
        "<table><tr><td>a</td><td>b</td></tr><tr><td>c</td><td>d|e</td></tr></table>",
        "| a | b |\n| --- | --- |\n| c | d\\|e |",
    ),
    "parts of a row": (
        "<div><time>14:02</time><span>A 5</span><span>sea</span><span>3</span></div><p><b>(1)</b><span>Go.</span></p>",
        "14:02 A 5 sea 3\n\n**(1)** Go.",
    ),
    "pieces of a word": (
        (
            "<p><span>Tur</span><span>bine</span></p>"
            "<div><i>a</i><b class=d>1</b><b class=d>9</b><b class=d>4</b></div>"
            "<div><span>l’</span><span>art</span></div><div><span>95'</span><span>88'</span></div>"
        ),
        "Turbine\n\n*a***194**\n\nl’art\n\n95' 88'",
    ),
    "one word behind a button": (
        "<button aria-controls=a>Is it free?</button><div id=a hidden>Yes.</div>",
        "Is it free?\n\nYes.",
    ),
    "what asks behind a button": (
        "<button aria-controls=a>Log in</button><div id=a hidden>Name <input></div>",
        "Log in",
    ),
    "buttons in a table": (
        "<table><tr><th>Gate</th><th>Since</th></tr><tr><td>East</td><td><button>1911</button></td></tr></table>",
        "| Gate | Since |\n| --- | --- |\n| East | 1911 |",
    ),
    "layout table": ('<table role="presentation"><tr><td><p>a</p></td><td><p>b</p></td></tr></table>', "a\n\nb"),
    "rule": ("<p>a</p><hr><p>b</p>", "a\n\n---\n\nb"),
    "definition list": ("<dl><dt>tide</dt><dd>the rise of the sea</dd></dl>", "tide\n\nthe rise of the sea"),
    "hidden": ('<p>a</p><p hidden>x</p><p style="display: none">y</p><p>z <i aria-hidden="true">v</i></p>', "a\n\nz"),
    "script and style": ("<p>a</p><script>\nvar x;\n</script><style>p{}</style><p>b</p>", "a\n\nb"),
    "entities": ("<p>1 &lt; 2 &amp;amp; caf&eacute;</p>", "1 < 2 &amp; café"),
    "a tag as text": ("<p>the &lt;div&gt; element</p>", "the \\<div> element"),
    "blanks": ("<p>  a \n\t b&nbsp;c </p>", "a b c"),
    "link over two lines": (
        '<p>It is <a href="/x">said<br>here</a>, all say.</p>',
        "It is [said here](https://ex.org/x), all say.",
    ),
    "list between items": ("<ul><li>a</li><ul><li>b</li></ul><li>c</li></ul>", "- a\n- b\n- c"),
    "list in letters": ('<ol type="a"><li>x<ul><li>y</li></ul></li><li>z</li></ol>', "- a. x\n  - y\n- b. z"),
    "list in Roman numbers": ('<ol class="upperroman" start="4"><li>x</li><li>y</li></ol>', "- IV. x\n- V. y"),
    "list that counts down": ("<ol reversed><li>x</li><li>y</li></ol>", "2. x\n1. y"),
    "list of tasks": (
        '<ul><li><input type="checkbox" checked> done</li><li><input type="checkbox"> open</li></ul>',
        "- [x] done\n- [ ] open",
    ),
    "head of two rows": (
        (
            "<table><tr><th rowspan=2>Port</th><th colspan=2>Height</th><th rowspan=2>Lit</th></tr>"
            "<tr><th>m</th><th>ft</th></tr><tr><td>Ost</td><td>31</td><td>102</td><td>1871</td></tr></table>"
        ),
        "| Port | Height |  | Lit |\n| --- | --- | --- | --- |\n|  | m | ft |  |\n| Ost | 31 | 102 | 1871 |",
    ),
    "terms that end with a colon": ("<p><b>Ada:</b><span>Welcome.</span></p>", "**Ada:** Welcome."),
    "list in a cell": (
        "<table><tr><th>Dock</th><td><ul><li>Ada </li><li>Bo</li></ul><hr></td></tr><tr><td>c</td><td>d</td></table>",
        "| Dock | Ada; Bo |\n| --- | --- |\n| c | d |",
    ),
    "a head that is repeated": (
        "<table><tr><th>a</th><th>b</th></tr><tr><td>x</td><td>3</td></tr><tr><th>a</th><th>b</th></tr></table>",
        "| a | b |\n| --- | --- |\n| x | 3 |",
    ),
    "number of a note": (
        '<p>In 1961<sup><a href="#n">2</a></sup> and <a href="#m"><sup>*</sup></a> it held.</p>',
        "In 1961[2] and [*] it held.",
    ),
    "power of a number": ("<p>2<sup>n</sup> is no 2<sup>e</sup>, it says</p>", "2^n is no 2e, it says"),
    "ruby": ("<p>It is <ruby>漢<rt>kan</rt>字<rt>ji</rt></ruby> there.</p>", "It is 漢(kan)字(ji) there."),
    "button in a sentence": ("<p>Press <button>Open</button> now.</p>", "Press Open now."),
    "lines of code as divisions": ("<pre><div>open()</div><div>close()</div></pre>", "```\nopen()\nclose()\n```"),
    "numbers of lines": (
        "<table><tr><td class=linenos><pre>1\n2</pre></td><td><pre>open()\nclose()</pre></td></tr></table>",
        "```\nopen()\nclose()\n```",
    ),
    "frame with a page of its own": ('<iframe srcdoc="&lt;ul&gt;&lt;li&gt;one&lt;/ul&gt;"></iframe>', "- one"),
    "frame with a page from elsewhere": (
        '<iframe data-src="https://v.example/1"></iframe>',
        "![iframe](https://v.example/1)",
    ),
    "film": ('<video title="Flood"><source src="/f.mp4"></video>', "![Flood](https://ex.org/f.mp4)"),
    "image that is loaded late": (
        '<p><img src="/dot.gif" data-src="/i.png" alt="a gate"></p>',
        "![a gate](https://ex.org/i.png)",
    ),
    "image without an address": ('<p><img src="data:image/png;base64,AA" title="a gate"></p>', "![a gate]()"),
    "drawing": ("<svg aria-label='Ships'><text>1911: 40</text></svg>", "![Ships 1911: 40]()"),
    "icon": ("<p>a<svg aria-label='Close'></svg></p>", "a"),
    "stars": ('<p>It has <span aria-label="4 of 5 stars"></span></p>', "It has ![4 of 5 stars]()"),
    "label of pictures": (
        '<div aria-label="Photos"><img src="/a.jpg" alt="The bridge in 1900"></div>',
        "![The bridge in 1900](https://ex.org/a.jpg)",
    ),
    "label of a film": ('<div aria-label="Player"><video src="/v.mp4"></div>', "![video](https://ex.org/v.mp4)"),
    "stars drawn": ('<p>It has <i aria-label="4 of 5 stars"><svg/></i></p>', "It has ![4 of 5 stars]()"),
    "frame that only counts": ('<p>It rose.</p><iframe src="/count" width="1" height="1"></iframe>', "It rose."),
    "frame with a title that grows later": (
        '<iframe src="/c" width="0" height="0" title="The server"></iframe>',
        "![The server](https://ex.org/c)",
    ),
    "frame outside of a set": (
        "<p>It rose.</p><frame src=/f name=sea>It fell.",
        "It rose.\n\n[sea](https://ex.org/f) It fell.",
    ),
    "picture of AMP that is not closed": (
        '<p>It rose.</p><amp-img src="/a.jpg" alt="The pier"><p>It fell.</p></div>',
        "It rose.\n\n![The pier](https://ex.org/a.jpg)\n\nIt fell.",
    ),
    "unit in a link": ('<p>It has 120 <a href="/km">km<sup>2</sup></a></p>', "It has 120 [km^2](https://ex.org/km)"),
    "note that is a link": ('<p>It rose<a href="/n"><sup>2</sup></a></p>', "It rose[[2]](https://ex.org/n)"),
    "permalink": ('<h2>Tides<a class="headerlink" href="#tides">¶</a></h2><p>T.</p>', "## Tides\n\nT."),
}


def page(inner: str) -> str:
    article = f"<article><p>{PROSE * 2}</p>{inner}<p>{PROSE}</p></article>"
    return f"<html><head><title>Gates</title></head><body>{article}</body></html>"


@pytest.mark.parametrize("name", SHAPES)
def test_A16_N43_a_shape_keeps_its_structure(name: str) -> None:
    html, wanted = SHAPES[name]
    text = extract(page(html), BASE).text
    assert text.startswith(PROSE.strip())
    inner = text.removeprefix(f"{PROSE * 2}".strip()).removesuffix(PROSE.strip()).strip("\n")
    assert inner == wanted


def article(keep: Keep) -> str:
    comments = (
        f'<section id="comments"><h2>2 comments</h2><div class="comment-body"><p>I saw it. {PROSE}</p></div></section>'
    )
    links = '<a href="/x">the plan</a> <a href="/y">the map</a> <img src="/i.png" alt="a gate">'
    html = page(f"<p>All of the town saw {links}</p>{TABLE}")
    return extract(html.replace("</body>", f"{comments}</body>"), BASE, keep=keep).text


def test_K30_C15_each_option_of_extraction_changes_what_is_kept() -> None:
    whole = article(Keep())
    assert "[the plan](https://ex.org/x)" in whole
    assert "![a gate](https://ex.org/i.png)" in whole
    assert "| 1911 | 40 |" in whole
    assert "I saw it." not in whole
    assert "## Comments\n\nI saw it." in article(Keep(comments=True))
    assert "1911" not in article(Keep(tables=False))
    assert "the plan the map" in article(Keep(links="text"))
    notes = article(Keep(links="footnotes"))
    assert "the plan[^1] the map[^2]" in notes
    assert notes.endswith("[^1]: https://ex.org/x\n[^2]: https://ex.org/y")
    assert "[image: a gate]" in article(Keep(images=False))


def test_a_long_caption_is_among_the_words_of_a_page() -> None:
    caption = "The east gate as it was in 1961, seen from the lower quay"
    figure = f"<figure><img src='/g.jpg' alt='Gate'><figcaption>{caption}</figcaption></figure>"
    assert caption in extract(page(figure), BASE, format="text").text


def test_teasers_and_lines_around_an_article_go_and_what_begins_it_stays() -> None:
    """A long subtitle begins the text; rows of teasers and lines that stand beside no paragraph are no part of it."""
    subtitle = "Why the gates of a small harbour took thirty years to build and why nobody believes that they were late"
    text = "".join(f"<p>Paragraph {number}. {PROSE * 2}</p>" for number in range(8))
    row = "".join(
        f"<div class='card'><a href='/{n}'>Another story {n}</a><span>Storms came.</span></div>" for n in "abc"
    )
    html = (
        f"<html><head><title>The gates</title></head><body><article><h1>The gates</h1><h2>{subtitle}</h2>"
        f"<div><div>12 March 1953</div><div>{text}</div><div>{row}</div><div>Photo by Harbour Press</div></div>"
        "</article></body></html>"
    )
    found = extract(html, BASE)
    assert subtitle in found.text
    assert "Paragraph 7." in found.text
    assert not [lost for lost in ("12 March", "Another story", "Storms came", "Harbour Press") if lost in found.text]


def test_a_link_beside_the_paragraph_of_its_section_stays_and_one_after_the_text_goes() -> None:
    sections = "".join(
        f"<section><p>{PROSE * 2}</p><a href='/{n}'>Try {n} now</a></section><section><p>{PROSE * 2}</p></section>"
        for n in range(3)
    )
    html = f"<article>{sections}<div><a href='/z'>Elsewhere</a></div></article>"
    text = extract(f"<html><body>{html}</body></html>", BASE).text
    assert all(f"[Try {n} now](https://ex.org/{n})" in text for n in range(3))
    assert "Elsewhere" not in text


def test_a_list_of_links_beside_the_paragraphs_stays_and_what_is_named_hidden_goes() -> None:
    sources = "".join(f"<li><a href='/{n}'>Source {n}</a></li>" for n in range(2))
    text = f"<p>{PROSE * 2}</p>" * 6 + f"<h2>Sources</h2><ul>{sources}</ul>"
    apart = (
        "<div><ul><li><a href='/z'>Another story</a></li></ul></div><ul id='topics' class='hidden'><li>Ports</li></ul>"
    )
    wide = f"<div class='hidden md:block'><p>At night. {PROSE}</p></div>"
    found = extract(f"<html><body><article><div>{wide}{text}{apart}</div></article></body></html>", BASE).text
    assert "At night." in found
    assert found.endswith("- [Source 1](https://ex.org/1)")


@table(
    "lead",
    "The new gates of the old harbour hold, and ten towns know.",
    "पुराने बंदरगाह के नए फाटक अब हर तूफ़ान को रोक रहे हैं और दस शहर यह जानते हैं।",
    "ประตูใหม่ของท่าเรือเก่ากั้นพายุได้ทุกลูก" * 3,
    ids=["English", "Hindi", "Thai"],
)
def test_only_a_sentence_or_a_heading_before_the_text_begins_it(lead: str) -> None:
    before = f"<p>By Ann Writer on Monday, 18 November 1953 at 11 in the morning</p><p>{lead}</p>"
    text = f"<article><div>{before}</div><div class='article-body'>{f'<p>{PROSE * 2}</p>' * 6}</div></article>"
    found = extract(f"<html><head><title>The gates</title></head><body><h1>The gates</h1>{text}</body></html>", BASE)
    assert found.text.startswith(f"{lead}\n\n{PROSE.strip()}")


def test_a_dated_page_of_code_leaves_its_title_to_the_head_of_the_result() -> None:
    date = '<meta name="date" content="1953-03-12">'
    html = "<html><head><title>Gates</title>{}</head><body><article><h1>Gates</h1>{}</article></body></html>"
    code = f"<p>{PROSE}</p>" + "<pre>open(gate)\nclose(gate)</pre>" * 20
    post, manual = (extract(html.format(head, code), BASE) for head in (date, ""))
    assert (post.how, manual.how) == ("reference", "reference")
    assert manual.text == f"# Gates\n\n{post.text}"


def test_a_line_below_a_heading_ends_a_text_and_other_lines_after_it_do_not() -> None:
    text = "".join(f"<p>Paragraph {number}. {PROSE * 2}</p>" for number in range(8))
    end = "<div><h2>Opening hours</h2><div>Monday to Friday</div></div><div>Photo by Harbour Press</div><h3>More</h3>"
    found = extract(
        f"<html><body><article><h1>Gates</h1><div>{text}</div><div>{text}</div>{end}</article></body></html>", BASE
    ).text
    assert found.endswith("## Opening hours\n\nMonday to Friday")


def test_cards_of_many_names_stay_where_they_hold_much_of_the_text() -> None:
    cards = "".join(
        f"<div class='card-{n % 5}'><h3><a href='/{n}'>Ship {n}</a></h3><p>Its story. {PROSE}</p></div>"
        for n in range(20)
    )
    article = f"<article><h1>Ships</h1><p>{PROSE * 8}</p>{cards}</article>"
    text = extract(f"<html><head><title>Ships</title></head><body>{article}</body></html>", BASE).text
    assert all(f"[Ship {n}]" in text for n in range(20))
    assert text.count("Its story.") == 20


def test_a_text_with_more_text_of_others_below_it_is_the_page() -> None:
    """One poem, and below it the poems of others."""
    others = "".join(f"<div class='related-poem'><p>Poem {number}. {PROSE * 3}</p></div>" for number in range(20))
    html = (
        f"<html><body><div class='text'><p>The tide. {PROSE * 3}</p></div><div id='list'>{others}</div></body></html>"
    )
    found = extract(html, BASE)
    assert "The tide." in found.text
    assert found.how == "article"


def test_A15_html_keeps_scripts_only_on_request() -> None:
    html = "<html><body><p>a</p><script>x()</script><form><select><option>b<option>c</select></form></body></html>"
    shown = extract(html, BASE, format="html").text
    assert ("<script>" in shown, "<form><select><option>b" in shown) == (False, True)
    assert "<script>x()</script>" in extract(html, BASE, format="html", keep=Keep(scripts=True)).text


@pytest.mark.parametrize(("one", "most"), [("<ul><li>pier</li>", 60_000), ("<blockquote>pier", 90_000)])
def test_what_stands_in_each_other_without_end_is_not_indented_without_end(one: str, most: int) -> None:
    found = extract(one * 500, BASE)
    assert found.text.count("pier") == 500
    assert len(found.text) < most
