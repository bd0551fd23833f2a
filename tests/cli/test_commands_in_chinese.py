"""The command line, the set-up, a conversation and the commands of a shell, read by somebody without English."""

import argparse
import re
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from nanobot.cli.options import build_parser
from nanobot.errors import UsageError
from nanobot.providers.scripted import Call
from nanobot.utils.text import columns_of
from nanobot.utils.translation import speaking
from tests.channels.pseudo_terminal import PseudoTerminal
from tests.cli.harness import Program, program
from tests.cli.newcomer import ANSWER, KEY, WRONG_KEY, WRONG_TOKEN, Services, dialogue
from tests.fakes import homes
from tests.fakes.chinese import english_left
from tests.fakes.llm_server import LlmServer, Reply
from tests.fakes.telegram_server import TOKEN
from tests.tables import table


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
        *(
            "backup --list | backup | backup --list | restore nothing | restore last | "
            "restore last --yes | config check | config show agents.default | "
            "config get agents.defaults.timezone | config set agents.defaults.timezone Europe/Berlin | "
            "config set agents.defaults.timezone Europe/Berlin | "
            "config set providers.custom.apiKey abc | config set agents.defaults.timezone | "
            "config unset agents.defaults.timezone | config unset agents.defaults.timezone | "
            "config edit | gateway --uninstall | import | import --only nothings | import nowhere | "
            "soul diff | soul diff a b | soul edit"
        ).split(" | ")
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


NANOBOT = (sys.executable, "-m", "nanobot")
CHINESE = {"LANG": "zh_CN.UTF-8"}


@pytest.fixture
async def services() -> AsyncIterator[Services]:
    async with Services() as running:
        yield running


def parsers() -> Iterator[argparse.ArgumentParser]:
    """The program's, and those of all commands and actions."""
    waiting = [build_parser()]
    while waiting:
        yield (parser := waiting.pop())
        for action in parser._actions:
            if isinstance(action, argparse._SubParsersAction):
                waiting += action.choices.values()


def test_the_help_of_every_command_is_chinese_and_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    with speaking("zh"):
        for parser in parsers():
            shown = parser.format_help()
            about = shown.partition("\n\n")[2]  # above it stands what may be typed
            assert not english_left(about, "nanobot help telegram"), parser.prog
            wide = [line for line in shown.splitlines() if columns_of(line) > 80]
            assert not wide, parser.prog


@table(
    "typed said",
    (["config", "get"], "缺少以下参数：KEY。请看 `nanobot config get --help`。"),
    (["agent", "--timeout", "soon"], "参数 --timeout：'soon' 不是时限；"),
    (["agent", "-m"], "参数 -m/--message：需要一个值。"),
    (["agent", "--json", "--stream-json", "x"], "不能与参数 --json 同时使用。"),
    (["onboard", "--ye", "--nonsense"], "无法识别的参数：--nonsense。"),
    (["onboard", "--telegram", "x"], "选项有歧义：--telegram 可能是 --telegram-"),
    (["config", "shwo"], "不认识 'shwo'。你是指 'show' 吗？"),
)
def test_what_is_wrong_in_the_command_line_is_said_in_chinese(typed: list[str], said: str) -> None:
    with speaking("zh"), pytest.raises(UsageError) as wrong:
        build_parser().parse_args(typed)
    assert said in str(wrong.value)
    assert not english_left(str(wrong.value))


async def test_the_set_up_speaks_chinese(services: Services, tmp_path: Path) -> None:
    env = {**services.env(tmp_path), **CHINESE}
    command = [*NANOBOT, "onboard", *services.options]
    with PseudoTerminal(command, env=env, columns=100, rows=80) as terminal:
        await dialogue(terminal, {"1/3": "?", "服务商：anthropic": WRONG_KEY, "密钥被拒绝": KEY, "2/3": WRONG_TOKEN})
        await dialogue(terminal, {"请再次粘贴令牌": TOKEN, "3/3": "Madird", "你是指 Europe/Madrid 吗": ""})
        await terminal.until("谁先打开，机器人就归谁。")
        terminal.press("\x03")
        await terminal.wait()
        shown = terminal.text()
    assert "✓ 时区：Europe/Madrid 现在是" in shown
    assert not english_left(shown, ANSWER)


async def test_a_conversation_in_the_terminal_speaks_chinese(tmp_path: Path) -> None:
    call = Call("write_file", {"path": "bird.txt", "content": "heron"})
    async with LlmServer(Reply(call), "你好。", after="再见。") as server:
        asking = {"policy": {"rules": [{"tool": "write_file", "decision": "ask"}]}}
        nanobot = program(tmp_path, server, tools=asking)
        env = {**nanobot.env, **CHINESE}
        with PseudoTerminal(nanobot.command("agent"), env=env, cwd=nanobot.home, columns=100) as terminal:
            await terminal.until("❯")
            assert "/help 列出命令，Ctrl-D 离开" in terminal.text()
            await terminal.answers("你好吗\r", "e 修改")
            assert "等待你的回答" in terminal.text()
            await terminal.answers("n", "拒绝。为什么？")
            await terminal.answers("不要\r", "未批准：")
            await terminal.until(re.compile(r"输入 [\d.k]+，输出 \d+"))
            await terminal.answers("\x03", "再按一次 Ctrl-C 退出")
            await terminal.leave()
            shown = terminal.text()
    assert re.search(r"继续会话：nanobot agent -r \w+$", shown)
