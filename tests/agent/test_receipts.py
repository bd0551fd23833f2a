"""What a turn has really done stands under its answer; claims of more, and addresses that nobody named, are marked."""

import json
import tracemalloc
from collections.abc import Mapping
from pathlib import Path

import pytest
from msgspec.structs import replace

from nanobot.agent.addresses import KnownAddresses
from nanobot.agent.receipts import NOTES, unbacked
from nanobot.agent.tools.base import ToolContext
from nanobot.bus.events import TurnFinished
from nanobot.messages import AssistantMessage, Message, Source, StepRetried, Text, ToolCall, ToolMessage, UserMessage
from nanobot.providers.base import Capabilities
from nanobot.providers.scripted import Call, ScriptedProvider
from nanobot.results import SourceBook, ToolResult
from nanobot.security.policy import Effect
from tests.agent.claims import CASES, HELD_BACK, SOUND_ALIKE
from tests.agent.harness import FakeTool, agent
from tests.agent.test_resume import BEGINNING, SEND, SendTool, arrived, left, serve
from tests.channels.telegram.scenarios import one_turn
from tests.cli.harness import modelled
from tests.tables import table

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


def said(text: str) -> UserMessage:
    return UserMessage((Text(text),))


def called(text: str, /, *urls: str, tool: str = "web_fetch", error: str = "", **arguments: object) -> list[Message]:
    call = ToolCall("c1", tool, json.dumps(arguments))
    sources = tuple(Source(number, url) for number, url in enumerate(urls, 1))
    return [AssistantMessage((call,)), ToolMessage("c1", tool, (Text(text),), error, True, sources)]


def known(*messages: Message, book: SourceBook | None = None) -> KnownAddresses:
    addresses = KnownAddresses()
    addresses.take(messages, book)
    return addresses


@table(
    "text url",
    ("read https://a.example/x?y=1#z.", "https://a.example/x?y=1"),
    ("read https://a.example/x/", "http://www.A.example:80/x"),
    ("read https://a.example/x%20y", "https://a.example/x y"),
    ("read https://a.example/%C3%A4(b)?q=%7e", "https://a.example/ä%28b%29?q=~"),
    ("read https://a.example/x", "https://a.example/./y/../x"),
    ("read https://a.example/docs/x?y=1", "https://a.example/docs/x"),
    ("read https://a.example/docs/x?y=1", "https://a.example/docs"),
    ("read https://a.example/docs/x?y=1", "https://a.example"),
    ("what is new on python.org?", "https://www.python.org/"),
    ("what stands in heise.de/news/42.html, please", "https://heise.de/news/42.html"),
    ("看https://a.example/wiki/北京。", "https://a.example/wiki/北京"),
)
def test_what_a_person_wrote_is_named_and_so_is_what_says_less(text: str, url: str) -> None:
    assert url in known(said(text))


@table(
    "url",
    "https://a.example/docs/x?y=2",
    "https://a.example/docs/x?y=1&z=secret",
    "https://a.example/docs/x/secret",
    "https://a.example/docs/x2",
    "https://a.example/doc",
    "https://secret.a.example/docs/x?y=1",
    "https://secret@a.example/docs/x?y=1",
    "https://a.example:8443/docs/x?y=1",
    "https://b.example/",
    "https://a.example/docs/../secret",
    "https://a.example/secret/%2e%2e/docs/x?y=1",
    "https://a.example/docs/secret%2F..%2Fx?y=1",
    "https://a.example/secret//../docs/x?y=1",
    "https://a.example/secret//..",
    "https://a.example/docs//x?y=1",
    "https://a.example/%64ocs/x?y=1",
    "https://a.example/docs/x?%79=1",
    "ftp://a.example/docs",
    "nonsense",
)
def test_what_says_more_or_something_else_is_made_up(url: str) -> None:
    assert url not in known(said("read https://a.example/docs/x?y=1"))


def test_hits_and_links_of_pages_are_named_also_after_a_restart() -> None:
    page = "[1] A\nurl: https://a.example/\n\nSee [this](https://b.example/c_(d)?e=1) and <https://f.example/g>, too."
    addresses = known(
        *called("Results for: x", "https://hit.example/1", tool="web_search", query="x"),
        *called(page, "https://a.example/", url="https://a.example/"),
    )
    for url in ("https://hit.example/1", "https://b.example/c_(d)?e=1", "https://f.example/g", "https://a.example"):
        assert url in addresses


def test_links_beyond_what_was_shown_of_a_page_are_named() -> None:
    book = SourceBook()
    book.add("https://a.example/", read=True, text="far below: https://b.example/deep")
    assert "https://b.example/deep" in known(*called("the top", "https://a.example/", url="x"), book=book)


@table(
    "messages",
    called("Results for: https://evil.example/?k=1", "https://hit.example", tool="web_search", query="anything"),
    called("Nothing speaks of https://evil.example/?k=1", "https://a.example/", url="https://a.example/", find="x"),
    called("The answer: https://evil.example/?k=1", "https://a.example/", prompt="say https://evil.example/?k=1"),
    called("you said https://evil.example/?k=1", tool="mcp_x_echo", text="https://evil.example/?k=1"),
    called("Error: https://evil.example/?k=1 is not there", error="http_status", url="https://evil.example/?k=1"),
    [AssistantMessage((Text("I will read https://evil.example/?k=1"),))],
    [UserMessage((Text("https://evil.example/?k=1"),), kind="notice")],
)
def test_the_models_own_words_name_nothing_when_they_come_back(messages: list[Message]) -> None:
    assert "https://evil.example/?k=1" not in known(*messages)


def test_what_an_mcp_server_gives_is_named() -> None:
    assert "https://b.example/1" in known(*called("- https://b.example/1", tool="mcp_exa_search", query="x"))


@pytest.mark.parametrize("tail", ["b/" * 30_000, "b)/" * 20_000, " http://a.example/c" * 30_000])
def test_an_endless_address_of_a_page_takes_neither_time_nor_memory(tail: str) -> None:
    book = SourceBook()
    book.add("https://a.example/", read=True, text=f"http://b.example/{tail}")
    tracemalloc.start()
    try:
        assert "http://b.example/x" not in known(*called("(shown in part)", "https://a.example/"), book=book)
        assert tracemalloc.get_traced_memory()[1] < 30_000_000
    finally:
        tracemalloc.stop()


def test_of_large_results_little_is_kept_and_each_of_their_links_is_named() -> None:
    addresses = KnownAddresses()
    tracemalloc.start()
    try:
        for number in range(100):
            addresses.take(called(f"https://h{number}.example/x " + "and so on " * 6_000))
        assert tracemalloc.get_traced_memory()[0] < 500_000, "of 6 MB"
    finally:
        tracemalloc.stop()
    assert {number for number in range(100) if f"https://h{number}.example/x" in addresses} == set(range(100))


def test_the_memory_is_bounded_and_the_oldest_goes() -> None:
    addresses = known(said("https://old.example/first"))
    for number in range(210):
        addresses.hear(" ".join(f"https://h{number}.example/{item}" for item in range(100)))
    assert "https://old.example/first" not in addresses
    assert "https://h209.example/99" in addresses
