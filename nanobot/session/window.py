"""Which turns of a long conversation are still shown."""

from collections.abc import Sequence


def first_kept(sizes: Sequence[int], limit: int) -> int:
    """The index of the first turn to show, given the size of each turn in order and the limit of their sum.

    The cut moves in jumps: once the sum passes the limit, the oldest turns go until half of it is free; the newest turn
    always stays. It depends on what was said before alone, so requests between two jumps share their beginning, which
    a prompt cache rewards.
    """
    first, total = 0, 0
    for number, size in enumerate(sizes):
        total += size
        if total > limit:
            while first < number and total > limit // 2:
                total -= sizes[first]
                first += 1
    return first
