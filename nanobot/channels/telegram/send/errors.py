"""What an error of a call to Telegram means for the message: whether it arrived, and what may be tried next.

Source: the open Bot API server's texts, and what python-telegram-bot makes of them.
"""

from datetime import timedelta
from typing import Literal

import httpx
from telegram.error import (
    BadRequest,
    ChatMigrated,
    Conflict,
    EndPointNotFound,
    Forbidden,
    InvalidToken,
    NetworkError,
    RetryAfter,
    TelegramError,
)

from nanobot.utils.connections import reason_of
from nanobot.utils.logs import scrub
from nanobot.utils.text import one_line

Trouble = Literal[
    "not_sent",
    "maybe_sent",
    "flood",
    "same",
    "format",
    "lost_target",
    "lost_reply",
    "lost_thread",
    "too_long",
    "dead_chat",
    "moved",
    "no_rights",
    "token",
    "refused",
]
"""`not_sent`: it did not leave us; `maybe_sent`: it may have arrived; `same`: it stands there already (a success);
`format`: entities or links are refused; `lost_…`: what it points to is gone; `no_rights`: the bot may
not write there now; `refused`: anything else that is final."""

#: Beginnings of what the server says (lower case, without "bad request: "), by what they mean; the first match counts.
_TEXTS: tuple[tuple[str, Trouble], ...] = (  # English: words of the server
    ("message is not modified", "same"),
    ("message_not_modified", "same"),
    ("message thread not found", "lost_thread"),
    ("topic_closed", "lost_thread"),
    ("topic_deleted", "lost_thread"),
    ("message to be replied not found", "lost_reply"),
    ("replied message not found", "lost_reply"),
    ("reply_message_id_invalid", "lost_reply"),
    ("message to edit not found", "lost_target"),
    ("message_id_invalid", "lost_target"),
    ("message can't be edited", "lost_target"),
    ("message to delete not found", "lost_target"),
    ("message is too long", "too_long"),
    ("text is too long", "too_long"),
    ("message_too_long", "too_long"),
    ("chat not found", "dead_chat"),
    ("rights", "no_rights"),
    ("chat_restricted", "no_rights"),
    ("chat_admin_required", "no_rights"),
    ("chat_write_forbidden", "no_rights"),
    ("chat_send_", "no_rights"),
    ("can't parse", "format"),
    ("entity", "format"),
    ("wrong http url", "format"),
    ("unsupported url", "format"),
)
_TOO_LARGE = "request entity too large"  # English: words of the server
_NOT_SENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout, httpx.ProxyError, httpx.UnsupportedProtocol)


def classify(error: TelegramError | TimeoutError) -> Trouble:
    """The class of an error. Subclasses of `NetworkError` are looked at before it."""
    match error:
        case RetryAfter():
            return "flood"
        case ChatMigrated():
            return "moved"
        case InvalidToken() | EndPointNotFound():
            return "token"
        case Forbidden():
            return "no_rights" if _by_text(error.message) == "no_rights" else "dead_chat"
        case BadRequest():
            return _by_text(error.message)
        case NetworkError() if _cause(error, _NOT_SENT):
            return "not_sent"
        case NetworkError() if _cause(error, (UnicodeError,)) or error.message.casefold().startswith(_TOO_LARGE):
            return "refused"
        case Conflict():
            return "refused"
        case _:  # the connection broke, a server on the way gave up (5xx), or what answered was not Telegram
            return "maybe_sent"


def words_of(error: Exception) -> str:
    """What went wrong, without secrets and names of classes: the text of some errors holds the URL with the token."""
    cause = error if isinstance(error, httpx.HTTPError) else error.__cause__
    said = reason_of(cause) if isinstance(cause, httpx.HTTPError) else str(error)
    return scrub(one_line(said)).rstrip(".")


def penalty_of(error: RetryAfter) -> float:
    """Seconds for which the server wants to hear nothing."""
    wait: timedelta | int = error._retry_after  # noqa: SLF001 - the public property warns about its own change of type
    return wait.total_seconds() if isinstance(wait, timedelta) else float(wait)


def _by_text(text: str) -> Trouble:
    said = text.casefold()
    return next((trouble for words, trouble in _TEXTS if words in said), "refused")


def _cause(error: BaseException, kinds: tuple[type[BaseException], ...]) -> bool:
    """Whether one of `kinds` is behind the error."""
    return isinstance(error.__cause__, kinds)
