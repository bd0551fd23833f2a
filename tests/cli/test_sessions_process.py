"""`nanobot sessions` in the shipped program: which there are, what they become as files, and how one is deleted."""

import json
from pathlib import Path

from nanobot.messages import Usage
from nanobot.providers.scripted import Call
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
