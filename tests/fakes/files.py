"""Small files of the kinds that people publish, made byte by byte: PDF and PNG."""

import io
import struct
import zlib
from collections.abc import Sequence


def pdf_file(pages: Sequence[str], title: str = "") -> bytes:
    """A PDF with one line of Helvetica on each page."""
    return _pdf([f"BT /F1 12 Tf 72 700 Td ({text}) Tj ET" for text in pages], title)


def pdf_text(pieces: Sequence[tuple[int, int, str]]) -> bytes:
    """A PDF of one page with texts at places, x and y in points from the lower left corner, written in this order."""
    return _pdf([" ".join(f"BT /F1 12 Tf {x} {y} Td ({text}) Tj ET" for x, y, text in pieces)], "")


def _pdf(pages: Sequence[str], title: str) -> bytes:
    kids = " ".join(f"{4 + 2 * number} 0 R" for number in range(len(pages)))
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        f"<< /Type /Pages /Kids [{kids}] /Count {len(pages)} >>".encode(),
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    ]
    for number, content in enumerate(pages):
        font = "/Resources << /Font << /F1 3 0 R >> >> /MediaBox [0 0 612 792]"
        objects.append(f"<< /Type /Page /Parent 2 0 R {font} /Contents {5 + 2 * number} 0 R >>".encode())
        stream = content.encode()
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


def png(width: int, height: int) -> bytes:
    """A grey picture of this size in pixels."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    rows = b"".join(b"\0" + b"\x80" * width for _ in range(height))
    head = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")
