"""Requests of tools to the model of the turn, apart from its conversation."""

import asyncio

from msgspec.structs import replace

from nanobot.agent.answer_text import AnswerText
from nanobot.agent.talk import Talk
from nanobot.agent.tools.base import Ask, ReadPages
from nanobot.agent.trim import BYTES_PER_TOKEN
from nanobot.errors import ProviderError
from nanobot.messages import AssistantMessage, Completed, Finish, Text, UserMessage
from nanobot.providers.base import Request, opened

#: Seconds for one request of a tool, its retries included.
ASK_SECONDS = 120.0
#: The share of the window that is given out, with room left for a text that has short words.
_SHARE = 5 / 6
_ANSWER_TOKENS = 2_048
#: Tokens kept for the system prompt and the task.
_FRAME_TOKENS = 800
_BROKEN: frozenset[Finish] = frozenset({"filtered", "error", "truncated", "overflow"})


def room_of(talk: Talk) -> int:
    """Bytes of text that one request may hold beside its answer."""
    answer = min(talk.task.settings.max_tokens or _ANSWER_TOKENS, talk.window // 4)
    return max(1_000, int((talk.window - answer - _FRAME_TOKENS) * BYTES_PER_TOKEN * _SHARE))


def asker(talk: Talk, seconds: float = ASK_SECONDS) -> Ask | None:
    """(system, prompt) → the model's answer, counted with the turn; None where no language model answers.

    What it gives raises `ProviderError` when the model fails, takes longer than `seconds` or says nothing, and when the
    tokens of the turn are used up.
    """
    if not talk.task.provider.info.capabilities.language_model:
        return None

    async def ask(system: str, prompt: str) -> str:
        answer = await _asked(talk, system, prompt, (), seconds)
        text = answer.text.strip()
        return f"{text}\n\n[The answer broke off at the model's output limit.]" if answer.finish == "length" else text

    return ask


def page_reader(talk: Talk, seconds: float = ASK_SECONDS) -> ReadPages | None:
    """As `asker`, for a service that reads public pages itself; None where the turn's model has none."""
    if not talk.task.provider.info.capabilities.reads_pages:
        return None

    async def read(system: str, task: str, pages: tuple[tuple[int, str], ...]) -> tuple[str, tuple[str, ...]]:
        answer = await _asked(talk, system, task, pages, seconds)
        return answer.text.strip(), answer.pages

    return read


async def mended(talk: Talk, answer: AnswerText) -> AnswerText:
    """The answer with the marks that its sources do not carry mended by the model, asked once; the same where that is
    no better or cannot be."""
    ask = asker(talk)
    if ask is None:
        return answer
    from nanobot.agent.citations.answer import REPAIR, repair_prompt

    try:
        text = await ask(
            REPAIR, await asyncio.to_thread(repair_prompt, answer.raw, answer.citations, talk.turn.sources)
        )
    except ProviderError:
        return answer
    other = await talk.checked(text)
    better = sum(bool(one.missing) for one in other.citations) < sum(bool(one.missing) for one in answer.citations)
    if not better or not len(answer.raw) / 3 < len(text) < 3 * len(answer.raw):
        return answer
    talk.turn.cite(other.citations, text)
    return other


async def _asked(
    talk: Talk, system: str, prompt: str, pages: tuple[tuple[int, str], ...], seconds: float
) -> AssistantMessage:
    if talk.turn.budget.spent() == "tokens":
        raise ProviderError("quota", "The token limit of this turn is reached.")
    settings = talk.task.settings
    request = Request(
        (UserMessage((Text(prompt),)),),
        system=system,
        max_tokens=settings.max_tokens,
        temperature=settings.temperature,
        reasoning_effort=settings.reasoning_effort,
        pages=pages,
    )
    try:
        async with asyncio.timeout(seconds):
            answer = await _answer(talk, request)
    except TimeoutError:
        raise ProviderError("timeout", f"The model did not answer within {seconds:.0f} seconds.") from None
    talk.turn.count_aside(replace(answer.usage, requests=max(1, answer.usage.requests)))
    if answer.finish in _BROKEN or not answer.text.strip():
        raise ProviderError("truncated", "The model gave no whole answer.", partial=answer.text.strip())
    return answer


async def _answer(talk: Talk, request: Request) -> AssistantMessage:
    async with opened(talk.task.provider.stream(request)) as deltas:
        async for delta in deltas:
            if isinstance(delta, Completed):
                return delta.message
    raise ProviderError("truncated", "The stream ended without an answer.")
