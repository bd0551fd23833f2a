"""Makes docs/telegram.svg, a turn as its person sees it, from what the fake Bot API server has in the chat.

    python -m benchmarks.telegram_picture

Progress renderer and outbox of the program show a scripted turn: the chat while it works, and at its end.
"""

import asyncio
import sys
import textwrap
from html import escape
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # tests/fakes, also when this runs as a file

from nanobot.bus.events import StepStarted, ToolFinished, ToolStarted, TurnFinished
from nanobot.messages import TextDelta, ToolCall
from nanobot.results import Source, ToolResult
from tests.channels.telegram.scenarios import Stage, stage

ROOT = Path(__file__).resolve().parent.parent
PICTURE = ROOT / "docs" / "telegram.svg"
QUESTION = "Is Python without the GIL official in 3.14?"
ANSWER = "Yes. With **Python 3.14** the free-threaded build is *officially supported*, though it is still optional [1]."
PAGES = (
    Source(1, "https://peps.python.org/pep-0779/", "PEP 779: supported status for free-threaded Python", read=True),
)
WIDTH, LINE, CHARS = 380, 19, 44


async def _play(at: Stage) -> tuple[list[str], list[str]]:
    at.person.say(QUESTION)
    turn = await at.begin()
    search = ToolCall("c1", "web_search")
    fetch = ToolCall("c2", "web_fetch")
    await turn.play(StepStarted(1), ToolStarted(search, 'search "free-threaded Python 3.14"'))
    await turn.play(ToolFinished(search, ToolResult("ok"), 1.2), ToolStarted(fetch, "fetch peps.python.org/pep-0779"))
    await at.until("▸ fetch")
    working = at.seen
    await turn.play(ToolFinished(fetch, ToolResult("ok"), 0.8), StepStarted(2), TextDelta(ANSWER))
    await turn.finish(TurnFinished("completed", ANSWER, sources=PAGES, seconds=6.4))
    await at.until("2 steps")
    await at.settled()
    return working, at.seen


def _bubble(line: str, left: int, top: int) -> tuple[str, int]:
    """One message as SVG, and the place below it."""
    sender, _, text = line.partition(": ")
    text, stop, _ = text.partition(" [Stop]")
    rows = [piece for row in text.split("\n") for piece in textwrap.wrap(row, CHARS) or [""]]
    high = LINE * len(rows) + 16
    mine = sender != "bot"
    x, wide = (left + 70, WIDTH - 90) if mine else (left + 20, WIDTH - 60)
    parts = [f'<rect x="{x}" y="{top}" width="{wide}" height="{high}" rx="10" fill="{"#dcf8c6" if mine else "#fff"}"/>']
    parts += [
        f'<text x="{x + 12}" y="{top + 21 + LINE * place}" xml:space="preserve">{escape(row)}</text>'
        for place, row in enumerate(rows)
    ]
    top += high + 6
    if stop:
        parts.append(f'<rect x="{x}" y="{top}" width="{wide}" height="30" rx="8" fill="#d9534f"/>')
        parts.append(f'<text x="{x + wide / 2}" y="{top + 20}" text-anchor="middle" fill="#fff">Stop</text>')
        top += 36
    return "".join(parts), top + 6


def _svg(*chats: list[str]) -> str:
    drawn, bottom = [], 0
    for number, chat in enumerate(chats):
        top = 16
        for line in chat:
            bubble, top = _bubble(line, number * WIDTH, top)
            drawn.append(bubble)
        bottom = max(bottom, top)
    size = f'width="{WIDTH * len(chats)}" height="{bottom + 10}"'
    style = "text{font:13px system-ui,sans-serif;fill:#222}text[fill]{fill:#fff}"
    body = f'<rect {size} fill="#c8d8e4"/>' + "".join(drawn)
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size}><style>{style}</style>{body}</svg>\n'


async def main() -> int:
    async with stage() as at:
        PICTURE.write_text(_svg(*await _play(at)), encoding="utf-8")
    print(f"picture: {PICTURE.relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
