"""How much of a model's window is taken before a person has said a word?

    python -m benchmarks.prompt_tokens

Runs `nanobot agent -m …` as a process of its own against a model server on loopback, with a new home and the default
tools, and takes the first request as it came over the wire: the system prompt and the schemas of all tools, as JSON.
A token is taken for four bytes, which is near what the vocabularies of today's models make of English and JSON; beside
it stands what nanobot itself reckons with, three bytes.
The last line is the summary. Exit code 0: at most 3,500 tokens. 1: more.
"""

import asyncio
import json
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # tests/fakes, also when this runs as a file

from benchmarks.one_turn import ANSWER, one_turn, write_config
from nanobot.agent.context import BYTES_PER_TOKEN
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
    found = sizes(asyncio.run(first_request()))
    for name, size in found.items():
        print(f"{name}: {size // WIRE_BYTES} tokens")
    total = sum(found.values())
    tokens = total // WIRE_BYTES
    print(f"first request: {tokens} tokens ({total // BYTES_PER_TOKEN} as nanobot reckons); bar {BAR}")
    return 0 if "system prompt" in found and len(found) > 2 and tokens <= BAR else 1


if __name__ == "__main__":
    sys.exit(main())
