"""How much of a model's window is taken before a person has said a word?

    python -m benchmarks.prompt_tokens

Runs nanobot twice as a process of its own against a model server on loopback, in a new home, and takes the first
request as it came over the wire: the system prompt and the schemas of all tools, as JSON. First `nanobot agent -m …`
with the default tools; then a gateway in which every tool of nanobot's own is switched on, asked by its owner. MCP
servers and plug-ins come on top.
A token is taken for four bytes, which is near what the vocabularies of today's models make of English and JSON; beside
it stands what nanobot itself reckons with, three bytes.
The last line is the summary. Exit code 0: both at most 3,500 tokens. 1: more, or a tool was not offered.
"""

import asyncio
import json
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # tests/fakes, also when this runs as a file

from benchmarks.gateway import FIRST_USER, running
from benchmarks.one_turn import ANSWER, one_turn, write_config
from nanobot.agent.context import BYTES_PER_TOKEN
from nanobot.agent.tools.offers import OFFERS
from tests.fakes.llm_server import LlmServer

WIRE_BYTES = 4
BAR = 3_500


async def first_request() -> dict[str, object]:
    """The body of the first request of a new home."""
    async with LlmServer(after=ANSWER) as server:
        with tempfile.TemporaryDirectory(prefix="nanobot-prompt-") as folder:
            write_config(Path(folder), f"{server.url}/v1")
            await asyncio.to_thread(one_turn, Path(folder))
        return server.requests[0].body


async def request_with_everything() -> dict[str, object]:
    """The body of the first request of an owner in a chat where every tool is switched on."""
    with tempfile.TemporaryDirectory(prefix="nanobot-library-") as folder:
        Path(folder, "boat.md").write_text("# Boat\n\nThe boat is called Ida.\n", encoding="utf-8")
        settings: dict[str, object] = {"tools": {"profile": "full"}, "library": {"folders": [folder]}}
        async with running(1, settings=settings) as gateway:
            gateway.telegram.user("Ann", FIRST_USER).say("hi")
            await gateway.model.asked(1, timeout=60)
            return gateway.model.requests[0].body


def sizes(body: dict[str, object]) -> dict[str, int]:
    """Bytes of the system prompt and of each tool's schema."""
    messages, tools = body.get("messages"), body.get("tools")
    found: dict[str, int] = {}
    for message in messages if isinstance(messages, list) else []:
        if message["role"] == "system":
            found["system prompt"] = found.get("system prompt", 0) + len(message["content"].encode())
    for tool in tools if isinstance(tools, list) else []:
        found[tool["function"]["name"]] = len(json.dumps(tool["function"], ensure_ascii=False).encode())
    return found


def main() -> int:
    first, whole = sizes(asyncio.run(first_request())), sizes(asyncio.run(request_with_everything()))
    for name, size in sorted(whole.items(), key=lambda one: -one[1]):
        print(f"{name}: {size // WIRE_BYTES} tokens{'' if name in first else ', not by default'}")
    missing = OFFERS.keys() - whole.keys()
    if missing:
        print(f"not offered: {', '.join(sorted(missing))}")
    tokens, most = (sum(found.values()) // WIRE_BYTES for found in (first, whole))
    reckoned = sum(whole.values()) // BYTES_PER_TOKEN
    print(f"first request: {tokens} tokens, with every tool {most} ({reckoned} as nanobot reckons); bar {BAR}")
    return 0 if "system prompt" in first and not missing and max(tokens, most) <= BAR else 1


if __name__ == "__main__":
    sys.exit(main())
