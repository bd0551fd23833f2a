"""Office files (docx, xlsx, pptx) as Markdown. They are ZIP archives of XML, read with the standard library and lxml.

Runs in the worker process. Every member is read to a limit, whatever the archive claims; XML is parsed without
entities and network. Source of the names: ECMA-376, Office Open XML.
"""

import io
import posixpath
import re
import zipfile
from collections.abc import Iterator
from datetime import datetime, timedelta

from lxml import etree

from nanobot.utils.text import squeeze
from nanobot.web.extract.page import Extracted

MAX_MEMBER = 24_000_000
MAX_ROWS = 2_000
MAX_COLUMNS = 60
MAX_SLIDES = 500
_DATE_FORMATS = frozenset({"14", "15", "16", "17", "22"})
_EPOCH = datetime(1899, 12, 30)  # noqa: DTZ001 - cells know no time zone
_HEADING = re.compile(r"(?:heading|berschrift|titre|titolo|kop)\s*(\d)", re.IGNORECASE)


def extract_office(body: bytes) -> Extracted:
    """The text of a document, the tables of a workbook, the slides of a presentation; empty for a damaged file."""
    try:
        with zipfile.ZipFile(io.BytesIO(body)) as archive:
            return _read(archive)
    except (zipfile.BadZipFile, etree.LxmlError, KeyError, ValueError, OSError, EOFError, NotImplementedError) as error:
        note = f"The file is damaged or locked ({squeeze(str(error))[:100] or type(error).__name__})."
        return Extracted("", "", "office", notes=(note,))


def _read(archive: zipfile.ZipFile) -> Extracted:
    names = set(archive.namelist())
    notes: list[str] = []
    if "word/document.xml" in names:
        text = _document(archive)
    elif "xl/workbook.xml" in names:
        text = _workbook(archive, notes)
    elif "ppt/presentation.xml" in names:
        text = _slides(archive, notes)
    else:
        return Extracted("", "", "office", notes=("The archive is no document, workbook or presentation.",))
    about = _xml(archive, "docProps/core.xml") if "docProps/core.xml" in names else etree.Element("none")
    said = {_name(node): squeeze(node.text or "") for node in about}
    return Extracted(
        said.get("title", "")[:300],
        text,
        "office",
        author=said.get("creator", "")[:150],
        published=said.get("created", "")[:40],
        notes=tuple(notes),
    )


def _xml(archive: zipfile.ZipFile, name: str) -> etree._Element:
    """A member of the archive, parsed. Raises ValueError for one that is too large, KeyError where there is none."""
    with archive.open(name) as member:
        data = member.read(MAX_MEMBER + 1)
    if len(data) > MAX_MEMBER:
        raise ValueError(f"{name} is larger than {MAX_MEMBER // 1_000_000} MB")
    parser = etree.XMLParser(resolve_entities=False, no_network=True, load_dtd=False, huge_tree=False)
    return etree.fromstring(data, parser)


def _targets(archive: zipfile.ZipFile, part: str) -> dict[str, str]:
    """Relation id → target of a part: links as they are, other parts by their name in the archive."""
    folder, name = posixpath.split(part)
    path = f"{folder}/_rels/{name}.rels"
    if path not in archive.namelist():
        return {}
    found = {}
    for node in _xml(archive, path):
        target = node.get("Target", "")
        if node.get("TargetMode") != "External":
            target = target.lstrip("/") if target.startswith("/") else posixpath.normpath(f"{folder}/{target}")
        found[node.get("Id", "")] = target
    return found


def _document(archive: zipfile.ZipFile) -> str:
    links = _targets(archive, "word/document.xml")
    body = next((node for node in _xml(archive, "word/document.xml") if _name(node) == "body"), None)
    blocks: list[str] = []
    for node in _flat(body):
        if _name(node) == "tbl":
            rows = [[_cell(cell, links) for cell in _children(row, "tc")] for row in _children(node, "tr")]
            blocks.append(_table(rows))
        elif line := _paragraph(node, links):
            joined = blocks and line.lstrip().startswith("- ") and blocks[-1].rpartition("\n")[2].lstrip()[:2] == "- "
            blocks[-1:] = [f"{blocks[-1]}\n{line}"] if joined else [*blocks[-1:], line]
    return "\n\n".join(block for block in blocks if block)


def _flat(body: etree._Element | None) -> Iterator[etree._Element]:
    """Paragraphs and tables in order, also those in content controls."""
    pending = list(reversed(body)) if body is not None else []
    while pending:
        node = pending.pop()
        if _name(node) in ("p", "tbl"):
            yield node
        elif _name(node) in ("sdt", "sdtContent", "customXml", "ins"):
            pending.extend(reversed(node))


def _paragraph(node: etree._Element, links: dict[str, str]) -> str:
    text = squeeze(_runs(node, links))
    if not text:
        return ""
    for style in node.iter("{*}pStyle"):
        name = _value(style)
        match = _HEADING.search(name)
        if match or name.lower() == "title":
            return f"{'#' * min(6, int(match[1]) if match else 1)} {text}"
    if next(node.iter("{*}numPr"), None) is not None:
        level = next((_value(one) for one in node.iter("{*}ilvl")), "0")
        return f"{'  ' * min(8, int(level) if level.isdigit() else 0)}- {text}"
    return text


def _runs(node: etree._Element, links: dict[str, str]) -> str:
    parts: list[str] = []
    for child in node:
        name = _name(child)
        if name == "hyperlink":
            inner = _runs(child, links)
            target = next(
                (links.get(str(value), "") for key, value in child.attrib.items() if str(key).endswith("}id")), ""
            )
            parts.append(f"[{inner}]({target})" if target.startswith(("http://", "https://")) and inner else inner)
        elif name == "t":
            parts.append(child.text or "")
        elif name in ("tab", "br", "cr"):
            parts.append(" ")
        elif name not in ("del", "pPr", "rPr", "instrText"):
            parts.append(_runs(child, links))
    return "".join(parts)


def _cell(cell: etree._Element, links: dict[str, str]) -> str:
    return " ".join(filter(None, (squeeze(_runs(part, links)) for part in cell.iter("{*}p"))))


def _workbook(archive: zipfile.ZipFile, notes: list[str]) -> str:
    shared, dates = _shared(archive), _date_styles(archive)
    targets = _targets(archive, "xl/workbook.xml")
    parts: list[str] = []
    for sheet in _xml(archive, "xl/workbook.xml").iter("{*}sheet"):
        part = targets.get(_relation(sheet), "")
        if part not in archive.namelist():
            continue
        rows = list(_rows(_xml(archive, part), shared, dates))
        if len(rows) > MAX_ROWS:
            notes.append(f"Only the first {MAX_ROWS} of {len(rows)} rows of {sheet.get('name')!r} are given.")
        if table := _table(rows[:MAX_ROWS]):
            parts.append(f"## {squeeze(sheet.get('name', ''))}\n\n{table}")
    return "\n\n".join(parts)


def _shared(archive: zipfile.ZipFile) -> list[str]:
    if "xl/sharedStrings.xml" not in archive.namelist():
        return []
    table = _xml(archive, "xl/sharedStrings.xml")
    return ["".join(part.text or "" for part in item.iter("{*}t")) for item in _children(table, "si")]


def _date_styles(archive: zipfile.ZipFile) -> frozenset[str]:
    """The cell styles that show a number as a date: built-in formats and those whose code names days or years."""
    if "xl/styles.xml" not in archive.namelist():
        return frozenset()
    styles = _xml(archive, "xl/styles.xml")
    own = {node.get("numFmtId", ""): node.get("formatCode", "") for node in styles.iter("{*}numFmt")}
    formats = [node.get("numFmtId", "") for group in _children(styles, "cellXfs") for node in _children(group, "xf")]
    return frozenset(
        str(index)
        for index, name in enumerate(formats)
        if name in _DATE_FORMATS
        or re.search(r"[yd]", re.sub(r'"[^"]*"|\[[^\]]*\]', "", own.get(name, "")), re.IGNORECASE)
    )


def _rows(sheet: etree._Element, shared: list[str], dates: frozenset[str]) -> Iterator[list[str]]:
    for row in sheet.iter("{*}row"):
        cells: list[str] = []
        for cell in _children(row, "c"):
            place = _column(cell.get("r", "")) or len(cells)
            if place >= MAX_COLUMNS:
                break
            cells += [""] * (place - len(cells))
            shown = squeeze(_shown(cell, shared))
            cells.append(_as_date(shown) if cell.get("s", "") in dates and not cell.get("t") else shown)
        if any(cells):
            yield cells


def _shown(cell: etree._Element, shared: list[str]) -> str:
    kind = cell.get("t", "")
    value = next((node.text or "" for node in cell.iter("{*}v")), "")
    if kind == "s":
        return shared[int(value)] if value.isdigit() and int(value) < len(shared) else ""
    if kind == "inlineStr":
        return "".join(node.text or "" for node in cell.iter("{*}t"))
    return {"1": "TRUE", "0": "FALSE"}.get(value, value) if kind == "b" else value


def _as_date(number: str) -> str:
    """Days since the end of 1899 as a date, with the time where there is one."""
    try:
        days = float(number)
        when = _EPOCH + timedelta(seconds=round(days * 86_400))
    except (ValueError, OverflowError):
        return number
    return when.date().isoformat() if days == int(days) else when.isoformat(" ", "minutes")


def _column(reference: str) -> int:
    """`C7` is column 2."""
    number = 0
    for letter in re.sub(r"[^A-Z]", "", reference)[:4]:
        number = number * 26 + ord(letter) - 64
    return max(0, number - 1)


def _slides(archive: zipfile.ZipFile, notes: list[str]) -> str:
    targets = _targets(archive, "ppt/presentation.xml")
    order = [targets.get(_relation(slide), "") for slide in _xml(archive, "ppt/presentation.xml").iter("{*}sldId")]
    if len(order) > MAX_SLIDES:
        notes.append(f"Only the first {MAX_SLIDES} of {len(order)} slides are given.")
    parts: list[str] = []
    for number, name in enumerate(order[:MAX_SLIDES], 1):
        if name not in archive.namelist():
            continue
        lines = ["".join(run.text or "" for run in line.iter("{*}t")) for line in _xml(archive, name).iter("{*}p")]
        said = [squeeze(line) for line in lines if line.strip()]
        if said:
            parts.append(f"## Slide {number}: {said[0]}\n\n" + "\n".join(f"- {line}" for line in said[1:]))
    return "\n\n".join(part.strip() for part in parts)


def _table(rows: list[list[str]]) -> str:
    width = min(MAX_COLUMNS, max((len(row) for row in rows), default=0))
    if not width:
        return ""
    filled = [[cell.replace("|", "\\|") for cell in [*row, *[""] * width][:width]] for row in rows]
    lines = [filled[0], ["---"] * width, *filled[1:]]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _children(node: etree._Element, name: str) -> Iterator[etree._Element]:
    return (child for child in node if _name(child) == name)


def _relation(node: etree._Element) -> str:
    """The relation id of a link, a sheet or a slide."""
    return next((str(value) for key, value in node.attrib.items() if str(key).endswith("}id")), "")


def _value(node: etree._Element) -> str:
    return next((str(value) for key, value in node.attrib.items() if str(key).rpartition("}")[2] == "val"), "")


def _name(node: etree._Element) -> str:
    return str(node.tag).rpartition("}")[2]
