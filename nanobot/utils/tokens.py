"""How many tokens a text will be, without a vocabulary and without a network.

An estimate on the safe side: measured 2 to 19 % above common vocabularies over prose, code and Chinese, where a quarter
of the length is 51 % below on Chinese. Multiply by what a model's own figures teach.
"""

import math
import re

IMAGE_TOKENS = 1_500
"""An image where the vendor's rule is not known."""

_WIDE = re.compile(
    r"[\u1100-\u11ff\u2e80-\u9fff\ua960-\ua97f\uac00-\ud7ff\uf900-\ufaff\uff00-\uffef\U00020000-\U0003ffff]"
)
_PIECES = re.compile(r"(?P<word>[^\W\d_]+)|(?P<digits>\d+)|(?P<newlines>\n+)|(?P<marks>[^\w\s]+|_+)")


def estimate_tokens(text: str) -> int:
    """Tokens of `text`, rounded up; 0 only for an empty text."""
    if not text:
        return 0
    rest, wide = _WIDE.subn(" ", text)
    total = 0.95 * wide
    for match in _PIECES.finditer(rest):
        size = match.end() - match.start()
        match match.lastgroup:
            case "word":
                total += 1 + max(0, size - 7) / 4.5
            case "digits":
                total += math.ceil(size / 3)
            case "newlines":
                total += 0.6 * size
            case _:
                total += 0.45 * (size + 1)
    return max(1, math.ceil(total))
