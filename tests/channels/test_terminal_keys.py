"""The keys and the conversation without a terminal: a pipe for the keyboard, nothing for the screen."""

import asyncio
import base64
import re
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from prompt_toolkit.application import create_app_session
from prompt_toolkit.input import PipeInput, create_pipe_input
from prompt_toolkit.output import DummyOutput

from nanobot.bus.events import TERMINAL, ChatState, OutboundMessage, TurnFinished
from nanobot.channels.base import Agent, AgentHere, BaseChannel, CommandSummary
from nanobot.channels.terminal.channel import TerminalChannel
from nanobot.channels.terminal.files import FileReader
from nanobot.channels.terminal.input import Pastes
from nanobot.channels.terminal.live import Live, summary
from nanobot.channels.terminal.look import TextLook
from nanobot.channels.terminal.screen import Screen
from nanobot.channels.view import TurnView
from nanobot.messages import AssistantMessage, Usage
from nanobot.providers.scripted import Call, Say, Step, Wait
from tests.agent.harness import FakeTool
from tests.channels.harness import SmallAgent, small_agent

PLAIN = TextLook(False, False, 80)


class Watched(Screen):
    """A screen that keeps what was printed and the live lines, and wakes whoever waits for them."""

    def __init__(self, keys: PipeInput, commands: Sequence[CommandSummary]) -> None:
        super().__init__(keys, DummyOutput(), lambda text, _name: text, commands=commands)
        self.printed = ""
        self.live = Live()
        self.rung = 0
        self.changed = asyncio.Event()
        self.sequences: list[str] = []

    def send_raw(self, sequence: str) -> bool:
        self.sequences.append(sequence)
        return super().send_raw(sequence)

    def ring(self, text: str) -> None:
        self.rung += 1
        super().ring(text)

    async def show(self, text: str, live: Live) -> None:
        self.printed += text
        await super().show(text, live)
        self.refresh(live)

    def refresh(self, live: Live) -> None:
        self.live = live
        self.changed.set()
        super().refresh(live)


async def nowhere(_file: Path) -> str:
    return ""


@dataclass
class Desk:
    keys: PipeInput
    screen: Watched
    channel: TerminalChannel
    agent: SmallAgent
    talk: "asyncio.Task[None]"
    seen: list[str] = field(default_factory=list)

    async def until(self, text: str) -> None:
        """Wait until `text` was printed or stands in the live lines."""
        async with asyncio.timeout(120):
            while text not in self.screen.printed + repr(self.screen.live):
                self.screen.changed.clear()
                await self.screen.changed.wait()

    async def printed(self, text: str) -> None:
        """Wait until `text` was printed for good."""
        async with asyncio.timeout(120):
            while text not in self.screen.printed:
                self.screen.changed.clear()
                await self.screen.changed.wait()

    async def answers(self, keys: str, text: str) -> None:
        """Press keys, and wait until `text` was printed or stands in the live lines."""
        self.keys.send_text(keys)
        await self.until(text)

    async def prints(self, keys: str, text: str) -> None:
        """Press keys, and wait until `text` was printed for good."""
        self.keys.send_text(keys)
        await self.printed(text)

    async def left(self) -> int:
        await asyncio.wait_for(self.talk, 120)
        return self.channel.exit_code


@asynccontextmanager
async def desk(*steps: Step, tool: FakeTool | None = None) -> AsyncIterator[Desk]:
    with create_pipe_input() as keys, create_app_session(keys, DummyOutput()):
        async with small_agent(steps, *([tool] if tool else [])) as agent:
            screen = Watched(keys, agent.commands)
            channel = TerminalChannel(
                AgentHere(agent, TERMINAL, nowhere),
                screen,
                files=FileReader(Path("/nowhere"), nowhere),
                look=lambda: PLAIN,
                place="here",
            )
            talk = asyncio.create_task(channel.start())
            try:
                yield Desk(keys, screen, channel, agent, talk)
            finally:
                talk.cancel()
                await asyncio.wait({talk}, timeout=120)


@pytest.mark.parametrize("word", ["exit", "quit", "/quit now", ":q"])
async def test_words_that_leave_leave(word: str) -> None:
    async with desk() as at:
        await at.prints("?\r", "tells more of one")
        at.keys.send_text(f"{word}\r")
        assert await at.left() == 0
        assert at.agent.provider.requests == []


async def test_a_running_tool_is_live_and_printed_when_it_is_over() -> None:
    gate = asyncio.Event()
    async with desk(Call("web_search", {"query": "herons"}), "Done.", tool=FakeTool(gate=gate)) as at:
        await at.answers("go\r", 'search "herons": at work on herons')
        assert at.screen.live.tools
        assert "✓" not in at.screen.printed
        gate.set()
        await at.printed("Done.")
        assert at.screen.printed.count('✓ search "herons"') == 1


@pytest.mark.parametrize("key", ["\x03", "\x1b"])
async def test_lines_that_wait_come_back_into_the_input_when_the_turn_is_stopped(key: str) -> None:
    async with desk((Say("Begun."), Wait(asyncio.Event())), "Next.") as at:
        await at.answers("go\r", "Begun.")
        await at.answers("and then\r", "Got it.")
        await at.answers("and more\r", "'and then', 'and more'")
        await at.prints(key, "Stopped.")
        assert at.screen.buffer.text == "and then\nand more"
        assert len(at.agent.provider.requests) == 1
        await at.prints("\r", "Next.")
        assert at.agent.provider.requests[1].messages[-1].text.endswith("and then\nand more")


async def test_lines_that_are_pasted_without_marks_are_one_message() -> None:
    async with desk("Read.") as at:
        await at.prints("one\rtwo\rthree\r", "Read.")
        assert at.agent.provider.requests[0].messages[-1].text.endswith("one\ntwo\nthree")


async def test_the_clock_of_a_turn_starts_when_it_starts() -> None:
    first, second = asyncio.Event(), asyncio.Event()
    async with desk((Say("One."), Wait(first)), (Say("Two."), Wait(second)), "Three.") as at:
        await at.answers("go\r", " s', 'Ctrl-C stops'")  # a second has passed
        await at.answers("next\r", "Got it.")
        released = asyncio.get_running_loop().time()
        first.set()
        await at.until("Two.")
        shown = re.search(r"writing ([\d.]+) s", " · ".join(at.screen.live.status))
        passed = asyncio.get_running_loop().time() - released
        assert shown is None or float(shown[1]) <= passed + 0.1


async def test_the_end_of_a_long_turn_rings() -> None:
    async with desk("Done.") as at:
        await at.prints("go\r", "Done.")
        assert at.screen.rung == 0
        await at.channel.send(OutboundMessage(TERMINAL, TurnFinished("completed", "At last.", seconds=25.0)))
        assert at.screen.rung == 1


async def test_leaving_while_a_turn_runs_keeps_what_was_said() -> None:
    async with desk((Say("Begun."), Wait(asyncio.Event()))) as at:
        await at.answers("remember the heron\r", "Begun.")
        at.keys.send_text("\x04")
        assert await at.left() == 0
        session = await at.agent.sessions.current(TERMINAL.key)
        kept = [message.text for message in await at.agent.sessions.history(session.id) if message.role == "user"]
        assert any("heron" in text for text in kept)


async def test_the_channel_and_the_agent_meet_their_protocols() -> None:
    async with desk() as at:
        channel: BaseChannel = at.channel
        agent: Agent = at.agent
        assert (channel.name, agent.provider_info.name) == ("terminal", "scripted")
        await at.channel.send(OutboundMessage(TERMINAL, TurnFinished("completed", "From elsewhere.")))
        await at.until("From elsewhere.")
        await channel.stop()
        assert await at.left() == 0


def test_a_long_paste_is_a_mark_in_the_line_and_whole_in_the_message() -> None:
    pastes = Pastes()
    long = "\n".join(str(number) for number in range(16))
    marks = [pastes.take("sh\x1b[31mo\x1b]0;owned\x07rt"), pastes.take(long), pastes.take("x" * 1_001)]
    assert marks == ["short", "[paste 1: 16 lines]", "[paste 2: 1001 characters]"]
    assert pastes.expand(f"see {marks[1]} and {marks[2]}") == f"see {long} and {'x' * 1_001}"


async def test_U66_what_waits_stands_above_the_input_and_up_takes_it_back_to_be_changed() -> None:
    gate = asyncio.Event()
    async with desk((Say("Begun."), Wait(gate), Say(" Done.")), "Next.") as at:
        await at.answers("go\r", "Begun.")
        await at.answers("and ten\r", "unread=('and ten',)")
        await at.answers("\x1b[A", "unread=()")
        assert at.screen.buffer.text == "and ten"
        await at.answers(" more\r", "unread=('and ten more',)")
        assert "and ten" not in at.screen.printed
        gate.set()
        await at.printed("Next.")
        assert at.screen.printed.index("Done.") < at.screen.printed.index("❯ and ten more")
        assert at.screen.printed.index("❯ and ten more") < at.screen.printed.index("Next.")
        assert at.screen.printed.count("and ten") == 1
        assert at.screen.live.unread == ()


async def test_ctrl_s_stops_what_runs_and_what_waits_is_answered_at_once() -> None:
    async with desk((Say("Begun."), Wait(asyncio.Event())), "Turned round.") as at:
        await at.answers("go north\r", "Begun.")
        await at.answers("wait\r", "unread=('wait',)")
        await at.prints("go south\x13", "Turned round.")
        said = at.agent.provider.requests[-1].messages[-1].text
        assert said.endswith("wait\ngo south")
        assert "Begun." in repr(at.agent.provider.requests[-1].messages)
        assert at.screen.live.unread == ()


async def test_a_message_that_a_step_has_read_is_printed_there() -> None:
    gate = asyncio.Event()
    async with desk(Call("web_search", {"query": "herons"}), "Done.", tool=FakeTool(gate=gate)) as at:
        await at.answers("go\r", "at work on herons")
        await at.answers("only in June\r", "unread=('only in June',)")
        gate.set()
        await at.printed("Done.")
        printed = at.screen.printed
        assert printed.index('✓ search "herons"') < printed.index("❯ only in June") < printed.index("Done.")
        assert len(at.agent.provider.requests) == 2


async def test_ctrl_o_prints_the_result_that_stood_in_one_line() -> None:
    async with desk(Call("web_search", {"query": "herons"}), "Done.", tool=FakeTool()) as at:
        await at.answers("\x0f", "No tool has given a result here yet.")
        await at.prints("go\r", "Done.")
        await at.prints("\x0f", 'search "herons":')
        result = next(one.text for one in at.agent.provider.requests[-1].messages if one.role == "tool")
        assert result.strip() in at.screen.printed


async def test_copy_hands_the_last_answer_or_its_code_to_the_terminal() -> None:
    answer = "See:\n\n```sh\nls -l\n```\n\nand\n\n```\npwd\n```"
    async with desk(answer) as at:
        await at.prints("/copy\r", "There is no answer to copy yet.")
        await at.prints("go\r", "pwd")
        await at.until("busy=False")
        for typed, told in (("", "The last answer"), (" code", "Its last block of code")):
            await at.prints(f"/copy{typed}\r", f"{told} is copied.")
        copied = [base64.b64decode(one.split(";")[2].rstrip("\x07")).decode() for one in at.screen.sequences]
        assert copied == [answer, "pwd"]


async def test_the_line_below_tells_what_the_records_tell() -> None:
    async with desk("One.", "Two.") as at:
        for text, answer in (("first", "One."), ("second", "Two.")):
            await at.prints(f"{text}\r", answer)
        session = await at.agent.sessions.current(TERMINAL.key)
        spent = await at.agent.sessions.spent(session=session.id)
        async with asyncio.timeout(120):
            while at.channel.state.messages < 4:
                at.screen.changed.clear()
                await at.screen.changed.wait()
        state, last = at.channel.state, (await at.agent.sessions.history(session.id))[-1]
        assert isinstance(last, AssistantMessage)
        assert (state.session, state.messages, state.used) == (session.id, 4, last.usage.input)
        assert (state.cost, state.window) == (spent.cost, at.agent.provider_info.capabilities.window)
        line = " · ".join(at.screen.live.status)
        assert line.startswith(f"{at.agent.provider_info.model} · {state.used / state.window:.0%} of ")
        assert "here" in line


def test_the_line_below_tells_what_matters_most_first() -> None:
    view = TurnView(phase="finished", seconds=4.2, usage=Usage(input=3_100, output=200))
    parts = summary(view, ChatState("gpt-x", used=15_400, window=128_000, cost=0.0021), "main", "~/文书")
    assert parts == ("gpt-x", "12% of 128k", "$0.0021", "3.1k in, 200 out", "4.2 s", "main", "~/文书")
