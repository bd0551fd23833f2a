"""Who gets what of the shipped gateway, by person and place: prompt, history, tools, files, money, commands."""

import asyncio
import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from nanobot.agent.tools.offers import FILE_OFFERS
from nanobot.providers.scripted import Call, Wait
from tests.channels.telegram.gateway import OWNER, Gateway, furnished, running
from tests.cli.harness import Program, known_tools
from tests.fakes.llm_server import LlmRequest, Reply
from tests.fakes.mcp_server import McpServer, ServedTool
from tests.fakes.telegram_server import Json, TelegramServer, User

GROUPS = (-100, -200, -300)  # each has a pace of its own
ANONYMOUS: Json = {"id": 1087968824, "is_bot": True, "first_name": "Group", "username": "GroupAnonymousBot"}
TOOLS = (ServedTool("look", reads=True), ServedTool("send"))
COMMON = {"web_search", "web_fetch", "nanobot_docs"}
FILES = {"USER.md": "canary-user", "memory/MEMORY.md": "canary-memory", "SOUL.md": "canary-soul"}
PERSONAL = ("canary-user", "canary-memory")


@dataclass
class Model:
    """Does what the newest message says: `CALL <tool> <arguments>`, `WAIT` for the gate, `HANG`; else it answers with
    the word of the message."""

    gate: asyncio.Event = field(default_factory=asyncio.Event)
    waits: asyncio.Event = field(default_factory=asyncio.Event)
    seen: list[tuple[str, str]] = field(default_factory=list)

    def __call__(self, request: LlmRequest) -> Reply:
        messages = request.messages
        said = next(str(one["content"]) for one in reversed(messages) if one["role"] == "user")
        word = re.findall(r"word-\w+", said)[-1]
        self.seen.append((word, json.dumps(request.body)))
        call = re.search(r"CALL (\w+) (\{[^}]*\})", said)
        if call and messages[-1]["role"] != "tool":
            return Reply(Call(call[1], json.loads(call[2])))
        result = str(messages[-1]["content"])[:300] if messages[-1]["role"] == "tool" else ""
        wait = [Wait(self.gate)] if "WAIT" in said else [Wait(asyncio.Event())] if "HANG" in said else []
        if "WAIT" in said:
            self.waits.set()
        return Reply(*wait, f"answer {word} {result}")

    def about(self, word: str) -> list[str]:
        """The requests of the turn whose newest question holds the word."""
        return [request for asked, request in self.seen if asked == word]


@dataclass(frozen=True)
class People:
    """Four of one group: `admin` writes in the name of the group."""

    owner: User
    user: User
    guest: User
    admin: User


@dataclass
class House:
    telegram: TelegramServer
    gateway: Gateway
    model: Model
    words: int = 0

    async def until(self, chat: int, found: Callable[[str], bool]) -> str:
        try:
            await self.telegram.until(lambda: any(map(found, self.telegram.visible(chat))))
        except TimeoutError:
            raise AssertionError(f"{self.telegram.visible(chat)}\n{self.gateway.text}") from None
        return next(line for line in reversed(self.telegram.visible(chat)) if found(line))

    def say(self, who: User, text: str, **extra: object) -> None:
        if who.chat < 0 and text.startswith("/"):
            command, _, words = text.partition(" ")
            text = f"{command}@nano_test_bot {words}".strip()
        elif who.chat < 0:
            who.calls_bot(text, **extra)
            return
        who.say(text, **extra)

    async def ask(self, who: User, text: str = "", **extra: object) -> tuple[str, str]:
        """The last request that a question led to, and the answer."""
        self.words += 1
        word = f"word-{self.words}x"
        self.say(who, f"{text} {word}", **extra)
        answer = await self.until(who.chat, lambda line: f"bot: answer {word}" in line)
        return self.model.about(word)[-1], answer

    async def command(self, who: User, text: str, **extra: object) -> str:
        before = len(self.telegram.visible(who.chat))
        self.say(who, text, **extra)
        try:
            await self.telegram.until(
                lambda: any(line.startswith("bot: ") for line in self.telegram.visible(who.chat)[before:]), 30
            )
        except TimeoutError:
            raise AssertionError(f"{text}: {self.telegram.visible(who.chat)}\n{self.gateway.text}") from None
        return self.telegram.visible(who.chat)[-1].removeprefix("bot: ")


def offered(request: str) -> set[str]:
    return {tool["function"]["name"] for tool in json.loads(request)["tools"]}


async def test_owner_user_guest_and_anonymous_admin_get_what_is_theirs(tmp_path: Path) -> None:
    people = furnished(tmp_path, after=(model := Model()))
    async with people as (telegram, _, ada, home), McpServer(TOOLS) as server:
        await known_tools(home.change(tools={"mcpServers": {"one": {"url": server.url}}}))
        for name, canary in FILES.items():
            (home.home / "workspace" / name).parent.mkdir(parents=True, exist_ok=True)
            (home.home / "workspace" / name).write_text(canary)
        bob = telegram.user("Bob")
        groups = [
            People(
                *(telegram.member(one.name, group, user_id=one.id) for one in (ada, bob)),
                *(telegram.member(name, group) for name in ("Eve", "Group")),
            )
            for group in GROUPS
        ]
        async with running(home) as gateway:
            at = House(telegram, gateway, model)
            code = re.findall(r"/pair (\S+)\.", await at.command(bob, "/pair"))[0]
            await at.command(ada, f"/pair {code}")
            for group in groups:
                await at.command(group.owner, "/group on")
            commands = asyncio.create_task(_commands(at, groups[2]))
            await _prompts(at, ada, bob, groups[0])
            await _tools(at, server, ada, (bob, groups[1].user, groups[1].guest))
            await _kept(at, bob, groups[1])
            await _steering(at, groups[0])
            await commands
        for chat, lines in telegram.chats.items():
            shown = " ".join(one.text for one in lines)
            assert chat == OWNER or not any(canary in shown for canary in (*PERSONAL, "canary-private")), chat


async def _prompts(at: House, ada: User, bob: User, group: People) -> None:
    own, _ = await at.ask(ada, "canary-private")
    assert all(canary in own for canary in (*FILES.values(), "canary-private"))
    theirs = [(await at.ask(who))[0] for who in (bob, group.owner, group.user, group.guest)]
    chat: Json = {"id": group.admin.chat, "type": "supergroup", "title": "A group"}
    hidden: Json = {"from": ANONYMOUS, "sender_chat": chat}
    theirs.append((await at.ask(group.admin, "", **hidden))[0])
    for request in theirs:
        assert not any(canary in request for canary in (*PERSONAL, "canary-private", "/workspace"))
    servers, talk = {"mcp_one_look", "mcp_one_send"}, {"ask", "message", "todo", "recall", "spawn"}
    kept = {"schedule", "watch", "remember"}
    assert ["canary-soul" in request for request in theirs] == [True, True, True, False, False]
    assert [offered(request) for request in (own, *theirs)] == [
        COMMON | talk | servers | FILE_OFFERS.keys() | kept | {"skill", "learn"},
        COMMON | talk | kept,
        COMMON | talk | servers,
        COMMON | talk,
        *[COMMON] * 2,
    ]


async def _tools(at: House, server: McpServer, ada: User, others: tuple[User, User, User]) -> None:
    look, send = 'CALL mcp_one_look {"query": "x"}', 'CALL mcp_one_send {"query": "x"}'
    asking = asyncio.create_task(at.ask(ada, send))
    await at.until(OWNER, lambda line: "mcp_one_send" in line and "[Always]" in line)
    assert server.calls == []
    ada.press("Always")
    assert "answer to" in (await asking)[1]
    assert "answer to" in (await at.ask(ada, send))[1]
    for who in others:  # what the owner granted is nobody else's, and nobody is asked for them
        assert "answer to" not in (await at.ask(who, send))[1]
        assert not any("[Always]" in line for line in at.telegram.visible(who.chat))
    assert [call["name"] for call in server.calls] == ["send", "send"]
    assert ["answer to" in (await at.ask(who, look))[1] for who in others[::2]] == [False, False]
    assert "docs/" in (await at.ask(others[2], 'CALL nanobot_docs {"query": "allowFrom"}'))[1]


async def _kept(at: House, bob: User, group: People) -> None:
    """A user without any grant has a memory and appointments of their own, in their own chat; a guest never."""
    note, remind = 'CALL remember {"fact": "Bob drinks tea."}', 'CALL schedule {"when": "tomorrow at 9", "text": "tea"}'
    assert "Noted in memory/MEMORY.md" in (await at.ask(bob, note))[1]
    assert "Bob drinks tea." in (await at.ask(bob))[0]
    assert "Scheduled 1: “tea”" in (await at.ask(bob, remind))[1]
    assert "“tea”" in await at.command(bob, "/schedule")
    for who in (group.user, group.guest, group.owner):
        assert "Bob drinks tea." not in (await at.ask(who))[0]
        assert "Noted" not in (await at.ask(who, note.replace("tea", "milk")))[1]
        assert "Scheduled" not in (await at.ask(who, remind))[1]
    assert "MEMORY.md" in await at.command(bob, "/undo")
    assert "Bob drinks tea." not in (await at.ask(bob))[0].partition('"role": "user"')[0]


async def _steering(at: House, group: People) -> None:
    """What another types while the owner's turn runs waits for a turn of its own."""
    first = asyncio.create_task(at.ask(group.owner, "WAIT"))
    await asyncio.wait_for(at.model.waits.wait(), 120)
    second = asyncio.create_task(at.ask(group.user, "canary-steering"))
    await at.until(group.owner.chat, lambda line: "I will answer after this one" in line)
    at.model.gate.set()
    assert "canary-steering" not in (await first)[0]
    assert "canary-steering" in (await second)[0]


async def _commands(at: House, group: People) -> None:
    for text in ("/new", "/model fake"):
        assert "Only the owner may change this in a group" in await at.command(group.user, text), text
    status = await at.command(group.user, "/status")
    assert "Model: fake" in status
    tools = [await at.command(who, "/tools") for who in (group.user, group.owner)]
    assert [("web_search" in told, "mcp_one" in told) for told in tools] == [(True, False), (True, True)]
    assert not any(word in status for word in ("all chats", "USER.md", "poll"))
    assert "canary-private" not in await at.command(group.owner, "/sessions")
    assert "not available to you" in await at.command(group.guest, "/new")
    asked = asyncio.create_task(at.ask(group.guest, "HANG"))
    await at.until(group.guest.chat, lambda line: "[Stop]" in line)
    group.user.press("Stop")
    answers = at.telegram.sent
    await at.telegram.until(lambda: any("Only the owner" in str(one.params) for one in answers("answerCallbackQuery")))
    assert not asked.done()
    group.guest.press("Stop")
    await at.until(group.guest.chat, lambda line: "⏹ stopped" in line)
    asked.cancel()


async def test_everybody_whom_a_star_lets_in_is_a_guest_in_private_too(tmp_path: Path) -> None:
    model = Model()
    people = furnished(tmp_path, after=model, allowFrom=[str(OWNER), "*"])
    async with people as (telegram, _, ada, home), McpServer(TOOLS) as server:
        await known_tools(home.change(tools={"mcpServers": {"one": {"url": server.url}}}))
        (home.home / "workspace").mkdir()
        (home.home / "workspace" / "USER.md").write_text(PERSONAL[0])
        zoe = telegram.user("Zoe")
        async with running(home) as gateway:
            at = House(telegram, gateway, model)
            assert PERSONAL[0] in (await at.ask(ada))[0]
            request, answer = await at.ask(zoe, 'CALL mcp_one_look {"query": "x"}')
            assert (offered(request), PERSONAL[0] in request, "answer to" in answer) == (COMMON, False, False)
            assert "guest" in await at.command(zoe, "/whoami")
            for text in ("/status", "/model fake"):
                assert "not available to you" in await at.command(zoe, text)
        assert server.calls == []


FILE_TOOLS = {"read_file", "write_file", "edit_file", "list_dir", "glob", "grep", "delete_file"}
GROUP = -100


async def let_in(at: House, owner: User, who: User, *granted: str) -> None:
    code = (await at.command(who, "/pair")).split("/pair ")[1].split("`")[0].rstrip(".")
    await at.command(owner, f"/pair {code}")
    if granted:
        await at.command(owner, f"/people grant {who.id} {' '.join(granted)}")


async def test_U47_what_a_user_keeps_reaches_no_request_for_another_user_a_guest_or_a_group(tmp_path: Path) -> None:
    async with furnished(tmp_path, after=(model := Model())) as (telegram, _, ada, home):
        ann, bob = telegram.user("Ann"), telegram.user("Bob")
        people = home.home / "workspace" / "people"
        for who in (ann, bob):
            (people / f"telegram-{who.id}" / "memory").mkdir(parents=True)
        (people / f"telegram-{ann.id}" / "USER.md").write_text("secretann-about")
        (people / f"telegram-{ann.id}" / "memory" / "MEMORY.md").write_text("secretann-memory")
        async with running(home) as gateway:
            at = House(telegram, gateway, model)
            await let_in(at, ada, ann, "files")
            await let_in(at, ada, bob, "files")
            members = [telegram.member(one.name, GROUP, user_id=one.id) for one in (ada, ann)]
            await at.command(members[0], "/group on")
            own, _ = await at.ask(
                ann, "CALL write_file " + json.dumps({"path": "plan.md", "content": "secretann-file"})
            )
            assert offered(own) >= FILE_TOOLS
            assert all(f"secretann-{what}" in own for what in ("about", "memory", "file"))
            assert (people / f"telegram-{ann.id}" / "plan.md").read_text() == "secretann-file"
            assert "read_file" in await at.command(ann, "/tools")
            assert "read_file" not in await at.command(members[0], "/tools")
            for who in (ada, ann):
                who.send("document", f"secret{who.name.lower()}-sent".encode(), "word-sent", file_name="sent.txt")
                await at.until(who.id, lambda line: "bot: answer word-sent" in line)
            assert (people / f"telegram-{ann.id}" / "inbox" / "sent.txt").read_text() == "secretann-sent"
            assert "secretada-sent" in (await at.ask(ada, 'CALL read_file {"path": "inbox/sent.txt"}'))[0]
            at.model.seen.clear()
            for place in ("inbox/sent.txt", "../../inbox/sent.txt", f"{home.home}/workspace/inbox/sent.txt"):
                await at.ask(bob, "CALL read_file " + json.dumps({"path": place}))
            for place in (
                "plan.md",
                f"../telegram-{ann.id}/inbox/sent.txt",
                f"../telegram-{ann.id}/plan.md",
                f"people/telegram-{ann.id}/plan.md",
            ):
                await at.ask(bob, "CALL read_file " + json.dumps({"path": place}))
            await at.ask(bob, "CALL grep " + json.dumps({"pattern": "secret", "path": "."}))
            for who in (*members, telegram.member("Eve", GROUP)):
                request, _ = await at.ask(who, "CALL read_file " + json.dumps({"path": "inbox/sent.txt"}))
                assert not FILE_TOOLS & offered(request)
            requests = [request for _, request in at.model.seen]
            assert not any("secretann" in request or "secretada" in request for request in requests)


def priced(home: Program, **budget: object) -> None:
    """Each request, which takes 100 tokens, costs 0.60 USD."""
    home.change(prices={"custom/*": {"input": 6_000}}, budget={"perDay": 2.4, "perPerson": {"perDay": 0.5}, **budget})


async def test_a_person_stops_at_their_cap_and_goes_on_when_the_owner_gives_them_more(tmp_path: Path) -> None:
    async with furnished(tmp_path, after=(model := Model())) as (telegram, _, ada, home):
        priced(home)
        eve = telegram.user("Eve")
        async with running(home) as gateway:
            at = House(telegram, gateway, model)
            link = await at.command(ada, "/invite")
            code = re.findall(r"start=([\w-]+)", link)[0]
            await at.command(eve, f"/start {code}")
            await at.ask(eve)
            at.say(eve, "again word-0x")
            stopped = await at.until(eve.chat, lambda line: "budget" in line)
            assert "Your budget for today is used up: 0.60 of 0.50 USD. It goes on tomorrow at 00:00" in stopped
            assert not model.about("word-0x"), "the model was not asked"
            assert "cap: today 0.60 of 0.50 USD" in await at.command(ada, "/people")
            assert "cap of their own: today 0.60 of 2.00 USD" in await at.command(ada, f"/people {eve.chat} cap 2")
            await at.ask(eve)
            whole, own = await at.command(ada, "/usage today by person"), await at.command(eve, "/usage")
            assert f"telegram:{eve.chat}: 200 tokens in" in whole
            assert "Today: 200 tokens in, 20 out, 2 requests, 1.20 USD" in own
            assert "Cap of their own: today 1.20 of 2.00 USD" in own
            assert "Only the owner may allow more." in await at.command(eve, "/usage raise 5")


async def test_the_owner_hears_once_that_others_are_stopped_at_the_cap_of_all(tmp_path: Path) -> None:
    async with furnished(tmp_path, after=(model := Model())) as (telegram, _, ada, home):
        priced(home, perDay=1.0, perPerson={"perDay": None})
        eve = telegram.user("Eve")
        async with running(home) as gateway:
            at = House(telegram, gateway, model)
            code = re.findall(r"start=([\w-]+)", await at.command(ada, "/invite"))[0]
            await at.command(eve, f"/start {code}")
            for _ in range(2):
                await at.ask(eve)
            for number in range(3):
                before = len(telegram.visible(eve.chat))
                at.say(eve, f"again word-{number}z")
                await at.until(eve.chat, lambda line: "budget of this nanobot" in line)
                await telegram.until(lambda: len(telegram.visible(eve.chat)) >= before + 2)  # noqa: B023
            told = await at.until(ada.chat, lambda line: "others than you failed 3 times" in line)
            assert "The budget for today is used up: 1.20 of 1.00 USD. It goes on tomorrow at 00:00" in told
            assert "/usage raise 5" in told
            assert "USD" not in " ".join(telegram.visible(eve.chat)), "others learn no figures of all"


async def test_a_turn_over_the_cap_tells_what_it_has_done_and_goes_on_after_a_raise(tmp_path: Path) -> None:
    async with furnished(tmp_path) as (telegram, llm, ada, home):

        def docs_for_ever(request: LlmRequest) -> Reply:
            messages = request.messages
            return Reply(Call("nanobot_docs", {"query": f"page {len(messages)}"}))

        llm.after = docs_for_ever
        priced(home)
        async with running(home) as gateway:
            at = House(telegram, gateway, Model())
            at.say(ada, "read everything")
            ended = await at.until(ada.chat, lambda line: "I stopped here: the budget is used up" in line)
            assert 'docs "page' in ended
            told = "\n".join(telegram.visible(ada.chat))
            assert "2.40 of 2.40 USD" in told
            assert "To go on now, /usage raise 5" in told.replace("`", "")
            assert len(llm.requests) == 4
            assert "Today 2.40 of 7.40 USD" in await at.command(ada, "/usage raise 5")
            llm.after = "here it is"
            at.say(ada, "go on")
            assert await at.until(ada.chat, lambda line: "here it is" in line)
            assert "read everything" in json.dumps(llm.requests[-1].body)


@pytest.mark.parametrize("background", [False, True])
async def test_helpers_that_never_end_stop_at_the_cap_of_all_which_is_told(tmp_path: Path, background: bool) -> None:
    asked: list[str] = []

    def for_ever(request: LlmRequest) -> Reply:
        messages = request.messages
        asked.append(str(messages[0]["content"])[:300])
        if "You are a helper" in str(messages[0]["content"]):
            return Reply(Call("nanobot_docs", {"query": f"budget {len(messages)}"}))
        if messages[-1]["role"] == "tool":
            return Reply("They are at work.")
        tasks = [Call("spawn", {"task": f"Dig {number}.", "background": background}) for number in range(3)]
        return Reply(*tasks)

    async with furnished(tmp_path, after=for_ever) as (_, _, ada, home):
        priced(home, perDay=6.0, perPerson={"perDay": None})
        async with running(home):
            await ada.asks("dig for ever", "budget")
            await ada.sees("I stopped here: the budget")
    assert 6.0 / 0.6 <= len(asked) <= 6.0 / 0.6 + 4, "about one more for each that ran when the cap was met"
