"""Choosing a model on both surfaces of the shipped programs: from a picker, by a preset, by its name."""

import json
from pathlib import Path

from tests.channels.telegram.gateway import OWNER, configured, running
from tests.channels.test_terminal_pty import terminal_of
from tests.cli.harness import Program, program
from tests.fakes.llm_server import LlmServer
from tests.fakes.telegram_server import TelegramServer

PRESETS = {
    "quick": {"model": "fake-small", "provider": "custom", "effort": "low", "maxTokens": 99, "fallback": ["fake-9"]}
}


def with_presets(home: Program) -> Program:
    path = home.home / "config.json"
    config = json.loads(path.read_text("utf-8"))
    config["agents"]["presets"] = PRESETS
    path.write_text(json.dumps(config), encoding="utf-8")
    return home


async def test_a_terminal_filters_the_models_of_the_service_and_takes_a_preset_by_its_name(tmp_path: Path) -> None:
    async with LlmServer(after="Hello.") as server:
        server.models = [{"id": f"fake-{number}"} for number in range(40)]
        async with terminal_of(with_presets(program(tmp_path, server))) as terminal:
            await terminal.answers("/model\r", "Which model is this chat to use?")
            await terminal.until("quick · fake-small (custom), effort low")
            await terminal.until("type to find")
            await terminal.answers("fake-33", "1 of 42")
            await terminal.answers("\r", "This chat now uses fake-33")
            await terminal.answers("hi\r", "Hello.")
            await terminal.answers("/model quick\r", "This chat now uses fake-small")
            terminal.press("again\r")
            await server.asked(2)
            await terminal.answers("/model default\r", "This chat now uses fake (custom)")
            await terminal.leave()
    assert [one.body["model"] for one in server.requests] == ["fake-33", "fake-small"]
    assert [one.body["max_tokens"] for one in server.requests] == [8192, 99]


async def test_a_chat_turns_the_pages_of_the_picker_and_keeps_its_choice_over_a_restart(tmp_path: Path) -> None:
    async with TelegramServer() as telegram, LlmServer(after="Hello.") as llm:
        llm.models = [{"id": f"fake-{number}"} for number in range(40)]
        ada, home = telegram.user("Ada", OWNER), with_presets(configured(tmp_path, telegram, llm))
        async with running(home):
            first = await ada.asks("/model", "Page 1 of 6")
            assert "1. quick · fake-small (custom), effort low\n2. default · as configured: fake\n3. fake-0" in first
            await ada.presses("▶", "Page 2 of 6")
            ada.press("10. fake-7")
            assert "It does not see pictures" in await telegram.shows(OWNER, "This chat now uses fake-7 (custom).")
        async with running(home):
            await ada.asks("hi", "Hello.")
            await ada.asks("/model quick", "This chat now uses fake-small")
    assert [one.body["model"] for one in llm.requests] == ["fake-7"]
