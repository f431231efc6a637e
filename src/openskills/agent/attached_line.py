"""The line of a message that lists its attached files: formatting and parsing.

    [attached: sales.csv, sales_2.csv (north/sales.csv); commands find the user's files in work/inputs/]

Each file has the name that commands see, followed by the user's name if it differs. Ambiguous names are quoted.
"""

import json
import re
from collections.abc import Sequence

from openskills.paths import to_printable

_LINE = re.compile(r"^\[attached: (?P<files>[^\n]+); commands find [^\n]*\]\Z", re.MULTILINE)
_PLAIN = re.compile(r"[^\s,;:()\[\]\"\\](?:[^,;:()\[\]\"\n]*[^\s,;:()\[\]\"])?")
_ONE = re.compile(r"""(?P<file>"(?:[^"\\]|\\.)*"|[^,"()]+?)(?:[ ]\((?:"(?:[^"\\]|\\.)*"|[^"()]*)\))?(?:,[ ]|\Z)""")
_MAX_NAME_CHARS = 120


def add_files_line(text: str, files: Sequence[tuple[str, str]]) -> str:
    """The message with a line about its files: each as it is found, and as the user calls it."""
    if not files:
        return text
    told = ", ".join(_describe_file(found, called) for found, called in files)
    return f"{text}\n\n[attached: {told}; commands find the user's files in work/inputs/]"


def split_files_line(text: str) -> tuple[str, tuple[str, ...]]:
    """A message without the line about its files, and the files as they are found; any text is taken."""
    text = text.strip()
    line = _LINE.search(text)
    if line is None:
        return text, ()
    names = [_unquote_name(one["file"]) for one in _ONE.finditer(line["files"])]
    return text[: line.start()].strip(), tuple(dict.fromkeys(name for name in names if name and "/" not in name))


def _describe_file(found: str, called: str) -> str:
    shown = to_printable(called)
    if shown == found:
        return _quote_name(found)
    original = shown if len(shown) <= _MAX_NAME_CHARS else f"…{shown[-_MAX_NAME_CHARS:]}"
    return f"{_quote_name(found)} ({_quote_name(original)})"


def _quote_name(name: str) -> str:
    return name if _PLAIN.fullmatch(name) else json.dumps(name, ensure_ascii=False)


def _unquote_name(written: str) -> str:
    written = written.strip()
    if not written.startswith('"'):
        return written
    try:
        return str(json.loads(written))
    except ValueError:
        return ""
