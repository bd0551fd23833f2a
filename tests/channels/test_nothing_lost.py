"""Nothing of an answer is lost on the screen, whatever its width and the encoding of the terminal."""

import re
from collections import Counter
from pathlib import Path

import pytest

from nanobot.channels.terminal.look import TextLook
from nanobot.channels.terminal.render import render_markdown
from nanobot.utils.text import encodable
from tests.channels.pseudo_terminal import PseudoTerminal
from tests.cli.harness import modelled, program

ADDRESS = f"https://example.org/{'long/' * 20}page?q=1"
TABLE = (
    "| 城市 | 说明文字很长的栏目 | Größe |\n|---|---|---|\n"
    "| 北京市朝阳区建国门外大街甲六号 | 这是一个很长的单元格内容没有空格所以必须换行 | Donaudampfschifffahrt |\n"
)
WIDE = "|".join(f"Column{n}" for n in range(14)) + "\n" + "|".join(["---"] * 14) + "\n" + "|".join(["café"] * 14)
LIST = (
    f"- see {ADDRESS} and\n  - 这是一个很长的列表项目没有空格所以必须换行才能完整显示\n\n1. [name]({ADDRESS})\n\n"
    f"   ```python\n   x = '{'y' * 150}'\n   ```\n"
)
CODE = f"```python\nprint('{'größe ' * 40}')\n```\n"
#: What is shown otherwise than it was written, and the signs that only Markdown means.
MARKUP = set(" \n|-`[]*1.python:")


def signs(text: str) -> Counter[str]:
    return Counter(sign for sign in re.sub(r"\x1b\[[0-9;]*m", "", text) if sign not in MARKUP)


@pytest.mark.parametrize("encoding", ["utf-8", "gbk", "latin-1", "ascii", "euc_jp"])
@pytest.mark.parametrize("width", [40, 60, 80, 120])
def test_every_sign_of_a_table_a_list_and_code_is_shown(width: int, encoding: str) -> None:
    for source in (TABLE, WIDE, LIST, CODE):
        painted = render_markdown(source, TextLook(True, True, width))
        assert "…" not in painted
        assert not signs(source) - signs(painted)
        shown = encodable(painted, encoding)
        able = "".join(sign for sign in source if encodable(sign, encoding) == sign)
        assert not signs(able) - signs(shown)
    assert render_markdown(LIST, TextLook(True, True, width)).count(ADDRESS) == 2


@pytest.mark.parametrize("encoding", ["ascii", "gbk", "latin-1"])
async def test_a_locale_without_a_sign_raises_nothing_and_json_loses_nothing(tmp_path: Path, encoding: str) -> None:
    async with modelled(tmp_path, after="✓ 北京 größe 🦢") as (nanobot, _):
        env = {"PYTHONIOENCODING": encoding}
        process = await nanobot.start("-m", "hi", env=env)
        out, err = await process.communicate()
        assert (process.returncode, err) == (0, b"")
        assert out.decode(encoding) == encodable("✓ 北京 größe 🦢", encoding) + "\n"
        ran = await nanobot.run("-m", "hi", "--json", env=env)
        assert ran.lines[0]["text"] == "✓ 北京 größe 🦢"


async def test_a_conversation_in_ascii_begins_and_ends(tmp_path: Path) -> None:
    nanobot = program(tmp_path)
    with PseudoTerminal(
        nanobot.command("demo", "--chat"), env={**nanobot.env, "PYTHONIOENCODING": "ascii"}
    ) as terminal:
        await terminal.until(re.compile(r"^\?", re.MULTILINE))
        await terminal.answers("?\r", "? /quit Leave")
        await terminal.leave()
