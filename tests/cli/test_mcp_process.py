"""`nanobot mcp` and `/mcp` in the program as a person starts it, with the SDK's own server as a program."""

import json
import re
import sys
from pathlib import Path

from tests.agent.tools.test_mcp_programs import private_server, visit
from tests.channels.pseudo_terminal import PseudoTerminal
from tests.cli.harness import Program, known_tools, modelled, program

ROOT = Path(__file__).parents[2]


def servers(home: Program) -> dict[str, object]:
    found = json.loads((home.home / "config.json").read_text(encoding="utf-8"))["tools"]["mcpServers"]
    assert isinstance(found, dict)
    return found


async def test_U45_a_server_is_added_tried_listed_and_removed(tmp_path: Path) -> None:
    home = program(tmp_path)
    words = (sys.executable, "-m", "tests.fakes.mcp_sdk_server", "stdio")
    added = await home.run("mcp", "add", "real", "--env", f"PYTHONPATH={ROOT}", "--", *words)
    assert added.code == 0, added.err
    assert servers(home)["real"] == {"command": words[0], "args": [*words[1:]], "env": {"PYTHONPATH": str(ROOT)}}
    again = await home.run("mcp", "add", "real", "https://h.example/")
    assert (again.code, "already" in again.err) == (2, True)
    odd = await home.run("mcp", "add", "odd", "ftp://h.example/mcp")
    assert (odd.code, "begins with http:// or https://" in odd.err) == (2, True)
    header = ("--header", "Authorization: Bearer ${SOME_KEY:-k}")
    assert (await home.run("mcp", "add", "far", "http://127.0.0.1:9/mcp?key=CANARY", *header)).code == 0
    assert servers(home)["far"] == {
        "url": "http://127.0.0.1:9/mcp?key=CANARY",
        "headers": {"Authorization": "Bearer ${SOME_KEY:-k}"},
    }
    listed = (await home.run("mcp")).out.splitlines()
    found = dict(line.split(maxsplit=1) for line in listed)
    assert [*found] == ["far", "real"]
    assert (found["far"].split()[0], found["real"][: len(words[0])]) == ("http://127.0.0.1:9/mcp", words[0])
    tried = await home.run("mcp", "test")
    assert tried.code == 1
    assert "real: 5 tools: mcp_real_echo, " in tried.out
    assert "far: The MCP server 'far' is down" in tried.out
    assert (await home.run("mcp", "remove", "far")).code == 0
    assert [*servers(home)] == ["real"]
    near = await home.run("mcp", "test", "reel")
    assert (near.code, "did you mean 'real'?" in near.err) == (2, True)


async def test_U45_resources_are_read_and_prompts_used_where_the_owner_allows_it(tmp_path: Path) -> None:
    words = [sys.executable, "-m", "tests.fakes.mcp_sdk_server", "stdio"]
    entry = {"command": words, "env": {"PYTHONPATH": str(ROOT)}, "resources": True, "prompts": True, "toolTimeout": 60}
    async with modelled(tmp_path, "hello Ann", tools={"mcpServers": {"real": entry}}) as (home, model):
        await known_tools(home)
        state = await home.run("agent", "-m", "/mcp reconnect real")
        assert state.out.strip() == "real: ready, 5 tools."
        assert "`greet` name Greets somebody." in (await home.run("agent", "-m", "/mcp prompt real")).out
        done = await home.run("agent", "-m", "/mcp prompt real greet name=Ann")
        assert done.out.strip() == "hello Ann", done.err
        said = json.dumps(model.requests[0].messages)
    assert "Say hello to Ann." in said
    assert "<outside id=" in said
    assert "mcp_real_resources" in json.dumps(model.requests[0].body["tools"])


async def test_U45_a_wrong_address_is_told_and_the_login_waits_for_the_right_one(tmp_path: Path) -> None:
    with private_server(seconds=3600) as (url, _):
        home = program(tmp_path, None, tools={"mcpServers": {"one": {"url": url}}})
        with PseudoTerminal(home.command("mcp", "login", "one"), env=home.env, columns=400) as terminal:
            await terminal.until("Then paste the address here")
            link = re.search(r"http://\S+authorize\S+", terminal.text())
            assert link is not None, terminal.text()
            back = await visit(link[0])
            for wrong in ("", "https://example.org/", back.replace("state=", "state=x")):
                terminal.press(f"{wrong}\r")
            await terminal.until(lambda: terminal.text().count("not the answer to the link") == 3)
            await terminal.answers(f"{back}\r", "Logged in. one: 1 tool.")
            assert await terminal.wait() == 0
        with PseudoTerminal(home.command("mcp", "login", "one"), env=home.env, columns=400) as terminal:
            await terminal.answers("", "Then paste the address here")
            terminal.press("\x04")
            assert await terminal.wait() == 2
