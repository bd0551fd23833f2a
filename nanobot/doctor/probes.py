"""Live tries of what nanobot talks to: a model, a search engine, a Telegram bot. Each asks once, within a bound.

Setting up uses the same tries as `nanobot doctor`, so both say the same of one thing.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import aclosing, closing
from datetime import UTC, datetime, tzinfo
from pathlib import Path
from typing import Literal

from msgspec.structs import replace
from telegram.error import Conflict, EndPointNotFound, InvalidToken, NetworkError, TelegramError, TimedOut

from nanobot import jsonval
from nanobot.agent.explanations import remedy
from nanobot.channels.telegram.bot import TelegramLine
from nanobot.channels.telegram.send.errors import words_of
from nanobot.channels.telegram.settings import TelegramSettings
from nanobot.doctor.findings import Finding, one_line
from nanobot.errors import NanobotError, ProviderError, SearchError, SearchErrorKind
from nanobot.messages import AssistantMessage, Completed, Text, Usage, UserMessage
from nanobot.money.prices import Price, Prices
from nanobot.providers.base import LLMProvider, ProviderInfo, Request, ToolSpec, opened
from nanobot.providers.http import Deadlines
from nanobot.providers.local import probe
from nanobot.providers.registry import ChoiceRequest
from nanobot.providers.retry import SAID_ALL, RetryPolicy
from nanobot.session.lock import token_lock
from nanobot.utils.text import shorten
from nanobot.utils.translation import N_, _, _n, sentences, told
from nanobot.web.search.base import SearchQuery
from nanobot.web.search.chain import ChainLink, SearchChain
from nanobot.web.usage import UsageLedger

#: Seconds that one try may take.
TRY_SECONDS = 7.0
_MODEL, _CONTEXT, _TOKEN, _UPDATES = "Model", "Local context", "Telegram token", "Telegram updates"
# English: a model reads it
_PING = ToolSpec(
    "ping",
    "Say that tools work.",
    {"type": "object", "properties": {"word": {"type": "string"}}, "required": ["word"]},
)
# English: a model reads it
_QUESTION = Request(
    (UserMessage((Text("Call the tool ping with the word pong. Say nothing else."),)),),
    system="This is a test of whether you can call tools.",
    tools=(_PING,),
    max_tokens=1_000,
)
#: Tokens of context with which an agent works at all, and with which it works well.
_LEAST, _GOOD = 16_000, 64_000
_SEARCH_FIXES: dict[SearchErrorKind, str] = {
    "auth": N_("Check its key (tools.web.search)."),
    "quota": N_("Wait until its allowance is renewed, or set another engine in tools.web.search.provider."),
    "rate_limited": N_("Wait a minute, or set another engine in tools.web.search.provider."),
    "blocked": N_("Set an engine with a key in tools.web.search; nanobot asks the others meanwhile."),
    "network": N_("Check the connection, its address and the proxy (tools.web.proxy)."),
    "not_configured": N_("Give it what it lacks in tools.web.search."),
}
_SEARCH_FIX = N_(
    "nanobot asks the next engine meanwhile; if it stays so, set another one in tools.web.search.provider."
)
#: Characters of a message that is sent as a try.
_MESSAGE_CHARS = 1_000
#: Seconds for which updates are waited for, to see whether somebody else takes them.
_HOLD = 2


def for_a_try(choice: ChoiceRequest, seconds: float = TRY_SECONDS) -> ChoiceRequest:
    """The same choice asked once: no repeats, no other model, no long wait."""
    waits = Deadlines(connect=5.0, first=seconds, idle=seconds)
    return replace(choice, fallbacks=(), retry=RetryPolicy(tries=1), deadlines=waits)


async def try_model(
    choose: Callable[[], Awaitable[LLMProvider]], prices: Prices, seconds: float = TRY_SECONDS
) -> tuple[Finding, ProviderInfo | None]:
    """Ask the model for one call of a tool: whether it answers, can call tools, how fast, and what that cost.

    The second value is who answered or should have; None where there is nobody to ask.
    """
    try:
        provider = await choose()
    except NanobotError as error:
        return Finding(_MODEL, "bad", one_line(str(error)), _("`nanobot onboard` sets one up.")), None
    async with aclosing(provider):
        info = provider.info
        if not info.capabilities.language_model:
            words = _("none ({why}); answers are quotations of what is found", why=told(info.chosen_because))
            return Finding(_MODEL, "warn", words, _("`nanobot onboard` sets one up.")), info
        return await _asked(provider, prices, seconds), info


def _cost(price: Price | None, usage: Usage) -> str:
    if price is None:
        return _("a price that is not known")
    return _("nothing") if price.free else _("{cost:.5f} USD", cost=price.cost(usage))


async def _asked(provider: LLMProvider, prices: Prices, seconds: float) -> Finding:
    info, began = provider.info, time.monotonic()
    name = f"{info.name}/{info.model}"
    try:
        async with asyncio.timeout(seconds):
            message = await _answer(provider)
    except TimeoutError:
        why = (
            _("it may still be loading; try again in a minute")
            if info.local
            else _("the service is slow or does not answer")
        )
        fix = _("Try again, or choose another model (agents.defaults.model).")
        words = _("{name} did not answer within {seconds:.0f} s: {why}", name=name, seconds=seconds, why=why)
        return Finding(_MODEL, "bad", words, fix)
    except ProviderError as error:
        cause, advice = map(told, remedy(error, info))
        way = "" if info.local else _way(error.kind)
        return Finding(
            _MODEL,
            "bad",
            _("{name}: {words}", name=name, words=one_line(cause)),
            _("{sentence}.", sentence=one_line(advice)),
            error.kind,
            way,
        )
    price = prices.price(info.name, info.model, local=info.local, day=datetime.now(UTC).date())
    used = message.usage.input + message.usage.output
    cost = _cost(price, message.usage)
    answered = _(
        "{name} answered in {seconds:.1f} s ({used} tokens, which cost {cost})",
        name=name,
        seconds=time.monotonic() - began,
        used=used,
        cost=cost,
    )
    way = "" if info.local else "reached"
    if any(call.name == _PING.name and not call.error for call in message.calls):
        return Finding(_MODEL, "ok", _("{told} and can call tools", told=answered), network=way)
    words = _("{told}, but did not call the tool that it was asked to call", told=answered)
    fix = _("Without tools it can only talk: choose a model that can call tools (/model lists what is offered).")
    return Finding(_MODEL, "warn", words, fix, network=way)


async def _answer(provider: LLMProvider) -> AssistantMessage:
    async with opened(provider.stream(_QUESTION)) as deltas:
        async for delta in deltas:
            if isinstance(delta, Completed) and not (delta.message.empty and delta.message.finish in SAID_ALL):
                return delta.message
    raise ProviderError("protocol", _("the model returned an empty answer"))


async def try_context(info: ProviderInfo) -> Finding:
    """How much context a server of the owner's really gives its model, which many set far below what it can do.

    Ask after the model was asked: Ollama tells it of a loaded model alone.
    """
    if not info.local:
        return Finding(_CONTEXT, "off", _("the model is not on a machine of yours"))
    servers = await probe({info.name: info.base_url.rstrip("/").removesuffix("/v1")})
    served = next((one.window for server in servers for one in server.models if one.id == info.model), 0)
    known = info.capabilities.window
    if not served:
        return Finding(
            _CONTEXT,
            "off",
            _("{name} does not say how much it gives; nanobot counts on {known:,} tokens", name=info.name, known=known),
        )
    fix = (
        _("Start Ollama with OLLAMA_CONTEXT_LENGTH=64000 in its environment.")
        if info.name == "ollama"
        else _("Load the model with a larger context (64,000 tokens are good).")
    )
    if served < known:
        words = _(
            "{name} gives {model} {served:,} tokens, fewer than the {known:,} that nanobot counts on",
            name=info.name,
            model=info.model,
            served=served,
            known=known,
        )
        fix = sentences(fix, _("Or set agents.defaults.contextWindowTokens to {served}.", served=served))
        return Finding(_CONTEXT, "bad" if served < _LEAST else "warn", words, fix)
    words = _("{name} gives {model} {served:,} tokens", name=info.name, model=info.model, served=served)
    if served < _GOOD:
        words = (
            _("{words}, too few for tools and pages", words=words)
            if served < _LEAST
            else _("{words}, few for long conversations", words=words)
        )
        return Finding(_CONTEXT, "bad" if served < _LEAST else "warn", words, fix)
    return Finding(_CONTEXT, "ok", words)


async def try_search(link: ChainLink, usage: Path | None = None, zone: tzinfo = UTC) -> Finding:
    """Ask one search engine one question, which counts in the file `usage` like any other of its searches."""
    name = f"Search: {link.name}"
    question = SearchQuery("python programming language", limit=3)  # English: an engine reads it
    began = time.monotonic()
    with closing(UsageLedger(usage, zone=zone)) as ledger:
        async with aclosing(SearchChain([link], ledger=ledger)) as chain:
            try:
                reply = (await chain.search(question, timeout=TRY_SECONDS)).reply
            except SearchError as error:
                fix = _(_SEARCH_FIXES.get(error.kind, _SEARCH_FIX))
                return Finding(name, "bad", one_line(str(error)), fix, network=_way(error.kind))
    took = _("{seconds:.1f} s", seconds=time.monotonic() - began)
    if reply.hits:
        return Finding(
            name,
            "ok",
            _n("{number} result in {took}", "{number} results in {took}", len(reply.hits), took=took),
            network="reached",
        )
    return Finding(
        name, "warn", _("it answered in {took} and found nothing, which it should", took=took), _(_SEARCH_FIX)
    )


async def try_bot(settings: TelegramSettings) -> list[Finding]:
    """Whose token it is, and whether the bot's messages come here."""
    token = await try_token(settings)
    if token.state != "ok":
        return [token]
    return [token, await try_updates(settings, ours=token_lock(settings.token).held)]


async def try_token(settings: TelegramSettings) -> Finding:
    """Ask Telegram whose token it is (getMe)."""

    async def asked(line: TelegramLine) -> Finding:
        await line.identify()
        return Finding(_TOKEN, "ok", _("it is that of @{bot}", bot=line.me.username), network="reached")

    return await _asked_of_telegram(_TOKEN, settings, asked)


async def try_updates(settings: TelegramSettings, *, ours: bool) -> Finding:
    """Whether updates of the bot come to nanobot: a webhook that takes them, or another program that polls.

    With `ours` a gateway of this machine polls now, which is not disturbed. Else updates are waited for during a
    moment, which confirms none; a program elsewhere takes its place back at once, and is seen by that.
    """

    async def asked(line: TelegramLine) -> Finding:
        hook = jsonval.obj(await line.call("getWebhookInfo"))
        url, waiting = jsonval.text(hook.get("url")), jsonval.integer(hook.get("pending_update_count"))
        if url and (settings.webhook is None or url != settings.webhook.url):
            words = _("a webhook takes the messages of this bot to {address}", address=url.split("?")[0])
            fix = _("Stop the program behind it; the gateway removes the webhook when it starts.")
            return Finding(_UPDATES, "warn", words, fix)
        if url:
            return _delivered(jsonval.text(hook.get("last_error_message")), waiting)
        if not ours:
            try:
                await line.call("getUpdates", _HOLD + 10.0, timeout=_HOLD, limit=1)  # which confirms none
            except Conflict:
                fix = _("Stop the other one, or give one of them a bot of its own (@BotFather, /newbot).")
                return Finding(_UPDATES, "bad", _("another program uses this token"), fix)
        words = _("nothing else takes the messages of this bot")
        if waiting:
            words = _n("{words}; {number} message waits", "{words}; {number} messages wait", waiting, words=words)
        return Finding(_UPDATES, "ok", words)

    return await _asked_of_telegram(_UPDATES, settings, asked)


def _way(kind: str) -> Literal["reached", "unreached"]:
    return "unreached" if kind in {"network", "timeout"} else "reached"


def _delivered(error: str, waiting: int) -> Finding:
    if error:
        words = _(
            "Telegram cannot deliver to the webhook: {error}; {waiting} wait",
            error=one_line(error),
            waiting=waiting,
        )
        return Finding(
            _UPDATES, "bad", words, _("Check channels.telegram.webhook and what stands before this machine.")
        )
    return Finding(_UPDATES, "ok", _("Telegram delivers to the webhook; {waiting} wait", waiting=waiting))


async def send_to(settings: TelegramSettings, person: str, text: str) -> Finding:
    """Send a message to a person, beside what the gateway sends."""
    name = "Telegram message"

    async def asked(line: TelegramLine) -> Finding:
        await line.call("sendMessage", chat_id=int(person), text=shorten(text, _MESSAGE_CHARS))
        return Finding(name, "ok", _("the answer was sent to you"), network="reached")

    return await _asked_of_telegram(name, settings, asked)


async def _asked_of_telegram(
    name: str, settings: TelegramSettings, ask: Callable[[TelegramLine], Awaitable[Finding]]
) -> Finding:
    """What comes of a try with the bot, in time; or why Telegram was not reached or refused it."""
    async with aclosing(TelegramLine(settings)) as line:
        try:
            async with asyncio.timeout(TRY_SECONDS):
                return await ask(line)
        except (TelegramError, TimeoutError) as error:
            return _telegram_failed(name, error, settings)


def _telegram_failed(name: str, error: TelegramError | TimeoutError, settings: TelegramSettings) -> Finding:
    if isinstance(error, InvalidToken | EndPointNotFound):
        words = _("Telegram refuses the token: it was revoked or mistyped")
        fix = _("Get the current one from @BotFather (/mybots, your bot, API Token) for channels.telegram.token.")
        return Finding(name, "bad", words, fix, network="reached")
    address = settings.base_url.removesuffix("/bot")
    if isinstance(error, TimedOut | TimeoutError):
        words = _("{address} did not answer in time", address=address)
    elif isinstance(error, NetworkError):
        words = _("{address} cannot be reached ({error})", address=address, error=words_of(error))
    else:
        return Finding(
            name, "bad", _("Telegram says: {error}", error=one_line(str(error))), _("Try again in a minute.")
        )
    fix = _("Check the connection of this machine; where Telegram is blocked, set channels.telegram.proxy.")
    return Finding(name, "bad", words, fix, network="unreached")
