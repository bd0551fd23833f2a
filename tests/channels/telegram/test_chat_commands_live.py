"""Commands in a chat, of sessions, servers, helpers, watches and appointments, from the update to what is seen."""

import asyncio
import json
import re
import sys
from datetime import UTC, datetime
from email.utils import format_datetime
from pathlib import Path

import httpx

from nanobot.providers.scripted import Call, Wait
from tests.agent.tools.test_mcp_programs import private_server
from tests.channels.telegram.gateway import OWNER, furnished, running, serving
from tests.cli.harness import Program, known_tools
from tests.cli.test_sessions_process import CANARY, holding
from tests.fakes.chinese import english_left
from tests.fakes.http_server import HttpServer, Request, Responder
from tests.fakes.llm_server import LlmRequest, Reply
from tests.fakes.telegram_server import TelegramServer, User
from tests.fakes.website import Answer, Website


async def test_the_commands_of_a_chat_work_through_the_gateway(tmp_path: Path) -> None:
    async with furnished(tmp_path, after="Hello.") as (telegram, llm, ada, home):

        async def ask(text: str) -> str:
            before = len(telegram.visible(OWNER))
            await ada.asks(text, lambda: len(telegram.visible(OWNER)) == before + 2)
            return telegram.visible(OWNER)[-1]

        async with running(home):
            assert await ask("hello") == "bot: Hello."
            usage = await ask("/usage")
            assert "Today: 100 tokens in, 10 out, 1 request" in usage
            assert await ask("/whoami") == f"bot: You: Ada, id {OWNER}, owner.\nThis chat: {OWNER} on telegram."
            asked = len(llm.requests)
            assert (await ask("help")).startswith("bot: Commands")
            assert (await ask("onboard")).startswith("bot: nanobot onboard in a shell")
            assert len(llm.requests) == asked
            assert (await ask("/privacy on")).startswith("bot: Privacy: on,")
            assert (await ask("/hints off")).startswith("bot: Hints: off,")
            assert "There is no command /stauts. Did you mean /status?" in await ask("/stauts")
            status = await ask("/status")
            for line in ("nanobot ", "Model: fake", "Context: 100 of", "Today, all chats: 100 tokens in", "last poll"):
                assert line in status
            menu = json.dumps(telegram.commands, ensure_ascii=False)
            assert "Stop what is running" in menu
        async with running(Program(tmp_path / "home")):
            assert (await ask("/privacy")).startswith("bot: Privacy: on,")
        log = (tmp_path / "home" / "logs" / "nanobot.log").read_text(encoding="utf-8")
        turn = re.findall(r"\[(\S+)\] turn ends: completed", log)
        assert f"[{turn[0]}] send of row " in log


async def test_what_was_changed_in_a_chat_is_told_under_the_answer_and_undone_there(tmp_path: Path) -> None:
    note = Call("write_file", {"path": "notes/plan.md", "content": "Buy bread.\n"})
    async with furnished(tmp_path, Reply(note), "I wrote it down.", after="Hello.") as (telegram, _, ada, home):
        path = tmp_path / "home/workspace/notes/plan.md"
        async with running(home):
            ada.say("Note that I have to buy bread.")
            await telegram.until(lambda: "created notes/plan.md (+1 −0)" in telegram.visible(OWNER)[-1])
            assert path.read_text(encoding="utf-8") == "Buy bread.\n"
            ada.say("/undo")
            await telegram.until(lambda: telegram.visible(OWNER)[-1] == "bot: notes/plan.md is gone again: it was new.")
            assert not path.exists()
            await telegram.until(lambda: '"undo"' in json.dumps(telegram.commands))


async def test_M12_status_answers_within_a_second_and_fills_in_what_is_slow(tmp_path: Path) -> None:
    hung, answer = asyncio.Event(), asyncio.Event()

    async def usage(request: Request, respond: Responder) -> None:
        hung.set()
        await answer.wait()
        await respond.json({"key": {"usage": 150, "limit": 1000}, "account": {"plan_usage": 150, "plan_limit": 1000}})

    async with furnished(tmp_path, after="Hello.") as (telegram, _, ada, home), HttpServer(usage) as tavily:
        search = {"provider": "tavily", "apiKey": "tvly-1", "baseUrl": tavily.url}
        async with running(home.change(tools={"web": {"search": search}})):
            await ada.asks("/whoami", lambda: len(telegram.visible(OWNER)) == 2)
            await ada.asks("/status", lambda: len(telegram.visible(OWNER)) == 4)
            await asyncio.wait_for(hung.wait(), 120)
            assert "150 / 1,000" not in telegram.visible(OWNER)[-1]
            answer.set()
            await telegram.until(lambda: "150 / 1,000" in telegram.visible(OWNER)[-1])
            assert len(telegram.visible(OWNER)) == 4


async def test_U67_sessions_are_chosen_exported_and_deleted_in_a_chat_and_are_those_of_the_terminal(
    tmp_path: Path,
) -> None:
    async with furnished(tmp_path, after="Fine.") as (telegram, llm, ada, home):
        for number in range(10):
            await home.run(f"question {number}")
            await home.run("--continue", "-m", f"again {number}")

        async with running(home):
            await ada.asks("/resume", lambda: "Page 1 of 2. Tap one." in ada.seen[-1])
            assert "1. question 9 · today " in ada.seen[-1]
            assert "question 1 ·" not in ada.seen[-1]
            await ada.presses("▶", lambda: "Page 2 of 2. Tap one." in ada.seen[-1])
            ada.press(next(one for one in _labels(telegram) if one.startswith("9. question 1 ")))
            await telegram.until(lambda: "You: again 1" in ada.seen[-1])
            assert "question 1 · today " in ada.seen[-1]
            await ada.asks("and from my phone?", lambda: ada.seen[-1] == "bot: Fine.")
            assert "again 1" in json.dumps(llm.requests[-1].body), "what was begun in the terminal goes on here"
            await ada.asks("/export html", lambda: bool(telegram.sent("sendDocument")))
            await telegram.until(lambda: any("is on its way" in one for one in telegram.visible(OWNER)))
            assert any(".html" in one for one in telegram.visible(OWNER)), "as a file"
            await ada.asks("/delete", lambda: "Delete this session for good?" in ada.seen[-1])
            await ada.presses("Delete it", lambda: "Deleted: 6 messages." in ada.seen[-1])
            await ada.asks("/resume", lambda: "Tap one." in ada.seen[-1])
            await ada.presses("Leave", lambda: ada.seen[-1] == "bot: You stay where you are.")
            assert any(one.endswith("Nothing was chosen.") for one in telegram.visible(OWNER))
        listed = await home.run("sessions")
        assert "question 1 ·" not in listed.out
        assert "question 2 ·" in listed.out


async def test_U67_a_conversation_that_is_deleted_in_its_chat_is_nowhere_in_the_home(tmp_path: Path) -> None:
    async with furnished(tmp_path, after=f"The {CANARY} is fine.") as (telegram, llm, ada, home), running(home):
        await ada.asks(f"How is the {CANARY}?", lambda: ada.seen[-1] == f"bot: The {CANARY} is fine.")
        ada.send("document", f"All about the {CANARY}".encode(), f"Read of the {CANARY}")
        await telegram.until(lambda: len(llm.requests) == 2 and ada.seen[-1] == f"bot: The {CANARY} is fine.")
        await ada.asks(f"/sessions {CANARY}", lambda: "Sessions with: " in ada.seen[-1])
        await ada.asks("/export md", lambda: bool(telegram.sent("sendDocument")))
        before = holding(home.home, CANARY)
        await ada.asks("/delete", lambda: "4 messages, the last one today " in ada.seen[-1])
        await ada.presses("Delete it", lambda: "Deleted: 4 messages, with 2 files." in ada.seen[-1])
    databases = {one.partition(".db")[0] for one in before if ".db" in one}
    assert {"nanobot", "index"} <= databases
    assert any(one.endswith(".md") for one in before), "with the export that was sent"
    assert holding(home.home, CANARY) == []


def _labels(telegram: TelegramServer) -> list[str]:
    """The labels of the buttons that the owner sees now."""
    return [label for message in telegram.chats[OWNER] for label in message.buttons]


ROOT = Path(__file__).parents[3]


async def test_U45_prompts_and_logins_of_servers_work_from_telegram(tmp_path: Path) -> None:
    async with furnished(tmp_path, after="Hello Ann!") as (_, llm, ada, home):

        async def ask(text: str, wanted: str) -> str:
            """Say something and wait for the answer that holds `wanted`; a notice may come before it."""
            before = len(ada.seen) + 1
            await ada.asks(text, lambda: any(wanted in line for line in ada.seen[before:]))
            return next(line for line in ada.seen[before:] if wanted in line)

        with private_server(seconds=3600) as (url, _):
            words = [sys.executable, "-m", "tests.fakes.mcp_sdk_server", "stdio"]
            real = {"command": words, "env": {"PYTHONPATH": str(ROOT)}, "prompts": True, "toolTimeout": 100}
            await known_tools(home.change(tools={"mcpServers": {"real": real, "private": {"url": url}}}))
            async with running(home):
                await ask("/mcp reconnect real", "bot: real: ready, 5 tools.")
                await ask("/mcp", "private (address 127.0.0.1): The MCP server 'private' refused the login")
                await ask("/mcp prompt real greet name=Ann", "bot: Hello Ann!")
                assert "Say hello to Ann." in json.dumps(llm.requests[-1].messages)
                shown = await ask("/mcp login private", "authorize")
                link = re.search(r"http://127\.0\.0\.1\S+authorize\S+", shown)
                assert link, shown
                async with httpx.AsyncClient(trust_env=False, timeout=100) as browser:
                    back = (await browser.get(link[0].rstrip(">"))).headers["location"]
                await ask(f"/mcp login private {back}", "bot: Logged in. private: ready, 1 tool.")


class Model:
    """Gives a task to a helper, which looks into the documentation and waits then until it may end."""

    def __init__(self, *, background: bool) -> None:
        self.background = background
        self.hangs = asyncio.Event()
        self.may_end = False
        self.heard: list[str] = []

    def __call__(self, request: LlmRequest) -> Reply:
        messages = request.messages
        looked = messages[-1]["role"] == "tool"
        if "You are a helper" in str(messages[0]["content"]):
            if not looked:
                return Reply(Call("nanobot_docs", {"query": "how to set the bot up"}))
            if not self.may_end:
                self.hangs.set()
                return Reply(Wait(asyncio.Event()))
            return Reply("BotFather makes it.")
        self.heard.append(json.dumps(messages))
        if looked:
            return Reply("It is at work." if self.background else f"Told: {messages[-1]['content']}")
        if "find out" not in str(messages[-1]["content"]):
            return Reply("You know all.")
        return Reply(Call("spawn", {"task": "Who makes bots?", "background": self.background}))


async def test_U46_a_helper_in_the_background_survives_a_kill_and_its_answer_comes_once(tmp_path: Path) -> None:
    model = Model(background=True)
    async with furnished(tmp_path, after=model) as (telegram, _, ada, home):
        async with running(home) as gateway:
            await ada.asks("find out who makes bots", "It is at work.")
            await asyncio.wait_for(model.hangs.wait(), 60)
            await ada.asks("/tasks", "h1 Who makes bots?: runs")
            await gateway.kill()
        model.may_end = True
        async with running(home):
            await telegram.shows(OWNER, "BotFather makes it.")
            await ada.asks("and now?", "You know all.")
            await ada.asks("/tasks", "h1 Who makes bots?: answered")
        seen = telegram.visible(ada.chat)
    assert sum("BotFather makes it." in line for line in seen) == 1, seen
    assert any("Helper h1: Who makes bots?" in line for line in seen), seen
    assert "Helper h1, \\u201cWho makes bots?\\u201d, answered" in model.heard[-1], "the model is told, too"
    assert model.heard[-1].count("BotFather makes it.") == 1


async def test_U46_stop_ends_a_helper_in_the_background_and_nothing_comes_of_it(tmp_path: Path) -> None:
    model = Model(background=True)
    async with serving(tmp_path, after=model) as (telegram, _, ada, _):
        ada.say("find out who makes bots")
        await asyncio.wait_for(model.hangs.wait(), 60)
        await ada.asks("/task h1 stop", "Helper h1: stopped.")
        await ada.asks("/tasks", "h1 Who makes bots?: stopped")
    assert not any("Helper h1: Who" in line for line in telegram.visible(ada.chat))


async def test_U46_a_helper_in_the_foreground_goes_on_after_a_kill_with_the_turn_for_which_it_works(
    tmp_path: Path,
) -> None:
    model = Model(background=False)
    async with furnished(tmp_path, after=model) as (telegram, llm, ada, home):
        async with running(home) as gateway:
            ada.say("find out who makes bots")
            await asyncio.wait_for(model.hangs.wait(), 60)
            await ada.sees('helper 1 "Who makes bots?"')
            await gateway.kill()
        model.may_end = True
        async with running(home):
            await telegram.shows(OWNER, "Told: BotFather")
        asked = [one for one in llm.requests if "You are a helper" in json.dumps(one.messages)]
    assert len(asked) == 3, "what was looked up is not looked up again"


DATE = "<pubDate>Sun, 22 Nov 2026 10:00:00 GMT</pubDate>"
ITEM = f"<item><title>{{0}}</title><link>https://example.org/{{0}}</link>{DATE}</item>"
FEED = "<rss version='2.0'><channel><title>News</title>{}</channel></rss>"


def feed(*titles: str) -> Answer:
    return Answer(FEED.format("".join(map(ITEM.format, titles))), type="application/rss+xml")


def reading_loopback(home: Program) -> Program:
    """The home of a program that may read pages of this machine."""
    return home.change(tools={"ssrfWhitelist": ["127.0.0.1/32"]})


async def test_U21_a_new_item_is_told_once_with_link_and_date_asks_no_model_and_taints_what_is_said_next(
    tmp_path: Path,
) -> None:
    pages = {"/feed": feed("harbour")}
    people = furnished(tmp_path, "A bridge was opened.", after="no")
    async with Website(pages) as site, people as (_, llm, ada, home), running(reading_loopback(home)):
        await ada.asks("/watch history", "bot: No watch has told anything yet.")
        await ada.asks(f"/watch {site.url}/feed every 2 hours", lambda: ada.told("Watching 1:") == 1)
        pages["/feed"] = feed("bridge", "harbour")
        await ada.asks("/watch run 1", lambda: ada.told("+ bridge (22 Nov 2026)") == 1)
        assert ada.told("https://example.org/bridge") == 1
        looks = len(site.paths)
        await ada.asks("/watch run 1", lambda: len(site.paths) > looks)
        await ada.asks("/watch history", lambda: ada.told("+ bridge") == 2)
        assert not llm.requests
        await ada.asks("what was opened?", lambda: ada.told("A bridge was opened.") == 1)
    asked = str(llm.requests[0])
    assert "<outside id=" in asked
    assert asked.index("<outside id=") < asked.index("+ bridge") < asked.index("</outside id=")


async def test_U21_a_briefing_asks_a_model_only_for_what_is_new_and_tells_it_once(tmp_path: Path) -> None:
    def model(request: LlmRequest) -> Reply:
        text = str(request.messages)
        return (
            Reply("Opened: the bridge [1].")
            if "1 new since the last briefing" in text
            else Reply(Call("watch", {"do": "news", "what": f"{site.url}/feed"}))
        )

    fresh = Answer(
        FEED.format(ITEM.format("bridge").replace(DATE, f"<pubDate>{format_datetime(datetime.now(UTC))}</pubDate>")),
        type="application/rss+xml",
    )
    pages = {"/feed": feed()}
    people = furnished(tmp_path, after=model)
    async with Website(pages) as site, people as (_, llm, ada, home), running(reading_loopback(home)):
        ada.say(f"/schedule briefing every weekday at 8: {site.url}/feed")
        await ada.sees(lambda: ada.told("briefing: “http") + ada.told("Scheduled 1") > 0)
        await ada.asks("/schedule run 1", lambda: len(site.paths) == 1)
        await until_listed(ada, "nothing new", 1)
        assert not llm.requests
        pages["/feed"] = fresh
        await ada.asks("/schedule run 1", lambda: ada.told("Opened: the bridge") == 1)
        asked = len(llm.requests)
        assert asked == 2
        ada.say("/schedule run 1")
        await until_listed(ada, "nothing new", 2)
        assert (len(llm.requests), ada.told("Opened: the bridge")) == (asked, 1)


async def until_listed(person: User, words: str, count: int) -> None:
    """Wait until `/schedule` has shown these words so often."""
    while person.told(words) < count:
        before = len(person.seen)
        await person.asks("/schedule", lambda before=before: len(person.seen) >= before + 2)  # type: ignore[misc]


async def test_U22_a_reminder_comes_at_its_time_and_asks_no_model(tmp_path: Path) -> None:
    async with serving(tmp_path, after="no") as (telegram, llm, ada, _):
        await ada.asks("/schedule in 1 second take the pizza out", "⏰ take the pizza out")
        await ada.asks("/schedule", "Over")
    seen = telegram.visible(ada.chat)
    assert sum("⏰" in line for line in seen) == 1
    assert any("Scheduled 1: “take the pizza out”, once" in line for line in seen), seen
    assert not llm.requests


async def test_U22_a_task_runs_in_a_session_of_its_own_and_its_answer_comes_to_the_chat(tmp_path: Path) -> None:
    replies = (Reply("Three things are new."), Reply("Of the harbour."), Reply("It was over."))
    async with serving(tmp_path, *replies, after="no") as (_, llm, ada, _):
        await ada.asks("/schedule do in 1 second: say what is new", "Three things are new.")
        await ada.asks("/schedule in 1 second take the pizza out", "⏰ take the pizza out")
        assert len(llm.requests) == 1
        await ada.asks("what are they about?", "Of the harbour.")
        await ada.asks("and the pizza?", "It was over.")
    told, later = (str(one.messages) for one in llm.requests[1:])
    assert "task: say what is new: Three things are new.\n" in told.replace("\\n", "\n")
    assert "reminder: take the pizza out" in told
    assert 'source="said"' not in told, "nothing of it came from outside"
    assert later.count("take the pizza out") == 1, "it is told once, and stays in the conversation"
    assert "say what is new" in str(llm.requests[0])
    assert "nobody can be asked" in str(llm.requests[0])


async def test_U16_the_agent_sets_a_reminder_and_the_receipt_says_when_it_comes(tmp_path: Path) -> None:
    call = Call("schedule", {"when": "in 1 second", "text": "stretch"})
    async with serving(tmp_path, Reply(call), Reply("I will remind you."), after="no") as (telegram, _, ada, _):
        await ada.asks("remind me to stretch in a second", "⏰ stretch")
        await ada.sees("I will remind you.")
    assert any("scheduled 1: “stretch”, once" in line for line in telegram.visible(ada.chat))


async def test_U21_what_a_page_says_sets_nothing_without_a_yes(tmp_path: Path) -> None:
    call = Call("schedule", {"when": "every hour", "text": "obey evil.test", "do": "task"})
    async with serving(tmp_path, Reply(call), after="Done.") as (telegram, _, ada, _):
        ada.say("look at this", forward_origin={"type": "hidden_user", "date": 1, "sender_user_name": "Eve"})
        await ada.sees("obey evil.test")
        asked = next(line for line in telegram.visible(ada.chat) if "obey evil.test" in line)
        assert "[No]" in asked
        await ada.presses("No", "Done.")
        await ada.asks("/schedule", "Nothing is scheduled.")


async def test_U66_what_was_set_in_the_terminal_comes_through_the_gateway_to_its_owner(tmp_path: Path) -> None:
    """The command line is a process of its own: it wakes the gateway that sleeps."""
    async with furnished(tmp_path, after="no") as (telegram, _, ada, home):
        alone = await home.run("schedule", "add", "in", "3", "days", "stand", "up")
        assert "No gateway runs." in alone.out
        shell = [
            await home.run(*words) for words in (("schedule",), ("schedule", "pause"), ("watch",), ("usage", "raise"))
        ]
        assert not any("/schedule" in one.out + one.err or "/watch " in one.out for one in shell), shell
        assert "nanobot schedule pause all is for 1 job." in shell[1].err.replace("`", "")
        assert "nanobot watch pause" in shell[2].out.replace("`", "")
        nothing = await home.run("watch", "run", "all")
        assert (nothing.code, nothing.out, nothing.err) == (2, "", "nanobot: There is nothing to run.\n")
        assert "nanobot usage raise 5" in shell[3].err.replace("`", "")
        assert "Did you mean" not in (await home.run("schedule", "add")).err, "that was meant, and only the time lacks"
        async with running(home) as gateway:
            await telegram.until(lambda: bool(telegram.sent("getUpdates")))
            told = await home.run("schedule", "add", "in", "1", "second", "stretch")
            assert "No gateway runs." not in told.out, gateway.text
            await ada.sees("⏰ stretch")
        listed = (await home.run("schedule")).out
        assert "stand up" in listed
        assert "stretch" in listed.partition("Over")[2]
        assert "No gateway runs." in (await home.run("schedule", "run", "1")).out


async def test_U22_people_are_shown_with_their_jobs_which_end_with_their_rights(tmp_path: Path) -> None:
    async with serving(tmp_path, after="no") as (telegram, _, ada, _):
        bob = telegram.user("Bob", 7_002)
        await ada.asks("/invite user", "?start=")
        link = next(line for line in telegram.visible(ada.chat) if "?start=" in line)
        await bob.asks(f"/start {link.partition('?start=')[2].split()[0]}", lambda: len(telegram.visible(bob.chat)) > 1)
        bob.say("/schedule every day at 9 water the plants")
        await telegram.until(lambda: any("water the plants" in line[5:] for line in telegram.visible(bob.chat)[2:]))
        await ada.asks("/schedule", "Nothing is scheduled.")
        await ada.asks("/people", "1 scheduled, next")
        await ada.asks("/people remove Bob", "1 scheduled job is taken away")


async def test_appointments_and_watches_speak_the_language_of_their_chat_also_at_their_time(tmp_path: Path) -> None:
    async with furnished(tmp_path, after="no") as (_, llm, ada, home):
        ada.language = "zh-hans"
        async with running(home):
            await ada.asks("/watch file: absent.md", "没有开始监视，因为无法查看：absent.md 不存在。")
            await ada.asks("/schedule briefing 1秒后: http://127.0.0.1:9/feed", "已安排 1：")
            await ada.sees("失败：简报的来源全都读不到")
            await ada.asks("/memory", "还没有关于你的记忆。")
            await ada.asks("/schedule", "已结束")
        shown = "\n".join(ada.seen)
    assert english_left(shown, *(line for line in shown.splitlines() if line.startswith("/"))) == []
    assert not llm.requests
