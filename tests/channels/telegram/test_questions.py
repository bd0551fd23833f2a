"""Questions to the owner on Telegram: asked with buttons, answered by the owner alone, closed in their place.

And a button of an earlier turn, which a client may go on showing.
"""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from msgspec.structs import replace

from nanobot.bus.events import ApprovalAsked, ApprovalClosed, TurnFinished
from nanobot.channels.telegram.show.questions import NO_ANSWER, TURN_ENDED, WAITED, WAITS
from nanobot.messages import ToolCall
from nanobot.providers.scripted import Call, Wait
from tests.channels.telegram.gateway import OWNER, furnished, running, serving
from tests.channels.telegram.scenarios import Turn, one_turn, stage
from tests.cli.harness import Program
from tests.fakes.llm_server import LlmRequest, LlmServer, Reply
from tests.fakes.telegram_server import Fault, TelegramServer, User, bad_gateway, refuse, too_many
from tests.fakes.website import Answer, Website, private_address

BUTTONS = " [Once] [Always] [No]"


def asking(home: Program) -> Program:
    """The program, set to ask for private hosts."""
    return home.change(tools={"web": {"fetch": {"allowPrivate": "ask"}}}, ssrfWhitelist=[])


@asynccontextmanager
async def private_page(tmp_path: Path) -> AsyncIterator[tuple[Website, TelegramServer, LlmServer, User, Program]]:
    """A page of this network, which the model wants to read, and a program that asks for such."""
    async with Website({"/": Answer("the blue door", "text/plain")}, private_address()) as site:
        fetch = Reply(Call("web_fetch", {"url": f"{site.url}/"}))
        async with furnished(tmp_path, fetch, after="It is blue.") as (telegram, llm, ada, home):
            yield site, telegram, llm, ada, asking(home)


async def test_G27_A21_a_private_page_is_read_after_the_owner_taps_once(tmp_path: Path) -> None:
    async with private_page(tmp_path) as (site, telegram, llm, ada, home):
        async with running(home) as gateway:
            ada.say("which door?")  # the model knows the address by itself, and still there is one question
            try:
                question = await ada.sees("Confirm Web Fetch")
            except TimeoutError:
                raise AssertionError(f"{ada.seen}\n{gateway.text}") from None
            assert f"Address: {site.url}/" in question
            assert question.endswith(BUTTONS)
            assert site.paths == []
            asked = next(message for message in telegram.chats[OWNER] if message.buttons)
            data = list(asked.data)
            await ada.presses("Once", "It is blue.")
            assert (await ada.sees("Confirm Web Fetch")).endswith("→ Once")
        assert site.paths == ["/"]
        assert "the blue door" in json.dumps(llm.requests[1].body)
        assert telegram.toasts == ["Answered: once."]
        assert ada.told("Confirm") == 1
        asked.buttons, asked.data = ["Once"], data[:1]  # a client that still shows the old buttons
        async with running(home):
            await ada.presses("Once", lambda: len(telegram.toasts) == 2)
            await telegram.until(lambda: not asked.buttons)
        assert "This question is over" in telegram.toasts[1]
        assert site.paths == ["/"]


async def test_A21_words_in_reply_to_a_question_are_the_reason_of_a_no_and_those_of_an_answer_are_that_answer(
    tmp_path: Path,
) -> None:
    async with private_page(tmp_path) as (site, telegram, llm, ada, home), running(home):
        llm.add("Then not.", Reply(Call("web_fetch", {"url": f"{site.url}/"})))
        for said, answer in (("Ask the *porter* instead", "Then not."), ("Yes.", "It is blue.")):
            await ada.asks("which door?", lambda: any(one.buttons for one in telegram.chats[OWNER]))
            asked = next(one for one in telegram.chats[OWNER] if one.buttons)
            ada.say(said, reply_to_message=telegram.message_json(asked))
            await ada.sees(answer)
    refused, allowed = (one for one in ada.seen if "Confirm Web Fetch" in one)
    assert refused.endswith("→ No: Ask the *porter* instead")
    assert allowed.endswith("→ Once")
    assert site.paths == ["/"]
    assert "Ask the *porter* instead" in json.dumps(llm.requests[1].body)


async def test_U13_a_group_reads_only_that_something_waits_and_the_owner_answers_in_private(tmp_path: Path) -> None:
    fetch = Reply(Call("web_fetch", {"url": "http://10.255.255.255/"}))
    asks = furnished(tmp_path, fetch, after="Not read.")
    async with asks as (telegram, llm, owner, home), running(asking(home)):
        ada, eve = telegram.member("Ada", -55, user_id=OWNER), telegram.member("Eve", -55)
        await ada.asks("/group@nano_test_bot on", "I answer in this group now")
        ada.calls_bot("read http://10.255.255.255/")
        await ada.sees(WAITS)
        assert (await owner.sees("Confirm Web Fetch")).endswith(BUTTONS)
        question = next(message for message in telegram.chats[OWNER] if message.buttons)
        note = next(message for message in telegram.chats[-55] if message.text == WAITS)
        assert not any("Confirm" in line or "[Once]" in line for line in ada.seen)
        note.buttons, note.data = ["Once"], question.data[:1]  # a client may send what it likes
        await eve.presses("Once", lambda: len(telegram.toasts) == 1)
        assert telegram.toasts == ["This button is not for you."]
        owner.press("No")
        await ada.sees("Not read.")
        assert "→ No" in await owner.sees("Confirm Web Fetch")
        await ada.sees(WAITED)
    assert "The owner does not want 10.255.255.255 to be read" in json.dumps(llm.requests[1].body)


async def ask(turn: Turn, key: str) -> None:
    await turn.play(ApprovalAsked(key, ToolCall("c1", "web_fetch"), "May I?", "http://nas.lan/"))


async def test_a_question_without_an_answer_says_so_and_loses_its_buttons() -> None:
    async with stage() as at:
        first = await at.begin()
        await ask(first, "aa")
        await at.until("[Always]")
        await first.play(ApprovalClosed("aa"), until=NO_ANSWER)
        await ask(first, "bb")
        await at.until("[Always]")
        await first.finish(TurnFinished("cancelled", ""))
        await at.until(TURN_ENDED)
        assert not any(message.buttons for message in at.server.chats[7])


async def test_U13_what_tells_a_group_that_something_waits_is_tried_again_where_telegram_does_not_take_it() -> None:
    async with one_turn(group=-55) as (at, turn):
        at.server.failing("sendMessage", too_many(1))
        await ask(turn, "aa")
        await at.quiet(10)
        at.server.failing("sendMessage", None)
        await at.until(WAITS)
        await turn.play(ApprovalClosed("aa", "once"), until=WAITED)


@pytest.mark.parametrize(
    ("fault", "tries"),
    [
        (refuse(400, "Bad Request: not enough rights to send text messages to the chat"), {1, 2}),
        (refuse(403, "Forbidden: bot was kicked from the supergroup chat"), {1}),
        (bad_gateway(), {3, 4, 5}),
    ],
)
async def test_U13_a_group_that_refuses_what_waits_is_asked_no_more_and_one_that_may_have_it_ever_less_often(
    fault: Fault, tries: set[int]
) -> None:
    async with one_turn(group=-55) as (at, turn):
        at.server.failing("sendMessage", fault)
        await ask(turn, "aa")
        await at.quiet(120)
        told = [call for call in at.server.sent("sendMessage") if call.params.get("text") == WAITS]
        assert len(told) in tries
        at.server.failing("sendMessage", None)
        await turn.play(ApprovalClosed("aa", "once"))


async def test_a_question_of_the_model_is_answered_by_a_tap_of_the_person_who_was_asked(tmp_path: Path) -> None:
    days = Call("ask", {"question": "Which day?", "choices": ["Tuesday", "Friday"]})
    first = Reply(Call("todo", {"items": ["[x] ask", "[ ] plan"]}), days)
    async with serving(tmp_path, first, after="Friday it is.") as (telegram, llm, _, _):
        ada, eve = telegram.member("Ada", -55, user_id=OWNER), telegram.member("Eve", -55)
        await ada.asks("/group@nano_test_bot on", "I answer in this group now")
        ada.calls_bot("plan it")
        assert (await ada.sees("2. Friday")).endswith("or write one. [Tuesday] [Friday]")
        assert "☑ ask" in await ada.sees("☐ plan")
        (asked,) = [message for message in telegram.chats[-55] if "Tuesday" in message.buttons]
        data = asked.data[:1]
        await eve.presses("Tuesday", lambda: len(telegram.toasts) == 1)
        await ada.presses("Friday", "Friday it is.")
        assert "2. Friday" in await ada.sees("→ Friday")
        asked.buttons, asked.data = ["Tuesday"], data  # as they stand after a restart that came in between
        await ada.presses("Tuesday", lambda: not asked.buttons)
    only, over = "Only the person who was asked may answer this.", "it was answered, or its turn has ended."
    assert telegram.toasts == [only, "Answered: Friday", f"This question is over: {over}"]
    assert "The person chose: Friday" in json.dumps(llm.requests[1].body)


@pytest.mark.parametrize(("changed", "block"), [(False, "expandable_blockquote"), (True, "pre")])
async def test_a_long_text_stands_in_a_fold_a_change_in_a_block_both_whole_in_a_file(changed: bool, block: str) -> None:
    diff = "  @@ -0,0 +1,400 @@\n" + "".join(f"  +line {number} 🦊\n" for number in range(400))
    async with one_turn() as (at, turn):
        asked = ApprovalAsked("aa", ToolCall("c1", "write_file"), "Write a.md?", "Path: /w/a.md", shown=diff)
        await turn.play(replace(asked, diff=changed), until="[Always]")
        question = next(message for message in at.server.chats[7] if message.buttons)
        assert {one["type"] for one in question.entities} == {"bold", block}
        assert ("\n+line 1 " in question.text) is changed, "a block needs nothing that sets it in"
        assert "line 399" not in question.text
        files = [message for message in at.server.chats[7] if message.document]
        assert [message.document for message in files] == ["<question.txt>"]
        assert at.server.chats[7].index(files[0]) < at.server.chats[7].index(question)
        (sent,) = at.server.sent("sendDocument")
        assert int(str(sent.params["document_size"])) > len(diff)
        await turn.play(ApprovalClosed("aa", "once"), until="→ Once")
        assert {one["type"] for one in question.entities} == {"bold", "expandable_blockquote"}, "it is folded up"
        assert question.text.endswith("\n\n→ Once")


async def test_A21_a_restart_in_between_asks_again_and_the_old_buttons_answer_nothing(tmp_path: Path) -> None:
    async with private_page(tmp_path) as (site, telegram, _, ada, home):
        async with running(home) as gateway:
            await ada.asks(f"which door? {site.url}", "Confirm Web Fetch")
            await gateway.kill()
        (old,) = [message for message in telegram.chats[OWNER] if "Once" in message.buttons]
        async with running(home):
            await ada.sees(lambda: ada.told("[Once]") == 2)
            telegram.press(ada, old, "Once")
            await telegram.until(lambda: len(telegram.toasts) == 1)
            await telegram.until(lambda: not old.buttons)
            assert "This question is over" in telegram.toasts[0]
            assert site.paths == []
            await ada.presses("Once", "It is blue.")
        assert site.paths == ["/"]


async def test_an_old_stop_button_leaves_the_turn_that_runs_now_alone(tmp_path: Path) -> None:
    pressed = asyncio.Event()

    def look_then_think(request: LlmRequest) -> Reply:
        """Each turn asks for the documentation and then thinks: the first for ever, the second until the press."""
        said = str(request.messages)
        name = "second" if "the second one" in said else "first"
        if f"{name} query" not in said:
            return Reply(Call("nanobot_docs", {"query": f"{name} query"}))
        return Reply(Wait(pressed), "All done.") if name == "second" else Reply("Too late.", delay=600)

    async with serving(tmp_path, after=look_then_think) as (telegram, _, ada, _):
        await ada.asks("the first one", "[Stop]")
        old = next(message for message in telegram.chats[ada.chat] if "Stop" in message.buttons)
        data = list(old.data)
        await ada.presses("Stop", lambda: not any("[Stop]" in line for line in telegram.visible(ada.chat)))
        await ada.asks("the second one", "[Stop]")
        old.buttons, old.data = ["Stop of before"], data
        await ada.presses("Stop of before", lambda: not old.buttons)
        pressed.set()
        await ada.sees("bot: All done.")
