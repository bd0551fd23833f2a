"""The web tools as a person has them: the program itself, its search engine and its pages on loopback."""

import base64
import json
import os
import stat
from pathlib import Path

import pytest

from nanobot.providers.scripted import Call
from nanobot.web.usage import Lookup, UsageLedger
from tests.cli.harness import Program, modelled, program
from tests.fakes.files import png
from tests.fakes.llm_server import LlmServer, Reply
from tests.fakes.mcp_server import McpServer
from tests.fakes.search_apis import KEY, SearchApis
from tests.fakes.website import Answer, Website

PAGE = "<html><head><title>Tides</title></head><body><article><p>" + "The tide turns twice a day. " * 20
SECRET = "sk-verysecretvalue1234567890"


def on_the_web(tmp_path: Path, model: LlmServer, apis: SearchApis, **fetch: object) -> Program:
    search = {"provider": "tavily", "apiKey": KEY, "baseUrl": apis.base("tavily"), "fallback": []}
    tools = {"ssrfWhitelist": ["127.0.0.1/32"], "web": {"search": search, "fetch": {"reader": "none", **fetch}}}
    return program(tmp_path, model, tools=tools)


@pytest.mark.parametrize(("name", "sees"), [("gpt-4o", True), ("deepseek-chat", False)])
async def test_N42_a_picture_goes_to_models_that_see_and_never_into_the_session_file(
    tmp_path: Path, name: str, sees: bool
) -> None:
    picture = png(30, 20) + os.urandom(300_000)
    async with SearchApis() as apis, Website({"/p.png": Answer(picture, "image/png")}) as site:
        url = f"{site.url}/p.png"
        async with LlmServer(Reply(Call("web_fetch", {"url": url})), "A grey field.") as model:
            nanobot = on_the_web(tmp_path, model, apis)
            ran = await nanobot.run("agent", "--model", name, "-m", f"what is on {url}?")
            assert (ran.code, "A grey field." in ran.out) == (0, True), ran.err
            sent = model.requests[1].raw.decode()
    assert (base64.b64encode(picture).decode() in sent) is sees
    assert ("cannot be viewed by this model" in sent) is not sees
    assert "[image: image/png, 30 × 20 pixels, " in sent
    kept = sum(path.stat().st_size for path in nanobot.home.glob("nanobot.db*"))
    assert 0 < kept < len(picture)


async def test_K09_status_names_a_reading_service_without_its_key(tmp_path: Path) -> None:
    async with SearchApis() as apis, Website({"/tides": Answer(PAGE)}) as site:
        replies = Reply(Call("web_fetch", {"url": f"{site.url}/tides"})), "Twice a day."
        async with LlmServer(*replies) as model:
            nanobot = on_the_web(tmp_path, model, apis, service={"baseUrl": "https://reader.example/fetch"})
            assert (await nanobot.run("agent", "-m", f"when? {site.url}/tides")).code == 0
            shown = (await nanobot.run("agent", "-m", "/status")).out
        assert site.paths == ["/tides"]
    assert "Reading by service: Fetch service not configured: its key is missing" in shown


async def test_G38_status_counts_what_was_looked_up_and_a_log_has_a_line_of_each_without_addresses(
    tmp_path: Path,
) -> None:
    async with SearchApis() as apis, Website({"/tides": Answer(PAGE)}) as site:
        apis.fail("tavily", "bad_request")
        calls = [
            Call("web_search", {"query": "tides of tomorrow"}),
            Call("web_search", {"query": "tides"}),
            Call("web_fetch", {"url": f"{site.url}/tides?token={SECRET}"}),
            Call("web_fetch", {"url": f"{site.url}/gone"}),
        ]
        async with LlmServer(*(Reply(call) for call in calls), "Twice a day.") as model:
            nanobot = on_the_web(tmp_path, model, apis)
            assert (
                await nanobot.run("agent", "-m", f"when? {site.url}/tides?token={SECRET} {site.url}/gone")
            ).code == 0
            shown = (await nanobot.run("agent", "-m", "/status")).out
    (line,) = [one for one in shown.splitlines() if "Lookups today: " in one]
    assert "web_fetch 2 (1 failed, " in line
    assert "web_search 2 (1 failed, " in line
    assert "by: tavily 2, local 2; hosts: 127.0.0.1 2" in line
    log = nanobot.home / "lookups.jsonl"
    assert stat.S_IMODE(log.stat().st_mode) == 0o600
    text = log.read_text(encoding="utf-8")
    noted = [json.loads(one) for one in text.splitlines()]
    assert [(one["tool"], one["step"], one["host"], bool(one["failure"])) for one in noted] == [
        ("web_search", "tavily", "", True),
        ("web_search", "tavily", "", False),
        ("web_fetch", "local", "127.0.0.1", False),
        ("web_fetch", "local", "127.0.0.1", True),
    ]
    assert all(one["seconds"] >= 0 and one["at"] for one in noted)
    assert not any(word in text for word in (SECRET, "token", "tides", KEY))


async def test_W02_status_says_that_a_proxy_has_answered_dns_today(tmp_path: Path) -> None:
    async with modelled(tmp_path) as (nanobot, _):
        ledger = UsageLedger(nanobot.home / "usage.db")
        ledger.note(Lookup("web_fetch", "invented address", "site.test", "failed"))
        ledger.close()
        for command in (("status",), ("agent", "-m", "/status")):
            (line,) = [one for one in (await nanobot.run(*command)).out.splitlines() if "DNS" in one]
            assert "seen today: a proxy such as Clash or mihomo answers DNS here" in line
            assert '"tools": {"web": {"fetch": {"fakeIp": true}}}' in line


async def test_status_says_who_would_answer_and_from_which_file(tmp_path: Path) -> None:
    async with modelled(tmp_path) as (nanobot, _):
        ran = await nanobot.run("status")
    assert (ran.code, "fake" in ran.out, str(nanobot.home / "config.json") in ran.out) == (0, True, True)


async def test_everything_in_the_home_is_its_owners_alone(tmp_path: Path) -> None:
    async with McpServer() as server, LlmServer("Hello.") as model:
        nanobot = program(tmp_path, model, tools={"mcpServers": {"one": {"url": server.url}}})
        assert (await nanobot.run("agent", "-m", "hi", "--debug")).code == 0
    made = [path for path in nanobot.home.rglob("*") if path.name != "config.json"]
    assert nanobot.home / "cache" / "mcp_tools.json" in made
    assert {stat.S_IMODE(path.stat().st_mode) for path in made if path.is_dir()} == {0o700}
    assert {stat.S_IMODE(path.stat().st_mode) for path in made if path.is_file()} == {0o600}
