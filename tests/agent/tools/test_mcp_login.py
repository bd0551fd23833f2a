"""Logging in to an MCP server that wants OAuth, against the SDK's own service in a process of its own."""

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager, contextmanager
from pathlib import Path

import httpx
import pytest

from nanobot.agent.tools.mcp.servers import McpServers, Surroundings
from nanobot.agent.tools.mcp.tokens import LoginFile
from nanobot.agent.tools.registry import ToolRegistry
from nanobot.errors import UsageError
from nanobot.utils.logs import without_secrets
from tests.agent.harness import run_tool
from tests.agent.tools.servers import config, started, tools_of
from tests.fakes.http_server import HttpServer, Request, Responder

ROOT = Path(__file__).parents[3]


@contextmanager
def private_server(seconds: int) -> Iterator[tuple[str, "subprocess.Popen[str]"]]:
    """Its address, and the process that prints what it was asked for."""
    command = [sys.executable, "-m", "tests.fakes.mcp_login_server", str(seconds)]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, cwd=ROOT, encoding="utf-8"
    ) as process:
        assert process.stdout is not None
        try:
            yield f"http://127.0.0.1:{int(process.stdout.readline())}/mcp", process
        finally:
            process.kill()


def connected(folder: Path, url: str) -> AbstractAsyncContextManager[tuple[ToolRegistry, McpServers]]:
    return started({"one": config(url=url, toolTimeout=100)}, Surroundings(logins=LoginFile(folder / "logins.json")))


async def hello(servers: McpServers) -> str:
    return (await run_tool(tools_of(servers), "mcp_one_hello", {})).text


async def visit(link: str, *, come_back: bool = True) -> httpx.Response:
    """What a browser does with a link."""
    async with httpx.AsyncClient(follow_redirects=come_back, trust_env=False, timeout=100) as browser:
        return await browser.get(link)


async def test_U45_a_login_in_the_browser_is_kept_and_renewed_after_a_restart(tmp_path: Path) -> None:
    with private_server(seconds=1) as (url, process):
        async with connected(tmp_path, url) as (_, servers):
            (state,) = servers.states()
            assert "refused the login (status 401); check its headers, or log in with" in state.why
            link = await servers.log_in("one", listen=True)
            assert "code_challenge_method=S256" in link
            assert "You are logged in." in (await visit(link)).text
            assert (await servers.logged_in("one")).ready
            assert await hello(servers) == "hello"
        kept = tmp_path / "logins.json"
        assert kept.stat().st_mode & 0o777 == 0o600
        assert "CANARY" not in without_secrets("token CANARY-token-0"), "no log shows it"
        await asyncio.sleep(2.1)  # the token ends
        async with connected(tmp_path, url) as (_, servers):
            assert await hello(servers) == "hello"
        process.kill()
        asked = process.stdout.read().split() if process.stdout else []
    assert asked[:2] == ["client", "code"]
    assert "refresh" in asked
    assert asked.count("client") == 1


async def test_U45_elsewhere_the_address_is_pasted_and_one_of_another_login_is_refused(tmp_path: Path) -> None:
    with private_server(seconds=3600) as (url, _):
        async with connected(tmp_path, url) as (_, servers):
            with pytest.raises(UsageError, match="begins one"):
                await servers.logged_in("one", "http://127.0.0.1:1/callback?code=x&state=y")
            link = await servers.log_in("one", listen=False)
            back = (await visit(link, come_back=False)).headers["location"]
            for wrong in ("no address", back.replace("state=", "state=x")):
                with pytest.raises(UsageError, match="not the answer to the link"):
                    await servers.logged_in("one", wrong)
            assert (await servers.logged_in("one", back)).ready
            assert await hello(servers) == "hello"


async def test_a_login_that_is_refused_in_the_browser_is_told_with_the_reason(tmp_path: Path) -> None:
    with private_server(seconds=3600) as (url, _):
        async with connected(tmp_path, url) as (_, servers):
            link = httpx.URL(await servers.log_in("one", listen=True))
            back = f"{link.params['redirect_uri']}?error=access_denied&state="
            assert (await visit(f"{back}other")).status_code == 404
            assert (await visit(f"{back}{link.params['state']}")).status_code == 200
            with pytest.raises(UsageError, match=r"the login was refused \(access_denied\)"):
                await servers.logged_in("one")


async def test_a_server_that_sends_logins_into_the_own_network_gets_none(tmp_path: Path) -> None:
    async def answer(request: Request, responder: Responder) -> None:
        place = f"http://{request.headers['host']}"
        if "protected-resource" in request.target:
            about = {"resource": f"{place}/mcp", "authorization_servers": ["https://169.254.169.254"]}
            await responder.json(about)
        else:
            await responder.send(401, headers=[("WWW-Authenticate", "Bearer")])

    async with HttpServer(answer) as server, connected(tmp_path, f"{server.url}/mcp") as (_, servers):
        with pytest.raises(UsageError, match=r"169\.254\.169\.254, which may not be reached"):
            await servers.log_in("one", listen=False)
    assert not (tmp_path / "logins.json").exists()
