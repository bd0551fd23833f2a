"""The worker processes: started when needed, limited, replaced."""

import asyncio
import os

from nanobot.web.extract import worker
from nanobot.web.extract.worker import Extractor, Job

PAGE = (
    b"<html><head><title>Tide</title></head><body><article><p>"
    + b"High water at nine. " * 40
    + b"</p></article></body>"
)


async def test_no_process_runs_before_the_first_page_and_none_after_the_end() -> None:
    extractor = Extractor()
    assert not extractor.pids
    page = await extractor.extract(Job(PAGE, "https://a.example/"))
    assert page.title == "Tide"
    assert len(extractor.pids) == 1
    await extractor.aclose()
    assert not extractor.pids


async def test_two_pages_at_a_time_and_the_same_processes_again() -> None:
    async with Extractor(size=2) as extractor:
        pages = await asyncio.gather(*(extractor.extract(Job(PAGE, "https://a.example/")) for _ in range(6)))
        assert {page.extractor for page in pages} == {"readability"}
        assert len(extractor.pids) <= 2


async def test_a_worker_that_takes_too_long_is_replaced() -> None:
    async with Extractor(size=1, wall=0.2) as extractor:
        slow = await extractor.extract(Job(b"<table>" + b"<tr><td>a<td>b" * 200_000, "https://a.example/"))
        assert not extractor.pids
        extractor.wall = worker.WALL_SECONDS
        good = await extractor.extract(Job(PAGE, "https://a.example/"))
    assert slow.extractor == "raw"
    assert "took longer than 0.2 s" in slow.notes[0]
    assert good.title == "Tide"


async def test_a_worker_that_dies_costs_one_page_only_its_structure() -> None:
    async with Extractor(size=1) as extractor:
        await extractor.extract(Job(PAGE, "https://a.example/"))
        for pid in extractor.pids:
            os.kill(pid, 9)
        page = await extractor.extract(Job(PAGE, "https://a.example/"))
        assert "High water at nine." in page.text
        again = await extractor.extract(Job(PAGE, "https://a.example/"))
    assert again.extractor == "readability"


async def test_a_cancelled_page_takes_its_process_with_it() -> None:
    async with Extractor(size=1) as extractor:
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
