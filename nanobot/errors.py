"""The deliberate exceptions of nanobot, one per reaction.

::

    NanobotError                  anything raised on purpose; its text is fit for a person
    ├── ConfigError               the configuration cannot be used: print every problem, exit 2
    ├── UsageError                the command line is wrong: print it, exit 2
    │   ├── QuestionOver          nobody asks this any more: its buttons go
    │   └── WrongAddress          a login waits on for the right one: it is asked for again
    ├── TemporaryError            the world is in the way and may not be tomorrow: exit 75
    ├── SkipTool                  a tool cannot be offered: leave it out, show the reason in /status
    ├── ProviderError             the only thing a language model provider raises
    ├── SearchError               the only thing a search back end raises
    ├── FetchError                the only thing a page reader raises
    │   └── AddressBlocked        the guard refused an address: never retried another way
    ├── PathError                 a file may not be reached or changed: told, and nothing is done
    │   ├── MissingFile           there is no such file
    │   ├── DiskError             the disk refuses it, and may not tomorrow: what was to be done stays to be done
    │   └── EditMiss              the text that was to be replaced is not there, or more than once
    ├── StoreError                durable state cannot be read or written: stop before anything is overwritten
    └── ChannelError              a channel cannot start or go on

Tools never raise to the loop: they return a `ToolResult` with an error kind.
"""

from typing import Literal, NamedTuple

from nanobot.utils.translation import sentences

ProviderErrorKind = Literal[
    "auth",
    "quota",
    "rate_limit",
    "overloaded",
    "server",
    "overflow",
    "filtered",
    "not_found",
    "bad_request",
    "no_tools",
    "network",
    "timeout",
    "truncated",
    "protocol",
]
SearchErrorKind = Literal[
    "auth",
    "quota",
    "rate_limited",
    "bad_request",
    "blocked",
    "unavailable",
    "timeout",
    "network",
    "bad_payload",
    "not_configured",
]
FetchErrorKind = Literal[
    "invalid_input",
    "blocked",
    "denied",
    "http_status",
    "network",
    "timeout",
    "too_large",
    "unsupported_type",
    "no_content",
    "login_wall",
    "service",
    "rate_limited",
    "auth",
]


def plain_reason(error: Exception) -> str:
    """What an error says, of the system without its number and the path."""
    return (isinstance(error, OSError) and error.strerror) or str(error)


class NanobotError(Exception):
    """Base of everything raised on purpose. `str(error)` is a sentence for a person: what, where, what to do."""


class ConfigProblem(NamedTuple):
    """One thing wrong in a configuration file.

    `line` counts from 1 and is 0 where no line is known; `path` is the key path such as `tools.web.search.provider`.
    """

    file: str
    line: int
    path: str
    message: str
    hint: str = ""

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}" if self.line else self.file
        where = f"{place}: {self.path}: " if self.path else f"{place}: "
        return f"{where}{sentences(self.message, self.hint)}"


class ConfigError(NanobotError):
    """The configuration cannot be used. Carries every problem found, not only the first."""

    def __init__(self, *problems: ConfigProblem) -> None:
        self.problems = problems
        super().__init__("\n".join(str(problem) for problem in problems))


class UsageError(NanobotError):
    """The command line or a command's arguments are wrong."""


class QuestionOver(UsageError):
    """A question was answered already, or nobody asks it any more."""


class WrongAddress(UsageError):
    """This is not the address at which the browser of a login ends; the login waits on."""


class TemporaryError(NanobotError):
    """Trying again later may work: no network, a server that is down."""


class SkipTool(NanobotError):
    """Raised while a tool is built: it is not offered, and `str(error)` is the reason shown in /status."""


class ProviderError(NanobotError):
    """A model request failed.

    `status` is the HTTP status or 0. `retry_after` is in seconds, None when the server named no time. `partial` is the
    text streamed before the failure. `window` is the context size in tokens when the error named it. `detail` is what
    happened without who failed and what to do, for a sentence of one's own; `key_hint` says where the key is set.
    """

    def __init__(
        self,
        kind: ProviderErrorKind,
        message: str,
        *,
        status: int = 0,
        code: str = "",
        retry_after: float | None = None,
        partial: str = "",
        window: int | None = None,
        provider: str = "",
        detail: str = "",
        key_hint: str = "",
    ) -> None:
        super().__init__(message)
        self.kind: ProviderErrorKind = kind
        self.status = status
        self.code = code
        self.retry_after = retry_after
        self.partial = partial
        self.window = window
        self.provider = provider
        self.detail = detail
        self.key_hint = key_hint

    @property
    def brief(self) -> str:
        """Who failed and how, without advice: for a line that says what happens next."""
        return f"{self.provider}: {self.detail}" if self.provider and self.detail else str(self)

    @property
    def retryable(self) -> bool:
        """True where the same request may succeed if it is sent again."""
        return self.kind in {"rate_limit", "overloaded", "server", "network", "timeout", "truncated", "protocol"}


class SearchError(NanobotError):
    """A search back end could not answer. `retry_after` is in seconds."""

    def __init__(
        self, kind: SearchErrorKind, message: str, *, status: int = 0, retry_after: float | None = None
    ) -> None:
        super().__init__(message)
        self.kind: SearchErrorKind = kind
        self.status = status
        self.retry_after = retry_after


class FetchError(NanobotError):
    """A page could not be read. `phase` names the step: dns, connect, tls, send, read, extract.

    `attempts` are the readers that were asked before, each with `step`, `outcome` and `seconds`.
    """

    def __init__(
        self,
        kind: FetchErrorKind,
        message: str,
        *,
        status: int = 0,
        host: str = "",
        phase: str = "",
        retry_after: float | None = None,
        attempts: tuple[dict[str, object], ...] = (),
    ) -> None:
        super().__init__(message)
        self.kind: FetchErrorKind = kind
        self.attempts = attempts
        self.status = status
        self.host = host
        self.phase = phase
        self.retry_after = retry_after


class AddressBlocked(FetchError):
    """The guard refused a URL or an address. Nothing may try the same target another way.

    `invented`: a proxy that answers DNS made the address up.
    """

    def __init__(self, message: str, *, host: str = "", invented: bool = False) -> None:
        super().__init__("blocked", message, host=host, phase="dns")
        self.invented = invented


class PathError(NanobotError):
    """A file may not be reached, or cannot be read or changed; nothing was."""


class MissingFile(PathError):
    """There is no file of that name."""


class DiskError(PathError):
    """The disk or its rights refuse a change, as a full one does; nothing was changed, and it can be tried again."""


class EditMiss(PathError):
    """A piece of a file that was to be replaced is not there, or is there more than once."""


class StoreError(NanobotError):
    """Durable state cannot be read or written; nothing was overwritten."""


class ChannelError(NanobotError):
    """A channel cannot start or cannot go on until somebody acts."""


def innermost(error: BaseException) -> BaseException:
    """The first real error of a group of tasks that ended together."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
