"""What small functions on text promise to all who use them."""

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

from nanobot.utils.text import duration, retry_after
from tests.tables import table


@table(
    "header seconds",
    ("77", 77.0),
    (" 0.5 ", 0.5),
    ("Wed, 21 Oct 2015 07:28:00 GMT", 0.0),
    ("", None),
    ("soon", None),
    ("-5", None),
    ("9" * 400, None),
    ("٣", None),
)
def test_the_wait_that_a_server_asks_for_is_read_from_a_number_or_a_date(header: str, seconds: float | None) -> None:
    assert retry_after(header) == seconds


def test_a_date_in_the_future_is_waited_for() -> None:
    hour = format_datetime(datetime.now(UTC) + timedelta(hours=1), usegmt=True)
    assert 3_500 < (retry_after(hour) or 0) <= 3_600


def test_a_length_of_time_reads_the_same_wherever_it_stands() -> None:
    told = {
        0.42: "0.4 s",
        4: "4 s",
        9.99: "10 s",
        59.6: "1 min",
        185: "3 min 5 s",
        7_260: "2 h 1 min",
        187_300: "2 d 4 h",
    }
    assert {seconds: duration(seconds) for seconds in told} == told
