"""Updates of every kind that the Bot API knows, and of some that it does not, with something in them that is odd.

    for update in odd_updates(seed=1, people=(7, 8)): ...

Each is a sound update in which one to three places were changed: taken out, emptied, of another type, far too large,
nested, or text that no screen can show. `update_id` stays a number: an update without one cannot be confirmed.
"""

import copy
import inspect
import itertools
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

from telegram import Message, Update

from tests.fakes.telegram_server import BOT, Json


def _json(**fields: object) -> Json:
    return fields


def _fields(kind: type) -> tuple[str, ...]:
    return tuple(name for name in inspect.signature(kind).parameters if name != "update_id")


_USER: Json = {"id": 9, "is_bot": False, "first_name": "Nadia", "last_name": "N", "username": "nadia"}
_CHAT: Json = {"id": -100, "type": "supergroup", "title": "Friends"}
_FILE: Json = {"file_id": "f1", "file_unique_id": "u1", "file_size": 900, "width": 20, "height": 10, "duration": 3}
_NAMED: Json = {**_FILE, "file_name": "report.pdf", "mime_type": "application/pdf", "thumbnail": _FILE}
_PLACE: Json = {"latitude": 52.5, "longitude": 13.4}
_DATE = 1_760_000_000
_EARLIER: Json = {
    "message_id": 3,
    "date": _DATE,
    "chat": _CHAT,
    "from": _USER,
    "text": "earlier",
    "photo": [_FILE],
    "caption": "earlier",
}
_OPTION: Json = {"text": "yes", "voter_count": 0, "persistent_id": "1"}
POLL: Json = {
    "id": "1",
    "question": "Tea?",
    "options": [_OPTION, {**_OPTION, "text": "no"}],
    "total_voter_count": 0,
    "is_closed": False,
    "is_anonymous": True,
    "type": "regular",
    "allows_multiple_answers": False,
    "allows_revoting": False,
    "members_only": False,
}
_ORIGINS: list[Json] = [
    {"type": "user", "date": _DATE, "sender_user": _USER},
    {"type": "user", "date": _DATE, "sender_user": {**_USER, "first_name": ""}},
    {"type": "hidden_user", "date": _DATE, "sender_user_name": "Somebody"},
    {"type": "chat", "date": _DATE, "sender_chat": _CHAT, "author_signature": "Boss"},
    {"type": "channel", "date": _DATE, "chat": {**_CHAT, "type": "channel", "username": "news"}, "message_id": 5},
]
_ENTITIES: list[Json] = [
    {"type": "bold", "offset": 0, "length": 2},
    {"type": "text_link", "offset": 1, "length": 3, "url": "https://a.example/"},
    {"type": "text_mention", "offset": 0, "length": 1, "user": _USER},
    {"type": "mention", "offset": 0, "length": 4},
    {"type": "bot_command", "offset": 0, "length": 5},
]
_TEXTS = ["hello", "/start", "/start abc", "/pair", "/status", "/stop", "/new", "what is @nano_test_bot?", "x" * 4_096]
_MEMBER: Json = {"user": _USER, "status": "member"}
#: What a message may hold; and every field that the library knows, with something small in it.
_CONTENTS: list[Json] = [
    *[_json(text=text, entities=_ENTITIES) for text in _TEXTS],
    {"text": "and?", "reply_to_message": _EARLIER, "quote": {"text": "ear", "position": 0, "entities": _ENTITIES}},
    {"text": "and?", "reply_to_message": {**_EARLIER, "from": BOT}},
    {"text": "in a topic", "message_thread_id": 4, "is_topic_message": True},
    {"photo": [_FILE, _FILE], "caption": "look", "caption_entities": _ENTITIES, "media_group_id": "1"},
    {"contact": {"phone_number": "+49 30 1", "first_name": "Nadia", "last_name": "N", "user_id": 9}},
    {"venue": {"location": _PLACE, "title": "Café", "address": "Street 1"}, "location": _PLACE},
    {"location": {**_PLACE, "horizontal_accuracy": 3.0}},
    {"poll": POLL},
    {"dice": {"emoji": "🎲", "value": 3}},
    {"sticker": {**_FILE, "type": "regular", "is_animated": False, "is_video": False, "emoji": "🙂"}},
    {"animation": _NAMED, "document": _NAMED},
    {"video_note": {**_NAMED, "length": 240}},
    *[_json(**{kind: _NAMED, "caption": "this"}) for kind in ("document", "audio", "voice", "video")],
    *[_json(text="passed on", forward_origin=origin) for origin in _ORIGINS],
    *[_json(text="?", external_reply={"origin": origin, "chat": _CHAT, "photo": [_FILE]}) for origin in _ORIGINS],
    {"pinned_message": _EARLIER},
    {"new_chat_members": [_USER], "left_chat_member": _USER},
    {"story": {"chat": _CHAT, "id": 3}, "game": {"title": "t", "description": "d", "photo": [_FILE]}},
    {"migrate_to_chat_id": -100200},
    {"rich_message": {"blocks": [{"type": "table", "rows": [["1", "2"]]}]}},
]
_SMALL: list[Json] = [_json(**{name: {"id": 3, "title": "x", "date": _DATE}}) for name in _fields(Message)]
_QUERY: Json = {"id": "5", "from": _USER, "chat_instance": "1", "message": {**_EARLIER, "from": BOT}}
#: Updates that hold no message of a person, by kind.
_OTHERS: list[tuple[str, Json]] = [
    *[("callback_query", _json(**_QUERY, data=data)) for data in ("stop:t1", "/approve 1 once", "/status", "what", "")],
    ("callback_query", {**_QUERY, "message": {"chat": _CHAT, "message_id": 3, "date": 0}, "data": "stop:t1"}),
    ("stopped_message_generation", {"chat": {"id": 7, "type": "private"}, "message_thread_id": 4}),
    (
        "my_chat_member",
        {"chat": _CHAT, "from": _USER, "date": _DATE, "old_chat_member": _MEMBER, "new_chat_member": _MEMBER},
    ),
    ("a_kind_of_next_year", {"chat": _CHAT, "from": _USER}),
    *[(name, _json(id="1", user=_USER, chat=_CHAT, **{"from": _USER})) for name in _fields(Update)],
]
_ODD: list[object] = [
    None,
    "",
    "text",
    "\ud83d",
    "\x00\u202e\x1b[2J",
    "9" * 5_000,
    0,
    -1,
    1.5,
    float("nan"),
    2**70,
    -(2**70),
    True,
    [],
    [None],
    ["text", 1],
    {},
    {"id": None},
    {"type": "unknown", "id": "x"},
]


def odd_updates(seed: int, people: tuple[int, ...], *, first: int = 1) -> Iterator[Json]:
    """Without end; the same for the same `seed`. `people` write in private or in one of two groups."""
    dice = random.Random(seed)
    for number in itertools.count(first):
        kind, body = _sound(dice, number, people)
        update: Json = {"update_id": number, kind: copy.deepcopy(body)}
        for _ in range(dice.choice((1, 1, 1, 2, 3))):
            _change(dice, update)
        yield update


def _sound(dice: random.Random, number: int, people: tuple[int, ...]) -> tuple[str, Json]:
    person = dice.choice(people)
    chat: Json = {"id": person, "type": "private", "first_name": "P"}
    if dice.random() < 0.3:
        chat = {**_CHAT, "id": dice.choice((-100, -200))}
    if dice.random() < 0.15:
        return dice.choice(_OTHERS)
    sender: Json = {"id": person, "is_bot": False, "first_name": "P", "language_code": "de"}
    body = {
        "message_id": number,
        "date": _DATE,
        "chat": chat,
        "from": sender,
        **dice.choice(_SMALL if dice.random() < 0.1 else _CONTENTS),
    }
    if dice.random() < 0.1:
        body |= {"from": {**BOT, "id": 1087968824, "username": "GroupAnonymousBot"}, "sender_chat": _CHAT}
    return dice.choice(("message", "message", "message", "edited_message")), body


def _change(dice: random.Random, update: Json) -> None:
    """Make one place of an update odd."""
    places = [place for place in _places(update) if place.name != "update_id"]
    if not places:
        return
    place, chance = dice.choice(places), dice.random()
    if chance < 0.2:
        place.remove()
    else:
        place.fill([place.value] if chance < 0.3 else copy.deepcopy(dice.choice(_ODD)))


@dataclass(frozen=True, slots=True)
class _Place:
    name: object
    value: object
    fill: Callable[[object], None]
    remove: Callable[[], None]


def _places(part: object) -> Iterator[_Place]:
    if isinstance(part, dict | list):
        for name, value in part.items() if isinstance(part, dict) else enumerate(part):
            yield _Place(name, value, partial(part.__setitem__, name), partial(part.__delitem__, name))
            yield from _places(value)
