"""Long pastes: a mark in the line being typed, the whole text in the message."""

from nanobot.utils.text import printable

#: A paste above either size is shown as a mark.
LONG_CHARACTERS = 1_000
LONG_LINES = 15


class Pastes:
    """Remembers what each mark stands for until its message is sent."""

    def __init__(self) -> None:
        self._texts: dict[str, str] = {}
        self._count = 0

    def take(self, text: str) -> str:
        """What to insert for a paste: its text, or a mark such as `[paste 1: 40 lines]`."""
        text = printable(text)
        lines = text.count("\n") + 1
        if len(text) <= LONG_CHARACTERS and lines <= LONG_LINES:
            return text
        self._count += 1
        size = f"{lines} lines" if lines > 1 else f"{len(text)} characters"
        mark = f"[paste {self._count}: {size}]"
        self._texts[mark] = text
        return mark

    def expand(self, text: str) -> str:
        """`text` with every mark replaced by what it stands for."""
        for mark, pasted in self._texts.items():
            text = text.replace(mark, pasted)
        return text
