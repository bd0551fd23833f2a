"""Folders of projects: their instructions count after one question, and until then in nobody's prompt."""

import json
import re
from pathlib import Path

import pytest

from nanobot.providers.scripted import Call
from tests.channels.pseudo_terminal import PseudoTerminal
from tests.cli.harness import Program, modelled
from tests.fakes.llm_server import LlmServer, Reply

IDLE = re.compile(r"❯\n.* in, .* out", re.MULTILINE)
QUESTION = "Do you trust what was written there?"


def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    (folder / "templates" / "agent").mkdir(parents=True)
    (folder / "AGENTS.md").write_text("canary-agents")
    (folder / "SOUL.md").write_text("canary-soul")
    (folder / "templates" / "agent" / "identity.md").write_text("canary-template")
    for unread in ("skills/x/SKILL.md", "hooks/start.sh", ".agents/a.md", ".claude/b.md", "HEARTBEAT.md"):
        (folder / unread).parent.mkdir(parents=True, exist_ok=True)
        (folder / unread).write_text("canary-unread")
    started = {"command": "touch", "args": [str(folder / "started")]}
    (folder / ".mcp.json").write_text(json.dumps({"mcpServers": {"canary": started}}))
    return folder


async def talk(nanobot: Program, server: LlmServer, *arguments: str, cwd: Path, answer: str = "") -> tuple[str, bool]:
    """The request that a question in the terminal leads to, and whether the folder was asked about."""
    before = len(server.requests)
    with PseudoTerminal(nanobot.command("agent", *arguments), env=nanobot.env, cwd=cwd) as terminal:
        if answer:
            await terminal.until("Enter: it is text like any other.")
            terminal.press(answer)
        await terminal.until("❯")
        await terminal.answers("hello\r", IDLE)
        await terminal.leave()
        asked = QUESTION in " ".join(terminal.text().split())
    return json.dumps(server.requests[before].body), asked


def canaries(request: str) -> set[str]:
    return set(re.findall(r"canary-\w+", request))


@pytest.mark.parametrize(("answer", "counts"), [("y\r", True), ("\r", False)])
async def test_a_project_counts_after_one_question_or_not_at_all(tmp_path: Path, answer: str, counts: bool) -> None:
    folder = project(tmp_path)
    async with modelled(tmp_path, after="It is noted.") as (nanobot, server):
        work = ("--workspace", str(folder))
        ran = await nanobot.run("agent", *work, "-m", "hello")
        assert "does not count" in ran.err
        assert canaries(json.dumps(server.requests[0].body)) == set(), "one question is never a consent"
        request, asked = await talk(nanobot, server, *work, cwd=tmp_path, answer=answer)
        assert asked
        assert canaries(request) == ({"canary-agents", "canary-soul", "canary-template"} if counts else set())
        request, asked = await talk(nanobot, server, *work, cwd=tmp_path)
        assert (bool(canaries(request)), asked) == (counts, False)
        assert not (folder / "started").exists(), "a server of a project is not read at all"
        server.replies += [Reply(Call("read_file", {"path": "AGENTS.md"})), Reply(Call("grep", {"pattern": "canary"}))]
        assert (await nanobot.run("agent", *work, "-m", "what does it say?")).code == 0
        messages = json.loads(server.requests[-1].raw)["messages"]
        for result in [str(one["content"]) for one in messages if one["role"] == "tool"]:
            assert "canary-agents" in result
            assert ("<outside " in result) is not counts, "what nobody trusts is read as content from outside"


async def test_the_instructions_of_the_folder_where_a_person_works_join_those_of_the_workspace(tmp_path: Path) -> None:
    folder = project(tmp_path)
    async with modelled(tmp_path, after="It is noted.") as (nanobot, server):
        request, asked = await talk(nanobot, server, cwd=folder, answer="y\r")
        assert (canaries(request), asked) == ({"canary-agents"}, True)
        assert f"Instructions of this project (AGENTS.md of the project in {folder})" in request
        request, asked = await talk(nanobot, server, cwd=tmp_path)
        assert (canaries(request), asked) == (set(), False)
        listed = await nanobot.run("permissions")
        assert f"what stands in the folder {folder} may tell nanobot what to do" in " ".join(listed.out.split())
        assert (await nanobot.run("permissions", "remove", "all")).code == 0
        assert (await talk(nanobot, server, cwd=folder, answer="n\r"))[1]


async def test_a_folder_without_such_files_is_not_asked_about_and_stays_nanobots_own(tmp_path: Path) -> None:
    folder = tmp_path / "plain"
    (folder / "skills").mkdir(parents=True)
    async with modelled(tmp_path, after="It is noted.") as (nanobot, server):
        assert not (await talk(nanobot, server, cwd=folder))[1], "nothing of it would count"
        empty = ("--workspace", str(tmp_path / "empty"))
        for _ in range(2):
            request, asked = await talk(nanobot, server, *empty, cwd=folder)
            assert not asked
            assert "About the user" in request


async def test_instructions_are_read_from_the_top_down_and_inner_and_changed_ones_are_told(tmp_path: Path) -> None:
    repository = tmp_path / "repository"
    deep = repository / "sub" / "deep"
    deep.mkdir(parents=True)
    (repository / ".git").mkdir()
    (tmp_path / "AGENTS.md").write_text("canary-beyond")
    (repository / "AGENTS.md").write_text("canary-top")
    (repository / "sub" / "CLAUDE.md").write_text("canary-sub")
    (deep / "AGENTS.md").write_text("canary-deep")
    (deep / "CLAUDE.md").write_text("canary-unread")
    (tmp_path / ".agents").mkdir()
    (tmp_path / ".agents" / "AGENTS.md").write_text("canary-shared")
    async with modelled(tmp_path, after="It is noted.") as (nanobot, server):
        request, _ = await talk(nanobot, server, cwd=deep, answer="n\r")
        assert canaries(request) == {"canary-shared"}, "what is the owner's own alone"
        assert (await nanobot.run("permissions", "remove", "all")).code == 0
        before = len(server.requests)
        with PseudoTerminal(nanobot.command("agent"), env=nanobot.env, cwd=deep) as terminal:
            await terminal.until("Enter: it is text like any other.")
            await terminal.answers("y\r", "❯")
            await terminal.answers("hello\r", "It is noted.")
            await terminal.until(IDLE)
            said = " ".join(terminal.text().split())
            assert said.count("CLAUDE.md are read") == said.count("AGENTS.md are read") == 1
            (repository / "AGENTS.md").write_text("canary-changed")
            await terminal.answers("and now\r", "have changed and are read")
            await terminal.until(IDLE)
            await terminal.leave()
        first, *_, last = (json.dumps(one.body) for one in server.requests[before:])
        order = ["canary-shared", "canary-top", "canary-sub", "canary-deep"]
        assert re.findall(r"canary-\w+", first) == order
        assert re.findall(r"canary-\w+", last) == ["canary-shared", "canary-changed", *order[2:]]
