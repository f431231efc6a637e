"""Small real PDF files, written by hand, so that tests need no other program."""

import zlib
from collections.abc import Sequence


def pdf(pages: Sequence[str], *, compressed: bool = False) -> bytes:
    """A file with one page for each text; every line of a text is a line on its page. Latin letters only."""
    count = len(pages)
    kids = " ".join(f"{4 + 2 * number} 0 R" for number in range(count))
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        f"<< /Type /Pages /Kids [{kids}] /Count {count} >>".encode(),
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    ]
    for number, text in enumerate(pages):
        font = "/Resources << /Font << /F1 3 0 R >> >>"
        page = f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] {font} /Contents {5 + 2 * number} 0 R >>"
        objects += [page.encode(), _stream(_drawn(text), compressed)]
    return _file(objects)


def _drawn(text: str) -> bytes:
    lines = [line.replace("\\", "\\\\").replace("(", "\\(").replace(")", "\\)") for line in text.splitlines()]
    shown = " T* ".join(f"({line}) Tj" for line in lines)
    return f"BT /F1 12 Tf 14 TL 72 720 Td {shown} ET".encode("latin-1") if lines else b""


def _stream(data: bytes, compressed: bool) -> bytes:
    how = b" /Filter /FlateDecode" if compressed else b""
    data = zlib.compress(data) if compressed else data
    return b"<< /Length %d%s >>\nstream\n%s\nendstream" % (len(data), how, data)


def _file(objects: Sequence[bytes]) -> bytes:
    data, places = b"%PDF-1.4\n", list[int]()
    for number, body in enumerate(objects, 1):
        places.append(len(data))
        data += b"%d 0 obj\n%s\nendobj\n" % (number, body)
    table = b"xref\n0 %d\n0000000000 65535 f \n" % (len(objects) + 1) + b"".join(
        b"%010d 00000 n \n" % at for at in places
    )
    return (
        data + table + b"trailer << /Size %d /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF\n" % (len(objects) + 1, len(data))
    )
