"""The commands of a shell in a Chinese terminal: what they show, ask and refuse, read by somebody without English."""

from pathlib import Path

from nanobot.providers.scripted import Call
from tests.channels.pseudo_terminal import PseudoTerminal
from tests.cli.harness import Program, program
from tests.fakes import homes
from tests.fakes.chinese import english_left
from tests.fakes.llm_server import LlmServer, Reply


class Chinese(Program):
    """The program in a Chinese terminal."""

    @property
    def env(self) -> dict[str, str]:
        return {**super().env, "LANG": "zh_CN.UTF-8", "NO_COLOR": "1"}

    async def told(self, *commands: str) -> dict[str, str]:
        """What each of the commands prints, by the command."""
        ran = {command: await self.run(*command.split()) for command in commands}
        return {command: one.out + one.err for command, one in ran.items()}


def chinese(tmp_path: Path, server: LlmServer | None = None, **more: object) -> Chinese:
    return Chinese(program(tmp_path, server, **more).home)


def english(told: dict[str, str], *given: str) -> dict[str, list[str]]:
    """The English lines of what commands print, by the command."""
    found = {command: english_left(text, *given) for command, text in told.items()}
    return {command: lines for command, lines in found.items() if lines}


async def test_the_care_of_an_installation_is_told_in_chinese(tmp_path: Path) -> None:
    at = chinese(tmp_path)
    told = await at.told(
        "backup --list",
        "backup",
        "backup --list",
        "restore nothing",
        "restore last",
        "restore last --yes",
        "config check",
        "config show agents.default",
        "config get agents.defaults.timezone",
        "config set agents.defaults.timezone Europe/Berlin",
        "config set agents.defaults.timezone Europe/Berlin",
        "config set providers.custom.apiKey abc",
        "config set agents.defaults.timezone",
        "config unset agents.defaults.timezone",
        "config unset agents.defaults.timezone",
        "config edit",
        "gateway --uninstall",
        "import",
        "import --only nothings",
        "import nowhere",
        "soul diff",
        "soul diff a b",
        "soul edit",
    )
    assert english(told, "config, secrets, files, sessions, schedules, skills") == {}
    assert "没有 'nothings' 这一类" in told["import --only nothings"]
    assert "已恢复到" in told["restore last --yes"]
    assert "键" in told["config show agents.default"]


async def test_conversations_and_their_exports_are_told_in_chinese(tmp_path: Path) -> None:
    async with LlmServer(Reply(Call("web_search", {"query": "6"})), "四十二。", after="好的。") as server:
        at = chinese(tmp_path, server)
        first = await at.told("sessions", "sessions search 潮汐")
        await at.run("六乘七是多少？")
        await at.run("--continue", "-m", "谢谢")
        listed = await at.run("sessions")
        (which,) = [line.split("`")[1] for line in listed.out.splitlines() if line.startswith("- `")]
        page = str(tmp_path / "page.html")
        told = await at.told(
            f"sessions show {which}",
            "sessions search 谢谢",
            f"sessions export {which} -o {page}",
            f"sessions export {which} -o {page}",
            f"sessions name {which} 算术",
            f"sessions delete {which}",
            f"sessions delete {which} --yes",
        )
    exported = Path(page).read_text(encoding="utf-8")
    body = exported[exported.index("<body>") :]
    assert english({**first, "list": listed.out, **told, "page": body}) == {}
    assert "，owner：“谢谢”" in told["sessions search 谢谢"]
    assert "已删除：6 条消息。" in told[f"sessions delete {which} --yes"]


async def test_libraries_servers_skills_and_people_are_told_in_chinese(tmp_path: Path) -> None:
    at = chinese(tmp_path)
    folder = tmp_path / "Downloads"
    folder.mkdir()
    (folder / "a.md").write_text("潮汐表\n", encoding="utf-8")
    (folder / "b.pdf").write_bytes(b"%PDF-1.7 nothing")
    told = await at.told(
        "library list",
        "library add /nowhere",
        f"library add {folder}",
        f"library add {folder}",
        "library status",
        f"library remove {folder}",
        f"library remove {folder}",
        "mcp list",
        "mcp test",
        "mcp add files -- /nowhere/program",
        "mcp add files -- /nowhere/program",
        "mcp add web ftp://example.org",
        "mcp list",
        "mcp test flies",
        "mcp remove files",
        "mcp remove files",
        "skill new weekly 每周报告",
        "skill new weekly 每周报告",
        "skill check",
        "skill check weekly",
        "skill show weekly",
        "permissions",
        "permissions remove",
        "schedule",
        "watch",
        "usage",
    )
    damaged = "Failed to load document (PDFium: Data format error)"  # a library's words
    assert english(told, damaged, f"The file is damaged ({damaged}", "nanobot permissions remove ID") == {}
    assert "其中 1 个有问题" in told["library status"]


async def test_a_home_of_another_program_is_shown_and_taken_in_chinese(tmp_path: Path) -> None:
    homes.hermes(tmp_path / ".hermes")
    homes.openclaw(tmp_path / ".openclaw")
    at = chinese(tmp_path)
    told = await at.told("import", "import hermes --dry-run", "import openclaw --dry-run", "import hermes --yes")
    given = ("tides in Brest", "Look up the tides", "Where is the net", "Oil the winch", "nanobot import hermes")
    assert english(told, *given) == {}
    assert "已导入：" in told["import hermes --yes"]


async def test_a_question_that_is_asked_in_chinese_is_answered_in_chinese(tmp_path: Path) -> None:
    at = chinese(tmp_path)
    await at.told("backup")
    for answer, after in (("否", "没有做任何改动。"), ("好的", "已恢复到")):
        with PseudoTerminal(at.command("restore", "last"), env=at.env, cwd=at.home, columns=200) as terminal:
            await terminal.until("y/N")
            await terminal.answers(f"{answer}\r", after)
            assert await terminal.wait() == 0
