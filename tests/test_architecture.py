"""The rules of the house, read from the syntax tree of every module.

A rule that is wrong is changed here, in the open, with its reason. The lists of exceptions may only shrink.
"""

import ast
import functools
import re
import statistics
from collections.abc import Iterator
from pathlib import Path

from nanobot.config.keys import keys_of
from nanobot.config.schema import Config
from nanobot.config.section import Section
from tests.reach import module_name, nodes, reach, tree_of, unpassed

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "nanobot"
MODULES = sorted(PACKAGE.rglob("*.py"))

FILE_LINES = 600  # a file tells a whole story; 100 to 200 lines as a rule
FUNCTION_LINES = 50
MEDIAN = range(100, 201)
ROOM_FILES = 15
#: A module with fewer lines and a single importer belongs to its importer, unless it is a way in.
SMALL = 120

#: Room → floor. A room imports only from floors with a lower number, and never from another room on its own floor.
FLOORS = {
    "utils.translation": -1,  # every room has sentences; it needs the standard library alone
    "errors": 0,
    "jsonval": 0,
    "messages": 0,
    "results": 1,
    "utils": 1,  # pure functions that config and security need too, so they stand below both
    "security": 2,
    "config": 2,
    "demo": 2,  # a web of its own, served on loopback: it knows nothing of agents
    "web": 3,
    "bus": 3,
    "session": 3,
    "files": 3,
    "providers": 3,
    "money": 4,
    "library": 4,  # an index over what lower rooms keep and read
    "schedule": 4,
    "skills": 4,
    "watch": 4,
    "upkeep": 4,
    "archive": 5,  # conversations as files, and deleted with what the index has of them
    "agent.tools": 5,
    "cluster": 5,  # many processes on one ledger: it stands on `session`, and the channels stand on it
    "command": 5,
    "agent": 6,
    "channels": 7,
    "plugins": 7,
    "builder": 8,
    "migrate": 8,  # what other programs have kept, taken over
    "doctor": 9,  # it tries the parts that `builder` makes
    "app": 10,
    "cli": 11,
    "__main__": 12,
}

#: What these are for is to import what is asked for, and nothing before: tools, parts of the agent, commands.
IMPORTS_WHEN_ASKED = {
    "nanobot.app",
    "nanobot.builder.agent",
    "nanobot.builder.models",
    "nanobot.cli.main",
    "nanobot.agent.tools.own_tools",
    "nanobot.agent.tools.files.offered",
    "nanobot.agent.tools.knowledge.offered",
}
#: (importing module, imported module): the other lazy imports that keep start-up cheap; no further one is allowed.
LAZY_IMPORTS: set[tuple[str, str]] = {
    ("nanobot.cli.habits", "nanobot.command.pages"),  # only `nanobot help TOPIC` asks for the names of the pages
    ("nanobot.__main__", "importlib.util"),  # few compiled files are cut off
    ("nanobot.channels.telegram.send.messages", "nanobot.channels.telegram.render.answer"),  # few write elsewhere
    ("nanobot.utils.translation", "json"),  # English needs no catalogue
    ("nanobot.utils.translation", "pathlib"),
    ("nanobot.utils.prompt_templates", "jinja2"),  # the shipped templates hold nothing that takes it
    ("nanobot.utils.prompt_templates", "jinja2.sandbox"),
    ("nanobot.web.fetch.reader", "nanobot.web.host_proxy"),  # for plug-ins that read pages
    ("nanobot.utils.text", "datetime"),  # of all that import the small functions on text one reads dates
    ("nanobot.utils.text", "email.utils"),
    ("nanobot.agent.answer_text", "nanobot.agent.citations.answer"),
    ("nanobot.agent.context", "nanobot.library.lines"),  # few memories are longer than what is shown
    ("nanobot.agent.external_tools", "nanobot.agent.tools.mcp.servers"),
    ("nanobot.agent.external_tools", "nanobot.agent.tools.web.search"),  # no tool is imported before it is called
    ("nanobot.agent.external_tools", "nanobot.web.usage"),
    ("nanobot.agent.external_tools", "nanobot.utils.searchusage"),
    ("nanobot.agent.chats.control", "nanobot.agent.tools.commands.background"),
    ("nanobot.agent.tools.commands.execute", "nanobot.web.client"),  # few commands have a network
    ("nanobot.agent.tools.commands.execute", "nanobot.web.host_proxy"),
    ("nanobot.cli.agent_command", "nanobot.channels.terminal.files"),  # for a question that names files
    ("nanobot.config.paths", "nanobot.config.changes.seeds"),  # only another version brings other files
    ("nanobot.cli.gateway", "nanobot.cli.care.service"),  # set up once in years
    ("nanobot.cli.care.config", "asyncio"),
    ("nanobot.cli.care.config", "nanobot.builder.judging"),
    ("nanobot.builder.judging", "nanobot.cluster.postgres"),  # only gateways that share a database have its driver
    ("nanobot.providers.registry", "nanobot.providers.anthropic"),  # of two wires one is used
    ("nanobot.providers.registry", "nanobot.providers.openai_compat"),
    ("nanobot.security.process_tree", "subprocess"),  # what runs before every command on Linux needs none
    ("nanobot.security.sandbox", "nanobot.security.landlock"),  # a library of Linux, which other systems lack
    ("nanobot.security.sandbox", "nanobot.security.seccomp"),
    ("nanobot.web.urls", "nanobot.web.url_ends"),  # a text without a URL needs no rules of where one ends
    ("nanobot.web.search.catalog", "nanobot.web.search.duckduckgo"),  # no engine is imported before it is asked
    ("nanobot.web.search.catalog", "nanobot.web.search.engines"),
    ("nanobot.web.search.catalog", "nanobot.web.search.mcp"),
    ("nanobot.cli.commands.mcp", "nanobot.agent.external_tools"),  # only trying a server needs it
    ("nanobot.command.builtin", "nanobot.schedule.appointments"),  # few conversations schedule anything
    ("nanobot.doctor.checkup", "nanobot.cluster.ledger"),  # only gateways that share a database have its driver
    ("nanobot.schedule.due", "cronsim"),
    ("nanobot.cli.agent_command", "nanobot.agent.recording"),
    ("nanobot.cli.agent_command", "nanobot.cli.interactive"),
    ("nanobot.cli.agent_command", "nanobot.cli.rendered"),
    ("nanobot.cli.agent_command", "nanobot.channels.terminal.render"),  # for a conversation
    ("nanobot.cli.agent_command", "nanobot.cli.join"),  # where a gateway runs
    ("nanobot.cli.join", "nanobot.channels.terminal.look"),
    ("nanobot.cli.join", "nanobot.cli.interactive"),  # for a conversation
    ("nanobot.cli.agent_command", "nanobot.channels.terminal.look"),  # a pipe wants plain text
}

#: (module, handler count): where a broad `except` is right: tool boundary, turn boundary, channel send, process, and
#: the update boundary, where one bad update must not take the others with it.
BROAD_EXCEPTS: dict[str, int] = {
    "nanobot.agent.tools.base": 1,
    "nanobot.agent.ends": 1,
    "nanobot.agent.scheduler": 1,  # a run that broke would else be begun again at once, for ever
    "nanobot.channels.telegram.receive.inbox": 2,  # reading an update, before all judging, and working on it
    "nanobot.channels.telegram.send.outbox": 1,
    "nanobot.channels.telegram.show.progress": 1,
    "nanobot.cli.main": 1,
    "nanobot.doctor.findings": 1,  # a check that breaks is a finding, and the others still tell what is wrong
    "nanobot.plugins.entry_points": 1,  # what others wrote: a broken plug-in costs nothing but itself
    "nanobot.session.sqlite": 2,  # what fails on the store's thread is handed to the one who waits for it
}

#: Definitions that no way from `nanobot.__main__` reaches, each with the reason why it may stay.
UNREACHED: dict[str, str] = {
    "nanobot.providers.scripted:": "the fake of LLMProvider that the package ships, see docs/writing-a-provider.md",
    "nanobot.config.schema:Config.schema_url": "read by editors",
    "nanobot.agent.recording:Head.nanobot": "written for the person who reads a recording",
    "nanobot.agent.recording:Head.recorded_at": "written for the person who reads a recording",
    "nanobot.web.extract.worker:Extractor.pids": "what tests see of the processes that it starts and ends",
}
#: Keys that nothing reads, each with the reason why it may stay.
UNREAD: dict[str, str] = {"Config.schema_url": "read by editors"}
#: Parameters that only tests give: the hands of a clock, stand-ins for what is outside, and waits cut short.
CLOCKS = {"clock", "sleep", "now", "chance", "pace", "retry", "localtime"}
STAND_INS = {"WebFetchTool.network", "WebSearchTool.clients", "WebSearchTool.ddgs"}
STAND_INS |= {"NanobotDocsTool.folder", "Documents.extractor", "token_lock.folder"}
WAITS = {"AgentLoop.quiet", "CommandTranscriber.seconds", "StallWatch.after", "StallWatch.beat"}
WAITS |= {"key_from_command.timeout"}
#: Parameters that nobody gives and that should go; the list only shrinks.
TO_GO = {"MediaFolder.limit"}
#: Where the schema is made, judged and shown; reading a key there gives it no effect.
SCHEMA_MODULES = {
    f"nanobot.config.{name}" for name in "schema schema_tools schema_web section keys given values generate".split()
}


#: Words that tell nobody where to look, and what the field says instead. Each stands for its kin, too (`painted`).
POETRY = {
    "draft": "message or note",
    "lane": "queue",
    "letter": "message",
    "frame": "block, update or entry",
    "desk": "tools or service",
    "ground": "services or base",
    "seam": "protocol",
    "insist": "retry",
    "joining": "batch",
    "reception": "receive",
    "showing": "view",
    "paint": "render",
}
#: (beginning of a module's name, word): where the word is the field's own.
TERMS = {
    ("nanobot.channels.telegram", "draft"): "the Bot API's sendMessageDraft",
    ("nanobot.session", "draft"): "a message whose text is still being written, a state in the database's layout",
    ("nanobot.cluster", "draft"): "a message whose text is still being written, a state in the database's layout",
    ("nanobot.utils.watchdog", "frame"): "a frame of Python's stack",
    ("nanobot.web.extract", "frame"): "what stands around the content of a page, and the frames of a stack",
    ("nanobot.web.fetch.charset", "letter"): "the letters of an alphabet",
    ("nanobot.web.url_ends", "letter"): "the letters of an alphabet",
    ("nanobot.agent.tools", "letter"): "the two letters of a country's code",
}


#: What still breaks a rule of names and sizes; these lists only shrink.
LARGE_ROOMS = {"agent"}
SMALL_MODULES = {"nanobot.web.extract.feed"}


def room_of(module: str) -> str | None:
    parts = module.split(".")[1:]
    if not parts:
        return None
    apart = ".".join(parts[:2])
    return apart if apart in ("agent.tools", "utils.translation") else parts[0]


def imports_of(tree: ast.AST, module: str, *, is_package: bool) -> Iterator[tuple[str, int]]:
    for node in nodes(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name, node.lineno
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parts = module.split(".")
                kept = parts[: len(parts) - node.level + (1 if is_package else 0)]
                base = ".".join([*kept, base] if base else kept)
            yield base, node.lineno
            if (ROOT / base.replace(".", "/")).is_dir():
                for alias in node.names:
                    yield f"{base}.{alias.name}", node.lineno


def imports_of_module(path: Path) -> Iterator[tuple[str, int]]:
    return imports_of(tree_of(path), module_name(path), is_package=path.name == "__init__.py")


def functions_of(path: Path) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in nodes(tree_of(path)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def lazy_imports_of(path: Path) -> Iterator[tuple[str, int]]:
    for function in functions_of(path):
        yield from imports_of(function, module_name(path), is_package=path.name == "__init__.py")


def judge(rule: str, broken: list[str]) -> None:
    assert not broken, "\n".join([rule, *broken])


def test_imports_only_go_down() -> None:
    broken = []
    for path in MODULES:
        room = room_of(module_name(path))
        if room is None:
            continue
        assert room in FLOORS, f"{path}: the room {room!r} has no floor"
        for target, line in imports_of_module(path):
            other = room_of(target) if target.startswith("nanobot.") else None
            if other in FLOORS and other != room and FLOORS[other] >= FLOORS[room]:
                broken.append(f"{path}:{line}: {room} (floor {FLOORS[room]}) imports {target}")
    judge("A room imports only from lower floors.", broken)


def test_files_and_functions_stay_small() -> None:
    broken = []
    for path in MODULES:
        lines = len(path.read_text(encoding="utf-8").splitlines())
        if lines > FILE_LINES:
            broken.append(f"{path} has {lines} lines")
        for node in functions_of(path):
            length = (node.end_lineno or node.lineno) - node.lineno + 1
            if length > FUNCTION_LINES:
                broken.append(f"{path}:{node.lineno}: {node.name} has {length} lines")
    judge(f"A file has at most {FILE_LINES} lines, a function {FUNCTION_LINES}.", broken)


def sizes() -> dict[str, int]:
    """The lines of every module that holds more than a docstring."""
    return {module_name(path): len(path.read_text(encoding="utf-8").splitlines()) for path in MODULES if says(path)}


def says(path: Path) -> bool:
    return path.name != "__init__.py" or len(tree_of(path).body) > 1


def test_a_module_has_a_hundred_to_two_hundred_lines_as_a_rule() -> None:
    median = int(statistics.median(sizes().values()))
    assert median in MEDIAN, f"half of the modules have less than {median} lines"


def test_a_room_has_at_most_fifteen_modules() -> None:
    """A room inside counts as one. The package itself is the house: its folders are the rooms."""
    rooms = {path.parent for path in MODULES} - {PACKAGE}
    counts = {room: sum(path.parent == room and says(path) for path in MODULES) for room in rooms}
    counts = {room: count + sum(other.parent == room for other in rooms) for room, count in counts.items()}
    large = {str(room.relative_to(PACKAGE)): count for room, count in counts.items() if count > ROOM_FILES}
    broken = [f"{room}: {count} modules" for room, count in large.items() if room not in LARGE_ROOMS]
    broken += [f"{room} is within the bound: take it off the list" for room in LARGE_ROOMS - large.keys()]
    judge(f"A room has at most {ROOM_FILES} modules.", broken)


@functools.cache
def ways_in() -> set[str]:
    """Modules that are loaded only when they are needed, or run as programs of their own."""
    lazy = {target for path in MODULES for target, _ in lazy_imports_of(path)}
    named = {name.partition(":")[0] for unit in reach().units for name in unit.starts if ":" in name}
    return lazy | named | {module_name(path) for path in MODULES if path.name == "__main__.py" or runs(path)}


def runs(path: Path) -> bool:
    return any(
        isinstance(node, ast.If) and ast.unparse(node.test) == "__name__ == '__main__'" for node in tree_of(path).body
    )


def test_a_small_module_has_more_than_one_importer_or_is_a_way_in() -> None:
    importers: dict[str, set[str]] = {}
    for path in MODULES:
        for target, _ in imports_of_module(path):
            importers.setdefault(target, set()).add(module_name(path))
    small = {
        module: f"{module} ({lines} lines) is imported by {', '.join(importers.get(module, ())) or 'nobody'} alone"
        for module, lines in sizes().items()
        if lines < SMALL and len(importers.get(module, ())) < 2 and module not in ways_in()
    }
    broken = [said for module, said in small.items() if module not in SMALL_MODULES]
    broken += [f"{module} keeps the rule: take it off the list" for module in SMALL_MODULES - small.keys()]
    judge(f"A module of less than {SMALL} lines and one importer is a part of it.", broken)


def test_no_class_name_stands_twice() -> None:
    found: dict[str, list[str]] = {}
    for path in MODULES:
        for node in nodes(tree_of(path)):
            if isinstance(node, ast.ClassDef):
                found.setdefault(node.name, []).append(module_name(path))
    broken = [f"{name}: {', '.join(modules)}" for name, modules in found.items() if len(modules) > 1]
    judge("A class has a name of its own in the whole product.", sorted(broken))


def names_of(path: Path) -> Iterator[tuple[str, int]]:
    """The names of a module, its classes, functions and parameters, with their lines."""
    yield path.stem, 1
    for node in nodes(tree_of(path)):
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name, node.lineno
        elif isinstance(node, ast.arg):
            yield node.arg, node.lineno


def test_names_are_terms_of_the_field() -> None:
    broken = [
        f"{path}:{line}: {name} (say {better})"
        for path in MODULES
        for name, line in names_of(path)
        for word, better in POETRY.items()
        if any(part.startswith(word) for part in re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower().split("_"))
        and not any(module_name(path).startswith(where) for where, own in TERMS if own == word)
    ]
    judge("Names are terms of the field, which nobody has to guess.", broken)


def test_no_any() -> None:
    broken = [
        f"{path}:{node.lineno}"
        for path in MODULES
        for node in nodes(tree_of(path))
        if (isinstance(node, ast.Name) and node.id == "Any") or (isinstance(node, ast.Attribute) and node.attr == "Any")
    ]
    judge("Any tells nothing; JSON is dict[str, object] until the edge has parsed it.", broken)


def test_imports_inside_functions_are_listed() -> None:
    found = {
        (module_name(path), target): f"{path}:{line}" for path in MODULES for target, line in lazy_imports_of(path)
    }
    found = {entry: place for entry, place in found.items() if entry[0] not in IMPORTS_WHEN_ASKED}
    broken = [f"{place}: {target}" for (module, target), place in found.items() if (module, target) not in LAZY_IMPORTS]
    judge("A lazy import stands in LAZY_IMPORTS, with what it keeps from the start.", broken)
    judge("A lazy import that is gone leaves the list.", [str(entry) for entry in LAZY_IMPORTS - set(found)])


def broad_handlers(path: Path) -> list[int]:
    return [
        node.lineno
        for node in nodes(tree_of(path))
        if isinstance(node, ast.ExceptHandler)
        and (node.type is None or (isinstance(node.type, ast.Name) and node.type.id in {"Exception", "BaseException"}))
        and not any(isinstance(inner, ast.Raise) and inner.exc is None for inner in ast.walk(node))
    ]


def test_broad_excepts_stand_only_where_listed() -> None:
    broken = [
        f"{path}: lines {lines}"
        for path in MODULES
        if len(lines := broad_handlers(path)) > BROAD_EXCEPTS.get(module_name(path), 0)
    ]
    judge("A broad except stands only at the boundaries of BROAD_EXCEPTS.", broken)


def test_tests_do_not_patch() -> None:
    pattern = re.compile(r"mock\.patch|MagicMock|AsyncMock|monkeypatch\.setattr")
    for path in (ROOT / "tests").rglob("*.py"):
        if path == Path(__file__):
            continue
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            assert not pattern.search(line), f"{path}:{number}: use the seam and its fake"


def test_files_are_opened_with_a_named_encoding() -> None:
    for path in MODULES:
        for node in nodes(tree_of(path)):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                if node.func.attr not in {"read_text", "write_text"}:
                    continue
                named = any(keyword.arg == "encoding" for keyword in node.keywords)
                assert named, f"{path}:{node.lineno}: {node.func.attr} without encoding="


def test_every_client_says_which_certificates_it_trusts() -> None:
    """Without a word it would load a list of its own, and not the one that `SSL_CERT_FILE` names."""
    broken = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for path in MODULES
        for node in nodes(tree_of(path))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "AsyncClient"
        if not {"verify", "transport"} & {keyword.arg for keyword in node.keywords}
    ]
    judge("A client names its certificates (`nanobot.security.network.certificates`)", broken)


def test_every_definition_is_reached_from_the_program() -> None:
    dead = [unit.shown for unit in reach().dead()]
    judge("Nothing in the program reaches these; take them out or give them a caller.", sorted({*dead} - {*UNREACHED}))
    judge("These are reached now, or gone; they leave UNREACHED.", sorted({*UNREACHED} - {*dead}))


def keys_of_sections() -> dict[type[Section], set[str]]:
    """Every section of the configuration with the attributes by which code comes to it."""
    found: dict[type[Section], set[str]] = {Config: {"config"}}
    waiting: list[type[Section]] = [Config]
    while waiting:
        for key in keys_of(waiting.pop()).values():
            if kind := key.slot.section or key.slot.named:
                if kind not in found:
                    waiting.append(kind)
                found.setdefault(kind, set()).add(key.attribute)
    return found


def test_every_configuration_key_has_a_reader_outside_the_schema() -> None:
    reached = [unit for unit in reach().reached if unit.module not in SCHEMA_MODULES]
    said: dict[str, set[str]] = {}
    for unit in reached:
        said.setdefault(unit.module, set()).update(unit.attributes, unit.names)
    # A room that may not know the schema states a Protocol with the names of keys; reading those is reading the keys.
    kinds = {kind.__name__ for kind in keys_of_sections()}
    protocols = [unit for unit in reached if "Protocol" in unit.names and isinstance(unit.node, ast.ClassDef)]
    seams = [{one.name for one in unit.inside} & said[unit.module] | kinds for unit in protocols]
    broken = [
        f"{kind.__name__}.{name}"
        for kind, ways in keys_of_sections().items()
        for name in kind.__struct_fields__
        if not any(name in words and words & {kind.__name__, "Section", *ways} for words in [*said.values(), *seams])
    ]
    judge("A key that nothing reads promises what is not there.", sorted({*broken} - {*UNREAD}))
    judge("These are read now, or gone; they leave UNREAD.", sorted({*UNREAD} - {*broken}))


def test_every_parameter_with_a_default_is_given_somewhere_in_the_program() -> None:
    found = {*unpassed()}
    known = STAND_INS | WAITS | TO_GO
    broken = {one for one in found - known if one.rpartition(".")[2] not in CLOCKS}
    judge("No call gives these parameters: an option that nobody takes goes out.", sorted(broken))
    judge("These are given now, or gone; they leave their list.", sorted(known - found))
