"""Files that are no pages: PDF, documents, workbooks, presentations, papers behind their abstracts."""

import json
import random
from collections.abc import Callable
from pathlib import Path

from nanobot.agent.tools.web.fetch import WebFetchTool
from nanobot.web.fetch.page import raw_file
from tests.fakes.files import pdf_file, pdf_text
from tests.fakes.office_files import archive, paragraph, sheet_file, slide_file, word_file
from tests.fakes.website import Answer, Names, Website
from tests.tables import table
from tests.web.fetch.conftest import MakeTool, read

DOCX = word_file(
    paragraph("The plan", "Heading1")
    + paragraph("Boats &amp; ropes.")
    + paragraph("first", listed=0)
    + paragraph("inner", listed=1)
    + '<w:p><w:r><w:t xml:space="preserve">See </w:t></w:r><w:hyperlink r:id="rId9"><w:r><w:t>the map</w:t></w:r>'
    "</w:hyperlink></w:p>"
    + f"<w:tbl><w:tr><w:tc>{paragraph('Year')}</w:tc><w:tc>{paragraph('Ships')}</w:tc></w:tr>"
    + f"<w:tr><w:tc>{paragraph('1911')}</w:tc><w:tc>{paragraph('a|b')}</w:tc></w:tr></w:tbl>",
    {"rId9": "https://maps.example/x"},
)
XLSX = sheet_file(
    "Ships",
    '<row><c r="A1" t="s"><v>0</v></c><c r="C1" t="inlineStr"><is><t>Count</t></is></c></row>'
    '<row><c r="A2" t="s"><v>1</v></c><c r="C2"><v>40</v></c></row>'
    '<row><c r="A3" s="1"><v>45418</v></c><c r="B3" s="1"><v>45418.5</v></c><c r="C3" s="0"><v>45418</v></c></row>',
    ["Name", "Ferry"],
)
PPTX = slide_file([["Opening", "why we are here"], ["Closing", "thanks"]])


async def test_G37_N40_documents_workbooks_and_presentations_become_markdown(tool: WebFetchTool) -> None:
    files = (Answer(DOCX, "application/zip"), Answer(XLSX, ""), Answer(PPTX, "text/html"))
    word, sheet, slides = [await read(tool, file) for file in files]
    assert word.text.startswith("[1] Harbour plan\n")
    assert word.extras["author"] == "A. Keeper"
    assert word.extras["extractor"] == "office"
    assert word.text.partition("\n\n")[2] == (
        "# The plan\n\nBoats & ropes.\n\n- first\n  - inner\n\nSee [the map](https://maps.example/x)\n\n"
        "| Year | Ships |\n| --- | --- |\n| 1911 | a\\|b |"
    )
    head = "## Ships\n\n| Name |  | Count |\n| --- | --- | --- |\n"
    assert head + "| Ferry |  | 40 |\n| 2024-05-06 | 2024-05-06 12:00 | 45418 |" in sheet.text
    assert slides.text.endswith("## Slide 1: Opening\n\n- why we are here\n\n## Slide 2: Closing\n\n- thanks")


async def test_G37_N40_a_pdf_is_read_page_by_page(tool: WebFetchTool) -> None:
    body = pdf_file(["The tide table of the harbour", "High water at nine"], "Tides")
    result = await read(tool, Answer(body, "application/octet-stream"), "/t.pdf")
    assert result.text.startswith("[1] Tides\n")
    assert result.extras["extractor"] == "pdf"
    assert result.extras["published"] == "2024-05-06"
    assert "## Page 1\n\nThe tide table of the harbour\n\n## Page 2\n\nHigh water at nine" in result.text


async def test_rows_of_a_pdf_stay_rows_and_late_cells_join_theirs(tool: WebFetchTool) -> None:
    by_row = pdf_text([(72, 700, "Ship"), (200, 700, "Year"), (72, 680, "Ada"), (200, 680, "1911")])
    by_column = pdf_text([(72, 700, "Ship"), (72, 680, "Bo"), (200, 700, "Year"), (200, 680, "1912")])
    long = "a line of prose that is much too wide to be a cell"
    columns = pdf_text([(72, 700, long), (72, 680, long), (330, 700, "right one"), (330, 680, "right two")])
    rows, cells, prose = [(await read(tool, Answer(body))).text for body in (by_row, by_column, columns)]
    assert rows.endswith("| Ship | Year |\n| --- | --- |\n| Ada | 1911 |")
    assert cells.endswith("| Ship | Year |\n| --- | --- |\n| Bo | 1912 |")
    assert prose.endswith(f"{long}\n{long}\nright one\nright two")


async def test_every_page_of_a_long_pdf_can_be_reached(tool: WebFetchTool) -> None:
    body = pdf_file([f"the number of this page is {number}" for number in range(1, 1201)])
    result = await read(tool, Answer(body), "/long.pdf", find="this page is 1200")
    assert "the number of this page is 1200" in result.text


async def test_W05_a_pdf_without_text_is_attached_for_models_that_read_pdf(tool: WebFetchTool) -> None:
    body = pdf_text([])
    result = await read(tool, Answer(body), "/scan.pdf")
    assert "PDF without text" in result.text
    (media,) = result.media
    assert (media.mime, media.inline) == ("application/pdf", True)
    assert Path(media.path).read_bytes() == body


async def test_a_pdf_with_junk_before_it_or_without_its_table_of_objects_is_read(tool: WebFetchTool) -> None:
    body = pdf_file(["High water at nine"])
    for odd in (b"\r\nsome header\r\n" + body, body[: body.rfind(b"xref\n0")]):
        assert "High water at nine" in (await read(tool, Answer(odd))).text


async def test_what_an_xlsx_shows_as_a_moment_is_one(tool: WebFetchTool) -> None:
    cells = (
        '<row><c r="A1" s="1" t="n"><v>45418</v></c><c r="B1" s="2"><v>0.5625</v></c><c r="C1" s="3"><v>45418</v></c>'
        '</row><row><c r="A2" s="0"><v>45418</v></c><c r="B2" s="4"><v>0.12</v></c>'
        '<c r="C2" t="d"><v>2024-05-06</v></c></row>'
    )
    styles = (
        '<numFmts><numFmt numFmtId="170" formatCode="hh:mm"/><numFmt numFmtId="171" formatCode="mmmm"/>'
        '<numFmt numFmtId="172" formatCode="0.00 &quot;days&quot;"/></numFmts><cellXfs><xf numFmtId="0"/>'
        '<xf numFmtId="31"/><xf numFmtId="170"/><xf numFmtId="171"/><xf numFmtId="172"/></cellXfs>'
    )
    old = sheet_file("Mac", '<row><c r="A1" s="1"><v>43956</v></c></row>', [], properties='<workbookPr date1904="1"/>')
    books = (sheet_file("Tides", cells, [], styles=styles), old)
    sheet, mac = [(await read(tool, Answer(book))).text for book in books]
    assert "| 2024-05-06 | 13:30 | 2024-05-06 |\n| --- | --- | --- |\n| 45418 | 0.12 | 2024-05-06 |" in sheet
    assert "| 2024-05-06 |" in mac


async def test_bold_words_and_numbered_lists_of_a_docx_are_kept(tool: WebFetchTool) -> None:
    bold = '<w:r><w:rPr><w:b/></w:rPr><w:t xml:space="preserve">{} </w:t></w:r>'
    body = (
        f"<w:p>{bold.format('Mind')}{bold.format('the')}<w:r><w:t>tide.</w:t></w:r>"
        '<w:r><w:rPr><w:b w:val="0"/></w:rPr><w:t> Really.</w:t></w:r></w:p>'
        + paragraph("cast off", listed=0)
        + paragraph("steer", listed=0)
        + paragraph("loose", listed=1)
    )
    levels = "".join(
        f'<w:lvl w:ilvl="{level}"><w:numFmt w:val="{form}"/></w:lvl>'
        for level, form in enumerate(("decimal", "bullet"))
    )
    numbering = (
        f'<w:abstractNum w:abstractNumId="7">{levels}</w:abstractNum>'
        '<w:num w:numId="1"><w:abstractNumId w:val="7"/></w:num>'
    )
    text = (await read(tool, Answer(word_file(body, numbering=numbering)), "/d")).text
    assert text.endswith("**Mind the** tide. Really.\n\n1. cast off\n2. steer\n   - loose")


async def test_a_docx_keeps_powers_formulas_notes_pictures_and_texts_in_boxes(tool: WebFetchTool) -> None:
    raised = '<w:r><w:rPr><w:vertAlign w:val="superscript"/></w:rPr><w:t>24</w:t></w:r>'
    fraction = "<oMath><f><fPr/><num><t>a+b</t></num><den><t>2</t></den></f><rad><deg/><e><t>x</t></e></rad></oMath>"
    box = "<txbxContent><w:p><w:r><w:t>In a box.</w:t></w:r></w:p></txbxContent>"
    rows = "<w:tr><w:tc><w:tcPr><w:gridSpan w:val='2'/></w:tcPr>{}</w:tc><w:tc>{}</w:tc></w:tr>"
    body = (
        f"<w:p><w:r><w:t>It held 10</w:t></w:r>{raised}<w:r><w:footnoteReference w:id='2'/><w:noBreakHyphen/></w:r>"
        f"{fraction}<w:moveFrom><w:r><w:t>gone</w:t></w:r></w:moveFrom></w:p>"
        f"<w:p><w:r><w:drawing><docPr descr='The east gate'/></w:drawing></w:r></w:p>"
        f"<w:p><w:r><Choice>{box}</Choice><Fallback>{box}</Fallback><w:t>After it.</w:t></w:r></w:p>"
        + paragraph("one", "ListNumber")
        + paragraph("two", "ListNumber")
        + f"<w:tbl><w:sdt><w:sdtContent>{rows.format(paragraph('a'), paragraph('b'))}</w:sdtContent></w:sdt></w:tbl>"
    )
    notes = f"<w:footnote w:id='0' w:type='separator'/><w:footnote w:id='2'>{paragraph('In 1961.')}</w:footnote>"
    text = (await read(tool, Answer(word_file(body, footnotes=notes)), "/d")).text
    assert text.partition("\n\n")[2] == (
        "It held 10^24[2]-(a+b)/2√(x)\n\n![The east gate]()\n\nIn a box. After it.\n\n1. one\n2. two\n\n"
        "| a |  | b |\n| --- | --- | --- |\n\n[2] In 1961."
    )


async def test_tables_and_the_title_of_a_slide_are_known_and_a_cell_is_not_said_twice(tool: WebFetchTool) -> None:
    """Japanese cells say beside their words how these are spoken."""
    rows = "".join(
        "<a:tr>" + "".join(f"<a:tc><a:p><a:t>{cell}</a:t></a:p></a:tc>" for cell in row) + "</a:tr>"
        for row in (("Dock", "Fee"), ("East", "40"))
    )
    shapes = (
        "<a:p><a:t>one</a:t><a:br/><a:t>two</a:t></a:p><p:sp><p:ph type='title'/><a:p><a:t>Docks</a:t></a:p></p:sp>"
        f"<a:tbl>{rows}</a:tbl>"
    )
    spoken = "<t>東京</t><rPh><t>トウキョウ</t></rPh>"
    sheet = sheet_file("S", '<row><c r="A1" t="s"><v>0</v></c></row>', [f"</t>{spoken}<t>"])
    slide, cell = [(await read(tool, Answer(file))).text for file in (slide_file([], shapes=[shapes]), sheet)]
    assert slide.endswith("## Slide 1: Docks\n\n- one two\n\n| Dock | Fee |\n| --- | --- |\n| East | 40 |")
    assert cell.endswith("| 東京 |\n| --- |")


async def test_the_notes_of_a_slide_stand_below_it(tool: WebFetchTool) -> None:
    body = slide_file([["Opening", "why"], ["Closing"]], notes={0: "Greet the keeper."})
    text = (await read(tool, Answer(body), "/p")).text
    assert text.endswith("## Slide 1: Opening\n\n- why\n\nNotes: Greet the keeper.\n\n## Slide 2: Closing")


async def test_the_chapters_of_an_e_book_come_in_their_order(tool: WebFetchTool) -> None:
    chapters = {"c%202.xhtml": "<h1>Two</h1><p>The light went out.</p>", "c1.xhtml": "<h1>One</h1><p>The light.</p>"}
    items = "".join(f'<item id="i{n}" href="{name}"/>' for n, name in enumerate(chapters))
    body = archive(
        {
            "mimetype": "application/epub+zip",
            "META-INF/container.xml": '<container><rootfiles><rootfile full-path="o/b.opf"/></rootfiles></container>',
            "o/b.opf": '<package xmlns:dc="d"><metadata><dc:title>The Log</dc:title><dc:creator>A. T.</dc:creator>'
            "</metadata>"
            f'<manifest>{items}</manifest><spine><itemref idref="i1"/><itemref idref="i0"/></spine></package>',
            **{f"o/{name.replace('%20', ' ')}": f"<html><body>{text}</body></html>" for name, text in chapters.items()},
        }
    )
    result = await read(tool, Answer(body, "application/epub+zip"), "/b.epub")
    assert result.text.startswith("[1] The Log\n")
    assert result.extras["extractor"] == "epub"
    assert result.text.endswith("One\n\nThe light.\n\n# Two\n\nThe light went out.")


async def test_rtf_gives_the_words_that_a_reader_sees(tool: WebFetchTool) -> None:
    body = (
        rb"{\rtf1\ansi\ansicpg1252\uc1{\fonttbl{\f0 Arial;}}{\*\generator Riched20;}{\info{\title T}}"
        rb"10{\super 24} H{\sub 2}O 1{\super st} a\super n\nosupersub .\par "
        rb"\pard\b Harbour\b0  caf\'e9 \u8364? 5\par Second line, 20\u176\'b0 C\{x\}\par}"
    )
    greek = rb"{\rtf1\ansi\ansicpg932 \'93\'fa\'96\'7b\par}"
    files = (Answer(body, "application/rtf"), Answer(greek))
    west, japan = [(await read(tool, file)).text for file in files]
    assert west.endswith("\n\n10^24 H2O 1st a^n.\nHarbour café € 5\nSecond line, 20° C{x}")
    assert japan.endswith("\n\n日本")


async def test_a_notebook_shows_its_texts_code_and_output(tool: WebFetchTool) -> None:
    cells = [
        {"cell_type": "markdown", "source": ["# Tides\n", "By hand."]},
        {
            "cell_type": "code",
            "source": "1 + 1",
            "outputs": [{"output_type": "execute_result", "data": {"text/plain": ["2"], "image/png": "AAAA"}}],
        },
    ]
    book = {"cells": cells, "metadata": {"kernelspec": {"language": "python"}}, "nbformat": 4}
    text = (await read(tool, Answer(json.dumps(book), "text/plain"), "/n.ipynb")).text
    assert text.startswith("[1] Tides\n")
    assert text.endswith("# Tides\nBy hand.\n\n```python\n1 + 1\n```\n\nOutput:\n\n```\n2\n```")


@table(
    "body name",
    (b"BM" + (5000).to_bytes(4, "little") + bytes(4) + b"6\x00\x00\x00" + b"\x00\xff" * 2000, "a BMP picture"),
    (b"II*\x00" + b"\x08\x00" * 900, "a TIFF picture"),
    (b"\x00\x00\x00\x1cftypavif" + b"\x00mif1" * 90, "an AVIF picture"),
    (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + b"\x00\x3e" * 900, "an old Office file"),
    (random.Random(7).randbytes(5000), "binary data (text/plain)"),
    ids=["bmp", "tiff", "avif", "doc", "unknown"],
)
async def test_G37_a_file_that_is_no_text_is_named_and_not_decoded(tool: WebFetchTool, body: bytes, name: str) -> None:
    result = await read(tool, Answer(body, "text/plain"), "/f")
    assert result.error == "unsupported_type"
    assert name in result.text
    assert "cannot be read as text here. Look for an HTML version" in result.text


async def test_K30_a_feed_gives_whole_texts_and_absolute_links(tool: WebFetchTool) -> None:
    rss = (
        '<rss xmlns:content="c"><channel><title>T</title><item><title>A</title><link>/a</link>'
        "<content:encoded>&lt;p&gt;All of it.&lt;/p&gt;</content:encoded></item></channel></rss>"
    )
    atom = (
        '<feed xmlns="http://www.w3.org/2005/Atom" xml:base="https://news.example/x/"><title>T</title>'
        '<entry><title>B</title><link href="b"/></entry></feed>'
    )
    pages = {"/rss": Answer(rss, "application/rss+xml"), "/atom": Answer(atom, "application/atom+xml")}
    async with Website(pages) as site:
        first, second = [(await tool.call({"url": site.url + path})).text for path in pages]
        assert f"- [A]({site.url}/a)\n  All of it." in first
    assert "- [B](https://news.example/x/b)" in second


_WORD = archive({"word/document.xml": "<w/>" * 9})


@table(
    "body says",
    (lambda: archive({"word/document.xml": b"<w>" + b" " * 40_000_000 + b"</w>"}), "larger than 24 MB"),
    (lambda: archive({"word/document.xml": "<!DOCTYPE w [<!ENTITY a 'aaaa'>]><w>&a;</w>"}), "without text"),
    (lambda: archive({"xl/workbook.xml": "no xml"}), "damaged"),
    (lambda: DOCX[:-40], "damaged"),
    (lambda: b"PK\x03\x04 word/document.xml " + b"x" * 500, "damaged"),
    (lambda: _WORD[:47] + b"\xff" + _WORD[48:], "damaged"),
    (lambda: _WORD.replace(b"PK\x01\x02\x14\x03\x14\x00\x00", b"PK\x01\x02\x14\x03\x14\x00\x01"), "encrypted"),
    ids=["bomb", "entity", "no xml", "cut", "no zip", "garbled", "locked"],
)
async def test_hostile_archives_are_refused_in_bounds(tool: WebFetchTool, body: Callable[[], bytes], says: str) -> None:
    result = await read(tool, Answer(body(), "application/zip"), "/f")
    assert result.error == "no_content"
    assert says in result.text


async def test_a_damaged_pdf_and_a_pdf_that_did_not_arrive_whole_are_named(make_tool: MakeTool) -> None:
    whole = pdf_file(["x" * 50] * 300)
    tool = make_tool(maxBytes=20_000)
    damaged, cut = [await read(tool, Answer(body)) for body in (b"%PDF-1.7 " + b"x" * 3000, whole)]
    assert damaged.error == "no_content"
    assert "damaged" in damaged.text
    assert cut.error == "too_large"


def test_an_abstract_leads_to_the_paper() -> None:
    assert raw_file("https://arxiv.org/abs/2401.01234v2") == "https://arxiv.org/html/2401.01234v2"
    assert raw_file("https://www.arxiv.org/abs/math.GT/0309136") == "https://arxiv.org/html/math.GT/0309136"
    for other in ("https://arxiv.org/list/cs.AI/new", "https://arxiv.org.evil.example/abs/2401.01234"):
        assert raw_file(other) == other


async def test_an_abstract_without_a_paper_is_read_itself(make_tool: MakeTool) -> None:
    tool = make_tool(network=Names({"arxiv.org": ["127.0.0.1"]}))
    async with Website({"/abs/2401.01234": Answer(f"<p>{'The abstract of the paper. ' * 20}</p>")}) as site:
        result = await tool.call({"url": f"http://arxiv.org:{site.port}/abs/2401.01234"})
        assert site.paths == ["/html/2401.01234", "/abs/2401.01234"]
    assert "The abstract of the paper." in result.text
    assert result.extras["requests"] == 2
