#!/usr/bin/env python3
"""Count, sort, deduplicate, replace in and convert text files. Originals stay as they are, unless you say --in-place.

Exit status: 0 done, 1 replace found nothing, 2 wrong argument, unreadable file, 3 the file is not text in its encoding.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict
from pathlib import Path

# The parts lie beside this file, and the folder of a skill stays as it is.
sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parent))

from texts.figures import figures  # noqa: E402
from texts.files import Fault, encoded, plain_output, put, read, write  # noqa: E402
from texts.lines import ENDS, Order, bare, counted, in_order, joined, once, usual_end, with_ends  # noqa: E402
from texts.replacing import pattern_of, preview, replaced  # noqa: E402

EXAMPLES = """examples:
  text.py count notes.txt essay.txt
  text.py sort names.txt --ignore-case --output sorted.txt
  text.py sort table.txt --column 2 --delimiter "," --numeric --reverse
  text.py unique hosts.txt --count                              each line once, the most frequent first
  text.py replace notes.txt --find colour --with color          shows what would change, writes nothing
  text.py replace notes.txt --find colour --with color --output new.txt
  text.py replace notes.txt --regex --find "(\\w+)@old\\.org" --with "\\1@new.org" --in-place
  text.py convert old.txt --from gb18030 --to utf-8 --line-ends lf --output new.txt

`text.py COMMAND --help` has the options of one command. UTF-8 and encodings with a mark (BOM) are found; others are
named with --from. A bare name of --output lies in $OUTPUT_DIR, where that is set.
"""


def count(options: argparse.Namespace) -> int:
    found: list[dict[str, str | int]] = []
    worst = 0
    for path in options.files:
        try:
            found.append(asdict(figures(path, options.source)))
        except Fault as fault:
            print(f"error: {fault}", file=sys.stderr)
            worst = max(worst, fault.status)
    if options.json:
        print(json.dumps(found, indent=2))
        return worst
    for one in found:
        shown = ((name, f"{value:,}" if isinstance(value, int) else value) for name, value in one.items())
        print(*(f"{name:13} {value}" for name, value in shown), sep="\n", end="\n\n")
    return worst


def sort(options: argparse.Namespace) -> int:
    text, encoding = read(options.file, options.source)
    order = Order(options.column, options.delimiter, options.numeric, options.ignore_case)
    lines = in_order(bare(text), order, reverse=options.reverse)
    if options.unique:
        lines = once(lines, Order(ignore_case=options.ignore_case), "all")
    return finish(joined(lines, usual_end(text)), encoding, options)


def unique(options: argparse.Namespace) -> int:
    text, encoding = read(options.file, options.source)
    order = Order(options.column, options.delimiter, ignore_case=options.ignore_case)
    lines = (counted if options.count else once)(bare(text), order, options.only)
    return finish(joined(lines, usual_end(text)), encoding, options)


def replace(options: argparse.Namespace) -> int:
    flags = {"regex": options.regex, "ignore_case": options.ignore_case, "whole_word": options.whole_word}
    text, encoding = read(options.file, options.source)
    pattern = pattern_of(options.find, **flags)
    change = replaced(text, pattern, options.new, regex=options.regex, seconds=options.timeout)
    if not change.count:
        print(f"{options.find!a} is not in {options.file}", file=sys.stderr)
        return 1
    said = f"{change.count:,} replacements in {options.file}"
    if options.in_place:
        put(encoded(change.text, encoding, options.file), options.file, "--in-place")
    elif options.output is not None:
        write(encoded(change.text, encoding, options.file), options.output, options.file)
        said += f", written to {options.output}"
    else:
        print(preview(text, change.text, str(options.file)), end="")
        said += "; nothing was written: say --output FILE or --in-place"
    print(said)
    return 0


def convert(options: argparse.Namespace) -> int:
    text, encoding = read(options.file, options.source)
    if options.line_ends:
        text = with_ends(text, ENDS[options.line_ends])
    return finish(text.removeprefix("\ufeff"), options.to or encoding, options)


def finish(text: str, encoding: str, options: argparse.Namespace) -> int:
    write(encoded(text, encoding, options.file), options.output, options.file)
    return 0


def positive(text: str) -> int:
    if not text.isdecimal() or len(text) > 6 or not int(text):
        raise argparse.ArgumentTypeError(f"{text!r} is not a positive number")
    return int(text)


class Commands:
    """The command line: one sub-parser for each function above."""

    def __init__(self) -> None:
        shape = argparse.RawDescriptionHelpFormatter
        self.parser = argparse.ArgumentParser(description=__doc__, epilog=EXAMPLES, formatter_class=shape)
        self.added = self.parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    def add(self, name: str, said: str, *, many: bool = False) -> argparse.ArgumentParser:
        made = self.added.add_parser(name, help=said, description=f"{name}: {said}.")
        made.set_defaults(run=globals()[name])
        made.add_argument("--from", dest="source", metavar="ENCODING", help="of the file (default: found by itself)")
        if many:
            made.add_argument("files", nargs="+", type=Path, metavar="FILE")
        else:
            made.add_argument("file", type=Path)
            made.add_argument("--output", type=Path, metavar="FILE", help="where to write")
        return made


def add_lines(commands: Commands) -> None:
    sorting = commands.add("sort", "the lines in order")
    sorting.add_argument("--numeric", action="store_true", help="by the first number; lines without one come last")
    sorting.add_argument("--reverse", action="store_true", help="the largest first")
    sorting.add_argument("--unique", action="store_true", help="each line once")
    once_each = commands.add("unique", "each line once, where it stood first")
    once_each.add_argument("--count", action="store_true", help="before each line how often it is there, then a tab")
    once_each.add_argument("--only", choices=("all", "repeated", "single"), default="all", help="(default: all)")
    for parser in (sorting, once_each):
        parser.add_argument("--column", type=positive, metavar="N", help="compare only this column, from 1")
        parser.add_argument("--delimiter", metavar="C", help="between columns (default: blanks)")
        parser.add_argument("--ignore-case", action="store_true")


def add_changes(commands: Commands) -> tuple[argparse.ArgumentParser, argparse.ArgumentParser]:
    replacing = commands.add("replace", "find and replace; without --output or --in-place only a preview")
    replacing.add_argument("--find", required=True, metavar="TEXT")
    replacing.add_argument("--with", dest="new", required=True, metavar="TEXT", help="may be empty")
    replacing.add_argument("--regex", action="store_true", help="TEXT is a regular expression of Python")
    replacing.add_argument("--ignore-case", action="store_true")
    replacing.add_argument("--whole-word", action="store_true", help="not inside of longer words")
    replacing.add_argument("--in-place", action="store_true", help="change the file itself")
    replacing.add_argument("--timeout", type=positive, default=10, metavar="SECONDS", help="(default: 10)")
    converting = commands.add("convert", "another encoding, other line ends")
    converting.add_argument("--to", metavar="ENCODING", help="such as utf-8, utf-8-sig (with a mark), gb18030")
    converting.add_argument("--line-ends", choices=tuple(ENDS), help="(default: as they are)")
    return replacing, converting


def arguments() -> argparse.Namespace:
    commands = Commands()
    counting = commands.add("count", "lines, words, characters, encoding and line ends of files", many=True)
    counting.add_argument("--json", action="store_true", help="print a JSON list")
    add_lines(commands)
    replacing, converting = add_changes(commands)
    options = commands.parser.parse_args()
    if options.command == "replace" and options.in_place and options.output is not None:
        replacing.error("argument --output: not allowed with argument --in-place")
    if options.command == "convert" and options.to is None and options.line_ends is None:
        converting.error("one of the arguments --to --line-ends is required")
    if getattr(options, "delimiter", None) == "":
        commands.parser.error("argument --delimiter: expected at least one character")
    return options


def main() -> int:
    options = arguments()
    plain_output()
    try:
        return options.run(options)
    except Fault as fault:
        print(f"error: {fault}", file=sys.stderr)
        return fault.status


if __name__ == "__main__":
    sys.exit(main())
