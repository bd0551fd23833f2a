"""What nanobot itself says when a turn does not end as hoped: what happened, what it means, what to do.

`explain` speaks to whoever asked, `remedy` to the owner of the installation.
"""

from collections.abc import Collection, Mapping

from nanobot.agent.receipts import ClaimKind
from nanobot.agent.turn import Spent, TurnLimits
from nanobot.errors import ProviderError, ProviderErrorKind
from nanobot.providers.base import ProviderInfo
from nanobot.utils.text import duration

NUDGE = "Your last answer was empty. Answer the user now, in words."
NO_ANSWER = (
    "The model gave an empty answer twice, so there is nothing to show. "
    "Ask again in other words, or choose another model with /model."
)
FORCE_ANSWER = (
    "The same call has failed {count} times with the same error and is not going to work. "
    "Answer now with what you have, and say what is missing."
)
OUT_OF_CONTEXT = (
    "The conversation is too long for the model, even after shortening it. "
    "Start a fresh one with /new, or choose a model with a larger context with /model."
)
NOTHING_TO_SUM_UP = (
    "There is nothing to sum up here: the conversation is short, is shared with others, or no language model answers."
)
#: Why a call is not run in a question beside the conversation.
ASIDE = "This is a question beside the conversation: only public pages are looked at, and nothing is changed."
#: Why a step is asked for again that claims what was not done.
DOUBTED = "The answer said that something was done which no tool had done"
#: What a model has to do for what it claims, by the kind of the claim.
_DEEDS: Mapping[ClaimKind, str] = {
    "write": "no file was written",
    "delete": "nothing was deleted",
    "run": "no command was run",
    "send": "nothing was sent",
    "schedule": "nothing was scheduled",
    "remember": "nothing was put into memory",
}
#: What a person reads of a lookup that the brake has stopped.
REPEATED = "not looked up again: this turn has done so before"
#: What the model reads in place of a result that nobody saw.
OUTCOME_UNKNOWN = (
    "Error: interrupted, outcome unknown. nanobot stopped while this call ran, and it may have had its effect. "
    "It was not run again. Find out what happened before you repeat it, or ask the user."
)
_LIMITS: dict[Spent, str] = {
    "steps": "the step limit of {steps} for one turn is reached",
    "seconds": "the time limit of {seconds:.0f} seconds for one turn is reached",
    "tokens": "the token limit of {tokens} for one turn is reached",
    "budget": "the budget is used up",
}
_LOG = "The log has the details; if it stays, {other}."
_OTHER = (
    "set another model with /model or agents.defaults.model, or others to fall back on: agents.defaults.fallbackModels"
)
#: By the kind of a failure: what the model did, what whoever asked may do, and what the owner may do.
_FAILURES: dict[ProviderErrorKind, tuple[str, str, str]] = {
    "auth": ("refused the key", "Check {key}.", "Check {key}; `nanobot status` shows which key is used."),
    "quota": (
        "says that the account has no credit left",
        "Top up the account, or choose another model with /model.",
        "Top up the account of {name}; until then, {other}.",
    ),
    "rate_limit": (
        "is refusing requests because too many came in",
        "Wait {wait} and ask again.",
        "The account's limit is too low for this use: wait, or {other}.",
    ),
    "overloaded": (
        "is overloaded",
        "Wait {wait} and ask again, or choose another model with /model.",
        "If it stays, {other}.",
    ),
    "server": (
        "failed on its side",
        "Ask again in a moment; if it stays, choose another model with /model.",
        "If it stays, {other}.",
    ),
    "overflow": ("cannot take a conversation of this length", "Start a fresh one with /new.", _LOG),
    "filtered": (
        "declined to answer because of its content rules",
        "Put it in other words, or use another model.",
        _LOG,
    ),
    "not_found": (
        "does not know this model or address",
        "Check the model's name, or choose one with /model.",
        "Check agents.defaults.model and providers.{vendor}.apiBase; /model NAME tries another one.",
    ),
    "bad_request": (
        "did not accept the request",
        "Start a fresh conversation with /new, or use another model.",
        "Check agents.defaults (maxTokens, temperature, reasoningEffort), or {other}.",
    ),
    "network": (
        "cannot be reached",
        "Check the network connection and the address, then ask again.",
        "Check the network of this machine, its proxy, and providers.{vendor}.apiBase{where}.",
    ),
    "timeout": (
        "did not answer in time",
        "Ask again; if it stays, choose another model with /model.",
        "Check whether the service answers at all{where}; if it is merely slow, {other}.",
    ),
    "truncated": (
        "broke off in the middle of its answer",
        "Ask again.",
        "If it stays, check the proxy in between, or {other}.",
    ),
    "protocol": (
        "sent something that is no answer",
        "Check the address of the model server, then ask again.",
        "Check providers.{vendor}.apiBase{where}: no model server speaks there.",
    ),
}
#: Stands above what reminders, watches and tasks have said in a chat.
HEARD = "[Said in this chat since the last message, by what runs at set times; the person has been shown it.]"


def known_sources(numbers: Collection[int]) -> str:
    """Where the results of a lookup stand that is not repeated; empty where it gave none."""
    listed = " ".join(f"[{number}]" for number in sorted(numbers))
    return f" What it found stands above as {listed}." if listed else ""


def explain(error: ProviderError, info: ProviderInfo) -> str:
    """A failed request in sentences for a person. What is no language model has said it in its own words."""
    if not info.capabilities.language_model:
        return f"{' '.join(str(error).split()).rstrip('.')}."
    what, advice, _ = _FAILURES[error.kind]
    wait = duration(error.retry_after) if error.retry_after else "a minute"
    who = f"{info.model or 'The model'} ({error.provider or info.name})"
    detail = " ".join((error.detail or str(error)).split())[:300].rstrip(".")
    how = f" ({detail})" if detail else ""
    key = error.key_hint or "the API key in the configuration or in the environment"
    return f"{who} {what}, so your message was not answered{how}. {advice.format(wait=wait, key=key)}"


def remedy(error: ProviderError, info: ProviderInfo) -> tuple[str, str]:
    """Cause and advice, each without the other: what happened, and which command or key of the configuration helps."""
    name = error.provider or info.name
    cause = error.detail or str(error)
    if error.status and str(error.status) not in cause:
        cause += f" (HTTP {error.status})"
    advice = _FAILURES[error.kind][2].format(
        key=error.key_hint or f"providers.{name}.apiKey",
        name=name,
        vendor=info.name,
        other=_OTHER,
        where=f" ({info.base_url})" if info.base_url else "",
    )
    return cause, advice


def limit_reason(spent: Spent, limits: TurnLimits, waits: str = "") -> str:
    """Which limit ended the turn, as a part of a sentence; `waits` is what it waited for then."""
    reason = _LIMITS[spent].format(steps=limits.max_steps, seconds=limits.max_seconds, tokens=limits.max_tokens)
    return reason + (f" while {waits}" if waits else "")


def ask_for_summary(reason: str) -> str:
    """The last request of a turn that ran out of its budget."""
    return (
        f"Stop working: {reason}. Do not call tools. Tell the user in a few sentences what is done, with what was "
        "found so far, and what is left. End with the question whether to continue."
    )


def plain_summary(reason: str, done: tuple[str, ...]) -> str:
    """The ending that the runtime writes itself where the model could not."""
    listed = "\n".join(f"- {hint}" for hint in done) or "- nothing yet"
    return f"I stopped here: {reason}.\n\nDone so far:\n{listed}\n\nThe answer itself is left. Shall I continue?"


def ask_for_the_deed(claims: Collection[ClaimKind]) -> str:
    """What the model hears whose answer claims what no call has done."""
    missing = ", ".join(_DEEDS[kind] for kind in claims)
    return (
        f"The user is told to disregard this answer: you say that something was done, but in this turn {missing}. "
        "Do it now with your tools, or answer again and say plainly that it was not done and why."
    )


def in_use(holder: str) -> str:
    """What a person is told who asks in a session in which another process answers just now."""
    return (
        f"{holder[0].upper()}{holder[1:]} is answering in this conversation right now, so your message was not sent "
        "and nothing was changed. Ask again when it has ended, or begin a fresh conversation with /new."
    )


def no_commands(reason: str) -> str:
    """What a person is told who types a command where none is offered."""
    why = f" ({reason})" if reason else ""
    return f'No commands run here{why}. tools.profile "full" and tools.exec switch them on; /tools shows what is off.'


def waits_for(holder: str) -> str:
    """What a person is told whose message waits for such a session."""
    return f"This conversation is in use elsewhere ({holder}). I answer as soon as that has ended."


def outcome_unknown(hint: str) -> str:
    """What a person is told of a call that broke off with the process. `hint` is its tool hint."""
    return f"nanobot stopped while it did this: {hint}. Whether that took effect is not known; it was not done again."


def done_before_the_end(hint: str) -> str:
    """What a person is told of a call that worked in a turn that broke off before its result could be kept."""
    return f"This was done before the turn broke off: {hint}."


def edited(name: str, text: str, file: str = "") -> str:
    """What a model reads before the result of a call whose argument `name`, or what it makes of a file, its owner has
    written anew as `text`."""
    if file:
        return f"[The owner changed what you proposed for {file} before it was written. Read it before you go on.]"
    return f"[The owner changed {name} before this ran. It ran with: {text}]"
