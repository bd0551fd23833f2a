"""The menu of commands: what Telegram is told, for whom and in which language."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from nanobot.bus.events import Role
from nanobot.channels.telegram.bot import TRANSLATIONS, CommandMenu
from nanobot.command.builtin import builtin_router
from nanobot.session.ledger import Ledger
from nanobot.session.sqlite import MemoryDatabase
from tests.channels.telegram.gateway import serving
from tests.channels.telegram.intake_harness import IntakeStage, intake_stage
from tests.fakes.chinese import english_left
from tests.fakes.telegram_server import Json, refuse


def listed(call: Json) -> dict[str, str]:
    commands = call["commands"]
    assert isinstance(commands, list)
    return {command["command"]: command["description"] for command in commands}


@contextlib.asynccontextmanager
async def menus(at: IntakeStage, ledger: Ledger) -> AsyncIterator[CommandMenu]:
    """A menu that waits for nothing."""

    async def at_once(_seconds: float) -> None:
        await asyncio.sleep(0)

    menu = CommandMenu(at.line, builtin_router(), ledger, at_once)
    task = asyncio.create_task(menu.run())
    yield menu
    task.cancel()
    await asyncio.wait({task})


async def calls(at: IntakeStage, number: int) -> list[Json]:
    """What Telegram was told, once it was told so often."""
    await at.server.until(lambda: len(at.server.sent("setMyCommands")) >= number)
    told = [call.params for call in at.server.sent("setMyCommands")]
    assert len(told) == number
    return told


async def test_each_person_gets_the_commands_of_their_role_in_their_language(tmp_path: Path) -> None:
    ledger = Ledger(MemoryDatabase())
    async with intake_stage(tmp_path) as at:
        people: list[tuple[str, Role, str]] = [("7", "owner", "de-at"), ("8", "guest", "de"), ("9", "user", "de")]
        async with menus(at, ledger) as menu:
            for person in people:
                menu.offer(*person)
                menu.offer(*person)
            everybody, owner, users = await calls(at, 3)
            assert "scope" not in everybody
            assert listed(everybody).keys() == {"help", "stop", "whoami"}
            assert owner["scope"] == {"type": "chat", "chat_id": 7}
            assert listed(owner)["stop"] == "Beenden, was gerade läuft"
            assert "quit" not in listed(owner)
            assert (users["scope"], users["language_code"]) == ({"type": "all_private_chats"}, "de")
            assert listed(users)["help"] == "Die Befehle zeigen"
            menu.offer("10", "user", "de")
            menu.offer("11", "user", "xx")
            assert listed((await calls(at, 4))[-1])["stop"] == "Stop what is running"
        async with menus(at, ledger) as later:  # a start sets none that Telegram has
            later.offer("7", "owner", "de")
            later.offer("7", "owner", "en")
            assert listed((await calls(at, 5))[-1])["stop"] == "Stop what is running"
    await ledger.aclose()


async def test_a_menu_in_chinese_has_every_summary_from_the_catalogue(tmp_path: Path) -> None:
    ledger = Ledger(MemoryDatabase())
    async with intake_stage(tmp_path) as at, menus(at, ledger) as menu:
        menu.offer("7", "owner", "zh-hans")
        shown = listed((await calls(at, 2))[-1])
    await ledger.aclose()
    assert shown["stop"] == "停止正在进行的操作"
    assert not english_left("\n".join(shown.values()))


async def test_a_menu_that_was_refused_is_tried_again_and_never_in_the_way(tmp_path: Path) -> None:
    ledger = Ledger(MemoryDatabase())
    async with intake_stage(tmp_path) as at, menus(at, ledger) as menu:
        await calls(at, 1)
        at.server.commands.clear()
        at.server.fail("setMyCommands", refuse(400, "Bad Request: chat not found"))
        menu.offer("7", "owner", "en")
        menu.offer("9", "user", "en")
        await calls(at, 3)
        menu.offer("9", "user", "en")
        menu.offer("7", "owner", "en")
        await calls(at, 4)
        assert len(at.server.commands) == 2
    await ledger.aclose()


async def test_a_start_asks_for_updates_at_once_and_answers_before_it_sets_the_menu_of_a_chat(tmp_path: Path) -> None:
    async with serving(tmp_path, "Hello.") as (telegram, _, ada, _):
        await ada.asks("hi", lambda: len(telegram.sent("setMyCommands")) == 2)
    called = [call.method for call in telegram.calls if call.method != "sendchataction"]
    assert called[:2] == ["getme", "getupdates"]
    assert called.index("sendmessage") < len(called) - 1 - called[::-1].index("setmycommands")


@pytest.mark.parametrize("language", TRANSLATIONS)
def test_every_command_of_a_chat_is_translated(language: str) -> None:
    names = {command.name for command in builtin_router().commands("owner", "telegram")}
    assert names <= TRANSLATIONS[language].keys()
    assert len({frozenset(words) for words in TRANSLATIONS.values()}) == 1
    assert all(len(text) <= 256 for text in TRANSLATIONS[language].values())
