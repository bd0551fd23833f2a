"""`nanobot people`, with no gateway running."""

import re
from pathlib import Path

from tests.cli.harness import program

TOKEN = "123456:" + "a" * 35


async def test_people_are_shown_and_invited_from_the_command_line(tmp_path: Path) -> None:
    telegram = {"enabled": True, "token": TOKEN, "allowFrom": ["4242"]}
    nanobot = program(tmp_path, channels={"telegram": telegram})
    shown = await nanobot.run("people")
    assert (shown.code, "4242, owner" in shown.out.replace("`", "")) == (0, True), (shown.out, shown.err)
    longest = max(shown.out.splitlines(), key=len)
    assert len(longest) < 80, longest
    assert "- files: files in a folder of their own" in shown.out.replace("`", "")
    invited = await nanobot.run("people", "invite", "guest")
    assert re.search(r"/start [\w-]{22}", invited.out), invited.out
    refused = await nanobot.run("people", "grant", "Zoe", "files")
    assert (refused.code, "nobody called" in refused.err) == (2, True)


async def test_without_a_bot_there_is_nobody_else_and_the_way_to_one_is_told(tmp_path: Path) -> None:
    without = await program(tmp_path).run("people")
    assert (without.code, "No channel is switched on" in without.err) == (2, True)
