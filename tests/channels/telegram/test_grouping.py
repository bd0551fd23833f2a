"""Messages that belong together are one turn; commands and strangers to each other stay apart."""

from pathlib import Path

import pytest

from tests.channels.telegram.intake_harness import IntakeStage, intake_stage
from tests.fakes.telegram_server import Json, TelegramServer

START = 1_760_000_000


def replay(at: IntakeStage, arrivals: list[tuple[float, Json]]) -> list[str]:
    """The texts of the turns that these arrivals (seconds, update) make on a clock that only they move."""
    groups: list[list[Json]] = []
    due = 0.0
    for when, update in arrivals:
        incoming = at.describe(update)
        if groups and when <= due and at.intake.joins(at.describe(groups[-1][-1]), incoming):
            groups[-1].append(update)
        else:
            groups.append([update])
        due = when + at.intake.patience(incoming, in_a_row=len(groups[-1]) > 1)
    return [at.incoming(*group).text for group in groups]


def said(server: TelegramServer, texts: list[tuple[float, str]], **extra: object) -> list[tuple[float, Json]]:
    ada = server.user("Ada", 7)
    return [(when, ada.say(text, date=START + int(when), **extra)) for when, text in texts]


LONG = "word " * 818 + "end456"  # 4,096 characters
PIECE = "x" * 4_050

CASES = [
    ([(0, "one"), (0, "two"), (0.25, "three"), (0.5, "four")], ["one\ntwo\nthree\nfour"]),
    ([(0, "one"), (0, "two"), (0.4, "three")], ["one\ntwo", "three"]),
    ([(0, "one"), (0.1, "two")], ["one", "two"]),
    ([(0, LONG), (1.4, "more"), (1.6, "and more")], [f"{LONG}more\nand more"]),
    ([(0, PIECE), (1.3, "tail")], [f"{PIECE}\ntail"]),
    ([(0, PIECE), (1.6, "too late")], [PIECE, "too late"]),
    ([(0, "one"), (0.1, "/stop"), (0.2, "two")], ["one", "/stop", "two"]),
    ([(0, "/new"), (0.1, "hello")], ["/new", "hello"]),
    ([(0, "/usr/bin is a path"), (0, "yes")], ["/usr/bin is a path\nyes"]),
]


@pytest.mark.parametrize(("arrivals", "turns"), CASES)
async def test_U39_pieces_and_rapid_lines_are_one_turn(
    arrivals: list[tuple[float, str]], turns: list[str], tmp_path: Path
) -> None:
    async with intake_stage(tmp_path) as at:
        assert replay(at, said(at.server, arrivals)) == turns


async def test_U39_every_gap_up_to_the_window_of_a_long_paste_gives_one_turn(tmp_path: Path) -> None:
    async with intake_stage(tmp_path) as at:
        for gap in range(0, 150, 10):
            texts = [(n * gap / 100, LONG) for n in range(4)] + [(4 * gap / 100, "the end")]
            assert len(replay(at, said(at.server, texts))) == 1, gap


async def test_what_was_sent_long_apart_stays_apart_however_it_arrives(tmp_path: Path) -> None:
    async with intake_stage(tmp_path) as at:
        ada = at.server.user("Ada")
        late = [(0.0, ada.say("morning", date=START)), (0.0, ada.say("evening", date=START + 30_000))]
        assert replay(at, late) == ["morning", "evening"]


async def test_an_album_and_its_pictures_are_one_turn(tmp_path: Path) -> None:
    async with intake_stage(tmp_path) as at:
        updates = at.server.user("Ada").album(b"1", b"2", b"3", caption="which is best?")
        assert replay(at, [(n * 0.7, update) for n, update in enumerate(updates)]) == ["which is best?"]
        assert len(at.incoming(*updates).attachments) == 3


async def test_forwards_follow_a_comment_within_a_moment(tmp_path: Path) -> None:
    async with intake_stage(tmp_path) as at:
        ada = at.server.user("Ada")
        updates = [ada.say("true?"), ada.forward("a", "Bob"), ada.forward("b", "Bob")]
        assert replay(at, [(0, updates[0]), (0, updates[1]), (0.1, updates[2])]) == ["true?"]
        assert len(at.incoming(*updates).quotes) == 2
        assert len(replay(at, [(0, updates[1]), (0.2, updates[2])])) == 2


async def test_people_and_places_are_not_mixed(tmp_path: Path) -> None:
    async with intake_stage(tmp_path) as at:
        ada, bob = at.server.member("Ada", -100), at.server.member("Bob", -100)
        assert len(replay(at, [(0, ada.say("one")), (0.1, bob.say("two"))])) == 2
        elsewhere = at.server.member("Ada", -200, user_id=ada.id)
        assert len(replay(at, [(0, ada.say("one")), (0.1, elsewhere.say("two"))])) == 2
        topics = [ada.say("hi", message_thread_id=topic, is_topic_message=True) for topic in (3, 4)]
        assert len(replay(at, [(0, topics[0]), (0.1, topics[1])])) == 2


async def test_an_edit_joins_only_what_it_edits(tmp_path: Path) -> None:
    async with intake_stage(tmp_path) as at:
        ada = at.server.user("Ada")
        first, second = ada.say("wether"), ada.say("unrelated", date=START)
        edit = ada.edit(first, "weather")
        assert replay(at, [(0, first), (0, edit)]) == ["weather"]
        assert not at.intake.joins(at.describe(second), at.describe(edit))


async def test_the_quiet_time_is_configurable(tmp_path: Path) -> None:
    async with intake_stage(tmp_path, quiet=0) as at:
        assert len(replay(at, said(at.server, [(0, "one"), (0.05, "two")]))) == 2
    async with intake_stage(tmp_path, quiet=2) as at:
        assert len(replay(at, said(at.server, [(0, "one"), (1.9, "two")]))) == 1
