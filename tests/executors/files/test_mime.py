"""Kinds of content."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openskills.executors.files.mime import detect_mime_type, is_text

PNG = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR"


@pytest.mark.parametrize(
    ("path", "head", "kind"),
    [
        ("out/a.png", PNG, "image/png"),
        ("out/a.txt", PNG, "image/png"),
        ("out/no-ending", b"%PDF-1.7\n%\xe2\xe3", "application/pdf"),
        ("out/a.webp", b"RIFF\x10\0\0\0WEBPVP8 ", "image/webp"),
        ("out/a.wav", b"RIFF\x10\0\0\0WAVEfmt ", "audio/wav"),
        ("out/a.json", b'{"a": 1}', "application/json"),
        ("out/a.md", b"# Title\n", "text/markdown"),
        ("out/a.CSV", b"a,b\n", "text/csv"),
        ("out/a.yaml", b"a: 1\n", "application/yaml"),
        ("out/a.svg", b"<svg/>", "image/svg+xml"),
        ("out/a.txt", b"plain", "text/plain"),
        ("out/Makefile", b"all:\n", "text/plain"),
        ("out/archive.tar/file", b"text", "text/plain"),
        ("out/a.txt", b"\xff\xfe\0", "application/octet-stream"),
        ("out/a.json", b"\0\1", "application/octet-stream"),
        ("out/a.png", b"Traceback: it failed", "text/plain"),
        ("out/a.bin", b"\0\1\2", "application/octet-stream"),
        ("out/empty.csv", b"", "text/csv"),
        ("out/empty", b"", "text/plain"),
        ("out/a.zip", b"PK\x03\x04\x14\0", "application/zip"),
        (
            "out/a.xlsx",
            b"PK\x03\x04\x14\0",
            "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
        ),
        ("out/a.txt", b"PK\x03\x04\x14\0", "application/zip"),
        ("out/notes.txt", b"BMW is a car", "text/plain"),
        ("out/a.bmp", b"BM\x8a\0\0\0", "image/bmp"),
        ("out/a.tar.gz", b"\x1f\x8b\x08\0", "application/gzip"),
        ("out/.hidden", b"x", "text/plain"),
    ],
)
def test_content_goes_before_the_name(path: str, head: bytes, kind: str) -> None:
    assert detect_mime_type(path, head) == kind


def test_a_character_that_is_cut_at_the_end_of_the_head_is_not_a_fault() -> None:
    assert detect_mime_type("out/a.txt", ("x" + "é" * 400).encode()[:512]) == "text/plain"
    assert is_text("é".encode()[:1], cut=True)
    assert not is_text("é".encode()[:1])
    assert not is_text(b"\xff" + b"x" * 600, cut=True)


@given(st.text(max_size=50), st.binary(max_size=600))
def test_whatever_it_is_it_has_a_type(path: str, head: bytes) -> None:
    kind = detect_mime_type(path, head)
    assert kind.count("/") == 1
    assert kind.isascii()
