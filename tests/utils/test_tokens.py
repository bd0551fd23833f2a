import pytest

from nanobot.utils.tokens import estimate_tokens


@pytest.mark.parametrize(
    ("text", "least", "most"),
    [
        ("", 0, 0),
        ("hi", 1, 2),
        ("The quick brown fox jumps over the lazy dog.", 9, 13),  # 10 in cl100k
        ("你好，世界！今天天气怎么样？", 9, 16),
        ("1234567890", 4, 4),
        ("x" * 4500, 900, 1100),
        ("def add(a, b):\n    return a + b\n", 12, 20),
    ],
)
def test_the_estimate_is_near_and_rather_high(text: str, least: int, most: int) -> None:
    assert least <= estimate_tokens(text) <= most


def test_more_text_is_never_fewer_tokens() -> None:
    text = "Hallo Welt 2026 — 漢字, naïve\n\n" * 3
    sizes = [estimate_tokens(text[:end]) for end in range(0, len(text), 7)]
    assert sizes == sorted(sizes)
