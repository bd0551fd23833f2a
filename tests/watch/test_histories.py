"""What is found and what is falsely told on generated histories of pages."""

from datetime import UTC, datetime

import pytest

from benchmarks.watch_histories import KINDS, HistoryResult, judged
from nanobot.watch.compare import differences, follows_clock


def test_U21_true_changes_of_pages_are_told_and_their_noise_is_not() -> None:
    whole = HistoryResult()
    for make in KINDS.values():
        whole.add(judged(make, 1))
    assert whole.true > 50
    assert whole.found >= 0.95 * whole.true
    assert whole.false <= 4, whole.examples


@pytest.mark.parametrize(("old", "new", "today"), [("13 mars", "14 avril", True), ("13 mars", "14 août", False)])
def test_a_date_is_that_of_today_in_its_own_month_alone(old: str, new: str, today: bool) -> None:
    (one,) = differences([f"Imprimé le {old} 2026"], [f"Imprimé le {new} 2026"])
    assert follows_clock(one, datetime(2026, 4, 14, tzinfo=UTC)) is today
