"""How a stream wants its text: colours, live lines, or plain."""

import shutil
from collections.abc import Mapping
from typing import Literal, TextIO

from msgspec import Struct

ColorChoice = Literal["auto", "always", "never"]


class TextLook(Struct, frozen=True):
    """Without `ansi` everything is plain; without `color` bold and underline stay. `width` is in columns."""

    ansi: bool = True
    color: bool = True
    width: int = 80


def look_of(stream: TextIO, env: Mapping[str, str], *, color: ColorChoice = "auto", plain: bool = False) -> TextLook:
    """How to write on `stream`.

    A pipe and `TERM=dumb` get plain text. `NO_COLOR` and `--color never` take the colours and leave bold and underline;
    `--color always` colours a pipe, too.
    """
    width = shutil.get_terminal_size((80, 24)).columns
    wanted = color == "always"
    able = stream.isatty() and env.get("TERM", "") != "dumb"
    ansi = not plain and (able or wanted)
    coloured = ansi and (wanted or (color == "auto" and not env.get("NO_COLOR")))
    return TextLook(ansi, coloured, width)
