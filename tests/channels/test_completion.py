"""What the line being typed completes, and the files that it names with `@`."""

import re
from pathlib import Path

import pytest
from prompt_toolkit.completion import CompleteEvent
from prompt_toolkit.document import Document

from nanobot.channels.terminal.files import FileReader, branch_of, dropped_file, named_paths
from nanobot.channels.terminal.input import PromptCompleter
from tests.cli.harness import modelled
from tests.fakes.files import pdf_file, pdf_text, png


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("notes.md", "my plan.pdf", ".secret", "my docs/report.md", "docs/.hidden", "no\u202exe.md"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("x", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def completed(typed: str) -> list[str]:
    """The lines that Tab offers for what is typed."""
    found = PromptCompleter(()).get_completions(Document(typed), CompleteEvent())
    return [typed[: len(typed) + one.start_position] + one.text for one in found]


@pytest.mark.usefixtures("place")
def test_files_of_the_folder_are_offered_and_hidden_ones_are_not() -> None:
    assert completed("see @") == ["see @docs/", 'see @"my docs/', 'see @"my plan.pdf"', "see @notes.md"]
    assert completed("see @no") == ["see @notes.md"]
    assert completed('see @"my p') == ['see @"my plan.pdf"']
    assert completed('(@"my docs/') == ['(@"my docs/report.md"']
    assert completed("@.s") == completed("@docs/") == []
    assert completed("me@no") == [], "an address of mail names no file"


def test_a_path_that_is_pasted_alone_is_a_file_that_comes_along(place: Path) -> None:
    plan = place / "my plan.pdf"
    named = f'@"{plan}" '
    for pasted in (str(plan), f"'{plan}'", str(plan).replace(" ", "\\ "), plan.as_uri(), f"{plan}\n"):
        assert dropped_file(pasted) == named, pasted
    assert list(named_paths(named)) == [plan]
    for text in (f"see {plan}", "notes.md", "/no/such/file", "", f"{plan}\n{plan}", "/\x00"):
        assert dropped_file(text) == "", text


def test_the_branch_is_read_from_a_repository_and_from_a_worktree_of_it(tmp_path: Path) -> None:
    inner = tmp_path / "repo" / "src"
    inner.mkdir(parents=True)
    assert branch_of(inner) == ""
    git = tmp_path / "repo" / ".git"
    git.mkdir()
    (git / "HEAD").write_text("ref: refs/heads/feature/夜\n", encoding="utf-8")
    assert branch_of(inner) == "feature/夜"
    (git / "HEAD").write_text("0123456789abcdef0123456789abcdef01234567\n", encoding="utf-8")
    assert branch_of(inner) == "01234567"
    (git / "worktrees" / "w").mkdir(parents=True)
    (git / "worktrees" / "w" / "HEAD").write_text("ref: refs/heads/two\n", encoding="utf-8")
    tree = tmp_path / "tree"
    tree.mkdir()
    (tree / ".git").write_text(f"gitdir: {git}/worktrees/w\n", encoding="utf-8")
    assert branch_of(tree) == "two"


async def nowhere(_file: Path) -> str:
    return ""


async def test_texts_are_context_pictures_and_scans_media(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("notes.md").write_text("High water at nine.", encoding="utf-8")
    Path("my plan.pdf").write_bytes(pdf_file(["Cast off at ten"]))
    Path("scan.pdf").write_bytes(pdf_text([]))
    Path("cat.png").write_bytes(png(2, 2))
    Path("fake.png").write_text("I am no picture.", encoding="utf-8")
    Path("tool.bin").write_bytes(bytes(range(256)) * 9)
    reader = FileReader(tmp_path / "media", nowhere)
    text = 'read @notes.md, @"my plan.pdf" (@scan.pdf), @cat.png, @fake.png and @tool.bin; ask me@notes.md or @nobody'
    text += f" @~nobody-here/x @{'n' * 300} @types/node @app.route(/) and @gone.pdf. "
    text += '\u770b\u770b@no/such/\u62a5\u544a.pdf\uff0c\u8c22\u8c22 @./gone @"not there" @.'
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
    gone = ("gone.pdf", "no/such/\u62a5\u544a.pdf", "gone", "not there")
    assert [re.split(":|;", problem)[0] for problem in found.problems] == [
        "scan.pdf",
        "tool.bin",
        *(f"There is no file {name} here" for name in gone),
    ]


async def test_a_picture_tells_the_model_where_it_is_and_leaves_what_was_typed_as_it_was(tmp_path: Path) -> None:
    (tmp_path / "cat.png").write_bytes(png(2, 2))
    async with modelled(tmp_path, "A cat.", "Still.") as (at, server):
        await at.run(f"What is this? @{tmp_path / 'cat.png'}")
        assert "is in your files as inbox/cat.png" in server.requests[0].raw.decode()
        listed = (await at.run("sessions", "list", "--all")).out
        assert "What is this?" in listed
        assert "in your files" not in listed
        assert (await at.run(f"And @{tmp_path}/gone.png")).err.count("There is no file") == 1


async def test_a_question_on_the_command_line_brings_its_files_and_puts_them_where_tools_read(tmp_path: Path) -> None:
    notes, odd = tmp_path / "notes.md", "od\u202ed.md"
    notes.write_text("High water at nine.\n" * 2_000, encoding="utf-8")
    async with modelled(tmp_path, "At nine.", after="Seen.") as (at, server):
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
