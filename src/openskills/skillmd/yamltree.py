"""The YAML of front matter to plain values: every scalar stays the text that was written, nothing is executed.

Built from the parser's events with a stack of our own, so that depth costs no recursion and a fault stops the work
at once. Aliases, anchors and tags are refused: front matter has no use for them, and they are how YAML explodes.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

from openskills.skillmd.limits import MAX_DEPTH, MAX_KEYS
from openskills.skillmd.value import Value, ValuePath

if TYPE_CHECKING:
    from yaml import Event

Recorder: TypeAlias = Callable[[ValuePath, "Event", bool], None]
"""Told of every key (True) and value (False) with its path and its event."""

_NOTHING = frozenset({"", "~", "null", "Null", "NULL"})
_STRING_TAGS = frozenset({"!", "tag:yaml.org,2002:str"})


class YamlFault(Exception):
    """Why front matter cannot be read; `line` and `column` count from 0 within it."""

    def __init__(self, rule: str, message: str, line: int, column: int) -> None:
        super().__init__(message)
        self.rule = rule
        self.message = message
        self.line = line
        self.column = column


class Tree:
    """What `read_tree` found: the top mapping, and keys that stood twice with the place of the second one."""

    __slots__ = ("duplicates", "fields")

    def __init__(self) -> None:
        self.fields: dict[str, Value] = {}
        self.duplicates: list[tuple[str, int, int]] = []


def read_tree(text: str, record: Recorder | None = None) -> Tree:
    """Read one YAML mapping. Of a key that stands twice the last one counts. Raises `YamlFault` and nothing else."""
    import yaml

    loader_class: Any = getattr(yaml, "CBaseLoader", yaml.BaseLoader)
    try:
        loader = loader_class(text)
    except yaml.YAMLError as error:
        raise _syntax(error) from None
    try:
        return _Builder(loader, record).build()
    except yaml.YAMLError as error:
        raise _syntax(error) from None
    finally:
        loader.dispose()


class _Builder:
    """One pass over the events. Each open container has the step that leads to it and, in a map, the key in hand."""

    def __init__(self, loader: Any, record: Recorder | None) -> None:
        self._loader = loader
        self._record = record
        self._tree = Tree()
        self._containers: list[dict[str, Value] | list[Value]] = []
        self._steps: list[str | int] = []
        self._keys: list[str | None] = []
        self._count = 0

    def build(self) -> Tree:
        next_event = self._loader.get_event
        while True:
            event = next_event()
            kind = event.__class__.__name__
            if kind == "ScalarEvent":
                self._scalar(event)
            elif kind == "MappingStartEvent":
                self._open(event, {})
            elif kind == "SequenceStartEvent":
                self._open(event, [])
            elif kind in ("MappingEndEvent", "SequenceEndEvent"):
                self._close()
            elif kind == "AliasEvent":
                raise _fault(event, "yaml-alias", f"the alias *{event.anchor} is refused; write the value out")
            elif kind == "StreamEndEvent":
                return self._tree

    def _scalar(self, event: Any) -> None:
        if event.anchor is not None or event.tag is not None:
            self._refuse_decoration(event)
        text: str = event.value
        if not self._containers:
            if text or event.style:
                raise _fault(event, "frontmatter-mapping", "the front matter is text; write fields as `key: value`")
        elif self._keys[-1] is None and isinstance(self._containers[-1], dict):
            self._key(event, text, self._containers[-1])
        else:
            self._put(event, None if not event.style and text in _NOTHING else text)

    def _key(self, event: Any, text: str, mapping: dict[str, Value]) -> None:
        self._keys[-1] = text
        if text in mapping:
            self._tree.duplicates.append((text, event.start_mark.line, event.start_mark.column))
        if self._record is not None:
            self._record((*self._steps, text), event, True)

    def _put(self, event: Any, value: Value) -> str | int:
        """Store a value in the container on top and return the step that leads to it."""
        self._count += 1
        if self._count > MAX_KEYS:
            raise _fault(event, "yaml-keys", f"more than {MAX_KEYS:,} keys and items")
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
        if self._record is not None:
            self._record((*self._steps, step), event, False)
        return step

    def _open(self, event: Any, container: dict[str, Value] | list[Value]) -> None:
        if event.anchor is not None or event.tag is not None:
            self._refuse_decoration(event)
        if not self._containers:
            if isinstance(container, list):
                raise _fault(event, "frontmatter-mapping", "the front matter is a list; write fields as `key: value`")
            self._tree.fields = container
        else:
            if self._keys[-1] is None and isinstance(self._containers[-1], dict):
                raise _fault(event, "yaml-syntax", "a list or map cannot be a key")
            if len(self._containers) >= MAX_DEPTH:
                raise _fault(event, "yaml-depth", f"values are nested more than {MAX_DEPTH} levels deep")
            self._steps.append(self._put(event, container))
        self._containers.append(container)
        self._keys.append(None)

    def _close(self) -> None:
        self._containers.pop()
        self._keys.pop()
        if self._steps:
            self._steps.pop()

    def _refuse_decoration(self, event: Any) -> None:
        if event.anchor is not None:
            raise _fault(event, "yaml-alias", f"the anchor &{event.anchor} is refused; write values out")
        if event.tag not in _STRING_TAGS:
            raise _fault(event, "yaml-tag", f"the tag {event.tag} is refused; write plain values")


def _fault(event: Any, rule: str, message: str) -> YamlFault:
    return YamlFault(rule, message, event.start_mark.line, event.start_mark.column)


def _syntax(error: Any) -> YamlFault:
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    problem = getattr(error, "problem", None) or getattr(error, "reason", None) or str(error)
    return YamlFault("yaml-syntax", f"not YAML: {problem}", mark.line if mark else 0, mark.column if mark else 0)
