"""Files that are no pages: PDF, documents, workbooks, presentations, JSON feeds, papers behind their abstracts."""

import json
import sys

import pytest

from nanobot.agent.tools.web_fetch import WebFetchTool
from nanobot.web.fetch.raw_files import raw_file
from tests.fakes.files import archive, paragraph, pdf_file, sheet_file, slide_file, word_file
from tests.fakes.website import Answer, Names, Website
from tests.web.fetch.conftest import MakeTool

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


async def test_G37_documents_workbooks_and_presentations_become_markdown(tool: WebFetchTool) -> None:
    pages = {"/d": Answer(DOCX, "application/zip"), "/x": Answer(XLSX, ""), "/p": Answer(PPTX, "text/html")}
    async with Website(pages) as site:
        word, sheet, slides = [await tool.call({"url": site.url + path}) for path in pages]
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


async def test_G37_a_pdf_is_read_page_by_page(tool: WebFetchTool) -> None:
    body = pdf_file(["The tide table of the harbour", "High water at nine"], "Tides")
    async with Website({"/t.pdf": Answer(body, "application/octet-stream")}) as site:
        result = await tool.call({"url": f"{site.url}/t.pdf"})
    assert result.text.startswith("[1] Tides\n")
    assert result.extras["extractor"] == "pdf"
    assert result.extras["published"] == "2024-05-06"
    assert "## Page 1\n\nThe tide table of the harbour\n\n## Page 2\n\nHigh water at nine" in result.text


async def test_G37_without_the_extra_the_error_names_it(tool: WebFetchTool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pypdf", None)
    async with Website({"/t": Answer(pdf_file(["x"]), "application/pdf")}) as site:
        result = await tool.call({"url": f"{site.url}/t"})
    assert result.error == "unsupported_type"
    assert "nanobot[pdf]" in result.text


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (archive({"word/document.xml": b"<w>" + b" " * 40_000_000 + b"</w>"}), "larger than 24 MB"),
        (archive({"word/document.xml": "<!DOCTYPE w [<!ENTITY a 'aaaa'>]><w>&a;</w>"}), "without text"),
        (archive({"xl/workbook.xml": "no xml"}), "damaged"),
        (DOCX[:-40], "damaged"),
        (b"PK\x03\x04 word/document.xml " + b"x" * 500, "damaged"),
    ],
    ids=["bomb", "entity", "no xml", "cut", "no zip"],
)
async def test_hostile_archives_are_refused_in_bounds(tool: WebFetchTool, body: bytes, says: str) -> None:
    async with Website({"/f": Answer(body, "application/zip")}) as site:
        result = await tool.call({"url": f"{site.url}/f"})
    assert result.error == "no_content"
    assert says in result.text


async def test_a_damaged_pdf_and_a_pdf_that_did_not_arrive_whole_are_named(make_tool: MakeTool) -> None:
    whole = pdf_file(["x" * 50] * 300)
    async with Website({"/d": Answer(b"%PDF-1.7 " + b"x" * 3000), "/big": Answer(whole)}) as site:
        tool = make_tool(maxBytes=20_000)
        damaged, cut = [await tool.call({"url": f"{site.url}{path}"}) for path in ("/d", "/big")]
    assert damaged.error == "no_content"
    assert "damaged" in damaged.text
    assert cut.error == "too_large"


async def test_K30_a_json_feed_becomes_a_list_of_entries(tool: WebFetchTool) -> None:
    feed = {
        "version": "https://jsonfeed.org/version/1.1",
        "title": "Coast",
        "items": [
            {
                "id": "1",
                "url": "https://c.example/1",
                "title": "Storm",
                "date_published": "2024-05-06",
                "summary": "Wet.",
            },
            {"id": "2", "content_html": "<p>No title</p>"},
        ],
    }
    pages = {"/f": Answer(json.dumps(feed), "application/feed+json"), "/j": Answer('{"version": "1"}', "")}
    async with Website(pages) as site:
        result = await tool.call({"url": f"{site.url}/f"})
        other = await tool.call({"url": f"{site.url}/j"})
    assert result.text.startswith("[1] Coast\n")
    assert result.text.endswith("- [Storm](https://c.example/1) (2024-05-06)\n  Wet.\n- (no title)\n  No title")
    assert '"version": "1"' in other.text


def test_an_abstract_leads_to_the_paper() -> None:
    assert raw_file("https://arxiv.org/abs/2401.01234v2") == "https://arxiv.org/html/2401.01234v2"
    assert raw_file("https://www.arxiv.org/abs/math.GT/0309136") == "https://arxiv.org/html/math.GT/0309136"
    for other in ("https://arxiv.org/list/cs.AI/new", "https://arxiv.org.evil.example/abs/2401.01234"):
        assert raw_file(other) == other


async def test_an_abstract_without_a_paper_is_read_itself(make_tool: MakeTool) -> None:
    tool = make_tool(resolver=Names({"arxiv.org": ["127.0.0.1"]}))
    async with Website({"/abs/2401.01234": Answer(f"<p>{'The abstract of the paper. ' * 20}</p>")}) as site:
        result = await tool.call({"url": f"http://arxiv.org:{site.port}/abs/2401.01234"})
        assert site.paths == ["/html/2401.01234", "/abs/2401.01234"]
    assert "The abstract of the paper." in result.text
    assert result.extras["requests"] == 2
