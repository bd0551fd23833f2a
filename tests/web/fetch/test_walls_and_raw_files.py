"""What stands in front of a page, and where the file behind a page lies."""

from nanobot.agent.tools.web.fetch import WebFetchTool
from nanobot.web.fetch.local import wall
from nanobot.web.fetch.page import raw_file
from tests.fakes.website import Answer, Names, Website
from tests.tables import table
from tests.web.fetch.conftest import MakeTool, read


@table(
    "url raw",
    ("https://github.com/o/r/blob/main/a/b.py", "https://raw.githubusercontent.com/o/r/main/a/b.py"),
    ("https://www.github.com/o/r/blob/v1/x.md?plain=1#L3", "https://raw.githubusercontent.com/o/r/v1/x.md"),
    ("https://gist.github.com/u/0123456789abcdef", "https://gist.githubusercontent.com/u/0123456789abcdef/raw"),
    ("https://gitlab.com/g/s/p/-/blob/main/x.py", "https://gitlab.com/g/s/p/-/raw/main/x.py"),
    ("https://bitbucket.org/o/r/src/main/x.py", "https://bitbucket.org/o/r/raw/main/x.py"),
    ("https://codeberg.org/o/r/src/branch/main/x.py", "https://codeberg.org/o/r/raw/branch/main/x.py"),
)
def test_G15_a_file_page_leads_to_the_file(url: str, raw: str) -> None:
    assert raw_file(url) == raw


@table(
    "url",
    "https://evil.example/github.com/x/blob/y",
    "https://github.com.evil.example/o/r/blob/main/x",
    "https://github.com@evil.example/o/r/blob/main/x",
    "https://github.com/o/r",
    "https://github.com/o/r/tree/main/x",
    "https://github.com/o/r/blob/main",
    "http://[::1",
)
def test_G15_nothing_else_is_rewritten(url: str) -> None:
    assert raw_file(url) == url


async def test_G15_the_file_is_read_and_the_page_is_cited(make_tool: MakeTool) -> None:
    tool = make_tool(network=Names({"raw.githubusercontent.com": ["127.0.0.1"]}))
    async with Website({"/o/r/main/README.md": Answer("# Hello\n", "text/plain")}) as site:
        url = f"http://github.com:{site.port}/o/r/blob/main/README.md"
        result = await tool.call({"url": url})
    assert result.sources[0].url == url
    assert result.text.startswith("[1] Hello\n")


@table(
    "title text kind says",
    ("Just a moment...", "Checking your browser before accessing the site.", "no_content", "robots"),
    ("Search", "Before you continue to the site, choose your cookies.", "no_content", "consent"),
)
async def test_a_wall_is_named_not_given_as_the_page(
    tool: WebFetchTool, title: str, text: str, kind: str, says: str
) -> None:
    page = f"<html><head><title>{title}</title></head><body><main><p>{text}</p></main></body></html>"
    result = await read(tool, Answer(page))
    assert result.error == kind
    assert says in result.text
    assert result.untrusted


async def test_W09_a_login_that_comes_with_status_200_is_named_as_one(tool: WebFetchTool) -> None:
    result = await read(tool, Answer("<title>Story</title><main><p>Please log in to read this story.</p></main>"))
    assert (result.error, result.extras["status"]) == ("login_wall", 200)
    assert "Look for a public source" in result.text


def test_a_page_that_speaks_of_walls_is_a_page() -> None:
    assert wall("How captchas work", "To verify you are human, sites ask. " * 60) is None
    assert wall("Story", "The boats came home. Please log in to comment.") is None
    assert wall("Opening hours", "We open at nine. The login desk is on the left.") is None
