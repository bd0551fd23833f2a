"""Every key of the configuration file, its default and what it means.

The tables in docs/configuration.md, config.example.json and the JSON Schema are made from these classes, so a
description here is what people read. Attributes are snake_case; files write camelCase (or snake_case).
"""

import re
from difflib import get_close_matches
from typing import Annotated, ClassVar, Literal, get_args
from zoneinfo import ZoneInfo, available_timezones

from msgspec import Meta, field

from nanobot.config.section import (
    ApiKey,
    Hidden,
    HostName,
    HttpUrl,
    Identity,
    KeyCommand,
    Kind,
    Network,
    Positive,
    ProxyUrl,
    Seconds,
    Secret,
    Section,
    check_headers,
)
from nanobot.utils.text import nearest, shorten

DEFAULT_WORKSPACE = "~/.nanobot/workspace"


def check_timezone(value: str) -> str:
    """An IANA zone name, or empty for the system's zone."""
    if not value:
        return value
    try:
        ZoneInfo(value)
    except (ValueError, OSError, KeyError):
        folded = {name.casefold(): name for name in available_timezones()}
        ends = {name.rpartition("/")[2]: whole for name, whole in folded.items()}
        wanted = value.casefold().replace(" ", "_")
        near = get_close_matches(wanted, [*folded, *ends], n=1, cutoff=0.7)
        name = (folded.get(near[0]) or ends.get(near[0])) if near else None
        hint = f'; did you mean "{name}"?' if name else ", such as Europe/Berlin"
        raise ValueError(f"a time zone is written as an IANA name{hint}") from None
    return value


SearchProviderName = Literal[
    "auto",
    "duckduckgo",
    "brave",
    "tavily",
    "searxng",
    "jina",
    "kagi",
    "exa",
    "perplexity",
    "firecrawl",
    "kimi",
    "serper",
    "bocha",
    "parallel",
]
SEARCH_PROVIDERS: tuple[str, ...] = get_args(SearchProviderName)
_OTHER_NAMES = {"": "auto", "ddg": "duckduckgo", "ddgs": "duckduckgo", "searx": "searxng"}
_OTHER_NAMES |= dict.fromkeys(("moonshot", "moonshot_search", "moonshotsearch", "service"), "kimi")


def provider_name(value: str) -> str:
    """A back end's name in its canonical form: lower case, without blanks, empty read as `auto`."""
    name = value.strip().lower()
    return _OTHER_NAMES.get(name, name)


def check_provider(value: str) -> str:
    """The canonical name of a real back end; `auto` is none."""
    known, name = SEARCH_PROVIDERS[1:], provider_name(value)
    if name not in known:
        near = nearest(name, known)
        hint = f' Did you mean "{near}"?' if near else ""
        raise ValueError(f'"{shorten(name, 60)}" is no search back end.{hint} Known are {", ".join(known)}')
    return name


def check_fallback(name: str) -> str:
    """The name of a back end, or of a tool of an MCP server."""
    server, mark, tool = name.removeprefix("mcp:").partition("/")
    if name.startswith("mcp:") and server and mark and tool:
        return name
    return check_provider(name)


BackEnd = Annotated[str, Kind(check_provider)]
Fallback = Annotated[str, Kind(check_fallback)]
Budget = Annotated[int, Meta(ge=0)]


Effort = Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"]
ProviderName = Annotated[str, Kind(lambda name: name.strip() or "auto")]
Window = Annotated[int, Meta(ge=1000)]
Temperature = Annotated[float, Meta(ge=0, le=2)]
Streaming = Annotated[Literal["off", "edit", "draft"], Kind(words={True: "edit", False: "off"})]
Hints = Annotated[Literal["off", "live", "keep"], Kind(words={True: "live", False: "off"})]


class ModelPresetConfig(Section, frozen=True):
    """A model with what belongs to it, by a name: for `modelPreset`, `fallbackModels`, `--model` and `/model`."""

    model: Annotated[str, "Model name as the provider writes it; empty: the provider's usual one."] = ""
    provider: Annotated[ProviderName, "Provider name, or `auto`."] = "auto"
    max_tokens: Annotated[Positive | None, "Most tokens of one answer; null: as everywhere."] = None
    context_window_tokens: Annotated[
        Window | None, "Size of the model's context in tokens; null: what is known of the model."
    ] = None
    temperature: Annotated[Temperature | None, "Sampling temperature; null: as everywhere."] = None
    reasoning_effort: Annotated[Effort | None, "How long the model thinks; null: the model's own."] = None


class AgentDefaults(Section, frozen=True):
    """How the agent thinks and how much one turn may take."""

    workspace: Annotated[str, "Folder the agent works in; `~/.nanobot` stands for NANOBOT_HOME."] = DEFAULT_WORKSPACE
    model: Annotated[str, "Model name as the provider writes it; empty: the provider's usual one."] = ""
    provider: Annotated[
        ProviderName, "Provider name; `auto`: the one the model's name or a key points to, else a local server."
    ] = "auto"
    model_preset: Annotated[
        str, "Name in `modelPresets` that takes the place of the model keys here; empty or `default`: none."
    ] = ""
    fallback_models: Annotated[
        tuple[str | ModelPresetConfig, ...],
        "What is asked when the first model fails: model names, preset names, or presets themselves.",
    ] = ()
    max_tokens: Annotated[Positive, "Most tokens of one answer."] = 8192
    context_window_tokens: Annotated[
        Window | None, "Size of the model's context in tokens; null: what is known of the model."
    ] = None
    temperature: Annotated[Temperature | None, "Sampling temperature; null: the model's own."] = None
    reasoning_effort: Annotated[Effort | None, "How long a reasoning model thinks; null: the model's own."] = None
    max_tool_iterations: Annotated[int, Meta(ge=1, le=1000), "Most model requests in one turn."] = 40
    max_tool_result_chars: Annotated[
        int, Meta(ge=1000, le=10_000_000), "Most characters of one tool result that the model gets."
    ] = 60_000
    max_turn_seconds: Annotated[float, Meta(gt=0), "Most seconds of one turn."] = 600
    max_turn_tokens: Annotated[Positive | None, "Most tokens of one turn; null: no limit."] = None
    timezone: Annotated[
        str, Kind(check_timezone), "IANA name such as Europe/Berlin; empty: the system's time zone."
    ] = ""


class AgentsConfig(Section, frozen=True):
    """The agent."""

    defaults: AgentDefaults = AgentDefaults()


class ProviderConfig(Section, frozen=True):
    """Access to one model provider. A key may also stand in the environment, such as OPENAI_API_KEY."""

    api_key: Annotated[ApiKey, "Key of this provider."] = ""
    api_key_command: KeyCommand = ()
    api_base: Annotated[HttpUrl | None, "Another address for this provider, with its version part."] = None
    extra_headers: Annotated[Hidden, "Extra request headers."] = field(default_factory=dict)
    extra_body: Annotated[
        dict[str, object],
        Kind(private="hidden"),
        "What goes into every request besides; `tools` join those of the agent, and a search among them takes the "
        "place of web_search.",
    ] = field(default_factory=dict)
    thinking_style: Annotated[
        Literal["thinking_type", "enable_thinking", "reasoning_split"] | None,
        "How `reasoningEffort` is said to a server of your own; null: not at all, or as is known.",
    ] = None

    def __post_init__(self) -> None:
        check_headers(self.extra_headers, override_auth=True)


class TelegramWebhookConfig(Section, frozen=True):
    """Updates brought by Telegram instead of fetched by us. Needs a public https address that leads here."""

    enabled: Annotated[
        bool | None, Kind(words={"webhook": True, "polling": False}), "Use it; null: where `url` is given."
    ] = None
    url: Annotated[HttpUrl, "Public address; empty: updates are fetched and no port is opened."] = ""
    host: Annotated[str, Meta(min_length=1), "Address to listen on, behind your reverse proxy."] = "127.0.0.1"
    port: Annotated[int, Meta(ge=0, le=65535), "Port to listen on."] = 8443
    secret: Annotated[Secret, "Word that Telegram must send; empty: a new one each start."] = ""


class TranscriptionConfig(Section, frozen=True):
    """Writing down what is said in voice messages: by a program here, else by an endpoint of OpenAI's form.

    Without both, the key of a provider that can do it (openai, groq) is used.
    """

    enabled: Annotated[bool, "Write voice messages down."] = True
    provider: Annotated[str, "Whose key is used, `openai` or `groq`; empty: the first that has one."] = ""
    command: Annotated[
        tuple[str, ...], "Program and arguments that print the words of the sound file `{file}`, run without a shell."
    ] = ()
    api_base: Annotated[HttpUrl, "Address with its version part, such as http://127.0.0.1:8000/v1."] = ""
    api_key: Annotated[ApiKey, "Key of this endpoint."] = ""
    model: Annotated[str, "Model for speech; empty: the endpoint's usual one."] = ""
    language: Annotated[str, "Two letters of the language spoken, such as de; empty: found out."] = ""


class TelegramConfig(Section, frozen=True):
    """The Telegram bot."""

    enabled: Annotated[bool, "Answer on Telegram."] = False
    token: Annotated[Secret, "Bot token from @BotFather."] = ""
    allow_from: Annotated[
        tuple[Identity, ...], 'Numeric ids that are answered; `["*"]`: everybody; empty: only the owner, once claimed.'
    ] = ()
    proxy: Annotated[ProxyUrl | None, "Proxy to reach Telegram."] = None
    api_base: Annotated[HttpUrl, "Address of your own Bot API server; empty: Telegram's."] = ""
    api_file_base: Annotated[HttpUrl, "Address of its files; empty: made from apiBase."] = ""
    group_policy: Annotated[
        Literal["mention", "open", "off"], "In groups that the owner allowed: answer when addressed, always, or never."
    ] = "mention"
    streaming: Annotated[Streaming, "Show the answer while it is written: by edits, as a draft, or not."] = "edit"
    hints: Annotated[Hints, "Show what is being done: while it is done, for good, or not."] = "live"
    reply_to_message: Annotated[bool, "Quote the message that is answered."] = False
    join_seconds: Annotated[
        float, Meta(ge=0, le=10), "Seconds to wait for a further line before a single message is answered."
    ] = 0
    group_context: Annotated[
        int, Meta(ge=0, le=50), "Messages of a group, not meant for the bot, that go along as context."
    ] = 0
    transcription: TranscriptionConfig = TranscriptionConfig()
    webhook: TelegramWebhookConfig = TelegramWebhookConfig()


class ChannelsConfig(Section, frozen=True):
    """Where people meet the agent besides the terminal."""

    telegram: TelegramConfig = TelegramConfig()


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
        "Confine the program: it has the system to read, its folder to write, and no network. Else it has your rights.",
    ] = False
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
            raise ValueError('an MCP server needs "command" (a program to start) or "url" (an address)')


class SearchProviderConfig(Section, frozen=True):
    """One search back end, so that several keys can stand side by side."""

    api_key: Annotated[ApiKey, "Key of this back end."] = ""
    api_key_command: KeyCommand = ()
    base_url: Annotated[HttpUrl, "Another address for this back end: your own server or a gateway."] = ""
    timeout: Annotated[Seconds | None, "Seconds this back end may take; null: its share of the total."] = None
    headers: Annotated[Hidden, "Extra request headers."] = field(default_factory=dict)
    override_auth: Annotated[bool, "Allow `headers` to replace Authorization, Host and Cookie."] = False
    proxy: Annotated[ProxyUrl | None, "Proxy for this back end instead of tools.web.proxy."] = None
    tool_call_id_header: Annotated[str, "Header that carries the tool call's id; empty: the usual one."] = ""
    budget_per_day: Annotated[Budget | None, "Most requests in one day; null: no limit."] = None
    budget_per_month: Annotated[Budget | None, "Most requests in one month; null: no limit."] = None

    def __post_init__(self) -> None:
        check_headers(self.headers, override_auth=self.override_auth)


class WebSearchConfig(Section, frozen=True):
    """How `web_search` searches. Works without any key: an empty section means DuckDuckGo."""

    provider: Annotated[
        SearchProviderName,
        Kind(provider_name),
        "Back end that is asked first; `auto` takes the first one with a key, else DuckDuckGo.",
    ] = "auto"
    api_key: Annotated[ApiKey, "Key of the back end named by `provider`."] = ""
    api_key_command: KeyCommand = ()
    base_url: Annotated[HttpUrl, "Address of the back end named by `provider`; SearXNG needs it."] = ""
    max_results: Annotated[int, Meta(ge=1, le=20), "Results when the model asks for no number."] = 5
    timeout: Annotated[Seconds, "Seconds for the whole search, all back ends together."] = 30
    fallback: Annotated[
        tuple[Fallback, ...] | None,
        "Back ends asked next when one fails, in order, also `mcp:<server>/<tool>`; "
        "null: every configured one, DuckDuckGo, then the keyless services of Tavily, Exa, Firecrawl and Parallel; "
        "[]: none.",
    ] = None
    providers: Annotated[dict[BackEnd, SearchProviderConfig], "Keys and addresses of several back ends."] = field(
        default_factory=dict
    )
    detail: Annotated[
        Literal["brief", "normal", "full"],
        "How much of each hit the model sees: a line of the snippet, the snippet with date and site, "
        "or also score, type and the engine's own answer.",
    ] = "normal"
    content_budget: Annotated[
        int, Meta(ge=1_000, le=1_000_000), "Characters of page text that all hits of one search share."
    ] = 20_000
    lookup_repeats: Annotated[int, Meta(ge=1, le=20), "How often one turn may repeat the same lookup."] = 2
    ddgs_backend: Annotated[str, "Engine that the ddgs library asks; `auto` mixes several."] = "duckduckgo"


class FetchServiceConfig(Section, frozen=True):
    """A remote service that reads pages: `POST baseUrl {"url": …}`, answered with text. Off without a baseUrl."""

    base_url: Annotated[HttpUrl, "Address of the service; empty: no service."] = ""
    api_key: Annotated[ApiKey, "Key, sent as `Authorization: Bearer`."] = ""
    api_key_command: KeyCommand = ()
    headers: Annotated[Hidden, "Extra request headers."] = field(default_factory=dict)
    tool_call_id_header: Annotated[str, "Header that carries the tool call's id; empty: the usual one."] = ""
    override_auth: Annotated[bool, "Allow `headers` to replace Authorization, Host and Cookie."] = False

    def __post_init__(self) -> None:
        check_headers(self.headers, override_auth=self.override_auth)


class FetchExtractConfig(Section, frozen=True):
    """What of a page is kept."""

    comments: Annotated[bool, "Keep readers' comments."] = True
    tables: Annotated[bool, "Keep tables."] = True
    links: Annotated[
        Literal["keep", "text", "footnotes"], "Links: with their address, their text alone, or numbered at the end."
    ] = "keep"
    images: Annotated[bool, "Keep image addresses; the alternative text is always kept."] = False
    metadata: Annotated[bool, "Start with title, site, author and date where known."] = True


class WebFetchConfig(Section, frozen=True):
    """How `web_fetch` reads a page."""

    enable: Annotated[bool, "Offer web_fetch to the model."] = True
    max_chars: Annotated[int, Meta(ge=100, le=1_000_000), "Characters of one page that the model gets."] = 50_000
    timeout: Annotated[Seconds, "Seconds for one page, all steps together."] = 30
    max_bytes: Annotated[int, Meta(ge=10_000, le=1_073_741_824), "Bytes read of one page, after decompression."] = (
        10_485_760
    )
    retries: Annotated[int, Meta(ge=0, le=5), "Further attempts after 408, 429, 5xx or a reset connection."] = 1
    concurrency: Annotated[int, Meta(ge=1, le=50), "Pages that are read at the same time."] = 5
    order: Annotated[
        Literal["local-first", "reader-first", "service-first"],
        "Who reads first: this machine, the remote reader, or the configured service.",
    ] = "local-first"
    native: Annotated[
        bool,
        "Let the model's own service read public pages first where a `prompt` asks about them "
        "(Anthropic, Gemini, OpenAI).",
    ] = False
    render: Annotated[Literal["text", "json"], "What the model sees: a short header and text, or one JSON object."] = (
        "text"
    )
    allow_private: Annotated[
        Literal["deny", "ask", "allow"], "Addresses of your own network: refuse, ask first, or read."
    ] = "deny"
    allow: Annotated[
        tuple[HostName, ...], "Hosts whose pages are read, each with all names below it; empty: all public ones."
    ] = ()
    deny: Annotated[
        tuple[HostName, ...], "Hosts that are never read, each with all names below it, whatever `allow` says."
    ] = ()
    fake_ip: Annotated[
        bool, "A proxy on this machine (Clash, mihomo) answers DNS with addresses in 198.18.0.0/15: read them."
    ] = False
    user_agent: Annotated[str, "User-Agent for pages; empty: that of a common browser."] = ""
    reader: Annotated[
        Literal["jina", "firecrawl", "none"],
        Kind(words={True: "jina", False: "none"}),
        "Remote reader for pages that need JavaScript; `none` keeps every address at home.",
    ] = "jina"
    reader_key: Annotated[ApiKey, "Key of the remote reader; jina works without."] = ""
    reader_url: Annotated[HttpUrl, "Another address for the remote reader."] = ""
    service: FetchServiceConfig = FetchServiceConfig()
    extract: FetchExtractConfig = FetchExtractConfig()


class WebToolsConfig(Section, frozen=True):
    """Searching and reading the web."""

    enable: Annotated[bool, "Offer web_search and web_fetch to the model."] = True
    proxy: Annotated[
        ProxyUrl | None, "Proxy for both tools; null: what HTTPS_PROXY, ALL_PROXY and NO_PROXY in the environment say."
    ] = None
    privacy: Annotated[
        bool, "Use no remote reader and no remote reading service, and search with the named back end only."
    ] = False
    search: WebSearchConfig = WebSearchConfig()
    fetch: WebFetchConfig = WebFetchConfig()


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
                'a rule needs a "tool" and a "decision", such as '
                '{"tool": "exec", "match": "git *", "decision": "allow"}; "*" means every tool'
            )
        if self.decision == "allow" and not (self.tool.strip("*") or self.match.strip("*")):
            raise ValueError('a rule that allows everything is no rule; name a tool or a match, or use preset "free"')
        if self.tainted and self.decision != "allow":
            raise ValueError('"tainted" belongs to a rule that allows; one that asks or denies always counts')


class PolicyConfig(Section, frozen=True):
    """Which calls run, which are asked for and which never; docs/security.md has the whole table."""

    preset: Annotated[
        Literal["careful", "normal", "free"],
        "What is asked while no content from outside stands in the conversation: also writes and commands, only what "
        "can do harm, or nearly nothing.",
    ] = "normal"
    rules: Annotated[
        tuple[PolicyRuleConfig, ...],
        "Rules before the preset, each `{tool, match, decision, tainted}`: the first that fits counts, `deny` always.",
    ] = ()


class FileRootConfig(Section, frozen=True):
    """A folder besides the workspace."""

    path: Annotated[str, "The folder; `~` is yours."] = ""
    access: Annotated[Literal["read", "write"], "Read what is in it, or also change it."] = "read"

    def __post_init__(self) -> None:
        if not self.path.strip():
            raise ValueError('a root is a "path", such as {"path": "~/notes", "access": "write"}')


class FilesConfig(Section, frozen=True):
    """Files besides the workspace. nanobot's own home and what holds keys is never among them."""

    roots: Annotated[
        tuple[str | FileRootConfig, ...],
        "Folders: a path alone may be read; `path` with `access` says what may be done.",
    ] = ()
    max_read_bytes: Annotated[int, Meta(ge=10_000, le=20_000_000), "Bytes of the largest file that is read."] = (
        20_000_000
    )


def check_command_host(value: str) -> str:
    """A host that commands may reach."""
    name = value.strip().lower().rstrip(".")
    if not re.fullmatch(r"\.?[a-z0-9]([a-z0-9.-]{0,250}[a-z0-9])?(:[0-9]{1,5})?", name):
        raise ValueError("a host is written as pypi.org, .pypi.org for all names below it, or with :port")
    return name


CommandHost = Annotated[str, Kind(check_command_host)]


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
        tuple[str, ...], "Variables of nanobot's environment that commands see; all others are kept from them."
    ] = ()
    path_append: Annotated[str, "Folders at the end of PATH, with `:` between them."] = ""
    network: Annotated[
        tuple[CommandHost, ...],
        "Hosts that commands reach without asking, while no content from outside stands in the conversation.",
    ] = ()


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
    mcp_servers: Annotated[dict[str, McpServerConfig], "MCP servers by name; `mcp` at the top is the same."] = field(
        default_factory=dict
    )
    ssrf_whitelist: Annotated[
        tuple[Network, ...], "Private address blocks that web_fetch may read, such as 192.168.1.0/24."
    ] = ()


class GatewayConfig(Section, frozen=True):
    """The long-running service. It opens no port."""

    concurrency: Annotated[
        int, Meta(ge=1, le=10_000), "Turns that run at the same time, in all chats together; most of them wait."
    ] = 256
    ledger: Annotated[
        Secret, "`postgresql://…`: the database that many gateways share; empty: the file in the home."
    ] = ""
    health_file: Annotated[str, "Health as JSON, for container checks; empty: gateway.json in the home."] = ""


class Config(Section, frozen=True):
    """The whole configuration. Every key is optional."""

    schema_url: Annotated[str, "Address of the JSON Schema, for editors."] = field(default="", name="$schema")
    agents: AgentsConfig = AgentsConfig()
    model_presets: Annotated[dict[str, ModelPresetConfig], "Models with their settings by name."] = field(
        default_factory=dict
    )
    providers: Annotated[dict[str, ProviderConfig], "Model providers by name."] = field(default_factory=dict)
    channels: ChannelsConfig = ChannelsConfig()
    tools: ToolsConfig = ToolsConfig()
    gateway: GatewayConfig = GatewayConfig()
