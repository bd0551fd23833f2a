"""Small office files, made byte by byte: docx, xlsx, pptx."""

import io
import zipfile
from collections.abc import Mapping, Sequence

_W = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'
_R = 'xmlns:r="http://schemas.openxmlformats.org/officeDocument/2006/relationships"'
_A = 'xmlns:a="http://schemas.openxmlformats.org/drawingml/2006/main"'
_S = 'xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"'
_P = 'xmlns:p="http://schemas.openxmlformats.org/presentationml/2006/main"'
_RELS = 'xmlns="http://schemas.openxmlformats.org/package/2006/relationships"'


def archive(members: Mapping[str, str | bytes]) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as file:
        for name, body in members.items():
            file.writestr(name, body)
    return out.getvalue()


def word_file(body: str, links: Mapping[str, str] | None = None, *, numbering: str = "", footnotes: str = "") -> bytes:
    """A docx around the XML of its body, with external links by relation id and the XML of its lists and notes."""
    rels = "".join(
        f'<Relationship Id="{name}" Target="{url}" TargetMode="External"/>' for name, url in (links or {}).items()
    )
    return archive(
        {
            "[Content_Types].xml": "<Types/>",
            "word/document.xml": f"<w:document {_W} {_R}><w:body>{body}</w:body></w:document>",
            "word/numbering.xml": f"<w:numbering {_W}>{numbering}</w:numbering>",
            "word/footnotes.xml": f"<w:footnotes {_W}>{footnotes}</w:footnotes>",
            "word/_rels/document.xml.rels": f"<Relationships {_RELS}>{rels}</Relationships>",
            "docProps/core.xml": '<c xmlns:dc="http://purl.org/dc/elements/1.1/"><dc:title>Harbour plan</dc:title>'
            "<dc:creator>A. Keeper</dc:creator></c>",
        }
    )


def paragraph(text: str, style: str = "", *, listed: int = -1) -> str:
    props = f'<w:pStyle w:val="{style}"/>' if style else ""
    props += f'<w:numPr><w:ilvl w:val="{listed}"/><w:numId w:val="1"/></w:numPr>' if listed >= 0 else ""
    return f"<w:p><w:pPr>{props}</w:pPr><w:r><w:t>{text}</w:t></w:r></w:p>"


_DATES = (
    '<numFmts><numFmt numFmtId="170" formatCode="dd/mm/yyyy"/></numFmts><cellXfs><xf/><xf numFmtId="170"/></cellXfs>'
)


def sheet_file(name: str, cells: str, shared: Sequence[str], *, styles: str = _DATES, properties: str = "") -> bytes:
    """An xlsx with one sheet around the XML of its rows. Cells of style 1 show a date, unless `styles` says else."""
    rels = '<Relationship Id="rId1" Target="worksheets/sheet1.xml"/>'
    return archive(
        {
            "xl/workbook.xml": f"<workbook {_S} {_R}>{properties}"
            f'<sheets><sheet name="{name}" r:id="rId1"/></sheets></workbook>',
            "xl/_rels/workbook.xml.rels": f"<Relationships {_RELS}>{rels}</Relationships>",
            "xl/styles.xml": f"<styleSheet {_S}>{styles}</styleSheet>",
            "xl/sharedStrings.xml": f"<sst {_S}>{''.join(f'<si><t>{text}</t></si>' for text in shared)}</sst>",
            "xl/worksheets/sheet1.xml": f"<worksheet {_S}><sheetData>{cells}</sheetData></worksheet>",
        }
    )


def slide_file(
    slides: Sequence[Sequence[str]], *, notes: Mapping[int, str] | None = None, shapes: Sequence[str] = ()
) -> bytes:
    """A pptx whose slides stand in the order of the presentation, which is not that of their file names.

    They are given by their lines, then by the XML of their `shapes`.
    """
    inner = ["".join(f"<a:p><a:r><a:t>{line}</a:t></a:r></a:p>" for line in lines) for lines in slides]
    inner += shapes
    count = len(inner)
    ids = "".join(f'<p:sldId r:id="rId{number}"/>' for number in range(count))
    rels = "".join(f'<Relationship Id="rId{n}" Target="slides/slide{count - n}.xml"/>' for n in range(count))
    parts = {f"ppt/slides/slide{count - n}.xml": f"<p:sld {_P} {_A}>{one}</p:sld>" for n, one in enumerate(inner)}
    for n, text in (notes or {}).items():
        place = count - n
        rel = f'<Relationship Id="rId1" Target="../notesSlides/notesSlide{place}.xml"/>'
        parts[f"ppt/slides/_rels/slide{place}.xml.rels"] = f"<Relationships {_RELS}>{rel}</Relationships>"
        around = "".join(
            f'<p:sp><p:nvSpPr><p:nvPr><p:ph type="{kind}"/></p:nvPr></p:nvSpPr>'
            f"<p:txBody><a:p><a:r><a:t>{said}</a:t></a:r></a:p></p:txBody></p:sp>"
            for kind, said in (("sldNum", "17"), ("body", text))
        )
        parts[f"ppt/notesSlides/notesSlide{place}.xml"] = f"<p:notes {_P} {_A}>{around}</p:notes>"
    return archive(
        {
            "ppt/presentation.xml": f"<p:presentation {_P} {_R}><p:sldIdLst>{ids}</p:sldIdLst></p:presentation>",
            "ppt/_rels/presentation.xml.rels": f"<Relationships {_RELS}>{rels}</Relationships>",
            **parts,
        }
    )
