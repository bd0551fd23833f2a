"""On Telegram, a model that never answers costs one chat its turn's time and the other chats nothing."""

from pathlib import Path

from nanobot.providers.scripted import Call
from tests.channels.telegram.gateway import OWNER, running, serving
from tests.cli.harness import program
from tests.fakes.llm_server import LlmRequest, LlmServer, Reply
from tests.fakes.patience import growing
from tests.fakes.telegram_server import TOKEN, TelegramServer, black_hole

GUEST = 77


def play(request: LlmRequest) -> Reply:
    return Reply("Too late.", delay=600) if "the hard one" in request.raw.decode() else Reply("At once.")


def look_and_be_silent(request: LlmRequest) -> Reply:
    looked = "query" in str(request.messages)
    return Reply("Too late.", delay=600) if looked else Reply(Call("nanobot_docs", {"query": "query of mine"}))


@growing(3, 30, 100)
async def test_U5_a_chat_whose_model_is_silent_gets_an_honest_line_and_others_their_answers(
    tmp_path: Path, limit: float
) -> None:
    async with TelegramServer() as telegram, LlmServer(after=play) as llm:
        ada, bob = telegram.user("Ada", OWNER), telegram.user("Bob", GUEST)
        bot = {"enabled": True, "token": TOKEN, "apiBase": telegram.url, "allowFrom": [str(OWNER), "*"]}
        defaults = {"model": "fake", "provider": "custom", "maxTurnSeconds": limit}
        home = program(tmp_path, llm, channels={"telegram": bot}, agents={"defaults": defaults})
        async with running(home):
            ada.say("the hard one")
            await llm.asked(1)
            await bob.asks("hello", lambda: "bot: At once." in telegram.visible(bob.chat))
            await ada.sees("while waiting for the model fake")
            ada.say("/new")
            await ada.asks("an easy one", lambda: "bot: At once." in telegram.visible(ada.chat))
            log = (home.home / "logs" / "nanobot.log").read_text(encoding="utf-8")
        assert "hangs; it waits here" in log
        assert "Link.post" in log


async def test_U4_the_stop_button_stops_though_telegram_takes_no_answer_to_the_press(tmp_path: Path) -> None:
    async with serving(tmp_path, after=look_and_be_silent) as (telegram, _, ada, _):
        await ada.asks("go", "[Stop]")
        telegram.fail("answerCallbackQuery", black_hole())
        await ada.presses("Stop", "stopped")
