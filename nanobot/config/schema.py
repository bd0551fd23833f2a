"""Every key of the configuration file, its default and what it means.

The tables in docs/configuration.md, config.example.json and the JSON Schema are made from these classes, so a
description here is what people read. Attributes are snake_case; files write camelCase (or snake_case).
"""

from difflib import get_close_matches
from typing import Annotated, ClassVar, Literal
from zoneinfo import ZoneInfo, available_timezones

from msgspec import Meta, field

from nanobot.config.schema_tools import HooksConfig, PluginsConfig, ToolsConfig
from nanobot.config.section import (
    ApiKey,
    Hidden,
    HttpUrl,
    Identity,
    KeyCommand,
    Kind,
    Positive,
    ProxyUrl,
    Secret,
    Section,
    When,
    check_headers,
)
from nanobot.utils.translation import _

DEFAULT_WORKSPACE = "~/.nanobot/workspace"


def zone_near(text: str) -> str:
    """The zone whose city is written nearly so; empty where none is, for a city that merely sounds alike is far off."""
    names = sorted(available_timezones(), key=lambda name: (name.count("/") == 1, name))
    cities = {name.rpartition("/")[2].casefold(): name for name in names if "/" in name and name[:4] != "Etc/"}
    near = get_close_matches(text.casefold().replace(" ", "_").rpartition("/")[2], cities, n=1, cutoff=0.81)
    return cities[near[0]] if near else ""


def check_timezone(value: str) -> str:
    """An IANA zone name, or empty for the system's zone."""
    if not value:
        return value
    try:
        ZoneInfo(value)
    except (ValueError, OSError, KeyError):
        why = (
            _('a time zone is written as an IANA name; did you mean "{name}"?', name=name)
            if (name := zone_near(value))
            else _("a time zone is written as an IANA name, such as Europe/Berlin")
        )
        raise ValueError(why) from None
    return value


Effort = Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"]
ProviderName = Annotated[str, Kind(lambda name: name.strip() or "auto")]
Window = Annotated[int, Meta(ge=1000)]
Temperature = Annotated[float, Meta(ge=0, le=2)]
Streaming = Annotated[Literal["off", "edit", "draft"], Kind(words={True: "edit", False: "off"}, taken="next turn")]
Hints = Annotated[Literal["off", "live", "keep"], Kind(words={True: "live", False: "off"}, taken="next turn")]


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
    fallback_models: Annotated[
        tuple[str, ...], "Names of models or presets that are asked when this one fails; empty: those of the defaults."
    ] = ()


class AgentDefaults(Section, frozen=True):
    """How the agent thinks and how much one turn may take."""

    taken: ClassVar[When] = "next turn"

    workspace: Annotated[
        str, Kind(taken="next start"), "Folder the agent works in; `~/.nanobot` stands for NANOBOT_HOME."
    ] = DEFAULT_WORKSPACE  # files, memory and skills are open there
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
    max_turn_tokens: Annotated[Positive | None, "Most tokens of one turn; null: 2,000,000."] = None
    timezone: Annotated[
        str, Kind(check_timezone, taken="next start"), "IANA name such as Europe/Berlin; empty: the system's time zone."
    ] = ""
    language: Annotated[
        Literal["auto", "en", "zh"],
        "Language of nanobot's own sentences; `auto`: that of each person's Telegram, in a terminal that of LANG.",
    ] = "auto"


class SubagentsConfig(Section, frozen=True):
    """Helpers: parts of the work that the agent gives away, each with a context of its own."""

    taken: ClassVar[When] = "next turn"

    max: Annotated[int, Meta(ge=0, le=64), "Helpers that run at the same time, others wait; 0: there are none."] = 4
    max_steps: Annotated[int, Meta(ge=1, le=1000), "Most model requests of one helper."] = 20
    max_seconds: Annotated[float, Meta(gt=0), "Most seconds of one helper."] = 300
    max_tokens: Annotated[Positive, "Most tokens of one helper, in and out."] = 400_000


class AgentsConfig(Section, frozen=True):
    """The agent."""

    defaults: AgentDefaults = AgentDefaults()
    subagents: SubagentsConfig = SubagentsConfig()


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
        tuple[Identity, ...],
        Kind(taken="next turn"),
        'Numeric ids that are answered; `["*"]`: everybody; empty: only the owner, once claimed.',
    ] = ()
    proxy: Annotated[ProxyUrl | None, "Proxy to reach Telegram."] = None
    api_base: Annotated[HttpUrl, "Address of your own Bot API server; empty: Telegram's."] = ""
    api_file_base: Annotated[HttpUrl, "Address of its files; empty: made from apiBase."] = ""
    group_policy: Annotated[
        Literal["mention", "open", "off"],
        Kind(taken="next turn"),
        "In groups that the owner allowed: answer when addressed, always, or never.",
    ] = "mention"
    streaming: Annotated[Streaming, "Show the answer while it is written: by edits, as a draft, or not."] = "edit"
    hints: Annotated[Hints, "Show what is being done: while it is done, for good, or not."] = "live"
    reply_to_message: Annotated[bool, Kind(taken="next turn"), "Quote the message that is answered."] = False
    join_seconds: Annotated[
        float, Meta(ge=0, le=10), "Seconds to wait for a further line before a single message is answered."
    ] = 0
    group_context: Annotated[
        int, Meta(ge=0, le=50), "Messages of a group, not meant for the bot, that go along as context."
    ] = 0
    transcription: TranscriptionConfig = TranscriptionConfig()
    webhook: TelegramWebhookConfig = TelegramWebhookConfig()


class TerminalConfig(Section, frozen=True):
    """The conversation in the terminal."""

    taken: ClassVar[When] = "next terminal"  # which asks at its start, and nothing else does

    notify: Annotated[
        Literal["bell", "osc9", "off"],
        "Call after long turns and for questions: by the bell, by a notification of the terminal (OSC 9), or not.",
    ] = "bell"
    notify_after: Annotated[float, Meta(ge=0), "Seconds from which on a turn is long."] = 20


class ChannelsConfig(Section, frozen=True):
    """Where people meet the agent."""

    terminal: TerminalConfig = TerminalConfig()
    telegram: TelegramConfig = TelegramConfig()


Dollars = Annotated[float, Meta(ge=0)]


class PersonBudgetConfig(Section, frozen=True):
    """Caps for each person who is not the owner; `/people WHO cap` gives one of them other ones."""

    taken: ClassVar[When] = "next turn"

    per_day: Annotated[Dollars | None, "Most USD in a day; null: no cap."] = 5
    per_month: Annotated[Dollars | None, "Most USD in a month; null: no cap."] = 50


class BudgetConfig(Section, frozen=True):
    """What may be spent on models. A cap stops the next request to one that costs money; docs/money.md tells how."""

    taken: ClassVar[When] = "next turn"

    per_day: Annotated[Dollars | None, "Most USD in a day, from midnight in `timezone`; null: no cap."] = 20
    per_month: Annotated[Dollars | None, "Most USD in a month; null: no cap."] = 200
    per_person: PersonBudgetConfig = PersonBudgetConfig()
    warn_at: Annotated[float, Meta(gt=0, le=1), "The share of a cap at which people are told, once a day."] = 0.8
    tokens_per_day: Annotated[
        Positive | None, "Most tokens in a day to models whose price is not known; null: no cap."
    ] = 20_000_000


class PriceConfig(Section, frozen=True):
    """What a model costs, in USD for a million tokens."""

    input: Annotated[Dollars, "Tokens that are sent."] = 0
    output: Annotated[Dollars, "Tokens of the answer."] = 0
    cached: Annotated[Dollars | None, "Sent tokens that the service had at hand; null: as `input`."] = None
    cache_write: Annotated[Dollars | None, "Sent tokens that the service keeps at hand; null: as `input`."] = None


class GatewayConfig(Section, frozen=True):
    """The long-running service. It opens no port."""

    concurrency: Annotated[
        int, Meta(ge=1, le=10_000), "Turns that run at the same time, in all chats together; most of them wait."
    ] = 256
    ledger: Annotated[
        Secret, "`postgresql://…`: the database that many gateways share; empty: the file in the home."
    ] = ""
    health_file: Annotated[str, "Health as JSON, for container checks; empty: gateway.json in the home."] = ""


class LibraryFolderConfig(Section, frozen=True):
    """A folder of documents, and whether others have written them."""

    path: Annotated[str, "The folder; `~` is yours."] = ""
    outside: Annotated[
        bool | None, "What lies in it is content from outside; where this is not set, that holds for downloads alone."
    ] = None

    def __post_init__(self) -> None:
        if not self.path.strip():
            raise ValueError(_('a folder is a "path", such as {"path": "~/scans", "outside": true}'))


class LibraryConfig(Section, frozen=True):
    """The owner's documents, which the tool `library` finds; `nanobot library add FOLDER` writes this."""

    folders: Annotated[
        tuple[str | LibraryFolderConfig, ...],
        "Folders of documents; `~` is your own folder. `path` with `outside` says whether others wrote what is there.",
    ] = ()
    minutes: Annotated[float, Meta(gt=0), "Minutes after which a gateway looks for documents that were changed."] = 10


class ScheduleConfig(Section, frozen=True):
    """What comes at set times; `/schedule` sets it."""

    heartbeat_minutes: Annotated[
        int, Meta(ge=0), "Minutes between two looks at lines of HEARTBEAT.md without a time, at least 5; 0: none."
    ] = 60


class BackupConfig(Section, frozen=True):
    """Backups; `nanobot backup` makes one, `nanobot restore` takes one back."""

    nightly: Annotated[bool, "A gateway makes one each night."] = True
    keep: Annotated[int, Meta(ge=1, le=365), "Nightly backups that are kept, the newest."] = 7
    folder: Annotated[str, "Where they lie, such as on another disk; empty: `backups` in the home."] = ""


class Config(Section, frozen=True):
    """The whole configuration. Every key is optional."""

    taken: ClassVar[When] = "next turn"

    schema_url: Annotated[str, "Address of the JSON Schema, for editors."] = field(default="", name="$schema")
    agents: AgentsConfig = AgentsConfig()
    model_presets: Annotated[dict[str, ModelPresetConfig], "Models with their settings by name."] = field(
        default_factory=dict
    )
    providers: Annotated[dict[str, ProviderConfig], "Model providers by name."] = field(default_factory=dict)
    channels: ChannelsConfig = ChannelsConfig()
    tools: ToolsConfig = ToolsConfig()
    budget: BudgetConfig = BudgetConfig()
    prices: Annotated[
        dict[str, PriceConfig],
        "Prices of models by name, as `gpt-*` or `custom/qwen3*`, before the shipped list; the first that fits counts.",
    ] = field(default_factory=dict)
    gateway: GatewayConfig = GatewayConfig()
    library: LibraryConfig = LibraryConfig()
    schedule: ScheduleConfig = ScheduleConfig()
    backup: BackupConfig = BackupConfig()
    hooks: HooksConfig = HooksConfig()
    plugins: PluginsConfig = PluginsConfig()
