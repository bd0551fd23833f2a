"""What `nanobot doctor` says of the model, the search engines and the bot, each broken for real."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

from nanobot.providers.scripted import Call, End, Think
from tests.cli.harness import Program, program
from tests.fakes.llm_server import LlmServer, Reply
from tests.fakes.search_apis import KEY, SearchApis
from tests.fakes.telegram_server import TOKEN, TelegramServer

PING = Reply(Call("ping", {"word": "pong"}))


@dataclass
class Services:
    llm: LlmServer
    search: SearchApis
    telegram: TelegramServer

    def home(self, tmp_path: Path, token: str = TOKEN) -> Program:
        brave = {"apiKey": KEY, "baseUrl": self.search.base("brave")}
        search = {"provider": "brave", "fallback": [], "providers": {"brave": brave}}
        return program(
            tmp_path,
            self.llm,
            tools={"web": {"search": search}},
            channels={
                "telegram": {"enabled": True, "token": token, "apiBase": self.telegram.url, "allowFrom": ["4242"]}
            },
        )


@pytest.fixture
async def services() -> AsyncIterator[Services]:
    async with LlmServer(after=PING) as llm, SearchApis() as search, TelegramServer() as telegram:
        llm.models = [{"id": "fake", "max_model_len": 128_000}]
        yield Services(llm, search, telegram)


async def findings(home: Program) -> dict[str, tuple[str, str]]:
    """Name → state and words with the fix."""
    ran = await home.run("doctor", "--json")
    assert ran.out, ran.err
    return {one["name"]: (one["state"], f"{one['words']} {one['fix']}") for one in json.loads(ran.out)["checks"]}


async def test_U58_everything_that_answers_is_tried_for_real_and_said_to_be_well(
    services: Services, tmp_path: Path
) -> None:
    found = await findings(services.home(tmp_path))
    assert found["Model"][0] == "ok"
    assert "custom/fake answered" in found["Model"][1]
    assert "110 tokens, which cost nothing" in found["Model"][1]
    assert found["Local context"] == ("ok", "custom gives fake 128,000 tokens ")
    assert found["Search: brave"][0] == "ok"
    assert found["Telegram token"] == ("ok", "it is that of @nano_test_bot ")
    assert found["Telegram updates"][0] == "ok"
    assert len(services.llm.requests) == 1
    assert [one.method for one in services.telegram.calls].count("getupdates") == 1
    assert services.telegram.confirmed == []


async def test_U58_a_wrong_key_token_and_engine_each_say_what_to_do(services: Services, tmp_path: Path) -> None:
    services.llm.after = Reply(status=401, body={"error": {"message": "invalid key"}})
    services.search.always("brave", "auth")
    found = await findings(services.home(tmp_path, "999999:another-token-which-nobody-knows-0123"))
    assert found["Model"][0] == found["Search: brave"][0] == found["Telegram token"][0] == "bad"
    assert "providers.custom.apiKey" in found["Model"][1]
    assert "Check its key" in found["Search: brave"][1]
    assert "@BotFather" in found["Telegram token"][1]


@pytest.mark.parametrize("said", ["pong", Reply(Think("hm"), End("length"))])
async def test_U17_a_model_that_calls_no_tool_and_a_server_with_little_context_are_found(
    services: Services, tmp_path: Path, said: str | Reply
) -> None:
    services.llm.after, services.llm.models = said, [{"id": "fake", "max_model_len": 4_096}]
    found = await findings(services.home(tmp_path))
    assert found["Model"][0] == "warn"
    assert "did not call the tool" in found["Model"][1]
    assert found["Local context"][0] == "bad"
    assert "4,096" in found["Local context"][1]


async def test_U10_a_second_program_that_polls_and_a_webhook_are_found(services: Services, tmp_path: Path) -> None:
    async def poll() -> None:
        async with httpx.AsyncClient(timeout=60) as client:
            while True:
                await client.get(f"{services.telegram.url}/bot{TOKEN}/getUpdates?timeout=30")

    home = services.home(tmp_path)
    other = asyncio.create_task(poll())
    try:
        found = await findings(home)
    finally:
        other.cancel()
        with suppress(asyncio.CancelledError):
            await other
    assert found["Telegram updates"][0] == "bad"
    assert "another program uses this token" in found["Telegram updates"][1]
    services.telegram.webhook = {"url": "https://elsewhere.example/hook"}
    found = await findings(home)
    assert found["Telegram updates"][0] == "warn"
    assert "https://elsewhere.example/hook" in found["Telegram updates"][1]


async def test_U58_at_the_end_one_real_question_goes_through_model_search_and_telegram(
    services: Services, tmp_path: Path
) -> None:
    home = services.home(tmp_path)
    services.llm.add(PING, Reply(Call("web_search", {"query": "newest Python"})), "Python 3.14 is the newest [1].")
    ran = await home.run("doctor", "--send")
    assert "✓ Question: Python 3.14 is the newest [1]" in ran.out, ran.out + ran.err
    assert "✓ Telegram message: the answer was sent to you" in ran.out
    assert len(services.search.asked("brave")) == 2
    (told,) = services.telegram.visible(4242)
    assert told.endswith("Python 3.14 is the newest [1].")
    assert (await home.run("doctor", "--quick")).out.count("Question") == 0
    assert len(services.telegram.visible(4242)) == 1
