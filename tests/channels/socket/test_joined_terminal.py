"""A terminal that joins a running gateway: what is said in it goes on in Telegram and back, and who else may join."""

import asyncio
import json
import os
import re
import stat
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from nanobot import __version__
from nanobot.channels.base import LocateCall
from nanobot.channels.socket import wire
from nanobot.channels.socket.client import GatewayLink
from nanobot.errors import NanobotError
from nanobot.providers.scripted import Call, Pause, Wait
from tests.channels.pseudo_terminal import PseudoTerminal
from tests.channels.telegram.gateway import OWNER, Gateway, furnished, running
from tests.channels.test_terminal_pty import CTRL_C, terminal_of
from tests.cli.harness import BOUND, Program
from tests.fakes.chinese import english_left
from tests.fakes.llm_server import Reply


async def listens(home: Program, gateway: Gateway) -> None:
    """Wait until terminals can join."""
    async with asyncio.timeout(BOUND):
        while (joined := await wire.connect(home.home / "gateway.sock")) is None:
            assert gateway.process.returncode is None, gateway.text
            await asyncio.sleep(0.02)
        joined[1].close()


@asynccontextmanager
async def serving(home: Program) -> AsyncIterator[None]:
    """A gateway that terminals can join."""
    async with running(home) as gateway:
        await listens(home, gateway)
        yield


async def test_U36_a_talk_begun_in_the_terminal_goes_on_in_telegram_and_back(tmp_path: Path) -> None:
    replies = "The heron is noted.", "On the phone.", "At the desk."
    async with furnished(tmp_path, *replies) as (telegram, llm, ada, home), running(home) as gateway:
        await listens(home, gateway)
        assert stat.S_IMODE((home.home / "gateway.sock").stat().st_mode) & 0o077 == 0
        async with terminal_of(home) as terminal:
            await terminal.until("in the gateway")
            await terminal.answers("remember the heron\r", "The heron is noted.")
            await terminal.answers("/sessions\r", re.compile(r"\w{10} remember the heron"))
            session = re.findall(r"(\w{10}) remember the heron", terminal.text())[0]
            await ada.asks(f"/resume {session}", "Back in session")
            await ada.asks("and from here?", lambda: "bot: On the phone." in telegram.visible(ada.chat))
            await terminal.until("On Telegram: and from here?")
            await terminal.until("On the phone.")
            await terminal.answers("and here again?\r", "At the desk.")
            await terminal.leave()
        told = json.dumps(llm.requests[-1].messages)
        assert told.index("remember the heron") < told.index("and from here?") < told.index("and here again?")


async def test_a_terminal_reads_its_own_language_whatever_the_gateway_and_the_phone_speak(tmp_path: Path) -> None:
    replies = "The heron is noted.", "On the phone."
    async with furnished(tmp_path, *replies) as (_, _, ada, home), running(home) as gateway:
        await listens(home, gateway)
        env = {**home.env, "LANG": "zh_CN.UTF-8"}
        with PseudoTerminal(home.command("agent"), env=env, cwd=home.home, columns=100) as terminal:
            await terminal.until("❯")
            await terminal.answers("remember the heron\r", "The heron is noted.")
            await terminal.answers("/sessions\r", re.compile(r"\w{10} remember the heron"))
            session = re.findall(r"(\w{10}) remember the heron", terminal.text())[0]
            await ada.asks(f"/resume {session}", "Back in session")
            ada.say("and from here?")
            await terminal.until("在 Telegram：and from here?")
            await terminal.until("On the phone.")
            await terminal.leave()
            shown = terminal.text()
        given = ("remember the heron", "The heron is noted.", "and from here?", "On the phone.")
        assert not english_left(shown, *given)


async def test_what_is_typed_on_a_second_surface_waits_for_the_turn_that_runs_and_ctrl_c_stops_it(
    tmp_path: Path,
) -> None:
    gates = [asyncio.Event(), asyncio.Event()]
    steps = ("Hello.", Reply(Wait(gates[0]), "Herons."), "Egrets.", Reply(Wait(gates[1]), "late"))
    async with furnished(tmp_path, *steps) as (_, llm, ada, home), serving(home), terminal_of(home) as terminal:
        await terminal.answers("hello\r", "Hello.")
        await terminal.answers("/sessions\r", re.compile(r"\w{10} hello"))
        session = re.findall(r"(\w{10}) hello", terminal.text())[0]
        await ada.asks(f"/resume {session}", "Back in session")
        ada.say("name the herons")
        await terminal.until("On Telegram: name the herons")
        await llm.asked(2)
        await terminal.answers("and the egrets\r", "in use elsewhere")
        await terminal.until(lambda: "❯ and the egrets" not in terminal.text())  # it waits above the input
        gates[0].set()
        await terminal.until("Herons.")
        await terminal.until("Egrets.")
        ada.say("and all the others")
        await terminal.until("On Telegram: and all the others")
        await llm.asked(4)
        await terminal.answers(CTRL_C, "Stopped.")
        await ada.sees("topped")
        gates[1].set()
        await terminal.leave()


async def test_who_writes_on_telegram_while_a_terminal_is_answered_is_told_that_it_waits(tmp_path: Path) -> None:
    gate = asyncio.Event()
    steps = ("Hello.", Reply(Wait(gate), "Herons."), "Egrets.")
    async with furnished(tmp_path, *steps) as (_, llm, ada, home), serving(home), terminal_of(home) as terminal:
        await terminal.answers("hello\r", "Hello.")
        await terminal.answers("/sessions\r", re.compile(r"\w{10} hello"))
        session = re.findall(r"(\w{10}) hello", terminal.text())[0]
        await ada.asks(f"/resume {session}", "Back in session")
        terminal.press("name the herons\r")
        await llm.asked(2)
        await ada.asks("and the egrets", "This conversation is in use elsewhere (a terminal).")
        gate.set()
        await ada.sees("Egrets.")
        await terminal.leave()


def careful(home: Program) -> Program:
    """Whatever changes a file is asked about."""
    return home.change(tools={"policy": {"preset": "careful"}})


def write(name: str, text: str = "") -> Reply:
    return Reply(Call("write_file", {"path": f"{name}.md", "content": text or f"the {name}\n"}))


async def test_A21_who_joined_is_asked_with_the_diff_and_says_no_with_a_reason_yes_or_always(tmp_path: Path) -> None:
    steps = (write("heron"), write("egret"), write("stork"), write("stork", "it is back\n"))
    async with furnished(tmp_path, *steps, "All is done.") as (telegram, llm, _, home):
        workspace = careful(home).home / "workspace"
        async with serving(home), terminal_of(home) as terminal:
            await terminal.until("in the gateway")
            await terminal.answers("write of the birds\r", re.compile(r"\+the heron[^❯]*y once · a always · n no"))
            await terminal.answers("n", "No. Why?")
            await terminal.answers("it has flown\r", re.compile(r"\+the egret[^❯]*y once · a always · n no"))
            assert not (workspace / "egret.md").exists()
            await terminal.answers("y", re.compile(r"\+the stork[^❯]*y once · a always · n no"))
            assert (workspace / "egret.md").read_text(encoding="utf-8") == "the egret\n"
            await terminal.answers("a", "All is done.")
            assert "(it has flown)" in terminal.text()
            assert terminal.text().count("Approved for good") == 1
            assert "y once" not in terminal.text(), "the questions have left the screen"
        assert telegram.visible(OWNER) == []
        assert (workspace / "stork.md").read_text(encoding="utf-8") == "it is back\n", "it was not asked about again"
        assert not (workspace / "heron.md").exists()
        assert "it has flown" in json.dumps(llm.requests[1].messages)


async def test_who_joined_chooses_an_answer_and_ctrl_c_ends_the_turn_that_waits_for_one(tmp_path: Path) -> None:
    days = Call("ask", {"question": "Which day?", "choices": ["Tuesday", "Friday"]})
    async with furnished(tmp_path, Reply(days), "It is planned.", write("heron"), "Fine.") as (_, llm, _, home):
        async with serving(careful(home)), terminal_of(home) as terminal:
            await terminal.answers("plan it\r", "1 to 2 answers")
            await terminal.answers("2", "It is planned.")
            assert re.search("Which day\\?\\s+Answered: Friday", terminal.text())
            assert "The person chose: Friday" in json.dumps(llm.requests[1].body)
            await terminal.answers("write of the heron\r", "y once · a always · n no")
            await terminal.answers(CTRL_C, "topped")
            await terminal.until(lambda: "y once" not in terminal.text())
            await terminal.answers("and now?\r", "Fine.")
            await terminal.leave()
        assert not (home.home / "workspace" / "heron.md").exists()


async def test_U66_a_reminder_of_the_terminal_comes_to_who_joined_and_to_telegram_while_nobody_has(
    tmp_path: Path,
) -> None:
    async with furnished(tmp_path, after="no") as (telegram, llm, _, home):
        telegram.user("Ada", OWNER)
        async with serving(home):
            async with terminal_of(home) as terminal:
                await terminal.answers("/schedule in 1 second stretch your legs\r", "⏰ stretch your legs")
                await terminal.answers("/schedule in 3 seconds call the bank\r", "call the bank")
                await terminal.leave()
            await telegram.shows(OWNER, "call the bank")
            assert not any("stretch" in line for line in telegram.visible(OWNER))
        assert llm.requests == []


async def test_a_question_from_the_command_line_is_answered_by_the_gateway_that_runs(tmp_path: Path) -> None:
    async with furnished(tmp_path, "Four.", "Five.") as (_, llm, _, home), running(home) as gateway:
        await listens(home, gateway)
        first = await home.run("agent", "--debug", "-m", "two and two?", "--json")
        assert (first.code, first.lines[0]["text"]) == (0, "Four."), first.err
        assert "turn begins" not in first.err
        again = ("-r", str(first.lines[0]["session"]), "--alone")
        alone = await home.run("agent", "--debug", "-m", "and three?", "--json", *again)
        assert (alone.code, alone.lines[0]["text"]) == (0, "Five."), alone.err
        assert "turn begins" in alone.err
        assert "two and two?" in json.dumps(llm.requests[-1].body)
        wrong = await home.run("agent", "-m", "x", "-r", "nosuch")
        assert wrong.code == 2
        assert "no session 'nosuch'" in wrong.err
        command = await home.run("agent", "-m", "/sessions")
        assert "two and two?" in command.out


async def test_a_pipe_or_a_device_that_a_terminal_names_is_no_file_and_holds_no_gateway_up(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    async with furnished(tmp_path) as (_, _, _, home), running(home) as gateway:
        await listens(home, gateway)
        hello = wire.HelloLine(wire.PROTOCOL, __version__, str(home.home / "config.json"))
        link = await GatewayLink.open(home.home / "gateway.sock", hello)
        assert link is not None
        carrying = asyncio.create_task(link.run())
        for place in (tmp_path / "pipe", Path("/dev/zero")):
            with pytest.raises(NanobotError, match="is no file"):
                await link.call(LocateCall(str(place)))
        link.close()
        await carrying


async def test_a_question_whose_gateway_is_killed_says_so_and_ends_with_exit_code_75(tmp_path: Path) -> None:
    async with furnished(tmp_path, after=Reply("Begun.\n\nGoing on", Pause(BOUND))) as (_, llm, _, home):
        async with running(home) as gateway:
            await listens(home, gateway)
            piped = asyncio.create_task(home.run("agent", "-m", "tell me"))
            with PseudoTerminal(home.command("agent", "-m", "tell me"), env=home.env, cwd=home.home) as terminal:
                await llm.asked(2)
                await terminal.until("Begun.")
                await gateway.kill()
                assert await terminal.wait() == 75
                assert "The gateway has ended." in terminal.text()
        ran = await piped
        assert (ran.code, ran.out) == (75, "")
        assert "The gateway has ended before it answered. Ask again." in ran.err


async def test_terminals_that_lose_their_gateway_go_on_each_in_its_own_session(tmp_path: Path) -> None:
    async with furnished(tmp_path, after="Fine.") as (_, llm, _, home), running(home) as gateway:
        await listens(home, gateway)
        async with terminal_of(home) as first, terminal_of(home) as second:
            for terminal, text in ((first, "the heron"), (second, "the egret")):
                await terminal.answers(f"{text}\r", "Fine.")
            first.press("/privacy on\r")
            await first.until("Privacy: on")
            second.press("/privacy\r")
            await second.until("Privacy: on")
            first.press("half a line")
            await first.until("❯ half a line")
            await gateway.stop()
            first.press(" more")  # whoever is typing goes on typing
            for terminal, typed, rest in ((first, "half a line more", ", all"), (second, "", "again")):
                await terminal.until(re.compile(f"The gateway has ended.*goes on alone[^❯]*❯ ?{typed}", re.DOTALL))
                text = typed + rest
                await terminal.answers(f"{rest}\r", re.compile(rf"❯ {text}\s+Fine\."))
                told = json.dumps(llm.requests[-1].messages)
                assert text in told
                assert ("heron" in told, "egret" in told) == (terminal is first, terminal is second)
            sessions = []
            for terminal in (first, second):
                await terminal.leave()
                sessions += re.findall(r"resume: nanobot agent -r (\w+)", terminal.text())
            assert len(set(sessions)) == 2
