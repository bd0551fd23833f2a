"""The vendors as data: where they are, which variable holds the key, how their dialect differs, their models.

Source: the vendors' documentation and SDK types, read in November 2026.
"""

from dataclasses import dataclass, field
from typing import Literal

from nanobot.providers.base import PageReading

Wire = Literal["chat", "messages"]
ThinkingStyle = Literal[
    "none", "effort", "basic_effort", "openrouter", "type", "enable_thinking", "template", "mistral", "split"
]
Replay = Literal["none", "reasoning_content", "reasoning_details"]


@dataclass(frozen=True, slots=True)
class Quirks:
    """How one dialect of Chat Completions differs.

    `thinking` is how reasoning effort is said; `replay` is which reasoning field goes back with earlier answers;
    `reasoning_required` sends that field even when it is empty; `signatures` returns Google's thought signatures.
    `short_ids` allows call ids of nine letters and digits only. `cache_key` sends the session as `prompt_cache_key`.
    `cache_marks` marks the prefix with `cache_control` for the models whose names begin so. `text_calls` reads tool
    calls that a model wrote as text.
    """

    max_tokens_field: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    thinking: ThinkingStyle = "none"
    replay: Replay = "none"
    reasoning_required: bool = False
    signatures: bool = False
    short_ids: bool = False
    cache_key: bool = False
    cache_marks: tuple[str, ...] = ()
    text_calls: bool = False


@dataclass(frozen=True, slots=True)
class Vendor:
    """One service. `keys` are the environment variables that may hold the key, the first is the one to name.

    `models` are patterns of model names that select this vendor without a prefix. `preferred` are patterns of models
    to take, best first, when none is configured: the newest match of the live list, else `default_model`.
    `reads_pages` is how it reads pages itself, `reads_pdf` says that its models that see read PDF. `port` is where a
    local server usually listens.
    """

    name: str
    title: str
    base_url: str
    keys: tuple[str, ...] = ()
    wire: Wire = "chat"
    quirks: Quirks = field(default_factory=Quirks)
    models: tuple[str, ...] = ()
    preferred: tuple[str, ...] = ()
    default_model: str = ""
    base_url_key: str = ""
    headers: tuple[tuple[str, str], ...] = ()
    local: bool = False
    port: int = 0
    reads_pages: PageReading = ""
    reads_pdf: bool = False


_LOCAL = Quirks(thinking="template", text_calls=True)

#: In the order in which keys in the environment are looked for; local servers last.
VENDORS: tuple[Vendor, ...] = (
    Vendor(
        "anthropic",
        "Anthropic",
        "https://api.anthropic.com",
        ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"),
        wire="messages",
        models=(r"claude-",),
        preferred=(r"claude-sonnet-\d", r"claude-haiku-\d", r"claude-opus-\d"),
        default_model="claude-sonnet-5-5",
        base_url_key="ANTHROPIC_BASE_URL",
        reads_pages="messages",
        reads_pdf=True,
    ),
    Vendor(
        "openai",
        "OpenAI",
        "https://api.openai.com/v1",
        ("OPENAI_API_KEY",),
        quirks=Quirks("max_completion_tokens", thinking="effort", cache_key=True),
        models=(r"gpt-", r"o[1-9](-|$)", r"chatgpt-"),
        preferred=(r"gpt-\d+(\.\d+)?(-(sol|terra))?$",),
        default_model="gpt-6.1-sol",
        base_url_key="OPENAI_BASE_URL",
        reads_pages="responses",
        reads_pdf=True,
    ),
    Vendor(
        "openrouter",
        "OpenRouter",
        "https://openrouter.ai/api/v1",
        ("OPENROUTER_API_KEY",),
        quirks=Quirks(thinking="openrouter", replay="reasoning_details", cache_marks=("anthropic/", "qwen/")),
        preferred=(r"anthropic/claude-sonnet-\d", r"openai/gpt-\d+(\.\d+)?(-(sol|terra))?$"),
        default_model="openrouter/auto",
        headers=(("X-OpenRouter-Title", "nanobot"),),
    ),
    Vendor(
        "gemini",
        "Google Gemini",
        "https://generativelanguage.googleapis.com/v1beta/openai",
        ("GEMINI_API_KEY", "GOOGLE_API_KEY"),
        quirks=Quirks(thinking="basic_effort", signatures=True),
        models=(r"(models/)?gemini-", r"gemma-"),
        preferred=(r"(models/)?gemini-[\d.]+-flash$", r"(models/)?gemini-[\d.]+-flash(-preview)?$"),
        default_model="gemini-flash-latest",
        reads_pages="gemini",
    ),
    Vendor(
        "deepseek",
        "DeepSeek",
        "https://api.deepseek.com",
        ("DEEPSEEK_API_KEY",),
        quirks=Quirks(thinking="type", replay="reasoning_content", reasoning_required=True),
        models=(r"deepseek-",),
        preferred=(r"deepseek-chat$", r"deepseek-v\d"),
        default_model="deepseek-chat",
    ),
    Vendor(
        "moonshot",
        "Moonshot",
        "https://api.moonshot.ai/v1",
        ("MOONSHOT_API_KEY",),
        quirks=Quirks(thinking="type", replay="reasoning_content", reasoning_required=True),
        models=(r"kimi-", r"moonshot-"),
        preferred=(r"kimi-k\d+(\.\d+)?$", r"kimi-k\d"),
        default_model="kimi-latest",
    ),
    Vendor(
        "zhipu",
        "Z.ai",
        "https://api.z.ai/api/paas/v4",
        ("ZAI_API_KEY", "ZHIPUAI_API_KEY"),
        quirks=Quirks(thinking="type", replay="reasoning_content"),
        models=(r"glm-",),
        preferred=(r"glm-\d+(\.\d+)?$",),
        default_model="glm-4.6",
    ),
    Vendor(
        "dashscope",
        "Alibaba Model Studio",
        "https://dashscope-intl.aliyuncs.com/compatible-mode/v1",
        ("DASHSCOPE_API_KEY",),
        quirks=Quirks(thinking="enable_thinking"),
        models=(r"qwen", r"qwq-", r"qvq-"),
        preferred=(r"qwen[\d.]*-plus$", r"qwen-plus"),
        default_model="qwen-plus",
    ),
    Vendor(
        "groq",
        "Groq",
        "https://api.groq.com/openai/v1",
        ("GROQ_API_KEY",),
        quirks=Quirks(thinking="basic_effort"),
        preferred=(r"openai/gpt-oss-120b", r"llama-.*-versatile"),
        default_model="openai/gpt-oss-120b",
    ),
    Vendor(
        "mistral",
        "Mistral",
        "https://api.mistral.ai/v1",
        ("MISTRAL_API_KEY",),
        quirks=Quirks(thinking="mistral", short_ids=True),
        models=(r"(mistral|ministral|magistral|codestral|devstral|pixtral)-",),
        preferred=(r"mistral-medium-latest", r"mistral-large-latest"),
        default_model="mistral-medium-latest",
    ),
    Vendor(
        "xai",
        "xAI",
        "https://api.x.ai/v1",
        ("XAI_API_KEY",),
        quirks=Quirks(thinking="basic_effort"),
        models=(r"grok-",),
        preferred=(r"grok-\d+(\.\d+)?$", r"grok-\d"),
        default_model="grok-4",
    ),
    Vendor(
        "minimax",
        "MiniMax",
        "https://api.minimax.io/v1",
        ("MINIMAX_API_KEY",),
        quirks=Quirks(thinking="split", replay="reasoning_details"),
        models=(r"(?i:minimax-)",),
        preferred=(r"MiniMax-M\d+(\.\d+)?$",),
        default_model="MiniMax-M2",
    ),
    Vendor(
        "siliconflow",
        "SiliconFlow",
        "https://api.siliconflow.com/v1",
        ("SILICONFLOW_API_KEY",),
        quirks=Quirks(thinking="enable_thinking"),
        preferred=(r"deepseek-ai/DeepSeek-V\d",),
        default_model="deepseek-ai/DeepSeek-V3",
    ),
    Vendor(
        "together",
        "Together AI",
        "https://api.together.xyz/v1",
        ("TOGETHER_API_KEY",),
        preferred=(r"deepseek-ai/DeepSeek-V\d", r"openai/gpt-oss-120b"),
        default_model="openai/gpt-oss-120b",
    ),
    Vendor(
        "fireworks",
        "Fireworks AI",
        "https://api.fireworks.ai/inference/v1",
        ("FIREWORKS_API_KEY",),
        models=(r"accounts/fireworks/",),
        preferred=(r"accounts/fireworks/models/(kimi|deepseek|glm)",),
        default_model="accounts/fireworks/models/gpt-oss-120b",
    ),
    Vendor("custom", "your server", "", ("CUSTOM_API_KEY",), quirks=Quirks(text_calls=True)),
    Vendor("ollama", "Ollama", "http://127.0.0.1:11434/v1", quirks=_LOCAL, local=True, port=11434),
    Vendor("lm_studio", "LM Studio", "http://127.0.0.1:1234/v1", quirks=_LOCAL, local=True, port=1234),
    Vendor("llama_cpp", "llama.cpp", "http://127.0.0.1:8080/v1", quirks=_LOCAL, local=True, port=8080),
    Vendor("vllm", "vLLM", "http://127.0.0.1:8000/v1", quirks=_LOCAL, local=True, port=8000),
)

BY_NAME = {vendor.name: vendor for vendor in VENDORS}

#: Other spellings of vendor names, in configurations and before a slash in model names.
ALIASES = {
    "google": "gemini",
    "kimi": "moonshot",
    "moonshotai": "moonshot",
    "zai": "zhipu",
    "z.ai": "zhipu",
    "z-ai": "zhipu",
    "zhipuai": "zhipu",
    "qwen": "dashscope",
    "alibaba": "dashscope",
    "grok": "xai",
    "x-ai": "xai",
    "mistralai": "mistral",
    "lmstudio": "lm_studio",
    "lm-studio": "lm_studio",
    "llamacpp": "llama_cpp",
    "llama.cpp": "llama_cpp",
    "llama-cpp": "llama_cpp",
    "hosted_vllm": "vllm",
}


def vendor_of(name: str) -> Vendor | None:
    """The vendor of that name or alias, however it is written."""
    folded = name.strip().casefold()
    return BY_NAME.get(ALIASES.get(folded, folded)) or BY_NAME.get(folded.replace("-", "_"))
