"""What models can do, by the pattern of their names: context window, answer length, vision.

A short table of families, not of models; the first match counts. Old numbers have their rows, so that a number that
is not known yet inherits from the newest of its line. Sources: the vendors' model pages, November 2026. A window from
the configuration, the live list or an overflow error is better than this table.
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
    Family(r"claude-(haiku-4|(opus|sonnet)-4([-.][0-5]\b|-\d{8}|$))", 200_000, vision=True, output=32_000),
    Family(r"claude-", 1_000_000, vision=True, output=32_000),
    Family(r"gpt-oss", 131_072),
    Family(r"gpt-3\.5", 16_385),
    Family(r"gpt-4-32k", 32_768),
    Family(r"gpt-4($|-0[36])", 8_192),
    Family(r"gpt-4\.1", 1_047_576, vision=True),
    Family(r"gpt-(4|audio)|chatgpt-4", 128_000, vision=True),
    Family(r"gpt-5(\.[0-5])?($|-)", 400_000, vision=True),
    Family(r"gpt-\d", 1_050_000, vision=True),
    Family(r"\bo1-(mini|preview)", 128_000),
    Family(r"\bo\d+(-|$)|codex-mini", 200_000, vision=True),
    Family(r"gemini-", 1_048_576, vision=True),
    Family(r"gemma-?[12](?!\d)", 8_192, tools=False),
    Family(r"gemma", 131_072, vision=True, tools=False),
    Family(r"deepseek-v([4-9]|\d\d)", 1_000_000),
    Family(r"deepseek", 128_000),
    Family(r"kimi-k[12](?!\d|\.[5-9])|moonshot-", 262_144),
    Family(r"kimi-", 262_144, vision=True),
    Family(r"glm-[\d.]+v", 131_072, vision=True),
    Family(r"glm-([1-3](?!\d)|4($|-|\.[0-5]))", 128_000),
    Family(r"glm-", 200_000),
    Family(r"qwen.*-?vl|qwen(3\.[5-9]|[4-9]|\d\d)|qvq", 131_072, vision=True),
    Family(r"qwen|qwq", 131_072),
    Family(r"grok-[1-3]($|-|\.)", 131_072),
    Family(r"grok-", 256_000, vision=True),
    Family(r"pixtral|mistral-(medium|small|large)-(3|latest|2[5-9])", 128_000, vision=True),
    Family(r"mistral|ministral|magistral|codestral|devstral", 128_000),
    Family(r"minimax-m", 196_608),
    Family(r"llama-?2(?!\d)", 4_096, tools=False),
    Family(r"llama-?3(?!\d|\.2.*vision)", 131_072),
    Family(r"llama-?\d", 131_072, vision=True),
    Family(r"llava|moondream|minicpm-v", 8_192, vision=True, tools=False),
)
#: OpenAI's models that reason and take no temperature, and those of them that must reason.
REASONING = re.compile(r"(gpt-([5-9]|\d\d)|o\d)")
ALWAYS_REASONING = re.compile(r"gpt-(6\.[2-9]|[7-9]|\d\d)")


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
