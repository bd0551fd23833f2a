"""The documentation is complete and true: keys, commands, events and tools, links, and every command that is shown."""

import ast
import asyncio
import importlib
import pkgutil
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import pytest
from msgspec import Struct

from benchmarks.recipes import RECIPES, shown_on_the_page, steady, transcript
from nanobot.agent import tools
from nanobot.agent.tools.base import Tool
from nanobot.agent.tools.offers import FILE_OFFERS
from nanobot.bus.events import Address, Event
from nanobot.channels.base import ChannelManager
from nanobot.channels.telegram.access.gate import access_commands
from nanobot.channels.telegram.access.people import Access
from nanobot.cli.habits import parse
from nanobot.cli.options import build_parser
from nanobot.command.builtin import builtin_router
from nanobot.config.generate import example, key_table
from nanobot.config.keys import keys_of
from nanobot.config.loader import load, load_text
from nanobot.config.schema import Config
from nanobot.config.section import Section
from nanobot.errors import ProviderErrorKind, UsageError
from nanobot.messages import Completed, Text, TextDelta, UserMessage
from nanobot.providers.base import LLMProvider, Request
from nanobot.providers.vendors import VENDORS
from nanobot.results import ToolResult
from nanobot.session.ledger import Ledger
from nanobot.session.sqlite import MemoryDatabase
from nanobot.web.search.catalog import CATALOG
from tests.agent.test_files import home
from tests.fakes.waiting import until
from tests.reach import tree_of

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
PAGES = sorted(DOCS.rglob("*.md"))
FRONT = [ROOT / "README.md", *PAGES]
FIRST = "python3 -m venv .venv && .venv/bin/pip install -q . && .venv/bin/nanobot demo"
REAL_WEB = '.venv/bin/nanobot -m "What changed in the newest Python release?"'
SET_UP = ".venv/bin/nanobot onboard"
SECOND = "bash .ci/run"


def page(name: str) -> str:
    return (DOCS / name).read_text(encoding="utf-8")


def blocks(text: str, *languages: str) -> list[str]:
    """The fenced code blocks in one of these languages; an empty name is a block without one."""
    return [match[2] for match in re.finditer(r"(?ms)^```(\w*)\n(.*?)^```$", text) if match[1] in languages]


def anchors(text: str) -> set[str]:
    """What the headings of a page may be linked by."""
    headings = re.findall(r"(?m)^#+ (.+)$", re.sub(r"(?ms)^```.*?^```$", "", text))
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


def shell_lines() -> Iterator[tuple[str, str]]:
    """(page, command) for every shell line shown; continued lines are joined, comments dropped."""
    for path in FRONT:
        for block in blocks(path.read_text(encoding="utf-8"), "", "bash", "sh", "console"):
            for line in block.replace("\\\n", " ").splitlines():
                if line.strip() and not line.lstrip().startswith("#"):
                    yield path.name, line.strip()


def nanobot_commands() -> list[tuple[str, list[str]]]:
    """(page, words after `nanobot`) for every use of the program that is shown, in a block or inside a sentence."""
    found: list[tuple[str, list[str]]] = []
    shown = [*shell_lines()]
    for path in FRONT:
        prose = re.sub(r"(?ms)^```.*?^```$", "", path.read_text(encoding="utf-8"))
        shown += [(path.name, match[1]) for match in re.finditer(r"`(nanobot [^`]+)`", prose)]
    for name, line in shown:
        lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
        lexer.whitespace_split = True
        words: list[str] = []
        for word in [*lexer, ";"]:
            if word in {"&&", "||", "|", ";", ">", ">>", "<", "&"}:
                if words and Path(words[0]).name == "nanobot":
                    found.append((name, words[1:]))
                words = []
            else:
                words.append(word)
    return found


def accepted(words: list[str]) -> bool:
    """True when the real parser takes the words; `--help` and `--version` leave with 0."""
    try:
        parse(words)
    except SystemExit as leaving:
        return leaving.code == 0
    except UsageError:
        return False
    return True


def all_tools() -> dict[str, list[str]]:
    """The names of the parameters of every tool of the package."""
    for module in pkgutil.walk_packages(tools.__path__, f"{tools.__name__}."):
        importlib.import_module(module.name)
    return {
        tool.name: list(tool.Arguments.__struct_fields__)
        for tool in kinds_of(Tool)
        if tool.__module__.startswith("nanobot.") and "Arguments" in vars(tool)
    }


def kinds_of(kind: type[Tool[Struct]]) -> list[type[Tool[Struct]]]:
    """What is derived from a kind of tool, also over others."""
    return [one for direct in kind.__subclasses__() for one in (direct, *kinds_of(direct))]


def sections(model: type[Section] = Section) -> Iterator[type[Section]]:
    for child in model.__subclasses__():
        if child.__module__.startswith("nanobot."):
            yield child
        yield from sections(child)


def test_the_readme_shows_how_to_try_it_then_how_to_set_it_up_and_at_its_end_how_to_test_it() -> None:
    front = (ROOT / "README.md").read_text(encoding="utf-8")
    shown = [line for block in blocks(front, "") for line in block.splitlines()]
    assert shown[:3] == [FIRST, REAL_WEB, SET_UP]
    assert shown[-1] == SECOND
    assert (ROOT / SECOND.split()[1]).is_file()
    assert FIRST in page("quickstart.md")
    assert SECOND in page("contributing.md")


def test_every_nanobot_command_that_is_shown_is_accepted_by_the_parser() -> None:
    shown = nanobot_commands()
    assert len(shown) >= 20, "the pages show fewer commands than they did; is the search for them broken?"
    for words, name in {tuple(words): name for name, words in shown}.items():
        assert accepted([*words]), f"{name}: nanobot {shlex.join(words)}"


def test_every_option_of_the_command_line_is_documented() -> None:
    text = page("commands.md")
    parsers = [build_parser()]
    for parser in parsers:
        for action in parser._actions:
            if isinstance(action.choices, dict):
                parsers += action.choices.values()
                for word in action.choices:
                    assert re.search(rf"`{parser.prog} {word}\b", text), f"{parser.prog} {word} is not in commands.md"
            for option in action.option_strings:
                assert option in {"-h", "--help"} or re.search(rf"`[^`]*{option}\b", text), f"{option} is not described"


def test_every_key_is_documented() -> None:
    text = page("configuration.md")
    assert key_table().strip() in text, "run python -m nanobot.config.generate"
    models = [*sections()]
    assert Config in models
    for model in models:
        for name, key in keys_of(model).items():
            if key.slot.section is None:
                assert f"`{name}`" in text or f"{name}.<name>`" in text, f"{model.__name__}: {name} is not documented"
                assert key.slot.about, f"{model.__name__}: {name} has no description"


def test_the_example_configuration_is_whole_and_valid() -> None:
    path = ROOT / "config.example.json"
    assert path.read_text(encoding="utf-8") == example(), "run python -m nanobot.config.generate"
    names = re.findall(r"\$\{(\w+)", path.read_text(encoding="utf-8"))
    assert load(path, env=dict.fromkeys(names, "x")).problems == ()


@pytest.mark.parametrize("path", FRONT, ids=lambda path: path.name)
def test_every_configuration_that_is_shown_is_valid(path: Path) -> None:
    for block in blocks(path.read_text(encoding="utf-8"), "json", "jsonc"):
        names = re.findall(r"(?<!\$)\$\{(?:env:)?(\w+)", block)
        assert load_text(block, path, env=dict.fromkeys(names, "x")).problems == (), block


def test_every_slash_command_has_a_heading() -> None:
    text = page("commands.md")
    headings = re.findall(r"(?m)^### /(\S+)$", text)
    router = builtin_router()

    async def say(address: Address, text: str, key: str) -> None:
        raise AssertionError(f"{address}: {text} ({key})")

    for command in access_commands(Access(Ledger(MemoryDatabase()), "telegram:1"), say):
        router.add(command)
    commands = [command for channel in ("terminal", "telegram") for command in router.commands("owner", channel)]
    assert set(headings) == {command.name for command in commands}
    for command in commands:
        for alias in command.aliases:
            assert f"`/{alias}`" in text, f"/{alias} is not documented"


def test_every_event_is_documented() -> None:
    rows = re.findall(r"(?m)^\| `(\w+)` \|", page("writing-a-channel.md"))
    assert sorted(rows) == sorted(kind.__name__ for kind in get_args(Event))


def test_every_tool_and_each_of_its_parameters_is_documented() -> None:
    chapters = dict(re.findall(r"(?ms)^## (\w+)\n(.*?)(?=^## |\Z)", page("tools.md")))
    found = all_tools()
    assert {"ask", "message", "nanobot_docs", "todo", "web_fetch", "web_search", *FILE_OFFERS} <= found.keys()
    for name, parameters in found.items():
        rows = re.findall(r"(?m)^\| `(\w+)` \|", chapters[name])
        assert sorted(rows) == sorted(parameters), name


def test_every_search_engine_is_documented_with_its_variable_in_the_order_of_auto() -> None:
    rows = re.findall(r"(?m)^\| `(\w+)` \| (?:`(\w+)`|none)", page("web.md"))
    assert rows == [(name, entry.key_env) for name, entry in CATALOG.items()]


def test_every_vendor_of_models_is_documented_with_its_variable() -> None:
    text = page("models.md")
    for vendor in VENDORS:
        row = re.search(rf"(?m)^\| `{vendor.name}` \|(.*)$", text)
        assert row, f"{vendor.name} is not in models.md"
        assert all(f"`{key}`" in row[1] for key in vendor.keys), row[0]


@pytest.mark.parametrize("path", FRONT, ids=lambda path: path.name)
def test_links_lead_somewhere(path: Path) -> None:
    text = re.sub(r"(?ms)^```.*?^```$", "", path.read_text(encoding="utf-8"))
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if re.match(r"[a-z]+:", target):
            continue
        place, _, anchor = target.partition("#")
        aim = (path.parent / place).resolve() if place else path
        assert aim.exists(), f"{path.name} links to {target}"
        assert not anchor or anchor in anchors(aim.read_text(encoding="utf-8")), f"{path.name} links to {target}"


def test_every_page_can_be_reached_from_the_index() -> None:
    linked = set(re.findall(r"\]\(([\w/-]+\.md)\)", page("index.md")))
    assert linked == {path.relative_to(DOCS).as_posix() for path in PAGES} - {"index.md"}


async def test_the_tool_in_the_documentation_works() -> None:
    namespace: dict[str, object] = {}
    exec(blocks(page("writing-a-tool.md"), "python")[0], namespace)
    kind = namespace["RollTool"]
    assert isinstance(kind, type)
    assert issubclass(kind, Tool)
    tool = kind()
    results: list[ToolResult] = [await tool.call({"faces": [3, 5]}), await tool.call({"faces": [1], "taget": 2})]
    assert results[0].text == "8 reaches 7"
    assert results[1].error == "invalid_input"
    assert "did you mean 'target'" in results[1].text
    assert (await tool.call({"faces": [9]})).error == "invalid_input"


async def test_the_provider_in_the_documentation_works() -> None:
    namespace: dict[str, object] = {}
    exec(blocks(page("writing-a-provider.md"), "python")[0], namespace)
    kind = namespace["EchoProvider"]
    assert isinstance(kind, type)
    provider: LLMProvider = kind()
    deltas = [delta async for delta in provider.stream(Request((UserMessage((Text("hello"),)),)))]
    assert deltas[0] == TextDelta("hello")
    assert isinstance(deltas[-1], Completed)
    assert deltas[-1].message.text == "hello"


async def test_the_channel_in_the_documentation_works(tmp_path: Path) -> None:
    namespace: dict[str, object] = {}
    exec(blocks(page("writing-a-channel.md"), "python")[0], namespace)
    kind, path = namespace["LineChannel"], tmp_path / "socket"
    assert isinstance(kind, type)
    async with home(tmp_path) as box, asyncio.timeout(60):
        manager = ChannelManager(box.bot, [kind(box.bot, str(path))])
        serving = asyncio.create_task(manager.run())
        await until(path.exists)
        reader, writer = await asyncio.open_unix_connection(path)
        writer.write(b"hello\n/whoami\n")
        heard = {(await reader.readline()).decode() for _ in range(3)}
        await manager.stop()
        await serving
        writer.close()
        await writer.wait_closed()
    assert heard == {"Done.\n", "You: id `me`, owner.\n", "This chat: `socket` on line.\n"}


def test_the_provider_errors_that_are_named_exist() -> None:
    rules = page("writing-a-provider.md").partition("## The rules")[2].partition("## Tests")[0]
    named = set(re.findall(r"`([a-z_]+)`", rules)) - {"stream", "retry_after", "error", "system", "tail"}
    assert named <= set(get_args(ProviderErrorKind)), named - set(get_args(ProviderErrorKind))


def test_the_changelog_opens_with_what_is_not_released() -> None:
    assert page("changelog.md").startswith("# Changelog\n\n## Unreleased\n\n- ")


@pytest.mark.parametrize("path", FRONT, ids=lambda path: path.name)
def test_pages_have_one_title_and_no_trailing_blanks(path: Path) -> None:
    text = re.sub(r"(?ms)^```.*?^```$", "", path.read_text(encoding="utf-8"))
    assert len(re.findall(r"(?m)^# ", text)) == 1
    assert not re.search(r"(?m)[ \t]+$", text)


def test_every_benchmark_is_documented_by_its_command() -> None:
    text = page("benchmarks.md")
    for path in (ROOT / "benchmarks").glob("[!_]*.py"):
        assert f"`python -m benchmarks.{path.stem}" in text, f"benchmarks/{path.name} is not described"


def test_the_page_on_architecture_names_every_module() -> None:
    """A stranger finds a behaviour in two hops: from this page to a module, whose first line says what it does."""
    page = (DOCS / "architecture.md").read_text(encoding="utf-8")
    marked = re.findall(r"`([^`\n]+)`", page)
    named = {part for found in marked for part in found.removesuffix(".py").split("/")}
    modules = [path for path in (ROOT / "nanobot").rglob("*.py") if not path.name.startswith("__")]
    assert [str(path) for path in modules if path.stem not in named] == []
    assert [str(path) for path in modules if not ast.get_docstring(tree_of(path))] == []


def test_every_recipe_has_its_transcript() -> None:
    text = page("recipes.md")
    assert re.findall(r"(?m)^## (.+)$", text) == [*RECIPES]
    assert all(shown_on_the_page(text, heading)[1].strip() for heading in RECIPES)


@pytest.mark.parametrize("heading", ["Read a PDF", "In a pipe"])
async def test_a_transcript_of_the_recipes_is_what_the_program_prints(heading: str) -> None:
    """`python -m benchmarks.recipes --check` holds all of them against the program."""
    shown = shown_on_the_page(page("recipes.md"), heading)[1].rstrip()
    assert steady(await transcript(RECIPES[heading])) == steady(shown)


def test_every_shipped_skill_is_listed() -> None:
    shipped = {one.name for one in (ROOT / "nanobot/skills/shipped").iterdir()}
    assert set(re.findall(r"(?m)^\| `([a-z-]+)` \|", page("skills.md"))) == shipped
