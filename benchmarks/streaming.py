"""CPU per streamed chunk, from the socket to the event, on both wires.

A server in a process of its own sends one answer of many small events in a burst; this process reads it through the
provider and counts its own CPU time (user and system). Usage::

    python benchmarks/streaming.py [--chunks 5000] [--rounds 5] [--bar 25]

The bar is in microseconds per chunk. The best round counts, because other work on the machine only adds. The last line
is the summary; the exit code is 1 above the bar.
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

sys.path.insert(0, str(Path(__file__).parent.parent))

from nanobot.messages import Completed, Text, TextDelta, UserMessage
from nanobot.providers.anthropic import AnthropicProvider
from nanobot.providers.base import LLMProvider, ProviderInfo, Request
from nanobot.providers.failures import Origin
from nanobot.providers.http import Endpoint
from nanobot.providers.openai_compat import OpenAICompatProvider
from nanobot.providers.retry import RetryProvider

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


async def measure(provider: LLMProvider, chunks: int) -> float:
    """Microseconds of CPU per chunk for one answer."""
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


async def rounds(port: int, count: int, chunks: int) -> dict[str, float]:
    info, origin = ProviderInfo("bench", "m"), Origin("bench")
    chat = OpenAICompatProvider(info, Endpoint(origin, f"http://127.0.0.1:{port}/v1"))
    messages = AnthropicProvider(info, Endpoint(origin, f"http://127.0.0.1:{port}"))
    best: dict[str, float] = {}
    for name, provider in (("chat", RetryProvider(chat)), ("messages", RetryProvider(messages))):
        figures = [await measure(provider, chunks) for _ in range(count)]
        print(f"{name}: " + ", ".join(f"{figure:.1f}" for figure in figures) + " µs per chunk")
        best[name] = min(figures)
        await provider.aclose()
    return best


def main() -> int:
    parser = argparse.ArgumentParser(description="CPU per streamed chunk, from the socket to the event.")
    parser.add_argument("--chunks", type=int, default=5000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--bar", type=float, default=25.0, help="microseconds per chunk")
    args = parser.parse_args()
    ours, theirs = multiprocessing.get_context("spawn").Pipe()
    server = multiprocessing.get_context("spawn").Process(target=serve, args=(theirs, args.chunks), daemon=True)
    server.start()
    try:
        best = asyncio.run(rounds(ours.recv(), args.rounds, args.chunks))
    finally:
        server.terminate()
        server.join()
    worst = max(best.values())
    verdict = "ok" if worst <= args.bar else "above the bar"
    figures = ", ".join(f"{name} {figure:.1f}" for name, figure in best.items())
    print(f"streaming: {figures} µs of CPU per chunk; bar {args.bar:.0f}: {verdict}")
    return 0 if worst <= args.bar else 1


if __name__ == "__main__":
    sys.exit(main())
