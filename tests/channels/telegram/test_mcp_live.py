"""MCP servers from a chat: how they are, a prompt of one, and a login whose address is pasted."""

import json
import re
import sys
from pathlib import Path

import httpx

from tests.agent.tools.test_mcp_login import private_server
from tests.channels.telegram.gateway import OWNER, configured, running
from tests.cli.harness import known_tools
from tests.fakes.llm_server import LlmServer
from tests.fakes.telegram_server import TelegramServer

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
