#!/usr/bin/env python3
"""Cut a file of any kind into parts, and put parts together again, byte by byte, with a digest of the whole.

Exit status: 0 done, 2 wrong argument or unreadable file, 3 the parts are not those of the digest.
"""

from __future__ import annotations

import argparse
import hashlib
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

# The parts lie beside this file, and the folder of a skill stays as it is.
sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parent))

from texts.files import Fault, placed, plain_output  # noqa: E402

EXAMPLES = """examples:
  parts.py split big.log --lines 10000                  big.log.001, big.log.002, ... in $OUTPUT_DIR or this folder
  parts.py split video.mp4 --bytes 10M --output pieces  into the folder `pieces`
  parts.py join pieces/video.mp4.* --output video.mp4
  parts.py join pieces/video.mp4.* --output video.mp4 --sha256 9f86d0...    checks what came out

A bare name of --output lies in $OUTPUT_DIR, where that is set. Files that exist are not overwritten.
"""
CHUNK = 1024 * 1024
MAX_PARTS = 999
UNITS = {"": 1, "K": 1024, "M": 1024**2, "G": 1024**3}


def by_bytes(file: BinaryIO, most: int) -> Iterator[Iterator[bytes]]:
    """The parts of a file, each as chunks; a part has to be used up before the next."""
    while first := file.read(min(CHUNK, most)):

        def part(chunk: bytes) -> Iterator[bytes]:
            left = most
            while chunk:
                yield chunk
                left -= len(chunk)
                chunk = file.read(min(CHUNK, left)) if left else b""

        yield part(first)


def by_lines(file: BinaryIO, most: int) -> Iterator[Iterator[bytes]]:
    """The same, each with whole lines."""
    while first := file.readline(CHUNK):

        def part(chunk: bytes) -> Iterator[bytes]:
            left = most
            while chunk:
                yield chunk
                left -= chunk.endswith(b"\n")
                chunk = file.readline(CHUNK) if left else b""

        yield part(first)


def split(options: argparse.Namespace) -> int:
    folder = placed(options.output) if options.output else placed(Path("part")).parent
    folder.mkdir(parents=True, exist_ok=True)
    whole = hashlib.sha256()
    with options.file.open("rb") as file:
        parts = by_lines(file, options.lines) if options.lines else by_bytes(file, options.bytes)
        number = 0
        for number, part in enumerate(parts, 1):
            if number > MAX_PARTS:
                raise Fault(2, f"--lines, --bytes: more than {MAX_PARTS} parts; make them larger")
            target = folder / f"{options.file.name}.{number:03d}"
            size = 0
            with target.open("xb") as out:
                for chunk in part:
                    whole.update(chunk)
                    size += out.write(chunk)
            print(f"{target}  {size:,} bytes")
    print(f"{number} parts; sha256 of the whole: {whole.hexdigest()}")
    return 0


def join(options: argparse.Namespace) -> int:
    target = placed(options.output)
    with target.open("xb") as out:
        try:
            size, digest = poured(options.files, out)
            expect(options.sha256, digest)
        except (OSError, Fault):
            # What is not whole is not left behind.
            target.unlink()
            raise
    print(f"{target}  {size:,} bytes; sha256: {digest}")
    return 0


def expect(wanted: str | None, digest: str) -> None:
    if wanted and wanted.lower() != digest:
        raise Fault(3, "--sha256: these parts make another file; one is missing, changed or in the wrong place")


def poured(parts: list[Path], out: BinaryIO) -> tuple[int, str]:
    """Write parts one after the other; the size and the digest of the whole."""
    whole, size = hashlib.sha256(), 0
    for path in parts:
        with path.open("rb") as file:
            while chunk := file.read(CHUNK):
                whole.update(chunk)
                size += out.write(chunk)
    return size, whole.hexdigest()


def amount(text: str) -> int:
    found = re.fullmatch(r"([0-9]{1,12})([KMG]?)B?", text.upper())
    if not found or not int(found[1]):
        raise argparse.ArgumentTypeError(f"invalid size {text!r}; use 1000, 500K, 10M or 1G")
    return int(found[1]) * UNITS[found[2]]


def main() -> int:
    shape = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, epilog=EXAMPLES, formatter_class=shape)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    splitting = commands.add_parser("split", help="cut a file into parts", description="Cut a file into parts.")
    splitting.add_argument("file", type=Path)
    size = splitting.add_mutually_exclusive_group(required=True)
    size.add_argument("--lines", type=amount, metavar="N", help="of each part")
    size.add_argument("--bytes", type=amount, metavar="N", help="of each part, such as 500K or 10M")
    splitting.add_argument("--output", type=Path, metavar="FOLDER", help="where the parts go")
    splitting.set_defaults(run=split)
    joining = commands.add_parser("join", help="put parts together", description="Put parts together, in this order.")
    joining.add_argument("files", nargs="+", type=Path, metavar="PART")
    joining.add_argument("--output", type=Path, required=True, metavar="FILE")
    joining.add_argument("--sha256", metavar="DIGEST", help="what split printed; says whether the whole is the same")
    joining.set_defaults(run=join)
    options = parser.parse_args()
    plain_output()
    try:
        return options.run(options)
    except Fault as fault:
        print(f"error: {fault}", file=sys.stderr)
        return fault.status
    except OSError as error:
        hint = "; remove it or give another name" if isinstance(error, FileExistsError) else ""
        print(f"error: {error.filename}: {error.strerror or error}{hint}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
