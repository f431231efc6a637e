"""One field of a manifest after the other, each with its type; what is wrong becomes a problem that names the field.

Pure. A field that is absent or null has its default, and so has a wrong one: the rest is still looked at.
"""

import re
from collections.abc import Collection, Mapping
from difflib import get_close_matches
from typing import TypeVar

from openskills.errors import InvalidArgument
from openskills.host.registry.document import Document, Node, Scalar, plain
from openskills.settings import amount
from openskills.skillmd.problem import Problem, Severity
from openskills.skillmd.value import ValuePath

VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,254}")
"""The name of an environment variable."""

_LONGEST_LIST = 256
_T = TypeVar("_T")
_SHOWN = 60


class Fields:
    """Reads the fields of one document and collects what is wrong with them."""

    def __init__(self, document: Document, *path: str) -> None:
        self._document = document
        self._path = path
        self.problems: list[Problem] = []
        self._fields = document.fields
        for step in path:
            below = self._fields.get(step)
            self._fields = below if isinstance(below, dict) else {}

    def text(self, name: str, default: str = "", *, longest: int = 4096) -> str:
        """One text; what was written unquoted in YAML counts as it was written."""
        node = self._given(name)
        if node is None:
            return default
        if not isinstance(node, Scalar) or node.text is None:
            return self._wrong(name, f"is {_kind(node)}; write text", default)
        if "\0" in node.text or len(node.text) > longest:
            return self._wrong(name, f"is longer than {longest:,} characters or has a NUL in it", default)
        return node.text

    def word(self, name: str, words: Collection[str], default: str) -> str:
        """One of some words."""
        text = self.text(name, default)
        if text in words:
            return text
        return self._wrong(name, f"{shown(text)} is not one of {', '.join(words)}{_meant(text, words)}", default)

    def matching(self, name: str, pattern: str, what: str, default: str = "") -> str:
        """A text of a certain form; `what` tells people the form."""
        text = self.text(name, default)
        if text == default or re.fullmatch(pattern, text, re.ASCII):
            return text
        return self._wrong(name, f"{shown(text)} is no {what}", default)

    def whole(self, name: str, default: int, least: int, most: int) -> int:
        """A whole number."""
        node = self._given(name)
        if node is None:
            return default
        value = node.value if isinstance(node, Scalar) else None
        if isinstance(value, int) and not isinstance(value, bool) and least <= value <= most:
            return value
        return self._wrong(name, f"{described(node)} is no whole number from {least:,} to {most:,}", default)

    def flag(self, name: str, default: bool) -> bool:
        """True or false."""
        node = self._given(name)
        if node is None:
            return default
        value = node.value if isinstance(node, Scalar) else None
        if isinstance(value, bool):
            return value
        return self._wrong(name, f"{described(node)} is neither true nor false", default)

    def limit(self, name: str, default: int | None, *, most: int) -> int | None:
        """A number or an amount such as 512M; null is no limit."""
        node = self._fields.get(name)
        if node is None:
            return default
        if isinstance(node, Scalar) and node.value is None:
            return None
        value = node.value if isinstance(node, Scalar) else None
        try:
            number = amount(value, name) if isinstance(value, str) else value
        except InvalidArgument:
            number = None
        if isinstance(number, int) and not isinstance(number, bool) and 0 < number <= most:
            return number
        message = (
            f"{described(node)} is no number from 1 to {most:,}; amounts may be written as 512M, and null is no limit"
        )
        return self._wrong(name, message, default)

    def names(self, name: str, pattern: re.Pattern[str], what: str, *, secret: bool = False) -> tuple[str, ...]:
        """A list of names. Of `secret` ones nothing that is wrong is repeated: it may be the secret itself."""
        node = self._given(name)
        if node is None:
            return ()
        if not isinstance(node, list):
            return self._wrong(name, f"is {_kind(node)}; write a list of names", ())
        if len(node) > _LONGEST_LIST:
            return self._wrong(name, f"has {len(node):,} items, more than {_LONGEST_LIST}", ())
        found: list[str] = []
        for number, item in enumerate(node):
            text = item.text if isinstance(item, Scalar) else None
            if text is not None and pattern.fullmatch(text):
                found.append(text)
            else:
                said = f"item {number + 1}" if secret else described(item)
                self.wrong(name, f"{said} is no {what}", at=(name, number))
        return tuple(dict.fromkeys(found))

    def texts(self, name: str) -> dict[str, str]:
        """A map from variable names to texts."""
        found: dict[str, str] = {}
        for key, item in self.mapping(name).items():
            if not VARIABLE.fullmatch(key):
                self.wrong(name, f"{shown(key)} is no name of a variable", at=(name, key))
            elif not isinstance(item, Scalar) or (item.text is None and item.value is None):
                self.wrong(name, f"{key} is {_kind(item)}; write text", at=(name, key))
            else:
                found[key] = item.text if item.text is not None else str(plain(item)).lower()
                if "\0" in found[key]:
                    self.wrong(name, f"{key} has a NUL in it", at=(name, key))
        return found

    def mapping(self, name: str) -> Mapping[str, Node]:
        """A map."""
        node = self._given(name)
        if node is None:
            return {}
        if isinstance(node, dict):
            return node
        return self._wrong(name, f"is {_kind(node)}; write a map", {})

    def is_list(self, name: str) -> bool:
        """Whether a list was written."""
        return isinstance(self._fields.get(name), list)

    def is_null(self, name: str) -> bool:
        """Whether somebody has written that there is none."""
        node = self._fields.get(name)
        return isinstance(node, Scalar) and node.value is None

    def has(self, name: str) -> bool:
        """Whether something was written."""
        return self._given(name) is not None

    def wrong(self, name: str, message: str, *, rule: str = "field-value", at: ValuePath | None = None) -> None:
        """Note an error of a field."""
        self._note(name, message, rule, at, Severity.ERROR)

    def warn(self, name: str, message: str, *, rule: str, at: ValuePath | None = None) -> None:
        """Note something that does not keep the manifest from being used."""
        self._note(name, message, rule, at, Severity.WARNING)

    def unknown(self, known: Collection[str]) -> None:
        """Warn about every field that nobody reads."""
        for name in self._fields:
            if name not in known:
                self.warn(name, f"is no field of a manifest and is ignored{_meant(name, known)}", rule="field-unknown")

    def _given(self, name: str) -> "Node | None":
        node = self._fields.get(name)
        return None if isinstance(node, Scalar) and node.value is None else node

    def _wrong(self, name: str, message: str, default: _T) -> _T:
        self.wrong(name, message)
        return default

    def _note(self, name: str, message: str, rule: str, at: ValuePath | None, severity: Severity) -> None:
        line, column = self._document.places.get((*self._path, *(at or (name,))), (None, None))
        field = ".".join((*self._path, name if len(name) <= _SHOWN else f"{name[:_SHOWN]}…"))
        self.problems.append(Problem(rule, f"{field}: {message}", severity, line, column))


def described(node: Node) -> str:
    """A value for a message: itself where that is short, its kind otherwise."""
    if isinstance(node, Scalar) and node.value is not None:
        return shown(node.value) if isinstance(node.value, str) else str(node.text or plain(node))[:_SHOWN]
    return _kind(node)


def shown(text: str) -> str:
    """Somebody's text in a message."""
    return repr(text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…")


def _kind(node: Node) -> str:
    if isinstance(node, Scalar):
        words = {"str": "text", "bool": "true or false", "int": "a number", "float": "a number"}
        return words.get(type(node.value).__name__, "empty")
    return "a list" if isinstance(node, list) else "a map"


def _meant(text: str, words: Collection[str]) -> str:
    near = get_close_matches(text[:_SHOWN], words, n=1, cutoff=0.6)
    return f"; did you mean {near[0]}?" if near else ""
