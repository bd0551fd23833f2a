"""`web_fetch` with several URLs or a prompt, against a site on loopback."""

import json

import pytest

from nanobot.agent.tools.base import ToolContext
from nanobot.agent.tools.offers import named
from nanobot.agent.tools.web.fetch import WebFetchTool, room_for
from nanobot.results import SourceBook
from nanobot.utils.runtime import external_lookup_signature
from nanobot.utils.tool_hints import tool_hint
from nanobot.utils.translation import speaking
from tests.fakes.chinese import english_left
from tests.fakes.website import Answer, Names, Website
from tests.tables import table
from tests.web.fetch.conftest import MakeTool


def plain(text: str) -> Answer:
    return Answer(text, type="text/plain")


@table(
    "arguments said",
    ({}, "parameter 'url' is missing"),
    ({"url": None}, "parameter 'url' is missing"),
    ({"url": 5}, "url:"),
    ({"url": "https://a.example/", "prompt": "https://b.example/"}, "exactly one of 'url', 'urls' and 'prompt'"),
    ({"url": "https://a.example/", "urls": ["https://b.example/"]}, "'url', 'urls' and 'prompt', not url and urls"),
    ({"url": "https://a.example/", "prompt": "sum up", "offset": 5}, "'offset' goes with 'url' only"),
    ({"urls": ["https://a.example/"], "offset": 5}, "'offset' goes with 'url' only"),
    ({"prompt": " "}, "The 'prompt' parameter cannot be empty and must contain URL(s) and instructions."),
    ({"prompt": "sum up {this}"}, "The 'prompt' must contain at least one valid URL."),
    ({"prompt": "read www.example"}, "at least one valid URL. Not valid: www.example."),
    ({"ur": "x"}, "did you mean 'url'?"),
    ({"website": "https://a.example/"}, "unknown parameter 'website', known are url, urls, prompt, format,"),
    ({"url": "https://a.example/", "maxCharz": 5}, "unknown parameter 'maxCharz', did you mean 'max_chars'?"),
    ({"url": "https://a.example/", "max_chars": "lots"}, "max_chars: Expected `int | null`, got `str` (got 'lots')"),
    (
        {"url": "https://a.example/", "format": "pdf"},
        "format: Invalid enum value 'pdf'; known are markdown, text, html",
    ),
    ({"url": "https://a.example/", "section": "x", "offset": 5}, "'section'"),
    ({"url": "https://a.example/", "section": "x", "find": "x"}, "'section'"),
    ({"url": "https://a.example/", "section": "x", "prompt": "what is it?"}, "'section'"),
    ({"urls": ["https://a.example/"], "section": "x"}, "'section'"),
)
async def test_K02_G01_G04_G05_G06_what_is_wrong_with_a_call_is_named(
    tool: WebFetchTool, arguments: dict[str, object], said: str
) -> None:
    result = await tool.call(arguments)
    assert result.error == "invalid_input"
    assert result.text.startswith("Error: Invalid parameters. Reason: ")
    assert said in result.text
    assert result.message.startswith("Invalid parameters. Reason: ")


async def test_a_number_that_names_nothing_is_told(tool: WebFetchTool) -> None:
    result = await tool.call({"url": "[3]"})
    assert result.error == "invalid_input"
    assert "There is no result [3]: nothing was found in this turn yet." in result.text


async def test_W12_a_malformed_url_in_a_prompt_is_named_and_the_good_ones_are_read(tool: WebFetchTool) -> None:
    async with Website({"/a": plain("the blue door")}) as site:
        result = await tool.call({"prompt": f"what do {site.url}/a and https://:80/x and htp://b.test/x say?"})
        assert site.paths == ["/a"]
    assert "the blue door" in result.text
    assert "https://:80/x: not read: this is no valid URL." in result.text
    assert "htp://b.test/x: not read: this is no valid URL." in result.text
    assert result.partial


@table(
    "arguments paths",
    ({"url": ["U/a"]}, ["/a"]),
    ({"url": ["U/a", "U/b"]}, ["/a", "/b"]),
    ({"urls": "U/a"}, ["/a"]),
    ({"urls": "U/a, U/b"}, ["/a", "/b"]),
    ({"urls": "U/a,U/b"}, ["/a", "/b"]),
    ({"urls": '["U/a", "U/b"]'}, ["/a", "/b"]),
    ({"urls": ["U/a", ""]}, ["/a"]),
    ({"url": "", "urls": ["U/b"], "prompt": ""}, ["/b"]),
    ({"url": "U/a", "urls": [], "prompt": None}, ["/a"]),
    ({"url": "U/a", "urls": None, "offset": None, "find": None, "format": "MD", "max_chars": "500"}, ["/a"]),
    ({"link": "U/b", "url": "U/a"}, ["/a"]),
)
async def test_G01_targets_in_another_shape_are_read_as_meant(
    tool: WebFetchTool, arguments: dict[str, object], paths: list[str]
) -> None:
    async with Website({"/a": plain("alpha text"), "/b": plain("beta text")}) as site:
        given = json.loads(json.dumps(arguments).replace("U/", f"{site.url}/"))
        result = await tool.call(given)
        assert (result.error, sorted(site.paths)) == (None, paths), result.text


@pytest.mark.parametrize("urls", ["U/a, #9", '["U/a", "#9"]'])
async def test_a_text_of_pages_loses_none_that_is_named_otherwise(tool: WebFetchTool, urls: str) -> None:
    async with Website({"/a": plain("alpha text")}) as site:
        result = await tool.call({"urls": urls.replace("U", site.url)})
    assert "alpha text" in result.text
    assert "There is no result #9" in result.text


async def test_G02_G18_of_21_urls_20_are_read_and_one_is_named(tool: WebFetchTool) -> None:
    async with Website({f"/{n}": plain(f"page number {n}") for n in range(21)}) as site:
        result = await tool.call({"urls": [f"{site.url}/{n}" for n in range(21)]})
        assert len(site.paths) == 20
        assert f"{site.url}/20: not read: only the first 20 URLs" in result.text
    assert len(result.sources) == 20
    assert "page number 19" in result.text


async def test_G10_what_failed_is_told_to_people_too_and_no_url_twice(tool: WebFetchTool) -> None:
    async with Website({"/a.txt": plain("alpha text")}) as site:
        some = await tool.call({"urls": [f"{site.url}/a.txt", f"{site.url}/b"]})
        whole = await tool.call({"urls": [f"{site.url}/a.txt"]})
        none = await tool.call({"urls": [f"{site.url}/b", f"{site.url}/c"]})
        one = await tool.call({"url": f"{site.url}/b"})
    assert (some.message, some.partial, some.sources[0].title) == ("Read 1 of 2 pages", True, "a.txt")
    assert f"\n{site.url}/b: not read: answered with status 404." in some.text
    assert not whole.partial
    assert none.message.startswith(f"Read 0 of 2 pages. {site.url}/b answered with status 404.")
    assert none.untrusted
    assert one.message == "answered with status 404. The page is not there; search again for its new address."
    assert one.text.startswith(f"Error: {site.url}/b answered with status 404.")


async def test_G10_one_failed_url_leaves_the_others(tool: WebFetchTool) -> None:
    async with Website({"/a": plain("alpha text"), "/c": plain("gamma text")}) as site:
        result = await tool.call({"urls": [f"{site.url}/{name}" for name in "abc"]})
        assert result.error is None
        assert "alpha text" in result.text
        assert "gamma text" in result.text
        assert f"{site.url}/b: not read:" in result.text
        assert result.extras["failed"] == {f"{site.url}/b": "http_status"}
        none = await tool.call({"urls": [f"{site.url}/x", f"{site.url}/y"]})
    assert none.error == "http_status"
    assert none.text.startswith("Error:")


def test_G20_A18_twenty_pages_share_the_room_of_one_result() -> None:
    assert room_for(20, ToolContext()) == 100_000


async def test_G20_N44_C5_no_page_is_lost_to_the_limit_of_a_result(tool: WebFetchTool) -> None:
    pages = {
        "/tiny": plain("tiny"),
        "/long": plain("a long line of words\n" * 5_000),
        "/short": plain("the short one, whole\n" * 140),
    }
    async with Website(pages) as site:
        result = await tool.call({"urls": [site.url + path for path in pages]}, ToolContext(result_chars=10_000))
    assert len(result.text) <= 10_000
    assert result.text.count("the short one, whole\n") == 140, "more than a third of the room"
    assert "To read on, call web_fetch again with offset=" in result.text


async def test_without_a_model_a_prompt_gives_the_passages_that_fit_it(make_tool: MakeTool) -> None:
    filler = "\n\n".join(f"Paragraph {n} is about wool and weaving in the hills. " * 8 for n in range(60))
    wanted = "The lighthouse keeper earned forty crowns a month."
    async with Website({"/a": plain(f"{filler}\n\n{wanted}\n\n{filler}"), "/b": plain("A short page.")}) as site:
        prompt = f"比较{site.url}/a和{site.url}/b：what did the lighthouse keeper earn?"
        result = await make_tool().call({"prompt": prompt, "max_chars": 3_000})
    assert result.error is None
    assert "No model has read these pages" in result.text
    assert wanted in result.text
    assert "A short page." in result.text
    assert len(result.text) < 5_000
    assert [source.number for source in result.sources] == [1, 2]


def test_M7_other_sizes_and_other_pages_are_other_lookups() -> None:
    def key(**arguments: object) -> str | None:
        return external_lookup_signature("web_fetch", arguments)

    assert key(url="https://a.example/", max_chars=900) != key(url="https://a.example/")
    assert key(urls=["https://a.example/", "https://b.example"]) == key(
        urls=["https://B.example/", "https://a.example"]
    )
    assert key(urls=["https://a.example/"]) != key(urls=["https://c.example/"])
    assert key(prompt="Read  https://a.example/") == key(prompt="read https://a.example/")


def test_N46_a_call_for_many_pages_names_the_first() -> None:
    assert (
        tool_hint("web_fetch", {"urls": ["https://a.example/x", "https://b.example"]}) == "fetch a.example/x + 1 more"
    )


async def test_a_person_sees_that_a_page_came_from_the_store(tool: WebFetchTool) -> None:
    async with Website({"/a": plain("alpha text")}) as site:
        first = await tool.call({"url": f"{site.url}/a"})
        second = await tool.call({"url": f"{site.url}/a"})
        assert len(site.paths) == 1
    assert "from cache" not in first.message
    assert second.message.endswith("; from cache (under 1 min))")


def test_G03_an_address_without_a_scheme_is_read_over_https() -> None:
    assert named("www.a.example/x", SourceBook()) == "https://www.a.example/x"
    assert named("https://www.a.example/x", SourceBook()) == "https://www.a.example/x"


async def test_W08_a_public_host_is_asked_twenty_times_a_minute_and_the_wait_is_named(make_tool: MakeTool) -> None:
    now = 100.0
    names = Names({"busy.test": ["93.184.216.34"], "calm.test": ["93.184.216.35"]})
    tool = make_tool(network=names, clock=lambda: now, whitelist=())
    async with Website({f"/{number}": Answer(f"<p>Page {number} of the log.</p>") for number in range(30)}) as site:
        for number in range(20):
            assert (await tool.call({"url": f"http://busy.test:{site.port}/{number}"})).error is None
            now += 1
        refused = await tool.call({"url": f"http://busy.test:{site.port}/20"})
        other = await tool.call({"url": f"http://calm.test:{site.port}/21"})
        again = await tool.call({"url": f"http://busy.test:{site.port}/3"})
        now += 40
        later = await tool.call({"url": f"http://busy.test:{site.port}/20"})
    assert refused.error == "rate_limited"
    assert "may be asked again in 40 s" in refused.text
    assert (other.error, again.error, later.error) == (None, None, None), "a kept page and another host cost no wait"


async def test_why_a_page_was_not_read_is_told_in_the_language_of_who_asked(tool: WebFetchTool) -> None:
    answers = {"/zip": Answer(b"PK\x03\x04" + bytes(60), "application/zip")}
    answers["/empty"] = Answer("<html><script>x</script>Enable JavaScript</html>")
    async with Website(answers) as site:
        with speaking("zh"):
            told = [(await tool.call({"url": f"{site.url}/{path}"})).message for path in ("gone", "zip", "empty")]
    assert told[0] == "返回状态 404。网页不存在；请搜索它的新地址。"
    assert "ZIP 压缩包" in told[1]
    assert not english_left("\n".join(told), "Enable JavaScript")
