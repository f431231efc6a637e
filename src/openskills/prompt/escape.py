"""Text from somebody's skill, made harmless before a model reads it: one line, nothing invisible, no way out."""

import json
import re

# What a reader of the prompt cannot see but a model reads, or what reorders or breaks the text around it. Among them:
# zero-width and bidi controls, soft hyphen, fillers, variation selectors (emoji lose nothing that a model needs), tag
# characters and lone surrogates. White space is not among them: it becomes a space.
_UNSEEN = re.compile(
    "[\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f"
    "\u202a-\u202e\u2060-\u206f\u3164\ufdd0-\ufdef\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\ufffe\uffff"
    "\U00013430-\U0001345f\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff\ud800-\udfff]+"
)
_ODD_SPACE = re.compile("[\x0b\x0c\r\x1c-\x1f\x85\u2028\u2029]")
_NOT_PLAIN = re.compile(r"[,;:\"'`\[\](){}<>|\\]")


def one_line(text: str) -> str:
    """The text without control, bidi, zero-width, tag and other invisible characters; white space is single spaces."""
    if not (text.isascii() and text.isprintable()):
        text = _UNSEEN.sub("", text)
    return " ".join(text.split())


def visible(text: str) -> str:
    """The text without what nobody can see; its lines stay lines."""
    return _UNSEEN.sub("", _ODD_SPACE.sub(" ", text))


def xml_text(line: str) -> str:
    """As the content of an XML element. Quotes stay: they are harmless there and would cost tokens."""
    return line.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def plain_name(line: str) -> str:
    """A name as it stands in a bullet or a list of names: in quotes if it could be taken for anything but one name."""
    return line if line[:1].isalnum() and not _NOT_PLAIN.search(line) else json.dumps(line, ensure_ascii=False)


def json_text(value: object) -> str:
    """Compact JSON on one line that can also stand inside XML-like tags: `<` and `>` are written as escapes."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e")
