"""CPU per streamed chunk, from the socket to the event, on both wires, beside a bare httpx stream of the same bytes.

A server in a process of its own sends one answer of many small events in a burst; this process reads it through the
provider with its retries, and again with httpx alone, which throws the bytes away. Both count the process's own CPU
time (user and system). Usage::

    python -m benchmarks.streaming [--chunks 5000] [--rounds 9] [--bar 1.5]

The bar is how many times as much as the bare stream a chunk may cost. Rounds of the two take turns and the best of each
counts, because other work on the machine only adds. The last line is the summary; the exit code is 1 above the bar.
"""

import argparse
import asyncio
import json
import multiprocessing
import resource
import sys
from collections.abc import Iterator
from multiprocessing.connection import Connection
from pathlib import Path

import httpx

sys.path.insert(0, str(Path(__file__).parent.parent))

from nanobot.messages import Completed, Text, TextDelta, UserMessage
from nanobot.providers.anthropic import AnthropicProvider
from nanobot.providers.base import LLMProvider, ProviderInfo, Request
from nanobot.providers.failures import Origin
from nanobot.providers.http import Endpoint
from nanobot.providers.openai_compat import OpenAICompatProvider
from nanobot.providers.retry import USUAL, RetryProvider

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"


def _event(value: dict[str, object]) -> bytes:
    data = f"data: {json.dumps(value)}\n\n".encode()
    return f"{len(data):x}\r\n".encode() + data + b"\r\n"


def _chat(chunks: int) -> Iterator[bytes]:
    for _ in range(chunks):
        choice = {"index": 0, "delta": {"content": " word"}, "logprobs": None, "finish_reason": None}
        yield _event({
            "id": "chatcmpl-B7aXkq2mVv5", "object": "chat.completion.chunk", "created": 1760000000,
            "model": "gpt-5.6-2026-09-01", "system_fingerprint": "fp_0a1b2c3d4e", "choices": [choice], "usage": None,
        })  # fmt: skip
    yield _event({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})


def _messages(chunks: int) -> Iterator[bytes]:
    yield _event({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}})
    for _ in range(chunks):
        yield _event({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": " word"}})
    yield _event({"type": "message_delta", "delta": {"stop_reason": "end_turn"}})
    yield _event({"type": "message_stop"})


def serve(pipe: Connection, chunks: int) -> None:
    """The server process: tells its port, then answers until it is ended."""
    bodies = {"chat": b"".join(_chat(chunks)), "messages": b"".join(_messages(chunks))}

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        length = next(line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
        await reader.readexactly(int(length.partition(b":")[2]))
        wire = "chat" if b"/chat/" in head.split(b"\r\n", 1)[0] else "messages"
        writer.write(HEAD + bodies[wire] + b"0\r\n\r\n")
        await writer.drain()
        writer.close()

    async def run() -> None:
        server = await asyncio.start_server(answer, "127.0.0.1", 0)
        pipe.send(server.sockets[0].getsockname()[1])
        await server.serve_forever()

    asyncio.run(run())


def _cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


async def through(provider: LLMProvider, chunks: int) -> float:
    """Microseconds of CPU per chunk for one answer that a provider reads."""
    request = Request((UserMessage((Text("go"),)),))
    seen = 0
    begin = _cpu()
    async for delta in provider.stream(request):
        if isinstance(delta, TextDelta):
            seen += 1
        elif isinstance(delta, Completed) and delta.message.text != " word" * chunks:
            raise SystemExit("streaming: the answer is not what the server sent")
    if seen != chunks:
        raise SystemExit(f"streaming: {seen} of {chunks} chunks arrived")
    return (_cpu() - begin) / chunks * 1e6


async def bare(client: httpx.AsyncClient, path: str, chunks: int) -> float:
    """Microseconds of CPU per chunk for the same bytes, read by httpx and thrown away."""
    begin = _cpu()
    async with client.stream("POST", path, content=b"{}") as response:
        async for _ in response.aiter_bytes():
            pass
    return (_cpu() - begin) / chunks * 1e6


async def rounds(port: int, count: int, chunks: int) -> dict[str, tuple[float, float]]:
    """The best figure of each wire, through the provider and bare."""
    info, origin, root = ProviderInfo("bench", "m"), Origin("bench"), f"http://127.0.0.1:{port}"
    wires: dict[str, tuple[LLMProvider, str]] = {
        "chat": (OpenAICompatProvider(info, Endpoint(origin, f"{root}/v1")), "/v1/chat/completions"),
        "messages": (AnthropicProvider(info, Endpoint(origin, root)), "/v1/messages"),
    }
    best: dict[str, tuple[float, float]] = {}
    for name, (wire, path) in wires.items():
        provider = RetryProvider([(wire, USUAL)])
        async with httpx.AsyncClient(base_url=root, trust_env=False) as client:
            pairs = [(await through(provider, chunks), await bare(client, path, chunks)) for _ in range(count)]
        ours, theirs = zip(*pairs, strict=True)
        print(f"{name}: {', '.join(f'{one:.1f}' for one in ours)}; bare {', '.join(f'{one:.1f}' for one in theirs)} µs")
        best[name] = min(ours), min(theirs)
        await provider.aclose()
    return best


def main() -> int:
    parser = argparse.ArgumentParser(description="CPU per streamed chunk beside a bare httpx stream.")
    parser.add_argument("--chunks", type=int, default=5000)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--bar", type=float, default=1.5, help="times the cost of a bare httpx stream")
    args = parser.parse_args()
    ours, theirs = multiprocessing.get_context("spawn").Pipe()
    server = multiprocessing.get_context("spawn").Process(target=serve, args=(theirs, args.chunks), daemon=True)
    server.start()
    try:
        best = asyncio.run(rounds(ours.recv(), args.rounds, args.chunks))
    finally:
        server.terminate()
        server.join()
    worst = max(mine / floor for mine, floor in best.values())
    verdict = "ok" if worst <= args.bar else "above the bar"
    figures = ", ".join(f"{name} {mine:.1f} ({mine / floor:.2f} x bare)" for name, (mine, floor) in best.items())
    print(f"streaming: {figures} µs of CPU per chunk; bar {args.bar} x: {verdict}")
    return 0 if worst <= args.bar else 1


if __name__ == "__main__":
    sys.exit(main())
