"""What people write of times is understood, in six languages; what may mean two things is not guessed."""

import json
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from nanobot.errors import UsageError
from nanobot.schedule.job import Cron, Days, Every, Once, When
from nanobot.schedule.phrases import split, understand

ZONE = ZoneInfo("Europe/Berlin")
#: A Sunday.
NOW = datetime(2026, 11, 22, 15, 0, tzinfo=ZONE)
#: Those `kept_back` were written after the words were tuned, or set aside before; docs/schedule.md tells how that went.
PHRASES = [
    json.loads(line) for line in (Path(__file__).parent / "phrases.jsonl").read_text(encoding="utf-8").splitlines()
]
LINES = {
    "in 20 minutes take out the pizza": ("2026-11-22T15:20", "take out the pizza"),
    "call mum tomorrow at 9": ("2026-11-23T09:00", "call mum"),
    "remind me tomorrow at 9 to call mum": ("2026-11-23T09:00", "call mum"),
    "tomorrow at 9 the dentist": ("2026-11-23T09:00", "the dentist"),
    "in 5 minutes 2 eggs": ("2026-11-22T15:05", "2 eggs"),
    "every day at 8 drink 2 glasses": ("cron 0 8 * * *", "drink 2 glasses"),
    "every weekday at 8: stand-up": ("cron 0 8 * * 1-5", "stand-up"),
    "0 8 * * 1-5 stand-up": ("cron 0 8 * * 1-5", "stand-up"),
    "erinnere mich morgen um 9 daran, Mutter anzurufen": ("2026-11-23T09:00", "Mutter anzurufen"),
    "提醒我明天早上八点开会": ("2026-11-23T08:00", "开会"),
    "每个工作日八点：站会": ("cron 0 8 * * 1-5", "站会"),
    "毎日8時に薬を飲む": ("cron 0 8 * * *", "薬を飲む"),
    "tomorrow 14h call mum": ("2026-11-23T14:00", "call mum"),
    "mañana a las 14h llamar": ("2026-11-23T14:00", "llamar"),
    "tomorrow at 9.30 tea": ("2026-11-23T09:30", "tea"),
    "tomorrow at 9:30:00 tea": ("2026-11-23T09:30", "tea"),
    "tomorrow at thirteen tea": ("2026-11-23T13:00", "tea"),
    "dans 2h30 thé": ("2026-11-22T17:30", "thé"),
    "every 2h30 water": ("every 9000", "water"),
    "tomorrow 2 hours of gym": ("2026-11-23T09:00", "2 hours of gym"),
    "tomorrow 3.5 km run": ("2026-11-23T09:00", "3.5 km run"),
    "tomorrow at 9 at 25 Baker Street": ("2026-11-23T09:00", "at 25 Baker Street"),
    "in 0 minutes tea": ("2026-11-22T15:00", "tea"),
    "remind me tomorrow to call mum, at 14:00": ("2026-11-23T14:00", "call mum"),
    "every day drink tea at 8 in the evening": ("cron 0 20 * * *", "drink tea"),
    "every day at 8 call mum at 9": ("cron 0 8 * * *", "call mum at 9"),
    "tomorrow meet at 5 or at 6": ("2026-11-23T09:00", "meet at 5 or at 6"),
    "tomorrow: read John 3:16": ("2026-11-23T09:00", "read John 3:16"),
}
NO_HOURS = (
    *(
        "tomorrow at 25:00 tea",
        "tomorrow at 25 tea",
        "tomorrow at 24:00 tea",
        "tea at 25:00 tomorrow",
        "every day at 25",
    ),
    *(
        "tomorrow at 9:75 tea",
        "tomorrow at 9:5 tea",
        "tomorrow at 9:305 tea",
        "tomorrow at 9.75 tea",
        "tomorrow at 123:00 tea",
    ),
    *("tomorrow at 0 am tea", "tomorrow at 13 pm tea", "tomorrow half past 25 tea", "every day at 25 tea"),
    *("tomorrow 25 o'clock tea", "on Monday at 24:30 tea", "next week at 25 tea", "25 Uhr Tee"),
    *("morgen um 25 Uhr Tee", "morgen 9 Uhr 75 Tee", "morgen halb 25 Tee", "morgen viertel nach 25 Tee"),
    *("明天25点开会", "明天二十五点开会", "明天早上8点75分开会", "明日25時に会議", "tomorrow drink tea at 25:00"),
    *("demain à 25h thé", "demain 25h thé", "demain à 14h75 thé", "mañana a las 25 té", "mañana a las 9:75 té"),
)
NO_DAYS = (
    *(
        "at 9 on 31 February tea",
        "every 31 April tea",
        "on 29 February 2027 tea",
        "on 2026-13-01 tea",
        "2027-00-10 tea",
    ),
    *(
        "on the 0th at 9 tea",
        "on the 32nd at 9 tea",
        "every month on the 32nd at 9 tea",
        "on 0 December tea",
        "13/13 tea",
    ),
    *(
        "am 31.2. um 9 Tee",
        "2月30日9点付款",
        "每月32号9点付款",
        "le 31 février à 9h thé",
        "el 31 de febrero a las 9 té",
    ),
)


def shown(when: When) -> str:
    match when:
        case Once():
            local = when.at.astimezone(ZONE)
            return local.strftime("%Y-%m-%dT%H:%M:%S" if local.second else "%Y-%m-%dT%H:%M")
        case Every():
            return f"every {when.seconds}"
        case Days():
            return f"days {when.number} {when.first} {when.at:%H:%M}"
        case Cron():
            return f"cron {when.expression}"


def understood(phrase: str) -> str:
    try:
        return shown(understand(phrase, NOW, ZONE))
    except UsageError:
        return "?"


@pytest.mark.parametrize("row", PHRASES, ids=[row["phrase"] for row in PHRASES])
def test_U65_a_phrase_means_what_its_writer_means(row: Mapping[str, str]) -> None:
    assert understood(row["phrase"]) == row["means"]


def test_more_than_a_third_of_the_phrases_was_kept_back() -> None:
    assert (len(PHRASES), sum(bool(row["kept_back"]) for row in PHRASES)) == (267, 120)


@pytest.mark.parametrize("line", LINES)
def test_a_line_is_its_time_and_what_is_to_be_done(line: str) -> None:
    when, text = split(line, NOW, ZONE)
    assert (shown(when), text) == LINES[line]


@pytest.mark.parametrize("line", NO_HOURS)
def test_an_hour_or_a_minute_that_does_not_exist_is_refused(line: str) -> None:
    with pytest.raises(UsageError, match=r"^Hours go from 0 to 23, .*Write it such as"):
        split(line, NOW, ZONE)


@pytest.mark.parametrize("line", NO_DAYS)
def test_a_day_that_does_not_exist_is_refused(line: str) -> None:
    with pytest.raises(UsageError, match=r"^(There is no day|No month has a day) \d"):
        split(line, NOW, ZONE)


def test_a_number_alone_is_no_time() -> None:
    with pytest.raises(UsageError, match="I found no time"):
        split("paus 2", NOW, ZONE)


def test_what_is_not_understood_is_answered_with_what_was_and_how_to_write_it() -> None:
    with pytest.raises(
        UsageError, match=r'understood "every", and not "blue", "moon".*Write it such as "every weekday'
    ):
        understand("every blue moon", NOW, ZONE)
    with pytest.raises(UsageError, match=r'Write "at 20:00" for today, or "tomorrow at 08:00"'):
        understand("at 8", NOW, ZONE)
    with pytest.raises(UsageError, match="two readings"):
        understand("on 3/12 at 9", NOW, ZONE)
