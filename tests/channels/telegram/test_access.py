"""Who may talk, and what each of them may do."""

import asyncio
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from msgspec.structs import replace

from nanobot.bus.events import Address, Role, Sender
from nanobot.channels.telegram.access.gate import CLAIMED, NOT_YOURS, STRANGER, UNCLAIMED, Gate, access_commands
from nanobot.channels.telegram.access.people import CLAIM_VALID, MOST_PENDING, Access, Person
from nanobot.channels.telegram.read.incoming import Addressed, IncomingMessage
from nanobot.channels.telegram.settings import GroupPolicy, judged_ids
from nanobot.command.builtin import builtin_router
from nanobot.errors import UsageError
from nanobot.session.ledger import Ledger
from nanobot.session.sqlite import MemoryDatabase, SqliteDatabase

OWNER, FRIEND, STRANGE = "1", "2", "3"
GROUP = "-100"


@dataclass
class House:
    """One bot's gate, with a clock that tests move."""

    allow_from: tuple[str, ...] = ()
    policy: GroupPolicy = "mention"
    at: datetime = field(default_factory=lambda: datetime(2026, 5, 1, tzinfo=UTC))

    def __post_init__(self) -> None:
        self.ledger: Ledger = Ledger(MemoryDatabase(), clock=lambda: self.at)
        self.access = self.restarted()
        self.router = builtin_router()
        self.told: list[tuple[str, str]] = []

        async def say(address: Address, text: str, key: str) -> None:
            assert key.startswith("let-in-")
            self.told.append((address.chat, text))

        for command in access_commands(self.access, say):
            self.router.add(command)
        self.gate = Gate(self.access, self.router, self.policy)

    def restarted(self) -> Access:
        return Access(self.ledger, "telegram:9", self.allow_from, clock=lambda: self.at)

    async def says(
        self, who: str, text: str, *, group: bool = False, addressed: Addressed = "none"
    ) -> tuple[Role | None, str]:
        verdict = await self.gate.judge(incoming(who, text, group=group, addressed=addressed))
        return verdict.role, verdict.reply


def incoming(who: str, text: str, *, group: bool = False, addressed: Addressed = "none") -> IncomingMessage:
    address = Address("telegram", GROUP if group else who)
    way: Addressed = addressed if group else "private"
    at = datetime(2026, 5, 1, tzinfo=UTC)
    return IncomingMessage(address, Sender(who, "Somebody", "guest"), (1,), (1,), (text,), at, addressed=way)


async def claimed(house: House) -> House:
    assert await house.says(OWNER, f"/start {await house.access.offer()}") == (None, CLAIMED)
    return house


async def test_an_unclaimed_bot_serves_nobody() -> None:
    house = House()
    for who in (OWNER, STRANGE):
        assert await house.says(who, "hello") == (None, UNCLAIMED)
        assert await house.says(who, "/status") == (None, "")
        assert await house.says(who, "/start") == (None, "")
        assert await house.says(who, "hi", group=True, addressed="mention") == (None, "")


async def test_a_link_is_good_for_one_claim_in_all_processes_of_the_bot_together(tmp_path: Path) -> None:
    database = SqliteDatabase(tmp_path / "n.db")
    house = House()
    house.ledger = Ledger(database)
    house.access = house.restarted()
    code = await house.access.offer()
    assert len(code) >= 22, "at least 128 bits"
    worker, people = house.restarted(), [Person(OWNER), Person(STRANGE)]
    outcomes = await asyncio.gather(
        *(one.claim(who, code) for one, who in zip((house.access, worker), people, strict=True))
    )
    assert sorted(outcomes) == ["claimed", "used"]
    assert await house.access.owner() == people[outcomes.index("claimed")].id
    late = house.restarted()
    other = await late.offer()  # of a process that has not yet heard of the owner
    assert await late.claim(Person(FRIEND), other) == "used"
    assert await house.access.owner() != FRIEND
    await database.aclose()


async def test_a_link_expires_and_a_new_one_voids_the_last() -> None:
    house = House()
    old = await house.access.offer()
    code = await house.access.offer()
    assert (await house.says(OWNER, f"/start {old}"))[1] != CLAIMED
    house.at += CLAIM_VALID + timedelta(seconds=1)
    role, told = await house.says(OWNER, f"/start {code}")
    assert role is None
    assert "expired" in told


async def test_a_stranger_gets_one_line_a_day() -> None:
    house = await claimed(House())
    assert await house.says(STRANGE, "hello") == (None, STRANGER)
    for text in ("hello?", "/help", "/status", "/start", "/start a-code-that-was-used-up"):
        assert await house.says(STRANGE, text) == (None, "")
    house.at += timedelta(hours=23)
    assert await house.says(STRANGE, "hello") == (None, "")
    house.at += timedelta(hours=2)
    assert await house.says(STRANGE, "hello") == (None, STRANGER)
    assert list(await house.ledger.notes("telegram:9:stranger:")) == ["telegram:9:stranger:3"]


async def test_the_owner_lets_people_in_by_their_code() -> None:
    house = await claimed(House())
    role, told = await house.says(FRIEND, "/pair")
    assert role is None
    code = told.split("`")[1]
    assert code.replace("-", "") not in str(await house.ledger.notes("")), "kept as a hash alone"
    assert await house.says(FRIEND, f"/pair {code}") == (None, NOT_YOURS), "the friend cannot let himself in"
    assert await house.access.role(FRIEND) is None
    assert (await house.access.approve(code.lower())).id == FRIEND
    assert await house.says(FRIEND, "hello") == ("user", "")
    with pytest.raises(UsageError, match="no such code"):
        await house.access.approve(code)
    await house.access.remove(FRIEND)
    assert (await house.says(FRIEND, "hello"))[0] is None


async def test_codes_expire_and_strangers_hold_no_place() -> None:
    house = await claimed(House())
    codes = []
    for number in range(10, 10 + MOST_PENDING):
        codes.append(await house.access.request(Person(str(number))))
        house.at += timedelta(seconds=1)
    mine = await house.access.request(Person(FRIEND))
    again = await house.access.request(Person(FRIEND))
    assert len(await house.ledger.notes("telegram:9:code:")) == MOST_PENDING
    for void in (mine, codes[0]):  # an earlier one of the same person; the oldest of all
        with pytest.raises(UsageError, match="no such code"):
            await house.access.approve(void)
    assert (await house.access.approve(again)).id == FRIEND
    assert (await house.access.approve(codes[1])).id == "11"
    house.at += timedelta(hours=1, seconds=1)
    with pytest.raises(UsageError, match="expired"):
        await house.access.approve(codes[2])


@pytest.mark.parametrize("entry", [GROUP, "1087968824", "0", "05000", "٤٢", "-0", "9" * 17, "@eve"])
async def test_an_entry_that_is_nobodys_id_makes_nobody_owner_and_is_said(entry: str) -> None:
    house = House(allow_from=(entry,))
    assert await house.access.owner() == ""
    admin = await house.says(entry, "hello", group=True, addressed="mention")  # anonymous: in the name of the group
    assert admin == (None, "")
    assert await house.access.role(entry) is None
    (problem,) = judged_ids((entry,))[1]
    assert f"{entry} is no id of a person" in problem
    assert await house.says(OWNER, f"/start {await house.access.offer()}") == (None, CLAIMED), "it can be claimed"
    people, problems = judged_ids((" 5000 ", "*", ""))
    assert (people, problems) == (frozenset({"5000"}), ())


async def test_ids_of_the_configuration_may_talk_and_names_may_not() -> None:
    house = House(allow_from=(FRIEND, "5", "@eve", "eve"))
    assert await house.says(FRIEND, "hello") == ("user", "")
    assert (await house.says("eve", "hello"))[0] is None
    assert await house.access.owner() == ""
    single = House(allow_from=(FRIEND,))
    assert await single.says(FRIEND, "hello") == ("owner", ""), "who writes the configuration owns the machine"
    everybody = House(allow_from=("*",))
    assert await everybody.says(STRANGE, "hello") == ("guest", "")
    code = await everybody.access.offer()
    assert await everybody.says(OWNER, f"/start {code}") == (None, CLAIMED)


async def test_groups_are_off_until_the_owner_allows_them() -> None:
    house = await claimed(House())
    assert await house.says(STRANGE, "hi", group=True, addressed="mention") == (None, "")
    assert await house.says(STRANGE, "/group on", group=True, addressed="command") == (None, "")
    role, told = await house.says(OWNER, "hi", group=True, addressed="mention")
    assert role is None
    assert "/group on" in told
    assert await house.says(OWNER, "/group on", group=True, addressed="command") == ("owner", "")
    await house.access.allow_group(GROUP, "Friends")
    assert await house.says(STRANGE, "hi", group=True, addressed="reply") == ("guest", "")
    assert await house.says(OWNER, "hi", group=True, addressed="mention") == ("owner", "")
    verdict = await house.gate.judge(incoming(STRANGE, "between us", group=True))
    assert (verdict.role, verdict.reply, verdict.overhear) == (None, "", True)
    await house.access.move_group(GROUP, "-200")
    assert not await house.access.group_allowed(GROUP)
    assert await house.access.group_allowed("-200")


async def test_the_policy_of_groups_can_be_open_or_off() -> None:
    cases: tuple[tuple[GroupPolicy, Role | None], ...] = (("open", "guest"), ("off", None))
    for policy, expected in cases:
        house = await claimed(House(policy=policy))
        await house.access.allow_group(GROUP, "Friends")
        assert (await house.gate.judge(incoming(STRANGE, "hi", group=True))).role == expected


ROLES: tuple[Role, ...] = ("owner", "user", "guest")
#: Command → who may use it on Telegram. A new command has to be added here, with a thought.
MATRIX: dict[str, tuple[Role, ...]] = {
    "help": ROLES,
    "status": ("owner", "user"),
    "doctor": ("owner",),
    "new": ("owner", "user"),
    "stop": ROLES,  # their own turn
    "approve": ("owner",),
    "model": ("owner", "user"),
    "sessions": ("owner", "user"),
    "resume": ("owner", "user"),
    "name": ("owner", "user"),  # their own
    "export": ("owner", "user"),
    "delete": ("owner", "user"),
    "sources": ("owner", "user"),
    "tools": ("owner", "user"),
    "usage": ("owner", "user"),
    "people": ("owner",),
    "invite": ("owner",),
    "whoami": ROLES,
    "privacy": ("owner", "user"),
    "hints": ("owner", "user"),
    "streaming": ("owner", "user"),
    "pair": ("owner",),
    "group": ("owner",),
    "permissions": ("owner",),
    "compact": ("owner", "user"),  # their own conversation
    "branch": ("owner", "user"),
    "rewind": ("owner", "user"),
    "retry": ("owner", "user"),
    "btw": ("owner", "user"),
    "schedule": ("owner", "user"),  # their own
    "watch": ("owner", "user"),  # their own
    "skills": ("owner", "user"),
    "learn": ("owner",),
    "undo": ("owner", "user"),  # what was changed in this chat
    "trust": ("owner",),
    "tasks": ("owner", "user"),  # those of this chat
    "mcp": ("owner",),
    "memory": ("owner", "user"),  # what is noted of them
    "forget": ("owner", "user"),
    "quit": (),
    "copy": (),
}


async def test_every_command_is_open_to_the_roles_of_the_table_and_to_nobody_else() -> None:
    house = await claimed(House())
    await house.access.allow_group(GROUP, "Friends")
    await house.access.approve((await house.access.request(Person(FRIEND))).replace("-", ""))
    people = {"owner": OWNER, "user": FRIEND, "guest": STRANGE}
    commands = {command.name: command for command in house.router._commands.values()}
    assert commands.keys() == MATRIX.keys()
    for name, command in commands.items():
        for role, who in people.items():
            for word in (name, name.upper(), *command.aliases):
                # A guest is met in a group alone.
                place = incoming(who, f"/{word}", group=role == "guest", addressed="command")
                verdict = await house.gate.judge(place)
                allowed = role in MATRIX[name]
                assert (verdict.role is not None) == allowed, f"{role} /{word}: {verdict}"
                assert allowed or "not available" in verdict.reply
                pressed = await house.gate.judge_press(who, place.address.chat, private=place.private, command=name)
                assert (pressed is not None) == allowed, f"{role} presses {name}"


async def test_buttons_of_strangers_and_of_forbidden_groups_do_nothing() -> None:
    house = await claimed(House())
    assert await house.gate.judge_press(STRANGE, STRANGE, private=True, command="stop") is None
    assert await house.gate.judge_press(STRANGE, GROUP, private=False, command="stop") is None
    assert await house.gate.judge_press(OWNER, GROUP, private=False, command="stop") == "owner"


async def test_a_forwarded_command_commands_nothing() -> None:
    house = await claimed(House())
    forwarded = replace(incoming(OWNER, "/people remove 2"), forwarded=True)
    assert not house.gate.is_control(forwarded)
    assert (await house.gate.judge(forwarded)).role == "owner"
    assert house.gate.is_control(incoming(OWNER, "/stop"))
    assert house.gate.is_control(incoming(OWNER, "stop")), "a word that means a command"
    assert not house.gate.is_control(replace(incoming(OWNER, "stop"), forwarded=True))
    assert not house.gate.is_control(incoming(OWNER, "stop it there"))
