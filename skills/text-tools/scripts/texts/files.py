"""Files as text: read with the right encoding or not at all, written whole or not at all."""

from __future__ import annotations

import os
import signal
import sys
import tempfile
import unicodedata
from pathlib import Path
from typing import Any

MAX_BYTES = 32 * 1024 * 1024
MARKS = (
    (b"\xef\xbb\xbf", "utf-8-sig"),
    (b"\xff\xfe\0\0", "utf-32"),
    (b"\0\0\xfe\xff", "utf-32"),
    (b"\xff\xfe", "utf-16"),
    (b"\xfe\xff", "utf-16"),
)
OFTEN = ("gb18030", "big5", "shift_jis", "euc_kr", "cp1252")
"""Encodings that text often has which is not UTF-8."""

LOOKED_AT = 400


class Fault(Exception):
    """What keeps the work from being done, in one line, with the exit status that says so."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


def read(path: Path, encoding: str | None) -> tuple[str, str]:
    """The text of a file, line ends as they are, and its encoding: as told, by its first bytes, or UTF-8."""
    data = read_bytes(path)
    named = encoding or next((name for mark, name in MARKS if data.startswith(mark)), None)
    if named is None and b"\0" in data:
        raise Fault(3, f"{path} is binary (a NUL byte at {data.index(0)}); if it is text, say --from utf-16-le or such")
    named = named or "utf-8"
    try:
        return data.decode(named), named
    except LookupError:
        raise Fault(2, f"--from: unknown text encoding {encoding!r}") from None
    except UnicodeError as error:
        place = getattr(error, "start", 0)
        raise Fault(3, f"{path} is not {named} (byte {place}); {likely(data, place)}") from None


def read_bytes(path: Path) -> bytes:
    """All of a file that is not too large."""
    try:
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise Fault(2, f"cannot read {path}: {error.strerror or error}") from None
    if len(data) > MAX_BYTES:
        raise Fault(2, f"{path} has more than {MAX_BYTES:,} bytes; cut it with parts.py split first")
    return data


def likely(data: bytes, place: int) -> str:
    """What the line around a byte would say in other encodings, so that somebody can choose."""
    start = data.rfind(b"\n", 0, place) + 1
    line = data[start : start + LOOKED_AT].split(b"\n")[0]
    tries = [f"{name} {text.strip()[:30]!r}" for name in OFTEN if (text := attempted(line, name))]
    return f"say --from NAME; that line could be {', '.join(tries)}" if tries else "it may be binary"


def attempted(line: bytes, encoding: str) -> str | None:
    # The last character may have been cut in two.
    for cut in range(4 if len(line) == LOOKED_AT else 1):
        try:
            return line[: len(line) - cut].decode(encoding)
        except UnicodeError:
            continue
    return None


def encoded(text: str, encoding: str, path: Path) -> bytes:
    """The bytes of a text. Says which character, on which line, the encoding does not have."""
    try:
        return text.encode(encoding)
    except LookupError:
        raise Fault(2, f"--to: unknown text encoding {encoding!r}") from None
    except UnicodeEncodeError as error:
        sign, line = text[error.start], text.count("\n", 0, error.start) + 1
        name = unicodedata.name(sign, f"U+{ord(sign):04X}")
        raise Fault(3, f"{path}, line {line}: {encoding} has no {sign!a} ({name})") from None
    except UnicodeError as error:
        raise Fault(3, f"{path} cannot be written as {encoding}: {error}") from None


def plain_output() -> None:
    """Print UTF-8 and names of files as they are, and end quietly when nobody reads on."""
    out: Any = sys.stdout
    out.reconfigure(encoding="utf-8", errors="surrogateescape")
    if hasattr(signal, "SIGPIPE"):
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)


def placed(output: Path) -> Path:
    """A bare name lies in $OUTPUT_DIR: where skills are run in a workspace, their own folder cannot be written."""
    folder = os.environ.get("OUTPUT_DIR")
    return Path(folder, output) if folder and output.parent == Path() else output


def write(data: bytes, output: Path | None, source: Path) -> None:
    """To standard output, or into a file that is not the source."""
    if output is None:
        sys.stdout.buffer.write(data)
        return
    target = placed(output)
    if target.exists() and target.samefile(source):
        raise Fault(2, f"--output: {output} is the original; give another name")
    put(data, target, "--output")


def put(data: bytes, target: Path, option: str) -> None:
    """Write a file atomically: readers see the old or the new content. A link stays a link."""
    real = Path(os.path.realpath(target))
    try:
        mode = real.stat().st_mode & 0o777 if real.exists() else 0o644
        with tempfile.NamedTemporaryFile(dir=real.parent, prefix=".writing-", delete=False) as file:
            file.write(data)
        os.chmod(file.name, mode)
        os.replace(file.name, real)
    except OSError as error:
        raise Fault(2, f"{option}: cannot write {target}: {error.strerror or error}") from None
