"""The whole program on Telegram: what a person sees, what survives, and what is never shown."""

from pathlib import Path

from tests.channels.telegram.gateway import OWNER, configured, running
from tests.fakes.llm_server import LlmServer
from tests.fakes.telegram_server import TelegramServer


async def test_a_message_is_answered_and_the_gateway_stops_in_order(tmp_path: Path) -> None:
    async with TelegramServer() as telegram, LlmServer("Hello **Ada**.") as llm:
        ada = telegram.user("Ada", OWNER)
        ada.say("hi")
        home = configured(tmp_path, telegram, llm)
        async with running(home) as gateway:
            await telegram.until(lambda: "bot: Hello Ada." in telegram.visible(ada.chat), 20)
            assert await gateway.stop() == 0, gateway.text
        assert telegram.visible(ada.chat) == ["Ada: hi", "bot: Hello Ada."]
        assert "Traceback" not in gateway.text
