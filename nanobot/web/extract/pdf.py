"""PDF files as text, page by page, with PDFium; rows of tables are kept. Runs in the worker process."""

import ctypes
import re
import time
from collections.abc import Iterator, Sequence
from itertools import pairwise

import pypdfium2
from msgspec import Struct, field
from pypdfium2 import raw

from nanobot.utils.text import counted, markdown_table, squeeze
from nanobot.web.extract.page import Extracted

CPU_SECONDS = 12.0  # several thousand pages; below the worker's own limit, so that what was read is kept
_CATALOGUE = re.compile(rb"(\d{1,9})\s+(\d{1,5})\s+obj\s*<<(?:(?!endobj)[\s\S]){0,2000}?/Type\s*/Catalog\b")
_LINES_BACK = 8  # a cell of a table may be written this many lines after its neighbour
_CELL_SHARE = 0.3  # of the page's width: text that is wider is prose, and never a cell that was written later


class _Run(Struct):
    """Text written in one go, with its box in points; y grows upwards."""

    left: float
    bottom: float
    right: float
    top: float
    text: str

    @property
    def height(self) -> float:
        return max(self.top - self.bottom, 1.0)


class _Line(Struct):
    cells: list[_Run] = field(default_factory=list)

    def level(self, run: _Run) -> bool:
        """Whether `run` stands at the height of this line."""
        last = self.cells[-1]
        overlap = min(last.top, run.top) - max(last.bottom, run.bottom)
        return overlap > 0.5 * min(last.height, run.height)

    def add(self, run: _Run) -> None:
        """Put `run` where it stands: into the cell before it, or as a cell of its own beyond a gap."""
        before = next((cell for cell in reversed(self.cells) if cell.left <= run.left), None)
        if before is None or run.left - before.right > 0.9 * run.height:
            self.cells.append(run)
            self.cells.sort(key=lambda cell: cell.left)
            return
        before.text += run.text if run.left - before.right < 0.1 * run.height else f" {run.text}"
        before.right = max(before.right, run.right)


def extract_pdf(body: bytes) -> Extracted:
    """The text of each page under a heading with its number. An empty text means that no text is in the file."""
    start = time.process_time()
    about: dict[str, str] = {}
    parts: list[str] = []
    notes: list[str] = []
    try:
        with _opened(body[max(body.find(b"%PDF-"), 0) :]) as document:
            about = document.get_metadata_dict()
            document.init_forms()
            for number in range(1, len(document) + 1):
                if time.process_time() - start > CPU_SECONDS:
                    notes.append(f"Only the first {number - 1} of {counted(len(document), 'page')} were read.")
                    break
                if text := _page(document, number - 1):
                    parts.append(f"## Page {number}\n\n{text}")
    except (pypdfium2.PdfiumError, ValueError, OSError) as error:
        notes.append(_problem(error))
    title, author = squeeze(about.get("Title", "")), squeeze(about.get("Author", ""))
    published = _date(about.get("CreationDate", ""))
    return Extracted(
        title[:300], "\n\n".join(parts), "pdf", author=author[:150], published=published, notes=tuple(notes)
    )


def _opened(body: bytes) -> pypdfium2.PdfDocument:
    """The document; one whose end with the table of its objects is missing is opened by its catalogue."""
    try:
        return pypdfium2.PdfDocument(body)
    except pypdfium2.PdfiumError as error:
        catalogues = _CATALOGUE.findall(body)
        if error.err_code != raw.FPDF_ERR_FORMAT or not catalogues:
            raise
        return pypdfium2.PdfDocument(body + b"\ntrailer\n<< /Root %s %s R >>\n%%%%EOF\n" % catalogues[-1])


def _problem(error: Exception) -> str:
    if getattr(error, "err_code", None) == raw.FPDF_ERR_PASSWORD:
        return "The file is locked with a password."
    return f"The file is damaged ({squeeze(str(error))[:100] or type(error).__name__})."


def _page(document: pypdfium2.PdfDocument, index: int) -> str:
    """The text of one page, what is filled into its form included."""
    page = document[index]
    if document.formenv is not None and raw.FPDFPage_Flatten(page, raw.FLAT_NORMALDISPLAY) == raw.FLATTEN_SUCCESS:
        page.close()
        page = document[index]
    width = page.get_width()
    text_page = page.get_textpage()
    text = _tidy("\n".join(_blocks(_lines(_runs(text_page), width))))
    text_page.close()
    page.close()
    return text


def _runs(page: pypdfium2.PdfTextPage) -> Iterator[_Run]:
    left, top, right, bottom = (ctypes.c_double() for _ in range(4))
    for index in range(page.count_rects()):
        raw.FPDFText_GetRect(page, index, left, top, right, bottom)
        box = (left.value, bottom.value, right.value, top.value)
        text = page.get_text_bounded(*box).replace("\r\n", " ")
        if text.strip():
            yield _Run(*box, text)


def _lines(runs: Iterator[_Run], width: float) -> list[_Line]:
    """The runs as lines in the order in which they were written; late cells of a table join their row."""
    lines: list[_Line] = []
    for run in runs:
        if lines and lines[-1].level(run) and run.left >= lines[-1].cells[0].left:
            lines[-1].add(run)
            continue
        row = None
        if run.right - run.left < _CELL_SHARE * width:
            row = next((line for line in lines[-_LINES_BACK:] if line.level(run) and _is_row(line, width)), None)
        if row is None:
            lines.append(_Line([run]))
        else:
            row.add(run)
    return lines


def _is_row(line: _Line, width: float) -> bool:
    return all(cell.right - cell.left < _CELL_SHARE * width for cell in line.cells)


def _blocks(lines: Sequence[_Line]) -> Iterator[str]:
    """Lines as they are; neighbouring lines of several cells as one Markdown table."""
    rows: list[_Line] = []
    for line, following in pairwise([*lines, _Line(), _Line()]):
        if len(line.cells) > 1 or (rows and len(following.cells) > 1 and _within(line, rows)):
            rows.append(line)
            continue
        if len(rows) > 1:
            yield f"\n{_table(rows)}\n"
        else:
            yield from (" ".join(squeeze(cell.text) for cell in row.cells) for row in rows)
        rows = []
        yield from (squeeze(cell.text) for cell in line.cells)


def _within(line: _Line, rows: Sequence[_Line]) -> bool:
    """Whether a line of one cell is the next line of a cell that is wrapped, and no prose between two tables."""
    left, right = rows[-1].cells[0].left, max(cell.right for row in rows for cell in row.cells)
    return all(
        left <= cell.left and cell.right <= right and cell.right - cell.left < 0.5 * (right - left)
        for cell in line.cells
    )


def _table(rows: Sequence[_Line]) -> str:
    columns: list[tuple[float, float]] = []
    for left, right in sorted((cell.left, cell.right) for row in rows for cell in row.cells):
        if columns and left < columns[-1][1]:
            columns[-1] = (columns[-1][0], max(columns[-1][1], right))
        else:
            columns.append((left, right))
    return markdown_table(
        [
            [" ".join(cell.text for cell in row.cells if left <= cell.left < right) for left, right in columns]
            for row in rows
        ]
    )


def _tidy(text: str) -> str:
    """Lines without trailing blanks, words joined that were hyphenated at a line's end (PDFium marks them)."""
    text = re.sub(r"(?<=[a-z])(?:[-\u00ad\ufffe\x02])\n(?=[a-z])", "", text).replace("\ufffe", "-").replace("\x02", "-")
    return re.sub(r"\n{3,}", "\n\n", "\n".join(line.rstrip() for line in text.split("\n"))).strip()


def _date(text: str) -> str:
    """`D:20240506…` as 2024-05-06."""
    match = re.match(r"D:(\d{4})(\d{2})?(\d{2})?", text)
    return "-".join(part for part in match.groups() if part) if match else ""
