"""Where do connections really arrive? The guard of `web_fetch` against a corpus of URLs, judged by the kernel.

    python benchmarks/ssrf.py --corpus FILE

FILE holds JSON lines with `id kind url expect` (block or allow) and, where needed, `dns` (answers by name; a list of
lists gives each look-up its own), `serve` (answers by path), `proxy` and `contested`. The program moves into a network
namespace of its own in which every address is local, reads each URL with the real tool, and records which address each
TCP connection reached. A `block` row holds when nothing arrived at an address that is not public (for redirects,
rebinding and mixed answers) or nothing arrived at all (for everything else); an `allow` row holds when the page was
read. A name that is looked up twice for one connection, or a tool that breaks, fails its row too.

The last line is the summary. Exit code 0: every block row held and at least 98 % of the allow rows; contested rows are
counted apart. 1: below that. 77: no right to make a namespace here.
"""

import argparse
import asyncio
import contextlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import Struct

from nanobot.agent.tools.base import ToolContext
from nanobot.agent.tools.web.fetch import WebFetchTool
from nanobot.config.schema_web import WebFetchConfig
from nanobot.results import ToolResult
from nanobot.web.client import SystemNetwork

BAR = 0.98
SKIPPED = 77
PROXY_PORT = 3128
#: Answers that stand for a host that is down.
DEAD = "45.33.99.99"
PUBLIC = {"45.33.32.156", "93.184.216.34", "2606:4700:4700::1111", DEAD}
STAGED = {"redirect", "rebind", "mixed"}


class Served(Struct):
    status: int = 200
    headers: dict[str, str] = {}
    body: str = "<p>hello page</p>"


class Row(Struct):
    id: str
    kind: str
    url: str
    expect: Literal["block", "allow"]
    why: str = ""
    dns: dict[str, list[str | list[str]]] = {}
    serve: dict[str, Served] = {}
    proxy: bool = False
    contested: bool = False


@dataclass(slots=True)
class Referee(SystemNetwork):
    """Serves the row at hand and keeps what happened: look-ups, and the address of each connection."""

    row: Row
    lookups: list[str] = field(default_factory=list)
    reached: list[str] = field(default_factory=list)
    through_proxy: list[str] = field(default_factory=list)

    def turn_to(self, row: Row) -> None:
        self.row = row
        self.lookups, self.reached, self.through_proxy = [], [], []

    async def resolve(self, host: str, port: int) -> Sequence[str]:
        del port
        number = self.lookups.count(host)
        self.lookups.append(host)
        answers = self.row.dns.get(host, [])
        turns = [answer for answer in answers if isinstance(answer, list)]
        flat = [answer for answer in answers if isinstance(answer, str)]
        if turns:
            flat = turns[min(number, len(turns) - 1)]
        found = [answer for answer in flat if not answer.startswith(("CNAME:", "NX"))]
        if not found:
            raise OSError(-2, "Name or service not known")
        return found

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        here = writer.get_extra_info("sockname")
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            if here[1] != PROXY_PORT:
                self.reached.append(str(here[0]).partition("%")[0])
            head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 5)
            target = head.split(b" ", 2)[1].decode("latin-1")
            if here[1] == PROXY_PORT:
                self.through_proxy.append(target)
            path = "/" + re.sub(r"^https?://[^/]*/?", "", target).lstrip("/")
            answer = self.row.serve.get(path, Served())
            body = answer.body.encode()
            lines = [f"HTTP/1.1 {answer.status} Served", "Content-Type: text/html", f"Content-Length: {len(body)}"]
            lines += [f"{name}: {value}" for name, value in answer.headers.items()]
            writer.write("\r\n".join([*lines, "", ""]).encode("utf-8") + body)
            await writer.drain()
        writer.close()

    def verdict(self, result: ToolResult) -> str:
        """Empty where the row held, else what went wrong."""
        if result.error == "failed":
            return f"the tool broke: {result.text[:120]}"
        if self.row.kind != "redirect" and len(self.lookups) > len(set(self.lookups)):
            return f"looked up more than once: {self.lookups}"
        if self.row.expect == "allow":
            if result.error is not None:
                return f"not read: {result.error}: {result.text[:120]}"
            return "" if self.reached or self.through_proxy else "read without a connection"
        if self.through_proxy:
            return f"asked the proxy for {self.through_proxy}"
        allowed = PUBLIC if self.row.kind in STAGED else set()
        wrong = [address for address in self.reached if address not in allowed]
        return f"reached {wrong}" if wrong else ""


def load(path: Path) -> list[Row]:
    return [
        msgspec.json.decode(line, type=Row) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()
    ]


def ports(rows: list[Row]) -> set[int]:
    """Every port that a row names, so that no wrong connection goes unseen."""
    texts = [row.url for row in rows] + [
        value for row in rows for served in row.serve.values() for value in served.headers.values()
    ]
    named = {int(port) for text in texts for port in re.findall(r":([0-9]{2,5})\b", text) if 0 < int(port) < 65_536}
    return named | {80, 443, 8080, PROXY_PORT}


def everything_is_local() -> None:
    """Make this namespace answer for every address. `DEAD` alone cannot be reached."""
    for words in (
        "link set lo up",
        "route add local 0.0.0.0/0 dev lo",
        "-6 route add local ::/0 dev lo",
        f"route add unreachable {DEAD} table local",
    ):
        subprocess.run(["ip", *words.split()], check=True, capture_output=True)


async def judge(rows: list[Row]) -> int:
    referee = Referee(rows[0])
    failures: list[str] = []
    held = {"block": 0, "allow": 0}
    total = {"block": 0, "allow": 0}
    contested = lookups = connections = 0
    async with contextlib.AsyncExitStack() as stack:
        for port in sorted(ports(rows)):
            for host in ("0.0.0.0", "::"):
                await stack.enter_async_context(await asyncio.start_server(referee.serve, host, port))
        direct, proxied = (tool(referee, proxy) for proxy in (None, f"http://127.0.0.1:{PROXY_PORT}"))
        stack.push_async_callback(direct.aclose)
        stack.push_async_callback(proxied.aclose)
        for row in rows:
            referee.turn_to(row)
            used = proxied if row.proxy else direct
            result = await used.call({"url": row.url}, ToolContext(session=row.id))
            wrong = referee.verdict(result)
            lookups += len(referee.lookups)
            connections += len(referee.reached)
            if row.contested:
                contested += not wrong
                continue
            total[row.expect] += 1
            held[row.expect] += not wrong
            if wrong:
                failures.append(f"{row.id} {row.expect} {row.url[:100]} ({row.why}): {wrong}")
    print("\n".join(failures))
    disputed = sum(row.contested for row in rows)
    passed = held["block"] == total["block"] and held["allow"] >= BAR * total["allow"]
    word = "ok" if passed else "FAILED"
    print(
        f"SSRF {word}: {held['block']}/{total['block']} blocked, {held['allow']}/{total['allow']} reached, "
        f"{contested}/{disputed} contested rows as written, {lookups} look-ups, {connections} connections"
    )
    return 0 if passed else 1


def tool(referee: Referee, proxy: str | None) -> WebFetchTool:
    return WebFetchTool(WebFetchConfig(retries=0), proxy=proxy, network=referee)


def main() -> int:
    parser = argparse.ArgumentParser(description="Judge the guard of web_fetch by where connections arrive.")
    parser.add_argument("--corpus", type=Path, required=True)
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.inside:
        everything_is_local()
        return asyncio.run(judge(load(chosen.corpus)))
    unshare = shutil.which("unshare")
    flags = ["-n"] if os.geteuid() == 0 else ["-rn"]
    probe = subprocess.run([unshare, *flags, "ip", "link"], check=False, capture_output=True) if unshare else None
    if unshare is None or probe is None or probe.returncode:
        print("SSRF skipped: this machine lets us make no network namespace (unshare -n and ip are needed)")
        return SKIPPED
    with tempfile.TemporaryDirectory() as home:
        words = [unshare, *flags, sys.executable, __file__, "--corpus", str(chosen.corpus), "--inside"]
        return subprocess.run(words, check=False, env={**os.environ, "NANOBOT_HOME": home}).returncode


if __name__ == "__main__":
    sys.exit(main())
