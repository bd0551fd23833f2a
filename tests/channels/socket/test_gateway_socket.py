"""The socket of a gateway: who may come, what they may say, and that no terminal harms another one."""

import asyncio
import os
import stat
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from msgspec.structs import replace

from nanobot import __version__
from nanobot.bus.events import TERMINAL, Address, InboundMessage, Notice, OutboundMessage, Sender, TurnFinished
from nanobot.channels.base import CallResult, WithdrawCall
from nanobot.channels.socket import wire
from nanobot.channels.socket.client import GatewayLink, Refused
from nanobot.channels.socket.server import MOST_WAITING, GatewaySocket
from nanobot.config.paths import Paths
from nanobot.errors import UsageError
from nanobot.messages import TextDelta
from nanobot.providers.scripted import Say, Step, Wait
from tests.channels.harness import SmallAgent, small_agent
from tests.fakes.waiting import until
from tests.tables import table

BOUND = 120.0


@dataclass(frozen=True, slots=True)
class Gate:
    agent: SmallAgent
    paths: Paths

    def hello(self, **fields: object) -> wire.HelloLine:
        known = wire.HelloLine(wire.PROTOCOL, __version__, str(self.paths.config))
        return replace(known, **fields)

    @asynccontextmanager
    async def joined(self, **fields: object) -> AsyncIterator["Seat"]:
        link = await GatewayLink.open(self.paths.socket, self.hello(**fields))
        assert link is not None
        seat = Seat(link, [], asyncio.Event())
        works = [asyncio.create_task(link.run()), asyncio.create_task(seat.listen())]
        try:
            yield seat
        finally:
            for work in works:
                work.cancel()
            await asyncio.wait(works)
            link.close()


@dataclass(frozen=True, slots=True)
class Seat:
    link: GatewayLink
    seen: list[OutboundMessage]
    changed: asyncio.Event

    async def listen(self) -> None:
        async for message in self.link.bus.subscribe("terminal"):
            self.seen.append(message)
            self.changed.set()

    async def say(self, text: str) -> str:
        key = f"{text}-{len(self.seen)}"
        await self.link.bus.publish_inbound(InboundMessage(TERMINAL, Sender("x"), text, id=key, direct=True))
        return key

    async def until(self, true: Callable[[], bool]) -> None:
        async with asyncio.timeout(BOUND):
            while not true():
                self.changed.clear()
                await self.changed.wait()

    async def answer(self) -> str:
        await self.until(lambda: any(isinstance(one.event, TurnFinished) for one in self.seen))
        return next(one.event.text for one in reversed(self.seen) if isinstance(one.event, TurnFinished))


async def nowhere(_file: Path) -> str:
    return ""


async def prints_nothing() -> None:
    await asyncio.Event().wait()


@asynccontextmanager
async def gate(tmp_path: Path, *steps: Step) -> AsyncIterator[Gate]:
    paths = Paths.resolve({"NANOBOT_HOME": str(tmp_path)}, None)
    async with small_agent(steps) as agent:
        served = GatewaySocket(agent, paths, nowhere, agent.loop.runner.approvals.channels, prints_nothing)
        works = [asyncio.create_task(work) for work in (agent.loop.run(), served.run())]
        try:
            await until(paths.socket.exists)
            yield Gate(agent, paths)
        finally:
            for work in works:
                work.cancel()
            await asyncio.wait(works)


async def raw(at: Gate, *lines: bytes) -> bytes:
    """What the gateway says to these bytes before it ends the connection."""
    found = await wire.connect(at.paths.socket)
    assert found is not None
    reader, writer = found
    for line in lines:
        writer.write(line)
    try:
        return await asyncio.wait_for(reader.read(), BOUND)
    except ConnectionError:
        return b""
    finally:
        writer.close()


async def test_the_socket_is_its_owners_alone_and_goes_with_the_gateway(tmp_path: Path) -> None:
    async with gate(tmp_path) as at:
        found = at.paths.socket.lstat()
        assert (stat.S_IMODE(found.st_mode), found.st_uid) == (0o600, os.getuid())
        assert stat.S_ISSOCK(found.st_mode)
    assert not at.paths.socket.exists()
    assert await GatewayLink.open(at.paths.socket, at.hello()) is None


@table(
    "lines",
    (b"\x00\xff\n",),
    (b"GET / HTTP/1.1\r\n\r\n",),
    (b'{"type":"say","id":"1","content":"no hello"}\n',),
    (b'{"type":"hello","protocol":"one"}\n',),
    (b'{"type":"nothing"}\n',),
    (b'{"type":"hello","deep":' + b"[" * 100_000 + b"\n",),
    (b"x" * (wire.MOST_BYTES + 70_000) + b"\n",),
    ids=["bytes", "http", "no hello", "wrong type", "unknown", "deep", "too long"],
)
async def test_rubbish_ends_its_own_connection_and_nothing_else(tmp_path: Path, lines: tuple[bytes, ...]) -> None:
    async with gate(tmp_path, "Well.") as at, at.joined() as seat:
        answer = await raw(at, *lines)
        assert answer.startswith(b'{"type":"refused"') or (not answer and len(lines[0]) > wire.MOST_BYTES)
        if b"say" not in lines[0]:
            assert b"welcome" in await raw(at, wire.encoded(at.hello()), *lines)
        await seat.say("hi")
        assert await seat.answer() == "Well."


async def test_another_version_or_configuration_is_refused_with_the_reason(tmp_path: Path) -> None:
    async with gate(tmp_path) as at:
        with pytest.raises(Refused, match=f"it is nanobot {__version__} and speaks another protocol"):
            await GatewayLink.open(at.paths.socket, at.hello(protocol=99))
        with pytest.raises(Refused, match="it runs with another configuration"):
            await GatewayLink.open(at.paths.socket, at.hello(config="/elsewhere.json"))
        with pytest.raises(UsageError, match="no session 'nosuch'"):
            await GatewayLink.open(at.paths.socket, at.hello(resume="nosuch"))
        async with at.joined(version="0.0.1") as seat:
            assert seat.link.welcome.version == __version__


async def test_a_gateway_that_is_ended_while_it_begins_to_listen_leaves_nothing_open(tmp_path: Path) -> None:
    async def serve(_reader: asyncio.StreamReader, _writer: asyncio.StreamWriter) -> None: ...

    beginning = asyncio.create_task(wire.listen(tmp_path / "gateway.sock", serve))
    await asyncio.sleep(0)
    beginning.cancel()
    with pytest.raises(asyncio.CancelledError):
        await beginning
    assert await wire.connect(tmp_path / "gateway.sock") is None


async def test_a_terminal_that_dies_stops_its_turn_and_leaves_its_place(tmp_path: Path) -> None:
    async with gate(tmp_path, (Say("Begun."), Wait(asyncio.Event())), "Again.") as at:
        async with at.joined() as seat:
            await seat.say("go")
            await seat.until(lambda: any(isinstance(one.event, TextDelta) for one in seat.seen))
            session = seat.link.welcome.state.session
        await until(lambda: at.agent.loop.serving("terminal:local:1") is None)
        async with at.joined(go_on=True) as back:
            assert back.link.welcome.state.session == session
            assert "go" in back.link.welcome.recap
            await back.say("again")
            assert await back.answer() == "Again."
        kept = [message.text for message in await at.agent.sessions.history(session)]
        assert any("Begun." in text for text in kept)


async def test_a_terminal_that_does_not_read_is_left_and_the_others_are_served(tmp_path: Path) -> None:
    async with gate(tmp_path, "Fine.") as at:
        found = await wire.connect(at.paths.socket)
        assert found is not None
        _, writer = found
        writer.write(wire.encoded(at.hello()))
        async with at.joined() as seat, asyncio.timeout(BOUND):
            slow = Address("terminal", "local", "1")  # it came first
            big = OutboundMessage(slow, TextDelta("x" * 8_000_000), "turn")
            for _ in range(MOST_WAITING // 8_000_000 + 2):
                await at.agent.bus.publish_outbound(big)
            await seat.say("hi")
            assert await seat.answer() == "Fine."
            await at.agent.bus.publish_outbound(OutboundMessage(TERMINAL, Notice("for whoever sits here")))
            await seat.until(lambda: any(isinstance(one.event, Notice) for one in seat.seen))
        writer.close()


async def test_each_terminal_has_a_session_of_its_own_and_who_is_in_one_session_sees_it(tmp_path: Path) -> None:
    async with gate(tmp_path, "One.", "Two.", "Three.") as at, at.joined() as first, at.joined() as second:
        await first.say("a")
        assert await first.answer() == "One."
        await second.say("b")
        assert await second.answer() == "Two."
        assert all("One." not in repr(one) for one in second.seen)
        async with at.joined(resume=first.link.welcome.state.session) as third:
            assert "One." in third.link.welcome.recap
            await first.say("c\udce9")
            await third.until(lambda: any(isinstance(one.event, TurnFinished) for one in third.seen))
            notices = [one.event.text for one in third.seen if isinstance(one.event, Notice)]
            assert notices == ["On another terminal: c"]
            assert await third.answer() == "Three."


async def test_what_is_typed_beside_another_terminal_is_answered_after_it(tmp_path: Path) -> None:
    held = asyncio.Event()
    async with gate(tmp_path, "One.", (Say("Begun."), Wait(held), Say(" Two.")), "Three.") as at, at.joined() as first:
        await first.say("a")
        assert await first.answer() == "One."
        async with at.joined(resume=first.link.welcome.state.session) as second:
            await first.say("b")
            await second.until(lambda: any(isinstance(one.event, TextDelta) for one in second.seen))
            key = await second.say("c")
            await second.until(
                lambda: any("in use elsewhere" in getattr(one.event, "text", "") for one in second.seen[-1:])
            )
            held.set()
            await second.until(lambda: sum(isinstance(one.event, TurnFinished) for one in second.seen) == 2)
            ends = [one.event for one in second.seen if isinstance(one.event, TurnFinished)]
            assert [one.text for one in ends] == ["Begun. Two.", "Three."]
            assert ends[1].answered == (key,)


async def test_what_waits_is_taken_back_by_its_id_however_it_was_on_its_way(tmp_path: Path) -> None:
    async with gate(tmp_path, (Say("Begun."), Wait(asyncio.Event()))) as at, at.joined() as seat:
        await seat.say("go")
        await seat.until(lambda: any(isinstance(one.event, TextDelta) for one in seat.seen))
        keys = [await seat.say("one"), await seat.say("two"), await seat.say("three")]
        assert await seat.link.call(WithdrawCall(last=True)) == CallResult((keys[2],))
        assert await seat.link.call(WithdrawCall()) == CallResult(tuple(keys[:2]))
        assert await seat.link.call(WithdrawCall()) == CallResult()
