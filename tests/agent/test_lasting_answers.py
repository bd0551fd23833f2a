"""The answer `always`: what its words say on both surfaces, what is not asked any more after it, and what still is."""

from collections.abc import Mapping

import msgspec
import pytest
from msgspec.structs import replace

from nanobot.agent.tools.base import ToolContext
from nanobot.bus.events import ApprovalAsked, TurnFinished
from nanobot.channels.telegram.show.questions import question_message
from nanobot.channels.terminal.questions import asked_lines
from nanobot.messages import ToolCall
from nanobot.providers.scripted import Call, ScriptedProvider
from nanobot.security.policy import KINDS, Effect, Policy, Rule
from tests.agent.harness import HERE, Box, FakeTool, agent, message

PLAN, OTHER = "/w/notes/plan.md", "/w/notes/plan.md.bak"
E = Effect
Row = tuple[Effect, str, tuple[Effect, ...], tuple[Effect, ...]]
#: What is asked about; the words of `always`; what runs unasked afterwards; what is asked again.
TABLE: tuple[Row, ...] = (
    (E("lookup", "https://a.example/x"), "read exactly https://a.example/x", (), (E("lookup", "https://a.example/y"),)),
    (
        E("address", "https://a.example/x"),
        "read every address of a.example",
        (E("address", "https://A.example/y?d=1"),),
        (E("address", "https://b.a.example/x"), E("address", "https://a.example.evil.test/")),
    ),
    (
        E("read", PLAN),
        f"read {PLAN}, whatever it holds then",
        (),
        (E("read", OTHER), E("keys", PLAN), E("write", PLAN)),
    ),
    (E("recall", "x:1"), "search what is kept of x:1", (), (E("recall", "x:2"),)),
    (E("keys", "/w/.env"), "read /w/.env, whatever it holds then", (), (E("keys", "/w/.env.local"),)),
    (
        E("write", PLAN, "+ tea"),
        f"write {PLAN}, whatever the text",
        (E("write", PLAN, "- all of it"),),
        (E("write", OTHER), E("delete", PLAN), E("control", PLAN)),
    ),
    (
        E("control", "/w/AGENTS.md", "+ be brief"),
        "change /w/AGENTS.md, whatever the text",
        (E("control", "/w/AGENTS.md", "+ obey"),),
        (E("control", "/w/SOUL.md"), E("control", "/w/sub/AGENTS.md")),
    ),
    (
        E("memory", "/w/memory/MEMORY.md", "+ - Drinks tea."),
        "note in /w/memory/MEMORY.md, whatever the text",
        (E("memory", "/w/memory/MEMORY.md", "+ - Drinks coffee."),),
        (E("memory", "/w/memory/2026-11-22.md"), E("control", "/w/memory/MEMORY.md")),
    ),
    (
        E("appointment", "remind, tomorrow at 9: call mum"),
        "set exactly remind, tomorrow at 9: call mum",
        (),
        (E("appointment", "remind, tomorrow at 10: call mum"),),
    ),
    (E("delete", PLAN), f"delete {PLAN}, whatever it holds then", (), (E("delete", "/w/notes"), E("write", PLAN))),
    (E("run", "make all"), "run exactly make all", (), (E("run", "make all install"), E("run_open", "make all"))),
    (
        E("run", "sh -c 'x'", "line one\nline two"),
        "run exactly sh -c 'x'",
        (),
        (E("run", "sh -c 'x'", "line one\nrm -rf ."),),
    ),
    (E("run_lossy", "make big"), "run exactly make big", (), (E("run", "make big"), E("run_open", "make big"))),
    (
        E("run_open", "pip install x (network: example.org)"),
        "run exactly pip install x (network: example.org)",
        (),
        (E("run_open", "pip install x (network: example.org, evil.test)"), E("run_open", "pip install x")),
    ),
    (E("send", "terminal:me", "hi"), "send to terminal:me, whatever the text and the files", (), (E("send", "x:1"),)),
    (
        E("send_other", "telegram:7", "hi"),
        "send to telegram:7, whatever the text and the files",
        (E("send_other", "telegram:7", "the whole diary"),),
        (E("send_other", "telegram:77", "hi"), E("send", "telegram:7")),
    ),
    (
        E("service", "doit", '{"q": 1}'),
        "call doit, with any arguments",
        (E("service", "doit", '{"q": 2}'),),
        (E("change", "doit", '{"q": 1}'),),
    ),
    (
        E("change", "doit", '{"to": "ann"}'),
        "call doit, with any arguments",
        (E("change", "doit", '{"to": "mallory"}'),),
        (E("service", "doit"),),
    ),
)


class Doing(FakeTool):
    """Says that it would do what its argument holds."""

    def __init__(self) -> None:
        super().__init__("doit", access="changes")

    def effects(self, arguments: Mapping[str, object], context: ToolContext) -> tuple[Effect, ...]:
        return (msgspec.json.decode(str(arguments["query"]), type=Effect),)


class Owner:
    """Has the agent do things, and answers what is asked about them."""

    def __init__(self, box: Box, model: ScriptedProvider) -> None:
        self.box, self.model = box, model
        box.loop.runner.approvals.channels.add(HERE.channel)
        box.loop.runner.approvals.policy = Policy(rules=[Rule("ask")])  # also what would run unasked

    async def asked(self, effect: Effect, choice: str = "no", *, quoted: str = "") -> ApprovalAsked | None:
        """The question that a call with this effect leads to in a new conversation; it is answered so."""
        box, ended = self.box, len(self.box.of(TurnFinished))
        seen = len(box.of(ApprovalAsked))
        await box.ask("/new")
        self.model.add(Call("doit", {"query": msgspec.json.encode(effect).decode()}), "ok")
        await box.bus.publish_inbound(replace(message("do it"), context=quoted))
        await box.until(lambda: len(box.of(ApprovalAsked)) > seen or len(box.of(TurnFinished)) > ended)
        question = box.of(ApprovalAsked)[seen] if len(box.of(ApprovalAsked)) > seen else None
        if not isinstance(question, ApprovalAsked):
            return None
        await box.ask(f"/approve {question.id} {choice}")
        await box.until(lambda: len(box.of(TurnFinished)) > ended)
        return question


@pytest.mark.parametrize("row", TABLE, ids=[f"{one[0].kind} {one[0].target}" for one in TABLE])
async def test_A21_always_allows_what_its_words_say_on_both_surfaces_and_nothing_else(row: Row) -> None:
    effect, words, allowed, still_asked = row
    model = ScriptedProvider([])
    async with agent(model, Doing()) as box:
        owner = Owner(box, model)
        question = await owner.asked(effect, "always")
        assert question is not None
        terminal = [one.text for one in asked_lines(question)]
        line = f"Always: {words}, until you take it back with /permissions."
        assert line in question_message(question).text.splitlines()
        assert line in terminal
        assert [one.words for one in await box.loop.permissions.all()] == [words]
        for other in (effect, *allowed):
            assert await owner.asked(other) is None, other
        for other in still_asked:
            assert await owner.asked(other) is not None, other
        assert await owner.asked(effect, quoted="From: mallory") is not None, "it was given in a clean conversation"
        assert (await box.loop.permissions.all())[0].tainted is False


def test_the_table_has_every_kind_of_effect_that_can_be_asked_about() -> None:
    assert {row[0].kind for row in TABLE} == {kind for kind, rule in KINDS.items() if rule.clean != "deny"}


async def test_A21_always_beside_content_from_outside_says_so_and_counts_there_too() -> None:
    effect, model = Effect("write", PLAN), ScriptedProvider([])
    async with agent(model, Doing()) as box:
        owner = Owner(box, model)
        question = await owner.asked(effect, "always", quoted="From: mallory")
        assert question is not None
        assert f"write {PLAN}, whatever the text, also with content from outside in the conversation" in question.detail
        assert await owner.asked(effect, quoted="From: eve") is None
        assert await owner.asked(effect) is None
        assert await owner.asked(Effect("write", OTHER), quoted="From: eve") is not None


def test_on_telegram_always_is_no_button_where_its_words_do_not_fit_on_the_screen() -> None:
    call = ToolCall("1", "doit")
    short, long = (ApprovalAsked("1", call, "Do it?", f"{'x' * size}\nAlways: it.") for size in (100, 5_000))
    assert [[label for label, _ in question_message(one).buttons] for one in (short, long)] == [
        ["Once", "Always", "No"],
        ["Once", "No"],
    ]
