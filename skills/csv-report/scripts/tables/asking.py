"""What both programs are told on the command line, and where their results go."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from tables.reading import Fault


def parser_for(doc: str, examples: str) -> argparse.ArgumentParser:
    """A parser with what both programs understand."""
    shape = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=doc, epilog=examples, formatter_class=shape)
    parser.add_argument("table", type=Path, help="the CSV or TSV file; its first line has the names of the columns")
    parser.add_argument("--delimiter", type=delimiter, metavar="C", help="between the cells (default: found by itself)")
    parser.add_argument("--encoding", help="of the file (default: UTF-8, or UTF-16 with its mark)")
    return parser


def delimiter(text: str) -> str:
    """One character that can stand between cells; `tab` and `\\t` are the tab."""
    text = {"tab": "\t", "\\t": "\t"}.get(text, text)
    if len(text) != 1 or text in '\r\n"':
        raise argparse.ArgumentTypeError("expected one character, no quote and no end of a line")
    return text


def number_of(text: str) -> int:
    """A positive number."""
    if not text.isdecimal() or not 0 < len(text) < 10 or not int(text):
        raise argparse.ArgumentTypeError(f"{text!r} is not a positive number")
    return int(text)


def write(text: str, output: Path | None) -> None:
    """Into a file, or to standard output. A bare name lies in $OUTPUT_DIR, where that is set.

    Where skills are run in a workspace, their own folder cannot be written.
    """
    if output is None:
        sys.stdout.buffer.write(text.encode("utf-8", "replace"))
        return
    folder = os.environ.get("OUTPUT_DIR")
    target = Path(folder, output) if folder and output.parent == Path() else output
    try:
        target.write_bytes(text.encode("utf-8", "replace"))
    except OSError as error:
        raise Fault(2, f"--output: cannot write {target}: {error.strerror or error}") from None
