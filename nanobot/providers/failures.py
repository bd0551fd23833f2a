"""From a vendor's words to ours: why an answer ended, and one `ProviderError` for any refusal.

Evidence is judged in this order: status, then code and type, then wording. Digits in a text prove nothing
("prompt is too long: 205000 tokens" is no server error). The vendors' words stand in `wordings.json`.
"""

import re
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path

import msgspec
from msgspec import Struct

from nanobot import jsonval
from nanobot.errors import ProviderError, ProviderErrorKind
from nanobot.messages import AssistantMessage, AssistantPart, Finish, Text, ToolCall, Usage
from nanobot.utils.text import one_line, retry_after, squeeze
from nanobot.utils.translation import N_, _


class Origin(Struct, frozen=True):
    """Who failed, for the wording: the vendor, where its key is set, and secrets that must never be shown."""

    name: str
    key_hint: str = N_("the API key")
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
    """The error in a sentence: who, and what happened. Secrets are cut out of `what`."""
    for secret in origin.secrets:
        if secret:
            what = what.replace(secret, "[key]")
    what = one_line(what, 300).rstrip(".。")
    return ProviderError(
        kind,
        _("{service}: {what}.", service=origin.name, what=what),
        status=status,
        code=code,
        retry_after=retry_after,
        partial=partial,
        window=window,
        provider=origin.name,
        detail=what,
        key_hint=_(origin.key_hint),
    )


class _Wordings(Struct, frozen=True):
    """What vendors say. `finish` and `statuses` map our word to theirs, `codes` to patterns of error codes; `quota` is
    how they say that credit is used up, `overflow` that the prompt does not fit and `no_tools` that the model takes no
    tools, with who says it; `window` are patterns of the size that such a refusal names, in tokens."""

    finish: dict[Finish, list[str]]
    statuses: dict[ProviderErrorKind, list[int]]
    codes: dict[ProviderErrorKind, str]
    quota: str
    overflow: dict[str, str]
    no_tools: dict[str, str]
    window: list[str]


@cache
def _wordings() -> _Wordings:
    return msgspec.json.decode(Path(__file__).with_name("wordings.json").read_bytes(), type=_Wordings)


def finish_of(raw: str) -> Finish:
    """The vendors' word for the end, in ours."""
    return next((ours for ours, theirs in _wordings().finish.items() if raw.lower() in theirs), "other")


def finished(
    origin: Origin, parts: Iterable[AssistantPart], raw_finish: str, *, model: str, usage: Usage
) -> AssistantMessage:
    """The whole answer, which may say and ask nothing."""
    content = tuple(part for part in parts if not (isinstance(part, Text) and not part.text))
    finish = finish_of(raw_finish)
    calls = any(isinstance(part, ToolCall) for part in content)
    if calls and finish in {"stop", "other"}:
        finish = "tools"
    answer = AssistantMessage(content, finish, model, usage)
    if answer.empty and finish == "error":
        raise failure(origin, "server", _("the answer ended with {finish!r}", finish=raw_finish))
    return answer


def from_status(origin: Origin, status: int, headers: Mapping[str, str], body: str) -> ProviderError:
    """The error behind an HTTP answer that is not a success."""
    value = jsonval.parse(body)
    error = _error_object(value)
    message = _message(error, value) or (plain(body) if value is None else "") or _("no reason given")
    if 300 <= status < 400 and (place := headers.get("location", "")):
        message = _(
            "it sends on to {place}, which is not followed; if that is right, let apiBase lead there", place=place
        )
    refused = headers.get("x-should-retry", "") == "false"
    return _judge(origin, status, error, message, wait=_retry_after(headers, body), refused=refused)


def plain(body: str) -> str:
    """The beginning of an answer that is no JSON; of a page its title at most."""
    title = re.search(r"<title[^>]*>([^<]*)", body, re.IGNORECASE)
    return squeeze(title[1] if title else "" if body.lstrip().startswith("<") else body)[:200]


def from_event(origin: Origin, value: dict[str, object], partial: str = "") -> ProviderError:
    """The error that a stream carried. Its `code` may be an HTTP status."""
    error = _error_object(value)
    code = jsonval.integer(error.get("code"))
    status = code if 400 <= code < 600 else 0
    result = _judge(origin, status, error, _message(error, value) or _("the stream reported an error"))
    result.partial = partial
    return result


def _error_object(value: object) -> dict[str, object]:
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
    origin: Origin,
    status: int,
    error: dict[str, object],
    message: str,
    *,
    wait: float | None = None,
    refused: bool = False,
) -> ProviderError:
    """The error of its kind. `wait` is what the server asks for, `refused` its word that a new try is of no use."""
    codes = [str(error[name]) for name in ("code", "type", "status") if error.get(name) not in {None, ""}]
    evidence = f"{message} {jsonval.compact(error)}"
    held = status == 402 and wait is not None  # OpenRouter: credit held by a request in flight
    kind = _kind(429 if held else status, codes, evidence, error)
    if refused and kind in {"server", "overloaded", "rate_limit"}:
        kind = "bad_request"
    what = f"HTTP {status}: {message}" if status else message
    window = _window(evidence, error) if kind == "overflow" else None
    return failure(origin, kind, what, status=status, code="".join(codes[:1]), retry_after=wait, window=window)


def _kind(status: int, codes: list[str], evidence: str, error: dict[str, object]) -> ProviderErrorKind:
    says = _wordings()
    if status == 413 or (status not in {401, 429} and status < 500 and _has(says.overflow, evidence)):
        return "overflow"
    if _has(says.no_tools, evidence):
        return "no_tools"
    named = [kind for code in codes for kind, one in says.codes.items() if re.fullmatch(one, code, re.IGNORECASE)]
    if "quota" in named or (status in {400, 402, 403, 429} and _has([says.quota], evidence)):
        return "quota"
    moderated = {"reasons", "flagged_input"} & jsonval.obj(error.get("metadata")).keys()
    if "filtered" in named or (status == 403 and moderated):
        return "filtered"
    if status == 400 and "API_KEY_INVALID" in evidence:
        return "auth"
    specific = [kind for kind in named if kind != "bad_request"]
    if specific and status not in {401, 403, 404}:
        return specific[0]
    general: ProviderErrorKind = "quota" if status == 402 else "bad_request" if 300 <= status < 500 else "server"
    by_status = next((kind for kind, known in says.statuses.items() if status in known), None)
    return by_status or (named[0] if named and not status else general)


def _has(wordings: Iterable[str], evidence: str) -> bool:
    """True where one of the wordings stands there. They are compiled at the first refusal, not at every start."""
    return re.search("|".join(wordings), evidence, re.IGNORECASE | re.DOTALL) is not None


def _window(evidence: str, error: dict[str, object]) -> int | None:
    match = re.search("|".join(_wordings().window), evidence, re.IGNORECASE)
    named = next((int(group) for group in match.groups() if group), None) if match else None
    return jsonval.integer(error.get("n_ctx")) or named


def _retry_after(headers: Mapping[str, str], body: str = "") -> float | None:
    """Seconds the server asks to wait: `retry-after-ms`, `Retry-After`, or words in the body of Google and of Groq."""
    millis = re.fullmatch(r"\d{1,12}(\.\d+)?", headers.get("retry-after-ms", ""))
    said = re.search(r'(?:"retryDelay"\s*:\s*"|try again in )(\d{1,9}(?:\.\d+)?)s\b', body)
    if millis:
        return float(millis[0]) / 1000
    given = headers.get("retry-after", "")
    return retry_after(given) if given or said is None else float(said[1])
