"""A text as YAML writes it, and what YAML makes of a word that is not quoted."""

import re

_SAFE = r"[^\x00-\x1f\x7f-\x9f:#\u2028\u2029\ud800-\udfff\ufeff\ufffe\uffff]"
_PLAIN = re.compile(rf"[^\W_](?:{_SAFE}|:(?! |$)|(?<! )#)*(?<! )")
_ESCAPED = re.compile('[\\\\"\x00-\x1f\x7f-\xa0\u2028\u2029\ud800-\udfff\ufeff\ufffe\uffff]')
_NAMED = {"\\": "\\\\", '"': '\\"', "\t": "\\t", "\n": "\\n", "\r": "\\r"}

# What the resolvers of YAML 1.1 and 1.2 turn into something that is not text.
_OTHER_TYPE = re.compile(
    r"(?P<nothing>~|null|Null|NULL|)"
    r"|(?P<true_or_false>(?i:true|false|yes|no|on|off))"
    r"|(?P<a_date>\d{4}-\d{1,2}-\d{1,2}(?:[Tt ][\d:. TtZz+-]*)?)"
    r"|(?P<a_number>[-+]?(?:0x[\da-fA-F_]+|0o[0-7_]+|0b[01_]+|\d[\d_]*(?::[0-5]?\d)*(?:\.[\d_]*)?"
    r"|(?:\d[\d_]*(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d+)?|\.(?i:inf)|\.(?i:nan)))",
    re.ASCII,
)
_FIRST = frozenset(("", *"~+-.0123456789nNtTfFyYoO"))


def reads_as(plain: str) -> str | None:
    """What a YAML reader takes this unquoted scalar for when not for text: "a number", "a date", ...; None for text."""
    if plain[:1] not in _FIRST:
        return None
    match = _OTHER_TYPE.fullmatch(plain)
    return match.lastgroup.replace("_", " ") if match and match.lastgroup else None


def quoted(text: str) -> str:
    """`text` in double quotes, on one line; every YAML parser reads it back to the same text."""
    return '"' + _ESCAPED.sub(_escape, text) + '"'


def as_yaml(text: str) -> str:
    """`text` as a value on one line: bare where nothing could misread it, in quotes otherwise."""
    return text if _PLAIN.fullmatch(text) and reads_as(text) is None else quoted(text)


def _escape(match: re.Match[str]) -> str:
    character = match.group()
    return _NAMED.get(character) or f"\\u{ord(character):04x}"
