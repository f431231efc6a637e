"""A file in a message, as somebody's chat format writes it down. Pure."""

import base64
import binascii
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import cast
from urllib.parse import unquote_to_bytes

_TYPES = ("file", "input_file")
_NAMES = ("filename", "name")
_CONTENTS = ("file_data", "data", "base64")
_IDS = ("file_id", "file_url")
_BLANKS = re.compile(r"\s+")
_URL_SAFE = str.maketrans("-_", "+/")


@dataclass(frozen=True, slots=True)
class FilePart:
    """What a part says: its content as bytes, or as text that has to be decoded; or an id by which it can be had."""

    name: str = ""
    content: bytes | str = field(default=b"", repr=False)
    file_id: str = ""
    mime_type: str = ""

    @property
    def fingerprint(self) -> tuple[str, str, str, int, int]:
        """The same for equal parts. Texts and bytes remember their hash, so the second time costs nothing."""
        return self.name, self.mime_type, self.file_id, len(self.content), hash(self.content)


def file_part(part: object) -> FilePart | None:
    """The file in a part of a message, not decoded; None when it is something else.

    Understood are `{"type": "file", "file": {"filename", "file_data", "file_id"}}`, `input_file` with the same fields
    beside the type, and `name`, `data`, `base64`, `file_url` and `mime_type` in either.
    """
    if not isinstance(part, Mapping):
        return None
    given = cast("Mapping[str, object]", part)
    if given.get("type") not in _TYPES:
        return None
    inner = given.get("file")
    fields = cast("Mapping[str, object]", inner) if isinstance(inner, Mapping) else given
    content = next((one for key in _CONTENTS if isinstance(one := fields.get(key), bytes | str) and one), b"")
    return FilePart(_text(fields, *_NAMES), content, _text(fields, *_IDS), _text(fields, "mime_type"))


def decoded(content: bytes | str) -> tuple[bytes, str] | None:
    """Bytes, and the MIME type that a data URL says; None for text that is neither a data URL nor base64."""
    if isinstance(content, bytes):
        return content, ""
    if content[:5].lower() != "data:":
        data = _from_base64(content)
        return None if data is None else (data, "")
    head, _, rest = content.partition(",")
    mime_type, *parameters = head[5:].split(";")
    data = _from_base64(rest) if "base64" in map(str.lower, parameters) else _unquoted(rest)
    return None if data is None else (data, mime_type.strip())


def size_at_least(content: bytes | str) -> int:
    """A number of bytes that a content certainly has when it is decoded; costs nothing."""
    # In a data URL, three characters are one byte at worst.
    return len(content) if isinstance(content, bytes) else len(content) // 3 - 1024


def _from_base64(text: str) -> bytes | None:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        # Wrapped in lines, in the alphabet for URLs, or without its padding: all of these are written.
        mended = _BLANKS.sub("", text).translate(_URL_SAFE).rstrip("=")
    try:
        return base64.b64decode(mended + "=" * (-len(mended) % 4), validate=True)
    except (binascii.Error, ValueError):
        return None


def _unquoted(text: str) -> bytes | None:
    return unquote_to_bytes(text) if text.isascii() else None


def _text(fields: Mapping[str, object], *names: str) -> str:
    return next((one for name in names if isinstance(one := fields.get(name), str) and one), "")
