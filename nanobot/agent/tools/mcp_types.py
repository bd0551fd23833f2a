"""What travels between the tools of MCP servers and the connection to one; free of the SDK."""

from collections.abc import Callable, Mapping
from typing import Protocol

from msgspec import Struct, field

from nanobot.errors import NanobotError
from nanobot.results import ToolErrorKind
from nanobot.utils.reticent import Reticent


class Endpoint(Reticent, frozen=True):
    """Where a server is. `headers` may hold a login; `proxy` finds the way to a URL and raises `UnusableProxy`."""

    unprinted = ("headers", "proxy")

    url: str
    headers: Mapping[str, str] = field(default_factory=dict)
    proxy: Callable[[str], str | None] = lambda _url: None


class RemoteTool(Struct, frozen=True):
    """A tool as its server lists it. `schema` is the JSON Schema of its arguments.

    `idempotent`: the server declares that it only reads, or that a second call changes nothing more; `read_only`: that
    it only reads.
    """

    name: str
    description: str = ""
    schema: Mapping[str, object] = field(default_factory=dict)
    idempotent: bool = False
    read_only: bool = False


class Said(Struct, frozen=True):
    """What a tool answered; `failed` where the tool itself says that it failed."""

    text: str
    failed: bool = False


class McpFailure(NanobotError):
    """A server could not be asked. `session_lost`: it has forgotten us, and the call was not run."""

    def __init__(self, kind: ToolErrorKind, message: str, *, session_lost: bool = False) -> None:
        super().__init__(message)
        self.kind: ToolErrorKind = kind
        self.session_lost = session_lost


class Connection(Protocol):
    """The way to one server. Raises `McpFailure` only. `timeout` is in seconds."""

    async def tools(self, *, timeout: float) -> tuple[RemoteTool, ...]: ...

    async def call(self, tool: str, arguments: Mapping[str, object], *, timeout: float) -> Said: ...

    async def aclose(self) -> None: ...
