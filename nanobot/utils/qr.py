"""A QR code for a short text, drawn with block characters: byte mode, error correction level L, versions 1 to 5.

Follows ISO/IEC 18004. Those versions have one block of data and no version information, which is all that a link needs.
"""

from collections.abc import Callable, Iterator, Sequence

#: Per version from 1: how many code words hold data, and how many correct errors.
_SIZES = ((19, 7), (34, 10), (55, 15), (80, 20), (108, 26))
#: Most bytes of text.
CAPACITY = _SIZES[-1][0] - 2
_PADDING = (0xEC, 0x11)
_FORMAT_L = 0b01 << 3
_MASKS: tuple[Callable[[int, int], bool], ...] = (
    lambda row, column: (row + column) % 2 == 0,
    lambda row, _column: row % 2 == 0,
    lambda _row, column: column % 3 == 0,
    lambda row, column: (row + column) % 3 == 0,
    lambda row, column: (row // 2 + column // 3) % 2 == 0,
    lambda row, column: row * column % 2 + row * column % 3 == 0,
    lambda row, column: (row * column % 2 + row * column % 3) % 2 == 0,
    lambda row, column: ((row + column) % 2 + row * column % 3) % 2 == 0,
)
Matrix = list[list[bool]]


def qr_text(text: str) -> str:
    """The code as lines of text, two rows of modules a line, with its quiet zone, for dark and light screens.

    Dark modules are blanks and light ones are blocks, as a screen with light letters on dark ground needs; scanners
    read the opposite as well. Raises ValueError above `CAPACITY` bytes.
    """
    matrix = qr_matrix(text)
    width = len(matrix) + 8
    light = [True] * width
    rows = [light] * 4 + [[True] * 4 + [not cell for cell in row] + [True] * 4 for row in matrix] + [light] * 4
    rows += [light] * (len(rows) % 2)
    shapes = {(True, True): "█", (True, False): "▀", (False, True): "▄", (False, False): " "}
    return "\n".join(
        "".join(shapes[pair] for pair in zip(upper, lower, strict=True))
        for upper, lower in zip(rows[::2], rows[1::2], strict=True)
    )


def qr_matrix(text: str) -> Matrix:
    """The modules of the code, True for dark, without the quiet zone. Raises ValueError above `CAPACITY` bytes."""
    data = text.encode()
    for version, (size, correction) in enumerate(_SIZES, 1):
        if len(data) + 2 <= size:
            words = _words(data, size)
            return _best(version, [*words, *_correction(words, correction)])
    raise ValueError(f"a QR code of this kind holds {CAPACITY} bytes, not {len(data)}")


def _words(data: bytes, size: int) -> list[int]:
    """Mode, length, text, and padding as code words."""
    bits = "0100" + format(len(data), "08b") + "".join(format(byte, "08b") for byte in data) + "0000"
    words = [int(bits[place : place + 8], 2) for place in range(0, len(bits), 8)]
    return words + [_PADDING[number % 2] for number in range(size - len(words))]


def _correction(words: Sequence[int], count: int) -> list[int]:
    """The Reed-Solomon remainder over GF(256) with the polynomial 0x11D."""
    generator = [1]
    root = 1
    for _ in range(count):
        generator = [_times(one, root) ^ other for one, other in zip([0, *generator], [*generator, 0], strict=True)]
        root = _times(root, 2)
    rest = [*words, *[0] * count]
    for place in range(len(words)):
        factor = rest[place]
        for number, coefficient in enumerate(generator):
            rest[place + number] ^= _times(coefficient, factor)
    return rest[-count:]


def _times(one: int, other: int) -> int:
    product = 0
    while other:
        if other & 1:
            product ^= one
        one = one << 1 ^ (0x11D if one & 0x80 else 0)
        other >>= 1
    return product


def _best(version: int, words: Sequence[int]) -> Matrix:
    """Of the eight masks the one that scanners read best."""
    return min((_drawn(version, words, mask) for mask in range(8)), key=_penalty)


def _drawn(version: int, words: Sequence[int], mask: int) -> Matrix:
    size = 17 + 4 * version
    fixed = _patterns(version, size)
    _write_format(fixed, size, mask)
    matrix = [[bool(fixed.get((row, column))) for column in range(size)] for row in range(size)]
    bits = (word >> shift & 1 for word in words for shift in range(7, -1, -1))
    for row, column in _path(size):
        if (row, column) not in fixed:
            matrix[row][column] = bool(next(bits, 0)) ^ _MASKS[mask](row, column)
    return matrix


def _patterns(version: int, size: int) -> dict[tuple[int, int], bool]:
    """Finders, timing, alignment and the dark module, by (row, column)."""
    fixed: dict[tuple[int, int], bool] = {}
    for number in range(8, size - 8):
        fixed[6, number] = fixed[number, 6] = number % 2 == 0
    for top, left in ((0, 0), (0, size - 7), (size - 7, 0)):
        for row in range(max(0, top - 1), min(size, top + 8)):
            for column in range(max(0, left - 1), min(size, left + 8)):
                ring = max(abs(row - top - 3), abs(column - left - 3))
                fixed[row, column] = ring in {0, 1, 3}
    if version > 1:
        centre = size - 7
        for row in range(centre - 2, centre + 3):
            for column in range(centre - 2, centre + 3):
                fixed[row, column] = max(abs(row - centre), abs(column - centre)) != 1
    fixed[size - 8, 8] = True
    return fixed


def _write_format(fixed: dict[tuple[int, int], bool], size: int, mask: int) -> None:
    """Level and mask, twice, each with its own correction."""
    value = _FORMAT_L | mask
    rest = value
    for _ in range(10):
        rest = rest << 1 ^ (0x537 if rest >> 9 & 1 else 0)
    word = (value << 10 | rest) ^ 0x5412
    first = [
        (8, 0),
        (8, 1),
        (8, 2),
        (8, 3),
        (8, 4),
        (8, 5),
        (8, 7),
        (8, 8),
        (7, 8),
        (5, 8),
        (4, 8),
        (3, 8),
        (2, 8),
        (1, 8),
        (0, 8),
    ]
    second = [(size - 1 - number, 8) for number in range(7)] + [(8, size - 8 + number) for number in range(8)]
    for number in range(15):
        fixed[first[number]] = fixed[second[number]] = bool(word >> (14 - number) & 1)


def _path(size: int) -> Iterator[tuple[int, int]]:
    """Two columns at a time from the right, upwards and downwards in turn; the timing column is skipped."""
    upwards = True
    right = size - 1
    while right > 0:
        if right == 6:
            right -= 1
        for row in range(size - 1, -1, -1) if upwards else range(size):
            yield row, right
            yield row, right - 1
        upwards = not upwards
        right -= 2


def _penalty(matrix: Matrix) -> int:
    size = len(matrix)
    lines = [*matrix, *(list(column) for column in zip(*matrix, strict=True))]
    total = sum(_line_penalty(line) for line in lines)
    for row in range(size - 1):
        for column in range(size - 1):
            square = {
                matrix[row][column],
                matrix[row][column + 1],
                matrix[row + 1][column],
                matrix[row + 1][column + 1],
            }
            total += 3 * (len(square) == 1)
    dark = sum(map(sum, matrix)) * 100 / size**2
    return total + 10 * int(abs(dark - 50) // 5)


def _line_penalty(line: Sequence[bool]) -> int:
    """Runs of five and more, and what looks like a finder."""
    text = "".join("1" if cell else "0" for cell in line)
    runs = text.replace("01", "0 1").replace("10", "1 0").split()
    total = sum(len(run) - 2 for run in runs if len(run) >= 5)
    finders = ("10111010000", "00001011101")
    return total + 40 * sum(text.startswith(mark, place) for place in range(len(text)) for mark in finders)
