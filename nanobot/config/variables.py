"""`${VAR}`, `${env:VAR}`, `${VAR:-default}` and `$$` in configuration values."""

import re
from collections.abc import Mapping

from msgspec import Struct

_MARK = re.compile(r"\$(?:\$|\{([^}]*)(\}?))")
_INSIDE = re.compile(r"(?:env:)?([A-Za-z_][A-Za-z0-9_]*)(?::-(.*))?", re.DOTALL)


class Expanded(Struct, frozen=True):
    """A text with its variables filled in. `missing` names those that are unset or empty and have no default."""

    text: str
    used: bool
    missing: tuple[str, ...]


def expand(text: str, env: Mapping[str, str]) -> Expanded:
    """`text` with every variable of `env` in its place. Raises `ValueError` where `${` opens something else."""
    missing: list[str] = []
    used = False

    def fill(match: re.Match[str]) -> str:
        nonlocal used
        if match[0] == "$$":
            return "$"
        inside = _INSIDE.fullmatch(match[1])
        if not match[2] or inside is None:
            raise ValueError("a variable is written ${NAME} or ${NAME:-default}; a $ before { that is meant so is $$")
        used = True
        value = env.get(inside[1], "")
        if value or inside[2] is not None:
            return value or inside[2]
        missing.append(inside[1])
        return ""

    filled = _MARK.sub(fill, text)
    return Expanded(filled, used, tuple(missing))
