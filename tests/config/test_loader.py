"""Reading the configuration: what loads, what is refused and how, and that nothing is ever overwritten."""

import json
import stat
import traceback
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nanobot.config.keys import walk_keys
from nanobot.config.loader import Loaded, load, load_text
from nanobot.config.schema import Config
from nanobot.config.schema_web import SEARCH_PROVIDERS
from nanobot.errors import ConfigError
from nanobot.utils.translation import speaking
from tests.config.broken import BROKEN, Broken
from tests.fakes.chinese import english_left
from tests.tables import table

FILE = Path("config.json")


def loads(text: str, **env: str) -> Loaded:
    return load_text(text, FILE, env=env)


def test_there_are_at_least_forty_broken_files() -> None:
    assert len({one.name for one in BROKEN}) == len(BROKEN) >= 40


@pytest.mark.parametrize("broken", BROKEN, ids=lambda one: one.name)
def test_a_broken_file_is_explained_in_the_readers_language_and_left_alone(broken: Broken, tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_bytes(broken.data)
    with pytest.raises(ConfigError) as caught:
        load(path, env={})
    problem = caught.value.problems[0]
    assert (problem.file, problem.line, problem.path) == (str(path), broken.line, broken.key)
    for words in broken.says:
        assert words in str(caught.value)
    with speaking("zh"), pytest.raises(ConfigError) as caught:
        load(path, env={})
    assert not english_left(str(caught.value), ", ".join(SEARCH_PROVIDERS[1:]))
    assert path.read_bytes() == broken.data
    assert list(tmp_path.iterdir()) == [path]


def test_every_problem_of_a_file_is_named_in_the_order_of_the_file() -> None:
    with pytest.raises(ConfigError) as caught:
        loads('{"gateway": {"concurrency": -1},\n"tols": 1,\n"tools": {"web": {"proxy": 5}}}')
    assert [(one.line, one.path) for one in caught.value.problems] == [
        (1, "gateway.concurrency"),
        (2, "tols"),
        (3, "tools.web.proxy"),
    ]


@table(
    "text",
    '{"providers": {"openai": {"apiKey": ["CANARY-1"]}}}',
    '{"providers": {"openai": {"apiKey": {"CANARY": "CANARY"}}}}',
    '{"providers": {"openai": "CANARY"}}',
    '{"tools": {"web": {"proxy": "ftp://me:CANARY@proxy.example"}}}',
    '{"tools": {"web": {"proxy": ["http://me:CANARY@proxy.example"]}}}',
    '{"tools": {"web": {"fetch": {"service": {"headers": {"Cookie": "CANARY"}}}}}}',
    '{"mcp": {"a": {"env": {"KEY": ["CANARY"]}}}}',
    '{"channels": {"telegram": {"token": "CANARY',
    '{"channels": {"telegram": {"token": CANARY-abcdef}}}',
)
def test_an_error_never_shows_a_secret(text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        loads(text)
    assert "CANARY" not in "".join(traceback.format_exception(caught.value))


def test_no_file_means_all_defaults(tmp_path: Path) -> None:
    loaded = load(env={"NANOBOT_HOME": str(tmp_path / "home")})
    assert loaded.config == Config()
    assert not loaded.exists
    assert not (tmp_path / "home").exists()


def test_a_named_file_that_is_missing_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="does not exist"):
        load(tmp_path / "typo.json", env={}, must_exist=True)


def test_a_folder_in_place_of_the_file_is_explained(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="not a file"):
        load(tmp_path, env={})


def test_a_link_to_nowhere_is_not_taken_for_a_first_start(tmp_path: Path) -> None:
    link = tmp_path / "config.json"
    link.symlink_to(tmp_path / "gone.json")
    with pytest.raises(ConfigError):
        load(link, env={})


def test_N08_N28_A18_G09_G16_G27_G36_K14_N06_N37_N38_N39_S17_S19_the_defaults_are_those_of_the_product() -> None:
    config = loads("{}").config
    search, fetch, agent = config.tools.web.search, config.tools.web.fetch, config.agents.defaults
    assert (search.provider, search.max_results, search.timeout, search.content_budget) == ("auto", 5, 30, 20_000)
    assert (search.detail, search.lookup_repeats, search.ddgs_backend) == ("normal", 2, "duckduckgo")
    assert (fetch.native, fetch.concurrency, fetch.extract.comments) == (False, 5, True)
    assert (fetch.enable, fetch.max_chars, fetch.timeout, fetch.max_bytes) == (True, 50_000, 30, 10 * 1024 * 1024)
    assert (fetch.order, fetch.render, fetch.allow_private) == ("local-first", "text", "deny")
    assert (agent.model, agent.provider, agent.max_tokens, agent.max_tool_iterations) == ("", "auto", 8192, 40)
    assert (agent.context_window_tokens, agent.temperature, agent.max_tool_result_chars) == (None, None, 60_000)
    assert config.tools.web.enable
    assert not config.channels.telegram.enabled


@table(
    "web",
    {"enable": True, "search": {"provider": "duckduckgo"}},
    {
        "enable": True,
        "proxy": "http://127.0.0.1:7890",
        "search": {"provider": "brave", "apiKey": "BSAxxxxxxxxxxxx", "maxResults": 8},
    },
    {"search": {"provider": "tavily", "apiKey": "tvly-xxxxxxxxxxxx"}},
    {"search": {"provider": "searxng", "baseUrl": "https://searx.your-domain.com"}},
    {"enable": False},
)
def test_N05_the_snippets_of_the_handbook_load_unchanged(web: dict[str, object]) -> None:
    loaded = loads(json.dumps({"tools": {"web": web}}))
    assert not loaded.problems
    assert loaded.config.tools.web.enable is web.get("enable", True)


@pytest.mark.parametrize("written", ['""', "null", '"  "', '"auto"', '"AUTO"'])
def test_N23_an_empty_search_provider_is_auto(written: str) -> None:
    assert loads(
        f'{{"tools": {{"web": {{"search": {{"provider": {written}}}}}}}}}'
    ).config.tools.web.search.provider == ("auto")


@table(
    "proxy",
    "http://127.0.0.1:7890",
    "http://user:pass@proxy.example.com:8080",
    "socks5://127.0.0.1:1080",
    "socks5h://127.0.0.1:1080",
)
def test_N10_G26_proxies_of_every_kind_load(proxy: str) -> None:
    assert loads(json.dumps({"tools": {"web": {"proxy": proxy}}})).config.tools.web.proxy == proxy


def test_C28_a_socks_proxy_is_read_as_socks5() -> None:
    assert loads('{"tools": {"web": {"proxy": "socks://h:1"}}}').config.tools.web.proxy == "socks5://h:1"


def test_A20_K01_the_webfetch_section_is_read_in_milliseconds() -> None:
    loaded = loads('{"tools": {"webfetch": {"enabled": false, "maxChars": 1000, "timeout": 30000}}}')
    fetch = loaded.config.tools.web.fetch
    assert (fetch.enable, fetch.max_chars, fetch.timeout) == (False, 1000, 30)
    assert not loaded.problems


def test_C6_a_time_in_milliseconds_is_read_where_a_time_in_seconds_stands() -> None:
    assert loads('{"tools": {"web": {"search": {"timeoutMs": 2500}}}}').config.tools.web.search.timeout == 2.5


def test_S26_the_service_sections_land_in_the_web_tools() -> None:
    service = {
        "base_url": "https://your-search-service.example.com/search",
        "api_key": "${SEARCH_API_KEY}",
        "custom_headers": {"X-Env": "prod", "X-Trace-Source": "kimi-cli"},
    }
    text = json.dumps({"services": {"moonshot_search": service, "moonshot_fetch": service}})
    loaded = loads(text, SEARCH_API_KEY="sk-search-1")
    assert not loaded.problems
    for part in (loaded.config.tools.web.search.providers["kimi"], loaded.config.tools.web.fetch.service):
        assert part.base_url == service["base_url"]
        assert part.api_key == "sk-search-1"
        assert part.headers == service["custom_headers"]


@pytest.mark.parametrize("value", ["true", "5", '"x"', "[1]", "null", '{"enable": true, "timeout": -1, "x": "${A}"}'])
def test_a_key_without_an_effect_yet_loads_with_a_note_whatever_it_holds(value: str) -> None:
    loaded = loads(
        f'{{"tools": {{"imageGeneration": {value}}},\n"gateway": {{"heartbeat": {value},\n"port": {value}}}}}'
    )
    assert [(one.line, one.path, one.message) for one in loaded.problems] == [
        (1, "tools.imageGeneration", "this key has no effect."),
        (2, "gateway.heartbeat", "this key has no effect."),
        (3, "gateway.port", "this key has no effect."),
    ]
    assert "nanobot makes no pictures" in loaded.problems[0].hint
    assert (loaded.config, loaded.disabled) == (Config(), {})


@table(
    "text path hint",
    ('{"agents": {"defaults": {"temprature": 1}}}', "agents.defaults.temprature", '"temperature"'),
    ('{"tool": {}}', "tool", '"tools"'),
    ('{"maxResults": 3}', "maxResults", "tools.web.search.maxResults"),
    ('{"telegram": {"enabled": true}}', "telegram", "channels.telegram"),
    ('{"defaults": {}}', "defaults", "agents.defaults"),
    ('{"provider": {"openai": {}}}', "provider", '"providers"'),
    ('{"tools": {"web": {"serach": {}}}}', "tools.web.serach", '"search"'),
    ('{"providers": {"openai": {"apikey": "k"}}}', "providers.openai.apikey", '"apiKey"'),
)
def test_an_unknown_key_is_a_warning_with_the_nearest_known_one(text: str, path: str, hint: str) -> None:
    (problem,) = loads(text).problems
    assert (problem.line, problem.path) == (1, path)
    assert hint in problem.hint


@settings(deadline=None)
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
        lambda inner: (
            st.lists(inner)
            | st.dictionaries(
                st.sampled_from(
                    (
                        "tools web search mcp x agents defaults provider apiKey services "
                        "moonshot_search timeoutMs headers webfetch fetch channels telegram"
                    ).split()
                ),
                inner,
            )
        ),
    )
)
def test_whatever_json_holds_ends_in_a_configuration_or_in_sentences(value: object) -> None:
    try:
        loads(json.dumps(value))
    except ConfigError as error:
        told = str(error)
    else:
        told = "nothing"
    assert told


@settings(deadline=None)
@given(st.text(alphabet='{}[]",:/*\\ \n\'truefalsn0123-.eE$"ab\u201c\ufeff'))
def test_whatever_a_file_holds_ends_in_a_configuration_or_in_sentences(text: str) -> None:
    try:
        loads(text)
    except ConfigError as error:
        told = str(error)
    else:
        told = "nothing"
    assert told


ODD: tuple[object, ...] = (True, -1, 10**30, "", "${X}", "${", "http://[::1", [None], ["x", {}], {"": ""}, "a" * 9999)


@pytest.mark.parametrize("path", [path for path, _ in walk_keys()], ids=".".join)
def test_every_key_judges_odd_values_in_short_sentences_that_name_it(path: tuple[str, ...]) -> None:
    for odd in ODD:
        data = odd
        for key in reversed(path):
            data = {key.replace("<name>", "brave"): data}
        try:
            loads(json.dumps(data))
        except ConfigError as error:
            assert len(str(error)) < 1000  # noqa: PT017 - both ways out are right
            assert all(one.path and one.message for one in error.problems)  # noqa: PT017 - both ways out are right


def test_the_file_may_hold_a_byte_order_mark_and_windows_line_ends(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_bytes(b'\xef\xbb\xbf{\r\n  "gateway": {"concurrency": 1}\r\n}\r\n')
    path.chmod(stat.S_IRUSR)
    assert load(path, env={}).config.gateway.concurrency == 1
