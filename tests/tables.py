"""Tables of cases, a test for each row."""

from collections.abc import Callable, Iterable

import pytest


def table(
    columns: str, *rows: object, ids: Iterable[str | int] | Callable[[object], str] | None = None
) -> pytest.MarkDecorator:
    """Run a test with each of the rows: a value, or one for each of the columns, whose names have blanks between."""
    names = columns.split()
    return pytest.mark.parametrize(names if len(names) > 1 else columns, rows, ids=ids)
