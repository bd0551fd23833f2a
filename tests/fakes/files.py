"""Small files of the kinds that people publish, made byte by byte: PDF, docx, xlsx, pptx."""

import io
import zipfile
from collections.abc import Mapping, Sequence

_W = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'
_R = 'xmlns:r="http://schemas.openxmlformats.org/officeDocument/2006/relationships"'
_A = 'xmlns:a="http://schemas.openxmlformats.org/drawingml/2006/main"'
_S = 'xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"'
_P = 'xmlns:p="http://schemas.openxmlformats.org/presentationml/2006/main"'
_RELS = 'xmlns="http://schemas.openxmlformats.org/package/2006/relationships"'


def pdf_file(pages: Sequence[str], title: str = "") -> bytes:
    """A PDF with one line of Helvetica on each page."""
    kids = " ".join(f"{4 + 2 * number} 0 R" for number in range(len(pages)))
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        f"<< /Type /Pages /Kids [{kids}] /Count {len(pages)} >>".encode(),
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    ]
    for number, text in enumerate(pages):
        font = "/Resources << /Font << /F1 3 0 R >> >> /MediaBox [0 0 612 792]"
        objects.append(f"<< /Type /Page /Parent 2 0 R {font} /Contents {5 + 2 * number} 0 R >>".encode())
        stream = f"BT /F1 12 Tf 72 700 Td ({text}) Tj ET".encode()
        objects.append(b"<< /Length %d >>\nstream\n%s\nendstream" % (len(stream), stream))
    objects.append(f"<< /Title ({title}) /CreationDate (D:20240506120000Z) >>".encode())
    out = io.BytesIO(b"%PDF-1.4\n")
    out.seek(0, io.SEEK_END)
    places = []
    for number, body in enumerate(objects, 1):
        places.append(out.tell())
        out.write(b"%d 0 obj\n%s\nendobj\n" % (number, body))
    start = out.tell()
    out.write(b"xref\n0 %d\n0000000000 65535 f \n" % (len(objects) + 1))
    out.write(b"".join(b"%010d 00000 n \n" % place for place in places))
    out.write(b"trailer\n<< /Size %d /Root 1 0 R /Info %d 0 R >>\n" % (len(objects) + 1, len(objects)))
    out.write(b"startxref\n%d\n%%%%EOF\n" % start)
    return out.getvalue()


def archive(members: Mapping[str, str | bytes]) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as file:
        for name, body in members.items():
            file.writestr(name, body)
    return out.getvalue()


def word_file(body: str, links: Mapping[str, str] | None = None) -> bytes:
    """A docx around the XML of its body, with external links by relation id."""
    rels = "".join(
        f'<Relationship Id="{name}" Target="{url}" TargetMode="External"/>' for name, url in (links or {}).items()
    )
    return archive(
        {
            "[Content_Types].xml": "<Types/>",
            "word/document.xml": f"<w:document {_W} {_R}><w:body>{body}</w:body></w:document>",
            "word/_rels/document.xml.rels": f"<Relationships {_RELS}>{rels}</Relationships>",
            "docProps/core.xml": '<c xmlns:dc="http://purl.org/dc/elements/1.1/"><dc:title>Harbour plan</dc:title>'
            "<dc:creator>A. Keeper</dc:creator></c>",
        }
    )


def paragraph(text: str, style: str = "", *, listed: int = -1) -> str:
    props = f'<w:pStyle w:val="{style}"/>' if style else ""
    props += f'<w:numPr><w:ilvl w:val="{listed}"/><w:numId w:val="1"/></w:numPr>' if listed >= 0 else ""
    return f"<w:p><w:pPr>{props}</w:pPr><w:r><w:t>{text}</w:t></w:r></w:p>"


def sheet_file(name: str, cells: str, shared: Sequence[str]) -> bytes:
    """An xlsx with one sheet around the XML of its rows. Cells of style 1 show a date."""
    rels = '<Relationship Id="rId1" Target="worksheets/sheet1.xml"/>'
    return archive(
        {
            "xl/workbook.xml": f'<workbook {_S} {_R}><sheets><sheet name="{name}" r:id="rId1"/></sheets></workbook>',
            "xl/_rels/workbook.xml.rels": f"<Relationships {_RELS}>{rels}</Relationships>",
            "xl/styles.xml": f'<styleSheet {_S}><numFmts><numFmt numFmtId="170" formatCode="dd/mm/yyyy"/></numFmts>'
            '<cellXfs><xf numFmtId="0"/><xf numFmtId="170"/></cellXfs></styleSheet>',
            "xl/sharedStrings.xml": f"<sst {_S}>{''.join(f'<si><t>{text}</t></si>' for text in shared)}</sst>",
            "xl/worksheets/sheet1.xml": f"<worksheet {_S}><sheetData>{cells}</sheetData></worksheet>",
        }
    )


def slide_file(slides: Sequence[Sequence[str]]) -> bytes:
    """A pptx whose slides stand in the order of the presentation, which is not that of their file names."""
    count = len(slides)
    ids = "".join(f'<p:sldId r:id="rId{number}"/>' for number in range(count))
    rels = "".join(f'<Relationship Id="rId{n}" Target="slides/slide{count - n}.xml"/>' for n in range(count))
    parts = {
        f"ppt/slides/slide{count - n}.xml": f"<p:sld {_P} {_A}>"
        + "".join(f"<a:p><a:r><a:t>{line}</a:t></a:r></a:p>" for line in lines)
        + "</p:sld>"
        for n, lines in enumerate(slides)
    }
    return archive(
        {
            "ppt/presentation.xml": f"<p:presentation {_P} {_R}><p:sldIdLst>{ids}</p:sldIdLst></p:presentation>",
            "ppt/_rels/presentation.xml.rels": f"<Relationships {_RELS}>{rels}</Relationships>",
            **parts,
        }
    )
