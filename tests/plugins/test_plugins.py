"""Packages and hooks of others: found, asked in their place, and broken for themselves."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from nanobot.agent.tools.registry import RunTool
from nanobot.app import Nanobot
from nanobot.builder.judging import judged
from nanobot.bus.events import InboundMessage, TurnFinished
from nanobot.config.loader import load
from nanobot.config.paths import Paths
from nanobot.config.schema_tools import HookConfig, HooksConfig
from nanobot.errors import ConfigError
from nanobot.plugins.entry_points import Plugins
from nanobot.plugins.hooks import Hooks
from nanobot.providers.scripted import Call
from nanobot.results import ToolResult
from nanobot.schedule.job import Every, ScheduledJob
from nanobot.session.lock import token_lock
from tests.agent.test_files import OWNER, TERMINAL, home
from tests.fakes.chinese import english_left
from tests.fakes.llm_server import LlmServer, Reply
from tests.fakes.telegram_server import TOKEN
from tests.fakes.waiting import until
from tests.tables import table

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
    async def start(self): await asyncio.Event().wait()
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
none = {module}:skipped
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


async def test_a_plugins_tool_is_offered_with_its_settings_and_broken_ones_cost_nothing_else(
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


async def test_config_check_names_a_plugin_that_is_not_installed_and_what_of_another_cannot_be_used(
    tmp_path: Path, package: str
) -> None:
    path = tmp_path / "config.json"
    path.write_text(json.dumps({"plugins": {"enabled": ["not-there", package]}}))
    path.chmod(0o600)
    env = {"HOME": str(tmp_path)}
    _, warned = await judged(load(path, env=env), Paths.resolve(env, path), env)
    assert "plugins.enabled: not-there: it is not installed beside nanobot." in warned
    assert f"plugins.enabled: {package.replace('_', '-')}: none cannot be used: nothing to greet" in warned


async def test_an_engine_of_a_plugin_is_asked_before_all_others(tmp_path: Path, package: str) -> None:
    async with agent(tmp_path, [package]) as (bot, model):
        _, said = await ask(bot, model, Call("web_search", {"query": "tiny"}))
        assert "https://tiny.test/" in said


async def test_a_provider_of_a_plugin_answers_where_it_is_named(tmp_path: Path, package: str) -> None:
    async with agent(tmp_path, [package], provider="mine", model="large") as (bot, model):
        result, _ = await ask(bot, model)
        assert result.text == "answered by large"
        assert model.requests == []


async def test_a_channel_of_a_plugin_and_the_schedule_are_served_also_where_telegram_is_not(
    tmp_path: Path, package: str
) -> None:
    telegram = {"enabled": True, "token": TOKEN, "apiBase": "http://127.0.0.1:9"}
    config = {"plugins": {"enabled": [package]}, "channels": {"telegram": telegram}}
    async with home(tmp_path, config) as box, asyncio.TaskGroup() as group:

        async def announce(_link: str, _drawn: str = "") -> None:
            return None

        manager = box.bot.channels(announce, print)  # type: ignore[arg-type]  # no bot is claimed here
        assert manager.names == ("telegram", "post")
        begin, chat = datetime.now(UTC) - timedelta(minutes=100), TERMINAL.key
        job = ScheduledJob(kind="ask", text="x", when=Every(3600, begin), zone="UTC", person=chat, chat=chat)
        appointments = box.bot._builder.appointments
        assert appointments is not None
        await appointments().jobs.add(job, begin)
        with token_lock(TOKEN):  # another nanobot has the bot
            serving = group.create_task(manager.run())
            await until(lambda: bool(box.model.requests))
            serving.cancel()


#: Writes down what it is told, then does as its arguments say: an exit code, a reason, seconds to take.
HOOK = """
import json, os, sys, time
told = json.load(sys.stdin)
with open(sys.argv[1], "a") as log:
    log.write(json.dumps({**told, "env": sorted(os.environ)}) + "\\n")
time.sleep(float(sys.argv[4]))
print(sys.argv[3], file=sys.stderr)
sys.exit(int(sys.argv[2]))
"""


def hook(folder: Path, code: int = 0, reason: str = "", *, wait: float = 0, **more: object) -> dict[str, object]:
    script = folder / "hook.py"
    script.write_text(HOOK)
    return {"command": [sys.executable, str(script), str(folder / "log"), str(code), reason, str(wait)], **more}


def told(folder: Path) -> list[dict[str, object]]:
    path = folder / "log"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


async def turn(folder: Path, hooks: Mapping[str, object], *calls: Call) -> tuple[TurnFinished, str]:
    """A turn in which the model makes these calls, and what it was told of the last ones."""
    async with home(folder, {"hooks": hooks}, {"PATH": "/usr/bin:/bin", "SECRET_OF_MINE": "canary"}) as box:
        return await box.ask("go", *calls), box.results()


WRITE = Call("write_file", {"path": "a.txt", "content": "x"})


async def test_a_hook_refuses_an_allowed_call_and_says_why_and_another_tool_is_none_of_its_business(
    tmp_path: Path,
) -> None:
    hooks = {"beforeTool": [hook(tmp_path, 2, "not on a Sunday", tool="write_*")]}
    result, said = await turn(tmp_path, hooks, WRITE, Call("list_dir", {}))
    assert "not run: not on a Sunday. Find another way" in said
    assert result.receipts == ()
    assert not (tmp_path / ".nanobot/workspace/a.txt").exists()
    (one,) = told(tmp_path)
    assert (one["event"], one["tool"], one["arguments"]) == ("beforeTool", "write_file", WRITE.arguments)
    assert (one["person"], one["tainted"]) == ("terminal:1", False)
    assert "SECRET_OF_MINE" not in str(one["env"])


@table(
    "broken why",
    ({"code": 1}, "ended with code 1"),
    ({"code": 1, "reason": "boom"}, "boom"),
    ({"wait": 60, "timeout": 0.2}, "took longer than 0.2 s"),
    ({"command": ["/nowhere/at-all"]}, "cannot start"),
)
async def test_a_guard_that_is_broken_lets_nothing_run(tmp_path: Path, broken: dict[str, object], why: str) -> None:
    _, said = await turn(tmp_path, {"beforeTool": [{**hook(tmp_path), **_hook(tmp_path, broken)}]}, WRITE)
    assert why in said
    assert not (tmp_path / ".nanobot/workspace/a.txt").exists()


def _hook(folder: Path, broken: dict[str, object]) -> dict[str, object]:
    return broken if "command" in broken else hook(folder, **broken)  # type: ignore[arg-type]  # rows of the table


async def test_a_hook_sees_only_what_the_judge_has_allowed_and_is_told_what_came_of_it_and_the_end(
    tmp_path: Path,
) -> None:
    agreeing = hook(tmp_path)
    hooks = {"beforeTool": [agreeing], "afterTool": [agreeing], "turnEnd": [agreeing]}
    forbidden = Call("read_file", {"path": "../config.json"})
    result, said = await turn(tmp_path, hooks, forbidden, WRITE)
    assert "never shown" in said
    assert result.receipts == ("created a.txt (+1 −0)",)
    before, after, end = told(tmp_path)
    assert [one["event"] for one in (before, after, end)] == ["beforeTool", "afterTool", "turnEnd"]
    assert isinstance(after["result"], dict)
    assert after["result"]["receipt"] == "created a.txt (+1 −0)"
    assert (end["outcome"], end["answer"], end["receipts"]) == ("completed", "Done.", ["created a.txt (+1 −0)"])
    assert end["session"] == before["session"] != ""


async def test_keys_of_the_configuration_are_taken_out_of_what_a_hook_is_told(tmp_path: Path) -> None:
    (tmp_path / ".nanobot/workspace").mkdir(parents=True)
    await turn(tmp_path, {"turnEnd": [hook(tmp_path)], "beforeTool": [hook(tmp_path)]}, WRITE)
    assert "sk-canary-key-1" not in (tmp_path / "log").read_text()
    assert len(told(tmp_path)) == 2


def test_a_hook_without_a_command_is_refused_by_the_configuration(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text(json.dumps({"hooks": {"beforeTool": [{"tool": "exec"}]}}))
    with pytest.raises(ConfigError, match='needs a "command"'):
        load(path, env={})


@pytest.mark.usefixtures("chinese")
def test_what_is_wrong_with_a_plug_in_is_told_in_chinese(tmp_path: Path) -> None:
    lines = Plugins(("absent-package", "pytest"), {}, {}, tmp_path).lines()
    assert [left for one in lines for left in english_left(one)] == []
    assert lines[0] == "插件 absent-package：没有和 nanobot 安装在一起。"


class Named:
    """Meets what a hook asks of a tool."""

    name = "tool"


@pytest.mark.usefixtures("chinese")
@pytest.mark.parametrize(
    "script", ["import sys; sys.exit(2)", "import sys; sys.exit(3)", "import time; time.sleep(60)"]
)
async def test_why_a_hook_lets_nothing_run_is_told_in_chinese(script: str) -> None:
    async def inner(*_given: object) -> ToolResult:
        return ToolResult("ran")

    config = HooksConfig(
        before_tool=(HookConfig((sys.executable, "-c", script), timeout=5 if "exit" in script else 1),)
    )
    run: RunTool = Hooks(config, {}).around(inner)
    result = await run(Named(), {}, None)  # type: ignore[arg-type]
    assert english_left(result.message, sys.executable) == []
    assert result.message.startswith("没有运行：")
