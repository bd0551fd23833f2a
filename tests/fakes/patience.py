"""Limits that suit the machine: short where it is quick, long enough where it is slow, or none but a proportion."""

import functools
import inspect
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

#: Seconds that are too few to be measured.
_CLOCK = 0.005


def growing(*limits: float) -> Callable[[Callable[..., Awaitable[None]]], Callable[..., Awaitable[None]]]:
    """Runs a test with the first of these for its argument `limit`, in seconds, and where it fails with the next ones.

    For a test that waits until a limit is over before which something has to happen: only the longest limit has to be
    enough for that on the slowest machine, and what is wrong is wrong with each of them.
    """

    def decorated(test: Callable[..., Awaitable[None]]) -> Callable[..., Awaitable[None]]:
        @functools.wraps(test)
        async def tried(**fixtures: object) -> None:
            for limit in limits[:-1]:
                try:
                    return await test(limit=limit, **_own(fixtures, limit))
                except (Exception, pytest.fail.Exception) as failure:  # noqa: BLE001
                    print(f"{limit} s were not enough: {failure!r}")
            return await test(limit=limits[-1], **_own(fixtures, limits[-1]))

        signature = inspect.signature(test)
        wanted = [one for name, one in signature.parameters.items() if name != "limit"]
        tried.__signature__ = signature.replace(parameters=wanted)  # type: ignore[attr-defined]
        return tried

    return decorated


def _own(fixtures: dict[str, object], limit: float) -> dict[str, object]:
    """The fixtures of one try, which finds no files of an earlier one in its folder."""
    folder = fixtures.get("tmp_path")
    if not isinstance(folder, Path):
        return fixtures
    own = folder / f"within-{limit:g}"
    own.mkdir()
    return {**fixtures, "tmp_path": own}


def in_proportion(work: Callable[[int], object], small: int, large: int, most: float) -> bool:
    """Whether work of the `large` size takes at most `most` times the processor time of work of the `small` one.

    It is tried three times, since others on the machine can make either slower.
    """

    def seconds(size: int) -> float:
        start = time.process_time()
        work(size)
        return time.process_time() - start

    return any(seconds(large) <= most * (seconds(small) + _CLOCK) for _ in range(3))
