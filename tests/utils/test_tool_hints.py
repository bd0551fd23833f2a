"""The one line that people see while a tool works."""

from nanobot.utils.tool_hints import fold_hints, numbered, shared_hint, tool_hint
from nanobot.utils.translation import speaking
from tests.fakes.chinese import english_left
from tests.tables import table


@table(
    "tool arguments hint",
    ("web_search", {"query": "Claude 4 vs GPT-4"}, 'search "Claude 4 vs GPT-4"'),
    ("web_search", {"search_term": "cats"}, 'search "cats"'),
    ("web_search", {}, "search"),
    ("web_fetch", {"url": "https://example.com/article"}, "fetch example.com/article"),
    ("web_fetch", {"url": "https://docs.python.org/3.13/whatsnew/"}, "fetch docs.python.org/3.13/whatsnew/"),
    ("web_fetch", {"url": "example.com"}, "fetch example.com"),
    ("web_search", {"q": "cats"}, 'search "cats"'),
    ("web_fetch", {"URL": "https://me:pw@example.com/a"}, "fetch example.com/a"),
    ("web_fetch", {"url": "https://a.example/", "section": "Food"}, 'fetch a.example/, section "Food"'),
    ("web_fetch", {"url": "https://a.example/", "find": "eggs", "offset": 0}, 'fetch a.example/, find "eggs"'),
    ("web_fetch", {"url": "https://a.example/", "start_index": 4000}, "fetch a.example/, from 4000"),
    ("web_fetch", {"prompt": "Compare https://a.example/x, and http://b.example."}, "fetch a.example/x + 1 more"),
    ("web_fetch", {"prompt": "Sum it up"}, "fetch Sum it up"),
    ("nanobot_docs", {"query": "connect Telegram"}, 'docs "connect Telegram"'),
    ("read_file", {"limit": 3, "path": "notes.md"}, "read notes.md"),
    ("write_file", {"file_path": "a b.md", "content": "x"}, "write a b.md"),
    ("grep", {"pattern": "def x", "path": "src"}, 'grep "def x"'),
    ("other", {"limit": 3, "path": "notes.md"}, 'other "notes.md"'),
    ("list", {"depth": 3}, "list"),
    ("web_search", {"query": "two\nlines \x1b[31mred\u202e"}, 'search "two lines red"'),
    ("web_search", {"query": "{} {0}"}, 'search "{} {0}"'),
)
def test_N46_the_wording_of_a_call(tool: str, arguments: dict[str, object], hint: str) -> None:
    assert tool_hint(tool, arguments) == hint


def test_N46_a_long_value_is_cut_in_the_middle() -> None:
    hint = tool_hint("web_fetch", {"url": "https://example.com/" + "x" * 200 + "/last.html"})
    assert hint == f"fetch example.com/{'x' * 18}…{'x' * 19}/last.html"
    assert len(hint) == len("fetch ") + 60
    assert len(tool_hint("web_search", {"query": "w" * 500})) == len('search ""') + 60
    assert tool_hint("web_search", {"query": "first " + "w" * 500 + " last"}).endswith(' last"')


def test_N46_neighbouring_repeats_are_folded() -> None:
    assert fold_hints(["a", "a", "a", "b", "a"]) == ("a × 3", "b", "a")


def test_a_call_is_worded_in_chinese_and_helpers_are_numbered_there() -> None:
    with speaking("zh"):
        assert tool_hint("web_search", {"query": "潮汐"}) == "搜索“潮汐”"
        assert (
            tool_hint("web_fetch", {"urls": ["https://a.example/", "https://b.example/"]})
            == "阅读 a.example/ 及另外 1 项"
        )
        helper = tool_hint("spawn", {"task": "查潮汐"})
        first = numbered(helper, ["搜索“潮汐”"])
        assert (first, numbered(helper, [first])) == ("助手 1“查潮汐”", "助手 2“查潮汐”")
        assert not english_left("\n".join(shared_hint(name, {}) for name in ("web_search", "learn", "exec", "other")))
