"""What is found and what is falsely told on generated histories of pages."""

from benchmarks.watch_histories import KINDS, HistoryResult, judged


def test_U21_true_changes_of_pages_are_told_and_their_noise_is_not() -> None:
    whole = HistoryResult()
    for make in KINDS.values():
        whole.add(judged(make, 1))
    assert whole.true > 50
    assert whole.found >= 0.95 * whole.true
    assert whole.false <= 4, whole.examples
