"""The model asks the person of the turn, and shows them what is done and what is left."""

import asyncio
import json
from pathlib import Path

from nanobot.agent.tools.own_tools import AskTool, TodoTool
from nanobot.bus.events import (
    Address,
    InboundMessage,
    Notice,
    QuestionAsked,
    QuestionClosed,
    Role,
    Sender,
    TodoChanged,
    TurnFinished,
)
from nanobot.errors import UsageError
from nanobot.messages import UserMessage
from nanobot.providers.scripted import Call, ScriptedProvider, Step, Wait
from tests.agent.harness import HERE, Box, agent, message
from tests.cli.harness import program
from tests.fakes.llm_server import LlmRequest, LlmServer, Reply

ANN = Sender("1", "Ann", "owner")
ASK = Call("ask", {"question": "Which day?", "choices": ["Tuesday", "Friday"]})


async def begin(box: Box) -> QuestionAsked:
    box.loop.runner.approvals.channels.add(HERE.channel)
    await box.say("plan it")
    await box.until(lambda: bool(box.of(QuestionAsked)))
    return box.of(QuestionAsked)[-1]


async def ended(box: Box) -> TurnFinished:
    await box.until(lambda: bool(box.of(TurnFinished)))
    return box.of(TurnFinished)[-1]


async def test_a_choice_of_the_person_reaches_the_model_as_their_own_word() -> None:
    async with agent([(ASK,), "Friday it is."], AskTool()) as box:
        question = await begin(box)
        assert (question.question, question.choices, question.person) == ("Which day?", ("Tuesday", "Friday"), "1")
        assert box.loop.questions.answer(HERE.key, question.id, 2, ANN) == "Answered: Friday"
        assert (await ended(box)).text == "Friday it is."
        assert box.of(QuestionClosed) == [QuestionClosed(question.id, "choice", "Friday")]
    assert box.provider.requests[1].messages[-1].text == "The person chose: Friday"


async def test_nobody_but_the_person_of_the_turn_answers_once_and_with_a_choice_that_is_there() -> None:
    async with agent([(ASK,), "the end"], AskTool()) as box:
        question = await begin(box)
        told = []
        for key, number, by in (
            (question.id, 1, Sender("9", role="owner")),
            (question.id, 3, ANN),
            ("another", 1, ANN),
        ):
            try:
                told.append(box.loop.questions.answer(HERE.key, key, number, by))
            except UsageError as error:
                told.append(str(error))
        assert told == [
            "Only the person who was asked may answer this.",
            "There is no answer 3; choose 1 to 2.",
            "This question is over: it was answered, or its turn has ended.",
        ]
        assert not box.of(QuestionClosed)
        box.loop.questions.answer(HERE.key, question.id, 1, ANN)
        await ended(box)


async def test_what_the_person_writes_instead_is_the_answer_and_is_read_at_the_next_step() -> None:
    async with agent([(ASK,), "Sunday, then."], AskTool()) as box:
        question = await begin(box)
        await box.say("neither, take Sunday")
        assert (await ended(box)).text == "Sunday, then."
        assert box.of(QuestionClosed) == [QuestionClosed(question.id, "words")]
        assert not box.of(Notice)
    said = box.provider.requests[1].messages[-1]
    assert isinstance(said, UserMessage)
    assert "neither, take Sunday" in said.text


async def test_a_question_waits_ten_minutes_and_then_the_model_goes_on_without_an_answer() -> None:
    async with agent([(ASK,), "I took Tuesday."], AskTool()) as box:
        assert box.loop.questions.seconds == 600
        box.loop.questions.seconds = 0.05
        question = await begin(box)
        assert (await ended(box)).text == "I took Tuesday."
        assert box.of(QuestionClosed) == [QuestionClosed(question.id, "nothing")]
    assert "No answer came" in box.provider.requests[1].messages[-1].text


async def test_stop_ends_a_question_and_the_chat_goes_on() -> None:
    async with agent([(ASK,), "here again"], AskTool()) as box:
        await begin(box)
        assert (await box.ask("/stop")).outcome == "completed"
        await box.until(lambda: bool(box.of(TurnFinished)))
        assert not box.loop.questions.waits(HERE.key)
        assert (await box.ask("hello")).text == "here again"


async def test_two_questions_of_one_step_are_asked_one_after_the_other() -> None:
    other = Call("ask", {"question": "Which hour?", "choices": ["nine", "ten"]})
    async with agent([(ASK, other), "Fine."], AskTool()) as box:
        first = await begin(box)
        assert len(box.of(QuestionAsked)) == 1
        box.loop.questions.answer(HERE.key, first.id, 1, ANN)
        await box.until(lambda: len(box.of(QuestionAsked)) == 2)
        box.loop.questions.answer(HERE.key, box.of(QuestionAsked)[1].id, 2, ANN)
        assert (await ended(box)).text == "Fine."


async def test_a_picker_that_is_open_is_left_where_the_model_asks() -> None:
    gate = asyncio.Event()
    async with agent([(Wait(gate), ASK), "Friday it is."], AskTool()) as box:
        box.loop.runner.approvals.channels.add(HERE.channel)
        await box.say("plan it")
        await box.provider.asked(1)
        offering = asyncio.create_task(box.loop.offer(message("/resume"), "Which?", ("a", "b"), picker=True))
        await box.until(lambda: len(box.of(QuestionAsked)) == 1)
        gate.set()
        await box.until(lambda: len(box.of(QuestionAsked)) == 2)
        assert await offering == 0
        box.loop.questions.answer(HERE.key, box.of(QuestionAsked)[1].id, 2, ANN)
        assert (await ended(box)).text == "Friday it is."


async def test_it_is_offered_only_where_somebody_can_answer_and_never_to_guests() -> None:
    provider = ScriptedProvider(after="x")

    async def offered(box: Box, role: Role) -> set[str]:
        await box.loop.process(InboundMessage(Address("terminal", role), Sender("7", role=role), "hi"))
        return {tool.name for tool in provider.requests[-1].tools}

    async with agent(provider, AskTool(), TodoTool()) as box:
        assert await offered(box, "owner") == {"todo"}
        box.loop.runner.approvals.channels.add(HERE.channel)
        assert await offered(box, "owner") == await offered(box, "user") == {"ask", "todo"}
        assert await offered(box, "guest") == set()


async def test_the_list_is_shown_when_it_changes() -> None:
    first = Call("todo", {"items": ["[x] read the report", "[>] write \x1b[31mnotes", "- [ ] send them", "rest"]})
    steps: list[Step] = [
        (first,),
        "half done",
        (Call("todo", {"items": ["[x] all of it"]}),),
        "done",
    ]
    async with agent(ScriptedProvider(steps), TodoTool()) as box:
        for number in range(2):
            await box.ask(f"go on {number}")
    shown = [event.items for event in box.of(TodoChanged)]
    assert [[item.state for item in items] for items in shown] == [["done", "doing", "open", "open"], ["done"]]
    assert [item.text for item in shown[0]] == ["read the report", "write notes", "send them", "rest"]


async def test_one_question_in_a_pipe_shows_the_list_on_stderr_and_offers_no_question(tmp_path: Path) -> None:
    seen: list[LlmRequest] = []

    def reply(request: LlmRequest) -> Reply:
        seen.append(request)
        return Reply(Call("todo", {"items": ["[x] look", "[ ] tell"]})) if len(seen) == 1 else Reply("Told.")

    async with LlmServer(after=reply) as server:
        ran = await program(tmp_path, server).run("agent", "-m", "hi")
    assert (ran.code, ran.out) == (0, "Told.\n")
    assert "☑ look\n☐ tell\n" in ran.err
    assert '"ask"' not in json.dumps(seen[0].body["tools"])
