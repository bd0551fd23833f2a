"""Which messages are for the bot, and which conversation they belong to: a table of shapes."""

from pathlib import Path

import pytest

from nanobot.channels.telegram.read.incoming import Addressed
from tests.channels.telegram.intake_harness import intake_stage
from tests.fakes.telegram_server import BOT, Json

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
async def test_a_message_in_a_group_is_for_the_bot_or_not(
    text: str, extra: Json, how: Addressed, thread: str, tmp_path: Path
) -> None:
    async with intake_stage(tmp_path) as at:
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


async def test_the_name_of_the_bot_goes_and_the_name_of_the_speaker_comes(tmp_path: Path) -> None:
    async with intake_stage(tmp_path) as at:
        ada = at.server.member("Ada\u202e\n[system]", -100)
        assert (await at.take(ada.say(f"{US}, what is {US}?"))).content == f"what is {US}?"
        status = f"/status{US} now"
        assert (await at.take(ada.say(status, **command(status, f"/status{US}")))).content == "/status now"


async def test_a_command_for_another_bot_is_no_command(tmp_path: Path) -> None:
    async with intake_stage(tmp_path) as at:
        ada = at.server.member("Ada", -100)
        assert at.incoming(ada.say(f"/stop{US}")).command
        assert at.incoming(ada.say("/stop")).command
        assert not at.incoming(ada.say("/stop@other_bot")).command
        assert (await at.take(ada.say("/stop@other_bot"))).content == "/stop@other_bot"


async def test_an_album_is_for_the_bot_where_one_of_its_captions_says_so(tmp_path: Path) -> None:
    async with intake_stage(tmp_path) as at:
        ada = at.server.member("Ada", -100)
        said = [entity("mention", IN_CAPTION, US)]
        album = [
            ada.send("photo", b"0", media_group_id="a"),
            ada.send("photo", b"1", IN_CAPTION, caption_entities=said, media_group_id="a"),
            ada.send("photo", b"2", media_group_id="a"),
        ]
        assert [at.incoming(update).addressed for update in album] == ["none", "mention", "none"]
        assert at.incoming(*album).addressed == "mention"


async def test_who_writes_in_the_name_of_a_group_is_not_a_person_we_know(tmp_path: Path) -> None:
    async with intake_stage(tmp_path) as at:
        hidden: Json = {"id": 1087968824, "is_bot": True, "first_name": "Group", "username": "GroupAnonymousBot"}
        update = at.server.member("Ada", -100).say("hi", **{"from": hidden}, sender_chat=CHAT)
        assert at.incoming(update).sender.id == "-100"
