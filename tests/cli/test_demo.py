"""`nanobot demo` as a newcomer runs it: a process without a home, a key or a network."""

import asyncio
import json
import sys
from pathlib import Path

import pytest

from nanobot.demo.web import DemoWeb
from nanobot.utils.host import shipped
from tests.cli.harness import Program, Ran
from tests.cli.no_network import NOT_HERE
from tests.fakes.http_server import HttpServer, Request, Responder
from tests.fakes.llm_server import LlmServer
from tests.tables import table


@pytest.fixture
def program(tmp_path: Path) -> Program:
    return Program(tmp_path / "home" / ".nanobot")


async def _isolated(program: Program, *arguments: str) -> Ran:
    """The program where no network is, or, where the machine has no such place to offer, as it is."""
    command = [sys.executable, "-m", "tests.cli.no_network", *program.command(*arguments)]
    process = await asyncio.create_subprocess_exec(
        *command, stdin=-3, stdout=-1, stderr=-1, env=program.env, cwd=Path(__file__).parent.parent.parent
    )
    out, err = await process.communicate()
    if process.returncode == NOT_HERE:
        return await program.run(*arguments)
    return Ran(process.returncode or 0, out.decode(), err.decode())


async def test_the_demo_answers_with_sources_without_a_network_and_keeps_nothing(program: Program) -> None:
    ran = await _isolated(program, "demo")
    assert ran.code == 0, ran.err
    assert "| Saturday 6 June | 05:20 |" in ran.out  # the row of the tide table, and no other
    assert "Monday 8 June" not in ran.out
    assert "21:40" in ran.out  # from the page of the ferry
    assert "/tides)" in ran.out
    assert "timetable.pdf" in ran.err
    shown, following = ran.err.splitlines()[-2:]
    assert shown.startswith("Shown: the real agent")
    assert shown.endswith("Nothing left this machine, and nothing of it was kept.")
    assert following == 'Ask the real web:  nanobot -m "What changed in the newest Python release?"'
    assert not program.home.exists()


@table(
    "question told",
    ("Where can I park for free at the ferry?", "the field behind the gasworks on Slip Lane"),
    ("望海茶馆几点开门？", "上午十点开门"),
    ("What is the sea temperature at the harbour office?", "11.9"),
    ("When does the Skerrow regatta start?", "Saturday, 18 July"),
    ("On which day does no ferry to Skerrow sail, the island fair?", "24 June"),
)
async def test_each_kind_of_page_can_be_asked(program: Program, question: str, told: str) -> None:
    ran = await program.run("demo", question)
    assert ran.code == 0, ran.err
    assert told in ran.out
    assert "nanobot demo" not in ran.out, "an example of the docs is answered by the town and not by the example"


async def test_an_address_in_a_private_network_is_refused_in_the_demo(program: Program) -> None:
    ran = await program.run("demo", "What does the live picture of the harbour webcam show?")
    assert ran.code == 0
    assert "192.168.1.20" in ran.err
    assert "Only public addresses are read" in ran.err


async def test_the_proxies_of_the_environment_are_not_asked_by_the_demo(program: Program) -> None:
    async def refuse(_request: Request, responder: Responder) -> None:
        await responder.send(502, b"")

    async with HttpServer(refuse) as proxy:
        address = f"http://127.0.0.1:{proxy.port}"
        ran = await program.run("demo", env={"HTTP_PROXY": address, "ALL_PROXY": address, "http_proxy": address})
        assert ran.code == 0
        assert proxy.requests == []


async def test_a_model_with_a_key_in_the_environment_is_the_one_that_answers(program: Program) -> None:
    async with LlmServer("It is at 05:20.") as server:
        env = {"OPENAI_API_KEY": "sk-test", "OPENAI_BASE_URL": f"{server.url}/v1"}
        ran = await program.run("demo", env=env)
        assert ran.code == 0, ran.err
        assert "It is at 05:20." in ran.out
        assert "was asked, and nothing of it was kept here." in ran.err


def test_the_docs_are_pages_of_the_demo() -> None:
    web = DemoWeb(shipped("docs"))
    for file in shipped("docs").glob("*.md"):
        status, kind, body = web.answer(f"/docs/{file.stem}")
        assert (status, kind) == (200, "text/html; charset=utf-8")
        assert b"<h1>" in body
    assert len(web.answer("/docs/handbook")[2]) > 100_000
    found = json.loads(web.answer("/search?q=restore+a+backup")[2])["results"]
    assert found[0]["title"].startswith("nanobot: ")
    assert not [mark for one in found for mark in ("```", "**", "](", "| ") if mark in one["content"]]
