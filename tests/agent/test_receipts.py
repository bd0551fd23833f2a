"""What a turn has really done stands under its answer, and an answer that claims more is asked again, then marked."""

import json
from collections.abc import Mapping
from pathlib import Path

import pytest
from msgspec.structs import replace

from nanobot.agent.receipts import NOTES, unbacked
from nanobot.agent.tools.base import ToolContext
from nanobot.bus.events import TurnFinished
from nanobot.messages import AssistantMessage, StepRetried, Text, ToolMessage
from nanobot.providers.base import Capabilities
from nanobot.providers.scripted import Call, ScriptedProvider
from nanobot.results import ToolResult
from nanobot.security.policy import Effect
from tests.agent.claims import CASES, HELD_BACK, SOUND_ALIKE
from tests.agent.harness import FakeTool, agent
from tests.agent.test_resume import BEGINNING, SEND, SendTool, arrived, left, serve
from tests.channels.telegram.scenarios import one_turn
from tests.cli.harness import modelled

LIE = "I've saved the plan to notes/plan.md."
SECRET = "sk-proj-" + "a1B2c3D4" * 6


class Writing(FakeTool):
    """Says that it has written a file."""

    def __init__(self, receipt: str = "wrote notes/plan.md (+12 \u22123)") -> None:
        super().__init__("write_file", lambda _args: ToolResult("written", receipt=receipt), access="changes")

    def effects(self, arguments: Mapping[str, object], context: ToolContext) -> tuple[Effect, ...]:
        return (Effect("write", "/srv/notes/plan.md"),)


@pytest.mark.parametrize(("text", "kind"), [*CASES, *HELD_BACK, *((text, "") for text in SOUND_ALIKE)])
def test_U16_what_claims_a_deed_is_told_from_what_only_sounds_like_it(text: str, kind: str) -> None:
    assert (kind in unbacked(text, ())) if kind else unbacked(text, ()) == ()


def test_U16_a_long_answer_is_judged_in_a_time_that_grows_with_its_length() -> None:
    for piece in ("a/", "a.", "“", "„“", '"', "I saved a.", "ich habe ", "```\n"):
        unbacked("I saved " + piece * 100_000, ())


async def test_U16_a_claim_without_a_deed_gets_one_second_try_in_which_it_is_done() -> None:
    async with agent([LIE, (Call("write_file", {"query": "plan"}),), LIE], tool := Writing()) as box:
        finished = await box.ask("keep the plan")
        kept = [one for one in await box.history() if isinstance(one, AssistantMessage)]
        assert box.of(StepRetried)
    assert (finished.text, finished.receipts, finished.unbacked) == (LIE, ("wrote notes/plan.md (+12 \u22123)",), ())
    assert len(tool.calls) == 1
    assert NOTES["write"] in box.provider.requests[1].messages[-1].text
    assert kept[-1].receipts == finished.receipts


async def test_U16_a_claim_that_stays_without_a_deed_is_marked_under_the_answer_and_kept_so() -> None:
    async with agent([LIE, LIE], Writing()) as box:
        finished = await box.ask("keep the plan")
        kept = (await box.history())[-1]
    assert (finished.outcome, finished.text, finished.unbacked) == ("completed", LIE, (NOTES["write"],))
    assert isinstance(kept, AssistantMessage)
    assert kept.unbacked == finished.unbacked


@pytest.mark.parametrize("text", ["I can save it to notes.md.", "I have not saved it to notes.md.", "It is 7."])
async def test_U16_an_honest_answer_is_asked_once(text: str) -> None:
    async with agent([text], Writing()) as box:
        assert (await box.ask("keep the plan")).unbacked == ()


def test_U16_that_an_appointment_was_deleted_is_backed_by_its_removal() -> None:
    for text in ("I've deleted the reminder.", "Ich habe den Termin gelöscht.", "我已将提醒删除。"):
        assert (unbacked(text, ("appointment",)), unbacked(text, ("write",))) == ((), ("delete",))


async def test_U16_what_is_no_language_model_claims_nothing() -> None:
    quoting = ScriptedProvider([LIE], capabilities=Capabilities(language_model=False))
    async with agent(quoting) as box:
        assert (await box.ask("what does it say?")).unbacked == ()


async def test_a_receipt_is_short_has_no_secret_and_stands_for_each_thing_that_was_done() -> None:
    provider = ScriptedProvider([(Call("write_file", {"query": "plan"}),), "Done."])
    async with agent(provider, Writing(f"wrote \x1b[31ma.md\nwrote {'b' * 900}.md\nwrote {SECRET}.md")) as box:
        receipts = (await box.ask("go")).receipts
    assert len(receipts) == 3
    assert receipts[0] == "wrote a.md"
    assert all(len(line) <= 200 for line in receipts)
    assert SECRET not in receipts[2]


async def test_U16_one_question_shows_the_mark_on_stdout_and_names_it_in_json(tmp_path: Path) -> None:
    async with modelled(tmp_path, after=LIE) as (nanobot, server):
        plain = await nanobot.run("agent", "-m", "keep the plan")
        told = json.loads((await nanobot.run("agent", "-m", "keep the plan", "--json")).out)
        assert len(server.requests) == 4
    assert NOTES["write"] in plain.out.partition(LIE)[2]
    assert (told["text"], told["unbacked"], told["receipts"]) == (LIE, [NOTES["write"]], [])


async def test_receipts_stand_under_the_answer_on_telegram() -> None:
    async with one_turn() as (at, turn):
        done = ("wrote notes/plan.md (+12 \u22123)", "ran pytest: exit 1, 14 s")
        await turn.finish(TurnFinished("completed", "It is *kept*.", receipts=done, unbacked=(NOTES["send"],)))
        await at.until("It is kept.")
        answer = next(line for line in at.seen if "It is kept." in line)
    assert answer.index("kept.") < answer.index(f"☑ {done[0]}") < answer.index(f"☑ {done[1]}")
    assert answer.index(done[1]) < answer.index(NOTES["send"])


async def test_U16_what_was_done_before_a_restart_is_told_and_backs_the_answer_after_it() -> None:
    done = ToolMessage("c1", "send", (Text("written"),), receipt="wrote notes/plan.md (+1 −0)", did=("write",))
    kept = await left(BEGINNING[0], replace(BEGINNING[1], content=(SEND,)), done, intents=(SEND,))
    async with agent([LIE], Writing(), store=kept.store) as box:
        finished = await serve(kept, box, arrived())
    assert (finished.text, finished.receipts, finished.unbacked) == (LIE, ("wrote notes/plan.md (+1 −0)",), ())
    assert len(box.provider.requests) == 1


async def test_U16_nobody_doubts_an_answer_where_it_is_not_known_what_a_call_did() -> None:
    kept = await left(BEGINNING[0], replace(BEGINNING[1], content=(SEND,)), intents=(SEND,))
    async with agent(["I've sent the letter by mail."], SendTool(), store=kept.store) as box:
        finished = await serve(kept, box, arrived())
    assert (finished.unbacked, len(finished.notes), len(box.provider.requests)) == ((), 1, 1)
