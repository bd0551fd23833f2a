"""Makes docs/terminal.svg, the picture in the README, from what the program really prints.

    python -m benchmarks.picture

Starts `nanobot` in a terminal of its own, against a model server and a SearXNG on loopback that play a script, types a
question, waits for the answer, and paints the screen as SVG. Nothing of the picture is drawn by hand.
"""

import asyncio
import json
import os
import re
import sys
import tempfile
import time
from collections.abc import Callable
from itertools import groupby
from pathlib import Path

import pyte
from rich.console import Console
from rich.style import Style
from rich.terminal_theme import MONOKAI
from rich.text import Text

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # tests/fakes, also when this runs as a file

from nanobot.messages import Usage
from nanobot.providers.scripted import Call, Say
from tests.channels.pseudo_terminal import Child
from tests.fakes.http_server import HttpServer, Request, Responder
from tests.fakes.llm_server import LlmRequest, LlmServer, Reply, frames

ROOT = Path(__file__).resolve().parent.parent
PICTURE = ROOT / "docs" / "terminal.svg"
COLUMNS, ROWS = 104, 40
MODEL = "my-model"
QUESTION = "Is Python without the GIL official in 3.14, and what else is new?"
RESULTS = {
    "free-threaded": (
        (
            "PEP 779 – Criteria for supported status for free-threaded Python",
            "https://peps.python.org/pep-0779/",
            "In Python 3.14 the free-threaded build, without the GIL, is officially supported, but not the default.",
        ),
        (
            "Python support for free threading",
            "https://docs.python.org/3/howto/free-threading-python.html",
            "How to get the build without the GIL, and what extensions need.",
        ),
    ),
    "what's new": (
        (
            "What’s new in Python 3.14",
            "https://docs.python.org/3/whatsnew/3.14.html",
            """Template strings: t"Hello {name}" hands the parts to your code.
            Deferred annotations: no more quotes around forward references.
            concurrent.interpreters: several interpreters in one process.""",
        ),
        (
            "Python Release Python 3.14.0",
            "https://www.python.org/downloads/release/python-3140/",
            "The release of Python 3.14.0 with its files.",
        ),
    ),
}
ANSWER = """\
Yes. With **Python 3.14** the free-threaded build, the one without the GIL, is **officially supported**, though it is \
still optional and not the default [1].

| new in 3.14 | what it gives |
|---|---|
| Template strings | `t"Hello {name}"` hands the parts to your code [3] |
| Deferred annotations | no more quotes around forward references [3] |
| `concurrent.interpreters` | several interpreters in one process [3] |
"""
_ELSEWHERE = re.compile(r"@font-face \{.*?\}|<!--.*?-->", re.DOTALL)


async def _search(request: Request, respond: Responder) -> None:
    wanted = request.query.get("q", "")
    found = next((hits for words, hits in RESULTS.items() if words in wanted), ())
    await respond.json({"results": [{"title": title, "url": url, "content": text} for title, url, text in found]})


def _config(model: str, search: str) -> str:
    return json.dumps(
        {
            "agents": {"defaults": {"provider": "custom", "model": MODEL, "timezone": "UTC"}},
            "providers": {"custom": {"apiBase": f"{model}/v1", "apiKey": "none"}},
            "tools": {"web": {"search": {"provider": "searxng", "baseUrl": search, "fallback": []}}},
        }
    )


def _record(home: Path) -> pyte.Screen:
    """The screen after the answer, and after the input line has come back."""
    kept = {name: value for name, value in os.environ.items() if name in {"PATH", "LANG", "LC_ALL"}}
    env = {"LANG": "C.UTF-8", **kept, "HOME": str(home), "NANOBOT_HOME": str(home / "nanobot")}
    env |= {"PYTHONPATH": str(ROOT), "TERM": "xterm-256color", "COLORTERM": "truecolor"}
    screen = pyte.Screen(COLUMNS, ROWS)
    stream = pyte.Stream(screen)
    child = Child([sys.executable, "-m", "nanobot"], env, home, (ROWS, COLUMNS), cold=True)

    def watch(until: str, seconds: float = 20.0) -> None:
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline and (heard := child.read(0.3)) is not None:
            stream.feed(heard)
            if "\x1b[6n" in heard:  # the program asks where the cursor is
                child.send(f"\x1b[{screen.cursor.y + 1};{screen.cursor.x + 1}R")
            elif not heard and any(until in line for line in screen.display):
                return
        shown = "\n".join(line.rstrip() for line in screen.display)
        raise RuntimeError(f"{until!r} did not come up:\n{shown}")

    try:
        watch(MODEL)
        child.send(QUESTION)
        watch(QUESTION)
        child.send("\r")
        watch("whatsnew/3.14.html")
    finally:
        child.close()
    return screen


def _colour(name: str) -> str | None:
    if name == "default":
        return None
    if re.fullmatch(r"[0-9a-f]{6}", name):
        return f"#{name}"
    plain = name.replace("brown", "yellow")
    return f"bright_{plain.removeprefix('bright')}" if plain.startswith("bright") else plain


def _style(cell: pyte.screens.Char) -> Style:
    return Style(
        color=_colour(cell.fg),
        bgcolor=_colour(cell.bg),
        bold=cell.bold,
        italic=cell.italics,
        underline=cell.underscore,
        reverse=cell.reverse,
    )


def _painted(screen: pyte.Screen) -> list[Text]:
    """The rows of the screen without the empty ones at the end."""
    lines = []
    for row in range(ROWS):
        cells = [screen.buffer[row][column] for column in range(COLUMNS)]
        line = Text(no_wrap=True)
        for style, run in groupby(cells, _style):
            line.append("".join(cell.data for cell in run), style)
        line.rstrip()
        lines.append(line)
    while lines and not lines[-1].plain:
        lines.pop()
    return lines


def _answering(*actions: Call | Say) -> Callable[[LlmRequest], Reply]:
    """A reply under the model's name, so that the status line shows it."""

    def reply(seen: LlmRequest) -> Reply:
        played = frames(Reply(*actions, usage=Usage(input=1480, output=96)), seen)
        return Reply(
            raw=[frame.replace(b'"fake"', f'"{MODEL}"'.encode()) for frame in played if isinstance(frame, bytes)]
        )

    return reply


async def main() -> int:
    replies = (
        _answering(
            Call("web_search", {"query": "free-threaded Python 3.14 officially supported", "limit": 2}),
            Call("web_search", {"query": "what's new in Python 3.14", "limit": 2}),
        ),
        _answering(Say(ANSWER, 9)),
    )
    async with LlmServer(*replies) as model, HttpServer(_search) as search:
        with tempfile.TemporaryDirectory(prefix="nanobot-picture-") as folder:
            home = Path(folder)
            (home / "nanobot").mkdir()
            path = home / "nanobot" / "config.json"
            path.write_text(_config(model.url, search.url), encoding="utf-8")
            path.chmod(0o600)
            screen = await asyncio.to_thread(_record, home)
    with Path(os.devnull).open("w", encoding="utf-8") as nowhere:
        console = Console(record=True, width=COLUMNS, file=nowhere, force_terminal=True, color_system="truecolor")
        for line in _painted(screen):
            console.print(line, highlight=False)
    drawn = console.export_svg(title="nanobot", theme=MONOKAI, unique_id="nanobot")
    # The picture asks no other host for a font: the reader's own monospaced one will do.
    PICTURE.write_text(_ELSEWHERE.sub("", drawn).replace("Fira Code, monospace", "monospace"), encoding="utf-8")
    print(f"picture: {PICTURE.relative_to(ROOT)}, {PICTURE.stat().st_size // 1000} kB")
    return 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
