"""Bytes of a file as a model may see them: whether they are text at all, and what had to be changed. Pure."""

from dataclasses import dataclass

from openskills.executors.files.mime import BINARY, TEXT, mime_type
from openskills.tools.lines import Page

HEAD = 8192
"""So many bytes of a file decide whether it is text."""

UTF_16 = "text/plain; charset=utf-16"

_BOM = b"\xef\xbb\xbf"
_CONTROLS = bytes(set(range(32)) - set(b"\t\n\r\f\b\x1b")) + b"\x7f"
_SHARE = 0.3


@dataclass(frozen=True, slots=True)
class Text:
    """The text of a page; `replaced` when bytes of it are no UTF-8. `notes` say what is different from the file."""

    text: str
    notes: tuple[str, ...] = ()
    replaced: bool = False


def is_binary(head: bytes) -> bool:
    """Whether a file that begins like this is no text. Text in another encoding than UTF-8 still is."""
    head = head[:HEAD]
    if b"\0" in head:
        return True
    kind = mime_type("", head)
    if kind != BINARY:
        return kind != TEXT
    # An eighth-bit character of Latin-1 here and there is text, what is full of them is not.
    odd = head.decode("utf-8", "replace").count("\ufffd") + len(head) - len(head.translate(None, _CONTROLS))
    return odd > len(head) * _SHARE


def kind_of(name: str, head: bytes) -> str:
    """The MIME type of a file, text in another encoding told from what is no text."""
    if head.startswith((b"\xff\xfe", b"\xfe\xff")) and not head.startswith(b"\xff\xfe\0\0"):
        return UTF_16
    kind = mime_type(name, head)
    return TEXT if kind == BINARY and not is_binary(head) else kind


def text_of(page: Page, *, is_beginning: bool) -> Text:
    """The page as text, its lines ended by LF."""
    data = page.data
    notes: list[str] = []
    if is_beginning and data.startswith(_BOM):
        data = data.removeprefix(_BOM)
        notes.append("a byte order mark at the beginning is not shown")
    if b"\r\n" in data:
        data = data.replace(b"\r\n", b"\n")
        notes.append("lines end with CRLF")
    text, replaced = _decoded(data)
    if replaced:
        notes.append("bytes that are not UTF-8 are shown as \ufffd")
    return Text(text, tuple(notes), replaced)


def _decoded(data: bytes) -> tuple[str, bool]:
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        return data.decode("utf-8", "replace").replace("\0", "\ufffd"), True
    # Transcripts are kept in databases that refuse NUL.
    return text.replace("\0", "\ufffd"), "\0" in text
