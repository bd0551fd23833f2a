"""What nanobot itself says when a turn does not end as hoped: what happened, what it means, what to do."""

from collections.abc import Collection

from nanobot.agent.receipts import NOTES, ClaimKind
from nanobot.agent.turn import Spent, TurnLimits
from nanobot.errors import ProviderError, ProviderErrorKind
from nanobot.providers.base import ProviderInfo
from nanobot.utils.secrecy import mask_url
from nanobot.utils.text import duration
from nanobot.utils.translation import N_, Later, _, told

# English: a model reads it
NUDGE = "Your last answer was empty. Answer the user now, in words."
NO_ANSWER = N_(
    "The model gave an empty answer twice, so there is nothing to show. "
    "Ask again in other words, or choose another model with /model."
)
#: The same where it has thought until its limit.
ONLY_THOUGHT = N_(
    "The model reached its output limit twice before it had said a word. Raise agents.defaults.maxTokens, lower "
    "agents.defaults.reasoningEffort, or choose another model with /model."
)
# English: a model reads it
FORCE_ANSWER = (
    "The same call has given the same again and again. Answer now with what you have, and say what is missing."
)
NOTHING_TO_SUM_UP = N_(
    "There is nothing to sum up here: the conversation is short, is shared with others, or no language model answers."
)
#: Why a call is not run in a question beside the conversation.
ASIDE = N_("This is a question beside the conversation: only public pages are looked at, and nothing is changed.")
#: Why a step is asked for again that claims what was not done.
DOUBTED = N_("The answer said that something was done which no tool had done")
#: What a person reads of a lookup that the brake has stopped.
REPEATED = N_("not looked up again: this turn has done so before")
#: What the model reads in place of a result that nobody saw.
# English: a model reads it
OUTCOME_UNKNOWN = (
    "Error: interrupted, outcome unknown. nanobot stopped while this call ran, and it may have had its effect. "
    "It was not run again. Find out what happened before you repeat it, or ask the user."
)
_LIMITS: dict[Spent, str] = {
    "steps": N_("the step limit of {steps} for one turn is reached"),
    "seconds": N_("the time limit of {seconds:.0f} seconds for one turn is reached"),
    "tokens": N_("the token limit of {tokens} for one turn is reached"),
    "budget": N_("the budget is used up"),
    "repeats": N_("one call has given the same again and again"),
}
_ANOTHER = N_("Ask again in a moment; if it stays, choose another model with /model.")
#: By the kind of a failure: what the model did, and what to do.
_FAILURES: dict[ProviderErrorKind, tuple[str, str]] = {
    "auth": (
        N_("{who} refused the key, so your message was not answered"),
        N_("Check {key}; `nanobot status` shows which key is used."),
    ),
    "quota": (
        N_("{who} says that the account has no credit left, so your message was not answered"),
        N_("Top up the account, or choose another model with /model."),
    ),
    "rate_limit": (
        N_("{who} is refusing requests because too many came in, so your message was not answered"),
        N_("Wait {wait} and ask again, or choose another model with /model."),
    ),
    "overloaded": (
        N_("{who} is overloaded, so your message was not answered"),
        N_("Wait {wait} and ask again, or choose another model with /model."),
    ),
    "server": (N_("{who} failed on its side, so your message was not answered"), _ANOTHER),
    "overflow": (
        N_("The conversation is too long for {who}, also shortened, so your message was not answered"),
        N_("Start a fresh one with /new, or choose a model with a larger context with /model."),
    ),
    "filtered": (
        N_("{who} declined to answer because of its content rules, so your message was not answered"),
        N_("Put it in other words, or use another model."),
    ),
    "not_found": (
        N_("{who} does not know this model or address, so your message was not answered"),
        N_("Choose another with /model, or check agents.defaults.model and providers.{vendor}.apiBase{where}."),
    ),
    "bad_request": (
        N_("{who} did not accept the request, so your message was not answered"),
        N_("Start a fresh conversation with /new, or check agents.defaults (maxTokens, temperature, reasoningEffort)."),
    ),
    "no_tools": (
        N_("{who} takes no tools, and nanobot works with tools, so your message was not answered"),
        N_("Choose a model that takes tools with /model; a server of your own may have to be told to offer them."),
    ),
    "network": (
        N_("{who} cannot be reached, so your message was not answered"),
        N_("Check the network of this machine, its proxy, and providers.{vendor}.apiBase{where}; then ask again."),
    ),
    "timeout": (N_("{who} did not answer in time, so your message was not answered"), _ANOTHER),
    "truncated": (
        N_("{who} broke off in the middle of its answer, so your message was not answered"),
        _ANOTHER,
    ),
    "protocol": (
        N_("{who} sent something that is no answer, so your message was not answered"),
        N_("Check providers.{vendor}.apiBase{where}: no model server speaks there."),
    ),
}
#: Stands above what reminders, watches and tasks have said in a chat.
# English: a model reads it
HEARD = "[Said in this chat since the last message, by what runs at set times; the person has been shown it.]"


def known_sources(numbers: Collection[int]) -> str:
    """Where the results of a lookup stand that is not repeated; empty where it gave none."""
    listed = " ".join(f"[{number}]" for number in sorted(numbers))
    # English: a model reads it
    return f" What it found stands above as {listed}." if listed else ""


def explain(error: ProviderError, info: ProviderInfo) -> str:
    """A failed request in sentences for a person. What is no language model has said it in its own words."""
    if not info.capabilities.language_model:
        return " ".join(str(error).split())
    who = _("{model} ({service})", model=info.model or _("The model"), service=error.provider or info.name)
    detail = " ".join((error.detail or str(error)).split())[:300].rstrip(".。")
    happened, advised = _(_FAILURES[error.kind][0], who=who), told(_advice(error, info))
    if not detail:
        return _("{happened}. {advice}", happened=happened, advice=advised)
    return _("{happened} ({detail}). {advice}", happened=happened, detail=detail, advice=advised)


def remedy(error: ProviderError, info: ProviderInfo) -> tuple[str, Later]:
    """Cause and advice, each without the other: what happened, and which command or key of the configuration helps."""
    cause = error.detail or str(error)
    if error.status and str(error.status) not in cause:
        cause += f" (HTTP {error.status})"
    return cause, _advice(error, info)


def _advice(error: ProviderError, info: ProviderInfo) -> Later:
    return Later(
        _FAILURES[error.kind][1],
        key=error.key_hint or f"providers.{error.provider or info.name}.apiKey",
        wait=duration(error.retry_after) if error.retry_after else Later(N_("a minute")),
        vendor=info.name,
        where=f" ({mask_url(info.base_url, '…')})" if info.base_url else "",
    )


def limit_reason(spent: Spent, limits: TurnLimits, waits: str = "") -> Later:
    """Which limit ended the turn, as a part of a sentence; `waits` is what it waited for then."""
    reason = Later(_LIMITS[spent], steps=limits.max_steps, seconds=limits.max_seconds, tokens=limits.max_tokens)
    return Later(N_("{reason} while {waits}"), reason=reason, waits=waits) if waits else reason


# English: a model reads it
def ask_for_summary(reason: str) -> str:
    """The last request of a turn that ran out of its budget."""
    return (
        f"Stop working: {reason}. Do not call tools. Tell the user in a few sentences what is done, with what was "
        "found so far, and what is left. End with the question whether to continue."
    )


def plain_summary(reason: str, done: tuple[str, ...]) -> str:
    """The ending that the runtime writes itself where the model could not."""
    listed = "\n".join(f"- {hint}" for hint in done) or _("- nothing yet")
    return _(
        "I stopped here: {reason}.\n\nDone so far:\n{done}\n\nThe answer itself is left. Shall I continue?",
        reason=told(reason),
        done=listed,
    )


# English: a model reads it
def ask_for_the_deed(claims: Collection[ClaimKind]) -> str:
    """What the model hears whose answer claims what no call has done."""
    notes = " ".join(NOTES[kind] for kind in claims)
    return (
        f"You say that something was done which no tool has done. The user would read below this answer: {notes} "
        "Do it now with your tools, or answer again and say plainly that it was not done and why."
    )


def in_use(holder: str) -> str:
    """What a person is told who asks in a session in which another process answers just now."""
    return _(
        "{holder} is answering in this conversation right now, so your message was not sent and nothing was changed. "
        "Ask again when it has ended, or begin a fresh conversation with /new.",
        holder=f"{holder[0].upper()}{holder[1:]}",
    )


def no_commands(reason: str) -> str:
    """What a person is told who types a command where none is offered."""
    advice = _('tools.profile "full" and tools.exec switch them on; /tools shows what is off.')
    if not reason:
        return _("No commands run here. {advice}", advice=advice)
    return _("No commands run here ({reason}). {advice}", reason=reason, advice=advice)


def waits_for(holder: str) -> str:
    """What a person is told whose message waits for such a session."""
    return _("This conversation is in use elsewhere ({holder}). I answer as soon as that has ended.", holder=holder)


# English: a model reads it
def edited(name: str, text: str, file: str = "") -> str:
    """What a model reads before the result of a call whose argument `name`, or what it makes of a file, its owner has
    written anew as `text`."""
    if file:
        return f"[The owner changed what you proposed for {file} before it was written. Read it before you go on.]"
    return f"[The owner changed {name} before this ran. It ran with: {text}]"
