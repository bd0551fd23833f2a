"""What the configuration says of the tools; `schema.py` tells what is made from these classes."""

import os
import re
from typing import Annotated, ClassVar, Literal

from msgspec import Meta, field

from nanobot.config.schema_web import WebToolsConfig
from nanobot.config.section import (
    Hidden,
    HttpUrl,
    Kind,
    Network,
    Seconds,
    Section,
    When,
    check_headers,
)
from nanobot.utils.translation import _


def check_command_host(value: str) -> str:
    """A host that what is confined may reach."""
    name = value.strip().lower().rstrip(".")
    if not re.fullmatch(r"\.?[a-z0-9]([a-z0-9.-]{0,250}[a-z0-9])?(:[0-9]{1,5})?", name):
        raise ValueError(_("a host is written as example.org, .example.org for all names below it, or with :port"))
    return name


CommandHost = Annotated[str, Kind(check_command_host)]


def check_server_name(value: str) -> str:
    """The name of an MCP server, as tools, rules and commands write it."""
    if not value or not value.isprintable() or any(map(str.isspace, value)):
        near = "-".join("".join(one if one.isprintable() else " " for one in value).split()) or "files"
        raise ValueError(
            _('the name of an MCP server has no blanks, for rules and commands name it; write "{near}"', near=near)
        )
    return value


ServerName = Annotated[str, Kind(check_server_name)]


class McpServerConfig(Section, frozen=True):
    """One MCP server: a program that is started here (`command`), or an address (`url`)."""

    enabled: Annotated[bool, "Use this server."] = True
    type: Annotated[
        Literal["stdio", "http", "streamableHttp", "sse", "local", "remote"] | None,
        "Kind of connection; null: from `command` or `url`. `sse`: an address that speaks the older way.",
    ] = None
    command: Annotated[str | tuple[str, ...], "Program to start, alone or with its arguments as a list."] = ""
    args: Annotated[tuple[str, ...], "Arguments of the program."] = ()
    sandbox: Annotated[
        bool,
        "Confine the program: it has the system to read, its folder to write, and of the network what `network` names. "
        "Else it has your rights.",
    ] = False
    network: Annotated[
        tuple[CommandHost, ...],
        "Hosts that a confined program reaches, by the proxy that its HTTP_PROXY and HTTPS_PROXY name.",
    ] = ()
    env: Annotated[Hidden, "Variables of the program; of yours it gets PATH, HOME and a few like them."] = field(
        default_factory=dict
    )
    cwd: Annotated[str, "Folder that the program starts in, from the workspace; empty: the workspace."] = ""
    url: Annotated[HttpUrl, "Address of a remote server."] = ""
    headers: Annotated[Hidden, "Request headers for a remote server."] = field(default_factory=dict)
    tool_timeout: Annotated[Seconds, "Seconds one call may take."] = 30
    enabled_tools: Annotated[tuple[str, ...], 'Tools that are offered; `["*"]`: all.'] = ("*",)
    resources: Annotated[bool, "Let the model list and read the server's resources."] = False
    prompts: Annotated[bool, "Offer the server's prompts with `/mcp prompt`."] = False

    def __post_init__(self) -> None:
        check_headers(self.headers, override_auth=True)
        if self.enabled and not self.command and not self.url:
            raise ValueError(_('an MCP server needs "command" (a program to start) or "url" (an address)'))
        if self.command and self.url:
            raise ValueError(
                _(
                    'an MCP server is a program ("command") or an address ("url"), and this is both: leave '
                    "one of them out, or make two servers of it"
                )
            )
        if self.network and not self.sandbox:
            raise ValueError(
                _(
                    '"network" names the hosts of a program that is confined: write "sandbox": true beside '
                    "it, or leave it out, for without a sandbox a program reaches everything"
                )
            )


class PolicyRuleConfig(Section, frozen=True):
    """A rule of the owner: calls of `tool` whose targets all fit `match` are decided so."""

    strict: ClassVar[bool] = True

    tool: Annotated[str, "Name of a tool; `*` and `?` stand for any signs."] = ""
    match: Annotated[
        str, "What the call is about: a host or an address, a path, a command line, a chat; empty: anything."
    ] = ""
    decision: Annotated[Literal["allow", "ask", "deny"] | None, "What is decided; it has to be given."] = None
    tainted: Annotated[bool, "Allow it also while content from outside stands in the conversation."] = False

    def __post_init__(self) -> None:
        if not self.tool.strip() or self.decision is None:
            raise ValueError(
                _(
                    'a rule needs a "tool" and a "decision", such as {"tool": "exec", "match": "git *", '
                    '"decision": "allow"}; "*" means every tool'
                )
            )
        if self.decision == "allow" and not (self.tool.strip("*") or self.match.strip("*")):
            raise ValueError(
                _('a rule that allows everything is no rule; name a tool or a match, or use preset "free"')
            )
        if self.tainted and self.decision != "allow":
            raise ValueError(_('"tainted" belongs to a rule that allows; one that asks or denies always counts'))


class PolicyConfig(Section, frozen=True):
    """Which calls run, which are asked for and which never; docs/security.md has the whole table."""

    taken: ClassVar[When] = "next turn"

    preset: Annotated[
        Literal["careful", "normal", "free"],
        "What is asked while no content from outside stands in the conversation: also writes and commands, only what "
        "can do harm, or nearly nothing.",
    ] = "normal"
    rules: Annotated[
        tuple[PolicyRuleConfig, ...],
        "Rules before the preset, each `{tool, match, decision, tainted}`: the first that fits counts, `deny` always.",
    ] = ()


def check_root(value: str) -> str:
    """A folder whose files may be read, and not the root of all."""
    if not value.strip():
        raise ValueError(_('a root is a "path", such as {"path": "~/notes", "access": "write"}'))
    if not os.path.normpath(value.strip()).strip("/"):
        raise ValueError(
            _(
                '"{strip}" lays the whole machine open; name the folders that are meant, such as "~/notes"',
                strip=value.strip(),
            )
        )
    return value


RootPath = Annotated[str, Kind(check_root)]


class FileRootConfig(Section, frozen=True):
    """A folder besides the workspace."""

    path: Annotated[RootPath, "The folder; `~` is yours."] = ""
    access: Annotated[Literal["read", "write"], "Read what is in it, or also change it."] = "read"

    def __post_init__(self) -> None:
        if not self.path.strip():
            raise ValueError(_('a root is a "path", such as {"path": "~/notes", "access": "write"}'))


class FilesConfig(Section, frozen=True):
    """Files besides the workspace. nanobot's own home and what holds keys is never among them."""

    roots: Annotated[
        tuple[RootPath | FileRootConfig, ...],
        "Folders: a path alone may be read; `path` with `access` says what may be done.",
    ] = ()
    max_read_bytes: Annotated[int, Meta(ge=10_000, le=20_000_000), "Bytes of the largest file that is read."] = (
        20_000_000
    )
    max_snapshot_bytes: Annotated[
        int,
        Meta(ge=10_000_000, le=100_000_000_000),
        "Bytes of files that are kept before a command so that `/undo` can bring them back; the small ones first.",
    ] = 500_000_000


def check_variable(value: str) -> str:
    """The name of one variable of the environment."""
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", value):
        why = _("a variable is named like GITHUB_TOKEN, of letters, digits and _, without its value")
        if value.split()[1:]:
            why = _("{why}; write each as a text of its own", why=why)
        raise ValueError(why)
    return value


EnvName = Annotated[str, Kind(check_variable)]


class ExecConfig(Section, frozen=True):
    """Commands, which the profile `full` offers."""

    enable: Annotated[bool, "Offer commands where `tools.profile` is `full`."] = True
    sandbox: Annotated[
        Literal["auto", "bubblewrap", "landlock", "none"],
        Kind(words={"": "auto", "bwrap": "bubblewrap", True: "auto"}),
        "What confines commands: bubblewrap or Landlock; `auto`: the first of them that works here. Where what is "
        "named does not work, there are no commands. `none`: nothing confines them, and each is asked for.",
    ] = "auto"
    timeout: Annotated[
        int, Meta(ge=0, le=3_600), "Seconds after which a command is ended, 0: an hour; a call may ask for more."
    ] = 120
    max_output_chars: Annotated[
        int, Meta(ge=1_000, le=200_000), "Characters of its output that the model reads at once."
    ] = 10_000
    memory_mb: Annotated[int, Meta(ge=64), "Memory of each of its processes, in MB."] = 4_096
    processes: Annotated[int, Meta(ge=4, le=32_000), "Processes and threads of one command."] = 512
    allowed_env_keys: Annotated[
        tuple[EnvName, ...], "Variables of nanobot's environment that commands see; all others are kept from them."
    ] = ()
    path_append: Annotated[str, "Folders at the end of PATH, with `:` between them."] = ""
    network: Annotated[
        tuple[CommandHost, ...],
        "Hosts that commands reach without asking, while no content from outside stands in the conversation.",
    ] = ()


def check_hook_tool(value: str) -> str:
    """A pattern of names of tools."""
    return value.strip() or "*"


class HookConfig(Section, frozen=True):
    """A command of yours that is told of something as JSON on its standard input."""

    strict: ClassVar[bool] = True

    command: Annotated[tuple[str, ...], "The program and its arguments, run without a shell."] = ()
    tool: Annotated[str, Kind(check_hook_tool), "Name of a tool; `*` and `?` stand for any signs."] = "*"
    timeout: Annotated[Seconds, "Seconds it may take."] = 10

    def __post_init__(self) -> None:
        if not self.command or not self.command[0]:
            raise ValueError(_('a hook needs a "command", such as {"command": ["/home/me/bin/check-call"]}'))


class HooksConfig(Section, frozen=True):
    """Commands of yours around calls and turns; docs/writing-a-plugin.md tells what they are given."""

    before_tool: Annotated[
        tuple[HookConfig, ...], "Before a call that was allowed; exit code 0 lets it run, all others do not."
    ] = ()
    after_tool: Annotated[tuple[HookConfig, ...], "After a call."] = ()
    turn_end: Annotated[tuple[HookConfig, ...], "At the end of a turn."] = ()


class PluginsConfig(Section, frozen=True):
    """Packages that add to nanobot and are installed beside it."""

    enabled: Annotated[tuple[str, ...], "Names of packages; no other is loaded."] = ()
    settings: Annotated[
        dict[str, dict[str, object]], Kind(private="hidden"), "Settings of each package, by its name."
    ] = field(default_factory=dict)


class ToolsConfig(Section, frozen=True):
    """What the agent can do."""

    policy: PolicyConfig = PolicyConfig()
    profile: Annotated[
        Literal["web", "files", "full"],
        "What is offered: the web alone; also files; or everything that there is.",
    ] = "files"
    restrict_to_workspace: Annotated[bool, "Leave `files.roots` out: no other folder than the workspace is used."] = (
        False
    )
    files: FilesConfig = FilesConfig()
    exec: ExecConfig = ExecConfig()
    web: WebToolsConfig = WebToolsConfig()
    mcp_servers: Annotated[dict[ServerName, McpServerConfig], "MCP servers by name; `mcp` at the top is the same."] = (
        field(default_factory=dict)
    )
    ssrf_whitelist: Annotated[
        tuple[Network, ...], "Private address blocks that web_fetch may read, such as 192.168.1.0/24."
    ] = ()
