"""The worker processes: started when needed, limited, replaced."""

import asyncio
import os
import sys
from contextlib import aclosing
from pathlib import Path

import pytest

from nanobot.web.extract import worker
from nanobot.web.extract.html import extract
from nanobot.web.extract.page import Job
from nanobot.web.extract.worker import Extractor

PAGE = (
    b"<html><head><title>Tide</title></head><body><article><p>"
    + b"High water at nine. " * 40
    + b"</p></article></body>"
)


async def test_no_process_runs_before_the_first_page_and_none_after_the_end() -> None:
    async with aclosing(Extractor()) as extractor:
        assert not extractor.pids
        page = await extractor.extract(Job(PAGE, "https://a.example/"))
        assert page.title == "Tide"
        assert len(extractor.pids) == 1
    assert not extractor.pids


async def test_two_pages_at_a_time_and_the_same_processes_again() -> None:
    async with aclosing(Extractor(size=2)) as extractor:
        pages = await asyncio.gather(*(extractor.extract(Job(PAGE, "https://a.example/")) for _ in range(6)))
        assert {page.extractor for page in pages} == {"readability"}
        assert len(extractor.pids) <= 2


async def test_G31_a_worker_that_takes_too_long_is_replaced() -> None:
    async with aclosing(Extractor(size=1, wall=0.2)) as extractor:
        slow = await extractor.extract(Job(b"<table>" + b"<tr><td>a<td>b" * 200_000, "https://a.example/"))
        assert not extractor.pids
        extractor.wall = worker.WALL_SECONDS
        good = await extractor.extract(Job(PAGE, "https://a.example/"))
    assert slow.extractor == "raw"
    assert "took longer than 0.2 s" in slow.notes[0]
    assert good.title == "Tide"


async def test_G31_a_worker_that_dies_costs_one_page_only_its_structure() -> None:
    async with aclosing(Extractor(size=1)) as extractor:
        await extractor.extract(Job(PAGE, "https://a.example/"))
        for pid in extractor.pids:
            os.kill(pid, 9)
        page = await extractor.extract(Job(PAGE, "https://a.example/"))
        assert "High water at nine." in page.text
        again = await extractor.extract(Job(PAGE, "https://a.example/"))
    assert again.extractor == "readability"


@pytest.mark.parametrize("page", ["<!-- a remark alone -->", "<!DOCTYPE html>", "<?php echo 1 ?>"])
def test_G31_A17_a_page_that_the_parser_refuses_is_stripped(page: str) -> None:
    found = extract(page, "https://a.example/")
    assert (found.extractor, found.text) == ("raw", "")
    button = extract("<html><body><button>Only a button</button></body></html>", "https://a.example/")
    assert (button.extractor, button.text) == ("raw", "Only a button")


async def test_a_cancelled_page_takes_its_process_with_it() -> None:
    async with aclosing(Extractor(size=1)) as extractor:
        await extractor.extract(Job(PAGE, "https://a.example/"))
        (pid,) = extractor.pids
        work = asyncio.create_task(
            extractor.extract(Job(b"<table>" + b"<tr><td>a<td>b" * 200_000, "https://a.example/"))
        )
        await asyncio.sleep(0)
        work.cancel()
        await asyncio.wait([work], timeout=120)
        assert work.cancelled()
        assert pid not in extractor.pids


_TRIES = """
import encodings.idna, os, socket, subprocess  # idna, so that a connection is tried and not its name
from nanobot.web.extract.sandbox import lock_up
lock_up("pdf", "mail")
def tries(what):
    try:
        what()
    except (OSError, ValueError) as error:  # ValueError: only root may raise a limit
        return type(error).__name__
    return "done"
print(
    tries(lambda: open("/etc/hostname")),
    tries(lambda: socket.create_connection(("127.0.0.1", 9), 1)),
    tries(lambda: subprocess.run(["true"])),
    tries(lambda: os.dup(1)),
    tries(lambda: __import__("resource").setrlimit(7, (64, 64))) if os.getuid() else "OSError",
)
"""


async def test_the_worker_reaches_no_file_no_network_no_program_and_no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "canary-key")
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", _TRIES, stdout=asyncio.subprocess.PIPE)
    said, _ = await asyncio.wait_for(process.communicate(), 120)
    assert "done" not in said.decode()
    assert len(said.decode().split()) == 5, said
    async with aclosing(Extractor()) as extractor:
        await extractor.extract(Job(PAGE, "https://a.example/"))
        (pid,) = extractor.pids
        limits = Path(f"/proc/{pid}/limits")
        if limits.exists():
            assert b"canary-key" not in Path(f"/proc/{pid}/environ").read_bytes()
            (line,) = (line for line in limits.read_text().splitlines() if line.startswith("Max open files"))
            assert line.split()[3:5] == ["0", "0"]


async def test_no_module_of_the_folder_that_nanobot_runs_in_is_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "json.py").write_text("raise SystemExit('not the json of Python')", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    async with aclosing(Extractor(size=1)) as extractor:
        assert (await extractor.extract(Job(PAGE, "https://a.example/"))).notes == ()


async def test_a_worker_that_opens_nothing_still_reads_every_encoding() -> None:
    words = {
        "gbk": "北京的天气很好",
        "big5": "香港的天氣很好",
        "euc-jp": "東京の天気",
        "shift_jis": "東京の天気",
        "euc-kr": "서울의 날씨",
        "koi8-r": "погода",
        "windows-1253": "καιρός",
        "utf-16le": "погода",
    }
    async with aclosing(Extractor(size=1)) as extractor:
        for label, word in words.items():
            body = f"<html><head><title>{word}</title></head><body><p>{word}</p></body></html>".encode(label)
            page = await extractor.extract(Job(body, "https://ex.org/", charset=label))
            assert (page.title, page.notes) == (word, ()), label
        assert len(extractor.pids) == 1


async def test_a_worker_in_the_place_of_another_reads_what_that_one_could() -> None:
    pdf = Job(b"%PDF-1.4 nothing", "https://ex.org/a.pdf", "pdf")
    russian = Job("<title>погода</title><p>погода</p>".encode("koi8-r"), "https://ex.org/", charset="koi8-r")
    mail = Job(b"Subject: Tide\n\nHigh water at nine.", "https://ex.org/tide.eml", "mail")
    async with aclosing(Extractor(size=1)) as extractor:
        for job in (Job(PAGE, "https://a.example/"), russian, pdf, mail):
            await extractor.extract(job)
        last = extractor.pids
        pages = [await extractor.extract(job) for job in (russian, pdf, mail, Job(PAGE, "https://a.example/"))]
        assert extractor.pids == last
    assert [page.title for page in pages] == ["погода", "", "Tide", "Tide"]


@pytest.mark.parametrize(
    ("charset", "words"),
    [("gb2312", "今天天气很好"), ("big5", "今天天氣很好"), ("euc-kr", "오늘은 날씨"), ("iso-8859-9", "Şişli")],
)
async def test_mail_is_read_in_the_encoding_that_it_names(charset: str, words: str) -> None:
    body = f"Content-Type: text/plain; charset={charset}\n\n".encode() + words.encode(charset)
    async with aclosing(Extractor(size=1)) as extractor:
        page = await extractor.extract(Job(body, "https://ex.org/a.eml", "mail"))
    assert (page.text.split("\n")[-1], page.notes) == (words, ())


async def test_mail_in_an_encoding_that_is_not_read_gives_its_other_words_and_the_next_one_is_read() -> None:
    head = b"Subject: =?mac-greek?Q?Tide?=\nFrom: =?cp1026?B?VGlkZQ==?= <a@ex.org>\nContent-Type: text/plain; charset="
    async with aclosing(Extractor(size=1)) as extractor:
        for charset in (
            b"x-nobody",
            b"mac-greek",
            b"cp1026",
            b"rot13",
            b"zlib",
            b"idna",
            b"unicode_escape",
            b"us-ascii",
        ):
            job = Job(head + charset + b"\n\nHigh water", "https://ex.org/a.eml", "mail")
            assert "High water" in (await extractor.extract(job)).text, charset


async def test_a_text_file_in_an_encoding_that_nobody_knows_is_read() -> None:
    async with aclosing(Extractor(size=1)) as extractor:
        body = rb"{\rtf1\mac\ansicpg10000 High water\par at nine}"
        page = await extractor.extract(Job(body, "https://ex.org/a.rtf", "office"))
    assert (page.text.split(), page.notes) == (["High", "water", "at", "nine"], ())


async def test_a_page_that_only_readability_can_judge_is_read_where_no_library_can_be_opened() -> None:
    text = "<div class=story>" + "<p>High water at nine, and the ferry waits for it.</p>" * 30 + "</div>"
    page = f"<body><div class=top><a href=/a>One</a></div><div class=middle>{text}</div></body>".encode()
    async with aclosing(Extractor(size=1)) as extractor:
        read = await extractor.extract(Job(page, "https://a.example/"))
    assert (read.extractor, read.notes) == ("readability", ())


async def test_links_to_hosts_in_brackets_are_read_as_all_others() -> None:
    links = b"<base href='http://[2001:db8::1]/'><a href='/tide'>The tide</a> <a href='http://[half/'>A half</a></p>"
    async with aclosing(Extractor(size=1)) as extractor:
        read = await extractor.extract(Job(PAGE.replace(b"</p>", links, 1), "https://a.example/"))
    assert "[The tide](http://[2001:db8::1]/tide)" in read.text
    assert (read.extractor, read.notes) == ("readability", ())


async def test_half_a_character_in_the_data_of_a_page_costs_nothing_else() -> None:
    data = b'<script type="application/ld+json">{"@type": "Article", "headline": "Half \\ud83d a sign"}</script>'
    async with aclosing(Extractor(size=1)) as extractor:
        read = await extractor.extract(Job(PAGE.replace(b"<title>Tide</title>", data), "https://a.example/"))
    assert (read.title, read.extractor) == ("Half ? a sign", "readability")
