"""Makes the transcripts of docs/recipes.md from what the program really says.

    python -m benchmarks.recipes [HEADING ...]

Runs the shipped program as a person does, in a terminal or as a gateway with its bot, between a model server, a web
site, a search engine and Telegram on loopback. What the model says is a script; all else is what the program prints.
The text block below the heading of each recipe is written anew; without an argument all are. `--check` writes nothing:
exit code 1 where the page no longer shows what the program says. Dates, times and seconds count for nothing in that.
"""

import argparse
import asyncio
import json
import re
import shlex
import sys
import tempfile
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import format_datetime
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # tests/fakes, also when this runs as a file

from nanobot.messages import Usage
from nanobot.providers.scripted import Call, Say
from tests.channels.pseudo_terminal import PseudoTerminal
from tests.channels.telegram.gateway import OWNER, configured, running
from tests.cli.harness import Program
from tests.fakes.files import pdf_file
from tests.fakes.http_server import HttpServer, Request, Responder
from tests.fakes.llm_server import LlmServer, Reply
from tests.fakes.telegram_server import TelegramServer
from tests.fakes.website import Answer, Website

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "recipes.md"
SITE = "harbour.example"
CAPTION = "Add these up and send me a table"
SENT = f"<costs.csv> {CAPTION}"
_STEADY = (
    (r" \(\d+(\.\d)? s\)|, \d+(\.\d)? s(?=\))", ""),  # how long a tool took is shown only where it took long
    (r"\n\n+", "\n"),
    (r"\b\d+(\.\d)? s\b", "0.1 s"),
    (r"\b\d+(\.\d)? ?ms\b", "1 ms"),
    (r"\b(Mon|Tue|Wed|Thu|Fri|Sat|Sun)[a-z]* \d+ [A-Z][a-z]{2}", "DAY"),
    (r"\b\d{1,2} [A-Z][a-z]{2}( \d{4})?\b", "DAY"),
    (r"\b\d{1,2}:\d\d\b", "TIME"),
    (r'"seconds": [\d.]+', '"seconds": 1'),
    (r'"session": "\w+"', '"session": "s"'),
    (r"\b\d{4}-\d\d-\d\d\b", "DAY"),
)
USAGE = Usage(input=1480, output=96)


@dataclass(frozen=True, slots=True)
class Around:
    """The services of one recipe, and a home that knows them."""

    llm: LlmServer
    site: Website
    pages: dict[str, Answer]
    telegram: TelegramServer
    home: Program

    @property
    def workspace(self) -> Path:
        return self.home.home / "workspace"

    def configure(self, **more: dict[str, object]) -> None:
        """Add to the sections of the configuration."""
        path = self.home.home / "config.json"
        config = json.loads(path.read_text(encoding="utf-8"))
        for name, section in more.items():
            config[name] = {**config.get(name, {}), **section}
        path.write_text(json.dumps(config), encoding="utf-8")

    def plays(self, *steps: tuple[Call | Say, ...] | Call | str) -> None:
        """What the model says, a step for each request."""
        for step in steps:
            actions = step if isinstance(step, tuple) else (step,)
            self.llm.add(Reply(*actions, usage=USAGE))

    async def chat(self, *turns: tuple[str | Callable[[], object], str]) -> str:
        """What stands in the owner's chat: each turn is what is sent, or what is done, and what is waited for."""
        ada = self.telegram.user("You", OWNER)

        def seen() -> list[str]:
            return self.telegram.visible(ada.chat)

        async with running(self.home):
            for said, wanted in turns:
                before = len(seen())
                if isinstance(said, str):
                    ada.say(said)
                else:
                    said()
                await self.telegram.until(lambda: any(wanted in line for line in seen()[before:]), 60)  # noqa: B023
                await self._calm(seen)
        return "\n\n".join(_labelled(line) for line in seen())

    async def _calm(self, seen: Callable[[], list[str]]) -> None:
        """Wait until nothing has changed in the chat for a second."""
        last, still = seen(), 0
        while still < 10:
            await asyncio.sleep(0.1)
            still, last = (still + 1, last) if seen() == last else (0, seen())

    async def talk(self, *turns: tuple[str, str]) -> str:
        """A conversation in plain lines: each turn is what is typed, and what is waited for.

        Prompts at which nothing was typed are left out.
        """
        command = self.home.command("agent", "--plain")
        with PseudoTerminal(
            command, env=self.home.env, cwd=self.workspace.parent, columns=100, rows=90, timeout=60
        ) as terminal:
            await terminal.until(re.compile(r"(?m)^> *\Z"))
            for said, wanted in turns:
                place = len(terminal.text())
                terminal.press(f"{said}\r")
                await terminal.until(lambda: wanted in terminal.text()[place + len(said) :])  # noqa: B023
                await terminal.until(re.compile(r"(?m)^> *\Z"))
            shown = terminal.text()
        typed = shown[shown.index("\n> ") + 1 :]
        return re.sub(r"(?m)^>\n+", "", typed).rstrip("> \n")

    async def shell(self, *lines: str) -> str:
        """What a shell shows: `nanobot` is the program, also behind a pipe."""
        shown = []
        for line in lines:
            words = line.replace("nanobot", f"{shlex.quote(sys.executable)} -m nanobot")
            process = await asyncio.create_subprocess_shell(
                words,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.STDOUT,
                env={**self.home.env, "PYTHONPATH": str(ROOT)},
                cwd=self.workspace.parent.parent,
            )
            out, _ = await asyncio.wait_for(process.communicate(), 120)
            shown.append(f"$ {line}\n{out.decode().rstrip()}")
        return "\n\n".join(shown)


def _labelled(line: str) -> str:
    """A message of the chat; the file that a person sends has its caption."""
    who, _, text = line.partition(": ")
    return f"{'nanobot' if who == 'bot' else who}: {text or SENT}"


Recipe = Callable[[Around], Awaitable[str]]
FEED = "<rss version='2.0'><channel><title>Harbour news</title>{}</channel></rss>"


def _feed(*titles: str) -> Answer:
    date = format_datetime(datetime.now(UTC))
    items = [
        f"<item><title>{title}</title><link>https://{SITE}/news/{place}</link><pubDate>{date}</pubDate></item>"
        for place, title in enumerate(titles, 1)
    ]
    return Answer(FEED.format("".join(items)), type="application/rss+xml")


async def briefing(at: Around) -> str:
    at.pages["/feed.xml"] = _feed("The new ferry sails from Monday", "Museum closed for a week")
    feed = f"{at.site.url}/feed.xml"
    at.plays(
        Call("watch", {"do": "news", "what": feed}),
        "Good morning. Two things are new:\n\n- **The new ferry sails from Monday** [1]\n"
        "- The museum is closed for a week [2]",
    )
    return await at.chat(
        (f"/schedule briefing every weekday at 8: {feed}", "Scheduled 1"),
        ("/schedule run 1", "Good morning."),
    )


async def price(at: Around) -> str:
    shop = "<title>Storm lamp</title><h1>Storm lamp</h1><p>Price: <b>€ {}</b></p><p>Delivered in three days.</p>"
    at.pages["/lamp"] = Answer(shop.format("49.00"))

    def cheaper() -> None:
        at.pages["/lamp"] = Answer(shop.format("39.00"))
        at.telegram.user("You", OWNER).say("/watch run 1")

    return await at.chat((f"/watch {at.site.url}/lamp § price every day", "Watching 1"), (cheaper, "39"))


async def reminder(at: Around) -> str:
    at.plays(
        Call("schedule", {"when": "tomorrow at 18:00", "text": "call the dentist"}),
        "I will remind you tomorrow at six in the evening.",
    )
    return await at.chat(
        ("remind me tomorrow at 6 pm to call the dentist", "I will remind you"),
        ("/schedule in 1 second take the pizza out", "⏰ take the pizza out"),
    )


async def documents(at: Around) -> str:
    folder = at.home.home.parent / "Documents"
    folder.mkdir()
    text = "Lease of the flat. The deposit is 1,800 euros. It is paid back within six weeks after the end of the lease."
    (folder / "lease.pdf").write_bytes(pdf_file([text], "Lease"))
    (folder / "heating.md").write_text("# Heating\n\nThe boiler was last serviced in March 2026.\n", encoding="utf-8")
    at.plays(
        Call("library", {"query": "lease deposit paid back"}),
        "The deposit is 1,800 euros, and it comes back within six weeks after the lease ends [1].",
    )
    return await at.shell("nanobot library add Documents", 'nanobot "What does my lease say about the deposit?"')


async def research(at: Around) -> str:
    at.pages["/tides"] = Answer("<title>Tide power in 2026</title><p>The plant at Ellery gave 14 GWh in 2025.</p>")
    at.pages["/cost"] = Answer("<title>What tide power costs</title><p>A megawatt hour costs 110 euros.</p>")
    report = "# Tide power\n\nThe plant at Ellery gave 14 GWh in 2025 [1]. A megawatt hour costs 110 euros [2].\n"
    at.plays(
        (
            Call("web_search", {"query": "tide power plant 2025 output"}),
            Call("web_search", {"query": "tide power cost"}),
        ),
        Call("web_fetch", {"urls": [f"{at.site.url}/tides", f"{at.site.url}/cost"]}),
        Call("write_file", {"path": "tide-power.md", "content": report}),
        "The report is in `tide-power.md`. In short: the plant gave 14 GWh in 2025 [1], and a megawatt hour costs "
        "110 euros [2].",
    )
    return await at.shell('nanobot "Research tide power, and write a short report into tide-power.md"')


async def pdf(at: Around) -> str:
    rows = [
        "Timetable of the ferry. Monday to Thursday the last ferry leaves at 19:10.",
        "On Fridays it leaves at 21:40.",
    ]
    at.pages["/timetable.pdf"] = Answer(pdf_file(rows, "Timetable"), type="application/pdf")
    at.plays(
        Call("web_fetch", {"url": f"{at.site.url}/timetable.pdf"}),
        "On Fridays the last ferry leaves at 21:40 [1].",
    )
    return await at.shell(f'nanobot "When does the last ferry leave on Fridays? {at.site.url}/timetable.pdf"')


async def telegram_file(at: Around) -> str:
    at.plays(
        Call("read_file", {"path": "inbox/costs.csv"}),
        (
            Call(
                "write_file",
                {
                    "path": "costs-summary.md",
                    "content": "# Costs\n\n| what | euros |\n|---|---|\n"
                    "| rent | 900 |\n| power | 62 |\n| **sum** | **962** |\n",
                },
            ),
        ),
        Call("message", {"files": ["costs-summary.md"]}),
        "The sum is 962 euros; the table is in the file.",
    )

    def send() -> None:
        at.telegram.user("You", OWNER).send(
            "document",
            b"what,euros\nrent,900\npower,62\n",
            CAPTION,
            file_name="costs.csv",
            mime_type="text/csv",
        )

    return await at.chat((send, "962"))


async def files(at: Around) -> str:
    at.workspace.mkdir(exist_ok=True)
    (at.workspace / "shopping.md").write_text("- bread\n- milk\n", encoding="utf-8")
    at.plays(
        Call("read_file", {"path": "shopping.md"}),
        Call("edit_file", {"path": "shopping.md", "edits": [{"old": "- milk", "new": "- oat milk\n- apples"}]}),
        "I put oat milk and apples on the list.",
    )
    return await at.talk(
        ("put apples on shopping.md, and make the milk oat milk", "I put oat milk"), ("/undo", "shopping.md")
    )


async def command(at: Around) -> str:
    at.configure(tools={"profile": "full"})
    at.workspace.mkdir(exist_ok=True)
    for name, size in (("a.jpg", 3_000_000), ("b.jpg", 1_000_000), ("c.txt", 2_000)):
        (at.workspace / name).write_bytes(b"x" * size)
    at.plays(Call("exec", {"command": "du -b *.jpg | sort -rn"}), "The largest picture is `a.jpg`, with 3 MB.")
    return await at.talk(("which picture here is the largest?", "The largest picture"))


async def model(at: Around) -> str:
    at.llm.models = [{"id": "fake"}, {"id": "qwen3-coder"}, {"id": "qwen3-small"}]
    at.plays("Here the larger model answers.")
    return await at.chat(
        ("/model qwen3-coder", "qwen3-coder"), ("hello, who answers?", "larger model"), ("/model default", "fake")
    )


async def pipe(at: Around) -> str:
    lines = "09:12 pump 1 started\n09:40 pump 1: pressure 0.4 bar, wanted 1.2\n09:41 pump 1 stopped\n"
    (at.home.home.parent / "pump.log").write_text(lines, encoding="utf-8")
    at.plays(
        "The pump stopped at 09:41 because its pressure was 0.4 bar in place of 1.2.",
        "stopped",
    )
    return await at.shell(
        'cat pump.log | nanobot -m "Why did the pump stop?"',
        'nanobot -m "One word: does the pump run?" --json < pump.log',
    )


#: Heading of the page → what makes its transcript.
RECIPES: dict[str, Recipe] = {
    "A morning briefing": briefing,
    "Watch a price": price,
    "Remind me": reminder,
    "Ask my documents": documents,
    "Research with a report": research,
    "Read a PDF": pdf,
    "Send a file over Telegram": telegram_file,
    "Work on files, and take it back": files,
    "Run a command in a sandbox": command,
    "Another model for this chat": model,
    "In a pipe": pipe,
}


async def transcript(recipe: Recipe) -> str:
    """What one recipe shows, with the loopback services under the name of an example."""
    pages: dict[str, Answer] = {}
    with tempfile.TemporaryDirectory(prefix="nanobot-recipe-") as folder:
        async with TelegramServer() as telegram, LlmServer() as llm, Website(pages) as site:
            hits = [
                {"title": "Tide power in 2026", "url": f"{site.url}/tides", "content": "The plant at Ellery"},
                {"title": "What tide power costs", "url": f"{site.url}/cost", "content": "A megawatt hour"},
            ]

            async def searched(_: Request, respond: Responder) -> None:
                await respond.json({"results": hits})

            async with HttpServer(searched) as search:
                home = configured(Path(folder), telegram, llm)
                around = Around(llm, site, pages, telegram, home)
                found = {"provider": "searxng", "baseUrl": search.url, "fallback": []}
                around.configure(tools={"ssrfWhitelist": ["127.0.0.1/32"], "web": {"search": found}})
                around.configure(
                    agents={"defaults": {"model": "fake", "provider": "custom", "timezone": "Europe/Berlin"}}
                )
                shown = await recipe(around)
        for real, example in (
            (site.url, f"https://{SITE}"),
            (site.url.removeprefix("http://"), SITE),
            (f"{folder}/home", "/home/ada/.nanobot"),
            (folder, "/home/ada"),
        ):
            shown = shown.replace(real, example)
        return "\n".join(line.rstrip() for line in shown.splitlines())


def steady(text: str) -> str:
    """The text without what differs from one run to the next."""
    for pattern, word in _STEADY:
        text = re.sub(pattern, word, text)
    return text


def shown_on_the_page(page: str, heading: str) -> re.Match[str]:
    """The first text block below a heading."""
    found = re.search(rf"(?ms)^## {re.escape(heading)}$.*?^```text\n(.*?)^```$", page)
    if found is None:
        raise SystemExit(f"docs/recipes.md has no text block below “{heading}”")
    return found


async def main() -> int:
    parser = argparse.ArgumentParser(description="The transcripts of docs/recipes.md.")
    parser.add_argument("headings", nargs="*", choices=[*RECIPES, []], metavar="NAME")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--print", action="store_true")
    asked = parser.parse_args()
    differs = 0
    for heading in asked.headings or RECIPES:
        made = await transcript(RECIPES[heading])
        if asked.print:
            print(f"=== {heading}\n{made}\n")
            continue
        page = PAGE.read_text(encoding="utf-8")
        block = shown_on_the_page(page, heading)
        if steady(block[1].rstrip()) != steady(made.rstrip()):
            differs += 1
            print(f"{heading}: differs")
            if not asked.check:
                PAGE.write_text(page[: block.start(1)] + made + "\n" + page[block.end(1) :], encoding="utf-8")
    print(json.dumps({"recipes": len(asked.headings or RECIPES), "different": differs}))
    return 1 if asked.check and differs else 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
