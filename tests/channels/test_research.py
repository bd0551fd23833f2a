"""The skill for research, whole, on both surfaces: helpers, a report whose citations are checked, and a kill."""

import asyncio
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from nanobot.providers.scripted import Action, Call, Wait
from tests.channels.telegram.gateway import OWNER, configured, running
from tests.channels.test_real_task import furnished
from tests.channels.test_terminal_pty import terminal_of
from tests.cli.harness import program
from tests.fakes.llm_server import LlmRequest, LlmServer, Reply
from tests.fakes.search_apis import Page, SearchApis
from tests.fakes.telegram_server import TelegramServer
from tests.fakes.website import Answer, Website

HTML = "<html><head><title>{0}</title></head><body><article><h1>{0}</h1><p>{1}</p></article></body></html>"
BERTHS = "Since spring 2026 the harbour of Kiel has 57 berths; two years before there were 41 of them."
LIGHT = "The light of the harbour of Kiel burns from dusk to dawn, and has done so since 1872."
FILE = "reports/kiel.md"
WRONG, RIGHT = "It has burned since 1999 [2].", "It has burned since 1872 [2]."
QUESTION = "research the harbour of Kiel"


class Researcher:
    """Does what the skill says. A step of the script is made where the words before it have come; the helper for the
    light waits for `go`."""

    def __init__(self, site: Website) -> None:
        self.site = site
        self.go = False
        self.waits = asyncio.Event()
        self.asked: list[str] = []
        self.script: list[tuple[str, tuple[Action, ...]]] = []

    def plan(self, *, killed: bool) -> None:
        """The script; where a turn is killed that is not durable, the person says `go on` and it is taken up again."""
        light = Call("spawn", {"task": "Light: how long does it burn?"})
        sources, both = f"## Sources\n\n{self._listed(1)}", f"{self._listed(1)}\n{self._listed(2)}"
        draft = f"# Kiel\n\n## Berths\n\nThe harbour has 57 berths since spring 2026 [1].\n\n{sources}\n"
        more = f"## Light\n\nIt burns from dusk to dawn [2]. {WRONG}\n\n## Sources\n\n{both}"
        choices: dict[str, object] = {
            "question": "Two helpers will search, several pages each. Begin?",
            "choices": ["all parts", "stop"],
        }
        self.script = [
            (QUESTION, (Call("skill", {"name": "research"}),)),
            ("# Research", (Call("todo", {"items": ["[>] berths", "[ ] light"]}), Call("ask", choices))),
            ("all parts", (Call("spawn", {"task": "Berths: how many are there?"}),)),
            ("57 berths", (Call("write_file", {"path": FILE, "content": draft}),)),
            ("which carry them", (light,)),
        ]
        if killed:
            self.script += [
                ("go on", (Call("read_file", {"path": FILE}),)),
                ("## Berths", (light, Call("web_fetch", {"url": f"{self.site.url}/berths"}))),
            ]
        self.script += [
            ("", (Call("edit_file", {"path": FILE, "edits": [{"old": sources, "new": more}]}),)),
            ("Mend these", (Call("edit_file", {"path": FILE, "edits": [{"old": WRONG, "new": RIGHT}]}),)),
            ("which carry them", (Call("message", {"files": [FILE]}),)),
        ]

    def _listed(self, number: int) -> str:
        return f"[{number}] Page, {self.site.url}/{'berths' if number == 1 else 'light'}"

    def __call__(self, request: LlmRequest) -> Reply:
        messages = request.messages
        told = str(messages[-1]["content"])
        if "You are a helper" in str(messages[0]["content"]):
            return self._helper(str(messages[1]["content"]), told, looked=len(messages) - 2)
        if not self.script:
            return Reply("The report is whole: 57 berths [1].")
        needed, actions = self.script.pop(0)
        said = " ".join(str(one["content"]) for one in messages[-3:])
        return Reply(*actions) if needed in said else Reply(f"I miss {needed!r} in {said}")

    def _helper(self, task: str, told: str, looked: int) -> Reply:
        about = "light" if "Light" in task else "berths"
        self.asked.append(f"{about} {looked}")
        if looked == 0:
            return Reply(Call("web_search", {"query": f"Kiel {about}"}))
        if "dusk to dawn" in told and about == "light":
            if not self.go:
                self.waits.set()
                return Reply(Wait(asyncio.Event()))
            return Reply("Its light burns from dusk to dawn [2].")
        if "57 berths" in told and about == "berths":
            return Reply("The harbour has 57 berths since spring 2026 [1].")
        return Reply(Call("web_fetch", {"url": f"{self.site.url}/{about}"}))


@asynccontextmanager
async def at_work(model: LlmServer) -> AsyncIterator[tuple[Researcher, SearchApis]]:
    pages = {f"/{name}": Answer(HTML.format(name, text)) for name, text in (("berths", BERTHS), ("light", LIGHT))}
    async with Website(pages) as site, SearchApis() as apis:
        apis.pages = tuple(Page(name, f"{site.url}/{name}", f"The {name} of Kiel") for name in ("berths", "light"))
        model.after = researcher = Researcher(site)
        yield researcher, apis


def judge(report: Path, researcher: Researcher) -> None:
    text = report.read_text(encoding="utf-8")
    assert RIGHT in text
    assert WRONG not in text
    assert text.count("57 berths") == 1
    assert not researcher.script, researcher.script


async def test_U46_research_on_telegram_asks_first_survives_a_kill_and_sends_a_report_with_checked_citations(
    tmp_path: Path,
) -> None:
    async with TelegramServer() as telegram, LlmServer() as llm, at_work(llm) as (researcher, apis):
        ada, home = telegram.user("Ada", OWNER), configured(tmp_path, telegram, llm)
        workspace = furnished(home, apis)
        researcher.plan(killed=False)
        async with running(home) as gateway:
            await ada.asks(QUESTION, "several pages each")
            ada.say("all parts")
            await asyncio.wait_for(researcher.waits.wait(), 60)
            await gateway.kill()
        researcher.go = True
        async with running(home):
            await telegram.shows(OWNER, "The report is whole")
        seen = telegram.visible(OWNER)
    judge(workspace / FILE, researcher)
    assert researcher.asked.count("light 0") == 1, "what the helper had found is not looked for again"
    assert sum("The report is whole" in line for line in seen) == 1
    assert any("kiel.md" in line for line in seen)


async def test_U46_research_in_the_terminal_is_taken_up_from_its_file_after_a_kill(tmp_path: Path) -> None:
    async with LlmServer() as llm, at_work(llm) as (researcher, apis):
        home = program(tmp_path, llm)
        workspace = furnished(home, apis)
        researcher.plan(killed=True)
        async with terminal_of(home) as terminal:
            await terminal.answers(f"{QUESTION}\r", "several pages each")
            terminal.press("all parts\r")
            await asyncio.wait_for(researcher.waits.wait(), 60)
            await terminal.until('helper 2 "Light: how')
            terminal.child.kill(signal.SIGKILL)
            await terminal.wait()
        researcher.go = True
        async with terminal_of(home, "--continue") as terminal:
            await terminal.answers("go on\r", "The report is whole")
        judge(workspace / FILE, researcher)
