"""From a vendor's refusal to one `ProviderError`.

Evidence is judged in this order: status, then code and type, then wording. Digits in a text prove nothing
("prompt is too long: 205000 tokens" is no server error).
"""

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

from msgspec import Struct

from nanobot.errors import ProviderError, ProviderErrorKind
from nanobot.providers import jsonval
from nanobot.utils.text import duration, shorten, squeeze, strip_unsafe

#: Wordings of "the prompt does not fit", each with who says it.
_OVERFLOW = (
    r"context_length_exceeded",  # OpenAI code
    r"maximum context length",  # OpenAI, OpenRouter, vLLM, DeepSeek, Mistral
    r"exceeds the context window",  # OpenAI Responses
    r"prompt is too long",  # Anthropic: "prompt is too long: 205000 tokens > 200000 maximum"
    r"input token count.{0,40}exceeds the maximum number of tokens",  # Gemini
    r"maximum prompt length is",  # xAI
    r"reduce the length of the messages",  # Groq
    r"exceed_context_size_error|exceeds the available context size",  # llama.cpp
    r"greater than the context length",  # LM Studio
    r"exceeded model token limit",  # Kimi
    r"context window exceeds limit",  # MiniMax
    r"too large for model with \d+ maximum context",  # Mistral
    r"range of input length should be",  # Alibaba
    r"prompt exceeds max length",  # Zhipu
    r"input is too long|input tokens exceeded",  # Bedrock
    r"prompt token count of \d+ exceeds the limit of",  # Copilot
    r"total tokens.{0,60}exceed max message tokens",  # VolcEngine
    r"current length is.{0,40}while limit is",  # Cerebras
)
#: Where the refusal names the size of the window, in tokens.
_WINDOW = (
    r"maximum context length (?:is|of) (\d+)|> (\d+) maximum|tokens allowed \((\d+)\)|maximum prompt length is (\d+)"
    r"|available context size \((\d+)|context length of (?:only )?(\d+)|model token limit:? (\d+)|exceeds limit \((\d+)"
    r"|model with (\d+) maximum|should be \[\d+, (\d+)\]|exceeds the limit of (\d+)|limit is (\d+)"
)
_QUOTA_CODES = (
    r"insufficient_quota|billing_hard_limit_reached|credit_balance_exhausted|spend_limit_exceeded"
    r"|organization_usage_limit_exceeded|exceeded_current_quota|arrearage|billing_error|insufficient_balance"
)
_QUOTA_TEXT = r"credit balance is too low|insufficient (?:account )?balance|PerDay"
_FILTER_CODES = r"content_filter|data_inspection_failed|content_policy_violation"
_ZAI_QUOTA = {"1113", *map(str, range(1308, 1312)), *map(str, range(1313, 1322))}
_BY_CODE: dict[str, ProviderErrorKind] = {
    "1302": "rate_limit",
    "1305": "overloaded",
    "1301": "filtered",
    "1261": "overflow",
    "invalid_api_key": "auth",
    "authentication_error": "auth",
    "api_key_invalid": "auth",
    "permission_error": "auth",
    "rate_limit_error": "rate_limit",
    "rate_limit_exceeded": "rate_limit",
    "throttling.ratequota": "rate_limit",
    "overloaded_error": "overloaded",
    "server_is_overloaded": "overloaded",
    "api_error": "server",
    "server_error": "server",
    "internal_server_error": "server",
    "timeout_error": "server",
    "model_not_found": "not_found",
    "not_found_error": "not_found",
    "request_too_large": "overflow",
    "invalid_request_error": "bad_request",
}
_NEXT: dict[ProviderErrorKind, str] = {
    "auth": "The key was refused. Check {key}.",
    "quota": "The account has no credit or its limit is reached. Top it up, or choose another model.",
    "rate_limit": "Too many requests at once. Try again {later}.",
    "overloaded": "The service is overloaded. Try again {later}, or choose another model.",
    "server": "The service failed on its side. Try again {later}.",
    "overflow": "The conversation is larger than the model's context. Shorten it, or start a new one.",
    "filtered": "The service refused the content. Word it differently, or choose another model.",
    "not_found": "The model or the address does not exist there. Check the model's name and the base URL.",
    "bad_request": "The service did not accept the request.",
    "network": "Check the network and the base URL, then try again.",
    "timeout": "Try again, or choose a faster model.",
    "truncated": "The answer broke off. Ask again, or say “continue”.",
    "protocol": "The answer was not what a model server sends. Check the base URL.",
}


class Origin(Struct, frozen=True):
    """Who failed, for the wording: the vendor, where its key is set, and secrets that must never be shown."""

    name: str
    key_hint: str = "the API key"
    secrets: tuple[str, ...] = ()


def failure(
    origin: Origin,
    kind: ProviderErrorKind,
    what: str,
    *,
    status: int = 0,
    code: str = "",
    retry_after: float | None = None,
    partial: str = "",
    window: int | None = None,
) -> ProviderError:
    """The error with its sentence for a person: who, what happened, what to do. Secrets are cut out of `what`."""
    for secret in origin.secrets:
        if secret:
            what = what.replace(secret, "[key]")
    what = shorten(squeeze(strip_unsafe(what)), 300).rstrip(".")
    later = "later" if retry_after is None else f"in {duration(retry_after)}"
    advice = _NEXT[kind].format(key=origin.key_hint, later=later)
    return ProviderError(
        kind,
        f"{origin.name}: {what}. {advice}",
        status=status,
        code=code,
        retry_after=retry_after,
        partial=partial,
        window=window,
        provider=origin.name,
        detail=what,
        key_hint=origin.key_hint,
    )


def from_status(origin: Origin, status: int, headers: Mapping[str, str], body: str) -> ProviderError:
    """The error behind an HTTP answer that is not a success."""
    value = jsonval.parse(body)
    error = error_object(value)
    message = _message(error, value) or (squeeze(body)[:200] if value is None else "") or "no reason given"
    wait = retry_after(headers, body)
    return _judge(origin, status, error, message, wait, headers.get("x-should-retry", ""))


def from_event(origin: Origin, value: dict[str, object], partial: str = "") -> ProviderError:
    """The error that a stream carried. Its `code` may be an HTTP status."""
    error = error_object(value)
    code = error.get("code")
    status = jsonval.integer(code) if isinstance(code, int) and 400 <= code < 600 else 0
    result = _judge(origin, status, error, _message(error, value) or "the stream reported an error", None, "")
    result.partial = partial
    return result


def error_object(value: object) -> dict[str, object]:
    """The object that describes the error, in any of the vendors' shapes."""
    if isinstance(value, list) and value:  # Gemini's compatible endpoint answers with a list
        value = value[0]
    outer = jsonval.obj(value)
    inner = outer.get("error")
    if isinstance(inner, str):
        return {**outer, "message": inner}
    return jsonval.obj(inner) or outer


def _message(error: dict[str, object], value: object) -> str:
    message = jsonval.text(error.get("message")) or jsonval.text(error.get("detail"))
    raw = jsonval.text(jsonval.obj(error.get("metadata")).get("raw"))
    if not message and isinstance(value, dict) and value:
        message = jsonval.text(value.get("message")) or jsonval.compact(value)[:200]
    return f"{message} ({raw[:200]})" if raw else message


def _judge(
    origin: Origin, status: int, error: dict[str, object], message: str, wait: float | None, should_retry: str
) -> ProviderError:
    codes = [str(error[name]) for name in ("code", "type", "status") if error.get(name) not in {None, ""}]
    evidence = jsonval.compact(error)
    kind = _kind(status, codes, f"{message} {evidence}", wait, error)
    if should_retry == "false" and kind in {"server", "overloaded", "rate_limit"}:
        kind = "bad_request"
    what = f"HTTP {status}: {message}" if status else message
    window = _window(f"{message} {evidence}", error) if kind == "overflow" else None
    code = codes[0] if codes else ""
    return failure(origin, kind, what, status=status, code=code, retry_after=wait, window=window)


def _kind(
    status: int, codes: list[str], evidence: str, wait: float | None, error: dict[str, object]
) -> ProviderErrorKind:
    joined = " ".join(codes)
    if status not in {401, 429} and status < 500 and _says("|".join(_OVERFLOW), evidence):
        return "overflow"
    if status == 413:
        return "overflow"
    if _ZAI_QUOTA & set(codes) or _says(_QUOTA_CODES, joined):
        return "quota"
    if status in {400, 402, 403, 429} and _says(_QUOTA_TEXT, evidence):
        return "quota"
    if _says(_FILTER_CODES, joined) or (status == 403 and _moderated(error)):
        return "filtered"
    if status == 400 and "API_KEY_INVALID" in evidence:
        return "auth"
    known = [kind for code in codes if (kind := _BY_CODE.get(code.lower()))]
    specific = [kind for kind in known if kind != "bad_request"]
    if specific and status not in {401, 403, 404}:
        return specific[0]
    by_status = _by_status(status, wait)
    return by_status or (known[0] if known else "server")


def _says(wording: str, evidence: str) -> bool:
    """True where one of the wordings stands there. They are compiled at the first refusal, not at every start."""
    return re.search(wording, evidence, re.IGNORECASE | re.DOTALL) is not None


def _by_status(status: int, wait: float | None) -> ProviderErrorKind | None:
    match status:
        case 401 | 403:
            return "auth"
        case 402:
            return "quota" if wait is None else "rate_limit"  # OpenRouter: credit held by a request in flight
        case 404:
            return "not_found"
        case 429:
            return "rate_limit"
        case 503 | 529:
            return "overloaded"
        case 408 | 409:
            return "server"
    if status >= 500:
        return "server"
    return "bad_request" if status >= 300 else None


def _moderated(error: dict[str, object]) -> bool:
    metadata = jsonval.obj(error.get("metadata"))
    return "reasons" in metadata or "flagged_input" in metadata


def _window(evidence: str, error: dict[str, object]) -> int | None:
    size = jsonval.integer(error.get("n_ctx"))
    if size:
        return size
    match = re.search(_WINDOW, evidence, re.IGNORECASE)
    found = next((group for group in match.groups() if group), "") if match else ""
    return int(found) if found else None


def retry_after(headers: Mapping[str, str], body: str = "") -> float | None:
    """Seconds the server asks to wait: `retry-after-ms`, `Retry-After` (seconds or a date), or words in the body."""
    millis = headers.get("retry-after-ms", "")
    if re.fullmatch(r"\d+(\.\d+)?", millis):
        return float(millis) / 1000
    value = headers.get("retry-after", "").strip()
    if re.fullmatch(r"\d+(\.\d+)?", value):
        return float(value)
    if value:
        try:
            at = parsedate_to_datetime(value)
        except ValueError:
            return None
        at = at if at.tzinfo else at.replace(tzinfo=UTC)
        return max(0.0, (at - datetime.now(UTC)).total_seconds())
    match = re.search(r'"retryDelay"\s*:\s*"(\d+(?:\.\d+)?)s"', body)  # Google
    match = match or re.search(r"try again in (\d+(?:\.\d+)?)s\b", body)  # Groq
    return float(match[1]) if match else None
