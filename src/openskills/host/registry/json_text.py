"""A manifest in JSON, read strictly: no key twice, no NaN, no half characters, bounded depth. Pure."""

import json
import re
from collections.abc import Mapping
from contextlib import suppress
from typing import NoReturn, cast

from openskills.host.registry.document import Document, Node, Places, Scalar, twice
from openskills.skillmd.limits import MAX_DEPTH, MAX_KEYS
from openskills.skillmd.problem import Problem
from openskills.skillmd.yamltree import YamlFault, read_tree

_HALF_A_CHARACTER = re.compile("[\ud800-\udfff]")


class _Twice(Exception):
    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name


def read_json(text: str) -> Document:
    """The document of a text in JSON; faults are in it."""
    try:
        found: object = json.loads(text, object_pairs_hook=_object, parse_constant=_no_number, parse_float=_finite)
    except _Twice as same:
        return Document(problems=(twice(same.name),))
    except json.JSONDecodeError as error:
        return Document(
            problems=(Problem("json-syntax", f"not JSON: {error.msg}", line=error.lineno, column=error.colno),)
        )
    except ValueError as error:
        return Document(problems=(Problem("json-number", f"not JSON: {str(error)[:100]}"),))
    except RecursionError:
        return Document(problems=(_too_deep(),))
    problem = _unfit(found)
    if problem is not None:
        return Document(problems=(problem,))
    seen = Places()
    # Nearly all JSON is YAML too, and that reader knows where things stand. Where it is not, there are no lines.
    with suppress(YamlFault):
        read_tree(text, seen)
    fields = cast("Mapping[str, object]", found)
    return Document({name: _wrapped(value) for name, value in fields.items()}, (), seen.lines(text))


def _unfit(found: object) -> Problem | None:
    if not isinstance(found, dict):
        return Problem("manifest-mapping", 'the manifest is no object; write fields as {"id": ...}', line=1, column=1)
    level: list[object] = [cast("object", found)]
    count = 0
    for _ in range(MAX_DEPTH):
        level = [item for value in level for item in _children(value)]
        count += len(level)
        if not level:
            return None
        if count > MAX_KEYS:
            return Problem("json-keys", f"more than {MAX_KEYS:,} keys and items")
        if any(isinstance(item, str) and _HALF_A_CHARACTER.search(item) for item in level):
            return Problem("text-surrogate", "a text holds half a character (a lone surrogate); write whole characters")
    return _too_deep() if any(isinstance(item, dict | list) for item in level) else None


def _children(value: object) -> list[object]:
    if isinstance(value, dict):
        fields = cast("dict[str, object]", value)
        return [*fields.keys(), *fields.values()]
    return cast("list[object]", value) if isinstance(value, list) else []


def _wrapped(value: object) -> Node:
    if isinstance(value, dict):
        return {name: _wrapped(item) for name, item in cast("dict[str, object]", value).items()}
    if isinstance(value, list):
        return [_wrapped(item) for item in cast("list[object]", value)]
    return Scalar(value if isinstance(value, str) else None, cast("str | int | float | bool | None", value))


def _object(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found: dict[str, object] = {}
    for name, value in pairs:
        if name in found:
            raise _Twice(name)
        found[name] = value
    return found


def _no_number(word: str) -> NoReturn:
    raise ValueError(f"{word} is no number of JSON")


def _finite(text: str) -> float:
    number = float(text)
    return _no_number(text[:40]) if number in (float("inf"), float("-inf")) else number


def _too_deep() -> Problem:
    return Problem("json-depth", f"values are nested more than {MAX_DEPTH} levels deep")
