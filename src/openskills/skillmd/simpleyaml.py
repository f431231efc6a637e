"""Front matter of the plainest kind, read without a YAML parser.

Most skills have one `key: value` per line and perhaps one level of indented pairs under `metadata`. Reading those with
one regular expression is several times faster and spares a process the import of the parser. Whatever is not
certainly of that kind is left to `yamltree`; a property test holds the two to the same answers.
"""

import re

from openskills.skillmd.limits import MAX_KEYS
from openskills.skillmd.value import Value
from openskills.skillmd.yamltree import NOTHING

_TEXT = r"[^\n\r\t:#\x85\u2028\u2029]*"
# Atomic: what it took it keeps, trailing blanks included, so that nothing is tried twice.
_PLAIN = rf"(?>[^\W_]{_TEXT}(?:(?::(?=[^\s\x85\u2028\u2029])|(?<! )#){_TEXT})*)"
_DOUBLE = r'"([^"\\\n\r\t\x85\u2028\u2029]*)"'
_SINGLE = r"'([^'\n\r\t\x85\u2028\u2029]*)'"
_LINE = re.compile(rf"(  )?([A-Za-z][A-Za-z0-9_-]{{0,63}}):(?: +(?:({_PLAIN})|{_DOUBLE}|{_SINGLE}))? *\r?\n")


def read_simple(front: str) -> dict[str, Value] | None:
    """The fields, or None when this is not plainly one pair per line. Agrees with `read_tree` where it answers."""
    size = len(front)
    if not size or front.count("\n") > MAX_KEYS:
        return None
    fields: dict[str, Value] = {}
    nested: dict[str, Value] | None = None
    parent: str | None = None
    end = 0
    while end < size:
        match = _LINE.match(front, end)
        if match is None:
            return None
        end = match.end()
        indent, key, plain, double, single = match.groups()
        value: Value = _plain(plain) if plain else double if double is not None else single
        if indent is None:
            target, nested = fields, None
            parent = key if plain is None and value is None else None
        elif parent is None:
            return None
        else:
            if nested is None:
                fields[parent] = nested = {}
            target = nested
        if key in target:
            return None
        target[key] = value
    return fields


def _plain(text: str) -> str | None:
    text = text.rstrip(" ")
    return None if text in NOTHING else text
