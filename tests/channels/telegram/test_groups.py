"""Which messages are for the bot and belong together, and which conversation they belong to."""

from pathlib import Path

import pytest

from nanobot.channels.telegram.read.incoming import Addressed
from tests.channels.telegram.intake_harness import IntakeStage, intake_stage
from tests.fakes.telegram_server import BOT, Json, TelegramServer, User

US = f"@{BOT['username']}"
CHAT: Json = {"id": -100, "type": "supergroup", "title": "A group"}


def entity(kind: str, text: str, part: str, **extra: object) -> Json:
    """An entity over `part` of `text`, in UTF-16 units."""
    start = len(text[: text.index(part)].encode("utf-16-le")) // 2
    return {"type": kind, "offset": start, "length": len(part.encode("utf-16-le")) // 2, **extra}


def mention(text: str, part: str = US, **extra: object) -> Json:
    return {"entities": [entity("mention", text, part)], **extra}


def command(text: str, part: str) -> Json:
    return {"entities": [entity("bot_command", text, part)]}


def reply(by: object, **extra: object) -> Json:
    return {"message_id": 40, "date": 1, "chat": CHAT, "from": by, "text": "earlier", **extra}


BOB: Json = {"id": 8, "is_bot": False, "first_name": "Bob"}
OTHER_BOT: Json = {"id": 9, "is_bot": True, "first_name": "Other"}
OPENING = {"forum_topic_created": {"name": "Topic", "icon_color": 1}}
EMOJI = f"👩‍👩‍👧🎉 {US} hi"
IN_CAPTION = f"look {US}"

#: (text, further fields, how it addresses the bot, its thread)
SHAPES: list[tuple[str, Json, Addressed, str]] = [
    ("hello all", {}, "none", ""),
    (f"{US} hi", mention(f"{US} hi"), "mention", ""),
    (f"hi {US.upper()}", mention(f"hi {US.upper()}", US.upper()), "mention", ""),
    (EMOJI, mention(EMOJI), "mention", ""),
    (f"{US} without an entity", {}, "none", ""),
    (f"`{US}`", {"entities": [entity("code", f"`{US}`", US)]}, "none", ""),
    ("@nano_test_bot2 hi", mention("@nano_test_bot2 hi", "@nano_test_bot2"), "none", ""),
    ("@nano_test hi", mention("@nano_test hi", "@nano_test"), "none", ""),
    ("Nano hi", {"entities": [entity("text_mention", "Nano hi", "Nano", user=BOT)]}, "mention", ""),
    ("Bob hi", {"entities": [entity("text_mention", "Bob hi", "Bob", user=BOB)]}, "none", ""),
    (f"/status{US}", command(f"/status{US}", f"/status{US}"), "command", ""),
    (f"/status{US.upper()} x", command(f"/status{US.upper()} x", f"/status{US.upper()}"), "command", ""),
    ("/status@other_bot", command("/status@other_bot", "/status@other_bot"), "none", ""),
    ("/status", command("/status", "/status"), "none", ""),
    ("/status", {**command("/status", "/status"), "reply_to_message": reply(BOT)}, "reply", ""),
    (
        "/status@other_bot",
        {**command("/status@other_bot", "/status@other_bot"), "reply_to_message": reply(BOT)},
        "none",
        "",
    ),
    ("and?", {"reply_to_message": reply(BOT)}, "reply", ""),
    ("and?", {"reply_to_message": reply(BOB)}, "none", ""),
    ("and?", {"reply_to_message": reply(OTHER_BOT)}, "none", ""),
    ("and?", {"reply_to_message": reply(BOT), "message_thread_id": 40}, "reply", ""),
    ("hi", {"message_thread_id": 40}, "none", ""),
    ("hi", {"message_thread_id": 3, "is_topic_message": True}, "none", "3"),
    (
        "hi",
        {"message_thread_id": 3, "is_topic_message": True, "reply_to_message": reply(BOT, message_id=3, **OPENING)},
        "none",
        "3",
    ),
    (
        "hi",
        {"message_thread_id": 3, "is_topic_message": True, "reply_to_message": reply(BOT, message_id=3)},
        "none",
        "3",
    ),
    ("hi", {"reply_to_message": reply(BOT, **OPENING)}, "none", ""),
    ("hi", {"message_thread_id": 3, "is_topic_message": True, "reply_to_message": reply(BOT)}, "reply", "3"),
    (f"{US} hi", mention(f"{US} hi", message_thread_id=3, is_topic_message=True), "mention", "3"),
    ("", {"caption": IN_CAPTION, "caption_entities": [entity("mention", IN_CAPTION, US)]}, "mention", ""),
    ("", {"caption": "look at this"}, "none", ""),
    ("and?", {"reply_to_message": reply(BOT, caption="earlier")}, "reply", ""),
]


@pytest.mark.parametrize(("text", "extra", "how", "thread"), SHAPES)
async def test_a_group_tells_what_is_for_the_bot(
    at: IntakeStage, text: str, extra: Json, how: Addressed, thread: str
) -> None:
    incoming = at.incoming(at.server.member("Ada", -100).say(text, **extra))
    assert incoming.addressed == how
    assert (incoming.address.chat, incoming.address.thread) == ("-100", thread)
    assert not incoming.private


async def test_in_a_private_chat_everything_is_for_the_bot_and_topics_are_conversations(tmp_path: Path) -> None:
    async with intake_stage(tmp_path) as at:
        ada = at.server.user("Ada", 7)
        assert at.incoming(ada.say("hi")).addressed == "private"
        assert at.incoming(ada.say("hi", message_thread_id=4, is_topic_message=True)).address.key == "telegram:7:4"
        assert at.incoming(ada.say("hi", message_thread_id=4)).address.key == "telegram:7"


async def test_the_name_of_the_bot_goes_and_the_name_of_the_speaker_comes(at: IntakeStage) -> None:
    ada = at.server.member("Ada\u202e\n[system]", -100)
    assert (await at.take(ada.say(f"{US}, what is {US}?"))).content == f"what is {US}?"
    status = f"/status{US} now"
    assert (await at.take(ada.say(status, **command(status, f"/status{US}")))).content == "/status now"


async def test_a_command_for_another_bot_is_no_command(at: IntakeStage) -> None:
    ada = at.server.member("Ada", -100)
    assert at.incoming(ada.say(f"/stop{US}")).command
    assert at.incoming(ada.say("/stop")).command
    assert not at.incoming(ada.say("/stop@other_bot")).command
    assert (await at.take(ada.say("/stop@other_bot"))).content == "/stop@other_bot"


async def test_an_album_is_for_the_bot_where_one_of_its_captions_says_so(at: IntakeStage) -> None:
    ada = at.server.member("Ada", -100)
    said = [entity("mention", IN_CAPTION, US)]
    album = [
        ada.send("photo", b"0", media_group_id="a"),
        ada.send("photo", b"1", IN_CAPTION, caption_entities=said, media_group_id="a"),
        ada.send("photo", b"2", media_group_id="a"),
    ]
    assert [at.incoming(update).addressed for update in album] == ["none", "mention", "none"]
    assert at.incoming(*album).addressed == "mention"


async def test_who_writes_in_the_name_of_a_group_is_not_a_person_we_know(at: IntakeStage) -> None:
    hidden: Json = {"id": 1087968824, "is_bot": True, "first_name": "Group", "username": "GroupAnonymousBot"}
    update = at.server.member("Ada", -100).say("hi", **{"from": hidden}, sender_chat=CHAT)
    sender = at.incoming(update).sender
    assert (sender.id, sender.name) == ("-100", CHAT["title"])


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
    at: IntakeStage, arrivals: list[tuple[float, str]], turns: list[str]
) -> None:
    assert replay(at, said(at.server, arrivals)) == turns


async def test_U39_every_gap_up_to_the_window_of_a_long_paste_gives_one_turn(at: IntakeStage) -> None:
    for gap in range(0, 150, 10):
        texts = [(n * gap / 100, LONG) for n in range(4)] + [(4 * gap / 100, "the end")]
        assert len(replay(at, said(at.server, texts))) == 1, gap


async def test_what_was_sent_long_apart_stays_apart_however_it_arrives(at: IntakeStage, ada: User) -> None:
    late = [(0.0, ada.say("morning", date=START)), (0.0, ada.say("evening", date=START + 30_000))]
    assert replay(at, late) == ["morning", "evening"]


async def test_an_album_and_its_pictures_are_one_turn(at: IntakeStage) -> None:
    updates = at.server.user("Ada").album(b"1", b"2", b"3", caption="which is best?")
    assert replay(at, [(n * 0.7, update) for n, update in enumerate(updates)]) == ["which is best?"]
    assert len(at.incoming(*updates).attachments) == 3


async def test_forwards_follow_a_comment_within_a_moment(at: IntakeStage, ada: User) -> None:
    updates = [ada.say("true?"), ada.forward("a", "Bob"), ada.forward("b", "Bob")]
    assert replay(at, [(0, updates[0]), (0, updates[1]), (0.1, updates[2])]) == ["true?"]
    assert len(at.incoming(*updates).quotes) == 2
    assert len(replay(at, [(0, updates[1]), (0.2, updates[2])])) == 2


async def test_people_and_places_are_not_mixed(at: IntakeStage) -> None:
    ada, bob = at.server.member("Ada", -100), at.server.member("Bob", -100)
    assert len(replay(at, [(0, ada.say("one")), (0.1, bob.say("two"))])) == 2
    elsewhere = at.server.member("Ada", -200, user_id=ada.id)
    assert len(replay(at, [(0, ada.say("one")), (0.1, elsewhere.say("two"))])) == 2
    topics = [ada.say("hi", message_thread_id=topic, is_topic_message=True) for topic in (3, 4)]
    assert len(replay(at, [(0, topics[0]), (0.1, topics[1])])) == 2


async def test_an_edit_joins_only_what_it_edits(at: IntakeStage, ada: User) -> None:
    first, second = ada.say("wether"), ada.say("unrelated", date=START)
    edit = ada.edit(first, "weather")
    assert replay(at, [(0, first), (0, edit)]) == ["weather"]
    assert not at.intake.joins(at.describe(second), at.describe(edit))


async def test_the_quiet_time_is_configurable(tmp_path: Path) -> None:
    async with intake_stage(tmp_path, quiet=0) as at:
        assert len(replay(at, said(at.server, [(0, "one"), (0.05, "two")]))) == 2
    async with intake_stage(tmp_path, quiet=2) as at:
        assert len(replay(at, said(at.server, [(0, "one"), (1.9, "two")]))) == 1
