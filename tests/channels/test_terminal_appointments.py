"""Appointments of the terminal: kept while it is open, and told at the next start where nothing else keeps them."""

from pathlib import Path

from tests.channels.test_terminal_pty import terminal_of
from tests.cli.harness import modelled
from tests.fakes.llm_server import Reply


async def test_U66_a_reminder_made_in_the_terminal_comes_there_and_says_what_keeps_it(tmp_path: Path) -> None:
    async with modelled(tmp_path, Reply("All quiet."), after="no") as (nanobot, llm):
        async with terminal_of(nanobot) as terminal:
            await terminal.answers("/schedule in 1 second stretch your legs\r", "No gateway runs.")
            await terminal.until("⏰ stretch your legs")
            await terminal.answers("/schedule do in 1 second: look around\r", "All quiet.")
            assert terminal.text().count("⏰ stretch your legs") == 1
        assert len(llm.requests) == 1


async def test_U66_what_was_due_while_nothing_ran_is_told_at_the_next_start(tmp_path: Path) -> None:
    async with modelled(tmp_path, after="no") as (nanobot, llm):
        added = await nanobot.run("schedule", "add", "in", "1", "second", "call", "the", "bank")
        assert "No gateway runs." in added.out
        while "**Over**" not in (await nanobot.run("schedule")).out:  # nobody has seen to it yet
            async with terminal_of(nanobot) as terminal:
                await terminal.until("⏰ call the bank")
        assert "said" in (await nanobot.run("schedule")).out
        assert not llm.requests
