"""Words of habit: what people type at any program of this kind, on the command line and in a chat."""

import pytest

from nanobot.cli.actions import BY_NAME
from nanobot.cli.habits import meant
from nanobot.command.builtin import builtin_router
from nanobot.command.pages import page_of, unwrapped
from nanobot.command.words import WORDS
from nanobot.errors import UsageError
from tests.tables import table

#: Lines as they are typed at programs of the same kind, none of which is a message.
HABITS = """
onboard | init | setup | doctor | help | version | update | upgrade | login | logout | models | sessions | history
tools | mcp | skills | schedule | usage | cost | config | exit | quit | ? | chat | run | serve | start | auth | provider
providers | channels | channels status | channels list | channels add | channels login | cron | cron list | cron add
cron status | gateway status | gateway start | gateway stop | gateway restart | gateway install | gateway run | restart
plugins | plugins list | plugins install | pairing | pairing list | pairing approve | agents | agents list | agents add
logs | logs --follow | reset | export | import | backup | restore | uninstall | models list | models set | auth login
auth list | sessions list | skills list | memory status | tools list | model list | dashboard | tui | daemon start
service status | daemon stop | config list | update check | update --yes | backup create | status --deep | init --force
serve --port 8080 | run qwen3:8b | run llama3.2 | help telegram | help telegrm | help xyzzy | help writing a tool
""".replace("\n", "|").split("|")
#: Sentences that begin with such a word: messages, all of them.
SENTENCES = """
update me on the news | help me write a letter | help me | help with my essay | version control for beginners
schedule of the Bundesliga today? | run a web search on tides | reset my expectations | config files in Python explained
history of the Roman empire | start with the oldest one | exit polls in France | models of the atom
gateway drugs explained simply | status of my parcel, please | doctor who made the first vaccine | cost of living
import taxes for cars | restore my faith in people | serve dinner for six | channels between England and France
tools for woodworking | login problems at my bank | plugins for a synthesizer | chat about the weather with me
""".replace("\n", "|").split("|")


def taken(line: str) -> list[str] | None:
    """The arguments that a line is taken for; None where it is told what there is instead."""
    try:
        return meant(line.split())
    except UsageError:
        return None


@pytest.mark.parametrize("lines", [HABITS], ids=["habits"])
def test_no_word_of_habit_is_a_message_on_the_command_line(lines: list[str]) -> None:
    for line in filter(None, map(str.strip, lines)):
        arguments = taken(line)
        if arguments and arguments[0] == "agent" and any(not one.startswith("-") for one in arguments[1:]):
            assert arguments[:3] == ["agent", "--continue", "-m"], line
            assert arguments[3].startswith("/"), line


@pytest.mark.parametrize("lines", [SENTENCES], ids=["sentences"])
def test_a_sentence_that_begins_with_a_word_of_habit_is_a_message(lines: list[str]) -> None:
    for line in filter(None, map(str.strip, lines)):
        words = line.split()
        command = words[0] in BY_NAME and words[0] not in {"help", "gateway", "status", "doctor", "onboard"}
        assert command or taken(line) == ["agent", *words], line
        assert builtin_router().match(line) is None, line


@table(
    "line arguments",
    ("gateway status", ["status"]),
    ("gateway start", ["gateway"]),
    ("gateway start --debug", ["gateway", "--debug"]),
    ("cron list", ["schedule", "list"]),
    ("skills list", ["skill", "list"]),
    ("init", ["onboard"]),
    ("--config a.json setup", ["onboard", "--config", "a.json"]),
    ("help telegram", ["help", "telegram"]),
    ("HELP", ["--help"]),
    ("tui", ["agent"]),
)
def test_what_is_meant_is_done(line: str, arguments: list[str]) -> None:
    assert taken(line) == arguments


@pytest.mark.parametrize(
    ("topic", "page"), [("search", "web"), ("model", "models"), ("sandbox", "security"), ("reminder", "schedule")]
)
def test_a_topic_is_found_by_the_name_that_people_give_it(topic: str, page: str) -> None:
    found = page_of(topic)
    assert found is not None
    assert found.stem == page


def test_a_page_is_shown_in_paragraphs_that_the_terminal_may_wrap() -> None:
    text = "# A\n\nOne\ntwo.\n\n- a\n  b\n- c\n\n1. d\n2. e\n\n| x |\n|---|\n| y |\n\n```\nf\ng\n```\nh\n"
    shown = "# A\n\nOne two.\n\n- a b\n- c\n\n1. d\n2. e\n\n| x |\n|---|\n| y |\n\n```\nf\ng\n```\nh\n"
    assert unwrapped(text) == shown


@pytest.mark.parametrize("name", BY_NAME)
def test_a_command_of_the_shell_is_no_message_in_a_chat(name: str) -> None:
    assert builtin_router().match(name) is not None


@pytest.mark.parametrize("name", sorted(WORDS))
def test_a_chat_answers_each_pair_of_words_and_sends_it_to_no_model(name: str) -> None:
    if " " in name:
        assert builtin_router().match(f" {name.title()}. ") is not None
