"""`/people` and `/invite`: who may talk, what each may do, how somebody is let in, and in which language."""

import asyncio
import re
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from nanobot.bus.events import Address, Role
from nanobot.channels.telegram.access.people import INVITE_VALID, MOST_INVITED, MOST_WRONG, Person
from nanobot.channels.telegram.access.rights import Rights
from nanobot.command.builtin import builtin_router
from nanobot.config.schema import Config
from nanobot.errors import UsageError
from nanobot.messages import AssistantMessage, Text, Usage
from nanobot.money.budget import Budget
from nanobot.schedule.store import JobStore
from nanobot.session.database import stamp
from tests.channels.telegram.gateway import furnished, running, serving
from tests.channels.telegram.test_access import FRIEND, GROUP, STRANGE, House, claimed, incoming
from tests.channels.telegram.test_access import OWNER as BOSS
from tests.channels.telegram.test_rights_live import House as LiveHouse
from tests.channels.telegram.test_rights_live import Model
from tests.fakes.budget import capped
from tests.fakes.chinese import english_left
from tests.tables import table


@dataclass
class Running:
    """What runs: one turn of each person here."""

    people: list[str] = field(default_factory=list)
    ended: list[str] = field(default_factory=list)

    async def dismiss(self, person: Address) -> int:
        self.ended += [person.key]
        return self.people.count(person.chat)


async def desk(tmp_path: Path, *allow_from: str) -> tuple[House, Rights]:
    house = House(allow_from)
    if not allow_from:
        await claimed(house)
    await house.access.keep_username("nano_bot")
    limits = capped((20.0, 200.0), (5.0, 50.0))
    budget = Budget(Config(budget=limits), house.ledger, lambda: house.at)
    return house, Rights(
        house.access, house.ledger.sessions, tmp_path, lambda: house.at, budget, JobStore(house.ledger)
    )


def code_in(text: str) -> str:
    found = re.search(r"https://t\.me/nano_bot\?start=([\w-]+)", text)
    assert found is not None, text
    return found[1]


@pytest.mark.parametrize("role", ["user", "guest"])
async def test_a_link_lets_in_one_person_once_with_its_role(tmp_path: Path, role: Role) -> None:
    house, rights = await desk(tmp_path)
    code = code_in(await rights.invite(role))
    assert not [value for value in (await house.ledger.notes("")).items() if code in str(value)], "a hash alone is kept"
    both = await asyncio.gather(*(house.says(who, f"/start {code}") for who in (FRIEND, STRANGE)))
    assert sorted("You have been let in" in reply for _, reply in both) == [False, True]
    let_in = (FRIEND, STRANGE)["You have been let in" in both[1][1]]
    assert (await house.says(let_in, "hello"))[0] == role
    assert (await house.restarted().role(let_in)) == role
    assert "not good any more" in (await house.says("77", f"/start {code}"))[1]


async def test_a_link_ends_after_a_day_and_few_are_open_at_once(tmp_path: Path) -> None:
    house, rights = await desk(tmp_path)
    codes = [code_in(await rights.invite("")) for _ in range(MOST_INVITED)]
    with pytest.raises(UsageError, match="links are open"):
        await rights.invite("user")
    house.at += INVITE_VALID + timedelta(seconds=1)
    assert "not good any more" in (await house.says(FRIEND, f"/start {codes[0]}"))[1]
    fresh = code_in(await rights.invite("user"))
    for _ in range(MOST_WRONG):
        await house.says(STRANGE, "/start wrong")
    assert await house.says(STRANGE, f"/start {fresh}") == (None, ""), "who guesses is not heard any more"
    assert "let in" in (await house.says(FRIEND, f"/start {fresh}"))[1]
    assert (await house.access.role(BOSS), await house.access.role(FRIEND)) == ("owner", "user")


async def test_a_guest_becomes_a_user_by_a_link_and_a_user_loses_nothing_by_one(tmp_path: Path) -> None:
    house, rights = await desk(tmp_path)
    for role in ("guest", "user"):
        await house.says(FRIEND, f"/start {code_in(await rights.invite(role))}")
    assert await house.access.role(FRIEND) == "user"
    assert (await house.says(FRIEND, f"/start {code_in(await rights.invite('guest'))}"))[0] == "user"
    assert await house.access.role(FRIEND) == "user"


async def test_the_owner_grants_and_takes_back_in_one_line_and_what_runs_then_ends(tmp_path: Path) -> None:
    house, rights = await desk(tmp_path)
    await house.access.accept(Person(FRIEND, "Ann Miller"), code_in(await rights.invite("user")))
    running = Running([FRIEND])
    assert "may use files, exec" in await rights.people("grant ann exec files", running)
    assert (await house.gate.judge(incoming(FRIEND, "hello"))).granted == ("files", "exec")
    await house.access.allow_group(GROUP, "Chess")
    group = await house.gate.judge(incoming(FRIEND, "hello", group=True, addressed="mention"))
    assert (group.role, group.granted) == ("user", ())
    assert running.ended == [], "more rights end nothing"
    assert "is ended" in await rights.people("take Ann Miller exec", running)
    assert running.ended == [f"telegram:{FRIEND}"]
    assert (await house.gate.judge(incoming(FRIEND, "hello"))).granted == ("files",)
    assert "nothing besides what every user may" in await rights.people("take ann files")
    assert "may not talk to me any more. What was running for them is ended" in await rights.people(
        "remove ann", running
    )
    assert await house.access.role(FRIEND) is None


async def test_a_person_of_the_configuration_can_be_granted_more_and_is_not_removed(tmp_path: Path) -> None:
    house, rights = await desk(tmp_path, BOSS, FRIEND)
    await house.ledger.set_notes({"telegram:9:owner": BOSS})
    assert "may use mcp" in await rights.people(f"grant {FRIEND} mcp")
    assert (await house.restarted().person(FRIEND)) == Person(FRIEND, granted=("mcp",))
    with pytest.raises(UsageError, match="allowFrom"):
        await rights.people(f"remove {FRIEND}")
    await house.ledger.set_notes({f"telegram:9:user:{STRANGE}": '{"name": "Zoe", "role": "owner"}'})
    assert await house.access.role(STRANGE) == "user", "only a claim makes an owner"


@table(
    "words told",
    ("grant", "Name whom and what"),
    ("grant ann", "Name whom and what"),
    ("grant ann everything", "Name whom and what"),
    ("grant bob files", "nobody called 'bob'"),
    ("grant an files", "several people"),
    ("gran ann files", "Did you mean `/people grant`"),
    ("grant zoe files", "is a guest"),
    ("remove 1", "nobody called '1'"),
)
async def test_what_cannot_be_done_is_told_with_what_can(tmp_path: Path, words: str, told: str) -> None:
    house, rights = await desk(tmp_path)
    for number, (name, role) in enumerate((("Ann", "user"), ("Anton", "user"), ("Zoe", "guest"))):
        await house.access.accept(Person(f"5{number}", name), code_in(await rights.invite(role)))
    with pytest.raises(UsageError, match=re.escape(told)):
        await rights.people(words)


async def test_everybody_is_listed_with_role_grants_spending_and_their_own_notes(tmp_path: Path) -> None:
    house, rights = await desk(tmp_path)
    for who, name, role in ((FRIEND, "Ann", "user"), (STRANGE, "Zoe", "guest")):
        await house.access.accept(Person(who, name), code_in(await rights.invite(role)))
    await rights.people("grant Ann files")
    await house.access.allow_group(GROUP, "Chess")
    own = tmp_path / f"telegram-{FRIEND}"
    own.mkdir()
    (own / "USER.md").write_text("Ann likes tea.")
    for key, tokens in ((f"telegram:{FRIEND}", 1_000), (f"telegram:{FRIEND}:7", 234), (f"telegram:{FRIEND}9", 5)):
        session = await house.ledger.sessions.current(key)
        usage, person = Usage(input=tokens, cost=0.25), ":".join(key.split(":")[:2])
        await house.ledger.sessions.append(session.id, (AssistantMessage((Text("hi"),), usage=usage, person=person),))
    told = await rights.people("")
    spent = "this month 1,234 tokens, 0.5000 USD; cap: today 0.50 of 5.00 USD, this month 0.50 of 50.00 USD"
    assert f"- Ann (`{FRIEND}`), user; may use files; {spent}; USER.md 14 bytes" in told
    assert f"- Zoe (`{STRANGE}`), guest; this month 0 tokens" in told
    assert f"- Chess (`{GROUP}`), a group: everybody there is a guest" in told
    assert "Ann likes tea" not in told


async def test_the_owner_gives_a_person_a_cap_of_their_own_and_takes_it_back(tmp_path: Path) -> None:
    house, rights = await desk(tmp_path)
    await house.access.accept(Person(FRIEND, "Ann Lee"), code_in(await rights.invite("user")))
    assert await rights.people("Ann Lee cap 2") == (
        "Ann Lee, cap of their own: today 0.00 of 2.00 USD, this month 0.00 of 50.00 USD."
    )
    assert "today 0.00 of 1.50 USD, this month 0.00 of 30.00 USD" in await rights.people(f"{FRIEND} cap $1.5 30usd")
    assert await rights.people("ann cap off") == ("Ann Lee, cap: today 0.00 of 5.00 USD, this month 0.00 of 50.00 USD.")
    for wrong in ("ann cap lots", "ann cap -1", "ann cap 1 2 3"):
        with pytest.raises(UsageError, match="Name USD for a day"):
            await rights.people(wrong)


async def test_U47_who_is_removed_by_another_process_is_answered_no_further_by_the_gateway(tmp_path: Path) -> None:
    async with furnished(tmp_path, after=(model := Model())) as (telegram, _, _, home):
        eve = telegram.user("Eve")
        async with running(home) as gateway:
            at = LiveHouse(telegram, gateway, model)
            link = re.findall(r"start[= ]([\w-]{22})", (await home.run("people", "invite")).out)
            eve.say(f"/start {link[0]}")
            await at.until(eve.chat, lambda line: "let in" in line)
            await eve.asks("HANG word-eve", lambda: bool(model.about("word-eve")))
            said = await home.run("people", "remove", "Eve")
            assert "ends within a few seconds" in " ".join(said.out.split()), said.err
            await at.until(eve.chat, lambda line: "⏹ stopped" in line)


async def test_the_owner_invites_grants_and_removes_in_the_chat_of_the_shipped_gateway(tmp_path: Path) -> None:
    async with serving(tmp_path, after=(model := Model())) as (telegram, _, ada, gateway):
        at, eve = LiveHouse(telegram, gateway, model), telegram.user("Eve")
        link = await at.command(ada, "/invite")
        code = re.findall(r"start=([\w-]+)", link)[0]
        assert "let in" in await at.command(eve, f"/start {code}")
        await at.ask(eve, "hello")
        assert "not available" in await at.command(eve, "/people")
        assert "may use files" in await at.command(ada, "/people grant Eve files")
        assert "Eve (" in await at.command(ada, "/people")
        await eve.asks("HANG word-hang", lambda: bool(model.about("word-hang")))
        assert "is ended" in await at.command(ada, "/people remove Eve")
        eve.say("hello?")
        await at.until(eve.chat, lambda line: "private assistant" in line)
    assert code not in gateway.text


BOB = 7_002


async def test_people_of_two_languages_are_spoken_to_in_theirs_also_after_a_restart(tmp_path: Path) -> None:
    async with furnished(tmp_path, after="no") as (telegram, _, ada, home):
        bob = telegram.user("Bob", BOB)
        ada.language = "zh-hans"
        async with running(home):
            asked = await bob.asks("/pair", "Your code is")
            await ada.asks(f"/pair {asked.partition('Your code is ')[2].split(',')[0]}", "现在可以和我说话了")
            await bob.sees("You have been let in.")
            await ada.asks("/schedule in 1 hour 浇花", "已安排 1")
            await bob.asks("/schedule in 1 hour water the roses", "Scheduled 2")
        due = stamp(datetime.now(UTC) - timedelta(minutes=20))
        home.rows("UPDATE job SET due = ?, at = ?", due, due)
        async with running(home):
            late = [await ada.sees("⏰ 浇花"), await bob.sees("⏰ water the roses")]
        shown = "\n".join(telegram.visible(ada.chat))
    assert "原定" in late[0]
    assert "due" in late[1]
    assert english_left(shown, *(line for line in shown.splitlines() if line.startswith("Ada: "))) == []


async def test_refusals_buttons_and_files_are_in_the_language_of_who_meets_them(tmp_path: Path) -> None:
    async with furnished(tmp_path, after="好的。") as (telegram, _, ada, home):
        mei = telegram.user("Mei", BOB)
        mei.language = "zh-hans"
        async with running(home):
            await mei.asks("hello", "这是一个私人助理")
            await mei.asks("/pair", "你的代码是")
            await ada.asks("/people", "Who may talk to me")
            ada.language = "zh-hans"
            await ada.asks("/people", "谁可以和我说话")
            await ada.asks("/people grant Nobody files", "这里没有叫")
            ada.send("voice", b"OggS", duration=2)
            await ada.sees("语音消息：没有转成文字。")
            ada.send("document", b"", file_name="empty.txt", mime_type="text/plain")
            await ada.sees("文档 empty.txt：已收到，但它是空的。")
        words = "\n".join(line for line in telegram.visible(mei.chat) if not line.startswith("Mei: "))
    assert english_left(words) == []


async def test_the_command_that_once_took_a_right_back_leads_to_the_one_that_does() -> None:
    match = builtin_router().match("/unpair 2")
    assert match is not None
    assert match.command is not None
    assert match.command.name == "people"
