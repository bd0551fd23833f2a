"""A button of an earlier turn, which a client may go on showing."""

import asyncio
from pathlib import Path

from nanobot.providers.scripted import Call, Wait
from tests.channels.telegram.gateway import serving
from tests.fakes.llm_server import LlmRequest, Reply


async def test_an_old_stop_button_leaves_the_turn_that_runs_now_alone(tmp_path: Path) -> None:
    pressed = asyncio.Event()

    def look_then_think(request: LlmRequest) -> Reply:
        """Each turn asks for the documentation and then thinks: the first for ever, the second until the press."""
        said = str(request.messages)
        name = "second" if "the second one" in said else "first"
        if f"{name} query" not in said:
            return Reply(Call("nanobot_docs", {"query": f"{name} query"}))
        return Reply(Wait(pressed), "All done.") if name == "second" else Reply("Too late.", delay=600)

    async with serving(tmp_path, after=look_then_think) as (telegram, _, ada, _):
        await ada.asks("the first one", "[Stop]")
        old = next(message for message in telegram.chats[ada.chat] if "Stop" in message.buttons)
        data = list(old.data)
        await ada.presses("Stop", lambda: not any("[Stop]" in line for line in telegram.visible(ada.chat)))
        await ada.asks("the second one", "[Stop]")
        old.buttons, old.data = ["Stop of before"], data
        await ada.presses("Stop of before", lambda: not old.buttons)
        pressed.set()
        await ada.sees("bot: All done.")
