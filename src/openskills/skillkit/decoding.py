"""Which encoding a text is in. A guess from its first bytes; pure."""

import codecs

SAMPLE = 65_536
"""Bytes that a guess needs at most."""

_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_BINARY_MAGIC = (b"%PDF-", b"\x1f\x8b", b"PK\x03\x04", b"\x89PNG", b"\xff\xd8\xff", b"GIF8", b"\x7fELF", b"BZh")
_FEW_CONTROLS = 0.02
_OF_TEXTS = bytes(byte for byte in range(256) if byte >= 32 or byte in b"\t\n\v\f\r\x1b\b")


def encoding_of(sample: bytes) -> str | None:
    """The name of the encoding of a text that begins like this; None when it is no text.

    Byte order marks are believed. Then UTF-8 when it is valid, UTF-16 when it looks like it, GB18030 when it is valid
    and looks like Chinese, and Windows-1252, which fits everything. Decode with `errors="replace"`: what comes after
    the sample may be different.
    """
    sample = sample[:SAMPLE]
    for mark, name in _MARKS:
        if sample.startswith(mark):
            return name
    if sample.startswith(_BINARY_MAGIC):
        return None
    if b"\0" in sample:
        return _utf16(sample)
    if _valid(sample, "utf-8"):
        return "utf-8" if _few_controls(sample) else None
    if not _few_controls(sample):
        return None
    if _valid(sample, "gb18030") and _looks_chinese(sample):
        return "gb18030"
    return "cp1252"


def _utf16(sample: bytes) -> str | None:
    """Western text in UTF-16 has a zero in every other byte."""
    pairs = len(sample) // 2
    low, high = sample[0 : 2 * pairs : 2].count(0), sample[1 : 2 * pairs : 2].count(0)
    name = "utf-16-le" if high > low else "utf-16-be"
    if max(low, high) <= pairs // 3 or min(low, high) > pairs // 50:
        return None
    decoded = sample[: 2 * pairs].decode(name, "replace")
    return name if _few_controls(decoded.encode("utf-8", "replace")) else None


def _valid(sample: bytes, encoding: str) -> bool:
    try:
        # The last character of a sample may be cut.
        codecs.getincrementaldecoder(encoding)("strict").decode(sample, final=len(sample) < SAMPLE)
    except UnicodeDecodeError:
        return False
    return True


def _few_controls(sample: bytes) -> bool:
    return len(sample.translate(None, _OF_TEXTS)) <= len(sample) * _FEW_CONTROLS


def _looks_chinese(sample: bytes) -> bool:
    """Whether most bytes beyond ASCII come in pairs in which both are high, as in common Chinese characters."""
    beyond = paired = place = 0
    while place < len(sample):
        if sample[place] < 0x80:
            place += 1
            continue
        pair = place + 1 < len(sample) and sample[place] >= 0xA1 and sample[place + 1] >= 0xA1
        beyond += 1
        paired += pair
        place += 2
    return paired * 2 > beyond
