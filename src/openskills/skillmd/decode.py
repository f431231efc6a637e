"""The bytes of a SKILL.md to text, or the reason why they are none."""

from openskills.skillmd.limits import MAX_FILE_BYTES
from openskills.skillmd.problem import Problem

_UTF16_MARKS = (b"\xff\xfe", b"\xfe\xff")


def decode(data: bytes) -> tuple[str, Problem | None]:
    """The text of `data`, with its byte-order mark if there is one, or an empty text and what is wrong with it."""
    if len(data) > MAX_FILE_BYTES:
        return "", too_large(len(data))
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        return "", _not_utf8(data, error)
    if "\0" in text:
        before = text[: text.index("\0")]
        return "", _at(before, "text-nul", "a NUL character; a SKILL.md is text, remove the character")
    return text, None


def too_large(size: int) -> Problem:
    """The problem of a file that is not worth reading to its end."""
    return Problem(
        "file-size",
        f"the file has {size:,} bytes, more than {MAX_FILE_BYTES:,}; move details into references/",
    )


def _not_utf8(data: bytes, error: UnicodeDecodeError) -> Problem:
    if data.startswith(_UTF16_MARKS):
        return Problem("text-encoding", "the file is UTF-16; save it as UTF-8", line=1, column=1)
    before = data[: error.start].decode("utf-8", "replace")
    byte = data[error.start]
    return _at(before, "text-encoding", f"byte 0x{byte:02x} is not UTF-8 (Latin-1?); save the file as UTF-8")


def _at(before: str, rule: str, message: str) -> Problem:
    lines = before.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    return Problem(rule, message, line=len(lines), column=len(lines[-1]) + 1)
