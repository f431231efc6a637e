"""Parse the YAML of front matter; every scalar stays the text that was written.

`read_yaml` uses the parser's events with its own stack, so that nesting needs no recursion. Aliases, anchors and tags
are refused, because they can make a small file explode. `read_simple_yaml` is a fast path for the common case of one
`key: value` per line and one level of indented pairs: one regular expression, several times faster and without
importing the parser. A property test checks that both agree.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

MAX_FILE_BYTES = 1024 * 1024
"""A whole SKILL.md. The largest of 134 real ones has 73 KB."""

MAX_FRONTMATTER_CHARACTERS = 256 * 1024
"""The front matter. The largest real one has 2 KB."""

MAX_DEPTH = 32
"""How deep lists and maps may be nested."""

MAX_KEYS = 10_000
"""How many keys and list items front matter may have."""

Value: TypeAlias = "str | Sequence[Value] | Mapping[str, Value] | None"
"""Every scalar is the text as written: `no`, `1.0` and `2026-01-01` are not converted."""

ValuePath: TypeAlias = tuple[str | int, ...]
"""The path of a value: `("metadata", "version")`, `("allowed-tools", 0)`."""


@dataclass(frozen=True, slots=True)
class SourcePosition:
    """The position of a key or value in the file: line and column from 1, and character offsets.

    `style` is that of a scalar: `'` or `"` quoted, `|` or `>` block, `!` tagged as text; empty otherwise.
    """

    line: int
    column: int
    start: int
    end: int
    style: str = ""


NULL_WORDS = frozenset({"", "~", "null", "Null", "NULL"})
"""The unquoted words for a missing value."""

_STRING = "tag:yaml.org,2002:str"


Span: TypeAlias = tuple[int, int, str]
"""Offsets of the start and the end, and the style as in `SourcePosition`."""


@dataclass(frozen=True, slots=True)
class YamlSpans:
    """The spans of keys and values by path. Of a repeated key, the last counts."""

    keys: dict[ValuePath, Span] = field(default_factory=dict[ValuePath, Span])
    values: dict[ValuePath, Span] = field(default_factory=dict[ValuePath, Span])


class FrontMatterError(Exception):
    """Why front matter cannot be read; `offset` says where in it."""

    def __init__(self, rule: str, message: str, offset: int) -> None:
        super().__init__(message)
        self.rule = rule
        self.message = message
        self.offset = offset


@dataclass(slots=True)
class YamlDocument:
    """The result of `read_yaml`: the top mapping, and repeated keys with the offset of the second one."""

    fields: dict[str, Value] = field(default_factory=dict[str, Value])
    duplicates: list[tuple[str, int]] = field(default_factory=list[tuple[str, int]])


def read_yaml(text: str, spans: YamlSpans | None = None) -> YamlDocument:
    """Parse one YAML mapping; `spans` gets its positions. Of a repeated key the last counts.

    Raises only `FrontMatterError`.
    """
    import yaml

    loader_class: Any = getattr(yaml, "CBaseLoader", yaml.BaseLoader)
    try:
        loader = loader_class(text)
    except yaml.YAMLError as error:
        raise _syntax_error(error) from None
    try:
        return _YamlBuilder(loader, spans).build()
    except yaml.YAMLError as error:
        raise _syntax_error(error) from None
    finally:
        loader.dispose()


class _YamlBuilder:
    """One pass over the events. Each open container has its step in the path and, in a map, the current key."""

    def __init__(self, loader: Any, spans: YamlSpans | None) -> None:
        self._loader = loader
        self._spans = spans
        self._tree = YamlDocument()
        self._containers: list[dict[str, Value] | list[Value]] = []
        self._steps: list[str | int] = []
        self._keys: list[str | None] = []
        self._count = 0
        self._documents = 0
        self._end = 0

    def build(self) -> YamlDocument:
        import yaml

        next_event = self._loader.get_event
        handlers: dict[Any, Callable[[Any], None]] = {
            yaml.ScalarEvent: self._scalar,
            yaml.MappingStartEvent: lambda event: self._open(event, {}),
            yaml.SequenceStartEvent: lambda event: self._open(event, []),
            yaml.MappingEndEvent: self._close,
            yaml.SequenceEndEvent: self._close,
            yaml.AliasEvent: self._alias,
            yaml.DocumentStartEvent: self._document,
        }
        ended = yaml.StreamEndEvent
        while True:
            event = next_event()
            handler = handlers.get(event.__class__)
            if handler is not None:
                handler(event)
            elif event.__class__ is ended:
                return self._tree

    def _document(self, event: Any) -> None:
        self._documents += 1
        if self._documents > 1:
            raise _error_at(event, "yaml-syntax", "not YAML: a second document begins inside the front matter")

    def _alias(self, event: Any) -> None:
        # `*all files` is text, not an alias: then the next event raises a syntax error.
        self._loader.get_event()
        raise _error_at(event, "yaml-alias", f"the alias *{event.anchor} is refused; write the value out")

    def _scalar(self, event: Any) -> None:
        if event.anchor is not None or event.tag is not None:
            self._refuse_decoration(event)
        text: str = event.value
        if not self._containers:
            if text or event.style:
                raise _error_at(event, "frontmatter-mapping", "the front matter is text; write fields as `key: value`")
        elif self._keys[-1] is None and isinstance(self._containers[-1], dict):
            self._key(event, text, self._containers[-1])
        else:
            self._put(event, None if not event.style and text in NULL_WORDS and event.tag is None else text)

    def _key(self, event: Any, text: str, mapping: dict[str, Value]) -> None:
        self._keys[-1] = text
        if text in mapping:
            self._tree.duplicates.append((text, event.start_mark.index))
        if self._spans is not None:
            self._end = event.end_mark.index
            self._spans.keys[(*self._steps, text)] = (event.start_mark.index, self._end, event.style or "")

    def _put(self, event: Any, value: Value) -> str | int:
        """Store a value in the container on top and return the step that leads to it."""
        self._count += 1
        if self._count > MAX_KEYS:
            raise _error_at(event, "yaml-keys", f"more than {MAX_KEYS:,} keys and items")
        top = self._containers[-1]
        key = self._keys[-1]
        step: str | int
        if isinstance(top, list):
            step = len(top)
            top.append(value)
        else:
            step = "" if key is None else key
            top[step] = value
            self._keys[-1] = None
        if self._spans is not None:
            self._end = event.end_mark.index
            # A scalar with a string tag counts as quoted.
            style = getattr(event, "style", None) or ("!" if event.tag else "")
            self._spans.values[(*self._steps, step)] = (event.start_mark.index, self._end, style)
        return step

    def _open(self, event: Any, container: dict[str, Value] | list[Value]) -> None:
        if event.anchor is not None or event.tag is not None:
            self._refuse_decoration(event)
        if not self._containers:
            if isinstance(container, list):
                message = "the front matter is a list; write fields as `key: value`"
                raise _error_at(event, "frontmatter-mapping", message)
            self._tree.fields = container
        else:
            if self._keys[-1] is None and isinstance(self._containers[-1], dict):
                raise _error_at(event, "yaml-syntax", "not YAML: a list or map cannot be a key")
            if len(self._containers) >= MAX_DEPTH:
                raise _error_at(event, "yaml-depth", f"values are nested more than {MAX_DEPTH} levels deep")
            self._steps.append(self._put(event, container))
        self._containers.append(container)
        self._keys.append(None)

    def _close(self, event: Any) -> None:
        self._containers.pop()
        self._keys.pop()
        if self._spans is not None:
            # The end event of a block has no width and is at the next token; that of a bracket has a width.
            if event.end_mark.index > event.start_mark.index:
                self._end = event.end_mark.index
            if self._steps:
                start, _, style = self._spans.values[tuple(self._steps)]
                self._spans.values[tuple(self._steps)] = (start, self._end, style)
        if self._steps:
            self._steps.pop()

    def _refuse_decoration(self, event: Any) -> None:
        if event.anchor is not None:
            raise _error_at(event, "yaml-alias", f"the anchor &{event.anchor} is refused; write values out")
        if event.tag == _STRING:
            return
        # `!important` before a word is probably text, not a tag.
        rule = "yaml-syntax" if event.tag.startswith("!") and hasattr(event, "value") else "yaml-tag"
        raise _error_at(event, rule, f"the tag {event.tag} is refused; write plain values")


def _error_at(event: Any, rule: str, message: str) -> FrontMatterError:
    return FrontMatterError(rule, message, event.start_mark.index)


def _syntax_error(error: Any) -> FrontMatterError:
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    problem = getattr(error, "problem", None) or getattr(error, "reason", None) or str(error)
    return FrontMatterError("yaml-syntax", f"not YAML: {problem}", mark.index if mark else 0)


_TEXT = r"[^\n\r\t:#\x85\u2028\u2029]*"
# An atomic group prevents backtracking.
_PLAIN = rf"(?>[^\W_]{_TEXT}(?:(?::(?=[^\s\x85\u2028\u2029])|(?<! )#){_TEXT})*)"
_DOUBLE = r'"([^"\\\n\r\t\x85\u2028\u2029]*)"'
_SINGLE = r"'([^'\n\r\t\x85\u2028\u2029]*)'"
_LINE = re.compile(rf"(  )?([A-Za-z][A-Za-z0-9_-]{{0,63}}):(?: +(?:({_PLAIN})|{_DOUBLE}|{_SINGLE}))? *\r?\n")


def read_simple_yaml(front: str) -> dict[str, Value] | None:
    """The fields, or None unless every line is one simple pair. Agrees with `read_yaml`."""
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
    return None if text in NULL_WORDS else text
