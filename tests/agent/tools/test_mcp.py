"""The tools of MCP servers, against a server on loopback that answers and fails as servers do."""

import asyncio
import json
from contextlib import aclosing
from pathlib import Path

import pytest

from nanobot.agent.tools.mcp.servers import STARTING, McpServers, Surroundings
from nanobot.agent.tools.mcp.tool import offered, problem, tool_name
from nanobot.config.loader import load
from nanobot.config.proxy import Proxies
from nanobot.errors import SearchError
from nanobot.results import ToolResult
from tests.agent.harness import run_tool
from tests.agent.tools.servers import config, started, tools_of
from tests.fakes.http_server import HttpServer, Request, Responder
from tests.fakes.mcp_server import McpServer, ServedTool, text
from tests.fakes.patience import growing
from tests.fakes.waiting import until
from tests.tables import table


async def once(server: McpServer, tool: str, arguments: dict[str, object], **values: object) -> ToolResult:
    async with started({"one": config(url=server.url, **values)}) as (registry, _):
        return await run_tool(registry, tool, arguments)


@pytest.mark.parametrize("events", [False, True])
@pytest.mark.parametrize("sessions", [False, True])
async def test_A22_a_server_that_answers_json_or_events_with_or_without_session(events: bool, sessions: bool) -> None:
    async with McpServer(events=events, sessions=sessions) as server:
        async with started({"exa": config(url=server.url)}) as (registry, _):
            assert registry.names == ("mcp_exa_search",)
            for query in ("a", "b"):
                result = await run_tool(registry, "mcp_exa_search", {"query": query})
                assert (result.text, result.untrusted, result.error) == (
                    f'answer to {{"query": "{query}"}}',
                    True,
                    None,
                )
        assert len(server.asked("initialize")) == 1
        assert server.calls == [{"name": "search", "arguments": {"query": query}} for query in ("a", "b")]


async def test_a_proxy_that_cannot_be_used_is_named_and_a_server_elsewhere_is_not_asked_without_it() -> None:
    async with McpServer() as server:
        proxies = Proxies(env={"ALL_PROXY": "socks4://127.0.0.1:9"})
        servers = {"one": config(url="https://mcp.example/mcp"), "own": config(url=server.url)}
        async with started(servers, Surroundings(proxies.of)) as (registry, _):
            assert registry.names == ("mcp_own_search",)
            told = " ".join(registry.skipped.values())
    assert "The proxy in ALL_PROXY cannot be used" in told


async def test_A03_A07_tools_of_two_servers_with_one_name_stand_side_by_side() -> None:
    tools = (ServedTool("web.search"), ServedTool("web search"))
    async with McpServer(tools=tools) as one, McpServer(tools=tools[:1]) as two:
        settings = {"exa": config(url=one.url), "tavily": config(url=two.url)}
        async with started(settings) as (registry, _):
            assert registry.names == ("mcp_exa_web_search", "mcp_tavily_web_search")
            await run_tool(registry, "mcp_exa_web_search", {})
            assert [call["name"] for call in one.calls] == ["web.search"], "the first of two with one name is the tool"
            one.calls.clear()
            await run_tool(registry, "mcp_tavily_web_search", {})
    assert (len(one.calls), len(two.calls)) == (0, 1)


async def test_A08_C24_the_schema_is_the_servers_and_wrong_arguments_never_reach_it() -> None:
    properties = {"query": {"type": "string"}, "numResults": {"type": "number", "maximum": 20}}
    async with McpServer(
        tools=(ServedTool("search", properties, ["query"], description="Finds things.\n\n  Quickly."),)
    ) as server:
        async with started({"exa": config(url=server.url)}) as (registry, _):
            (spec,) = registry.specs()
            assert "\nFinds things. Quickly.\n" in spec.description, "on one line"
            assert spec.schema["properties"] == properties
            for arguments, words in (
                ({}, "'query' is a required property"),
                ({"query": 3}, "query: 3 is not of type 'string'"),
                ({"query": "x", "numResults": 50}, "numResults: 50 is greater than the maximum of 20"),
            ):
                result = await run_tool(registry, "mcp_exa_search", dict(arguments))
                assert result.error == "invalid_input"
                assert words in result.text
        assert server.calls == []


async def test_A04_A09_a_server_that_is_not_enabled_gets_no_request() -> None:
    async with McpServer() as server:
        async with started({"exa": config(url=server.url, enabled=False)}) as (registry, _):
            assert registry.names == ()
        assert server.requests == []


async def test_A04_A06_headers_carry_the_login_and_an_unset_variable_skips_that_server_alone(tmp_path: Path) -> None:
    async with McpServer(login="Bearer secret-1") as server:
        entry = {"type": "remote", "url": server.url, "enabled": True}
        headers = {"Authorization": "Bearer ${env:TAVILY_API_KEY}"}
        unset = {"Authorization": "Bearer ${env:OTHER_KEY}"}
        path = tmp_path / "config.json"
        path.write_text(
            json.dumps({"mcp": {"tavily": {**entry, "headers": headers}, "other": {**entry, "headers": unset}}}),
            encoding="utf-8",
        )
        loaded = load(path, env={"TAVILY_API_KEY": "secret-1"})
        async with started(loaded.config.tools.mcp_servers) as (registry, _):
            assert registry.names == ("mcp_tavily_search",)
            assert (await run_tool(registry, "mcp_tavily_search", {"query": "x"})).error is None
        assert any("OTHER_KEY" in reason for reason in loaded.disabled.values())


@table(
    "source names",
    ('{ "mcp": { "exa": { "type": "remote", // no key\n "url": "URL", "enabled": true, }, } }', ("mcp_exa_search",)),
    (
        '{ "mcpServers": { "tavily": { "url": "URL", "headers": { "Authorization": "Bearer k" } } } }',
        ("mcp_tavily_search",),
    ),
    ('{ "tools": { "mcpServers": { "a": { "url": "URL", "enabledTools": ["other"] } } } }', ()),
)
async def test_A04_A11_the_ways_to_write_a_server(tmp_path: Path, source: str, names: tuple[str, ...]) -> None:
    async with McpServer() as server:
        path = tmp_path / "config.json"
        path.write_text(source.replace("URL", server.url), encoding="utf-8")
        async with started(load(path, env={}).config.tools.mcp_servers) as (registry, _):
            assert registry.names == names


async def test_A22_a_wrong_login_is_named_and_skips_the_server() -> None:
    async with McpServer(login="Bearer right") as server, started({"exa": config(url=server.url)}) as (registry, _):
        assert registry.names == ()
        assert "refused the login (status 401); check its headers" in registry.skipped["mcp_exa"]


async def test_A22_a_session_that_the_server_forgot_is_opened_again_and_the_call_runs_once() -> None:
    async with McpServer(sessions=True) as server:
        async with started({"exa": config(url=server.url)}) as (registry, _):
            await run_tool(registry, "mcp_exa_search", {"query": "a"})
            server.forget_sessions()
            assert (await run_tool(registry, "mcp_exa_search", {"query": "b"})).error is None
        assert len(server.asked("initialize")) == 2
        assert [call["arguments"] for call in server.calls] == [{"query": "a"}, {"query": "b"}]


@growing(0.3, 3, 30)
async def test_A04_A22_a_slow_tool_ends_at_its_deadline_and_the_next_call_works(limit: float) -> None:
    async with McpServer() as server, started({"exa": config(url=server.url, toolTimeout=limit)}) as (registry, _):
        server.hang = "tools/call"
        result = await run_tool(registry, "mcp_exa_search", {"query": "a"})
        assert result.error == "timeout"
        assert f"did not answer within {limit} s" in result.text
        server.hang = ""
        assert (await run_tool(registry, "mcp_exa_search", {"query": "b"})).error is None


@pytest.mark.parametrize(("status", "kind"), [(500, "service"), (429, "rate_limited"), (403, "auth"), (404, "service")])
async def test_A22_each_refusal_of_a_call_has_its_kind(status: int, kind: str) -> None:
    async with McpServer() as server, started({"exa": config(url=server.url)}) as (registry, _):
        server.status = status
        assert (await run_tool(registry, "mcp_exa_search", {"query": "a"})).error == kind
        server.status = 0
        assert (await run_tool(registry, "mcp_exa_search", {"query": "b"})).error is None


async def test_U44_a_server_that_goes_down_keeps_its_tools_which_say_so(tmp_path: Path) -> None:
    cache = tmp_path / "cache" / "mcp.json"
    async with McpServer() as server:
        settings = {"exa": config(url=server.url, toolTimeout=60)}
        async with started(settings, cache=cache) as (registry, _):
            before = registry.specs()
            assert (cache.stat().st_mode & 0o777, cache.parent.stat().st_mode & 0o777) == (0o600, 0o700)
            await server.__aexit__(None, None, None)
            result = await run_tool(registry, "mcp_exa_search", {"query": "a"})
            assert result.error == "network"
            assert "The MCP server 'exa' is down" in result.text
    async with started(settings, cache=cache) as (registry, _):
        assert registry.specs() == before
        assert (await run_tool(registry, "mcp_exa_search", {"query": "a"})).error == "network"
    async with started(settings) as (registry, _):
        assert "is down" in registry.skipped["mcp_exa"]


@growing(0.3, 3, 30)
async def test_the_start_does_not_wait_for_a_silent_server_which_ends_with_its_reason(limit: float) -> None:
    async with McpServer() as quick, McpServer(hang="initialize") as silent:
        settings = {"quick": config(url=quick.url), "silent": config(url=silent.url)}
        async with aclosing(McpServers(settings)) as made:
            await made.start(limit, 2 * limit)
            assert set(made.factories()) == {"mcp_quick_search", "mcp_silent"}
            assert tools_of(made).skipped["mcp_silent"] == STARTING
            ended = asyncio.Event()
            made.changed = ended.set
            await asyncio.wait_for(ended.wait(), 60)
            assert f"did not answer within {2 * limit:.3g} s" in tools_of(made).skipped["mcp_silent"]


async def test_a_server_that_refuses_at_the_start_is_asked_again_until_it_lists_its_tools() -> None:
    waits: list[float] = []
    go_on = asyncio.Event()

    async def sleep(seconds: float) -> None:
        waits.append(seconds)
        if len(waits) == 2:
            server.status = 0
        elif len(waits) > 2:
            await go_on.wait()

    async with McpServer(status=500) as server:
        made = McpServers({"one": config(url=server.url)}, sleep=sleep)
        told = asyncio.Event()
        made.changed = lambda: told.set() if "mcp_one_search" in made.factories() else None
        try:
            await made.start(60)
            await asyncio.wait_for(told.wait(), 60)
        finally:
            await made.aclose()
    assert waits == [5, 10], "each time later, and never again once it has answered"


@pytest.mark.parametrize("slow", ["initialize", "tools/list"])
@pytest.mark.parametrize("waits", [0, 60])
async def test_a_server_that_is_left_while_it_starts_has_no_task_and_tells_nobody(slow: str, waits: float) -> None:
    async with McpServer(sessions=True, hang=slow) as server:
        async with aclosing(McpServers({"one": config(url=server.url)})) as made:
            made.changed = lambda: pytest.fail("a server that is not asked any more told something")
            starting = asyncio.create_task(made.start(waits))
            await until(lambda: bool(server.asked(slow)), 60)
            starting.cancel()
            await asyncio.wait({starting})
            assert starting.cancelled() == bool(waits)
        assert not [name for one in asyncio.all_tasks() if (name := one.get_name()).startswith(("list ", "mcp "))]


async def test_what_a_server_refuses_is_told_in_its_words_and_the_sentence_ends_once() -> None:
    async with McpServer() as server, started({"one": config(url=server.url)}) as (registry, _):
        server.tools, server.refusal = (), "gone for good."
        assert (
            "refused the call: gone for good. Try another tool" in (await run_tool(registry, "mcp_one_search", {})).text
        )


async def test_an_old_server_that_ended_its_stream_at_rest_is_joined_anew_by_the_next_call() -> None:
    answers: list[asyncio.Queue[dict[str, object] | None]] = []
    fake = McpServer()

    async def serve(request: Request, responder: Responder) -> None:
        if request.method == "POST":
            asked = request.json()
            await responder.send(202)
            params = asked.get("params")
            said = fake._result(str(asked["method"]), params if isinstance(params, dict) else {})
            if "id" in asked:
                answers[-1].put_nowait({"jsonrpc": "2.0", "id": asked["id"], "result": said})
            return
        answers.append(asyncio.Queue())
        await responder.start(content_type="text/event-stream")
        await responder.chunk("event: endpoint\ndata: /said\n\n")
        while (answer := await answers[-1].get()) is not None:
            await responder.chunk(f"event: message\ndata: {json.dumps(answer)}\n\n")
        await responder.end()

    async with HttpServer(serve) as server:
        settings = {"one": config(url=f"{server.url}/sse", type="sse")}
        async with started(settings) as (registry, _):
            assert (await run_tool(registry, "mcp_one_search", {"query": "a"})).error is None
            answers[-1].put_nowait(None)
            await until(lambda: not any(one.get_name().startswith("mcp ") for one in asyncio.all_tasks()), 60)
            assert (await run_tool(registry, "mcp_one_search", {"query": "b"})).error is None
            answers[-1].put_nowait(None)
    assert len(answers) == 2


async def test_calls_of_one_server_run_side_by_side() -> None:
    async with McpServer() as server, started({"exa": config(url=server.url)}) as (registry, _):
        results = await asyncio.gather(
            *(run_tool(registry, "mcp_exa_search", {"query": str(number)}) for number in range(8))
        )
    assert [result.text for result in results] == [f'answer to {{"query": "{number}"}}' for number in range(8)]
    assert len(server.asked("initialize")) == 1


async def test_what_a_server_says_of_a_tool_tells_whether_it_may_run_again_after_a_crash() -> None:
    tools = (ServedTool("plain"), ServedTool("reads", reads=True), ServedTool("counts", reads=True, once=True))
    async with McpServer(tools) as server, started({"one": config(url=server.url)}) as (registry, _):
        known = {name: tool for name in registry.names if (tool := registry.get(name)) is not None}
    again = [name for name, tool in known.items() if tool.idempotent]
    assert again == ["mcp_one_reads"], "a plain no is believed before that it only reads"


async def test_U13_guests_have_no_tool_of_a_server_and_users_those_that_the_owner_grants() -> None:
    async with McpServer() as server:
        settings = {"one": config(url=server.url, resources=True)}
        async with started(settings) as (registry, _):
            offered = {
                (role, granted): [spec.name for spec in registry.specs(role, frozenset(granted.split()))]
                for role in ("guest", "user")
                for granted in ("", "files exec", "mcp")
            }
    both = ["mcp_one_resources", "mcp_one_search"]
    assert offered.pop(("user", "mcp")) == both
    assert set(map(tuple, offered.values())) == {()}


async def test_a_tool_that_failed_is_an_error_and_its_words_come_from_outside() -> None:
    async with McpServer(tools=(ServedTool("search", answer=lambda _: text("no luck", failed=True)),)) as server:
        result = await once(server, "mcp_one_search", {})
    assert (result.error, result.untrusted) == ("service", True)
    assert result.text == "Error: mcp_one_search failed: no luck"


@pytest.mark.parametrize("events", [False, True])
async def test_an_answer_with_half_a_character_is_read_without_it(events: bool) -> None:
    said = "cut\ud83d \U0001f600 \\ud83d\n\ude00end"
    async with McpServer((ServedTool("search", answer=lambda _: text(said)),), events=events) as server:
        assert (await once(server, "mcp_one_search", {})).text == "cut \U0001f600 \\ud83d\nend"


async def test_what_is_no_text_is_named_and_structured_content_is_shown() -> None:
    mixed: dict[str, object] = {
        "content": [
            {"type": "text", "text": "one"},
            {"type": "image", "data": "aGk=", "mimeType": "image/png"},
            {"type": "resource_link", "name": "file", "uri": "https://a.example/f"},
            {"type": "resource", "resource": {"uri": "file:///x", "text": "inside"}},
        ]
    }
    structured: dict[str, object] = {"content": [], "structuredContent": {"answer": 42}}
    tools = (ServedTool("mixed", answer=lambda _: mixed), ServedTool("data", answer=lambda _: structured))
    async with McpServer(tools=tools) as server:
        shown = await once(server, "mcp_one_mixed", {})
        data = await once(server, "mcp_one_data", {})
    assert shown.text == "one\n\nfile: https://a.example/f\n\ninside\n\n[not kept, image/png, 0 kB]"
    assert json.loads(data.text) == {"answer": 42}


async def test_U45_resources_and_prompts_are_neither_listed_nor_read() -> None:
    async with McpServer() as server:
        await once(server, "mcp_one_search", {"query": "x"})
    methods = {str(request.json().get("method")) for request in server.requests if request.method == "POST"}
    assert methods == {"initialize", "notifications/initialized", "tools/list", "tools/call"}


async def test_long_lists_are_read_page_by_page_and_cut_at_two_hundred_tools() -> None:
    tools = [ServedTool(f"t{number}") for number in range(250)]
    async with (
        McpServer(tools=tools, page_size=30) as server,
        started({"big": config(url=server.url)}) as (registry, _),
    ):
        assert len(registry.names) == 200


async def test_a_redirect_to_another_host_gets_no_login() -> None:
    async with McpServer() as other:

        async def away(request: Request, responder: Responder) -> None:
            await responder.send(307, headers=[("Location", other.url)])

        async with HttpServer(away) as server:
            settings = {"exa": config(url=f"{server.url}/mcp", headers={"Authorization": "Bearer k"})}
            async with started(settings) as (registry, _):
                assert registry.names == ()
        assert other.requests == []


async def test_N10_servers_are_reached_through_the_proxy() -> None:
    async with McpServer() as proxy:
        way = proxy.url.removesuffix("/mcp")
        async with started({"exa": config(url="http://far.example/mcp")}, Surroundings(lambda _url: way)) as (
            registry,
            _,
        ):
            assert registry.names == ("mcp_exa_search",)
        assert proxy.requests[0].target == "http://far.example/mcp"


@table(
    "rules names",
    (["*"], ["read_a", "read_b", "write"]),
    (["read_*"], ["read_a", "read_b"]),
    (["*", "!write"], ["read_a", "read_b"]),
    (["!read_*"], ["write"]),
    ([], []),
)
def test_enabled_tools_are_names_patterns_and_exceptions(rules: list[str], names: list[str]) -> None:
    known = ["read_a", "read_b", "write"]
    assert [name for name in known if offered(name, rules)] == names


def test_names_fit_what_models_take() -> None:
    assert tool_name("my server", "web/search.v2") == "mcp_my_server_web_search_v2"
    long = [tool_name("s", "x" * 80 + end) for end in "ab"]
    assert len(set(long)) == 2
    assert all(len(name) == 64 for name in long)


@table(
    "schema",
    {"type": "object", "properties": {"query": {"$ref": "https://schema.example/query.json"}}},
    {"type": "nonsense"},
    {"type": "object", "properties": {"query": {"pattern": "("}}},
)
def test_a_broken_schema_forbids_nothing_and_loads_nothing(schema: dict[str, object]) -> None:
    assert problem(schema, {"query": "x"}) == ""


async def test_C12_search_asks_a_listed_tool_and_no_other() -> None:
    def arguments(names: frozenset[str]) -> dict[str, object]:
        return dict.fromkeys(sorted(names), "x")

    async with McpServer(
        tools=(ServedTool("search"), ServedTool("bad", answer=lambda _: text("no", failed=True)))
    ) as s:
        settings = {"exa": config(url=s.url, enabledTools=["search", "bad"])}
        async with started(settings) as (_, made):
            assert await made.search("exa", "search", arguments, 5) == 'answer to {"query": "x"}'
            for server, tool, kind in (
                ("exa", "bad", "unavailable"),
                ("exa", "none", "not_configured"),
                ("none", "search", "not_configured"),
            ):
                with pytest.raises(SearchError) as caught:
                    await made.search(server, tool, arguments, 5)
                assert caught.value.kind == kind


@pytest.mark.parametrize("events", [False, True])
async def test_A22_an_answer_that_is_too_long_costs_no_more_than_the_call(events: bool) -> None:
    big = ServedTool("big", answer=lambda _: text("x" * 20_000_000))
    split = ServedTool("split", answer=lambda _: {"content": text("x")["content"] * 20_001})  # type: ignore[operator]
    rows = ServedTool("rows", answer=lambda _: text(json.dumps([{"id": n, "of": ["x"]} for n in range(15_000)])))
    long = ServedTool("long", answer=lambda _: text("y" * 600_000))
    async with (
        McpServer((big, split, rows, long), events=events) as server,
        started({"one": config(url=server.url, toolTimeout=120)}) as (registry, _),
    ):
        for name in ("big", "split"):
            assert (await run_tool(registry, f"mcp_one_{name}", {})).error in ("service", "network")
        for name in ("rows", "long"):
            result = await run_tool(registry, f"mcp_one_{name}", {})
            assert (result.error, 390_000 < len(result.text) < 401_000) == (None, True)


def test_no_pattern_reference_or_alternative_of_a_schema_is_tried() -> None:
    deep: dict[str, object] = {"$ref": "#/$defs/d0"}
    defs = {f"d{n}": {"allOf": [{"$ref": f"#/$defs/d{n + 1}"}] * 2} for n in range(60)}
    for schema in (
        {"properties": {"q": {"type": "string", "pattern": "^(a+)+$"}}},
        {"patternProperties": {"^(q+)+$": {}}, "additionalProperties": False},
        {"properties": {"q": deep}, "$defs": defs},
    ):
        assert problem({"type": "object", **schema}, {"q": "a" * 60 + "!", "q" * 60 + "!": 1}) == ""
    assert problem({"properties": {"q": {"type": "string"}}}, {"q": 1}) == "q: 1 is not of type 'string'"
