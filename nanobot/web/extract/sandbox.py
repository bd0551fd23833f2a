"""The process in which pages are taken apart: reads jobs from stdin, writes answers to stdout, until stdin ends.

Each message is a line of JSON and, for a job, `size` bytes of body after it. A job is `{kind, url, format, charset,
cut, keep, size}`, its answer the fields of `Extracted` or `{error}`. The memory of the process and the CPU time of each
job are limited by the kernel: a page that asks for more ends the process, and `nanobot.web.extract.worker` notices.
Before the first job the process gives up for good to open anything, so whatever a page does to a parser, it reaches no
file, no network and no other program. The word `pdf` as argument loads PDFium before that.
"""

import codecs
import contextlib
import gc
import json
import os
import resource
import sys
from typing import BinaryIO

import msgspec
from msgspec.structs import replace

from nanobot.web.extract.feed import extract_xml
from nanobot.web.extract.html import extract
from nanobot.web.extract.office import extract_office
from nanobot.web.extract.page import Extracted, Format, Keep
from nanobot.web.fetch.charset import decode, load_codecs

MEMORY_BYTES = 1_536 * 1024 * 1024
CPU_SECONDS = 6
PDF_CPU_SECONDS = 15

_FORMATS: dict[str, Format] = {"markdown": "markdown", "text": "text", "html": "html"}


def main() -> None:
    source, sink = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever a library prints must not mix with the answers
    lock_up(pdf="pdf" in sys.argv[1:])
    gc.disable()  # a tenth of the time of a page goes into looking for cycles; the process lives for 60 pages
    while line := source.readline():
        job = json.loads(line)
        body = source.read(int(job["size"]))
        _limit_cpu(PDF_CPU_SECONDS if job["kind"] == "pdf" else CPU_SECONDS)
        _answer(sink, _work(job, body))


def lock_up(*, pdf: bool = False) -> None:
    """Load what a job may need, then limit the process: no new descriptor, no new process, so much memory."""
    load_codecs()
    for codec in ("cp437", "cp850", "cp936", "cp950", "utf-16"):  # names in archives, and older RTF files
        codecs.lookup(codec)
    if pdf:
        import nanobot.web.extract.pdf  # noqa: F401 - PDFium costs a tenth of a second, which no other page should pay
    for limit, most in (("AS", MEMORY_BYTES), ("CORE", 0), ("NPROC", 0), ("NOFILE", 0)):
        resource.setrlimit(getattr(resource, f"RLIMIT_{limit}"), (most, most))


def _limit_cpu(most: int) -> None:
    used = resource.getrusage(resource.RUSAGE_SELF)
    seconds = int(used.ru_utime + used.ru_stime) + 1 + most
    hard = resource.getrlimit(resource.RLIMIT_CPU)[1]
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, hard))


def _work(job: dict[str, object], body: bytes) -> Extracted | str:
    """The page, or the reason why there is none."""
    try:
        if job["kind"] == "pdf":
            from nanobot.web.extract.pdf import extract_pdf

            return extract_pdf(body)
        if job["kind"] == "office":
            return extract_office(body)
        decoded = decode(body, str(job["charset"]), cut=bool(job["cut"]))
        if job["kind"] == "xml":
            page = extract_xml(body, decoded.text, str(job["url"]))
        else:
            page = extract(decoded.text, str(job["url"]), format=_FORMATS[str(job["format"])], keep=_keep(job))
    except (MemoryError, RecursionError) as error:
        return type(error).__name__
    if decoded.replaced > 0.01:
        note = f"{decoded.replaced:.0%} of the characters could not be read (taken as {decoded.charset})."
        page = replace(page, notes=(*page.notes, note))
    return page


def _keep(job: dict[str, object]) -> Keep:
    """What of the page is wanted. The agent wrote it; pydantic would cost this process its start time."""
    wanted = job["keep"]
    return Keep(**wanted) if isinstance(wanted, dict) else Keep()


def _answer(sink: BinaryIO, result: Extracted | str) -> None:
    value = {"error": result} if isinstance(result, str) else msgspec.to_builtins(result)
    with contextlib.suppress(BrokenPipeError):
        # JSON inside a page may hold halves of characters, which no reader of JSON takes.
        sink.write(json.dumps(value, ensure_ascii=False).encode("utf-8", "replace") + b"\n")
        sink.flush()


if __name__ == "__main__":
    main()
