"""MIME type detection by the first bytes of a file, then by its name. Pure."""

import mimetypes
from functools import cache

SNIFF_BYTES = 512
"""The number of leading bytes that are examined."""

BINARY, TEXT = "application/octet-stream", "text/plain"

_MAGIC: tuple[tuple[int, bytes, str], ...] = (
    (0, b"\x89PNG\r\n\x1a\n", "image/png"),
    (0, b"\xff\xd8\xff", "image/jpeg"),
    (0, b"GIF87a", "image/gif"),
    (0, b"GIF89a", "image/gif"),
    (8, b"WEBP", "image/webp"),
    (8, b"WAVE", "audio/wav"),
    (4, b"ftypavif", "image/avif"),
    (4, b"ftyp", "video/mp4"),
    (0, b"BM", "image/bmp"),
    (0, b"II*\0", "image/tiff"),
    (0, b"MM\0*", "image/tiff"),
    (0, b"%PDF-", "application/pdf"),
    (0, b"\x1f\x8b", "application/gzip"),
    (0, b"BZh", "application/x-bzip2"),
    (0, b"\xfd7zXZ\0", "application/x-xz"),
    (0, b"\x28\xb5\x2f\xfd", "application/zstd"),
    (0, b"7z\xbc\xaf\x27\x1c", "application/x-7z-compressed"),
    (0, b"SQLite format 3\0", "application/vnd.sqlite3"),
    (0, b"\x7fELF", "application/x-executable"),
    (0, b"OggS", "audio/ogg"),
    (0, b"ID3", "audio/mpeg"),
    (0, b"fLaC", "audio/flac"),
    (0, b"wOF2", "font/woff2"),
    (0, b"PAR1", "application/vnd.apache.parquet"),
)
_ZIP = (b"PK\x03\x04", b"PK\x05\x06")
_RIFF = frozenset({"image/webp", "audio/wav"})
# Besides those that Python knows, and where its versions differ.
_BY_ENDING = {
    ".docx": "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
    ".ipynb": "application/x-ipynb+json",
    ".jar": "application/java-archive",
    ".js": "text/javascript",
    ".jsonl": "application/jsonl",
    ".log": "text/plain",
    ".md": "text/markdown",
    ".odt": "application/vnd.oasis.opendocument.text",
    ".pptx": "application/vnd.openxmlformats-officedocument.presentationml.presentation",
    ".toml": "application/toml",
    ".ts": "text/x-typescript",
    ".whl": "application/zip",
    ".xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
    ".xml": "application/xml",
    ".yaml": "application/yaml",
    ".yml": "application/yaml",
}
_TEXTUAL = ("text/", "application/json", "application/xml", "application/yaml", "application/toml", "image/svg+xml")


def detect_mime_type(path: str, head: bytes) -> str:
    """The MIME type of a file with this name and these first bytes.

    Content takes precedence over the name: a PNG is detected under any name, and a `.txt` file with binary content is
    `application/octet-stream`.
    """
    found = _detect_by_content(head[:SNIFF_BYTES])
    if found == "application/zip":
        by_name = _detect_by_name(path)
        return by_name if by_name and not by_name.startswith(_TEXTUAL) else found
    if found:
        return found
    by_name = _detect_by_name(path)
    if is_text(head[:SNIFF_BYTES], cut=len(head) >= SNIFF_BYTES):
        # Text under the name of something binary (a `.png` with an error message in it) is text.
        return by_name if by_name and (_is_textual(by_name) or not head) else TEXT
    return by_name if by_name and not _is_textual(by_name) else BINARY


def is_text(data: bytes, *, cut: bool = False) -> bool:
    """Whether bytes are UTF-8 without NUL; with `cut` the last character may be incomplete."""
    if b"\0" in data:
        return False
    try:
        data.decode("utf-8")
    except UnicodeDecodeError as error:
        return cut and error.reason == "unexpected end of data" and len(data) - error.start < 4
    return True


def _detect_by_content(head: bytes) -> str | None:
    if head.startswith(_ZIP):
        return "application/zip"
    for offset, magic, name in _MAGIC:
        if head.startswith(magic, offset) and (name not in _RIFF or head.startswith(b"RIFF")):
            # Two letters are not enough: text can begin with them.
            return None if len(magic) < 3 and is_text(head, cut=True) else name
    return None


def _detect_by_name(path: str) -> str | None:
    _, dot, ending = path.rpartition("/")[2].rpartition(".")
    if not dot:
        return None
    return (
        _BY_ENDING.get(f".{ending.lower()}") or _load_standard_types().guess_type(f"x.{ending.lower()}", strict=True)[0]
    )


@cache
def _load_standard_types() -> mimetypes.MimeTypes:
    # Python's own table, without the files of this machine: the same result everywhere.
    return mimetypes.MimeTypes(filenames=())


def _is_textual(name: str) -> bool:
    return name.startswith(_TEXTUAL) or name.endswith(("+json", "+xml", "/x-sh", "/javascript", "/sql", "/jsonl"))
