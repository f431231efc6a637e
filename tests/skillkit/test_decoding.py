"""A guess about the encoding of a text."""

import pytest

from openskills.skillkit.decoding import SAMPLE, encoding_of

CHINESE = "原材料价格：均值、中位数、最小值和最大值。 plain words\n"


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-32", "gb18030"])
def test_chinese_is_recognised(encoding: str) -> None:
    assert encoding_of(CHINESE.encode(encoding)) == encoding


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
def test_western_text_in_utf16_is_recognised_without_its_mark(encoding: str) -> None:
    assert encoding_of("plain words, nothing else\n".encode(encoding)) == encoding


@pytest.mark.parametrize(
    "data",
    [b"\0\1\2\3", b"\x89PNG\r\n", b"%PDF-1.7", b"\x1f\x8b\x08", b"PK\x03\x04", b"\x7fELF", bytes(range(1, 32)) * 10],
)
def test_what_is_no_text_is_recognised(data: bytes) -> None:
    assert encoding_of(data) is None


@pytest.mark.parametrize(
    ("data", "encoding"),
    [
        (b"", "utf-8"),
        (b"plain", "utf-8"),
        (b"colours \x1b[31mred\x1b[0m\n", "utf-8"),
        ("un café très élégant, déjà vu\n".encode("cp1252"), "cp1252"),
        ("über Straßen\n".encode("cp1252"), "cp1252"),
    ],
)
def test_other_texts_are_recognised(data: bytes, encoding: str) -> None:
    assert encoding_of(data) == encoding


@pytest.mark.parametrize("encoding", ["utf-8", "gb18030"])
@pytest.mark.parametrize("shift", range(4))
def test_a_character_that_the_sample_cuts_in_two_does_no_harm(encoding: str, shift: int) -> None:
    data = b"x" * shift + ("价" * SAMPLE).encode(encoding)
    assert encoding_of(data[:SAMPLE]) == encoding
