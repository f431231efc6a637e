#!/usr/bin/env python3
"""Print the text of PDF files, page by page. Needs the package pypdf (see requirements.txt).

Exit status: 0 done, 1 there is no text (scanned pages), 2 wrong argument or unreadable file,
3 no PDF, damaged or encrypted, 4 the package pypdf is not installed.
"""

from __future__ import annotations

import argparse
import importlib
import json
import logging
import os
import re
import signal
import sys
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from types import FrameType
from typing import Any

EXAMPLES = """examples:
  pdf_text.py paper.pdf                                 all pages, each after a line with its number
  pdf_text.py paper.pdf --pages 1-3,7 --output paper.txt
  pdf_text.py a.pdf b.pdf --json                        a list of {file, page, pages, text}
  pdf_text.py table.pdf --layout                        blanks keep columns apart as on the page
  pdf_text.py locked.pdf --password-env PDF_PASSWORD    the password is in this variable

A bare name of --output lies in $OUTPUT_DIR, where that is set.
"""
MISSING = (
    "the Python package 'pypdf' is not installed for {python}. Install it with `python3 -m pip install -r "
    "requirements.txt` in the folder of this skill; OpenSkill does it for `openskills run pdf-text --install always "
    "-- ...`"
)
MAX_BYTES = 256 * 1024 * 1024
MAX_PAGES = 5_000
MAX_PAGE = 1_000_000
"""Characters of one page."""

# What a library raises about a file that somebody has broken, by accident or not.
BROKEN = (ArithmeticError, AttributeError, LookupError, MemoryError, RuntimeError, TypeError, ValueError, OSError)

_RANGE = re.compile(r"([0-9]{1,6})?(-)?([0-9]{1,6})?")


class Fault(Exception):
    """What keeps text from being found, in one line, with the exit status that says so."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


@dataclass(frozen=True)
class Wanted:
    """What somebody asks for, of every file."""

    pages: str | None
    layout: bool
    password: str | None
    seconds: int


@dataclass(frozen=True)
class Page:
    """The text of one page; what went wrong, when it could not be read."""

    file: str
    page: int
    pages: int
    text: str
    problem: str = ""


def library() -> Any:
    """pypdf, without its warnings about what it repairs."""
    try:
        found = importlib.import_module("pypdf")
    except ImportError:
        raise Fault(4, MISSING.format(python=sys.executable or "python3")) from None
    logging.getLogger("pypdf").setLevel(logging.CRITICAL)
    return found


@contextmanager
def limited(seconds: int) -> Generator[None]:
    """Raise TimeoutError when it takes longer, again and again: the library catches much. Some files never end."""

    def stop(_signal: int, _frame: FrameType | None) -> None:
        raise TimeoutError(f"it takes longer than {seconds} seconds (--timeout)")

    if not hasattr(signal, "setitimer"):
        yield
        return
    signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds, 0.5)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def reader_of(pypdf: Any, path: Path, wanted: Wanted) -> Any:
    """Open the file. Raises `Fault` if it is not a PDF file or cannot be decrypted."""
    check_file(path)
    try:
        with limited(wanted.seconds):
            reader = pypdf.PdfReader(str(path))
            locked = reader.is_encrypted and not reader.decrypt(wanted.password or "")
            pages = 0 if locked else len(reader.pages)
    except pypdf.errors.DependencyError:
        raise Fault(3, f"{path} is encrypted with AES; install the package 'cryptography' as well") from None
    except (pypdf.errors.PyPdfError, *BROKEN) as error:
        raise Fault(3, f"{path} is damaged: {said_of(error)}") from None
    if locked:
        hint = "say --password-env with the variable that has the password"
        raise Fault(3, f"{path} is encrypted; {hint if wanted.password is None else 'the password is wrong'}")
    if pages > MAX_PAGES:
        raise Fault(2, f"{path} has {pages:,} pages, more than {MAX_PAGES:,}")
    return reader


def check_file(path: Path) -> None:
    try:
        size = path.stat().st_size
        with path.open("rb") as file:
            start = file.read(1024)
    except OSError as error:
        raise Fault(2, f"cannot read {path}: {error.strerror or error}") from None
    if size > MAX_BYTES:
        raise Fault(2, f"{path} has {size:,} bytes, more than {MAX_BYTES:,}")
    if b"%PDF-" not in start:
        raise Fault(3, f"{path} is not a PDF file: it does not begin with %PDF-")


def said_of(error: BaseException) -> str:
    return (" ".join(str(error).split()) or type(error).__name__)[:200]


def read(pypdf: Any, path: Path, wanted: Wanted) -> Iterator[Page]:
    """The wanted pages, in their order in the file. A page that is broken does not hide the others."""
    reader = reader_of(pypdf, path, wanted)
    count = len(reader.pages)
    mode = "layout" if wanted.layout else "plain"
    for number in chosen(wanted.pages, count, path):
        text, problem = "", ""
        try:
            with limited(wanted.seconds):
                found = reader.pages[number - 1].extract_text(extraction_mode=mode) or ""
            text = found[:MAX_PAGE].encode("utf-8", "replace").decode()
            if len(found) > MAX_PAGE:
                problem = f"only the first {MAX_PAGE:,} characters"
        except (pypdf.errors.PyPdfError, *BROKEN) as error:
            problem = f"cannot be read: {said_of(error)}"
        yield Page(str(path), number, count, text, problem)


def chosen(wanted: str | None, count: int, path: Path) -> list[int]:
    """`1-3,7` as numbers of pages; `5-` is all from the fifth."""
    if wanted is None:
        return list(range(1, count + 1))
    found: set[int] = set()
    for part in wanted.split(","):
        match = _RANGE.fullmatch(part.strip())
        if not match or not (match[1] or match[3]):
            raise Fault(2, f"--pages: invalid page {part.strip()!r}; use 3, 1-5, 7- or several with commas")
        first = int(match[1] or 1)
        last = int(match[3] or count) if match[2] else first
        if not 1 <= first <= last or last > count:
            raise Fault(2, f"--pages: {part.strip()!r}: {path} has the pages 1 to {count}")
        found.update(range(first, last + 1))
    return sorted(found)


def rendered(pages: list[Page]) -> str:
    parts: list[str] = []
    for one in pages:
        parts.append(f"--- {one.file}, page {one.page} of {one.pages} ---")
        if one.problem:
            parts.append(f"[this page: {one.problem}]")
        elif not one.text.strip():
            parts.append("[no text on this page: it is empty, or a picture that needs OCR]")
        parts += [one.text.rstrip(), ""]
    return "\n".join(parts)


def write(text: str, output: Path | None) -> None:
    """A bare name lies in $OUTPUT_DIR: where skills are run in a workspace, their own folder cannot be written."""
    data = text.encode("utf-8", "replace")
    if output is None:
        sys.stdout.buffer.write(data)
        return
    folder = os.environ.get("OUTPUT_DIR")
    target = Path(folder, output) if folder and output.parent == Path() else output
    try:
        target.write_bytes(data)
    except OSError as error:
        raise Fault(2, f"--output: cannot write {target}: {error.strerror or error}") from None


def password_in(name: str | None) -> str | None:
    if name is not None and name not in os.environ:
        raise Fault(2, f"--password-env: the variable {name} is not set")
    return os.environ[name] if name is not None else None


def seconds(text: str) -> int:
    if not text.isdecimal() or not 0 < int(text[:5]) <= 3600:
        raise argparse.ArgumentTypeError(f"{text!r} is not between 1 and 3600")
    return int(text)


def arguments() -> argparse.Namespace:
    shape = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, epilog=EXAMPLES, formatter_class=shape)
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE")
    parser.add_argument("--pages", metavar="LIST", help="such as 1-3,7 or 5- (default: all)")
    parser.add_argument("--layout", action="store_true", help="keep the places of words on the page")
    parser.add_argument("--password-env", metavar="NAME", help="the variable with the password")
    parser.add_argument("--timeout", type=seconds, default=20, metavar="SECONDS", help="for one page (default: 20)")
    parser.add_argument("--json", action="store_true", help="write a JSON list of pages")
    parser.add_argument("--output", type=Path, metavar="FILE", help="where to write (default: standard output)")
    return parser.parse_args()


def main() -> int:
    options = arguments()
    try:
        pypdf = library()
        wanted = Wanted(options.pages, options.layout, password_in(options.password_env), options.timeout)
        pages = [page for path in options.files for page in read(pypdf, path, wanted)]
        as_json = json.dumps([asdict(page) for page in pages], ensure_ascii=False, indent=2) + "\n"
        write(as_json if options.json else rendered(pages), options.output)
    except Fault as fault:
        print(f"error: {fault}", file=sys.stderr)
        return fault.status
    with_text = sum(bool(page.text.strip()) for page in pages)
    characters = sum(len(page.text) for page in pages)
    print(f"{with_text} of {len(pages)} pages have text, {characters:,} characters", file=sys.stderr)
    return 0 if with_text else 1


if __name__ == "__main__":
    sys.exit(main())
