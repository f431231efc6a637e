"""What models get wrong where the meaning is clear: the same thing, as it was meant. Pure.

Numbers and truth values as text, one thing where a list is wanted, JSON in a text. Everything else raises
`InvalidArgument` with the field and what to write instead.
"""

import json
import math
import re
import shlex
from collections.abc import Mapping, Sequence
from typing import cast

from openskills.artifacts.ref import checked_name
from openskills.errors import InvalidArgument
from openskills.executors.files.globs import compiled
from openskills.executors.staging.inputs import InputSpec
from openskills.executors.staging.outputs import OutputSpec
from openskills.paths import MAX_PATH

_SECONDS = re.compile(r"\s*([+-]?\d+(?:\.\d*)?)\s*(?:s|secs?|seconds?)?\s*", re.ASCII | re.IGNORECASE)
_ENDLESS = 10**12
_LONGEST_SOURCE = MAX_PATH + 256
_TRUTH = {"true": True, "false": False}
_FLAGS = ("inline", "save", "pin")
_KINDS = {"str": "text", "bool": "true or false", "list": "a list", "dict": "an object", "NoneType": "null"}


def command(value: object) -> object:
    """A shell command; a list of words is the command of these words."""
    words = _items(value)
    if words is not None and all(isinstance(word, str) for word in words):
        value = shlex.join(cast("list[str]", words))
    if isinstance(value, str) and not value.strip():
        raise InvalidArgument("command", "is empty; write a shell command")
    return value


def environment(value: object) -> dict[str, str]:
    """Variables. Numbers and truth values become text, and one that is null is none."""
    found = _meant(value)
    if not isinstance(found, Mapping):
        raise InvalidArgument("env", f'is {_kind(found)}; write an object such as {{"NAME": "value"}}')
    given = cast("Mapping[object, object]", found)
    return {str(name): _variable(str(name), one) for name, one in given.items() if one is not None}


def patterns(value: object) -> tuple[str, ...]:
    """Patterns of `output_files`, checked."""
    found = _listed(value)
    if not all(isinstance(one, str) for one in found):
        raise InvalidArgument("output_files", "is no list of patterns; write some such as out/*.txt")
    checked = tuple(cast("list[str]", found))
    compiled(checked, run_dir="runs/run", field="output_files")
    return checked


def inputs(value: object) -> tuple[InputSpec, ...]:
    """Inputs; one that is only text is its source."""
    return tuple(_input(one) for one in _listed(value))


def outputs(value: object) -> OutputSpec | None:
    """Outputs; text or a list are the patterns. An object of nothing is what a model writes that wants none."""
    found = _meant(value)
    if isinstance(found, str) or _items(found):
        found = {"globs": found}
    if not found:
        return None
    if not isinstance(found, Mapping):
        raise InvalidArgument("outputs", f'is {_kind(found)}; write an object such as {{"globs": ["out/**"]}}')
    given = _mended(cast("Mapping[object, object]", found))
    return OutputSpec.parse(given) if any(given.values()) else None


def seconds(value: object) -> float | None:
    """A timeout; None, the default, for what is not above zero."""
    match = _SECONDS.fullmatch(value) if isinstance(value, str) else None
    number = float(match[1]) if match else value
    if isinstance(number, int) and not isinstance(number, bool):
        # Not every whole number is a float.
        number = float(max(0, min(number, _ENDLESS)))
    if not isinstance(number, float) or math.isnan(number):
        raise InvalidArgument("timeout", f"{str(value)[:80]!r} is no number of seconds; write one such as 60")
    return number if number > 0 else None


def directory(value: object) -> object:
    """Where to start: a path as long as one can be."""
    if isinstance(value, str) and len(value) > MAX_PATH:
        raise InvalidArgument("cwd", f"has {len(value):,} characters; {MAX_PATH:,} is the most")
    return value


def prefix(value: object) -> object:
    """A prefix of names that artifacts can have."""
    if isinstance(value, str):
        checked_name(f"{value}x", field="artifact_prefix")
    return value


def _input(value: object) -> InputSpec:
    found = _meant(value)
    if isinstance(found, str):
        found = {"from": found}
    if not isinstance(found, Mapping):
        raise InvalidArgument("inputs", f'has {_kind(found)} in it; write objects such as {{"from": "artifact://x"}}')
    given = _mended(cast("Mapping[object, object]", found))
    for name, one in given.items():
        if isinstance(one, str) and len(one) > _LONGEST_SOURCE:
            raise InvalidArgument("inputs", f"{name[:80]} has {len(one):,} characters; {_LONGEST_SOURCE:,} is the most")
    return InputSpec.parse(given)


def _variable(name: str, value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str | int | float):
        return str(value)
    raise InvalidArgument("env", f"{name[:80]} is {_kind(value)}; write text")


def _mended(given: Mapping[object, object]) -> dict[str, object]:
    return {str(key): _mended_value(str(key).lower().replace("_", ""), one) for key, one in given.items()}


def _mended_value(name: str, value: object) -> object:
    if name.startswith("max"):
        if isinstance(value, str) and value.strip().isdecimal():
            return int(value)
        if isinstance(value, float) and value.is_integer():
            return int(value)
    if name in _FLAGS and isinstance(value, str):
        return _TRUTH.get(value.strip().lower(), value)
    return _meant(value) if name == "globs" else value


def _meant(value: object) -> object:
    """What a text says that is itself a JSON object or list; everything else as it is."""
    if isinstance(value, str) and value.lstrip()[:1] in ("{", "["):
        try:
            return json.loads(value)
        except (ValueError, RecursionError):
            # `[a-z].txt` and `{a,b}` are patterns.
            return value
    return value


def _listed(value: object) -> list[object]:
    found = _meant(value)
    items = _items(found)
    return [found] if items is None else items


def _items(value: object) -> list[object] | None:
    """The items of a list; None for what is none."""
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        return list(cast("Sequence[object]", value))
    return None


def _kind(value: object) -> str:
    return _KINDS.get(type(value).__name__, "a number")
