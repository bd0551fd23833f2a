"""Starting costs what is used: each command has a budget of modules and a list of parts it must not load.

The count is taken from `sys.modules` of a fresh process after the command has run, because it does not depend on how
busy the machine is. A budget may shrink; where it must grow, say why in the commit.
"""

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

from nanobot.utils.processes import bare_environment
from tests.fakes.website import Answer, Website

HEAVY = {
    "httpx", "pydantic", "rich", "prompt_toolkit", "markdown_it", "telegram", "lxml", "readability", "loguru", "jinja2",
    "asyncio", "ddgs", "sqlite3", "pypdfium2", "mcp", "ssl", "nanobot.agent.citations.answer", "click", "procrastinate",
    "psycopg", "nanobot.web.search.duckduckgo", "nanobot.web.search.engines",
    "nanobot.web.search.mcp", "nanobot.web.url_ends", "nanobot.agent.tools.docs", "nanobot.agent.tools.web.fetch",
    "nanobot.agent.tools.web.search", "nanobot.agent.tools.mcp.servers", "nanobot.web.usage",
    "nanobot.channels.documents",
}  # fmt: skip
#: Command → (most modules, what it may load of `HEAVY`).
BUDGETS: dict[str, tuple[int, set[str]]] = {
    "--version": (120, set()),
    "--help": (120, set()),
    "agent --help": (120, set()),
    "config --help": (120, set()),
    "gateway --help": (120, set()),
    "config path": (200, set()),
    # A question in a pipe meets no model here: it ends at the missing model, after everything was loaded.
    "agent -m hello --model nowhere/none": (
        600,
        {"httpx", "loguru", "asyncio", "sqlite3", "ssl"},
    ),
}
PROBE = """
import sys
from nanobot.cli.main import main
main(sys.argv[1:])
sys.stdout.flush()
print("MODULES", *sorted(sys.modules), file=sys.stderr)
"""


@pytest.mark.parametrize("command", BUDGETS)
def test_a_command_loads_no_more_than_it_uses(command: str, tmp_path: Path) -> None:
    env = {"HOME": str(tmp_path), "NANOBOT_HOME": str(tmp_path / "home"), "PATH": "", "LANG": "C.UTF-8"}
    ran = subprocess.run(
        [sys.executable, "-c", PROBE, *command.split()],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        env=env,
        timeout=120,
        check=False,
    )
    line = next(line for line in ran.stderr.splitlines() if line.startswith("MODULES "))
    modules = set(line.split()[1:])
    most, allowed = BUDGETS[command]
    assert modules & HEAVY <= allowed, f"{command} loads {sorted((modules & HEAVY) - allowed)}"
    assert len(modules) <= most, f"{command} loads {len(modules)} modules, {most} are allowed"


PAGE = """
import asyncio, sys
from nanobot.security.network import Exceptions
from nanobot.web.client import Guard, guarded_client, trusted_client

async def main():
    for client in guarded_client(Guard(Exceptions.parse(["127.0.0.1/32"]))), trusted_client():
        async with client:
            print((await client.get(sys.argv[1])).text)

asyncio.run(main())
print(*sys.modules.keys() & {"httpcore", "anyio", "ssl"})
"""


async def test_reading_a_page_loads_no_other_connections_than_our_own() -> None:
    async with Website({"/": Answer("hello")}) as site:
        asked = (sys.executable, "-c", PAGE, f"{site.url}/")
        process = await asyncio.create_subprocess_exec(*asked, stdout=asyncio.subprocess.PIPE)
        out, _ = await process.communicate()
    assert out.decode().split() == ["hello", "hello", "ssl"]


def test_the_process_of_a_page_leaves_out_what_no_page_takes() -> None:
    program = """
import atexit, sys
from nanobot.web.extract.lean import main
atexit.register(lambda: print("MODULES", *sys.modules, file=sys.stderr))
main()
"""
    ran = subprocess.run(
        [sys.executable, "-S", "-c", program],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        env=bare_environment(),
        timeout=120,
        check=True,
    )
    modules = set(next(line for line in ran.stderr.splitlines() if line.startswith("MODULES ")).split())
    assert "readability" in modules
    unused = "inspect typing_extensions difflib platform logging decimal gzip tempfile asyncio socket"
    assert not modules & set(unused.split())
