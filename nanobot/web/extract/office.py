"""Office files (docx, xlsx, pptx) and e-books (epub) as Markdown: ZIP archives of XML, read with lxml. And RTF.

Runs in the worker process. Every member is read to a limit, whatever the archive claims; XML is parsed without
entities and network. Sources of the names: ECMA-376, Office Open XML; EPUB 3.3; Rich Text Format 1.9.1.
"""

import codecs
import io
import lzma
import posixpath
import re
import zipfile
import zlib
from collections.abc import Iterator
from datetime import datetime, timedelta
from urllib.parse import unquote

import lxml.html
from lxml import etree

from nanobot.utils.text import markdown_table, squeeze
from nanobot.web.extract.blocks import PLAIN, Block, Item, Part, Span, Style
from nanobot.web.extract.dom import joined, script_mark, tag_name
from nanobot.web.extract.html import extract
from nanobot.web.extract.page import Extracted
from nanobot.web.extract.render import Options, render_markdown

#: What readers of archives and of XML say of a file that is damaged or locked.
_DAMAGED = (
    *(zipfile.BadZipFile, zlib.error, lzma.LZMAError, etree.LxmlError),
    *(KeyError, ValueError, OverflowError, OSError, EOFError, RuntimeError),
)
MAX_MEMBER = 24_000_000
MAX_ROWS = 2_000
MAX_COLUMNS = 60
MAX_SLIDES = 500
MAX_CHAPTERS = 2_000
#: Built-in number formats that show a day; those that show a time of day only (ECMA-376, 18.8.30).
_DATE_FORMATS = frozenset(str(number) for number in (*range(14, 18), 22, *range(27, 32), 34, *range(50, 59)))
_TIME_FORMATS = frozenset(str(number) for number in (*range(18, 22), 32, 33, 45, 46, 47))
#: The day 0 of a workbook, and of one that counts from 1904.
_EPOCHS = {False: datetime(1899, 12, 30), True: datetime(1904, 1, 1)}  # noqa: DTZ001 - cells know no time zone
#: Where the blocks of a document stand: in no page.
_PART = Part("", "", lxml.html.Element("body"), None, 0)
_RTF = re.compile(
    r"\\([a-z]{1,32})(-?\d{1,10})? ?|((?:\\'[0-9a-f]{2})+)|\\([^a-z'])|([{}])|([^\\{}\r\n])", re.IGNORECASE
)
_RTF_RAISED = {"super": "\1", "sub": "\2", "nosupersub": "\3", "plain": "\3"}
#: What is raised (1) or lowered (2), to its end (3), behind the character before it.
_RAISED = re.compile(r"(.?)([\1\2])([^\1-\3]*)", re.DOTALL)
_RTF_WORDS = {
    "par": "\n", "line": "\n", "sect": "\n\n", "page": "\n\n", "row": "\n", "cell": " | ", "tab": " ",
    "emdash": "—", "endash": "–", "bullet": "•", "lquote": "‘", "rquote": "’", "ldblquote": "“", "rdblquote": "”",
}  # fmt: skip
_RTF_HIDDEN = frozenset(
    "fonttbl colortbl stylesheet info pict object header footer headerf footerf generator fldinst listtable".split()
)
_STYLES: dict[str, Style] = {"b": "bold", "i": "italic", "strike": "strike"}
_LISTED = re.compile(r"list\s*(bullet|number)", re.IGNORECASE)
#: Kinds of notes → what stands before the numbers of theirs.
_NOTES = {"footnote": "", "endnote": "e"}
_TYPE = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}type"
_SIGNS = {"tab": " ", "br": " ", "cr": " ", "noBreakHyphen": "-"}
_NOT_READ = frozenset("del moveFrom pPr rPr instrText Fallback".split())
#: What Word calls a part of a formula → the name that it has in MathML.
_FORMULAS = {"f": "mfrac", "sSup": "msup", "sSub": "msub", "sSubSup": "msubsup", "m": "mtable", "mr": "mtr"}
_HEADING = re.compile(r"(?:heading|berschrift|titre|titolo|kop)\s*(\d)", re.IGNORECASE)


def extract_office(body: bytes) -> Extracted:
    """The text of a document or book, the tables of a workbook, the slides of a presentation; empty where damaged."""
    if body.lstrip()[:5] == b"{\\rtf":
        return _rtf(body)
    try:
        with zipfile.ZipFile(io.BytesIO(body)) as archive:
            return _read(archive)
    except RecursionError:
        raise
    except _DAMAGED as error:
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
    elif "META-INF/container.xml" in names:
        return _book(archive)
    else:
        return Extracted("", "", "office", notes=("The archive is no document, workbook, presentation or book.",))
    said = {tag_name(node): squeeze(node.text or "") for node in _xml(archive, "docProps/core.xml")}
    return Extracted(
        said.get("title", "")[:300],
        text,
        "office",
        author=said.get("creator", "")[:150],
        published=said.get("created", "")[:40],
        notes=tuple(notes),
    )


def _xml(archive: zipfile.ZipFile, name: str) -> etree._Element:
    """A member of the archive, parsed; empty where there is none. Raises ValueError for one that is too large."""
    if name not in archive.NameToInfo:
        return etree.Element("none")
    with archive.open(name) as member:
        data = member.read(MAX_MEMBER + 1)
    if len(data) > MAX_MEMBER:
        raise ValueError(f"{name} is larger than {MAX_MEMBER // 1_000_000} MB")
    parser = etree.XMLParser(resolve_entities=False, no_network=True, load_dtd=False, huge_tree=False)
    return etree.fromstring(data, parser)


def _targets(archive: zipfile.ZipFile, part: str) -> dict[str, str]:
    """Relation id → target of a part: links as they are, other parts by their name in the archive."""
    folder, name = posixpath.split(part)
    found = {}
    for node in _xml(archive, f"{folder}/_rels/{name}.rels"):
        target = node.get("Target", "")
        if node.get("TargetMode") != "External":
            target = target.lstrip("/") if target.startswith("/") else posixpath.normpath(f"{folder}/{target}")
        found[node.get("Id", "")] = target
    return found


def _document(archive: zipfile.ZipFile) -> str:
    links = _targets(archive, "word/document.xml")
    numbered = _numbered(archive)
    body = next(_xml(archive, "word/document.xml").iterchildren("{*}body"), None)
    blocks: list[Block] = []
    for node in _flat(body):
        if tag_name(node) == "tbl":
            rows = [_cells(row, links)[:MAX_COLUMNS] for row in _flat(node, ("tr",))]
            blocks.extend([Block("table", _PART, rows=rows, header=True)] if any(rows) else [])
        else:
            above = blocks[-1].items if blocks else ()
            blocks.append(_paragraph(node, _runs(node, links, []), numbered, above))
    for kind, mark in _NOTES.items():
        for note in _xml(archive, f"word/{kind}s.xml").iterchildren(f"{{*}}{kind}"):
            said = _runs(note, links, [Span(f"[{mark}{_attribute(note, 'id')}] ")])
            blocks.extend([Block("text", _PART, said)] if note.get(_TYPE) is None else [])
    return render_markdown(blocks, Options())


def _flat(body: etree._Element | None, wanted: tuple[str, ...] = ("p", "tbl")) -> Iterator[etree._Element]:
    """Paragraphs and tables in order, or rows of a table, also those in content controls."""
    pending = list(reversed(body)) if body is not None else []
    while pending:
        node = pending.pop()
        if tag_name(node) in wanted:
            yield node
        elif tag_name(node) in ("sdt", "sdtContent", "customXml", "ins"):
            pending.extend(reversed(node))


def _numbered(archive: zipfile.ZipFile) -> frozenset[tuple[str, str]]:
    """The lists that count, as (list, level); the others have bullets."""
    root = _xml(archive, "word/numbering.xml")
    counting = {
        (_attribute(kind, "abstractNumId"), _attribute(level, "ilvl"))
        for kind in root.iterchildren("{*}abstractNum")
        for level in kind.iterchildren("{*}lvl")
        if any(_value(form) not in ("bullet", "none") for form in level.iterchildren("{*}numFmt"))
    }
    kinds = {
        _attribute(one, "numId"): next(map(_value, one.iterchildren("{*}abstractNumId")), "")
        for one in root.iterchildren("{*}num")
    }
    return frozenset((name, level) for name, kind in kinds.items() for other, level in counting if other == kind)


def _paragraph(
    node: etree._Element, spans: list[Span], numbered: frozenset[tuple[str, str]], above: tuple[Item, ...]
) -> Block:
    """A paragraph, a heading, or an item of a list in the items of the paragraph before it."""
    for style in node.iter("{*}pStyle"):
        name = _value(style)
        match = _HEADING.search(name)
        if match or name.lower() == "title":
            plain = [Span(span.text, href=span.href) for span in spans]
            return Block("heading", _PART, plain, min(6, int(match[1])) if match else 1)
    listed = next(filter(None, (_LISTED.match(_value(style)) for style in node.iter("{*}pStyle"))), None)
    if listed is None and next(node.iter("{*}numPr"), None) is None:
        return Block("text", _PART, spans)
    level = next((_value(one) for one in node.iter("{*}ilvl")), "0")
    kind = next((_value(one) for one in node.iter("{*}numId")), "")
    outer = above[: min(8, int(level))] if level.isdigit() else ()
    mark = "- "
    if (kind, level) in numbered or (listed and listed[1].lower() == "number"):
        before = above[len(outer)].mark.rstrip(". ") if len(above) > len(outer) else ""
        mark = f"{int(before) + 1 if before.isdigit() else 1}. "
    return Block("text", _PART, spans, items=(*outer, Item(mark)))


def _runs(
    node: etree._Element, links: dict[str, str], spans: list[Span], styles: frozenset[Style] = PLAIN, href: str = ""
) -> list[Span]:
    """`spans`, and behind them what stands in `node`."""
    for child in node:
        name = tag_name(child)
        if name == "t":
            spans.append(Span(child.text or "", styles, href))
        elif name in _SIGNS:
            spans.append(Span(_SIGNS[name], PLAIN, href))
        elif name in ("footnoteReference", "endnoteReference"):
            spans.append(Span(f"[{_NOTES[name.removesuffix('Reference')]}{_attribute(child, 'id')}]"))
        elif name == "docPr" and child.get("descr"):
            spans.append(Span(squeeze(child.get("descr", "")), PLAIN, href, "#"))
        elif name == "oMath":
            spans.append(Span(_formula(child), styles | {"formula"}, href))
        elif name not in _NOT_READ:
            own = styles | _styles(child)
            if mark := _raised(child, spans):
                spans.append(Span(mark, own - {"bold", "italic"}, href))
            _runs(child, links, spans, own, links.get(_relation(child), "") if name == "hyperlink" else href)
            if name == "p":  # of a text in a box
                spans.append(Span(" "))
    return spans


def _raised(run: etree._Element, spans: list[Span]) -> str:
    """The sign before a run that is raised or lowered: 10^24 is not 1024."""
    place = next(map(_value, run.iterfind("{*}rPr/{*}vertAlign")), "")
    inside = "".join(one.text or "" for one in run.iterchildren("{*}t")) if place.endswith("script") else ""
    before = next((span.text for span in reversed(spans) if span.text), "")
    return script_mark("sup" if place == "superscript" else "sub", before, inside.strip())


def _formula(node: etree._Element) -> str:
    """A formula of Word in one line."""
    name, text = tag_name(node), (node.text or "").strip()
    parts = [_formula(child) for child in node if not tag_name(child).endswith("Pr")]
    if name == "rad" and len(parts) == 2:
        return joined("mroot", parts[::-1], "") if parts[0] else joined("msqrt", parts[1:], "")
    return joined(_FORMULAS.get(name, "mrow"), parts, text if name == "t" else "")


def _styles(run: etree._Element) -> frozenset[Style]:
    marks = (mark for mark in run.iterfind("{*}rPr/{*}*") if tag_name(mark) in _STYLES)
    return frozenset(_STYLES[tag_name(mark)] for mark in marks if _value(mark) not in ("0", "false", "off"))


def _cells(row: etree._Element, links: dict[str, str]) -> list[list[Span]]:
    """The cells of a row in their columns: empty ones stand where a cell spans several."""
    cells: list[list[Span]] = []
    for cell in _flat(row, ("tc",)):
        wide = next(map(_value, cell.iterfind("{*}tcPr/{*}gridSpan")), "")
        cells.append([span for part in cell.iter("{*}p") for span in (*_runs(part, links, []), Span(" "))])
        cells.extend([] for _ in range(min(int(wide), MAX_COLUMNS) - 1 if wide.isdecimal() else 0))
    return cells


def _workbook(archive: zipfile.ZipFile, notes: list[str]) -> str:
    shared, styles = _shared(archive), _date_styles(archive)
    about = _xml(archive, "xl/workbook.xml")
    epoch = _EPOCHS[any(node.get("date1904") in ("1", "true") for node in about.iter("{*}workbookPr"))]
    targets = _targets(archive, "xl/workbook.xml")
    parts: list[str] = []
    for sheet in about.iter("{*}sheet"):
        rows = list(_rows(_xml(archive, targets.get(_relation(sheet), "")), shared, styles, epoch))
        if len(rows) > MAX_ROWS:
            notes.append(f"Only the first {MAX_ROWS} of {len(rows)} rows of {sheet.get('name')!r} are given.")
        if table := markdown_table(rows[:MAX_ROWS]):
            parts.append(f"## {squeeze(sheet.get('name', ''))}\n\n{table}")
    return "\n\n".join(parts)


def _shared(archive: zipfile.ZipFile) -> list[str]:
    table = _xml(archive, "xl/sharedStrings.xml")
    return ["".join(map(_text, item.iter("{*}t"))) for item in table.iterchildren("{*}si")]


def _text(part: etree._Element) -> str:
    """What a part of a cell says; how it is spoken, which Japanese cells say beside it, is left out."""
    above = part.getparent()
    return "" if above is not None and tag_name(above) == "rPh" else part.text or ""


def _date_styles(archive: zipfile.ZipFile) -> dict[str, bool]:
    """The cell styles that show a number as a moment, by their format: True with a day, False with a time alone."""
    styles = _xml(archive, "xl/styles.xml")
    own = {node.get("numFmtId", ""): node.get("formatCode", "") for node in styles.iter("{*}numFmt")}
    formats = [node.get("numFmtId", "") for node in styles.iterfind("{*}cellXfs/{*}xf")]
    found = {}
    for index, name in enumerate(formats):
        code = re.sub(r'"[^"]*"|\\.|\[[^\]]*\]', "", own.get(name, "")).lower()
        if name in _DATE_FORMATS or re.search(r"[yd]|m{3}", code):
            found[str(index)] = True
        elif name in _TIME_FORMATS or re.search(r"h|s{2}", code):
            found[str(index)] = False
    return found


def _rows(sheet: etree._Element, shared: list[str], styles: dict[str, bool], epoch: datetime) -> Iterator[list[str]]:
    for row in sheet.iter("{*}row"):
        cells: list[str] = []
        for cell in row.iterchildren("{*}c"):
            place = _column(cell.get("r", "")) or len(cells)
            if place >= MAX_COLUMNS:
                break
            cells += [""] * (place - len(cells))
            shown = squeeze(_shown(cell, shared))
            day = styles.get(cell.get("s", "")) if cell.get("t", "n") == "n" else None
            cells.append(shown if day is None else _as_moment(shown, epoch, day=day))
        if any(cells):
            yield cells


def _shown(cell: etree._Element, shared: list[str]) -> str:
    kind = cell.get("t", "")
    value = next((node.text or "" for node in cell.iter("{*}v")), "")
    if kind == "s":
        return shared[int(value)] if value.isdigit() and int(value) < len(shared) else ""
    if kind == "inlineStr":
        return "".join(map(_text, cell.iter("{*}t")))
    return {"1": "TRUE", "0": "FALSE"}.get(value, value) if kind == "b" else value


def _as_moment(number: str, epoch: datetime, *, day: bool) -> str:
    """Days since `epoch` as a date, with the time where there is one; a duration in hours where it shows no `day`."""
    try:
        seconds = round(float(number) * 86_400)
        when = epoch + timedelta(seconds=seconds)
    except (ValueError, OverflowError):
        return number
    if not day:
        return f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}" + (f":{seconds % 60:02d}" if seconds % 60 else "")
    return when.date().isoformat() if seconds % 86_400 == 0 else when.isoformat(" ", "minutes")


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
        slide = _xml(archive, name)
        said = _said(slide)
        if said:
            parts.append(f"## Slide {number}: {said[0]}\n\n" + "\n".join(f"- {line}" for line in said[1:]))
        for table in slide.iter("{*}tbl"):
            rows = [[" ".join(map(_line, cell.iter("{*}p"))) for cell in row.iterchildren("{*}tc")] for row in table]
            parts.append(markdown_table([row for row in rows if row]))
        notes_part = next((one for one in _targets(archive, name).values() if "/notesSlides/" in one), "")
        if told := _said(_xml(archive, notes_part), notes=True):
            parts.append("Notes: " + " ".join(told))
    return "\n\n".join(part.strip() for part in parts)


def _said(slide: etree._Element, *, notes: bool = False) -> list[str]:
    """The lines of a slide beside its tables, its title first; of its notes without the slide's number and picture."""
    lines: list[tuple[bool, str]] = []
    for line in slide.iter("{*}p"):
        around = {tag_name(one): one for one in line.iterancestors("{*}tbl", "{*}sp")}
        kinds = {one.get("type") for one in around["sp"].iter("{*}ph")} if "sp" in around else set()
        if "tbl" not in around and (not notes or "body" in kinds) and (said := _line(line)):
            lines.append((kinds.isdisjoint(("title", "ctrTitle")), said))
    return [said for _, said in sorted(lines, key=lambda line: line[0])]


def _line(paragraph: etree._Element) -> str:
    return squeeze("".join(" " if tag_name(one) == "br" else one.text or "" for one in paragraph.iter("{*}t", "{*}br")))


def _book(archive: zipfile.ZipFile) -> Extracted:
    """The chapters of an e-book in the order of its spine."""
    package = next(
        (node.get("full-path", "") for node in _xml(archive, "META-INF/container.xml").iter("{*}rootfile")), ""
    )
    archive.getinfo(package)  # raises KeyError: a book without it is damaged
    root = _xml(archive, package)
    about = {tag_name(node): squeeze(node.text or "") for node in root.iter("{*}title", "{*}creator", "{*}date")}
    files = {node.get("id", ""): node.get("href", "") for node in root.iter("{*}item")}
    parts: list[str] = []
    notes: list[str] = []
    chapters = [files.get(node.get("idref", ""), "") for node in root.iter("{*}itemref")]
    locked = _locked(archive)
    for href in chapters[:MAX_CHAPTERS]:
        name = posixpath.normpath(posixpath.join(posixpath.dirname(package), unquote(href)))
        if name in locked:
            notes[:] = ["The book is locked by the rights management (DRM) of its seller."]
            continue
        if name not in archive.namelist():
            notes.append(f"A chapter is missing ({squeeze(href)[:80]}).")
            continue
        with archive.open(name) as member:
            parts.append(extract(member.read(MAX_MEMBER), "").text)
    text = "\n\n".join(part for part in parts if part)
    title, author, published = (about.get(name, "") for name in ("title", "creator", "date"))
    return Extracted(title[:300], text, "epub", author=author[:150], published=published[:40], notes=tuple(notes))


def _locked(archive: zipfile.ZipFile) -> frozenset[str]:
    """The files of a book that only the programs of its seller can read."""
    told = _xml(archive, "META-INF/encryption.xml").iter("{*}CipherReference")
    return frozenset(posixpath.normpath(unquote(node.get("URI", ""))) for node in told)


def _codec(name: str) -> str:
    """An encoding that an RTF file names, or the usual one where nobody knows it, such as those of old Macs."""
    try:
        return codecs.lookup(name).name
    except LookupError:
        return "cp1252"


def _rtf(body: bytes) -> Extracted:
    """The words of an RTF file, a line for each paragraph; what a reader does not see is left out."""
    text = body.decode("latin-1")
    named = re.search(r"\\ansicpg(\d{3,5})", text[:2_000])
    codec = _codec(f"cp{named[1]}" if named else "cp1252")
    out: list[str] = []
    stack: list[tuple[bool, int, bool]] = []
    hidden, skip, raised, owed = False, 1, False, 0
    for match in _RTF.finditer(text):
        word, number, code, symbol, brace, plain = match.groups()
        if brace == "{":
            stack.append((hidden, skip, raised))
        elif brace == "}":
            out.append("\3" if raised else "")
            hidden, skip, raised = stack.pop() if stack else (False, 1, False)
        elif symbol == "*" or word in _RTF_HIDDEN:
            hidden = True
        elif hidden:
            continue
        elif word in _RTF_RAISED:
            raised = word in ("super", "sub")
            out.append(_RTF_RAISED[word])
        elif word == "uc":
            skip = int(number or 1)
        elif word == "u":
            out.append(chr(int(number or 63) % 65_536))
            owed = skip
        elif code:
            out.append(bytes.fromhex(code.replace("\\'", ""))[owed:].decode(codec, "replace"))
            owed = 0
        elif owed and plain:
            owed -= 1
        elif word:
            out.append(_RTF_WORDS.get(word, ""))
        else:
            out.append({"~": " ", "_": "-", "-": "", "\n": "\n", None: plain or ""}.get(symbol, symbol or ""))
    said = (
        _RAISED.sub(_with_sign, "".join(out))
        .replace("\3", "")
        .encode("utf-16", "surrogatepass")
        .decode("utf-16", "replace")
    )
    lines = (squeeze(line) for line in said.split("\n"))
    return Extracted("", re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip(), "rtf")


def _with_sign(found: re.Match[str]) -> str:
    before, kind, inside = found.groups()
    return before + script_mark("sup" if kind == "\1" else "sub", before, inside.strip()) + inside


def _relation(node: etree._Element) -> str:
    """The relation id of a link, a sheet or a slide."""
    return next((str(value) for key, value in node.attrib.items() if str(key).endswith("}id")), "")


def _value(node: etree._Element) -> str:
    return _attribute(node, "val")


def _attribute(node: etree._Element, name: str) -> str:
    return next((str(value) for key, value in node.attrib.items() if str(key).rpartition("}")[2] == name), "")
