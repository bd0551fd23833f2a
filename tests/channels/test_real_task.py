"""One real task, whole, on both surfaces: a report is read, summed up, corrected from the web and sent back."""

import hashlib
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from nanobot.providers.scripted import Call
from tests.channels.telegram.gateway import OWNER, configured, running
from tests.channels.telegram.gateway import furnished as equipped
from tests.channels.test_terminal_pty import terminal_of
from tests.cli.harness import Program, program
from tests.fakes.files import pdf_file
from tests.fakes.llm_server import LlmRequest, LlmServer, Reply
from tests.fakes.search_apis import KEY, Page, SearchApis
from tests.fakes.telegram_server import TelegramServer
from tests.fakes.website import Answer, Website

TASK = "read report.pdf, make a summary as notes.md, find the newest figures on the web, correct them, send me the file"
REPORT = pdf_file(["Harbour report 2024. The harbour of Kiel has 41 berths.", "Its light burns from dusk to dawn."])
FIRST = "# Harbour of Kiel\n\n- 41 berths (2024)\n- The light burns from dusk to dawn.\n"
CORRECTED = FIRST.replace("41 berths (2024)", "57 berths (2026)")
FIGURES = (
    "<html><head><title>Berths</title></head><body><article><h1>Berths</h1><p>Since spring 2026 the harbour of Kiel "
    "has 57 berths; two years before there were 41 of them.</p></article></body></html>"
)
ANSWER = "The summary is in notes.md; the harbour has 57 berths now, not 41 [1]."
RECEIPTS = ["created notes.md (+4 −0)", "wrote notes.md (+1 −1)", "sent notes.md"]


class Worker:
    """A model that writes only what it has read: without the report, or without the page, it says so and ends.

    `report` is where the person has put it."""

    def __init__(self, site: Website, report: str) -> None:
        edit = {"old": "41 berths (2024)", "new": "57 berths (2026)"}
        self.steps = [
            (report, Call("read_file", {"path": report})),
            ("has 41 berths", Call("write_file", {"path": "notes.md", "content": FIRST})),
            ("Created notes.md", Call("web_search", {"query": "harbour Kiel berths 2026"})),
            (site.url, Call("web_fetch", {"url": f"{site.url}/berths"})),
            ("57 berths", Call("edit_file", {"path": "notes.md", "edits": [edit]})),
            ("Wrote notes.md", Call("message", {"files": ["notes.md"]})),
        ]

    def __call__(self, request: LlmRequest) -> Reply:
        messages = request.messages
        told = str(messages[-1]["content"])
        if not self.steps:
            return Reply(ANSWER if "Sent notes.md" in told else f"It was not sent: {told}")
        needed, call = self.steps.pop(0)
        return Reply(call) if needed in told else Reply(f"I miss {needed!r} in {told}")


@asynccontextmanager
async def at_work(model: LlmServer, report: str) -> AsyncIterator[tuple[Website, SearchApis]]:
    """A page with the newest figures, a search engine that knows it, and a model that does the task."""
    async with Website({"/berths": Answer(FIGURES)}) as site, SearchApis() as apis:
        apis.pages = (Page("Berths", f"{site.url}/berths", "The berths of Kiel"),)
        model.after = Worker(site, report)
        yield site, apis


def furnished(home: Program, apis: SearchApis) -> Path:
    """Give the program this search engine and the pages of this machine; its workspace."""
    search = {"provider": "tavily", "apiKey": KEY, "baseUrl": apis.base("tavily"), "fallback": []}
    tools = {"ssrfWhitelist": ["127.0.0.1/32"], "web": {"search": search, "fetch": {"reader": "none"}}}
    workspace = home.change(tools=tools).home / "workspace"
    workspace.mkdir()
    return workspace


def receipts(shown: str) -> list[str]:
    return [line.split("☑ ")[1].rstrip() for line in shown.splitlines() if "☑ " in line]


async def test_U5_a_report_is_summed_up_corrected_from_the_web_and_sent_back_on_telegram(tmp_path: Path) -> None:
    async with LlmServer() as model, at_work(model, "inbox/report.pdf") as (site, apis), TelegramServer() as telegram:
        home = configured(tmp_path, telegram, model)
        notes = furnished(home, apis) / "notes.md"
        ada = telegram.user("Ada", OWNER)
        async with running(home):

            async def say(words: str, answer: str) -> str:
                if words == TASK:
                    ada.send("document", REPORT, TASK, file_name="report.pdf", mime_type="application/pdf")
                else:
                    ada.say(words)
                await ada.sees(answer)
                return ada.seen[-1]

            shown = await say(TASK, "bot: The summary")
            assert notes.read_text(encoding="utf-8") == CORRECTED
            assert f"bot: {ANSWER}" in shown
            assert receipts(shown) == RECEIPTS
            (sent,) = telegram.sent("sendDocument")
            assert (sent.params["chat_id"], sent.params["document_name"]) == (str(OWNER), "notes.md")
            assert sent.params["document_sha256"] == hashlib.sha256(CORRECTED.encode()).hexdigest()
            asked = [one.buttons for one in telegram.chats[OWNER] if {"Once", "No"} & set(one.buttons)]
            assert asked == [], "what is read, and ordinary files, need no question"
            assert site.paths == ["/berths"]
            await say("/undo", "notes.md is again as it was before.")
            assert notes.read_text(encoding="utf-8") == FIRST
            await say("/undo", "notes.md is gone again")
        assert not notes.exists()


async def test_U52_a_long_document_that_came_over_telegram_is_read_on_searched_and_sent_back(tmp_path: Path) -> None:
    lines = [f"Line {number} of the log of the harbour" for number in range(1, 701)]
    log = "\n".join([*lines, "The last boat is called Petrel."]).encode()

    def works(request: LlmRequest) -> Reply:
        messages = request.messages
        rest = re.search(r"read_file reads on: (inbox/log\.txt), offset (\d+)\.", str(messages))
        assert rest is not None, messages
        steps = (
            Call("read_file", {"path": rest[1], "offset": int(rest[2])}),
            Call("grep", {"pattern": "Petrel"}),
            Call("message", {"files": [rest[1]]}),
        )
        done = [one for one in messages if one["role"] == "tool"]
        return Reply(steps[len(done)] if len(done) < len(steps) else "All of it is read.")

    async with equipped(tmp_path, after=works) as (telegram, model, ada, home):
        async with running(home):
            ada.send("document", log, "who comes last?", file_name="../log.txt", mime_type="text/plain")
            await ada.sees("All of it is read.")
        (sent,) = telegram.sent("sendDocument")
        assert sent.params["document_sha256"] == hashlib.sha256(log).hexdigest()
    last = model.requests[-1].messages
    read, found = (str(one["content"]) for one in last if one["role"] == "tool" and "Petrel" in str(one["content"]))
    shown = str(next(one["content"] for one in last if one["role"] == "user"))
    assert all(line in shown or line in read for line in lines), "nothing is left out between the two"
    assert "701: The last boat" in found
    assert read.startswith("<outside"), "it stays what somebody sent"
    assert (home.home / "workspace" / "inbox" / "log.txt").read_bytes() == log


async def test_U5_a_report_is_summed_up_corrected_from_the_web_and_sent_back_in_the_terminal(tmp_path: Path) -> None:
    async with LlmServer() as model, at_work(model, "report.pdf") as (site, apis):
        home = program(tmp_path, model)
        notes = furnished(home, apis) / "notes.md"
        notes.with_name("report.pdf").write_bytes(REPORT)
        async with terminal_of(home, columns=240) as terminal:
            await terminal.answers(f"{TASK}\r", "[1] Berths (")
            shown = terminal.text()
            assert notes.read_text(encoding="utf-8") == CORRECTED
            assert ANSWER in shown
            assert receipts(shown) == RECEIPTS
            assert f"file: {notes}" in shown
            assert all(line in shown for line in ("+- 41 berths (2024)", "-- 41 berths (2024)", "+- 57 berths (2026)"))
            assert "once · " not in terminal.raw, "what is read, and ordinary files, need no question"
            assert site.paths == ["/berths"]
            await terminal.answers("/undo\r", "notes.md is again as it was before.")
            assert notes.read_text(encoding="utf-8") == FIRST
            await terminal.answers("/undo\r", "notes.md is gone again")
        assert not notes.exists()
