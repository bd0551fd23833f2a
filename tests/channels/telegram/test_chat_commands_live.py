"""Commands in a chat, of sessions and MCP servers too, from the update to what the person sees."""

import asyncio
import json
import re
import sys
from pathlib import Path

import httpx

from nanobot.providers.scripted import Call
from tests.agent.tools.test_mcp_login import private_server
from tests.channels.telegram.gateway import OWNER, configured, furnished, running
from tests.cli.harness import Program, known_tools
from tests.cli.test_sessions_process import CANARY, holding
from tests.fakes.http_server import HttpServer, Request, Responder
from tests.fakes.llm_server import LlmServer, Reply
from tests.fakes.telegram_server import TelegramServer


def put(path: Path, more: dict[str, object]) -> None:
    """Add top-level keys to a configuration."""
    path.write_text(json.dumps({**json.loads(path.read_text(encoding="utf-8")), **more}), encoding="utf-8")


async def test_the_commands_of_a_chat_work_through_the_gateway(tmp_path: Path) -> None:
    async with TelegramServer() as telegram, LlmServer(after="Hello.") as llm:
        ada = telegram.user("Ada", OWNER)

        async def ask(text: str) -> str:
            before = len(telegram.visible(OWNER))
            await ada.asks(text, lambda: len(telegram.visible(OWNER)) == before + 2)
            return telegram.visible(OWNER)[-1]

        async with running(configured(tmp_path, telegram, llm)):
            assert await ask("hello") == "bot: Hello."
            usage = await ask("/usage")
            assert "Today: 100 tokens in, 10 out, 1 request" in usage
            assert await ask("/whoami") == f"bot: You: Ada, id {OWNER}, owner.\nThis chat: {OWNER} on telegram."
            asked = len(llm.requests)
            assert (await ask("help")).startswith("bot: Commands")
            assert (await ask("onboard")).startswith("bot: nanobot onboard in a shell")
            assert len(llm.requests) == asked
            assert (await ask("/privacy on")).startswith("bot: Privacy: on,")
            assert (await ask("/hints off")).startswith("bot: Hints: off,")
            assert "There is no command /stauts. Did you mean /status?" in await ask("/stauts")
            status = await ask("/status")
            for line in ("nanobot ", "Model: fake", "Context: 100 of", "Today, all chats: 100 tokens in", "last poll"):
                assert line in status
            menu = json.dumps(telegram.commands, ensure_ascii=False)
            assert "Stop what is running" in menu
        async with running(Program(tmp_path / "home")):
            assert (await ask("/privacy")).startswith("bot: Privacy: on,")
        log = (tmp_path / "home" / "logs" / "nanobot.log").read_text(encoding="utf-8")
        turn = re.findall(r"\[(\S+)\] turn ends: completed", log)
        assert f"[{turn[0]}] send of row " in log


async def test_what_was_changed_in_a_chat_is_told_under_the_answer_and_undone_there(tmp_path: Path) -> None:
    note = Call("write_file", {"path": "notes/plan.md", "content": "Buy bread.\n"})
    async with TelegramServer() as telegram, LlmServer(Reply(note), "I wrote it down.", after="Hello.") as llm:
        ada = telegram.user("Ada", OWNER)
        path = tmp_path / "home/workspace/notes/plan.md"
        async with running(configured(tmp_path, telegram, llm)):
            ada.say("Note that I have to buy bread.")
            await telegram.until(lambda: "created notes/plan.md (+1 −0)" in telegram.visible(OWNER)[-1])
            assert path.read_text(encoding="utf-8") == "Buy bread.\n"
            ada.say("/undo")
            await telegram.until(lambda: telegram.visible(OWNER)[-1] == "bot: notes/plan.md is gone again: it was new.")
            assert not path.exists()
            await telegram.until(lambda: '"undo"' in json.dumps(telegram.commands))


async def test_M12_status_answers_within_a_second_and_fills_in_what_is_slow(tmp_path: Path) -> None:
    hung, answer = asyncio.Event(), asyncio.Event()

    async def usage(request: Request, respond: Responder) -> None:
        hung.set()
        await answer.wait()
        await respond.json({"key": {"usage": 150, "limit": 1000}, "account": {"plan_usage": 150, "plan_limit": 1000}})

    async with TelegramServer() as telegram, LlmServer(after="Hello.") as llm, HttpServer(usage) as tavily:
        ada = telegram.user("Ada", OWNER)
        home = configured(tmp_path, telegram, llm)
        search = {"provider": "tavily", "apiKey": "tvly-1", "baseUrl": tavily.url}
        put(home.home / "config.json", {"tools": {"web": {"search": search}}})
        async with running(home):
            await ada.asks("/whoami", lambda: len(telegram.visible(OWNER)) == 2)
            await ada.asks("/status", lambda: len(telegram.visible(OWNER)) == 4)
            await asyncio.wait_for(hung.wait(), 120)
            assert "150 / 1,000" not in telegram.visible(OWNER)[-1]
            answer.set()
            await telegram.until(lambda: "150 / 1,000" in telegram.visible(OWNER)[-1])
            assert len(telegram.visible(OWNER)) == 4


async def test_U67_sessions_are_chosen_exported_and_deleted_in_a_chat_and_are_those_of_the_terminal(
    tmp_path: Path,
) -> None:
    async with furnished(tmp_path, after="Fine.") as (telegram, llm, ada, home):
        for number in range(10):
            await home.run(f"question {number}")
            await home.run("--continue", "-m", f"again {number}")

        def last() -> str:
            return telegram.visible(OWNER)[-1]

        async with running(home):
            await ada.asks("/resume", lambda: "Page 1 of 2. Tap one." in last())
            assert "1. question 9 · today " in last()
            assert "question 1 ·" not in last()
            await ada.presses("▶", lambda: "Page 2 of 2. Tap one." in last())
            ada.press(next(one for one in _labels(telegram) if one.startswith("9. question 1 ")))
            await telegram.until(lambda: "You: again 1" in last())
            assert "question 1 · today " in last()
            await ada.asks("and from my phone?", lambda: last() == "bot: Fine.")
            assert "again 1" in json.dumps(llm.requests[-1].body), "what was begun in the terminal goes on here"
            await ada.asks("/export html", lambda: bool(telegram.sent("sendDocument")))
            await telegram.until(lambda: any("is on its way" in one for one in telegram.visible(OWNER)))
            assert any(".html" in one for one in telegram.visible(OWNER)), "as a file"
            await ada.asks("/delete", lambda: "Delete this session for good?" in last())
            await ada.presses("Delete it", lambda: "Deleted: 6 messages." in last())
            await ada.asks("/resume", lambda: "Tap one." in last())
            await ada.presses("Leave", lambda: last() == "bot: You stay where you are.")
            assert any(one.endswith("Nothing was chosen.") for one in telegram.visible(OWNER))
        listed = await home.run("sessions")
        assert "question 1 ·" not in listed.out
        assert "question 2 ·" in listed.out


async def test_U67_a_conversation_that_is_deleted_in_its_chat_is_nowhere_in_the_home(tmp_path: Path) -> None:
    async with furnished(tmp_path, after=f"The {CANARY} is fine.") as (telegram, llm, ada, home):

        def last() -> str:
            return telegram.visible(OWNER)[-1]

        async with running(home):
            await ada.asks(f"How is the {CANARY}?", lambda: last() == f"bot: The {CANARY} is fine.")
            ada.send("document", f"All about the {CANARY}".encode(), f"Read of the {CANARY}")
            await telegram.until(lambda: len(llm.requests) == 2 and last() == f"bot: The {CANARY} is fine.")
            await ada.asks(f"/sessions {CANARY}", lambda: "Sessions with: " in last())
            await ada.asks("/export md", lambda: bool(telegram.sent("sendDocument")))
            before = holding(home.home, CANARY)
            await ada.asks("/delete", lambda: "4 messages, the last one today " in last())
            await ada.presses("Delete it", lambda: "Deleted: 4 messages, with 2 files." in last())
    databases = {one.partition(".db")[0] for one in before if ".db" in one}
    assert {"nanobot", "index"} <= databases
    assert any(one.endswith(".md") for one in before), "with the export that was sent"
    assert holding(home.home, CANARY) == []


def _labels(telegram: TelegramServer) -> list[str]:
    """The labels of the buttons that the owner sees now."""
    return [label for message in telegram.chats[OWNER] for label in message.buttons]


ROOT = Path(__file__).parents[3]


async def test_U45_prompts_and_logins_of_servers_work_from_telegram(tmp_path: Path) -> None:
    async with TelegramServer() as telegram, LlmServer(after="Hello Ann!") as llm:
        ada = telegram.user("Ada", OWNER)

        async def ask(text: str, wanted: str) -> str:
            """Say something and wait for the answer that begins with `wanted`; a notice may come before it."""
            before = len(telegram.visible(OWNER)) + 1
            ada.say(text)

            def answers() -> list[str]:
                return [line for line in telegram.visible(OWNER)[before:] if line.startswith(f"bot: {wanted}")]

            await telegram.until(lambda: bool(answers()))
            return answers()[0]

        with private_server(seconds=3600) as (url, _):
            home = configured(tmp_path, telegram, llm)
            path = home.home / "config.json"
            words = [sys.executable, "-m", "tests.fakes.mcp_sdk_server", "stdio"]
            real = {"command": words, "env": {"PYTHONPATH": str(ROOT)}, "prompts": True, "toolTimeout": 100}
            servers = {"mcpServers": {"real": real, "private": {"url": url}}}
            known = json.loads(path.read_text(encoding="utf-8"))
            path.write_text(json.dumps({**known, "tools": {**known.get("tools", {}), **servers}}), encoding="utf-8")
            await known_tools(home)
            async with running(home):
                await ask("/mcp reconnect real", "real: ready, 5 tools.")
                shown = await ask("/mcp", "")
                assert "private (address 127.0.0.1): The MCP server 'private' refused the login" in shown
                await ask("/mcp prompt real greet name=Ann", "Hello Ann!")
                assert "Say hello to Ann." in json.dumps(llm.requests[-1].messages)
                shown = await ask("/mcp login private", "")
                link = re.search(r"http://127\.0\.0\.1\S+authorize\S+", shown)
                assert link, shown
                async with httpx.AsyncClient(trust_env=False, timeout=100) as browser:
                    back = (await browser.get(link[0].rstrip(">"))).headers["location"]
                await ask(f"/mcp login private {back}", "Logged in. private: ready, 1 tool.")
