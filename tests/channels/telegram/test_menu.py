"""The menu of commands: what Telegram is told, for whom and in which language."""

from pathlib import Path

import pytest

from nanobot.bus.events import Role
from nanobot.channels.telegram.bot import TRANSLATIONS, CommandMenu
from nanobot.command.builtin import builtin_router
from tests.channels.telegram.intake_harness import intake_stage
from tests.fakes.telegram_server import Json, refuse


def listed(call: Json) -> dict[str, str]:
    commands = call["commands"]
    assert isinstance(commands, list)
    return {command["command"]: command["description"] for command in commands}


async def test_each_person_gets_the_commands_of_their_role_in_their_language(tmp_path: Path) -> None:
    async with intake_stage(tmp_path) as at:
        menu = CommandMenu(at.line, builtin_router())
        await menu.start()
        people: list[tuple[str, Role, str]] = [("7", "owner", "de-at"), ("8", "guest", "de"), ("9", "user", "de")]
        for person in people:
            await menu.offer(*person)
            await menu.offer(*person)
        everybody, owner, users = [call.params for call in at.server.sent("setMyCommands")]
        assert "scope" not in everybody
        assert listed(everybody).keys() == {"help", "stop", "whoami"}
        assert owner["scope"] == {"type": "chat", "chat_id": 7}
        assert listed(owner)["stop"] == "Beenden, was gerade läuft"
        assert "quit" not in listed(owner)
        assert (users["scope"], users["language_code"]) == ({"type": "all_private_chats"}, "de")
        assert listed(users)["help"] == "Die Befehle zeigen"
        await menu.offer("10", "user", "de")
        assert len(at.server.sent("setMyCommands")) == 3
        await menu.offer("11", "user", "xx")
        assert listed(at.server.sent("setMyCommands")[-1].params)["stop"] == "Stop what is running"


async def test_a_menu_that_was_refused_is_tried_again_and_never_in_the_way(tmp_path: Path) -> None:
    async with intake_stage(tmp_path) as at:
        menu = CommandMenu(at.line, builtin_router())
        at.server.fail("setMyCommands", refuse(400, "Bad Request: chat not found"))
        await menu.offer("7", "owner", "en")
        await menu.offer("7", "owner", "en")
        assert len(at.server.commands) == 1


@pytest.mark.parametrize("language", TRANSLATIONS)
def test_every_command_of_a_chat_is_translated(language: str) -> None:
    names = {command.name for command in builtin_router().commands("owner", "telegram")}
    assert names <= TRANSLATIONS[language].keys()
    assert len({frozenset(words) for words in TRANSLATIONS.values()}) == 1
    assert all(len(text) <= 256 for text in TRANSLATIONS[language].values())
