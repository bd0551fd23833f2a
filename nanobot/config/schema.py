"""Every key of the configuration file, its default and what it means.

The tables in docs/configuration.md, config.example.json and the JSON Schema are made from these classes, so a
description here is what people read. Attributes are snake_case; files write camelCase (or snake_case).
"""

from collections.abc import Callable
from difflib import get_close_matches
from typing import Annotated, Literal, Self
from zoneinfo import ZoneInfo, available_timezones

from pydantic import AfterValidator, BeforeValidator, Field, SecretStr, model_validator

from nanobot.config.section import ApiKey, FreeHeaders, HttpUrl, Identity, Network, ProxyUrl, Seconds, Section
from nanobot.config.web_schema import (
    SEARCH_PROVIDERS,
    FetchExtractConfig,
    FetchServiceConfig,
    SearchProviderConfig,
    SearchProviderName,
    WebFetchConfig,
    WebSearchConfig,
    WebToolsConfig,
)

__all__ = [
    "SEARCH_PROVIDERS",
    "AgentDefaults",
    "AgentsConfig",
    "ChannelsConfig",
    "Config",
    "FetchExtractConfig",
    "FetchServiceConfig",
    "GatewayConfig",
    "McpServerConfig",
    "ModelPresetConfig",
    "ProviderConfig",
    "SearchProviderConfig",
    "SearchProviderName",
    "Section",
    "TelegramConfig",
    "TelegramWebhookConfig",
    "ToolsConfig",
    "TranscriptionConfig",
    "WebFetchConfig",
    "WebSearchConfig",
    "WebToolsConfig",
]

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


Effort = Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"]
ProviderName = Annotated[str, AfterValidator(lambda name: name.strip() or "auto")]


class ModelPresetConfig(Section):
    """A model with what belongs to it, by a name: for `modelPreset`, `fallbackModels`, `--model` and `/model`."""

    model: str = Field("", description="Model name as the provider writes it; empty: the provider's usual one.")
    provider: ProviderName = Field("auto", description="Provider name, or `auto`.")
    max_tokens: int | None = Field(None, ge=1, description="Most tokens of one answer; null: as everywhere.")
    context_window_tokens: int | None = Field(
        None, ge=1000, description="Size of the model's context in tokens; null: what is known of the model."
    )
    temperature: float | None = Field(None, ge=0, le=2, description="Sampling temperature; null: as everywhere.")
    reasoning_effort: Effort | None = Field(None, description="How long the model thinks; null: the model's own.")


class AgentDefaults(Section):
    """How the agent thinks and how much one turn may take."""

    workspace: str = Field(
        DEFAULT_WORKSPACE,
        description="Folder the agent works in; `~/.nanobot` stands for NANOBOT_HOME.",
    )
    model: str = Field("", description="Model name as the provider writes it; empty: the provider's usual one.")
    provider: ProviderName = Field(
        "auto",
        description="Provider name; `auto`: the one the model's name or a key points to, else a local server.",
    )
    model_preset: str = Field(
        "", description="Name in `modelPresets` that takes the place of the model keys here; empty or `default`: none."
    )
    fallback_models: tuple[str | ModelPresetConfig, ...] = Field(
        (), description="What is asked when the first model fails: model names, preset names, or presets themselves."
    )
    max_tokens: int = Field(8192, ge=1, description="Most tokens of one answer.")
    context_window_tokens: int | None = Field(
        None, ge=1000, description="Size of the model's context in tokens; null: what is known of the model."
    )
    temperature: float | None = Field(None, ge=0, le=2, description="Sampling temperature; null: the model's own.")
    reasoning_effort: Effort | None = Field(
        None, description="How long a reasoning model thinks; null: the model's own."
    )
    max_tool_iterations: int = Field(40, ge=1, le=1000, description="Most model requests in one turn.")
    max_tool_result_chars: int = Field(
        60_000, ge=1000, le=10_000_000, description="Most characters of one tool result that the model gets."
    )
    max_turn_seconds: float = Field(600, gt=0, description="Most seconds of one turn.")
    max_turn_tokens: int | None = Field(None, ge=1, description="Most tokens of one turn; null: no limit.")
    timezone: Annotated[str, AfterValidator(check_timezone)] = Field(
        "", description="IANA name such as Europe/Berlin; empty: the system's time zone."
    )


class AgentsConfig(Section):
    """The agent."""

    defaults: AgentDefaults = Field(AgentDefaults(), description="How the agent thinks and what a turn may take.")


class ProviderConfig(Section):
    """Access to one model provider. A key may also stand in the environment, such as OPENAI_API_KEY."""

    api_key: ApiKey = Field(SecretStr(""), description="Key of this provider.")
    api_key_command: tuple[str, ...] = Field(
        (), description="Command (a list of words, run without a shell, 5 s) that prints the key."
    )
    api_base: HttpUrl | None = Field(None, description="Another address for this provider, with its version part.")
    extra_headers: FreeHeaders = Field({}, description="Extra request headers.", repr=False)


def _switch(on: str) -> Callable[[object], object]:
    """Lets a key that has several ways be written as true (`on`) or false (`off`) too."""

    def read(value: object) -> object:
        return (on if value else "off") if isinstance(value, bool) else value

    return read


_Streaming = Annotated[
    Literal["off", "edit", "draft"],
    BeforeValidator(_switch("edit"), json_schema_input_type=Literal["off", "edit", "draft"] | bool),
]
_Hints = Annotated[
    Literal["off", "live", "keep"],
    BeforeValidator(_switch("live"), json_schema_input_type=Literal["off", "live", "keep"] | bool),
]


class TelegramWebhookConfig(Section):
    """Updates brought by Telegram instead of fetched by us. Needs a public https address that leads here."""

    enabled: bool = Field(True, description="Use it where `url` is given.")
    url: HttpUrl = Field("", description="Public address; empty: updates are fetched and no port is opened.")
    host: str = Field("127.0.0.1", min_length=1, description="Address to listen on, behind your reverse proxy.")
    port: int = Field(8443, ge=0, le=65535, description="Port to listen on.")
    secret: SecretStr = Field(SecretStr(""), description="Word that Telegram must send; empty: a new one each start.")


class TranscriptionConfig(Section):
    """Writing down what is said in voice messages: by a program here, else by an endpoint of OpenAI's form.

    Without both, the key of a provider that can do it (openai, groq) is used.
    """

    command: tuple[str, ...] = Field(
        (), description="Program and arguments that print the words of the sound file `{file}`, run without a shell."
    )
    api_base: HttpUrl = Field("", description="Address with its version part, such as http://127.0.0.1:8000/v1.")
    api_key: ApiKey = Field(SecretStr(""), description="Key of this endpoint.")
    model: str = Field("", description="Model for speech; empty: the endpoint's usual one.")
    language: str = Field("", description="Two letters of the language spoken, such as de; empty: found out.")


class TelegramConfig(Section):
    """The Telegram bot."""

    enabled: bool = Field(False, description="Answer on Telegram.")
    token: SecretStr = Field(SecretStr(""), description="Bot token from @BotFather.")
    allow_from: tuple[Identity, ...] = Field(
        (), description='Numeric ids that are answered; `["*"]`: everybody; empty: only the owner, once claimed.'
    )
    proxy: ProxyUrl | None = Field(None, description="Proxy to reach Telegram.", repr=False)
    api_base: HttpUrl = Field("", description="Address of your own Bot API server; empty: Telegram's.")
    api_file_base: HttpUrl = Field("", description="Address of its files; empty: made from apiBase.")
    group_policy: Literal["mention", "open", "off"] = Field(
        "mention", description="In groups that the owner allowed: answer when addressed, always, or never."
    )
    streaming: _Streaming = Field(
        "edit", description="Show the answer while it is written: by edits, as a draft, or not."
    )
    hints: _Hints = Field("live", description="Show what is being done: while it is done, for good, or not.")
    reply_to_message: bool = Field(False, description="Quote the message that is answered.")
    join_seconds: float = Field(
        0, ge=0, le=10, description="Seconds to wait for a further line before a single message is answered."
    )
    group_context: int = Field(
        0, ge=0, le=50, description="Messages of a group, not meant for the bot, that go along as context."
    )
    transcription: TranscriptionConfig = Field(
        TranscriptionConfig(), description="Writing down what is said in voice messages."
    )
    webhook: TelegramWebhookConfig = Field(
        TelegramWebhookConfig(), description="Updates brought by Telegram instead of fetched."
    )


class ChannelsConfig(Section):
    """Where people meet the agent besides the terminal."""

    telegram: TelegramConfig = Field(TelegramConfig(), description="The Telegram bot.")


class McpServerConfig(Section):
    """One MCP server by its address. One with a `command` is not started yet: it is named in /tools and left out."""

    enabled: bool = Field(True, description="Use this server.")
    type: Literal["stdio", "http", "streamableHttp", "sse", "local", "remote"] | None = Field(
        None, description="Kind of connection; null: from `command` or `url`."
    )
    command: str | tuple[str, ...] = Field("", description="Program to start, alone or with its arguments as a list.")
    args: tuple[str, ...] = Field((), description="Arguments of the program.")
    env: dict[str, str] = Field({}, description="Variables of the program.", repr=False)
    cwd: str = Field("", description="Folder the program starts in; empty: the workspace.")
    url: HttpUrl = Field("", description="Address of a remote server.")
    headers: FreeHeaders = Field({}, description="Request headers for a remote server.", repr=False)
    tool_timeout: Seconds = Field(30, description="Seconds one call may take.")
    enabled_tools: tuple[str, ...] = Field(("*",), description='Tools that are offered; `["*"]`: all.')

    @model_validator(mode="after")
    def _names_a_server(self) -> Self:
        if self.enabled and not self.command and not self.url:
            raise ValueError('an MCP server needs "command" (a program to start) or "url" (an address)')
        return self


class ToolsConfig(Section):
    """What the agent can do."""

    web: WebToolsConfig = Field(WebToolsConfig(), description="Searching and reading the web.")
    mcp_servers: dict[str, McpServerConfig] = Field(
        {}, description="MCP servers by name; `mcp` at the top is the same."
    )
    ssrf_whitelist: tuple[Network, ...] = Field(
        (), description="Private address blocks that web_fetch may read, such as 192.168.1.0/24."
    )


class GatewayConfig(Section):
    """The long-running service. It opens no port."""

    concurrency: int = Field(
        256, ge=1, le=10_000, description="Turns that run at the same time, in all chats together; most of them wait."
    )
    ledger: SecretStr = Field(
        SecretStr(""),
        description="`postgresql://…`: the database that many gateways share; empty: the file in the home.",
    )
    health_file: str = Field("", description="Health as JSON, for container checks; empty: gateway.json in the home.")


class Config(Section):
    """The whole configuration. Every key is optional."""

    schema_url: str = Field("", alias="$schema", description="Address of the JSON Schema, for editors.")
    agents: AgentsConfig = Field(AgentsConfig(), description="The agent.")
    model_presets: dict[str, ModelPresetConfig] = Field({}, description="Models with their settings by name.")
    providers: dict[str, ProviderConfig] = Field({}, description="Model providers by name.")
    channels: ChannelsConfig = Field(ChannelsConfig(), description="Where people meet the agent.")
    tools: ToolsConfig = Field(ToolsConfig(), description="What the agent can do.")
    gateway: GatewayConfig = Field(GatewayConfig(), description="The long-running service.")
