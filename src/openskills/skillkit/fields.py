"""The parameters of a handler as a description of its input: names, types, defaults.

Only what costs nothing at the start: `inspect` and schema libraries take longer to load than most skills take to run.
"""

from collections.abc import Callable, Mapping, Sequence
from types import CodeType, NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from openskills.errors import InvalidArgument

_SAFE = 2**63
_WORDS: Mapping[Any, str] = {
    str: "text",
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    list: "a list",
    dict: "an object",
    NoneType: "null",
}


def arguments(handler: Callable[..., object], given: Mapping[str, Any]) -> tuple[list[Any], dict[str, Any]]:
    """What to call a handler with. A handler of one positional-only parameter gets the whole input as it is.

    Raises `InvalidArgument` that names the field: missing, unknown (with the nearest name), or of another type than
    the annotation of the parameter says. `**rest` takes unknown fields.
    """
    code: CodeType = handler.__code__
    if code.co_posonlyargcount == 1:
        return [dict(given)], {}
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    takes_rest = bool(code.co_flags & 0x08)
    for name in given:
        if name not in names and not takes_rest:
            raise InvalidArgument(name[:100], f"is not known; {_hint(name, names)}")
    hints = _hints(handler)
    optional = _optional(handler, code)
    for name in names:
        if name not in given and name not in optional:
            raise InvalidArgument(name, "is required")
    return [], {name: checked(name, value, hints.get(name, Any)) for name, value in given.items()}


def checked(field: str, value: Any, wanted: Any) -> Any:
    """The value, when it is of the wanted type; a whole number may be written with a point (`5.0`).

    Knows what JSON has: `str`, `int`, `float`, `bool`, `None`, `list[X]`, `dict[str, X]`, `Literal`, unions, `Any`.
    Other classes are checked as such. Raises `InvalidArgument`.
    """
    origin, choices = get_origin(wanted), get_args(wanted)
    if wanted is Any or wanted is object:
        return value
    if origin in (Union, UnionType):
        return _one_of(field, value, choices)
    if origin is Literal:
        if value in choices and any(value == choice and type(value) is type(choice) for choice in choices):
            return value
        raise InvalidArgument(field, f"has to be one of {', '.join(map(repr, choices))}, not {shown(value)}")
    kind = _plain_kind(origin or wanted)
    value = _as_kind(field, value, kind)
    if kind is list and choices:
        return [checked(f"{field}[{number}]", item, choices[0]) for number, item in enumerate(value)]
    if kind is dict and len(choices) == len(("key", "value")):
        return {name: checked(f"{field}.{name[:100]}", item, choices[1]) for name, item in value.items()}
    return value


def shown(value: Any) -> str:
    """A value from outside in a message: what it is, and as much of it as fits."""
    word = _WORDS.get(type(value), "a number")
    if isinstance(value, str | int | float) and not isinstance(value, bool):
        text = repr(value) if not isinstance(value, int) or value.bit_length() < 256 else "very many digits"
        return f"{word} ({text if len(text) <= 60 else text[:60] + '…'})"
    return word


def _plain_kind(wanted: Any) -> Any:
    if wanted is Mapping:
        return dict
    return list if wanted is Sequence else (NoneType if wanted is None else wanted)


def _as_kind(field: str, value: Any, kind: Any) -> Any:
    truth = isinstance(value, bool)
    if kind is int and type(value) not in (int, bool, str, list, dict, NoneType) and -_SAFE < value < _SAFE:
        # Beyond that, a few characters (1e999999) could become a number that fills the memory.
        value = int(value) if value == int(value) else value
    fits = isinstance(value, kind) or (kind is float and isinstance(value, int))
    if fits and truth == (kind is bool):
        return value
    raise InvalidArgument(field, f"has to be {_word(kind)}, not {shown(value)}")


def _one_of(field: str, value: Any, choices: Sequence[Any]) -> Any:
    problems: list[InvalidArgument] = []
    for choice in sorted(choices, key=lambda choice: type(value) is not _plain_kind(get_origin(choice) or choice)):
        try:
            return checked(field, value, choice)
        except InvalidArgument as problem:
            problems.append(problem)
    deepest = max(problems, key=lambda problem: len(problem.field))
    if deepest.field != field:
        raise deepest
    words = dict.fromkeys(_word(_plain_kind(get_origin(choice) or choice)) for choice in choices)
    if "a number" in words:
        words.pop("a whole number", None)
    raise InvalidArgument(field, f"has to be {' or '.join(words)}, not {shown(value)}")


def _word(kind: Any) -> str:
    return _WORDS.get(kind) or ("a number" if hasattr(kind, "as_tuple") else getattr(kind, "__name__", str(kind)))


def _hints(handler: Callable[..., object]) -> Mapping[str, Any]:
    plain: Mapping[str, Any] = handler.__annotations__
    return get_type_hints(handler) if any(isinstance(hint, str) for hint in plain.values()) else plain


def _optional(handler: Any, code: CodeType) -> frozenset[str]:
    positional = code.co_varnames[: code.co_argcount]
    defaults = handler.__defaults__ or ()
    return frozenset(positional[len(positional) - len(defaults) :]) | frozenset(handler.__kwdefaults__ or ())


def _hint(name: str, names: Sequence[str]) -> str:
    from difflib import get_close_matches

    near = get_close_matches(name[:100], names, n=1)
    return f"did you mean {near[0]!r}?" if near else f"known are {', '.join(map(repr, names))}"
