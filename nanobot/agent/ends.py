"""How a turn ends: answered, at a limit, over the budget, or failed. None raises for a failure of the model.

What breaks a turn or a command ends at `safely`.
"""

from collections.abc import Awaitable, Iterator, Sequence
from typing import TYPE_CHECKING, TypeVar

from loguru import logger

from nanobot.agent import explanations
from nanobot.agent.answer_text import checked, mended
from nanobot.agent.conversation import Conversation
from nanobot.agent.receipts import NOTES, ClaimKind, unbacked
from nanobot.agent.turn import Spent, Turn
from nanobot.bus.events import Notice, Outcome, TurnFinished
from nanobot.errors import NanobotError, ProviderError
from nanobot.messages import (
    AssistantMessage,
    Message,
    StepRetried,
    Text,
    ToolCall,
    ToolMessage,
    UserMessage,
)
from nanobot.utils.tool_hints import fold_hints
from nanobot.utils.translation import _, told

if TYPE_CHECKING:
    from nanobot.money.budget import BudgetVerdict

T = TypeVar("T")

#: How often one call may give the same before an answer is forced; a failure counts twice, and a look while nothing is
#: done between.
SAME_RESULTS = 10
#: Seconds at least for the last request of a turn that ran out of its budget.
SUMMARY_SECONDS = 30.0


async def completed(conversation: Conversation, answer: AssistantMessage) -> TurnFinished:
    """End with this answer; that it was cut short is said."""
    if answer.finish == "length":
        text = _("The answer reached the model's output limit. Ask it to go on.")
        await conversation.turn.emit(Notice(text, "warning"))
    elif answer.finish == "filtered":
        await conversation.turn.emit(Notice(_("The model's content rules cut this answer short."), "warning"))
    return await result(conversation, "completed", answer.text.strip())


async def doubt(turn: Turn, claims: tuple[ClaimKind, ...]) -> None:
    """The answer says that something was done which no call has done: the model is asked once more."""
    turn.void()
    await turn.emit(StepRetried(_(explanations.DOUBTED)))
    await turn.add(UserMessage((Text(explanations.ask_for_the_deed(claims)),), kind="notice"))


async def out_of(conversation: Conversation, spent: Spent) -> TurnFinished:
    """End at a limit: the model sums up, or answers with what it has where one call gives the same again and again;
    where it cannot, the runtime tells what was done."""
    turn = conversation.turn
    reason = explanations.limit_reason(spent, turn.limits, turn.overdue)
    text = ""
    if not (turn.overdue and turn.silent):  # what hangs would hang again
        asked = explanations.FORCE_ANSWER if spent == "repeats" else explanations.ask_for_summary(reason)
        text = await conversation.conclude(asked, max(SUMMARY_SECONDS, turn.remaining))
    if text and turn.overdue:
        said = told(reason)
        await turn.warn(_("{sentence}.", sentence=f"{said[0].upper()}{said[1:]}"))
    outcome: Outcome = "completed" if text and spent == "repeats" else "out_of_steps"
    if not text:
        text = explanations.plain_summary(reason, fold_hints(turn.doing))
        turn.answer()
        turn.messages.append(AssistantMessage((Text(text),), "other"))
    return await result(conversation, outcome, text)


async def over_budget(conversation: Conversation, verdict: "BudgetVerdict") -> TurnFinished:
    """End because the budget is used up: what was begun is summed up, what was not is left alone."""
    turn = conversation.turn
    if not turn.steps:
        turn.close("budget")
        if turn.message.cause in ("schedule", "watch"):  # it has not failed, and says so once a day
            return turn.finished("out_of_steps", "" if verdict.told else verdict.text)
        return turn.finished("failed", "", verdict.text, temporary=True)
    await turn.warn(verdict.text)
    return await out_of(conversation, "budget")


def failed(conversation: Conversation, sentence: str, error: ProviderError | None = None) -> TurnFinished:
    """End in failure with a legal history; the text that came before the failure is kept."""
    turn = conversation.turn
    partial = turn.shown
    turn.close("failure")
    temporary = error is not None and error.retryable
    return turn.finished("failed", partial, sentence, temporary=temporary, citations=conversation.text.citations)


async def result(conversation: Conversation, outcome: Outcome, text: str) -> TurnFinished:
    """The end of a turn with the marks of its answer judged; where they may still change, mended once."""
    turn = conversation.turn
    answer = await checked(turn, conversation.text, text)
    may_change = turn.message.revisable and turn.provider.info.capabilities.language_model
    if may_change and outcome == "completed" and any(one.missing for one in answer.citations):
        answer = await mended(turn, answer, conversation.ask_aside)
    turn.cite(answer.citations)
    turn.unbacked = tuple(_(NOTES[kind]) for kind in claims_more(turn, answer.shown))
    return turn.finished(outcome, answer.shown.strip(), citations=answer.citations)


def claims_more(turn: Turn, answer: str) -> tuple[ClaimKind, ...]:
    """What an answer claims that no call of the turn has done.

    What is no language model claims nothing; and where nobody knows what a call has done, nobody can doubt it.
    """
    judged = turn.provider.info.capabilities.language_model and not any(unknown(turn.messages))
    return unbacked(answer, turn.done) if judged else ()


def unknown(messages: Sequence[Message]) -> Iterator[ToolCall]:
    """The calls whose outcome was called unknown."""
    calls: dict[str, ToolCall] = {}
    for message in messages:
        if isinstance(message, AssistantMessage):
            calls = {call.id: call for call in message.calls}
        elif isinstance(message, ToolMessage) and message.text == explanations.OUTCOME_UNKNOWN:
            yield from filter(None, [calls.get(message.call_id)])


async def safely(work: Awaitable[T]) -> T | str:
    """The turn boundary: what goes wrong in a turn or a command becomes a sentence and ends nothing else."""
    try:
        return await work
    except NanobotError as error:
        return str(error)
    except Exception as error:  # noqa: BLE001 - a broken turn must not take the others with it
        logger.opt(exception=error).error("a turn or a command failed")  # English: the log
        broken = type(error).__name__
        return _("Something in nanobot broke ({error}). The log has the details. Ask again.", error=broken)
