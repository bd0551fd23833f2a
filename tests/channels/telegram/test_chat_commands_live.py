"""Commands in a chat, from the update to what the person sees."""

import asyncio
import json
import re
from pathlib import Path

from nanobot.providers.scripted import Call
from tests.channels.telegram.gateway import OWNER, configured, running
from tests.cli.harness import Program
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
