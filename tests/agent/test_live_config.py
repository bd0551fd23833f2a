"""What is edited in the configuration file while nanobot runs: taken with the next turn, told, or kept out."""

import asyncio
import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from nanobot.app import Launch, Nanobot
from nanobot.bus.events import Address, InboundMessage, Sender, TurnFinished
from nanobot.config.changes.taken import TAKEN
from nanobot.config.keys import walk_keys
from nanobot.config.loader import load
from nanobot.config.paths import Paths
from nanobot.providers.scripted import Call, Wait
from nanobot.utils.host import shipped
from tests.channels.telegram.gateway import OWNER, furnished, running
from tests.fakes.llm_server import LlmServer, Reply
from tests.fakes.search_apis import KEY, SearchApis

ME = Sender("me", role="owner")


class Running:
    """An agent in this process beside its file."""

    def __init__(self, app: Nanobot, path: Path, config: dict[str, object]) -> None:
        self.app = app
        self.path = path
        self.config = config

    def write(self, **keys: object) -> None:
        self.path.write_text(json.dumps({**self.config, **keys}), encoding="utf-8")

    async def ask(self, text: str) -> TurnFinished:
        return await self.app.loop.process(InboundMessage(Address("terminal", "local"), ME, text, direct=True))


@asynccontextmanager
async def agent(tmp_path: Path, llm: LlmServer, **keys: object) -> AsyncIterator[Running]:
    config: dict[str, object] = {
        "agents": {"defaults": {"model": "fake", "provider": "custom"}},
        "providers": {"custom": {"apiKey": "k-for-tests", "apiBase": f"{llm.url}/v1"}},
    }
    path, env = tmp_path / "config.json", {"NANOBOT_HOME": str(tmp_path), "HOME": str(tmp_path)}
    path.write_text(json.dumps({**config, **keys}), encoding="utf-8")
    paths = Paths.resolve(env, path)
    made = await Nanobot.from_config(load(path, env=env), paths=paths, launch=Launch(env=env))
    async with made as app, app.at_work():
        await asyncio.sleep(0)
        yield Running(app, path, config)


def test_each_key_says_when_a_change_of_it_is_taken() -> None:
    for key in (".".join(path) for path, _ in walk_keys()):
        assert len([one for one in TAKEN if f"{key}.".startswith(f"{one}.")]) == 1, key
    page = (shipped("docs") / "configuration.md").read_text(encoding="utf-8")
    told = page.partition("## While nanobot runs")[2].partition("\n## ")[0]
    late = [one for one, when in TAKEN.items() if when != "next turn"]
    words = re.findall(r"`([A-Za-z.]+)`", told)
    named = [*words, *(f"channels.telegram.{one}" for one in words)]
    assert [one for one in late if not any(f"{one}.".startswith(f"{name}.") for name in named)] == []


async def test_a_change_holds_from_the_next_turn_on_and_never_in_the_middle_of_one(tmp_path: Path) -> None:
    gate = asyncio.Event()
    note: dict[str, object] = {"path": "a.md", "content": "x"}
    first = (Reply(Wait(gate), Call("write_file", note)), "first")
    second = (Reply(Call("write_file", {**note, "path": "b.md"})), "second")
    async with LlmServer(*first, *second) as llm, agent(tmp_path, llm) as box:
        asking = asyncio.create_task(box.ask("write"))
        await llm.asked(1)
        rule = {"tool": "write_file", "decision": "deny"}
        box.write(
            agents={"defaults": {"model": "other", "provider": "custom", "maxTokens": 77}},
            tools={"policy": {"rules": [rule]}, "web": {"enable": False}},
        )
        await box.app.loop.look_first()
        gate.set()
        assert (await asking).text == "first"
        assert (await box.ask("write again")).text == "second"
        workspace = tmp_path / "workspace"
        assert ((workspace / "a.md").exists(), (workspace / "b.md").exists()) == (True, False)
        bodies = [one.body for one in llm.requests]
    assert [one["model"] for one in bodies] == ["fake", "fake", "other", "other"]
    assert [one["max_tokens"] for one in bodies] == [8192, 8192, 77, 77]
    assert ["web_search" in json.dumps(one["tools"]) for one in bodies] == [True, True, False, False]


async def test_S06_an_edited_file_holds_from_the_next_turn_on(tmp_path: Path) -> None:
    def searching(name: str, apis: SearchApis) -> dict[str, object]:
        return {"web": {"search": {"provider": name, "apiKey": KEY, "baseUrl": apis.base(name), "fallback": []}}}

    search = Reply(Call("web_search", {"query": "python"}))
    async with SearchApis() as apis, LlmServer(*(search, "Done.") * 4) as llm:
        async with agent(tmp_path, llm, tools=searching("brave", apis)) as box:
            await box.ask("one")
            box.write(tools=searching("kagi", apis))
            await box.ask("two")
            box.path.write_text("{ broken", encoding="utf-8")
            await box.ask("three")
            box.path.unlink()
            box.write(tools=searching("brave", apis))
            await box.ask("four")
        assert (len(apis.asked("brave")), len(apis.asked("kagi"))) == (2, 2)


async def test_a_model_that_was_chosen_for_a_chat_follows_its_preset(tmp_path: Path) -> None:
    def preset(model: str) -> dict[str, object]:
        return {"quick": {"model": model, "provider": "custom", "fallback": ["spare"], "maxTokens": 9}}

    async with LlmServer(after="Done.") as llm, agent(tmp_path, llm, modelPresets=preset("small")) as box:
        await box.ask("/model quick")
        await box.ask("one")
        box.write(modelPresets=preset("smaller"))
        await box.ask("two")
        box.write(agents={"defaults": {"model": "big", "provider": "custom"}}, modelPresets=preset("smaller"))
        await box.ask("/model default")
        await box.ask("three")
        assert [one.body["model"] for one in llm.requests] == ["small", "smaller", "big"]


async def test_the_owner_hears_once_what_is_broken_and_what_needs_a_restart(tmp_path: Path) -> None:
    async with furnished(tmp_path, after="Hello.") as (telegram, _, ada, home):
        path = home.home / "config.json"
        good = json.loads(path.read_text("utf-8"))

        async def told(words: str) -> str:
            await telegram.until(lambda: any(words in one for one in telegram.visible(OWNER)))
            (found,) = [one for one in telegram.visible(OWNER) if words in one]
            return found

        async with running(home) as gateway:
            await ada.asks("good morning", lambda: telegram.visible(OWNER)[-1] == "bot: Hello.")
            path.write_text(json.dumps(good, indent=1).replace('"fake"', '"fake", "maxTokens": "many"'), "utf-8")
            broken = await told("cannot be used")
            assert "config.json:4: agents.defaults.maxTokens: got" in broken
            await ada.asks("hello", lambda: telegram.visible(OWNER)[-1] == "bot: Hello.")
            path.write_text(json.dumps({**good, "gateway": {"concurrency": 9}, "budget": {"perDay": 3}}), "utf-8")
            assert "is in order again" in await told("is in order again")
            assert "the change of gateway.concurrency counts after a restart" in await told("after a restart")
            good["channels"]["terminal"] = {"notify": "off"}
            path.write_text(json.dumps({**good, "gateway": {"concurrency": 9}, "budget": {"perDay": 3}}), "utf-8")
            assert "the next terminal has the change of channels.terminal.notify" in await told("next terminal")
            assert sum("after a restart" in one for one in telegram.visible(OWNER)) == 1, "a terminal is no gateway"
            other = {**good["agents"]["defaults"], "modelPreset": "nothing"}
            path.write_text(json.dumps({**good, "agents": {"defaults": other}}), "utf-8")
            assert 'modelPreset names "nothing"' in await told('names "nothing"')
            path.write_text(json.dumps({**good, "budget": {"perDay": 3}}), "utf-8")
            await ada.asks("/usage", lambda: "of 3.00 USD" in telegram.visible(OWNER)[-1])
            assert broken in telegram.visible(OWNER)
            assert gateway.text.count("agents.defaults.maxTokens: got") == 1
