"""The way of a command to the hosts that were granted: without a sandbox at the wire, and from inside each of them."""

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from nanobot.config.proxy import Proxies
from nanobot.security.network import NO_EXCEPTIONS, Exceptions
from nanobot.security.sandbox import Confinement, Reason, SandboxName, choose
from nanobot.web.client import Guard
from nanobot.web.host_proxy import HostProxy
from tests.fakes.proxies import SocksProxy, TunnelProxy
from tests.fakes.website import Answer, Names, Website
from tests.tables import table

PUBLIC = "93.184.216.34"
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="NOT TRIED: there is a sandbox on Linux only")
#: Prints what each of its addresses answers, as curl would, and tries the ways around the proxy.
CLIENT = """
import os, socket, sys, urllib.request, urllib.error
for url in sys.argv[2:]:
    try:
        print(urllib.request.urlopen(url, timeout=60).read().decode())
    except urllib.error.HTTPError as error:
        print(error.code, error.read().decode())
    except OSError as error:
        print("failed")
def tries(what, attempt):
    try:
        attempt()
    except OSError:
        return
    print("reached by", what)
port = int(sys.argv[1])
tries("TCP", lambda: socket.create_connection(("127.0.0.1", port), 5))
tries("fast open", lambda: socket.socket().sendto(b"x", 0x20000000, ("127.0.0.1", port)))
tries("a name", lambda: socket.getaddrinfo("granted.example", 80))
try:
    socket.socket().listen()
    print("listens")
except OSError:
    pass
try:
    udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    udp.settimeout(0.2)
    udp.sendto(b"x", ("192.0.2.1", 53))
    print("sent by UDP")
except OSError:
    pass
"""


@contextlib.asynccontextmanager
async def site() -> AsyncIterator[tuple[Website, Guard]]:
    names = Names({"granted.example": [PUBLIC], "other.example": [PUBLIC], "inside.example": ["10.0.0.7"]})
    async with Website({"/": Answer("hello"), "/a?b=c": Answer("query")}) as served:
        yield served, Guard(NO_EXCEPTIONS, names)


async def ask(path: Path, text: str) -> str:
    reader, writer = await asyncio.open_unix_connection(path)
    writer.write(text.encode())
    answer = await asyncio.wait_for(reader.read(), 60)
    writer.close()
    return answer.decode()


async def test_a_granted_host_is_reached_and_the_server_is_told_its_own_name_and_no_header_for_the_proxy() -> None:
    async with site() as (served, guard):
        port = served.server.port
        proxy = HostProxy(guard, [f"granted.example:{port}"])
        async with proxy.serve() as path:
            head = "Host: other.example\r\nProxy-Authorization: Basic eA==\r\nAccept: a/b\r\n\r\n"
            told = await ask(path, f"GET http://granted.example:{port}/?x HTTP/1.1\r\n{head}")
            assert "hello" in told, told
            (request,) = served.server.requests
            assert request.headers["host"] == f"granted.example:{port}"
            assert request.headers["accept"] == "a/b"
            assert "proxy-authorization" not in request.headers
            tunnel = f"CONNECT granted.example:{port} HTTP/1.1\r\n\r\nGET / HTTP/1.1\r\nConnection: close\r\n\r\n"
            told = await ask(path, tunnel)
            assert told.startswith("HTTP/1.1 200 ")
            assert "hello" in told
        assert proxy.refused == []
        assert not path.exists()


@table(
    "line why",
    ("GET http://other.example:{port}/ HTTP/1.1", "was not granted"),
    ("CONNECT other.example:443 HTTP/1.1", "other.example was not granted"),
    ("CONNECT granted.example:22 HTTP/1.1", "granted.example:22 was not granted"),
    ("CONNECT inside.example:443 HTTP/1.1", "10.0.0.7"),
    ("CONNECT 127.0.0.1:{port} HTTP/1.1", "was not granted"),
    ("CONNECT 169.254.169.254:80 HTTP/1.1", "was not granted"),
    ("CONNECT evil.granted.example:443 HTTP/1.1", "was not granted"),
    ("CONNECT granted.example@other.example:443 HTTP/1.1", "user name"),
    ("GET / HTTP/1.1", "http://"),
    ("GET https://granted.example/ HTTP/1.1", "tunnel"),
    ("nonsense", "Only HTTP"),
)
async def test_whatever_else_is_asked_for_is_refused_with_the_reason(line: str, why: str) -> None:
    async with site() as (served, guard):
        proxy = HostProxy(guard, ["granted.example", "inside.example"])
        async with proxy.serve() as path:
            told = await ask(path, line.format(port=served.server.port) + "\r\n\r\n")
        assert told.startswith("HTTP/1.1 403 ")
        assert why in told
        assert served.server.requests == []
        assert bool(proxy.refused) == ("granted to this" in told)


@pytest.mark.parametrize("kind", ["http", "socks5"])
async def test_behind_a_proxy_for_the_web_granted_hosts_are_reached_through_it_and_judged_as_ever(kind: str) -> None:
    """A name that nobody here knows is looked up by the proxy; what may not be reached does not get to it."""
    async with site() as (served, _):
        port = served.server.port
        names = Names({"known.example": [PUBLIC], "inside.example": ["10.0.0.7"], "ours.example": ["127.0.0.1"]})
        guard = Guard(Exceptions.parse(("127.0.0.1/32",)), names)
        fake = TunnelProxy(port, "Basic YTpiQGM=") if kind == "http" else SocksProxy(port)
        async with fake as before:
            address = f"{kind}://{'a:b%40c@' if kind == 'http' else ''}127.0.0.1:{before.port}"
            hosts = ["far.example", "known.example", "inside.example", f"ours.example:{port}"]
            proxy = HostProxy(guard, hosts, Proxies(address, {}).of)
            async with proxy.serve() as path:
                plain = await ask(path, "GET http://far.example/?b=c HTTP/1.1\r\nConnection: close\r\n\r\n")
                inner = "GET / HTTP/1.1\r\nHost: known.example\r\nConnection: close\r\n\r\n"
                tunnel = await ask(path, f"CONNECT known.example:443 HTTP/1.1\r\n\r\n{inner}")
                refused = [
                    await ask(path, f"CONNECT {one}:443 HTTP/1.1\r\n\r\n") for one in ("inside.example", "b.example")
                ]
                through = list(before.asked)
                ours = await ask(path, f"GET http://ours.example:{port}/ HTTP/1.1\r\nConnection: close\r\n\r\n")
            assert "hello" in plain
            assert "hello" in tunnel
            assert [one.split()[1] for one in refused] == ["403", "403"]
            assert "hello" in ours
            assert through == before.asked, "a private host that the owner allows is reached directly"
        wanted = {
            "http": ["GET http://far.example/?b=c HTTP/1.1", "CONNECT known.example:443 HTTP/1.1"],
            "socks5": [("far.example", 80), ("known.example", 443)],
        }
        assert through == wanted[kind]


@table(
    "address says",
    ("http://127.0.0.1:{port}", "502 Bad Gateway|did not answer through the proxy 127.0.0.1:|status 407"),
    ("socks5://127.0.0.1:{port}", "502 Bad Gateway|did not answer through the proxy"),
    ("http://127.0.0.1:1", "502 Bad Gateway|did not answer through the proxy 127.0.0.1:1"),
    ("ftp://127.0.0.1:1", "403 Forbidden|The proxy in HTTPS_PROXY cannot be used|set tools.web.proxy"),
)
async def test_a_proxy_for_the_web_that_does_not_work_is_said_so_and_never_gone_round(address: str, says: str) -> None:
    async with site() as (served, guard), TunnelProxy(served.server.port, "Basic x") as fake:
        proxies = Proxies(None, {"HTTPS_PROXY": address.format(port=fake.port)})
        proxy = HostProxy(guard, ["granted.example"], proxies.of)
        async with proxy.serve() as path:
            told = await ask(path, "CONNECT granted.example:443 HTTP/1.1\r\n\r\n")
        assert all(one in told for one in says.split("|")), told
        assert served.server.requests == []


@pytest.mark.parametrize("name", ["bubblewrap", "landlock"])
async def test_U74_a_command_reaches_the_granted_host_and_nobody_else(name: SandboxName, tmp_path: Path) -> None:
    sandbox = await choose(name)
    if isinstance(sandbox, Reason):
        pytest.skip(f"NOT TRIED: {sandbox.text}")
    async with site() as (served, guard):
        port = served.server.port
        proxy = HostProxy(guard, [f"granted.example:{port}"])
        async with proxy.serve() as path:
            urls = [f"http://{host}.example:{port}/" for host in ("granted", "other")]
            line = [sys.executable, "-I", "-S", "-c", CLIENT, str(port), *urls]
            command = sandbox.command(line, tmp_path, Confinement((tmp_path,), proxy_socket=path))
            process = await asyncio.create_subprocess_exec(
                *command, cwd=tmp_path, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
            )
            out, error = await process.communicate()
        refused = f"403 other.example:{port} was not granted to this command, which may reach granted.example:{port}."
        listens = ["listens"] if name == "bubblewrap" else []  # where it has a loopback of its own
        assert [one for one in out.decode().splitlines() if one] == ["hello", refused, *listens], error.decode()
        assert process.returncode == 0
        assert proxy.refused == [f"other.example:{port}"]
        assert len(served.server.requests) == 1
