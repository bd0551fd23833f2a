"""A real MCP server of the official SDK, as a program: `stdio`, or `http` and `sse` on a port that it prints."""

import asyncio
import os
import socket
import subprocess
import sys
from pathlib import Path

import uvicorn
from mcp.server.mcpserver import Image, MCPServer
from mcp.types import ToolAnnotations

from tests.fakes.files import png

server = MCPServer("real", version="1")
READS = ToolAnnotations(read_only_hint=True)


@server.tool(annotations=READS)
def echo(text: str) -> str:
    """Say it again."""
    return f"echo {text}"


@server.tool(annotations=READS)
def surroundings() -> str:
    """The folder and the names of all variables."""
    return f"{Path.cwd()} {sorted(os.environ)} {os.environ.get('OWN', '')}"


@server.tool()
def leave() -> str:
    """End in the middle of a call."""
    print("out of luck", file=sys.stderr, flush=True)
    os._exit(3)


@server.tool()
def picture() -> Image:
    """A picture."""
    return Image(data=png(3, 2), format="png")


@server.tool()
def child() -> str:
    """Start a program that goes on; its process id."""
    return str(subprocess.Popen(["sleep", "1000"]).pid)


@server.resource("note://today", name="today", description="What is\non today.")
def today() -> str:
    return "Tea with Ann."


@server.prompt(description="Greets somebody.")
def greet(name: str) -> str:
    return f"Say hello to {name}."


async def serve(way: str) -> None:
    listener = socket.create_server(("127.0.0.1", 0))
    print(listener.getsockname()[1], flush=True)
    app = server.sse_app() if way == "sse" else server.streamable_http_app()
    await uvicorn.Server(uvicorn.Config(app, log_level="error")).serve(sockets=[listener])


if __name__ == "__main__":
    if sys.argv[1] == "stdio":
        server.run("stdio")
    else:
        asyncio.run(serve(sys.argv[1]))
