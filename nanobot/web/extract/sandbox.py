"""The process in which pages are taken apart: reads jobs from stdin, writes answers to stdout, until stdin ends.

A message is a line of JSON: a job with the size of its body, which follows it, and its answer, an `Extracted` or
a word that says why there is none. The memory of the process and the CPU time of each job are limited by the kernel: a
page that asks for more ends the process, and `nanobot.web.extract.worker` notices. Before the first job the process
gives up for good to open anything, so whatever a page does to a parser, it reaches no file, no network and no other
program. Arguments say what it loads before that, beside what every page takes: kinds of files, and `codecs` for pages
that are not in UTF-8.
"""

import codecs
import contextlib
import json
import os
import resource
import sys
from collections.abc import Callable
from importlib import import_module
from importlib.machinery import BuiltinImporter, FrozenImporter
from typing import BinaryIO

import msgspec
from msgspec.structs import replace

from nanobot.web.extract.feed import extract_xml
from nanobot.web.extract.html import extract
from nanobot.web.extract.page import Extracted, Job
from nanobot.web.fetch.charset import decode, load_codecs

MEMORY_BYTES = 1_536 * 1024 * 1024
CPU_SECONDS = 6
PDF_CPU_SECONDS = 15
#: What reads a kind of file, imported only for it: PDFium alone costs a tenth of a second.
_READERS = {
    "pdf": "nanobot.web.extract.pdf:extract_pdf",
    "office": "nanobot.web.extract.office:extract_office",
    "mail": "nanobot.web.extract.mail:extract_mail",
}

#: Encodings that only files name: those of names in archives, of older RTF files, and of mail.
_OF_FILES = "utf-16 cp437 cp850 cp936 cp950 johab gb2312 hz big5 euc_kr iso2022_kr iso2022_jp_2 shift_jis iso8859_9"


def main() -> None:
    source, sink = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever a library prints must not mix with the answers
    lock_up(*sys.argv[1:])
    while line := source.readline():
        head, size = msgspec.json.decode(line, type=tuple[Job, int])
        _limit_cpu(PDF_CPU_SECONDS if head.kind == "pdf" else CPU_SECONDS)
        _answer(sink, _work(replace(head, body=source.read(size))))


def lock_up(*needs: str) -> None:
    """Load what jobs with these needs take; then limit the process: no new descriptor, no new process, so much
    memory."""
    for need in needs:
        if need != "codecs":
            _reader(need)
            continue
        load_codecs()
        for codec in _OF_FILES.split():
            codecs.lookup(codec)
    sys.meta_path[:] = (BuiltinImporter, FrozenImporter)  # what is not loaded by now does not exist: codecs, above all
    for limit, most in (("AS", MEMORY_BYTES), ("CORE", 0), ("NPROC", 0), ("NOFILE", 0)):
        resource.setrlimit(getattr(resource, f"RLIMIT_{limit}"), (most, most))


def _reader(kind: str) -> Callable[[bytes], Extracted]:
    module, _, name = _READERS[kind].partition(":")
    read: Callable[[bytes], Extracted] = getattr(import_module(module), name)
    return read


def _limit_cpu(most: int) -> None:
    used = resource.getrusage(resource.RUSAGE_SELF)
    seconds = int(used.ru_utime + used.ru_stime) + 1 + most
    hard = resource.getrlimit(resource.RLIMIT_CPU)[1]
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, hard))


def _work(job: Job) -> Extracted | str:
    """The page, or the reason why there is none."""
    try:
        if job.kind in _READERS:
            return _reader(job.kind)(job.body)
        decoded = decode(job.body, job.charset, cut=job.cut)
        if job.kind == "xml":
            page = extract_xml(job.body, decoded.text, job.url)
        else:
            page = extract(decoded.text, job.url, format=job.format, keep=job.keep)
    except (MemoryError, RecursionError) as error:
        return type(error).__name__
    if decoded.replaced > 0.01:
        note = f"{decoded.replaced:.0%} of the characters could not be read (taken as {decoded.charset})."
        page = replace(page, notes=(*page.notes, note))
    return page


def _answer(sink: BinaryIO, result: Extracted | str) -> None:
    try:
        line = result.encode() if isinstance(result, str) else msgspec.json.encode(result)
    except UnicodeEncodeError:  # JSON inside a page may hold halves of characters, which no reader of JSON takes
        line = json.dumps(msgspec.to_builtins(result), ensure_ascii=False).encode("utf-8", "replace")
    with contextlib.suppress(BrokenPipeError):
        sink.write(line + b"\n")
        sink.flush()
