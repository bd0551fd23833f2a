"""Going back in a conversation, choosing its model and its appointments, on the surfaces of the shipped programs."""

import json
from pathlib import Path

from nanobot.providers.scripted import Call
from tests.channels.telegram.gateway import OWNER, furnished, running, serving
from tests.channels.test_terminal_pty import CTRL_C, terminal_of
from tests.cli.harness import Program, modelled, program
from tests.fakes.llm_server import LlmServer, Reply

ESC, DOWN = "\x1b", "\x1b[B"


def writes(name: str) -> Reply:
    return Reply(Call("write_file", {"path": name, "content": "new"}))


async def test_U65_U70_escape_twice_opens_the_picker_and_the_arrow_keys_take_back_talk_and_files(
    tmp_path: Path,
) -> None:
    script = ("Hello.", writes("a.md"), "Wrote a.", writes("b.md"), "Wrote b.")
    async with modelled(tmp_path, *script, after="Starting over.") as (nanobot, server):
        workspace = nanobot.home / "workspace"
        workspace.mkdir(parents=True, exist_ok=True)
        (workspace / "a.md").write_text("old", encoding="utf-8")
        async with terminal_of(nanobot) as terminal:
            for said, answer in (("good day", "Hello."), ("write one", "Wrote a."), ("write two", "Wrote b.")):
                await terminal.answers(f"{said}\r", answer)
                await terminal.until(lambda: "Ctrl-C stops" not in terminal.text())
            await terminal.answers(ESC, "press Esc again")
            await terminal.answers(ESC, "4 of 4 · ↑↓ and Enter choose")
            await terminal.answers(DOWN, "❯ 2 ")
            await terminal.answers("\r", "2 changes of files were made")
            await terminal.until("1 to 4 answers")
            await terminal.answers("3", "You are back before that question")
            await terminal.until(lambda: "Ctrl-C stops" not in terminal.text())  # a command asked, and no turn runs
            assert (workspace / "a.md").read_text(encoding="utf-8") == "old"
            assert not (workspace / "b.md").exists()
            await terminal.answers("again\r", "Starting over.")
            await terminal.answers("/btw how late is it?\r", "keeps neither this question nor the answer")
            await terminal.until(lambda: terminal.text().count("Starting over.") == 2)
            await terminal.until(lambda: "Ctrl-C stops" not in terminal.text())
            await terminal.answers("thanks\r", lambda: terminal.text().count("Starting over.") == 3)
            await terminal.leave()
        sent = json.dumps(server.requests[-1].body)
    assert "good day" in sent
    assert "write one" not in sent
    assert "how late" not in sent


async def test_U65_a_picker_that_ctrl_c_leaves_leaves_nothing_running(tmp_path: Path) -> None:
    async with LlmServer(after="Hello.") as server, terminal_of(program(tmp_path, server)) as terminal:
        await terminal.answers("good day\r", "Hello.")
        await terminal.answers("/rewind\r", "2 of 2 · ↑↓ and Enter choose")
        await terminal.answers(CTRL_C, "Everything is left as it is.")
        await terminal.until(lambda: "Ctrl-C stops" not in terminal.text() and "stopping" not in terminal.text())


async def test_U65_U13_rewind_retry_and_btw_on_telegram_answer_in_their_chat(tmp_path: Path) -> None:
    script = ("Hello.", "A first try.", "A second try.", "Twelve.", "In the group.")
    async with serving(tmp_path, *script, after="Back again.") as (telegram, llm, ada, _):
        eve, own = telegram.member("Eve", -55), telegram.member("Ada", -55, user_id=OWNER)
        await ada.asks("good day", "Hello.")
        await ada.asks("plan it", "A first try.")
        await ada.asks("/retry", "A second try.")
        assert "A first try." not in json.dumps(llm.requests[-1].body)
        ada.say("/btw how many?")
        assert "keeps neither" in await telegram.shows(OWNER, "Twelve.")
        assert ada.told("keeps neither") == 1
        question = await ada.asks("/rewind", "Go back to before which question?")
        assert "how many" not in question
        button = next(one for message in telegram.chats[OWNER] for one in message.buttons if "plan it" in one)
        await ada.presses(button, "You are back before that question")
        assert not any(message.buttons for message in telegram.chats[OWNER])
        own.say("/group@nano_test_bot on")
        await telegram.shows(-55, "I answer in this group now")
        own.calls_bot("hello")
        await telegram.shows(-55, "In the group.")
        eve.say("/rewind@nano_test_bot")
        assert "/rewind" in await telegram.shows(-55, "is not available to you here")
        await ada.asks("and now?", "Back again.")
        sent = json.dumps(llm.requests[-1].body)
    assert "good day" in sent
    assert "plan it" not in sent
    assert "how many" not in sent


async def test_U67_a_session_is_found_in_a_picker_by_typing_and_escape_leaves_it(tmp_path: Path) -> None:
    async with modelled(tmp_path, after="Fine.") as (nanobot, server):
        for question in ("how deep is the sea?", "why is the sky blue?", "what eats a hedgehog?"):
            await nanobot.run(question)
            await nanobot.run("--continue", "-m", "and why?")
        async with terminal_of(nanobot) as terminal:
            await terminal.answers("/resume\r", "3 of 3 · ↑↓ and Enter choose")
            await terminal.until("❯ 1 what eats a hedgehog?")
            await terminal.answers(ESC, "You stay where you are.")
            await terminal.answers("/resume\r", "3 of 3 · ↑↓ and Enter choose")
            await terminal.answers("terminal SKY", "1 of 3 · ↑↓ and Enter choose")
            await terminal.answers("x", "Nothing here holds: terminal SKYx")
            await terminal.answers("\r\x7f", "❯ 2 why is the sky blue?")
            await terminal.answers("\r", "Back in session")
            await terminal.until("You: and why?")
            terminal.press("go on\r")
            await terminal.until(lambda: "Ctrl-C stops" not in terminal.text() and "go on" in terminal.text())
            await terminal.leave()
        sent = json.dumps(server.requests[-1].body)
    assert "sky blue" in sent
    assert "hedgehog" not in sent
    assert "SKY" not in sent, "what was typed to find it is no message"


async def test_U67_without_a_screen_a_picker_is_answered_by_number_or_narrowed_down_by_a_word(tmp_path: Path) -> None:
    async with modelled(tmp_path, after="Fine.") as (nanobot, _):
        for question in ("how deep is the sea?", "why is the sky blue?"):
            await nanobot.run(question)
            await nanobot.run("--continue", "-m", "and why?")
        async with terminal_of(nanobot, "--plain") as terminal:
            await terminal.answers("/resume\r", "2 of 2 · ")
            await terminal.answers("sea\r", "1 of 2 · ")
            await terminal.answers("2\r", "Back in session")
            await terminal.leave()
    assert "how deep is the sea?" in terminal.text().partition("Back in session")[2]


async def test_U66_a_reminder_made_in_the_terminal_comes_there_and_says_what_keeps_it(tmp_path: Path) -> None:
    async with modelled(tmp_path, Reply("All quiet."), after="no") as (nanobot, llm), terminal_of(nanobot) as terminal:
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


PRESETS = {
    "quick": {"model": "fake-small", "provider": "custom", "effort": "low", "maxTokens": 99, "fallback": ["fake-9"]}
}


def with_presets(home: Program) -> Program:
    return home.change(agents={"presets": PRESETS})


async def test_a_terminal_filters_the_models_of_the_service_and_takes_a_preset_by_its_name(tmp_path: Path) -> None:
    async with LlmServer(after="Hello.") as server:
        server.models = [{"id": f"fake-{number}"} for number in range(40)]
        async with terminal_of(with_presets(program(tmp_path, server))) as terminal:
            await terminal.answers("/model\r", "Which model is this chat to use?")
            await terminal.until("quick · fake-small (custom), effort low")
            await terminal.until("type to find")
            await terminal.answers("fake-33", "1 of 42")
            await terminal.answers("\r", "This chat now uses fake-33")
            await terminal.answers("hi\r", "Hello.")
            await terminal.answers("/model quick\r", "This chat now uses fake-small")
            terminal.press("again\r")
            await server.asked(2)
            await terminal.answers("/model default\r", "This chat now uses fake (custom)")
            await terminal.leave()
    assert [one.body["model"] for one in server.requests] == ["fake-33", "fake-small"]
    assert [one.body["max_tokens"] for one in server.requests] == [8192, 99]


async def test_a_chat_turns_the_pages_of_the_picker_and_keeps_its_choice_over_a_restart(tmp_path: Path) -> None:
    async with furnished(tmp_path, after="Hello.") as (_, llm, ada, home):
        llm.models = [{"id": f"fake-{number}"} for number in range(40)]
        async with running(with_presets(home)):
            first = await ada.asks("/model", "Page 1 of 6")
            assert "1. quick · fake-small (custom), effort low\n2. default · as configured: fake\n3. fake-0" in first
            await ada.presses("▶", "Page 2 of 6")
            ada.press("10. fake-7")
            assert "It does not see pictures" in await ada.sees("This chat now uses fake-7 (custom).")
        async with running(home):
            await ada.asks("hi", "Hello.")
            await ada.asks("/model quick", "This chat now uses fake-small")
    assert [one.body["model"] for one in llm.requests] == ["fake-7"]
