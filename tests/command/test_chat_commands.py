"""The commands about a chat: what it costs, who is who, what is shown."""

from collections.abc import Callable, Coroutine
from typing import TypeVar

import pytest

from nanobot.bus.events import Address, InboundMessage, Role, Sender
from nanobot.command.builtin import builtin_router
from nanobot.command.router import CommandRouter
from nanobot.command.services import CommandServices
from nanobot.command.settings import ChatSettings
from nanobot.session.database import Transaction
from nanobot.session.ledger import Ledger
from nanobot.session.sqlite import MemoryDatabase
from tests.command.test_commands import Control
from tests.tables import table

T = TypeVar("T")
CHAT = Address("telegram", "42", "7")


async def ask(router: CommandRouter, text: str, *, role: Role = "owner", address: Address = CHAT) -> str:
    said: list[str] = []
    match = router.match(text)
    assert match is not None

    async def reply(line: str) -> None:
        said.append(line)

    await router.run(match, InboundMessage(address, Sender("7", "Ada", role), text, direct=True), Control(), reply)
    return said[-1]


async def test_usage_tells_all_with_the_searches_to_the_owner_alone_and_everybody_else_their_own() -> None:
    router = builtin_router()
    whole, own = await ask(router, "/usage"), await ask(router, "/usage", role="user")
    assert "- Today: 3,600 tokens in (50% from the cache), 102 out, 6 requests, 0.0300 USD" in whole
    assert "- Seven days: 4,800 tokens in" in whole
    assert "- Budget: today 0.00 of 2.00 USD" in whole
    assert whole.endswith("- searches now"), "what the services say takes the place of what was known"
    assert "- Today: 1,200 tokens in (50% from the cache), 34 out, 2 requests, 0.0100 USD" in own
    assert "- Cap: today 0.00 of 1.00 USD" in own
    assert "searches" not in own
    assert "not available to you" in await ask(router, "/usage", role="guest")


@table(
    "words told",
    ("yesterday", "`/usage [today|week|month]"),
    ("weak", "Did you mean 'week'?"),
    ("week by", "by day|model|chat|person|cause"),
    ("raise much", "such as `/usage raise 5`"),
    ("raise -5", "such as `/usage raise 5`"),
    ("estimate many", "such as `/usage estimate 30`"),
)
async def test_usage_says_how_it_is_written(words: str, told: str) -> None:
    assert told in await ask(builtin_router(), f"/usage {words}")


async def test_only_the_owner_allows_more_and_everybody_may_ask_what_work_would_cost() -> None:
    router = builtin_router()
    assert "5.00 USD more are allowed today" in await ask(router, "/usage raise 5 USD")
    assert await ask(router, "/usage raise 5", role="user") == "Only the owner may allow more."
    estimated = await ask(router, "/usage estimate 30 pages", role="user")
    assert estimated.startswith("With gpt-x: about 133,800 to 405,000 tokens at a price that is not known")
    assert estimated.endswith("30 pages; today 0.00 of 1.00 USD are used.")


async def test_a_setting_holds_for_its_chat_and_outlives_the_router() -> None:
    notes = Ledger(MemoryDatabase())
    router = builtin_router(CommandServices(ChatSettings(notes, {"hints": "keep"})))
    assert "**keep**" in await ask(router, "/hints")
    assert await ask(router, "/hints OFF") == (
        "Hints: **off**, what it does is not shown. `/hints live` or `/hints keep` changes it for this chat."
    )
    again = builtin_router(CommandServices(ChatSettings(notes, {"hints": "keep"})))
    assert "**off**" in await ask(again, "/hints")
    assert "**keep**" in await ask(again, "/hints", address=Address("telegram", "42"))


@pytest.mark.parametrize("worker", ["", "one of many"])
async def test_a_setting_is_read_once_but_where_other_processes_may_change_it(worker: str) -> None:
    class Counted(MemoryDatabase):
        reads = 0

        async def read(self, work: Callable[[Transaction], Coroutine[object, None, T]], **how: bool) -> T:
            self.reads += 1
            return await super().read(work, **how)

    database = Counted()
    database.worker = worker or database.worker
    one, other = ChatSettings(Ledger(database)), ChatSettings(Ledger(database))
    assert [await one.get("here", "hints") for _ in range(3)] == ["live"] * 3
    assert database.reads == (3 if worker else 1)
    await other.set("here", "hints", "off")
    assert await one.get("here", "hints") == ("off" if worker else "live")


async def test_every_choice_of_every_setting_is_taken_and_a_wrong_one_is_named() -> None:
    router = builtin_router()
    for text in ("hints live", "hints keep", "streaming edit", "streaming draft", "streaming off", "privacy on"):
        assert f"**{text.split()[1]}**" in await ask(router, f"/{text}")
    assert await ask(router, "/streaming of") == ("/streaming takes edit, draft or off, not 'of'. Did you mean off?")
    assert "**off**" in await ask(router, "/streaming")


async def test_a_value_that_is_no_longer_known_falls_back_to_the_configured_one() -> None:
    notes = Ledger(MemoryDatabase())
    await notes.set_notes({"chat:telegram:42:7:hints": "sometimes"})
    assert await ChatSettings(notes, {"hints": "off"}).get(CHAT.key, "hints") == "off"


async def test_what_the_configuration_decides_for_every_chat_a_chat_cannot_change() -> None:
    notes = Ledger(MemoryDatabase())
    await ask(builtin_router(CommandServices(ChatSettings(notes))), "/privacy off")
    router = builtin_router(CommandServices(ChatSettings(notes, {"privacy": "on"}, {"privacy": "tools.web.privacy"})))
    assert "**on**" in await ask(router, "/privacy")
    assert await ask(router, "/privacy off") == "tools.web.privacy sets privacy to on for every chat."
    assert "**on**" in await ask(router, "/privacy on")


async def test_whoami_gives_the_ids_that_the_configuration_takes() -> None:
    assert await ask(builtin_router(), "/whoami", role="guest") == (
        "You: Ada, id `7`, guest.\nThis chat: `42`, topic `7` on telegram."
    )


async def test_a_command_for_one_surface_is_not_offered_on_the_other() -> None:
    router = builtin_router()
    chat = {command.name for command in router.commands("owner", "telegram")}
    terminal = {command.name for command in router.commands("owner", "terminal")}
    assert chat - terminal == {"hints", "streaming"}
    assert terminal - chat == {"copy", "quit"}
