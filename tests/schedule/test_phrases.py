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
}


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
