"""QR codes of links: what scanners rely on."""

from collections.abc import Callable
from pathlib import Path

from nanobot.channels.telegram.access.rights import qr_text

GOLDEN = Path(__file__).parent.parent / "golden" / "qr" / "link.txt"
LINK = "https://t.me/nano_test_bot?start=abcdefghijklmnopqrstuv"


def test_a_link_is_drawn_with_a_quiet_zone_in_half_blocks() -> None:
    assert qr_text(LINK) + "\n" == GOLDEN.read_text(encoding="utf-8")


def test_what_a_scanner_reads_from_the_drawing_is_the_link() -> None:
    halves = {"█": (False, False), "▀": (False, True), "▄": (True, False), " ": (True, True)}
    lines = [list(zip(*(halves[sign] for sign in line), strict=True)) for line in qr_text(LINK).splitlines()]
    rows = [list(row)[4:-4] for upper_lower in lines for row in upper_lower][4:]
    assert _read(rows[: len(rows[0])]) == LINK


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
