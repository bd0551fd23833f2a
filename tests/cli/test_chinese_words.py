"""The command line, the set-up and a conversation as somebody sees them who reads Chinese alone."""

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
from tests.cli.harness import program
from tests.cli.newcomer import ANSWER, KEY, WRONG_KEY, WRONG_TOKEN, Services, dialogue
from tests.fakes.chinese import english_left
from tests.fakes.llm_server import LlmServer, Reply
from tests.fakes.telegram_server import TOKEN
from tests.tables import table

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
