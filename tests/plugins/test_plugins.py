"""Packages that add to nanobot: found by their entry points, loaded when they are named, and broken for themselves."""

import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from nanobot.app import Nanobot
from nanobot.builder.judging import judged
from nanobot.bus.events import Address, InboundMessage, TurnFinished
from nanobot.config.loader import load
from nanobot.config.paths import Paths
from nanobot.providers.scripted import Call
from tests.agent.test_files import OWNER, TERMINAL, home
from tests.fakes.llm_server import LlmServer, Reply

MODULE = """
import asyncio
from collections.abc import AsyncIterator
from msgspec import Struct
from nanobot.agent.tools.base import Tool
from nanobot.errors import SkipTool
from nanobot.providers.scripted import ScriptedProvider
from nanobot.results import ToolResult
from nanobot.web.search.base import SearchBackend, SearchHit, SearchReply

class Nothing(Struct): pass

class Greeting(Tool[Nothing]):
    name, description, access, Arguments = "greeting", "Greets.", "public", Nothing
    def __init__(self, words): self.words = words
    async def run(self, args, context): return ToolResult(self.words)

class Engine(SearchBackend):
    def lacks(self, query): return ()
    async def search(self, query, *, timeout=0): return SearchReply("tiny", (SearchHit("Tiny hit", "https://tiny.test/"),))

class Post:
    name = "post"
    def __init__(self, agent): self.agent = agent
    async def start(self): self.started = True
    async def stop(self): pass

def tool(setup): return Greeting(f"{setup.settings.get('words')} in {setup.folder.name}")
def skipped(setup): raise SkipTool("nothing to greet")
def broken(setup): raise RuntimeError("canary fault")
def engine(setup): return Engine()
def provider(setup, model): return ScriptedProvider([f"answered by {model}"])
def channel(setup, agent): return Post(agent)
"""
ENTRIES = """
[nanobot.tools]
greeting = {module}:tool
later = {module}:skipped
worse = {module}:broken
gone = {module}:nowhere
[nanobot.search]
tiny = {module}:engine
[nanobot.providers]
mine = {module}:provider
[nanobot.channels]
post = {module}:channel
"""


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A package that is installed, by the name of its module; the metadata is that of a wheel."""
    site, name = tmp_path / "site", f"plugin_{tmp_path.name.replace('-', '_')}"
    info = site / f"{name}-1.2.dist-info"
    info.mkdir(parents=True)
    (site / f"{name}.py").write_text(MODULE)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.2\n")
    (info / "entry_points.txt").write_text(ENTRIES.format(module=name))
    monkeypatch.syspath_prepend(str(site))
    return name


@asynccontextmanager
async def agent(folder: Path, enabled: list[str], **more: object) -> AsyncIterator[tuple[Nanobot, LlmServer]]:
    settings = {enabled[0]: {"words": "Hello"}} if enabled else {}
    config = {
        "agents": {"defaults": {"model": "fake", "provider": "custom", **more}},
        "plugins": {"enabled": enabled, "settings": settings},
    }
    async with home(folder, config) as box:
        yield box.bot, box.model


async def ask(bot: Nanobot, model: LlmServer, *calls: Call) -> tuple[TurnFinished, str]:
    model.replies.extend([*(Reply(one) for one in calls), Reply("Done.")])
    result = await bot.loop.process(InboundMessage(TERMINAL, OWNER, "go", direct=True))
    return result, "\n".join(model.requests[-1].told("tool")) if model.requests else ""


async def test_a_package_that_nobody_named_is_not_even_imported(tmp_path: Path, package: str) -> None:
    async with agent(tmp_path, []) as (bot, _):
        assert "greeting" not in bot.loop.registry.names
        assert "Plug-in" not in await bot.loop.status("x")
    assert package not in sys.modules


async def test_a_tool_of_a_plugin_is_offered_with_its_settings_and_what_is_broken_costs_nothing_else(
    tmp_path: Path, package: str
) -> None:
    async with agent(tmp_path, [package, "not-there"]) as (bot, model):
        _, said = await ask(bot, model, Call("greeting", {}))
        assert f"Hello in {package.replace('_', '-')}" in said
        skipped = bot.loop.registry.skipped
        assert skipped["later"] == "nothing to greet"
        assert "RuntimeError: canary fault" in skipped["worse"]
        assert "AttributeError" in skipped["gone"]
        status = await bot.loop.status("x")
        assert f"Plug-in {package.replace('_', '-')} 1.2: tools: greeting" in status
        assert "Plug-in not-there: it is not installed beside nanobot" in status
        assert {"read_file", "web_fetch"} <= set(bot.loop.registry.names)


async def test_config_check_names_a_plugin_that_is_not_installed(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text(json.dumps({"plugins": {"enabled": ["not-there"]}}))
    path.chmod(0o600)
    env = {"HOME": str(tmp_path)}
    _, warned = await judged(load(path, env=env), Paths.resolve(env, path), env)
    assert "plugins.enabled: not-there is not used: it is not installed beside nanobot." in warned


async def test_an_engine_of_a_plugin_is_asked_before_all_others(tmp_path: Path, package: str) -> None:
    async with agent(tmp_path, [package]) as (bot, model):
        _, said = await ask(bot, model, Call("web_search", {"query": "tiny"}))
        assert "https://tiny.test/" in said


async def test_a_provider_of_a_plugin_answers_where_it_is_named(tmp_path: Path, package: str) -> None:
    async with agent(tmp_path, [package], provider="mine", model="large") as (bot, model):
        result, _ = await ask(bot, model)
        assert result.text == "answered by large"
        assert model.requests == []


async def test_a_channel_of_a_plugin_is_served_with_the_agent(tmp_path: Path, package: str) -> None:
    async with agent(tmp_path, [package]) as (bot, _):

        async def announce(_link: str, _drawn: str = "") -> None:
            return None

        manager = bot.channels(announce, print)  # type: ignore[arg-type]  # no bot is claimed here
        assert manager.names == ("post",)
        assert Address("post", "1").key
