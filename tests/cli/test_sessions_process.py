"""`nanobot sessions`, `people` and `soul` in the shipped program, and what it asks a gateway that runs."""

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from nanobot.channels.telegram.access.rights import qr_text
from nanobot.config.changes.seeds import follow_templates, seed_named
from nanobot.config.paths import SEEDS, Paths, prepare_home, template_news
from nanobot.errors import UsageError
from nanobot.messages import Usage
from nanobot.providers.scripted import Call
from nanobot.utils.host import shipped
from tests.cli.harness import Program, modelled, program
from tests.fakes.llm_server import LlmServer, Reply

CANARY = "Zirkonquastenflosser"
DEAR = Usage(input=1_200_000, output=20_000)
PRICES = {"custom/*": {"input": 1, "output": 0}}
HOSTILE = "<script>alert(1)</script> [x](javascript:alert(2)) ![p](https://evil.example/p.png) **bold** & done"


async def ids(at: Program, *more: str) -> list[str]:
    listed = await at.run("sessions", "list", *more)
    return [line.split("`")[1] for line in listed.out.splitlines() if line.startswith("- `")]


def holding(folder: Path, word: str) -> list[str]:
    """The files below a folder in which a word stands, in any case."""
    files = (one for one in folder.rglob("*") if one.is_file())
    return sorted(one.name for one in files if word.casefold().encode() in one.read_bytes().lower())


async def test_U67_real_conversations_are_listed_and_single_questions_only_where_they_are_asked_for(
    tmp_path: Path,
) -> None:
    async with modelled(tmp_path, after=Reply("fine", usage=DEAR), prices=PRICES) as (at, _):
        none = await at.run("sessions")
        await at.run("only once")
        hidden = await ids(at)
        await at.run("when is the tide high in Brest?")
        await at.run("--continue", "-m", "and tomorrow?")
        listed, every = await at.run("sessions"), await ids(at, "--all")
    assert none.out.startswith("There are no sessions yet.")
    assert hidden == []
    (line,) = [line for line in listed.out.splitlines() if line.startswith("- `")]
    assert "` when is the tide high in Brest? · today " in line
    assert " · “and tomorrow?” · terminal · 4 messages · 2.40 USD" in line
    assert len(every) == 2


async def test_U67_a_session_is_found_by_its_words_named_and_gone_on_with_by_its_name(tmp_path: Path) -> None:
    async with modelled(tmp_path, after="at six") as (at, _):
        await at.run("when is the tide high in Brest?")
        await at.run("what do hedgehogs eat?")
        found = await at.run("sessions", "search", "hedgehogs")
        (which,) = [line.split("`")[1] for line in found.out.splitlines() if line.startswith("- `")]
        named = await at.run("sessions", "name", which, "animals", "of", "the", "garden")
        shown = await at.run("sessions", "show", "Animals of the garden")
        missing, double = await at.run("sessions", "show", "nothing"), await at.run("sessions", "show", "")
    assert "“what do hedgehogs eat?”" in found.out
    assert "is called “animals of the garden” now" in named.out
    assert "# animals of the garden" in shown.out
    assert "> what do hedgehogs eat?" in shown.out
    absent = "There is no session 'nothing' here. `nanobot sessions` lists those that there are."
    assert (missing.code, absent in missing.err) == (2, True), missing.err
    assert double.code == 2


async def test_U67_an_export_holds_everything_and_its_page_runs_and_loads_nothing(tmp_path: Path) -> None:
    call = Reply(Call("write_file", {"path": "notes.md", "content": "tides"}))
    async with LlmServer(call, HOSTILE) as server:
        at = program(tmp_path, server, tools={"policy": {"rules": [{"tool": "write_file", "decision": "allow"}]}})
        await at.run("write <b>notes</b>")
        (which,) = await ids(at, "--all")
        text = await at.run("sessions", "export", which)
        page = tmp_path / "talk.html"
        written = await at.run("sessions", "export", which, "-o", str(page))
        again = await at.run("sessions", "export", which, "-o", str(page))
        lines = (await at.run("sessions", "export", which, "--format", "jsonl")).lines
    assert "> write <b>notes</b>" in text.out
    assert HOSTILE in text.out
    assert "Done:\n\n- created notes.md" in text.out
    html = page.read_text(encoding="utf-8")
    assert (written.code, page.stat().st_mode & 0o777) == (0, 0o600)
    assert "write &lt;b&gt;notes&lt;/b&gt;" in html
    assert "<li>created notes.md" in html
    assert "<strong>bold</strong>" in html
    assert "default-src 'none'" in html
    assert not any(sign in html for sign in ("<script", "<img", 'href="javascript', "<b>"))
    assert (again.code, "is there already" in again.err) == (2, True)
    assert lines[0]["id"] == which
    assert [one["message"]["role"] for one in lines[1:]][:2] == ["user", "assistant"]  # type: ignore[index]
    assert json.dumps(lines).count("write_file") >= 1


async def test_U67_a_deleted_session_is_nowhere_in_the_home_and_its_cost_is_still_counted(tmp_path: Path) -> None:
    note = tmp_path / "fish.txt"
    note.write_text(f"a {CANARY} lives in the sea\n" * 3, encoding="utf-8")
    helper = Reply(Call("spawn", {"task": f"look after the {CANARY}"}))
    answers = (helper, f"the {CANARY} is well", Reply(f"I saw the {CANARY}", usage=DEAR))
    async with modelled(tmp_path, *answers, after="fine", prices=PRICES) as (at, _):
        await at.run("agent", "-m", f"what does the {CANARY} in @{note} eat?", "--session", "x")
        await at.run(f"what does the {CANARY} in @{note} eat?")
        (which, *_) = await ids(at, "--all")
        await at.run("--continue", "-m", f"and the {CANARY} at night?")
        await at.run("sessions", "search", CANARY)
        before = holding(at.home, CANARY)
        asked = await at.run("sessions", "delete", which)
        kept = holding(at.home, CANARY)
        gone = await at.run("sessions", "delete", which, "--yes")
        usage = await at.run("usage")
        again = await at.run("sessions", "delete", which, "--yes")
    databases = {"nanobot.db", "index.db"}  # or their logs, where no process has folded these in yet
    assert databases <= {name.removesuffix("-wal") for name in before}
    assert (asked.code, "--yes" in asked.err) == (2, True)
    assert databases <= {name.removesuffix("-wal") for name in kept}
    assert gone.code == 0, gone.err
    assert "with 1 of its helpers" in gone.out
    assert holding(at.home, CANARY) == []
    assert "1.20 USD" in usage.out, "what was spent stays spent"
    assert (again.code, "There is no session" in again.err) == (2, True)
    assert await ids(at, "--all") == []


TOKEN = "123456:" + "a" * 35


async def test_people_are_shown_and_invited_from_the_command_line(tmp_path: Path) -> None:
    telegram = {"enabled": True, "token": TOKEN, "allowFrom": ["4242"]}
    nanobot = program(tmp_path, channels={"telegram": telegram})
    shown = await nanobot.run("people")
    assert (shown.code, "4242, owner" in shown.out.replace("`", "")) == (0, True), (shown.out, shown.err)
    longest = max(shown.out.splitlines(), key=len)
    assert len(longest) < 80, longest
    assert "- files: files in a folder of their own" in shown.out.replace("`", "")
    invited = await nanobot.run("people", "invite", "guest")
    assert re.search(r"/start [\w-]{22}", invited.out), invited.out
    refused = await nanobot.run("people", "grant", "Zoe", "files")
    assert (refused.code, "nobody called" in refused.err) == (2, True)


async def test_without_a_bot_there_is_nobody_else_and_the_way_to_one_is_told(tmp_path: Path) -> None:
    without = await program(tmp_path).run("people")
    assert (without.code, "No channel is switched on" in without.err) == (2, True)


EXAMPLES = re.findall(r"```markdown\n(.*?)```", (shipped("docs") / "soul.md").read_text(encoding="utf-8"), re.DOTALL)


async def test_each_example_of_the_page_reaches_the_model_line_by_line(tmp_path: Path) -> None:
    assert len(EXAMPLES) == 5
    async with modelled(tmp_path, after="Hello.") as (home, llm):
        for number, text in enumerate(EXAMPLES, 1):
            (home.home / "workspace").mkdir(exist_ok=True)
            (home.home / "workspace" / "SOUL.md").write_text(text, encoding="utf-8")
            ran = await home.run("--ephemeral", "-m", "hello")
            assert ran.out == "Hello.\n"
            messages = (await llm.asked(number)).messages
            system = str(messages[0]["content"])
            assert [line for line in text.strip().splitlines() if line not in system] == []


async def test_soul_opens_the_file_and_refuses_what_would_be_cut(tmp_path: Path) -> None:
    home = Program(tmp_path / "home")
    file = home.home / "workspace" / "SOUL.md"
    ran = await home.run("soul", env={"EDITOR": "sed -i s/nanobot/Nano/"})
    assert (ran.code, "You are Nano" in file.read_text("utf-8")) == (0, True)
    assert "is changed, and the next message knows it." in ran.out
    shown = await home.run("soul", "diff")
    assert ("-- You are Nano, a" in shown.out, "+- You are nanobot, a" in shown.out) == (True, True)
    assert "@@" not in (await home.run("soul", "diff", "user")).out
    assert "# How to work" in (await home.run("soul", "show", "AGENTS.md")).out
    before = file.read_text("utf-8")
    long = await home.run("soul", env={"EDITOR": "sed -i '1s/.*/" + "long " * 5000 + "/'"})
    assert "the prompt takes 20,000" in long.err
    assert file.read_text("utf-8") == before
    nobody = await home.run("soul")
    assert (nobody.code, "There is no terminal to edit in." in nobody.err) == (2, True), "no editor waits for keys"
    wrong = await home.run("soul", "SOLE.md")
    assert (wrong.code, "There are SOUL.md, AGENTS.md" in wrong.err) == (2, True)


def newer(tmp_path: Path) -> Path:
    """Templates of a later version: AGENTS.md and SOUL.md say something else."""
    source = tmp_path / "templates"
    (source / "memory").mkdir(parents=True)
    for seed in SEEDS:
        text = (shipped("templates") / seed).read_text(encoding="utf-8")
        (source / seed).write_text(text + "- New.\n" * (seed in ("SOUL.md", "AGENTS.md")), encoding="utf-8")
    return source


def test_a_new_version_updates_what_nobody_edited_and_tells_once_of_what_somebody_did(tmp_path: Path) -> None:
    paths = Paths.resolve({"NANOBOT_HOME": str(tmp_path / "home")})
    prepare_home(paths)
    assert (template_news(paths), template_news(paths)) == ((), ())
    mine = paths.workspace / "SOUL.md"
    mine.write_text("I am a pirate.", encoding="utf-8")
    news = follow_templates(paths.home, paths.workspace, newer(tmp_path))
    assert (news.updated, news.newer) == (("AGENTS.md",), ("SOUL.md",))
    assert "nanobot soul diff" in news.lines[1]
    assert mine.read_text(encoding="utf-8") == "I am a pirate."
    assert (paths.workspace / "AGENTS.md").read_text(encoding="utf-8").endswith("- New.\n")
    assert follow_templates(paths.home, paths.workspace, tmp_path / "templates").lines == ()


def test_an_emptied_and_a_deleted_file_stay_so(tmp_path: Path) -> None:
    paths = Paths.resolve({"NANOBOT_HOME": str(tmp_path / "home")})
    prepare_home(paths)
    (paths.workspace / "AGENTS.md").write_text("", encoding="utf-8")
    (paths.workspace / "SOUL.md").unlink()
    assert follow_templates(paths.home, paths.workspace, newer(tmp_path)) == ((), ())  # it has no notes of this one
    assert (paths.workspace / "AGENTS.md").read_text(encoding="utf-8") == ""
    assert not (paths.workspace / "SOUL.md").exists()


def test_a_file_of_a_version_that_kept_no_notes_is_brought_up_to_date_where_nobody_edited_it(tmp_path: Path) -> None:
    paths = Paths.resolve({"NANOBOT_HOME": str(tmp_path / "home")})
    prepare_home(paths)
    (paths.home / "templates.json").unlink(missing_ok=True)
    memory = paths.workspace / "memory" / "MEMORY.md"
    now = memory.read_text(encoding="utf-8")
    before = (
        "Facts and decisions that should outlast a conversation. One line each, newest last, with a date (2026-01-31)."
    )
    memory.write_text(f"# Memory\n\n{before}\n", encoding="utf-8")
    assert follow_templates(paths.home, paths.workspace, shipped("templates")).updated == ("memory/MEMORY.md",)
    assert memory.read_text(encoding="utf-8") == now


def test_a_file_may_be_named_in_short() -> None:
    assert [seed_named(one) for one in ("soul", "AGENTS.md", "memory", "memory/MEMORY.md")] == [
        "SOUL.md",
        "AGENTS.md",
        "memory/MEMORY.md",
        "memory/MEMORY.md",
    ]
    with pytest.raises(UsageError, match="There is no file 'HEARTBEAT'"):
        seed_named("HEARTBEAT")


GOLDEN = Path(__file__).parent.parent / "golden" / "qr" / "link.txt"
LINK = "https://t.me/nano_test_bot?start=abcdefghijklmnopqrstuv"


def test_a_link_is_drawn_with_a_quiet_zone_in_half_blocks() -> None:
    assert qr_text(LINK) + "\n" == GOLDEN.read_text(encoding="utf-8")


def test_what_a_scanner_reads_from_the_drawing_is_the_link() -> None:
    halves = {"█": (False, False), "▀": (False, True), "▄": (True, False), " ": (True, True)}
    lines = [list(zip(*(halves[sign] for sign in line), strict=True)) for line in qr_text(LINK).splitlines()]
    rows = [list(row)[4:-4] for upper_lower in lines for row in upper_lower][4:]
    assert _read(rows[: len(rows[0])]) == LINK


def _read(matrix: list[list[bool]]) -> str:
    """A scanner of its own for clean codes: level and mask from the format, then mode, length and bytes."""
    size = len(matrix)
    places = [(8, 0), (8, 1), (8, 2), (8, 3), (8, 4)]
    word = int("".join("01"[matrix[row][column]] for row, column in places), 2) ^ 0b10101
    assert word >> 3 == 0b01, "level L"
    mask = word & 7
    rules: dict[int, Callable[[int, int], int]] = {
        0: lambda r, c: (r + c) % 2,
        1: lambda r, _c: r % 2,
        2: lambda _r, c: c % 3,
        3: lambda r, c: (r + c) % 3,
        4: lambda r, c: (r // 2 + c // 3) % 2,
        5: lambda r, c: (r * c) % 2 + (r * c) % 3,
        6: lambda r, c: ((r * c) % 2 + (r * c) % 3) % 2,
        7: lambda r, c: ((r + c) % 2 + (r * c) % 3) % 2,
    }
    bits: list[bool] = []
    column, up = size - 1, True
    while column > 0:
        column -= column == 6
        for row in reversed(range(size)) if up else range(size):
            free = [place for place in (column, column - 1) if not _is_function(row, place, size)]
            bits += [matrix[row][place] ^ (rules[mask](row, place) == 0) for place in free]
        column, up = column - 2, not up
    stream = "".join("01"[bit] for bit in bits)
    assert stream[:4] == "0100", "bytes"
    length = int(stream[4:12], 2)
    return bytes(int(stream[12 + 8 * n : 20 + 8 * n], 2) for n in range(length)).decode()


def _is_function(row: int, column: int, size: int) -> bool:
    corner = (row < 9 and (column < 9 or column >= size - 8)) or (row >= size - 8 and column < 9)
    aligned = size > 21 and abs(row - (size - 7)) <= 2 and abs(column - (size - 7)) <= 2
    return corner or aligned or row == 6 or column == 6
