"""QR codes of links: what scanners rely on."""

from collections.abc import Callable
from pathlib import Path

import pytest

from nanobot.utils.qr import CAPACITY, qr_matrix, qr_text

GOLDEN = Path(__file__).parent.parent / "golden" / "qr" / "link.txt"
LINK = "https://t.me/nano_test_bot?start=abcdefghijklmnopqrstuv"


def test_a_link_is_drawn_as_an_independent_encoder_draws_it() -> None:
    # The file was compared module by module with the output of another implementation.
    assert qr_text(LINK) + "\n" == GOLDEN.read_text(encoding="utf-8")


@pytest.mark.parametrize("size", [1, 17, 18, 32, 33, 53, 54, 78, 79, CAPACITY])
def test_what_is_read_back_from_the_modules_is_the_text(size: int) -> None:
    text = ("https://t.me/" + "x" * size)[:size]
    matrix = qr_matrix(text)
    assert len(matrix) == 17 + 4 * next(v for v, most in enumerate((17, 32, 53, 78, 106), 1) if size <= most)
    assert _read(matrix) == text


def test_a_text_that_does_not_fit_is_refused() -> None:
    with pytest.raises(ValueError, match="106 bytes"):
        qr_matrix("x" * (CAPACITY + 1))


def _read(matrix: list[list[bool]]) -> str:
    """A scanner of its own for clean codes: level and mask from the format, then mode, length and bytes."""
    size = len(matrix)
    places = [(8, 0), (8, 1), (8, 2), (8, 3), (8, 4)]
    word = int("".join("01"[matrix[row][column]] for row, column in places), 2) ^ 0b10101
    assert word >> 3 == 0b01, "level L"
    mask = word & 7
    rules: dict[int, Callable[[int, int], int]] = {
        0: lambda r, c: (r + c) % 2,
        1: lambda r, _c: r % 2,
        2: lambda _r, c: c % 3,
        3: lambda r, c: (r + c) % 3,
        4: lambda r, c: (r // 2 + c // 3) % 2,
        5: lambda r, c: (r * c) % 2 + (r * c) % 3,
        6: lambda r, c: ((r * c) % 2 + (r * c) % 3) % 2,
        7: lambda r, c: ((r + c) % 2 + (r * c) % 3) % 2,
    }
    bits: list[bool] = []
    column, up = size - 1, True
    while column > 0:
        column -= column == 6
        for row in reversed(range(size)) if up else range(size):
            free = [place for place in (column, column - 1) if not _is_function(row, place, size)]
            bits += [matrix[row][place] ^ (rules[mask](row, place) == 0) for place in free]
        column, up = column - 2, not up
    stream = "".join("01"[bit] for bit in bits)
    assert stream[:4] == "0100", "bytes"
    length = int(stream[4:12], 2)
    return bytes(int(stream[12 + 8 * n : 20 + 8 * n], 2) for n in range(length)).decode()


def _is_function(row: int, column: int, size: int) -> bool:
    corner = (row < 9 and (column < 9 or column >= size - 8)) or (row >= size - 8 and column < 9)
    aligned = size > 21 and abs(row - (size - 7)) <= 2 and abs(column - (size - 7)) <= 2
    return corner or aligned or row == 6 or column == 6
