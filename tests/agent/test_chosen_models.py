"""What /model chose for a chat of a channel stands after a restart."""

from msgspec.structs import replace

from nanobot.bus.events import InboundMessage, Notice, TurnFinished
from nanobot.command.settings import ChatSettings
from nanobot.errors import UsageError
from nanobot.providers.base import LLMProvider
from nanobot.providers.scripted import ScriptedProvider
from nanobot.session.ledger import Ledger
from nanobot.session.rows import Closing
from nanobot.session.sqlite import MemoryDatabase
from tests.agent.harness import Box, agent, message


async def settle(_first: InboundMessage, _finished: TurnFinished | None, _closing: Closing | None) -> None:
    return None


async def switch(name: str) -> LLMProvider:
    if name == "gone":
        raise UsageError("No provider is known for the model 'gone'.")
    return ScriptedProvider([f"{name or 'default'} speaks"] * 3, model=name or "default")


async def ask(box: Box, text: str, number: int) -> TurnFinished:
    return await box.loop.process(replace(message(text), id=f"in-{number}"), settle)


async def lives(chats: ChatSettings, *texts: str) -> list[str]:
    """One process: what is answered to each text."""
    async with agent(["configured"] * 9, switch_model=switch, chats=chats) as box:
        return [(await ask(box, text, number)).text for number, text in enumerate(texts)]


async def test_the_model_of_a_chat_is_the_same_after_a_restart_until_it_is_set_back() -> None:
    chats = ChatSettings(Ledger(MemoryDatabase()))
    assert (await lives(chats, "hi", "/model vendor/big", "hi"))[::2] == ["configured", "vendor/big speaks"]
    again = await lives(chats, "/model", "hi")
    assert "**vendor/big**" in again[0]
    assert again[1] == "vendor/big speaks"
    await lives(chats, "/model default")
    assert await lives(chats, "hi") == ["configured"]


async def test_a_chosen_model_that_is_gone_is_told_and_the_configured_one_answers() -> None:
    chats = ChatSettings(Ledger(MemoryDatabase()))
    await chats.keep(message("").address.key, "model", "gone")
    async with agent(["configured"] * 2, switch_model=switch, chats=chats) as box:
        assert (await ask(box, "hi", 1)).text == "configured"
        assert (await ask(box, "hi", 2)).text == "configured"
        await box.until(lambda: len(box.of(TurnFinished)) == 2)
        told = [item.text for item in box.of(Notice)]
    (text,) = told
    assert "cannot be used: No provider is known for the model 'gone'. The configured one answers." in text


async def test_a_terminal_begins_with_the_configured_model() -> None:
    chats = ChatSettings(Ledger(MemoryDatabase()))
    await chats.keep(message("").address.key, "model", "vendor/big")
    async with agent(["configured"], switch_model=switch, chats=chats) as box:
        assert (await box.ask("hi")).text == "configured"
