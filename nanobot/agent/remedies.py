"""What the owner of an installation can do about a model that keeps failing; users are told by `words.explain`."""

from nanobot.errors import ProviderError, ProviderErrorKind
from nanobot.providers.base import ProviderInfo

_OTHER = (
    "set another model with /model or agents.defaults.model, or others to fall back on: agents.defaults.fallbackModels"
)
_REMEDIES: dict[ProviderErrorKind, str] = {
    "auth": "Check {key}; `nanobot status` shows which key is used.",
    "quota": "Top up the account of {name}; until then, {other}.",
    "rate_limit": "The account's limit is too low for this use: wait, or {other}.",
    "overloaded": "If it stays, {other}.",
    "server": "If it stays, {other}.",
    "not_found": "Check agents.defaults.model and providers.{name}.apiBase; /model NAME tries another one.",
    "bad_request": "Check agents.defaults (maxTokens, temperature, reasoningEffort), or {other}.",
    "network": "Check the network of this machine, its proxy, and providers.{name}.apiBase{where}.",
    "timeout": "Check whether the service answers at all{where}; if it is merely slow, {other}.",
    "truncated": "If it stays, check the proxy in between, or {other}.",
    "protocol": "Check providers.{name}.apiBase{where}: no model server speaks there.",
}


def remedy(error: ProviderError, info: ProviderInfo) -> tuple[str, str]:
    """Cause and advice, each without the other: what happened, and which command or key of the configuration helps."""
    name = error.provider or info.name
    cause = error.detail or str(error)
    if error.status and str(error.status) not in cause:
        cause += f" (HTTP {error.status})"
    advice = _REMEDIES.get(error.kind, "The log has the details; if it stays, {other}.").format(
        key=error.key_hint or f"providers.{name}.apiKey",
        name=name,
        other=_OTHER,
        where=f" ({info.base_url})" if info.base_url else "",
    )
    return cause, advice
