"""What models can do, by the pattern of their names: context window, answer length, vision.

A short table of families, not of models; the first match counts. Sources: the vendors' model pages, November 2026. A
window from the configuration, the live list or an overflow error is better than this table.
"""

import re
from dataclasses import dataclass

from nanobot.providers.base import Capabilities

_DEFAULT_WINDOW = 32_768


@dataclass(frozen=True, slots=True)
class Family:
    """`output` is the longest answer in tokens, 0 where the vendor decides."""

    pattern: str
    window: int
    vision: bool = False
    output: int = 0
    tools: bool = True


FAMILIES: tuple[Family, ...] = (
    Family(r"claude-(3-|2|instant)", 200_000, vision=True, output=4_096),
    Family(r"claude-(opus|sonnet)-4[-.][6-9]|claude-[a-z]+-[5-9]", 1_000_000, vision=True, output=32_000),
    Family(r"claude-", 200_000, vision=True, output=32_000),
    Family(r"gpt-oss", 131_072),
    Family(r"gpt-5", 400_000, vision=True),
    Family(r"gpt-4\.1", 1_047_576, vision=True),
    Family(r"gpt-4o|gpt-4-turbo|chatgpt-4o", 128_000, vision=True),
    Family(r"gpt-3\.5", 16_385),
    Family(r"\bo[134](-|$)", 200_000, vision=True),
    Family(r"gemini-", 1_048_576, vision=True),
    Family(r"gemma-?3", 131_072, vision=True, tools=False),
    Family(r"deepseek-v4", 1_000_000),
    Family(r"deepseek", 128_000),
    Family(r"kimi-(k2\.[5-9]|k[3-9]|latest)", 262_144, vision=True),
    Family(r"kimi-k2", 262_144),
    Family(r"glm-[\d.]+v", 131_072, vision=True),
    Family(r"glm-(4\.[6-9]|[5-9])", 200_000),
    Family(r"glm-", 128_000),
    Family(r"qwen.*-?vl|qwen3\.[5-9]|qvq", 131_072, vision=True),
    Family(r"qwen|qwq", 131_072),
    Family(r"grok-4", 256_000, vision=True),
    Family(r"grok-", 131_072),
    Family(r"pixtral|mistral-(medium|small|large)-(3|latest|25|26)", 128_000, vision=True),
    Family(r"mistral|ministral|magistral|codestral|devstral", 128_000),
    Family(r"minimax-m", 196_608),
    Family(r"llama-?4", 131_072, vision=True),
    Family(r"llama-?3\.2.*vision", 131_072, vision=True),
    Family(r"llama-?3", 131_072),
    Family(r"llava|moondream|minicpm-v", 8_192, vision=True, tools=False),
)


def family_of(model: str) -> Family:
    """The family of `model`, or a careful default."""
    name = model.casefold()
    for family in FAMILIES:
        if re.search(family.pattern, name):
            return family
    return Family("", _DEFAULT_WINDOW)


def capabilities_of(model: str, *, window: int | None = None, vision: bool | None = None) -> Capabilities:
    """What `model` can do; `window` and `vision` override the table."""
    family = family_of(model)
    return Capabilities(
        tools=family.tools, vision=family.vision if vision is None else vision, window=window or family.window
    )
