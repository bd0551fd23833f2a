"""Commands in a chat, from the update to what the person sees."""

import json
from pathlib import Path

from tests.channels.telegram.gateway import OWNER, configured, running
from tests.cli.harness import Program
from tests.fakes.llm_server import LlmServer
from tests.fakes.telegram_server import TelegramServer


async def test_the_commands_of_a_chat_work_through_the_gateway(tmp_path: Path) -> None:
    async with TelegramServer() as telegram, LlmServer(after="Hello.") as llm:
        ada = telegram.user("Ada", OWNER)

        async def ask(text: str) -> str:
            before = len(telegram.visible(OWNER))
            ada.say(text)
            await telegram.until(lambda: len(telegram.visible(OWNER)) == before + 2, 20)
            return telegram.visible(OWNER)[-1]

        async with running(configured(tmp_path, telegram, llm)):
            assert await ask("hello") == "bot: Hello."
            usage = await ask("/usage")
            assert "Today: 100 tokens in, 10 out, 1 request" in usage
            assert await ask("/whoami") == f"bot: You: Ada, id {OWNER}, owner.\nThis chat: {OWNER} on telegram."
            assert (await ask("/privacy on")).startswith("bot: Privacy: on,")
            assert (await ask("/hints off")).startswith("bot: Hints: off,")
            assert "There is no command /stauts. Did you mean /status?" in await ask("/stauts")
            status = await ask("/status")
            for line in ("nanobot ", "Model: fake", "Context: 100 of", "Today, all chats: 100 in", "last poll"):
                assert line in status
            menu = json.dumps(telegram.commands, ensure_ascii=False)
            assert "Stop what is running" in menu
        async with running(Program(tmp_path / "home")):
            assert (await ask("/privacy")).startswith("bot: Privacy: on,")
