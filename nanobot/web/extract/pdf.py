"""PDF files as text, page by page, with pypdf (the extra `pdf`). Runs in the worker process."""

import importlib.util
import io
import re
import time
import zlib

from nanobot.utils.text import squeeze
from nanobot.web.extract.page import Extracted

CPU_SECONDS = 4.5  # below the worker's own limit, so that what was read is kept
MAX_PAGES = 500
EXTRA = "nanobot[pdf]"


def readable() -> bool:
    """Whether the extra is installed."""
    return importlib.util.find_spec("pypdf") is not None


def extract_pdf(body: bytes) -> Extracted:
    """The text of each page under a heading with its number. An empty text means that no text is in the file."""
    from pypdf import PdfReader
    from pypdf.errors import PyPdfError

    start = time.process_time()
    title = author = published = ""
    parts: list[str] = []
    notes: list[str] = []
    try:
        reader = PdfReader(io.BytesIO(body))
        about = reader.metadata
        if about is not None:
            title, author = squeeze(about.title or ""), squeeze(about.author or "")
            published = _date(str(about.get("/CreationDate", "")))
        total = len(reader.pages)
        for number, page in enumerate(reader.pages, 1):
            if number > MAX_PAGES or time.process_time() - start > CPU_SECONDS:
                notes.append(f"Only the first {number - 1} of {total} pages were read.")
                break
            text = _tidy(page.extract_text())
            if text:
                parts.append(f"## Page {number}\n\n{text}")
    except (PyPdfError, ValueError, KeyError, TypeError, AttributeError, IndexError, OSError, zlib.error) as error:
        notes.append(f"The file is damaged or locked ({squeeze(str(error))[:100] or type(error).__name__}).")
    return Extracted(
        title[:300], "\n\n".join(parts), "pdf", author=author[:150], published=published, notes=tuple(notes)
    )


def _tidy(text: str) -> str:
    """Lines without trailing blanks, words joined that were hyphenated at a line's end."""
    text = re.sub(r"(?<=[a-z])-\n(?=[a-z])", "", text.replace("\r", "\n"))
    return re.sub(r"\n{3,}", "\n\n", "\n".join(line.rstrip() for line in text.split("\n"))).strip()


def _date(text: str) -> str:
    """`D:20240506…` as 2024-05-06."""
    match = re.match(r"D:(\d{4})(\d{2})?(\d{2})?", text)
    return "-".join(part for part in match.groups() if part) if match else ""
