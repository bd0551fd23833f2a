"""Which commands are found, who may use them, and what they reply."""

import re
from datetime import UTC, datetime, timedelta, timezone

import pytest
from msgspec.structs import replace

from nanobot.bus.events import Address, InboundMessage, Role, Sender
from nanobot.cli.options import build_parser
from nanobot.command.builtin import builtin_router
from nanobot.command.help import GROUPS
from nanobot.command.router import Command, CommandContext
from nanobot.command.services import CommandServices
from nanobot.command.words import WORDS
from nanobot.config.schema import Config
from nanobot.errors import StoreError, UsageError
from nanobot.library.session_search import FoundSession, FoundSessions
from nanobot.messages import Citation, Text, Usage, UserMessage
from nanobot.money.budget import Budget
from nanobot.providers.base import ModelOffer, ProviderInfo
from nanobot.security.trust import wrap
from nanobot.session.codec import encode
from nanobot.session.ledger import Ledger
from nanobot.session.listing import SessionHolder
from nanobot.session.permissions import Permissions
from nanobot.session.sqlite import MemoryDatabase
from nanobot.session.store import EVER, Branch, SessionInfo, SessionStore
from nanobot.utils.host import shipped
from tests.fakes.budget import capped
from tests.tables import table

TODAY = datetime(2026, 1, 2, tzinfo=timezone(timedelta(hours=2)))
NAMES = "help status doctor new stop approve permissions model sessions resume name export delete".split()
NAMES += "compact branch rewind retry btw".split()
NAMES += "sources undo trust memory forget tasks tools mcp".split()
NAMES += "schedule watch skills learn usage people invite whoami privacy copy quit".split()


class Kept(SessionStore):
    """A session of the owner in the terminal, one of user 1 on Telegram and one of a group; and what the models cost
    today and before."""

    def __init__(self, asked: list[str]) -> None:
        database = MemoryDatabase()
        super().__init__(database)
        now = datetime(2026, 1, 2, 3, 4, tzinfo=UTC)
        self.known = (SessionInfo("aa11", "terminal:me", "cats", 4, now, now),)
        self.asked = asked
        speakers: dict[str, tuple[str, str, Role]] = {
            "aa11": ("terminal:me", "cats", "owner"),
            "bb22": ("telegram:1", "dogs", "user"),
            "cc33": ("telegram:-7", "friends", "guest"),
        }
        for name, (key, title, role) in speakers.items():
            row = (name, key, title, now.isoformat(), now.isoformat(), 4)
            database._connection.execute(
                "INSERT INTO session (id, key, title, created_at, updated_at, messages) VALUES (?, ?, ?, ?, ?, ?)", row
            )
            group = (Text(wrap("Bob", "name")),) if role == "guest" else ()
            line = encode(UserMessage((*group, Text(f"about {title}")), speaker=role))
            database._connection.execute(
                "INSERT INTO record (session_id, seq, kind, role, size, turn, at, message, kept) "
                "VALUES (?, 1, 'message', 'user', 9, '', ?, ?, 0)",
                (name, now.isoformat(), line),
            )

    async def list(self, key: str = "", *, limit: int = 50) -> tuple[SessionInfo, ...]:
        return self.known

    async def start(self, key: str, title: str = "", *, once: bool = False) -> SessionInfo:
        return self.known[0]

    async def resume(self, key: str, session_id: str) -> SessionInfo:
        self.asked.append(f"resume {session_id}")
        if session_id not in {"aa11", "bb22", "cc33"}:
            raise StoreError(f"There is no session {session_id!r}.")
        return self.known[0]

    async def spent(
        self,
        since: datetime = EVER,
        until: datetime | None = None,
        *,
        key: str = "",
        session: str = "",
        person: str = "",
    ) -> Usage:
        one = Usage(input=1_200, output=34, cached=600, cost=0.01, requests=2)
        own = one if since == TODAY else one + one
        return own if person else own + one + one


class Control:
    """A `TurnControl` that notes what was asked of it."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.store = Kept(self.asked)
        self.permissions = Permissions()
        self.cited: tuple[Citation, ...] = ()
        self.choice: int | None = 1

    def midnight(self) -> datetime:
        return TODAY

    async def citations(self, session_key: str, turn: str = "") -> tuple[Citation, ...]:
        return self.cited

    async def recap(self, session_id: str, role: Role = "owner") -> str:
        return f"**You:** what {role} may read of {session_id}"

    async def cancel(self, session_key: str, *, by: Sender | None = None) -> str:
        self.asked.append(f"cancel {session_key}{f' by {by.id}' if by else ''}")
        return "Stopped."

    async def dismiss(self, person: Address) -> int:
        return 0

    async def approve(self, session_key: str, key: str, choice: str, text: str = "", *, anywhere: bool = False) -> str:
        self.asked.append(f"approve {session_key} {key} {choice}{text and f' {text}'}{' anywhere' * anywhere}")
        return "Answered."

    async def status(self, session_key: str, *, everything: bool, ask: bool = False) -> str:
        return f"status of {session_key}{'' if everything else ' alone'}"

    async def estimate(self, message: InboundMessage, pages: int, requests: int) -> str:
        info = self.provider(message.address.key)
        return await self.budget.estimate(message, info, pages=pages, requests=requests)

    async def searches(self, *, ask: bool) -> str:
        return f"- searches{' now' * ask}"

    @property
    def budget(self) -> Budget:
        notes = Ledger(MemoryDatabase())
        limits = capped((2.0, None), (1.0, None))
        return Budget(Config(budget=limits), notes, lambda: TODAY)

    def provider(self, session_key: str) -> ProviderInfo:
        return ProviderInfo("openai", "gpt-x", chosen_because="a key was found")

    async def models(self, session_key: str) -> tuple[ModelOffer, ...]:
        listed = tuple(ModelOffer(f"gpt-{number}") for number in range(25))
        return ModelOffer("quick", "gpt-y, effort low", "preset"), ModelOffer("default", "gpt-x", "default"), *listed

    def model_facts(self, info: ProviderInfo) -> str:
        return "It does not see pictures."

    async def set_model(self, session_key: str, name: str) -> ProviderInfo:
        if name in ("zz", "-24"):
            raise UsageError(f"There is no model {name!r}.")
        self.asked.append(f"model {name}")
        return ProviderInfo("vendor", name or "gpt-x")

    async def tasks(self, session_key: str, wanted: str = "", *, stop: bool = False) -> str:
        return f"tasks of {session_key}: {wanted or 0}{' stopped' * stop}"

    async def branch(self, message: InboundMessage, parent: SessionInfo, title: str, before: int = 0) -> Branch:
        self.asked.append(f"branch {parent.id} {title} {before}")
        return Branch(self.store.known[0], parent.id, before)

    async def check_idle(self, session_key: str) -> None:
        self.asked.append(f"idle {session_key}")

    async def offer(
        self, message: InboundMessage, question: str, choices: tuple[str, ...], *, picker: bool = False
    ) -> int:
        if self.choice is None:
            raise UsageError("Nobody can be asked here.")
        self.asked += [f"offer {'picker ' * picker}{one}" for one in choices]
        return self.choice

    async def changes_since(self, message: InboundMessage, at: datetime) -> tuple[str, ...]:
        return ()

    async def undo_since(self, message: InboundMessage, at: datetime) -> tuple[str, ...]:
        return ()

    async def undo(self, message: InboundMessage) -> str:
        return f"undone for {message.sender.id} in {message.address.key}"

    async def trust(self, message: InboundMessage, name: str) -> str:
        return f"{name or 'all'} for {message.sender.id}"

    async def find_sessions(self, holder: SessionHolder, words: str) -> FoundSessions:
        quote = FoundSession(self.store.known[0], f"… the {words} sleeps", "owner", TODAY, 3)
        return FoundSessions((quote, FoundSession(self.store.known[0])), complete=words != "cat")

    async def known(self, message: InboundMessage, words: str) -> str:
        return f"known {words} of {message.sender.id}"

    async def forget(self, message: InboundMessage, words: str) -> str:
        return f"forgot {words} of {message.sender.id}"

    def tools(
        self, role: Role = "owner", granted: frozenset[str] = frozenset(), *, direct: bool = True, key: str = ""
    ) -> tuple[tuple[str, str, str], ...]:
        del role, granted, direct, key
        return (
            ("mcp_mail", "Mail. " * 40, ""),
            ("web_fetch", "", "it is switched off"),
            ("web_search", "For models.", ""),
        )


async def said(
    text: str, *, role: Role = "owner", channel: str = "terminal", control: Control | None = None, direct: bool = True
) -> list[str]:
    control, replies = control or Control(), []
    router = builtin_router(CommandServices(files=control, memory=control))
    match = router.match(text)
    assert match is not None

    async def reply(line: str) -> None:
        replies.append(line)

    message = InboundMessage(Address(channel, "me"), Sender("1", role=role), text, direct=direct)
    await router.run(match, message, control, reply)
    return replies


async def test_tasks_are_listed_shown_and_stopped_in_their_chat() -> None:
    assert await said("/tasks") == ["tasks of terminal:me: 0"]
    assert await said("/task 2") == ["tasks of terminal:me: 2"]
    assert await said("/tasks 2 STOP", channel="telegram") == ["tasks of telegram:me: 2 stopped"]
    for wrong in ("/tasks stop", "/tasks 2 kill", "/tasks -1"):
        (reply,) = await said(wrong)
        assert "by its number" in reply
    (reply,) = await said("/tasks 2 stop", role="user", direct=False)
    assert "Only the owner" in reply
    (reply,) = await said("/tasks", role="guest")
    assert "not available to you" in reply


async def test_every_command_is_listed_by_help() -> None:
    router = builtin_router()
    assert [command.name for command in router.commands()] == NAMES
    (text,) = await said("/help")
    assert all(f"`/{name}" in text for name in NAMES)
    (chat,) = await said("/help", channel="telegram")
    assert "/quit" not in chat


async def test_help_stands_under_few_headings_with_the_daily_commands_first_and_fits_one_message() -> None:
    (text,) = await said("/help", channel="telegram")
    headings = re.findall(r"(?m)^\*\*(.+?)\*\*$", text)
    assert headings == list(GROUPS), "a command stands below no heading"
    assert 3 <= len(headings) <= 8
    daily, rest = text.split("**Talk**")
    assert re.findall(r"(?m)^- `/(\w+)`", daily) == list(GROUPS["Every day"])
    assert not {*GROUPS["Every day"]} & {*re.findall(r"(?m)^- `/(\w+)`", rest)}
    assert len(text) < 4_000, "a message on Telegram has 4,096 characters"
    assert max(map(len, text.splitlines())) < 130
    (guest,) = await said("/help", role="guest")
    assert re.findall(r"(?m)^\*\*(.+?)\*\*$", guest) == ["Every day", "People and safety"]


@pytest.mark.parametrize("text", ["hello", "/", "/usr/bin/env is a path", "//", ""])
def test_ordinary_text_is_no_command(text: str) -> None:
    assert builtin_router().match(text) is None


@pytest.mark.parametrize("text", ["/STOP", " /stop ", "/stop@mybot", "/cancel"])
async def test_a_command_is_found_however_it_is_written(text: str) -> None:
    assert await said(text) == ["Stopped."]


@table(
    "word reply",
    ("help", "**Commands**"),
    ("?", "**Commands**"),
    ("Help!", "**Commands**"),
    ("models", "This chat now uses **quick**"),
    ("/models", "This chat now uses **quick**"),
    ("sessions", "**Sessions**"),
    ("history.", "**Sessions**"),
    ("diagnose", "`nanobot doctor` in a shell"),
    ("stop", "Stopped."),
    ("onboard", "`nanobot onboard` in a shell sets up"),
    ("/onboard", "`nanobot onboard` in a shell sets up"),
    ("version", "nanobot "),
    ("update", "`nanobot update` in a shell asks whether"),
)
async def test_a_single_word_does_what_is_meant_or_says_what_there_is(word: str, reply: str) -> None:
    for channel in ("terminal", "telegram"):
        assert (await said(word, channel=channel))[0].startswith(reply)


@pytest.mark.parametrize("text", ["doctor?", "help me", "continue", "the history of help", "tides"])
def test_a_question_or_a_sentence_is_no_command(text: str) -> None:
    assert builtin_router().match(text) is None


def test_a_word_beside_a_file_or_a_quotation_is_about_that() -> None:
    message = InboundMessage(Address("telegram", "me"), Sender("1"), "history", context="a quotation")
    assert builtin_router().match_message(message) is None
    assert builtin_router().match_message(replace(message, context="")) is not None


def test_every_word_of_the_table_leads_somewhere() -> None:
    router, parser = builtin_router(), build_parser()
    for name, word in WORDS.items():
        assert word == WORDS[name.casefold()]
        assert not word.command or router.match(f"/{word.command}") is not None, name
        if arguments := word.on_command_line():
            known = next(action for action in parser._actions if action.dest == "command").choices
            assert arguments[0].startswith("--") or arguments[0] in (known or ()), name
        else:
            assert word.says.endswith("."), name


async def test_help_tells_of_one_command_what_the_documentation_tells() -> None:
    (model,) = await said("/help model")
    assert model.startswith("**/model** [name]\n\n`/model` shows the model with ")
    assert "answered with the nearest one" in model
    assert (await said("/help /exit"))[0].startswith("**/quit** (also `/exit`)")
    assert (await said("/help onboard"))[0].startswith("`nanobot onboard` in a shell sets up")
    assert "Did you mean /model?" in (await said("/help modle"))[0]
    (page,) = await said("/help prices")
    assert page.startswith("**Money**")
    assert "`nanobot help money`" in page
    assert "`/help telegram`" in (await said("/help telegrm"))[0]
    assert "There is no command /status here." in (await said("/help status", role="guest"))[0]


async def test_an_unknown_command_is_answered_with_the_nearest_one() -> None:
    assert await said("/stauts") == ["There is no command /stauts. Did you mean /status? /help lists all commands."]
    assert (await said("/tui"))[0].startswith("There is no command /tui.")


async def test_a_guest_may_ask_for_help_and_who_they_are_stop_their_turn_and_nothing_else() -> None:
    (text,) = await said("/help", role="guest")
    assert "/new" not in text
    for name in set(NAMES) - {"help", "stop", "whoami"}:
        assert "not available to you" in (await said(f"/{name}", role="guest"))[0]


async def test_everybody_sees_and_resumes_their_own_sessions_from_wherever_they_were() -> None:
    owner, user = await said("/sessions"), await said("/sessions", role="user", channel="telegram")
    assert ("`aa11`" in owner[0], "`bb22`" in owner[0], "`cc33`" in owner[0]) == (True, False, True)
    assert ("`aa11`" in user[0], "`bb22`" in user[0], "`cc33`" in user[0]) == (False, True, False)
    others: tuple[tuple[str, Role], ...] = (("bb22", "owner"), ("aa11", "user"), ("cc33", "user"))
    for name, role in others:
        for command in ("resume", "export", "delete", "name"):
            control = Control()
            channel = "telegram" if role == "user" else "terminal"
            told = await said(f"/{command} {name}", role=role, channel=channel, control=control)
            assert command == "name" or "There is no session" in told[0] or "Nothing of this" in told[0], told
            assert not any(one.startswith(("cancel", "resume", "offer")) for one in control.asked)
    control = Control()
    await said("/resume aa", channel="telegram", control=control)
    assert control.asked == ["cancel telegram:me", "resume aa11"]


async def test_U67_resume_without_a_name_is_a_picker_of_ones_own_sessions() -> None:
    control = Control()
    (back,) = await said("/resume", control=control)
    offered = [one for one in control.asked if one.startswith("offer")]
    assert offered == [
        "offer picker friends · 2026-01-02 05:04 · “about friends” · Telegram group -7 · 4 messages · cc33",
        "offer picker cats · 2026-01-02 05:04 · “about cats” · terminal · 4 messages · aa11",
    ]
    assert back.startswith("Back in session `cc33`")


async def test_the_sessions_of_a_group_are_for_the_owner_alone() -> None:
    for command in ("/sessions", "/sessions cats"):
        assert await said(command, role="user", channel="telegram", direct=False) == [
            "The sessions of a group are for the owner, because all of its members are in them."
        ]
    (listed,) = await said("/sessions", channel="telegram", direct=False)
    assert "`aa11`" not in listed, "others read along"


async def test_errors_made_on_purpose_are_the_reply() -> None:
    assert "There is no session 'zz' here." in (await said("/resume zz"))[0]
    assert await said("/model zz") == ["There is no model 'zz'."]


async def test_the_replies_name_what_is_there() -> None:
    control = Control()
    control.choice = None
    (model,) = await said("/model", control=control)
    assert model.startswith("Model: **gpt-x** (openai, a key was found). It does not see pictures. `/model <name>` ")
    assert "Your presets are `quick`. Its service offers `gpt-0`, `gpt-1`, " in model
    assert model.endswith("`gpt-19`, and 5 more.")
    assert "- `aa11` cats · 2026-01-02 05:04 · “about cats” · terminal · 4 messages" in (await said("/sessions"))[0]
    found = (await said("/sessions cat"))[0]
    assert "2026-01-02 00:00, owner: “… the cat sleeps”" in found
    assert found.count("- `aa11`") == 2
    assert "in the index yet" in found
    assert await said("/new") == ["New session `aa11`. The last one is kept: `/resume aa11`."]
    (tools,) = await said("/tools")
    assert "- **Web** (on): searches the web, reads pages and documents (`web_search`); `web_fetch` is off" in tools
    assert len(next(line for line in tools.splitlines() if "mcp_mail" in line)) < 120
    assert await said("/status") == ["status of terminal:me"]


async def test_U68_a_change_of_model_says_what_it_means() -> None:
    control = Control()
    (changed,) = await said("/model other", control=control)
    assert changed.startswith("This chat now uses **other** (vendor). It does not see pictures. ")
    assert changed.endswith("The conversation so far goes to it once in full, without a cache.")
    assert "**gpt-x**" in (await said("/model default", control=control))[0]
    assert control.asked == ["model other", "model "]


async def test_a_model_is_chosen_from_the_presets_and_from_what_the_service_offers() -> None:
    control = Control()
    control.choice = 27
    assert (await said("/model", control=control))[0].startswith("This chat now uses **gpt-24**")
    assert control.asked[:3] == [
        "offer picker quick · gpt-y, effort low",
        "offer picker default · gpt-x",
        "offer picker gpt-0",
    ]
    control.choice = 0
    assert (await said("/model", control=control))[0].endswith("It stays.")
    control.choice, control.asked = 1, []
    assert (await said("/model -24", control=control))[0].startswith("This chat now uses **gpt-24**")
    assert control.asked[0] == "offer picker gpt-24"


def test_a_name_is_taken_once() -> None:
    async def nothing(_: CommandContext) -> None:
        return None

    with pytest.raises(ValueError, match="/exit is taken"):
        builtin_router().add(Command("leave", "", nothing, aliases=("exit",)))


@pytest.mark.parametrize(
    "text", ["/new", "/model gpt-y", "/resume aa11", "/privacy on", "/hints off", "/streaming off"]
)
async def test_in_a_group_only_the_owner_changes_what_all_share(text: str) -> None:
    control = Control()
    (refused,) = await said(text, role="user", channel="telegram", control=control, direct=False)
    assert refused == "Only the owner may change this in a group, because all of its members share it."
    assert control.asked == []
    others: tuple[tuple[Role, bool], ...] = (("user", True), ("owner", False))
    for role, direct in others:
        assert await said(text, role=role, channel="telegram", direct=direct) != [refused]


@pytest.mark.parametrize("text", ["/model", "/privacy", "/hints", "/streaming", "/tools"])
async def test_in_a_group_a_user_may_look_at_what_all_share(text: str) -> None:
    assert "Only the owner" not in (await said(text, role="user", channel="telegram", direct=False))[0]


async def test_what_is_of_other_chats_is_for_the_owner_where_nobody_reads_along() -> None:
    others: tuple[tuple[Role, bool], ...] = (("owner", False), ("user", True), ("user", False))
    for role, direct in others:
        assert await said("/status", role=role, channel="telegram", direct=direct) == ["status of telegram:me alone"]
        assert "1,200 tokens in" in (await said("/usage", role=role, channel="telegram", direct=direct))[0], "their own"
        (refused,) = await said("/resume aa11", role=role, channel="telegram", direct=direct)
        assert "no session" in refused or "Only the owner" in refused
    (back,) = await said("/resume aa11", channel="telegram")
    assert back.startswith("Back in session")
    assert back.endswith("\n\n**You:** what owner may read of aa11")


async def test_G14_sources_shows_the_passage_of_each_mark_or_what_is_missing() -> None:
    control = Control()
    assert "no marks" in (await said("/sources", control=control))[0]
    control.cited = (
        Citation(1, "https://a.example/", "A", "It is 90 m high", passage="The tower of 90 m stands."),
        Citation(2, "https://b.example/", "B", "It opened on 16 May", missing="16 May: not on [2], which has 6 May"),
    )
    (all_of_them,) = await said("/sources", control=control)
    assert "- It is 90 m high\n  → The tower of 90 m stands." in all_of_them
    (second,) = await said("/sources [2?]", control=control)
    assert second == "**[2] B** https://b.example/\n- It opened on 16 May\n  ✗ 16 May: not on [2], which has 6 May"
    assert (await said("/sources 3", control=control))[0] == "The last answer does not cite [3]. It cites [1], [2]."
    assert "by the number" in (await said("/sources first", control=control))[0]


async def test_the_keys_are_those_of_the_page_of_the_terminal() -> None:
    page = (shipped("docs") / "terminal.md").read_text(encoding="utf-8")
    [reply] = await said("/help keys")
    assert reply.removeprefix("**Keys**\n\n") in page
