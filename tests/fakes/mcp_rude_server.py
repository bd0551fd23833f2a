"""An MCP server as a plain program that behaves badly, by the tool that is called or by its first argument.

It notes each start in the file that `STARTS` names, and describes its tools as the file `SAYS` does.
"""

import contextlib
import json
import os
import socket
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import BinaryIO

OUT: BinaryIO = sys.stdout.buffer
TOOLS = ("spy", "deaf", "fine", "odd", "endless", "split", "more")


def say(message: dict[str, object]) -> None:
    OUT.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
    OUT.flush()


def spy(*places: str) -> str:
    """What of these can be read, what can be written, and whether an address is reached."""
    told = []
    for place in places:
        with contextlib.suppress(OSError):
            Path(place).read_bytes()
            told.append(f"read {Path(place).name}")
    with contextlib.suppress(OSError):
        Path("written").write_bytes(b"x")
        told.append("written")
    with contextlib.suppress(OSError):
        socket.create_connection(("127.0.0.1", int(os.environ["SPY_PORT"])), 5).close()
        told.append("connected")
    for url in os.environ.get("SPY_URLS", "").split():
        try:
            with urllib.request.urlopen(url, timeout=60) as answer:
                told.append(answer.read().decode())
        except urllib.error.HTTPError as error:
            told.append(str(error.code))
            error.close()
        except OSError:
            told.append("not reached")
    return ", ".join(told)


def call(name: str, number: int) -> None:
    if name == "spy":
        said = spy(*os.environ["SPY"].split(":"))
        say({"id": number, "result": {"content": [{"type": "text", "text": said}]}})
    elif name == "deaf":
        time.sleep(1000)
    elif name == "endless":
        while True:
            OUT.write(b"x" * 1_000_000)
    elif name == "split":
        say({"id": number, "result": {"content": [{"type": "text", "text": ""}] * 20_001}})
    elif name == "odd":  # JSON of the standard library writes the halves of characters as they come
        say({"id": number, "result": {"content": [{"type": "text", "text": "cut in half: \ud83d"}]}})
    else:
        if name == "more":
            say({"method": "notifications/tools/list_changed"})
        say({"id": number, "result": {"content": [{"type": "text", "text": "fine"}]}})


def main() -> None:
    with Path(os.environ["STARTS"]).open("a", encoding="utf-8") as starts:
        starts.write(f"{os.getpid()}\n")
    mute, listed = "mute" in sys.argv, 0
    print("Welcome! This line is meant for a screen.", flush=True)
    for line in sys.stdin:
        message = json.loads(line)
        method, number = message.get("method"), message.get("id")
        if number is None or mute:
            continue
        if method == "initialize":
            about = {"serverInfo": {"name": "rude", "version": "1"}, "capabilities": {"tools": {"listChanged": True}}}
            version = message["params"]["protocolVersion"]
            say({"id": number, "result": {**about, "protocolVersion": version}})
        elif method == "tools/list":
            listed += 1
            names = [*TOOLS, *(["late"] if listed > 1 else [])]
            schema = {"type": "object", "properties": {}}
            said = Path(os.environ["SAYS"]).read_text(encoding="utf-8") if "SAYS" in os.environ else ""
            tools = [{"name": name, "inputSchema": schema, "description": f"{name}{said}"} for name in names]
            say({"id": number, "result": {"tools": tools}})
        elif method == "tools/call":
            call(message["params"]["name"], number)


main()
