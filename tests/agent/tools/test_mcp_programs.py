"""MCP servers as real processes: of the SDK by every way there is, with logins, and a rude one."""

import asyncio
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from pathlib import Path

import httpx
import pytest
from msgspec.structs import replace

from nanobot.agent.tools.mcp.servers import McpServers, Surroundings
from nanobot.agent.tools.mcp.tokens import LoginFile
from nanobot.agent.tools.registry import ToolRegistry
from nanobot.config.schema_tools import McpServerConfig
from nanobot.errors import UsageError
from nanobot.security.process_tree import descendants
from nanobot.security.sandbox import Reason, choose
from nanobot.utils.host import has_ended, process_identity
from nanobot.utils.logs import without_secrets
from nanobot.web.client import Guard
from tests.agent.harness import run_tool
from tests.agent.tools.servers import config, started, tools_of
from tests.fakes.http_server import HttpServer, Request, Responder
from tests.fakes.patience import growing
from tests.fakes.waiting import until
from tests.fakes.website import Answer, Names, Website

ROOT = Path(__file__).parents[3]
RUDE = [sys.executable, str(ROOT / "tests/fakes/mcp_rude_server.py")]
REAL = [sys.executable, "-m", "tests.fakes.mcp_sdk_server"]


@asynccontextmanager
async def connected(
    folder: Path,
    settings: McpServerConfig,
    secrets: dict[str, str] | None = None,
    *,
    secret: tuple[Path, ...] = (),
    guard: Guard = Guard(),  # noqa: B008 - a value
) -> AsyncIterator[tuple[ToolRegistry, McpServers]]:
    around = Surroundings(
        env={**os.environ, **(secrets or {})}, workspace=folder, secret=secret, media=folder / "media", guard=guard
    )
    async with started({"one": settings}, around, cache=folder / "tools.json") as made:
        yield made


def rude(folder: Path, *words: str, **values: object) -> McpServerConfig:
    env = {"STARTS": str(folder / "starts")}
    return config(command=[*RUDE, *words], env=env, **{"toolTimeout": 100, **values})


def starts(folder: Path) -> list[int]:
    """The process ids of all starts of the rude server."""
    return [int(line) for line in (folder / "starts").read_text(encoding="utf-8").splitlines()]


@pytest.fixture(scope="module", params=["stdio", "http", "sse"])
def real(request: pytest.FixtureRequest) -> Iterator[McpServerConfig]:
    """The settings of the SDK's server by each way."""
    way = str(request.param)
    if way == "stdio":
        yield config(command=REAL, args=["stdio"], env={"PYTHONPATH": str(ROOT), "OWN": "mine"}, toolTimeout=100)
        return
    with subprocess.Popen([*REAL, way], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, cwd=ROOT) as process:
        assert process.stdout is not None
        port = int(process.stdout.readline())
        kind = {"type": "sse", "url": f"http://127.0.0.1:{port}/sse"}
        yield config(toolTimeout=100, **(kind if way == "sse" else {"url": f"http://127.0.0.1:{port}/mcp"}))
        process.kill()


async def test_U45_a_real_server_is_asked_by_every_way_and_its_pictures_are_seen(
    real: McpServerConfig, tmp_path: Path
) -> None:
    async with connected(tmp_path, real) as (registry, _):
        assert {"mcp_one_echo", "mcp_one_picture"} <= set(registry.names)
        said = await run_tool(registry, "mcp_one_echo", {"text": "x\ny"})
        assert (said.text, said.untrusted, said.receipt) == ("echo x\ny", True, ""), "what only reads has no receipt"
        wrong = await run_tool(registry, "mcp_one_echo", {"text": 3})
        assert wrong.error == "invalid_input"
        shown = await run_tool(registry, "mcp_one_picture", {})
        assert shown.receipt == "called one/picture"
        assert [(one.mime, Path(one.path).read_bytes()[:4]) for one in shown.media] == [("image/png", b"\x89PNG")]
        if real.command:
            broken = await run_tool(registry, "mcp_one_leave", {})
            assert broken.error == "network"
            assert "its program ended (exit code 3); the last line of its error output: “out of luck”" in broken.text
            assert (await run_tool(registry, "mcp_one_echo", {"text": "back"})).text == "echo back"


async def test_U39_a_program_gets_no_secret_of_ours_and_ends_with_all_that_it_started(tmp_path: Path) -> None:
    settings = config(command=REAL, args=["stdio"], env={"PYTHONPATH": str(ROOT), "OWN": "mine"}, toolTimeout=100)
    async with connected(tmp_path, settings, {"OPENAI_API_KEY": "sk-secret"}) as (registry, _):
        text = (await run_tool(registry, "mcp_one_surroundings", {})).text
        child = int((await run_tool(registry, "mcp_one_child", {})).text)
        identity = process_identity(child)
        assert not has_ended(child, identity)
    assert text.startswith(str(tmp_path))
    assert "OPENAI_API_KEY" not in text
    assert "'PATH'" in text
    assert text.endswith("mine")
    await until(lambda: has_ended(child, identity), 60)


async def test_an_answer_with_half_a_character_is_read_without_it(tmp_path: Path) -> None:
    async with connected(tmp_path, rude(tmp_path)) as (registry, _):
        assert (await run_tool(registry, "mcp_one_odd", {})).text == "cut in half:"


@pytest.mark.parametrize("tool", ["endless", "split"])
async def test_a_line_without_end_ends_the_program_which_starts_again_at_the_next_call(
    tool: str, tmp_path: Path
) -> None:
    async with connected(tmp_path, rude(tmp_path)) as (registry, _):
        result = await run_tool(registry, f"mcp_one_{tool}", {})
        assert "its answer has more than 4 MB or 20,000 parts; ask it for less" in result.text
        assert (await run_tool(registry, "mcp_one_fine", {})).text == "fine"
    assert len(starts(tmp_path)) == 2


@growing(0.5, 5, 30)
async def test_a_program_that_answers_no_call_any_more_is_started_again(tmp_path: Path, limit: float) -> None:
    async with connected(tmp_path, rude(tmp_path, toolTimeout=limit)) as (registry, _):
        identity = process_identity(starts(tmp_path)[0])
        for _ in range(2):
            assert (await run_tool(registry, "mcp_one_deaf", {})).error == "timeout"
        await until(lambda: has_ended(starts(tmp_path)[0], identity), 60)
        assert (await run_tool(registry, "mcp_one_fine", {})).text == "fine"
    first, second = starts(tmp_path)
    assert first != second


async def test_a_server_that_has_other_tools_now_is_asked_for_them_again(tmp_path: Path) -> None:
    waits: list[float] = []

    async def sleep(seconds: float) -> None:
        waits.append(seconds)

    around = Surroundings(env={**os.environ}, workspace=tmp_path)
    servers = McpServers({"one": rude(tmp_path)}, around, sleep=sleep)
    told = asyncio.Event()
    try:
        await servers.start(120)
        registry = tools_of(servers)
        assert "mcp_one_late" not in registry.names
        servers.changed = lambda: told.set() if "mcp_one_late" in servers.factories() else None
        await run_tool(registry, "mcp_one_more", {})
        await asyncio.wait_for(told.wait(), 60)
    finally:
        await servers.aclose()
    assert waits == [30], "and only after a while, however often it says so"


async def test_a_program_that_never_shakes_hands_is_ended_with_the_gateway(tmp_path: Path) -> None:
    servers = McpServers({"one": rude(tmp_path, "mute")}, Surroundings(env={**os.environ}, workspace=tmp_path))
    await servers.start(0.1)
    try:
        assert "still starting" in tools_of(servers).skipped["mcp_one"]
        await until(lambda: (tmp_path / "starts").exists() and bool(starts(tmp_path)), 60)
        identity = process_identity(starts(tmp_path)[0])
    finally:
        await servers.aclose()
    assert has_ended(starts(tmp_path)[0], identity)


@pytest.mark.parametrize("confined", [False, True])
async def test_U74_a_confined_program_has_its_folder_and_neither_secrets_nor_a_network(
    confined: bool, tmp_path: Path
) -> None:
    if confined and isinstance(found := await choose("auto"), Reason):
        pytest.skip(f"not tried: {found.text}")
    folder = tmp_path / "work"
    folder.mkdir()
    # what it writes is there already: with Landlock nothing new begins in a folder that holds what is hidden
    for name in ("own", "ours/key", "other", "starts", "written"):
        place = (folder if name != "other" else tmp_path) / name
        place.parent.mkdir(exist_ok=True)
        place.write_text("x", encoding="utf-8")
    shutil.copy(RUDE[1], folder / "server.py")
    with socket.create_server(("127.0.0.1", 0)) as door:
        spied = ":".join(map(str, (folder / "own", folder / "ours/key", tmp_path / "other")))
        env = {"STARTS": str(folder / "starts"), "SPY": spied, "SPY_PORT": str(door.getsockname()[1])}
        settings = config(command=sys.executable, args=["server.py"], env=env, sandbox=confined, toolTimeout=100)
        async with connected(folder, settings, secret=(folder / "ours",)) as (registry, _):
            told = (await run_tool(registry, "mcp_one_spy", {})).text
    assert told == ("read own, written" if confined else "read own, read key, read other, written, connected")


@pytest.mark.parametrize("hosts", [["granted.example:{port}"], []])
async def test_U74_a_confined_program_reaches_the_hosts_of_its_network_and_no_other(
    hosts: list[str], tmp_path: Path
) -> None:
    if isinstance(found := await choose("auto"), Reason):
        pytest.skip(f"not tried: {found.text}")
    shutil.copy(RUDE[1], tmp_path / "server.py")
    guard = Guard(network=Names({"granted.example": ["93.184.216.34"], "other.example": ["93.184.216.34"]}))
    async with Website({"/": Answer("hello")}) as site:
        port = site.server.port
        urls = " ".join(f"http://{one}.example:{port}/" for one in ("granted", "other"))
        env = {"STARTS": str(tmp_path / "starts"), "SPY": "nothing", "SPY_PORT": str(port), "SPY_URLS": urls}
        network = [one.format(port=port) for one in hosts]
        settings = config(
            command=sys.executable, args=["server.py"], env=env, sandbox=True, network=network, toolTimeout=100
        )
        async with connected(tmp_path, settings, guard=guard) as (registry, _):
            told = (await run_tool(registry, "mcp_one_spy", {})).text
        assert told == ("written, hello, 403" if hosts else "written, not reached, not reached")
        assert len(site.server.requests) == len(hosts)


async def test_U4_a_confined_program_ends_with_nanobot_even_where_that_is_killed(tmp_path: Path) -> None:
    if isinstance(found := await choose("auto"), Reason):
        pytest.skip(f"not tried: {found.text}")
    code = """
import asyncio, sys
from pathlib import Path
from nanobot.agent.tools.mcp.stdio import Program, stdio_streams
from nanobot.security.sandbox import Confinement
async def main():
    folder = Path(sys.argv[1])
    words = ("sh", "-c", "trap '' TERM HUP; echo started > started; exec sleep 1000")
    async with stdio_streams(Program(words, {"PATH": "/usr/bin:/bin"}, folder, Confinement((folder,))), print):
        while not (folder / "started").exists():
            await asyncio.sleep(0.01)
        print("started", flush=True)
        await asyncio.sleep(1000)
asyncio.run(main())
"""
    command = [sys.executable, "-c", code, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"started\n"
        below = {one: process_identity(one) for one in descendants(process.pid)}
        process.kill()
    assert len(below) >= 2
    await until(lambda: all(has_ended(one, identity) for one, identity in below.items()))


async def test_a_program_that_is_not_there_is_named_with_what_helps(tmp_path: Path) -> None:
    async with connected(tmp_path, config(command="no-such-program")) as (registry, _):
        assert "'no-such-program' was not found; install it, or write its whole path" in registry.skipped["mcp_one"]
    async with connected(tmp_path, config(command="true", cwd="nowhere")) as (registry, _):
        assert "check its `cwd`, there is no folder /" in registry.skipped["mcp_one"], "a long path cuts no advice off"


async def test_U45_resources_are_listed_on_one_line_each_and_read_as_content_from_outside(
    real: McpServerConfig, tmp_path: Path
) -> None:
    async with connected(tmp_path, replace(real, resources=True)) as (registry, _):
        listed = await run_tool(registry, "mcp_one_resources", {})
        assert (listed.text, listed.untrusted) == ("note://today · today: What is on today.", True)
        note = await run_tool(registry, "mcp_one_resources", {"uri": "note://today"})
        assert (note.text, note.untrusted, note.receipt) == ("Tea with Ann.", True, "")
        assert (await run_tool(registry, "mcp_one_resources", {"uri": "note://none"})).error == "service"
    async with connected(tmp_path, real) as (registry, _):
        assert "mcp_one_resources" not in registry.names


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


def logged_in(folder: Path, url: str) -> AbstractAsyncContextManager[tuple[ToolRegistry, McpServers]]:
    return started({"one": config(url=url, toolTimeout=100)}, Surroundings(logins=LoginFile(folder / "logins.json")))


async def hello(servers: McpServers) -> str:
    return (await run_tool(tools_of(servers), "mcp_one_hello", {})).text


async def visit(link: str) -> str:
    """Where a browser ends that opens a link."""
    async with httpx.AsyncClient(trust_env=False, timeout=100) as browser:
        return (await browser.get(link)).headers["location"]


async def test_U45_a_login_in_the_browser_is_kept_and_renewed_after_a_restart(
    tmp_path: Path,
) -> None:
    with private_server(seconds=1) as (url, process):
        async with logged_in(tmp_path, url) as (_, servers):
            (state,) = servers.states()
            assert "refused the login (status 401); check its headers, or log in with" in state.why
            with pytest.raises(UsageError, match="begins one"):
                await servers.logged_in("one", "http://127.0.0.1:1/callback?code=x&state=y")
            link = await servers.log_in("one")
            assert "code_challenge_method=S256" in link
            back = await visit(link)
            for wrong in ("no address", back.replace("state=", "state=x")):
                with pytest.raises(UsageError, match="not the answer to the link"):
                    await servers.logged_in("one", wrong)
            assert (await servers.logged_in("one", back)).ready
            assert await hello(servers) == "hello"
        kept = tmp_path / "logins.json"
        assert kept.stat().st_mode & 0o777 == 0o600
        assert "CANARY" not in without_secrets("token CANARY-token-0"), "no log shows it"
        await asyncio.sleep(2.1)  # the token ends
        async with logged_in(tmp_path, url) as (_, servers):
            assert await hello(servers) == "hello"
        process.kill()
        asked = process.stdout.read().split() if process.stdout else []
    assert asked[:2] == ["client", "code"]
    assert "refresh" in asked
    assert asked.count("client") == 1


async def test_a_login_that_is_refused_in_the_browser_is_told_with_the_reason(tmp_path: Path) -> None:
    with private_server(seconds=3600) as (url, _):
        async with logged_in(tmp_path, url) as (_, servers):
            link = httpx.URL(await servers.log_in("one"))
            back = f"{link.params['redirect_uri']}?error=access_denied&state={link.params['state']}"
            with pytest.raises(UsageError, match=r"the login was refused \(access_denied\)"):
                await servers.logged_in("one", back)


async def test_a_server_that_sends_logins_into_the_own_network_gets_none(tmp_path: Path) -> None:
    async def answer(request: Request, responder: Responder) -> None:
        place = f"http://{request.headers['host']}"
        if "protected-resource" in request.target:
            about = {"resource": f"{place}/mcp", "authorization_servers": ["https://169.254.169.254"]}
            await responder.json(about)
        else:
            await responder.send(401, headers=[("WWW-Authenticate", "Bearer")])

    async with HttpServer(answer) as server, logged_in(tmp_path, f"{server.url}/mcp") as (_, servers):
        with pytest.raises(UsageError, match=r"169\.254\.169\.254, which may not be reached"):
            await servers.log_in("one")
    assert not (tmp_path / "logins.json").exists()
