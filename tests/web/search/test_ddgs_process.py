"""The ddgs library in a process of its own: it never holds the agent back, and it never outlives it."""

import asyncio
import json
import os
import signal
import sys
import threading
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from nanobot.config.proxy import Proxies
from nanobot.errors import SearchError
from nanobot.web.search.base import SearchQuery
from nanobot.web.search.duckduckgo import DuckDuckGoBackend
from nanobot.web.service import ServiceAccess
from tests.fakes.http_server import HttpServer, Request, Responder
from tests.fakes.patience import growing
from tests.fakes.waiting import until

ROOT = Path(__file__).parents[3]
SCRIPT = """
import asyncio, sys
from nanobot.config.proxy import Proxies
from nanobot.web.search.base import SearchQuery
from nanobot.web.service import ServiceAccess
from nanobot.web.search.duckduckgo import DuckDuckGoBackend
made = DuckDuckGoBackend(access=ServiceAccess(proxies=Proxies(sys.argv[1])))
asyncio.run(made.search(SearchQuery("python"), timeout=60))
"""


@pytest.fixture
async def silent() -> AsyncIterator[HttpServer]:
    """A proxy that never answers."""

    async def hang(request: Request, responder: Responder) -> None:
        await responder.hang(60)

    async with HttpServer(hang) as proxy:
        yield proxy


async def reached(proxy: HttpServer, times: int = 1) -> None:
    await until(lambda: len(proxy.requests) >= times)


async def test_N28_a_search_past_its_deadline_leaves_no_process_and_no_thread(silent: HttpServer) -> None:
    threads = threading.active_count()
    made = DuckDuckGoBackend(access=ServiceAccess(proxies=Proxies(silent.url)))
    for _ in range(5):
        with pytest.raises(SearchError) as caught:
            await made.search(SearchQuery("python"), timeout=0.6)
        assert caught.value.kind == "timeout"
    await silent.all_closed()
    await until(lambda: threading.active_count() <= threads)


async def test_N28_the_loop_serves_others_while_a_search_hangs_and_a_cancelled_one_ends_its_process(
    silent: HttpServer,
) -> None:
    """The proxy that the search hangs at is served by the same loop: it is reached only while that loop is free."""
    asking = asyncio.create_task(
        DuckDuckGoBackend(access=ServiceAccess(proxies=Proxies(silent.url))).search(SearchQuery("q"), timeout=60)
    )
    await reached(silent)
    assert not asking.done()
    asking.cancel()
    await asyncio.wait({asking}, timeout=120)
    assert asking.cancelled()
    await silent.all_closed()


async def test_the_process_ends_where_the_agent_is_killed(silent: HttpServer) -> None:
    agent = await asyncio.create_subprocess_exec(sys.executable, "-c", SCRIPT, silent.url, cwd=ROOT)
    await reached(silent)
    agent.send_signal(signal.SIGKILL)
    await agent.wait()
    await silent.all_closed()


@growing(1, 10, 60)
async def test_one_question_leaves_at_once_when_the_search_hangs(
    silent: HttpServer, tmp_path: Path, limit: float
) -> None:
    search = {"provider": "duckduckgo", "fallback": [], "timeout": limit}
    config = {"tools": {"web": {"proxy": silent.url, "search": search}}}
    (tmp_path / "config.json").write_text(json.dumps(config), encoding="utf-8")
    env = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "NANOBOT_HOME": str(tmp_path), "LANG": "C.UTF-8"}
    asked = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", "nanobot", "-m", "who released python 3.14?"),
        cwd=ROOT,
        env=env,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    said, _ = await asyncio.wait_for(asked.communicate(), 120)
    assert silent.requests, said.decode()
    await silent.all_closed()


async def test_neither_a_module_of_the_folder_that_nanobot_runs_in_nor_a_key_of_the_agent_is_in_the_process(
    silent: HttpServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "json.py").write_text("raise SystemExit('not the json of Python')", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("BRAVE_API_KEY", "key-1234567890")
    backend = DuckDuckGoBackend(access=ServiceAccess(proxies=Proxies(silent.url)))
    asking = asyncio.create_task(backend.search(SearchQuery("q"), timeout=60))
    arrival = asyncio.create_task(reached(silent))
    await asyncio.wait((asking, arrival), return_when=asyncio.FIRST_COMPLETED)
    arrived = bool(silent.requests)
    children = Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children")
    threads = [path / "children" for path in Path(f"/proc/{os.getpid()}/task").iterdir()] if children.exists() else []
    pids = {pid for path in threads for pid in path.read_text(encoding="utf-8").split()}
    environments = [Path(f"/proc/{pid}/environ").read_bytes() for pid in pids]
    for task in (asking, arrival):
        task.cancel()
    await asyncio.wait((asking, arrival), timeout=120)
    assert arrived
    assert environments or not children.exists()
    assert not any(b"key-1234567890" in environment for environment in environments)
    assert all(b"PYTHONWARNINGS=error" in environment for environment in environments)
