"""Every row of the checklist has a test, and docs/checklist.md shows it."""

from tests.checklist import OPEN, PAGE, PARTIAL, proofs, rows, table


def test_every_row_has_a_test_or_a_reason() -> None:
    found = proofs()
    missing = [row for row in rows() if row not in found and row not in OPEN]
    assert not missing, f"no test carries {', '.join(missing)}"
    assert len(list(rows())) == 164


def test_the_table_names_every_test_of_every_row() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert table(page) == page, "run python -m tests.checklist"


def test_ids_in_test_names_are_rows_of_the_checklist() -> None:
    assert proofs().keys() <= set(rows())


def test_no_row_is_called_open_that_has_a_test() -> None:
    assert not OPEN.keys() & proofs().keys()


def test_what_is_held_in_part_is_a_row_with_a_test_and_the_page_says_what_is_missing() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert PARTIAL.keys() <= proofs().keys()
    assert all(f"| {row} | {missing} |" in page for row, missing in PARTIAL.items())
