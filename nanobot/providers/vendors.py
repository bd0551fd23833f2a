"""The vendors and the families of their models, read from `vendors.json`.

The file says where each vendor is, which variable holds the key, how its dialect differs and which models it has, in
the order in which keys in the environment are looked for, local servers last. The families are of models, not single
models; the first match counts. Old numbers have their rows, so that a number that is not known yet inherits from the
newest of its line. A window from the configuration, the live list or an overflow error is better than this table.
Source: the vendors' documentation, model pages and SDK types, read in November 2026.
"""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import Struct, field

from nanobot.providers.base import Capabilities, PageReading
from nanobot.utils.translation import N_, _

Wire = Literal["chat", "messages"]
ThinkingStyle = Literal[
    "none", "effort", "basic_effort", "openrouter", "type", "enable_thinking", "template", "mistral", "split"
]
Replay = Literal["none", "reasoning_content", "reasoning_details"]


class Quirks(Struct, frozen=True):
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
    cache_marks: Sequence[str] = ()
    text_calls: bool = False


class Vendor(Struct, frozen=True):
    """One service. `keys` are the environment variables that may hold the key, the first is the one to name;
    `key_form` is how its keys begin, a pattern, where no other service's do.

    `models` are patterns of model names that select this vendor without a prefix. `preferred` are patterns of models
    to take, best first, when none is configured: the newest match of the live list, else `default_model`.
    `reads_pages` is how it reads pages itself, `reads_pdf` says that its models that see read PDF. `port` is where a
    local server usually listens.
    """

    name: str
    title: str
    base_url: str
    keys: Sequence[str] = ()
    key_form: str = ""
    wire: Wire = "chat"
    quirks: Quirks = field(default_factory=Quirks)
    models: Sequence[str] = ()
    preferred: Sequence[str] = ()
    default_model: str = ""
    base_url_key: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    local: bool = False
    port: int = 0
    reads_pages: PageReading = ""
    reads_pdf: bool = False

    @property
    def hosted(self) -> bool:
        """True for a service, which has many models and prices; False for a server of the owner's own."""
        return bool(self.base_url) and not self.local


class Family(Struct, frozen=True):
    """Models of one kind. `window` is in tokens, `output` is the longest answer, 0 where the vendor decides."""

    pattern: str = ""
    window: int = 32_768
    vision: bool = False
    output: int = 0
    tools: bool = True


class _Tables(Struct, frozen=True):
    """The file. `aliases` are other spellings of vendor names, in configurations and before a slash in model names."""

    vendors: tuple[Vendor, ...]
    aliases: dict[str, str]
    families: tuple[Family, ...]


_TABLES = msgspec.json.decode(Path(__file__).with_name("vendors.json").read_bytes(), type=_Tables)
VENDORS = _TABLES.vendors
BY_NAME = {vendor.name: vendor for vendor in VENDORS}
#: Services that other programs reach and nanobot does not, with the reason.
_UNSUPPORTED = {
    "bedrock": N_("It is reached with a login of AWS, which nanobot does not have."),
    "openai_codex": N_("It is reached with the login of a subscription. Set a key of openai instead."),
    "xai_grok": N_("It is reached with the login of a subscription. Set a key of xai instead."),
    "github_copilot": N_("It is reached with the login of a subscription."),
    "assemblyai": N_("It has no models to talk to."),
}
#: How the configuration names the ways of saying reasoning effort.
THINKING_STYLES: dict[str, ThinkingStyle] = {
    "thinking_type": "type",
    "enable_thinking": "enable_thinking",
    "reasoning_split": "split",
}


def _folded(name: str) -> str:
    return re.sub(r"[-_. ]", "", name.casefold())


_BY_FOLDED = {_folded(spelling): BY_NAME[name] for spelling, name in _TABLES.aliases.items()}
_BY_FOLDED |= {_folded(name): vendor for name, vendor in BY_NAME.items()}


def vendor_of(name: str) -> Vendor | None:
    """The vendor of that name or alias, however it is written: `lm_studio`, `lm-studio` and `lmStudio` are one."""
    return _BY_FOLDED.get(_folded(name))


def vendor_of_key(key: str) -> Vendor | None:
    """The service whose keys begin as this one does; None where several share that, or none is known."""
    return next((one for one in VENDORS if one.key_form and re.match(one.key_form, key)), None)


def unsupported(name: str) -> str:
    """Why a service of that name is not reached; empty where none is known."""
    return next((_(why) for one, why in _UNSUPPORTED.items() if _folded(one) == _folded(name)), "")


def family_of(model: str) -> Family:
    """The family of `model`, or a careful default."""
    name = model.casefold()
    return next((family for family in _TABLES.families if re.search(family.pattern, name)), Family())


def capabilities_of(model: str, *, window: int | None = None, vision: bool | None = None) -> Capabilities:
    """What `model` can do; `window` and `vision` override the table."""
    family = family_of(model)
    return Capabilities(
        tools=family.tools, vision=family.vision if vision is None else vision, window=window or family.window
    )


def reasons(model: str) -> bool:
    """True for OpenAI's models that reason and take no temperature."""
    return re.match(r"gpt-([5-9]|\d\d)|o\d", model) is not None


def always_reasons(model: str) -> bool:
    """True for those of them that must reason."""
    return re.match(r"gpt-(6\.[2-9]|[7-9]|\d\d)", model) is not None
