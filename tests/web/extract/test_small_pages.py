"""Small pages, each with one hazard, and the words that must be in what is read of them."""
# ruff: noqa: E501

from contextlib import aclosing
from pathlib import Path

import pytest

from nanobot.agent.tools.web.fetch import WebFetchTool
from nanobot.config.schema_web import WebFetchConfig
from nanobot.web.extract.html import extract
from tests.fakes.sections import section
from tests.fakes.website import Answer, Website

URL = "https://ex.org/guide/page.html"
TEXT = (
    "The harbour was rebuilt after the flood of 1953, and its new gates have held back every storm surge since then. "
)
P = f"<p>{TEXT}</p>"
#: Paragraphs that differ, so that each can be looked for.
STORY = "".join(f"<p>Part {number} of the story. {TEXT}</p>" for number in range(1, 9))
STORY_WORDS = tuple(f"Part {number} of" for number in range(1, 9))


def article(inner: str) -> str:
    return f"<main><article><h1>The gates</h1>{P * 2}{inner}{P}</article></main>"


def unclosed() -> str:
    return "".join(f"<div class='row'><p>Line {number} of forty. {TEXT}</p>" for number in range(40))


def posts() -> str:
    post = "<div class='post'><div class='author'><a href='/u/{0}'>keeper{0}</a></div><div class='body'>{0}. {1}</div></div>"
    return "".join(post.format(number, TEXT * (number % 3 + 1)) for number in range(6))


#: name → (what is inside the body, words that must be in the Markdown).
PAGES: dict[str, tuple[str, tuple[str, ...]]] = {
    "a power": (article("<p>About 10<sup>24</sup> stars and a<sup>n</sup>, on the 1<sup>st</sup>.</p>"), ("10^24 stars", "a^n", "1st")),
    "an index": (article("<p>H<sub>2</sub>O, x<sub>1</sub> and log<sub>2</sub>8.</p>"), ("H2O", "x_1", "log_28")),
    "a footnote mark": (article("<p>High water<sup><a href='#n'>[3]</a></sup> at nine.</p>"), ("High water[3] at nine",)),
    "MathML": (
        article("<p>So <math><mi>E</mi><mo>=</mo><mi>m</mi><msup><mi>c</mi><mn>2</mn></msup></math> holds.</p>"),
        ("So $E=mc^2$ holds",),
    ),
    "a fraction": (
        article("<p>It is <math><mfrac><mrow><mi>a</mi><mo>+</mo><mi>b</mi></mrow><mn>2</mn></mfrac></math>.</p>"),
        ("$(a+b)/2$",),
    ),
    "KaTeX": (
        article(
            "<p>With <span class='katex'><span class='katex-mathml'><math><semantics><mi>x</mi><annotation "
            "encoding='application/x-tex'>\\frac{a}{b}</annotation></semantics></math></span><span class='katex-html' "
            "aria-hidden='true'>ab</span></span> metres.</p>"
        ),
        ("With $\\frac{a}{b}$ metres",),
    ),
    "a formula that the page hides": (
        article("<p>Then <span style='display:none'><math alttext='x^2+1'><mi>x</mi></math></span> it is.</p>"),
        ("$x^2+1$",),
    ),
    "a list of links": (
        "<main><h1>Reports</h1><ul>" + "".join(f"<li><a href='/r{n}'>Report {n} on tides</a></li>" for n in range(9)) + "</ul></main>",
        ("[Report 0 on tides](https://ex.org/r0)", "[Report 8 on tides](https://ex.org/r8)", "Reports"),
    ),
    "results of a search": (
        "<main>" + "".join(f"<div class='result'><h3><a href='/h{n}'>Hit {n} of many</a></h3><p>{TEXT}</p></div>" for n in range(7)) + "</main>",
        ("[Hit 0 of many](https://ex.org/h0)", "[Hit 6 of many](https://ex.org/h6)"),
    ),
    "results without a landmark": (
        "<div id='rso'>" + "".join(f"<div class='g'><a href='/h{n}'>Hit {n} of many</a><span> {TEXT}</span></div>" for n in range(7)) + "</div>",
        ("[Hit 0 of many](https://ex.org/h0)", "[Hit 6 of many](https://ex.org/h6)"),
    ),
    "who wrote in a forum": (f"<div id='thread'>{posts()}</div>", ("keeper0", "keeper5", "5. The harbour")),
    "the caption of a picture": (
        article("<figure><img src='/g.jpg' alt='A gate'><figcaption>The east gate in 1961</figcaption></figure>"),
        ("The east gate in 1961",),
    ),
    "a caption without a picture": (
        article("<figure><video></video><figcaption>The east gate in 1961</figcaption></figure>"),
        ("The east gate in 1961",),
    ),
    "the caption of a table": (
        article("<table><caption>Ships a year</caption><tr><th>Year</th><th>Ships</th></tr><tr><td>1911</td><td>40</td></tr></table>"),
        ("Ships a year", "| 1911 | 40 |"),
    ),
    "a cell over two rows": (
        article("<table><tr><th>Dock</th><th>Year</th><th>Ships</th></tr><tr><td rowspan=2>East</td><td>1911</td><td>40</td></tr><tr><td>1912</td><td>51</td></tr></table>"),
        ("| East | 1911 | 40 |", "|  | 1912 | 51 |"),
    ),
    "a table with a head in its rows": (
        article("<table><tr><td></td><th>Ships</th></tr><tr><th>1911</th><td>40</td></tr></table>"),
        ("| 1911 | 40 |",),
    ),
    "an address": (article("<address>Harbour Office, 12 Quay Street, 20457 Hamburg</address>"), ("12 Quay Street, 20457",)),
    "headings that are buttons": (
        article("<h3><button aria-expanded='false'>When do the gates close?</button></h3><div>At three metres above zero.</div>"),
        ("### When do the gates close?", "At three metres"),
    ),
    "a button that opens a panel": (
        article(
            "<button aria-controls='p1' aria-expanded='false'>Who pays for it?</button><div id='p1' hidden><p>The city pays "
            "two thirds of all repairs and the state pays the rest of them.</p></div>"
        ),
        ("Who pays for it?", "the state pays the rest"),
    ),
    "a summary with details": (article("<details><summary>More</summary><p>Built of oak.</p></details>"), ("Built of oak.",)),
    "a base address": ("<base href='https://other.example/docs/'>" + article("<p>We all saw <a href='plan.html'>the plan</a>.</p>"), ("[the plan](https://other.example/docs/plan.html)",)),
    "all of it hidden": (f"<div id='app' hidden>{STORY}</div><p>Loading…</p>", STORY_WORDS),
    "all of it hidden from readers aloud": (f"<div aria-hidden='true'>{STORY}</div>", STORY_WORDS),
    "all of it without display": (f"<p>One moment.</p><div style='display: none'>{STORY}</div>", STORY_WORDS),
    "a stream that fills a shell": (
        f"<div id='root'><template id='B:0'></template><p>Loading</p></div><div hidden id='S:0'>{STORY}</div><script>$RC('B:0','S:0')</script>",
        STORY_WORDS,
    ),
    "a tree in the shadow": (f"<my-app><template shadowrootmode='open'>{STORY}</template></my-app>", STORY_WORDS),
    "three hundred levels": ("<div>" * 300 + STORY + "</div>" * 300, STORY_WORDS),
    "five thousand levels": ("<div>" * 5_000 + STORY + "</div>" * 5_000, STORY_WORDS),
    "divisions that nobody closes": (unclosed(), tuple(f"Line {number} of forty" for number in range(40))),
    "a section of developments": (
        article("<h2>Latest developments</h2><p>Two more gates were ordered in May and will be built by the yard.</p>"),
        ("Latest developments", "Two more gates were ordered"),
    ),
    "a section to see also": (
        article("<h2>See also</h2><p>The dikes of the lower river are described in a chapter of their own.</p>"),
        ("See also", "The dikes of the lower river"),
    ),
    "comments that are the matter": (
        article("<h2>Comments</h2><p>The engineers commented on the plan at length and asked for two changes in it.</p>"),
        ("asked for two changes",),
    ),
    "class names without luck": (
        "<div class='sidebar-page comments-open'>" + "".join(f"<div class='author-note'>{part}</div>" for part in STORY.split("</p>") if part) + "</div>",
        STORY_WORDS,
    ),
    "a form around the page": (f"<form action='/x'>{STORY}</form>", STORY_WORDS),
    "a remark beside the text": (article("<aside class='note'><p>Mind the tide: the quay floods twice a day in spring.</p></aside>"), ("the quay floods twice a day",)),
    "who said it": (article("<blockquote><p>We built them to last.</p><footer>— Ada Keeper</footer></blockquote>"), ("> We built them to last.", "Ada Keeper")),
    "words with soft hyphens": (article("<p>The Donau&shy;dampf&shy;schiff arrived on time, as it did each day.</p>"), ("Donaudampfschiff",)),
    "a list of terms": (article("<dl><dt>Neap tide</dt><dd>The smallest range.</dd></dl>"), ("Neap tide", "The smallest range.")),
    "text between tags": ("<body>Open from nine to five.<br>Closed on Monday.</body>", ("Open from nine to five.", "Closed on Monday.")),
    "code without a language": (article("<pre>gate --open\n  --slow</pre>"), ("gate --open\n  --slow",)),
    "what an article begins with, in a part of its own": (
        f"<header><h1>The gates</h1></header><div class='teaser'><p>In short: {TEXT}</p></div><div class='text'>{STORY}</div>",
        ("In short:", *STORY_WORDS),
    ),
    "headings that are links": (
        article("".join(f"<h2><a href='/f{n}'>{n}. The film of the tide</a></h2>{P}" for n in range(5))),
        ("[0. The film of the tide](https://ex.org/f0)", "[4. The film of the tide](https://ex.org/f4)"),
    ),
    "headings that are links, above films": (
        article("".join(f"<h2><a href='/f{n}'>{n}. The film of the tide</a></h2><p><iframe src='https://v.example/{n}'></iframe></p>{P}" for n in range(5))),
        ("[0. The film of the tide](https://ex.org/f0)", "![iframe](https://v.example/4)"),
    ),
    "links between paragraphs": (
        article("<p><a href='/plan.pdf'>The plan of the gates</a></p><ul><li><a href='/1961'>The flood of 1961</a></li></ul>"),
        ("[The plan of the gates](https://ex.org/plan.pdf)", "[The flood of 1961](https://ex.org/1961)"),
    ),
    "a short reference with little prose": (
        f"<div class='page'><div><h3>Module</h3><p>gates</p></div><div><h3>Summary</h3><p>Opens and closes.</p></div><div><h3>Use</h3>{P}<pre>{'open(3);' * 40}</pre></div></div>",
        ("### Module", "### Summary", "Opens and closes.", "### Use"),
    ),
    "TeX in a script": (article("<p>So <script type='math/tex'>E=mc^2</script> holds.</p>"), ("So $E=mc^2$ holds",)),
    "code in a tab that is closed": (
        article("<div role='tabpanel'><pre>apt install gates</pre></div><div role='tabpanel' hidden><pre>brew install gates</pre></div>"),
        ("apt install gates", "brew install gates"),
    ),
    "who answered a question": (
        f"<h1>How do they close?</h1>{P}" + "".join(f"<div class='answer'><div class='text'><p>Answer {n}: {TEXT}</p></div><div><a href='/u{n}'>helper{n}</a></div></div>" for n in range(3)),
        ("Answer 0:", "helper0", "helper2"),
    ),
    "forms without fields around each text": (
        f"<div role='main'><div class='post'>{P}</div><form class='text'><input type='hidden' name='id'><p>It fits my cat now. {TEXT}</p></form></div>",
        ("It fits my cat now.",),
    ),
    "links in a text with its own lines": (
        "<h1>Tides</h1><pre>See <a href='/rfc2119'>RFC 2119</a>,\n  <a href='/a-long-name'>a-lo..&gt;</a> 4.2M and <a href='/b'>b</a></pre>",
        ("See RFC 2119,\n  a-lo..> 4.2M", "[RFC 2119](https://ex.org/rfc2119)\n[a-lo..>](https://ex.org/a-long-name)"),
    ),
    "elements of its own making": (f"<app-root><x-article>{STORY}</x-article></app-root>", STORY_WORDS),
    "a short release of a program": (
        "<main><span>Latest</span> <a href='/ann'>ann</a> released this<div class='markdown-body'><p>Say <code>tide --json --port Ost --zone north</code> from now on.</p></div><h3>Assets</h3><ul><li><a href='/tide.zip'>tide.zip</a> 48 KB</li></ul></main>",
        ("Latest", "released this", "`tide --json", "### Assets", "[tide.zip](https://ex.org/tide.zip) 48 KB"),
    ),
    "facts before a text": (
        f"<main><h1>The quay</h1><dl><dt>Reference</dt><dd>FW-1042</dd></dl>{STORY}</main>",
        ("Reference", "FW-1042", *STORY_WORDS),
    ),
    "the title of a table that is the page": (
        "<article><h1>Ships</h1><p>It shows the ships of each year, in hundreds.</p><table><caption>Ships a year</caption><tr><th>Year</th><th>Ships</th></tr>" + "<tr><td>1911</td><td>40</td></tr>" * 9 + "</table></article>",
        ("Ships a year", "| 1911 | 40 |"),
    ),
    "a short page of facts": (
        f"<div id='cookies'>{P}</div><main><h1>The quay</h1><dl><dt>Reference</dt><dd>FW-1042</dd><dt>Valid from</dt><dd>1 October</dd></dl><p>Call us.</p><h2>To do</h2><ul><li>Move your car.</li></ul></main>",
        ("Reference", "FW-1042", "Valid from", "1 October", "- Move your car."),
    ),
    "a form around all of it": (f"<form><div>{STORY}</div></form>", STORY_WORDS),
    "a page without its program": (f"<div id='app'></div><noscript><article>{STORY}</article></noscript>", STORY_WORDS),
    "text in a field": (article("<textarea readonly>height = 7.3\nwidth = 12</textarea>"), ("height = 7.3\nwidth = 12",)),
    "posts with words of their topics for names": (
        "<div id='content'>" + "".join(f"<article id='post-{n}' class='post-{n} {'tag-social-media category-ads' if n < 3 else 'has-sidebar'}'><h2><a href='/p{n}'>Post {n}</a></h2><p>It says {n}. {TEXT * 3}</p></article>" for n in range(6)) + "</div>",
        tuple(f"It says {n}." for n in range(6)),
    ),
    "a section named by its heading": (
        article(f"<section id='related-work'><h2>Related work</h2><p>Others built of stone. {TEXT}</p></section>{STORY}"),
        ("## Related work", "Others built of stone", *STORY_WORDS),
    ),
    "a section of a reference named by its heading": (
        article(f"<div id='sharing-with-others'><h2>Sharing with others</h2><p>To share, say this: {TEXT}</p><pre>{'gate share 1 2 3 ' * 9}</pre></div>{STORY}"),
        ("## Sharing with others", "To share, say this", "gate share 1 2 3", *STORY_WORDS),
    ),
    "a post that an article shows": (
        article(f"<div class='social-embed'><blockquote><p>The gates held tonight, and everybody on the quay saw it happen. The Harbour Office</p></blockquote></div>{STORY}"),
        ("> The gates held tonight", *STORY_WORDS),
    ),
    "links between texts that are no paragraphs": (
        f"<article><h1>The gates</h1><div>{TEXT}</div><p><a href='/plan.html'>The plan</a></p><h2>Later</h2><div>{TEXT}</div></article>",
        ("[The plan](https://ex.org/plan.html)", "## Later"),
    ),
    "a list of links in an item": (
        article(f"<ul><li>In work: <ul>{''.join(f'<li><a href=/b{n}>Gate {n} does not close</a></li>' for n in range(4))}</ul></li><li>{TEXT}</li></ul>{STORY}"),
        ("[Gate 0 does not close](https://ex.org/b0)", "[Gate 3 does not close](https://ex.org/b3)"),
    ),
    "an address with parentheses": (
        article("<p>It is <a href='/wiki/Gate_(harbour)'>a gate</a>, not <a href='/wiki/Gate)'>this one</a>, he said.</p>"),
        ("[a gate](https://ex.org/wiki/Gate_(harbour))", "[this one](https://ex.org/wiki/Gate%29)"),
    ),
    "the long caption of a picture with a link": (
        article("<figure><a href='/g'><img src='/g.jpg' alt='Gate'></a> <figcaption>The east gate as it was in 1961, seen from the lower quay</figcaption></figure>"),
        ("[Gate. The east gate as it was in 1961, seen from the lower quay](https://ex.org/g)",),
    ),
    "who answered a question of two people": (
        f"<main><h1>How do they close?</h1><div class='question'>{P}</div>" + "".join(f"<div class='answer'><div class='text'><p>Answer {n}: {TEXT}</p></div><div class='user'><a href='/u{n}'>helper{n}</a></div></div>" for n in range(2)) + "</main>",
        ("Answer 0:", "[helper0](https://ex.org/u0)", "[helper1](https://ex.org/u1)"),
    ),
    "who is quoted, as a link": (
        article("<blockquote><p>The gates held.</p>— Port (@port) <a href='/p/1'>3 May 2020</a></blockquote>"),
        ("> The gates held.", "> — Port (@port) [3 May 2020](https://ex.org/p/1)"),
    ),
    "frames alone": (
        "</body><frameset cols='20%,80%'><frame src='/nav' name='Contents'><frame src='/text'></frameset>",
        ("[Contents](https://ex.org/nav)", "[/text](https://ex.org/text)"),
    ),
    "a recipe in the data of a page": (
        """<div>Soup of the day</div><script type='application/ld+json'>{"@type": "Recipe", "recipeIngredient": ["2 onions"], "nutrition": {"calories": 120}}</script>""",
        ("Soup of the day", "recipeIngredient: 2 onions", "calories: 120"),
    ),
    "an offer in the data of a page": (
        """<p>Lamp</p><script type='application/ld+json'>{"@type": "Offer", "price": 89, "availability": "https://schema.org/InStock"}</script>""",
        ("price: 89", "availability: InStock"),
    ),
    "a page that is all data": (
        """<div id='__next'></div><script id='__NEXT_DATA__' type='application/json'>{"props": {"pageProps": {"boat": "Seal", "price": 12400}}, "page": "/b"}</script>""",
        ("boat: Seal", "price: 12400"),
    ),
    "the state that a page starts from": (
        """<div id='app'></div><script>window.__INITIAL_STATE__ = {"text": "The choir opens with a piece by Buxtehude."};</script>""",
        ("The choir opens with a piece by Buxtehude.",),
    ),
    "a short stream": (
        "<main><template id='B:0'></template></main><p>Orders of today, all of which can still be changed</p><div hidden id='S:0'><h1>Order 4711</h1><p>Shipped.</p></div>",
        ("Shipped.\n\nOrders of today",),
    ),
    "few words and a long description of them": (
        f"<h1>Closed</h1><p>We are closed on Monday.</p><meta name='description' content='{TEXT * 2}'>",
        ("We are closed on Monday.", TEXT.strip()),
    ),
    "a wall before a short page": (
        f"<div class='cmp-box'><p>{'We and our 842 partners store cookies. ' * 9}</p></div><main><h1>The gates</h1><p>They close at three metres above zero, at each tide.</p></main>",
        ("They close at three metres above zero",),
    ),
    "choices of a form": (
        f"<main><h1>The gates</h1>{P}<form><label for=s>Size</label><select id=s><optgroup label=Felt><option>38 (sold out)</option><option>39</option></optgroup></select><label><input type=radio> 4 m (+$10)</label><button>Buy</button></form></main>",
        ("Size", "- 38 (sold out)\n- 39", "4 m (+$10)"),
    ),
    "what a link of the page opens": (
        "<main><a href='#t1'>Trip</a> <a href='#t2'>Price</a><div id=t1><p>We leave at nine.</p></div><div id=t2 style='display:none'><p>Adults 40 €.</p></div></main>",
        ("We leave at nine.", "Adults 40 €."),
    ),
    "what a row says side by side": (
        article("<div><span>Team plan</span><span>5</span><span>$40.00</span></div><ul><li><b>Tue</b><span>Closed</span></li></ul>"),
        ("Team plan 5 $40.00", "**Tue** Closed"),
    ),
    "lines that end with no mark": (
        f"<main><h1>The gates</h1>{''.join(f'<p>{n} boats lay at the quay in the night of the flood</p>' for n in range(40))}</main>",
        ("0 boats lay", "39 boats lay"),
    ),
    "ten links in a text": (
        article("<p>See these:</p><ul>" + "".join(f"<li><a href='#s{n}'>Chapter {n} of this page</a></li>" for n in range(4)) + f"</ul>{P}"),
        ("Chapter 0 of this page", "Chapter 3 of this page"),
    ),
}  # fmt: skip


async def test_words_that_must_survive_in_what_the_tool_gives(tmp_path: Path) -> None:
    head = "<html><head><title>The gates</title></head>"
    pages = {
        f"/{number}": Answer(f"{head}<body>{body}</body></html>") for number, (body, _) in enumerate(PAGES.values())
    }
    tool = WebFetchTool(section(WebFetchConfig, {}), whitelist=("127.0.0.1/32",), media_dir=tmp_path)
    missing: dict[str, list[str]] = {}
    async with Website(pages) as site, aclosing(tool):
        for path, (name, (_, words)) in zip(pages, PAGES.items(), strict=True):
            text = (await tool.call({"url": f"{site.url}{path}"})).text.replace(site.url, "https://ex.org")
            missing[name] = [word for word in words if word not in text]
    assert {name: words for name, words in missing.items() if words} == {}


@pytest.mark.parametrize("tag", ["main", "article", "section", "header"])
def test_a_page_that_writes_neither_head_nor_body_is_read_whole(tag: str) -> None:
    parts = f"<{tag}><h1>The gates</h1>{STORY}</{tag}>Between.<nav>Home</nav><p>After it. {TEXT}</p>"
    found = extract(f"<!doctype html><title>The gates</title><meta name=author content=Ada>{parts}", URL)
    written = extract(f"<html><head><title>The gates</title><meta name=author content=Ada></head><body>{parts}", URL)
    assert [word for word in STORY_WORDS if word not in found.text] == []
    assert (found.text, found.author) == (written.text, "Ada")


def test_a_contents_list_in_a_part_of_its_own_is_said_by_the_headings() -> None:
    names = ("Opening", "Closing", "Storms", "Repairs")
    contents = "".join(f"<li><a href='#{name}'>{name}</a></li>" for name in names)
    text = "".join(
        f"<section id='{name}'><h2>{name}</h2>{P}<ul><li>{name} <a href='/x'>more</a></li></ul></section>"
        for name in names
    )
    found = extract(
        f"<html><body><div><div id='quick'><h3>Topics</h3><ul>{contents}</ul></div>{text}</div></body></html>", URL
    )
    assert found.how == "reference"
    assert "Topics" not in found.text
    assert [found.text.count(f"## {name}") for name in names] == [1, 1, 1, 1]
    assert found.text.count("](https://ex.org/x)") == 4


def test_a_page_of_which_little_was_kept_says_so() -> None:
    others = "".join(f"<div class='related-story'>{P * 2}</div>" for _ in range(9))
    html = f"<html><head><title>The gates</title></head><body><article><h1>The gates</h1>{P * 4}</article>{others}</body></html>"
    found = extract(html, URL)
    assert any("Only 18% of the text on the page" in note for note in found.notes), found.notes
    whole = extract(f"<html><body><article><h1>The gates</h1>{P * 9}</article></body></html>", URL)
    assert whole.notes == ()


def test_a_page_whose_text_is_hidden_says_so() -> None:
    found = extract(f"<html><body><p>Loading…</p><div hidden>{STORY}</div></body></html>", URL)
    assert any("hidden in the page" in note for note in found.notes)


def test_what_stands_behind_the_words_for_readers_without_scripts_is_told_once() -> None:
    found = extract(
        f"<html><body><noscript><p>{TEXT}</p></noscript>The east gate is shut.<p>So is the west gate.</p></body></html>",
        URL,
    )
    assert TEXT[:40] in found.text
    assert found.text.count("The east gate is shut.") == 1
