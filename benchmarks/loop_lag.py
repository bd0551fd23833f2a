"""How long anything holds up the event loop of a gateway, so that every other chat waits.

    python -m benchmarks.loop_lag [--rounds 3]

Runs `nanobot gateway` with 2,000 documents in its library and a chat of 500 turns, and has it do what happens each day:
go on in the long chat; read a page of 1 MB and a PDF of 100 pages and answer with marks; search the library and what
was said before; stream an answer of 40,000 characters; read, edit and find files; answer commands. A stretch is the CPU
of the loop's thread from one look for what is ready to the next (`time.thread_time`), so that other work of the machine
counts for nothing. The longest of each kind of work is shown with the task that had most of it, as far as one takes
2 ms. The last line is the summary: exit code 1 where a stretch takes more than 50 ms.
"""

import argparse
import asyncio
import json
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from msgspec import Struct

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks.gateway import FIRST_USER, Gateway, running  # noqa: E402 - found by the line above when run as a file
from nanobot.messages import AssistantMessage, Text, UserMessage  # noqa: E402
from nanobot.providers.scripted import Call  # noqa: E402
from nanobot.session.sqlite import SqliteDatabase  # noqa: E402
from nanobot.session.store import SessionStore  # noqa: E402
from tests.fakes.files import pdf_file  # noqa: E402
from tests.fakes.llm_server import Reply  # noqa: E402
from tests.fakes.website import Answer, Website  # noqa: E402

BAR = 50.0  # ms of CPU
TURNS, DOCUMENTS, PAGES = 500, 2_000, 100
WORDS = "The tide at the harbour is high at twelve, and the ferry waits for it on Mondays and Thursdays. "
#: The gateway with a watch over its loop, which writes how long each look for what is ready was put off, and by what.
WATCHED = """
import asyncio, json, os, selectors, sys, time
from asyncio import events
from nanobot.cli.main import main
select, step, now = selectors.DefaultSelector.select, events.Handle._run, time.thread_time
seen, begun, worst = [], [0.0], [0.0, ""]
def name(handle):
    task = getattr(handle._callback, "__self__", None)
    if not isinstance(task, asyncio.Task):
        return getattr(handle._callback, "__qualname__", repr(handle._callback))
    chain, one = [], task.get_coro()
    while one is not None:
        chain.append(getattr(one, "__qualname__", type(one).__name__))
        one = getattr(one, "cr_await", None)
    return " > ".join(chain[:2] + chain[2:][-4:])
def stepped(handle):
    told, before = name(handle), now()
    step(handle)
    if (took := now() - before) > worst[0]:
        worst[:] = took, told
def selected(self, timeout=None):
    took = now() - begun[0]
    if took > 0.002:
        seen.append((time.monotonic(), took * 1000, worst[0] * 1000, worst[1]))
    worst[:] = 0.0, ""
    found = select(self, timeout)
    begun[0] = now()
    return found
events.Handle._run, selectors.DefaultSelector.select = stepped, selected
try:
    sys.exit(main(["gateway"]))
finally:
    with open(os.environ["LAG_FILE"], "w") as file:
        json.dump(seen, file)
"""


class Stretch(Struct, array_like=True, frozen=True):
    """Until when the loop was held up, for how many ms in all and by one task, and which."""

    at: float
    ms: float
    most: float
    task: str


async def long_chat(path: Path) -> None:
    """A store with one chat of many turns."""
    store = SessionStore(SqliteDatabase(path))
    session = await store.start(f"telegram:{FIRST_USER}")
    for number in range(TURNS):
        said = UserMessage((Text(f"Question {number}. {WORDS * 3}"),))
        await store.append(session.id, (said, AssistantMessage((Text(f"Answer {number}. {WORDS * 12}"),))))
    await store.aclose()


def page() -> str:
    """1 MB of HTML with headings, links, lists and a table."""
    part = "".join(f"<p>{WORDS * 4}<a href='/p{number}'>more of {number}</a></p>" for number in range(20))
    table = "<table>" + "<tr><td>high</td><td>12:04</td></tr>" * 40 + "</table>"
    parts = "".join(f"<h2>Tides of week {number}</h2>{part}<ul><li>{WORDS}</li></ul>{table}" for number in range(100))
    return f"<html><head><title>Tides</title></head><body><main><h1>Tides</h1>{parts}</main></body></html>"


def documents(folder: Path) -> None:
    folder.mkdir()
    for number in range(DOCUMENTS):
        (folder / f"note {number}.md").write_text(f"# Note {number}\n\n{WORDS * 20}\nMark {number * 7919}.\n", "utf-8")


def works(site: str) -> dict[str, tuple[str, tuple[Reply, ...]]]:
    """What is said, and what the model then does; by the kind of work."""
    cited = "The tide is high at twelve [1]. The ferry waits for it on Mondays [1] and Thursdays [1]."
    page, report = f"{site}/page", f"{site}/report.pdf"
    found = Call("web_fetch", {"url": page, "find": "ferry"})
    written: dict[str, object] = {"path": "tides.md", "content": WORDS * 2_000}
    files = (Call("write_file", written), Call("grep", {"pattern": "ferry"}), Call("read_file", {"path": "tides.md"}))
    return {
        "long chat": ("and then?", (Reply("Then it falls."),)),
        "page of 1 MB": (f"when is it high? {page}", (Reply(Call("web_fetch", {"url": page})), Reply(cited))),
        "find in it": ("who waits?", (Reply(found), Reply(cited))),
        "pdf": (f"and {report}?", (Reply(Call("web_fetch", {"url": report})), Reply(cited))),
        "library": ("what do my notes say?", (Reply(Call("library", {"query": "ferry mark"})), Reply(cited))),
        "recall": ("what did we say?", (Reply(Call("recall", {"query": "tide harbour"})), Reply("It was said."))),
        "files": ("keep it in tides.md", (*map(Reply, files), Reply("It is kept."))),
        "long answer": ("all of it", (Reply(*[WORDS] * 420),)),
        "/status": ("/status", ()),
        "/sessions": ("/sessions", ()),
        "/help": ("/help", ()),
    }


async def say(gateway: Gateway, text: str, replies: tuple[Reply, ...]) -> None:
    """Say something in the long chat, and wait until all that it brings is done."""
    person, calls = gateway.telegram.user("Owner", FIRST_USER), gateway.telegram.sent
    sent, asked = len(calls("sendMessage")), len(gateway.model.requests)
    gateway.model.add(*replies)
    person.say(text)
    if replies:
        await gateway.model.asked(asked + len(replies), timeout=120)
    await gateway.telegram.until(lambda: len(calls("sendMessage")) > sent, timeout=120)
    for _ in range(20):
        before = gateway.precise
        await asyncio.sleep(0.5)
        if gateway.precise - before < 0.02:  # what comes after the answer is done
            return


@asynccontextmanager
async def served() -> AsyncIterator[Website]:

    report = pdf_file([WORDS * 30] * PAGES, "Tides")
    pages = {"/page": Answer(page()), "/report.pdf": Answer(report, "application/pdf")}
    async with Website(pages) as site:
        yield site


async def watched(rounds: int, folder: Path) -> dict[str, Stretch]:
    """The longest stretch of each kind of work, and of the time between them."""
    store, lag_file, books = folder / "store.db", folder / "lag", folder / "books"
    await long_chat(store)
    documents(books)
    ends: list[tuple[float, str]] = []
    async with served() as site:
        settings: dict[str, object] = {
            "library": {"folders": [str(books)]},
            "tools": {"ssrfWhitelist": ["127.0.0.1/32"]},
        }
        async with running(1, lag_file, store, settings, WATCHED) as gateway:
            begun = time.monotonic()
            await asyncio.sleep(8)  # the index is being made
            ends.append((time.monotonic(), "index"))
            for _ in range(rounds):
                for kind, (text, replies) in works(site.server.url).items():
                    await say(gateway, text, replies)
                    ends.append((time.monotonic(), kind))
    longest: dict[str, Stretch] = {}
    for row in json.loads(lag_file.read_text(encoding="utf-8")):
        one = Stretch(*row)
        kind = next((kind for end, kind in ends if one.at <= end), "stop")
        if one.at >= begun and (kind not in longest or longest[kind].ms < one.ms):
            longest[kind] = one
    return longest


def main() -> int:
    parser = argparse.ArgumentParser(description="What holds up the event loop of a gateway")
    parser.add_argument("--rounds", type=int, default=3, help="how often each kind of work is done (default: 3)")
    with tempfile.TemporaryDirectory() as folder:
        longest = asyncio.run(watched(max(1, parser.parse_args().rounds), Path(folder)))
    for kind, one in longest.items():
        print(f"{kind}: {one.ms:.1f} ms, {one.most:.1f} ms of them {one.task}")
    kind, worst = max(longest.items(), key=lambda found: found[1].ms)
    good = worst.ms <= BAR
    print(f"loop lag {'ok' if good else 'MISSED'}: at most {worst.ms:.1f} ms at a stretch ({kind}); bar {BAR:g} ms")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
