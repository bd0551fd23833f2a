"""Files that a typed message names with `@`."""

from pathlib import Path

import pytest

from nanobot.channels.terminal.files import FileReader
from tests.cli.harness import program
from tests.fakes.files import pdf_file, pdf_text, png
from tests.fakes.llm_server import LlmServer


async def test_texts_come_as_context_pictures_and_scans_as_media(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("notes.md").write_text("High water at nine.", encoding="utf-8")
    Path("my plan.pdf").write_bytes(pdf_file(["Cast off at ten"]))
    Path("scan.pdf").write_bytes(pdf_text([]))
    Path("cat.png").write_bytes(png(2, 2))
    Path("fake.png").write_text("I am no picture.", encoding="utf-8")
    Path("tool.bin").write_bytes(bytes(range(256)) * 9)
    reader = FileReader(tmp_path / "media")
    text = 'read @notes.md, @"my plan.pdf" (@scan.pdf), @cat.png, @fake.png and @tool.bin; ask me@notes.md or @nobody'
    try:
        found = await reader.read(text)
    finally:
        await reader.aclose()
    assert found.context.split("\n\n") == [
        "Text of the file notes.md:\nHigh water at nine.",
        "Text of the file my plan.pdf:\n## Page 1",
        "Cast off at ten",
        "The file scan.pdf: its text cannot be read: it is a scan, which only models that read PDF can see.",
        "Text of the file fake.png:\nI am no picture.",
        "The file tool.bin: it is no text.",
    ]
    assert [(media.name, media.mime, media.inline) for media in found.media] == [
        ("scan.pdf", "application/pdf", True),
        ("cat.png", "image/png", False),
    ]
    assert all(Path(media.path).parent == tmp_path / "media" / "typed" for media in found.media)
    assert [problem.partition(":")[0] for problem in found.problems] == ["scan.pdf", "tool.bin"]


async def test_a_question_on_the_command_line_brings_the_files_that_it_names_and_puts_them_where_tools_reach_them(
    tmp_path: Path,
) -> None:
    notes, odd = tmp_path / "notes.md", "od\u202ed.md"
    notes.write_text("High water at nine.\n" * 2_000, encoding="utf-8")
    async with LlmServer("At nine.", after="Seen.") as server:
        at = program(tmp_path, server)
        ran = await at.run(f"When is high water? @{notes}")
        assert ran.code == 0, ran.err
        sent = server.requests[0].raw.decode()
        assert "High water at nine." in sent
        assert "read_file reads on: inbox/notes.md, offset 1001." in sent
        workspace = at.home / "workspace"
        assert (workspace / "inbox" / "notes.md").read_bytes() == notes.read_bytes()
        (workspace / odd).write_text("Hidden signs.", encoding="utf-8")
        await at.run(f"What is this? @{at.home}/config.json @{workspace / odd}")
        (tmp_path / "fresh.md").write_text("Fresh.", encoding="utf-8")
        await at.run("--ephemeral", f"And this? @{tmp_path / 'fresh.md'}")
        kept = sorted(one.name for one in (workspace / "inbox").iterdir())
        assert kept == ["notes.md", "od_d.md"], "no keys, and nothing of a question that leaves no trace"
