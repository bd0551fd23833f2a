"""How finished pieces look on the terminal, one after the other."""

from rich.cells import cell_len

from nanobot.channels.terminal.look import Look
from nanobot.channels.terminal.paint import paint, paint_line
from nanobot.channels.terminal.transcript import Piece, PieceKind

_MARKS: dict[PieceKind, tuple[str, str]] = {
    "hint": ("  ✓ ", "dim"),
    "failed": ("  ✗ ", "red"),
    "info": ("  ", "dim"),
    "warning": ("  ! ", "yellow"),
    "error": ("  ✗ ", "bold red"),
    "sources": ("", "dim"),
}
_LINES: frozenset[PieceKind] = frozenset({"hint", "failed", "info", "warning", "error"})


class Printer:
    """Turns pieces into text with the right blank lines between them. Remembers only what came last."""

    def __init__(self) -> None:
        self._last: PieceKind | None = None

    def reset(self) -> None:
        """Something else was printed: no blank line is due before the next piece."""
        self._last = None

    def __call__(self, piece: Piece, look: Look) -> str:
        if piece.kind == "said":
            return self._said(piece.text, look)
        body = self._body(piece, look)
        if not body:
            return ""
        together = piece.joined or (piece.kind in _LINES and self._last in _LINES)
        gap = "" if self._last is None or together else "\n"
        self._last = piece.kind
        return gap + body

    def _said(self, text: str, look: Look) -> str:
        self._last = None
        first, *rest = text.split("\n")
        lines = [f"❯ {first}", *(f"  {line}" for line in rest)]
        return "\n" + "".join(paint_line(line, "bold", look) for line in lines) + "\n"

    def _body(self, piece: Piece, look: Look) -> str:
        if piece.block is not None:
            return paint(piece.block, look)
        mark, style = _MARKS.get(piece.kind, ("", "none"))
        lines = piece.text.splitlines()
        if piece.kind in _LINES and look.ansi:
            lines = [part for line in lines for part in wrapped(line, look.width - len(mark))]
        marks = (mark, *[" " * len(mark)] * len(lines))
        return "".join(paint_line(f"{lead}{line}", style, look) for lead, line in zip(marks, lines, strict=False))


def wrapped(line: str, columns: int) -> list[str]:
    """`line` broken between words to a display width; a word that is wider, such as an address, stays whole."""
    lines: list[str] = []
    for word in line.split(" "):
        if lines and cell_len(lines[-1]) + 1 + cell_len(word) <= columns:
            lines[-1] += f" {word}"
        else:
            lines.append(word)
    return lines
