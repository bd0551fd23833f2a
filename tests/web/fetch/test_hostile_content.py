"""Content made to hurt: every case ends soon, in bounded memory, with the event loop free, and says what happened."""

import asyncio
import gzip
import resource
import struct
import time
import tracemalloc
import zlib
from collections.abc import Callable
from pathlib import Path

import brotli
import pytest
from backports import zstd

from nanobot.agent.tools.web.fetch import WebFetchTool
from nanobot.results import ToolResult
from tests.fakes.http_server import Request, Responder
from tests.fakes.patience import growing
from tests.fakes.website import Answer, Script, Website
from tests.tables import table
from tests.web.fetch.conftest import MakeTool

MOST_GROWTH = 300_000_000
LONGEST_HOLD = 0.5
MB = 1_000_000
NOISE = b"".join(b"zipped page %d of %x\n" % (number, hash((number, 7)) & 0xFFFFFFFF) for number in range(20_000))
BROTLI = brotli.compress(NOISE, quality=5)
PROSE = "<p>" + "The tide rose and the boats came home before dark. " * 30 + "</p>"


async def read(tool: WebFetchTool, page: Answer | Script) -> tuple[ToolResult, float]:
    """The result, and the most processor seconds for which the event loop did nothing else."""
    longest = 0.0

    async def tick() -> None:
        nonlocal longest
        while True:
            before = time.thread_time()
            await asyncio.sleep(0.005)
            longest = max(longest, time.thread_time() - before)

    async with Website({"/": page}) as site:
        ticking = asyncio.create_task(tick())
        try:
            result = await tool.call({"url": f"{site.url}/"})
        finally:
            ticking.cancel()
    return result, longest


def bodies(head: bytes, chunk: bytes, pause: float = 0.0) -> Script:
    """Sends `head` and then `chunk` until the client goes away."""

    async def script(_request: Request, responder: Responder) -> None:
        await responder.raw(head)
        while not responder.closed.is_set():
            await responder.raw(chunk)
            await asyncio.sleep(pause)
        responder.close()

    return script


def raw(data: bytes, *, reset: bool = False) -> Script:
    async def script(_request: Request, responder: Responder) -> None:
        await responder.raw(data)
        if reset:
            await responder.abort()
        responder.close()

    return script


def silence() -> Script:
    async def script(_request: Request, responder: Responder) -> None:
        await responder.hang(120)

    return script


OK = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n"


async def test_K26_G33_an_endless_body_is_kept_to_the_limit_and_marked(make_tool: MakeTool) -> None:
    tool = make_tool(maxBytes=2 * MB)
    tracemalloc.start()
    result, _ = await read(tool, bodies(OK + b"\r\n", b"the tide rose again and again\n" * 2000))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert result.error is None
    assert result.extras["truncated"] is True
    assert result.extras["bytes"] == 2 * MB
    assert "The page is not whole: only its first 2000 kB were read." in result.text
    assert peak < 3 * 2 * MB + 20 * MB


def gzip_bomb() -> bytes:
    packer = zlib.compressobj(9, wbits=31)
    return b"".join(packer.compress(b"a" * MB) for _ in range(300)) + packer.flush()


@table(
    "encoding bomb",
    ("gzip", gzip_bomb),
    ("br", lambda: brotli.compress(b"a" * 300 * MB, quality=5)),
    ("zstd", lambda: zstd.compress(b"a" * 300 * MB)),
    ids=["gzip", "brotli", "zstandard"],
)
async def test_K26_a_compressed_bomb_is_inflated_to_the_limit_only(
    make_tool: MakeTool, encoding: str, bomb: Callable[[], bytes]
) -> None:
    packed = bomb()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    page = Answer(packed, "text/plain", headers=(("Content-Encoding", encoding),))
    result, held = await read(make_tool(maxBytes=2 * MB), page)
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert result.extras["bytes"] == 2 * MB
    assert result.extras["truncated"] is True
    assert held < LONGEST_HOLD
    assert grown < 100_000  # kB


@table(
    "encoding packed",
    ("gzip", gzip.compress(NOISE)),
    ("gzip", gzip.compress(NOISE[:70_000]) + gzip.compress(NOISE[70_000:])),
    ("deflate", zlib.compress(NOISE)),
    ("deflate", zlib.compress(NOISE)[2:-4]),
    ("br", BROTLI),
    ("zstd", zstd.compress(NOISE)),
    ("zstd", zstd.compress(NOISE[:500]) + zstd.compress(NOISE[500:])),
    ids=["gzip", "two members", "deflate", "bare deflate", "brotli", "zstandard", "two frames"],
)
async def test_a_packed_page_is_whole(tool: WebFetchTool, encoding: str, packed: bytes) -> None:
    page = Answer(packed, "text/plain", headers=(("Content-Encoding", encoding),))
    result, _ = await read(tool, page)
    assert result.extras["bytes"] == len(NOISE)
    assert "not whole" not in result.text


@growing(2, 20, 100)
async def test_K26_a_drip_ends_at_the_deadline_and_what_came_is_kept(make_tool: MakeTool, limit: float) -> None:
    page = bodies(OK + b"\r\n", b"drip ", pause=0.05)
    result, _ = await read(make_tool(timeout=limit, retries=0), page)
    assert result.error is None
    assert result.extras["truncated"] is True
    assert "drip drip" in result.text


@table(
    "page",
    silence(),
    bodies(b"HTTP/1.1 200 OK\r\n", b"X-A: b\r\n", pause=0.01),
    bodies(b"", b"HTTP/1.1 100 Continue\r\n\r\n", pause=0.01),
    bodies(b"", b"\r\n", pause=0.01),
    ids=["silence", "endless head", "endless 100", "blank lines"],
)
async def test_G16_G30_an_answer_that_never_starts_is_an_error_in_time(make_tool: MakeTool, page: Script) -> None:
    result, _ = await read(make_tool(timeout=2, retries=0), page)
    assert result.error in ("timeout", "network")
    if result.error == "timeout":
        assert "did not answer within 1 s" in result.text
        assert result.extras["phase"] == "read"


@table(
    "page kept",
    (raw(OK + b"Content-Length: 100\r\n\r\nhalf a page"), "half a page"),
    (raw(OK + b"Transfer-Encoding: chunked\r\n\r\nb\r\nhalf a page\r\nzz\r\n"), "half a page"),
    (raw(OK + b"Content-Encoding: gzip\r\n\r\n" + gzip.compress(b"zipped page " * 900)[:-4]), "zipped page"),
    (raw(OK + b"Content-Encoding: br\r\n\r\n" + BROTLI[:-400]), "zipped page 99 "),
    (raw(OK + b"Content-Encoding: zstd\r\n\r\n" + zstd.compress(NOISE)[:-400]), "zipped page 99 "),
    ids=["short length", "broken chunk", "cut gzip", "cut brotli", "cut zstandard"],
)
async def test_what_came_before_a_break_is_kept(tool: WebFetchTool, page: Script, kept: str) -> None:
    result, _ = await read(tool, page)
    assert result.error is None
    assert kept in result.text
    assert result.extras["truncated"] is True


@table(
    "page kind",
    (Answer(b"no brotli at all", headers=(("Content-Encoding", "br"),)), "network"),
    (Answer(b"no zstd at all", headers=(("Content-Encoding", "zstd"),)), "network"),
    (Answer(b"\x1b\x00", headers=(("Content-Encoding", "compress"),)), "unsupported_type"),
    (Answer(b"no gzip at all", headers=(("Content-Encoding", "gzip"),)), "network"),
    (raw(b"SSH-2.0-OpenSSH\r\n\r\n"), "network"),
    (raw(b"HTTP/1.1 200 OK\r\n", reset=True), "network"),
    (raw(b"HTTP/1.1 302 F\r\nLocation: http://[::1\r\nContent-Length: 0\r\n\r\n"), "blocked"),
    (raw(b"HTTP/1.1 302 F\r\nLocation: http://a\\@b/\r\nContent-Length: 0\r\n\r\n"), "blocked"),
    (Answer(b"\0\1\2\3" * 400, "text/html"), "unsupported_type"),
    (Answer(b"\x89PNG\r\n\x1a\n" + b"\0\0\0\rIHDR" + struct.pack(">II", 60_000, 60_000), "image/png"), "too_large"),
    (Answer(b"\xff\xd8\xff" + b"x" * 6 * MB, "image/jpeg"), "too_large"),
    ids=(
        "false brotli | false zstandard | unknown compression | false gzip | no http | reset | "
        "unreadable location | ambiguous location | binary | huge picture | heavy picture"
    ).split(" | "),
)
async def test_K25_N42_what_cannot_be_read_is_named_by_its_kind(
    make_tool: MakeTool, page: Answer | Script, kind: str
) -> None:
    result, held = await read(make_tool(retries=0), page)
    assert result.error == kind, result.text
    assert held < LONGEST_HOLD


def html(*parts: str | bytes) -> Answer:
    return Answer(b"".join(part if isinstance(part, bytes) else part.encode() for part in parts))


BODIES: dict[str, tuple[Answer, str]] = {
    "nested": (html("<div>" * 50_000, "deep water"), "deep water"),
    "quotes": (html("<blockquote>" * 1_000, "deep water"), "deep water"),
    "nested tables": (html("<table><tr><td>" * 300, "deep water"), "deep water"),
    "angle brackets": (html(PROSE, "<" * 1_000_000), "The tide rose"),
    "breaks": (html(PROSE, "<br>" * 60_000), "The tide rose"),
    "spans": (html(PROSE, "<span>x" * 60_000), "The tide rose"),
    "attributes": (html("<p ", "a=1 " * 200_000, ">", PROSE), "The tide rose"),
    "unclosed comment": (html(PROSE, "<!-- " * 100_000), "The tide rose"),
    "unclosed drawings": (html(PROSE, "<svg" * 300_000), "The tide rose"),
    "one long line": (html("<p>", "word " * 800_000), "word word"),
    "form": (html("<form action='/x'>", PROSE * 5, "</form>"), "The tide rose"),
    "frameset": (
        html("<frameset><frame src=a><noframes>Read the tide table here.</noframes></frameset>"),
        "tide table",
    ),
    "ruby": (html(PROSE, "<p><ruby>", "漢<rt>k</rt>" * 30_000), "漢(k)"),
    "drawings": (html(PROSE, "<h2>Tides</h2><svg>", "<text>" * 1_900, "w " * 60_000), "## Tides"),
    "sources": (html(PROSE, "<h2>Tides</h2>", "<source srcset=a>" * 1_900, "<img alt=x>" * 30_000), "## Tides"),
    "cells over many": (html("<h2>Tides</h2><table>", "<tr><td rowspan=99 colspan=99>1</td></tr>" * 9_000), "## Tides"),
    "pictures in a link": (html(PROSE, "<h2>Tides</h2><a href=/x>", "<img src=y>" * 30_000), "## Tides"),
    "raised": (html(PROSE, "<h2>Tides</h2>x", ("<sup>" * 200 + "1" + "</sup>" * 200) * 300), "## Tides"),
    "plain text": (html("Just a few words & no markup at all.\nSecond line."), "Second line."),
    "entities": (html("&#84;&#105;&#100;&#101; &lt;b&gt;"), "Tide"),
    "nul": (html("<p>ti\0de</p>", PROSE), "tide"),
    "surrogates": (html("<p>a\u00e9", b"\xed\xa0\x80\xed\xb0\x80", "</p>", PROSE), "The tide rose"),
    "wrong punycode": (
        Answer("é".encode("latin-1") * 3000 + PROSE.encode(), "text/html; charset=punycode"),
        "The tide",
    ),
    "utf-7": (Answer("+ADw-script+AD4- plain", "text/plain; charset=utf-7"), "+ADw-script"),
    "deep json": (Answer("[" * 200_000, "application/json"), "[[[["),
    "closed deep json": (Answer("[" * 5_000 + "]" * 5_000, "application/json"), "[[[["),
    "long number": (Answer('{"n": ' + "1" * 200_000 + "}", "application/json"), "1111"),
    "wide csv": (Answer(",".join("x" * 200_000) + "\n1", "text/csv"), "x,x,x"),
    "csv field": (Answer('a,b\n"' + "x" * 400_000, "text/csv"), "xxxx"),
    "laughs": (
        Answer(
            '<?xml version="1.0"?><!DOCTYPE l [<!ENTITY a "ha">'
            + "".join(f'<!ENTITY {n} "{f"&{p};" * 10}">' for p, n in zip("abcdefgh", "bcdefghi", strict=True))
            + "]><rss><channel><title>Laughs</title><item><title>&i;</title></item></channel></rss>",
            "application/xml",
        ),
        "Laughs",
    ),
    "half a character in a feed": (
        Answer("<rss><channel><item><title>Tide&#xD83D;</title></item></channel></rss>", "application/rss+xml"),
        "no well-formed XML",
    ),
    "half a character in data": (
        html(
            '<script type="application/ld+json">{"@type": "Article", "articleBody": "',
            "The \\ud83d tide rose before dark. " * 30,
            '"}</script><div id=app></div>',
        ),
        "tide rose before dark",
    ),
    "not xml": (Answer("<?xml version='1.0'?><a><b>tide", "text/xml"), "tide"),
}


def peak_memory(process: str) -> int:
    """The most bytes of memory that a process ever held; 0 where the system does not tell."""
    try:
        lines = Path(f"/proc/{process}/status").read_text(encoding="ascii", errors="replace").splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM")), 0)


@pytest.mark.parametrize("case", BODIES)
async def test_a_hostile_body_is_read_in_bounds(tool: WebFetchTool, case: str) -> None:
    page, shown = BODIES[case]
    before = peak_memory("self")
    result, held = await read(tool, page)
    workers = sum(peak_memory(str(pid)) for pid in tool._reader._extractor.pids)
    assert peak_memory("self") - before + workers < MOST_GROWTH
    assert result.error is None, result.text[:300]
    assert shown in result.text
    assert held < LONGEST_HOLD


async def test_A17_without_a_parser_scripts_vanish_and_blocks_stay_apart(make_tool: MakeTool) -> None:
    """A page of 3 MB tables runs into the worker's limits; the bare text is what remains."""
    tool = make_tool()
    tool._reader._extractor.wall = 0.3
    page = html("<script>\nvar secret = 1;\n</script><p>alpha</p><p>beta</p><table>", "<tr><td>a<td>b" * 200_000)
    result, held = await read(tool, page)
    assert "alpha\nbeta\n" in result.text
    assert "secret" not in result.text
    assert result.extras["extractor"] == "raw"
    assert "could not be taken apart (took longer than" in result.text
    assert held < LONGEST_HOLD
