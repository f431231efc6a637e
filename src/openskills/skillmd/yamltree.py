"""The YAML of front matter to plain values: every scalar stays the text that was written, nothing is executed.

Built from the parser's events with a stack of our own, so that depth costs no recursion and a fault stops the work
at once. Aliases, anchors and tags are refused: front matter has no use for them, and they are how YAML explodes.
"""

from typing import Any, Protocol

from openskills.skillmd.limits import MAX_DEPTH, MAX_KEYS
from openskills.skillmd.value import Value, ValuePath

NOTHING = frozenset({"", "~", "null", "Null", "NULL"})
"""The unquoted words that stand for no value."""

_STRING = "tag:yaml.org,2002:str"


class Recorder(Protocol):
    """Told where things stand, by the offsets of their source text."""

    def key(self, path: ValuePath, start: int, end: int, style: str) -> None:
        """A key."""
        ...

    def value(self, path: ValuePath, start: int, end: int, style: str) -> None:
        """A scalar, or the beginning of a list or map."""
        ...

    def close(self, path: ValuePath, end: int) -> None:
        """The end of a list or map: that of its last value, or of its bracket."""
        ...


class YamlFault(Exception):
    """Why front matter cannot be read; `offset` says where in it."""

    def __init__(self, rule: str, message: str, offset: int) -> None:
        super().__init__(message)
        self.rule = rule
        self.message = message
        self.offset = offset


class Tree:
    """What `read_tree` found: the top mapping, and keys that stood twice with the offset of the second one."""

    __slots__ = ("duplicates", "fields")

    def __init__(self) -> None:
        self.fields: dict[str, Value] = {}
        self.duplicates: list[tuple[str, int]] = []


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
        self._documents = 0
        self._end = 0

    def build(self) -> Tree:
        import yaml

        next_event = self._loader.get_event
        handlers = {
            yaml.ScalarEvent: self._scalar,
            yaml.MappingStartEvent: self._open_map,
            yaml.SequenceStartEvent: self._open_list,
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
            raise _fault(event, "yaml-syntax", "not YAML: a second document begins inside the front matter")

    def _alias(self, event: Any) -> None:
        # `*all files` is no alias but text that broke the parser: the next event says so, as a syntax error.
        self._loader.get_event()
        raise _fault(event, "yaml-alias", f"the alias *{event.anchor} is refused; write the value out")

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
            self._put(event, None if not event.style and text in NOTHING and event.tag is None else text)

    def _key(self, event: Any, text: str, mapping: dict[str, Value]) -> None:
        self._keys[-1] = text
        if text in mapping:
            self._tree.duplicates.append((text, event.start_mark.index))
        if self._record is not None:
            self._end = event.end_mark.index
            self._record.key((*self._steps, text), event.start_mark.index, self._end, event.style or "")

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
            self._end = event.end_mark.index
            # A scalar with the tag of text is as good as quoted.
            style = getattr(event, "style", None) or ("!" if event.tag else "")
            self._record.value((*self._steps, step), event.start_mark.index, self._end, style)
        return step

    def _open_map(self, event: Any) -> None:
        self._open(event, {})

    def _open_list(self, event: Any) -> None:
        self._open(event, [])

    def _open(self, event: Any, container: dict[str, Value] | list[Value]) -> None:
        if event.anchor is not None or event.tag is not None:
            self._refuse_decoration(event)
        if not self._containers:
            if isinstance(container, list):
                raise _fault(event, "frontmatter-mapping", "the front matter is a list; write fields as `key: value`")
            self._tree.fields = container
        else:
            if self._keys[-1] is None and isinstance(self._containers[-1], dict):
                raise _fault(event, "yaml-syntax", "not YAML: a list or map cannot be a key")
            if len(self._containers) >= MAX_DEPTH:
                raise _fault(event, "yaml-depth", f"values are nested more than {MAX_DEPTH} levels deep")
            self._steps.append(self._put(event, container))
        self._containers.append(container)
        self._keys.append(None)

    def _close(self, event: Any) -> None:
        self._containers.pop()
        self._keys.pop()
        if self._record is not None:
            # A block ends where the next token begins, which is no part of it; a bracket has a width.
            if event.end_mark.index > event.start_mark.index:
                self._end = event.end_mark.index
            self._record.close(tuple(self._steps), self._end)
        if self._steps:
            self._steps.pop()

    def _refuse_decoration(self, event: Any) -> None:
        if event.anchor is not None:
            raise _fault(event, "yaml-alias", f"the anchor &{event.anchor} is refused; write values out")
        if event.tag == _STRING:
            return
        # `!important` before a word is how people write, and only by chance a tag.
        rule = "yaml-syntax" if event.tag.startswith("!") and hasattr(event, "value") else "yaml-tag"
        raise _fault(event, rule, f"the tag {event.tag} is refused; write plain values")


def _fault(event: Any, rule: str, message: str) -> YamlFault:
    return YamlFault(rule, message, event.start_mark.index)


def _syntax(error: Any) -> YamlFault:
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    problem = getattr(error, "problem", None) or getattr(error, "reason", None) or str(error)
    return YamlFault("yaml-syntax", f"not YAML: {problem}", mark.index if mark else 0)
