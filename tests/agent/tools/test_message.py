"""Messages and files that the agent sends: once, to whom the owner allows, and nothing that is secret."""

import json
import re
from functools import partial
from pathlib import Path

from nanobot.agent.answer_text import unlinked
from nanobot.agent.tools.base import KnownChat, ToolContext
from nanobot.agent.tools.message import MessageTool
from nanobot.agent.turn import Publisher, Turn
from nanobot.bus.events import Address, Event, InboundMessage, MessageBus, MessageSent, Sender
from nanobot.channels.telegram.access.people import Access
from nanobot.channels.telegram.send.messages import TelegramMessages
from nanobot.files.spaces import FileSpaces
from nanobot.providers.scripted import Call, ScriptedProvider
from nanobot.results import ToolResult
from nanobot.security.paths import Root
from tests.channels.pseudo_terminal import PseudoTerminal
from tests.channels.telegram.gateway import OWNER, furnished, running
from tests.channels.telegram.scenarios import CHANNEL, Stage, stage
from tests.cli.harness import program
from tests.fakes.llm_server import LlmServer, Reply
from tests.fakes.telegram_server import bad_gateway


def made(at: Stage, folder: Path) -> MessageTool:
    """The tool over a workspace with one file, and a person whose chat is that of the stage."""
    workspace = folder / "workspace"
    workspace.mkdir()
    (workspace / "report.txt").write_text("42 homes", encoding="utf-8")
    spaces = FileSpaces((Root(workspace, writable=True),), folder / "home", (), folder / "person")
    access = Access(at.ledger, CHANNEL, ("7", "8"))
    return MessageTool(spaces, {"telegram": TelegramMessages(access, CHANNEL, at.outbox.put)}, folder / "media")


async def call(tool: MessageTool, arguments: dict[str, object]) -> ToolResult:
    """A call as the runner makes it, with every effect allowed."""
    owner = Sender("7", "Ada", "owner")
    context = ToolContext("c1", "in-1", address=Address("telegram", "7"), sender=owner, role="owner", direct=True)
    await tool.prepare(arguments, context)
    context.allowed = tool.effects(arguments, context)
    return await tool.call(arguments, context)


async def test_what_may_have_arrived_is_repeated_before_something_new_is_sent(tmp_path: Path) -> None:
    async with stage() as at:
        tool = made(at, tmp_path)
        at.server.failing("sendMessage", bad_gateway())
        await at.outbox.say(at.address, "The first.", "line-1")
        await at.quiet(600)
        at.server.failing("sendMessage", None)
        mended = at.clock.now()
        await call(tool, {"text": "The second."})
        await at.until("The second.")
        assert at.clock.now() - mended < 5, "what is new in the chat does not wait for the next try, minutes away"
        assert at.seen[-2:] == ["bot: ↻ The first.", "bot: The second."]


async def test_what_is_sent_arrives_once_however_often_the_call_runs(tmp_path: Path) -> None:
    async with stage() as at:
        tool = made(at, tmp_path)
        ask: dict[str, object] = {"text": "Here it *is*.", "files": ["report.txt"]}
        first = await call(tool, ask)
        (tmp_path / "workspace" / "report.txt").write_text("7 homes", encoding="utf-8")
        await at.until("<report.txt>")
        (tmp_path / "workspace" / "report.txt").write_text("42 homes", encoding="utf-8")
        assert await call(tool, ask) == first
        await call(tool, {"text": "The end."})
        await at.until("The end.")
        assert at.seen == ["bot: Here it is.", "bot: <report.txt>", "bot: The end."]
    assert (first.text, first.receipt, first.is_error) == ("Sent report.txt.", "sent report.txt", False)


async def test_beside_content_from_outside_a_message_holds_no_link_that_nobody_named(tmp_path: Path) -> None:
    shown: list[object] = []

    async def show(event: Event) -> None:
        shown.append(event)

    context = ToolContext(
        address=Address("terminal", "here"), sender=Sender("7", role="owner"), role="owner", direct=True, show=show
    )
    async with stage() as at:
        tool = made(at, tmp_path)
        for taint in ((), ("page a.example",)):
            turn = Turn(
                "t",
                InboundMessage(context.address, context.sender, "go"),
                ScriptedProvider([]),
                Publisher(MessageBus(), context.address),
            )
            turn.meet(taint)
            context.unlinked = partial(unlinked, turn)
            arguments: dict[str, object] = {"text": "[x](https://evil.example/?q=word) and https://evil.example/word"}
            context.allowed = tool.effects(arguments, context)
            assert (await tool.call(arguments, context)).error is None
    clean, tainted = (one.text for one in shown if isinstance(one, MessageSent))
    assert clean == "[x](https://evil.example/?q=word) and https://evil.example/word"
    assert tainted.count("`https://evil.example/") == 2
    assert "](" not in tainted


async def test_other_chats_are_an_effect_of_their_own_and_unknown_ones_are_named(tmp_path: Path) -> None:
    context = ToolContext(address=Address("telegram", "7"), sender=Sender("7", role="owner"), role="owner", direct=True)
    async with stage() as at:
        tool = made(at, tmp_path)
        context.chats = (
            KnownChat(Address("telegram", "8"), "Bob", "user"),
            KnownChat(Address("telegram", "-5"), "Club"),
        )
        judged = {
            to: [(one.kind, one.target) for one in tool.effects({"text": "x", "to": to}, context)]
            for to in ("", "owner", "Bob", "8", "club", "Eve")
        }
        unknown = await call(tool, {"text": "x", "to": "Eve"})
        assert not await at.ledger.pending(CHANNEL)
    own, his = [("send", "telegram:7")], [("send_other", "telegram:8")]
    assert judged == {"": own, "owner": own, "Bob": his, "8": his, "club": [("send_other", "telegram:-5")], "Eve": own}
    assert unknown.error == "invalid_input"
    assert "There is no chat 'Eve'" in unknown.text
    assert "(8)" in unknown.text


async def test_files_are_judged_by_where_they_lie_and_what_changed_since_is_not_sent(tmp_path: Path) -> None:
    context = ToolContext(address=Address("telegram", "7"), sender=Sender("7", role="owner"), role="owner", direct=True)
    async with stage() as at:
        tool = made(at, tmp_path)
        kinds = {
            path: [one.kind for one in tool.effects({"files": [path]}, context)]
            for path in ("report.txt", "/etc/passwd", "../home/config.json")
        }
        context.allowed = tool.effects({"files": ["report.txt"]}, context)[:1]
        refused = await tool.call({"files": ["report.txt"]}, context)
        context.direct = False
        assert [one.kind for one in tool.effects({"files": ["report.txt"]}, context)] == ["forbidden"]
        assert not await at.ledger.pending(CHANNEL)
    assert kinds == {"report.txt": ["send", "read"], "/etc/passwd": ["forbidden"], "../home/config.json": ["forbidden"]}
    assert "is not the file that this call was allowed for" in refused.text


async def test_U16_a_file_goes_to_the_person_and_a_message_to_a_group_after_a_question(tmp_path: Path) -> None:
    steps = Reply(Call("message", {"files": ["plan.md"]})), Reply(Call("message", {"text": "Hello all.", "to": "-55"}))
    async with furnished(tmp_path, *steps, after="I've sent the file and the message.") as (telegram, llm, ada, home):
        (home.home / "workspace").mkdir()
        (home.home / "workspace" / "plan.md").write_text("# The plan", encoding="utf-8")
        member = telegram.member("Ada", -55, user_id=OWNER)
        async with running(home):
            member.say("/group@nano_test_bot on")
            await telegram.shows(-55, "I answer in this group now")
            await ada.asks("send me the plan, and greet the group", "<plan.md>")
            assert "Hello all." in await telegram.shows(OWNER, "[Once]")
            assert not any("Hello all." in line for line in telegram.visible(-55))
            ada.press("Once")
            await telegram.shows(-55, "Hello all.")
            answer = await telegram.shows(OWNER, "☑ sent a message to -55")  # its words may stand there before
        assert "I've sent" in answer
        assert "☑ sent plan.md" in answer
        assert len(llm.requests) == 3


async def test_in_the_terminal_a_file_is_shown_as_its_path(tmp_path: Path) -> None:
    async with LlmServer(Reply(Call("message", {"text": "Look:", "files": ["plan.md"]})), after="There.") as server:
        nanobot = program(tmp_path, server)
        (nanobot.home / "workspace").mkdir()
        path = nanobot.home / "workspace" / "plan.md"
        path.write_text("# The plan", encoding="utf-8")
        ran = await nanobot.run("agent", "-m", "send me the plan", "--json")
        assert json.loads(ran.out)["receipts"] == ["sent plan.md"]
        server.add(Reply(Call("message", {"files": ["plan.md"]})))
        ran = await nanobot.run("agent", "-m", "send me the plan")
        path.write_text("the key is k-for-tests", encoding="utf-8")
        server.add(Reply(Call("message", {"files": ["plan.md"]})))
        assert "file:" not in (await nanobot.run("agent", "-m", "send me the plan")).err
        assert "holds a key or a token" in json.dumps(server.requests[-1].body)
    assert ran.out == "There.\n"
    assert f"file: {path}" in ran.err


async def test_U16_what_the_terminal_says_to_another_chat_goes_out_through_the_gateway_of_its_home(
    tmp_path: Path,
) -> None:
    calls = [Reply(Call("message", {"text": f"Hello {number}.", "to": "-55"})) for number in ("one", "two")]
    async with furnished(tmp_path, calls[0], "First.", calls[1], "Second.") as (telegram, _, _, home):
        async with running(home):
            telegram.member("Ada", -55, user_id=OWNER).say("/group@nano_test_bot on")
            await telegram.shows(-55, "I answer in this group now")
            with PseudoTerminal(home.command("agent"), env=home.env, cwd=home.home, columns=120) as terminal:
                await terminal.until("❯")
                await approved(terminal, "greet the group", "First.")
                await telegram.shows(-55, "Hello one.")
                await terminal.until("☑ sent a message to -55")
        with PseudoTerminal(home.command("agent"), env=home.env, cwd=home.home, columns=120) as terminal:
            await terminal.until("❯")
            await approved(terminal, "once more", "Second.")
            await terminal.until("☑ kept a message for -55; it goes out when a gateway runs next; none runs now")
        assert not any("Hello two." in line for line in telegram.visible(-55))
        async with running(home):
            await telegram.shows(-55, "Hello two.")


async def approved(terminal: PseudoTerminal, words: str, answer: str) -> None:
    """Say something to which the model wants to write elsewhere, and let it."""
    await terminal.answers(f"{words}\r", re.compile(r"to -55[^❯]*y once"))
    await terminal.answers("y", answer)
